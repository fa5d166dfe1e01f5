from speccompact.speculative.gate import Gate


def tries(gate: Gate, passes: int, gained: float, cost: float) -> int:
    count = 0
    for _ in range(passes):
        if gate.opens():
            count += 1
            gate.learn(gained, cost)
    return count


def test_what_pays_is_tried_always() -> None:
    assert tries(Gate(), 500, 2.0, 1.0) == 500


def test_what_never_pays_is_tried_ever_more_seldom() -> None:
    gate = Gate()
    assert 16 <= tries(gate, 300, 0.0, 1.0) < 30
    assert tries(gate, 1000, 0.0, 1.0) < 20


def test_what_begins_to_pay_is_found_out() -> None:
    gate = Gate()
    tries(gate, 200, 0.0, 1.0)
    tries(gate, 2000, 20.0, 1.0)
    assert tries(gate, 100, 20.0, 1.0) == 100
