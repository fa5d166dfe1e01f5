"""Studies of drafters: runs that differ in one thing, as one Markdown table. docs/drafting.md says what they ask.

    python docs/draftstudy.py losses --corpus CORPUS --held-out HELD_OUT -o OUT [--seeds 0,1] [--tokens N]

Studies: losses, shapes, family, agnostic, codesign, agentic. Draft lengths are measured by docs/draftlength.py. Numbers
are tokens per pass on held-out text by kind, the mean over the seeds and half of what they differ by. What several runs
need (targets, their soft labels) is made once. A run that is complete is not repeated, one that was stopped goes on, so
the same command finishes a study that was interrupted. Beside each result lies the command that made it, with the
digests of the files that it read; a result of another command is not taken for the one that is asked for.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.exactfile import write_exact_file
from speccompact.modelstore.quantize import convert
from speccompact.modelstore.registered import open_checkpoint
from speccompact.modelstore.storefiles import commit, temporary

COLUMNS = ("prose", "code", "logs", "transcripts")
"""Kinds that are shown; folders within a kind, and kinds that go on with "_", count as its mean."""

HALF = "0-9,25-29"
"""Layers that the halved target keeps of 30: the middle is missed least."""

TINY = "4,192,3,512"
FIRST = "0-1"
"""Layers of the causal drafter that is made of the target itself."""

LISTED = "16384"
"""First tokens of the vocabulary that causal drafters are trained for: as many as `speculative.causal` reads."""

TEXT_LOSSES = ("cross-entropy", "tv", "lk", "tvp")
"""For a text KL and the logarithm of acceptance are the cross-entropy."""

SOFT_LOSSES = ("cross-entropy", "kl", "tv", "acceptance", "lk", "tvp")
WEIGHTS = ("uniform", "exponential", "d-pace", "until-failure")

DRAFT = {"--batch": "4096", "--length": "1024", "--evaluate-tokens": "2048", "--counted": "300000"}
MODEL = {"--batch": "4096", "--length": "1024", "--evaluate-tokens": "2048"}

MARKOV = "block + Markov"
SHAPES: dict[str, dict[str, str]] = {
    "block": {"--markov": "0"},
    MARKOV: {},
    "causal": {"--layers": FIRST, "--listed": LISTED},
}
TARGETS = ("default", "half", "tiny")

Row = dict[str, float]
Table = dict[str, dict[str, str]]


@dataclass
class Bench:
    """Where runs are made, and what they have in common.

    Attributes:
        corpus, held_out: folders of text.
        output: folder of the runs.
        model: the default target.
        tokens: of every run of a drafter, and of the labels.
        heal, tiny: tokens of the runs that make the halved and the tiny target.
        seeds: of the runs.
    """

    corpus: str
    held_out: str
    output: Path
    model: str
    tokens: int
    heal: int
    tiny: int
    seeds: Sequence[str]

    def train(self, what: str, name: str, settings: Mapping[str, str]) -> Path:
        """Return the folder of a run of `train` WHAT, made unless it is there."""
        place = self.output / name
        command = ["-m", "speccompact_cli", "train", what, "-q", "-o", str(place)]
        command += ["--corpus", self.corpus, "--held-out", self.held_out]
        command += [f"{key}={value}" if value else key for key, value in settings.items()]
        more = ["--resume"] if (place / "last.safetensors").exists() else []
        self.make(place, place / "provenance.json", command, more)
        return place

    def make(self, place: Path, result: Path, command: Sequence[str], more: Sequence[str] = ()) -> None:
        """Carry a command out unless its result is there, which must then be of the same command.

        Args:
            place: what the command writes: a file, or a folder.
            result: the last file that it writes.
            command: arguments of Python.
            more: further ones, which change no result.
        """
        self.output.mkdir(parents=True, exist_ok=True)
        note = place.with_name(f"{place.name}.command.json")
        made_by = json.dumps({"command": list(command), "files": digests(command, place)}, indent=1) + "\n"
        if not note.exists() and not place.exists():
            note.write_text(made_by, "utf-8")
        elif not note.exists() or note.read_text("utf-8") != made_by:
            raise SystemExit(f"{place}: made by another command (see {note.name}); remove both, or name another output")
        if not result.exists():
            subprocess.run([sys.executable, *command, *more], check=True, stdout=subprocess.DEVNULL)

    def target(self, name: str) -> str:
        """Return a target as `--model` takes it."""
        if name == "default":
            return self.model
        common = MODEL | {"--model": self.model}
        if name == "half":
            own = {"--layers": HALF, "--tokens": str(self.heal), "--learning-rate": "3e-4", "--loss": "kl"}
            own |= {"--labels": str(self.labels("default")), "--evaluate-every": str(self.heal)}
        else:
            own = {"--new": TINY, "--tokens": str(self.tiny), "--learning-rate": "2e-3"}
            own |= {"--evaluate-every": str(self.tiny)}
        return str(self.train("model", f"target-{name}", common | own) / "model")

    def labels(self, target: str) -> Path:
        """Return the soft labels of a target, made unless they are there."""
        place = self.output / f"labels-{target}.safetensors"
        command = ["-m", "speccompact_cli", "train", "labels", "-q", "-o", str(place)]
        command += ["--corpus", self.corpus, "--model", self.target(target), f"--tokens={self.tokens}"]
        self.make(place, place, [*command, "--batch=4096", "--length=1024"])
        return place

    def drafter(self, seed: str, *, shape: str, loss: str, weights: str = "d-pace", target: str | None = None) -> Row:
        """Return what a drafter comes to by its own run, on sequences without borders; arguments as for `run_of`."""
        record = self.run_of(seed, shape=shape, loss=loss, weights=weights, target=target) / "provenance.json"
        held_out = json.loads(record.read_text("utf-8"))["result"]["held_out"]
        return columns({kind: row["tokens_per_pass"] for kind, row in held_out.items()})

    def at_work(self, seed: str, *, shape: str, loss: str, target: str | None = None) -> Row:
        """Return what a drafter comes to where it is replayed; arguments as for `run_of`."""
        run = self.run_of(seed, shape=shape, loss=loss, target=target)
        if shape != "causal":
            return self.replay(run.name, "--drafter", "block", "--drafter-file", str(run / "drafter.safetensors"))
        exact = run / "model.exact"
        if not exact.exists():
            with temporary(run) as place:
                write_exact_file(place, *convert(open_checkpoint(run / "model")))
                commit(place, exact)
        return self.replay(run.name, "--drafter", "model", "--drafter-file", str(exact))

    def run_of(self, seed: str, *, shape: str, loss: str, weights: str = "d-pace", target: str | None = None) -> Path:
        """Return the folder of the run of a drafter.

        Args:
            seed: of the run.
            shape: a name in SHAPES.
            loss: name of the loss.
            weights: of the positions; a causal drafter has none.
            target: whose soft labels it learns from; None for the text of the same labels.
        """
        causal = shape == "causal"
        labels = {"--labels": str(self.labels(target or "default"))} | ({} if target else {"--text": ""})
        settings = (MODEL if causal else DRAFT) | SHAPES[shape] | labels
        settings |= {"--model": self.model, "--loss": loss, "--seed": seed, "--tokens": str(self.tokens)}
        settings |= {"--evaluate-every": str(self.tokens)} | ({} if causal else {"--weights": weights})
        name = "_".join([shape.replace(" + ", "-"), loss, "" if causal else weights, target or "text", f"seed-{seed}"])
        return self.train("model" if causal else "drafter", name, settings)

    def mean(self, make: Callable[[str], Row]) -> dict[str, str]:
        """Return the cells of what is made with every seed."""
        rows = [make(seed) for seed in self.seeds]
        return {kind: cell([row[kind] for row in rows]) for kind in rows[0]}

    def script(self, name: str, place: Path, result: Path, *more: str) -> Any:
        """Return the result of a script beside this one; `make` has the other arguments."""
        self.make(place, result, [str(Path(__file__).with_name(f"{name}.py")), *more])
        return json.loads(result.read_text("utf-8"))

    def replay(self, name: str, *options: str) -> Row:
        """Return what a drafter at work comes to on the held-out text.

        Args:
            name: of the result.
            options: of docs/draftreplay.py, that name the drafter.
        """
        out = self.output / f"replay-{name}.json"
        given = ["--held-out", self.held_out, "--model", self.model, "-o", str(out), *options]
        found = self.script("draftreplay", out, out, *given)
        return columns({kind: row["tokens_per_pass"] for kind, row in found["held_out"].items()})


def main() -> None:
    """Run one study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("-o", "--output", required=True, type=Path, help="folder of the runs")
    parser.add_argument("--model", default="smollm2-135m", help="the default target")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--tokens", type=int, default=299_008, help="of every drafter, and of the labels")
    parser.add_argument("--heal-tokens", type=int, default=299_008)
    parser.add_argument("--tiny-tokens", type=int, default=999_424)
    parser.add_argument("--block-file", default="", help="the drafter for agentic [default: the one that ships]")
    parser.add_argument("--model-file", default="", help="the small model for agentic; without it that row is left out")
    given = parser.parse_args()
    bench = Bench(
        given.corpus,
        given.held_out,
        given.output,
        given.model,
        given.tokens,
        given.heal_tokens,
        given.tiny_tokens,
        given.seeds.split(","),
    )
    print("\n".join(table(given.study, STUDIES[given.study](bench, given))))


