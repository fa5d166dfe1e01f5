"""Turns of callers."""

from dataclasses import dataclass

from speccompact_grpc.fairness import FairQueue


@dataclass(eq=False)
class Wish:
    """So many slots of 10 tokens each."""

    caller: str
    slots: int
    priority: int = 2


def served(queue: FairQueue[Wish], count: int, tokens: int = 10) -> str:
    """Serve so many slots and return the first letters of the callers."""
    order = ""
    for _ in range(count):
        head = queue.head()
        if head is None:
            break
        queue.serve(head, tokens)
        order += head.caller[0]
        head.slots -= 1
        if not head.slots:
            queue.remove(head)
    return order


def test_callers_take_turns_however_much_each_wants() -> None:
    queue: FairQueue[Wish] = FairQueue()
    for wish in (Wish("big", 50), Wish("small", 3), Wish("big", 50)):
        queue.push(wish)
    assert sorted(served(queue, 6)) == list("bbbsss")
    assert served(queue, 4) == "bbbb"


def test_orders_of_one_caller_take_turns() -> None:
    queue: FairQueue[Wish] = FairQueue()
    first, second = Wish("a", 9), Wish("a", 9)
    queue.push(first)
    queue.push(second)
    served(queue, 6)
    assert first.slots == second.slots == 6


def test_higher_priorities_go_first() -> None:
    queue: FairQueue[Wish] = FairQueue()
    for wish in (Wish("low", 2, 1), Wish("normal", 2), Wish("high", 2, 3)):
        queue.push(wish)
    assert served(queue, 9) == "hhnnll"


def test_who_comes_back_has_saved_nothing_and_owes_what_it_took() -> None:
    queue: FairQueue[Wish] = FairQueue()
    queue.push(Wish("early", 100))
    served(queue, 20)
    queue.push(Wish("late", 100))
    assert sorted(served(queue, 10)) == sorted("lelelelele")
    greedy = Wish("greedy", 1)
    queue.push(greedy)
    queue.serve(greedy, 1000)
    queue.remove(greedy)
    queue.push(Wish("greedy", 1))
    assert "g" not in served(queue, 20)


def test_orders_that_do_not_fit_are_passed_over() -> None:
    queue: FairQueue[Wish] = FairQueue()
    big, small = Wish("a", 5), Wish("a", 1)
    queue.push(big)
    queue.push(small)
    assert queue.head(lambda wish: wish.slots < 3) is small
    assert queue.head(lambda wish: wish.slots > 9) is None
    assert list(queue) == [big, small]
    queue.remove(big)
    queue.remove(small)
    assert not queue
    assert queue.head() is None
