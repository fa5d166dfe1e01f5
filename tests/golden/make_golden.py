"""Makes the golden archives: `python -m tests.golden.make_golden`, from the root of the tree.

A valid archive NAME.spc has its content beside it, NAME.content. An invalid one is NAME.ERROR.spc, ERROR the class
that decoding it raises. Files that exist are kept: a golden archive that was ever released decodes for ever, so a new
version of the format adds files and changes none. Pass --all to make all of them again while a version is in the works.
"""

import sys
from itertools import pairwise

from speccompact import api
from speccompact.container.fields import Cursor, pack_varint
from speccompact.container.format import (
    FileHeader,
    MemoryIdentity,
    ModelIdentity,
    pack_end_block,
    pack_header,
    parse_end_block,
    sha_prefix,
)
from speccompact.container.frames import FrameHead, Kind, Slot
from speccompact.container.framing import pack_single
from speccompact.options import Options
from speccompact.streams.framecodec import slot_check
from speccompact.streams.zstdslots import pack_zstd
from tests.archives import raw_part, raw_single
from tests.tiny_model import GOLDEN, TINY_DIGEST, TINY_EXACT, integers, tiny
from tests.tiny_slots import codec, text_symbols
from tests.tiny_text import GERMAN, READING, RUSSIAN, STORY

VALID, INVALID = GOLDEN / "valid", GOLDEN / "invalid"

Archive = tuple[bytes, bytes]


def noise(size: int, seed: int) -> bytes:
    source = integers(seed)
    return bytes(next(source) >> 8 for _ in range(size))


def packed(content: bytes, slot_tokens: int | None = None, level: int = 5, group_frames: int = 0) -> Archive:
    options = Options(threads=1)
    archive = api.compress(
        content,
        level=level,
        model=str(TINY_EXACT),
        slot_tokens=slot_tokens,
        group_frames=group_frames,
        options=options,
    )
    return archive, content


def joined(*archives: Archive) -> Archive:
    return b"".join(archive for archive, _ in archives), b"".join(content for _, content in archives)


def valid() -> dict[str, Archive]:
    story = STORY.encode()
    escapes = story[:200] + b"\x04\x06\x13\x1d and \xff\xfe and \xc0\xc1" + story[200:400] + b"\xf1\xf2 and \xfb."
    control = b"<|im_start|>user\n" + story[:100] + b"<|im_end|><|endoftext|>\n" + story[100:200]
    mixed = story + noise(700, 1) + RUSSIAN.encode() + bytes(2000) + GERMAN.encode()
    return {
        "empty": packed(b""),
        "one_byte": packed(b"a"),
        "every_byte": packed(bytes(range(256))),
        "one_slot": packed(story),
        "level_1": packed(story, level=1),
        "level_9": packed(RUSSIAN[:200].encode(), level=9),
        "many_slots": packed(READING.encode(), 64),
        "many_frames": packed(READING.encode(), 16),
        "zstd_slot": packed(b"0123456789 " * 300),
        "raw_slot": packed(noise(300, 2)),
        "mixed_slots": packed(mixed, 128),
        "escapes": packed(escapes, 64),
        "control_tokens": packed(control, 64),
        "utf16le_bom": packed(("\ufeff" + STORY).replace("\n", "\r\n").encode("utf-16-le"), 64),
        "utf16be": packed(RUSSIAN.encode("utf-16-be"), 64),
        "utf32le": packed(GERMAN.encode("utf-32-le"), 64),
        "cp1251": packed(RUSSIAN.encode("cp1251"), 64),
        "koi8_r": packed(RUSSIAN.encode("koi8-r"), 64),
        "latin": packed(GERMAN.encode("cp1252"), 64),
        "carriage_returns": packed(STORY.replace("\n", "\r").encode() + STORY[:300].replace("\n", "\r\n").encode(), 64),
        "lone_surrogates": packed((STORY[:300] + "\ud800 and \udfff.").encode("utf-8", "surrogatepass"), 64),
        "far_planes": packed((STORY[:300] + "\U00040000\U000bffff\U0010ffff").encode(), 64),
        "concatenation": joined(packed(story[:300]), packed(b""), packed(noise(90, 3)), packed(READING.encode(), 16)),
        "memory_one_slot": packed(story, group_frames=1),
        "memory_many_slots": packed(READING.encode(), 64, group_frames=1),
        "memory_groups": packed((READING + STORY).encode(), 24, group_frames=2),
        "memory_mixed": packed(READING.encode() + noise(700, 4), 64, group_frames=9),
        "memory_escapes": packed(escapes, 64, group_frames=1),
        "memory_cp1251": packed(RUSSIAN.encode("cp1251"), 64, group_frames=1),
        "memory_lines": packed(READING.replace(", ", ",\n").encode(), 128, group_frames=1),
        "raw_frames": (raw_part([b"one ", b"two ", b"three"], b"gold"), b"one two three"),
    }


