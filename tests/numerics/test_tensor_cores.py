"""Tensor cores bit for bit: results of a published model of the hardware, an independent model in fractions, and the verifier."""

from __future__ import annotations

import gzip
import json
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyptx
from pyptx import numerics
from pyptx.diagnostics import PTXError
from pyptx.dialects.ptx.target import FIRST_PTX
from pyptx.numerics import llvm
from pyptx.numerics.tensor_cores import accumulate, rules
from tests.conftest import CORPUS
from tests.numerics import tensor_core_model as model

SAMPLE = Path(__file__).parent.parent / "data" / "numerics" / "tensor_core_vectors.json.gz"
ALL = CORPUS.parent / "numerics" / "tensor_core_vectors.json.gz"
ARCH = {
    "Volta": "sm_70", "Turing": "sm_75", "Ampere": "sm_80", "Ada Lovelace": "sm_89", "Hopper": "sm_90",
    "Blackwell": "sm_100", "RTX Blackwell": "sm_120",
}  # fmt: skip
WORDS = {"f64": np.uint64, "f32": np.uint32, "tf32": np.uint32, "f16": np.uint16, "bf16": np.uint16}


# ------------------------------------------------------------------------------------------- vectors of the hardware


@lru_cache(maxsize=2)
def vectors(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()))["kinds"]


def codes(texts: list[str], name: str, packed: bool = False) -> np.ndarray:
    rows = np.stack([np.frombuffer(bytes.fromhex(t), np.uint8) for t in texts])
    if packed:
        return np.stack([rows & 15, rows >> 4], axis=-1).reshape(len(rows), -1)
    return rows.view(WORDS.get(name, np.uint8))


def kind_of(key: str) -> tuple[str, list[str], bool]:
    """`mma.block_scale:m16n8k64.block32.f32...` as (kind, types of D, A, B, C, whether it has scale factors)."""
    family, qualifier = key.split(":")
    shape, *words = qualifier.split(".")
    scaled = family.endswith("block_scale")
    types = [w for w in words if not w.startswith("block")][: -1 if scaled else None]
    return f"{family.split('.')[0]}.{shape}.{'.'.join(words)}", (types + types[:1])[:4], scaled


def same_bits(found: np.ndarray, expected: np.ndarray, name: str) -> np.ndarray:
    """Equal, or both zero: the source has no -0. A NaN of f64 may be any."""
    magnitude = expected.dtype.type((1 << (8 * expected.dtype.itemsize - 1)) - 1)
    same = (found == expected) | (found & magnitude == 0) & (expected & magnitude == 0)
    if name == "f64":
        same |= np.isnan(found.view(np.float64)) & np.isnan(expected.view(np.float64))
    return same


def check_vectors(key: str, entry: dict[str, Any]) -> int:
    kind, (d, a, b, c), scaled = kind_of(key)
    cases = entry["cases"]
    packed = a == "e2m1"
    column = {n: [case.get(n) for case in cases] for n in ("a", "b", "c", "sa", "sb")}
    x, y = codes(column["a"], a, packed)[:, None, :], codes(column["b"], b, packed)[:, :, None]
    z = codes(column["c"], c)[:, :, None]
    scales = {}
    if scaled:
        scales = {"scale_a": codes(column["sa"], "")[:, None, :], "scale_b": codes(column["sb"], "")[:, :, None]}
    for name, texts in entry["expected"].items():
        expected = codes(texts, d)
        result = numerics.dot(x, y, z, kind=kind, arch=ARCH[name], **scales)
        found = np.ascontiguousarray(result.reshape(expected.shape)).view(expected.dtype)
        wrong = np.flatnonzero(~same_bits(found, expected, d))
        assert not wrong.size, f"{kind} on {name}: {[(cases[i], hex(found[i, 0]), texts[i]) for i in wrong[:3]]}"
    return len(cases) * len(entry["expected"])


@pytest.mark.parametrize("key", vectors(SAMPLE))
def test_sample_of_the_vectors(key: str) -> None:
    assert check_vectors(key, vectors(SAMPLE)[key]) >= 18


# ---------------------------------------------------------------------------------------------- the independent model

