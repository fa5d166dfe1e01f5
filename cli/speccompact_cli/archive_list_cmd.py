"""``speccompact archive list`` and ``diff``."""

import base64
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any

import click

from speccompact_cli.archive_common import (
    archive_argument,
    entries_option,
    make_archive_limits,
    make_request,
    selection_options,
    source_options,
)
from speccompact_cli.exit_codes import FAILURE, SUCCESS
from speccompact_cli.naming import shown

if TYPE_CHECKING:
    from speccompact.archive.entries import Entry

_LETTERS = "-dlhpcb"
"""What stands for a type, by its number."""


@click.command("list")
@archive_argument
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each entry, on a line of its own.")
@click.option("-l", "--long", "long", is_flag=True, help="With mode, owner, size and time.")
@entries_option
def list_command(
    archive: str,
    paths: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
    long: bool,
    max_entries: int | None,
) -> int:
    """Print what is in ARCHIVE, or in each PATH of it. Nothing is decoded."""
    from speccompact.archive.archivefile import ArchiveFile  # loads NumPy: only when it runs
    from speccompact.archive.extracting import selected
    from speccompact.archive.selection import Selection

    with ArchiveFile(archive, limits=make_archive_limits(max_entries)) as file:
        wanted = [os.fsencode(path) for path in paths]
        for entry in selected(file.entries.values(), wanted, Selection(include, exclude)):
            click.echo(json.dumps(_as_json(entry)) if as_json else _line(entry, long))
    return SUCCESS


def _as_json(entry: "Entry") -> dict[str, Any]:
    """Return an entry as plain values; a path that is no UTF-8 comes with surrogate escapes, and in base64."""
    path = os.fsdecode(entry.path)
    values: dict[str, Any] = {"path": path}
    if not path.isprintable() or path.encode("utf-8", "surrogateescape") != path.encode("utf-8", "replace"):
        values["path_base64"] = base64.b64encode(entry.path).decode()
    return values | {
        "type": entry.type.name.lower(),
        "mode": f"{entry.mode:04o}",
        "size": entry.size,
        "stored_bytes": entry.stored_bytes,
        "mtime_ns": entry.mtime_ns,
        "uid": entry.uid,
        "gid": entry.gid,
        "user": os.fsdecode(entry.user),
        "group": os.fsdecode(entry.group_name),
        "link": os.fsdecode(entry.link),
        "xattrs": {os.fsdecode(name): base64.b64encode(value).decode() for name, value in entry.xattrs},
        "groups": sorted({piece.group for piece in entry.pieces}),
    }


def _line(entry: "Entry", long: bool) -> str:
    name = shown(entry.path)
    if not long:
        return name
    arrow = f" -> {shown(entry.link)}" if entry.link else ""
    mode = _LETTERS[entry.type] + stat.filemode(entry.mode)[1:]
    owner = f"{shown(entry.user) or entry.uid}/{shown(entry.group_name) or entry.gid}"
    return f"{mode} {owner:17} {entry.size:>12} {_moment(entry.mtime_ns // 1_000_000_000)} {name}{arrow}"


def _moment(seconds: int) -> str:
    """Return a time in UTC, as a number where no calendar knows it."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:>16}"


@click.command("diff")
@archive_argument
@source_options
@click.option("--content", is_flag=True, help="Compare digests of files that look the same, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each difference.")
@entries_option
def diff_command(archive: str, content: bool, as_json: bool, max_entries: int | None, **values: Any) -> int:
    """Print how ARCHIVE and each SOURCE differ.

    They are the sources that it was made of. Exit code 1 says that something differs. Nothing is decoded.
    """
    from speccompact.archive.archivefile import ArchiveFile  # loads NumPy: only when it runs
    from speccompact.archive.diffing import diff

    request = make_request(values)
    code = SUCCESS
    with ArchiveFile(archive, limits=make_archive_limits(max_entries)) as file:
        for difference in diff(file, request, content=content):
            code = FAILURE
            if as_json:
                click.echo(json.dumps({"path": os.fsdecode(difference.path), "what": list(difference.what)}))
            else:
                click.echo(f"{', '.join(difference.what)}: {shown(difference.path)}")
    return code
