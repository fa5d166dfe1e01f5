"""Room for the memories of groups: they can take hundreds of megabytes each, and callers decide how large they are."""

import threading
import weakref
from collections.abc import Callable
from typing import Final

from speccompact.memory.group import GroupMemory
from speccompact_grpc.calls import Call, QueueFull

_ENTRY_BYTES: Final = 22
_OTHER_BYTES: Final = 1 << 22
"""What a memory takes beside its table of contexts, about."""

_RETRY_S: Final = 2.0
_LOOK_S: Final = 0.25
"""How often one who waits for room looks whether the call is over."""


class GroupRoom:
    """Bytes that the memories of all calls may take together.

    A call that has had a memory always gets its next one: it would else wait for room that others like it hold. So the
    bound can be exceeded, by no more than what calls hold that are under way.
    """

    def __init__(self, most_bytes: int) -> None:
        """Begin with so many bytes that are free."""
        self._free = self._most = most_bytes
        self._calls: weakref.WeakSet[Call] = weakref.WeakSet()
        self._changed = threading.Condition(threading.RLock())  # memories may be let go of at any moment

    @property
    def held(self) -> int:
        """Bytes that are taken."""
        return self._most - self._free

    def begin(self, call: Call, table_bits: int, make: Callable[[], GroupMemory]) -> GroupMemory:
        """Return a new memory when there is room for it. What it takes is given back when nobody refers to it any more.

        Args:
            call: whose it is. One that has not begun is refused where there is no room; others wait.
            table_bits: log2 of the entries of its table.
            make: makes it.

        Raises:
            CallEnded: the call is over, or there is no room.
        """
        size = (_ENTRY_BYTES << table_bits) + _OTHER_BYTES
        with self._changed:
            while call not in self._calls and self._free < size and self._free < self._most:
                call.check()
                if not call.patient:
                    raise QueueFull(_RETRY_S)
                self._changed.wait(_LOOK_S)
            self._calls.add(call)
            self._free -= size
        try:
            memory = make()
        except BaseException:
            self._release(size)
            raise
        weakref.finalize(memory, self._release, size)
        return memory

    def _release(self, size: int) -> None:
        with self._changed:
            self._free += size
            self._changed.notify_all()
