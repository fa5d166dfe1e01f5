import io

import pytest

from speccompact.container.format import EndBlock, SeekIndex, pack_end_block, sha_prefix
from speccompact.container.limits import Limits
from speccompact.container.locating import FrameMap, frame_at, locate
from speccompact.container.source import Source
from speccompact.errors import FormatError
from tests.archives import noise, raw_part, raw_single

CONTENTS = [noise(100, 1), noise(200_000, 2), noise(50, 3)]
PART = raw_part(CONTENTS)


class Counting(io.BytesIO):
    """Counts the bytes read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def located(data: bytes) -> tuple[FrameMap, int]:
    stream = Counting(data)
    return locate(Source(stream), Limits()), stream.count


def test_one_part_is_found_through_its_index() -> None:
    frames, count = located(PART)
    assert frames.starts == [0, 100, 200_100, 200_150]
    assert count < 1000


@pytest.mark.parametrize("broken", [-1, -20])
def test_a_damaged_index_is_done_without(broken: int) -> None:
    data = bytearray(PART)
    data[broken] ^= 1
    with pytest.raises(FormatError):
        locate(Source(io.BytesIO(data)), Limits())


def test_an_index_that_does_not_add_up_is_not_believed() -> None:
    header = PART[:10]
    index = SeekIndex.empty()
    for _ in CONTENTS:
        index.add(1 << 62, 100)
    part = header + sha_prefix(4, header) + pack_end_block(EndBlock(index, header, bytes(8)))
    data = part[:-12] + len(part).to_bytes(8, "little") + part[-4:]
    with pytest.raises(FormatError):
        locate(Source(io.BytesIO(data)), Limits())


def test_parts_are_walked_without_reading_payloads() -> None:
    frames, count = located(PART + raw_single(b"") + raw_single(b"middle") + PART)
    assert frames.starts == [0, 100, 200_100, 200_150, 200_156, 200_256, 400_256, 400_306]
    assert [part[0] for part in frames.parts] == [0, 1, 2, 3]
    assert count < 500_000


def test_walk_and_index_agree() -> None:
    walked, indexed = located(PART + raw_single(b""))[0], located(PART)[0]
    assert walked.offsets == indexed.offsets
    assert walked.starts == indexed.starts


def test_every_frame_can_be_read() -> None:
    data = PART + raw_single(b"") + raw_single(b"middle") + PART
    frames = located(data)[0]
    for number, content in enumerate([*CONTENTS, b"middle", *CONTENTS]):
        frame, compressed = frame_at(Source(io.BytesIO(data)), Limits(), frames, number)
        assert frame.split_payload(compressed)[:-1] == content
        assert frame.content_start == frames.starts[number]


def test_positions_are_found() -> None:
    frames = located(PART)[0]
    assert [frames.find(position) for position in (0, 99, 100, 200_099, 200_100, 200_149)] == [0, 0, 1, 1, 2, 2]


def test_a_map_of_another_file() -> None:
    frames = located(PART)[0]
    other = raw_part([noise(101, 1), noise(200_000, 2), noise(50, 3)])
    for number in range(3):
        with pytest.raises(FormatError, match="byte"):
            frame_at(Source(io.BytesIO(other)), Limits(), frames, number)
