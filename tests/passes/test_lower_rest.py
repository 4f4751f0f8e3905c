"""Calls, parallel loops, transfers with masks and bounds, atomics without an instruction: against Python and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

from pyptx.passes.convert_to_ptx import ConvertToPTX
from pyptx.passes.lowering import LoweringError

from .from_mlir import RETURN, applied, kernel_of, lowered, module_of, parsed, simulated

NAN = np.float32(np.nan)
HALVES = np.array(
    [0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.0, 8388609.0, np.inf, -np.inf, NAN, -0.3, 4096.5], np.float32
)


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_rounding_of_halves_away_from_zero(kind: str) -> None:
    with np.errstate(over="ignore"):
        x = HALVES.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])
    found = applied(f"      %r = math.round %x0 : {kind}", kind, (kind, x))
    # C's round: |x| + 1/2 is exact in f64 for these
    wanted = np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(x))


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_whole_powers(kind: str) -> None:
    bases = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -1.5, 3.3, -0.7, np.inf, -np.inf, 1.0000001, 0.1], np.float32)
    numbers = [0, 1, -1, 2, -2, 3, -3, 7, 100, -101, 127, -128]
    if kind == "i64":
        numbers += [2**53 + 1, 2**62]
    x, n = (v.ravel() for v in np.meshgrid(bases, np.array(numbers, f"int{kind[1:]}")))
    found = applied(f"      %r = math.fpowi %x0, %x1 : f32, {kind}", "f32", ("f32", x), (kind, n))
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), n.astype(np.float64))
        odd = (n & 1) != 0
        wanted = np.where(odd, np.copysign(np.abs(wanted), x), np.abs(wanted)).astype(np.float32)
    np.testing.assert_array_max_ulp(found, wanted, 1)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_sums_with_a_carry(kind: str) -> None:
    bits = int(kind[1:])
    a = np.array([1, -1, 5, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))], f"int{bits}")
    body = f"""      %s, %c = arith.addui_extended %x0, %x1 : {kind}, i1
      %e = arith.extui %c : i1 to {kind}
      %r = arith.addi %e, %e : {kind}"""
    found = applied(body, kind, (kind, a), (kind, a[::-1]))
    mask = (1 << bits) - 1
    assert found.tolist() == [2 * ((int(x) & mask) + (int(y) & mask) > mask) for x, y in zip(a, a[::-1], strict=True)]


def test_parallel_loops_with_reductions() -> None:
    """Two dimensions, a sum and a maximum, and a loop inside."""
    body = """      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c7 = arith.constant 7 : index
      %zero = arith.constant 0 : i32
      %low = arith.constant -1000 : i32
      %end:2 = "scf.parallel"(%c0, %c1, %c3, %c7, %c1, %c2, %zero, %low) <{operandSegmentSizes = array<i32: 2, 2, 2, 2>}> ({
      ^body(%a: index, %b: index):
        %p = arith.muli %a, %b : index
        %q = arith.index_cast %p : index to i32
        %s = scf.for %k = %c0 to %a step %c1 iter_args(%u = %q) -> (i32) {
          %v = arith.addi %u, %x0 : i32
          scf.yield %v : i32
        }
        "scf.reduce"(%s, %s) ({
        ^sum(%l: i32, %m: i32):
          %n = arith.addi %l, %m : i32
          "scf.reduce.return"(%n) : (i32) -> ()
        }, {
        ^max(%l: i32, %m: i32):
          %n = arith.maxsi %l, %m : i32
          "scf.reduce.return"(%n) : (i32) -> ()
        }) : (i32, i32) -> ()
      }) : (index, index, index, index, index, index, i32, i32) -> (i32, i32)
      %r = arith.muli %end#0, %end#1 : i32"""
    x = np.array([0, 1, -7, 20])

    def value(n: int) -> int:
        made = [a * b + a * n for a in range(3) for b in range(1, 7, 2)]
        return sum(made) * max(*made, -1000)

    assert applied(body, "i32", ("i32", x)).tolist() == [value(int(n)) for n in x]


