from pathlib import Path
from typing import Any

import pytest

from speccompact.errors import ModelError
from speccompact.modelstore.tokenizer_json import read_tokenizer_json
from tests.tiny_gguf import MERGES, TOKENS, hf_tokenizer

PATH = Path("tokenizer.json")
LLAMA3 = (
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
)


def byte_level(use_regex: bool = True, add_prefix_space: bool = False) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "use_regex": use_regex}


def split(pattern: str, behavior: str = "Isolated") -> dict[str, Any]:
    steps = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False},
        byte_level(use_regex=False),
    ]
    return {"type": "Sequence", "pretokenizers": steps}


@pytest.mark.parametrize(
    ("pre", "name"),
    [
        (byte_level(), "gpt2"),
        (split(LLAMA3), "llama3"),
        (split(LLAMA3.replace("{1,3}", "")), "qwen2"),
        (hf_tokenizer()["pre_tokenizer"], "smollm"),
    ],
)
def test_pre_tokenizers_are_recognised(pre: dict[str, Any], name: str) -> None:
    assert read_tokenizer_json(hf_tokenizer() | {"pre_tokenizer": pre}, len(TOKENS), PATH).pre == name


@pytest.mark.parametrize(
    "pre",
    [
        None,
        {},
        [],
        "x",
        byte_level(add_prefix_space=True),
        byte_level(use_regex=False),
        split("x"),
        split(LLAMA3, "Removed"),
        {"type": "Sequence", "pretokenizers": []},
        {"type": "Metaspace"},
    ],
)
def test_other_pre_tokenizers_are_refused(pre: Any) -> None:
    with pytest.raises(ModelError, match="pre-tokenizer"):
        read_tokenizer_json(hf_tokenizer() | {"pre_tokenizer": pre}, len(TOKENS), PATH)


def test_rows_without_a_token_become_special() -> None:
    spec = read_tokenizer_json(hf_tokenizer(), len(TOKENS) + 2, PATH)
    assert spec.tokens[-2:] == (f"[PAD{len(TOKENS)}]", f"[PAD{len(TOKENS) + 1}]")
    assert spec.special_ids == {0, len(TOKENS), len(TOKENS) + 1}


def test_pairs_of_newer_files_are_merges_too() -> None:
    raw = hf_tokenizer()
    raw["model"]["merges"] = [["t", "h"], ["th", "e"]]
    assert read_tokenizer_json(raw, len(TOKENS), PATH).merges == MERGES


MODELS: dict[str, dict[str, Any]] = {
    "other type": {"type": "Unigram"},
    "byte fallback": {"byte_fallback": True},
    "no vocabulary": {"vocab": None},
    "id out of range": {"vocab": {"x": 1 << 40}},
    "negative id": {"vocab": {"x": -1}},
    "id of another type": {"vocab": {"x": True}},
    "id twice": {"vocab": {"x": 5, "y": 5}},
    "merges": {"merges": {}},
    "merge of three": {"merges": ["a b c"]},
    "merge of one": {"merges": [["a"]]},
    "merge of numbers": {"merges": [[1, 2]]},
}


@pytest.mark.parametrize("kind", MODELS)
def test_damaged_models_are_refused(kind: str) -> None:
    raw = hf_tokenizer()
    raw["model"] |= MODELS[kind]
    with pytest.raises(ModelError):
        read_tokenizer_json(raw, len(TOKENS), PATH)


@pytest.mark.parametrize("added", [7, [7], [{"id": 0}], [{"id": "0", "content": "x"}], [{"id": 1, "content": "x"}]])
def test_damaged_added_tokens_are_refused(added: Any) -> None:
    with pytest.raises(ModelError):
        read_tokenizer_json(hf_tokenizer() | {"added_tokens": added}, len(TOKENS), PATH)
