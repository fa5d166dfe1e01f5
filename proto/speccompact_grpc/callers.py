"""Who calls: what a token stands for, and where the code that serves a call finds it.

The interceptors set the caller for the thread that runs a handler; a handler that hands work to other threads reads
`current_caller` first and hands the caller over.
"""

from contextvars import ContextVar
from dataclasses import dataclass

LOW, NORMAL, HIGH = 1, 2, 3
"""Priorities, by their numbers in the proto file."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, as the service treats it. All calls with one token are one caller.

    Attributes:
        name: of the token, for logs and for fair shares; "anonymous" without tokens.
        priority: the highest that its calls may have, LOW to HIGH; a wish for more is cut down to it.
        concurrent: calls at once, at most; 0 for any number.
        bytes_per_second: content and archives in, on the average; 0 for any number.
        jobs: whether it may submit, watch and cancel jobs on files of the server.
    """

    name: str
    priority: int = HIGH
    concurrent: int = 0
    bytes_per_second: int = 0
    jobs: bool = True

    def granted(self, wanted: int) -> int:
        """Return the priority of a call that wants one; 0, unspecified, means NORMAL."""
        return min(wanted or NORMAL, self.priority)


ANONYMOUS = Caller("anonymous")
"""Everyone, where the service asks for no token."""


@dataclass(frozen=True, slots=True)
class CallIdentity:
    """One call: its caller and the id under which logs and traces have it."""

    caller: Caller
    request_id: str


_current: ContextVar[CallIdentity | None] = ContextVar("speccompact_call", default=None)


def current_call() -> CallIdentity:
    """Return the call that this thread serves; an anonymous one with an empty id outside of any."""
    return _current.get() or CallIdentity(ANONYMOUS, "")


def current_caller() -> Caller:
    """Return the caller whom this thread serves; ANONYMOUS outside of a call."""
    return current_call().caller


def serve_as(call: CallIdentity) -> None:
    """Let this thread serve a call from now on."""
    _current.set(call)
