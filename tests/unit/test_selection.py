import pytest

from speccompact.archive.selection import Selection


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.txt", b"a/b.txt", True),
        ("*.txt", b"a/b.txt.gz", False),
        ("a/*.txt", b"a/b.txt", True),
        ("a/*.txt", b"x/a/b.txt", False),
        ("a/*.txt", b"a/c/b.txt", False),
        ("a/**/*.txt", b"a/c/d/b.txt", True),
        ("a/**/*.txt", b"a/b.txt", True),
        ("node_modules", b"x/node_modules/y/z", True),
        ("x/node_modules/", b"x/node_modules/y/z", True),
        ("?.c", b"a.c", True),
        ("?.c", b"ab.c", False),
        ("[ab].c", b"b.c", True),
        ("[!ab].c", b"b.c", False),
        ("a+b", b"a+b", True),
        ("*", b"line\nbreak", True),
        ("*.txt", b"\xff.txt", True),
        ("*.txt", b"a.txt\n", False),
        ("a[!x]b", b"a/b", False),
        ("[a-c^]x", b"bx", True),
        ("[a-c^]x", b"^x", True),
        ("[!]x", b"!x", True),
        ("[c-a]", b"b", False),
        ("[&&~~||a]", b"a", True),
    ],
)
def test_globs(pattern: str, path: bytes, matches: bool) -> None:
    assert Selection(include=[pattern]).takes(path) is matches
    assert Selection(exclude=[pattern]).takes(path) is not matches


def test_an_exclude_wins_over_an_include() -> None:
    chosen = Selection(include=["*.txt", "*.md"], exclude=["secret*"])
    assert [chosen.takes(path) for path in (b"a.txt", b"a.md", b"a.bin", b"secret.txt")] == [True, True, False, False]


def test_nothing_said_means_everything() -> None:
    assert Selection().takes(b"any/thing")
