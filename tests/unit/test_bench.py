import io
from pathlib import Path

import pytest

from speccompact import api
from speccompact.bench import measure
from speccompact.bench import roofline as rooflines
from speccompact.bench.machine import describe_machine, peak_rss_bytes
from speccompact.bench.measure import Setting, bench
from speccompact.bench.peers import Peer, available_peers, measure_peer
from speccompact.errors import DamagedError
from speccompact.streams.summary import Summary
from speccompact_cli.bench_table import bench_lines
from tests.fakes import FakeEngines, prose
from tests.tiny_text import STORY

TEXT = prose(6000)


@pytest.fixture
def setting() -> Setting:
    return Setting(level=5, model="fake", engines=FakeEngines())


@pytest.mark.parametrize("peer", available_peers(), ids=lambda peer: peer.name)
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one byte", "text"])
def test_peers_give_back_what_they_were_given(peer: Peer, data: bytes) -> None:
    result = measure_peer(peer, data)
    assert result.content_bytes == len(data)
    assert result.to_json()["bytes"] == result.bytes


def test_a_peer_that_loses_data_is_caught() -> None:
    with pytest.raises(DamagedError, match="lossy"):
        measure_peer(Peer("lossy", "-0", lambda data: data, lambda packed: packed[:-1]), b"abc")


def test_sizes_are_those_of_the_library(tmp_path: Path, setting: Setting) -> None:
    path = tmp_path / "text"
    path.write_bytes(TEXT)
    (report,) = bench([str(path)], setting).files
    packed = api.compress(TEXT, engines=FakeEngines())
    entry = report.to_json()
    assert (entry["bytes"], entry["compressed_bytes"]) == (len(TEXT), len(packed))
    assert entry["slots"] == {"model": 1, "zstd": 0, "raw": 0}
    assert report.peers == {}


def test_programs_can_rely_on_keys_and_types(tmp_path: Path, tiny_home: Path) -> None:
    path = tmp_path / "story"
    path.write_text(STORY)
    report = bench([str(path)], Setting(level=1, model="tiny"), peers=available_peers()[:1]).to_json()
    assert {key: type(value) for key, value in report.items()} == {
        "files": list, "peak_rss_bytes": int, "machine": dict, "model": str, "level": int, "slot_tokens": type(None),
        "group_frames": type(None),
        "threads": int, "device": str, "drafter": str, "load_s": float, "roofline_tokens_per_s": dict,
    }  # fmt: skip
    files = report["files"]
    assert isinstance(files, list)
    (entry,) = files
    assert {key: type(value) for key, value in entry.items()} == {
        "path": str, "bytes": int, "compressed_bytes": int, "bpb": float, "tokens": int, "tokens_per_pass": float,
        "effort": dict,
        "encode_tokens_per_s": float, "decode_tokens_per_s": float, "encode_mb_per_s": float, "decode_mb_per_s": float,
        "encode_s": float, "decode_s": float, "repeat": int, "ideal_bits": float, "model_bpb": float,
        "overhead_percent": float, "payload_bytes": int, "frames": int, "slots": dict, "peers": dict,
    }  # fmt: skip
    assert entry["slots"]["model"] > 0
    assert entry["tokens_per_pass"] >= 1.0
    assert set(entry["effort"]) == {"passes", "target_s", "draft_s", "drafts", "notes"}
    assert {key: type(value) for key, value in entry["peers"]["zstd"].items()} == {
        "bytes": int, "bpb": float, "encode_mb_per_s": float, "decode_mb_per_s": float
    }  # fmt: skip


def test_sizes_alone_need_no_decoding(tmp_path: Path, setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    path.write_bytes(TEXT)
    both = bench([str(path)], setting).to_json()["files"][0]  # type: ignore[index]

    def compare(_source: object, _path: str) -> None:
        raise AssertionError("nothing is to be decoded")

    monkeypatch.setattr(measure, "_Comparison", compare)
    sizes = bench([str(path)], setting, decode=False).to_json()
    entry = sizes["files"][0]  # type: ignore[index]
    for key in ("compressed_bytes", "ideal_bits", "model_bpb", "slots"):
        assert entry[key] == both[key]
    assert entry["decode_s"] is entry["decode_tokens_per_s"] is entry["decode_mb_per_s"] is None
    assert any("-" in line.split() for line in bench_lines(sizes))


def test_what_the_model_lost_counts_for_its_own_measure(tmp_path: Path, tiny_home: Path) -> None:
    path = tmp_path / "repeats"
    path.write_text(STORY * 3)
    entry = bench([str(path)], Setting(level=1, model="tiny"), decode=False).files[0]
    assert entry.encoded.ideal_bits == 0
    assert entry.encoded.tried_bytes == 3 * len(STORY)
    assert entry.encoded.tried_bits > 0


def test_an_empty_file_divides_nothing_by_zero(tmp_path: Path, setting: Setting) -> None:
    path = tmp_path / "empty"
    path.touch()
    (report,) = bench([str(path)], setting, peers=available_peers()).files
    assert report.to_json()["bpb"] == 0.0


@pytest.mark.parametrize("wrong", [TEXT[:-1], TEXT + b"!", b"?" + TEXT[1:]])
def test_a_round_trip_that_fails_is_an_error(
    tmp_path: Path, setting: Setting, monkeypatch: pytest.MonkeyPatch, wrong: bytes
) -> None:
    def decode(_source: object, target: io.BufferedIOBase, **_options: object) -> Summary:
        target.write(wrong)
        return Summary(len(wrong), 1)

    path = tmp_path / "text"
    path.write_bytes(TEXT)
    monkeypatch.setattr(api, "decompress_stream", decode)
    with pytest.raises(DamagedError, match="round trip"):
        bench([str(path)], setting)


def test_the_roofline_counts_every_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[tuple[int, int], int]] = []

    def product_seconds(shape: tuple[int, int], rows: int, _device: str) -> float:
        seen.append((shape, rows))
        return 0.25

    monkeypatch.setattr(rooflines, "_product_seconds", product_seconds)
    assert rooflines.pass_seconds([(8, 4), (8, 4), (16, 8)], 3, "cpu") == 0.75
    assert seen == [((8, 4), 3), ((16, 8), 3)]


def test_the_roofline_takes_the_time_of_real_products() -> None:
    assert rooflines.pass_seconds([(64, 32)], 2, "cpu") > 0


def test_the_machine_is_described_without_names_of_hosts() -> None:
    machine = describe_machine()
    assert set(machine) == {"processor", "cores", "memory_bytes", "system", "python", "libraries"}
    assert peak_rss_bytes() > 1_000_000
