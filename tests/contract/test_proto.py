"""The proto file: its names, its comments, what must never change in it, and the code that is made from it.

`tests/golden/proto/v1.tsv` lists what callers rely on. Lines are added with new fields and RPCs, by
`python -m tests.contract.test_proto`; a line that is no longer true breaks callers.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from tests.source_tree import ROOT

FOLDER = ROOT / "proto" / "speccompact_grpc" / "v1"
GOLDEN = ROOT / "tests" / "golden" / "proto" / "v1.tsv"
_NAME = "speccompact_grpc/v1/speccompact.proto"

_CAMEL, _SNAKE, _UPPER = r"([A-Z][a-z0-9]*)+", r"[a-z][a-z0-9]*(_[a-z0-9]+)*", r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*"


def protoc(out: Path, *options: str) -> None:
    """Run the compiler as `make proto` does."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    command = [sys.executable, "-m", "grpc_tools.protoc", "--proto_path=.", *options, _NAME]
    subprocess.run(command, cwd=ROOT / "proto", check=True, env={"PATH": path}, capture_output=True)
    assert out.exists()


@cache
def described() -> FileDescriptorProto:
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        protoc(out, "--include_source_info", f"--descriptor_set_out={out}")
        (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    return file


@cache
def comments() -> dict[tuple[int, ...], str]:
    return {tuple(place.path): place.leading_comments.strip() for place in described().source_code_info.location}


def messages() -> Iterator[tuple[tuple[int, ...], DescriptorProto]]:
    for index, message in enumerate(described().message_type):
        assert not message.nested_type, "messages stand side by side"
        assert not message.enum_type
        yield (4, index), message


def enums() -> Iterator[tuple[tuple[int, ...], EnumDescriptorProto]]:
    for index, enum in enumerate(described().enum_type):
        yield (5, index), enum


def kind_of(field: FieldDescriptorProto) -> str:
    name = field.type_name or FieldDescriptorProto.Type.Name(field.type)
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    return f"{'explicit' if field.proto3_optional else label} {name}"


def promises() -> list[str]:
    """Return a line for everything that callers rely on, on the wire and by name."""
    lines = []
    for service in described().service:
        for method in service.method:
            streams = f"{int(method.client_streaming)}{int(method.server_streaming)}"
            lines.append(f"rpc\t{service.name}.{method.name}\t{streams}\t{method.input_type}\t{method.output_type}")
    for _, message in messages():
        oneofs = [oneof.name for oneof in message.oneof_decl]
        for field in message.field:
            real = field.HasField("oneof_index") and not field.proto3_optional
            oneof = oneofs[field.oneof_index] if real else ""
            lines.append(f"field\t{message.name}.{field.name}\t{field.number}\t{kind_of(field)}\t{oneof}")
    for _, enum in enums():
        lines += [f"value\t{enum.name}.{value.name}\t{value.number}\t\t" for value in enum.value]
    return sorted(lines)


def broken(before: list[str], now: list[str]) -> list[str]:
    """Return the promises that are not kept."""
    return sorted(set(before) - set(now))


def test_no_promise_is_broken() -> None:
    assert broken(GOLDEN.read_text("utf-8").splitlines(), promises()) == []


def test_every_promise_is_recorded() -> None:
    assert GOLDEN.read_text("utf-8").splitlines() == promises()


def test_the_check_sees_what_breaks_callers() -> None:
    now = promises()
    assert broken(now, now) == []
    field = next(line for line in now if line.startswith("field\tSummary.tokens\t8\t"))
    for changed in (field.replace("\t8\t", "\t9\t"), field.replace("TYPE_UINT64", "TYPE_UINT32"), ""):
        assert broken(now, [changed if line == field else line for line in now]) == [field]


def test_package_and_syntax() -> None:
    assert (described().package, described().syntax) == ("speccompact.v1", "proto3")
    assert not described().dependency, "the file alone is enough for callers in any language"


def test_names() -> None:
    file = described()
    for service in file.service:
        assert re.fullmatch(f"{_CAMEL}Service", service.name)
        for method in service.method:
            assert re.fullmatch(_CAMEL, method.name)
            assert method.input_type == f".{file.package}.{method.name}Request"
            assert method.output_type == f".{file.package}.{method.name}Response"
    for _, message in messages():
        assert re.fullmatch(_CAMEL, message.name)
        for field in message.field:
            assert re.fullmatch(_SNAKE, field.name), f"{message.name}.{field.name}"
    for _, enum in enums():
        prefix = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper()
        assert (enum.value[0].name, enum.value[0].number) == (f"{prefix}_UNSPECIFIED", 0)
        for value in enum.value:
            assert re.fullmatch(f"{prefix}_{_UPPER}", value.name)


def test_everything_has_a_comment() -> None:
    places: list[tuple[int, ...]] = [(6, n) for n in range(len(described().service))]
    places += [(6, n, 2, m) for n, service in enumerate(described().service) for m in range(len(service.method))]
    for place, message in messages():
        places += [place, *((*place, 2, n) for n in range(len(message.field)))]
        real = len(message.oneof_decl) - sum(field.proto3_optional for field in message.field)
        places += [(*place, 8, n) for n in range(real)]
    for place, enum in enums():
        places += [place, *((*place, 2, n) for n in range(len(enum.value)))]
    for place in places:
        assert comments().get(place, "").endswith((".", ")", ";")), f"{place} has no sentence"


@pytest.mark.parametrize("service", [0, 1])
def test_every_rpc_says_how_it_fails_and_whether_to_repeat_it(service: int) -> None:
    for number, method in enumerate(described().service[service].method):
        comment = comments()[6, service, 2, number]
        assert "Errors" in comment, method.name
        assert re.search("[Rr]epeat|[Rr]epetition", comment), method.name


@pytest.mark.skipif(
    shutil.which("protoc-gen-mypy", path=str(Path(sys.executable).parent)) is None, reason="no mypy-protobuf"
)
def test_the_code_is_what_the_file_makes(tmp_path: Path) -> None:
    outs = ("python_out", "grpc_python_out", "mypy_out", "mypy_grpc_out")
    made = tmp_path / "speccompact_grpc" / "v1"
    protoc(tmp_path, *(f"--{out}={'quiet:' if 'mypy' in out else ''}{tmp_path}" for out in outs))
    names = sorted(path.name for path in made.iterdir())
    assert names == [f"speccompact_pb2{rest}" for rest in (".py", ".pyi", "_grpc.py", "_grpc.pyi")]
    for name in names:
        assert (made / name).read_text("utf-8") == (FOLDER / name).read_text("utf-8"), f"run make proto: {name}"


if __name__ == "__main__":
    known = GOLDEN.read_text("utf-8").splitlines() if GOLDEN.exists() else []
    gone = broken(known, promises())
    if gone:
        sys.exit("these promises would be broken:\n" + "\n".join(gone))
    GOLDEN.write_text("\n".join(promises()) + "\n", "utf-8")
