import os
from pathlib import Path

import pytest

from speccompact.archive.metadata import entry_of


def test_a_time_that_an_archive_cannot_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    fields = list(os.lstat(tmp_path / "a"))
    late = os.stat_result(fields[:10], {"st_mtime_ns": (1 << 62) * 10**9, "st_blocks": 0})
    with pytest.raises(OSError, match="no time"):
        entry_of(b"a", str(tmp_path / "a"), late, xattrs=False)
