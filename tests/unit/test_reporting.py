"""Pages about archives: one file each, the same every time, harmless whatever names say, and shown by a browser."""

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from speccompact.archive.charts import WIDTH
from speccompact.archive.comparing import Comparison, compare
from speccompact.archive.entries import Entry
from speccompact.archive.joblog import JobLog
from speccompact.archive.reporting import report
from tests.archive_trees import forge, make_tree, opened, pack
from tests.fakes import prose

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
LOG = JobLog(((1.0, 50, 30), (61.0, 100, 55)), 200, (("a<b>\udcff", "gone & lost"),) * 12)
HOSTILE = '"><script>document.title=1<\u2215script>.\u202ejpg'
VOID = {"meta"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and holds the page to its structure: every element is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("reporting")
    root = make_tree(folder / "tree")
    (root / "long.txt").write_bytes(prose(30_000, 77))
    for number in range(20):
        (root / f"f.k{number}").write_bytes(prose(1100, number))
    (root / "evil").mkdir()
    (root / "evil" / HOSTILE).write_bytes(prose(40_000, 8))
    pack(folder / "a.spca", root, slot_tokens=16)
    with opened(folder / "a.spca") as archive:
        comparison = compare(archive, 20_000)
        made = report(archive, "notes <2024>.spca", comparison=comparison, log=LOG)
        assert report(archive, "notes <2024>.spca", comparison=comparison, log=LOG) == made
    return made


def test_it_loads_nothing_and_runs_nothing(page: str) -> None:
    tags = Page(page).tags
    names = {tag for tag, _ in tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "a"}
    attributes = {name for _, values in tags for name in values}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "xlink:href", "style")}
    assert not re.search(r"url\(|@import", page)
    policy = dict(next(values for tag, values in tags if values.get("http-equiv") == "Content-Security-Policy"))
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_everything_has_its_words(page: str) -> None:
    found = Page(page)
    tags = found.tags
    assert next(values for tag, values in tags if tag == "html")["lang"] == "en"
    ids = [values["id"] for _, values in tags if "id" in values]
    assert len(ids) == len(set(ids))
    pictures = [values for tag, values in tags if tag == "svg"]
    assert len(pictures) == 8
    for values in pictures:
        assert values["role"] == "img"
        assert {values["aria-labelledby"], values["aria-describedby"]} <= set(ids)
    wanted = ["notes <2024>.spca", "Kinds of files", ".txt", "other kinds", "Against xz and zstandard", "1:01", "2023"]
    for words in [*wanted, "12 left out", "a<b>\\udcff: gone & lost", "and 2 more"]:
        assert words in found.words, words


def test_pictures_stay_inside_their_frames(page: str) -> None:
    for tag, values in Page(page).tags:
        if tag == "rect":
            assert 0 <= float(values["x"] or 0) <= float(values["x"] or 0) + float(values["width"] or 0) <= WIDTH + 0.2


def test_names_of_an_archive_do_nothing(page: str) -> None:
    assert "><script>document.title=1" in Page(page).words
    assert "\\u202ejpg" in html.unescape(page)
    assert "\u202e" not in page


def test_pages_without_much_to_say(tmp_path: Path) -> None:
    for name, groups in {"a": [], "b": [([Entry(b"empty")], b"")], "c": [([Entry(b"x", size=1)], b"a")]}.items():
        with opened(forge(tmp_path / name, groups)) as archive:
            assert Page(report(archive, name)).words
            Page(report(archive, name, comparison=Comparison(1, 1, 2, 1, 1), log=JobLog(((0.0, 0, 0),), 0, ())))


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed (Debian: apt-get install chromium)")
def test_a_browser_shows_it(page: str, tmp_path: Path) -> None:
    """Its own parser leaves the title alone, keeps every picture, and paints what is not one colour."""
    (tmp_path / "page.html").write_text(page, "utf-8")
    switches = ["headless", "no-sandbox", "disable-gpu", "hide-scrollbars", "disable-dev-shm-usage"]
    switches += [f"user-data-dir={tmp_path}/profile", "window-size=900,3200"]
    common = [str(BROWSER), *(f"--{switch}" for switch in switches)]
    address = (tmp_path / "page.html").as_uri()
    seen = subprocess.run([*common, "--dump-dom", address], capture_output=True, text=True, timeout=300, check=True)
    assert "<title>notes &lt;2024&gt;.spca</title>" in seen.stdout
    assert seen.stdout.count("<svg") == 8
    assert "<script" not in seen.stdout
    picture = tmp_path / "page.png"
    subprocess.run([*common, f"--screenshot={picture}", address], capture_output=True, timeout=300, check=True)
    from matplotlib.image import imread  # of the train extra, which tests have

    pixels = imread(picture)
    colours = {tuple(round(float(part) * 255) for part in pixel[:3]) for row in pixels[::7] for pixel in row[::7]}
    assert {(0x1F, 0x5F, 0x9E), (0xA3, 0x4D, 0x00), (0xFF, 0xFF, 0xFF)} <= colours
