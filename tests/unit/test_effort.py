import json

from speccompact.speculative.effort import Acceptance, Effort

FIRST = Effort(5, 2.0, 0.5, {"suffix": Acceptance((3, 2), (3, 1), (2, 1))})
SECOND = Effort(4, 1.0, 0.25, {"suffix": Acceptance((1,), (1,), (0,)), "block": Acceptance((2,), (2,), (2,))})


def test_costs_add_up() -> None:
    both = FIRST + SECOND
    assert (both.passes, both.target_s, both.draft_s) == (9, 3.0, 0.75)
    assert both.drafts["suffix"] == Acceptance((4, 2), (4, 1), (2, 1))
    assert both.drafts["block"] == SECOND.drafts["block"]
    assert both - FIRST == Effort(
        4, 1.0, 0.25, {"suffix": Acceptance((1, 0), (1, 0), (0, 0)), "block": SECOND.drafts["block"]}
    )
    assert Effort() + FIRST == FIRST


def test_programs_can_read_it() -> None:
    assert json.loads(json.dumps(FIRST.to_json())) == {
        "passes": 5,
        "target_s": 2.0,
        "draft_s": 0.5,
        "drafts": {"suffix": {"proposed": [3, 2], "reached": [3, 1], "right": [2, 1]}},
        "notes": [],
    }


def test_what_was_not_as_asked_is_said_once() -> None:
    noted = Effort(notes=("a", "b"))
    assert (noted + Effort(notes=("b", "c"))).notes == ("a", "b", "c")
    assert (noted - Effort()).notes == ("a", "b")
