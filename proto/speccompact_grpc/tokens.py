"""Bearer tokens from a TOML file: who may call, and how much.

    [search-index]
    sha256 = "…"              # of the token's UTF-8 bytes, in hexadecimal; the token itself stands nowhere
    priority = "normal"       # the highest that its calls may have: low, normal or high [high]
    concurrent = 16           # calls at once [0: any number]
    bytes_per_second = 200000 # content and archives in, on the average [0: any number]
    jobs = false              # archive jobs on files of the server [true]

The table's name is the caller's name in logs. Two tables with one name cannot be, by TOML; two tokens of one caller are
two tables.
"""

import hashlib
import hmac
import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from speccompact.errors import ArgumentError
from speccompact_grpc.callers import HIGH, LOW, NORMAL, Caller

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_NAME: Final = re.compile(r"[\w.@-]{1,64}", re.ASCII)
_PRIORITIES: Final = {"low": LOW, "normal": NORMAL, "high": HIGH}
_TYPES: Final[Mapping[str, type]] = {
    "sha256": str,
    "priority": str,
    "concurrent": int,
    "bytes_per_second": int,
    "jobs": bool,
}
_WANTED: Final[Mapping[type, str]] = {str: "a text", int: "a whole number, 0 or more", bool: "true or false"}


class Tokens:
    """Callers by their tokens, of which only digests are held."""

    def __init__(self, callers: Mapping[bytes, Caller]) -> None:
        """Bind SHA-256 digests (32 bytes) to callers."""
        self._callers = dict(callers)

    def bearer(self, authorization: str) -> Caller | None:
        """Return whom a header "Bearer TOKEN" stands for."""
        scheme, _, token = authorization.partition(" ")
        return self.caller(token.strip()) if scheme.lower() == "bearer" else None

    def caller(self, token: str) -> Caller | None:
        """Return whom a token stands for. The time that it takes tells nothing about any token."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, caller in self._callers.items():
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def read_tokens(path: str) -> Tokens:
    """Read a file of tokens.

    Raises:
        ArgumentError: it is not what the module's text says; the message names the table.
        OSError: it cannot be read.
    """
    where = os.path.basename(path)
    with open(path, "rb") as stream:
        try:
            tables = tomllib.load(stream)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ArgumentError(f"tokens: {where} is no TOML: {error}") from None
    if not tables:
        raise ArgumentError(f"tokens: {where} holds none; leave the setting out to serve everyone")
    callers: dict[bytes, Caller] = {}
    for name, table in tables.items():
        digest, caller = _entry(name, table, f"tokens: [{name}] in {where}")
        if digest in callers:
            raise ArgumentError(f"tokens: [{name}] in {where} has the token of [{callers[digest].name}]")
        callers[digest] = caller
    return Tokens(callers)


def _entry(name: str, table: object, where: str) -> tuple[bytes, Caller]:
    if not _NAME.fullmatch(name):
        raise ArgumentError(f"{where} has an odd name; use letters, digits and . _ @ - only, 64 at most")
    if not isinstance(table, dict):
        raise ArgumentError(f"{where} is no table; write [{name}], and below it what belongs to the caller")
    for key, value in table.items():
        if key not in _TYPES:
            raise ArgumentError(f"{where} has an unknown key {key}; known are {', '.join(_TYPES)}")
        if type(value) is not _TYPES[key] or (isinstance(value, int) and value < 0):
            raise ArgumentError(f"{where} has {key} = {value!r}; give {_WANTED[_TYPES[key]]}")
    return _digest(table, where), _caller(name, table, where)


def _digest(table: Mapping[str, Any], where: str) -> bytes:
    text = table.get("sha256", "")
    if not _DIGEST.fullmatch(text):
        raise ArgumentError(f"{where} needs sha256, the digest of its token in 64 hexadecimal digits, small letters")
    return bytes.fromhex(text)


def _caller(name: str, table: Mapping[str, Any], where: str) -> Caller:
    priority = table.get("priority", "high")
    if priority not in _PRIORITIES:
        raise ArgumentError(f'{where} has priority = "{priority}"; choose {", ".join(_PRIORITIES)}')
    concurrent, rate = table.get("concurrent", 0), table.get("bytes_per_second", 0)
    return Caller(name, _PRIORITIES[priority], concurrent, rate, table.get("jobs", True))
