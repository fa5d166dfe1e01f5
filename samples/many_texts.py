"""Compress every paragraph of a text by itself, through a service, all at once: they share the passes of its model.

python samples/many_texts.py HOST:PORT [FILE]
"""

import asyncio
import sys
from pathlib import Path

from speccompact.client import AsyncClient, Connection
from speccompact.errors import SpecCompactError

SECONDS = 600.0


async def main(address: str, path: Path) -> None:
    """Compress, decompress, compare, and print sizes."""
    texts = [part for part in path.read_bytes().split(b"\n\n") if part.strip()]
    async with AsyncClient(Connection(address)) as client:
        packed = await asyncio.gather(*(client.compress_text(text, timeout=SECONDS) for text in texts))
        back = await asyncio.gather(*(client.decompress_text(archive, timeout=SECONDS) for archive in packed))
    assert back == texts
    before, after = sum(map(len, texts)), sum(map(len, packed))
    print(f"{len(texts)} texts of {before} bytes became {after} bytes, {8 * after / before:.3f} bpb")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: many_texts.py HOST:PORT [FILE]")
    file = sys.argv[2] if len(sys.argv) == 3 else Path(__file__).with_name("essay.txt")
    try:
        asyncio.run(main(sys.argv[1], Path(file)))
    except SpecCompactError as error:
        sys.exit(str(error))
