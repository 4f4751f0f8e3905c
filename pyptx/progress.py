"""How far long work is, for a person who looks at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

DELAY = 2.0
"""Seconds after which it is shown."""


@contextmanager
def progress(total: int, what: str, unit: str) -> Generator[Callable[[int], object]]:
    """A function that takes how many units are done: tqdm draws a bar where standard error is a terminal and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield _nothing
        return
    shown = getattr(sys.stderr, "isatty", lambda: False)()
    with tqdm(total=total, desc=what, unit=f" {unit}", delay=DELAY, leave=False, disable=not shown) as bar:
        yield bar.update


def _nothing(done: int) -> None:
    """Nobody looks."""
