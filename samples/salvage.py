"""Damage an archive on purpose and save what can be saved.

python samples/salvage.py [MODEL]
"""

import io
import sys
from pathlib import Path

import speccompact

DEFAULT = "smollm2-135m"


def main(model: str) -> None:
    """Flip one byte in the middle of an archive of the log beside this script."""
    log = Path(__file__).with_name("service.log").read_bytes()
    archive = io.BytesIO()
    summary = speccompact.compress_stream(io.BytesIO(log), archive, model=model, level=1, slot_tokens=32)
    print(f"{summary.content_bytes} bytes in {summary.frames} frames")

    damaged = bytearray(archive.getvalue())
    damaged[len(damaged) // 2] ^= 0xFF

    try:
        speccompact.decompress(bytes(damaged))
    except speccompact.FormatError as error:
        print("decompress refuses:", error)

    rest = io.BytesIO()
    summary = speccompact.decompress_stream(io.BytesIO(damaged), rest, salvage=True)
    print(f"salvaged {summary.content_bytes} bytes")
    for lost in summary.lost:
        print(f"lost bytes {lost.start} to {lost.stop}: {lost.reason}")


if __name__ == "__main__":
    main(*sys.argv[1:] or [DEFAULT])