def digests(command: Sequence[str], place: Path) -> dict[str, str]:
    """Return the SHA-256 of every file that a command names, but for what it writes, by its name."""
    words = [word.partition("=")[2] if word.startswith("--") else word for word in command]
    return {word: file_sha256(Path(word)) for word in words if word and Path(word) != place and Path(word).is_file()}


def columns(kinds: Mapping[str, float]) -> Row:
    """Return the columns, and their mean."""
    groups: dict[str, list[float]] = {}
    for kind, value in kinds.items():
        groups.setdefault(kind.partition("/")[0].partition("_")[0], []).append(value)
    row = {kind: sum(groups[kind]) / len(groups[kind]) for kind in COLUMNS if kind in groups}
    return row | {"mean": sum(row.values()) / max(1, len(row))}


def cell(values: Sequence[float]) -> str:
    """Return a mean and half of the span."""
    mean, half = sum(values) / len(values), (max(values) - min(values)) / 2
    return f"{mean:.3f} ± {half:.3f}" if len(values) > 1 else f"{mean:.3f}"


def losses(bench: Bench, _: argparse.Namespace) -> Table:
    """Losses and weights of the block drafter."""
    draft = partial(bench.drafter, shape=MARKOV)
    rows = {f"text, {loss}": bench.mean(partial(draft, loss=loss)) for loss in TEXT_LOSSES}
    rows |= {f"soft, {loss}": bench.mean(partial(draft, loss=loss, target="default")) for loss in SOFT_LOSSES}
    for weights in WEIGHTS:
        found = bench.mean(partial(draft, loss="cross-entropy", weights=weights))
        rows[f"text, cross-entropy, {weights} weights"] = found
    return rows


