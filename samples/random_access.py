"""Read a few bytes from an archive; only the frames that hold them are decoded.

python samples/random_access.py [MODEL]
"""

import sys
import tempfile
from pathlib import Path

import speccompact

DEFAULT = "smollm2-135m"


def main(model: str) -> None:
    """Compress the essay beside this script in very short slots, then read two places of it."""
    essay = Path(__file__).with_name("essay.txt")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "essay.txt.spc"
        with essay.open("rb") as source, archive.open("wb") as target:
            # Slots this short make two frames of a text that would be one; the archive is larger for it.
            summary = speccompact.compress_stream(source, target, model=model, level=1, slot_tokens=16)
        print(f"{summary.content_bytes} bytes became {summary.compressed_bytes}", end=" ")
        print(f"in {summary.frames} frames of {summary.model_slots} model slots")

        with speccompact.open(archive) as content:
            content.seek(-300, 2)
            content.readline()  # the rest of a line whose start lies further up
            print("at the end:     ", content.readline().decode().rstrip())
            content.seek(1_500)  # in the other frame, which is decoded now
            content.readline()
            print("from the middle:", content.readline().decode().rstrip())


if __name__ == "__main__":
    main(*sys.argv[1:] or [DEFAULT])
