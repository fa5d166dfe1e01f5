"""Which paths are meant: globs that include and exclude."""

import os
import re
from collections.abc import Sequence


class Selection:
    """A path is selected if it matches an include (or there is none), and no exclude; so are those in its folders.

    A pattern with "/" is matched against the whole path, one without against any component. `*`, `?` and sets like
    `[a-z]` or `[!0-9]` match anything but "/", `**` matches that too.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = [_compiled(pattern) for pattern in include]
        self._exclude = [_compiled(pattern) for pattern in exclude]

    def excludes(self, path: bytes) -> bool:
        """Return whether a path is excluded, and thus everything in it."""
        return any(pattern.search(os.fsdecode(path)) for pattern in self._exclude)

    def takes(self, path: bytes) -> bool:
        """Return whether a path is selected."""
        name = os.fsdecode(path)
        included = not self._include or any(pattern.search(name) for pattern in self._include)
        return included and not self.excludes(path)


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern to search paths with; it ends at the end of a component."""
    anchored = "/" in pattern.rstrip("/")
    parts = re.split(r"(\*\*/?|\*|\?|\[[^/\]]+\])", pattern.strip("/"))
    text = "".join(_piece(part) for part in parts)
    return re.compile(("^" if anchored else "(?:^|/)") + text + r"(?:/|\Z)", re.DOTALL)


def _piece(part: str) -> str:
    if part.startswith("**"):
        return "(?:.*/)?" if part.endswith("/") else ".*"
    if part == "*":
        return "[^/]*"
    if part == "?":
        return "[^/]"
    if part.startswith("[") and part.endswith("]"):
        return _set(part[1:-1])
    return re.escape(part)


def _set(inner: str) -> str:
    """Return characters and ranges of a set as a regular expression; a range that runs backwards holds nothing."""
    negated = len(inner) > 1 and inner.startswith("!")
    text = ""
    for first, last, single in re.findall(r"(.)-(.)|(.)", inner[negated:], re.DOTALL):
        if single or first <= last:
            text += re.escape(single) or f"{re.escape(first)}-{re.escape(last)}"
    if negated:
        return f"[^/{text}]"
    return f"[{text}]" if text else "(?!)"
