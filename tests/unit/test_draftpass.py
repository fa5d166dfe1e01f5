"""The gradients of drafters against those that torch finds for the plain formula, and what is measured of drafts."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from speccompact.speculative.blockfile import BlockShape
from speccompact.training.batch import Batch
from speccompact.training.draftexamples import Examples, Places, frequent_tokens, make_examples
from speccompact.training.draftlosses import LOSSES, WEIGHTS, log_acceptance, text_buckets, top_buckets
from speccompact.training.draftmeasure import calibration, try_drafts
from speccompact.training.draftnetwork import DraftNetwork
from speccompact.training.draftpass import Aim, Soft, draft_loss, judge

VOCABULARY, LISTED = 40, 24
SHAPE = BlockShape(VOCABULARY, LISTED, 4, 3, 6, 12, 10, 2, 8, 5, 4)


def places() -> Places:
    """Three tokens of five can be drafted."""
    tokens = np.flatnonzero(np.arange(VOCABULARY) % 5 < 3)[:LISTED]
    return Places.make(tokens, np.ones(LISTED, np.int64), VOCABULARY)


def network(seed: int = 0) -> DraftNetwork:
    generator = torch.Generator().manual_seed(seed)
    made = DraftNetwork(SHAPE, torch.randn(VOCABULARY, 16, generator=generator), places(), seed)
    with torch.no_grad():
        made.trust_output.normal_(generator=generator)
    return made


def text(seed: int = 0, lengths: tuple[int, ...] = (40, 25, 1)) -> Batch:
    symbols = torch.randint(VOCABULARY, (sum(lengths),), generator=torch.Generator().manual_seed(seed))
    return Batch(symbols, symbols, lengths, 1)


def examples(batch: Batch, stride: int = 1) -> Examples:
    return make_examples(batch, places(), SHAPE.window, SHAPE.block, stride)


def plain_logs(made: DraftNetwork, given: Examples) -> Tensor:
    return torch.nn.functional.linear(made.rows(given), made.head, made.head_bias).log_softmax(-1)


def plain_loss(made: DraftNetwork, given: Examples, aim: Aim, soft: Soft | None) -> Tensor:
    """The formula as it is written, all scores at once."""
    logs = plain_logs(made, given)
    hits = (logs.argmax(-1) == given.wanted) & given.inside
    if soft is None:
        usable = (given.inside & (given.wanted < LISTED)).float()
        buckets = text_buckets(logs, given.wanted.clamp_max(LISTED - 1))
    else:
        usable = given.inside.float()
        buckets = top_buckets(logs, soft.places, soft.chances)
    chances = log_acceptance(buckets).detach().exp()
    weights = WEIGHTS[aim.weights](chances * usable if soft is None else chances, hits) * usable
    return (weights * LOSSES[aim.loss](buckets, aim.power)).sum() / weights.sum()


def soft_labels(given: Examples) -> Soft:
    generator = torch.Generator().manual_seed(7)
    order = torch.rand(*given.wanted.shape, LISTED, generator=generator).argsort(-1)[..., :5]
    chances = torch.rand(order.shape, generator=generator).softmax(-1) * 0.9
    order[..., -1] = -1
    return Soft(order, chances)


@pytest.mark.parametrize("labels", [None, soft_labels], ids=["text", "soft"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_formula(loss: str, weights: str, labels: Callable[[Examples], Soft] | None) -> None:
    made, given, aim = network(), examples(text()), Aim(loss, weights, 0.5)
    soft = labels(given) if labels else None
    names = [name for name, _ in made.named_parameters() if not name.startswith("trust")]
    parameters = [made.get_parameter(name) for name in names]
    expected = torch.autograd.grad(plain_loss(made, given, aim, soft), parameters)
    draft_loss(made, given, aim, soft).backward()  # type: ignore[no-untyped-call]
    for name, slope in zip(names, expected, strict=True):
        torch.testing.assert_close(made.get_parameter(name).grad, slope, rtol=1e-4, atol=1e-6, msg=name)


def test_the_trust_learns_of_what_is_reached_and_changes_nothing_else() -> None:
    made, given = network(), examples(text())
    with torch.no_grad():
        logs = plain_logs(made, given)
    hits = (logs.argmax(-1) == given.wanted) & given.inside
    reached = given.inside & torch.cat([torch.ones(len(hits), 1, dtype=torch.bool), hits[:, :-1]], 1).cumprod(1).bool()
    rows = made.rows(given).detach()
    best = torch.nn.functional.linear(rows, made.head, made.head_bias).detach().amax(-1)
    seen = torch.cat([rows, best[..., None]], -1) @ made.trust_input.T + made.trust_bias
    logits = torch.nn.functional.silu(seen) @ made.trust_output
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[reached], hits[reached].float())
    expected = torch.autograd.grad(loss, [made.trust_input, made.trust_bias, made.trust_output])
    draft_loss(made, given, Aim("kl", "uniform", 0.0)).backward()  # type: ignore[no-untyped-call]
    found = [made.trust_input.grad, made.trust_bias.grad, made.trust_output.grad]
    torch.testing.assert_close(found, list(expected), rtol=1e-4, atol=1e-6)


def test_bfloat16_is_near() -> None:
    made, given, aim = network(), examples(text()), Aim("tvp", "d-pace", 0.5)
    exact = draft_loss(made, given, aim)
    with torch.autocast("cpu", torch.bfloat16):
        near = draft_loss(made, given, aim)
    assert near.item() == pytest.approx(exact.item(), rel=0.02)


def test_bfloat16_tells_sure_drafts_apart() -> None:
    made, known = network(), places()
    token = int(known.listed[3])
    same = Batch(torch.full((40,), token), torch.full((40,), token), (40,), 1)
    with torch.no_grad():
        made.head_bias[3] = made.head_bias.max() + 16.0
        made.trust_output.zero_()  # whose loss is then the same in any case
    given, aim = examples(same), Aim("cross-entropy", "uniform", 0.0)
    with torch.no_grad():
        wrong = -plain_logs(made, given)[..., 3].exp().sub(1)[given.inside]
    assert 0 < float(wrong.mean()) < 2**-9  # which bfloat16 rounds to nothing beside 1
    exact = draft_loss(made, given, aim)
    with torch.autocast("cpu", torch.bfloat16):
        near = draft_loss(made, given, aim)
    judged = math.log(2)
    assert exact.item() - judged > 0
    assert near.item() - judged == pytest.approx(exact.item() - judged, rel=0.1)


def test_examples_stay_within_their_sequence() -> None:
    batch = text(lengths=(3, 2))
    known = places()
    given = make_examples(batch, known, 4, 3)
    none = len(batch.targets)
    assert given.windows.tolist() == [
        [none] * 4,
        [none, none, none, 0],
        [none, none, 0, 1],
        [none] * 4,
        [none, none, none, 3],
    ]
    assert given.inside.tolist() == [
        [True, True, True], [True, True, False], [True, False, False], [True, True, False], [True, False, False],
    ]  # fmt: skip
    of = known.of[batch.targets].tolist()
    assert given.wanted[0].tolist() == of[:3]
    assert given.before[0].tolist() == [LISTED, *of[:2]]
    assert given.before[1].tolist() == [of[0], of[1], of[2]]
    assert make_examples(batch, known, 4, 3, stride=2, phase=1).anchors.tolist() == [1, 3]


def test_frequent_tokens() -> None:
    sequences = [np.array(part, np.int32) for part in ([5, 5, 1], [1, 3, 3, 3, 2])]
    tokens, counts = frequent_tokens(sequences, 9, 3)
    assert (tokens.tolist(), counts.tolist()) == ([1, 3, 5], [2, 3, 2])
    assert frequent_tokens(sequences, 9, 100)[0].tolist() == [1, 2, 3, 5]


def test_drafts_are_judged_up_to_the_first_wrong_one() -> None:
    made, given = network(), examples(text(3))
    with torch.no_grad():
        judged = judge(made, given)
        logs = plain_logs(made, given)
    hits = (logs.argmax(-1) == given.wanted) & given.inside
    before = torch.cat([torch.ones(len(hits), 1, dtype=torch.bool), hits[:, :-1]], 1).cumprod(1).bool()
    assert judged.reached.equal(before & given.inside)
    assert judged.hits.equal(hits & judged.reached)


def test_tokens_per_pass_follow_the_decoder() -> None:
    made, batch = network(), text(5)
    trial = try_drafts(made, {"a": [batch, batch]}, lambda: None)["a"]
    settled = (trial.judged.hits.sum(1) + 1).tolist()
    passes, start = [], 0
    for length in (*batch.lengths, *batch.lengths):
        at = start
        while at < start + length:
            passes.append(at)
            at += settled[at]
        start += length
    assert trial.passes.tolist() == passes
    assert trial.tokens_per_pass == 2 * len(batch.targets) / len(passes)
    assert all(0 <= rate <= 1 for rate in trial.acceptance())


def test_calibration_says_how_often_drafts_are_right() -> None:
    made = network()
    trials = try_drafts(made, {"a": [text(seed) for seed in range(20)]}, lambda: None)
    scale, shift = calibration(trials)
    judged = trials["a"].judged
    chances = torch.sigmoid(judged.logits * scale + shift)
    assert float(chances[judged.reached].sum()) == pytest.approx(float(judged.hits.sum()), rel=0.02)
