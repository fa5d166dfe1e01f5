"""The one door: compress, decompress, open, inspect, verify.

Every function that decodes takes `limits` and treats its input as hostile; whatever is wrong with it is a class of
`speccompact.errors`. Nothing but `level`, `model`, `slot_tokens` and `group_frames` changes a byte of an archive
with the same versions of the libraries `zstandard` and `tokenizers`; any reader opens what any version has written.
`engines` replaces the user's model store, for tests and for services that keep models loaded.
"""

import builtins
import contextlib
import io
import os
from typing import BinaryIO

from speccompact.container.limits import Limits
from speccompact.errors import ArgumentError
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.options import Options
from speccompact.params import DEFAULT_LEVEL, level_params
from speccompact.streams.compressing import StreamCompressor
from speccompact.streams.decompressing import StreamDecompressor
from speccompact.streams.engine import Engines, StoredEngines
from speccompact.streams.inspecting import FileInfo, inspect_file
from speccompact.streams.seeking import SeekableContent
from speccompact.streams.summary import Progress, Summary

FilePath = str | os.PathLike[str]

_OPTIONS = Options()
_LIMITS = Limits()


def compress(
    data: bytes,
    *,
    level: int = DEFAULT_LEVEL,
    model: str = DEFAULT_MODEL,
    slot_tokens: int | None = None,
    group_frames: int | None = None,
    options: Options = _OPTIONS,
    engines: Engines | None = None,
) -> bytes:
    """Return `data` as an archive. See `compress_stream`."""
    target = io.BytesIO()
    compress_stream(
        io.BytesIO(data),
        target,
        level=level,
        model=model,
        slot_tokens=slot_tokens,
        group_frames=group_frames,
        options=options,
        engines=engines,
    )
    return target.getvalue()


def decompress(
    data: bytes, *, options: Options = _OPTIONS, limits: Limits = _LIMITS, engines: Engines | None = None
) -> bytes:
    """Return the content of an archive held in memory. See `decompress_stream`."""
    target = io.BytesIO()
    decompress_stream(io.BytesIO(data), target, options=options, limits=limits, engines=engines)
    return target.getvalue()


def compress_stream(
    source: BinaryIO,
    target: BinaryIO,
    *,
    level: int = DEFAULT_LEVEL,
    model: str = DEFAULT_MODEL,
    slot_tokens: int | None = None,
    group_frames: int | None = None,
    options: Options = _OPTIONS,
    engines: Engines | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Compress everything that `source` gives and write one archive to `target`; neither needs to be seekable.

    Memory is bounded by one frame. The archive is complete when its last byte is written: a caller that wants it to
    appear at once writes to a temporary name and renames.

    Args:
        source: readable binary stream; read to its end, not closed.
        target: writable binary stream; not closed, not flushed.
        level: 1 (short slots, fast) to 9 (longest context).
        model: registered name or path of the target; loaded at the first text, never for data that is not text.
        slot_tokens: tokens of a slot, at most, instead of the level's own. A model that holds fewer gets shorter slots.
        group_frames: frames that share what they have seen, instead of the level's own; 0 for slots that share nothing.
        progress: called with the content bytes done so far.

    Returns:
        Totals; `ideal_bits` is what the integer distribution alone would need.

    Raises:
        ArgumentError: an option is out of range.
        ModelError: the model is needed and missing or damaged.
    """
    params = level_params(level, slot_tokens, group_frames)
    run = StreamCompressor(target, level, params, model, engines or StoredEngines(options), progress)
    return run.run(source)


def decompress_stream(
    source: BinaryIO,
    target: BinaryIO,
    *,
    options: Options = _OPTIONS,
    limits: Limits = _LIMITS,
    engines: Engines | None = None,
    salvage: bool = False,
    byte_range: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Decode an archive, or several concatenated, from `source` and write the content to `target`.

    Every frame is checked before its content is written; the whole-content check comes last, so that a reader of a
    pipe must look at the outcome, not at the output alone.

    Args:
        source: readable binary stream; need not be seekable. Salvage copies one that is not to a temporary file first.
        target: writable binary stream.
        limits: what is refused before memory is taken.
        salvage: leave damaged frames out instead of raising; `Summary.lost` lists what is missing. A missing model and
            an exceeded output limit still raise.
        byte_range: (start, length) in content bytes: decode only the frames that hold them. Past the end it is cut
            short. Not together with `salvage`.
        progress: called with the compressed bytes done so far.

    Raises:
        ArgumentError: the range is negative, or given together with `salvage`.
        FormatError: the data cannot be decoded; the message names part, frame, offset and field.
        LimitError: a limit is exceeded.
        ModelError: the model that the archive names is missing or damaged.
    """
    run = StreamDecompressor(target, limits, engines or StoredEngines(options), progress, options.groups)
    if byte_range is not None:
        start, length = byte_range
        if salvage:
            raise ArgumentError("byte_range and salvage exclude each other; salvage the whole archive first")
        if start < 0 or length < 0:
            raise ArgumentError(f"byte_range is {byte_range}; start and length must be 0 or more")
        return run.run_range(source, start, length)
    return run.run_salvage(source) if salvage else run.run(source)


def verify_stream(
    source: BinaryIO,
    *,
    options: Options = _OPTIONS,
    limits: Limits = _LIMITS,
    engines: Engines | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Decode an archive and check everything in it, writing nothing. Raises as `decompress_stream` does."""
    return StreamDecompressor(None, limits, engines or StoredEngines(options), progress, options.groups).run(source)


def open(
    file: FilePath | BinaryIO,
    *,
    options: Options = _OPTIONS,
    limits: Limits = _LIMITS,
    engines: Engines | None = None,
) -> io.BufferedReader:
    """Open an archive for reading its content like a file: read, readline, seek, tell.

    Only the frames that are read are decoded, and those before them in their group; one decoded frame is kept. Each
    frame's own check is verified, the whole-content check is not (that takes `verify_stream`).

    Args:
        file: a path, or a seekable binary stream, which stays open when the reader is closed.

    Raises:
        ArgumentError: the stream is not seekable.
        FormatError: now, where the archive's structure is damaged; later, where the frame being read is.
    """
    found = engines or StoredEngines(options)
    if not isinstance(file, str | os.PathLike):
        return io.BufferedReader(SeekableContent(file, limits, found, close_stream=False))
    with contextlib.ExitStack() as undo:
        stream = undo.enter_context(builtins.open(file, "rb"))
        content = SeekableContent(stream, limits, found, close_stream=True)
        undo.pop_all()
    return io.BufferedReader(content)


def inspect(file: FilePath | bytes | BinaryIO, *, limits: Limits = _LIMITS) -> FileInfo:
    """Describe an archive without decoding it and without loading a model.

    Args:
        file: a path, the archive itself, or a binary stream (read to its end).

    Raises:
        FormatError: the structure is damaged. Payloads are not looked at.
    """
    if isinstance(file, bytes):
        return inspect_file(io.BytesIO(file), limits)
    if isinstance(file, str | os.PathLike):
        with builtins.open(file, "rb") as stream:
            return inspect_file(stream, limits)
    return inspect_file(file, limits)
