"""A small corpus of three kinds on disk, and what it takes to train on it with a tiny model in seconds."""

from pathlib import Path

from tests.tiny_gguf import tiny_llama
from tests.tiny_model import babble
from tests.tiny_text import RUSSIAN, STORY

LOG = "".join(f"2024-05-{i % 28 + 1:02} INFO server request {i * 7919 % 1000} status=200\n" for i in range(1200))


def write_corpus(folder: Path) -> Path:
    """Write files of the kinds "logs", "prose" and "text"."""
    for name, text in {
        "logs/server.log": LOG,
        "prose/babble.txt": babble(30_000, 1),
        "prose/story.txt": STORY * 24,
        "plain.txt": RUSSIAN * 30,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def write_model(folder: Path) -> Path:
    """Write a tiny checkpoint."""
    return tiny_llama().write(folder / "tiny.gguf")


def write_home(folder: Path) -> Path:
    """Write the corpus, as "corpus", and the checkpoint beside it."""
    write_corpus(folder / "corpus")
    write_model(folder)
    return folder
