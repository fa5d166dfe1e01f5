"""The user's models: exact model files by digest, and names that point to them.

    <store>/models/<digest>.exact    exact model files; never changed once there
    <store>/names/<name>.json        {"digest", "source"}: which file a name means, and where it came from
    <store>/downloads/               what `pull` has fetched so far, and its locks
    <store>/checkpoints/             float checkpoints of registered models, for tuning; see `registered`

A name of the registry whose digest is pinned means that digest, whatever the store says: it means the same model
everywhere, and a model that had the name in an earlier release goes by its own name of today.

Every file appears atomically, a model before its name, so a crash leaves at worst a model without a name. One file a
name, so processes that register different models never write the same file.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from speccompact.errors import ArgumentError, ModelDamagedError, ModelError, ModelMissingError
from speccompact.modelstore.exactfile import write_exact_file
from speccompact.modelstore.registry import REGISTRY
from speccompact.modelstore.storefiles import commit, temporary

EXACT_SUFFIX = ".exact"
"""End of the name of every exact model file."""

MIN_PREFIX_BYTES = 8
"""Archives name a model by this many bytes of its digest; fewer are not looked up."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DIGEST_PREFIX = re.compile(r"[0-9a-f]{16,64}")
_MODEL_FILE = re.compile(rf"([0-9a-f]{{64}}){re.escape(EXACT_SUFFIX)}")


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model in the store.

    Attributes:
        digest: SHA-256 of its exact file, 32 bytes.
        path: its exact file.
        size: bytes of the file.
        names: the names that point to it, sorted.
        source: where it came from, as its first name says; "" where nobody said.
    """

    digest: bytes
    path: Path
    size: int
    names: tuple[str, ...]
    source: str


def store_dir() -> Path:
    """Return the folder of the store: $SPECCOMPACT_HOME, $XDG_CACHE_HOME/speccompact or ~/.cache/speccompact."""
    home = os.environ.get("SPECCOMPACT_HOME")
    if home:
        return Path(home)
    cache = os.environ.get("XDG_CACHE_HOME")
    # the XDG rules say that a relative path is to be ignored
    return (Path(cache) if cache and os.path.isabs(cache) else Path.home() / ".cache") / "speccompact"


def is_allowed(name: str) -> bool:
    """Whether a model may have this name."""
    return _NAME.fullmatch(name) is not None and not is_digest(name)


def check_name(name: str) -> str:
    """Return the name if a model may have it; raises ArgumentError otherwise."""
    if not is_allowed(name):
        raise ArgumentError(
            f"{name!r} cannot be the name of a model: use a-z, 0-9, '.', '_' and '-', at most 64 of them, and not 16 "
            "or more hexadecimal digits alone"
        )
    return name


def register(
    name: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, npt.NDArray[Any]],
    *,
    source: str = "",
    expected_digest: str | None = None,
) -> StoredModel:
    """Write an exact model file into the store and point a name to it.

    Args:
        name: the model's name; where it exists, it points to the new model afterwards.
        metadata: see `exactfile.write_exact_file`.
        tensors: see `exactfile.write_exact_file`.
        source: where the model came from, for people.
        expected_digest: the digest that the file must have, hexadecimal, or None.

    Raises:
        ArgumentError: the name is not allowed.
        ModelError: the model cannot be written, or has another digest than expected; the store is as before then.
    """
    check_name(name)
    try:
        with temporary(store_dir() / "models") as path:
            digest = write_exact_file(path, metadata, tensors).hex()
            if expected_digest is not None and digest != expected_digest:
                raise ModelDamagedError(
                    f"converting {name!r} gave the digest {digest}, not {expected_digest}: archives made with it would "
                    "not open elsewhere; please report this, with your processor and numpy version"
                )
            commit(path, model_path(digest))
        give_name(name, digest, source)
    except OSError as error:
        raise ModelError(f"{store_dir()}: {error.strerror or error}") from error
    return find(digest)


def give_name(name: str, digest: str, source: str) -> None:
    """Point a name that is allowed to the model of a digest (hexadecimal).

    Raises:
        OSError: the store cannot be written.
    """
    with temporary(store_dir() / "names") as path:
        path.write_text(json.dumps({"digest": digest, "source": source}, sort_keys=True) + "\n")
        commit(path, name_path(name))


def model_path(digest: str) -> Path:
    """Return where the exact file of a digest (hexadecimal) lies, or would lie."""
    return store_dir() / "models" / f"{digest}{EXACT_SUFFIX}"


def name_path(name: str) -> Path:
    """Return where the file of a name that is allowed lies, or would lie."""
    return store_dir() / "names" / f"{name}.json"


def digest_in_name(path: Path) -> str | None:
    """Return the digest (hexadecimal) that a file's name states, as those of the store do; None where it does not."""
    match = _MODEL_FILE.fullmatch(path.name)
    return match[1] if match else None


def is_digest(wanted: str) -> bool:
    """Whether this is a digest, or the beginning of one, and so no name."""
    return _DIGEST_PREFIX.fullmatch(wanted) is not None


