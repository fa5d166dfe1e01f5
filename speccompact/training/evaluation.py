"""Bits per byte of held-out text, kind by kind: always the same slices, with the integers simulated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from speccompact.training.batch import Batch, make_batch
from speccompact.training.corpus import Chunks
from speccompact.training.sampling import Cutter, Symbols

_FEW_TOKENS = 4096
"""What is measured with less (some 16 kB of prose) says little about text of its kind."""


class BitsModel(Protocol):
    """What training and evaluation ask of a network; `network.Network` is one."""

    def bits(self, batch: Batch, rounding: bool) -> Tensor:
        """Return the code length of a batch, a float32 scalar."""
        ...


def slices(
    held_out: Mapping[str, Chunks], cutter: Cutter, *, length: int, micro_batch: int, tokens: int
) -> dict[str, list[Batch]]:
    """Return what each kind is measured with.

    Args:
        held_out: chunks by kind.
        cutter: with the target's tokenizer.
        length: tokens of a sequence, at most.
        micro_batch: tokens of a batch, at most.
        tokens: of each kind, at most; taken from chunks that lie evenly over its text.
    """
    return {kind: _slice(chunks, cutter, length, micro_batch, tokens) for kind, chunks in held_out.items()}


def short_measures(measured: Mapping[str, Sequence[Batch]]) -> list[str]:
    """Return a line about kinds that are measured with too little text to say much, or none.

    Args:
        measured: see `slices`.
    """
    tokens = {kind: sum(len(batch.targets) for batch in batches) for kind, batches in measured.items()}
    short = [f"{kind} ({count})" for kind, count in tokens.items() if count < _FEW_TOKENS]
    if not short:
        return []
    return [f"there are few tokens to measure with, so that changes are rough: {', '.join(short)}"]


def _slice(chunks: Chunks, cutter: Cutter, length: int, micro_batch: int, tokens: int) -> list[Batch]:
    batches: list[Batch] = []
    waiting: list[Symbols] = []
    filled, left = 0, tokens
    for index in _spread(len(chunks)):
        for symbols in cutter.sequences(chunks.read(index), length):
            symbols = symbols[:left]
            left -= symbols.size
            if filled + symbols.size > micro_batch:
                batches.append(make_batch(waiting, cutter.vocabulary))
                waiting, filled = [], 0
            waiting.append(symbols)
            filled += symbols.size
            if left == 0:
                break
        if left == 0:
            break
    if waiting:
        batches.append(make_batch(waiting, cutter.vocabulary))
    return batches


def _spread(count: int) -> Sequence[int]:
    """Return 0 … count-1 such that every beginning of it lies evenly: multiples of the golden ratio, wrapped."""
    places = np.arange(count) * 0.6180339887498949 % 1.0
    order: list[int] = np.argsort(places, kind="stable").argsort(kind="stable").tolist()
    return order


def evaluate(
    network: BitsModel, measured: Mapping[str, Sequence[Batch]], device: torch.device, pause: Callable[[], None]
) -> dict[str, float]:
    """Return the bits per byte of each kind.

    Args:
        network: the model.
        measured: see `slices`.
        device: where the network is.
        pause: called before every batch; it may raise.
    """
    result = {}
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        for kind, batches in measured.items():
            bits = 0.0
            for batch in batches:
                pause()
                bits += float(network.bits(batch.to(device), rounding=True))
            if batches:
                result[kind] = bits / sum(batch.content_bytes for batch in batches)
    return result


@dataclass(frozen=True, slots=True)
class Figure:
    """What held-out text is measured in.

    Attributes:
        name: in words.
        unit: behind a number.
        better: "less" or "more".
    """

    name: str
    unit: str
    better: str


BITS = Figure("bits", "bpb", "less")
SETTLED = Figure("tokens per pass", "tokens/pass", "more")


def changes(start: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return by kind how much a figure has changed since the start, in percent."""
    return {kind: 100 * (now[kind] / first - 1) for kind, first in start.items() if kind in now and first > 0}


def results(start: Mapping[str, float], end: Mapping[str, float]) -> dict[str, Any]:
    """Return both, and the changes, as JSON; its keys are a stable contract."""
    kinds = {
        kind: {"start_bpb": start[kind], "end_bpb": end[kind], "change_percent": change}
        for kind, change in changes(start, end).items()
    }
    return {"mean_change_percent": mean_change(start, end), "held_out": kinds}


def mean_change(start: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Return the mean of `changes` over the kinds, 0 where there is none."""
    each = changes(start, now)
    return sum(each.values()) / len(each) if each else 0.0
