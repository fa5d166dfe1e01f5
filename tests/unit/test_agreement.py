"""An archive and its content are compared however they are cut, and whatever is wrong with either is found."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import speccompact
from speccompact.client import agreement
from speccompact.client.agreement import Agreement
from speccompact.client.exchanges import check_pair
from speccompact.errors import FormatError, ServiceError, SpecCompactError, TruncatedError
from tests.fakes import FakeEngines, prose


def packed(content: bytes, **options: int) -> bytes:
    return speccompact.compress(content, engines=FakeEngines(), **options)  # type: ignore[arg-type]


CONTENT = prose(60_000) + random.Random(1).randbytes(9000)
MANY = packed(CONTENT, slot_tokens=64, group_frames=0)
SMALL = prose(300)
PAIRS = {
    "many frames": (MANY, CONTENT),
    "one frame": (packed(SMALL), SMALL),
    "empty": (packed(b""), b""),
    "concatenated": (packed(SMALL) + MANY + packed(b"") + packed(SMALL[::-1]), SMALL + CONTENT + SMALL[::-1]),
}


def test_there_is_more_than_one_frame() -> None:
    assert len(speccompact.inspect(MANY).frames) > 2


@pytest.mark.parametrize("name", PAIRS)
@given(seed=st.integers(0, 1 << 30))
def test_any_cut_and_any_order(name: str, seed: int) -> None:
    archive, content = PAIRS[name]
    chance = random.Random(seed)
    checked = Agreement()
    at, reached = 0, 0
    while at < len(archive) or reached < len(content):
        size = chance.choice((1, 7, 300, 5000, 100_000))
        if chance.random() < 0.5:
            checked.take_archive(archive[at : at + size])
            at += size
        else:
            checked.take_content(content[reached : reached + size])
            reached += size
    checked.finish()
    assert (checked.matched_archive, checked.matched_content) == (len(archive), len(content))
    assert (checked.archive_bytes, checked.content_bytes) == (len(archive), len(content))


@pytest.mark.parametrize("name", PAIRS)
def test_content_that_is_not_that_of_the_archive(name: str) -> None:
    archive, content = PAIRS[name]
    for wrong in (content + b"x", content[:-1] if content else b"y", content[:-1] + b"\0\0"):
        with pytest.raises(ServiceError):
            check_pair(wrong, archive, archive_is_answer=False)
        with pytest.raises(ServiceError):
            check_pair(wrong, archive, archive_is_answer=True)


@given(where=st.integers(0, len(MANY) - 1), bit=st.integers(0, 7))
def test_no_bit_of_an_archive_may_differ(where: int, bit: int) -> None:
    damaged = bytearray(MANY)
    damaged[where] ^= 1 << bit
    with pytest.raises(ServiceError):
        check_pair(CONTENT, bytes(damaged), archive_is_answer=True)


@given(size=st.integers(0, len(MANY) - 1))
def test_an_archive_that_is_cut_short(size: int) -> None:
    with pytest.raises(ServiceError):
        check_pair(CONTENT, MANY[:size], archive_is_answer=True)
    checked = Agreement()
    checked.take_content(CONTENT)
    with pytest.raises((TruncatedError, ServiceError)):
        checked.take_archive(MANY[:size])
        checked.finish()


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        (lambda checked: checked.take_archive(CONTENT), FormatError),
        (lambda checked: checked.take_archive(MANY + b"more"), FormatError),
        (lambda checked: checked.finish(), TruncatedError),
    ],
)
def test_what_is_no_archive(finish: Callable[[Agreement], None], kind: type[SpecCompactError]) -> None:
    checked = Agreement()
    checked.take_content(CONTENT)
    with pytest.raises(kind):
        finish(checked)
        checked.finish()


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "MOST_UNMATCHED_BYTES", 10_000)
    checked = Agreement()
    checked.take_content(CONTENT[:9000])
    with pytest.raises(ServiceError, match="given nothing back"):
        checked.take_content(CONTENT[9000:])
