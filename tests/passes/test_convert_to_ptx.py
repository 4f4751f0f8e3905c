"""MLIR kernels as PTX: the examples against NumPy, single operations against Python, and what has no lowering."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context

import pyptx
from pyptx.passes.convert_to_ptx import ConvertToPTX
from pyptx.passes.lowering import LoweringError
from pyptx.passes.lowering.values import BF16, F16, Constant

from .from_mlir import NUMPY, applied, lowered, parsed

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "mlir"


def kernel(name: str, **options: Any) -> Any:
    return pyptx.load(lowered((EXAMPLES / f"{name}.mlir").read_text(), **options))[name]


SETTINGS = [{"index": 64}, {"index": 32, "target": "sm_90a"}, {"index": 64, "target": "sm_75"}]


@pytest.fixture(params=SETTINGS, ids=["index64", "index32", "sm_75"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


def test_saxpy(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000)).astype(np.float32)
    wanted = 2.5 * x.astype(np.float64) + y
    pyptx.simulate(kernel("saxpy", **options), 2.5, x, 1000, y, 1000, grid=9, block=128)
    np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("columns", [1, 100, 300])
def test_softmax(options: dict[str, Any], columns: int) -> None:
    x = np.random.default_rng(2).normal(size=(5, columns)).astype(np.float32) * 4
    out = np.full_like(x, np.nan)
    pyptx.simulate(kernel("softmax", **options), x, 5, columns, out, 5, columns, grid=5, block=128)
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, wide / wide.sum(axis=1, keepdims=True), rtol=2e-5, atol=1e-9)


def test_transpose(options: dict[str, Any]) -> None:
    x = np.random.default_rng(3).normal(size=(70, 45)).astype(np.float32)
    out = np.full((45, 70), np.nan, np.float32)
    pyptx.simulate(kernel("transpose", **options), x, 70, 45, out, 45, 70, grid=(2, 3), block=(32, 8))
    assert np.array_equal(out, x.T)


def test_reduction(options: dict[str, Any]) -> None:
    x = np.random.default_rng(4).integers(0, 10, 5000).astype(np.float32)  # whose sums are exact
    out = np.zeros(1, np.float32)
    pyptx.simulate(kernel("reduction", **options), x, 5000, out, grid=4, block=256)
    assert out[0] == x.sum(dtype=np.float64)


def test_matmul(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(128, 48)).astype(np.float32), rng.normal(size=(48, 64)).astype(np.float32)
    c = np.full((128, 64), np.nan, np.float32)
    pyptx.simulate(kernel("matmul", **options), a, 128, 48, b, 48, 64, c, 128, 64, grid=(1, 2), block=(16, 16))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


def test_matmul_uses_wide_accesses() -> None:
    ptx = lowered((EXAMPLES / "matmul.mlir").read_text())
    assert ptx.count("ld.global.v4.f32") == 2
    assert ptx.count("ld.shared.v4.f32") == 2
    assert ptx.count("fma.rn.f32") == 16


# ---------------------------------------------------------------------------------------------------- single operations

RNG = np.random.default_rng(6)
NUMBERS = {
    "i16": np.array([0, 1, -1, 7, -8, 32767, -32768, 300, 3], np.int16),
    "i32": np.array([0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 123456, 3], np.int32),
    "i64": np.array([0, 1, -1, 7, -8, 2**63 - 1, -(2**63), 1 << 40, 3], np.int64),
}
OTHERS = {kind: np.array([1, 2, 3, -2, 5, 2, 7, 11, -1], NUMPY[kind]) for kind in NUMBERS}


def unsigned(x: int, bits: int) -> int:
    return x & ((1 << bits) - 1)


INTEGER = {
    "addi": lambda a, b, n: a + b,
    "subi": lambda a, b, n: a - b,
    "muli": lambda a, b, n: a * b,
    "divsi": lambda a, b, n: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "divui": lambda a, b, n: unsigned(a, n) // unsigned(b, n),
    "remsi": lambda a, b, n: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "remui": lambda a, b, n: unsigned(a, n) % unsigned(b, n),
    "maxsi": lambda a, b, n: max(a, b),
    "minui": lambda a, b, n: min(unsigned(a, n), unsigned(b, n)),
    "andi": lambda a, b, n: a & b,
    "ori": lambda a, b, n: a | b,
    "xori": lambda a, b, n: a ^ b,
    "shli": lambda a, b, n: a << (unsigned(b, n) % 8),
    "shrsi": lambda a, b, n: a >> (unsigned(b, n) % 8),
    "shrui": lambda a, b, n: unsigned(a, n) >> (unsigned(b, n) % 8),
}


@pytest.mark.parametrize("kind", sorted(NUMBERS))
@pytest.mark.parametrize("name", sorted(INTEGER))
def test_integers(name: str, kind: str) -> None:
    a, b = NUMBERS[kind], OTHERS[kind]
    bits = int(kind[1:])
    if name.startswith("sh"):
        b = np.array([int(x) % 8 for x in b], NUMPY[kind])
    found = applied(f"      %r = arith.{name} %x0, %x1 : {kind}", kind, (kind, a), (kind, b))
    wanted = [INTEGER[name](int(x), int(y), bits) for x, y in zip(a, b, strict=True)]
    assert [unsigned(int(x), bits) for x in found] == [unsigned(x, bits) for x in wanted]


PREDICATES = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("name", [*sorted(PREDICATES), "ult", "ule", "ugt", "uge"])
def test_compare_integers(name: str) -> None:
    a, b = NUMBERS["i32"], OTHERS["i32"]
    body = f"      %c = arith.cmpi {name}, %x0, %x1 : i32\n      %r = arith.extui %c : i1 to i32"
    found = applied(body, "i32", ("i32", a), ("i32", b))
    if name[0] == "u":
        a, b = a.astype(np.uint32), b.astype(np.uint32)
        name = "s" + name[1:]
    assert np.array_equal(found, PREDICATES[name](a, b).astype(np.int32))


NAN, INF = math.nan, math.inf
LEFT = np.array([0.0, -0.0, 1.5, NAN, NAN, INF, -INF, 2.0, 3.25])
RIGHT = np.array([-0.0, 0.0, 2.5, 1.0, NAN, INF, INF, NAN, 3.25])


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split())
def test_compare_floats(name: str, kind: str) -> None:
    body = f"      %c = arith.cmpf {name}, %x0, %x1 : {kind}\n      %r = arith.extui %c : i1 to i32"
    found = applied(body, "i32", (kind, LEFT), (kind, RIGHT))
    neither = ~(np.isnan(LEFT) | np.isnan(RIGHT))
    relation = {"eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
    if name in ("false", "true", "ord", "uno"):
        wanted = {"false": neither & False, "true": neither | True, "ord": neither, "uno": ~neither}[name]
    elif name[1:] == "ne":
        wanted = (LEFT != RIGHT) & neither if name[0] == "o" else (LEFT != RIGHT) | ~neither
    else:
        wanted = relation[name[1:]](LEFT, RIGHT)
        wanted = wanted & neither if name[0] == "o" else wanted | ~neither
    assert np.array_equal(found.astype(bool), wanted)


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize(
    ("name", "function"), [("addf", np.add), ("subf", np.subtract), ("mulf", np.multiply), ("divf", np.divide)]
)
def test_floats_are_rounded_once(name: str, function: Any, kind: str) -> None:
    a, b = (RNG.normal(size=200).astype(NUMPY[kind]) for _ in range(2))
    found = applied(f"      %r = arith.{name} %x0, %x1 : {kind}", kind, (kind, a), (kind, b))
    assert np.array_equal(found, function(a, b))


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
@pytest.mark.parametrize("name", ["maximumf", "minimumf", "maxnumf", "minnumf"])
def test_extremes_and_nan(name: str, target: str) -> None:
    a, b = np.array([1.0, NAN, 2.0, NAN, -3.0]), np.array([2.0, 1.0, NAN, NAN, -4.0])
    found = applied(f"      %r = arith.{name} %x0, %x1 : f32", "f32", ("f32", a), ("f32", b), target=target)
    function = {"maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin}[name]
    assert np.array_equal(found, function(a, b).astype(np.float32), equal_nan=True)


CONVERSIONS = [
    ("extsi", "i32", "i64", NUMBERS["i32"], lambda x: x.astype(np.int64)),
    ("extui", "i32", "i64", NUMBERS["i32"], lambda x: x.view(np.uint32).astype(np.int64)),
    ("trunci", "i64", "i32", NUMBERS["i64"], lambda x: x.astype(np.int32)),
    ("extsi", "i8", "i32", np.arange(-128, 128, 3).astype(np.int8), lambda x: x.astype(np.int32)),
    ("extui", "i8", "i32", np.arange(-128, 128, 3).astype(np.int8), lambda x: x.view(np.uint8).astype(np.int32)),
    ("trunci", "i32", "i8", NUMBERS["i32"], lambda x: x.astype(np.int8)),
    ("sitofp", "i32", "f32", NUMBERS["i32"], lambda x: x.astype(np.float32)),
    ("uitofp", "i32", "f32", NUMBERS["i32"], lambda x: x.view(np.uint32).astype(np.float32)),
    ("sitofp", "i64", "f64", NUMBERS["i64"], lambda x: x.astype(np.float64)),
    ("fptosi", "f32", "i32", np.array([0.0, 1.9, -1.9, 1e6, -7.5]), lambda x: x.astype(np.int32)),
    ("fptoui", "f64", "i64", np.array([0.0, 1.9, 1e15]), lambda x: x.astype(np.int64)),
    ("extf", "f16", "f32", RNG.normal(size=50), lambda x: x.astype(np.float16).astype(np.float32)),
    ("extf", "f32", "f64", RNG.normal(size=50), lambda x: x.astype(np.float32).astype(np.float64)),
    ("truncf", "f64", "f32", RNG.normal(size=50), lambda x: x.astype(np.float32)),
    ("truncf", "f32", "f16", RNG.normal(size=50), lambda x: x.astype(np.float32).astype(np.float16)),
    ("bitcast", "f32", "i32", LEFT, lambda x: x.astype(np.float32).view(np.int32)),
]


@pytest.mark.parametrize(("name", "source", "to", "numbers", "function"), CONVERSIONS)
def test_conversions(name: str, source: str, to: str, numbers: np.ndarray, function: Any) -> None:
    found = applied(f"      %r = arith.{name} %x0 : {source} to {to}", to, (source, numbers))
    assert np.array_equal(found, function(numbers))


@pytest.mark.parametrize(
    ("name", "function", "tolerance"),
    [
        ("exp", np.exp, 1e-5),
        ("exp2", np.exp2, 1e-6),
        ("log", np.log, 1e-5),
        ("log2", np.log2, 1e-5),
        ("sqrt", np.sqrt, 0.0),
        ("rsqrt", lambda x: 1 / np.sqrt(x), 1e-6),
        ("tanh", np.tanh, 1e-3),
        ("floor", np.floor, 0.0),
        ("ceil", np.ceil, 0.0),
        ("trunc", np.trunc, 0.0),
        ("roundeven", np.rint, 0.0),
        ("absf", np.abs, 0.0),
    ],
)
def test_math(name: str, function: Any, tolerance: float) -> None:
    x = np.concatenate([np.abs(RNG.normal(size=60)) * 3 + 0.01, [0.5, 1.5, 2.5, 4.0]]).astype(np.float32)
    found = applied(f"      %r = math.{name} %x0 : f32", "f32", ("f32", x))
    np.testing.assert_allclose(found, function(x.astype(np.float64)).astype(np.float32), rtol=tolerance, atol=tolerance)


def test_bits() -> None:
    x = NUMBERS["i32"]
    count = applied("      %r = math.ctpop %x0 : i32", "i32", ("i32", x))
    assert count.tolist() == [int(v).bit_count() if v >= 0 else (int(v) + 2**32).bit_count() for v in x]
    zeros = applied("      %r = math.cttz %x0 : i32", "i32", ("i32", x))
    assert zeros.tolist() == [32 if v == 0 else (int(v) & -int(v)).bit_length() - 1 for v in x]


def test_constants_of_16_bits_are_rounded_to_nearest_even() -> None:
    """As ml_dtypes and NumPy round, ties and the largest numbers included."""
    edges = [
        1 + 2.0**-8,
        1 + 3 * 2.0**-8,
        -(1 + 2.0**-9),
        3.38e38,
        3.4e38,
        65504.0,
        1e-40,
        0.0,
        -0.0,
        math.inf,
        -math.inf,
    ]
    for value in (*edges, *RNG.normal(size=100).tolist()):
        assert Constant(value, BF16).bits == int(np.float32(value).astype(ml_dtypes.bfloat16).view(np.uint16)), value
        if abs(value) < 65520 or math.isinf(value):
            assert Constant(value, F16).bits == int(np.float16(value).view(np.uint16)), value
    assert Constant(math.nan, BF16).bits & 0x7F80 == 0x7F80
    assert Constant(math.nan, BF16).bits & 0x7F


def test_block_arguments_that_swap() -> None:
    body = """      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %p:2 = scf.for %k = %c0 to %c3 step %c1 iter_args(%a = %x0, %b = %x1) -> (i32, i32) {
        scf.yield %b, %a : i32, i32
      }
      %r = arith.subi %p#0, %p#1 : i32"""
    found = applied(body, "i32", ("i32", np.array([5, 7])), ("i32", np.array([1, 2])))
    assert found.tolist() == [1 - 5, 2 - 7]


