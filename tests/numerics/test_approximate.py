import numpy as np
import pytest

from pyptx.numerics import approximate, half

INF, NAN = np.inf, np.nan
TINY = np.float32(1e-40)
# function: inputs and results without and with ftz, from the tables of the manual
SPECIAL = {
    "rcp": (
        [-INF, -0.0, 0.0, INF, NAN, TINY, 4.0],
        [-0.0, -INF, INF, 0.0, NAN, INF, 0.25],
        [-0.0, -INF, INF, 0.0, NAN, INF, 0.25],
    ),
    "sqrt": (
        [-INF, -1.0, -0.0, 0.0, INF, NAN, 4.0],
        [NAN, NAN, -0.0, 0.0, INF, NAN, 2.0],
        [NAN, NAN, -0.0, 0.0, INF, NAN, 2.0],
    ),
    "rsqrt": (
        [-INF, -1.0, -0.0, 0.0, INF, NAN, 4.0],
        [NAN, NAN, -INF, INF, 0.0, NAN, 0.5],
        [NAN, NAN, -INF, INF, 0.0, NAN, 0.5],
    ),
    "sin": ([-INF, -0.0, 0.0, INF, NAN], [NAN, -0.0, 0.0, NAN, NAN], [NAN, -0.0, 0.0, NAN, NAN]),
    "cos": ([-INF, -0.0, 0.0, INF, NAN], [NAN, 1.0, 1.0, NAN, NAN], [NAN, 1.0, 1.0, NAN, NAN]),
    "lg2": (
        [-INF, -1.0, -0.0, 0.0, INF, NAN, 8.0, TINY],
        [NAN, NAN, -INF, -INF, INF, NAN, 3.0, np.log2(float(TINY))],
        [NAN, NAN, -INF, -INF, INF, NAN, 3.0, -INF],
    ),
    "ex2": (
        [-INF, -0.0, 0.0, INF, NAN, 3.0, TINY, -127.0],
        [0.0, 1.0, 1.0, INF, NAN, 8.0, 1.0, 2.0**-127],
        [0.0, 1.0, 1.0, INF, NAN, 8.0, 1.0, 0.0],
    ),
    "tanh": ([-INF, -TINY, -0.0, 0.0, TINY, INF, NAN], [-1.0, -TINY, -0.0, 0.0, TINY, 1.0, NAN], None),
}
FREE = (4.0, 8.0, 3.0, -127.0)
"""Inputs of `SPECIAL` that are not in the manual's tables: the results may have errors."""


def bits(values) -> list[int]:
    r = np.array(values, np.float32)
    out = r.view(np.uint32)
    out[np.isnan(r)] = 0x7FFFFFFF
    return out.tolist()


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name):
    inputs, plain, flushed = SPECIAL[name]
    x = np.array(inputs, np.float32)
    function = getattr(approximate, name)
    assert function(x).view(np.uint32).tolist() == bits(plain)
    if flushed is not None:
        assert function(x, ftz=True).view(np.uint32).tolist() == bits(flushed)


@pytest.mark.parametrize("name", [*SPECIAL, "sin_turns", "cos_turns"])
def test_special_values_have_no_error(name):
    """Whatever the seed, the values of the tables are those of the tables."""
    inputs, plain, flushed = SPECIAL[name.partition("_")[0]]
    fixed = [i for i, a in enumerate(inputs) if a not in FREE and (name != "lg2" or a != TINY)]
    x = np.array([inputs[i] for i in fixed], np.float32)
    function = getattr(approximate, name)
    for seed in range(20):
        if "_" not in name:
            assert function(x, perturb=seed).view(np.uint32).tolist() == bits([plain[i] for i in fixed])
        if flushed is not None:
            found = function(x, ftz=True, perturb=seed).view(np.uint32).tolist()
            assert found == bits([flushed[i] for i in fixed])


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in ("ex2", "tanh") for k in ("f16", "bf16")])
def test_special_values_of_halves_have_no_error(name, kind):
    tiny = 2.0**-20 if kind == "f16" else 1e-40
    x = half.from_f32(np.array([-INF, -tiny, -0.0, 0.0, tiny, INF], np.float32), kind)
    # bf16 flushes in ex2; tanh returns subnormals as they are
    table = {"ex2": [0.0, 1.0, 1.0, 1.0, 1.0, INF], "tanh": [-1.0, -tiny, -0.0, 0.0, tiny, 1.0]}[name]
    wanted = half.from_f32(np.array(table, np.float32), kind)
    for seed in range(20):
        assert getattr(approximate, f"{name}_half")(x, kind, perturb=seed).tolist() == wanted.tolist()


