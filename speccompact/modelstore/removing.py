"""Takes models out of the store: a name, and its file when nothing else refers to it."""

from contextlib import suppress
from dataclasses import dataclass

from speccompact.errors import ArgumentError, ModelError, ModelMissingError
from speccompact.modelstore.registry import REGISTRY
from speccompact.modelstore.store import (
    StoredModel,
    is_allowed,
    is_digest,
    list_models,
    name_path,
    stated_digest,
    store_dir,
)


@dataclass(frozen=True, slots=True)
class Removal:
    """What was removed.

    Attributes:
        digest: of the model, hexadecimal.
        freed: bytes of its file, or None where the file stays, or was not there.
        left: other names of the model, for which its file stays.
    """

    digest: str
    freed: int | None
    left: tuple[str, ...]


def remove_model(wanted: str) -> Removal:
    """Remove a name, and the model's file unless it has other names; or, by its digest, a model with all its names.

    Names go first: a crash leaves at worst a model without a name, which can be removed by its digest.

    Args:
        wanted: a name, or a digest in hexadecimal (16 digits or more of it).

    Raises:
        ArgumentError: it is a registered model that has other names here: the file is theirs, too.
        ModelMissingError: there is no such model here.
        ModelError: several models have this digest prefix, or the store cannot be written.
    """
    try:
        return _remove_digest(wanted) if is_digest(wanted) else _remove_name(wanted)
    except OSError as error:
        raise ModelError(f"{store_dir()}: {error.strerror or error}") from error


def _remove_digest(prefix: str) -> Removal:
    found = [model for model in list_models() if model.digest.hex().startswith(prefix)]
    if len(found) > 1:
        raise ModelError(f"{len(found)} models in {store_dir()} have digests that start with {prefix}")
    if not found:
        raise _absent(prefix)
    return _remove_file(found[0])


def _remove_name(name: str) -> Removal:
    found = next((model for model in list_models() if name in model.names), None)
    left = tuple(other for other in found.names if other != name) if found else ()
    if name in REGISTRY and left:
        raise ArgumentError(f"{name} is also called {', '.join(left)} here; remove that name first, or the digest")
    if found is not None and not left:
        return _remove_file(found)
    # a name whose model is gone is no model of the list, but stays in the way of nobody who wants to be rid of it
    digest = stated_digest(name) if is_allowed(name) else None
    if digest is None:
        raise _absent(name)
    name_path(name).unlink(missing_ok=True)
    return Removal(digest, None, left)


def _remove_file(model: StoredModel) -> Removal:
    for name in model.names:
        name_path(name).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        model.path.unlink()
    return Removal(model.digest.hex(), model.size, ())


def _absent(wanted: str) -> ModelMissingError:
    return ModelMissingError(f"there is no model {wanted!r} in {store_dir()}; `speccompact models list` shows what is")
