"""SpecCompact: lossless text compression with a language model. Importing this package loads nothing heavy."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speccompact.api import compress as compress
    from speccompact.api import compress_stream as compress_stream
    from speccompact.api import decompress as decompress
    from speccompact.api import decompress_stream as decompress_stream
    from speccompact.api import inspect as inspect
    from speccompact.api import open as open
    from speccompact.api import verify_stream as verify_stream
    from speccompact.container.limits import Limits as Limits
    from speccompact.errors import ArgumentError as ArgumentError
    from speccompact.errors import DamagedError as DamagedError
    from speccompact.errors import FormatError as FormatError
    from speccompact.errors import LimitError as LimitError
    from speccompact.errors import ModelDamagedError as ModelDamagedError
    from speccompact.errors import ModelError as ModelError
    from speccompact.errors import ModelMissingError as ModelMissingError
    from speccompact.errors import NotSpecCompactError as NotSpecCompactError
    from speccompact.errors import SpecCompactError as SpecCompactError
    from speccompact.errors import TruncatedError as TruncatedError
    from speccompact.errors import UnsupportedError as UnsupportedError
    from speccompact.options import Options as Options
    from speccompact.streams.engine import Engine as Engine
    from speccompact.streams.engine import Engines as Engines
    from speccompact.streams.inspecting import FileInfo as FileInfo
    from speccompact.streams.summary import LostRange as LostRange
    from speccompact.streams.summary import Progress as Progress
    from speccompact.streams.summary import Summary as Summary

_HOMES = {
    "ArgumentError": "speccompact.errors",
    "DamagedError": "speccompact.errors",
    "Engine": "speccompact.streams.engine",
    "Engines": "speccompact.streams.engine",
    "FileInfo": "speccompact.streams.inspecting",
    "FormatError": "speccompact.errors",
    "LimitError": "speccompact.errors",
    "Limits": "speccompact.container.limits",
    "LostRange": "speccompact.streams.summary",
    "ModelDamagedError": "speccompact.errors",
    "ModelError": "speccompact.errors",
    "ModelMissingError": "speccompact.errors",
    "NotSpecCompactError": "speccompact.errors",
    "Options": "speccompact.options",
    "Progress": "speccompact.streams.summary",
    "SpecCompactError": "speccompact.errors",
    "Summary": "speccompact.streams.summary",
    "TruncatedError": "speccompact.errors",
    "UnsupportedError": "speccompact.errors",
    "compress": "speccompact.api",
    "compress_stream": "speccompact.api",
    "decompress": "speccompact.api",
    "decompress_stream": "speccompact.api",
    "inspect": "speccompact.api",
    "open": "speccompact.api",
    "verify_stream": "speccompact.api",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