WHOLE: dict[str, int | str] = {"unit": 0, "bits": 25}
FOURS: dict[str, int | str] = {"unit": 4, "bits": 24}
HOPPER_8: dict[str, int | str] = {"unit": 0, "bits": 13, "kept": 13}
ADA_8: dict[str, int | str] = {"unit": 16, "bits": 13, "kept": 13}
HALVES: dict[str, int | str] = {"emulated": "halves"}
PACKED: dict[str, int | str] = {"unit": 0, "bits": 35, "group": 16}
HALF_K16, FP8_K32 = "mma.m16n8k16.{0}.f16.f16.{0}", "mma.m16n8k32.{0}.e4m3.e5m2.{0}"
ROWS: list[tuple[str, str, str, str, str, int, dict[str, int | str], int, str]] = [
    # kind, arch, D, A, B, K, how, scale factors, their type
    *(("mma.m8n8k4.f32.f16.f16.f32", a, "f32", "f16", "f16", 4, {"unit": 4, "bits": n}, 0, "") for a, n in (("sm_70", 23), ("sm_75", 24))),
    ("mma.m8n8k4.f32.f16.f16.f32", "sm_80", "f32", "f16", "f16", 4, {"emulated": "chain", "unit": 4}, 0, ""),
    ("mma.m8n8k4.f16.f16.f16.f16", "sm_90", "f16", "f16", "f16", 4, {"emulated": "chain", "unit": 2}, 0, ""),
    ("mma.m16n8k8.f16.f16.f16.f16", "sm_75", "f16", "f16", "f16", 8, {"unit": 8, "bits": 24}, 0, ""),
    *((HALF_K16.format(d), a, d, "f16", "f16", 16, {"unit": 8, "bits": 24}, 0, "") for a in ("sm_80", "sm_86", "sm_89") for d in ("f16", "f32")),
    *((HALF_K16.format(d), a, d, "f16", "f16", 16, WHOLE, 0, "") for a in ("sm_90", "sm_100", "sm_120") for d in ("f16", "f32")),
    ("mma.m16n8k16.f32.bf16.bf16.f32", "sm_80", "f32", "bf16", "bf16", 16, {"unit": 8, "bits": 24}, 0, ""),
    ("mma.m16n8k8.f32.tf32.tf32.f32", "sm_80", "f32", "tf32", "tf32", 8, {"unit": 4, "bits": 24}, 0, ""),
    ("mma.m16n8k8.f32.tf32.tf32.f32", "sm_90", "f32", "tf32", "tf32", 8, WHOLE, 0, ""),
    *((FP8_K32.format(d), a, d, "e4m3", "e5m2", 32, how, 0, "") for d in ("f16", "f32") for a, how in (("sm_89", ADA_8), ("sm_90", HALVES), ("sm_100", HALVES), ("sm_120", WHOLE))),
    *(("mma.m8n8k4.f16.f16.f16.f16", a, "f16", "f16", "f16", 4, {"unit": 4, "bits": n}, 0, "") for a, n in (("sm_70", 23), ("sm_75", 24))),
    *(("mma.m8n8k4.f32.f16.f16.f32", a, "f32", "f16", "f16", 4, {"emulated": "chain", "unit": 4}, 0, "") for a in ("sm_89", "sm_90", "sm_100", "sm_120")),
    *(("mma.m8n8k4.f16.f16.f16.f16", a, "f16", "f16", "f16", 4, {"emulated": "chain", "unit": 2}, 0, "") for a in ("sm_80", "sm_89", "sm_100", "sm_120")),
    *(("mma.m16n8k8.f32.tf32.tf32.f32", a, "f32", "tf32", "tf32", 8, how, 0, "") for a, how in (("sm_89", FOURS), ("sm_100", WHOLE), ("sm_120", WHOLE))),
    *((f"{name}.k8.f32.tf32.tf32", a, "f32", "tf32", "tf32", 8, WHOLE, 0, "") for name, a in (("wgmma", "sm_90a"), ("tcgen05", "sm_100a"))),
    ("mma.m16n8k32.f16.e2m3.e2m1.f16", "sm_120a", "f16", "e2m3", "e2m1", 32, WHOLE, 0, ""),
    ("tcgen05.k32.block32.f32.e2m1.e5m2.ue8m0", "sm_100a", "f32", "e2m1", "e5m2", 32, WHOLE, 1, "ue8m0"),
    ("mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0", "sm_120a", "f32", "e4m3", "e4m3", 32, WHOLE, 1, "ue8m0"),
    ("mma.m16n8k16.f32.e4m3.e4m3.f32", "sm_90", "f32", "e4m3", "e4m3", 16, HALVES, 0, ""),
    ("wgmma.m64n8k16.f32.bf16.bf16", "sm_90", "f32", "bf16", "bf16", 16, WHOLE, 0, ""),
    ("wgmma.m64n8k32.f32.e4m3.e4m3", "sm_90a", "f32", "e4m3", "e4m3", 32, HOPPER_8, 0, ""),
    ("wgmma.m64n8k32.f16.e5m2.e4m3", "sm_90a", "f16", "e5m2", "e4m3", 32, HOPPER_8, 0, ""),
    ("tcgen05.k16.f32.f16.bf16", "sm_100a", "f32", "f16", "bf16", 16, WHOLE, 0, ""),
    ("tcgen05.k32.f32.e4m3.e4m3", "sm_103a", "f32", "e4m3", "e4m3", 32, WHOLE, 0, ""),
    ("tcgen05.k32.f32.e3m2.e2m1", "sm_100a", "f32", "e3m2", "e2m1", 32, WHOLE, 0, ""),
    ("tcgen05.k32.block32.f32.e4m3.e5m2.ue8m0", "sm_100a", "f32", "e4m3", "e5m2", 32, WHOLE, 1, "ue8m0"),
    ("mma.m16n8k32.block32.f32.e2m3.e4m3.f32.ue8m0", "sm_120a", "f32", "e2m3", "e4m3", 32, WHOLE, 1, "ue8m0"),
    ("tcgen05.k64.block16.f32.e2m1.e2m1.ue4m3", "sm_100a", "f32", "e2m1", "e2m1", 64, PACKED, 4, "ue4m3"),
    ("mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0", "sm_120a", "f32", "e2m1", "e2m1", 64, PACKED, 2, "ue8m0"),
]  # fmt: skip
WIDTH = {"f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e3m2": 6, "e2m3": 6, "e2m1": 4}


