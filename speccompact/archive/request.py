"""What a job is asked to archive, in a form that a later run can compare."""

import dataclasses
import json
import os
from dataclasses import dataclass

from speccompact.archive.selection import Selection
from speccompact.archive.storage import is_remote
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.params import DEFAULT_LEVEL, CodecParams, level_params


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that changes what is in the archive.

    Attributes:
        sources: folders, files and URLs, each below the last component of its name; one that ends in "/" without it.
        named: local relative paths, each for itself.
        include, exclude: globs; see `Selection`.
        xattrs: keep extended attributes.
        level, model, slot_tokens, group_frames: as in `speccompact.compress_stream`.
        volume_bytes: size of the volumes that the archive is split into; None for one file.
        unchanged: for an append: also take what the archive has with the same type, size, time, mode and owner.
    """

    sources: tuple[str, ...]
    named: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    xattrs: bool = False
    level: int = DEFAULT_LEVEL
    model: str = DEFAULT_MODEL
    slot_tokens: int | None = None
    group_frames: int | None = None
    volume_bytes: int | None = None
    unchanged: bool = False

    @property
    def params(self) -> CodecParams:
        """The parameters of the level. Raises ArgumentError where something is out of range."""
        return level_params(self.level, self.slot_tokens, self.group_frames)

    @property
    def selection(self) -> Selection:
        """The globs, ready to be asked."""
        return Selection(self.include, self.exclude)

    def fingerprint(self) -> str:
        """Return the request as text that is equal if and only if the job is."""
        places = [source if is_remote(source) else os.path.abspath(source) for source in self.sources]
        values = dataclasses.asdict(self) | {"places": places, "folder": os.getcwd() if self.named else ""}
        return json.dumps(values, sort_keys=True)
