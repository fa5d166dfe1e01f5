import os
from pathlib import Path

import pytest

from speccompact.training.folders import require_folder, require_place


def test_folders_to_read(tmp_path: Path) -> None:
    require_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="no such folder"):
        require_folder(tmp_path / "absent")
    with pytest.raises(NotADirectoryError, match="no folder"):
        require_folder(tmp_path / "file")


def test_places_for_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path, tmp_path / "a" / "b", Path("a")):
        require_place(place)
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("file", "file/below", "dangling"):
        with pytest.raises(NotADirectoryError, match="no folder"):
            require_place(tmp_path / name)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="cannot be written"):
        require_place(tmp_path / "a")
