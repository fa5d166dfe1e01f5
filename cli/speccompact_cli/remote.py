"""Options that name a service, and the client that they make. Nothing of gRPC is loaded without one."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from speccompact import client as service
from speccompact.errors import ArgumentError

if TYPE_CHECKING:
    from speccompact.client import Client

TOKEN_VARIABLE = "SPECCOMPACT_TOKEN"

F = TypeVar("F", bound=Callable[..., Any])

_NAMES = ("remote", "tls", "tls_ca", "tls_cert", "tls_key", "token_file", "timeout", "priority")


@dataclass(frozen=True, slots=True)
class Remote:
    """A service, as the options name it.

    Attributes:
        address: HOST:PORT; empty for none: the work is done here.
        tls: whether to use TLS.
        tls_ca, tls_cert, tls_key: files in PEM, or None.
        token_file: file whose first line is the bearer token, or None for the variable SPECCOMPACT_TOKEN.
        timeout: seconds for each FILE or request, or None.
        priority: how urgent it is.
    """

    address: str
    tls: bool
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    token_file: str | None
    timeout: float | None
    priority: Literal["low", "normal", "high"]


def remote_options(function: F) -> F:
    """--remote and what belongs to it, handed over as one argument `remote`."""
    return _options("", "HOST:PORT", "Let the service at HOST:PORT do it.")(function)


def remote_job_options(function: F) -> F:
    """The same for commands that are about a service in any case."""
    return _options("127.0.0.1:50051", "HOST:PORT", "The service [default: 127.0.0.1:50051].")(function)


def _options(address: str, metavar: str, about: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        @functools.wraps(function)
        def gathered(*args: Any, **kwargs: Any) -> Any:
            values = [kwargs.pop(name) for name in _NAMES]
            return function(*args, remote=Remote(*values), **kwargs)

        named: Any = gathered
        for option in (
            click.option(
                "--priority",
                type=click.Choice(["low", "normal", "high"]),
                default="normal",
                show_default=True,
                help="How urgent it is, to the service.",
            ),
            click.option("--timeout", type=float, metavar="SECONDS", help="Give up after so long."),
            click.option("--token-file", metavar="FILE", help=f"Bearer token [default: that of {TOKEN_VARIABLE}]."),
            click.option("--tls-key", metavar="FILE", help="Private key of --tls-cert, in PEM."),
            click.option("--tls-cert", metavar="FILE", help="Own certificate for the service, in PEM."),
            click.option("--tls-ca", metavar="FILE", help="Authority of the service's certificate, in PEM."),
            click.option("--tls", is_flag=True, help="Use TLS; the other --tls options do so, too."),
            click.option("--remote", default=address, metavar=metavar, help=about),
        ):
            named = option(named)
        return named  # type: ignore[no-any-return]

    return decorate


@contextmanager
def open_client(remote: Remote, local_only: Sequence[str] = ()) -> "Iterator[Client | None]":
    """Give a client of the service that was named, or None where none was.

    Args:
        remote: the options.
        local_only: names of parameters of the running command that mean nothing to a service.

    Raises:
        ArgumentError: options contradict each other, or gRPC is not installed.
        OSError: a file cannot be read.
    """
    if not remote.address:
        given = _first_given(_NAMES[1:])
        if given:
            raise ArgumentError(f"{given} is about a service; name it with --remote")
        yield None
        return
    given = _first_given(local_only)
    if given:
        raise ArgumentError(f"{given} is about work that is done here; leave it out with --remote")
    with connect(remote) as client:
        yield client


@contextmanager
def connect(remote: Remote) -> "Iterator[Client]":
    """Give a client of the service that was named. Raises as `open_client`."""
    if remote.timeout is not None and not remote.timeout > 0:
        raise ArgumentError(f"timeout is {remote.timeout}; choose more than 0 seconds")
    try:
        connection, client = service.Connection, service.Client
    except ImportError as error:
        raise ArgumentError(f"--remote needs gRPC ({error.name}); pip install 'speccompact[client]'") from None
    opened = client(
        connection(
            remote.address,
            tls=remote.tls or any((remote.tls_ca, remote.tls_cert, remote.tls_key)),
            authorities=_content(remote.tls_ca),
            certificate=_content(remote.tls_cert),
            key=_content(remote.tls_key),
            token=_token(remote.token_file),
        )
    )
    with opened:
        yield opened


def _first_given(names: Sequence[str]) -> str:
    """Return the first option of the running command that was given, as it is typed; "" for none."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT):
            return f"--{name.replace('_', '-')}"
    return ""


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as stream:
        return stream.read()


def _token(path: str | None) -> str:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "")
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.readline().strip()
