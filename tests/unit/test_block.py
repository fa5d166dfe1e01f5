"""The block drafter: its file, its network against the one that was trained, and the drafter around it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import save_file

from speccompact.errors import ModelError
from speccompact.parallel import Workers
from speccompact.speculative import blockkernel
from speccompact.speculative.block import BlockDrafter
from speccompact.speculative.blockfile import BlockWeights, read_block, write_block
from speccompact.speculative.blockkernel import BlockKernel
from speccompact.speculative.blocknet import BlockNet
from speccompact.speculative.drafter import Slot
from speccompact.text.vocabulary import Vocabulary
from speccompact.training.draftexamples import make_examples
from tests.unit.test_draftpass import SHAPE, VOCABULARY, network, places, plain_logs, text

WORDS = Vocabulary([bytes([65 + index]) for index in range(VOCABULARY)])


def weights() -> BlockWeights:
    made = network()
    block = SHAPE.block
    return made.weights(WORDS.digest().hex(), torch.linspace(0.5, 1.5, block), torch.linspace(-1, 1, block))


def test_inverse(tmp_path: Path) -> None:
    written = weights()
    write_block(tmp_path / "a", written)
    read = read_block(tmp_path / "a")
    assert (read.shape, read.vocabulary_digest) == (written.shape, written.vocabulary_digest)
    assert read.tensors.keys() == written.tensors.keys()
    for name, values in written.tensors.items():
        assert values.equal(read.tensors[name]), name
    write_block(tmp_path / "b", read)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    good = weights()
    metadata = {"format": 1, "vocabulary_digest": "", "shape": {n: getattr(SHAPE, n) for n in SHAPE.__slots__}}

    def refused(changed: object, tensors: dict[str, torch.Tensor], message: str) -> None:
        save_file(tensors, path, {"speccompact.block": json.dumps(changed)})
        with pytest.raises(ModelError, match=message):
            read_block(path)

    refused({}, good.tensors, "not a block drafter")
    refused(metadata | {"format": 2}, good.tensors, "format 2")
    refused(metadata | {"shape": {"vocabulary": 3}}, good.tensors, "not a block drafter")
    refused(metadata | {"shape": metadata["shape"] | {"block": -1}}, good.tensors, "block is -1")  # type: ignore[operator]
    refused(metadata | {"shape": metadata["shape"] | {"rank": 9}}, good.tensors, "does not fit")  # type: ignore[operator]
    for name, size in {"layers": 10**12, "vocabulary": 1 << 40, "width": 1 << 17, "block": True}.items():
        message = "metadata" if size is True else f"damaged drafter: {name} is {size}"
        refused(metadata | {"shape": metadata["shape"] | {name: size}}, good.tensors, message)  # type: ignore[operator]
    much = {"window": 1 << 9, "embed": 1 << 8}
    refused(metadata | {"shape": metadata["shape"] | much}, good.tensors, "embed 256")  # type: ignore[operator]
    without = {name: values for name, values in good.tensors.items() if name != "head"}
    refused(metadata, without, "'head' does not fit")
    refused(metadata, good.tensors | {"trust.output": good.tensors["trust.output"] * torch.nan}, "not finite")
    refused(metadata, good.tensors | {"listed": good.tensors["listed"].flip(0)}, "list of tokens")


def windows_of(seed: int, count: int = 50) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, VOCABULARY + 1, (count, SHAPE.window))


def test_drafts_are_those_of_the_trained_network() -> None:
    made, batch = network(), text(2, (200,))
    given = make_examples(batch, places(), SHAPE.window, SHAPE.block)
    tokens = torch.cat([batch.targets, torch.tensor([VOCABULARY])])
    windows = tokens[given.windows].numpy()
    symbols, chances, lengths = BlockNet(weights(), torch.float32).draft(windows, np.full(len(windows), 99), 0.0)
    assert lengths.tolist() == [SHAPE.block] * len(windows)
    with torch.no_grad():
        first = places().listed[plain_logs(made, given)[:, 0].argmax(-1)].numpy()
    assert (symbols[:, 0] == first).mean() > 0.9  # weights are rounded in the file
    assert ((chances > 0) & (chances < 1)).all()


@pytest.mark.skipif(not blockkernel.available(), reason="this CPU lacks the instructions")
def test_the_kernel_drafts_as_the_network_does() -> None:
    windows, limits = windows_of(4, 203), np.full(203, SHAPE.block)
    symbols, chances, lengths = BlockNet(weights(), torch.float32).draft(windows, limits, 0.0)
    found = BlockKernel(weights()).draft(windows, limits, 0.0)
    assert (found[0][:, 0] == symbols[:, 0]).mean() > 0.9  # int8 in place of bfloat16
    same = (found[0] == symbols).all(1)
    np.testing.assert_allclose(found[1][same], chances[same], atol=0.05)
    assert found[2].tolist() == lengths.tolist()
    for count in (1, 3, 8, 9):
        part = BlockKernel(weights()).draft(windows[:count], limits[:count], 0.0)
        assert part[0].tolist() == found[0][:count].tolist()


@pytest.mark.parametrize("kind", [BlockNet, BlockKernel])
def test_positions_that_are_hardly_reached_are_left_out(kind: type[BlockNet | BlockKernel]) -> None:
    if kind is BlockKernel and not blockkernel.available():
        pytest.skip("this CPU lacks the instructions")
    net, windows, limits = kind(weights()), windows_of(1), np.arange(50) % (SHAPE.block + 2)
    whole = net.draft(windows, limits, 0.0)
    assert whole[2].tolist() == limits.clip(max=SHAPE.block).tolist()
    symbols, chances, lengths = net.draft(windows, limits, 0.3)
    for row in range(50):
        expected = 0
        while expected < whole[2][row] and whole[1][row, :expected].prod() >= 0.3:
            expected += 1
        assert lengths[row] == expected
        assert symbols[row, :expected].tolist() == whole[0][row, :expected].tolist()
        np.testing.assert_allclose(chances[row, :expected], whole[1][row, :expected], rtol=1e-3)


@pytest.mark.skipif(not blockkernel.available(), reason="this CPU lacks the instructions; one thread does all")
def test_threads_change_nothing() -> None:
    slots = [Slot(row, window.astype(np.int32)) for row, window in enumerate(windows_of(7, 40))]
    limits = [row % (SHAPE.block + 2) for row in range(40)]
    one = BlockDrafter(weights(), WORDS, 0.1).propose(slots, limits)
    two = BlockDrafter(weights(), WORDS, 0.1, Workers(2)).propose(slots, limits)
    assert [len(draft) for draft in one] == [len(draft) for draft in two]
    assert len({len(draft) for draft in one}) > 1
    assert [draft.symbols.tolist() for draft in one] == [draft.symbols.tolist() for draft in two]
    assert [draft.chances.tolist() for draft in one] == [draft.chances.tolist() for draft in two]


def test_drafter() -> None:
    drafter = BlockDrafter(weights(), WORDS, floor=0.0)
    drafter.begin(100)
    long = np.array([*range(30), WORDS.symbols - 1], np.int32)
    slots = [Slot(3, np.empty(0, np.int32)), Slot(9, long[:2]), Slot(1, long)]
    drafts = drafter.propose(slots, [5, 0, 2])
    assert [len(draft) for draft in drafts] == [SHAPE.block, 0, 2]
    again = drafter.propose(slots[2:], [2])[0]
    assert again.symbols.tolist() == drafts[2].symbols.tolist()
    assert drafts[0].symbols.dtype == np.int32
    assert drafts[0].chances.dtype == np.float32
    assert set(drafts[0].symbols.tolist()) <= set(places().listed.tolist())
    drafter.learn(slots, drafts, [0, 0, 0])
    assert drafter.propose([], []) == []


def test_a_drafter_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(ModelError, match="another vocabulary"):
        BlockDrafter(replace(weights(), vocabulary_digest="00"), WORDS)
