"""What a reader of archives is willing to hold and to write."""

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
