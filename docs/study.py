"""Studies of tuning: several runs of ``speccompact train adapter`` that differ in one setting, as one Markdown table.

    python docs/study.py rank --corpus CORPUS --held-out HELD_OUT -o OUT [--OPTION=VALUE ...]

Each row is a run; each column a kind of held-out text, with the change of its bits by the run, in percent. More options
go to every run, in place of those in COMMON, each one once. A run that is complete is not repeated, one that was
stopped goes on, so the same command finishes a study that was interrupted. A run on other text is refused.
"""

import argparse
import functools
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

COMMON = {
    "--tokens": "102400",
    "--batch": "4096",
    "--rank": "16",
    "--learning-rate": "1e-3",
    "--length": "1024",
    "--evaluate-length": "2048",
    "--evaluate-every": "102400",
    "--evaluate-tokens": "2048",
}
"""Settings of every run that its study does not change."""

SHORT = {"--tokens": "51200", "--evaluate-every": "51200"}
"""Settings that most studies have in place of those of COMMON."""

LONG_STUDIES = ("learning-rate",)
"""Studies that have COMMON alone."""

KINDS_LEFT_OUT = ("code", "logs", "prose", "languages")

STUDIES: dict[str, dict[str, dict[str, str]]] = {
    "tokens": {name: {"--tokens": name, "--evaluate-every": name} for name in ("51200", "102400")},
    "rank": {name: {"--rank": name} for name in ("8", "16", "32")},
    "learning-rate": {name: {"--learning-rate": name} for name in ("3e-4", "1e-3", "3e-3")},
    "length": {name: {"--length": name} for name in ("512", "1024", "2048")},
    "mix": {"all": {}} | {f"no {kind}": {"--mix": f"{kind}=0"} for kind in KINDS_LEFT_OUT},
    "full": {"adapter": {}}
    | {f"all weights, {rate}": {"--full": "", "--learning-rate": rate} for rate in ("1e-4", "1e-5")},
}
"""Study -> name of a run -> what it changes. An option with an empty value takes none."""


def main() -> None:
    """Run one study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("-o", "--output", required=True, type=Path, help="folder of the runs")
    arguments, more = parser.parse_known_args()
    given = [split(option) for option in more]
    if len(dict(given)) < len(given):
        parser.error("an option is given twice")
    results = {}
    for name, changes in STUDIES[arguments.study].items():
        settings = COMMON | ({} if arguments.study in LONG_STUDIES else SHORT) | dict(given) | changes
        if "--full" in settings:
            del settings["--rank"]
        results[name] = outcome(arguments.output, arguments.corpus, arguments.held_out, settings)
    print("\n".join(table(arguments.study, results)))


def split(option: str) -> tuple[str, str]:
    """Return name and value of an option as it was typed; "" where it takes no value."""
    name, _, value = option.partition("=")
    return name, value


def folder_name(settings: dict[str, str]) -> str:
    """Return a name that tells the settings; runs that several studies share have the same."""
    words = (f"{key.strip('-')}-{Path(value).name}".rstrip("-") for key, value in sorted(settings.items()))
    return re.sub(r"[^\w.-]+", "-", "_".join(words))


def outcome(folder: Path, corpus: str, held_out: str, settings: dict[str, str]) -> dict[str, float]:
    """Return the change of each kind's held-out bits in percent, from a run that is made unless it is there."""
    place = folder / folder_name(settings)
    record = place / "provenance.json"
    if not record.exists():
        command = [sys.executable, "-m", "speccompact_cli", "train", "adapter", "-o", str(place)]
        command += ["--corpus", corpus, "--held-out", held_out]
        for key, value in settings.items():
            command.append(f"{key}={value}" if value else key)
        if (place / "last.safetensors").exists():
            command.append("--resume")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = json.loads(record.read_text("utf-8"))
    for text, name in ((corpus, "corpus"), (held_out, "held_out")):
        if {(file["path"], file["bytes"], file["sha256"]) for file in found[name]["files"]} != files_of(text):
            sys.exit(f"{record} is of another {name.replace('_', '-')} than {text}; name another folder by -o")
    changes = {kind: row["change_percent"] for kind, row in found["result"]["held_out"].items()}
    columns = grouped(changes)
    return columns | {"mean": sum(columns.values()) / len(columns)}


@functools.cache
def files_of(folder: str) -> frozenset[tuple[str, int, str]]:
    """Return name, size and digest of the files that count in a folder of text, as a record of a run has them."""
    found = set()
    for path in Path(folder).rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and path.stat().st_size and not any(part.startswith(".") for part in name.parts):
            with path.open("rb") as file:
                found.add((name.as_posix(), path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()))
    return frozenset(found)


def grouped(changes: dict[str, float]) -> dict[str, float]:
    """Return one column for each kind: folders within a kind, such as languages, count as its mean."""
    groups: dict[str, list[float]] = {}
    for kind, change in changes.items():
        groups.setdefault(kind.partition("/")[0], []).append(change)
    return {kind: sum(values) / len(values) for kind, values in groups.items()}


def table(study: str, results: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines of the table."""
    columns = list(next(iter(results.values())))
    lines = [f"| {study} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name, row in results.items():
        cells = " | ".join(f"{row[column]:+.2f}" for column in columns)
        lines.append(f"| {name} | {cells} |")
    return lines


if __name__ == "__main__":
    main()