def locate(wanted: str | bytes) -> tuple[Path, bytes | None, str]:
    """Return exact file, digest (None where only the file can tell) and name of a model, without opening it.

    Args:
        wanted: see `find`, or the path of an exact model file: it ends in ".exact".

    Raises:
        ModelMissingError: it is not in the store.
        ModelError: there is no such file, or several models have this digest prefix.
    """
    if isinstance(wanted, str) and wanted.endswith(EXACT_SUFFIX):
        path = Path(wanted)
        if not path.is_file():
            raise ModelError(f"{wanted}: no such exact model file; `speccompact models list` shows the store")
        return path, None, path.name
    stored = find(wanted)
    return stored.path, stored.digest, stored.names[0] if stored.names else stored.digest.hex()[:16]


def find(wanted: str | bytes) -> StoredModel:
    """Look a model up.

    Args:
        wanted: a name, a digest in hexadecimal (16 digits or more of it), or 8 to 32 bytes of a digest.

    Raises:
        ModelMissingError: it is not in the store; the message gives the command that fetches it.
        ModelError: several models have this digest prefix.
    """
    if isinstance(wanted, str) and not is_digest(wanted):
        found = [model for model in list_models() if wanted in model.names]
    else:
        prefix = wanted if isinstance(wanted, str) else wanted.hex()
        if len(prefix) < 2 * MIN_PREFIX_BYTES:
            raise ArgumentError(f"a digest prefix of {len(prefix) // 2} bytes; at least {MIN_PREFIX_BYTES} are needed")
        found = [model for model in list_models() if model.digest.hex().startswith(prefix)]
    if len(found) > 1:
        raise ModelError(f"{len(found)} models in {store_dir()} have digests that start with {prefix}")
    if not found:
        raise missing(wanted)
    return found[0]


def list_models() -> list[StoredModel]:
    """Return all models, named ones first, by name."""
    names = _names()
    models = []
    for path in sorted((store_dir() / "models").glob(f"*{EXACT_SUFFIX}")):
        digest = digest_in_name(path)
        if digest is None:
            continue
        known = sorted(names.get(digest, {}).items())
        source = known[0][1] if known else ""
        size = path.stat().st_size
        models.append(StoredModel(bytes.fromhex(digest), path, size, tuple(name for name, _ in known), source))
    return sorted(models, key=lambda model: (not model.names, model.names, model.digest))


def missing(wanted: str | bytes) -> ModelMissingError:
    """Return the error for a model that is not in the store, with the command that fetches it."""
    if isinstance(wanted, str) and not is_digest(wanted):
        if wanted in REGISTRY:
            before = [model for model in list_models() if stated_digest(wanted) == model.digest.hex() and model.names]
            now = f" (what had this name before is now {before[0].names[0]!r})" if before else ""
            return ModelMissingError(f"model {wanted!r} is not here yet{now}; run: speccompact models pull {wanted}")
        known = ", ".join(REGISTRY)
        return ModelMissingError(
            f"there is no model {wanted!r} in {store_dir()}; run: speccompact models convert PATH --name {wanted} "
            f"(a GGUF file or a folder of safetensors), or pull one of: {known}"
        )
    digest = wanted if isinstance(wanted, str) else wanted.hex()
    for model in REGISTRY.values():
        if model.exact_digest is not None and model.exact_digest.startswith(digest):
            return ModelMissingError(
                f"the data need the model {model.name!r} ({digest}), which is not here yet; run: speccompact models "
                f"pull {model.name}"
            )
    return ModelMissingError(
        f"the data need the model with the digest {digest}, which is not in {store_dir()} and not one that this "
        f"release can pull; copy it from where it is (there, `speccompact models path {digest}` names the file) and "
        "run: speccompact models import FILE; or make it again from what it was made of: speccompact models convert "
        "CHECKPOINT, with --adapter FILE if it was tuned; if nobody knows such a model, the data are damaged here"
    )


def _names() -> dict[str, dict[str, str]]:
    """Return for every digest the names that point to it, and the source that each of them states."""
    pinned = {model.name: model for model in REGISTRY.values() if model.exact_digest is not None}
    names: dict[str, dict[str, str]] = {}
    for path in (store_dir() / "names").glob("*.json"):
        entry = _read_name(path)
        if entry is not None and path.stem not in pinned:
            names.setdefault(entry[0], {})[path.stem] = entry[1]
    for model in pinned.values():
        names.setdefault(str(model.exact_digest), {})[model.name] = model.source
    return names


def stated_digest(name: str) -> str | None:
    """Return the digest that the file of a name states, None where there is no such file."""
    entry = _read_name(name_path(name))
    return entry[0] if entry else None


def _read_name(path: Path) -> tuple[str, str] | None:
    """Return digest and source of a name; None where the file is not ours."""
    try:
        entry = json.loads(path.read_bytes())
        digest, source = entry["digest"], entry.get("source", "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(digest, str) or not isinstance(source, str):
        return None
    return digest, source
