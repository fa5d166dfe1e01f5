"""An adapter for the tiny GGUF model, made of integers, in our file format and as the peft library would write it."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.modelstore.adapterfile import Adapter, read_adapter, stored_name
from speccompact.modelstore.modelconfig import ModelConfig
from tests.tiny_gguf import FFN, HEADS, HIDDEN, KV_HEADS, LAYERS, write_safetensors
from tests.tiny_model import noise

RANK = 2

WIDE = HIDDEN // HEADS * KV_HEADS

SHAPES = {
    "q": (HIDDEN, HIDDEN),
    "k": (WIDE, HIDDEN),
    "v": (WIDE, HIDDEN),
    "o": (HIDDEN, HIDDEN),
    "gate": (FFN, HIDDEN),
    "up": (FFN, HIDDEN),
    "down": (HIDDEN, FFN),
}


def adapter_for(shapes: Mapping[str, tuple[int, ...]], base: str = "", seed: int = 0, rank: int = RANK) -> Adapter:
    """Return an adapter for weights of these shapes, by canonical name."""
    factors = {
        name: (noise(seed + 2 * i, (rank, columns), 0.5), noise(seed + 2 * i + 1, (rows, rank), 0.5))
        for i, (name, (rows, columns)) in enumerate(shapes.items())
    }
    return Adapter(rank, 2.0, base, factors, {"made": "of integers"})


def linear_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the weights that an adapter may change."""
    return {name: shape for name, shape in config.shapes().items() if name.rpartition(".")[2] in SHAPES}


def tiny_adapter(base: str = "", seed: int = 0) -> Adapter:
    """Return an adapter for every weight of `tiny_gguf.tiny_llama`."""
    shapes = {f"layers.{i}.{part}": shape for i in range(LAYERS) for part, shape in SHAPES.items()}
    return adapter_for(shapes, base, seed)


def peft_tensors(adapter: Adapter) -> dict[str, npt.NDArray[np.float32]]:
    """Return the factors by the names that they have in files."""
    return {
        stored_name(name, letter): values
        for name, pair in adapter.factors.items()
        for letter, values in zip("AB", pair, strict=True)
    }


def write_peft_folder(folder: Path, adapter: Adapter, dtype: str = "<f4", **settings: Any) -> Path:
    """Write an adapter as the peft library does."""
    folder.mkdir(exist_ok=True)
    config: dict[str, Any] = {
        "alpha_pattern": {},
        "auto_mapping": None,
        "base_model_name_or_path": "somebody/model",
        "bias": "none",
        "corda_config": None,
        "eva_config": None,
        "exclude_modules": None,
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "layer_replication": None,
        "layers_pattern": None,
        "layers_to_transform": None,
        "loftq_config": {},
        "lora_alpha": 4 * adapter.rank,
        "lora_bias": False,
        "lora_dropout": 0.05,
        "megatron_config": None,
        "megatron_core": "megatron.core",
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": adapter.rank,
        "rank_pattern": {},
        "revision": None,
        "target_modules": ["q_proj", "down_proj"],
        "task_type": "CAUSAL_LM",
        "trainable_token_indices": None,
        "use_dora": False,
        "use_rslora": False,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config | settings))
    tensors = {name: values.astype(dtype) for name, values in peft_tensors(adapter).items()}
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    return folder


def peft_folder(place: Path, file: Path) -> Path:
    """Make a folder of the numbers in an adapter file, as the peft library has them; it does not name a model."""
    adapter = read_adapter(file)
    place.mkdir()
    config = {"peft_type": "LORA", "r": adapter.rank, "lora_alpha": adapter.scale * adapter.rank}
    (place / "adapter_config.json").write_text(json.dumps(config), "utf-8")
    shutil.copy(file, place / "adapter_model.safetensors")
    return place
