import numpy as np
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from speccompact.errors import ModelError
from speccompact.text.spec import PRE_TOKENIZERS, TokenizerSpec
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from tests.tiny_vocabulary import (
    MISSING_BYTES,
    SPECIAL_TOKENS,
    TRAINING_TEXT,
    tiny_spec,
    tiny_tokenizer,
    tiny_vocabulary,
)

HOSTILE = {
    "empty": b"",
    "every byte": bytes(range(256)),
    "every byte twice, backwards": bytes(range(255, -1, -1)) * 2,
    "line ends": b"\r\n\r\n\n\r\r \r\n a\rb\n\n\n",
    "byte order mark": b"\xef\xbb\xbfa\xef\xbb\xbf",
    "nul": b"a\0b\0\0c",
    "special tokens": "".join(SPECIAL_TOKENS).encode() * 2,
    "U+40000": "a\U00040000b\U000bffff".encode(),
    "lone surrogate": b"\xed\xa0\x80\xed\xbf\xbf",
    "overlong": b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf",
    "above U+10FFFF": b"\xf4\x90\x80\x80\xf5\x80\x80\x80",
    "cut character": "schön".encode()[:5],
    "replacement character": "\ufffd?\ufffd".encode() + b"\xff",
    "decomposed": "e\u0301é".encode(),
    "zero width joiner": "👩‍👩‍👧‍👦🏳️‍🌈".encode(),
    "alphabet of the tokens": "ĠtheĊ".encode(),
    "leading and trailing space": b"  a  ",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_is_lost(data: bytes) -> None:
    symbols = tiny_tokenizer().encode(data)
    assert symbols.dtype == np.int32
    assert tiny_vocabulary().join(symbols) == data


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_nothing_is_lost_with_any_pre_tokenizer(pre: str) -> None:
    spec = TokenizerSpec.build(tiny_spec().tokens, tiny_spec().merges, pre, tiny_spec().special_ids)
    tokenizer = Tokenizer(spec, tiny_vocabulary())
    data = b"\n".join(HOSTILE.values()) + TRAINING_TEXT.encode()
    symbols = tokenizer.encode(data)
    assert tiny_vocabulary().join(symbols) == data
    assert symbols.size < len(data) * 0.7


def test_special_tokens_in_a_text_are_text() -> None:
    symbols = tiny_tokenizer().encode("".join(SPECIAL_TOKENS).encode())
    assert symbols.min() >= len(SPECIAL_TOKENS)


def test_bytes_that_no_token_spells_become_escapes() -> None:
    escapes = tiny_vocabulary().escapes
    symbols = tiny_tokenizer().encode(b"a\x04b\xff").tolist()
    assert [symbols[1], symbols[3]] == [escapes[4], escapes[255]]
    assert all(tiny_tokenizer().encode(bytes([value])).tolist() == [escapes[value]] for value in MISSING_BYTES)


def library_tokens(text: str) -> list[int]:
    """Return what the library makes of a whole text at once."""
    spec = tiny_spec()
    ids = {token: index for index, token in enumerate(spec.tokens)}
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in spec.merges)]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return list(tokenizer.encode(text).ids)


@pytest.mark.parametrize("times", [1, 40])
def test_chunks_do_not_change_the_tokens(times: int) -> None:
    text = TRAINING_TEXT * times
    assert tiny_tokenizer().encode(text.encode()).tolist() == library_tokens(text)


@pytest.mark.parametrize("character", [b"a", b" ", b"\n", b"\0", b"1", b"\xff", "ж".encode()], ids=repr)
def test_a_megabyte_of_one_character(character: bytes) -> None:
    # A tokenizer whose time grows with the square of the length would not end within the timeout of the suite.
    data = character * (1_000_000 // len(character))
    assert tiny_vocabulary().join(tiny_tokenizer().encode(data)) == data


def test_a_lossy_spec_falls_back_to_byte_symbols() -> None:
    # Merges that skip a level: "ab" is a token, but the library is told that it comes from letters it lacks.
    tokens = [*(chr(value) for value in range(0x21, 0x7F)), "ab"]
    spec = TokenizerSpec.build(tokens, ["a b"], "gpt2")
    bytes_of = spec.token_bytes()
    bytes_of[-1] = b"xyz"
    vocabulary = Vocabulary(bytes_of)
    symbols = Tokenizer(spec, vocabulary).encode(b"ab")
    assert vocabulary.join(symbols) == b"ab"
    assert symbols.tolist() == vocabulary.spell_bytes(b"ab").tolist()


def test_spec_and_vocabulary_must_fit() -> None:
    with pytest.raises(ModelError, match="tokens"):
        Tokenizer(tiny_spec(), Vocabulary([b"a"]))


@pytest.mark.parametrize(
    ("tokens", "pre", "kind"), [([], "gpt2", "byte_level_bpe"), (["a"], "x", "byte_level_bpe"), (["a"], "gpt2", "x")]
)
def test_unsupported_specs_are_refused(tokens: list[str], pre: str, kind: str) -> None:
    with pytest.raises(ModelError):
        TokenizerSpec(tuple(tokens), (), pre, kind=kind)
