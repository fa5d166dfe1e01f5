"""Groups of a plan, and what was left out, as the values of a row in the ledger."""

import json
import os
from collections.abc import Iterable

from speccompact.archive.entries import Entry, Loss
from speccompact.archive.entrytable import pack_entries, unpack_entries
from speccompact.archive.planning import PlannedGroup, PlannedPiece
from speccompact.archive.records import Coding
from speccompact.container.fields import Cursor
from speccompact.errors import DamagedError, FormatError

_MOST = 1 << 24  # entries of one group


def pack_pieces(group: PlannedGroup) -> str:
    """Return where the pieces of a group are read, as JSON; undecodable bytes of names stay surrogates."""
    return json.dumps([[p.locations, p.start, p.length, p.digest.hex()] for p in group.pieces])


def pack_group_entries(group: PlannedGroup) -> bytes:
    """Return all entries of a group as a table: those without content, then those of each piece."""
    return pack_entries([*group.bare, *(entry for piece in group.pieces for entry in piece.entries)], digests=True)


def unpack_group(number: int, coding: int, pieces: str, packed: bytes) -> PlannedGroup:
    """Return a group as it was saved; a ledger that was tampered with must not be taken for a plan.

    Raises:
        DamagedError: it cannot be read.
    """
    try:
        entries = unpack_entries(Cursor(packed), _MOST)
        rows = json.loads(pieces)
        at = len(entries) - sum(len(row[0]) for row in rows)
        bare, found = tuple(entries[:at]), []
        for locations, start, length, digest in rows:
            own: tuple[Entry, ...] = tuple(entries[at : at + len(locations)])
            found.append(PlannedPiece(tuple(locations), start, length, bytes.fromhex(digest), own))
            at += len(locations)
        return PlannedGroup(number, Coding(coding), tuple(found), bare)
    except (FormatError, ValueError, TypeError) as error:
        raise DamagedError(f"group {number} of the ledger cannot be read ({error}); delete it to begin anew") from None


def pack_losses(losses: Iterable[Loss]) -> str:
    """Return paths and reasons as JSON."""
    return json.dumps([[os.fsdecode(path), reason] for path, reason in losses])


def unpack_losses(text: str) -> tuple[Loss, ...]:
    """Return what `pack_losses` was given.

    Raises:
        DamagedError: it is something else.
    """
    try:
        return tuple((os.fsencode(path), str(reason)) for path, reason in json.loads(text))
    except (ValueError, TypeError) as error:
        raise DamagedError(f"what the ledger has left out cannot be read ({error}); delete it to begin anew") from None
