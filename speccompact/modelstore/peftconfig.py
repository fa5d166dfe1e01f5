"""What adapter_config.json of the `peft` library says: rank and scale of an adapter, or that it is not plain LoRA."""

import math
from pathlib import Path

from speccompact.errors import ModelError
from speccompact.modelstore.safetensors import read_json

_MAX_RANK = 1 << 20

_MEANINGLESS = {
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
}
"""Settings that say how the adapter was trained; which weights it changes is said by its tensors."""

_PLAIN_STARTS = (True, False, "gaussian", "eva", "orthogonal")
"""First values of the factors that leave the base weights alone; all others (PiSSA, OLoRA, LoftQ...) change them."""


def read_peft_config(path: Path) -> tuple[int, float]:
    """Return rank and scale.

    Settings that are not known here are refused unless they are off: a later release may give them any meaning.

    Raises:
        ModelError: the file is missing or damaged, or a setting is not supported.
    """
    config = read_json(path)

    def fail(key: str) -> ModelError:
        value = repr(config.get(key))
        return ModelError(f"{path}: {key} {value if len(value) < 80 else value[:77] + '...'} is not supported")

    wanted = {"peft_type": ("LORA",), "bias": ("none",), "init_lora_weights": _PLAIN_STARTS}
    for key, values in wanted.items():
        if config.get(key, values[0]) not in values:
            raise fail(key)
    for key, value in config.items():
        known = key in wanted or key in _MEANINGLESS or key in ("r", "lora_alpha", "use_rslora")
        if not known and value not in (None, False, {}, []):
            raise fail(key)
    rank, alpha, rank_stabilised = config.get("r"), config.get("lora_alpha"), config.get("use_rslora", False)
    if type(rank) is not int or not 1 <= rank <= _MAX_RANK:
        raise fail("r")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not abs(alpha) < 1e30:
        raise fail("lora_alpha")
    if not isinstance(rank_stabilised, bool):
        raise fail("use_rslora")
    return rank, alpha / (math.sqrt(rank) if rank_stabilised else rank)
