"""Batches made ahead in a thread, so that training does not wait for files and tokenizer."""

import queue
import threading
from types import TracebackType
from typing import Any, Self

from speccompact.training.batch import Batch
from speccompact.training.sampling import SequenceStream

_AHEAD = 3  # steps
_PATIENCE = 0.1  # seconds between two looks whether the reader is gone

Step = tuple[list[Batch], dict[str, Any], dict[str, int]]
"""Micro-batches, the state of the stream behind them, and the tokens of each kind up to there."""


class Prefetcher:
    """Hands out what a stream gives, in order. A context manager; leaving it ends the thread.

    The stream belongs to the thread: nobody else may touch it meanwhile.
    """

    def __init__(self, stream: SequenceStream) -> None:
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
