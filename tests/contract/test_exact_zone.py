"""No floating point between embedding and coded bits, but for the float carriers that ARCHITECTURE.md lists."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.source_tree import Module, modules, table_rows

ZONE = ("speccompact.exact.", "speccompact.entropy.", "speccompact.memory.", "speccompact.prospect")

FLOAT_TYPES = {
    "bfloat16", "complex128", "complex64", "double", "float", "float16", "float32", "float64", "half", "single",
}  # fmt: skip
AMBIGUOUS_NAMES = {"double", "half", "single"}
"""Float types as attributes (torch.half, x.half()), ordinary words as names of variables."""

FLOAT_CODES = {"f", "d", "e", "f2", "f4", "f8"}
"""What NumPy's type codes for floats look like without their byte order."""

INEXACT_FUNCTIONS = {
    "cos", "divide", "exp", "exp2", "log", "log10", "log2", "mean", "pow", "power", "rsqrt", "sigmoid", "silu", "sin",
    "softmax", "sqrt", "std", "tanh", "true_divide", "var",
}  # fmt: skip
NUMERIC_NAMESPACES = {"math", "np", "numpy", "torch", "F"}


def zone_modules() -> list[Module]:
    return [module for module in modules().values() if module.name.startswith(ZONE)]


@cache
def carriers() -> set[tuple[str, str]]:
    """The functions (or module-level names) that may use floats: (module, name)."""
    return {(module, name) for module, name, *_ in table_rows("Float carriers")}


def offence(node: ast.AST) -> str | None:
    """Return what is inexact about one node of a syntax tree, or None."""
    match node:
        case ast.Constant(value=float() | complex()):
            return "float literal"
        case ast.Constant(value=str() as text) if text in FLOAT_TYPES or text.lstrip("<>=") in FLOAT_CODES:
            return f"float type {text!r}"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "true division"
        case ast.Attribute(attr=name) if name in FLOAT_TYPES:
            return f"float type {name}"
        case ast.Name(id=name) if name in FLOAT_TYPES - AMBIGUOUS_NAMES:
            return f"float type {name}"
        case ast.Attribute(value=ast.Name(id=space), attr=name) if space in NUMERIC_NAMESPACES:
            return f"{space}.{name}" if name in INEXACT_FUNCTIONS else None
    return None


def owners(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield (name, statement) for everything at module level; methods are named Class.method."""
    for statement in tree.body:
        match statement:
            case ast.ClassDef(name=name, body=body):
                for inner in body:
                    yield (f"{name}.{inner.name}" if isinstance(inner, ast.FunctionDef) else name), inner
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name, statement
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case _:
                yield "", statement


def offences(module: Module) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, statement in owners(module.tree):
        for node in ast.walk(statement):
            if why := offence(node):
                found.setdefault(name, []).append(f"line {getattr(node, 'lineno', 0)}: {why}")
    return found


@pytest.mark.parametrize("module", zone_modules(), ids=lambda module: module.name)
def test_no_floats_outside_the_listed_carriers(module: Module) -> None:
    assert {name: why for name, why in offences(module).items() if (module.name, name) not in carriers()} == {}


def test_every_listed_carrier_needs_its_place_in_the_list() -> None:
    used = {(module.name, name) for module in zone_modules() for name in offences(module)}
    assert carriers() - used == set()


@pytest.mark.parametrize(
    "source", ["x = 1.5", "x = a / b", "x /= b", "x = t.float()", "x = np.exp(y)", "x = y.half()", 'd = "<f4"']
)
def test_the_check_sees_what_it_should(source: str) -> None:
    assert any(offence(node) for node in ast.walk(ast.parse(source)))


@pytest.mark.parametrize(
    "source", ["x = a // b", "x = math.isqrt(y)", "x = t.to(torch.int64)", "half = n // 2", 'd = "<i4"']
)
def test_the_check_lets_integers_pass(source: str) -> None:
    assert not any(offence(node) for node in ast.walk(ast.parse(source)))
