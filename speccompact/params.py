"""Wire parameters: everything here changes bytes, and everything here is recorded in the file.

Levels are names for parameter sets. A decoder never needs the level: the slot table and the header say all.
"""

from dataclasses import dataclass, replace

from speccompact.errors import ArgumentError

EXACT_VERSION = 1
"""Version of the arithmetic (EXACT.md) that this release writes and reads."""

PRECISION = 28
"""log2 of the sum of all symbol frequencies at one position (recorded in the header)."""

ESCAPE_BITS = 15
"""An escape symbol costs this many bits: 2 ** -ESCAPE_BITS is its fixed probability."""

MEMORY_VERSION = 1
"""Version of the memory (EXACT.md section 11) that this release writes and reads (recorded in the header)."""

MIN_TABLE_BITS = 10
MAX_TABLE_BITS = 24
"""log2 of the entries of a memory's table of contexts (recorded in the header): 370 MB at most."""

SLOT_CHECK_BITS = 8
"""Bits of the slot check that a lane's start state carries."""

DEFAULT_LEVEL = 5

MAX_FRAME_BYTES = 1 << 23
"""Content bytes of one frame, at most (a reader refuses more before it takes memory)."""

MAX_FRAME_TOKENS = 1 << 18
"""Symbols of all model slots of one frame together, at most: bounds the attention cache of a decoder."""

MAX_FRAME_SLOTS = 4096

MIN_SLOT_TOKENS = 16
"""The shortest limit that slots may be given: below it nothing but their starts would be left."""

MAX_SLOT_TOKENS = 1 << 13
"""Symbols of one slot, at most; the target's own context may be shorter."""


@dataclass(frozen=True, slots=True)
class CodecParams:
    """How a text is cut. Invariants (enforced): MIN_SLOT_TOKENS <= slot_tokens <= MAX_SLOT_TOKENS, 1 <= frame_slots.

    Attributes:
        slot_tokens: symbols of one slot, at most (tokens).
        frame_slots: slots of one frame, at most.
        group_frames: frames that share a memory, one after the other; 0 for slots that share nothing.
        table_bits: log2 of the entries of the memory's table, at most.
    """

    slot_tokens: int
    frame_slots: int
    group_frames: int = 0
    table_bits: int = 22

    def __post_init__(self) -> None:
        if not MIN_SLOT_TOKENS <= self.slot_tokens <= MAX_SLOT_TOKENS:
            raise ArgumentError(f"slot_tokens is {self.slot_tokens}; choose {MIN_SLOT_TOKENS} to {MAX_SLOT_TOKENS}")
        if not 1 <= self.frame_slots <= MAX_FRAME_SLOTS:
            raise ArgumentError(f"frame_slots is {self.frame_slots}; choose 1 to {MAX_FRAME_SLOTS}")
        if self.slot_tokens * self.frame_slots > MAX_FRAME_TOKENS:
            raise ArgumentError(
                f"{self.frame_slots} slots of {self.slot_tokens} tokens are more than the {MAX_FRAME_TOKENS} of a frame"
            )
        if self.group_frames < 0:
            raise ArgumentError(f"group_frames is {self.group_frames}; choose 0 (no memory) or more")
        if not MIN_TABLE_BITS <= self.table_bits <= MAX_TABLE_BITS:
            raise ArgumentError(f"table_bits is {self.table_bits}; choose {MIN_TABLE_BITS} to {MAX_TABLE_BITS}")


_LEVELS = {
    1: CodecParams(256, 64, 0),
    2: CodecParams(512, 64, 1),
    3: CodecParams(1024, 64, 1),
    4: CodecParams(1536, 64, 2),
    5: CodecParams(2048, 56, 4),
    6: CodecParams(3072, 37, 4),
    7: CodecParams(4096, 28, 8, 23),
    8: CodecParams(6144, 18, 16, 24),
    9: CodecParams(8192, 14, 64, 24),
}


def level_params(level: int, slot_tokens: int | None = None, group_frames: int | None = None) -> CodecParams:
    """Return the parameters of a level, with what is given in place of its own.

    Args:
        level: 1 (short slots that share nothing, fast) to 9 (longest context, largest memory).
        slot_tokens: tokens of a slot, at most.
        group_frames: frames that share a memory; 0 for none.

    Raises:
        ArgumentError: something is out of range.
    """
    if level not in _LEVELS:
        raise ArgumentError(f"level is {level}; choose 1 to 9")
    params = _LEVELS[level]
    group = params.group_frames if group_frames is None else group_frames
    if slot_tokens is None:
        return replace(params, group_frames=group)
    budget = params.slot_tokens * params.frame_slots
    return CodecParams(slot_tokens, max(1, min(64, budget // max(slot_tokens, 1))), group, params.table_bits)
