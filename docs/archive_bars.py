"""Measure archives of files against what they have to beat: each file alone, and tar with xz.

    python docs/archive_bars.py json                  # 5,000 JSON files of about 600 bytes, from a generator
    python docs/archive_bars.py heads FOLDER          # the first 50 KB of every file below a folder

Needs the default model in the store and, at the default level, hours on a small machine: `--level 1` and `--files 500`
make it shorter. Prints one JSON object.
"""

import argparse
import io
import json
import lzma
import random
import tarfile
import tempfile
import time
from pathlib import Path

import speccompact
from speccompact import archive

_HEAD = 50_000
_NAME_LINE = "ada grace alan edsger barbara donald john margaret linus ken dennis bjarne radia leslie"
_NAMES = _NAME_LINE.split()
_PLACES = ["Oslo", "Lima", "Rome", "Kyiv", "Quito", "Hanoi"]


def record(source: random.Random, number: int) -> bytes:
    """Return one JSON document of about 600 bytes."""
    first, last = source.choice(_NAMES), source.choice(_NAMES)
    history = [
        {
            "date": f"2025-{source.randrange(1, 13):02}-{source.randrange(1, 29):02}",
            "amount": source.randrange(1, 500),
            "note": source.choice(["refund", "order", "gift"]),
        }
        for _ in range(4)
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
        target.write_bytes(path.read_bytes()[:_HEAD])


def tar_xz(folder: Path) -> int:
    """Return the bytes of tar and xz -9e."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        tar.add(folder, folder.name)
    return len(lzma.compress(whole.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["json", "heads"])
    parser.add_argument("source", nargs="?", type=Path)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--level", type=int, default=5)
    parser.add_argument(
        "--alone", action="store_true", help="also compress every file alone, which takes as long again"
    )
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "files"
        folder.mkdir()
        if wanted.what == "json":
            make_json(folder, wanted.files)
        else:
            copy_heads(folder, wanted.source)
        began = time.monotonic()
        summary = archive.create(f"{place}/a.spca", archive.Request((str(folder),), level=wanted.level))
        found: dict[str, object] = {
            "content_bytes": summary.content_bytes,
            "archive_bytes": summary.archive_bytes,
            "text_payload": summary.text_payload,
            "seconds": round(time.monotonic() - began, 1),
            "tar_xz_bytes": tar_xz(folder),
        }
        if wanted.alone:
            files = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
            found["alone_bytes"] = sum(len(speccompact.compress(data, level=wanted.level)) for data in files)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
