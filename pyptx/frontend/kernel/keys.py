"""What a kernel remembers of its traces, and template parameters as parts of the keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

__all__ = ["PLAIN", "keep", "template_key"]

PLAIN = frozenset((int, str, bool, type(None)))
"""What is equal only to what is the same, of one type."""


def template_key(value: Any) -> Any:
    """A template parameter as part of a cache's key: 1, 1.0 and True are different, 0.0 and -0.0 too, inside of tuples,
    lists, dictionaries, sets and dataclasses as well. Other objects go by their own equality.
    """
    cls = value.__class__
    if cls is int or cls is str or cls is bool or value is None:
        return cls, value
    if isinstance(value, float):
        return cls, value.hex()
    if isinstance(value, (tuple, list)):
        return cls, tuple(template_key(v) for v in cast("Sequence[Any]", value))
    if isinstance(value, dict):
        return cls, tuple((template_key(k), template_key(v)) for k, v in cast("dict[Any, Any]", value).items())
    if isinstance(value, (set, frozenset)):
        return cls, frozenset(template_key(v) for v in cast("frozenset[Any]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return cls, tuple(template_key(getattr(value, f.name)) for f in dataclasses.fields(value))
    array: Any = value
    if hasattr(array, "tobytes") and hasattr(array, "dtype"):  # NumPy's
        return cls, str(array.dtype), getattr(array, "shape", ()), array.tobytes()
    try:
        hash(value)
    except TypeError:
        return cls, repr(value)
    return cls, value


_KEPT = 256
"""Traces that a kernel keeps, of the latest dimensions and template parameters."""


def keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Remember a value, and no more than `_KEPT` of them: the oldest goes."""
    while len(kept) >= _KEPT:
        kept.pop(next(iter(kept), None), None)
    kept[key] = value
