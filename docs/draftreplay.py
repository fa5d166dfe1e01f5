"""Replays decoding with a drafter on known text: tokens per pass and acceptance by position, without any target.

    python docs/draftreplay.py --drafter suffix --held-out HELD_OUT -o RESULT.json [--model NAME] [--drafter-file FILE]

What a pass settles depends on the text and the drafter alone, since drafts are held against the text. Each folder of
HELD_OUT is a kind of text; its files are cut into slots as the product cuts them, and as many slots as a frame has are
decoded side by side. Drafts are cut at the borders of epochs, as they are with a memory, and not by a controller: it
would need a target's times. For the same reason no drafter of `hybrid` costs anything here.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from speccompact.memory.group import next_border
from speccompact.modelstore.registered import open_checkpoint
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.modelstore.storefiles import commit, temporary
from speccompact.options import DrafterName, Options
from speccompact.speculative.drafter import Slot
from speccompact.speculative.drafters import make_drafter
from speccompact.speculative.drafting import Drafting
from speccompact.text.slots import plan_frame
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary

Symbols = npt.NDArray[np.int32]


def main() -> None:
    """Replay one drafter on every kind of text and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", required=True, choices=get_args(DrafterName))
    parser.add_argument("--drafter-file", default="")
    parser.add_argument("--held-out", required=True, type=Path)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="whose tokenizer cuts the text")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--slot-tokens", type=int, default=1024)
    parser.add_argument("--frame-slots", type=int, default=64)
    parser.add_argument("--length", type=int, default=8, help="tokens of a draft, at most")
    parser.add_argument("--no-borders", action="store_true", help="as on levels without a memory")
    parser.add_argument("--tokens", type=int, default=16384, help="of each kind, at most")
    arguments = parser.parse_args()
    spec = open_checkpoint(arguments.model).tokenizer
    tokenizer = Tokenizer(spec, Vocabulary(spec.token_bytes(), spec.special_ids))
    options = Options(drafter=arguments.drafter, drafter_file=arguments.drafter_file)
    borders = not arguments.no_borders
    name = require_drafter(tokenizer.vocabulary, options)
    kinds: dict[str, Any] = {}
    for folder in sorted(path for path in arguments.held_out.iterdir() if path.is_dir()):
        slots = cut(folder, tokenizer, arguments.slot_tokens, arguments.tokens)
        if slots:
            drafter, *_ = make_drafter(tokenizer.vocabulary, options, clock=lambda: 0.0)
            drafting = Drafting(drafter, name)
            frames = [slots[i : i + arguments.frame_slots] for i in range(0, len(slots), arguments.frame_slots)]
            passes = sum(replay(drafting, frame, tokenizer, arguments.length, borders) for frame in frames)
            tokens = sum(map(len, slots))
            kinds[folder.name] = {
                "tokens": tokens,
                "passes": passes,
                "tokens_per_pass": tokens / passes,
                "oracle_tokens_per_pass": tokens / sum(fewest(len(slot), arguments.length, borders) for slot in slots),
                "drafts": drafting.effort.to_json()["drafts"],
            }
    with temporary(arguments.output.parent) as place:
        place.write_text(json.dumps({"drafter": name, "held_out": kinds}, indent=1) + "\n", "utf-8")
        commit(place, arguments.output)


def require_drafter(vocabulary: Vocabulary, options: Options) -> str:
    """Return the name of the drafter that options ask for, and end where another one would stand in for it."""
    _, name, note = make_drafter(vocabulary, options)
    if note or name != options.drafter:
        raise SystemExit(note or f"{name} drafts in place of {options.drafter}")
    return name


def fewest(tokens: int, length: int, borders: bool) -> int:
    """Return the passes of a slot with drafts of this length that are always right; borders cut them."""
    passes = position = 0
    while position < tokens:
        stop = min(tokens, next_border(position) if borders else tokens)
        passes += -(-(stop - position) // (length + 1))
        position = stop
    return passes


def cut(folder: Path, tokenizer: Tokenizer, slot_tokens: int, most: int) -> list[Symbols]:
    """Return slots of the text of a folder, file by file, each with an equal part of the tokens."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    left = max(1, most // max(1, len(files)))
    return [symbols for path in files for symbols in _first(path.read_bytes(), tokenizer, slot_tokens, left)]


def _first(data: bytes, tokenizer: Tokenizer, slot_tokens: int, most: int) -> Iterator[Symbols]:
    plan = plan_frame(
        data[: 16 * most], final=True, tokenizer=tokenizer, slot_tokens=slot_tokens, frame_slots=1 + most // 16
    )
    for slot in plan.slots:
        if slot.symbols is not None and most > 0:
            yield slot.symbols[:most]
            most -= len(slot.symbols)


def replay(drafting: Drafting, texts: Sequence[Symbols], tokenizer: Tokenizer, length: int, borders: bool) -> int:
    """Decode a frame whose text is known; returns the passes, counted once for each slot that took part.

    Args:
        drafting: of the frames before it.
        texts: (n,) int32 for each slot.
        tokenizer: of the text.
        length: tokens of a draft, at most.
        borders: slots wait for each other at the borders of epochs.
    """
    drafting.begin(max(map(len, texts)), tokenizer.vocabulary.symbols)
    settled, passes, border = [0] * len(texts), 0, 0
    while any(at < len(text) for at, text in zip(settled, texts, strict=True)):
        if all(at >= min(border, len(text)) for at, text in zip(settled, texts, strict=True)):
            border = next_border(border) if borders else max(map(len, texts))
        ready = [n for n, text in enumerate(texts) if settled[n] < min(border, len(text))]
        limits = [min(length, min(border, len(texts[n])) - settled[n] - 1) for n in ready]
        drafts = drafting.propose([Slot(n, texts[n][: settled[n]], len(texts[n])) for n in ready], limits)
        counts = []
        for n, draft in zip(ready, drafts, strict=True):
            hits = draft == texts[n][settled[n] : settled[n] + len(draft)]
            counts.append(1 + (len(draft) if hits.all() else int(hits.argmin())))
            settled[n] += counts[-1]
        drafting.learn([Slot(n, texts[n][: settled[n]], len(texts[n])) for n in ready], counts, len(ready))
        passes += len(ready)
    return passes


if __name__ == "__main__":
    main()
