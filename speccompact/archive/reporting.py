"""A page about an archive: what it holds, how well that is compressed, how the job went. ARCHIVE.md section 10.

The page is one file that loads nothing and runs nothing, and it depends on its arguments alone: the same archive gives
the same bytes.
"""

from collections.abc import Sequence
from string import Template

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.charts import Bar, areas, bars, columns, line, plain, text
from speccompact.archive.comparing import Comparison
from speccompact.archive.entries import FileType
from speccompact.archive.holdings import MIN_WORST, Holding, Holdings, survey
from speccompact.archive.joblog import JobLog
from speccompact.quantities import amount, duration

_KINDS = 12  # shown alone; the others become one
_YEARS = 20
_REASONS = 10
_POINTS = 400  # of a line: more than the picture has room for

_COUNTED = (
    (FileType.FILE, "file", "files"),
    (FileType.FOLDER, "folder", "folders"),
    (FileType.SYMLINK, "symbolic link", "symbolic links"),
    (FileType.HARDLINK, "hard link", "hard links"),
    (FileType.FIFO, "pipe", "pipes"),
    (FileType.CHARACTER, "character device", "character devices"),
    (FileType.BLOCK, "block device", "block devices"),
)

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --paper: #ffffff; --rest: #c9d3de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf3; --paper: #12171e; --rest: #46525f; } }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { overflow-wrap: anywhere; } figure { margin: 1rem 0 2rem; } figcaption { font-weight: 600; margin-bottom: .5rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .end { text-anchor: end; } svg .on { fill: #ffffff; } svg .tile { stroke: var(--paper); stroke-width: 2; }
svg .text { fill: #1f5f9e; } svg .other { fill: #a34d00; } svg .rest { fill: var(--rest); }
svg .line { fill: none; stroke: #1f5f9e; stroke-width: 2; } svg .under { fill: var(--rest); opacity: .5; }
svg .mark { stroke: var(--ink); stroke-dasharray: 4 4; }
.key { display: inline-block; width: .8em; height: .8em; } .key.text { background: #1f5f9e; }
.key.other { background: #a34d00; } .key.rest { background: var(--rest); } li { overflow-wrap: anywhere; }
"""

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$name</title>
<style>$style</style>
</head>
<body>
<main>
<h1>$name</h1>
$body
</main>
</body>
</html>
""")


def report(archive: ArchiveFile, name: str, *, comparison: Comparison | None = None, log: JobLog | None = None) -> str:
    """Return a page about an archive, as HTML.

    Args:
        archive: open.
        name: of the archive, for the heading.
        comparison: a sample against xz and zstandard, where one was made.
        log: of the job that made the archive, where there is one.

    Raises:
        FormatError: the structure of a group is damaged.
    """
    holdings = survey(archive)
    sections = [_summary(holdings), _kinds(holdings), _files(holdings), _times(holdings)]
    if comparison is not None:
        sections.append(_compared(comparison))
    if log is not None:
        sections.append(_job(log))
    return _PAGE.substitute(name=text(name, 200), style=_STYLE, body="\n".join(filter(None, sections)))


def _summary(holdings: Holdings) -> str:
    whole = holdings.whole
    counts = [
        f"{holdings.types[kind]:,} {one if holdings.types[kind] == 1 else many}"
        for kind, one, many in _COUNTED
        if holdings.types[kind]
    ]
    said = [
        f"{', '.join(counts) or 'Nothing'}: {amount(whole.content_bytes)} in {amount(whole.archive_bytes)}"
        f"{_bits(8 * whole.archive_bytes, whole.content_bytes)}.",
        f"{amount(whole.content_bytes - whole.stored_bytes)} are repeated bytes or holes and take nothing; names, "
        f"times and checks take {amount(whole.archive_bytes - holdings.payload_bytes)}.",
    ]
    if holdings.appends:
        said.append(
            f"Something was added {holdings.appends} times; {amount(holdings.replaced_bytes)} of older content are "
            "kept that no path has any more."
        )
    rows = [
        Bar("content", whole.content_bytes, amount(whole.content_bytes), whole.stored_bytes),
        Bar("archive", whole.archive_bytes, amount(whole.archive_bytes)),
    ]
    keys = "<span class='key text'></span> of the content: what had to be stored"
    return f"<p>{' '.join(said)}</p>{bars('whole', 'Content and archive', rows)}<p>{keys}</p>"


def _kinds(holdings: Holdings) -> str:
    kinds = _named_kinds(holdings.kinds)
    if not kinds:
        return ""
    held = [_bar(name, kind, kind.content_bytes, _counted(kind)) for name, kind in kinds]
    rates = [_bar(name, kind, kind.bpb, f"{kind.bpb:.3f} bpb") for name, kind in kinds if kind.stored_bytes]
    mean = 8 * holdings.payload_bytes / (holdings.whole.stored_bytes or 1)
    return (
        "<h2>Kinds of files</h2>"
        "<p><span class='key text'></span> text, which the model reads; "
        "<span class='key other'></span> the rest, which zstandard packs.</p>"
        + areas("kinds", "What the archive holds, by name ending", held)
        + (bars("rates", f"Bits per stored byte; dashed: all together, {mean:.3f}", rates, mean) if rates else "")
    )


def _named_kinds(kinds: Sequence[Holding]) -> list[tuple[str, Holding]]:
    """Return kinds with what they are called, the smallest of many joined to one."""
    few = kinds if len(kinds) <= _KINDS else kinds[: _KINDS - 1]
    named = [(f".{plain(kind.name)}" if kind.name else "no ending", kind) for kind in few]
    if len(few) < len(kinds):
        rest = Holding(b"")
        for kind in kinds[len(few) :]:
            rest.add(kind)
        named.append((f"{len(kinds) - len(few)} other kinds", rest))
    return named


def _files(holdings: Holdings) -> str:
    largest = [
        _bar(plain(file.name), file, file.content_bytes, _takes(file), part=file.archive_bytes)
        for file in holdings.largest
    ]
    worst = [_bar(plain(file.name), file, file.bpb, f"{file.bpb:.3f} bpb, {_takes(file)}") for file in holdings.worst]
    if not largest:
        return ""
    return (
        "<h2>Files</h2><p>Files that are compressed together share what they take; for one of them it is an estimate. "
        "<span class='key rest'></span> content, with what it takes in the archive on top.</p>"
        + bars("largest", "The largest files", largest)
        + (
            bars(
                "worst",
                f"Files of {MIN_WORST:,} bytes or more that compress worst; dashed: 8, stored as it is",
                worst,
                8.0,
            )
            if worst
            else ""
        )
    )


def _times(holdings: Holdings) -> str:
    if not holdings.years:
        return ""
    years = [Bar(str(year), size, amount(size)) for year, size in holdings.years[-_YEARS:]]
    earlier = sum(size for _, size in holdings.years[:-_YEARS])
    if len(holdings.years) > _YEARS:
        years.insert(0, Bar("before", earlier, amount(earlier)))
    return "<h2>Time</h2>" + columns("years", "Content by the year of its last change", years)


def _compared(comparison: Comparison) -> str:
    size = comparison.content_bytes
    rows = [
        Bar(name, value, f"{amount(value)}{_bits(8 * value, size)}", style=style)
        for name, value, style in (
            ("this archive", comparison.archive_bytes, "text"),
            ("xz -9e", comparison.xz_bytes, "other"),
            ("zstd -19 --long", comparison.zstd_bytes, "other"),
        )
    ]
    saved = round(100 * (1 - comparison.archive_bytes / comparison.xz_bytes))
    than_xz = f"{abs(saved)} % {'smaller' if saved >= 0 else 'larger'} than xz"
    return (
        f"<h2>Against xz and zstandard</h2><p>A sample of {amount(size)} ({comparison.groups} of the groups), decoded "
        f"and packed again as one file: the archive is {than_xz}. Names "
        "and checks are left out on all sides.</p>" + bars("peers", "The same content", rows)
    )


def _job(log: JobLog) -> str:
    seconds, (_, done, archive_bytes) = log.seconds, log.points[-1]
    rate = f", {amount(done / seconds)} a second" if seconds > 0 else ""
    said = f"{amount(done)} of {amount(log.total)} in {duration(seconds)}{rate}"
    every = -(-len(log.points) // _POINTS)
    points = [*log.points[::every], log.points[-1]]
    shown = line("job", "Content done over time; flat where the job stood still", said,
                 [(at, size) for at, size, _ in points], (duration(seconds), amount(done)))  # fmt: skip
    lost = ""
    if log.left_out:
        items = "".join(f"<li>{text(path, 200)}: {text(why, 200)}</li>" for path, why in log.left_out[:_REASONS])
        more = len(log.left_out) - _REASONS
        items += f"<li>and {more:,} more</li>" if more > 0 else ""
        lost = f"<p>{len(log.left_out):,} left out:</p><ul>{items}</ul>"
    return f"<h2>The job</h2><p>{said}; the archive had {amount(archive_bytes)} then.</p>{shown}{lost}"


def _bar(name: str, holding: Holding, value: float, note: str, part: float | None = None) -> Bar:
    return Bar(name, value, note, part, "text" if holding.is_text else "other")


def _counted(kind: Holding) -> str:
    return f"{kind.files:,} {'file' if kind.files == 1 else 'files'}, {amount(kind.content_bytes)}"


def _takes(file: Holding) -> str:
    if not file.stored_bytes:
        return f"{amount(file.content_bytes)}, stored elsewhere" if file.content_bytes else "empty"
    return f"{amount(file.content_bytes)} in {amount(file.archive_bytes)}"


def _bits(bits: float, size: int) -> str:
    return f", {bits / size:.3f} bpb" if size else ""
