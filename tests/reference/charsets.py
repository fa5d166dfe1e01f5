"""FORMAT.md section 6.3: from the UTF-8 that a model slot codes back to the charset of the content."""

from tests.reference.wire import Refused

WIDE = {1: "utf-16-le", 2: "utf-16-be", 3: "utf-32-le", 4: "utf-32-be"}

SINGLE_BYTE = (
    "cp1252", "cp1250", "iso8859-2", "iso8859-15", "cp437", "cp850", "cp852", "mac-roman", "cp1251", "iso8859-5",
    "koi8-r", "koi8-u", "cp866", "mac-cyrillic", "cp1253", "iso8859-7", "cp1254", "cp1255", "iso8859-8", "cp1256",
    "iso8859-6", "cp1257", "cp1258", "tis-620", "cp037",
)  # fmt: skip
"""Charsets 5 to 29, by the names that Python's codecs have for the tables of the Unicode Consortium."""

LAST = 4 + len(SINGLE_BYTE)


def characters(charset: int) -> str:
    """Return the 256 characters of a single-byte charset.

    A byte that has none there is the character of its number, or, where another byte is that, of F700 and its number.
    """
    table = bytes(range(256)).decode(SINGLE_BYTE[charset - 5], "replace")
    return "".join(
        character if character != "\ufffd" else chr(byte) if chr(byte) not in table else chr(0xF700 + byte)
        for byte, character in enumerate(table)
    )


def transcode(content: bytes, charset: int) -> bytes:
    """Return the content of a slot whose symbols join to `content`."""
    if charset == 0:
        return content
    try:
        text = content.decode("utf-8", "surrogatepass")
        if charset in WIDE:
            return text.encode(WIDE[charset], "surrogatepass")
        table = {character: byte for byte, character in enumerate(characters(charset))}
        return bytes(table[character] for character in text)
    except (UnicodeError, KeyError):
        raise Refused(f"a slot does not transcode to charset {charset}") from None
