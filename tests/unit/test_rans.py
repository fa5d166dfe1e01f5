import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.entropy.rans import CHECK_BASE, LOWER, LaneReader, encode_lane
from speccompact.errors import DamagedError
from speccompact.params import PRECISION

Interval = tuple[int, int]


def one_interval(precision: int) -> st.SearchStrategy[Interval]:
    total = 1 << precision
    sizes = st.sampled_from([1, 2, total - 1, total, total // 2]) | st.integers(1, total)
    return sizes.flatmap(lambda size: st.tuples(st.integers(0, total - size), st.just(size)))


INTERVALS = st.lists(one_interval(PRECISION), max_size=200)


def encode(intervals: list[Interval], check: int = 0, precision: int = PRECISION) -> bytes:
    starts, sizes = np.array(intervals, np.int64).reshape(-1, 2).T.copy()
    return encode_lane(starts, sizes, precision, check)


def read(lane: bytes, intervals: list[Interval], precision: int = PRECISION) -> int:
    """Pop known intervals, seeing that every point lies in its own; returns the check."""
    reader, place = LaneReader(1, precision), np.array([0])
    reader.load(0, lane, 1 << 20)
    for start, size in intervals:
        assert start <= reader.points(place)[0] < start + size
        reader.advance(place, np.array([start]), np.array([size]))
    return reader.finish(0)


def words_and_state(intervals: list[Interval], check: int) -> bytes:
    """The lane by the book, in Python's integers."""
    state, words = CHECK_BASE + check, b""
    for start, size in reversed(intervals):
        if state >= size << (64 - PRECISION):
            words = (state & 0xFFFFFFFF).to_bytes(4, "little") + words
            state >>= 32
        state = (state // size << PRECISION) + state % size + start
    return state.to_bytes((state.bit_length() + 7) // 8, "little") + words


@given(INTERVALS, st.integers(0, 255))
def test_what_is_pushed_is_popped(intervals: list[Interval], check: int) -> None:
    lane = encode(intervals, check)
    assert lane == words_and_state(intervals, check)
    assert read(lane, intervals) == check


@given(st.integers(20, 31).flatmap(lambda p: st.tuples(st.just(p), st.lists(one_interval(p), max_size=60))))
def test_any_precision(case: tuple[int, list[Interval]]) -> None:
    precision, intervals = case
    assert read(encode(intervals, 7, precision), intervals, precision) == 7


@given(st.lists(INTERVALS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_lanes_side_by_side_do_not_disturb_one_another(texts: list[list[Interval]], source: object) -> None:
    reader = LaneReader(len(texts), PRECISION)
    for place, text in enumerate(texts):
        reader.load(place, encode(text, place), len(text))
    done = [0] * len(texts)
    while left := [place for place, text in enumerate(texts) if done[place] < len(text)]:
        chosen = source.sample(left, source.randint(1, len(left)))  # type: ignore[attr-defined]
        intervals = np.array([texts[place][done[place]] for place in chosen])
        points = reader.points(np.array(chosen))
        assert ((intervals[:, 0] <= points) & (points < intervals.sum(1))).all()
        reader.advance(np.array(chosen), intervals[:, 0].copy(), intervals[:, 1].copy())
        for place in chosen:
            done[place] += 1
    assert [reader.finish(place) for place in range(len(texts))] == list(range(len(texts)))


def test_a_place_is_used_again() -> None:
    reader, place = LaneReader(1, PRECISION), np.array([0])
    long, short = [(5, 1)] * 50, [(9, 3)]
    for text in (long, short, long):
        reader.load(0, encode(text, 3), len(text))
        for start, size in text:
            reader.advance(place, np.array([start]), np.array([size]))
        assert reader.finish(0) == 3


def test_layout() -> None:
    assert encode([], 0) == b"\x00\x01"
    assert encode([], 255) == b"\xff\x01"
    assert encode([(0, 1 << PRECISION)] * 1000, 1) == b"\x01\x01"
    assert encode([(5, 1)]) == bytes.fromhex("0500000010")
    assert encode([(5, 1)] * 2) == bytes.fromhex("05 00 00 00 01 05 00 00 00")


@given(INTERVALS)
def test_the_length_tells_state_from_words(intervals: list[Interval]) -> None:
    lane = encode(intervals)
    size = len(lane) if len(lane) <= 8 else 5 + (len(lane) - 5) % 4
    state = int.from_bytes(lane[:size], "little")
    assert lane[size - 1]
    assert len(lane) == size or state >= LOWER


@given(INTERVALS)
def test_a_lane_is_hardly_longer_than_the_surprise(intervals: list[Interval]) -> None:
    bits = sum(PRECISION - np.log2(size) for _, size in intervals)
    assert 8 * len(encode(intervals)) <= bits * (1 + 1e-7) + 8 * 6


@pytest.mark.parametrize("lane", [b"", b"\x00", b"\x01\x00", bytes(8), bytes(9), b"\x01" * 4 + b"\x00" + b"\x01" * 4])
def test_a_state_without_a_leading_digit_is_damaged(lane: bytes) -> None:
    with pytest.raises(DamagedError, match="valid state"):
        LaneReader(1, PRECISION).load(0, lane, 1 << 20)


SURPRISING = st.lists(st.tuples(st.integers(0, 1 << 27), st.integers(1, 1 << 20)), min_size=9, max_size=60)


@given(SURPRISING)
def test_a_lane_that_is_cut_or_goes_on_is_damaged(intervals: list[Interval]) -> None:
    lane = encode(intervals, 5)
    size = 5 + (len(lane) - 5) % 4
    for changed in (lane[:-4], lane + b"\x01\x02\x03\x04", lane[:size] + lane[size + 4 :]):
        assert survives(changed, intervals) is None


def survives(lane: bytes, intervals: list[Interval]) -> int | None:
    """Read as a decoder that does not know the text would get on with it: the interval of each point is what it is."""
    reader, place = LaneReader(1, PRECISION), np.array([0])
    try:
        reader.load(0, lane, 1 << 20)
        for start, size in intervals:
            if not start <= reader.points(place)[0] < start + size:
                return None
            reader.advance(place, np.array([start]), np.array([size]))
        return reader.finish(0)
    except DamagedError:
        return None


@given(st.binary(min_size=1, max_size=60), st.lists(one_interval(PRECISION), max_size=60))
def test_no_lane_breaks_the_reader(lane: bytes, intervals: list[Interval]) -> None:
    survives(lane, intervals)
