import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.errors import ModelDamagedError
from speccompact.modelstore.tokenizer_tensors import tokenizer_from_tensors, tokenizer_to_tensors
from speccompact.text.spec import PRE_TOKENIZERS, TokenizerSpec

STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@st.composite
def specs(draw: st.DrawFn) -> TokenizerSpec:
    tokens = draw(st.lists(STRINGS, min_size=1, max_size=20))
    special = draw(st.sets(st.integers(0, len(tokens) - 1)))
    return TokenizerSpec.build(
        tokens, draw(st.lists(STRINGS, max_size=20)), draw(st.sampled_from(PRE_TOKENIZERS)), special
    )


@given(specs())
def test_a_tokenizer_survives_the_tensors(spec: TokenizerSpec) -> None:
    tensors = tokenizer_to_tensors(spec)
    assert all(tensor.dtype in (np.uint8, np.uint32) for tensor in tensors.values())
    assert tokenizer_from_tensors(tensors) == spec


SPEC = TokenizerSpec.build(["a", "bc", "é"], ["b c"], "smollm", [1])


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("tokens", None),
        ("tokens", np.zeros(5, np.int8)),
        ("tokens", np.zeros((5, 1), np.uint8)),
        ("tokens", np.full(5, 0xFF, np.uint8)),
        ("token_lengths", np.array([1, 2, 3], np.uint32)),
        ("token_lengths", np.array([1, 2], np.uint32)),
        ("token_lengths", np.array([1, 2, 0xFFFFFFFF, 3], np.uint32)),
        ("token_lengths", np.array([], np.uint32)),
        ("special_ids", np.array([3], np.uint32)),
        ("kind", np.frombuffer(b"byte_level_bpe tekken", np.uint8)),
        ("kind", np.frombuffer(b"unigram gpt2", np.uint8)),
    ],
)
def test_damaged_tensors_are_refused(name: str, tensor: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None) -> None:
    tensors = tokenizer_to_tensors(SPEC)
    if tensor is None:
        del tensors["tokenizer." + name]
    else:
        tensors["tokenizer." + name] = tensor
    with pytest.raises(ModelDamagedError):
        tokenizer_from_tensors(tensors)
