"""The stage that tells an observer about calls."""

from speccompact_grpc.interception import PassiveStage, ServedCall
from speccompact_grpc.observing import Observer


class CallNumbers(PassiveStage):
    """Counts calls, their time and their bytes. It stands first, so that calls that are turned away count, too."""

    def __init__(self, observer: Observer) -> None:
        """Bind the observer."""
        self._observer = observer

    def begin(self, call: ServedCall) -> None:
        """See `Stage`."""
        self._observer.began(call.method)

    def receive(self, call: ServedCall, size: int) -> None:
        """See `Stage`."""
        self._observer.received(call.method, size)

    def send(self, call: ServedCall, size: int) -> None:
        """See `Stage`."""
        self._observer.sent(call.method, size)

    def end(self, call: ServedCall) -> None:
        """See `Stage`."""
        self._observer.ended(call.method, call.code, call.seconds)
