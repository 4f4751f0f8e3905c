"""Loops, switches, small integers, divisions, atomics, transfers: against Python and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.passes.lowering import LoweringError

from .from_mlir import applied

BYTES = np.array([0, 1, -1, 7, -8, 127, -128, 100, 3, -77], np.int8)
OTHERS = np.array([1, 2, 3, -2, 5, -1, 7, 100, -3, 11], np.int8)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


SMALL: dict[str, Any] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "divsi": truncated,
    "divui": lambda a, b: (a & 255) // (b & 255), "remsi": lambda a, b: a - truncated(a, b) * b,
    "remui": lambda a, b: (a & 255) % (b & 255), "maxsi": max, "minsi": min,
    "maxui": lambda a, b: max(a & 255, b & 255), "minui": lambda a, b: min(a & 255, b & 255),
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SMALL))
def test_integers_of_8_bits(name: str) -> None:
    # a sum first, so that the register has bits above the eighth
    body = f"      %big = arith.addi %x0, %x1 : i8\n      %a = arith.subi %big, %x1 : i8\n      %r = arith.{name} %a, %x1 : i8"
    found = applied(body, "i8", ("i8", BYTES), ("i8", OTHERS))
    wanted = [SMALL[name](int(a), int(b)) & 255 for a, b in zip(BYTES, OTHERS, strict=True)]
    assert [int(v) & 255 for v in found] == wanted


@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
def test_shifts_of_8_bits(name: str) -> None:
    amount = np.arange(10, dtype=np.int8) % 8
    found = applied(f"      %r = arith.{name} %x0, %x1 : i8", "i8", ("i8", BYTES), ("i8", amount))
    shift = {"shli": lambda a, n: a << n, "shrsi": lambda a, n: a >> n, "shrui": lambda a, n: (a & 255) >> n}[name]
    assert [int(v) & 255 for v in found] == [shift(int(a), int(n)) & 255 for a, n in zip(BYTES, amount, strict=True)]


@pytest.mark.parametrize("name", ["slt", "ult", "sge", "uge", "eq"])
def test_comparisons_of_8_bits(name: str) -> None:
    body = f"      %c = arith.cmpi {name}, %x0, %x1 : i8\n      %r = arith.extui %c : i1 to i32"
    found = applied(body, "i32", ("i8", BYTES), ("i8", OTHERS))
    a, b = (v.view(np.uint8) if name[0] == "u" else v for v in (BYTES, OTHERS))
    relation = {"lt": np.less, "ge": np.greater_equal, "eq": np.equal}[name.lstrip("us")]
    assert np.array_equal(found, relation(a, b).astype(np.int32))


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("name", ["ceildivsi", "ceildivui", "floordivsi"])
def test_rounded_divisions(name: str, kind: str) -> None:
    bits = int(kind[1:])
    a, b = (v[:9].astype(f"int{bits}") for v in (BYTES, OTHERS))
    found = applied(f"      %r = arith.{name} %x0, %x1 : {kind}", kind, (kind, a), (kind, b))
    mask = (1 << bits) - 1
    pairs = [(int(x) & mask, int(y) & mask) if "ui" in name else (int(x), int(y)) for x, y in zip(a, b, strict=True)]
    wanted = [(x // y if name == "floordivsi" else -(-x // y)) & mask for x, y in pairs]
    assert [int(v) & mask for v in found] == wanted


@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("kind", ["i16", "i32", "i64"])
def test_extended_products(kind: str, sign: str) -> None:
    bits = int(kind[1:])
    a = np.array([3, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))], f"int{bits}")
    body = f"""      %low, %r = "arith.mul{sign}i_extended"(%x0, %x1) : ({kind}, {kind}) -> ({kind}, {kind})"""
    found = applied(body, kind, (kind, a), (kind, a[::-1]))
    mask = (1 << bits) - 1
    values = [int(v) if sign == "s" else int(v) & mask for v in a]
    assert [int(v) & mask for v in found] == [(x * y >> bits) & mask for x, y in zip(values, values[::-1], strict=True)]


def test_a_while_loop() -> None:
    """Steps of the Collatz sequence, with a loop inside."""
    body = """      %one = arith.constant 1 : i32
      %two = arith.constant 2 : i32
      %three = arith.constant 3 : i32
      %zero = arith.constant 0 : i32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %end:2 = scf.while (%n = %x0, %s = %zero) : (i32, i32) -> (i32, i32) {
        %more = arith.cmpi ne, %n, %one : i32
        scf.condition(%more) %n, %s : i32, i32
      } do {
      ^body(%n: i32, %s: i32):
        %bit = arith.andi %n, %one : i32
        %odd = arith.cmpi eq, %bit, %one : i32
        %next = scf.if %odd -> (i32) {
          %t = scf.for %k = %c0 to %c3 step %c1 iter_args(%u = %one) -> (i32) {
            %v = arith.addi %u, %n : i32
            scf.yield %v : i32
          }
          scf.yield %t : i32
        } else {
          %h = arith.shrui %n, %one : i32
          scf.yield %h : i32
        }
        %t = arith.addi %s, %one : i32
        scf.yield %next, %t : i32, i32
      }
      %r = arith.addi %end#1, %zero : i32"""

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    found = applied(body, "i32", ("i32", np.arange(1, 31)))
    assert found.tolist() == [steps(n) for n in range(1, 31)]


