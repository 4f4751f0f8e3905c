"""`ptx.math` against float64 in ulp: dense over the range, at random bits, at special arguments; what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, Tile, kernel, ptx, reg, simulate
from pyptx.kernel import Kernel
from pyptx.types import bf16, f32, f64
from tests.frontend.tracing import assembled, ptx_of

_erf: Callable[[np.ndarray], np.ndarray] = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z / (1 + z), 1 / (1 + z))


FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, tuple[float, float]]] = {
    "exp": (np.exp, 1.0, (-110.0, 95.0)),
    "log": (np.log, 1.0, (0.0, 10.0)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2.0, (0.0, 10.0)),
    "tanh": (np.tanh, 2.0, (-11.0, 11.0)),
    "sigmoid": (_sigmoid, 3.0, (-110.0, 30.0)),
    "erf": (_erf, 2.0, (-5.0, 5.0)),
}
"""The function, its error in ulp as documented, the range where it is not constant."""
SPECIAL = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1.17549435e-38], np.float32)  # fmt: skip


def of(function: str, **options: Any) -> Kernel:
    @kernel(arch="sm_75", in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=lambda N: -(-N // 256), block=256)
    def mapped(x: Any, out: Any, *, N: Any = None) -> None:
        i = ptx.special.ctaid.x() * 256 + ptx.special.tid.x()
        ptx.ret(pred=i >= N)
        (ptx.pointer(out) + i).store(getattr(ptx.math, function)((ptx.pointer(x) + i).load(), **options))

    return mapped


def arguments(low: float, high: float) -> np.ndarray:
    rng = np.random.default_rng()
    dense = np.linspace(low, high, 40_000, dtype=np.float32)
    bits = rng.integers(0, 2**32, 40_000, dtype=np.uint32).view(np.float32)
    near_one = (np.float32(1).view(np.uint32) + np.arange(-2000, 2000)).astype(np.uint32).view(np.float32)
    return np.concatenate([dense, bits, near_one, SPECIAL])


def in_ulp(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The distance in units of the last place of the true result, 2^-149 for subnormal ones; 2^128 stands for infinity."""
    _, exponent = np.frexp(want)
    wide = got.astype(np.float64)
    finite = np.where(np.isinf(wide), np.copysign(2.0**128, wide), wide)
    return np.abs(finite - want) / np.ldexp(1.0, np.maximum(exponent - 24, -149))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_in_ulp(function: str) -> None:
    exact, bound, (low, high) = FUNCTIONS[function]
    mapped = of(function)
    assembled(mapped, N=100)
    x = arguments(low, high)
    out = np.empty_like(x)
    report = simulate(mapped, x[:256], out[:256])
    assert report.findings == []
    out = mapped(x)
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
        rounded = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    beyond = np.abs(want) >= 2.0**128
    assert np.array_equal(out[beyond], rounded[beyond])
    ordinary = np.isfinite(want) & (want != 0) & ~beyond
    errors = in_ulp(out[ordinary], want[ordinary])
    assert errors.max() <= bound, x[ordinary][errors.argmax()]
    assert np.array_equal(np.signbit(out[want == 0]), np.signbit(rounded[want == 0]))


FAST = {
    "exp": lambda x, w: np.abs(w) * (2**-22.5 + np.abs(x) * 2**-23.3) + 2.0**-126,
    "log": lambda x, w: np.where((x > 0.5) & (x < 2), 2**-22.5, np.abs(w) * 2**-21.4) + np.where(x < 2.0**-126, np.inf, 0),
    "rsqrt": lambda x, w: np.abs(w) * 2**-22.9 + np.where(x < 2.0**-126, np.inf, 0),
    "tanh": lambda x, w: np.abs(w) * 2**-11,
    "sigmoid": lambda x, w: 2**-11.9,
}  # fmt: skip
"""The documented error for an argument and the true result."""


@pytest.mark.parametrize("function", FAST)
def test_errors_of_the_fast_ones(function: str) -> None:
    """With the errors that the PTX manual allows the approximate instructions."""
    exact, _, (low, high) = FUNCTIONS[function]
    mapped = of(function, fast=True)
    assembled(mapped, N=100)
    x = np.linspace(max(low, -87), min(high, 88), 20_000, dtype=np.float32)[1:]
    for approx in ("rounded", "random"):
        out = np.empty_like(x)
        simulate(mapped, x, out, check=False, approx=approx)
        want = exact(x.astype(np.float64))
        assert (np.abs(out - want) <= FAST[function](x.astype(np.float64), want)).all()


def test_what_is_refused() -> None:
    for value, message in (
        (lambda: reg.scalar(f64), "math.exp takes an f32 register, not a register of f64"),
        (lambda: reg.scalar(bf16), r"ptx.cvt\(f32, bf16, v, x\)"),
        (lambda: 1.0, "not float 1.0"),
    ):
        with pytest.raises(PTXError, match=message):
            ptx_of(lambda: ptx.math.exp(value()) and None)  # noqa: B023
