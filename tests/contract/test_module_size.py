"""Modules stay small enough to be read in one go."""

from pathlib import Path

import pytest

from tests.source_tree import ROOT, modules

LIMIT = 400
"""Lines of one file, at most."""


def python_files() -> list[Path]:
    others = [path for folder in ("docs", "samples", "tests") for path in (ROOT / folder).rglob("*.py")]
    return [module.path for module in modules().values()] + sorted(others)


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_size(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LIMIT
