"""provenance.json: what a run was made of, enough to repeat it. Names of files are those within the corpus."""

import functools
import hashlib
import json
import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from speccompact.modelstore.storefiles import commit, temporary
from speccompact.training.corpus import Corpus
from speccompact.training.corpusfiles import CorpusFile
from speccompact.training.draftoptions import DraftOptions
from speccompact.training.trainoptions import TrainOptions

FORMAT = 1
_PACKAGES = ("speccompact", "torch", "numpy", "safetensors", "tokenizers")


def versions() -> dict[str, str]:
    """Return the versions that a run depends on, and a digest of the source of this package."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from a source tree
            found[name] = "not installed"
    return found | {"speccompact_source": _source_digest()}


@functools.cache
def _source_digest() -> str:
    """Return a SHA-256 over names and contents of all modules of the package, hexadecimal."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for name in sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py")):
        digest.update(f"{name} {hashlib.sha256((package / name).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def conditions(device: torch.device, options: TrainOptions) -> dict[str, Any]:
    """Return what may differ from one part of a run to the next, and bits of the result with it."""
    return {
        "versions": versions(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "compile": options.compile,
    }


def list_files(files: Sequence[CorpusFile]) -> list[dict[str, Any]]:
    """Return name, size, digest and held-out part of every file."""
    return [
        {"path": file.path, "bytes": file.size, "sha256": file.sha256, "held_out_bytes": file.size - file.held_from}
        for file in files
    ]


def texts(corpus: Corpus, shares: Mapping[str, float]) -> dict[str, Any]:
    """Return what a run has read."""
    return {
        "corpus": {"sha256": corpus.digest(), "shares": dict(shares), "files": list_files(corpus.files)},
        "held_out": {"sha256": corpus.held_digest(), "files": list_files(corpus.held_files)},
    }


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file that appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    with temporary(path.parent) as place:
        place.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        commit(place, path)


def averaging_command(options: TrainOptions, model: str, adapters: int) -> str:
    """Return the command of an average, with HELD_OUT, OUT and ADAPTER… where the user's own files were."""
    words = ["speccompact train average --held-out HELD_OUT --output OUT --model", shlex.quote(model)]
    words += [f"--evaluate-tokens {options.evaluate_tokens} --evaluate-length {options.measured_length}"]
    words += [f"--device {options.device} --threads {options.threads}"]
    return " ".join([*words, *(f"ADAPTER{number}" for number in range(1, adapters + 1))])


def command_line(options: TrainOptions, model: str, *, held_out: bool, start: bool) -> str:
    """Return the command of a run, with CORPUS, HELD_OUT, START and OUT where the user's own files were."""
    words = _beginning("adapter", model, held_out)
    if start:
        words.append("--start START")
    words.append("--full" if options.rank is None else f"--rank {options.rank} --alpha {options.strength!r}")
    words += [*_shared(options), f"--rounding-from {options.rounding_from!r}"]
    return " ".join(words + (["--compile"] if options.compile else []))


def drafter_command_line(options: DraftOptions, model: str, *, held_out: bool, labels: bool) -> str:
    """Return the command of a run that trains a drafter, in the same way, with LABELS for the file of those."""
    own = options.own_settings()
    return own_command_line(options.run, model, what="drafter", own=own, held_out=held_out, labels=labels)


def own_command_line(
    options: TrainOptions, model: str, *, what: str, own: Mapping[str, Any], held_out: bool, labels: bool
) -> str:
    """Return the command of a run of `train` WHAT, of which some options are its own; empty ones are left out."""
    words = _beginning(what, model, held_out)
    if labels:
        words.append("--labels LABELS")
    for name, value in own.items():
        if isinstance(value, bool):
            words += [f"--{name}"] if value else []
        elif value != "":
            words.append(f"--{name} {value}")
    return " ".join(words + _shared(options))


def _beginning(what: str, model: str, held_out: bool) -> list[str]:
    words = [f"speccompact train {what} --corpus CORPUS --output OUT --model", shlex.quote(model)]
    return [*words, "--held-out HELD_OUT"] if held_out else words


def _shared(options: TrainOptions) -> list[str]:
    schedule = options.schedule()
    return [
        *(f"--mix {shlex.quote(kind)}={weight!r}" for kind, weight in sorted(options.mix.items())),
        f"--tokens {options.tokens}",
        f"--learning-rate {options.learning_rate!r}",
        f"--warm-up {schedule.warm_up}",
        f"--length {options.length}",
        f"--short-share {options.short_share!r}",
        f"--batch {options.batch}",
        f"--micro-batch {options.passed_at_once}",
        f"--evaluate-every {options.evaluation_steps * options.batch}",
        f"--evaluate-tokens {options.evaluate_tokens}",
        f"--evaluate-length {options.measured_length}",
        f"--seed {options.seed}",
        f"--device {options.device}",
        f"--threads {options.threads}",
    ]
