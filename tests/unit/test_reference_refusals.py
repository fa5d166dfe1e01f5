"""What FORMAT.md and EXACT.md say must be refused, is, by the decoder of tests.reference and by the product."""

from collections.abc import Callable

import pytest
import zstandard

from speccompact import api
from speccompact.errors import SpecCompactError
from tests.reference.decoder import decode
from tests.reference.exactmodel import read_exact_model
from tests.reference.wire import Refused, check
from tests.reference.writing import WITH_MODEL, changed_model, multi_part, raw_section, single_part, varint
from tests.tiny_model import TINY_EXACT

HELLO = b"hello\n"
TWO = raw_section(b"hel") + raw_section(b"lo\n")
REPEATED = b"abc" * 300
IDENTITY = bytes([1, 28]) + bytes(10)


def raw(head: str, section: bytes = raw_section(HELLO), flags: int = 0, slots: int = 1) -> bytes:
    """Return an archive of HELLO with any frame head."""
    return single_part(flags, bytes.fromhex(head), section, HELLO, slots)


def model_head(head: str) -> bytes:
    """Return an archive with any frame head of model slots, and a payload of one byte."""
    return single_part(WITH_MODEL, bytes.fromhex(head), b"\1", HELLO, 1, IDENTITY)


def zstd(change: Callable[[bytes], bytes]) -> bytes:
    """Return an archive of one zstd slot whose payload went through `change`."""
    parameters = zstandard.ZstdCompressionParameters(window_log=10, write_content_size=False, write_checksum=False)
    payload = change(zstandard.ZstdCompressor(compression_params=parameters).compress(REPEATED)[4:])
    head = b"\x11" + varint(len(REPEATED)) + varint(len(payload))
    return single_part(0, head, payload + check(1, REPEATED), REPEATED)


VALID = {
    "one raw slot": raw("12 06"),
    "level 15": raw("12 06", flags=15 << 4),
    "two raw slots": raw("02 02 06 03 03", TWO, slots=2),
    "mixed kinds that are alike": raw("03 02 06 a0 03 03", TWO, slots=2),
    "mixed kinds of one slot": raw("13 06 80"),
    "an identity that nothing needs": single_part(WITH_MODEL, b"\x12\x06", raw_section(HELLO), HELLO, 1, IDENTITY),
    "zstd": zstd(lambda payload: payload),
    "zstd with the largest window": zstd(lambda payload: payload[:1] + bytes([13 << 3]) + payload[2:]),
    "frames": multi_part([HELLO[:4], HELLO[4:]]),
}

