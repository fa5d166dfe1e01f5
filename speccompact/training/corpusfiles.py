"""Files of a corpus: what they are, what is held out of each, and how they are cut into chunks at line ends.

A file is read once when a run starts, in pieces, for its digest and its cuts; afterwards only chunks are read.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from speccompact.errors import ArgumentError
from speccompact.text.vocabulary import TextEncoder
from speccompact.training.folders import require_folder

PLAIN_KIND = "text"
"""Kind of files that lie in no folder."""

_LANGUAGES = "languages"
_READ_BYTES = 1 << 20
_USUAL_RATE = 4.0  # bytes of a token, for files too short to ask
_FILL = 1.1  # slots that a chunk is to fill: the first mostly is full then, and little is left over
_SAMPLES, _SAMPLE_BYTES = 3, 8192
_HELD_SHARE, _HELD_BYTES = 50, 32 * 1024
_SHORT_FILE = 16 * 1024  # a fiftieth of less is no text to measure by; of such files every fiftieth is held out whole


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A file of a corpus.

    Attributes:
        path: relative to the corpus, with slashes.
        size: bytes.
        sha256: of its content, hexadecimal.
        held_from: bytes from here on are never trained on; `size` where nothing is held out.
        cuts: rising byte offsets, 0 and `size` among them, and `held_from`: the borders of chunks.
    """

    path: str
    size: int
    sha256: str
    held_from: int
    cuts: tuple[int, ...]

    @property
    def kind(self) -> str:
        """The first folder of the path."""
        return self.path.partition("/")[0] if "/" in self.path else PLAIN_KIND

    @property
    def fine_kind(self) -> str:
        """The kind, with the language where the files of one folder are languages."""
        parts = self.path.split("/")
        return "/".join(parts[:2]) if parts[0] == _LANGUAGES and len(parts) > 2 else self.kind


def scan(folder: Path, tokenizer: TextEncoder, slot_tokens: int, *, hold_out: bool) -> list[CorpusFile]:
    """Read every file below a folder, in the order of their paths; names that begin with a dot are passed over.

    Args:
        folder: the corpus.
        tokenizer: says how many bytes fill a slot.
        slot_tokens: tokens of a slot.
        hold_out: keep the end of each file, or whole short files, away from training.

    Raises:
        ArgumentError: it holds no text at all.
        OSError: it is no folder, or a file cannot be read.
    """
    require_folder(folder)
    sizes = {path: size for path in sorted(_paths(folder)) if (size := os.stat(folder / path).st_size)}
    if not sizes:
        raise ArgumentError(f"{folder}: no files in it, or only empty ones")
    whole = _held_whole(sizes) if hold_out else set()
    files = []
    for path, size in sizes.items():
        with open(folder / path, "rb") as file:
            held = size
            if path in whole:
                held = 0
            elif hold_out and size >= _SHORT_FILE:
                held = _tail_start(file.fileno(), size)
            step = _chunk_bytes(file.fileno(), size, tokenizer, slot_tokens)
            try:
                digest, cuts = _cut(file.fileno(), size, held, step)
            except EOFError:
                raise ArgumentError(f"{folder / path}: the file became shorter while it was read") from None
        files.append(CorpusFile(path, size, digest, held, cuts))
    return files


def read_chunk(folder: Path, path: str, start: int, stop: int) -> bytes:
    """Return bytes [start, stop) of a file; raises ArgumentError where it has become shorter."""
    with open(folder / path, "rb") as file:
        data = os.pread(file.fileno(), stop - start, start)
    if len(data) != stop - start:
        raise ArgumentError(f"{path}: the file changed while it was being trained on")
    return data


def _paths(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(place).relative_to(folder)
        for name in names:
            if not name.startswith(".") and os.path.isfile(os.path.join(place, name)):
                yield (below / name).as_posix()


def _raise(error: OSError) -> None:
    raise error


def _held_whole(sizes: dict[str, int]) -> set[str]:
    """Return the short files that are held out whole: every fiftieth of a kind, or the last where all are short."""
    kinds: dict[str, list[str]] = {}
    longer = set()
    for path, size in sizes.items():
        kind = CorpusFile(path, size, "", size, ()).fine_kind
        if size < _SHORT_FILE:
            kinds.setdefault(kind, []).append(path)
        else:
            longer.add(kind)
    held = {path for paths in kinds.values() for path in paths[_HELD_SHARE - 1 :: _HELD_SHARE]}
    held.update(paths[-1] for kind, paths in kinds.items() if kind not in longer and 2 <= len(paths) < _HELD_SHARE)
    return held


def _tail_start(descriptor: int, size: int) -> int:
    """Return where the held-out end of a file begins: after a line end, else before a character."""
    wanted = size - min(size // _HELD_SHARE, _HELD_BYTES)
    tail = os.pread(descriptor, size - wanted, wanted)
    line = tail.find(b"\n") + 1
    if 0 < line < len(tail):
        return wanted + line
    return wanted + _first_character(tail, 0)


def _first_character(data: bytes, place: int) -> int:
    """Return the first index from `place` on at which no character is cut, at most 3 further."""
    for index in range(place, min(place + 4, len(data))):
        if data[index] & 0xC0 != 0x80:
            return index
    return place


def _chunk_bytes(descriptor: int, size: int, tokenizer: TextEncoder, slot_tokens: int) -> int:
    """Return how many bytes of a file fill a slot, asked of samples from all over it."""
    rate = _USUAL_RATE
    if size > 2 * slot_tokens * _USUAL_RATE:
        read = tokens = 0
        for index in range(_SAMPLES):
            sample = os.pread(descriptor, _SAMPLE_BYTES, (size - min(size, _SAMPLE_BYTES)) * index // (_SAMPLES - 1))
            read += len(sample)
            tokens += tokenizer.encode(sample).size
        rate = read / max(tokens, 1)
    return max(16, int(slot_tokens * rate * _FILL))


def _cut(descriptor: int, size: int, held: int, step: int) -> tuple[str, tuple[int, ...]]:
    """Return the digest of a file, and its cuts; raises EOFError where it is shorter."""
    digest, cuts = hashlib.sha256(), [0]
    window, base = b"", 0  # window holds the file from `base`, which is the last cut
    border, done = held if held else size, 0
    while done < size:
        block = os.pread(descriptor, min(_READ_BYTES, size - done), done)
        if not block:
            raise EOFError
        digest.update(block)
        done += len(block)
        window += block
        place = 0
        while base + place < border and (len(window) - place > step or done >= border):
            place = min(_next_cut(window, place, step), border - base)
            cuts.append(base + place)
            if base + place == border:
                border = size
        window, base = window[place:], base + place
    return digest.hexdigest(), tuple(cuts)


def _next_cut(window: bytes, start: int, step: int) -> int:
    """Return the last line end within a step of `start`, not too near; else a character boundary."""
    if len(window) - start <= step:
        return len(window)
    line = window.rfind(b"\n", start + step // 2, start + step) + 1
    return line or _first_character(window, start + step)
