"""File operations of the model store: atomic files and locks between processes."""

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TEMPORARY = ".tmp-"
_STALE_SECONDS = 86_400


@contextmanager
def temporary(folder: Path) -> Iterator[Path]:
    """Create an empty file of a new name in the folder, for `commit`; remove it at the end if it is still there.

    What a killed process leaves behind is removed by a later call once it is a day old.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _remove_stale(folder)
    path = folder / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    # not from `tempfile`, whose files are private: the user's own mask decides who may read the store
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def commit(path: Path, final: Path) -> None:
    """Make a complete temporary file appear under its final name, in the same folder.

    Commit point: the rename. Before it, a crash leaves `final` as it was. Two processes that commit to the same name
    do not disturb each other: the last rename wins.
    """
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(path, final)
    # not every system can open a folder; the rename itself is atomic all the same
    with suppress(OSError):
        handle = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let a library write a file that appears whole or not at all, with the permissions of any other file.

    Args:
        path: of the file; its folder is made where it is missing.
        write: writes to the path that it is given.
    """
    with temporary(path.parent) as place:
        mode = place.stat().st_mode
        write(place)
        place.chmod(mode)  # what a library writes may be private
        commit(place, path)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting while another process holds it; the system frees it when a holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield


def _remove_stale(folder: Path) -> None:
    limit = time.time() - _STALE_SECONDS
    for leftover in folder.glob(_TEMPORARY + "*"):
        with suppress(OSError):
            if leftover.stat().st_mtime < limit:
                leftover.unlink()
