"""What a puzzle is."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["GAP", "Arrays", "Puzzle"]

Arrays = tuple[np.ndarray, ...]
GAP = "    ...  # your code"
"""The line of a starting file that is to be replaced."""
_FILE = '''"""Puzzle {number}: {title}.

{statement}

`pyptx puzzle {number}` judges this file, `pyptx puzzle {number} --hint` helps.
"""

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f32, pred, s32, u32


{kernel}'''


@dataclass(frozen=True)
class Puzzle:
    """A task whose answer is a kernel with the name `answer`."""

    number: int
    title: str
    statement: str
    kernel: str
    """The kernel to complete: its text with `GAP`."""
    inputs: Callable[[np.random.Generator], Arrays]
    """Fresh inputs for one trial; sizes may differ from trial to trial."""
    want: Callable[..., np.ndarray]
    """The result for inputs, by NumPy."""
    hints: tuple[str, ...]
    uses: tuple[str, ...] = ()
    """How instructions begin that the answer must have; `|` separates alternatives."""
    tolerance: float = 0.0
    """How far a result may be away, relative to the largest one; 0: exact."""

    @property
    def filename(self) -> str:
        return f"puzzle_{self.number:02}.py"

    def starting_file(self) -> str:
        """The file that a solver begins with."""
        statement = textwrap.fill(" ".join(self.statement.split()), 110, break_on_hyphens=False)
        return _FILE.format(number=self.number, title=self.title, statement=statement, kernel=self.kernel)
