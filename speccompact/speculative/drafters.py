"""Drafters by name."""

from speccompact.options import DrafterName
from speccompact.speculative.controller import Controller
from speccompact.speculative.drafter import NoDrafter
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.suffix import SuffixDrafter


def make_drafting(name: DrafterName) -> Drafting:
    """Return a drafter of this name, with a controller; `hybrid` is the best that there is."""
    if name == "none":
        return Drafting(NoDrafter(), name)
    return Drafting(SuffixDrafter(), "suffix", Controller())
