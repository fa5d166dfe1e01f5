"""A real gRPC server on loopback whose RPCs echo bytes, for tests of what stands around calls."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import BytesValue

from speccompact_grpc.callers import current_call
from speccompact_grpc.interception import Stage, StageInterceptor
from speccompact_grpc.refusals import Refusal

SECONDS = 30.0
"""A call that takes longer hangs."""


def _echo(request: BytesValue, context: grpc.ServicerContext) -> BytesValue:
    if request.value == b"bug":
        raise KeyError("a secret")
    if request.value == b"refuse":
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "ARGUMENT", "no", number=10, field="value")
    if request.value == b"who":
        return BytesValue(value=f"{current_call().caller.name} {current_call().request_id}".encode())
    return request


def _join(requests: Iterator[BytesValue], context: grpc.ServicerContext) -> BytesValue:
    return BytesValue(value=b"".join(request.value for request in requests))


def _split(request: BytesValue, context: grpc.ServicerContext) -> Iterator[BytesValue]:
    for byte in request.value:
        yield BytesValue(value=bytes([byte]))


def _chat(requests: Iterator[BytesValue], context: grpc.ServicerContext) -> Iterator[BytesValue]:
    for request in requests:
        yield _echo(request, context)


@dataclass(frozen=True)
class EchoClient:
    """Calls of the server: `echo`, `join`, `split` and `chat`, of the four kinds that there are."""

    channel: grpc.Channel

    def kind(self, name: str) -> Any:
        makers: dict[str, Callable[..., Any]] = {
            "echo": self.channel.unary_unary,
            "join": self.channel.stream_unary,
            "split": self.channel.unary_stream,
            "chat": self.channel.stream_stream,
        }
        return makers[name](
            f"/test.Echo/{name}",
            request_serializer=BytesValue.SerializeToString,
            response_deserializer=BytesValue.FromString,
            _registered_method=True,
        )

    def echo(self, value: bytes, **metadata: str) -> bytes:
        pairs = tuple((key.replace("_", "-"), text) for key, text in metadata.items())
        answer: BytesValue = self.kind("echo")(BytesValue(value=value), metadata=pairs, timeout=SECONDS)
        return answer.value


@contextlib.contextmanager
def echo_server(stages: Sequence[Stage]) -> Iterator[EchoClient]:
    """Run the server with stages around its calls."""
    server = grpc.server(ThreadPoolExecutor(8), interceptors=[StageInterceptor(stages)])
    types: dict[str, Any] = {
        "request_deserializer": BytesValue.FromString,
        "response_serializer": BytesValue.SerializeToString,
    }
    handlers = {
        "echo": grpc.unary_unary_rpc_method_handler(_echo, **types),
        "join": grpc.stream_unary_rpc_method_handler(_join, **types),
        "split": grpc.unary_stream_rpc_method_handler(_split, **types),
        "chat": grpc.stream_stream_rpc_method_handler(_chat, **types),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield EchoClient(channel)
    finally:
        server.stop(None).wait(SECONDS)
