"""What a process remembers of the texts and instructions it has seen, so that the next one costs less.

All of it is forgotten at once when it has grown beyond a limit, and only before a text is read or a kernel is traced. A memo
is a dictionary to its readers; each new entry is counted.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, ClassVar, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST = 400_000
"""Entries of all memos together."""
CHARACTERS = 200
"""An entry with a long text counts as one more for so many characters of it."""


class Memo(dict[K, V]):
    """A dictionary that `forget` empties. What it says must follow from its keys."""

    __slots__ = ("__weakref__",)
    all: ClassVar[list[weakref.ref[Memo[Any, Any]]]] = []
    entries: ClassVar[int] = 0
    """Made since they were emptied, in all memos and inside of their entries."""

    def __init__(self) -> None:
        super().__init__()
        Memo.all.append(weakref.ref(self))

    def __setitem__(self, key: K, value: V) -> None:
        Memo.entries += 1
        super().__setitem__(key, value)


class Numbers(Memo[K, int]):
    """A number for each key, to be part of another key. None is given twice, whatever is forgotten."""

    __slots__ = ()
    _next: ClassVar[itertools.count[int]] = itertools.count()

    def __missing__(self, key: K) -> int:
        found = self[key] = next(Numbers._next)
        return found


def count_entry(characters: int = 0) -> None:
    """Count an entry that is kept inside another one, and the text in it."""
    Memo.entries += 1 + characters // CHARACTERS


def trim() -> None:
    """Forget everything if it is too much."""
    if Memo.entries > MOST:
        forget()


def forget() -> None:
    """Empty all memos."""
    alive: list[weakref.ref[Memo[Any, Any]]] = []
    for reference in Memo.all:
        memo = reference()
        if memo is not None:
            memo.clear()
            alive.append(reference)
    Memo.all[:] = alive
    Memo.entries = 0
