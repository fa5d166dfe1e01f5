"""What an archive says about one path: an entry, and where its bytes are."""

from enum import IntEnum
from typing import NamedTuple


class FileType(IntEnum):
    """Type of a path, by its number in the format."""

    FILE = 0
    FOLDER = 1
    SYMLINK = 2
    HARDLINK = 3
    FIFO = 4
    CHARACTER = 5
    BLOCK = 6


DIGEST_BYTES = 8
"""Leading bytes of the SHA-256 of an entry's stored bytes that an archive keeps."""


Loss = tuple[bytes, str]
"""A path, and why it is not in the archive or cannot be restored."""


class Piece(NamedTuple):
    """Bytes [offset, offset + length) of the content of a group; `group` is its number."""

    group: int
    offset: int
    length: int


class Entry(NamedTuple):
    """One path of an archive.

    Attributes:
        path: relative, "/" between components, no "." or ".." among them.
        type: what it is.
        mode: permission bits, with set-uid, set-gid and sticky (12 bits).
        mtime_ns: time of last change, nanoseconds since 1970.
        uid, gid: numbers of owner and group; `user`, `group_name` are their names, empty where unknown.
        size: bytes of a file, holes included; 0 for everything else.
        link: what a symbolic link says, or the path of the entry that a hard link is the same file as.
        device: number of a device.
        digest: first DIGEST_BYTES of the SHA-256 of the stored bytes; empty where there are none, or where only the
            index was read.
        segments: (offset, length) of the stored bytes of a file with holes, ascending; None where all is stored.
        xattrs: (name, value) of extended attributes.
        pieces: where the stored bytes are, in order.
    """

    path: bytes
    type: FileType = FileType.FILE
    mode: int = 0o644
    mtime_ns: int = 0
    uid: int = 0
    gid: int = 0
    user: bytes = b""
    group_name: bytes = b""
    size: int = 0
    link: bytes = b""
    device: int = 0
    digest: bytes = b""
    segments: tuple[tuple[int, int], ...] | None = None
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    pieces: tuple[Piece, ...] = ()

    @property
    def stored_bytes(self) -> int:
        """Bytes that the archive has to hold: the size without holes."""
        if self.segments is not None:
            return sum(length for _, length in self.segments)
        return self.size if self.type == FileType.FILE else 0

    @property
    def complete(self) -> bool:
        """Whether the pieces hold all stored bytes."""
        return sum(piece.length for piece in self.pieces) == self.stored_bytes