INVALID = {
    "no data": b"",
    "flag bit 2": raw("12 06", flags=4),
    "flag bit 3": raw("12 06", flags=8),
    "frame kind bit 5": raw("32 06"),
    "frame kind bit 7": raw("92 06"),
    "charset mode without model slots": raw("16 06 00"),
    "charset mode 3": model_head("1c 06 02 01"),
    "charset 30": model_head("14 06 1e 02 01"),
    "slot count 1": raw("02 01 06 06"),
    "slot count 4097": raw("02 81 20 06"),
    "slot count 0 of kind 1": single_part(0, b"\x01\x00", b"", b"", 0),
    "slot kind 3": raw("03 02 06 b0 03 03", TWO, slots=2),
    "reserved bits behind the slot kinds": raw("03 02 06 a1 03 03", TWO, slots=2),
    "a varint too long": raw("12 86 00"),
    "a varint of ten bytes": raw("12 86 80 80 80 80 80 80 80 80 00"),
    "short frame check of two slots": raw("02 02 06 03 03", TWO, slots=1),
    "long frame check of one slot": raw("12 06", slots=2),
    "content 0": raw("12 00"),
    "content beyond 8 MiB": raw("11 81 80 80 04 01"),
    "slots smaller than the frame": raw("02 02 07 03 03", TWO, slots=2),
    "slots larger than the frame": raw("02 02 05 03 03", TWO, slots=2),
    "a raw slot of 0 bytes": raw("02 02 06 06 00", raw_section(HELLO) + raw_section(b""), slots=2),
    "zstd payload larger than content": raw("11 06 07"),
    "no room for a model slot": model_head("03 02 06 80 06 01 01"),
    "no symbols": model_head("10 06 00 01"),
    "more symbols than three a byte": model_head("10 06 13 01"),
    "more payload than content": model_head("10 06 02 07"),
    "a slot of 8193 symbols": model_head("10 80 80 01 81 40 01"),
    "too many symbols": model_head("10 80 80 40 81 80 10 01"),
    "a model slot of no symbols": model_head("00 02 06 02 02 08 00"),
    "a model slot without identity": raw("10 06 02 01", b"\1"),
    "wrong slot check": raw("12 06", HELLO + b"\0"),
    "zstd with bytes behind it": zstd(lambda payload: payload + b"\0"),
    "a multi-frame part without frames": multi_part([]),
    "zstd with a content size": zstd(lambda payload: b"\x40\0" + payload[1:]),
    "zstd cut": zstd(lambda payload: payload[:-1]),
    "zstd with a window beyond 8 MiB": zstd(lambda payload: payload[:1] + bytes([13 << 3 | 1]) + payload[2:]),
    "ordinal 1 first": multi_part([HELLO, HELLO], [(1, 0), (1, 6)]),
    "ordinal repeated": multi_part([HELLO, HELLO], [(0, 0), (0, 6)]),
    "content offset too large": multi_part([HELLO, HELLO], [(0, 0), (1, 7)]),
    "bytes behind the archive": raw("12 06") + b"\0",
}


def no_model(_digest: bytes) -> bytes:
    raise AssertionError("no model is needed")


@pytest.mark.parametrize("name", VALID)
def test_what_is_valid_decodes(name: str) -> None:
    assert decode(VALID[name], no_model) in (HELLO, REPEATED)
    assert api.decompress(VALID[name]) in (HELLO, REPEATED)


@pytest.mark.parametrize("name", INVALID)
def test_what_is_invalid_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        decode(INVALID[name], no_model)
    with pytest.raises(SpecCompactError):
        api.decompress(INVALID[name])


@pytest.mark.parametrize("name", ["one raw slot", "frames"])
def test_any_change_and_any_cut_is_refused(name: str) -> None:
    archive = VALID[name]
    changed = [
        archive[:at] + bytes([archive[at] ^ bit]) + archive[at + 1 :]
        for at in range(len(archive))
        for bit in (1, 4, 128)
    ]
    for damaged in changed + [archive[:size] for size in range(len(archive))]:
        with pytest.raises(Refused):
            decode(damaged, no_model)
        with pytest.raises(SpecCompactError):
            api.decompress(damaged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("exact_version", 2), ("heads", 5), ("head_dim", 7), ("hidden", 47), ("embed_shift", 16), ("vocab", True),
        ("norm_gain", 1 << 20), ("norm_epsilon", 1 << 43), ("score_factor", (1 << 33) + 1), ("layers", 0),
        ("positions", 8193), ("linears/head/k1", 41), ("linears/head/k2", 0), ("linears/layers.0.down/acc", 1),
        ("linears/layers.1.o/inner", 1), ("linears", {}), ("linears", 1),
    ],
)  # fmt: skip
def test_a_model_with_a_broken_bound_is_refused(key: str, value: object) -> None:
    with pytest.raises(Refused):
        read_exact_model(changed_model(TINY_EXACT.read_bytes(), {key: value}))


def test_a_model_with_another_digest_or_layout_is_refused() -> None:
    data = TINY_EXACT.read_bytes()
    assert changed_model(data, {"vocab": 460}) == data
    for damaged in (data[:-1], data + b"\0", data[:100], data[:20] + b" " + data[21:], b""):
        with pytest.raises(Refused):
            read_exact_model(damaged)
    with pytest.raises(Refused):
        decode(model_head("10 06 02 01"), lambda _digest: data)
