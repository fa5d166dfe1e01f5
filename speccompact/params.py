"""Wire parameters: everything here changes bytes, and everything here is recorded in the file.

Levels are names for parameter sets. A decoder never needs the level: the slot table and the header say all.
"""

from dataclasses import dataclass

from speccompact.errors import ArgumentError

EXACT_VERSION = 1
"""Version of the arithmetic (EXACT.md) that this release writes and reads."""

PRECISION = 28
"""log2 of the sum of all symbol frequencies at one position (recorded in the header)."""

ESCAPE_BITS = 15
"""An escape symbol costs this many bits: 2 ** -ESCAPE_BITS is its fixed probability."""

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
    """

    slot_tokens: int
    frame_slots: int

    def __post_init__(self) -> None:
        if not MIN_SLOT_TOKENS <= self.slot_tokens <= MAX_SLOT_TOKENS:
            raise ArgumentError(f"slot_tokens is {self.slot_tokens}; choose {MIN_SLOT_TOKENS} to {MAX_SLOT_TOKENS}")
        if not 1 <= self.frame_slots <= MAX_FRAME_SLOTS:
            raise ArgumentError(f"frame_slots is {self.frame_slots}; choose 1 to {MAX_FRAME_SLOTS}")


_LEVELS = {
    1: CodecParams(256, 64),
    2: CodecParams(512, 64),
    3: CodecParams(1024, 64),
    4: CodecParams(1536, 64),
    5: CodecParams(2048, 56),
    6: CodecParams(3072, 37),
    7: CodecParams(4096, 28),
    8: CodecParams(6144, 18),
    9: CodecParams(8192, 14),
}


def level_params(level: int, slot_tokens: int | None = None) -> CodecParams:
    """Return the parameters of a level, with the slot length overridden where given.

    Args:
        level: 1 (short slots, fast) to 9 (longest context).
        slot_tokens: tokens of a slot, or None for the level's own.

    Raises:
        ArgumentError: the level or the slot length is out of range.
    """
    if level not in _LEVELS:
        raise ArgumentError(f"level is {level}; choose 1 to 9")
    params = _LEVELS[level]
    if slot_tokens is None:
        return params
    budget = params.slot_tokens * params.frame_slots
    return CodecParams(slot_tokens, max(1, min(64, budget // max(slot_tokens, 1))))
