"""Bearer tokens: what a file of them says, and whom one stands for."""

import hashlib
from pathlib import Path

import pytest

from speccompact.errors import ArgumentError
from speccompact_grpc.callers import ANONYMOUS, HIGH, LOW, NORMAL, Caller, current_call
from speccompact_grpc.tokens import read_tokens


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def written(path: Path, text: str) -> str:
    file = path / "tokens.toml"
    file.write_text(text, "utf-8")
    return str(file)


def test_tokens_stand_for_callers(tmp_path: Path) -> None:
    tokens = read_tokens(
        written(
            tmp_path,
            f'[search-index]\nsha256 = "{digest("first")}"\npriority = "low"\nconcurrent = 2\nbytes_per_second = 9\n'
            f'jobs = false\n[plain]\nsha256 = "{digest("zweites µ")}"\n',
        )
    )
    assert tokens.caller("first") == Caller("search-index", LOW, 2, 9, False)
    assert tokens.caller("zweites µ") == Caller("plain", HIGH, 0, 0, True)
    assert tokens.caller("") is None
    assert tokens.caller(digest("first")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds none"),
        ("[a", "is no TOML"),
        ("[a]", "needs sha256"),
        ('[a]\nsha256 = "xyz"', "needs sha256"),
        (f'[a]\nsha256 = "{digest("x").upper()}"', "small letters"),
        ("a = 1", "is no table"),
        (f'["a b"]\nsha256 = "{digest("x")}"', "odd name"),
        (f'[a]\nsha256 = "{digest("x")}"\npriority = "top"', "choose low, normal, high"),
        (f'[a]\nsha256 = "{digest("x")}"\nconcurrent = -1', "concurrent = -1; give a whole number, 0 or more"),
        (f'[a]\nsha256 = "{digest("x")}"\njobs = 1', "give true or false"),
        (f'[a]\nsha256 = "{digest("x")}"\nlimit = 1', "unknown key limit"),
        (f'[a]\nsha256 = "{digest("x")}"\n[b]\nsha256 = "{digest("x")}"', "has the token of .a."),
    ],
)
def test_mistakes_are_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=f"^tokens: .*{said}"):
        read_tokens(written(tmp_path, text))


def test_a_token_bounds_the_priority() -> None:
    assert [Caller("a", NORMAL).granted(wanted) for wanted in (0, LOW, NORMAL, HIGH)] == [NORMAL, LOW, NORMAL, NORMAL]
    assert Caller("a", LOW).granted(0) == LOW


def test_outside_of_a_call_nobody_calls() -> None:
    assert current_call().caller is ANONYMOUS
