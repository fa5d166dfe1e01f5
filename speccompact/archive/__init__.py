"""Archives of whole trees: make, read, check, add to, mend. The same as `speccompact archive` on the command line.

Names load on use, so that importing this package loads nothing heavy:

    from speccompact import archive

    archive.create("docs.spca", archive.Request(("docs",), level=5))
    with archive.ArchiveFile("docs.spca") as file:
        archive.extract(file, "target", [b"docs/a.txt"])
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speccompact.archive.appending import append as append
    from speccompact.archive.archivefile import ArchiveFile as ArchiveFile
    from speccompact.archive.checking import verify as verify
    from speccompact.archive.comparing import Comparison as Comparison
    from speccompact.archive.comparing import compare as compare
    from speccompact.archive.creating import create as create
    from speccompact.archive.diffing import Difference as Difference
    from speccompact.archive.diffing import diff as diff
    from speccompact.archive.entries import Entry as Entry
    from speccompact.archive.entries import FileType as FileType
    from speccompact.archive.events import Event as Event
    from speccompact.archive.events import EventLog as EventLog
    from speccompact.archive.events import JobSummary as JobSummary
    from speccompact.archive.extracting import extract as extract
    from speccompact.archive.groupexecutors import make_executor as make_executor
    from speccompact.archive.holdings import Holdings as Holdings
    from speccompact.archive.holdings import survey as survey
    from speccompact.archive.joblog import JobLog as JobLog
    from speccompact.archive.joblog import read_log as read_log
    from speccompact.archive.pathreading import read_file as read_file
    from speccompact.archive.readoptions import ArchiveLimits as ArchiveLimits
    from speccompact.archive.readoptions import RestoreOptions as RestoreOptions
    from speccompact.archive.repairing import repair as repair
    from speccompact.archive.reporting import report as report
    from speccompact.archive.request import Request as Request
    from speccompact.archive.selection import Selection as Selection

_HOMES = {
    "ArchiveFile": "archivefile",
    "ArchiveLimits": "readoptions",
    "Comparison": "comparing",
    "Difference": "diffing",
    "Entry": "entries",
    "Event": "events",
    "EventLog": "events",
    "FileType": "entries",
    "Holdings": "holdings",
    "JobLog": "joblog",
    "JobSummary": "events",
    "Request": "request",
    "RestoreOptions": "readoptions",
    "Selection": "selection",
    "append": "appending",
    "compare": "comparing",
    "create": "creating",
    "diff": "diffing",
    "extract": "extracting",
    "make_executor": "groupexecutors",
    "read_file": "pathreading",
    "read_log": "joblog",
    "repair": "repairing",
    "report": "reporting",
    "survey": "holdings",
    "verify": "checking",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
