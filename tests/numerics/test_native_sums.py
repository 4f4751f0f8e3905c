"""Sums of tensor cores: the same bits in NumPy and in native code, on every BLAS, in place, and the exact sum."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx import numerics
from pyptx.numerics import formats, llvm
from pyptx.numerics.tensor_cores.native import Places, matrix_places
from pyptx.numerics.tensor_cores.sums import Sum, sum_for
from tests.numerics.test_tensor_cores import ENGINE_NAMES, ROWS, WORDS, engine, some_codes

ROOT = Path(__file__).parents[2]
needs_llvmlite = pytest.mark.skipif(not llvm.available(), reason="needs llvmlite (the extra jit)")


@needs_llvmlite
@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r[0]}-{r[1]}")
def test_native_code_gives_the_bits_of_numpy(row: tuple[Any, ...]) -> None:
    """Rows and columns that fill no vector, two matrices of C for one B, specials and random exponents."""
    kind, arch, d, a, b, k, _, factors, scale = row
    random = np.random.default_rng()
    for style in range(3):
        x, y = some_codes(random, a, (2, 9, k), style), some_codes(random, b, (1, k, 19), style)
        z = some_codes(random, d, (2, 9, 19), style)
        scales: dict[str, np.ndarray] = {}
        if factors:
            scales = {"scale_a": some_codes(random, scale, (2, 9, factors), style)}
            scales["scale_b"] = some_codes(random, scale, (1, factors, 19), style)
        found: list[np.ndarray] = []
        for name in ENGINE_NAMES:
            with engine(name):
                found.append(numerics.dot(x, y, z, kind=kind, arch=arch, **scales).view(WORDS[d]))
        assert np.array_equal(found[0], found[1])


def wgmma(d: str) -> Sum:
    return sum_for("wgmma", (d, "f16", "f16"), (64, 16), "sm_90a")


@needs_llvmlite
@pytest.mark.parametrize("d", ["f32", "f16"])
def test_in_place(d: str) -> None:
    """Accumulators that lie as in the registers of a warpgroup, or in a part of a larger matrix: the sum of a matrix there, and
    no other word changes.
    """
    random = np.random.default_rng()
    a, b = (random.standard_normal(s).astype(np.float16).astype(np.float32) for s in ((64, 16), (16, 24)))
    c = some_codes(random, d, (64, 24), 0)
    want = wgmma(d)(a, b, c)
    row, column = np.arange(64)[:, None], np.arange(24)
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    quads = column // 8 * 600 + column % 2 * 300 + column % 8 // 2  # even columns, then odd ones
    for places, at in (
        (Places(np.arange(64, dtype=np.int64) * 4, 600, 300, order), row * 4 + quads),
        (matrix_places(64, 40), row * 40 + column),
    ):
        words = random.integers(0, 1 << 16, 3000).astype(WORDS[d])
        words[at] = c
        expected = words.copy()
        expected[at] = want
        with engine("numpy"):
            assert not wgmma(d).in_place(a, b, words, places)
        with engine("native"):
            assert wgmma(d).in_place(a, b, words, places)
        assert np.array_equal(words, expected)


def test_sparse_sums_are_dense_ones_of_half_the_depth() -> None:
    random = np.random.default_rng()
    for types, arch, k in (
        (("f32", "bf16", "bf16"), "sm_80", 16),
        (("f32", "e4m3", "e5m2"), "sm_89", 32),
        (("f32", "f16", "f16"), "sm_90", 16),
    ):
        kept, b, c = (random.standard_normal(s) for s in ((16, k), (2 * k, 8), (16, 8)))
        kept = formats.decode(formats.encode(kept, types[1]), types[1])
        b = formats.decode(formats.encode(b, types[2]), types[2])
        places = 2 * np.arange(k) + random.integers(0, 2, k)
        a = np.zeros((16, 2 * k))
        a[:, places] = kept
        bits = c.astype(np.float32).view(np.uint32)
        found = sum_for("mma", types, (16, 2 * k), arch, sparse=True)(a, b, bits)
        dense = sum_for("mma", types, (16, k), arch)(kept, b[places], bits)
        assert np.array_equal(found, dense)


PROGRAM = """
import sys
if sys.argv[1] == "without":
    sys.modules["llvmlite"] = None
