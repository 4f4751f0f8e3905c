"""Gluon kernels with TMA, mbarriers, wgmma and tcgen05 as cases: python gluon_kernels.py FOLDER ARCH, in a Python with triton."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import triton
from case import Case, save
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

OUT, ARCH = sys.argv[1:3]
SM = int(re.sub(r"\D", "", ARCH))
M, N, K, BM, BN, BK = 256, 64, 192, 128, 64, 64
rng = np.random.default_rng(5)


@gluon.jit
def copy(source, target, n):
    """Tiles by TMA, there and back."""
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    row = gl.program_id(0) * source.block_type.shape[0]
    phase = 0
    for column in range(0, n, source.block_type.shape[1]):
        mbarrier.expect(bar, source.block_type.nbytes)
        tma.async_load(source, [row, column], bar, tile)
        mbarrier.wait(bar, phase)
        phase ^= 1
        tma.async_store(target, [row, column], tile)
        tma.store_wait(pendings=0)
    mbarrier.invalidate(bar)


@gluon.jit
def wgmma_gemm(a, b, c, k_size, stages: gl.constexpr):
    """A ring of stages; the product of a stage runs while the next ones are loaded."""
    bm: gl.constexpr = c.block_type.shape[0]
    bn: gl.constexpr = c.block_type.shape[1]
    bk: gl.constexpr = a.block_type.shape[1]
    tiles_a = gl.allocate_shared_memory(a.dtype, [stages, bm, bk], a.layout)
    tiles_b = gl.allocate_shared_memory(b.dtype, [stages, bk, bn], b.layout)
    bars = mbarrier.allocate_mbarrier(batch=stages)
    for i in gl.static_range(stages):
        mbarrier.init(bars.index(i), count=1)
    row = gl.program_id(0) * bm
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, bn, 16])
    acc = gl.zeros((bm, bn), gl.float32, layout)
    for i in gl.static_range(stages - 1):
        mbarrier.expect(bars.index(i), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, i * bk], bars.index(i), tiles_a.index(i))
        tma.async_load(b, [i * bk, 0], bars.index(i), tiles_b.index(i))
    count = k_size // bk
    for i in range(count):
        stage = i % stages
        mbarrier.wait(bars.index(stage), i // stages & 1)
        acc = warpgroup_mma(tiles_a.index(stage), tiles_b.index(stage), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        j = i + stages - 1
        bar = bars.index(j % stages)
        mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes, pred=j < count)
        tma.async_load(a, [row, j * bk], bar, tiles_a.index(j % stages), pred=j < count)
        tma.async_load(b, [j * bk, 0], bar, tiles_b.index(j % stages), pred=j < count)
    for i in gl.static_range(stages):
        mbarrier.invalidate(bars.index(i))
    tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    tile.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, 0], tile)
    tma.store_wait(pendings=0)


@gluon.jit
def tcgen05_gemm(a, b, c, k_size):
    bm: gl.constexpr = c.block_type.shape[0]
    bn: gl.constexpr = c.block_type.shape[1]
    bk: gl.constexpr = a.block_type.shape[1]
    tile_a = gl.allocate_shared_memory(a.dtype, [bm, bk], a.layout)
    tile_b = gl.allocate_shared_memory(b.dtype, [bk, bn], b.layout)
    loaded = mbarrier.allocate_mbarrier()
    multiplied = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(multiplied, count=1)
    acc = allocate_tensor_memory(gl.float32, [bm, bn], TensorMemoryLayout([bm, bn], col_stride=1))
    row = gl.program_id(0) * bm
    phase = 0
    use_acc = False
    for k in range(0, k_size, bk):
        mbarrier.expect(loaded, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, k], loaded, tile_a)
        tma.async_load(b, [k, 0], loaded, tile_b)
        mbarrier.wait(loaded, phase)
        tcgen05_mma(tile_a, tile_b, acc, use_acc=use_acc, mbarriers=[multiplied])
        mbarrier.wait(multiplied, phase)
        use_acc = True
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(multiplied)
    tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    tile.store(acc.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, 0], tile)
    tma.store_wait(pendings=0)


SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""Bytes -> number of the swizzle in cuTensorMapEncodeTiled."""


def emit(name: str, kernel: Any, grid: int, tensors: list[tuple[Any, list[int]]], number: int, expected: dict[int, Any],
         **constants: int) -> None:  # fmt: skip
    """`tensors`: arrays of f16 with the boxes of their tensor maps; then the kernel takes a number."""
    full = f"gluon_{name}_sm{SM}"
    layouts = [gl.NVMMASharedLayout.get_default_for(box, gl.float16) for _, box in tensors]
    kinds = [
        f"tensordesc<fp16[{','.join(map(str, box))}],{layout!r}>"
        for (_, box), layout in zip(tensors, layouts, strict=True)
    ]
    signature = dict(zip(kernel.arg_names, [*kinds, "i32", *["constexpr"] * len(constants)], strict=True))
    try:
        source = GluonASTSource(kernel, signature, {(kernel.arg_names.index(n),): c for n, c in constants.items()}, {})
        made = triton.compile(source, target=GPUTarget("cuda", SM, 32), options={"num_warps": 4})
    except Exception as error:
        print(f"{full}: not generated: {type(error).__name__}: {str(error).strip().splitlines()[:1]}")
        return
    text = made.asm["ptx"]
    entry = re.search(r"\.entry\s+([\w$]+)\((.*?)\)", text, re.DOTALL)
    threads = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", text)
    assert entry and threads
    case = Case(full, text, entry[1], [grid, 1, 1], [int(threads[1]), 1, 1], None, made.metadata.shared, tolerance=1e-3)
    # a tensor map is followed by shape and strides of its tensor
    for i, ((array, box), layout) in enumerate(zip(tensors, layouts, strict=True)):
        strides = [s // array.itemsize for s in array.strides]
        case.maps.append((len(case.arguments), 0, i, {
            "type": 6, "shape": [*array.shape[::-1]], "strides": [s for s in array.strides[:-1]][::-1],
            "box": [min(box[1], layout.swizzle_byte_width * 8 // 16 or 256), box[0]], "swizzle": SWIZZLES[layout.swizzle_byte_width],
        }))  # fmt: skip
        case.arguments.append(bytes(128).hex())
        case.arguments += [np.int32(s).tobytes().hex() for s in array.shape]
        case.arguments += [np.int64(s).tobytes().hex() for s in strides]
    case.arguments.append(np.int32(number).tobytes().hex())
    case.arguments += [bytes(8).hex()] * (entry[2].count(".param") - len(case.arguments))
    save(Path(OUT), case, [a for a, _ in tensors], expected, dict.fromkeys(expected, "float16"))
    print(full)


x = rng.standard_normal((M, K)).astype(np.float16)
a, b = rng.integers(-3, 4, (M, K)).astype(np.float16), rng.integers(-3, 4, (K, N)).astype(np.float16)
c = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
operands = [(a, [BM, BK]), (b, [BK, BN]), (np.zeros_like(c), [BM, BN])]
if SM >= 90:
    emit("copy", copy, M // BM, [(x, [BM, BK]), (np.zeros_like(x), [BM, BK])], K, {1: x})
if SM == 90:
    for stages in (2, 3):
        emit(f"wgmma_{stages}", wgmma_gemm, M // BM, operands, K, {2: c}, stages=stages)
if SM in (100, 103):
    emit("tcgen05", tcgen05_gemm, M // BM, operands, K, {2: c})
