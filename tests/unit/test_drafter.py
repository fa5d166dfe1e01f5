import numpy as np
import pytest

from speccompact.speculative.drafter import Draft, NoDrafter, Slot


def test_no_drafter_proposes_nothing_for_every_slot() -> None:
    slots = [Slot(n, np.arange(n, dtype=np.int32)) for n in (0, 1, 9)]
    drafts = NoDrafter().propose(slots, [5, 0, 2])
    assert [len(draft) for draft in drafts] == [0, 0, 0]
    assert {(draft.symbols.dtype, draft.chances.dtype) for draft in drafts} == {
        (np.dtype(np.int32), np.dtype(np.float32))
    }


@pytest.mark.parametrize("length", [0, 1, 2, 3, 9])
def test_a_draft_is_cut_from_behind(length: int) -> None:
    draft = Draft(np.array([4, 5, 6], np.int32), np.array([0.5, 0.25, 0.125], np.float32), "mine")
    cut = draft.cut(length)
    assert (cut.symbols.tolist(), cut.kind) == ([4, 5, 6][:length], "mine")
    assert cut.chances.tolist() == [0.5, 0.25, 0.125][:length]
