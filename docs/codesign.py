"""Trains a small target and its block drafter from scratch: together, or one after the other.

    python docs/codesign.py together --corpus CORPUS --held-out HELD_OUT --model TOKENIZER -o OUT [--tokens N ...]
    python docs/codesign.py apart    --corpus ... (the same)

Together: one embedding that both change, and beside the target's own loss a loss of several positions on its trunk, as
models with built-in multi-token prediction have: from the hidden state of a token, a small matrix each makes those of
the next but one and so on, which meet the same output head. Apart: the target alone, then the drafter on its frozen
embedding. Both see the same tokens in the same order. OUT/result.json has the target's bits per byte and the drafter's
tokens per pass, by kind of held-out text. A run that was stopped goes on where it was.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from speccompact.modelstore.merging import fingerprint
from speccompact.modelstore.storefiles import commit, temporary
from speccompact.speculative.blockfile import BlockShape
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from speccompact.training.batch import Batch
from speccompact.training.conduct import Material, carry_out, measured_slices, open_material
from speccompact.training.draftexamples import Places, frequent_tokens, make_examples
from speccompact.training.draftlosses import annealing
from speccompact.training.draftmeasure import try_drafts
from speccompact.training.draftnetwork import DraftNetwork
from speccompact.training.draftpass import Aim, draft_loss
from speccompact.training.evaluation import BITS, SETTLED, evaluate
from speccompact.training.loss import code_length
from speccompact.training.metrics import Line
from speccompact.training.network import Network
from speccompact.training.resuming import choose_checkpoint
from speccompact.training.sampling import SequenceStream
from speccompact.training.smallmodels import Sizes, make_new
from speccompact.training.trainer import LAST, make_optimiser
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base

STRIDE = 4
AHEAD = 2
"""Further positions that the trunk is to know."""

AHEAD_WEIGHT = 0.1
"""Of a bit of each further position, against a bit of the target's own."""

DRAFT_WEIGHT = 0.3
"""Bits of the target that a unit of the drafter's loss counts for; the loss goes from nats to a chance over the run."""

Measured = Mapping[str, Sequence[Batch]]


class SharedDraft(DraftNetwork):
    """A block drafter that reads, and changes, the embedding of a target."""

    def share(self, target: Network) -> None:
        """Read the embedding of this target from now on; it stays a parameter of the target alone."""
        self._of = [target]  # in a list, so that it does not become a part of this network

    def embedded(self, tokens: Tensor) -> Tensor:
        """See `DraftNetwork.embedded`."""
        rows = self._of[0].embed[tokens]
        scaled: Tensor = rows / rows.square().mean(1, keepdim=True).sqrt().clamp_min(1e-6)
        return scaled


class Both(nn.Module):
    """A target, its drafter, and what the trunk needs to look ahead."""

    def __init__(self, target: Network, drafter: SharedDraft) -> None:
        super().__init__()
        self.target, self.drafter = target, drafter
        drafter.share(target)
        hidden = target.config.hidden
        self.ahead = nn.ParameterList(nn.Parameter(torch.eye(hidden)) for _ in range(AHEAD))


class Together:
    """The subject of training both, see `trainer.Subject`."""

    loss_name, figure = "loss", BITS

    def __init__(self, both: Both, measured: Measured, steps: int) -> None:
        self.network, self._measured, self._steps = both, measured, steps

    def begin(self) -> None:
        """Nothing."""

    def loss(self, batch: Batch, step: int) -> Tensor:
        """Return bits of the target, of the trunk's further positions, and the drafter's loss, with their weights."""
        both = self.network
        hidden, head = both.target.hidden(batch, rounding=False)
        total = code_length(hidden, head, batch.targets)
        for ahead, turn in enumerate(both.ahead, 1):
            rows = inside(batch.lengths, ahead)
            total = total + AHEAD_WEIGHT * code_length(hidden[rows] @ turn, head, batch.targets[rows + ahead])
        return total + DRAFT_WEIGHT * drafter_loss(both.drafter, batch, step, self._steps)

    def conditions(self, step: int) -> Line:
        """Return nothing more."""
        return {}

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        """Return the bits per byte of the target."""
        return evaluate(self.network.target, self._measured, torch.device("cpu"), pause)


class TargetAlone:
    """The subject of training the target by itself."""

    loss_name, figure = "loss", BITS

    def __init__(self, network: Network, measured: Measured) -> None:
        self.network, self._measured = network, measured

    def begin(self) -> None:
        """Nothing."""

    def loss(self, batch: Batch, step: int) -> Tensor:
        """Return the bits of the batch."""
        return self.network.bits(batch, rounding=False)

    def conditions(self, step: int) -> Line:
        """Return nothing more."""
        return {}

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        """Return the bits per byte."""
        return evaluate(self.network, self._measured, torch.device("cpu"), pause)


