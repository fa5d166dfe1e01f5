"""Adapters, low-rank additions to the linear weights of a checkpoint, and the files that hold them.

An adapter file is a safetensors file. Tensors have the names and the orientation that the `peft` library gives them:

    base_model.model.model.layers.{i}.self_attn.q_proj.lora_A.weight    (rank, in)
    base_model.model.model.layers.{i}.self_attn.q_proj.lora_B.weight    (out, rank)

and so on for k_proj, v_proj, o_proj and mlp.gate_proj, up_proj, down_proj. What peft keeps in a second file is one
JSON text here, under "__metadata__" / "speccompact". Folders of peft are read too, see `peftconfig`. Numbers are F32,
F16, BF16, or I8 with their scales in a second tensor, see `adapternumbers`.

The file is hostile until proven otherwise; nothing in it is ever executed.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.modelstore.adapternumbers import SCALE_SUFFIX, Dtype, from_stored, to_stored
from speccompact.modelstore.peftconfig import read_peft_config
from speccompact.modelstore.safetensors import PICKLE_SUFFIXES, SafetensorsFile, parse_json
from speccompact.modelstore.storefiles import commit, temporary

ADAPTER_NAME = "adapter.safetensors"
"""Name of the file that training writes, in a folder of its own."""

CHECKPOINT_KEY = "speccompact.training"
"""What marks a checkpoint of a training run, which lies beside the adapter and is none."""

ADAPTER_VERSION = 1
"""Meaning of the metadata and of the tensors; it changes when an old reader would misunderstand either."""

_METADATA_KEY = "speccompact"
_ALIGNMENT = 64

_PROJECTIONS = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_LINEARS = {theirs: ours for ours, theirs in _PROJECTIONS.items()}
_STORED_NAME = re.compile(r"base_model\.model\.model\.layers\.(0|[1-9][0-9]{0,3})\.([a-z_.]+)\.lora_([AB])\.weight")
_CANONICAL_NAME = re.compile(rf"layers\.(0|[1-9][0-9]{{0,3}})\.({'|'.join(_PROJECTIONS)})")
_FINGERPRINT = re.compile(r"(?:[0-9a-f]{64})?")

Floats = npt.NDArray[np.float32]
Factors = Mapping[str, tuple[Floats, Floats]]

_AXES = {"A": 0, "B": 1}
"""Which axis of a factor counts the inner indices."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Low-rank additions: every weight W that is named becomes W + scale * B @ A.

    Invariants (enforced): there is at least one pair of factors; every name is that of a linear weight, every pair has
    the rank, every number is finite.

    Attributes:
        rank: inner width of all pairs.
        scale: what the products are multiplied by.
        base: `merging.fingerprint` of the checkpoint that it was made for; "" where nobody knows.
        factors: canonical name -> A (rank, in) float32, B (out, rank) float32.
        notes: whatever its maker wants to say, JSON values.
        source: its file, for messages.
    """

    rank: int
    scale: float
    base: str
    factors: Factors
    notes: Mapping[str, Any] = field(default_factory=dict)
    source: str = field(default="adapter", compare=False)

    def __post_init__(self) -> None:
        if type(self.rank) is not int or self.rank < 1:
            raise ModelError(f"{self.source}: rank is {self.rank!r}; it must be a positive integer")
        if not math.isfinite(self.scale):
            raise ModelError(f"{self.source}: scale is {self.scale}; it must be finite")
        if not _FINGERPRINT.fullmatch(self.base):
            raise ModelError(f"{self.source}: the fingerprint of the base is no SHA-256")
        if not self.factors:
            raise ModelError(f"{self.source}: the adapter changes no tensor")
        for name, (a, b) in self.factors.items():
            if not _CANONICAL_NAME.fullmatch(name):
                raise ModelError(f"{self.source}: tensor {name!r} cannot be adapted; linear weights of layers can")
            for letter, values in (("A", a), ("B", b)):
                if values.ndim != 2 or values.shape[_AXES[letter]] != self.rank:
                    raise ModelError(
                        f"{self.source}: tensor {stored_name(name, letter)!r} has the shape {values.shape}, which is "
                        f"not one of rank {self.rank}"
                    )
                if not np.isfinite(values).all():
                    raise ModelError(
                        f"{self.source}: tensor {stored_name(name, letter)!r} holds values that are not finite"
                    )


def stored_name(name: str, letter: str) -> str:
    """Return the name in files of a factor, "A" or "B", of a weight with a canonical name."""
    layer, _, part = name.rpartition(".")
    return f"base_model.model.model.{layer}.{_PROJECTIONS[part]}.lora_{letter}.weight"


def write_adapter(path: str | os.PathLike[str], adapter: Adapter, dtype: Dtype = "F16") -> bytes:
    """Write an adapter file; equal adapters give equal bytes. Inverse of `read_adapter` up to rounding to the type.

    The file appears under its name when it is complete and on disk.

    Args:
        path: file to create or replace.
        adapter: what to write.
        dtype: type of the stored numbers, each rounded to the nearest (ties to even); I8 has scales beside it.

    Returns:
        The SHA-256 of the file, 32 bytes.

    Raises:
        ModelError: a number is too large for the type, or the notes are no JSON.
        OSError: the file cannot be written.
    """
    facts = {
        "adapter_version": ADAPTER_VERSION,
        "rank": adapter.rank,
        "scale": float(adapter.scale),
        "base": adapter.base,
        "notes": dict(adapter.notes),
    }
    header: dict[str, Any] = {"__metadata__": {_METADATA_KEY: _canonical_json(facts, path)}}
    pieces = [b""]
    position = 0
    for name, pair in sorted(adapter.factors.items()):
        for letter, values in zip("AB", pair, strict=True):
            stored = stored_name(name, letter)
            for entry, kind, shape, data in to_stored(
                stored, values, _AXES[letter], dtype, f"{path}: tensor {stored!r}"
            ):
                end = position + len(data)
                header[entry] = {"dtype": kind, "shape": list(shape), "data_offsets": [position, end]}
                pieces.append(data)
                position = end
    text = _canonical_json(header, path).encode("ascii")
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    pieces[0] = len(text).to_bytes(8, "little") + text
    whole = b"".join(pieces)
    with temporary(Path(path).parent) as unfinished:
        unfinished.write_bytes(whole)
        commit(unfinished, Path(path))
    return hashlib.sha256(whole).digest()


def tensor_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that holds the numbers of an adapter, which may be named as a folder of the peft library."""
    place = Path(path)
    return place / "adapter_model.safetensors" if place.is_dir() else place


