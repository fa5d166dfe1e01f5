"""A process that forks jobs, kills each with SIGKILL at a point of its own, lets it go on, and compares what it made.

Run as ``python -m tests.crash_runs JOB FOLDER KILLS SEED``: a process of its own, because forks need one without
threads, and because imports take longer than a job. Prints how many jobs were killed; any
difference is an AssertionError.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from speccompact.archive.appending import append
from speccompact.archive.extracting import extract
from speccompact.archive.groupexecutors import LocalExecutor
from speccompact.archive.readoptions import RestoreOptions
from speccompact.archive.request import Request
from speccompact.options import Options
from tests.archive_trees import facts, make_tree, opened, pack
from tests.fakes import FakeEngines, prose

Step = Callable[[str], None]
Job = Callable[[Path, Step], None]


class Killer:
    """A step hook that kills the process at the nth step, or never."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self, name: str) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def create_job(folder: Path, step: Step) -> None:
    pack(folder / "a.spca", folder.parent / "tree", slot_tokens=16, step=step)


def append_job(folder: Path, step: Step) -> None:
    request = Request((str(folder.parent / "more"),), level=2, slot_tokens=16)
    append(str(folder / "a.spca"), request, executor=LocalExecutor(Options(), FakeEngines()), step=step)


def extract_job(folder: Path, step: Step) -> None:
    with opened(folder.parent / "base.spca") as archive:
        extract(archive, str(folder / "out"), resume=True, restore=RestoreOptions(force=True), step=step)


JOBS: dict[str, Job] = {"create": create_job, "append": append_job, "extract": extract_job}


def outcome(folder: Path) -> object:
    """Return all that a job leaves: what is in files, and nothing beside them."""
    out = folder / "out"
    return facts(out) if out.exists() else {path.name: path.read_bytes() for path in folder.iterdir()}


def run_and_kill(job: Job, folder: Path, step: Step, seconds: float | None) -> bool:
    """Run a job in a fork and return whether it was killed, by its own hook or after so many seconds."""
    child = os.fork()
    if not child:
        try:
            job(folder, step)
        except BaseException as error:
            sys.stderr.write(f"failed: {error!r}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def fresh(root: Path, name: str) -> Path:
    """Return an empty folder for a job, with what it begins from."""
    folder = root / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if name == "append":
        shutil.copy(root / "base.spca", folder / "a.spca")
    return folder


def main(name: str, root: Path, kills: int, seed: int) -> None:
    job, source = JOBS[name], random.Random(seed)
    make_tree(root / "tree")
    (root / "more").mkdir()
    for number in range(8):
        (root / "more" / f"{number}.txt").write_bytes(prose(2000 + 700 * number, 50 + number))
    pack(root / "base.spca", root / "tree", slot_tokens=16)
    base = (root / "base.spca").read_bytes()
    folder = fresh(root, name)
    steps: list[str] = []
    began = time.monotonic()
    job(folder, steps.append)
    took, expected = time.monotonic() - began, outcome(folder)
    plan: list[tuple[int, float | None]] = [(at, None) for at in range(1, len(steps) + 1)]
    plan = plan[:kills] + [(0, source.random() * took) for _ in range(max(0, kills - len(plan)))]
    killed = 0
    for at, seconds in plan:
        folder = fresh(root, name)
        killed += run_and_kill(job, folder, Killer(at), seconds)
        again = source.randrange(1, len(steps) + 1) if source.random() < 0.3 else 0
        if again:  # killed while it goes on, too
            run_and_kill(job, folder, Killer(again), None)
        if name == "append" and (folder / "a.spca").read_bytes() != base:
            with opened(folder / "a.spca") as archive:  # readers find the old archive or the new one
                assert archive.trailer.generation in (0, 1)
                assert archive.read_at(0, len(base)) == base
        if name == "create" and (folder / "a.spca").exists() and not (folder / "a.spca.job").exists():
            assert outcome(folder) == expected
            continue
        job(folder, lambda _: None)
        assert outcome(folder) == expected, (name, at, seconds, again)
    sys.stdout.write(f"{killed}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
