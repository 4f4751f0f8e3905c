"""What PTX leaves open in arithmetic: the order in which a matrix multiplication accumulates, and the error of `.approx`
functions. By default both have one answer; a launch may ask for random ones, to find code that relies on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
SUMS = ("hardware", "exact", "random")
APPROX = ("rounded", "random")


class Arithmetic:
    """The choices of one launch. `sums`: `hardware` sums the products of an instruction as the tensor cores of the architecture
    `arch` do, `exact` rounds the true sum once, `random` adds in groups of random size and order, rounding to f32 after each
    (PTX ISA 9.7.16: the order is not specified). `approx`: `rounded` gives the correctly rounded value, `random` another one within half the documented
    error. Random choices follow from `seed`.
    """

    def __init__(
        self, sums: str = "hardware", approx: str = "rounded", seed: int = 0, target: str = "", arch: str | None = None
    ):
        self.sums = sums
        self.arch = arch or target
        """The architecture whose tensor cores sum."""
        self.random = np.random.default_rng(abs(seed))
        self.noise = self.random if approx == "random" else None
        """Where the errors of `.approx` functions come from; None for none."""
