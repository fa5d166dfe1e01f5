"""What a job is asked to do, from the message to what the library takes, with every limit checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grpc

from speccompact.archive.request import Request
from speccompact.archive.selection import Selection
from speccompact.errors import ArgumentError
from speccompact.params import DEFAULT_LEVEL, level_params
from speccompact_grpc.jobpaths import Claim, Place, Roots
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.v1 import speccompact_pb2 as pb

_MOST_NAMES: Final = 1000
_NAME_CHARACTERS: Final = 4096
_MOST_STARS: Final = 10
_MODEL_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Coding:
    """What changes the bytes of an archive; as the arguments of `speccompact.compress_stream`."""

    level: int
    model: str
    slot_tokens: int | None
    group_frames: int | None


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job, checked.

    Attributes:
        kind: field of `JobSpec.work`.
        sources: what it reads.
        output: what it writes: a file or, for an extraction, a folder; None for a check.
        coding: of what it compresses; None where it does not.
        include, exclude: globs.
        paths: within the archive.
        force: replace what is there.
        quick: check only what is stored.
    """

    kind: str
    sources: tuple[Place, ...]
    output: Place | None = None
    coding: Coding | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    force: bool = False
    quick: bool = False

    @property
    def claim(self) -> Claim:
        """What it works on."""
        reads = [place.path for place in self.sources]
        writes = [] if self.output is None else [self.output.path]
        if self.kind in ("archive_extract", "archive_verify"):
            reads += _family(self.sources[0])
        if self.kind in ("archive_create", "archive_append") and self.output is not None:
            writes += _family(self.output)
        return Claim(tuple(reads), tuple(writes))

    @property
    def target(self) -> str:
        """Absolute path of what it writes."""
        assert self.output is not None
        return self.output.path

    @property
    def selection(self) -> Selection:
        """The globs, ready to be asked."""
        return Selection(self.include, self.exclude)

    def archive_request(self) -> Request:
        """Return what `speccompact.archive` is asked for."""
        coding = self.coding
        assert coding is not None
        return Request(
            tuple(place.path + "/" * place.inside for place in self.sources),
            include=self.include,
            exclude=self.exclude,
            level=coding.level,
            model=coding.model,
            slot_tokens=coding.slot_tokens,
            group_frames=coding.group_frames,
        )


def read_spec(spec: pb.JobSpec, roots: Roots, default_model: str) -> JobRequest:
    """Return what a message asks for. Nothing is looked at on disk.

    Raises:
        Refusal: INVALID_ARGUMENT, with the field that is wrong.
        PathRefused: a path is not one that jobs may use.
    """
    match spec.WhichOneof("work"):
        case "compress_file" as kind:
            file = spec.compress_file
            source, output = _file(file.source, roots, "source"), _file(file.output, roots, "output")
            return JobRequest(kind, (source,), output, _coding(file.options, default_model), force=file.force)
        case "decompress_file" as kind:
            coded = spec.decompress_file
            source, output = _file(coded.source, roots, "source"), _file(coded.output, roots, "output")
            return JobRequest(kind, (source,), output, force=coded.force)
        case "archive_create" as kind:
            made = spec.archive_create
            sources, output = _sources(made.sources, roots), _file(made.output, roots, "output")
            globs, coding = _globs(made.include, made.exclude), _coding(made.options, default_model)
            return JobRequest(kind, sources, output, coding, *globs, force=made.force)
        case "archive_append" as kind:
            grown = spec.archive_append
            sources, output = _sources(grown.sources, roots), _file(grown.archive, roots, "archive")
            globs, coding = _globs(grown.include, grown.exclude), _coding(grown.options, default_model)
            return JobRequest(kind, sources, output, coding, *globs)
        case "archive_extract" as kind:
            taken = spec.archive_extract
            source, target = _file(taken.archive, roots, "archive"), roots.place(taken.target)
            globs, paths = _globs(taken.include, taken.exclude), _names(taken.paths, "paths")
            return JobRequest(kind, (source,), target, None, *globs, paths, taken.force)
        case "archive_verify" as kind:
            checked = spec.archive_verify
            return JobRequest(kind, (_file(checked.archive, roots, "archive"),), quick=checked.quick)
        case _:
            raise wrong("spec.work", "says nothing of what the job is to do")


def wrong(field: str, why: str) -> Refusal:
    """Return the refusal of a field."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, "ARGUMENT", f"{field} {why}", number=10, field=field)


def _family(place: Place) -> tuple[str, str]:
    return place.base, place.base + "."


def _file(name: str, roots: Roots, field: str) -> Place:
    place = roots.place(name)
    if not place.parts or place.inside:
        raise wrong(field, "has to name a file")
    return place


def _sources(names: Sequence[str], roots: Roots) -> tuple[Place, ...]:
    if not names:
        raise wrong("sources", "is empty")
    return tuple(roots.place(name) for name in _names(names, "sources"))


def _names(names: Sequence[str], field: str) -> tuple[str, ...]:
    if len(names) > _MOST_NAMES:
        raise wrong(field, f"has {len(names)} items; {_MOST_NAMES} are taken")
    for name in names:
        if not name or len(name) > _NAME_CHARACTERS or "\0" in name:
            raise wrong(field, f"has an item that is empty, has NUL, or is longer than {_NAME_CHARACTERS} characters")
    return tuple(names)


def _globs(include: Sequence[str], exclude: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    globs = _names(include, "include"), _names(exclude, "exclude")
    for glob in (*globs[0], *globs[1]):
        if glob.count("*") > _MOST_STARS:  # the time to match grows with a power of them
            raise wrong("include or exclude", f"has a glob with more than {_MOST_STARS} stars")
    return globs


def _coding(options: pb.CompressOptions, default_model: str) -> Coding:
    coding = Coding(
        options.level or DEFAULT_LEVEL,
        options.model or default_model,
        options.slot_tokens if options.HasField("slot_tokens") else None,
        options.group_frames if options.HasField("group_frames") else None,
    )
    if "/" in coding.model or "\0" in coding.model or len(coding.model.encode()) > _MODEL_BYTES:
        raise wrong("options.model", "is no name of a model")
    try:
        level_params(coding.level, coding.slot_tokens, coding.group_frames)
    except ArgumentError as error:
        raise wrong("options", f"cannot be used: {error}") from None
    return coding