import hashlib
import numpy as np
from pyptx import numerics
from pyptx.numerics.tensor_cores import accumulate
from pyptx.numerics.tensor_cores.sums import sum_for
accumulate.HOT = -1
random = np.random.default_rng(7)
digest = hashlib.sha256()
for kind, arch in (("wgmma.f32.bf16.bf16", "sm_90"), ("wgmma.f16.e4m3.e4m3", "sm_90"), ("mma.m16n8k16.f16.f16.f16.f16", "sm_80")):
    a, b = random.standard_normal((40, 64)), random.standard_normal((64, 24))
    digest.update(numerics.dot(a, b, kind=kind, arch=arch).tobytes())
scales = random.uniform(0.1, 9, (40, 8)), random.uniform(0.1, 9, (8, 24))
kind = "tcgen05.block16.f32.e2m1.e2m1.ue4m3"
a, b = random.uniform(-6, 6, (40, 128)), random.uniform(-6, 6, (128, 24))
digest.update(numerics.dot(a, b, kind=kind, arch="sm_100", scale_a=scales[0], scale_b=scales[1]).tobytes())
exact = sum_for("wgmma", ("f32", "tf32", "tf32"), (64, 8), "sm_90").exact
a, b = (random.integers(-1000, 1000, s) * 2.0 ** random.integers(-40, 40, s) for s in ((64, 8), (8, 24)))
digest.update(exact(a, b, np.zeros((64, 24), np.uint32)).tobytes())
print(digest.hexdigest())
"""


def test_no_result_depends_on_the_blas_or_on_llvmlite() -> None:
    found: set[str] = set()
    for core, native in (("Haswell", "with"), ("Haswell", "without"), ("Nehalem", "without"), ("Nehalem", "with")):
        environment = {
            **os.environ,
            "OPENBLAS_CORETYPE": core,
            "OPENBLAS_NUM_THREADS": "1" if native == "with" else "2",
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, native],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            cwd=ROOT,
        )
        found.add(done.stdout)
    assert len(found) == 1


def nearest(value: Fraction) -> np.float32:
    """The nearest number of f32, ties to even."""
    if not value:
        return np.float32(0)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    place = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(value / place) * place
    return np.float32(np.inf if rounded > 0 else -np.inf) if abs(rounded) >= 2**128 else np.float32(float(rounded))


@pytest.mark.parametrize("spread", [2, 30, 60])
def test_the_exact_sum_is_rounded_once(spread: int) -> None:
    random = np.random.default_rng()
    how = sum_for("wgmma", ("f32", "bf16", "bf16"), (64, 16), "sm_90")
    shapes = ((5, 16), (16, 4))
    a, b = (random.integers(-255, 256, s) * 2.0 ** random.integers(-spread, spread, s) for s in shapes)
    a[0] *= np.where(np.arange(16) % 2, 1, -1) * 2.0 ** np.where(np.arange(16) < 2, 40, 0)  # sums that cancel
    b[1] = b[0]
    c = (random.standard_normal((5, 4)) * 2.0 ** random.integers(-spread, spread, (5, 4))).astype(np.float32)
    found = how.exact(a, b, c.view(np.uint32)).view(np.float32)
    for i, j in np.ndindex(c.shape):
        total = sum((Fraction(a[i, k]) * Fraction(b[k, j]) for k in range(16)), Fraction(float(c[i, j])))
        assert found[i, j] == nearest(total)


def test_products_beyond_f32_cancel() -> None:
    """Fault A2: 2^140 - 2^140 + 2^120, of which a sum in f32 makes an infinity."""
    a, b = np.zeros((4, 16)), np.zeros((16, 8))
    a[:, :3], b[:3] = [2.0**70, 2.0**70, 2.0**60], np.array([2.0**70, -(2.0**70), 2.0**60])[:, None]
    how, c = sum_for("wgmma", ("f32", "bf16", "bf16"), (64, 16), "sm_90"), np.zeros((4, 8), np.uint32)
    assert (how.exact(a, b, c).view(np.float32) == 2.0**120).all()
    for name in ENGINE_NAMES:
        with engine(name):
            assert (how(a, b, c).view(np.float32) == 2.0**120).all()
