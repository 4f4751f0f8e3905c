"""Today's generic form of MLIR: what upstream (jaxlib's bindings) prints of its own syntax is read, lowered and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.passes.lowering import LoweringError

from .from_mlir import lowered, simulated


def upstream(text: str) -> str:
    """MLIR text, verified by upstream and printed in its generic form."""
    ir = pytest.importorskip("jaxlib.mlir.ir")
    extension = pytest.importorskip("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        return module.operation.get_asm(print_generic_op_form=True)


def run(text: str, *arguments: Any, **options: Any) -> None:
    simulated(upstream(text), *arguments, **options)


KERNEL = """
gpu.module @m {{
  memref.global "private" @buffer : memref<64xf32, #gpu.address_space<workgroup>>
  memref.global "private" @other : memref<64xf32, 3> = uninitialized
  gpu.func @k(%x: memref<64xf32>, %y: memref<64xf32>) workgroup(%w: memref<64xf32, #gpu.address_space<workgroup>>)
      private(%p: memref<1xf32, #gpu.address_space<private>>) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %i = gpu.thread_id x upper_bound 64
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : i32
    %c8 = arith.constant 8 : i32
    %c32 = arith.constant 32 : i32
    %v = memref.load %x[%i] : memref<64xf32>
    {body}
    memref.store %r, %y[%i] : memref<64xf32>
    gpu.return
  }}
}}
"""
X = np.random.default_rng(3).integers(-50, 50, 64).astype(np.float32)


def result(body: str, **options: Any) -> np.ndarray:
    y = np.full(64, np.nan, np.float32)
    run(KERNEL.format(body=body), X, y, block=64, **options)
    return y


def through(memory: str, type_: str, barrier: str = "gpu.barrier") -> str:
    return f"""memref.store %v, %{memory}[%i] : {type_}
    {barrier}
    %c63 = arith.constant 63 : index
    %j = arith.subi %c63, %i : index
    %r = memref.load %{memory}[%j] : {type_}"""


SHARED = "memref<64xf32, #gpu.address_space<workgroup>>"


@pytest.mark.parametrize(
    "body",
    [
        through("w", SHARED),
        through("w", SHARED, "gpu.barrier memfence [#gpu.address_space<workgroup>]"),
        f"%b = memref.get_global @buffer : {SHARED}\n    {through('b', SHARED)}",
        f"%b = memref.get_global @other : memref<64xf32, 3>\n    {through('b', 'memref<64xf32, 3>')}",
    ],
)
def test_shared_memory_and_barriers(body: str) -> None:
    assert np.array_equal(result(body), X[::-1])


def test_private_memory() -> None:
    body = "memref.store %v, %p[%c0] : memref<1xf32, #gpu.address_space<private>>\n"
    body += "    %r = memref.load %p[%c0] : memref<1xf32, #gpu.address_space<private>>"
    assert np.array_equal(result(body), X)
    assert ".reqntid 64, 1, 1" in " ".join(lowered(upstream(KERNEL.format(body=body))).split())


def shuffled(mode: str, distance: int, width: int) -> np.ndarray:
    lanes = np.arange(64)
    base, within = lanes // width * width, lanes % width
    other = {
        "xor": within ^ distance,
        "up": within - distance,
        "down": within + distance,
        "idx": within * 0 + distance,
    }[mode]
    inside = (other >= 0) & (other < width)
    return np.where(inside, X[np.where(inside, base + other, lanes)], -1000)


@pytest.mark.parametrize("width", [4, 32])
@pytest.mark.parametrize("mode", ["xor", "up", "down", "idx"])
def test_shuffles(mode: str, width: int) -> None:
    body = f"""%n = arith.constant {width} : i32
    %s, %ok = gpu.shuffle {mode} %v, %c1, %n : f32
    %outside = arith.constant -1000.0 : f32
    %r = arith.select %ok, %s, %outside : f32"""
    assert np.array_equal(result(body), shuffled(mode, 1, width))


def test_shuffles_of_64_bits() -> None:
    body = """%d = arith.extf %v : f32 to f64
    %s, %ok = gpu.shuffle xor %d, %c1, %c32 : f64
    %r = arith.truncf %s : f64 to f32"""
    assert np.array_equal(result(body), X[np.arange(64) ^ 1])


KINDS = {"add": np.sum, "mul": np.prod, "minnumf": np.min, "maxnumf": np.max, "minimumf": np.min, "maximumf": np.max}
INTEGER_KINDS = {"add": np.sum, "minsi": np.min, "maxui": lambda v, axis: v.view(np.uint32).max(axis).view(np.int32),
                 "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_subgroup_reductions(kind: str) -> None:
    found = result(f"%r = gpu.subgroup_reduce {kind} %v cluster(size = 2) : (f32) -> f32")
    assert np.array_equal(found, np.repeat(KINDS[kind](X.reshape(-1, 2), 1), 2))


@pytest.mark.parametrize("kind", sorted(INTEGER_KINDS))
def test_integer_reductions(kind: str) -> None:
    body = f"""%n = arith.fptosi %v : f32 to i32
    %s = gpu.subgroup_reduce {kind} %n : (i32) -> i32
    %a = gpu.all_reduce {kind} %s {{}} : (i32) -> i32
    %t = arith.subi %s, %a : i32
    %r = arith.sitofp %t : i32 to f32"""
    warps = INTEGER_KINDS[kind](X.astype(np.int32).reshape(2, 32), axis=1).astype(np.int32)
    # the reduction over all threads gets each warp's result 32 times
    everything = INTEGER_KINDS[kind](np.repeat(warps, 32)[None], axis=1).astype(np.int32)[0]
    assert np.array_equal(result(body), np.repeat((warps - everything).astype(np.float32), 32))


@pytest.mark.parametrize("type_", ["i16", "i64", "f64", "f16"])
@pytest.mark.parametrize("reduction", ["gpu.subgroup_reduce add %n", "gpu.all_reduce add %n {}"])
def test_reductions_of_other_types_are_refused(reduction: str, type_: str) -> None:
    wide = "arith.extf" if type_ == "f64" else "arith.truncf" if type_ == "f16" else "arith.fptosi"
    body = f"%n = {wide} %v : f32 to {type_}\n%s = {reduction} : ({type_}) -> {type_}\n%r = arith.constant 0.0 : f32"
    with pytest.raises(LoweringError, match="is lowered for i32 and f32 only"):
        result(body)


@pytest.mark.parametrize("block", [(5, 3, 7), (32, 1, 1), (33, 1, 1), (1, 64, 1), (1, 1, 1)])
def test_subgroups_of_a_workgroup(block: tuple[int, int, int]) -> None:
    """Threads are counted x first (PTX ISA, special registers); 32 are a warp, and the last may have fewer."""
    count = int(np.prod(block))
    numbers, counts = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    body = """  gpu.func @k(%x: memref<?xi32>, %y: memref<?xi32>) kernel {
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %tz = gpu.thread_id z
    %nx = gpu.block_dim x
    %ny = gpu.block_dim y
    %a = arith.muli %tz, %ny : index
    %b = arith.addi %a, %ty : index
    %c = arith.muli %b, %nx : index
    %i = arith.addi %c, %tx : index
    %s = gpu.subgroup_id : index
    %n = gpu.num_subgroups : index
    %p = arith.index_cast %s : index to i32
    %q = arith.index_cast %n : index to i32
    memref.store %p, %x[%i] : memref<?xi32>
    memref.store %q, %y[%i] : memref<?xi32>
    gpu.return
  }"""
    run(f"gpu.module @m {{\n{body}\n}}", numbers, count, counts, count, block=block)
    assert np.array_equal(numbers, np.arange(count) // 32)
    assert np.array_equal(counts, np.full(count, -(-count // 32)))


def test_clusters_with_a_stride() -> None:
    found = result("%r = gpu.subgroup_reduce add %v cluster(size = 8, stride = 4) : (f32) -> f32")
    wanted = X.reshape(2, 8, 4).sum(axis=1, keepdims=True)
    assert np.array_equal(found, np.broadcast_to(wanted, (2, 8, 4)).ravel())


def test_dynamic_shared_memory() -> None:
    body = f"""%d = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %c4 = arith.constant 4 : index
    %at = arith.muli %c4, %c4 : index
    %t = memref.view %d[%at][] : memref<?xi8, #gpu.address_space<workgroup>> to {SHARED}
    {through("t", SHARED)}"""
    import pyptx

    y = np.full(64, np.nan, np.float32)
    ptx = lowered(upstream(KERNEL.format(body=body)))
    pyptx.simulate(pyptx.load(ptx)["k"], X, y, grid=1, block=64, smem=16 + 256)
    assert np.array_equal(y, X[::-1])


def test_vectors_and_functions() -> None:
    body = """%e = math.erfc %v : f32
    %two = vector.from_elements %v, %e : vector<2xf32>
    %parts:2 = vector.to_elements %two : vector<2xf32>
    %m = vector.shape_cast %two : vector<2xf32> to vector<2x1xf32>
    %q = vector.extract %m[0, 0] : f32 from vector<2x1xf32>
    %s = arith.subf %parts#0, %q : f32
    %r = arith.addf %s, %parts#1 : f32"""
    import math

    assert np.allclose(result(body), [math.erfc(v) for v in X], rtol=1e-7, atol=2e-45)
