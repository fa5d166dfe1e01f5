import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from speccompact.errors import DamagedError
from speccompact.streams.zstdslots import pack_zstd, unpack_zstd
from tests.fakes import prose


@given(st.binary(min_size=1, max_size=2000))
def test_content_comes_back(content: bytes) -> None:
    assert unpack_zstd(pack_zstd(content), len(content)) == content


def test_any_zstandard_reads_it_with_a_magic_number_in_front() -> None:
    content = prose(50_000)
    frame = b"\x28\xb5\x2f\xfd" + pack_zstd(content)
    assert zstandard.ZstdDecompressor().decompress(frame, max_output_size=len(content)) == content


@pytest.mark.parametrize("size", [999, 1001, 1])
def test_another_size_is_refused(size: int) -> None:
    with pytest.raises(DamagedError):
        unpack_zstd(pack_zstd(prose(1000)), size)


@pytest.mark.parametrize("payload", [b"", b"\xff" * 20, pack_zstd(prose(500)) + b"x", pack_zstd(prose(500))[:-1]])
def test_damage(payload: bytes) -> None:
    with pytest.raises(DamagedError):
        unpack_zstd(payload, 500)


def test_a_bomb_gets_no_more_than_it_declares() -> None:
    with pytest.raises(DamagedError):
        unpack_zstd(pack_zstd(bytes(8_000_000)), 1000)


@pytest.mark.parametrize("descriptor", [1 << bit for bit in range(8)] + [0xC0, 0xE0])
def test_a_header_with_optional_fields_is_not_decoded(monkeypatch: pytest.MonkeyPatch, descriptor: int) -> None:
    def decoder(**_: object) -> None:
        raise AssertionError("it reached the decoder")

    monkeypatch.setattr(zstandard, "ZstdDecompressor", decoder)
    with pytest.raises(DamagedError, match=f"begins with {descriptor:02x}"):
        unpack_zstd(bytes([descriptor]) + pack_zstd(prose(500))[1:], 500)


def test_a_header_of_four_gigabytes_takes_no_memory() -> None:
    payload = bytes.fromhex("c0000000000100000055000018616263")
    with pytest.raises(DamagedError, match="begins with c0"):
        unpack_zstd(payload, 1)