def read_adapter(path: str | os.PathLike[str]) -> Adapter:
    """Read an adapter.

    Args:
        path: a file of `write_adapter`, or a folder of the peft library.

    Raises:
        ModelError: it is damaged, or holds anything that is not supported; the message names the file and the tensor
            or setting.
        OSError: there is no such file or folder.
    """
    place = Path(path)
    if place.suffix in PICKLE_SUFFIXES:
        raise ModelError(f"{place}: pickled adapters can run code and are never read; use safetensors")
    os.stat(place)
    if place.is_dir():
        rank, scale = read_peft_config(place / "adapter_config.json")
        file = SafetensorsFile(tensor_file(place))
        return Adapter(rank, scale, "", _read_factors(file), source=str(file.path))
    file = SafetensorsFile(place)
    facts = _read_facts(file)
    return Adapter(
        facts["rank"], facts["scale"], facts["base"], _read_factors(file), facts["notes"], source=str(file.path)
    )


def _read_facts(file: SafetensorsFile) -> dict[str, Any]:
    if CHECKPOINT_KEY in file.metadata:
        raise ModelError(
            f"{file.path}: this is a checkpoint of training; use {ADAPTER_NAME} beside it, which a run writes last"
        )
    if _METADATA_KEY not in file.metadata:
        raise ModelError(
            f"{file.path}: no adapter of this program; if the peft library made it, name the folder that holds it and "
            "its adapter_config.json"
        )
    facts = parse_json(file.metadata[_METADATA_KEY], file.path)
    if facts.get("adapter_version") != ADAPTER_VERSION:
        raise ModelError(f"{file.path}: adapter version {facts.get('adapter_version')!r} is not supported")
    unknown = sorted(set(facts) - {"adapter_version", "rank", "scale", "base", "notes"})
    if unknown:
        raise ModelError(f"{file.path}: setting {unknown[0]!r} of the adapter is not supported")
    for name, kind in {"rank": int, "scale": float, "base": str, "notes": dict}.items():
        if type(facts.get(name)) is not kind:
            raise ModelError(f"{file.path}: damaged adapter: {name} is missing or of the wrong type")
    return facts


def _read_factors(file: SafetensorsFile) -> Factors:
    halves: dict[str, dict[str, Floats]] = {}
    for stored in file.tensors:
        weight = stored.removesuffix(SCALE_SUFFIX)
        if weight != stored and weight in file.tensors and file.tensors[weight].dtype == "I8":
            continue  # read with the weight
        match = _STORED_NAME.fullmatch(stored)
        if match is None or match[2] not in _LINEARS:
            raise ModelError(
                f"{file.path}: tensor {stored!r} is not supported; adapters are low-rank factors (lora_A, lora_B) of "
                f"{', '.join(_LINEARS)}"
            )
        halves.setdefault(f"layers.{match[1]}.{_LINEARS[match[2]]}", {})[match[3]] = from_stored(
            file, stored, _AXES[match[3]]
        )
    for name, pair in halves.items():
        for letter in "AB":
            if letter not in pair:
                raise ModelError(f"{file.path}: tensor {stored_name(name, letter)!r} is missing")
    return {name: (pair["A"], pair["B"]) for name, pair in sorted(halves.items())}


def _canonical_json(value: Mapping[str, Any], path: str | os.PathLike[str]) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{os.fspath(path)}: the notes of an adapter must be JSON: {error}") from None
