"""Pictures of a report as inline SVG, made of strings: bars, columns, areas in proportion, a line over time.

Every picture has a title and a description that says in words what it shows. Names come from archives and are
hostile: all text goes through `text`, which leaves nothing that is markup, control or direction.
"""

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 720
_ROW, _BAR = 38, 14  # of a bar with the line of text above it
_HEIGHT = 240  # of columns, lines and areas
_MARGIN = 26  # for what is written below columns and lines
_SMALLEST = 3.0  # width of a bar that stands for something
_INVISIBLE = 1e-5  # of a picture: what is smaller is in its words alone
_CELLS = 58  # of a name in a row: a wide character takes two
_CELL = 7.5  # width of one


@dataclass(frozen=True, slots=True)
class Bar:
    """Something of a size.

    Attributes:
        name: what it is, as found; made harmless where it is shown.
        value: its size, 0 or more.
        note: the same in words.
        part: how much of it is drawn in full colour; None for all.
        style: class of the full colour: "text" or "other".
    """

    name: str
    value: float
    note: str
    part: float | None = None
    style: str = "text"


def plain(name: bytes) -> str:
    """Return a path as text: bytes that are no UTF-8 as escapes."""
    return name.decode("utf-8", "backslashreplace")


def text(value: str, cells: int = _CELLS) -> str:
    """Return text for a page: what does not print is escaped, what is too long loses its middle, markup is quoted.

    Args:
        value: anything.
        cells: columns that it may take, of which a wide character takes two.
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in value)
    widths = [1 + (unicodedata.east_asian_width(c) in "WF") for c in shown]
    if sum(widths) > cells:
        head, tail = _fitting(widths, cells // 2), _fitting(widths[::-1], cells - cells // 2 - 1)
        shown = f"{shown[:head]}…{shown[len(shown) - tail :]}"
    return html.escape(shown)


def _fitting(widths: list[int], cells: int) -> int:
    """Return how many characters from the first on fit."""
    count = 0
    for width in widths:
        cells -= width
        if cells < 0:
            break
        count += 1
    return count


def picture(key: str, title: str, description: str, height: float, body: str) -> str:
    """Return a figure.

    Args:
        key: of the elements that name it; letters.
        title, description: what it shows, harmless already.
        height: of the drawing, WIDTH wide.
        body: SVG.
    """
    return (
        f'<figure><figcaption id="{key}-title">{title}</figcaption>'
        f'<svg role="img" aria-labelledby="{key}-title" aria-describedby="{key}-what" '
        f'viewBox="0 0 {WIDTH} {height:.0f}">'
        f'<desc id="{key}-what">{description}</desc>{body}</svg></figure>'
    )


def bars(key: str, title: str, rows: Sequence[Bar], mark: float | None = None) -> str:
    """Return a figure of bars, one below the other, each with its name and note above it.

    Args:
        mark: a value at which a line is drawn across all bars.
    """
    most = max([row.value for row in rows] + [mark or 0.0]) or 1.0
    parts = []
    for place, row in enumerate(rows):
        top = place * _ROW
        whole = max(WIDTH * row.value / most, _SMALLEST if row.value else 0.0)
        full = whole if row.part is None else whole * min(row.part / row.value if row.value else 0.0, 1.0)
        parts.append(
            f'<text x="0" y="{top + 15}">{text(row.name)}</text>'
            f'<text x="{WIDTH}" y="{top + 15}" class="end">{text(row.note)}</text>'
            f'<rect x="0" y="{top + 20}" width="{whole:.1f}" height="{_BAR}" class="rest"/>'
            f'<rect x="0" y="{top + 20}" width="{full:.1f}" height="{_BAR}" class="{row.style}"/>'
        )
    height = len(rows) * _ROW
    if mark is not None:
        at = WIDTH * mark / most
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height}" class="mark"/>')
    return picture(key, title, _words(rows), height, "".join(parts))


def columns(key: str, title: str, rows: Sequence[Bar]) -> str:
    """Return a figure of columns side by side, each with its name below it."""
    most = max((row.value for row in rows), default=0.0) or 1.0
    step = WIDTH / max(len(rows), 1)
    parts = []
    for place, row in enumerate(rows):
        height = max((_HEIGHT - _MARGIN - 20) * row.value / most, _SMALLEST if row.value else 0.0)
        left, top = place * step, _HEIGHT - _MARGIN - height
        parts.append(
            f'<rect x="{left + 2:.1f}" y="{top:.1f}" width="{min(step - 4, 90):.1f}" height="{height:.1f}" '
            f'class="{row.style}"><title>{text(row.name)}: {text(row.note)}</title></rect>'
            f'<text x="{left + 2:.1f}" y="{_HEIGHT - 8}">{text(row.name, max(2, int(step / _CELL)))}</text>'
        )
        if step > 12 * _CELL:
            parts.append(f'<text x="{left + 2:.1f}" y="{top - 6:.1f}">{text(row.note)}</text>')
    return picture(key, title, _words(rows), _HEIGHT, "".join(parts))


def areas(key: str, title: str, rows: Sequence[Bar]) -> str:
    """Return a figure of rectangles whose areas are in proportion, the largest first."""
    least = _INVISIBLE * sum(row.value for row in rows)
    wanted = sorted((row for row in rows if row.value > least), key=lambda row: -row.value)
    parts = []
    for row, (x, y, width, height) in zip(wanted, _tiles([row.value for row in wanted]), strict=True):
        parts.append(
            f'<g><title>{text(row.name)}: {text(row.note)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" class="{row.style} tile"/>'
        )
        room = int((width - 12) / _CELL)
        if room >= 4 and height >= 24:
            parts.append(f'<text x="{x + 6:.1f}" y="{y + 17:.1f}" class="on">{text(row.name, room)}</text>')
        if room >= len(row.note) and height >= 42:
            parts.append(f'<text x="{x + 6:.1f}" y="{y + 34:.1f}" class="on">{text(row.note)}</text>')
        parts.append("</g>")
    return picture(key, title, _words(rows), _HEIGHT, "".join(parts))


def _tiles(values: Sequence[float]) -> list[tuple[float, float, float, float]]:
    """Return (x, y, width, height) for descending values: strips along the shorter side, as square as they can be."""
    tiles: list[tuple[float, float, float, float]] = []
    x, y, width, height = 0.0, 0.0, float(WIDTH), float(_HEIGHT)
    scale = width * height / (sum(values) or 1.0)
    left = [value * scale for value in values]
    while left:
        short, count = min(width, height), 1
        while count < len(left) and _worst(left[: count + 1], short) <= _worst(left[:count], short):
            count += 1
        strip = sum(left[:count]) / short if short else 0.0
        at = 0.0
        for area in left[:count]:
            side = area / strip if strip else 0.0
            tiles.append((x, y + at, strip, side) if width >= height else (x + at, y, side, strip))
            at += side
        if width >= height:
            x, width = x + strip, max(width - strip, 0.0)
        else:
            y, height = y + strip, max(height - strip, 0.0)
        left = left[count:]
    return tiles


def _worst(areas: Sequence[float], side: float) -> float:
    """Return how far from square the worst rectangle of a strip along `side` is; 1 is square."""
    strip = sum(areas) / side if side else 0.0
    if not strip:
        return float("inf")
    return max(max(area / strip / strip, strip * strip / area) for area in areas if area)


def line(key: str, title: str, description: str, points: Sequence[tuple[float, float]], ends: tuple[str, str]) -> str:
    """Return a figure of a line that rises from 0 over time.

    Args:
        points: (x, y), x ascending, y at least 0.
        ends: what is written at the right end of the two axes: that of x, that of y.
    """
    right = max((x for x, _ in points), default=0.0) or 1.0
    top = max((y for _, y in points), default=0.0) or 1.0
    bottom = _HEIGHT - _MARGIN
    shown = "".join(f" L{WIDTH * x / right:.1f} {bottom - (bottom - 22) * y / top:.1f}" for x, y in points)
    body = (
        f'<path d="M0 {bottom}{shown} L{WIDTH} {bottom} Z" class="under"/><path d="M0 {bottom}{shown}" class="line"/>'
        f'<text x="{WIDTH}" y="{_HEIGHT - 8}" class="end">{text(ends[0])}</text>'
        f'<text x="{WIDTH}" y="15" class="end">{text(ends[1])}</text><text x="0" y="{_HEIGHT - 8}">0</text>'
    )
    return picture(key, title, text(description, 1 << 16), _HEIGHT, body)


def _words(rows: Sequence[Bar]) -> str:
    return "; ".join(f"{text(row.name)}: {text(row.note)}" for row in rows)