def test_if_with_results_and_nested_loops() -> None:
    body = """      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %n = arith.index_cast %x0 : i32 to index
      %r = scf.for %j = %c0 to %n step %c1 iter_args(%s = %zero) -> (i32) {
        %t = scf.for %k = %c0 to %c4 step %c1 iter_args(%u = %s) -> (i32) {
          %less = arith.cmpi ult, %k, %j : index
          %v = scf.if %less -> (i32) {
            %w = arith.addi %u, %one : i32
            scf.yield %w : i32
          } else {
            scf.yield %u : i32
          }
          scf.yield %v : i32
        }
        scf.yield %t : i32
      }"""
    found = applied(body, "i32", ("i32", np.array([0, 1, 3, 9])))
    assert found.tolist() == [sum(k < j for j in range(n) for k in range(4)) for n in (0, 1, 3, 9)]


def test_a_view_of_shared_memory() -> None:
    body = """      %tile = memref.alloca() : memref<8x4xi32, 3>
      %c2 = arith.constant 2 : index
      %c1 = arith.constant 1 : index
      %row = memref.subview %tile[2, 0] [1, 4] [1, 1] : memref<8x4xi32, 3> to memref<4xi32, strided<[1], offset: 8>, 3>
      memref.store %x0, %row[%i] : memref<4xi32, strided<[1], offset: 8>, 3>
      "gpu.barrier"() : () -> ()
      %r = memref.load %tile[%c2, %c1] : memref<8x4xi32, 3>"""
    found = applied(body, "i32", ("i32", np.array([5, 6, 7, 8])))
    assert found.tolist() == [6, 6, 6, 6]