def shapes(bench: Bench, _: argparse.Namespace) -> Table:
    """Three losses, three shapes, three targets; cross-entropy is that of the text, which no target changes."""
    rows = {}
    for shape in SHAPES:
        draft = partial(bench.drafter, shape=shape)
        rows[f"{shape}, cross-entropy, any target"] = bench.mean(partial(draft, loss="cross-entropy"))
        for target in TARGETS:
            for loss in ("kl", "tvp"):
                rows[f"{shape}, {loss}, {target}"] = bench.mean(partial(draft, loss=loss, target=target))
    return rows


def family(bench: Bench, _: argparse.Namespace) -> Table:
    """The target's own first layers as a drafter, against the block drafter and suffix, each at work."""
    draft, replayed = bench.at_work, bench.replay("suffix", "--drafter", "suffix")
    return {
        "first layers, text": bench.mean(partial(draft, shape="causal", loss="cross-entropy")),
        "first layers, distilled": bench.mean(partial(draft, shape="causal", loss="kl", target="default")),
        "block + Markov, text": bench.mean(partial(draft, shape=MARKOV, loss="cross-entropy")),
        "suffix": {kind: cell([value]) for kind, value in replayed.items()},
    }


def agnostic(bench: Bench, _: argparse.Namespace) -> Table:
    """One drafter under three targets; what drafts are held against is the text, so only a bound one can notice."""
    plain = bench.mean(partial(bench.drafter, shape=MARKOV, loss="cross-entropy"))
    rows = {"of the text, under any target": plain}
    bound = [bound_to_default(bench, seed) for seed in bench.seeds]
    for target in TARGETS:
        found = [columns(under[target]) for under in bound if under[target] is not None]
        kinds = found[0] if found else dict.fromkeys((*COLUMNS, "mean"), 0.0)
        rows[f"bound to default, under {target}"] = {
            kind: cell([row[kind] for row in found]) if found else "cannot run" for kind in kinds
        }
    return rows


