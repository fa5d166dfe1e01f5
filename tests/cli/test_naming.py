import os

import pytest

from speccompact.errors import ArgumentError
from speccompact_cli.naming import compressed_name, restored_name, shown


def test_names_go_both_ways() -> None:
    assert compressed_name("a/b.txt") == "a/b.txt.spc"
    assert restored_name(compressed_name("a/b.txt")) == "a/b.txt"


@pytest.mark.parametrize("name", ["a.txt", ".spc", "folder/.spc", "a.spc.gz"])
def test_a_name_without_the_suffix_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="-o"):
        restored_name(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.txt", "plain.txt"),
        ("Straße.txt", "Straße.txt"),
        ("two\nlines\x1b[31m", "two\\nlines\\x1b[31m"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
        (b"caf\xe9", "caf\\xe9"),
    ],
)
def test_shown_names_are_printable(name: str | bytes, text: str) -> None:
    assert shown(name) == text
    assert shown(name).isprintable()
