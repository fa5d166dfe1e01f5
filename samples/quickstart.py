"""Compress a text in memory, look at the archive, and take it apart again.

python samples/quickstart.py [MODEL]
"""

import sys
from pathlib import Path

import speccompact

DEFAULT = "smollm2-135m"


def main(model: str) -> None:
    """Compress the first paragraph of the essay beside this script."""
    essay = Path(__file__).with_name("essay.txt").read_bytes()
    text = essay[: essay.index(b"\n\nThere are two ways")]

    packed = speccompact.compress(text, model=model)
    print(f"{len(text)} bytes of text became {len(packed)}: {8 * len(packed) / len(text):.3f} bits per byte")

    restored = speccompact.decompress(packed)  # the archive says which model it needs
    print("the same bytes came back" if restored == text else "something is badly wrong")


if __name__ == "__main__":
    main(*sys.argv[1:] or [DEFAULT])
