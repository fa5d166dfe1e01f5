"""The public surface is one sorted list, and everything in it exists."""

import ast

import pytest

import speccompact
from speccompact import archive, client
from tests.source_tree import Module, modules


def exported(module: Module) -> list[str] | None:
    """Return the literal ``__all__`` of a module, or None where it has none (the root makes its list from a table)."""
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple() as value):
                return list(ast.literal_eval(value))
    return None


@pytest.mark.parametrize("module", modules().values(), ids=lambda module: module.name)
def test_lists_are_sorted_and_without_repeats(module: Module) -> None:
    names = exported(module)
    assert names is None or names == sorted(set(names))


def test_the_public_surface_is_sorted_and_without_repeats() -> None:
    assert list(speccompact.__all__) == sorted(set(speccompact.__all__))
    assert list(archive.__all__) == sorted(set(archive.__all__))
    assert list(client.__all__) == sorted(set(client.__all__))


def test_every_public_name_exists() -> None:
    assert speccompact.__all__
    for module in (speccompact, archive, client):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_the_surface_can_be_listed() -> None:
    assert set(speccompact.__all__) <= set(dir(speccompact))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = speccompact.no_such_name
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = archive.no_such_name
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = client.no_such_name