# ------------------------------------------------------------------------------------------------------ no lowering


ALLOCATED = """      %t = memref.{op}() : memref<4xf32{space}>
      %r = memref.load %t[%i] : memref<4xf32{space}>"""


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("      %r = math.exp %x0 : f64", "f64", "math.exp is not supported for f64"),
        ("      %r = math.ctlz %x0 : i16", "i16", "math.ctlz is for 32 and 64 bits; extend first"),
        ("      %r = math.cttz %x0 : i16", "i16", "math.cttz is for 32 and 64 bits; extend first"),
        ("      %r = math.cbrt %x0 : f32", "f32", "math.cbrt has no lowering to PTX; of math there are: math.absf"),
        (
            ALLOCATED.format(op="alloc", space=""),
            "f32",
            "shared memory",
        ),
        (
            ALLOCATED.format(op="alloca", space=", 7"),
            "f32",
            "memory space",
        ),
        (
            '      %r = "gpu.all_reduce"(%x0) <{op = #gpu<all_reduce_op add>}> ({}) : (f32) -> f32',
            "f32",
            "known_block_size",
        ),
    ],
)
def test_what_has_no_lowering_is_said(body: str, kind: str, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        applied(body, kind, (kind, np.zeros(4)))


def test_options_are_checked() -> None:
    text = (EXAMPLES / "saxpy.mlir").read_text()
    for options, message in (
        ({"target": "sm_99"}, "unknown target sm_99"),
        ({"index": 16}, "32 or 64 bits"),
        ({"version": "99.0"}, "newer than"),
    ):
        with pytest.raises(LoweringError, match=message):
            ConvertToPTX(**options).apply(Context(), parsed(text))
    with pytest.raises(LoweringError, match=r"no gpu\.module"):
        ConvertToPTX().apply(Context(), parsed("builtin.module {}"))
