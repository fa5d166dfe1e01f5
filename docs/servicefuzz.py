"""Requests that no client would send. Whatever comes, the answer is a status that the proto file documents.

A request is bytes at random, a message with fields at random, one that was damaged on its way, a stream in the wrong
order, a method that is none, or one whose caller leaves at once.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from docs.serviceprobe import calling, compress, side_by_side, texts
from speccompact_grpc.v1 import speccompact_pb2 as pb

DOCUMENTED: Final = frozenset(
    (
        "OK", "CANCELLED", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "UNIMPLEMENTED", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    )
)  # fmt: skip
"""Status codes of the proto file's table."""

_SECONDS: Final = 30.0
_DEPTH: Final = 4
_METHODS: Final = [
    (f"/{service.full_name}/{method.name}", method)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
_NASTY_TEXTS: Final = [
    "", "/", "..", "data/../..", "/etc/passwd", "data", "data/", "data/text", "data/\0", "data/a" * 900,
    "\U0010ffff" * 9, "tiny", "nobody", "0" * 32, "s3://bucket/key", "*" * 60, "[!", "**/" * 9,
]  # fmt: skip
_NASTY_NUMBERS: Final = [0, 1, 2, 5, 9, 10, 255, 256, 65535, 1 << 31, (1 << 32) - 1]


class Fuzzer:
    """Sends requests and counts what comes back.

    Args:
        address: of the service.
        seed: of all chance.
    """

    def __init__(self, address: str, seed: int) -> None:
        self.address, self._seed = address, seed
        self.codes: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        with calling(address) as stub:
            options = pb.CompressOptions(level=2, slot_tokens=64)
            self._archives = [compress(stub, text, options)[0] for text in (*texts(4, 700), b"", bytes(range(256)))]

    def run(self, count: int, threads: int) -> None:
        """Send so many requests, from so many threads."""

        def act(number: int) -> None:
            source = random.Random(self._seed * 1000 + number)
            with grpc.insecure_channel(self.address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
                for _ in range(count // threads):
                    self._send(channel, source)

        side_by_side(threads, act)

    def undocumented(self) -> dict[str, int]:
        """Return how often each method gave a status that it must not give."""
        found = {f"{method}: {code}": count for (method, code), count in self.codes.items() if code not in DOCUMENTED}
        return dict(sorted(found.items()))

    def _send(self, channel: grpc.Channel, source: random.Random) -> None:
        path, method = source.choice(_METHODS)
        requests = list(self._requests(source, method))
        metadata = source.choice(
            [
                (),
                (("x-request-id", "x" * 300),),
                (("authorization", "Bearer é".encode().hex()),),
                (("odd-bin", b"\0\xff"),),
            ]
        )
        seconds = source.choice([_SECONDS] * 8 + [0.001, 0.05])
        if source.random() < 0.03:
            path = source.choice(["/speccompact.v1.CompressionService/Nothing", "/nothing.Service/Compress"])
        call: Any
        if method.client_streaming:
            make = channel.stream_stream if method.server_streaming else channel.stream_unary
            call = make(path, bytes, bytes)
            sent: Any = iter(requests)
        else:
            call = (channel.unary_stream if method.server_streaming else channel.unary_unary)(path, bytes, bytes)
            sent = requests[0] if requests else b""
        name = path.rpartition("/")[2]
        try:
            if method.server_streaming:
                answers = call(sent, timeout=seconds, metadata=metadata)
                for _ in answers:
                    if source.random() < 0.02:
                        answers.cancel()
            else:
                call(sent, timeout=seconds, metadata=metadata)
            code = "OK"
        except grpc.RpcError as error:
            code = error.code().name
            if code not in DOCUMENTED:
                code += f" ({error.details()})"
            if code == "DEADLINE_EXCEEDED" and seconds == _SECONDS:
                code = "DEADLINE_EXCEEDED after a long time"
        with self._lock:
            self.codes[name, code] += 1

    def _requests(self, source: random.Random, method: Any) -> Iterator[bytes]:
        """Yield the messages of one call."""
        make: Callable[[], Message] = getattr(pb, method.input_type.name)
        for _ in range(source.randrange(4) if method.client_streaming else 1):
            if source.random() < 0.2:
                yield source.randbytes(source.randrange(200))
                continue
            message = make()
            self._fill(message, source, _DEPTH)
            data = bytearray(message.SerializeToString())
            if data and source.random() < 0.2:
                data[source.randrange(len(data))] ^= 1 << source.randrange(8)
            yield bytes(data)

    def _fill(self, message: Message, source: random.Random, depth: int) -> None:
        for field in message.DESCRIPTOR.fields:
            if source.random() < 0.5:
                continue
            if field.is_repeated:
                values = getattr(message, field.name)
                for _ in range(source.randrange(4)):
                    if field.type == FieldDescriptor.TYPE_MESSAGE:
                        self._fill(values.add(), source, depth - 1)
                    else:
                        values.append(self._value(field, source))
            elif field.type == FieldDescriptor.TYPE_MESSAGE:
                if depth:
                    getattr(message, field.name).SetInParent()
                    self._fill(getattr(message, field.name), source, depth - 1)
            else:
                setattr(message, field.name, self._value(field, source))

    def _value(self, field: Any, source: random.Random) -> Any:
        """Return a value of a field's type, that a client would not or would just about send."""
        match field.type:
            case FieldDescriptor.TYPE_BYTES:
                return self._data(source)
            case FieldDescriptor.TYPE_STRING:
                return source.choice(_NASTY_TEXTS)
            case FieldDescriptor.TYPE_BOOL:
                return source.random() < 0.5
            case FieldDescriptor.TYPE_ENUM:
                return source.choice([0, 1, 2, 3, 77, -1])
            case FieldDescriptor.TYPE_UINT64:
                return source.choice([*_NASTY_NUMBERS, 1 << 40, (1 << 64) - 1])
            case FieldDescriptor.TYPE_INT32:
                return source.choice([0, -1, (1 << 31) - 1])
            case FieldDescriptor.TYPE_DOUBLE:
                return source.choice([0.0, -1.0, float("nan"), float("inf")])
            case _:
                return source.choice(_NASTY_NUMBERS)

    def _data(self, source: random.Random) -> bytes:
        """Return an archive, one that was damaged, cut or joined to another, or anything."""
        archive = bytearray(source.choice(self._archives))
        match source.randrange(6):
            case 0:
                return bytes(archive)
            case 1:
                return bytes(archive + source.choice(self._archives))
            case 2:
                return bytes(archive[: source.randrange(len(archive) + 1)])
            case 3:
                return source.randbytes(source.randrange(300))
            case _:
                for _ in range(source.randrange(1, 5)):
                    archive[source.randrange(len(archive))] ^= 1 << source.randrange(8)
                return bytes(archive)
