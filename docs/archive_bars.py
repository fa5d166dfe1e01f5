"""Measure archives of files against what they have to beat, and say whether they do.

    python docs/archive_bars.py json                  # 5,000 JSON files of about 600 bytes, from a generator
    python docs/archive_bars.py heads FOLDER          # the first 50 KB of every file below a folder
    python docs/archive_bars.py rate FOLDER           # the same files, as a tree and as one file: bytes a second

`json`: at most half of the files compressed alone, and below tar with xz -9e. `heads`: at least 40 % below tar with
xz -9e, below the files compressed alone, and a file of about 10 KB comes from one group. `rate`: at level 1 and with 2
threads, at least 0.9 of the rate of one file.

Needs the model in the store and a machine with nothing else to do; `json` and `heads` take hours on a small one.
`--files 500` makes `json` shorter, `--alone 200` compresses only so many files alone, evenly chosen, and infers the
rest from them. Prints one JSON object; exit code 1 says that a bar was missed.
"""

import argparse
import io
import json
import lzma
import random
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import speccompact
from speccompact import archive
from speccompact.options import Options

_HEAD = 50_000  # bytes of each file
_WANTED = 10_000  # bytes of the file that is read from the archive
_WARM = 4000  # bytes that load the model and all kernels before the clock runs
_NAME_LINE = "ada grace alan edsger barbara donald john margaret linus ken dennis bjarne radia leslie"
_NAMES = _NAME_LINE.split()
_PLACES = ["Oslo", "Lima", "Rome", "Kyiv", "Quito", "Hanoi"]
_NOTES = ["refund", "order", "gift"]


