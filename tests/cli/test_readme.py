"""What README.md says about the command line is so, and nothing of it is left out."""

import re
from collections.abc import Iterator

import click
import pytest

from speccompact.params import DEFAULT_LEVEL, level_params
from speccompact_cli.main import program
from tests.source_tree import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of a group with their full names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


COMMANDS = dict(commands(program))


def test_levels() -> None:
    """Parameters are those of the code, figures those that docs/memory.md lists."""
    row = r"^\| `-(\d)`( \(default\))? \| (\d+) \| (\d+) \| (\d+|no memory) \|(( [\d.]+ \|){3})$"
    found = re.findall(row, README, re.MULTILINE)
    rows = [parts[:5] for parts in found]
    measured = (ROOT / "docs" / "memory.md").read_text("utf-8")
    assert all(f"| {parts[0]} |{parts[5]} " in measured for parts in found)
    params = [level_params(level) for level in range(1, 10)]
    assert rows == [
        (str(level), " (default)" * (level == DEFAULT_LEVEL), str(own.slot_tokens), str(own.frame_slots),
         str(own.group_frames or "no memory"))
        for level, own in enumerate(params, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_told(name: str) -> None:
    assert f"| `{name}" in README
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names = [*parameter.opts, *parameter.secondary_opts]
            assert any(re.search(rf"`{option}[` ]", README) for option in names), names
