"""A bench report as a table for people; it reads nothing but the report's stable keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from speccompact.quantities import amount
from speccompact_cli.naming import shown

_COLUMNS = (
    ("tokens", "tokens", "d"),
    ("enc tok/s", "encode_tokens_per_s", ".0f"),
    ("dec tok/s", "decode_tokens_per_s", ".0f"),
    ("enc MB/s", "encode_mb_per_s", ".4f"),
    ("dec MB/s", "decode_mb_per_s", ".4f"),
)


def bench_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of the tables: sizes beside the peers', then speeds, then what it was measured on.

    Args:
        report: as ``BenchReport.to_json`` returns it.
    """
    files = report["files"]
    peers = list(dict.fromkeys(name for entry in files for name in entry["peers"]))
    sizes = [["file", "bytes", "speccompact", *peers, "overhead"]]
    speeds = [["file", *(title for title, _, _ in _COLUMNS)]]
    for entry in files:
        own = f"{entry['compressed_bytes']} ({entry['bpb']:.3f})"
        others = [f"{peer['bytes']} ({peer['bpb']:.3f})" for peer in map(entry["peers"].__getitem__, peers)]
        sizes.append([shown(entry["path"]), str(entry["bytes"]), own, *others, f"{entry['overhead_percent']:.2f} %"])
        speeds.append([shown(entry["path"]), *(_number(entry[key], style) for _, key, style in _COLUMNS)])
    machine = report["machine"]
    lines = [
        "compressed bytes (bits per byte):",
        *_aligned(sizes),
        "",
        *_aligned(speeds),
        "",
        f"model {report['model']}, level {report['level']}, loaded in {report['load_s']:.1f} s,"
        f" peak memory {amount(report['peak_rss_bytes'])}",
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}",
    ]
    for rows, best in report["roofline_tokens_per_s"].items():
        lines.append(f"int8 matrix products alone: {best:.0f} tokens/s with {rows} tokens in a pass")
    return lines


def _number(value: float | None, style: str) -> str:
    return "-" if value is None else format(value, style)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
