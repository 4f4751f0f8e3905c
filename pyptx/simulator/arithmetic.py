"""What PTX leaves open in arithmetic: the order in which a matrix multiplication accumulates, and the error of `.approx`
functions. By default both have one answer; a launch may ask for random ones, to find code that relies on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..diagnostics import SimulationError

Array = Any
ACCUMULATE = ("exact", "random")
APPROX = ("rounded", "random")


class Arithmetic:
    """The choices of one launch. `accumulate`: `exact` sums the products of an instruction at full precision, `random`
    in groups of random size and order, rounding to the accumulator's type after each (PTX ISA 9.7.16: the order is not
    specified). `approx`: `rounded` gives the correctly rounded value, `random` another one within half the documented
    error. Random choices follow from `seed`.
    """

    def __init__(self, accumulate: str = "exact", approx: str = "rounded", seed: int = 0):
        for name, value, known in (("accumulate", accumulate, ACCUMULATE), ("approx", approx, APPROX)):
            if value not in known:
                raise SimulationError(f"{name} is {' or '.join(known)}, not {value!r}")
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
