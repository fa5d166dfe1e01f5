"""The module table of ARCHITECTURE.md is the import contract."""

import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter

import pytest

from tests.source_tree import ROOT, SOURCE_ROOTS, Module, imports, is_package, modules, table_rows

EDGES = ("speccompact_cli", "speccompact_grpc")
"""Packages outside the library: they may use the package root, which is its front door."""

GENERATED = "speccompact_grpc.v1"
"""Messages and stubs of the service: they lie below everything, and only its two ends use them."""

DOORS = (*SOURCE_ROOTS, "speccompact.client")
"""Packages whose own names load on use, for those outside of the library."""

ONLY_IN = {
    "click": ("speccompact_cli",),
    "grpc": ("speccompact_grpc", "speccompact.client"),
    "ray": ("speccompact.archive",),
}
"""Third-party packages, and where alone they may be imported."""

HEAVY = ("torch", "numpy", "numba", "tokenizers", "grpc", "ray", "click")


@cache
def layers() -> dict[str, int]:
    return {name: int(layer) for layer, name, *_ in table_rows("Modules")}


def code_modules() -> list[Module]:
    return [module for module in modules().values() if not is_package(module)]


def breach(module: Module, target: str) -> str | None:
    """Return why a module may not import a target of this project, or None if it may."""
    if target in DOORS:
        return None if module.name.startswith(EDGES) else "inner code imports the package root"
    if target.startswith(GENERATED):
        return None if module.name.startswith((*EDGES, "speccompact.client")) else "inner code imports messages"
    if target not in layers():
        return "the target is not in the module table"
    own, other = layers()[module.name], layers()[target]
    if other < own or (other == own and module.package == target.rpartition(".")[0]):
        return None
    return f"layer {own} imports layer {other}"


def test_the_table_lists_every_module_and_nothing_else() -> None:
    assert sorted(layers()) == sorted(module.name for module in code_modules())


def test_the_table_is_in_order() -> None:
    rows = [(int(layer), name) for layer, name, *_ in table_rows("Modules")]
    assert rows == sorted(rows)


@pytest.mark.parametrize("module", code_modules(), ids=lambda module: module.name)
def test_a_module_imports_only_what_lies_below_it(module: Module) -> None:
    found = [
        f"{module.path.name}:{line}: {target}: {why}"
        for target, line in imports(module)
        if target.partition(".")[0] in SOURCE_ROOTS and (why := breach(module, target))
    ]
    assert found == []


def test_the_rule_rejects_what_it_should() -> None:
    errors, api, store = (modules()[f"speccompact.{name}"] for name in ("errors", "params", "options"))
    assert breach(errors, "speccompact_cli.main") is not None
    assert breach(api, "speccompact") is not None
    assert breach(store, "speccompact.nowhere") is not None
    assert breach(store, "speccompact_grpc.v1") is not None
    assert breach(modules()["speccompact_cli.main"], "speccompact") is None


@pytest.mark.parametrize("module", code_modules(), ids=lambda module: module.name)
def test_third_party_packages_stay_where_they_belong(module: Module) -> None:
    for target, line in imports(module):
        home = ONLY_IN.get(target.partition(".")[0])
        assert home is None or module.name.startswith(home), f"{module.path}:{line} imports {target}"


def test_no_module_imports_itself_through_others() -> None:
    graph = {module.name: {target for target, _ in imports(module)} & set(layers()) for module in code_modules()}
    TopologicalSorter(graph).prepare()


def test_packages_hold_no_code() -> None:
    for module in modules().values():
        if is_package(module) and module.name not in ("speccompact", "speccompact.archive", "speccompact.client"):
            assert len(module.tree.body) == 1, f"{module.path} holds more than its docstring"


def test_importing_the_library_is_light() -> None:
    script = f"import sys, speccompact; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_file_names_are_unique() -> None:
    names = [module.path.name for module in code_modules() if module.path.name != "__main__.py"]
    assert sorted(names) == sorted(set(names))
