"""What a reader of archives is asked: how much to hold and to write at most, and what of the metadata to restore."""

from dataclasses import dataclass

from speccompact.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Bounds of one call. Defaults accept every archive that fits a machine.

    Attributes:
        output_bytes: bytes of all files that are written, holes included, at most; None means no bound.
        entries: entries of the archive, at most; each takes about a kilobyte of memory.
        path_bytes: of one path, at most.
        table_bytes: of one table of entries, decoded, at most.
    """

    output_bytes: int | None = None
    entries: int = 10_000_000
    path_bytes: int = 16_384
    table_bytes: int = 1 << 31

    def __post_init__(self) -> None:
        for name in ("output_bytes", "entries", "path_bytes", "table_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ArgumentError(f"limit {name} is {value}; choose 0 or more")


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What of the metadata is restored beyond permissions and times.

    Attributes:
        force: replace what is there.
        owner: owner and group, by name where the system knows it.
        special: set-uid, set-gid and sticky bits, devices, and extended attributes of the system.
        xattrs: extended attributes of users.
        numeric: owner and group by number.
    """

    force: bool = False
    owner: bool = False
    special: bool = False
    xattrs: bool = False
    numeric: bool = False
