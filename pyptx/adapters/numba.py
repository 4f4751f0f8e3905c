"""Numba-CUDA kernels on the simulator.

kernel = pyptx.numba.compile(add, (float32[::1], float32[::1], int32), arch="sm_90")
kernel.simulate(x, y, n, grid=4, block=128)       # arrays as Numba passes them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..diagnostics import SimulationError, counted
from ..parser import parse_text
from ..simulator import LoadedKernel, Report, load
from .require import required
from .targets import number_of

__all__ = ["NumbaKernel", "compile", "ptx"]

TESTED = "0.30.4"


def ptx(function: Any, signature: Any, *, arch: str = "sm_90", **options: Any) -> str:
    """The PTX of a Python function (not yet decorated) as a kernel. `signature`: a tuple of Numba's argument types; options:
    those of `numba.cuda.compile_ptx`, such as `fastmath=True`. MissingFrontEnd where numba-cuda is not installed.
    """
    cuda: Any = required("numba.cuda", "numba-cuda", TESTED)
    text, _ = cuda.compile_ptx(
        getattr(function, "py_func", function), signature, cc=divmod(number_of(arch), 10), **options
    )
    return text


def compile(function: Any, signature: Any, *, arch: str = "sm_90", **options: Any) -> NumbaKernel:
    """The function as a kernel that takes NumPy arrays. Arguments and errors as for `ptx`."""
    text = ptx(function, signature, arch=arch, **{"lineinfo": True, **options})
    found = next(iter(load(parse_text(text.rstrip("\0") + "\n", "<numba>")).values()))
    return NumbaKernel(found.loaded, found.name, tuple(_dimensions(t) for t in _arguments(signature)))


@dataclass(frozen=True, slots=True)
class NumbaKernel(LoadedKernel):
    """A kernel whose arrays are passed as Numba passes them: a structure, spread over seven or more parameters."""

    dimensions: tuple[int | None, ...] = ()
    """Of each argument: the dimensions of an array, None for a number."""

    def __repr__(self) -> str:
        return f"NumbaKernel({self.name})"

    def simulate(self, *args: object, **options: Any) -> Report:
        """Run it on the CPU, with NumPy arrays and numbers. See `pyptx.simulate`."""
        if len(args) != len(self.dimensions):
            raise SimulationError(f"{self.name} takes {counted(len(self.dimensions), 'argument')}, not {len(args)}")
        values: list[object] = []
        for number, (dimensions, value) in enumerate(zip(self.dimensions, args, strict=True)):
            values += [value] if dimensions is None else _spread(number, dimensions, value)
        return LoadedKernel.simulate(self, *values, **options)


def _spread(number: int, dimensions: int, value: Any) -> list[object]:
    """Memory manager, parent, items, bytes of an item, address, shape, strides (Numba's array structure)."""
    if not isinstance(value, np.ndarray) or value.ndim != dimensions:
        raise SimulationError(f"argument {number} is not a NumPy array of {dimensions} dimensions")
    zero, array = np.int64(0), value
    return [
        zero, zero, np.int64(array.size), np.int64(array.itemsize), array, *map(np.int64, array.shape), *map(np.int64, array.strides),
    ]  # fmt: skip


def _arguments(signature: Any) -> Sequence[Any]:
    return signature if isinstance(signature, (tuple, list)) else signature.args


def _dimensions(kind: Any) -> int | None:
    return getattr(kind, "ndim", None)
