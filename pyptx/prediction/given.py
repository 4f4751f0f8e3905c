"""Arguments that may be one value or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..diagnostics import PTXError

__all__ = ["several"]


def several(name: str, value: object, kind: type, legal: str) -> tuple[Any, ...]:
    """The values of an argument, each of a kind; a single one counts as a sequence of one. PTXError for what is neither."""
    single = isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable)
    found = (value,) if single else tuple(cast("Iterable[object]", value))
    for one in found:
        if not isinstance(one, kind) or isinstance(one, bool):
            raise PTXError(f"{name} must be {legal}, or several of them, not {one!r}")
    return found
