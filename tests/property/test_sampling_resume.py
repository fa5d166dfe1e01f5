"""The stream of batches: the same from any state, exact in size, nothing twice before everything once."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from speccompact.exact.transformer import START_TOKEN
from speccompact.training.batch import Batch
from speccompact.training.corpus import Corpus, mixture, open_corpus
from speccompact.training.sampling import STREAM_VERSION, Cutter, Sampling, SequenceStream
from tests.tiny_corpus import write_corpus
from tests.tiny_vocabulary import tiny_tokenizer

BATCH, MICRO = 512, 256


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return open_corpus(write_corpus(tmp_path_factory.mktemp("corpus")), None, tiny_tokenizer(), 128)


def stream_of(corpus: Corpus, seed: int = 0, mix: Mapping[str, float] | None = None) -> SequenceStream:
    sampling = Sampling(length=128, short_share=0.2, batch=BATCH, micro_batch=MICRO, seed=seed)
    return SequenceStream(corpus.training, mixture(corpus.training, mix or {}), Cutter(tiny_tokenizer()), sampling)


def plain(step: list[Batch]) -> list[tuple[list[int], list[int], tuple[int, ...], int]]:
    return [(batch.inputs.tolist(), batch.targets.tolist(), batch.lengths, batch.content_bytes) for batch in step]


@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 3))
@settings(max_examples=15)
def test_a_stream_goes_on_from_its_state(corpus: Corpus, seed: int, before: int, after: int) -> None:
    first = stream_of(corpus, seed)
    for _ in range(before):
        first.next_step()
    state = json.loads(json.dumps(first.state()))
    second = stream_of(corpus, seed)
    second.restore(state)
    for _ in range(after):
        assert plain(first.next_step()) == plain(second.next_step())
    assert first.state() == second.state()
    assert first.consumed() == second.consumed()


def test_batches_change_only_with_the_version(corpus: Corpus) -> None:
    stream = stream_of(corpus)
    digest = hashlib.sha256()
    for _ in range(10):
        for batch in stream.next_step():
            digest.update(batch.targets.numpy().astype("<i8").tobytes())
    assert (STREAM_VERSION, digest.hexdigest()[:16]) == (2, "bcd3638a0493dad4")


def test_the_seed_decides(corpus: Corpus) -> None:
    assert plain(stream_of(corpus, 1).next_step()) == plain(stream_of(corpus, 1).next_step())
    assert plain(stream_of(corpus, 1).next_step()) != plain(stream_of(corpus, 2).next_step())


def test_batches_are_full_and_sequences_start_as_slots_do(corpus: Corpus) -> None:
    stream = stream_of(corpus)
    lengths: Counter[int] = Counter()
    for _ in range(20):
        for batch in stream.next_step():
            assert len(batch.inputs) == len(batch.targets) == sum(batch.lengths) == MICRO
            assert batch.inputs.dtype == batch.targets.dtype == torch.int64
            start = 0
            for length in batch.lengths:
                assert batch.inputs[start] == START_TOKEN
                assert torch.equal(batch.inputs[start + 1 : start + length], batch.targets[start : start + length - 1])
                start += length
            spelled = tiny_tokenizer().vocabulary.join(batch.targets.numpy())
            assert batch.content_bytes == len(spelled)
            lengths.update(batch.lengths)
    assert max(lengths) <= 128
    assert sum(length * count for length, count in lengths.items() if length > 96) > 20 * BATCH / 2


def test_every_chunk_comes_once_before_any_comes_again(corpus: Corpus) -> None:
    stream = stream_of(corpus, mix={"prose": 0.0, "text": 0.0})
    tokens = 0
    chunks = corpus.training["logs"]
    encoded = [tiny_tokenizer().encode(chunks.read(index)) for index in range(len(chunks))]
    wanted = Counter(symbol for symbols in encoded for symbol in symbols.tolist())
    seen: Counter[int] = Counter()
    while tokens < sum(wanted.values()) // BATCH * BATCH:
        for batch in stream.next_step():
            seen.update(batch.targets.tolist())
            tokens += MICRO
    # what is not yet seen waits in the pool, and what is seen too often is of the next round
    assert sum((seen - wanted).values()) <= 40 * 128
    assert sum((wanted - seen).values()) <= 40 * 128
    assert stream.consumed() == {"logs": tokens}


def test_shares_are_kept(corpus: Corpus) -> None:
    stream = stream_of(corpus, mix={"logs": 5.0, "prose": 3.0, "text": 2.0})
    for _ in range(60):
        stream.next_step()
    total = sum(stream.consumed().values())
    assert total == 60 * BATCH
    for kind, share in {"logs": 0.5, "prose": 0.3, "text": 0.2}.items():
        assert stream.consumed()[kind] / total == pytest.approx(share, abs=0.06)


def test_held_out_text_never_comes(tmp_path: Path) -> None:
    lines = [f"line {number:05} of the file\n" for number in range(2000)]
    (tmp_path / "x").write_text("".join(lines))
    corpus = open_corpus(tmp_path, None, tiny_tokenizer(), 128)
    (file,) = corpus.files
    held = (tmp_path / "x").read_bytes()[file.held_from :].split(b"\n")
    stream = stream_of(corpus)
    seen = b""
    for _ in range(120):
        for batch in stream.next_step():
            start = 0
            for length in batch.lengths:
                seen += tiny_tokenizer().vocabulary.join(batch.targets[start : start + length].numpy()) + b"|"
                start += length
    assert b"line 00100" in seen
    assert len(held) > 10
    assert not any(line in seen for line in held if line)
