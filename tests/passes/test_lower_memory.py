"""Memrefs and vectors of any rank, layout and element: addresses against NumPy's own views."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from pyptx.passes.lowering import LoweringError

from .from_mlir import RETURN, kernel_of, lowered, module_of, simulated

RNG = np.random.default_rng(31)


def constants(numbers: set[int]) -> str:
    return "\n".join(f"    %c{n} = arith.constant {n} : index" for n in sorted(numbers))


def subview_case(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray]:
    """(module, input, what it must write): all elements of a random subview with some of its unit dimensions dropped."""
    offsets = [int(rng.integers(n)) for n in shape]
    steps = [int(rng.integers(1, 3)) for _ in shape]
    sizes = [
        1 if rng.integers(2) else int(rng.integers(1, (n - o - 1) // s + 2))
        for n, o, s in zip(shape, offsets, steps, strict=True)
    ]
    gone = {i for i, n in enumerate(sizes) if n == 1 and rng.integers(2)}
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    view = x[tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, sizes, steps, strict=True))]
    wanted = view.reshape([n for i, n in enumerate(sizes) if i not in gone])
    strides = [x.strides[i] // 4 * steps[i] for i in range(len(shape)) if i not in gone]
    start = sum(o * s // 4 for o, s in zip(offsets, x.strides, strict=True))
    source = f"memref<{'x'.join(map(str, shape))}xf32>"
    dimensions = "".join(f"{n}x" for n in wanted.shape)
    result = f"memref<{dimensions}f32, strided<[{', '.join(map(str, strides))}], offset: {start}>>"
    out = f"memref<{dimensions}f32>"
    body = [constants({int(i) for place in np.ndindex(wanted.shape) for i in place})]
    body.append(f"    %v = memref.subview %x{offsets} {sizes} {steps} : {source} to {result}")
    for k, place in enumerate(np.ndindex(wanted.shape)):
        at = ", ".join(f"%c{i}" for i in place)
        body.append(f"    %e{k} = memref.load %v[{at}] : {result}\n    memref.store %e{k}, %out[{at}] : {out}")
    text = module_of(kernel_of(f"%x: {source}, %out: {out}", "\n".join([*body, RETURN])))
    return text, x, wanted


@pytest.mark.parametrize("seed", range(8))
def test_subviews_drop_the_dimensions_that_their_type_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = [(4, 4, 4), (3, 5), (2, 3, 2, 3), (6,), (3, 1, 4), (1, 3, 3), (2, 2, 5), (5, 1, 1)][seed]
    text, x, wanted = subview_case(shape, rng)
    out = np.full(wanted.shape, np.nan, np.float32)
    simulated(text, x, out, index=32 if seed % 2 else 64)
    assert np.array_equal(out, wanted)


def test_the_first_unit_dimension_may_stay() -> None:
    result = "memref<1x4xf32, strided<[16, 4]>>"
    body = f"""{constants({0, 1})}
    %j = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
    %v = memref.subview %x[0, 0, 0] [1, 4, 1] [1, 1, 1] : memref<4x4x4xf32> to {result}
    %e = memref.load %v[%c0, %j] : {result}
    memref.store %e, %out[%j] : memref<4xf32>
{RETURN}"""
    x, out = np.arange(64, dtype=np.float32).reshape(4, 4, 4), np.zeros(4, np.float32)
    simulated(module_of(kernel_of("%x: memref<4x4x4xf32>, %out: memref<4xf32>", body)), x, out, block=4)
    assert np.array_equal(out, x[0, :, 0])


ELEMENTS = [
    ("vector<4xf32>", np.float32, (4,), (4,)),
    ("vector<3xf32>", np.float32, (3,), (4,)),  # padded to 16 bytes, as in LLVM
    ("vector<2x3xi16>", np.int16, (2, 3), (2, 4)),
    ("vector<8xf16>", np.float16, (8,), (8,)),
    ("vector<2xf64>", np.float64, (2,), (2,)),
    ("vector<1xi8>", np.int8, (1,), (1,)),
]


@pytest.mark.parametrize(("kind", "dtype", "shape", "padded"), ELEMENTS)
def test_memrefs_of_vectors(kind: str, dtype: Any, shape: tuple[int, ...], padded: tuple[int, ...]) -> None:
    body = f"""    %i = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
{constants({1, 7})}
    %j = arith.subi %c7, %i : index
    %v = memref.load %x[%i] : memref<8x{kind}>
    %tile = memref.alloca() : memref<2x{kind}>
    memref.store %v, %tile[%c1] : memref<2x{kind}>
    %w = memref.load %tile[%c1] : memref<2x{kind}>
    memref.store %w, %y[%j] : memref<8x{kind}>
{RETURN}"""
    x = RNG.integers(-99, 99, (8, *padded)).astype(dtype)
    y = np.zeros_like(x)
    simulated(module_of(kernel_of(f"%x: memref<8x{kind}>, %y: memref<8x{kind}>", body)), x, y, block=8)
    inside = (slice(None), *(slice(n) for n in shape))
    assert np.array_equal(y[inside], x[::-1][inside])


VECTORS = [
    ("vector<2x4xf32>", "memref<4x8xf32>", (4, 8), (8, 1)),
    ("vector<2x4xf32>", "memref<4x4xf32, strided<[5, 1]>>", (4, 4), (5, 1)),  # whose rows are aligned to 4 bytes only
    ("vector<2x2x2xf64>", "memref<2x4x4xf64>", (2, 4, 4), (16, 4, 1)),
    ("vector<3xf32>", "memref<3x3xf32>", (3, 3), (3, 1)),
    ("vector<5xi8>", "memref<2x5xi8>", (2, 5), (5, 1)),
    ("vector<6xf16>", "memref<2x6xf16>", (2, 6), (6, 1)),
    ("vector<2x1xi32>", "memref<4x1xi32, strided<[3, 2]>>", (4, 1), (3, 2)),
    ("vector<2xi1>", "memref<4x2xi1>", (4, 2), (2, 1)),
]
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i32": np.int32, "i1": np.int8}


@pytest.mark.parametrize(("vector", "memory", "shape", "strides"), VECTORS)
def test_vectors_of_several_dimensions(
    vector: str, memory: str, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    dtype = np.dtype(DTYPES[vector.rpartition("x")[2].rstrip(">")])
    extents = tuple(map(int, vector.removeprefix("vector<").split("x")[:-1]))
    flat = RNG.integers(0, 2 if "i1" in vector else 99, 64).astype(dtype)
    bytes_ = tuple(s * dtype.itemsize for s in strides)
    x, result = as_strided(flat, shape, bytes_), np.full(64, 77, dtype)
    y = as_strided(result, shape, bytes_)
    # the last row of vectors that the memref has room for, to its first places
    first = tuple(n - m for n, m in zip(shape[-len(extents) :], extents, strict=True))
    first = (*(0,) * (len(shape) - len(extents)), *(n // m * m for n, m in zip(first, extents, strict=True)))
    body = f"""{constants({0, *first})}
    %v = vector.load %x[{", ".join(f"%c{n}" for n in first)}] : {memory}, {vector}
    vector.store %v, %y[{", ".join("%c0" for _ in first)}] : {memory}, {vector}
{RETURN}"""
    wanted, size = np.full(64, 77, dtype), (1,) * (len(shape) - len(extents)) + extents
    taken = tuple(slice(n, n + m) for n, m in zip(first, size, strict=True))
    as_strided(wanted, shape, bytes_)[tuple(slice(m) for m in size)] = x[taken]
    simulated(module_of(kernel_of(f"%x: {memory}, %y: {memory}", body)), flat, result)
    assert np.array_equal(result, wanted)
    assert not np.array_equal(y, np.full_like(y, 77))


def test_a_strided_variable_has_room_for_its_last_element() -> None:
    kind = "memref<4x4xf32, strided<[8, 1]>>"
    body = f"""{constants({0})}
    %t = memref.alloca() : {kind}
    %v = memref.load %t[%c0, %c0] : {kind}
    memref.store %v, %out[%c0] : memref<1xf32>
{RETURN}"""
    assert "[112]" in lowered(module_of(kernel_of("%out: memref<1xf32>", body)))  # (3 * 8 + 3 + 1) * 4


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    %v = vector.load %x[%i] : memref<8xf32>, vector<2x2xf32>", "more dimensions"),
        ("    %t = memref.alloca() : memref<2xvector<2xi1>>", "vectors of i1"),
        ("    %t = memref.alloca() : memref<2xf32, strided<[-1]>>", "negative stride"),
        ("    %t = memref.get_global @nothing : memref<2xf32>", "@nothing: the gpu.module defines no"),
        ("    %t = memref.get_global @k : memref<2xf32>", "@k: the gpu.module defines no"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    index = '    %i = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index\n'
    with pytest.raises(LoweringError, match=message):
        lowered(module_of(kernel_of("%x: memref<8xf32>", index + body + "\n" + RETURN)))


# ------------------------------------------------------------------------------------------------------- blocks, names


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_blocks_in_any_order(order: tuple[int, ...]) -> None:
    """The order of blocks means nothing in MLIR: a block may be written before those that dominate it."""
    written = [
        "  ^first:\n    %two = arith.addi %i, %i : index\n    cf.br ^second(%two : index)",
        "  ^second(%s: index):\n    %t = arith.addi %s, %two : index\n    cf.cond_br %p, ^last, ^third",
        "  ^third:\n    cf.br ^last",
    ]
    body = f"""    %i = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
    %zero = arith.constant 0 : index
    %p = arith.cmpi eq, %i, %zero : index
    cf.br ^first
  ^last:
    %r = arith.index_cast %t : index to i32
    memref.store %r, %out[%i] : memref<4xi32>
{RETURN}
{chr(10).join(written[k] for k in order)}
  ^unreachable:
    %never = arith.addi %t, %i : index
    cf.br ^last"""
    out = np.zeros(4, np.int32)
    simulated(module_of(kernel_of("%out: memref<4xi32>", body)), out, block=4)
    assert out.tolist() == [0, 4, 8, 12]


def named(symbol: str) -> str:
    body = f"""{constants({0})}
    %tile.a = memref.alloca() : memref<4xf32, 3>
    %v = memref.load %tile.a[%c0] : memref<4xf32, 3>
    memref.store %v, %x[%c0] : memref<1xf32>
{RETURN}"""
    return kernel_of("%x: memref<1xf32>", body, name=symbol)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("a.b-c", "a_b_c"),
        ("0", "_0"),
        ("a b", "a_b"),
        ("é", "_"),
        ("_", "__1"),
        ("WARP_SZ", "WARP_SZ_1"),
        ("k$1", "k$1"),
    ],
)
def test_names_of_mlir_become_names_of_ptx(symbol: str, name: str) -> None:
    made = lowered(module_of(named(symbol)))
    assert f".entry {name}(" in made or (symbol == "é" and ".entry __1(" in made)


def test_legal_names_stay_and_equal_ones_are_told_apart() -> None:
    ptx = lowered(module_of(named("a.b"), named("a_b"), named("a-b")))
    assert [line.split()[2] for line in ptx.splitlines() if ".entry" in line] == ["a_b_1(", "a_b(", "a_b_2("]


def test_a_symbol_of_two_modules() -> None:
    text = "\n".join(
        module_of(named(s)).replace('"m"', f'"{m}"') for m, s in [("m1", "k"), ("m2", "k"), ("m3", "other")]
    )
    ptx = lowered(f"builtin.module {{\n{text}\n}}")
    assert [line.split()[2] for line in ptx.splitlines() if ".entry" in line] == ["m1_k(", "m2_k(", "other("]


def test_module_variables() -> None:
    body = f"""{constants({0, 1})}
    %t = memref.get_global @table : memref<2xf32>
    %v = memref.load %t[%c1] : memref<2xf32>
    memref.store %v, %x[%c0] : memref<1xf32>
{RETURN}"""
    table = (
        '"memref.global"() <{sym_name = "table", sym_visibility = "private", type = memref<2xf32>, '
        "initial_value = dense<[1.5, -2.5]> : tensor<2xf32>}> : () -> ()"
    )
    out = np.zeros(1, np.float32)
    simulated(module_of(table, kernel_of("%x: memref<1xf32>", body)), out)
    assert out.tolist() == [-2.5]
