"""Decodes text with drafts of fixed lengths and with the controller's choice, and prints tokens per second.

    python docs/draftlength.py FILE... [--drafter hybrid] [--slots 1,4,16,64] [--lengths 0,1,2,4,8,16] [--tokens 4096]

This measures the product: the exact target, its kernels, and slots without a memory, so that only drafts differ. Each
row is a number of slots; each column a length that all drafts are cut to, the last one what the controller chose. With
a fixed length drafts do not end where they become doubtful; with 0 nothing drafts. Every result is compared with the
text. Drafters are made before the clock starts. Runs of a row alternate, and medians of `--repeat` rounds are printed.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from speccompact.codec import Codec
from speccompact.modelstore.loading import Target, load_target
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.options import DrafterName, Options
from speccompact.slotbatch import DecodedSlot
from speccompact.speculative.drafter import Draft, Drafter, NoDrafter, Slot
from speccompact.speculative.drafters import make_drafter, make_drafting
from speccompact.speculative.drafting import Drafting
from speccompact.streams.engine import CodedSlot
from speccompact.text.tokenizer import Tokenizer

Symbols = npt.NDArray[np.int32]

CHOSEN = "controller"


class Fixed:
    """Cuts all drafts of a drafter to one length, see `Drafter`."""

    def __init__(self, drafter: Drafter, length: int) -> None:
        self._drafter, self._length = drafter, length

    def begin(self, capacity: int) -> None:
        """See `Drafter.begin`."""
        self._drafter.begin(capacity)

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """See `Drafter.propose`."""
        return self._drafter.propose(slots, [min(limit, self._length) for limit in limits])

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """See `Drafter.learn`."""
        self._drafter.learn(slots, drafts, settled)


def main() -> None:
    """Measure every file and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--drafter", choices=get_args(DrafterName), default="hybrid")
    parser.add_argument("--drafter-file", default="")
    parser.add_argument("--slots", type=numbers, default=(1, 4, 16, 64))
    parser.add_argument("--lengths", type=numbers, default=(0, 1, 2, 3, 4, 6, 8, 12, 16))
    parser.add_argument("--tokens", type=int, default=4096, help="of all slots together")
    parser.add_argument("--slot-tokens", type=int, default=256, help="of each, at most")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-T", "--threads", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    options = Options(arguments.threads, drafter=arguments.drafter, drafter_file=arguments.drafter_file)
    target, tokenizer = load_target(arguments.model, options)
    _, name, note = make_drafter(target.vocabulary, options)
    if note or name != options.drafter:
        raise SystemExit(note or f"{name} drafts in place of {options.drafter}")
    found: dict[str, Any] = {}
    for path in arguments.files:
        rows = {}
        for count in arguments.slots:
            texts = cut(path, tokenizer, count, min(arguments.slot_tokens, arguments.tokens // count))
            rows[str(count)] = measure(target, options, texts, arguments.lengths, arguments.repeat)
        found[path.name] = rows
        if not arguments.json:
            print(f"{path.name}\n\n" + "\n".join(table(rows)) + "\n")
    if arguments.json:
        print(json.dumps({"drafter": name, "tokens_per_s": found}, indent=1))


def numbers(text: str) -> tuple[int, ...]:
    """Return whole numbers that are written with commas."""
    return tuple(int(number) for number in text.split(","))


def cut(path: Path, tokenizer: Tokenizer, slots: int, tokens: int) -> list[Symbols]:
    """Return slots of a text, evenly over its first part, as long as it goes."""
    symbols = tokenizer.encode(path.read_bytes()[: 16 * slots * tokens])
    parts = [symbols[start : start + tokens] for start in range(0, min(len(symbols), slots * tokens), tokens)]
    return [part for part in parts if len(part)]


def measure(
    target: Target, options: Options, texts: Sequence[Symbols], lengths: Sequence[int], repeat: int
) -> dict[str, float]:
    """Return tokens per second by the length of drafts, and with the controller."""
    encoded = Codec(target, options).try_encode(texts, [0] * len(texts), None)
    assert encoded is not None  # there is no budget to exceed
    slots = [CodedSlot(slot.payload, len(text)) for slot, text in zip(encoded, texts, strict=True)]

    def fixed(length: int) -> Drafting:
        if not length:
            return Drafting(NoDrafter(), "none")
        drafter, name, _ = make_drafter(target.vocabulary, options, floor=0.0)
        return Drafting(Fixed(drafter, length), name)

    makers: dict[str, Callable[[], Drafting]] = {str(length): partial(fixed, length) for length in lengths}
    makers[CHOSEN] = partial(make_drafting, target.vocabulary, options)
    rates: dict[str, list[float]] = {name: [] for name in makers}
    for turn in range(repeat + 1):
        for name, maker in makers.items():
            drafting = maker()
            codec = Codec(target, options, partial(_itself, drafting))
            began = time.perf_counter()
            results = codec.decode(slots)
            seconds = time.perf_counter() - began
            for result, text in zip(results, texts, strict=True):
                if not isinstance(result, DecodedSlot) or result.symbols.tolist() != text.tolist():
                    raise SystemExit(f"drafts of length {name}: decoded something else")
            if turn:  # the first round loads and compiles
                rates[name].append(sum(map(len, texts)) / seconds)
    return {name: statistics.median(values) for name, values in rates.items()}


def _itself(drafting: Drafting) -> Drafting:
    return drafting


def table(rows: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines of a Markdown table."""
    columns = list(next(iter(rows.values())))
    lines = [f"| slots | {' | '.join(columns)} |", "|--:|" + "--:|" * len(columns)]
    lines += [f"| {slots} | {' | '.join(f'{row[column]:.1f}' for column in columns)} |" for slots, row in rows.items()]
    return lines


if __name__ == "__main__":
    main()