def bound_to_default(bench: Bench, seed: str) -> Any:
    """Return what a drafter that is bound to the default target comes to under each."""
    out = bench.output / f"bound_seed-{seed}"
    under = [f"--under={target}={bench.target(target)}" for target in TARGETS]
    options = ["--corpus", bench.corpus, "--held-out", bench.held_out, "--labels", str(bench.labels("default"))]
    options += ["--model", bench.model, "-o", str(out), f"--tokens={bench.tokens}", f"--seed={seed}", *under]
    return bench.script("draftbound", out, out / "result.json", *options)["under"]


def codesign(bench: Bench, _: argparse.Namespace) -> Table:
    """A small target and its drafter, trained together or one after the other."""
    rows: Table = {}
    for way in ("apart", "together"):
        found = []
        for seed in bench.seeds:
            out = bench.output / f"codesign-{way}_seed-{seed}"
            options = ["--corpus", bench.corpus, "--held-out", bench.held_out, "--model", bench.model]
            options += ["-o", str(out), f"--tokens={bench.tokens}", f"--seed={seed}", f"--new={TINY}"]
            found.append(bench.script("codesign", out, out / "result.json", way, *options))
        for figure, name in (("tokens_per_pass", "tokens per pass"), ("bpb", "bits per byte of the target")):
            values = [columns(result[figure]) for result in found]
            rows[f"{way}, {name}"] = {kind: cell([row[kind] for row in values]) for kind in values[0]}
    return rows


def agentic(bench: Bench, given: argparse.Namespace) -> Table:
    """Each drafter at work on every kind, and on transcripts against prose."""
    block = ["--drafter-file", given.block_file] if given.block_file else []
    drafters = {"suffix": [], "block": block, "hybrid": block}
    if given.model_file:
        drafters["model"] = ["--drafter-file", given.model_file]
    rows = {}
    for name, options in drafters.items():
        row = bench.replay(name, "--drafter", name, *options)
        rows[name] = {kind: cell([value]) for kind, value in row.items()}
        if {"prose", "transcripts"} <= row.keys():
            rows[name]["transcripts against prose"] = f"{100 * (row['transcripts'] / row['prose'] - 1):+.1f} %"
    return rows


STUDIES: dict[str, Callable[[Bench, argparse.Namespace], Table]] = {
    study.__name__: study for study in (losses, shapes, family, agnostic, codesign, agentic)
}


def table(study: str, rows: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the lines of the table."""
    heads = list(dict.fromkeys(kind for row in rows.values() for kind in row))
    lines = [f"| {study} | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    return lines + [f"| {name} | {' | '.join(row.get(kind, '') for kind in heads)} |" for name, row in rows.items()]


if __name__ == "__main__":
    main()
