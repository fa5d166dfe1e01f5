from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ArgumentError
from speccompact.training.corpus import open_corpus
from speccompact.training.sampling import Cutter, Sampling, SequenceStream
from tests.tiny_text import STORY
from tests.tiny_vocabulary import MISSING_BYTES, tiny_tokenizer


def test_sequences_spell_the_text_and_end_with_lines_where_they_can() -> None:
    text = "\n".join(STORY.split(". ")).encode()
    sequences = Cutter(tiny_tokenizer()).sequences(text, 256)
    vocabulary = tiny_tokenizer().vocabulary
    assert b"".join(vocabulary.join(part) for part in sequences) == text
    assert all(240 < part.size <= 256 for part in sequences[:-1])
    assert sequences[-1].size <= 256


def test_what_is_no_text_is_left_out() -> None:
    random = np.random.default_rng(0).integers(0, 256, 9000, dtype=np.uint8).tobytes()
    cutter = Cutter(tiny_tokenizer())
    assert cutter.sequences(random, 64) == []
    assert cutter.sequences(b"", 64) == []


def test_bytes_that_the_vocabulary_cannot_say_are_left_out() -> None:
    assert 0x04 in MISSING_BYTES
    (symbols,) = Cutter(tiny_tokenizer()).sequences(b"before\x04after", 64)
    assert tiny_tokenizer().vocabulary.join(symbols) == b"beforeafter"


def test_a_kind_without_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "x").write_bytes(np.random.default_rng(0).integers(0, 256, 30_000, dtype=np.uint8).tobytes())
    training = open_corpus(tmp_path, None, tiny_tokenizer(), 64).training
    stream = SequenceStream(training, {"bin": 1.0}, Cutter(tiny_tokenizer()), Sampling(64, 0.0, 64, 64, 0))
    with pytest.raises(ArgumentError, match='no text of the kind "bin"'):
        stream.next_step()


def test_sequences_shorter_than_the_shortest_on_purpose(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(STORY * 30)
    training = open_corpus(tmp_path, None, tiny_tokenizer(), 32).training
    stream = SequenceStream(training, {"text": 1.0}, Cutter(tiny_tokenizer()), Sampling(32, 1.0, 64, 64, 0))
    assert all(max(batch.lengths) <= 32 for _ in range(20) for batch in stream.next_step())