def test_special_quotients_have_no_error():
    a = np.array([1.0, INF, -1.0, 0.0, 1.0, 1.0, INF], np.float32)
    b = np.array([2.0**127, 2.0**127, 2.0**127, 3.0, 0.0, -INF, 2.0], np.float32)
    for seed in range(20):
        found = approximate.div(a, b, perturb=seed).view(np.uint32).tolist()
        assert found == bits([0.0, NAN, -0.0, 0.0, INF, -0.0, INF])


def test_division():
    a = np.array([1.0, 1.0, INF, -1.0, 6.0], np.float32)
    b = np.array([2.0**127, 2.0**126, 2.0**127, 2.0**127, 3.0], np.float32)
    assert approximate.div(a, b).view(np.uint32).tolist() == bits([0.0, 2.0**-126, NAN, -0.0, 2.0])
    assert approximate.div(a, b, full=True).view(np.uint32).tolist() == bits(
        [2.0**-127, 2.0**-126, INF, -(2.0**-127), 2.0]
    )
    assert approximate.div(a, b, full=True, ftz=True).view(np.uint32).tolist() == bits([0.0, 2.0**-126, INF, -0.0, 2.0])


@pytest.mark.parametrize("name", ["rcp", "sqrt", "rsqrt", "lg2", "ex2", "tanh", "sin", "cos"])
def test_perturbation_stays_within_the_documented_error(name):
    x = np.random.default_rng(1).uniform(0.1, 6.0, 5000).astype(np.float32)
    exact = {
        "rcp": lambda v: 1 / v,
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "lg2": np.log2,
        "ex2": np.exp2,
    }.get(name, getattr(np, name, None))(x.astype(np.float64))
    function = getattr(approximate, name)
    plain, moved, again = function(x), function(x, perturb=7), function(x, perturb=7)
    assert np.array_equal(moved, again)
    assert (plain != moved).mean() > 0.2
    kind, bound = approximate.ERROR[name]
    rounding = np.spacing(np.abs(plain)).astype(np.float64) / 2
    allowed = bound * (np.abs(exact) if kind == "relative" else 1.0)
    assert (np.abs(plain - exact) <= rounding * 1.0001).all()
    assert (np.abs(moved - exact) <= allowed + rounding).all()


def test_half_precision_functions():
    x = np.array([0.0, 1.0, -2.0, INF, -INF, NAN], np.float16)
    got = approximate.ex2_half(x.view(np.uint16), "f16").view(np.float16)
    assert got[:5].tolist() == [1, 2, 0.25, INF, 0]
    assert got.view(np.uint16)[5] == 0x7FFF
    pair = approximate.tanh_half(x.view(np.uint32), "f16x2").view(np.float16)
    assert pair[:5].tolist() == np.tanh(x.astype(np.float64))[:5].astype(np.float16).tolist()
    low = half.from_f32(np.array([-130.0, 3.0], np.float32), "bf16")
    assert half.to_f32(approximate.ex2_half(low, "bf16"), "bf16").tolist() == [0.0, 8.0]


def test_double_precision_reciprocals_use_upper_words():
    x = np.array([3.0, 0.0, 1e-310, 2.0**1023], np.float64)
    r = approximate.rcp_f64(x)
    assert r[1:].tolist() == [INF, INF, 0.0]
    assert abs(r[0] * 3 - 1) < 2.0**-19
    assert r.view(np.uint64)[0] & 0xFFFFFFFF == 0
    assert approximate.rsqrt_f64(np.array([4.0])).tolist() == [0.5]
    assert approximate.rsqrt_f64(np.array([4.0]), ftz=True).tolist() == [0.5]
