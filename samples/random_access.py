"""Read a few bytes from the middle of an archive; only the frames that hold them are decoded.

python samples/random_access.py [MODEL]
"""

import sys
import tempfile
from pathlib import Path

import speccompact

DEFAULT = "smollm2-135m"


def main(model: str) -> None:
    """Compress the log beside this script in short slots, then read two places of it."""
    log = Path(__file__).with_name("service.log")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "service.log.spc"
        with log.open("rb") as source, archive.open("wb") as target:
            # Short slots make small frames: quicker to reach, a little larger on disk.
            summary = speccompact.compress_stream(source, target, model=model, level=1, slot_tokens=32)
        print(f"{summary.content_bytes} bytes in {summary.frames} frames")

        with speccompact.open(archive) as content:
            content.seek(12_000)
            content.readline()  # the rest of a line whose start lies further up
            print("from the middle:", content.readline().decode().rstrip())
            content.seek(-200, 2)
            print("at the end:     ", content.readlines()[-1].decode().rstrip())


if __name__ == "__main__":
    main(*sys.argv[1:] or [DEFAULT])
