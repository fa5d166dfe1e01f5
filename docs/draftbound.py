"""Trains a block drafter that is bound to one target, and measures it under others: the opposite of what ships.

    python docs/draftbound.py --corpus CORPUS --held-out HELD_OUT --labels LABELS --model TARGET -o OUT \
        --under NAME=MODEL --under NAME=MODEL ...

It reads the target's last hidden state beside the tokens, and learns from the target's soft labels (LABELS, by `train
labels` with TARGET), as EAGLE-like drafters do. The state is the one that a decoder has: that of the last row whose
output was right, since the token that it was corrected to is read by the target only in the coming pass. Under another
target it gets that one's hidden states; where these have another width, it cannot run at all. OUT/result.json has
tokens per pass of held-out text by target and kind. A run that was stopped goes on where it was.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.merging import fingerprint
from speccompact.modelstore.storefiles import commit, temporary
from speccompact.speculative.blockfile import BlockShape
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from speccompact.training.batch import Batch
from speccompact.training.conduct import carry_out, measured_slices, open_material
from speccompact.training.draftexamples import Examples, Places, frequent_tokens, make_examples
from speccompact.training.draftlabels import LabelledBatch, Labels, LabelStream, read_labels
from speccompact.training.draftmeasure import joined, try_batch
from speccompact.training.draftnetwork import DraftNetwork
from speccompact.training.draftpass import Aim, draft_loss, soft_labels
from speccompact.training.evaluation import SETTLED
from speccompact.training.metrics import Line
from speccompact.training.network import Network
from speccompact.training.resuming import choose_checkpoint
from speccompact.training.trainer import LAST, make_optimiser
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base

STRIDE = 4


@dataclass(frozen=True)
class StatesBatch(LabelledBatch):
    """A labelled batch with the target's hidden states.

    Attributes:
        states: (tokens, hidden) float16, see `states_of`.
    """

    states: Tensor


class StatesStream(LabelStream):
    """Batches of labelled text with the hidden states of a target."""

    def __init__(self, labels: Labels, states: Tensor, batch: int, micro_batch: int, seed: int) -> None:
        """See `LabelStream`; states are those of `states_of`."""
        super().__init__(labels, batch, micro_batch, seed)
        self._states = states

    def make(self, rows: npt.NDArray[np.int64], lengths: tuple[int, ...]) -> Batch:
        """See `LabelStream.make`."""
        made = super().make(rows, lengths)
        assert isinstance(made, LabelledBatch)
        states = self._states[torch.from_numpy(rows)]
        return StatesBatch(made.inputs, made.targets, lengths, 0, made.symbols, made.chances, states)


class BoundNetwork(DraftNetwork):
    """A block drafter that also reads a hidden state of the target at each anchor.

    Attributes:
        states: (tokens, hidden), those of the batch at hand.
    """

    states: Tensor

    def __init__(self, shape: BlockShape, embed: Tensor, places: Places, seed: int) -> None:
        """See `DraftNetwork`; what is read of the state begins at nothing."""
        super().__init__(shape, embed, places, seed)
        self.bound = nn.Parameter(torch.zeros(shape.width, embed.shape[1]))

    def read(self, examples: Examples) -> Tensor:
        """See `DraftNetwork.read`."""
        seen = functional.rms_norm(self.states[examples.anchors].float(), (self.states.shape[1],))
        return super().read(examples) + functional.linear(seen, self.bound)


class Binding:
    """The subject of the run, see `trainer.Subject`."""

    loss_name, figure = "loss", SETTLED

    def __init__(self, network: BoundNetwork, target: Network, measured: Mapping[str, Sequence[Batch]]) -> None:
        self.network: BoundNetwork = network
        self._target, self._measured = target, measured

    def begin(self) -> None:
        """Nothing."""

    def loss(self, batch: Batch, step: int) -> Tensor:
        """Return the loss of soft labels."""
        assert isinstance(batch, StatesBatch)
        network = self.network
        network.states = batch.states
        phase = step % min(STRIDE, len(batch.targets))
        examples = make_examples(batch, network.places, network.shape.window, network.shape.block, STRIDE, phase)
        soft = soft_labels(examples, network.places, batch.symbols, batch.chances)
        return draft_loss(network, examples, Aim("kl", "d-pace", 0.0), soft) * len(batch.targets)

    def conditions(self, step: int) -> Line:
        """Return nothing more."""
        return {}

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        """Return tokens per pass by kind under the target itself."""
        return measure_under(self.network, self._target, self._measured, pause)


def states_of(target: Network, batch: Batch) -> Tensor:
    """Return the last hidden state of a target that a decoder has when it drafts from each token of a batch on.

    The row whose output is token i has read token i - 1, which is known only when the row before has been computed: so
    that row before is all that there is, and at the start of a sequence nothing.

    Returns:
        (tokens, hidden) float16, in the basis of its embedding; zeros for nothing.
    """
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        hidden = target.hidden(batch, rounding=False)[0]
    states = hidden.half().roll(1, 0)
    states[torch.tensor([0, *batch.lengths[:-1]]).cumsum(0)] = 0
    return states


def measure_under(
    network: BoundNetwork, target: Network, measured: Mapping[str, Sequence[Batch]], pause: Callable[[], None]
) -> dict[str, float]:
    """Return tokens per pass by kind with the hidden states of a target."""
    found = {}
    for kind, batches in measured.items():
        parts = []
        for batch in batches:
            pause()
            network.states = states_of(target, batch)
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                parts.append(try_batch(network, batch))
        if parts:
            found[kind] = joined(parts).tokens_per_pass
    return found


def main() -> None:
    """Train, measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, type=Path)
    parser.add_argument("--held-out", required=True, type=Path)
    parser.add_argument("--labels", required=True, type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--under", action="append", default=[], metavar="NAME=MODEL")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--tokens", type=int, default=300_000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--length", type=int, default=1024)
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
    labels = read_labels(given.labels, vocabulary)
    if labels.origin.model != fingerprint(base):
        raise SystemExit(f"{given.labels}: the labels are of another model than {given.model}")
    places = Places.make(*frequent_tokens([labels.tensors["targets"]], vocabulary.size, given.listed), vocabulary.size)
    shape = BlockShape(vocabulary.size, len(places.listed))
    embed = torch.from_numpy(np.ascontiguousarray(base.tensors["embed"], np.float32))
    network = BoundNetwork(shape, embed, places, given.seed)
    target = Network(base, 1, 1.0, 0)  # adapters that nobody has trained change nothing
    subject = Binding(network, target, measured)
    stream = StatesStream(
        labels, all_states(target, labels, options), options.batch, options.passed_at_once, given.seed
    )
    same = {
        "study": "bound",
        "model": fingerprint(base),
        "labels": file_sha256(given.labels),
        "held_out": material.corpus.held_digest(),
        "listed": given.listed,
    } | options.settings()
    resume = (given.output / LAST).exists()
    chosen = choose_checkpoint(given.output, options.schedule(), same) if resume else None
    optimiser = make_optimiser(network, options.learning_rate)
    carry_out(
        given.output, subject, optimiser, stream, options, same, chosen, watch=lambda _: None, stopping=lambda: False
    )
    under: dict[str, Any] = {}
    for named in given.under:
        name, _, model = named.partition("=")
        other = load_base(model)[0]
        fits = other.config.hidden == base.config.hidden
        under[name] = measure_under(network, Network(other, 1, 1.0, 0), measured, lambda: None) if fits else None
    with temporary(given.output) as place:
        place.write_text(json.dumps({"under": under}, indent=1) + "\n", "utf-8")
        commit(place, given.output / "result.json")


def all_states(target: Network, labels: Labels, options: TrainOptions) -> Tensor:
    """Return the hidden states of all labelled text, some sequences at a time."""
    stream = LabelStream(labels, options.batch, options.passed_at_once, 0, soft=False)
    lengths = labels.tensors["lengths"].astype(np.int64).tolist()
    states, first = [], 0
    for length in lengths:
        batch = stream.make(np.arange(first, first + length), (length,))
        states.append(states_of(target, batch))
        first += length
    return torch.cat(states)


if __name__ == "__main__":
    main()
