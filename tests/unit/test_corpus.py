from pathlib import Path

import pytest

from speccompact.errors import ArgumentError
from speccompact.training.corpus import Corpus, mixture, open_corpus
from tests.tiny_corpus import write_corpus
from tests.tiny_text import GERMAN, STORY
from tests.tiny_vocabulary import tiny_tokenizer


def opened(folder: Path, held_out: Path | None = None) -> Corpus:
    return open_corpus(folder, held_out, tiny_tokenizer(), 64)


def test_training_and_held_out_text_are_disjoint_and_complete(tmp_path: Path) -> None:
    corpus = opened(write_corpus(tmp_path))
    covered: dict[str, list[tuple[int, int]]] = {}
    for part in (corpus.training, corpus.held_out):
        for chunks in part.values():
            for file, start, stop in zip(chunks.files, chunks.starts, chunks.stops, strict=True):
                covered.setdefault(chunks.paths[file], []).append((int(start), int(stop)))
    for file in corpus.files:
        places = sorted(covered[file.path])
        assert [start for start, _ in places] == [0, *(stop for _, stop in places[:-1])]
        assert places[-1][1] == file.size


def test_chunks_read_what_they_name(tmp_path: Path) -> None:
    chunks = opened(write_corpus(tmp_path)).training["prose"]
    text = b"".join(chunks.read(index) for index in range(len(chunks)) if chunks.paths[chunks.files[index]][-5] == "y")
    assert (STORY * 24).encode().startswith(text)
    assert chunks.content_bytes > len(text) > 10_000


def test_a_folder_of_held_out_text_replaces_and_adds_kinds(tmp_path: Path) -> None:
    held = tmp_path / "held"
    for name in ("prose/x.txt", "languages/de/y.txt"):
        (held / name).parent.mkdir(parents=True)
        (held / name).write_text(GERMAN)
    corpus = opened(write_corpus(tmp_path / "corpus"), held)
    assert list(corpus.held_out) == ["languages/de", "logs", "prose", "text"]
    assert corpus.held_out["prose"].paths == ("prose/x.txt",)
    assert corpus.held_out["prose"].content_bytes == len(GERMAN.encode())
    assert corpus.training["prose"].content_bytes == opened(tmp_path / "corpus").training["prose"].content_bytes


def test_held_out_text_is_cut_alike_whatever_training_slots_are(tmp_path: Path) -> None:
    folder, held = write_corpus(tmp_path / "corpus"), tmp_path / "held"
    (held / "letters").mkdir(parents=True)
    (held / "letters/x.txt").write_text(GERMAN * 9)
    cuts = [
        open_corpus(folder, held, tiny_tokenizer(), length, 128).held_out["letters"].starts.tolist()
        for length in (32, 64, 128)
    ]
    assert cuts[0] == cuts[1] == cuts[2]
    assert len(cuts[0]) < len(open_corpus(folder, held, tiny_tokenizer(), 32).held_out["letters"])


def test_held_out_text_that_is_in_the_corpus_is_refused(tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.mkdir()
    corpus = write_corpus(tmp_path / "corpus")
    (held / "copy.txt").write_bytes((corpus / "plain.txt").read_bytes())
    with pytest.raises(ArgumentError, match=r"held_out holds copy\.txt, which is also in the corpus, as plain\.txt"):
        opened(corpus, held)


def test_the_digest_sees_names_and_contents(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path)
    digests = {opened(folder).digest()}
    (folder / "plain.txt").rename(folder / "other.txt")
    digests.add(opened(folder).digest())
    with open(folder / "other.txt", "ab") as file:
        file.write(b"x")
    digests.add(opened(folder).digest())
    assert len(digests) == 3


def test_mixture(tmp_path: Path) -> None:
    training = opened(write_corpus(tmp_path)).training
    shares = mixture(training, {})
    assert sum(shares.values()) == pytest.approx(1)
    sizes = {kind: chunks.content_bytes for kind, chunks in training.items()}
    assert shares["logs"] / shares["text"] == pytest.approx((sizes["logs"] / sizes["text"]) ** 0.5)
    assert mixture(training, {"logs": 0, "prose": 3, "text": 1}) == {"prose": 0.75, "text": 0.25}


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ({"nonsense": 1.0}, 'mix names the kind "nonsense"; the corpus has logs, prose, text'),
        ({"logs": -1.0}, 'mix gives "logs"'),
        ({"logs": float("nan")}, 'mix gives "logs"'),
        ({"logs": 0.0, "prose": 0.0, "text": 0.0}, "mix leaves every kind out"),
    ],
)
def test_a_mix_that_makes_no_sense(tmp_path: Path, mix: dict[str, float], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        mixture(opened(write_corpus(tmp_path)).training, mix)


def test_too_little_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a few words")
    with pytest.raises(ArgumentError, match="too little text to hold any out"):
        opened(tmp_path)
