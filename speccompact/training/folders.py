"""Folders that a command names, looked at before anything takes long: whether they are there, or can be made."""

import errno
import os
from pathlib import Path


def require_folder(folder: Path) -> None:
    """Refuse what is no folder.

    Raises:
        FileNotFoundError, NotADirectoryError: saying so, with its name.
    """
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "this is no folder", str(folder))


def require_place(folder: Path) -> None:
    """Refuse a folder for results that neither is there nor can be made, or cannot be written. It is not made yet.

    Raises:
        NotADirectoryError, PermissionError: with the name of what is in the way.
    """
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "this is no folder", str(place))
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written", str(place))
