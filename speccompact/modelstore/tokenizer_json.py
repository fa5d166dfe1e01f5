"""Tokenizers in tokenizer.json files of the `tokenizers` library: byte-level BPE with a known way to cut words.

`read_tokenizer_json` is the inverse of `tokenizer_json`.
"""

from pathlib import Path
from typing import Any

from speccompact.errors import ModelError
from speccompact.text.spec import TokenizerSpec

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_PATTERNS = {_LLAMA3: "llama3", _QWEN2: "qwen2"}


def read_tokenizer_json(raw: dict[str, Any], vocab: int, path: Path) -> TokenizerSpec:
    """Translate a parsed tokenizer.json.

    Args:
        raw: the parsed file.
        vocab: rows of the embedding; ids that the tokenizer does not name become unused special tokens.
        path: the file, for messages.

    Raises:
        ModelError: the tokenizer is damaged or of an unsupported kind.
    """
    model = raw.get("model")
    # files older than the "type" field hold a BPE model too
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or model.get("byte_fallback", False):
        raise ModelError(f"{path}: only byte-level BPE tokenizers are supported")
    ids = model.get("vocab")
    if not isinstance(ids, dict):
        raise ModelError(f"{path}: the model has no vocabulary")
    tokens: list[str | None] = [None] * vocab
    for token, number in ids.items():
        _place(tokens, token, number, path)
    special = set()
    for entry in _list(raw.get("added_tokens"), "added_tokens", path):
        if not isinstance(entry, dict):
            raise ModelError(f"{path}: an added token is no object")
        special.add(_place(tokens, entry.get("content"), entry.get("id"), path))
    for number, token in enumerate(tokens):
        if token is None:
            tokens[number] = f"[PAD{number}]"
            special.add(number)
    return TokenizerSpec.build(
        (token for token in tokens if token is not None),
        (_merge(merge, path) for merge in _list(model.get("merges"), "merges", path)),
        _pre(raw.get("pre_tokenizer"), path),
        special,
    )


def tokenizer_json(spec: TokenizerSpec) -> dict[str, Any]:
    """Return a tokenizer as the contents of a tokenizer.json."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    patterns = {name: pattern for pattern, name in _PATTERNS.items()}
    before: list[dict[str, Any]] = []
    if spec.pre == "smollm":
        before = [{"type": "Digits", "individual_digits": True}]
    elif spec.pre in patterns:
        before = [{"type": "Split", "pattern": {"Regex": patterns[spec.pre]}, "behavior": "Isolated", "invert": False}]
    steps = [*before, byte_level | {"use_regex": spec.pre not in patterns}]
    special = [
        {"id": number, "content": spec.tokens[number], "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for number in sorted(spec.special_ids)
    ]
    model = {"type": "BPE", "vocab": {token: number for number, token in enumerate(spec.tokens)}, "merges": []}
    return {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps} if before else steps[0],
        "decoder": byte_level | {"use_regex": True},
        "model": model | {"merges": list(spec.merges), "ignore_merges": spec.pre == "llama3"},
    }


def _list(value: Any, key: str, path: Path) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ModelError(f"{path}: {key} is no list")
    return value


def _place(tokens: list[str | None], token: Any, number: Any, path: Path) -> int:
    """Enter a token under its id and return the id; a token may be named twice, an id not by two tokens."""
    if type(number) is not int or not isinstance(token, str) or not 0 <= number < len(tokens):
        raise ModelError(f"{path}: token {token!r} has the id {number!r}; the model has {len(tokens)} rows")
    if tokens[number] not in (None, token):
        raise ModelError(f"{path}: two tokens have the id {number}")
    tokens[number] = token
    return number


def _merge(merge: Any, path: Path) -> str:
    """Return a merge as "left right"; newer files keep pairs."""
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, str) and p and " " not in p for p in pair):
        raise ModelError(f"{path}: {merge!r} is no merge of two tokens")
    return f"{pair[0]} {pair[1]}"


def _pre(raw: Any, path: Path) -> str:
    """Recognise the pre-tokenizer by its parts."""
    steps = raw.get("pretokenizers") if isinstance(raw, dict) and raw.get("type") == "Sequence" else [raw]
    if isinstance(steps, list) and steps and all(isinstance(step, dict) for step in steps):
        *before, last = steps
        if last.get("type") == "ByteLevel" and not last.get("add_prefix_space", True):
            if not last.get("use_regex", True):
                pattern = before[0].get("pattern") if len(before) == 1 and before[0].get("type") == "Split" else None
                name = _PATTERNS.get(pattern.get("Regex", "")) if isinstance(pattern, dict) else None
                if name is not None and before[0].get("behavior") == "Isolated" and not before[0].get("invert", False):
                    return name
            elif not before:
                return "gpt2"
            elif len(before) == 1 and before[0].get("type") == "Digits" and before[0].get("individual_digits", False):
                return "smollm"
    raise ModelError(f"{path}: the pre-tokenizer is of an unsupported kind")
