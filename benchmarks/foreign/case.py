"""A kernel with the arguments of one launch and what it should give, as files: the generators write them, the benchmark
reads them. Nothing but the standard library and NumPy, because generators run in other Pythons.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = Any


@dataclass
class Case:
    """Arguments are bytes; `pointers` and `maps` say what of them stands for arrays and tensor maps."""

    name: str
    ptx: str
    entry: str
    grid: list[int]
    block: list[int]
    cluster: list[int] | None = None
    smem: int = 0
    cooperative: bool = False
    arguments: list[str] = field(default_factory=list)
    """In hexadecimal."""
    pointers: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(argument, offset in it, array, bytes into the array)."""
    maps: list[tuple[int, int, int, dict[str, Any]]] = field(default_factory=list)
    """(argument, offset in it, array, fields as cuTensorMapEncodeTiled takes them)."""
    tolerance: float = 1e-5
    """Of the norm of the error to the norm of the result."""


def save(folder: Path, case: Case, arrays: list[Array], expected: dict[int, Array], kinds: dict[int, str]) -> None:
    """`expected`: array number -> what it holds after the launch; `kinds`: how to read bytes that NumPy has no type for."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {f"array{i}": a for i, a in enumerate(arrays)} | {f"expected{i}": a for i, a in expected.items()}
    np.savez(folder / f"{case.name}.npz", **values)
    text = json.dumps({**asdict(case), "kinds": kinds, "count": len(arrays)})
    (folder / f"{case.name}.json").write_text(text)
