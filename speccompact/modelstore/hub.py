"""Checkpoints from the Hugging Face hub, through the optional `huggingface_hub`."""

import re
from pathlib import Path

from speccompact.errors import ArgumentError, ModelError

HUB_PREFIX = "hf:"

_REFERENCE = re.compile(r"hf:([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?", re.ASCII)
_PATTERNS = (
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
)
"""All that a checkpoint needs; nothing else is fetched, and pickles never."""


def parse_reference(reference: str) -> tuple[str, str | None]:
    """Split "hf:owner/name@revision" into the repository and the revision, None where none is given.

    Raises:
        ArgumentError: it has another form.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ArgumentError(f"{reference!r} is no model of the hub; write hf:owner/name or hf:owner/name@revision")
    return match[1], match[2]


def fetch_hub_folder(reference: str) -> tuple[Path, str]:
    """Download a checkpoint into the hub's own cache, at one pinned commit.

    Args:
        reference: "hf:owner/name" or "hf:owner/name@revision".

    Returns:
        The folder, and the reference with the commit that the revision meant.

    Raises:
        ArgumentError: the reference has the wrong form, or `huggingface_hub` is not installed.
        ModelError: the hub cannot be reached, or has no such checkpoint.
    """
    repository, revision = parse_reference(reference)
    try:
        # optional, and slow to import: nobody else should pay for it
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise ArgumentError('models of the hub need huggingface_hub; run: pip install "speccompact[hub]"') from None
    try:
        commit = huggingface_hub.HfApi().model_info(repository, revision=revision).sha
        if not commit:
            raise ModelError(f"{reference}: the hub names no commit")
        # the commit is asked for from here on, so that all files are of one state even if the branch moves
        folder = huggingface_hub.snapshot_download(repository, revision=commit, allow_patterns=list(_PATTERNS))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{reference}: {reason}") from error
    return Path(folder), f"{HUB_PREFIX}{repository}@{commit}"
