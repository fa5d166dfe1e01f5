"""Small contents that break careless compressors, by kind."""

from tests.tiny_model import babble, integers
from tests.tiny_text import GERMAN, RUSSIAN, STORY

INVALID_UTF8 = {
    "continuation_alone": b"\x80",
    "start_alone": b"\xc3",
    "cut_after_two_of_three": b"\xe2\x82",
    "cut_after_three_of_four": b"\xf0\x9f\x98",
    "overlong_of_two": b"\xc0\xaf",
    "overlong_of_three": b"\xe0\x80\xaf",
    "overlong_of_four": b"\xf0\x80\x80\xaf",
    "surrogate": b"\xed\xa0\x80",
    "surrogate_pair": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond_unicode": b"\xf4\x90\x80\x80",
    "five_bytes": b"\xf8\x88\x80\x80\x80",
    "six_bytes": b"\xfc\x84\x80\x80\x80\x80",
    "never_bytes": b"\xfe\xff\xfe\xff",
}


def noise(size: int, seed: int = 0) -> bytes:
    source = integers(seed)
    return bytes(next(source) >> 8 for _ in range(size))


def hostile_files() -> dict[str, bytes]:
    """Return contents by name."""
    story = STORY.encode()
    special = "<|im_start|>system\nYou are <|endoftext|> and <|im_end|>\n" * 5 + "<|im_start|"
    files = {
        "empty": b"",
        **{f"one_byte_{value:02x}": bytes([value]) for value in (0x00, 0x0A, 0x0D, 0x20, 0x41, 0x80, 0xC3, 0xFF)},
        "every_byte": bytes(range(256)),
        "every_byte_in_text": b"".join(b"the ice " + bytes([value]) for value in range(256)),
        "every_pair_of_bytes_somewhere": bytes(value ^ shift for shift in (0, 1, 3, 128) for value in range(256)),
        "crlf": story.replace(b"\n", b"\r\n"),
        "lone_cr": story.replace(b"\n", b"\r"),
        "mixed_ends": story.replace(b"\n", b"\r\n", 3).replace(b"\n", b"\n\r"),
        "bom": b"\xef\xbb\xbf" + story,
        "only_bom": b"\xef\xbb\xbf",
        "bom_inside": story[:100] + b"\xef\xbb\xbf" + story[100:],
        "utf16le": ("\ufeff" + RUSSIAN).encode("utf-16-le"),
        "utf16be": ("\ufeff" + RUSSIAN).encode("utf-16-be"),
        "utf16_odd": STORY.encode("utf-16-le") + b"x",
        "utf16_surrogate": (STORY[:200] + "\ud83d" + STORY[:99]).encode("utf-16-le", "surrogatepass"),
        "utf32": GERMAN.encode("utf-32-le"),
        "cp1251": RUSSIAN.encode("cp1251"),
        "koi8": RUSSIAN.encode("koi8-r"),
        "latin1": GERMAN.encode("latin-1"),
        "nul_in_text": story.replace(b" ", b"\0"),
        "control_bytes": story + bytes(range(32)) * 3,
        "escape_sequences": b"\x1b[31merror\x1b[0m " * 20,
        "special_tokens": special.encode(),
        "special_token_alone": b"<|endoftext|>",
        "gpt2_letters": "Ġthe Ċ Ã© ĉ".encode() * 9,
        "far_planes": "".join(map(chr, range(0x3FFF0, 0x40010))).encode() + "\U000bffff\U0010ffff".encode(),
        "private_and_never": "\ue000\uf8ff\ufffe\uffff\ufdd0\U0001fffe".encode() * 7,
        "replacement": "\ufffd??\ufffd".encode() * 20,
        "combining": ("e" + "\u0301" * 500 + "\u200d\u202e\u2066").encode(),
        "emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽".encode() * 20,
        "spaces": b" " * 3000 + b"\t" * 500 + b"\n" * 500,
        "digits": "".join(str(value * value) for value in range(900)).encode(),
        "long_run": b"a" * 1_000_000,
        "long_run_of_ff": b"\xff" * 70_000,
        "nul_run": bytes(70_000),
        "noise": noise(5000),
        "noise_of_letters": bytes(97 + byte % 26 for byte in noise(3000, 1)),
        "base64_like": b"".join(b"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="[byte % 36 :] for byte in noise(99, 2)),
        "noise_between_text": story + noise(2000, 3) + story + noise(3, 4) + story,
        "archive_like": b"\xd3SPC\x01\x01" + story + b"\xd3\xc1\x96\xe4" + story[:99] + b"\xd3END",
        "babble": babble(6000, 1).encode(),
        "no_end_of_line": b"the ice",
        "text_then_cut": RUSSIAN.encode()[:-2],
    }
    files |= {f"invalid_{name}": story[:80] + data + story[80:150] for name, data in INVALID_UTF8.items()}
    return files | {f"bare_{name}": data for name, data in INVALID_UTF8.items()}
