"""Calls with the parameter names of pyptx 0.1: each such keyword is passed at the position that it had."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from types import ModuleType
from typing import Any

from .names import FORMER

__all__ = ["accept_former_names", "positional", "with_former_names"]


def accept_former_names(namespace: MutableMapping[str, Any], prefix: str = "") -> None:
    """Let the callables of a public namespace take their former names: those of the table that begin with `prefix`.

    Functions of the namespace are replaced there; methods are replaced in their class.
    """
    for path, names in FORMER.items():
        first, *rest = path.removeprefix(prefix).split(".")
        if path.startswith(prefix) and first in namespace:
            _replace(namespace, first, rest, tuple(names.split()))


def _replace(namespace: MutableMapping[str, Any], first: str, rest: Sequence[str], names: tuple[str, ...]) -> None:
    if not rest:
        namespace[first] = with_former_names(namespace[first], names)
        return
    owner = namespace[first]
    for part in rest[:-1]:
        owner = getattr(owner, part)
    if not isinstance(owner, (type, ModuleType)):
        owner = type(owner)
    found = inspect.getattr_static(owner, rest[-1])
    if isinstance(found, staticmethod):
        setattr(owner, rest[-1], staticmethod(with_former_names(found.__func__, names)))
    elif isinstance(owner, ModuleType):
        setattr(owner, rest[-1], with_former_names(found, names))
    else:
        setattr(owner, rest[-1], with_former_names(found, ("self", *names)))


@functools.cache
def with_former_names(function: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """The function, which also takes its positional parameters by these names. A call without them costs one comparison.
    A function that has former names already is returned as it is.
    """
    if hasattr(function, "__former_names__"):
        return function
    former = frozenset(names).difference(inspect.signature(function).parameters)
    title = function.__name__

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not former.isdisjoint(kwargs):
            args, kwargs = positional(title, names, args, kwargs)
        return function(*args, **kwargs)

    wrapper.__former_names__ = names  # pyright: ignore[reportAttributeAccessIssue]
    return wrapper


def positional(
    title: str, names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call with the keywords among `names` at their positions. TypeError where a position is given twice, or
    left out before one that is given.
    """
    rest = dict(kwargs)
    twice = next((name for name in names[: len(args)] if name in rest), None)
    if twice is not None:
        raise TypeError(f"{title}() got two values for {twice}")
    found = list(args)
    for name in names[len(args) :]:
        if name not in rest:
            break
        found.append(rest.pop(name))
    behind = [name for name in names[len(found) :] if name in rest]
    if behind:
        raise TypeError(f"{title}() needs {names[len(found)]} with {behind[0]}")
    return tuple(found), rest
