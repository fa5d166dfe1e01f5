"""metrics.jsonl: what happened in a run, a line for every step and every evaluation, only ever appended to.

A run that was killed may have written lines that its last checkpoint does not know of, and a torn one. A line
{"resumed": step, ...} begins every part of a run, the first after step -1: it says what the part runs on, and tells
readers to forget what came after that step.
"""

import json
import os
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class MetricsFile:
    """Appends lines, each whole and at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, line: Line) -> None:
        """Write one line.

        Raises:
            OSError: it cannot be written.
        """
        with open(self._path, "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")

    def resume(self, step: int, conditions: Line) -> None:
        """Say that what follows comes after a step, and what it runs on; ends a torn line first."""
        if self._path.exists() and self._path.stat().st_size:
            with open(self._path, "rb+") as file:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
        self.append({"resumed": step, **conditions})

    def read(self) -> tuple[list[Line], list[Line]]:
        """Return the lines that count, and those that begin the parts that they come from.

        A part that was gone back behind is left out: nothing of it is in the run.
        """
        kept: list[Line] = []
        parts: list[Line] = []
        for raw in self._path.read_bytes().splitlines():
            try:
                line = json.loads(raw)
            except ValueError:
                continue  # torn by a kill
            if "resumed" in line:
                kept = [earlier for earlier in kept if earlier["step"] <= line["resumed"]]
                parts = [earlier for earlier in parts if earlier["resumed"] < line["resumed"]] + [line]
            else:
                kept.append(line)
        return kept, parts
