"""Inputs for kernels whose meaning is not known: random ones, and those that programs get wrong (NaN, infinities, denormals, 0, -1, the
smallest integer, sizes that no vector divides, loops that run no rounds, sizes next to the threads of the launch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..types import from_name

__all__ = ["Case", "cases"]

Array = Any
_LAYOUTS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2)}
"""Bits of exponent and mantissa."""
SMALLEST = -(1 << 63)
"""Stands for the smallest integer of any type."""
MOST_SIZES = 4
"""Parameters that get cases of their own."""
_MOST = 64
"""Random integers are smaller: most are sizes or indices."""


@dataclass(frozen=True)
class Case:
    """One kind of input. `number`: what every integer parameter is (None: a random one); `special`: arrays and scalars of floats
    (`"floats"`), of integers (`"integers"`) or of all (`"bits"`) have hostile values. `only`: the integer parameter that is `number`, where
    the others are 1.
    """

    name: str
    number: int | None = None
    special: str = ""
    seed: int = 0
    only: str = ""

    def generator(self) -> np.random.Generator:
        """Random numbers that are the same each time."""
        return np.random.default_rng([self.seed, *self.name.encode()])

    def scalar(self, rng: np.random.Generator, type: str, name: str = "") -> bytes:
        """The bytes of a scalar parameter of this name."""
        size = from_name(type).bytes
        if type in _LAYOUTS:
            return self.array(rng, type, 1).tobytes()
        if self.number == SMALLEST:
            return (1 << 8 * size - 1).to_bytes(size, "little")
        number = 1 if self.only and name != self.only else self.number
        value = int(rng.integers(1, _MOST + 1)) if number is None else number
        return (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def array(self, rng: np.random.Generator, type: str, count: int) -> Array:
        """Elements of an array, as their bits."""
        size = from_name(type).bytes
        bits = np.dtype(f"u{size}")
        if self.special == "bits":
            return rng.integers(0, 256, count * size, np.uint8).view(bits)
        if type in _LAYOUTS:
            return _special_floats(rng, type, count) if self.special == "floats" else _random_floats(rng, type, count)
        if self.special == "integers":
            top = 1 << 8 * size - 1
            return rng.choice(np.array([0, 1, 2 * top - 1, top, top - 1, 2], bits), count)
        return rng.integers(0, _MOST, count).astype(bits)


def cases(
    count: int, seed: int, threads: int = _MOST, sizes: Sequence[str] = (), bound: str = "the threads"
) -> list[Case]:
    """`count` cases with random inputs, the hostile ones, and those where every thread of a launch of so many has an element; `bound` says
    in names what there are `threads` of. `sizes`: the integer parameters; where there are several, each is the number of threads alone as
    well, for all of them may be more than arrays have.
    """
    around = {threads: bound, threads - 1: f"one less than {bound}", threads + 1: f"one more than {bound}"}
    return [
        *(Case(f"random {n}", None if n else _MOST, seed=seed) for n in range(count)),
        Case("integers are 61, which no vector divides", _MOST - 3, seed=seed),
        Case("integers are 1", 1, seed=seed),
        Case("integers are 0", 0, seed=seed),
        Case("integers are -1", -1, seed=seed),
        Case("integers are the smallest", SMALLEST, seed=seed),
        Case("NaN, infinities, denormals and zeros", _MOST, "floats", seed),
        Case("arrays of 0, -1, and the smallest and largest integer", _MOST, "integers", seed),
        Case("random bits", _MOST, "bits", seed),
        *(Case(f"integers are {n}, {words}", n, seed=seed) for n, words in around.items() if sizes),
        *(
            Case(f"{name} is {threads}, {bound}, and other integers are 1", threads, seed=seed, only=name)
            for name in sizes[:MOST_SIZES]
            if len(sizes) > 1
        ),
    ]


def _random_floats(rng: np.random.Generator, type: str, count: int) -> Array:
    from ..runtime.arguments import NUMPY_TYPES

    found = rng.standard_normal(count).astype(np.float32 if type != "f64" else np.float64).astype(NUMPY_TYPES[type])
    return found.view(f"u{found.dtype.itemsize}")


def _special_floats(rng: np.random.Generator, type: str, count: int) -> Array:
    """Values at the ends of each range, with both signs."""
    exponent, mantissa = _LAYOUTS[type]
    infinity, one = ((1 << exponent) - 1) << mantissa, ((1 << exponent - 1) - 1) << mantissa
    smallest = 1 << mantissa  # the smallest normal number
    values = [0, 1, smallest - 1, smallest, one, one + 1, infinity - 1, infinity, infinity | 1 << mantissa - 1]
    signed = [v | sign << exponent + mantissa for v in values for sign in (0, 1)]
    return rng.choice(np.array(signed, f"u{(1 + exponent + mantissa) // 8}"), count)
