"""Batches made ahead in a thread, so that training does not wait for files and tokenizer."""

import queue
import threading
from types import TracebackType
from typing import Any, Protocol, Self

from speccompact.training.batch import Batch

_AHEAD = 3  # steps
_PATIENCE = 0.1  # seconds between two looks whether the reader is gone

Step = tuple[list[Batch], dict[str, Any], dict[str, int]]
"""Micro-batches, the state of the stream behind them, and the tokens of each kind up to there."""


class Stream(Protocol):
    """Batches without end, and where they come from; `sampling.SequenceStream` is one."""

    def next_step(self) -> list[Batch]:
        """Return the micro-batches of one step."""
        ...

    def state(self) -> dict[str, Any]:
        """Return where the stream is, as JSON."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another one was."""
        ...

    def consumed(self) -> dict[str, int]:
        """Return by kind the tokens that batches have held so far."""
        ...


class Prefetcher:
    """Hands out what a stream gives, in order. A context manager; leaving it ends the thread.

    The stream belongs to the thread: nobody else may touch it meanwhile.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._ready: queue.Queue[Step | BaseException] = queue.Queue(_AHEAD)
        self._gone = threading.Event()
        self._thread = threading.Thread(target=self._work, name="speccompact-batches", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._gone.set()
        self._thread.join()

    def next_step(self) -> Step:
        """Return the next step; raises what making it raised."""
        step = self._ready.get()
        if isinstance(step, BaseException):
            raise step
        return step

    def _work(self) -> None:
        try:
            while not self._gone.is_set():
                batches = self._stream.next_step()
                self._offer((batches, self._stream.state(), self._stream.consumed()))
        except BaseException as error:  # belongs to whoever asks for the next step
            self._offer(error)

    def _offer(self, step: Step | BaseException) -> None:
        while not self._gone.is_set():
            try:
                self._ready.put(step, timeout=_PATIENCE)
                return
            except queue.Full:
                continue
