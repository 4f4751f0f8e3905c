"""What a launch may vary: the order of accumulation and the errors of `.approx` functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import LoadedKernel, load

LANES = 128


def unary(instruction: str) -> LoadedKernel:
    return load(f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{{
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.b32 %r2, [%rd1];
    {instruction}
    st.global.b32 [%rd2], %r3;
    ret;
}}
""")["k"]


FUNCTIONS: list[tuple[str, Callable[[np.ndarray], np.ndarray], str, float]] = [
    ("rcp.approx.f32 %r3, %r2;", np.reciprocal, "relative", 2.0**-23),
    ("rcp.approx.ftz.f32 %r3, %r2;", np.reciprocal, "relative", 2.0**-23),
    ("sqrt.approx.f32 %r3, %r2;", np.sqrt, "relative", 2.0**-23),
    ("rsqrt.approx.f32 %r3, %r2;", lambda x: 1 / np.sqrt(x), "relative", 2.0**-22.9),
    ("sin.approx.f32 %r3, %r2;", np.sin, "absolute", 2.0**-20.5),
    ("cos.approx.f32 %r3, %r2;", np.cos, "absolute", 2.0**-20.5),
    ("ex2.approx.ftz.f32 %r3, %r2;", np.exp2, "relative", 2.0**-22.5),
    ("tanh.approx.f32 %r3, %r2;", np.tanh, "relative", 2.0**-11),
    ("div.approx.f32 %r3, 0f40400000, %r2;", lambda x: 3 / x, "relative", 2.0**-22),
    ("div.full.f32 %r3, 0f40400000, %r2;", lambda x: 3 / x, "relative", 2.0**-22),
]
"""Instruction, function in float64, and the error that the manual documents (PTX ISA 9.7.3)."""


@pytest.mark.parametrize(("instruction", "function", "kind", "bound"), FUNCTIONS, ids=[f[0][:16] for f in FUNCTIONS])
def test_approximate_functions(instruction: str, function: Callable, kind: str, bound: float) -> None:
    k = unary(instruction)
    x = np.random.default_rng().uniform(0.2, 3.0, LANES).astype(np.float32)

    def run(**options: object) -> np.ndarray:
        y = np.full(LANES, np.nan, np.float32)
        k.simulate(x, y, grid=1, block=LANES, check=False, **options)
        return y

    exact = function(x.astype(np.float64))
    plain, a, again, b = run(), run(approx="random", seed=5), run(approx="random", seed=5), run(approx="random", seed=6)
    np.testing.assert_array_equal(plain, exact.astype(np.float32))
    np.testing.assert_array_equal(a, again)
    assert (a != plain).any()
    assert (a != b).any()
    allowed = bound * (np.abs(exact) if kind == "relative" else 1) + np.spacing(np.abs(plain))
    assert (np.abs(a - exact) <= allowed).all()


def test_exact_functions_have_no_errors() -> None:
    x = np.random.default_rng().uniform(0.2, 3.0, LANES).astype(np.float32)
    y = np.zeros_like(x)
    unary("sqrt.rn.f32 %r3, %r2;").simulate(x, y, grid=1, block=LANES, approx="random", seed=1)
    np.testing.assert_array_equal(y, np.sqrt(x))


def wmma(ab: str, d: str, types: str, count: int, start: str) -> str:
    """D = A * B + start, 16 x 16 x 16; A and B take `count` registers of a thread."""
    a, b, c = (registers(name, n) for name, n in (("a", count), ("b", count), ("c", 8)))
    constants = "\n".join(f"    mov.b32 %c{i}, {start};" for i in range(8))
    return f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)
{{
    .reg .b32 %a<8>, %b<8>, %c<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [d];
{constants}
    wmma.load.a.sync.aligned.row.m16n16k16.global.{ab} {a}, [%rd1];
    wmma.load.b.sync.aligned.col.m16n16k16.global.{ab} {b}, [%rd2];
    wmma.mma.sync.aligned.row.col.m16n16k16{types} {c}, {a}, {b}, {c};
    wmma.store.d.sync.aligned.row.m16n16k16.global.{d} [%rd3], {c};
    ret;
}}
"""


def registers(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def test_accumulation_order() -> None:
    """Sums of f16 products move by rounding errors only; sums of integers do not move."""
    rng = np.random.default_rng()
    k = load(wmma("f16", "f32", ".f32.f32", 8, "0f3F800000"))["k"]
    a, b = rng.standard_normal((2, 16, 16)).astype(np.float16)

    def run(**options: object) -> np.ndarray:
        d = np.full((16, 16), np.nan, np.float32)
        k.simulate(a, b, d, grid=1, block=32, **options)
        return d

    exact = a.astype(np.float64) @ b.T.astype(np.float64) + 1
    one, again, other = (run(arithmetic="random", seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(run(arithmetic="exact"), exact.astype(np.float32))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert (one != exact.astype(np.float32)).any()
    allowed = 17 * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b).T.astype(np.float64) + 1)
    assert (np.abs(one - exact) <= allowed).all()

    k = load(wmma("s8", "s32", ".s32.s8.s8.s32", 2, "7"))["k"]
    x, y = rng.integers(-128, 128, (2, 16, 16)).astype(np.int8)
    d = np.zeros((16, 16), np.int32)
    k.simulate(x, y, d, grid=1, block=32, arithmetic="random", seed=3)
    np.testing.assert_array_equal(d, x.astype(np.int32) @ y.T.astype(np.int32) + 7)


@pytest.mark.parametrize("option", ["arithmetic", "approx"])
def test_unknown_choices(option: str) -> None:
    x = np.ones(LANES, np.float32)
    with pytest.raises(SimulationError, match=f"{option} must be .* or 'random', not 'fast'"):
        unary("mov.b32 %r3, %r2;").simulate(x, x.copy(), grid=1, block=LANES, **{option: "fast"})
