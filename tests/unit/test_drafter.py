import numpy as np

from speccompact.speculative.drafter import NoDrafter


def test_no_drafter_proposes_nothing_for_every_slot() -> None:
    histories = [np.arange(n, dtype=np.int32) for n in (0, 1, 9)]
    drafts = NoDrafter().propose(histories, [5, 0, 2])
    assert [draft.tolist() for draft in drafts] == [[], [], []]
    assert {draft.dtype for draft in drafts} == {np.dtype(np.int32)}
