"""One frame as bytes, in a part of its own or among others: building it, and taking it apart again.

FORMAT.md section 4. Payload and content are opaque here; the checks over both are not.
"""

from dataclasses import dataclass

from speccompact.container.format import (
    HEAD_CHECK_BYTES,
    PAYLOAD_CHECK_BYTES,
    SINGLE_HEAD_CHECK_BYTES,
    SYNC,
    FileHeader,
    frame_check_bytes,
    pack_header,
    sha_prefix,
)
from speccompact.container.frames import FrameHead, Kind, pack_frame_head
from speccompact.container.limits import Limits
from speccompact.errors import DamagedError, FormatError, LimitError, TruncatedError


def pack_single(header: FileHeader, head: FrameHead, payload: bytes, content: bytes) -> bytes:
    """Return a whole single-frame part (FORMAT.md section 2)."""
    header_bytes, head_bytes = pack_header(header), pack_frame_head(head, single=True)
    check = frame_check_bytes(single=True, slots=len(head.slots))
    return b"".join(
        (
            header_bytes,
            head_bytes,
            sha_prefix(SINGLE_HEAD_CHECK_BYTES, header_bytes, head_bytes),
            payload,
            sha_prefix(check, header_bytes, head_bytes, payload, content),
        )
    )


def pack_frame(header_bytes: bytes, head: FrameHead, payload: bytes, content: bytes) -> bytes:
    """Return a frame of a multi-frame part."""
    head_bytes = pack_frame_head(head, single=False)
    check = frame_check_bytes(single=False, slots=len(head.slots))
    return b"".join(
        (
            SYNC,
            head_bytes,
            sha_prefix(HEAD_CHECK_BYTES, header_bytes, head_bytes),
            payload,
            sha_prefix(PAYLOAD_CHECK_BYTES, payload),
            sha_prefix(check, header_bytes, head_bytes, payload, content),
        )
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame whose head was read and checked; its payload is still ahead in the source.

    Attributes:
        part: number of the part in the input, from 0.
        header: header of the part; `header_bytes` its bytes, without their check.
        head: the frame's own; `head_bytes` likewise.
        offset: where the frame starts in the input (sync marker; in a single-frame part the header).
        prelude_bytes: bytes before the payload, from `offset` on.
        content_start: first content byte of the frame, counted over the whole input.
    """

    part: int
    header: FileHeader
    header_bytes: bytes
    head: FrameHead
    head_bytes: bytes
    offset: int
    prelude_bytes: int
    content_start: int

    @property
    def name(self) -> str:
        """Part, frame and offset, for messages."""
        return place(self.part, self.head.ordinal, self.offset)

    @property
    def compressed_bytes(self) -> int:
        """Bytes from `offset` to the end of the frame check."""
        checks = frame_check_bytes(single=self.header.single, slots=len(self.head.slots))
        return self.prelude_bytes + self.head.payload_bytes + checks + self._payload_check_bytes

    @property
    def _payload_check_bytes(self) -> int:
        return 0 if self.header.single else PAYLOAD_CHECK_BYTES

    def split_payload(self, data: bytes) -> bytes:
        """Return the payload section of `data`, the compressed bytes of this frame.

        Raises:
            TruncatedError: the data ends too early.
            DamagedError: the payload check fails.
        """
        if len(data) < self.compressed_bytes:
            raise TruncatedError(f"{self.name}: the data ends {self.compressed_bytes - len(data)} bytes too early")
        stop = self.prelude_bytes + self.head.payload_bytes
        payload = data[self.prelude_bytes : stop]
        if not self.header.single and data[stop : stop + PAYLOAD_CHECK_BYTES] != sha_prefix(
            PAYLOAD_CHECK_BYTES, payload
        ):
            raise DamagedError(f"{self.name} is damaged: the payload check fails")
        return payload

    def verify(self, data: bytes, content: bytes) -> None:
        """Compare the frame check of `data` with the decoded content.

        Raises:
            DamagedError: it differs, or the content has another length than the head says.
        """
        if len(content) != self.head.content_bytes:
            raise DamagedError(
                f"{self.name} is damaged: it holds {len(content)} bytes of content, not {self.head.content_bytes}"
            )
        stop = self.prelude_bytes + self.head.payload_bytes
        check = data[stop + self._payload_check_bytes : self.compressed_bytes]
        payload = data[self.prelude_bytes : stop]
        if check != sha_prefix(len(check), self.header_bytes, self.head_bytes, payload, content):
            raise DamagedError(f"{self.name} is damaged: the frame check fails")


def place(part: int, ordinal: int, offset: int) -> str:
    """Return the words that locate a frame in a message. Parts are named only where there is more than one."""
    return f"part {part}, frame {ordinal} at byte {offset}" if part else f"frame {ordinal} at byte {offset}"


def locate_error(error: FormatError | LimitError, where: str) -> FormatError | LimitError:
    """Return `error` with its place in front of the message, and whether it means damage."""
    return type(error)(f"{where} is damaged: {error}" if isinstance(error, DamagedError) else f"{where}: {error}")


def check_limits(header: FileHeader, head: FrameHead, limits: Limits) -> None:
    """Compare what a head declares with the limits. Raises LimitError."""
    if header.memory is not None and head.count(Kind.MODEL):
        bits, held = header.memory.table_bits, head.count(Kind.MODEL) * max(slot.tokens for slot in head.slots)
        if held > limits.frame_tokens:
            raise LimitError(
                f"with a memory, the longest model slot times their number is {held} tokens; the limit is "
                f"{limits.frame_tokens}"
            )
        if bits > limits.table_bits:
            raise LimitError(f"the memory has 2**{bits} entries; the limit is 2**{limits.table_bits}")
    for what, value, most in (
        ("bytes of content", head.content_bytes, limits.frame_bytes),
        ("tokens", head.tokens, limits.frame_tokens),
        ("slots", len(head.slots), limits.frame_slots),
    ):
        if value > most:
            raise LimitError(f"the frame declares {value} {what}; the limit is {most}")
