"""Damage an archive on purpose and save what can be saved.

python samples/salvage.py [MODEL]
"""

import io
import sys
from pathlib import Path

import speccompact

DEFAULT = "smollm2-135m"


def main(model: str) -> None:
    """Flip one bit in the last frame of an archive of the essay beside this script."""
    essay = Path(__file__).with_name("essay.txt").read_bytes()
    archive = io.BytesIO()
    # Slots this short make two frames of a text that would be one; the archive is larger for it.
    summary = speccompact.compress_stream(io.BytesIO(essay), archive, model=model, level=1, slot_tokens=16)
    print(f"{summary.content_bytes} bytes in {summary.frames} frames of {summary.model_slots} model slots")

    damaged = bytearray(archive.getvalue())
    last = speccompact.inspect(archive.getvalue()).frames[-1]
    damaged[last.offset + last.compressed_bytes // 2] ^= 0x10

    try:
        speccompact.decompress(bytes(damaged))
    except speccompact.FormatError as error:
        print("decompress refuses:", error)

    rest = io.BytesIO()
    summary = speccompact.decompress_stream(io.BytesIO(damaged), rest, salvage=True)
    print(f"saved {summary.content_bytes} bytes")
    for lost in summary.lost:
        print(f"lost bytes {lost.start} to {lost.stop}: {lost.reason}")


if __name__ == "__main__":
    main(*sys.argv[1:] or [DEFAULT])
