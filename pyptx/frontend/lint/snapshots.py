"""What the author's names stand for at one moment, and what of it is something else later.

Lists, dictionaries and the author's own objects may change in place, so they are copied, three levels deep; what is in
this package, in the standard library or installed is taken to know what it does.
"""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from gc import get_referents
from itertools import count, cycle
from operator import length_hint
from types import FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple, cast

from ..core.bytecode import stored_globals
from ..core.registers import Reg, RegArray
from ..memory.pointers import Pointer

__all__ = ["bound_names", "changed_pairs", "elements", "is_authors"]

_MANY = (0, 64, 256, 4096)
"""Lists and dictionaries with more elements are left alone: inside of others of two, of one, and on their own."""


class _Object(NamedTuple):
    """An object of the author's and what its attributes were."""

    of: Any
    attributes: dict[str, Any]


class _Iterator(NamedTuple):
    """An iterator of Python numbers and how far it was."""

    of: Any
    state: float | None


def _state(iterator: Any) -> float | None:
    """The number that `itertools.count` comes to next; of other iterators how many elements are left, of `itertools.cycle`
    which of them comes next. None where this Python does not tell.
    """
    if iterator.__class__ is cycle:
        found = _place_in_cycle(iterator)
        return None if found is None else found.coming
    if iterator.__class__ is not count:
        return iterator.__length_hint__()
    text = repr(iterator).partition("(")[2].partition(",")[0].rstrip(")")
    try:
        return int(text)
    except ValueError:
        return float(text)


class _Cycle(NamedTuple):
    """The elements that an `itertools.cycle` has come to know, the number of the one that comes next, and the iterator of
    its first pass; None after that.
    """

    known: list[Any]
    coming: int
    first_pass: Any


def _place_in_cycle(iterator: Any) -> _Cycle | None:
    parts = get_referents(iterator)
    known: list[Any] = next((part for part in parts if part.__class__ is list), [])
    first_pass = next((part for part in parts if part.__class__ is not list and part is not cycle), None)
    if first_pass is not None:
        return _Cycle(known, len(known), first_pass)
    try:
        with warnings.catch_warnings():  # Python 3.12 and 3.13 warn that it will be removed
            warnings.simplefilter("ignore", DeprecationWarning)
            _, (rest,), *_ = iterator.__reduce__()
    except TypeError:  # removed in Python 3.14
        return None
    return _Cycle(known, len(known) - length_hint(rest), None)


def _coming(iterator: Any, state: float) -> Any:
    """What an iterator gave, or will give, when it was there: an element of a cycle, a register of a list; else the state."""
    at = int(state)
    if iterator.__class__ is cycle:
        found = _place_in_cycle(iterator)
        if found is None:
            return state
        known, now, first_pass = found
        if at == now == len(known) and length_hint(first_pass):  # its first pass has not ended
            return _peeked(first_pass, state)
        return known[at % len(known)] if known else state
    if iterator.__class__ in _SEQUENCE_ITERATORS:
        _, (elements,), *_ = iterator.__reduce__()
        element = elements[-at] if 0 < at <= len(elements) else None
        return element if isinstance(element, (Reg, RegArray, Pointer)) else state
    return state


def _peeked(iterator: Any, otherwise: Any) -> Any:
    """What the iterator of a list or tuple gives next."""
    if iterator.__class__ not in _SEQUENCE_ITERATORS:
        return otherwise
    _, (elements,), *_ = iterator.__reduce__()
    return elements[len(elements) - length_hint(iterator)]


_SEQUENCE_ITERATORS = frozenset((type(iter([])), type(iter(()))))
_ITERATORS = frozenset((type(iter(range(0))), type(iter([])), type(iter(()))))


def is_authors(cls: type) -> bool:
    """Whether objects of a class are the author's own."""
    return _attributes(cls) is not None


def bound_names(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Each name and its value, of which lists, dictionaries and objects may change: nested ones too."""
    for name, value in frame.f_locals.items():
        yield name, _snapshot(value, 3)
    stored = stored_globals(frame.f_code)
    for name in frame.f_code.co_names:
        if name in frame.f_globals and name not in frame.f_locals:
            value = frame.f_globals[name]
            if name in stored or is_authors(value.__class__) or (isinstance(value, type) and is_authors(value)):
                yield name, _snapshot(value, 3)


def _snapshot(value: Any, depth: int) -> Any:
    cls = value.__class__
    if cls is type and is_authors(value):
        return _Object(value, {k: v for k, v in vars(value).items() if isinstance(v, (int, float, Reg, RegArray))})
    if cls in _PLAIN or not depth:
        return value
    if cls is count or cls is cycle or cls in _ITERATORS:
        return _Iterator(value, _state(value))
    if cls is dict and len(value) <= _MANY[depth]:
        return {k: _snapshot(v, depth - 1) for k, v in value.items()}
    if (cls is list or cls is tuple or cls is deque) and len(value) <= _MANY[depth]:
        return tuple([_snapshot(v, depth - 1) for v in value])
    if (names := _attributes(cls)) is not None:
        return _Object(value, {k: _snapshot(v, depth - 1) for k, v in _values(value, names)})
    return value


_PLAIN = frozenset((Reg, RegArray, Pointer, int, str, float, bool, type(None), FunctionType, ModuleType, type))


@lru_cache(maxsize=4096)
def _attributes(cls: type) -> tuple[str, ...] | None:
    """The names of the slots, where objects of a class are the author's own with attributes that may change; else
    None.
    """
    if cls is SimpleNamespace:
        return ()
    top = cls.__module__.partition(".")[0]
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    if top == "pyptx" or top in sys.stdlib_module_names or "site-packages" in file:
        return None
    if issubclass(cls, (type, tuple, dict, list, ModuleType)):
        return None
    return tuple(n for c in cls.__mro__ for n in _listed_names(c.__dict__.get("__slots__", ())))


def _listed_names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _values(value: Any, slots: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for name in slots:
        if name != "__dict__" and hasattr(value, name):
            yield name, getattr(value, name)


def changed_pairs(key: str, path: str, old: Any, new: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """(what the code calls it, its path, old and new value) of all that may have changed."""
    if old is new:
        return
    if isinstance(old, _Iterator):
        state = _state(new) if old.of is new else None
        if state is not None and old.state is not None and old.state != state:
            before, now = _coming(new, old.state), _coming(new, state)
            if before is not now:  # else it starts again
                yield key, f"next({path})", before, now
        return
    if isinstance(old, _Object):
        yield from _changed_attributes(key, path, old, new)
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in cast("dict[Any, Any]", old).items():
            if name in new:
                yield from changed_pairs(key, f"{path}[i]", value, new[name])
        return
    first, second = elements(old), elements(new)
    if first is None or second is None:
        yield key, path, old, new
    elif len(first) == len(second):  # else a queue: what was taken out or put in moved the others
        for a, b in zip(first, second, strict=True):
            yield from changed_pairs(key, f"{path}[i]", a, b)


def _changed_attributes(key: str, path: str, old: _Object, new: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """As `changed_pairs`, of an object or class."""
    if isinstance(old.of, type):
        current: dict[str, Any] = {**old.attributes, **vars(new)} if old.of is new else {}
    else:
        names = _attributes(new.__class__)
        current = {} if names is None else dict(_values(new, names))
    called_by_name = old.of is new
    for name, value in old.attributes.items():
        if name in current:
            yield from changed_pairs(f".{name}" if called_by_name else key, f"{path}.{name}", value, current[name])


def elements(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (_Object, _Iterator)):
        return None
    return list(value) if isinstance(value, (list, tuple, deque)) else None
