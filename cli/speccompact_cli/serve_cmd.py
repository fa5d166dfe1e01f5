"""``speccompact serve``: the gRPC service, until a signal ends it."""

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import click

from speccompact.errors import ArgumentError
from speccompact_cli.exit_codes import SIGNAL_BASE, SUCCESS
from speccompact_grpc.serviceconfig import SETTINGS, ServiceConfig, Value, load_config, parse_text

_DEFAULT_WEB = "127.0.0.1:8080"
"""Where the page is with ``--web`` alone."""

_KINDS: dict[type, tuple[Any, str]] = {
    int: (click.INT, "N"),
    float: (click.FLOAT, "SECONDS"),
    str: (click.STRING, "TEXT"),
    tuple: (click.STRING, "A,B,..."),
}


def _setting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give every setting its flag."""
    for name, setting in reversed(list(SETTINGS.items())):
        flag, default = name.replace("_", "-"), setting.default
        about = setting.metadata["about"]
        if isinstance(default, bool):
            option = click.option(f"--{flag}/--no-{flag}", name, default=None, help=about)
        elif name == "web":
            option = click.option(
                f"--{flag}", name, is_flag=False, flag_value=_DEFAULT_WEB, default=None, metavar="[HOST:PORT]",
                help=f"{about} Without a value, {_DEFAULT_WEB}.",
            )  # fmt: skip
        else:
            kind, metavar = _KINDS[type(default)]
            shown = ",".join(default) if isinstance(default, tuple) else default
            about += f" [default: {shown}]" if shown != "" else ""
            option = click.option(f"--{flag}", name, type=kind, default=None, metavar=metavar, help=about)
        function = option(function)
    return function


@click.command("serve")
@click.option("--config", "path", metavar="FILE", help="TOML file of settings, by their names with underscores.")
@_setting_options
def serve_command(path: str | None, **flags: Any) -> int:
    """Serve compression over gRPC, until SIGTERM, SIGHUP or an interrupt.

    Every option is also a setting NAME of the file, and SPECCOMPACT_SERVE_NAME in the environment; an option counts
    before the environment, and that before the file. The log goes to standard error, one JSON object a line. The first
    signal lets running calls end and refuses new ones; a second one ends at once.
    """
    config = load_config(path, os.environ, {name: _value(name, value) for name, value in flags.items()})
    try:
        from speccompact_grpc.server import Server  # grpc is optional, and slow to import
    except ImportError as error:
        missing = error.name or ""
        if missing.partition(".")[0] not in ("grpc", "google", "grpc_health", "grpc_reflection", "prometheus_client"):
            raise
        raise ArgumentError(
            'the service needs packages that are not here; run: pip install "speccompact[service]"'
        ) from None
    return _serve(config, Server)


def _serve(config: ServiceConfig, make: Callable[[ServiceConfig], Any]) -> int:
    """Run a server until a signal."""
    from speccompact_grpc.calllog import set_up_logging

    set_up_logging(config.log_level)
    reader, writer = os.pipe()  # an Event may be locked by the very thread that a signal interrupts
    seen: list[int] = []

    def stop(signum: int, _frame: FrameType | None) -> None:
        if seen:
            os._exit(SIGNAL_BASE + signum)  # twice: now, whatever is under way
        seen.append(signum)
        os.write(writer, b"x")

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup has its reasons
            signal.signal(signum, stop)
    server = make(config)
    server.start()
    os.read(reader, 1)
    server.drain()
    return SUCCESS


def _value(name: str, value: Any) -> Value | None:
    """Return a flag's value as the setting has it."""
    if isinstance(value, str):
        return parse_text(SETTINGS[name], value, f"--{name.replace('_', '-')}")
    checked: int | float | bool | None = value
    return checked
