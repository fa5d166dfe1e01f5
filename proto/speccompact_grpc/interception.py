"""Around every call: stages that look at it when it begins, at each message, and when it is over.

One interceptor runs all stages, in the order in which the server lists them. A stage turns a call away by raising a
`Refusal`; the stages before it then still learn of its end. What a handler raises unplanned ends the call as INTERNAL,
and no word of it reaches the caller.

Calls of the health service pass untouched: whoever looks after the process has no token, and its watchers take no
thread.
"""

import contextlib
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from speccompact_grpc.callers import ANONYMOUS, Caller, CallIdentity, serve_as
from speccompact_grpc.refusals import Refusal

REQUEST_ID: Final = "x-request-id"
"""Metadata that names a call, in both directions."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNTOUCHED: Final = "/grpc.health.v1.Health/"
_UNREADABLE: Final = object()
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_LOG = logging.getLogger("speccompact.service")


@dataclass(eq=False, slots=True)
class ServedCall:
    """A call on its way through the stages.

    Attributes:
        method: name of the RPC alone.
        metadata: of the call, by lower-case key; a key that came twice has its last value.
        context: of gRPC.
        request_id: under which logs and traces have the call.
        caller: set by the stage that knows tokens.
        began: of `time.monotonic`.
        streams: whether the caller sends a stream.
        received, sent: bytes of messages so far.
        reading_since, writing_since: since when the caller is waited for, to send or to read; 0 while it is not.
        code: name of the status code, once the call is over.
        cut: whether the service has ended it, because its caller was waited for too long.
        over: set when the caller has gone or got its status.
    """

    method: str
    metadata: Mapping[str, str]
    context: grpc.ServicerContext
    request_id: str
    streams: bool
    caller: Caller = ANONYMOUS
    began: float = field(default_factory=time.monotonic)
    received: int = 0
    sent: int = 0
    reading_since: float = 0.0
    writing_since: float = 0.0
    code: str = ""
    cut: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def seconds(self) -> float:
        """Time since the call began."""
        return time.monotonic() - self.began


class Stage(Protocol):
    """What happens around calls. Methods run in the thread of the call."""

    def begin(self, call: ServedCall) -> None:
        """Look at a call before its handler does. Raises Refusal to turn it away; `end` is then not called here."""
        ...

    def receive(self, call: ServedCall, size: int) -> None:
        """Look at a message that has come in, before the handler does. May wait, or raise Refusal."""
        ...

    def send(self, call: ServedCall, size: int) -> None:
        """Look at a message that is going out."""
        ...

    def end(self, call: ServedCall) -> None:
        """Take note that a call is over, however it ended. Called once for each call that this stage let begin."""
        ...


class PassiveStage:
    """A stage that does nothing: others override what concerns them."""

    def begin(self, call: ServedCall) -> None:
        """See `Stage`."""

    def receive(self, call: ServedCall, size: int) -> None:
        """See `Stage`."""

    def send(self, call: ServedCall, size: int) -> None:
        """See `Stage`."""

    def end(self, call: ServedCall) -> None:
        """See `Stage`."""


class StageInterceptor(grpc.ServerInterceptor):
    """Runs the stages around every call."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        """Bind the stages, outermost first."""
        self._stages = tuple(stages)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "_Handler | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler | None":
        """Return a handler around the one that a call would have; None where there is no such method."""
        handler = continuation(handler_call_details)
        full_name = handler_call_details.method
        if handler is None or full_name.startswith(_UNTOUCHED):
            return handler
        method = full_name.rpartition("/")[2]
        metadata = {
            str(key).lower(): value if isinstance(value, str) else ""
            for key, value in handler_call_details.invocation_metadata or ()
        }
        return _Around(self._stages, method, metadata, handler).handler()


class _Around:
    """One call: its handler, with the stages around it."""

    def __init__(
        self,
        stages: Sequence[Stage],
        method: str,
        metadata: Mapping[str, str],
        inner: "_Handler",
    ) -> None:
        self._stages, self._method, self._metadata, self._inner = stages, method, metadata, inner

    def handler(self) -> "_Handler":
        """Return a handler of the same kind."""
        inner = self._inner
        makers: dict[tuple[bool, bool], tuple[Callable[..., Any], Callable[..., Any]]] = {
            (False, False): (grpc.unary_unary_rpc_method_handler, self._unary),
            (False, True): (grpc.unary_stream_rpc_method_handler, self._streaming),
            (True, False): (grpc.stream_unary_rpc_method_handler, self._unary),
            (True, True): (grpc.stream_stream_rpc_method_handler, self._streaming),
        }
        make, behaviour = makers[bool(inner.request_streaming), bool(inner.response_streaming)]
        made: _Handler = make(
            behaviour,
            request_deserializer=partial(_read, inner.request_deserializer),
            response_serializer=inner.response_serializer,
        )
        return made

    def _unary(self, request: Any, context: grpc.ServicerContext) -> Any:
        behaviour = self._inner.stream_unary if self._inner.request_streaming else self._inner.unary_unary
        with self._running(context) as call:
            assert behaviour is not None
            response = behaviour(self._incoming(call, request), context)
            self._note_sent(call, response)
            return response

    def _streaming(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        behaviour = self._inner.stream_stream if self._inner.request_streaming else self._inner.unary_stream
        with self._running(context) as call:
            assert behaviour is not None
            with contextlib.ExitStack() as undo:
                responses = behaviour(self._incoming(call, request), context)
                if hasattr(responses, "close"):
                    undo.callback(responses.close)
                for response in responses:
                    self._note_sent(call, response)
                    call.writing_since = time.monotonic()
                    yield response
                    call.writing_since = 0.0

    def _incoming(self, call: ServedCall, request: Any) -> Any:
        if self._inner.request_streaming:
            return self._messages(call, request)
        self._note_received(call, request)
        return request

    def _messages(self, call: ServedCall, requests: Iterator[Any]) -> Iterator[Any]:
        while True:
            call.reading_since = time.monotonic()
            try:
                message = next(requests)
            except StopIteration:
                if call.cut:  # what looks like the end of the stream is none
                    raise Refusal(grpc.StatusCode.CANCELLED, "CANCELLED", "nothing came for too long") from None
                return
            finally:
                call.reading_since = 0.0
            self._note_received(call, message)
            yield message

    def _note_received(self, call: ServedCall, message: Any) -> None:
        if message is _UNREADABLE:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE", "a message is not one of this method")
        size = message.ByteSize()
        call.received += size
        for stage in self._stages:
            stage.receive(call, size)

    def _note_sent(self, call: ServedCall, message: Any) -> None:
        size = message.ByteSize()
        call.sent += size
        for stage in self._stages:
            stage.send(call, size)

    @contextlib.contextmanager
    def _running(self, context: grpc.ServicerContext) -> Iterator[ServedCall]:
        wanted = self._metadata.get(REQUEST_ID, "")
        request_id = wanted if _REQUEST_ID.fullmatch(wanted) else uuid.uuid4().hex
        call = ServedCall(self._method, self._metadata, context, request_id, bool(self._inner.request_streaming))
        context.add_callback(call.over.set)
        context.send_initial_metadata(((REQUEST_ID, request_id),))
        begun: list[Stage] = []
        try:
            for stage in self._stages:
                stage.begin(call)
                begun.append(stage)
            serve_as(CallIdentity(call.caller, request_id))
            yield call
        except Refusal as refusal:
            refusal.abort(context)
        except grpc.RpcError:  # the caller has gone while something was read from it
            raise
        except Exception:
            if _code(context) is None:  # else it was aborted on purpose
                _LOG.exception("a handler failed", extra={"fields": {"request_id": request_id, "rpc": call.method}})
                Refusal(
                    grpc.StatusCode.INTERNAL, "INTERNAL", f"a fault of the service; its log has it under {request_id}"
                ).abort(context)
            raise
        finally:
            call.code = grpc.StatusCode.CANCELLED.name if call.cut else _outcome(context)
            for stage in reversed(begun):
                stage.end(call)


def _read(deserialize: Callable[[bytes], Any] | None, data: bytes) -> Any:
    """Return a message, or a stand-in for one that cannot be read: gRPC would call that a fault of the service."""
    try:
        return data if deserialize is None else deserialize(data)
    except DecodeError:
        return _UNREADABLE


def _code(context: grpc.ServicerContext) -> grpc.StatusCode | None:
    """Return the status code that a handler has set, if any. The typed stubs lack the method."""
    code = context.code()  # type: ignore[attr-defined]
    return code if isinstance(code, grpc.StatusCode) else None


def _outcome(context: grpc.ServicerContext) -> str:
    """Return the name of the status code of a call whose handler is done."""
    code = _code(context)
    if code is not None:
        return code.name
    if context.is_active():
        return grpc.StatusCode.OK.name
    left = context.time_remaining()
    late = left is not None and left <= 0
    return (grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED).name
