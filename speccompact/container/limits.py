"""What a reader is willing to hold: checked against every declared length before memory is taken."""

from dataclasses import dataclass

from speccompact.errors import ArgumentError
from speccompact.params import MAX_FRAME_BYTES, MAX_FRAME_SLOTS, MAX_FRAME_TOKENS, MAX_TABLE_BITS


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one decoding call. Defaults accept every valid file.

    Attributes:
        output_bytes: content bytes of the whole input, at most; None means no bound (the output is streamed, so that
            memory does not grow with it).
        frame_bytes: content bytes of one frame, at most; the format itself allows MAX_FRAME_BYTES.
        frame_tokens: symbols of the model slots of one frame, at most; bounds the target's cache.
            With a memory it also bounds the longest model slot times their number: all of them are held at once.
        frame_slots: slots of one frame, at most.
        frames: frames and parts of the whole input, at most, for those who hold what they have read of each; None means
            no bound.
        table_bits: log2 of the entries of a memory's table of contexts, at most; 22 bytes an entry.
    """

    output_bytes: int | None = None
    frame_bytes: int = MAX_FRAME_BYTES
    frame_tokens: int = MAX_FRAME_TOKENS
    frame_slots: int = MAX_FRAME_SLOTS
    table_bits: int = MAX_TABLE_BITS
    frames: int | None = None

    def __post_init__(self) -> None:
        for name, value, most in (
            ("output_bytes", self.output_bytes, None),
            ("frame_bytes", self.frame_bytes, MAX_FRAME_BYTES),
            ("frame_tokens", self.frame_tokens, MAX_FRAME_TOKENS),
            ("frame_slots", self.frame_slots, MAX_FRAME_SLOTS),
            ("table_bits", self.table_bits, MAX_TABLE_BITS),
            ("frames", self.frames, None),
        ):
            if value is not None and (value < 0 or (most is not None and value > most)):
                bound = "0 or more" if most is None else f"0 to {most}"
                raise ArgumentError(f"limit {name} is {value}; choose {bound}")
