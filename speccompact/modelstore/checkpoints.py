"""Reads a float model from a GGUF file or a folder of safetensors into one common form."""

import os
from pathlib import Path

from speccompact.errors import ModelError
from speccompact.modelstore.checkpoint_gguf import load_gguf
from speccompact.modelstore.checkpoint_hf import load_hf_folder
from speccompact.modelstore.modelconfig import Checkpoint, ModelConfig
from speccompact.modelstore.safetensors import PICKLE_SUFFIXES

__all__ = ["Checkpoint", "ModelConfig", "load_checkpoint"]


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint: configuration, tokenizer, and tensors that are dequantised when asked for.

    Args:
        path: a GGUF file, or a folder with config.json, tokenizer.json and safetensors.

    Raises:
        ModelError: it is neither, is damaged, or is of an architecture that is not supported.
    """
    place = Path(path)
    if place.is_dir():
        return load_hf_folder(place)
    if not place.exists():
        raise ModelError(f"{place}: no such file or folder")
    if place.suffix in PICKLE_SUFFIXES:
        raise ModelError(f"{place}: pickled checkpoints can run code and are never read; use GGUF or safetensors")
    return load_gguf(place)
