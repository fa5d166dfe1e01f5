"""What to do about damage, said once, at the door: a salvage goes through the same errors and needs no advice."""

import contextlib
from collections.abc import Iterator

from speccompact.container.source import Source
from speccompact.errors import DamagedError, NotSpecCompactError, TruncatedError

_ADVICE = "decompress --salvage writes what is good"


@contextlib.contextmanager
def advising(source: Source) -> Iterator[None]:
    """Add the way out to an error of damage, where `source` has more than the frame that is hurt.

    Raises:
        FormatError: the same class, with more words.
    """
    try:
        yield
    except (DamagedError, NotSpecCompactError, TruncatedError) as error:
        if not source.several:
            raise
        raise type(error)(f"{error}; {_ADVICE}") from error
