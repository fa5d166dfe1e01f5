"""The steps of a Dockerfile, run below a folder instead of in a container: what it copies, runs and starts."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 400

_ABSOLUTE = re.compile(r"(?<![\w.:$])/(?=(?:src|opt|etc|var)\b)")
"""Where a path of the image begins; it is moved below the folder."""

_STUB = "#!/bin/sh\nexit 0\n"


@dataclass
class Replay:
    """What the steps have come to.

    Attributes:
        root: stands for the root of the image.
        environment: of ENV.
        command, healthcheck: to be run, with their paths below the root.
        user: of USER.
        stages: the base image of each.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)
    user: str = ""
    stages: list[str] = field(default_factory=list)
    _workdir: Path = field(default_factory=Path)

    def moved(self, text: str) -> str:
        """Return a text with the absolute paths of the image below the root."""
        return _ABSOLUTE.sub(f"{self.root}/", text)


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Return (name, rest) of each instruction, continued lines joined."""
    lines = [line for line in dockerfile.read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def replay(dockerfile: Path, context: Path, root: Path, environment: dict[str, str]) -> Replay:
    """Run the steps.

    Accounts are not made: `useradd` does nothing, and folders belong to whoever runs the test.

    Args:
        dockerfile: the file.
        context: where COPY copies from.
        root: an empty folder.
        environment: for RUN.
    """
    made = Replay(root)
    stubs = root / "stubs"
    stubs.mkdir()
    for name, script in (("useradd", _STUB), ("install", '#!/bin/sh\nfor last; do :; done\nmkdir -p "$last"\n')):
        (stubs / name).write_text(script)
        (stubs / name).chmod(0o755)
    path = os.pathsep.join([str(stubs), str(Path(sys.executable).parent), os.environ["PATH"]])
    for name, rest in instructions(dockerfile):
        if name == "FROM":
            made.stages.append(rest.split()[0])
            made._workdir = root
        elif name == "WORKDIR":
            made._workdir = Path(made.moved(rest))
            made._workdir.mkdir(parents=True)
        elif name == "COPY":
            _copy(made, context, shlex.split(rest))
        elif name == "RUN":
            run = environment | {"PATH": path}
            subprocess.run(
                ["sh", "-ec", made.moved(rest)], cwd=made._workdir, env=run, check=True, timeout=SECONDS,
                capture_output=True,
            )  # fmt: skip
        elif name == "ENV":
            made.environment |= {key: made.moved(value) for key, _, value in (p.partition("=") for p in rest.split())}
        elif name == "USER":
            made.user = rest
        elif name == "CMD":
            made.command = json.loads(made.moved(rest))
        elif name == "HEALTHCHECK":
            made.healthcheck = json.loads(made.moved(rest.partition("CMD ")[2]))
        else:
            assert name in ("VOLUME", "EXPOSE", "STOPSIGNAL"), name
    return made


def _copy(made: Replay, context: Path, words: list[str]) -> None:
    if words[0].startswith("--from="):
        return  # stages share the root: what one has made is there for the next
    *sources, target = words
    destination = Path(made.moved(target)) if target.startswith("/") else made._workdir / target
    if len(sources) > 1:
        destination.mkdir(parents=True, exist_ok=True)
    destination.parent.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if (context / source).is_dir():
            shutil.copytree(context / source, destination, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(context / source, destination)
