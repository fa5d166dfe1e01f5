"""What a user decides about the training of a drafter, checked, and what of it must not change while it goes on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from speccompact.errors import ArgumentError
from speccompact.speculative.blockfile import BlockShape, wrong_size
from speccompact.training.draftlosses import LOSSES, WEIGHTS
from speccompact.training.trainoptions import TrainOptions

_SIZES = ("listed", "window", "block", "embed", "width", "inner", "rank", "trust", "layers", "markov")
_MOST_COUNTED = 1 << 40
_SETTINGS_OF_ADAPTERS = ("rank", "alpha", "rounding_from")


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """How to train a drafter.

    Attributes:
        run: what it has in common with the training of adapters.
        loss: name, see `draftlosses.LOSSES`.
        weights: name, see `draftlosses.WEIGHTS`.
        text: learn from the text of a file of labels, not from what the target expects, to compare with that.
        stride: tokens from one block that is trained on to the next.
        listed: tokens that can be drafted, at most.
        counted: tokens of the training text that are counted to find these.
        window, block, embed, width, inner, layers, rank, markov, trust: see `blockfile.BlockShape`.
    """

    run: TrainOptions
    loss: str = "tvp"
    weights: str = "d-pace"
    text: bool = False
    stride: int = 4
    listed: int = 8192
    counted: int = 2_000_000
    window: int = 16
    block: int = 8
    embed: int = 128
    width: int = 256
    inner: int = 512
    layers: int = 2
    rank: int = 96
    markov: int = 64
    trust: int = 32

    def __post_init__(self) -> None:
        for holds, complaint in self._rules():
            if not holds:
                raise ArgumentError(complaint)

    def _rules(self) -> Iterator[tuple[bool, str]]:
        """Yield what must hold, and what is said where it does not."""
        yield self.loss in LOSSES, f'loss is "{self.loss}"; choose one of {", ".join(LOSSES)}'
        yield self.weights in WEIGHTS, f'weights is "{self.weights}"; choose one of {", ".join(WEIGHTS)}'
        most = self.run.passed_at_once
        yield 1 <= self.stride <= most, f"stride is {self.stride}; choose 1 to {most}, which pass the network at once"
        wrong = wrong_size({name: getattr(self, name) for name in _SIZES})
        yield not wrong, wrong
        yield 1 <= self.counted <= _MOST_COUNTED, f"counted is {self.counted}; choose 1 to {_MOST_COUNTED}"

    def shape(self, vocabulary: int, listed: int) -> BlockShape:
        """Return the sizes of the drafter.

        Args:
            vocabulary: tokens of the tokenizer.
            listed: tokens that can be drafted.
        """
        sizes = {name: getattr(self, name) for name in _SIZES if name != "listed"}
        return BlockShape(vocabulary, listed, **sizes)

    def settings(self) -> dict[str, Any]:
        """Return, as JSON, what has to stay the same for a run to go on."""
        shared = {name: value for name, value in self.run.settings().items() if name not in _SETTINGS_OF_ADAPTERS}
        return shared | self.own_settings()

    def own_settings(self) -> dict[str, Any]:
        """Return what of the settings is about drafters alone."""
        return {name: getattr(self, name) for name in ("loss", "weights", "text", "stride", "counted", *_SIZES)}