class DrafterAlone:
    """The subject of training the drafter after the target."""

    loss_name, figure = "loss", SETTLED

    def __init__(self, network: DraftNetwork, measured: Measured, steps: int) -> None:
        self.network, self._measured, self._steps = network, measured, steps

    def begin(self) -> None:
        """Nothing."""

    def loss(self, batch: Batch, step: int) -> Tensor:
        """Return the loss of the drafts."""
        return drafter_loss(self.network, batch, step, self._steps)

    def conditions(self, step: int) -> Line:
        """Return nothing more."""
        return {}

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        """Return tokens per pass."""
        return accepted(self.network, self._measured, pause)


def inside(lengths: Sequence[int], ahead: int) -> Tensor:
    """Return the rows of sequences that have so many rows behind them."""
    firsts = np.cumsum([0, *lengths[:-1]])
    parts = [np.arange(first, first + length - ahead) for first, length in zip(firsts, lengths, strict=True)]
    return torch.from_numpy(np.concatenate(parts).astype(np.int64))


def drafter_loss(network: DraftNetwork, batch: Batch, step: int, steps: int) -> Tensor:
    """Return the loss of a batch of text, summed over its tokens."""
    phase = step % min(STRIDE, len(batch.targets))
    examples = make_examples(batch, network.places, network.shape.window, network.shape.block, STRIDE, phase)
    return draft_loss(network, examples, Aim("tvp", "d-pace", annealing(step, steps))) * len(batch.targets)


def accepted(network: DraftNetwork, measured: Measured, pause: Callable[[], None]) -> dict[str, float]:
    """Return tokens per pass by kind."""
    return {kind: trial.tokens_per_pass for kind, trial in try_drafts(network, measured, pause).items()}


def main() -> None:
    """Train, measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=("together", "apart"))
    parser.add_argument("--corpus", required=True, type=Path)
    parser.add_argument("--held-out", required=True, type=Path)
    parser.add_argument("--model", required=True, help="whose tokenizer is used")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--new", default="4,192,3,512", metavar="LAYERS,HIDDEN,HEADS,FFN")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--evaluate-tokens", type=int, default=2048)
    parser.add_argument("--listed", type=int, default=8192)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    options = TrainOptions(
        tokens=given.tokens,
        batch=given.batch,
        length=given.length,
        learning_rate=given.learning_rate,
        evaluate_tokens=given.evaluate_tokens,
        evaluate_every=given.tokens,
        rank=None,
        rounding_from=1.0,
        seed=given.seed,
    )
    base, _ = load_base(given.model)
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    material = open_material(given.corpus, given.held_out, Tokenizer(base.tokenizer, vocabulary), options)
    measured = measured_slices(material, options)
    places = Places.make(*frequent_tokens(some_text(material, options), vocabulary.size, given.listed), vocabulary.size)
    target = Network(make_new(base, Sizes.parse(given.new), given.seed), None, 1.0, given.seed)
    shape, steps = BlockShape(vocabulary.size, len(places.listed)), options.schedule().steps
    same = {"model": fingerprint(base), "new": given.new, "listed": given.listed}
    drafter: DraftNetwork
    if given.way == "together":
        shared = SharedDraft(shape, target.embed.detach(), places, given.seed)
        train(Together(Both(target, shared), measured, steps), material, options, given.output / "both", same)
        drafter = shared
    else:
        train(TargetAlone(target, measured), material, options, given.output / "target", same)
        drafter = DraftNetwork(shape, target.embed.detach(), places, given.seed)
        train(DrafterAlone(drafter, measured, steps), material, options, given.output / "drafter", same)
    result = {
        "bpb": evaluate(target, measured, torch.device("cpu"), lambda: None),
        "tokens_per_pass": accepted(drafter, measured, lambda: None),
    }
    with temporary(given.output) as place:
        place.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        commit(place, given.output / "result.json")


def train(subject: Any, material: Material, options: TrainOptions, out: Path, own: Mapping[str, Any]) -> None:
    """Carry a run out, from its checkpoint where there is one, which must be of the same text, options and `own`."""
    stream = SequenceStream(material.corpus.training, material.shares, material.cutter, options.sampling())
    texts = {"corpus": material.corpus.digest(), "held_out": material.corpus.held_digest()}
    same = texts | {"study": out.name} | dict(own) | options.settings()
    chosen = choose_checkpoint(out, options.schedule(), same, fixed=True) if (out / LAST).exists() else None
    optimiser = make_optimiser(subject.network, options.learning_rate)
    carry_out(out, subject, optimiser, stream, options, same, chosen, watch=lambda _: None, stopping=lambda: False)


def some_text(material: Material, options: TrainOptions) -> list[npt.NDArray[np.int32]]:
    """Return the text that training begins with, to count its tokens."""
    stream = SequenceStream(material.corpus.training, material.shares, material.cutter, options.sampling())
    steps = min(options.schedule().steps, 100)
    return [batch.targets.numpy().astype(np.int32) for _ in range(steps) for batch in stream.next_step()]


if __name__ == "__main__":
    main()