IDENTITY = ModelIdentity(1, 28, bytes.fromhex(TINY_DIGEST)[:8], tiny(Options(threads=1))[0].vocabulary_digest[:2])


def changed(data: bytes, at: int, value: int | None = None) -> bytes:
    """Return data with one byte replaced, or with its bits inverted."""
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 0xFF if value is None else value]) + data[at + 1 :]


def part(header: bytes, head: bytes, payload: bytes = b"", content: bytes = b"", check: int = 4) -> bytes:
    """Return a single-frame part of any bytes, its checks right."""
    return b"".join(
        (header, head, sha_prefix(1, header, head), payload, sha_prefix(check, header, head, payload, content))
    )


def lane_part(payload: bytes, tokens: int, size: int, identity: ModelIdentity = IDENTITY, charset: int = 0) -> bytes:
    """Return a part of one model slot that holds any lane and declares `size` bytes; its frame check is wrong."""
    head = FrameHead((Slot(Kind.MODEL, len(payload), None, tokens, charset),), size)
    return pack_single(FileHeader(0, identity, None), head, payload, b"")


def memory_part(memory: MemoryIdentity | None, *, goes_on: bool) -> bytes:
    """Return a part of one model slot with any memory; its frame check is wrong."""
    head = FrameHead((Slot(Kind.MODEL, 80, None, 90),), 200, goes_on=goes_on)
    return pack_single(FileHeader(0, IDENTITY, None, memory), head, bytes(range(80, 160)), b"")


def zstd_part(payload: bytes, content_bytes: int) -> bytes:
    head = FrameHead((Slot(Kind.ZSTD, len(payload), content_bytes),), content_bytes)
    return pack_single(FileHeader(0, None, None), head, payload + b"\0", b"")


def wrong_index() -> bytes:
    """Return a part whose index gives another content check, all other checks right."""
    frames = raw_part([b"one ", b"two "], b"gold")
    size = int.from_bytes(frames[-16:-12], "little")
    block = parse_end_block(Cursor(frames[-16 - size : -16]))
    return frames[: -16 - size] + pack_end_block(type(block)(block.index, block.header, bytes(8)))