def some_codes(random: np.random.Generator, name: str, shape: tuple[int, ...], style: int) -> np.ndarray:
    """Codes of a format: any, of a few exponents, or mostly zeros and specials."""
    bits = WIDTH.get(name, 8)
    found = random.integers(0, 1 << bits, shape, np.int64)
    if style == 1 and bits >= 8:  # exponents near the middle, as sums that round have them
        f = numerics.formats.FORMATS[name]
        centre = f.bias << f.mantissa_bits + f.shift
        spread = 3 << f.mantissa_bits + f.shift
        found = centre + random.integers(-spread, spread, shape)
        found |= random.integers(0, 2, shape) * f.signed << bits - 1
    if style == 2:
        odd = np.array([0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits) - 2])
        found = np.where(random.random(shape) < 0.5, random.choice(odd, shape), found)
    return found.astype(WORDS.get(name, np.uint8))


def test_every_rule_has_a_row() -> None:
    """f64 has a test of its own."""
    rows = [
        (rules.generation(row[1]), kind.instruction, rules.operands_of(kind))
        for row in ROWS
        for kind in [rules.read_kind(row[0])]
    ]
    known = {(*at, operands) for at, known in rules.RULES.items() for operands in known if operands != "f64"}
    assert known == set(rows)


@contextmanager
def engine(name: str) -> Generator[None]:
    """Sums in NumPy, or in native code from the first one on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulate, "HOT", 1 << 62 if name == "numpy" else -1)
        yield


ENGINE_NAMES = ["numpy", "native"] if llvm.available() else ["numpy"]


@pytest.mark.corpus
@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_all_vectors(name: str) -> None:
    with engine(name):
        assert sum(check_vectors(key, entry) for key, entry in vectors(ALL).items()) == 18447


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r[0]}-{r[1]}")
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32), style=st.integers(0, 2))
def test_equals_the_independent_model(row: tuple[Any, ...], seed: int, style: int) -> None:
    kind, arch, d, a, b, k, how, factors, scale = row
    random = np.random.default_rng(seed)
    x, y = some_codes(random, a, (3, k), style), some_codes(random, b, (k, 2), style)
    z = some_codes(random, d, (3, 2), style)
    scales, lists = {}, ([[]] * 3, [[]] * 2)
    if factors:
        sa, sb = some_codes(random, scale, (3, factors), style), some_codes(random, scale, (factors, 2), style)
        scales, lists = {"scale_a": sa, "scale_b": sb}, (sa.tolist(), sb.T.tolist())
    rows, columns = x.tolist(), y.T.tolist()
    expected = np.array(
        [
            [model.dot(rows[i], columns[j], int(z[i, j]), (d, a, b), how, lists[0][i], lists[1][j], scale) for j in range(2)]
            for i in range(3)
        ],
        WORDS[d],
    )  # fmt: skip
    for name in ENGINE_NAMES:
        with engine(name):
            bits = numerics.dot(x, y, z, kind=kind, arch=arch, **scales).view(WORDS[d])
        assert same_bits(bits, expected, d).all(), (name, bits, expected)


@pytest.mark.parametrize(("kind", "k"), [("mma.m8n8k4.f64.f64.f64.f64", 4), ("mma.m16n8k16.f64.f64.f64.f64", 16)])
def test_f64_is_a_chain_of_fma(kind: str, k: int) -> None:
    from fractions import Fraction

    random = np.random.default_rng(5)
    x, y, z = (random.standard_normal(s) * 2.0 ** random.integers(-30, 30, s) for s in ((3, k), (k, 2), (3, 2)))
    found = numerics.dot(x, y, z, kind=kind, arch="sm_90")
    for i in range(3):
        for j in range(2):
            total = float(z[i, j])
            for n in range(k):
                total = float(Fraction(float(x[i, n])) * Fraction(float(y[n, j])) + Fraction(total))
            assert found[i, j] == total


# ------------------------------------------------------------------------------------------------- what it promises


def test_known_loss_of_fp8_on_hopper() -> None:
    """1 + 31 * 2^-14: Hopper's sum of 13 bits drops every small product, Blackwell's keeps them."""
    a, b = np.ones(32, np.float32), np.full(32, 2.0**-7, np.float32)
    a[1:] = 2.0**-7
    b[0] = 1.0
    assert numerics.dot(a, b, kind="wgmma.f32.e4m3.e4m3", arch="sm_90") == 1.0
    assert numerics.dot(a, b, kind="tcgen05.f32.e4m3.e4m3", arch="sm_100") == np.float32(1 + 31 * 2.0**-14)


def test_large_products_that_cancel() -> None:
    a = np.zeros(16, ml_dtypes.bfloat16)
    b = np.zeros(16, ml_dtypes.bfloat16)
    a[:3], b[:3] = [2.0**70, 2.0**70, 2.0**60], [2.0**70, -(2.0**70), 2.0**60]
    assert numerics.dot(a, b, kind="wgmma.f32.bf16.bf16", arch="sm_90") == 2.0**120


def test_shapes_follow_matmul() -> None:
    random = np.random.default_rng(1)
    a, b = random.standard_normal((5, 1, 3, 64)), random.standard_normal((2, 64, 4))
    found = numerics.dot(a, b, np.float32(1), kind="wgmma.f32.f16.f16", arch="sm_90")
    assert found.shape == (5, 2, 3, 4) and found.dtype == np.float32
    one = numerics.dot(a[4, 0, 2], b[1, :, 3], np.float32(1), kind="wgmma.f32.f16.f16", arch="sm_90")
    assert one.shape == () and one == found[4, 1, 2, 3]
    row = numerics.dot(a[4, 0, 2], b, np.float32(1), kind="wgmma.f32.f16.f16", arch="sm_90")
    assert np.array_equal(row, found[4, :, 2])
    column = numerics.dot(a[:, 0], b[1, :, 0], np.float32(1), kind="wgmma.f32.f16.f16", arch="sm_90")
    assert np.array_equal(column, found[:, 1, :, 0])


def test_instructions_along_k_are_chained() -> None:
    random = np.random.default_rng(2)
    a, b = random.standard_normal((3, 96)), random.standard_normal((96, 2))
    kind, arch = "wgmma.f32.e4m3.e5m2", "sm_90"
    total = np.zeros((3, 2), np.float32)
    for i in range(0, 96, 32):
        total = numerics.dot(a[:, i : i + 32], b[i : i + 32], total, kind=kind, arch=arch)
    assert np.array_equal(numerics.dot(a, b, kind=kind, arch=arch), total)


def test_pieces_of_rows_change_nothing() -> None:
    random = np.random.default_rng(3)
    a, b = random.standard_normal((700, 32)), random.standard_normal((32, 200))
    whole = numerics.dot(a, b, kind="tcgen05.f32.e4m3.e4m3", arch="sm_100")
    one = np.stack([numerics.dot(r, b, kind="tcgen05.f32.e4m3.e4m3", arch="sm_100") for r in a[::50]])
    assert np.array_equal(whole[::50], one)


@pytest.mark.parametrize(
    ("a", "b", "c", "kind", "arch", "message"),
    [
        ((2, 32), (32, 2), None, "mma.m16n8k32.f32.e4m3.e4m3.f32", "sm_80", "needs target sm_89 or newer, not sm_80"),
        ((2, 16), (16, 2), None, "wgmma.f32.f16.f16", "sm_123", "unknown target sm_123"),
        ((2, 16), (16, 2), None, "wgmma.f32.f16.f16", "hopper", "unknown target hopper"),
        ((2, 24), (24, 2), None, "wgmma.f32.f16.f16", "sm_90", "K = 24 is not a multiple of 16"),
        ((2, 0), (0, 2), None, "wgmma.f32.f16.f16", "sm_90", "K = 0 is not a multiple of 16"),
        ((2, 16), (32, 2), None, "wgmma.f32.f16.f16", "sm_90", "a has K = 16, b has K = 32"),
        ((2, 16), (16, 2), (3, 2), "wgmma.f32.f16.f16", "sm_90", "does not broadcast to"),
        ((3, 2, 16), (2, 16, 2), None, "wgmma.f32.f16.f16", "sm_90", "do not broadcast"),
        ((), (16, 2), None, "wgmma.f32.f16.f16", "sm_90", "at least one dimension"),
        ((2, 16), (16, 2), None, "hmma.f32.f16.f16", "sm_90", "not a matrix instruction"),
        ((2, 16), (16, 2), None, "wgmma.f32.f16", "sm_90", "the types of D, A and B"),
        ((2, 16), (16, 2), None, "wgmma.k12.f32.f16.f16", "sm_90", "K = 12 is not a depth"),
        ((2, 16), (16, 2), None, "wgmma.f64.f16.f16", "sm_90", "not types of D and C"),
        ((2, 16), (16, 2), None, "mma.f32.f16.bf16.f32", "sm_90", "does not multiply f16 and bf16"),
        ((2, 16), (16, 2), None, "wgmma.f32.f64.f64", "sm_90", "does not multiply f64"),
        ((2, 16), (16, 2), None, "", "sm_90", "not a matrix instruction"),
        ((2, 64), (64, 2), None, "tcgen05.block32.f32.e2m1.e2m1.ue8m0", "sm_100", "needs scale_a and scale_b"),
        ((2, 64), (64, 2), None, "tcgen05.block8.f32.e2m1.e2m1.ue8m0", "sm_100", "blocks of 16 or 32"),
        ((2, 64), (64, 2), None, "tcgen05.block_scale.f32.e2m1.e2m1", "sm_100", "scale factors"),
    ],
)
def test_bad_input(a: Any, b: Any, c: Any, kind: str, arch: str, message: str) -> None:
    with pytest.raises(PTXError, match=message):
        numerics.dot(np.ones(a), np.ones(b), None if c is None else np.ones(c), kind=kind, arch=arch)


def test_bad_dtypes_and_scales() -> None:
    ones = np.ones((16, 16))
    with pytest.raises(PTXError, match="a is int64, not f16"):
        numerics.dot(ones.astype(int), ones, kind="wgmma.f32.f16.f16", arch="sm_90")
    with pytest.raises(PTXError, match="b is bfloat16, not f16"):
        numerics.dot(ones, ones.astype(ml_dtypes.bfloat16), kind="wgmma.f32.f16.f16", arch="sm_90")
    with pytest.raises(PTXError, match="no scale factors"):
        numerics.dot(ones, ones, kind="wgmma.f32.f16.f16", arch="sm_90", scale_a=ones)
    deep, kind = np.ones((64, 64)), "tcgen05.block32.f32.e2m1.e2m1.ue8m0"
    with pytest.raises(PTXError, match=r"scale_a has the shape \(64, 64\), not \(64, 2\)"):
        numerics.dot(deep, deep, kind=kind, arch="sm_100", scale_a=deep, scale_b=deep)


SCALED_8 = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0"
SCALED_4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
F8F6F4 = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32"
PTX_FORMS = {
    **{
        f"mma.sync.aligned.{s}.row.col.{d}.{ab}.{ab}.{d}": n
        for s, d, ab, n in (
            ("m8n8k4", "f16", "f16", (4, 2, 2, 4)), ("m8n8k4", "f32", "f16", (8, 2, 2, 8)),
            ("m16n8k8", "f16", "f16", (2, 2, 1, 2)), ("m16n8k8", "f32", "f16", (4, 2, 1, 4)),
            ("m16n8k16", "f16", "f16", (2, 4, 2, 2)), ("m16n8k16", "f32", "bf16", (4, 4, 2, 4)),
            ("m16n8k8", "f32", "bf16", (4, 2, 1, 4)), ("m16n8k4", "f32", "tf32", (4, 2, 1, 4)),
            ("m16n8k8", "f32", "tf32", (4, 4, 2, 4)), ("m16n8k32", "f32", "e4m3", (4, 4, 2, 4)),
            ("m16n8k16", "f16", "e5m2", (2, 2, 1, 2)), ("m8n8k4", "f64", "f64", (2, 1, 1, 2)),
            ("m16n8k4", "f64", "f64", (4, 2, 1, 4)), ("m16n8k16", "f64", "f64", (4, 8, 4, 4)),
        )
    },
    SCALED_8: (4, 4, 2, 4), SCALED_4: (4, 4, 2, 4), F8F6F4: (4, 4, 2, 4),
}  # fmt: skip
"""Opcodes and how many registers D, A, B and C have."""


def verifier_says(opcode: str, counts: tuple[int, int, int, int], target: str) -> str:
    """What the verifier says of the target; "" if it takes the instruction."""
    letter = {"f32": "f", "f64": "d"}
    types = [w for w in opcode.split(".") if w in model.FORMATS or w == "f64"][:4]
    d = letter.get(types[0], "r")
    ab = "d" if types[1] == "f64" else "r"
    lists = ["{" + ",".join(f"%{x}{i}" for i in range(n)) + "}" for x, n in zip((d, ab, ab, d), counts, strict=True)]
    if "block_scale" in opcode:
        lists += ["%r0", "{0,0}", "%r0", "{0,0}"]
    text = (
        f".version 9.4\n.target {target}\n.address_size 64\n.entry k() {{\n.reg .b32 %r<20>; .reg .f32 %f<20>; .reg .f64 %d<20>;\n"
        f"{opcode} {', '.join(lists)};\nret;\n}}\n"
    )
    return "; ".join(d.message for d in pyptx.diagnose(text) if d.severity == "error")


TARGETS = "sm_60 sm_72 sm_75 sm_80 sm_88 sm_89 sm_90 sm_90a sm_100 sm_103a sm_110f sm_120 sm_120a sm_121f".split()


@pytest.mark.parametrize("opcode", PTX_FORMS)
def test_the_verifier_says_the_same(opcode: str) -> None:
    """On every architecture either both take the instruction, or both say the same."""
    k = int(opcode.split(".row")[0].rpartition("k")[2])
    for target in TARGETS:
        said = verifier_says(opcode, PTX_FORMS[opcode], target)
        if said and f"{target}a" in FIRST_PTX:
            continue  # the same GPU as the target with a letter, where the instruction may exist
        x, y = np.ones((1, k)), np.ones((k, 1))
        scales = {}
        if "block_scale" in opcode:
            count = int(opcode.split("scale_vec::")[1][0])
            scales = {"scale_a": np.ones((1, count)), "scale_b": np.ones((count, 1))}
        try:
            numerics.dot(x, y, kind=opcode, arch=target, **scales)
            assert not said, (opcode, target, said)
        except PTXError as error:
            assert error.diagnostics[0].message == said


def test_every_target_has_a_generation() -> None:
    numbers = {int(t.strip("sm_af")) for t in FIRST_PTX}
    assert {n for n in numbers if n >= 50} == {
        *rules.OLDER,
        *(n for known in rules.GENERATIONS.values() for n in known),
    }


def test_unknown_targets_are_told_as_the_verifier_tells_them() -> None:
    said = verifier_says(SCALED_8, (4, 4, 2, 4), "sm_99")
    with pytest.raises(PTXError) as caught:
        numerics.dot(np.ones((1, 32)), np.ones((32, 1)), kind=SCALED_8, arch="sm_99")
    assert caught.value.diagnostics[0].message == said
