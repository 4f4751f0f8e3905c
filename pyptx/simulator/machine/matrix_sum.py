"""The one place where matrix instructions multiply: C + A B of mma, wmma, wgmma and tcgen05.mma, as the launch's `Arithmetic` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...diagnostics import PTXError
from ...numerics import floating, formats
from ...numerics.tensor_cores.native import Places
from ...numerics.tensor_cores.specials import NAN
from ...numerics.tensor_cores.sums import Factors, Sum, scaled, sum_for

if TYPE_CHECKING:
    from .machine import Machine
    from .program import Inst

Array = Any


@dataclass(frozen=True)
class MatrixSum:
    """The sum of one matrix instruction in one launch."""

    machine: Machine
    inst: Inst
    d: str
    hardware: Sum | None
    """How the hardware sums; None for integers, which are exact."""
    clamp: bool = False

    def __call__(self, a: Array, b: Array, c: Array, factors: Factors = None, lane: int = 0) -> Array:
        """(..., M, K), (..., K, N) and bits of D's type (..., M, N) -> bits of D's type. A and B are numbers; A of a sparse
        instruction has its zeros. `lane` is the first of those that execute it.
        """
        if self.hardware is None:
            return self._integers(a, b, c)
        sums = self.machine.arithmetic.sums
        if self.inst.rounding != "rn" or (sums == "random" and self.d == "f64"):
            result = self._chain(a, b, c)
        elif sums == "random":
            result = self._shuffled(*scaled(a, b, factors), c)
        else:
            result = (self.hardware if sums == "hardware" else self.hardware.exact)(a, b, c, factors)
        for observer in self.machine.observers:
            observer.summed(self.inst, lane, self.hardware, a, b, c, factors, result)
        return result

    def in_place(self, a: Array, b: Array, words: Array, places: Places, factors: Factors = None) -> bool:
        """The same for (M, K) and (K, N), with C and D at `places` of an array, if that is what native code does; whether it did."""
        if self.hardware is None or self.machine.arithmetic.sums != "hardware" or self.machine.hears("summed"):
            return False
        return self.hardware.in_place(a, b, words, places, factors)

    def _integers(self, a: Array, b: Array, c: Array) -> Array:
        total = (a @ b).astype(np.int64) + np.ascontiguousarray(c).view(np.int32)  # below 2**24: exact in float32
        return (np.clip(total, -(1 << 31), (1 << 31) - 1) if self.clamp else total).astype(np.uint32)

    def _order(self, depth: int) -> Array:
        """The order in which products are added."""
        arithmetic = self.machine.arithmetic
        return arithmetic.random.permutation(depth) if arithmetic.sums == "random" else np.arange(depth)

    def _shuffled(self, a: Array, b: Array, c: Array) -> Array:
        """Groups of products, rounded to f32 after each, and C."""
        order = self._order(a.shape[-1])
        size = int(self.machine.arithmetic.random.choice([1, 2, 4, 8]))
        x, y = a.astype(np.float64), b.astype(np.float64)
        total = np.zeros(c.shape, np.float32)
        for first in range(0, len(order), size):
            group = order[first : first + size]
            total += (x[..., group] @ y[..., group, :]).astype(np.float32)
        bits = formats.encode(total.astype(np.float64) + formats.decode(c, self.d), self.d)
        bits[np.isnan(formats.decode(bits, self.d))] = NAN[self.d]
        return bits

    def _chain(self, a: Array, b: Array, c: Array) -> Array:
        """f64 by fma along K, from C on."""
        total = np.ascontiguousarray(c).view(np.float64)
        rounding: Any = self.inst.rounding
        for i in self._order(a.shape[-1]):
            left, right = np.broadcast_arrays(a[..., i : i + 1], b[..., i : i + 1, :])
            left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
            total = floating.fma(left, right, total, rounding=rounding)
        return total.view(np.uint64)


def matrix_sum(
    machine: Machine, inst: Inst, instruction: str, types: tuple[str, str, str], shape: tuple[int, int], *,
    sparse: bool = False, block: int = 0, scale: str = "", packed: bool = False, clamp: bool = False,
) -> MatrixSum:  # fmt: skip
    """The sum of an instruction; the arguments are those of `sum_for`. SimulationError if the architecture does not have it."""
    if types[0] == "s32":
        return MatrixSum(machine, inst, "s32", None, clamp)
    arch = machine.arithmetic.arch
    try:
        how = sum_for(instruction, types, shape, arch, sparse=sparse, block=block, scale=scale, packed=packed)
    except PTXError as error:
        machine.fault(inst, "; ".join(d.message for d in error.diagnostics))
    return MatrixSum(machine, inst, types[0], how)
