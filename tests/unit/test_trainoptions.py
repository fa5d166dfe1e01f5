import json
from typing import Any

import pytest

from speccompact.errors import ArgumentError
from speccompact.training.trainoptions import TrainOptions, refuse_changes


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": 0},
        {"tokens": 10**400},
        {"rank": 0},
        {"rank": 10**400},
        {"alpha": 0.0},
        {"alpha": float("inf")},
        {"alpha": 8.0, "rank": None},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"warm_up": -1},
        {"rounding_from": 1.5},
        {"length": 8},
        {"short_share": -0.1},
        {"micro_batch": 512},
        {"micro_batch": 0},
        {"micro_batch": -4096},
        {"batch": 5000},
        {"batch": 512},
        {"batch": 0},
        {"batch": -16384},
        {"batch": 0, "micro_batch": 1024},
        {"batch": 1024 * 10**400},
        {"seed": -1},
        {"seed": 1 << 64},
        {"evaluate_every": 0},
        {"evaluate_tokens": 1},
        {"evaluate_length": 0},
        {"evaluate_length": 4097},
        {"checkpoint_minutes": -1.0},
    ],
)
def test_values_out_of_range_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        TrainOptions(**wrong)
    assert str(caught.value).split()[0] in wrong


def test_what_stands_for_what_is_not_said() -> None:
    options = TrainOptions(rank=8)
    assert (options.strength, options.passed_at_once, options.schedule().warm_up) == (8.0, 4096, 8 * 16384)
    assert TrainOptions(rank=None).strength == 1.0
    assert TrainOptions(batch=2048, length=512).passed_at_once == 2048
    assert (options.measured_length, TrainOptions(evaluate_length=2048).measured_length) == (1024, 2048)
    assert TrainOptions(tokens=20 * 16384 * 3).evaluation_steps == 3
    assert TrainOptions(tokens=1).evaluation_steps == 1


def test_settings_survive_json_and_are_compared() -> None:
    options = TrainOptions(mix={"logs": 0.1}, learning_rate=3e-4)
    before = json.loads(json.dumps(options.settings()))
    refuse_changes(before, TrainOptions(mix={"logs": 0.1}, learning_rate=3e-4, tokens=5, threads=1).settings())
    with pytest.raises(ArgumentError, match=r"^learning_rate is 0.001, but the run began with 0.0003"):
        refuse_changes(before, TrainOptions(mix={"logs": 0.1}).settings())
    with pytest.raises(ArgumentError, match=r"^rank is None"):
        refuse_changes(before, TrainOptions(mix={"logs": 0.1}, learning_rate=3e-4, rank=None).settings())
    with pytest.raises(ArgumentError, match=r"^stream_version is 2 in this release, and the run began with None"):
        refuse_changes({}, {"stream_version": 2})
    with pytest.raises(ArgumentError, match=r"^corpus has changed"):
        refuse_changes({"corpus": "a"}, {"corpus": "b"})
