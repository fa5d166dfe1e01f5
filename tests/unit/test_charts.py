"""Pictures as text: what they say, and that nothing in a name gets out of them."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.archive.charts import WIDTH, Bar, _tiles, areas, bars, columns, line, plain, text

EVIL = "<script>alert(1)</script>"
ROWS = [Bar("a", 10, "ten", 5), Bar(EVIL, 5, '"five" & more', style="other"), Bar("none", 0, "0")]


def parsed(figure: str) -> ElementTree.Element:
    """Return a figure as a tree: it is well-formed."""
    return ElementTree.fromstring(figure)


def numbers(figure: str, name: str) -> list[float]:
    return [float(found.attrib[name]) for found in parsed(figure).iter("rect")]


@pytest.mark.parametrize("draw", [bars, columns, areas])
def test_pictures_say_in_words_what_they_show(draw: Callable[[str, str, list[Bar]], str]) -> None:
    tree = parsed(draw("key", "The title", ROWS))
    svg = tree.find("svg")
    assert svg is not None
    assert svg.attrib["role"] == "img"
    said = {found.attrib["id"]: found.text or "" for found in tree.iter() if "id" in found.attrib}
    assert said[svg.attrib["aria-labelledby"]] == "The title"
    assert "a: ten" in said[svg.attrib["aria-describedby"]]
    assert f'{EVIL}: "five" & more' in said[svg.attrib["aria-describedby"]]
    assert not list(tree.iter("script"))


def test_bars_are_in_proportion() -> None:
    assert numbers(bars("k", "t", ROWS), "width") == [WIDTH, WIDTH / 2, WIDTH / 2, WIDTH / 2, 0, 0]
    assert numbers(bars("k", "t", ROWS, mark=20), "width")[0] == WIDTH / 2
    assert numbers(bars("k", "t", [Bar("tiny", 1, "", 0), Bar("huge", 1e9, "")]), "width")[0] == 3
    assert numbers(bars("k", "t", [Bar("more than all", 10, "", 11)]), "width") == [WIDTH, WIDTH]


def test_pictures_of_nothing() -> None:
    for rows in ([], [Bar("", 0, "")]):
        parsed(bars("k", "t", rows))
        parsed(columns("k", "t", rows))
        parsed(areas("k", "t", rows))
    parsed(line("k", "t", "d", [], ("", "")))


def test_a_line_goes_through_its_points() -> None:
    figure = line("k", "t", "d", [(5, 10), (10, 40)], ("10 s", "40 B"))
    path = [found.attrib["d"] for found in parsed(figure).iter("path")][-1]
    assert path.startswith("M0 ")
    assert f" L{WIDTH / 2:.1f} " in path
    assert " 22.0" in path


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=20))
def test_tiles_cover_the_picture_in_proportion(values: list[float]) -> None:
    values.sort(reverse=True)
    tiles = _tiles(values)
    whole = sum(width * height for _, _, width, height in tiles)
    for value, (x, y, width, height) in zip(values, tiles, strict=True):
        assert width * height == pytest.approx(whole * value / sum(values), rel=1e-6)
        assert 0 <= x <= x + width <= WIDTH + 1e-3
        assert 0 <= y <= y + height <= 240 + 1e-3


def test_names_become_harmless() -> None:
    assert text("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"
    assert text("a\nb\x1b[1m\u202egnp.exe") == "a\\nb\\x1b[1m\\u202egnp.exe"
    assert text("\udcff") == "\\udcff"
    assert plain(b"\xff\xc3\xa9") == "\\xff\u00e9"


def test_long_names_lose_their_middle() -> None:
    assert text("abcdefghij", 10) == "abcdefghij"
    assert text("abcdefghijk", 10) == "abcde…hijk"
    assert text("漢" * 20, 10) == "漢漢…漢漢"
    assert text("<" * 20, 5) == "&lt;&lt;…&lt;&lt;"
