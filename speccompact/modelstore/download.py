"""Downloads a file of known size and digest, and goes on where an earlier try stopped."""

import hashlib
import os
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from speccompact.errors import ModelError
from speccompact.modelstore.wheelindex import IndexSettings, describe, open_url, redact

_CHUNK_BYTES = 1 << 18
_TRIES = 5
"""Tries without any progress before a download is given up."""

PAUSE_SECONDS = 0.5
"""Wait before the first new try; it doubles with every further one."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done ("download", "extract", "convert"), how much of it is done, and how much there is."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(
    url: str,
    target: Path,
    *,
    size: int,
    sha256: str,
    settings: IndexSettings,
    progress: Progress = no_progress,
) -> None:
    """Fetch a URL into a file; what is there of it already is kept and only the rest is asked for.

    The caller holds a lock: one process at a time writes `target`. A crash at any moment leaves a beginning of the
    file, which the next call continues; the digest decides in the end.

    Args:
        url: where the file is.
        target: where it goes.
        size: its bytes; a server that sends more is cut off.
        sha256: its digest, hexadecimal.
        settings: certificates and proxy.
        progress: told how many bytes are there.

    Raises:
        ModelError: it cannot be fetched, or is another file. In the second case `target` is removed.
    """
    resumed = _length(target) > 0
    _complete(url, target, size, settings, progress)
    if resumed and file_sha256(target) != sha256:
        # the beginning may be from a crash or from another server: once more, all of it
        target.unlink()
        _complete(url, target, size, settings, progress)
    found = file_sha256(target)
    if found != sha256:
        target.unlink()
        raise ModelError(f"{redact(url)}: the SHA-256 is {found}, not {sha256}: this is another file")


def _complete(url: str, target: Path, size: int, settings: IndexSettings, progress: Progress) -> None:
    """Fetch what is missing, in as many tries as it takes while they bring anything."""
    failed, wait = 0, PAUSE_SECONDS
    while _length(target) != size:
        before = _length(target)
        reason = _fetch_rest(url, target, size, settings, progress)
        if reason is None:
            return
        failed = 0 if _length(target) > before else failed + 1
        if failed >= _TRIES:
            raise ModelError(f"{redact(url)}: {reason}; {_length(target)} of {size} bytes are kept for the next try")
        if failed:
            time.sleep(wait)
            wait *= 2
        else:
            wait = PAUSE_SECONDS


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _fetch_rest(url: str, target: Path, size: int, settings: IndexSettings, progress: Progress) -> str | None:
    """Ask once for what is missing and append what comes; return the reason where that is not all."""
    start = _length(target)
    if start > size:
        os.truncate(target, 0)
        start = 0
    headers = {"Range": f"bytes={start}-"} if start else {}
    try:
        with open_url(url, settings, headers) as answer:
            if start and not _continues(answer, start):
                # the server does not know ranges and sends everything again
                start = 0
            with open(target, "r+b" if target.exists() else "wb") as file:
                file.truncate(start)
                file.seek(start)
                while chunk := answer.read(min(_CHUNK_BYTES, size - start + 1)):
                    start += len(chunk)
                    if start > size:
                        file.truncate(0)
                        return "it is longer than expected"
                    file.write(chunk)
                    progress("download", start, size)
    except (OSError, HTTPException, ValueError) as error:
        return describe(error)
    return None if start == size else "the connection ended early"


def _continues(answer: object, start: int) -> bool:
    """Tell whether an answer begins at the byte asked for."""
    headers = getattr(answer, "headers", {})
    return getattr(answer, "status", None) == 206 and str(headers.get("Content-Range", "")).startswith(
        f"bytes {start}-"
    )
