"""The levels beside each other: size, speed both ways and memory, as a Markdown table.

    python docs/levels.py -o OUT [--level N]... [--OPTION...] FILE...

Runs `speccompact bench` on the files once for each level, in a process of its own, and keeps its report in OUT: what is
there already is not measured again, if it is of the same files and options. More options go to every run; with
`--no-decode` there are sizes alone.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HEAD = (
    "| level | bits per byte, mean of the files | compress, kB/s | decompress, kB/s | peak memory, GB |",
    "|---|--:|--:|--:|--:|",
)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, type=Path, help="folder of the reports")
    parser.add_argument("--level", type=int, action="append", choices=range(1, 10), metavar="N")
    parser.add_argument("files", nargs="+")
    arguments, more = parser.parse_known_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    print("\n".join(HEAD), flush=True)
    for level in arguments.level or range(1, 10):
        print(row(report(arguments.output / f"level-{level}.json", level, more, arguments.files)), flush=True)


def report(place: Path, level: int, options: list[str], files: list[str]) -> dict[str, Any]:
    """Return the report of a level, measured unless it is there; one of something else ends the program."""
    measured = {"options": options, "sha256": [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files]}
    if not place.exists():
        command = [sys.executable, "-m", "speccompact_cli", "bench", "--json", "--no-peers", "--level", str(level)]
        done = subprocess.run([*command, *options, "--", *files], check=True, stdout=subprocess.PIPE)
        place.write_text(json.dumps(json.loads(done.stdout) | {"measured": measured}, indent=2) + "\n", "utf-8")
    found: dict[str, Any] = json.loads(place.read_bytes())
    sizes = [(Path(file["path"]).name, file["bytes"]) for file in found["files"]]
    same = sizes == [(Path(file).name, Path(file).stat().st_size) for file in files]
    if not same or found.get("measured", measured) != measured:  # older reports do not say what they measured
        sys.exit(f"{place} is of other files or options; name another folder")
    return found


def row(found: dict[str, Any]) -> str:
    """Return the line of a level. Speeds are of all files together."""
    files = found["files"]
    size = sum(file["bytes"] for file in files) / 1000
    bpb = sum(file["bpb"] for file in files) / len(files)
    speeds = []
    for key in ("encode_s", "decode_s"):
        seconds = [file[key] for file in files]
        speeds.append("" if None in seconds else f"{size / sum(seconds):.2f}")
    return f"| {found['level']} | {bpb:.4f} | {' | '.join(speeds)} | {found['peak_rss_bytes'] / 1e9:.2f} |"


if __name__ == "__main__":
    main()
