"""Settings of the service: one precedence, and every mistake is told with its place."""

from pathlib import Path

import pytest

from speccompact.errors import ArgumentError
from speccompact_grpc.serviceconfig import SETTINGS, ServiceConfig, load_config, parse_text
from tests.source_tree import ROOT


def written(path: Path, text: str) -> str:
    file = path / "service.toml"
    file.write_text(text, "utf-8")
    return str(file)


def test_flags_count_before_the_environment_the_file_and_the_default(tmp_path: Path) -> None:
    file = written(tmp_path, 'places = 201\nqueue_slots = 1\ncalls = 1\nmodels = ["a", "b"]\ndrain_seconds = 3\n')
    environment = {"SPECCOMPACT_SERVE_PLACES": "202", "SPECCOMPACT_SERVE_QUEUE_SLOTS": "2", "PATH": "/bin"}
    config = load_config(file, environment, {"places": 203, "queue_slots": None})
    assert (config.places, config.queue_slots, config.calls) == (203, 2, 1)
    assert config.models == ("a", "b")
    assert config.drain_seconds == 3.0
    assert config.listen == ServiceConfig().listen


def test_the_environment_can_name_the_file_and_hold_every_type(tmp_path: Path) -> None:
    file = written(tmp_path, "places = 207\n")
    config = load_config(
        None,
        {
            "SPECCOMPACT_SERVE_CONFIG": file,
            "SPECCOMPACT_SERVE_MODELS": "one, two,",
            "SPECCOMPACT_SERVE_REFLECTION": "off",
            "SPECCOMPACT_SERVE_DRAIN_SECONDS": "0.5",
            "SPECCOMPACT_SERVE_LISTEN": "[::1]:0",
        },
        {},
    )
    assert (config.places, config.models, config.reflection) == (207, ("one", "two"), False)
    assert (config.drain_seconds, config.listen) == (0.5, "[::1]:0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("placs = 1", '"placs" in service.toml is no setting; did you mean places?'),
        ("places = true", "places in service.toml is True; give a whole number"),
        ('models = "a"', "models in service.toml is 'a'; give a list of texts"),
        ("models = [1]", "give a list of texts"),
        ("places = ", "service.toml is no TOML"),
        ("places = 0", "places is 0; choose 128 or more"),
        ("max_call_seconds = nan", "max_call_seconds is nan"),
        ('log_level = "loud"', "log_level"),
        ('tls_key = "key.pem"', "belong together"),
        ('tls_client_ca = "ca.pem"', "needs tls_certificate"),
        ('jobs = "jobs.sqlite"', "jobs_roots is empty"),
    ],
)
def test_mistakes_in_the_file_are_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said.replace("?", r"\?").replace("[", r"\[")):
        load_config(written(tmp_path, text), {}, {})


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PLACES", "many", 'SPECCOMPACT_SERVE_PLACES is "many"; give a whole number'),
        ("DRAIN_SECONDS", "x", "give a number"),
        ("REFLECTION", "maybe", "choose true or false"),
        ("PLACE", "1", "did you mean places"),
        ("XYZZY", "1", '"SPECCOMPACT_SERVE_XYZZY" in the environment is no setting$'),
    ],
)
def test_mistakes_in_the_environment_are_told(variable: str, text: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        load_config(None, {f"SPECCOMPACT_SERVE_{variable}": text}, {})


def test_every_setting_says_what_it_is() -> None:
    assert all(setting.metadata["about"].endswith(".") for setting in SETTINGS.values())


def test_readme_has_every_setting_with_its_default() -> None:
    text = (ROOT / "README.md").read_text("utf-8").partition("## Serve\n")[2].partition("\n## ")[0]
    rows = [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("| `")]
    names = [option.strip("`").removeprefix("--").replace("-", "_") for option, _, _ in rows]
    assert names == list(SETTINGS)
    for name, (_, default, about) in zip(names, rows, strict=True):
        setting = SETTINGS[name]
        assert about == setting.metadata["about"]
        assert parse_text(setting, default, name) == setting.default
