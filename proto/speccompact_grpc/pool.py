"""The pool of a model: one thread that runs target passes over the slots of all callers together.

Slots get places as others leave, between any two passes. Those that share nothing come one by one, so that a small
text is not kept waiting by a large one; those of a frame with a memory come all at once, because they go through its
epochs side by side. Each kind has half of the places while the other wants more: neither can keep the other out.
"""

import copy
import threading
import time
from collections.abc import Callable

from speccompact.errors import ArgumentError, LimitError
from speccompact.modelstore.loading import Target
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.shortage import memory_errors
from speccompact.slotbatch import SlotBatch
from speccompact.speculative.drafting import Drafting
from speccompact_grpc.calls import Draining, QueueFull
from speccompact_grpc.fairness import FairQueue
from speccompact_grpc.grouproom import GroupRoom
from speccompact_grpc.observing import Observer, Pass, Silent
from speccompact_grpc.orders import Order

GROUP_BYTES = 4 << 30
"""Bytes that the memories of all groups take together, about; address space, of which short texts touch little."""

_LEAST_RETRY_S, _MOST_RETRY_S = 0.25, 60.0
_RECENT = 1 / 16
"""Part of the measured rate that the last pass decides."""


class Pool:
    """Slots of all callers on one target.

    Attributes:
        target: the model.
        places: slots that take part in a pass, at most.
        room: for the memories of groups.
    """

    def __init__(
        self,
        target: Target,
        options: Options,
        places: int = 128,
        queue_slots: int = 4096,
        drafting: Callable[[Workers], Drafting] | None = None,
        observer: Observer | None = None,
        room: GroupRoom | None = None,
    ) -> None:
        """Start the thread; it takes memory as slots come.

        Args:
            options: how to run; threads are shared by all callers.
            places: as above. A frame with a memory may have half as many slots; Compress makes frames of up to 64.
            queue_slots: slots that may wait before new calls are refused.
            drafting: makes what drafts while decoding; None for nothing.
            observer: told about every pass, and what waits.
            room: for the memories of groups, where several pools share it.
        """
        self.target, self.places, self._half = target, places, max(1, places // 2)
        self.room = room or GroupRoom(GROUP_BYTES)
        self._queue_slots = queue_slots
        self._workers, self._observer = Workers(options.threads), observer or Silent()
        self._drafting = drafting(self._workers) if drafting else None
        self._plain: FairQueue[Order] = FairQueue()
        self._frames: FairQueue[Order] = FairQueue()
        self._active: list[Order] = []
        self._rate = 0.0
        self._closing = False
        self._batch = SlotBatch(target, options, self._workers, places, target.positions, self._drafting)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name=f"pool {target.name}", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether nobody waits, all places are free, and no memory is held."""
        with self._changed:
            waiting = bool(self._plain or self._frames or self._active)
            return not waiting and self._batch.free == self.places and not self.room.held

    @property
    def notes(self) -> tuple[str, ...]:
        """What of drafting is not as it was asked for."""
        return self._drafting.effort.notes if self._drafting else ()

    def put(self, order: Order) -> None:
        """Queue an order; its thread then waits for it.

        Raises:
            CallEnded: the call is over, the queue is full, or the pool is closing.
            ArgumentError: a slot is empty, or longer than the model holds.
            LimitError: a frame with a memory has more slots than half of the places.
        """
        call = order.call
        if not all(1 <= slot.tokens <= self.target.positions for slot in order.slots):
            raise ArgumentError(f"slots have 1 to {self.target.positions} tokens")
        if order.shared and len(order.slots) > self._half:
            raise LimitError(
                f"a frame has {len(order.slots)} slots that share a memory; the service takes {self._half}"
            )
        with self._changed:
            if self._closing:
                raise Draining("the service is about to end")
            call.check()
            if not call.patient and self._waiting() + len(order.slots) > max(self._queue_slots, len(order.slots)):
                raise QueueFull(self._retry_s())
            call.patient = True
            (self._frames if order.shared else self._plain).push(order)
            self._changed.notify_all()

    def close(self) -> None:
        """Take nothing new on, finish what there is, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _waiting(self) -> int:
        return sum(order.waiting for queue in (self._plain, self._frames) for order in queue)

    def _retry_s(self) -> float:
        tokens = sum(slot.tokens for queue in (self._plain, self._frames) for order in queue for slot in order.slots)
        return min(max(tokens / self._rate if self._rate else 1.0, _LEAST_RETRY_S), _MOST_RETRY_S)

    def _serve(self) -> None:
        while True:
            try:
                if not self._prepare():
                    return
                self._step()
            except Exception as error:  # whatever it is, threads wait for an answer, and others are going to
                with self._changed:
                    for order in self._active:
                        self._batch.drop(order.cohort)
                        self._end(order, _own(error))
                    self._active = []

    def _prepare(self) -> bool:
        """Let go, give places, and wait until there is something to do; return whether there is."""
        with self._changed:
            while True:
                self._reap()
                self._admit()
                if self._active or self._closing:
                    return bool(self._active)
                self._changed.wait()

    def _reap(self) -> None:
        """Let go of orders whose calls cannot go on."""
        now = time.monotonic()
        ended: set[Order] = set()
        for order in dict.fromkeys([*self._plain, *self._frames, *self._active]):
            failure = order.call.failure(now)  # asked once: it may be cancelled at any moment
            if failure is not None:
                ended.add(order)
                self._batch.drop(order.cohort)
                self._end(order, failure)
        self._active = [order for order in self._active if order not in ended]

    def _end(self, order: Order, failure: BaseException | None) -> None:
        if order.waiting:
            (self._frames if order.shared else self._plain).remove(order)
            order.submitted = len(order.slots)
        order.finish(failure)

    def _admit(self) -> None:
        """Give free places to those whose turn it is."""
        while self._admit_frame():
            pass
        room = self._half if self._frames else self.places
        room = min(self._batch.free, room - self._held(shared=False))
        while room > 0 and (order := self._plain.head(self._narrow)) is not None:
            self._plain.serve(order, self._submit(order, 1))
            if not order.waiting:
                self._plain.remove(order)
            room -= 1
        self._observer.waiting(self.target.name, self._waiting())

    def _admit_frame(self) -> bool:
        order = self._frames.head()
        if order is None:
            return False
        room = self._half if self._plain else self.places
        if order.waiting > min(self._batch.free, room - self._held(shared=True)):
            return False
        self._frames.serve(order, self._submit(order, order.waiting))
        self._frames.remove(order)
        return True

    def _narrow(self, order: Order) -> bool:
        """Whether an order holds few enough places to be given another."""
        return len(order.cohort.works) < self._half

    def _submit(self, order: Order, count: int) -> int:
        if order not in self._active:
            self._active.append(order)
        return order.submit(self._batch, count)

    def _held(self, *, shared: bool) -> int:
        return sum(len(order.cohort.works) for order in self._active if order.shared == shared)

    def _step(self) -> None:
        began = time.monotonic()
        with memory_errors():
            settled = self._batch.step()
        seconds = time.monotonic() - began
        report = self._batch.report
        if settled:
            self._rate += (settled / max(seconds, 1e-6) - self._rate) * (_RECENT if self._rate else 1.0)
            self._observer.passed(
                Pass(
                    self.target.name,
                    report.slots,
                    self.places,
                    report.encoded,
                    report.decoding,
                    report.decoded,
                    seconds,
                    report.drafted,
                    report.decoded - report.decoding,
                )
            )
        results = self._batch.collect()
        with self._changed:
            left = []
            for order in self._active:
                order.seconds += seconds
                for ticket in [ticket for ticket in order.tickets if ticket in results]:
                    order.results[order.tickets.pop(ticket)] = results[ticket]
                if order.settle():
                    self._batch.drop(order.cohort)
                    self._end(order, None)
                else:
                    left.append(order)
            self._active = left


def _own(error: Exception) -> Exception:
    """Return an error for one of several threads: with one for all, each would hold what the others are at."""
    try:
        return copy.copy(error).with_traceback(error.__traceback__)
    except Exception:  # not every error can be made again
        return RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
