"""Brings models into the store: registered ones from the package index, the hub's, and local checkpoints."""

import os
from pathlib import Path

from speccompact.errors import ArgumentError, ModelError
from speccompact.modelstore.adapterfile import ADAPTER_NAME, read_adapter, tensor_file
from speccompact.modelstore.download import Progress, file_sha256, no_progress
from speccompact.modelstore.hub import HUB_PREFIX, fetch_hub_folder, parse_reference
from speccompact.modelstore.merging import merge
from speccompact.modelstore.quantize import convert
from speccompact.modelstore.registered import checkpoint_path, exclusively, open_checkpoint, tuned_checkpoint
from speccompact.modelstore.registry import REGISTRY, RegisteredModel
from speccompact.modelstore.store import StoredModel, check_name, list_models, register, store_dir


def pull(model: str, *, name: str | None = None, progress: Progress = no_progress) -> StoredModel:
    """Fetch, convert and register a model; one of the registry that is there already, undamaged, is left alone.

    Args:
        model: a name of the registry, or "hf:owner/name" with "@revision" where wanted.
        name: the name to register a model of the hub under; the last part of its own name by default, or, where the
            registry has that name, owner and name.
        progress: told how far each stage is.

    Raises:
        ArgumentError: there is no such model to pull, or the name is not allowed.
        ModelError: it cannot be fetched, is not what was pinned, or cannot be converted.
    """
    if model.startswith(HUB_PREFIX):
        chosen = free_name(name or _hub_name(model))
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
    try:
        with exclusively(entry):
            for stored in list_models():
                if entry.name in stored.names and _is_good(stored, entry):
                    return stored
            kept = checkpoint_path(entry).exists()
            checkpoint = tuned_checkpoint(entry, progress)
            metadata, tensors = convert(checkpoint, progress)
            stored = register(entry.name, metadata, tensors, source=entry.source, expected_digest=entry.exact_digest)
            if not kept:
                checkpoint_path(entry).unlink()
            return stored
    except OSError as error:
        raise ModelError(f"{store_dir()}: {error.strerror or error}") from error


def convert_path(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    adapter: str | os.PathLike[str] | None = None,
    source: str = "",
    progress: Progress = no_progress,
) -> StoredModel:
    """Convert a float checkpoint and register it.

    Args:
        path: a GGUF file, a folder of safetensors, or the name of a registered model (see `open_checkpoint`).
        name: the name to register it under; by default it is made from the name of the adapter, or else of the file.
            An "adapter.safetensors", as training writes it, goes by the name of its folder.
        adapter: an adapter to merge into the weights first, see `adapterfile.read_adapter`.
        source: where it came from, for people; the path by default.
        progress: told how far each stage is.

    Raises:
        ArgumentError: the name is not allowed.
        ModelError: it is no checkpoint, not of a supported architecture, or the adapter is not for it.
    """
    place = Path(path)
    chosen = free_name(name or model_name(_telling_name(Path(adapter or place).resolve())))
    low_rank = None if adapter is None else read_adapter(adapter)
    checkpoint = open_checkpoint(path, progress=progress)
    metadata, tensors = convert(checkpoint if low_rank is None else merge(checkpoint, low_rank), progress)
    parts = [source or place.name] + ([] if adapter is None else [_adapter_source(Path(adapter))])
    return register(chosen, metadata, tensors, source=" + ".join(parts))


def model_name(text: str) -> str:
    """Make a model's name from the last part of a path or of a hub name: lower case, no ".gguf" or ".safetensors"."""
    plain = text.rstrip("/").rsplit("/", 1)[-1].lower().removesuffix(".gguf").removesuffix(".safetensors")
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in plain)


def _adapter_source(path: Path) -> str:
    """Return an adapter in words that tell it from others: many are called the same."""
    return f"{_telling_name(path.resolve())} {file_sha256(tensor_file(path))[:8]}"


def _telling_name(path: Path) -> str:
    return path.parent.name if path.name == ADAPTER_NAME else path.name


def free_name(name: str) -> str:
    """Return the name if a model of the user's own may have it.

    Raises:
        ArgumentError: it is no name, or it is one of the registry, which means the same model everywhere.
    """
    if name in REGISTRY:
        raise ArgumentError(f"{name!r} is the name of a registered model; choose another with --name")
    return check_name(name)


def _hub_name(reference: str) -> str:
    repository, _ = parse_reference(reference)
    name = model_name(repository)
    return model_name(repository.replace("/", "-")) if name in REGISTRY else name


def _is_good(stored: StoredModel, entry: RegisteredModel) -> bool:
    """Tell whether a stored model is the pinned one and undamaged."""
    digest = stored.digest.hex()
    return entry.exact_digest in (None, digest) and file_sha256(stored.path) == digest
