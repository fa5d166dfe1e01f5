"""Runtime options: nothing here changes a byte of the output, only time and memory."""

from dataclasses import dataclass
from typing import Literal, get_args

from speccompact.errors import ArgumentError

Kernels = Literal["auto", "torch", "numba"]
DrafterName = Literal["none", "suffix", "block", "model", "hybrid"]
DEFAULT_DRAFTER: DrafterName = "hybrid"
_WITHOUT_FILE = ("none", "suffix")


@dataclass(frozen=True, slots=True)
class Options:
    """How to run.

    Attributes:
        threads: CPU threads; 0 means all cores that the process may use. While a codec works, this also sets how
            many threads torch uses inside an operation, for the whole process.
        device: a torch device name, "cpu" or "cuda" (with an index where there are several).
        kernels: "torch" (reference), "numba" (fused, CPU only) or "auto".
        groups: groups of frames that are decoded at once where a seekable archive is decompressed or verified as a
            whole, each with a part of the threads and each with the memory that one takes. Ranges, salvage and
            `speccompact.open` decode one after the other. In a job of `speccompact.archive`: groups made at once.
        drafter: what proposes tokens while decompressing: "none", "suffix" (what followed the same tokens before),
            "block" (a small network, a block of tokens at once), "model" (a small language model) or "hybrid", for
            each slot the better of suffix and block. Where there are no weights for the vocabulary of an archive,
            suffix stands in, and the statistics say so.
        drafter_file: the weights of the drafter: for block and hybrid a file by `train drafter`, for model the name
            of a model in the store or an exact model file; empty for what ships with the package.
        window: tokens of every slot that one target pass scores while compressing; 0 means automatic.
    """

    threads: int = 0
    device: str = "cpu"
    kernels: Kernels = "auto"
    window: int = 0
    groups: int = 1
    drafter: DrafterName = DEFAULT_DRAFTER
    drafter_file: str = ""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ArgumentError(f"threads is {self.threads}; choose 0 (all) or more")
        if self.groups < 1:
            raise ArgumentError(f"groups is {self.groups}; choose 1 or more")
        if self.window < 0:
            raise ArgumentError(f"window is {self.window}; choose 0 (automatic) or more")
        if self.kernels not in ("auto", "torch", "numba"):
            raise ArgumentError(f'kernels is "{self.kernels}"; choose auto, torch or numba')
        if self.drafter not in get_args(DrafterName):
            raise ArgumentError(f'drafter is "{self.drafter}"; choose {", ".join(get_args(DrafterName))}')
        if self.drafter_file and self.drafter in _WITHOUT_FILE:
            raise ArgumentError(
                f'drafter_file is "{self.drafter_file}", but the drafter {self.drafter} has no weights; leave it out, '
                f"or choose block, model or hybrid"
            )
