"""Tune a model on the first half of a log, and compress the second half with it.

python samples/tune_on_log.py [LOG [MODEL [OPTION...]]]

Options are those of `speccompact train adapter`. With the defaults this takes some minutes on two cores; longer logs
and more tokens gain more. The tuned model stays in the store as "tuned-on-a-log": archives made with it need it, or the
adapter and `speccompact models convert`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import speccompact

SAMPLE = Path(__file__).with_name("service.log")
DEFAULT = "smollm2-135m"
OPTIONS = ("--tokens", "65536", "--batch", "2048", "--evaluate-every", "16384")


def command(*words: str) -> None:
    """Run speccompact, and show how it was called."""
    print("$ speccompact", *words, flush=True)
    subprocess.run([sys.executable, "-m", "speccompact_cli", *words], check=True)


def main(log: str = str(SAMPLE), model: str = DEFAULT, *options: str) -> None:
    """Tune, convert, and compare."""
    lines = Path(log).read_bytes().splitlines(keepends=True)
    first, second = b"".join(lines[: len(lines) // 2]), b"".join(lines[len(lines) // 2 :])
    with tempfile.TemporaryDirectory() as folder:
        corpus, held_out, run = Path(folder, "corpus"), Path(folder, "held-out"), Path(folder, "run")
        for place, half in ((corpus, first), (held_out, second)):
            place.mkdir()
            (place / "half.log").write_bytes(half)
        where = ["--corpus", str(corpus), "--held-out", str(held_out), "--model", model, "-o", str(run)]
        command("train", "adapter", *where, *(options or OPTIONS))
        command("models", "convert", model, "--name", "before-tuning")
        adapter = str(run / "adapter.safetensors")
        command("models", "convert", model, "--adapter", adapter, "--name", "tuned-on-a-log")
    for name in ("before-tuning", "tuned-on-a-log"):
        packed = speccompact.compress(second, model=name)
        assert speccompact.decompress(packed) == second
        print(f"{name}: {len(second)} bytes became {len(packed)}, {8 * len(packed) / len(second):.3f} bits per byte")


if __name__ == "__main__":
    main(*sys.argv[1:])