def invalid() -> dict[str, bytes]:
    plain = pack_header(FileHeader(0, None, None))
    model = pack_header(FileHeader(0, IDENTITY, None))
    slot, _ = packed(STORY.encode())
    many, _ = packed(READING.encode(), 64)
    raw, frames = raw_single(b"hello\n"), raw_part([b"one ", b"two ", b"three"], b"gold")
    starts = [frame.offset for frame in api.inspect(frames).frames] + [frames.index(b"\xd3\x3e\x69\x1b")]
    one, two, three = (frames[a:b] for a, b in pairwise(starts))
    start, end = frames[: starts[0]], frames[starts[-1] :]
    lane = bytes(range(1, 90))
    words = text_symbols(20)
    text = tiny(Options(threads=1))[0].vocabulary.join(words)
    check = slot_check(text)
    sound, odd = (slot.payload for slot in codec().encode([words, words], [check, check ^ 1]))
    huge, one_raw = pack_varint(1 << 60), b"\x12"
    return {
        "no_data.TruncatedError": b"",
        "text.NotSpecCompactError": b"This is no archive.\n",
        "magic_of_zstd.NotSpecCompactError": b"\x28\xb5\x2f\xfd\x04\x00",
        "bad_magic.NotSpecCompactError": changed(raw, 3),
        "trailing_bytes.NotSpecCompactError": raw + b"more",
        "future_version.UnsupportedError": part(changed(plain, 4, 2), b"\x12\x01", b"a" + b"\0", b"a"),
        "reserved_flag.UnsupportedError": part(changed(plain, 5, 0x09), b"\x12\x01", b"a" + b"\0", b"a"),
        "reserved_frame_kind.UnsupportedError": part(plain, b"\x52\x01", b"a" + b"\0", b"a"),
        "reserved_slot_kind.UnsupportedError": part(plain, b"\x03\x02\x05\xf0\x02\x02", bytes(6)),
        "reserved_charset_mode.UnsupportedError": part(model, b"\x1c\x05\x01\x01", b"\x01"),
        "future_exact_version.UnsupportedError": lane_part(lane, 80, 200, ModelIdentity(2, 28, *_digests())),
        "future_precision.UnsupportedError": lane_part(lane, 80, 200, ModelIdentity(1, 24, *_digests())),
        "unknown_charset.UnsupportedError": lane_part(sound, len(words), 200, charset=200),
        "no_model_named.UnsupportedError": part(plain, b"\x10\x05\x01\x01", b"\x01"),
        "other_model.ModelMissingError": lane_part(lane, 80, 200, ModelIdentity(1, 28, bytes(8), bytes(2))),
        "other_vocabulary.ModelDamagedError": lane_part(lane, 80, 200, ModelIdentity(1, 28, _digests()[0], bytes(2))),
        "cut_in_magic.TruncatedError": slot[:3],
        "cut_in_header.TruncatedError": slot[:12],
        "cut_in_frame_head.TruncatedError": slot[:19],
        "cut_in_payload.TruncatedError": slot[:60],
        "cut_in_frame_check.TruncatedError": slot[:-1],
        "cut_between_frames.TruncatedError": frames[: starts[1]],
        "cut_in_trailer.TruncatedError": frames[:-1],
        "bad_head_check.DamagedError": changed(raw, 8),
        "bad_raw_payload.DamagedError": changed(raw, 10),
        "bad_slot_check.DamagedError": part(plain, b"\x12\x01", b"a" + bytes([slot_check(b"a") ^ 1]), b"a"),
        "bad_frame_check.DamagedError": changed(raw, -1),
        "bad_lane.DamagedError": changed(slot, 70),
        "bad_lane_of_many.DamagedError": changed(many, len(many) // 2),
        "bad_frame_check_of_lane.DamagedError": changed(slot, -1),
        "bad_header_check.DamagedError": changed(frames, 10),
        "bad_sync.DamagedError": changed(frames, starts[1] + 1),
        "bad_payload_check.DamagedError": changed(frames, starts[1] + 13),
        "bad_end_block.DamagedError": changed(frames, starts[-1] + 5),
        "bad_trailer.DamagedError": changed(frames, -1),
        "bad_content_check.DamagedError": wrong_index(),
        "frames_swapped.DamagedError": start + two + one + three + end,
        "frame_repeated.DamagedError": start + one + one + two + three + end,
        "frame_missing.DamagedError": start + one + three + end,
        "frame_of_another_part.DamagedError": start + one + raw_part([b"one ", b"two "], b"else")[starts[1] :],
        "slot_count_of_one.DamagedError": part(plain, b"\x02\x01\x05", bytes(6)),
        "too_many_slots.DamagedError": part(plain, b"\x02" + pack_varint(4097) + b"\x05", bytes(6)),
        "long_varint.DamagedError": part(plain, one_raw + b"\x80\x00", bytes(1)),
        "endless_varint.DamagedError": part(plain, one_raw + b"\xff" * 12, bytes(1)),
        "huge_content.LimitError": part(plain, one_raw + huge, bytes(6)),
        "no_content.DamagedError": part(plain, one_raw + b"\x00", b"\0"),
        "payload_beyond_content.DamagedError": part(plain, b"\x11\x05" + b"\x06", bytes(7)),
        "contents_beyond_frame.DamagedError": part(plain, b"\x02\x02\x05\x04\x04", bytes(10)),
        "huge_token_total.DamagedError": part(model, b"\x10\x05" + huge + b"\x01", b"\x01"),
        "no_tokens.DamagedError": part(model, b"\x10\x05\x00\x01", b"\x01"),
        "huge_payload_total.DamagedError": part(model, b"\x10\x05\x01" + huge, b"\x01"),
        "slot_beyond_the_model.DamagedError": lane_part(b"\x01" * 9, 2049, 6000),
        "slot_beyond_the_format.DamagedError": part(model, b"\x10" + pack_varint(9000) * 2 + b"\x01", b"\x01"),
        "zstd_bomb.DamagedError": zstd_part(pack_zstd(bytes(8_000_000)), 1000),
        "zstd_short.DamagedError": zstd_part(pack_zstd(bytes(999)), 1000),
        "no_frames.DamagedError": raw_part([]),
        "zstd_of_four_gigabytes.DamagedError": zstd_part(
            b"\xc0" + (1 << 32).to_bytes(8, "little") + b"\x55\0\0\x18abc", 99
        ),
        "zstd_garbage.DamagedError": zstd_part(bytes(range(90)), 1000),
        "future_memory.UnsupportedError": memory_part(MemoryIdentity(2, 12), goes_on=False),
        "memory_too_small.UnsupportedError": memory_part(MemoryIdentity(1, 9), goes_on=False),
        "memory_too_large.LimitError": memory_part(MemoryIdentity(1, 25), goes_on=False),
        "memory_of_too_many_tokens.LimitError": _wide(),
        "memory_lane_too_long.DamagedError": _long_lane(),
        "memory_goes_on_alone.DamagedError": memory_part(MemoryIdentity(1, 12), goes_on=True),
        "memory_bad_lane.DamagedError": memory_part(MemoryIdentity(1, 12), goes_on=False),
        "goes_on_without_memory.DamagedError": memory_part(None, goes_on=True),
        "goes_on_without_model.DamagedError": part(plain, b"\x32\x01", b"a" + b"\0", b"a"),
        "memory_without_model.UnsupportedError": part(changed(plain, 5, 0x05), b"\x12\x01", b"a" + b"\0", b"a"),
        "group_begins_in_the_middle.DamagedError": _without_first_frame(),
        "lane_without_state.DamagedError": lane_part(b"\x00", 1, 5),
        "lane_empty.DamagedError": lane_part(b"", 1, 5),
        "lane_too_long.DamagedError": lane_part(lane, 1, 200),
        "lane_of_too_many_bytes.DamagedError": lane_part(sound, len(words), len(text) - 1),
        "lane_of_too_few_bytes.DamagedError": lane_part(sound, len(words), len(text) + 1),
        "lane_with_a_wrong_frame_check.DamagedError": lane_part(sound, len(words), len(text)),
        "lane_with_another_check.DamagedError": lane_part(odd, len(words), len(text)),
    }


def _wide() -> bytes:
    """Return a part of 32 slots of one symbol and one of 8192, which lie side by side."""
    slots = (*[Slot(Kind.MODEL, 2, None, 1)] * 32, Slot(Kind.MODEL, 900, None, 8192))
    head = FrameHead(slots, 9000)
    return pack_single(
        FileHeader(0, IDENTITY, None, MemoryIdentity(1, 12)), head, bytes(range(1, 65)) + b"a" * 900, b""
    )


def _long_lane() -> bytes:
    """Return a part of one slot with a lane that no two symbols can fill."""
    head = FrameHead((Slot(Kind.MODEL, 80, None, 2),), 200)
    return pack_single(FileHeader(0, IDENTITY, None, MemoryIdentity(1, 12)), head, bytes(range(1, 81)), b"")


def _without_first_frame() -> bytes:
    """Return a part whose first frame is rewritten to go on, its checks right."""
    archive, _ = packed((READING + STORY).encode(), 24, group_frames=2)
    frames = api.inspect(archive).frames
    header, first = archive[: frames[0].offset - 4], frames[0].offset + 4
    size = frames[0].compressed_bytes - frames[0].payload_bytes - 4 - 4 - 4 - 8
    head = changed(archive[first : first + size], 0, archive[first] | 0x20)
    return archive[:first] + head + sha_prefix(4, header, head) + archive[first + size + 4 :]


def _digests() -> tuple[bytes, bytes]:
    return IDENTITY.digest, IDENTITY.vocabulary_digest


def main() -> None:
    again = "--all" in sys.argv
    files = {INVALID / f"{name}.spc": archive for name, archive in invalid().items()}
    for name, (archive, content) in valid().items():
        files |= {VALID / f"{name}.spc": archive, VALID / f"{name}.content": content}
    for path, data in files.items():
        if again or not path.exists():
            path.write_bytes(data)


if __name__ == "__main__":
    main()
