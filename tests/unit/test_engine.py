import sys
from collections import deque
from pathlib import Path
from types import ModuleType

import pytest

from speccompact.errors import ModelMissingError
from speccompact.options import Options
from speccompact.streams import engine
from speccompact.streams.engine import StoredEngines
from tests.fakes import FakeCodec, FakeTarget, FakeTokenizer


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str | bytes]:
    """Put a fake codec and loader in place; returns what the loader was asked for."""
    asked: list[str | bytes] = []

    def load_target(model: str | bytes, options: Options) -> tuple[FakeTarget, FakeTokenizer]:
        asked.append(model)
        target = FakeTarget(model if isinstance(model, str) else model.rstrip(b"\0").decode())
        return target, FakeTokenizer(target.vocabulary)

    codec, loading = ModuleType("codec"), ModuleType("loading")
    vars(codec)["Codec"] = lambda target, options: FakeCodec(target)
    vars(loading)["load_target"] = load_target
    monkeypatch.setitem(sys.modules, "speccompact.codec", codec)
    monkeypatch.setitem(sys.modules, "speccompact.modelstore.loading", loading)
    monkeypatch.setattr(engine, "_recent", deque(maxlen=2))
    monkeypatch.setattr(engine, "locate", str)
    return asked


def test_a_model_is_loaded_once_under_both_names(loads: list[str | bytes]) -> None:
    engines = StoredEngines(Options())
    first = engines.named("one")
    assert engines.for_digest(first.codec.target.digest[:8]) is first
    assert StoredEngines(Options()).named("one") is first
    assert loads == ["one"]


def test_two_models_are_kept(loads: list[str | bytes]) -> None:
    engines = StoredEngines(Options())
    for name in ("one", "two", "one", "two", "three", "two", "one"):
        assert engines.named(name).codec.target.name == name
    assert loads == ["one", "two", "three", "one"]


def test_options_belong_to_an_engine(loads: list[str | bytes]) -> None:
    assert StoredEngines(Options()).named("one") is not StoredEngines(Options(threads=1)).named("one")
    assert loads == ["one", "one"]


def test_a_digest_is_handed_to_the_loader(loads: list[str | bytes]) -> None:
    assert StoredEngines(Options()).for_digest(b"one\0\0\0\0\0").codec.target.name == "one"
    assert loads == [b"one\0\0\0\0\0"]


def test_a_model_that_is_missing_is_told_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path))
    monkeypatch.setattr(engine, "_recent", deque(maxlen=2))
    monkeypatch.setitem(sys.modules, "speccompact.codec", None)
    engines = StoredEngines(Options())
    with pytest.raises(ModelMissingError, match="nosuch"):
        engines.named("nosuch")
    with pytest.raises(ModelMissingError, match="0000000000000000"):
        engines.for_digest(bytes(8))