FUNCTIONS = """  func.func @twice(%x: i32) -> i32 {
    %r = arith.addi %x, %x : i32
    func.return %r : i32
  }
  func.func @clamped(%x: i32, %m: memref<?xi32>) -> i32 {
    %zero = arith.constant 0 : i32
    %c0 = arith.constant 0 : index
    %below = arith.cmpi slt, %x, %zero : i32
    cf.cond_br %below, ^low, ^high
  ^low:
    %f = memref.load %m[%c0] : memref<?xi32>
    func.return %f : i32
  ^high:
    %t = func.call @twice(%x) : (i32) -> i32
    func.return %t : i32
  }"""


def called(body: str, *others: str) -> str:
    return module_of(*others, kernel_of("%x: memref<?xi32>, %y: memref<?xi32>", body + RETURN))


def test_calls_of_functions() -> None:
    body = """    %i = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
    %v = memref.load %x[%i] : memref<?xi32>
    %a = func.call @clamped(%v, %x) : (i32, memref<?xi32>) -> i32
    %b = func.call @twice(%a) : (i32) -> i32
    %c = func.call @clamped(%b, %x) : (i32, memref<?xi32>) -> i32
    memref.store %c, %y[%i] : memref<?xi32>
"""
    x = np.array([-5, 3, -1, 0, 12], np.int32)
    y = np.zeros(5, np.int32)
    simulated(called(body, FUNCTIONS), x, 5, y, 5, block=5)

    def clamped(v: int) -> int:
        return int(x[0]) if v < 0 else 2 * v

    assert y.tolist() == [clamped(2 * clamped(int(v))) for v in x]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ("  func.func private @f()", "@f: the gpu.module has no body of that function"),
        ("  func.func @f() {\n func.call @g() : () -> ()\n func.return\n }\n  func.func @g() {\n func.call @f() : () -> ()\n"
         " func.return\n }", "calls itself; write a loop"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_inlined(functions: str, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        lowered(called("    func.call @f() : () -> ()\n", functions))


def test_calls_that_double_at_each_step_are_bounded() -> None:
    twice = (
        "  func.func @f{n}() {{\n  func.call @f{m}() : () -> ()\n  func.call @f{m}() : () -> ()\n  func.return\n  }}"
    )
    steps = [twice.format(n=n, m=n + 1) for n in range(40)]
    last = '  func.func @f40() {\n  "gpu.barrier"() : () -> ()\n  func.return\n  }'
    with pytest.raises(LoweringError, match="more than 200000 operations"):
        lowered(called("    func.call @f0() : () -> ()\n", *steps, last))


def numbers_of(kind: str) -> int:
    return int(pytest.importorskip("jaxlib.mlir.dialects._arith_enum_gen").AtomicRMWKind[kind])


EXACT = [1.5, -2.0, 0.25, 4.0, -0.5, 8.0, 2.0, -1.0]


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
@pytest.mark.parametrize("kind", ["maximumf", "minimumf", "maxnumf", "minnumf", "mulf"])
def test_atomics_without_an_instruction(kind: str, type_: str) -> None:
    body = f"""      %c0 = arith.constant 0 : index
      %old = "memref.atomic_rmw"(%x0, %a1, %c0) <{{kind = {numbers_of(kind)} : i64}}> : ({type_}, memref<?x{type_}>, index) -> {type_}
      "gpu.barrier"() : () -> ()
      %r = memref.load %a1[%c0] : memref<?x{type_}>"""
    combine = {"max": np.fmax, "min": np.fmin, "mul": np.multiply}[kind[:3]]
    for first in (1.0, np.nan):
        x = np.array(EXACT)
        if kind == "mulf" and first != first:
            continue
        given = np.full(8, first)
        found = applied(body, type_, (type_, x), (type_, given))
        if kind.endswith("imumf") and first != first:
            assert np.isnan(found).all()
        else:
            assert np.array_equal(found, np.full(8, combine.reduce([first, *EXACT])))


@pytest.mark.parametrize(("kind", "type_"), [("muli", "i32"), ("addi", "i16"), ("maxu", "i16"), ("assign", "f16")])
def test_other_atomics_without_an_instruction(kind: str, type_: str) -> None:
    """What they return, too: values of all threads but one and the first one, in some order."""
    body = f"""      %c0 = arith.constant 0 : index
      %r = "memref.atomic_rmw"(%x0, %a1, %c0) <{{kind = {numbers_of(kind)} : i64}}> : ({type_}, memref<?x{type_}>, index) -> {type_}"""
    x = np.array([3, 5, 7])
    found = applied(body, type_, (type_, x), (type_, np.array([2, 2, 2])))
    if kind == "assign":
        assert set(found.tolist()) < {2, 3, 5, 7}
    else:
        orders = ([3, 5, 7], [3, 7, 5], [5, 3, 7], [5, 7, 3], [7, 3, 5], [7, 5, 3])
        step = {"muli": lambda a, b: a * b, "addi": lambda a, b: a + b, "maxu": max}[kind]
        seen: list[dict[int, int]] = []
        for order in orders:
            now, olds = 2, {}
            for v in order:
                olds[v] = now
                now = step(now, v)
            seen.append(olds)
        assert dict(zip(x.tolist(), found.tolist(), strict=True)) in seen


def test_atomic_sums_of_bf16_before_sm_90() -> None:
    text = module_of(kernel_of("%x: memref<?xbf16>, %v: bf16", f"""    %c0 = arith.constant 0 : index
    %old = "memref.atomic_rmw"(%v, %x, %c0) <{{kind = 0 : i64}}> : (bf16, memref<?xbf16>, index) -> bf16\n{RETURN}"""))  # fmt: skip
    assert "atom.global.cas.b16" in lowered(text) and "atom.global.cas" not in lowered(text, target="sm_90")


@pytest.mark.parametrize(
    ("kind", "type_"), [("mulf", "f32"), ("muli", "i32"), ("addi", "i16"), ("addi", "i32"), ("addi", "i8")]
)
def test_refused_atomics_are_named_as_they_were_written(kind: str, type_: str) -> None:
    body = f"""    %c0 = arith.constant 0 : index
    %a = memref.alloca() : memref<8x{type_}>
    %old = "memref.atomic_rmw"(%v, %a, %c0) <{{kind = {numbers_of(kind)} : i64}}> : ({type_}, memref<8x{type_}>, index) -> {type_}\n"""
    with pytest.raises(LoweringError) as raised:
        lowered(module_of(kernel_of(f"%v: {type_}", body + RETURN)))
    message = str(raised.value)
    assert message.startswith(
        "memref.atomic_rmw cannot become PTX: atomics are on scalars of global or shared memory\n"
    )
    assert "memref.atomic_rmw" in message.split("\n")[1] and "pyptx." not in message


TRANSFER = """    %pad = arith.constant -9 : i32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %t = memref.reinterpret_cast %x to offset: [0], sizes: [3, 5], strides: [5, 1] : memref<?xi32> to memref<3x5xi32, strided<[5, 1]>>
"""
MATRIX = "memref<3x5xi32, strided<[5, 1]>>"


def test_transfers_that_leave_the_memref() -> None:
    """A corner of a 3 x 5 matrix: what is outside is the padding, and is not written."""
    body = f"""{TRANSFER}
    %v = "vector.transfer_read"(%t, %c2, %c4, %pad) <{{in_bounds = [false, false], permutation_map = affine_map<(d0, d1) -> (d0, d1)>,
         operandSegmentSizes = array<i32: 1, 2, 1, 0>}}> : ({MATRIX}, index, index, i32) -> vector<2x2xi32>
    %z = memref.reinterpret_cast %y to offset: [0], sizes: [2, 2], strides: [2, 1] : memref<?xi32> to memref<2x2xi32, strided<[2, 1]>>
    "vector.transfer_write"(%v, %z, %c0, %c0) <{{in_bounds = [true, true], permutation_map = affine_map<(d0, d1) -> (d1, d0)>,
         operandSegmentSizes = array<i32: 1, 1, 2, 0>}}> : (vector<2x2xi32>, memref<2x2xi32, strided<[2, 1]>>, index, index) -> ()
    "vector.transfer_write"(%v, %t, %c1, %c4) <{{in_bounds = [true, false], permutation_map = affine_map<(d0, d1) -> (d0, d1)>,
         operandSegmentSizes = array<i32: 1, 1, 2, 0>}}> : (vector<2x2xi32>, {MATRIX}, index, index) -> ()
"""
    x, y = np.arange(16, dtype=np.int32), np.zeros(4, np.int32)
    simulated(called(body), x, 16, y, 4)
    assert y.tolist() == [14, -9, -9, -9]
    wanted = np.arange(16)
    wanted[[9, 14]] = [14, -9]
    assert x.tolist() == wanted.tolist()


def test_transposed_and_repeated_reads() -> None:
    body = f"""{TRANSFER}
    %v = "vector.transfer_read"(%t, %c0, %c1, %pad) <{{in_bounds = [true, true], permutation_map = affine_map<(d0, d1) -> (d1, d0)>,
         operandSegmentSizes = array<i32: 1, 2, 1, 0>}}> : ({MATRIX}, index, index, i32) -> vector<4x3xi32>
    vector.store %v, %z[%c0, %c0] : memref<4x3xi32, strided<[3, 1]>>, vector<4x3xi32>
    %w = "vector.transfer_read"(%t, %c1, %c2, %pad) <{{in_bounds = [true, true], permutation_map = affine_map<(d0, d1) -> (0, d1)>,
         operandSegmentSizes = array<i32: 1, 2, 1, 0>}}> : ({MATRIX}, index, index, i32) -> vector<2x2xi32>
    vector.store %w, %u[%c0, %c0] : memref<2x2xi32, strided<[2, 1], offset: 12>>, vector<2x2xi32>
""".replace("    %v =", """    %z = memref.reinterpret_cast %y to offset: [0], sizes: [4, 3], strides: [3, 1] : memref<?xi32> to memref<4x3xi32, strided<[3, 1]>>
    %u = memref.reinterpret_cast %y to offset: [12], sizes: [2, 2], strides: [2, 1] : memref<?xi32> to memref<2x2xi32, strided<[2, 1], offset: 12>>
    %v =""", 1)  # fmt: skip
    x, y = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    simulated(called(body), x, 16, y, 16)
    matrix = x[:15].reshape(3, 5)
    assert y.tolist() == [*matrix[:, 1:].T.ravel(), *matrix[1, 2:4], *matrix[1, 2:4]]


@pytest.mark.parametrize("count", [-1, 0, 3, 9])
def test_masked_vectors(count: int) -> None:
    """The last elements of a row that ends at `count`; memory outside of it is not touched."""
    body = """    %c0 = arith.constant 0 : index
    %n = memref.load %y[%c0] : memref<?xi32>
    %size = arith.index_cast %n : i32 to index
    %pad = arith.constant -9 : i32
    %seven = arith.constant dense<7> : vector<4xi32>
    %m = vector.create_mask %size : vector<4xi1>
    %a = vector.maskedload %x[%c0], %m, %seven : memref<?xi32>, vector<4xi1>, vector<4xi32> into vector<4xi32>
    %b = "vector.transfer_read"(%x, %c0, %pad, %m) <{in_bounds = [false], permutation_map = affine_map<(d0) -> (d0)>,
         operandSegmentSizes = array<i32: 1, 1, 1, 1>}> : (memref<?xi32>, index, i32, vector<4xi1>) -> vector<4xi32>
    %c = arith.addi %a, %b : vector<4xi32>
    vector.store %c, %y[%c0] : memref<?xi32>, vector<4xi32>
    vector.maskedstore %x[%c0], %m, %seven : memref<?xi32>, vector<4xi1>, vector<4xi32>
"""
    kept = min(max(count, 0), 3)
    x = np.arange(10, 10 + 3, dtype=np.int32)  # 3 elements: a fourth would be out of bounds
    y = np.array([min(count, 3), 0, 0, 0], np.int32)
    simulated(called(body), x, 3, y, 4)
    assert y.tolist() == [2 * v for v in range(10, 10 + kept)] + [-2] * (4 - kept)
    assert x.tolist() == [7] * kept + list(range(10 + kept, 13))


def test_a_launch_is_to_be_outlined_first() -> None:
    text = """builtin.module { func.func @host(%n: index) {
      "gpu.launch"(%n, %n, %n, %n, %n, %n) <{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>}> ({
      ^bb(%a: index, %b: index, %c: index, %d: index, %e: index, %f: index, %g: index, %h: index, %i: index, %j: index,
          %k: index, %l: index):
        "gpu.terminator"() : () -> ()
      }) : (index, index, index, index, index, index) -> ()
      func.return } }"""
    with pytest.raises(LoweringError, match="outline it with mlir-opt --gpu-kernel-outlining"):
        ConvertToPTX().apply(Context(), parsed(text))
