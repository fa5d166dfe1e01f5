from speccompact.text.spec import BYTE_ALPHABET, TokenizerSpec, spell, unspell


def test_the_byte_alphabet_is_that_of_gpt2() -> None:
    assert len(set(BYTE_ALPHABET)) == 256
    assert BYTE_ALPHABET[ord("A")] == "A"
    assert BYTE_ALPHABET[ord(" ")] == "Ġ"
    assert BYTE_ALPHABET[ord("\n")] == "Ċ"
    assert BYTE_ALPHABET[0] == "Ā"
    assert BYTE_ALPHABET[0xAD] == "Ń"


def test_spell_and_unspell_are_inverse() -> None:
    data = bytes(range(256))
    assert unspell(spell(data)) == data
    assert unspell("the end") is None
    assert unspell("") == b""


def test_special_and_foreign_tokens_have_no_bytes() -> None:
    spec = TokenizerSpec.build(["<|end|>", "Ġa", "漢"], [], "gpt2", [0])
    assert spec.token_bytes() == [b"", b" a", b""]