def test_index_switch() -> None:
    body = """      %i0 = arith.index_cast %x0 : i32 to index
      %r = "scf.index_switch"(%i0) <{cases = array<i64: 2, 5, -1>}> ({
        %d = arith.constant 100 : i32
        scf.yield %d : i32
      }, {
        %a = arith.constant 20 : i32
        scf.yield %a : i32
      }, {
        %b = arith.constant 50 : i32
        scf.yield %b : i32
      }, {
        scf.yield %x0 : i32
      }) : (index) -> i32"""
    assert applied(body, "i32", ("i32", np.array([0, 2, 5, -1, 7]))).tolist() == [100, 20, 50, -1, 100]


def test_assertions_trap() -> None:
    body = """      %ten = arith.constant 10 : i32
      %ok = arith.cmpi slt, %x0, %ten : i32
      cf.assert %ok, "too large"
      %r = arith.addi %x0, %ten : i32"""
    assert applied(body, "i32", ("i32", np.array([1, 2]))).tolist() == [11, 12]
    with pytest.raises(Exception, match="trap"):
        applied(body, "i32", ("i32", np.array([1, 12])))


ATOMICS = {
    "addi": np.add.reduce, "maxs": np.maximum.reduce, "maxu": lambda v: v.view(np.uint32).max().view(np.int32),
    "mins": np.minimum.reduce, "minu": lambda v: v.view(np.uint32).min().view(np.int32), "ori": np.bitwise_or.reduce,
    "andi": np.bitwise_and.reduce, "xori": np.bitwise_xor.reduce,
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(ATOMICS))
def test_atomics(kind: str) -> None:
    number = int(pytest.importorskip("jaxlib.mlir.dialects._arith_enum_gen").AtomicRMWKind[kind])
    body = f"""      %c0 = arith.constant 0 : index
      %old = "memref.atomic_rmw"(%x0, %a1, %c0) <{{kind = {number} : i64}}> : (i32, memref<?xi32>, index) -> i32
      "gpu.barrier"() : () -> ()
      %r = memref.load %a1[%c0] : memref<?xi32>"""
    x = np.array([12, -7, 300, 5, 77, -1, 1 << 20, -(1 << 30)], np.int32)
    start = np.array([6] * 8, np.int32)
    found = applied(body, "i32", ("i32", x), ("i32", start))
    assert np.array_equal(found, np.full(8, ATOMICS[kind](np.append(x, np.int32(6)).astype(np.int32))))


def test_atomic_sums_of_f16() -> None:
    body = """      %c0 = arith.constant 0 : index
      %old = "memref.atomic_rmw"(%x0, %a1, %c0) <{kind = 0 : i64}> : (f16, memref<?xf16>, index) -> f16
      "gpu.barrier"() : () -> ()
      %r = memref.load %a1[%c0] : memref<?xf16>"""
    x = np.arange(8).astype(np.float16)
    assert np.array_equal(applied(body, "f16", ("f16", x), ("f16", np.zeros(8))), np.full(8, x.sum()))


def test_transfers_copies_and_shapes() -> None:
    body = """      %c0 = arith.constant 0 : index
      %t = memref.alloca() : memref<2x2xi32>
      %u = memref.alloca() : memref<2x2xi32>
      %v = "vector.transfer_read"(%a1, %c0, %x0) <{in_bounds = [true], permutation_map = affine_map<(d0) -> (d0)>,
            operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (memref<?xi32>, index, i32) -> vector<4xi32>
      %m = "vector.shape_cast"(%v) : (vector<4xi32>) -> vector<2x2xi32>
      "vector.transfer_write"(%m, %t, %c0, %c0) <{in_bounds = [true, true], permutation_map = affine_map<(d0, d1) -> (d0, d1)>,
            operandSegmentSizes = array<i32: 1, 1, 2, 0>}> : (vector<2x2xi32>, memref<2x2xi32>, index, index) -> ()
      "memref.copy"(%t, %u) : (memref<2x2xi32>, memref<2x2xi32>) -> ()
      %flat = "memref.collapse_shape"(%u) <{reassociation = [[0 : i64, 1 : i64]]}> : (memref<2x2xi32>) -> memref<4xi32>
      %r = memref.load %flat[%i] : memref<4xi32>"""
    x = np.array([5, 6, 7, 8], np.int32)
    assert np.array_equal(applied(body, "i32", ("i32", x * 0), ("i32", x)), x)


@pytest.mark.parametrize("shape", ["64", "8x8", "65", "5x13"])
def test_copies_are_of_64_elements_at_most(shape: str) -> None:
    count = int(np.prod([int(n) for n in shape.split("x")]))
    zeros = ", ".join("%c0" for _ in shape.split("x"))
    body = f"""      %c0 = arith.constant 0 : index
      %t = memref.alloca() : memref<{shape}xi32>
      %u = memref.alloca() : memref<{shape}xi32>
      memref.store %x0, %t[{zeros}] : memref<{shape}xi32>
      "memref.copy"(%t, %u) : (memref<{shape}xi32>, memref<{shape}xi32>) -> ()
      %r = memref.load %u[{zeros}] : memref<{shape}xi32>"""
    x = np.array([5], np.int32)
    if count > 64:
        with pytest.raises(LoweringError, match="a copy of more than 64 elements"):
            applied(body, "i32", ("i32", x))
    else:
        assert np.array_equal(applied(body, "i32", ("i32", x)), x)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('      "gpu.printf"(%x0) <{format = "x"}> : (i32) -> ()\n', "gpu.printf has no lowering to PTX: store what"),
    ],
)
def test_what_to_use_instead_is_said(body: str, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        applied(body + "      %r = arith.addi %x0, %x0 : i32", "i32", ("i32", np.zeros(4)))
