"""The results file `docs/ratio.tsv`: exact sizes of archives, by file, level and model.

    python docs/ratio.py [--level N]... [--model NAME] FILE[:BYTES]...

Compresses each FILE, or its first BYTES, at each level and puts the sizes into the results file, in place of those that
it has for the same bytes, level and model. Whatever changes a byte of an archive changes this file too: a test
compares its rows for the samples and the small model of the tests.
"""

import argparse
import hashlib
import io
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import speccompact
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.modelstore.store import find

RESULTS = Path(__file__).with_name("ratio.tsv")

HEAD = ("file", "bytes", "sha256", "model", "digest", "level", "compressed", "bpb")

DIGITS = 16
"""Hexadecimal digits of digests."""


@dataclass(frozen=True, order=True, slots=True)
class Key:
    """What is compressed with what.

    Attributes:
        file: its name, for people.
        size: bytes of it from its start.
        sha256: digest of these, shortened.
        model: its name, for people.
        digest: of the model, shortened.
        level: 1 to 9.
    """

    file: str
    size: int
    sha256: str
    model: str
    digest: str
    level: int


def read_results() -> dict[Key, int]:
    """Return the compressed size (bytes) of every row."""
    if not RESULTS.exists():
        return {}
    rows = [line.split("\t") for line in RESULTS.read_text("utf-8").splitlines()[1:]]
    return {
        Key(file, int(size), sha256, model, digest, int(level)): int(compressed)
        for file, size, sha256, model, digest, level, compressed, _ in rows
    }


def write_results(results: dict[Key, int]) -> None:
    """Write all rows, in order."""
    lines = ["\t".join(HEAD)]
    for key, compressed in sorted(results.items()):
        cells = (key.file, key.size, key.sha256, key.model, key.digest, key.level, compressed)
        lines.append("\t".join(map(str, (*cells, f"{8 * compressed / key.size:.4f}"))))
    RESULTS.write_text("\n".join(lines) + "\n", "utf-8")


def key_of(name: str, content: bytes, model: str, level: int) -> Key:
    """Return the key of a row; `model` is the name of a model in the store, or the path of an exact model file."""
    path = Path(model)
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else find(model).digest.hex()
    return Key(name, len(content), hashlib.sha256(content).hexdigest()[:DIGITS], path.stem, digest[:DIGITS], level)


def compressed_size(content: bytes, model: str, level: int) -> int:
    """Return the bytes of an archive."""
    target = io.BytesIO()
    speccompact.compress_stream(io.BytesIO(content), target, level=level, model=model)
    return len(target.getvalue())


def measure(files: Iterable[str], model: str, levels: Iterable[int]) -> None:
    """Measure files and enter what came out."""
    for argument in files:
        path, _, size = argument.partition(":")
        content = Path(path).read_bytes()[: int(size) if size else None]
        for level in levels:
            key = key_of(Path(path).name, content, model, level)
            compressed = compressed_size(content, model, level)
            same = (key.sha256, key.model, key.level)
            others = {old: n for old, n in read_results().items() if (old.sha256, old.model, old.level) != same}
            write_results(others | {key: compressed})
            print(f"{key.file}, {key.size} bytes, level {level}: {compressed} bytes", file=sys.stderr)


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, action="append")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("files", nargs="+", metavar="FILE[:BYTES]")
    arguments = parser.parse_args()
    measure(arguments.files, arguments.model, arguments.level or [5])


if __name__ == "__main__":
    main()
