"""Sections of ARCHIVE.md, EXACT.md and FORMAT.md that the code names are there."""

import re

import pytest

from tests.source_tree import ROOT, Module, modules

_NAMED = re.compile(r"(ARCHIVE|EXACT|FORMAT)\.md,?\s+sections?\s+((?:\d+(?:\.\d+)?(?:,\s+|\s+and\s+|\s+to\s+)?)+)")


def sections(document: str) -> set[str]:
    """Return the numbers of a document's sections."""
    text = (ROOT / f"{document}.md").read_text("utf-8")
    return {number.rstrip(".") for number in re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", text, re.MULTILINE)}


SECTIONS = {document: sections(document) for document in ("ARCHIVE", "EXACT", "FORMAT")}


def named(text: str) -> list[tuple[str, str]]:
    return [
        (document, number) for document, list_ in _NAMED.findall(text) for number in re.findall(r"[\d.]+\d|\d", list_)
    ]


@pytest.mark.parametrize("module", modules().values(), ids=lambda module: module.name)
def test_every_section_that_is_named_exists(module: Module) -> None:
    for document, number in named(module.path.read_text("utf-8")):
        assert number in SECTIONS[document], f"{module.path.name} names {document}.md section {number}"


def test_names_are_found() -> None:
    assert named("see (EXACT.md, section 2) or EXACT.md sections 1 and 4.1, FORMAT.md section 7).") == [
        ("EXACT", "2"),
        ("EXACT", "1"),
        ("EXACT", "4.1"),
        ("FORMAT", "7"),
    ]
    assert {"2", "11.7"} <= SECTIONS["EXACT"]
    assert {"1", "6.3"} <= SECTIONS["FORMAT"]
    assert {"1", "10"} <= SECTIONS["ARCHIVE"]
