"""Takes exact model files from elsewhere into the store: copies of what `models path` names on another machine."""

import hashlib
import os
from pathlib import Path

from speccompact.errors import ModelDamagedError, ModelError
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.modelstore.loading import take_apart
from speccompact.modelstore.pull import free_name
from speccompact.modelstore.store import (
    StoredModel,
    digest_in_name,
    find,
    give_name,
    model_path,
    stated_digest,
    store_dir,
)
from speccompact.modelstore.storefiles import commit, temporary

SOURCE = "imported"
"""Source of an imported model: the file itself does not say what it was made of."""

_COPY_BYTES = 1 << 20
_ADVICE = "copy it again from where `models path` names it, or convert a checkpoint with `models convert`"


def import_model(path: str | os.PathLike[str], name: str | None = None) -> tuple[StoredModel, bool]:
    """Copy an exact model file into the store, all of it checked first, and give it a name.

    Doing it again changes nothing. The copy appears under its digest when it is complete and on disk.

    Args:
        path: the file. Where its name is a digest, as in a store, it has to have that digest.
        name: the name to register it under; None gives it none: archives find it by its digest.

    Returns:
        The model, and whether it was there already.

    Raises:
        ArgumentError: the name is not allowed, or that of a registered model.
        ModelDamagedError: the file is no exact model file, or not the one that its name states.
        ModelError: the store cannot be written.
        OSError: the file cannot be read.
    """
    place = Path(path)
    if name is not None:
        free_name(name)
    with open(place, "rb"):  # says what the system says of a file that is missing, or is a folder
        pass
    stated = digest_in_name(place)
    exact = read_exact_file(place, bytes.fromhex(stated) if stated else None, advice=_ADVICE)
    try:
        take_apart(exact, str(place), "cpu")
    except ModelError as error:
        raise ModelDamagedError(f"{place}: not a model of this release: {error}") from error
    digest = exact.digest.hex()
    try:
        there = _is_whole(model_path(digest), digest)
        if not there:
            _copy(place, digest)
        if name is not None and stated_digest(name) != digest:
            give_name(name, digest, SOURCE)
    except OSError as error:
        raise ModelError(f"{store_dir()}: {error.strerror or error}") from error
    return find(digest), there


def _is_whole(path: Path, digest: str) -> bool:
    if not path.exists():
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest


def _copy(source: Path, digest: str) -> None:
    """Copy a file into the store under its digest; what is committed is what was read, not what was checked before."""
    found = hashlib.sha256()
    final = model_path(digest)
    with temporary(final.parent) as copy:
        with open(source, "rb") as file, open(copy, "wb") as target:
            while chunk := file.read(_COPY_BYTES):
                found.update(chunk)
                target.write(chunk)
        if found.hexdigest() != digest:
            raise ModelDamagedError(f"{source}: the file changed while it was being imported")
        commit(copy, final)
