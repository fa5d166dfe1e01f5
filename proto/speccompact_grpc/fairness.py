"""Whose turn it is: orders of several callers, of which each gets as much as the others.

Start-time fair queueing (Goyal, Vin, Cheng 1996): every caller has a clock that its own tokens move on, and the caller
whose clock is furthest behind is served. A caller who comes back does not get what it has not used. Higher priorities
go first; the orders of one caller take turns.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar


class Ordered(Protocol):
    """What is queued."""

    @property
    def caller(self) -> str:
        """Name of the caller."""
        ...

    @property
    def priority(self) -> int:
        """Higher ones go first."""
        ...


Order = TypeVar("Order", bound=Ordered)


class FairQueue(Generic[Order]):
    """Orders that wait. Not safe for use from several threads at once."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str], deque[Order]] = {}
        self._clocks: dict[str, int] = {}
        self._now = 0

    def __iter__(self) -> Iterator[Order]:
        for orders in self._waiting.values():
            yield from orders

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def push(self, order: Order) -> None:
        """Queue an order behind those of its caller."""
        if order.caller not in {caller for _, caller in self._waiting}:
            self._clocks[order.caller] = max(self._now, self._clocks.get(order.caller, 0))
        self._waiting.setdefault((order.priority, order.caller), deque()).append(order)

    def head(self, fits: Callable[[Order], bool] = lambda order: True) -> Order | None:
        """Return the order whose turn it is, of those that fit; None if there is none."""
        for key in sorted(self._waiting, key=lambda key: (-key[0], self._clocks[key[1]])):
            for order in self._waiting[key]:
                if fits(order):
                    return order
        return None

    def serve(self, order: Order, tokens: int) -> None:
        """Take note that an order was given so many tokens; the next turn of its caller is another's."""
        self._now = max(self._now, self._clocks[order.caller])
        self._clocks[order.caller] += tokens
        orders = self._waiting[order.priority, order.caller]
        orders.remove(order)
        orders.append(order)

    def remove(self, order: Order) -> None:
        """Take an order out."""
        key = order.priority, order.caller
        self._waiting[key].remove(order)
        if not self._waiting[key]:
            del self._waiting[key]
        known = {caller for _, caller in self._waiting}
        self._clocks = {caller: clock for caller, clock in self._clocks.items() if clock > self._now or caller in known}
