"""Small models to begin with, and folders that hold checkpoints: what is written is what is read."""

from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ArgumentError
from speccompact.modelstore.checkpoint_hf import load_hf_folder, write_hf_folder
from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.modelstore.tokenizer_json import read_tokenizer_json, tokenizer_json
from speccompact.text.spec import PRE_TOKENIZERS, TokenizerSpec
from speccompact.training.network import Network
from speccompact.training.smallmodels import Sizes, keep_layers, make_new, parse_layers, trained
from speccompact.training.tuning import load_base
from tests.tiny_corpus import write_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A tiny float model."""
    return load_base(str(write_model(tmp_path_factory.mktemp("model"))))[0]


def test_layers_and_sizes_are_parsed() -> None:
    assert parse_layers("0-2,5", 6) == [0, 1, 2, 5]
    assert parse_layers("1,0", 2) == [1, 0]
    for text in ("", "2", "0-", "a", "1-0", "0,,1", "-1"):
        with pytest.raises(ArgumentError, match="layers is"):
            parse_layers(text, 2)
    assert Sizes.parse("1,8,2,20") == Sizes(1, 8, 2, 20)
    for text in ("", "1,8,2", "1,8,3,20", "1,8,0,20", "x,8,2,20"):
        with pytest.raises(ArgumentError, match="new is"):
            Sizes.parse(text)


def test_some_layers_are_those_of_the_model(base: Checkpoint) -> None:
    small = keep_layers(base, [1])
    assert small.config.layers == 1
    assert set(small.tensors) == set(small.config.shapes())
    for part in ("q", "down", "ffn_norm"):
        assert (small.tensors[f"layers.0.{part}"] == base.tensors[f"layers.1.{part}"]).all()
    assert (small.tensors["embed"] == base.tensors["embed"]).all()


def test_a_new_model_depends_on_its_seed_alone(base: Checkpoint) -> None:
    one, same, other = (make_new(base, Sizes(2, 16, 2, 24), seed) for seed in (1, 1, 2))
    assert {name: value.shape for name, value in one.tensors.items()} == one.config.shapes()
    assert all((one.tensors[name] == same.tensors[name]).all() for name in one.tensors)
    assert (one.tensors["embed"] != other.tensors["embed"]).any()


def test_what_a_network_trains_goes_back_into_a_checkpoint(base: Checkpoint, tmp_path: Path) -> None:
    """Rotations and gains pass through: a network of the written folder is the network that was written."""
    network = Network(base, None, 1.0, 0)
    made = trained(base, network.weights())
    write_hf_folder(tmp_path / "model", made)
    read = load_hf_folder(tmp_path / "model")
    assert (read.config, read.tokenizer) == (made.config, made.tokenizer)
    for name, values in made.tensors.items():
        assert (read.tensors[name] == values).all(), name
    again = dict(Network(read, None, 1.0, 0).named_parameters())
    for name, parameter in network.named_parameters():
        np.testing.assert_allclose(again[name].detach(), parameter.detach(), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_tokenizers_are_written_as_they_are_read(pre: str) -> None:
    spec = TokenizerSpec.build(["<|x|>", "a", "b", "Ġ", "ab"], ["a b"], pre, [0])
    assert read_tokenizer_json(tokenizer_json(spec), 5, Path("x")) == spec