@dataclass(frozen=True)
class Bar:
    """A measured value and its limit: at most that or, with `least`, at least."""

    value: float
    limit: float
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether the value is good enough."""
        return self.value >= self.limit if self.least else self.value <= self.limit


def record(source: random.Random, number: int) -> bytes:
    """Return one JSON document of about 600 bytes."""
    first, last = source.choice(_NAMES), source.choice(_NAMES)
    history = [
        {
            "date": f"2025-{source.randrange(1, 13):02}-{source.randrange(1, 29):02}",
            "amount": source.randrange(1, 500),
            "note": source.choice(_NOTES),
        }
        for _ in range(source.randrange(4, 8))
    ]
    value = {
        "id": number,
        "name": f"{first.title()} {last.title()}son",
        "email": f"{first}.{last}{source.randrange(1000)}@example.org",
        "active": source.random() < 0.8,
        "balance": round(source.random() * 10_000, 2),
        "address": {"street": f"{source.randrange(200)} {last.title()} Road", "city": source.choice(_PLACES)},
        "history": history,
    }
    return json.dumps(value, indent=1).encode()


def make_json(folder: Path, count: int) -> None:
    """Write the JSON files."""
    source = random.Random(1)
    for number in range(count):
        (folder / f"{number:05}.json").write_bytes(record(source, number))


def copy_heads(folder: Path, source: Path) -> None:
    """Write the beginning of every file, under its own name and in its own folder."""
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as stream:
            target.write_bytes(stream.read(_HEAD))


def tar_xz(folder: Path) -> int:
    """Return the bytes of tar and xz -9e."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        tar.add(folder, folder.name)
    return len(lzma.compress(whole.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def contents(folder: Path) -> list[bytes]:
    """Return all files below a folder, in the order of their paths."""
    return [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]


def alone(files: list[bytes], count: int, level: int, model: str) -> float:
    """Return the bytes of all files when each is compressed alone, inferred from `count` of them if that is not 0."""
    chosen = files[:: max(1, len(files) // count)] if count else files
    packed = sum(len(speccompact.compress(data, level=level, model=model)) for data in chosen)
    return packed * sum(map(len, files)) / sum(map(len, chosen))


def read_one(location: str) -> dict[str, object]:
    """Read the file of an archive that is nearest to 10 KB, and return what that took."""
    groups: list[int] = []
    with archive.ArchiveFile(location) as opened:
        files = [entry for entry in opened.entries.values() if entry.pieces]
        chosen = min(files, key=lambda entry: (abs(entry.size - _WANTED), entry.path))
        began = time.monotonic()
        size = sum(map(len, archive.read_file(opened, chosen.path, groups.append)))
        seconds = time.monotonic() - began
    return {"bytes": size, "seconds": round(seconds, 2), "groups": groups, "all": len(opened.catalogue.groups)}


def sizes(folder: Path, place: str, wanted: argparse.Namespace) -> tuple[dict[str, object], dict[str, Bar]]:
    """Measure how small an archive is."""
    location = f"{place}/a.spca"
    began = time.monotonic()
    summary = archive.create(location, archive.Request((str(folder),), level=wanted.level, model=wanted.model))
    seconds, xz, files = time.monotonic() - began, tar_xz(folder), contents(folder)
    singly = alone(files, wanted.alone, wanted.level, wanted.model)
    one = read_one(location)
    found = {
        "files": len(files),
        "content_bytes": summary.content_bytes,
        "archive_bytes": summary.archive_bytes,
        "text_payload": summary.text_payload,
        "tar_xz_bytes": xz,
        "alone_bytes": round(singly),
        "alone_files": wanted.alone or len(files),
        "left_out": len(summary.left_out),
        "seconds": round(seconds, 1),
        "cat": one,
    }
    heads = wanted.what == "heads"
    bars = {
        "of tar and xz": Bar(summary.archive_bytes / xz, 0.6 if heads else 1.0),
        "of the files alone": Bar(summary.archive_bytes / singly, 1.0 if heads else 0.5),
        "files left out": Bar(len(summary.left_out), 0),
    }
    if heads:
        bars["groups for one file"] = Bar(len(set(one["groups"])), 1)  # type: ignore[call-overload]
    return found, bars


def rates(folder: Path, place: str, wanted: argparse.Namespace) -> tuple[dict[str, object], dict[str, Bar]]:
    """Measure how fast an archive is made, against one file of the same bytes; the better of several runs of each."""
    options = Options(threads=2)
    whole = b"".join(contents(folder))
    (Path(place) / "warm").write_bytes(whole[:_WARM])
    archive.create(f"{place}/w.spca", archive.Request((f"{place}/warm",), level=1, model=wanted.model), options=options)
    request = archive.Request((str(folder),), level=1, model=wanted.model)

    def tree() -> None:
        archive.create(f"{place}/a.spca", request, options=options, force=True)

    def file() -> None:
        speccompact.compress(whole, level=1, model=wanted.model, options=options)

    times: dict[str, list[float]] = {"tree": [], "file": []}
    for _ in range(wanted.runs):
        times["tree"].append(timed(tree))  # in turn, so that a machine that gets warm slows both
        times["file"].append(timed(file))
    rate = {name: len(whole) / min(seconds) for name, seconds in times.items()}
    found = {"content_bytes": len(whole), "seconds": times, "bytes_per_second": rate}
    return found, {"of the rate of one file": Bar(rate["tree"] / rate["file"], 0.9, least=True)}


def timed(action: Callable[[], None]) -> float:
    """Return the seconds that something takes."""
    began = time.monotonic()
    action()
    return time.monotonic() - began


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["json", "heads", "rate"])
    parser.add_argument("source", nargs="?", type=Path)
    parser.add_argument("--files", type=int, default=5000, help="of json")
    parser.add_argument("--level", type=int, default=5, help="of json and heads")
    parser.add_argument("--model", default=archive.Request(()).model)
    parser.add_argument("--alone", type=int, default=0, metavar="COUNT", help="files to compress alone; 0 is all")
    parser.add_argument("--runs", type=int, default=3, help="of rate")
    wanted = parser.parse_args()
    if wanted.what != "json" and wanted.source is None:
        parser.error(f"{wanted.what} needs a folder")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "files"
        folder.mkdir()
        if wanted.what == "json":
            make_json(folder, wanted.files)
        else:
            copy_heads(folder, wanted.source)
        found, bars = (rates if wanted.what == "rate" else sizes)(folder, place, wanted)
    judged = {name: {"value": round(bar.value, 4), "bar": bar.limit, "met": bar.met} for name, bar in bars.items()}
    print(json.dumps(found | {"bars": judged}))
    return 0 if all(bar.met for bar in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
