"""How often the guess errs that makes the encoder give up a frame, as a Markdown table.

    python docs/decision.py [--level N] [--model NAME] FILE[:BYTES]...

Every frame is coded to its end, whatever the guess says, and the guess is compared with what came out: bits of the
model against those of zstandard, as `streams.framecodec` does. Frames that the model does not see are not counted.
"""

import argparse
import io
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import speccompact
from speccompact import codec, prospect
from speccompact.modelstore.registry import DEFAULT_MODEL

_seen: list["Watched"] = []


@dataclass(slots=True)
class Outcome:
    """What the guess said of a frame, and what was true.

    Attributes:
        given_up: share of the frame after which the guess gave up; None where it did not.
        ratio: bits of the model over those of zstandard, in the end.
    """

    given_up: float | None
    ratio: float

    @property
    def verdict(self) -> str:
        """Say whether the guess was right."""
        if self.given_up is None:
            return "kept, rightly" if self.ratio <= 1 else "kept in vain"
        return "given up, wrongly" if self.ratio <= 1 else "given up, rightly"


class Watched(prospect.Prospect):
    """A guess that is asked, and not obeyed."""

    def __init__(self, symbols: int, budget: int) -> None:
        super().__init__(symbols, budget)
        self._all, self._limit = symbols, budget
        self.outcome = Outcome(None, 0.0)
        _seen.append(self)

    def hopeless(self, settled: int, cost: int) -> bool:
        """Note what the guess says."""
        if super().hopeless(settled, cost) and self.outcome.given_up is None:
            self.outcome.given_up = settled / self._all
        self.outcome.ratio = cost / self._limit
        return False


def outcomes(content: bytes, model: str, level: int) -> list[Outcome]:
    """Return one outcome for each frame that the model sees."""
    _seen.clear()
    with mock.patch.object(codec, "Prospect", Watched):
        speccompact.compress_stream(io.BytesIO(content), io.BytesIO(), level=level, model=model)
    return [watched.outcome for watched in _seen]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, default=5)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("files", nargs="+", metavar="FILE[:BYTES]")
    arguments = parser.parse_args()
    print("| text | frame | model / zstandard | given up after | |\n|---|--:|--:|--:|---|")
    for argument in arguments.files:
        path, _, size = argument.partition(":")
        content = Path(path).read_bytes()[: int(size) if size else None]
        for number, outcome in enumerate(outcomes(content, arguments.model, arguments.level)):
            share = "" if outcome.given_up is None else f"{outcome.given_up:.0%}"
            print(f"| {Path(path).name} | {number} | {outcome.ratio:.2f} | {share} | {outcome.verdict} |", flush=True)


if __name__ == "__main__":
    main()
