"""Elementary functions without fast-math flags: at most 0.501 ulp (rsqrt 1.5) off float64 or exact references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .from_mlir import applied

RNG = np.random.default_rng(8)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.1754942e-38, 3.4028235e38])


def elementwise(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([function(float(v)) for v in x])


def spread(low: float, high: float) -> np.ndarray:
    """Numbers of both signs with every exponent in between, and some evenly spaced."""
    powers = 2.0 ** RNG.uniform(math.log2(low), math.log2(high), 380) * RNG.choice([-1, 1], 380)
    return np.concatenate([powers, np.linspace(-high, high, 100) if high < 1000 else powers[:100], SPECIAL])


FUNCTIONS: list[tuple[str, Any, np.ndarray]] = [
    ("exp", np.exp, np.append(spread(1e-10, 105), [88.0, 88.72, 88.73, -103.9, -87.4])),
    ("exp2", np.exp2, spread(1e-10, 151)),
    ("expm1", np.expm1, np.append(spread(1e-10, 100), [0.1, -0.1])),
    ("log", np.log, np.append(np.abs(spread(1e-40, 1e38)), [1 + 2**-23, 1 - 2**-24, 0.70710677, 0.7071068, -2.0])),
    ("log2", np.log2, np.append(np.abs(spread(1e-40, 1e38)), 2.0 ** np.arange(-149, 128))),
    ("log10", np.log10, np.append(np.abs(spread(1e-40, 1e38)), [10.0, 100.0, 1000.0])),
    ("log1p", np.log1p, np.append(spread(1e-20, 1.0), [0.01, -0.01, 1e30])),
    ("sin", np.sin, np.append(spread(1e-20, 3e38), np.arange(1, 60) * (math.pi / 4))),
    ("cos", np.cos, np.append(spread(1e-20, 3e38), np.arange(1, 60) * (math.pi / 4))),
    ("tan", np.tan, np.append(spread(1e-20, 3e38), np.arange(1, 60) * (math.pi / 4))),
    ("tanh", np.tanh, spread(1e-20, 12)),
    ("sinh", np.sinh, spread(1e-20, 91)),
    ("cosh", np.cosh, spread(1e-20, 91)),
    ("erf", elementwise(math.erf), np.append(spread(1e-20, 5), [0.5, -0.5, 0.49999997])),
    ("erfc", elementwise(math.erfc), np.append(spread(1e-20, 11), [0.5, 0.4, 10.05])),
    ("rsqrt", lambda x: 1 / np.sqrt(x), np.abs(spread(1e-40, 1e38))),
]


def ulps(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance of f32 numbers from float64 ones, in units in the last place of the exact one."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(np.float32)
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    unit = np.spacing(np.maximum(np.abs(rounded), np.float32(1e-45)), dtype=np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.abs(found.astype(np.float64) - exact) / unit
    return float(np.max(np.where(same, 0.0, off)))


@pytest.mark.parametrize(("name", "function", "numbers"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_without_flags_functions_are_accurate(name: str, function: Any, numbers: np.ndarray) -> None:
    x = numbers.astype(np.float32)
    found = applied(f"      %r = math.{name} %x0 : f32", "f32", ("f32", x))
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
    assert ulps(found, exact) <= (1.5 if name == "rsqrt" else 0.501)
    zeros = (exact == 0) & (x == 0)
    assert np.array_equal(np.signbit(found[zeros]), np.signbit(exact[zeros]))


def test_powers() -> None:
    """As C's pow: float64's, which is that, rounded."""
    special = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 2.0, -3.0, 3.0, 1e-45, -2.5])
    a, b = map(np.ravel, np.meshgrid(special, special))
    x = np.concatenate([a, 2.0 ** RNG.uniform(-30, 30, 300)]).astype(np.float32)
    y = np.concatenate([b, RNG.uniform(-6, 6, 300)]).astype(np.float32)
    found = applied("      %r = math.powf %x0, %x1 : f32", "f32", ("f32", x), ("f32", y))
    exact = np.array([float(np.float_power(p, q)) for p, q in zip(x, y, strict=True)])
    assert ulps(found, exact) <= 0.501
    assert np.array_equal(np.signbit(found[~np.isnan(exact)]), np.signbit(exact[~np.isnan(exact)]))


@pytest.mark.parametrize("flag", ["afn", "fast"])
def test_approximations_need_a_flag(flag: str) -> None:
    from .from_mlir import RETURN, kernel_of, lowered, module_of

    names = ("exp", "log", "sin", "cos", "tanh", "rsqrt", "exp2", "log2", "tan", "log10")
    for flags, expected in ((f" fastmath<{flag}>", True), (" fastmath<contract>", False), ("", False)):
        lines = "\n".join(
            f"    %{n} = math.{n} %x{flags} : f32\n    memref.store %{n}, %out[] : memref<f32>" for n in names
        )
        ptx = lowered(module_of(kernel_of("%x: f32, %out: memref<f32>", f"{lines}\n{RETURN}")))
        assert (".approx." in ptx) == expected
        assert (".f64" in ptx) != expected
