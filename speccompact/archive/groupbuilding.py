"""One group: from a plan to the bytes of its record. Runs wherever the sources and the model can be reached.

A source that changed since it was looked at is read a second time; if it still differs it is left out, and another
one with the same bytes is read in its place. What nobody has any more is missing, and the group is made of the rest.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass

import zstandard

from speccompact.api import compress_stream
from speccompact.archive.catalogue import pack_table
from speccompact.archive.content import CHANGED, read_piece, unchanged
from speccompact.archive.entries import Entry, Loss, Piece
from speccompact.archive.planning import PlannedGroup, PlannedPiece
from speccompact.archive.records import CHECK_BYTES, Coding, RecordHead, RecordKind, pack_head
from speccompact.archive.storage import concerns_one_file
from speccompact.container.format import sha_prefix
from speccompact.options import Options
from speccompact.params import level_params
from speccompact.streams.engine import Engines

_ZSTD_LEVEL = 19
_ZSTD_WINDOW = 25  # log2 of bytes: a whole bundle
_TRIES = 2
_WHOLE_GROUP = 1 << 20  # frames that share a memory: all that the group has

Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Coder:
    """What changes the bytes of text groups; as the arguments of `speccompact.compress_stream`."""

    level: int
    model: str
    slot_tokens: int | None = None
    group_frames: int | None = None


@dataclass(frozen=True, slots=True)
class GroupTask:
    """All that is needed to make the record of a group."""

    plan: PlannedGroup
    coder: Coder
    generation: int
    archive_id: bytes


Watch = Callable[[GroupTask, int], None]
"""Called with a task and the content bytes of it that are done."""


@dataclass(frozen=True, slots=True)
class BuiltGroup:
    """A record, ready to be written.

    Attributes:
        number: of the group.
        record: all its bytes; empty if nothing of the group could be read.
        coding: how its content is stored.
        content_bytes, payload_bytes: before and after.
        lost: (path, reason) of what was left out.
    """

    number: int
    record: bytes
    coding: Coding
    content_bytes: int
    payload_bytes: int
    lost: tuple[Loss, ...]


def build_group(task: GroupTask, options: Options, engines: Engines | None, tick: Tick | None = None) -> BuiltGroup:
    """Return the record of a group.

    Args:
        task: what to make.
        options, engines: as in `speccompact.compress_stream`.
        tick: called with the content bytes done so far.

    Raises:
        ModelError: the model is needed and missing or damaged.
        OSError: the network or the machine fails, which is no reason to leave files out.
    """
    plan = task.plan
    entries: list[Entry] = list(plan.bare)
    lost: list[Loss] = []
    parts: list[bytes] = []
    size = 0
    for piece in plan.pieces:
        data, losses = _read(piece)
        lost += losses
        if data is None:
            continue
        place = (Piece(plan.number, size, len(data)),)
        entries += [entry._replace(pieces=place) for entry in piece.entries[len(losses) :]]
        parts.append(data)
        size += len(data)
    if not entries:
        return BuiltGroup(plan.number, b"", plan.coding, 0, 0, tuple(lost))
    coding, payload = _encode(plan.coding, b"".join(parts), task.coder, options, engines, tick)
    record = pack_record(RecordKind.GROUP, coding, task, pack_table(entries), payload, size)
    return BuiltGroup(plan.number, record, coding, size, len(payload), tuple(lost))


def pack_record(
    kind: RecordKind, coding: Coding, task: GroupTask, table: bytes, payload: bytes, content_bytes: int
) -> bytes:
    """Return the record of a group as bytes."""
    head = RecordHead(
        kind, coding, task.generation, task.plan.number, len(table), len(payload), content_bytes, task.archive_id
    )
    return join_record(head, table, payload)


def join_record(head: RecordHead, table: bytes, payload: bytes) -> bytes:
    """Return a record as bytes: head, table and payload, each with its check."""
    packed = pack_head(head)
    checks = [sha_prefix(CHECK_BYTES, packed, table), sha_prefix(CHECK_BYTES, packed, payload)]
    return b"".join([packed, table, checks[0], payload, checks[1]])


def _read(piece: PlannedPiece) -> tuple[bytes | None, list[Loss]]:
    """Return the bytes of a piece, from the first file that still has them, and the entries before that."""
    lost: list[Loss] = []
    for location, entry in zip(piece.locations, piece.entries, strict=True):
        data, reason = _read_from(location, entry, piece)
        if data is not None:
            return data, lost
        lost.append((entry.path, reason))
    return None, lost


def _read_from(location: str, entry: Entry, piece: PlannedPiece) -> tuple[bytes | None, str]:
    reason = CHANGED
    for _ in range(_TRIES):
        try:
            data = read_piece(location, entry, piece.start, piece.length, piece.digest)
            if data is not None and unchanged(location, entry):
                return data, ""
            reason = CHANGED
        except OSError as error:
            if not concerns_one_file(location, error):
                raise
            reason = error.strerror or str(error)
    return None, reason


def _encode(
    coding: Coding, content: bytes, coder: Coder, options: Options, engines: Engines | None, tick: Tick | None
) -> tuple[Coding, bytes]:
    if not content:
        return Coding.NONE, b""
    if coding == Coding.TEXT:
        target = io.BytesIO()
        compress_stream(
            io.BytesIO(content),
            target,
            level=coder.level,
            model=coder.model,
            slot_tokens=coder.slot_tokens,
            group_frames=_frames(coder),
            options=options,
            engines=engines,
            progress=tick,
        )
        return coding, target.getvalue()
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _ZSTD_LEVEL, source_size=len(content), window_log=min(_ZSTD_WINDOW, max(10, len(content).bit_length())),
        enable_ldm=True,
    )  # fmt: skip
    packed = zstandard.ZstdCompressor(compression_params=parameters).compress(content)
    return (Coding.ZSTD, packed) if len(packed) < len(content) else (Coding.RAW, content)


def _frames(coder: Coder) -> int:
    """A group of the archive is one group of frames, however many that are; without a memory it stays without."""
    return _WHOLE_GROUP if level_params(coder.level, coder.slot_tokens, coder.group_frames).group_frames else 0
