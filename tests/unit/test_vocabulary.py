import numpy as np
import pytest

from speccompact.errors import ArgumentError, ModelError
from speccompact.text.vocabulary import Vocabulary
from tests.tiny_vocabulary import MISSING_BYTES, tiny_vocabulary


def test_escapes_follow_the_tokens_in_the_order_of_their_bytes() -> None:
    vocabulary = Vocabulary([b"", b"b", b"ab", b"a", b"a"])
    assert vocabulary.size == 5
    assert vocabulary.symbols == 5 + 254
    assert vocabulary.escapes[0] == 5
    assert vocabulary.escapes[255] == vocabulary.symbols - 1
    assert list(vocabulary.escapes) == sorted(vocabulary.escapes)


def test_a_byte_symbol_is_the_lowest_token_of_that_byte_or_its_escape() -> None:
    vocabulary = Vocabulary([b"", b"b", b"ab", b"a", b"a"])
    assert vocabulary.byte_symbols[ord("a")] == 3
    assert vocabulary.byte_symbols[ord("b")] == 1
    assert vocabulary.byte_symbols[ord("c")] == vocabulary.escapes[ord("c")]
    assert vocabulary.byte_symbols.dtype == np.int32


def test_a_complete_vocabulary_has_no_escapes() -> None:
    vocabulary = Vocabulary([bytes([value]) for value in range(256)])
    assert vocabulary.escapes == {}
    assert vocabulary.symbols == 256


def test_special_tokens_have_no_bytes() -> None:
    vocabulary = Vocabulary([b"<|end|>", b"a"], special_ids=[0])
    assert vocabulary.token_bytes(0) == b""
    assert vocabulary.join(np.array([0, 1, 0])) == b"a"


def test_join_spells_tokens_and_escapes() -> None:
    vocabulary = Vocabulary([b"", b"one ", b"two"])
    symbols = np.array([1, 2, vocabulary.escapes[7], 1, 0], dtype=np.int32)
    assert vocabulary.join(symbols) == b"one two\x07one "
    assert vocabulary.lengths[symbols].tolist() == [4, 3, 1, 4, 0]
    assert vocabulary.join(symbols[:0]) == b""
    assert vocabulary.join(np.array([0])) == b""


def test_join_refuses_symbols_out_of_range() -> None:
    vocabulary = Vocabulary([b"a"])
    for symbol in (-1, vocabulary.symbols):
        with pytest.raises(ArgumentError, match="outside"):
            vocabulary.join(np.array([symbol]))


def test_every_byte_string_has_a_spelling() -> None:
    data = bytes(range(256)) * 3
    vocabulary = tiny_vocabulary()
    assert vocabulary.join(vocabulary.spell_bytes(data)) == data
    assert set(vocabulary.escapes) == set(MISSING_BYTES)


def test_the_digest_depends_on_every_token_and_on_where_it_ends() -> None:
    digests = {Vocabulary(tokens).digest() for tokens in ([b"ab", b"c"], [b"a", b"bc"], [b"ab", b"c", b""], [b"ab"])}
    assert len(digests) == 4


def test_digests_are_part_of_the_format() -> None:
    expected = "c962eeaeba7690820114fc52e2958d5bdf117abe679e48f14c25d44dd469763f"
    assert Vocabulary([b"", b"a", b"bc"]).digest().hex() == expected


def test_an_empty_vocabulary_is_refused() -> None:
    with pytest.raises(ModelError):
        Vocabulary([])
