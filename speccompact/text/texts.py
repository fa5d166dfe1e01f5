"""Several texts in one frame: each is planned by itself, so that no slot of the plan holds parts of two.

Encoding may join neighbouring slots that the model does not code, also those of different texts: what lasts is where a
text begins and ends in the frame's content, in bytes.
"""

from collections.abc import Iterable
from dataclasses import replace

from speccompact.params import MAX_FRAME_BYTES
from speccompact.text.slots import FramePlan, SlotPlan, plan_frame
from speccompact.text.vocabulary import TextEncoder


def plan_texts(
    texts: Iterable[bytes], *, tokenizer: TextEncoder, slot_tokens: int, frame_slots: int
) -> tuple[FramePlan, list[int]]:
    """Plan a frame of whole texts: as many from the first on as fit.

    Args:
        texts: none of them empty. No more are taken than are looked at.
        tokenizer, slot_tokens, frame_slots: as in `plan_frame`.

    Returns:
        the plan of the texts joined, and for each text how many of the plan's slots, in order, are its own, which tells
        its place in the content, not its slots in the coded frame. Both are empty where
        the first text does not fit: it needs frames of its own.
    """
    slots: list[SlotPlan] = []
    counts: list[int] = []
    start = 0
    for text in texts:
        room = frame_slots - len(slots)
        if not room or start + len(text) > MAX_FRAME_BYTES:
            break
        plan = plan_frame(text, final=True, tokenizer=tokenizer, slot_tokens=slot_tokens, frame_slots=room)
        if plan.consumed < len(text):
            break
        slots += [replace(slot, start=start + slot.start, stop=start + slot.stop) for slot in plan.slots]
        counts.append(len(plan.slots))
        start += len(text)
    return FramePlan(start, tuple(slots)), counts
