"""What all tests share: hypothesis profiles, a model that is none, and the rule for tests that need the real one."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from speccompact.errors import ModelMissingError
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.modelstore.store import find, register
from speccompact.streams.engine import StoredEngines
from tests.fakes import FakeEngines

# Times on a loaded two-core machine say nothing, so no test has a deadline of its own; pytest-timeout ends a hang.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("default", _COMMON, max_examples=25)
settings.register_profile("ci", _COMMON, max_examples=50, derandomize=True, print_blob=True)
settings.register_profile("expensive", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


def pytest_configure() -> None:
    """Jobs that a shell runs in the background ignore the interrupt, and so would all that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def fake_engines(monkeypatch: pytest.MonkeyPatch) -> FakeEngines:
    """Let every name and digest mean the fake model, for code that offers no other way in."""
    fake = FakeEngines()
    monkeypatch.setattr(StoredEngines, "named", lambda _self, model: fake.named(model))
    monkeypatch.setattr(StoredEngines, "for_digest", lambda _self, digest: fake.for_digest(digest))
    return fake


@pytest.fixture(scope="session")
def tiny_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model store that holds the tiny model, freshly converted, under the name `tiny`."""
    from tests.tiny_model import TINY_DIGEST, contents  # loads torch

    home = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECCOMPACT_HOME", str(home))
        register("tiny", *contents(), expected_digest=TINY_DIGEST)
    return home


@pytest.fixture
def tiny_home(tiny_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the user's model store be `tiny_store`."""
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tiny_store))
    return tiny_store


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests with the real model where it is not in the store; in CI they run and fail, lest nobody notices."""
    if os.environ.get("CI"):
        return
    try:
        find(DEFAULT_MODEL)
    except ModelMissingError as error:
        reason = str(error)
    else:
        return
    for item in items:
        if item.get_closest_marker("real_model"):
            item.add_marker(pytest.mark.skip(reason=reason))
