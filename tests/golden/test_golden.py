"""Archives that were made once decode for ever; broken ones raise the error in their name, every time the same."""

import io
from pathlib import Path

import pytest

from speccompact import api, errors
from speccompact.container.limits import Limits
from speccompact.errors import FormatError, ModelError, SpecCompactError
from speccompact.options import Kernels, Options
from tests.tiny_model import GOLDEN, TINY_EXACT, tiny
from tests.tiny_slots import QUIET

VALID = sorted((GOLDEN / "valid").glob("*.spc"))
INVALID = sorted((GOLDEN / "invalid").glob("*.spc"))
NAMED = pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)


def content_of(path: Path) -> bytes:
    return path.with_suffix(".content").read_bytes()


def test_the_folders_are_complete() -> None:
    assert len(VALID) >= 20
    assert len(INVALID) >= 50
    assert {path.stem for path in VALID} == {path.stem for path in (GOLDEN / "valid").glob("*.content")}


@NAMED
def test_a_valid_archive_decodes(tiny_home: Path, path: Path) -> None:
    assert api.decompress(path.read_bytes(), options=QUIET) == content_of(path)


@pytest.mark.parametrize(
    "path",
    [path for path in VALID if path.stat().st_size < 400 and path.stem != "one_slot"],
    ids=lambda path: path.stem,
)
def test_a_small_one_decodes_with_the_reference_kernels(tiny_home: Path, path: Path) -> None:
    options = Options(threads=1, kernels="torch")
    assert api.decompress(path.read_bytes(), options=options) == content_of(path)


@NAMED
def test_any_part_of_it_can_be_read(tiny_home: Path, path: Path) -> None:
    content = content_of(path)
    with api.open(path, options=QUIET) as reader:
        for start in (len(content) // 2, 0, len(content)):
            reader.seek(start)
            assert reader.read(7) == content[start : start + 7]


@pytest.mark.parametrize("path", VALID[::3], ids=lambda path: path.stem)
def test_it_can_be_inspected_and_verified(tiny_home: Path, path: Path) -> None:
    info = api.inspect(path)
    assert info.content_bytes == len(content_of(path))
    assert info.compressed_bytes == path.stat().st_size
    with path.open("rb") as stream:
        assert api.verify_stream(stream, options=QUIET).content_bytes == len(content_of(path))


@pytest.mark.parametrize("path", VALID[1::3], ids=lambda path: path.stem)
def test_the_output_limit_is_kept(tiny_home: Path, path: Path) -> None:
    size = len(content_of(path))
    assert api.decompress(path.read_bytes(), options=QUIET, limits=Limits(output_bytes=size)) == content_of(path)
    if size:
        with pytest.raises(errors.LimitError):
            api.decompress(path.read_bytes(), options=QUIET, limits=Limits(output_bytes=size - 1))


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize(
    ("name", "slot_tokens", "group_frames"),
    [
        *((name, 64, 0) for name in ("many_slots", "escapes", "utf16le_bom", "cp1251", "control_tokens")),
        ("one_slot", None, 0),
        ("memory_one_slot", None, 1),
        ("memory_many_slots", 64, 1),
        ("memory_groups", 24, 2),
        ("memory_escapes", 64, 1),
        ("memory_lines", 128, 1),
    ],
)
def test_a_writer_still_makes_the_same_model_slots(
    tiny_home: Path, name: str, slot_tokens: int | None, group_frames: int, kernels: Kernels
) -> None:
    """Archives of model slots alone, so that nothing of it is another library's."""
    path = GOLDEN / "valid" / f"{name}.spc"
    options = Options(threads=1, kernels=kernels)
    made = api.compress(
        content_of(path), model=str(TINY_EXACT), slot_tokens=slot_tokens, group_frames=group_frames, options=options
    )
    assert made == path.read_bytes()


def test_the_golden_archives_use_the_model() -> None:
    identities = {path.stem: tiny(QUIET)[0].digest[:8] in path.read_bytes() for path in VALID}
    without = {"empty", "one_byte", "every_byte", "zstd_slot", "raw_slot", "raw_frames"}
    assert {name for name, uses in identities.items() if not uses} == without


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_archive_raises_the_error_in_its_name(tiny_home: Path, path: Path) -> None:
    wanted = getattr(errors, path.stem.partition(".")[2])
    for decode in (api.decompress, lambda data, **options: api.verify_stream(io.BytesIO(data), **options)):
        with pytest.raises(SpecCompactError) as caught:
            decode(path.read_bytes(), options=QUIET)
        assert type(caught.value) is wanted
        if isinstance(caught.value, FormatError | errors.LimitError):
            assert "frame " in str(caught.value)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_salvage_and_random_access_raise_nothing_else(tiny_home: Path, path: Path) -> None:
    target = io.BytesIO()
    try:
        with path.open("rb") as stream:
            summary = api.decompress_stream(stream, target, options=QUIET, salvage=True)
        assert summary.lost
    except ModelError:
        assert "Model" in path.stem
    try:
        with api.open(path, options=QUIET) as reader:
            reader.read()
    except (FormatError, ModelError, errors.LimitError):
        pass
