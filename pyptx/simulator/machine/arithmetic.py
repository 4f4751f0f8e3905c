"""What PTX leaves open in arithmetic: the order in which a matrix multiplication accumulates, and the error of `.approx`
functions. By default both have one answer; a launch may ask for random ones, to find code that relies on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...diagnostics import PTXError, SimulationError
from ...numerics.tensor_cores.values import Sum as HardwareSum
from ...numerics.tensor_cores.values import sum_for

Array = Any
ACCUMULATE = ("exact", "hardware", "random")
APPROX = ("rounded", "random")


class Arithmetic:
    """The choices of one launch. `accumulate`: `exact` sums the products of an instruction at full precision, `hardware` as the
    tensor cores of the architecture `arch` do, `random` in groups of random size and order, rounding to the accumulator's type after each (PTX ISA 9.7.16: the order is not
    specified). `approx`: `rounded` gives the correctly rounded value, `random` another one within half the documented
    error. Random choices follow from `seed`.
    """

    def __init__(self, accumulate: str = "exact", approx: str = "rounded", seed: int = 0, arch: str = ""):
        for name, value, known in (("accumulate", accumulate, ACCUMULATE), ("approx", approx, APPROX)):
            if value not in known:
                raise SimulationError(f"{name} is {' or '.join(known)}, not {value!r}")
        self.arch = arch
        self._arch = arch if accumulate == "hardware" else ""
        self._random = np.random.default_rng(abs(seed))
        self.noise = self._random if approx == "random" else None
        """Where the errors of `.approx` functions come from; None for none."""
        self._shuffles = accumulate == "random"

    def order(self, depth: int) -> Array:
        """The order in which `depth` products are added: ascending by default."""
        return self._random.permutation(depth) if self._shuffles else np.arange(depth)

    def product(self, x: Array, y: Array, kind: str) -> Array:
        """x @ y: (..., m, k) times (..., k, n), for an accumulator of type `kind`. Integers are exact in any order."""
        if not self._shuffles or kind == "s32":
            return x @ y
        depth = x.shape[-1]
        order = self.order(depth)
        size = int(self._random.choice([1, 2, 4, 8]))
        total = np.zeros((*x.shape[:-1], y.shape[-1]), np.float32)
        for first in range(0, depth, size):
            group = order[first : first + size]
            total += (x[..., group].astype(np.float64) @ y[..., group, :].astype(np.float64)).astype(np.float32)
        return total

    def sum_of(self, instruction: str, types: tuple[str, str, str], k: int, sparse: bool = False) -> HardwareSum | None:
        """How the hardware sums an instruction of depth `k`, for the types of D, A and B; None where the launch asks for another sum or
        the types have none of their own. The sum takes A with the zeros of a sparse one.
        """
        if not self._arch:
            return None
        try:
            return sum_for(instruction, *types, k, self._arch, sparse)
        except PTXError as error:
            raise SimulationError(error.diagnostics) from None

    def summed(
        self, instruction: str, types: tuple[str, str, str], x: Array, y: Array, z: Array, sparse: bool = False
    ) -> Array:
        """x @ y + z as the hardware sums it, in float64; None if `sum_of` is."""
        how = self.sum_of(instruction, types, x.shape[-1], sparse)
        return None if how is None else how.values(x, y, z)
