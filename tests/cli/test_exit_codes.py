import errno
import os
import signal
from collections.abc import Iterator

import pytest
from click.exceptions import UsageError

from speccompact import errors
from speccompact.errors import (
    ArgumentError,
    DamagedError,
    FormatError,
    JobError,
    LimitError,
    ModelError,
    ServiceError,
    SpecCompactError,
)
from speccompact_cli.exit_codes import EXIT_CODES, INTERNAL, USAGE, Stopped, describe, exit_code
from tests.source_tree import ROOT

FAMILIES = {ArgumentError: 2, FormatError: 3, ModelError: 4, LimitError: 5, JobError: 6, ServiceError: 69}


def descendants(root: type[SpecCompactError]) -> Iterator[type[SpecCompactError]]:
    for child in root.__subclasses__():
        yield child
        yield from descendants(child)


def library_errors() -> list[type[SpecCompactError]]:
    return [error for error in descendants(SpecCompactError) if error.__module__ == errors.__name__]


@pytest.mark.parametrize("error", library_errors())
def test_every_library_error_has_the_code_of_its_family(error: type[SpecCompactError]) -> None:
    families = [code for family, code in FAMILIES.items() if issubclass(error, family)]
    assert [exit_code(error("text"))] == families


def test_families_are_all_direct_children_of_the_base() -> None:
    assert {error for error in SpecCompactError.__subclasses__() if error.__module__ == errors.__name__} == set(
        FAMILIES
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError(), 1),
        (PermissionError(), 1),
        (SpecCompactError(), 1),
        (MemoryError(), 5),
        (ImportError("backend.so: failed to map segment from shared object"), 5),
        (ImportError("cannot import name 'x'"), 70),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (Stopped(signal.SIGINT), 130),
        (Stopped(signal.SIGTERM), 143),
        (ZeroDivisionError(), INTERNAL),
    ],
)
def test_other_errors(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_usage_errors_agree_with_the_option_parser() -> None:
    assert UsageError.exit_code == USAGE


def test_the_readme_lists_every_code() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for code in {0, INTERNAL, 143, *EXIT_CODES.values()}:
        assert f"\n| {code} |" in text


def test_system_errors_name_the_file_and_the_reason() -> None:
    error = OSError(errno.EACCES, os.strerror(errno.EACCES), "a\nb")
    assert describe(error) == "a\\nb: Permission denied"
    assert "disk is full" in describe(OSError(errno.ENOSPC, "No space left on device"))


def test_arguments_are_called_what_the_user_typed() -> None:
    assert describe(ArgumentError("slot_tokens is 7; choose more")) == "--slot-tokens is 7; choose more"
    assert describe(ArgumentError('device is "cuda"; choose cpu')) == '--device is "cuda"; choose cpu'
    assert describe(DamagedError("level is 7")) == "level is 7"


@pytest.mark.parametrize("error", [DamagedError("frame 3"), MemoryError(), ValueError("one\ntwo"), KeyboardInterrupt()])
def test_a_description_is_one_line(error: BaseException) -> None:
    assert describe(error)
    assert "\n" not in describe(error)
