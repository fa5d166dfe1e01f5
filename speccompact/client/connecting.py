"""Where a service is, and how a client reaches it and says who it is."""

import ipaddress
import uuid
from dataclasses import dataclass, field

import grpc
from grpc import aio

from speccompact.errors import ArgumentError

MAX_ANSWER_BYTES = 64 << 20
"""Longest message that a client takes: the frames of an archive of a terabyte, as Inspect lists them."""

_FIRST_RECONNECT_MS, _LAST_RECONNECT_MS = 200, 5000
"""gRPC refuses calls while it waits to connect again; that wait should not outlast those between two tries."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A service, and the caller's papers. Making one connects nowhere.

    Attributes:
        address: HOST:PORT; an IPv6 host stands in brackets.
        tls: whether to use TLS. Without it, everything can be read and changed on the way.
        authorities: PEM certificates of the authorities that the server's certificate may come from; None for those of
            the system.
        certificate, key: PEM certificate chain and private key of the caller, where the service wants one.
        token: bearer token, where the service wants one. It leaves this machine under TLS only.

    Raises:
        ArgumentError: something is missing, or makes no sense; the message begins with the name of the attribute.
    """

    address: str
    tls: bool = False
    authorities: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        host = _host(self.address)
        if (self.certificate is None) != (self.key is None):
            raise ArgumentError("certificate and key belong together; give both or none")
        if not self.tls and (self.authorities is not None or self.certificate is not None):
            raise ArgumentError("tls is off, and certificates mean nothing without it; turn it on")
        if not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise ArgumentError("token has characters that no header can carry")
        if self.token and not self.tls and not _is_loopback(host):
            raise ArgumentError("token would go over the network in the clear; use TLS")


def open_channel(connection: Connection) -> grpc.Channel:
    """Return a channel for threads; it connects at the first call."""
    credentials = _credentials(connection)
    if credentials is None:
        return grpc.insecure_channel(connection.address, _arguments(connection))
    return grpc.secure_channel(connection.address, credentials, _arguments(connection))


def open_async_channel(connection: Connection) -> aio.Channel:
    """Return a channel for the running event loop; it connects at the first call."""
    credentials = _credentials(connection)
    if credentials is None:
        return aio.insecure_channel(connection.address, _arguments(connection))
    return aio.secure_channel(connection.address, credentials, _arguments(connection))


def call_metadata(connection: Connection) -> tuple[tuple[str, str], ...]:
    """Return the metadata of one call: a request id of its own, and the token where there is one."""
    own = (("x-request-id", uuid.uuid4().hex),)
    return (*own, ("authorization", f"Bearer {connection.token}")) if connection.token else own


def _credentials(connection: Connection) -> grpc.ChannelCredentials | None:
    if not connection.tls:
        return None
    return grpc.ssl_channel_credentials(connection.authorities, connection.key, connection.certificate)


def _arguments(connection: Connection) -> list[tuple[str, int]]:
    arguments = [
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
        ("grpc.initial_reconnect_backoff_ms", _FIRST_RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", _LAST_RECONNECT_MS),
        ("grpc.enable_retries", 0),  # what is repeated, and when, is decided in `retrying`
    ]
    if _is_loopback(_host(connection.address)):
        arguments.append(("grpc.enable_http_proxy", 0))
    return arguments


def _host(address: str) -> str:
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (colon and host and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16):
        raise ArgumentError(f'address is "{address[:100]}"; give HOST:PORT')
    if not address.isprintable() or set("/ ") & set(address) or (":" in host and not bracketed):
        raise ArgumentError(f'address is "{address[:100]}"; give HOST:PORT, with an IPv6 host in brackets')
    return host[1:-1] if bracketed else host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
