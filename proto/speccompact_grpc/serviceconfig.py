"""Settings of the service, from a TOML file, the environment and flags: a flag counts before the environment, that
before the file, and the file before the default.

Each setting has one name: `queue_slots` is `queue_slots` in the file, `SPECCOMPACT_SERVE_QUEUE_SLOTS` in the
environment and `--queue-slots` on the command line.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from speccompact.errors import ArgumentError
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.options import DEFAULT_DRAFTER, DrafterName

ENVIRONMENT_PREFIX = "SPECCOMPACT_SERVE_"

Value = str | int | float | bool | tuple[str, ...]

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _setting(default: Any, about: str, least: float | None = None) -> Any:
    return field(default=default, metadata={"about": about, "least": least})


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """All settings. What each means is said once, beside its default, for the help of the command and for README."""

    listen: str = _setting("127.0.0.1:50051", "HOST:PORT of the service; port 0 takes a free one.")
    insecure_bind: bool = _setting(False, "Allow addresses beyond loopback without TLS.")
    tls_certificate: str = _setting("", "PEM file of the server's certificate chain; turns TLS on.")
    tls_key: str = _setting("", "PEM file of the certificate's private key.")
    tls_client_ca: str = _setting(
        "", "PEM file of the authority that clients' certificates must come from (mutual TLS)."
    )
    tokens: str = _setting("", "TOML file of bearer tokens; without one, everyone is served.")
    models: tuple[str, ...] = _setting((DEFAULT_MODEL,), "Models that are loaded at start, by name or digest.")
    threads: int = _setting(0, "CPU threads of the target passes; 0 means all.", 0)
    device: str = _setting("cpu", "cpu or cuda[:N].")
    drafter: DrafterName = _setting(DEFAULT_DRAFTER, "What proposes tokens while decompressing.")  # noqa: RUF009 - a field
    drafter_file: str = _setting("", "Its weights, or the name of a model; empty for those that ship.")
    places: int = _setting(128, "Slots of all callers that share a target pass of a model; 128 at least.", 128)
    queue_slots: int = _setting(4096, "Slots that may wait for a place; calls beyond are refused.", 1)
    calls: int = _setting(256, "Calls at once; each has a thread.", 1)
    max_message_bytes: int = _setting(4 << 20, "Longest message in or out.", 1 << 16)
    max_text_bytes: int = _setting(1 << 20, "Longest content of CompressText, DecompressText and CompressMany.", 1)
    max_call_bytes: int = _setting(1 << 30, "Content of one stream, in or out; 0 for any amount.", 0)
    max_call_seconds: float = _setting(
        3600.0, "Longest time of a call that sets no deadline, watches apart; 0 for any time.", 0
    )
    idle_seconds: float = _setting(300.0, "How long a caller is waited for to send or to read; 0 for ever.", 0)
    drain_seconds: float = _setting(30.0, "How long running calls may go on after SIGTERM.", 0)
    jobs: str = _setting("", "SQLite file of archive jobs; without one, jobs are refused.")
    jobs_roots: tuple[str, ...] = _setting(
        (), "Folders that jobs may use, as NAME=FOLDER or FOLDER; paths of jobs begin with NAME."
    )
    jobs_workers: int = _setting(1, "Jobs that run at once.", 1)
    metrics: str = _setting("", "HOST:PORT of Prometheus metrics over HTTP.")
    web: str = _setting("", "HOST:PORT of the page for people, over HTTP.")
    traces: str = _setting("", "URL of an OTLP/HTTP collector of traces, such as http://127.0.0.1:4318/v1/traces.")
    log_level: str = _setting("info", "debug, info, warning or error.")
    reflection: bool = _setting(True, "Tell clients which RPCs there are.")

    def __post_init__(self) -> None:
        for setting in fields(self):
            least, value = setting.metadata["least"], getattr(self, setting.name)
            if least is not None and not value >= least:  # written so that NaN is refused, too
                raise ArgumentError(f"{setting.name} is {value}; choose {least} or more")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise ArgumentError(f'log_level is "{self.log_level}"; choose debug, info, warning or error')
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ArgumentError("tls_certificate and tls_key belong together; give both or none")
        if self.tls_client_ca and not self.tls_certificate:
            raise ArgumentError("tls_client_ca needs tls_certificate and tls_key")
        if self.jobs and not self.jobs_roots:
            raise ArgumentError("jobs_roots is empty; name the folders that jobs may read and write")


SETTINGS: Mapping[str, "Field[Any]"] = {setting.name: setting for setting in fields(ServiceConfig)}


def load_config(path: str | None, environment: Mapping[str, str], flags: Mapping[str, Value | None]) -> ServiceConfig:
    """Return the settings in force.

    Args:
        path: TOML file; None for the one that `SPECCOMPACT_SERVE_CONFIG` names, or none at all.
        environment: variables of the process.
        flags: by the name of the setting; None for those that were not given.

    Raises:
        ArgumentError: a name is unknown or a value makes no sense; the message says where it stands.
        OSError: the file cannot be read.
    """
    path = path or environment.get(f"{ENVIRONMENT_PREFIX}CONFIG") or None
    values: dict[str, Value] = {} if path is None else _from_file(path)
    values |= _from_environment(environment)
    values |= {name: value for name, value in flags.items() if value is not None}
    return ServiceConfig(**values)  # type: ignore[arg-type]  # each was checked by the setting's own type


def _from_file(path: str) -> dict[str, Value]:
    with open(path, "rb") as stream:
        try:
            table = tomllib.load(stream)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{os.path.basename(path)} is no TOML: {error}") from None
    where = os.path.basename(path)
    return {name: _typed(_known(name, where), value, f"{name} in {where}") for name, value in table.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == f"{ENVIRONMENT_PREFIX}CONFIG":
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        setting = _known(name, "the environment", variable)
        values[name] = parse_text(setting, text, variable)
    return values


def _known(name: str, where: str, shown: str | None = None) -> "Field[Any]":
    if name in SETTINGS:
        return SETTINGS[name]
    close = difflib.get_close_matches(name, SETTINGS, 1)
    advice = f"; did you mean {close[0]}?" if close else ""
    raise ArgumentError(f'"{shown or name}" in {where} is no setting{advice}')


def parse_text(setting: "Field[Any]", text: str, where: str) -> Value:
    """Return the value that a text stands for; texts of several values are separated by commas.

    Raises:
        ArgumentError: naming `where`.
    """
    kind: type = type(setting.default)
    if kind is str:
        return text
    if kind is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is bool:
        if text.lower() not in _WORDS:
            raise ArgumentError(f'{where} is "{text}"; choose true or false')
        return _WORDS[text.lower()]
    try:
        return int(text) if kind is int else float(text)
    except ValueError:
        raise ArgumentError(f'{where} is "{text}"; give {"a whole number" if kind is int else "a number"}') from None


def _typed(setting: "Field[Any]", value: object, where: str) -> Value:
    """Return a value of a TOML file as the setting has it."""
    kind: type = type(setting.default)
    if kind is tuple and isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is kind and isinstance(value, str | int | float | bool):
        return value
    wanted = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", tuple: "a list of texts"}
    raise ArgumentError(f"{where} is {value!r}; give {wanted[kind]}")
