"""The product's modules as source text, for tests that read the tree instead of running it."""

import ast
import importlib.util
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
SOURCE_ROOTS = {"speccompact": ROOT, "speccompact_cli": ROOT / "cli", "speccompact_grpc": ROOT / "proto"}


@dataclass(frozen=True)
class Module:
    """One module: its dotted name, its file and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name.rpartition(".")[0]


@cache
def modules() -> dict[str, Module]:
    """Return every module of the product by name; a package's __init__ has the package's name."""
    found = {}
    for package, root in SOURCE_ROOTS.items():
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not name.endswith(("_pb2", "_pb2_grpc")):
                found[name] = Module(name, path, ast.parse(path.read_text("utf-8"), str(path)))
    return found


def is_package(module: Module) -> bool:
    return module.path.name == "__init__.py"


def imports(module: Module) -> list[tuple[str, int]]:
    """Return (dotted name, line) of everything a module imports anywhere, function bodies included.

    ``from package import name`` counts as the module package.name where that is one, else as package.
    """
    result = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            result += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                result.append((full if full in modules() else base, node.lineno))
    return result


def table_rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of ARCHITECTURE.md, backquotes removed, without its two head lines.

    Args:
        heading: the text of the heading line, without its number signs.
    """
    text = ARCHITECTURE.read_text("utf-8")
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"ARCHITECTURE.md has no section {heading!r}"
    lines = [line for line in match.group(1).splitlines() if line.startswith("|")]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines[2:]]


def load_script(name: str) -> ModuleType:
    """Return a script of docs/ as a module; its dataclasses need it among the loaded ones."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
