"""The instructions of the fifth-generation tensor core one by one (sm_100a): each kernel shows one, and what must stand
around it.

Tensor memory has 128 lanes (rows) and 512 columns of 32 bits per SM. An address has the lane in its upper 16 bits and
the column in its lower 16. Warp w of a warpgroup reaches lanes 32w to 32w+31 only. It is allocated by columns, by a
whole warp, which finds the address in shared memory; the warp that allocates frees it, after all accesses have ended.

`mma`, `cp` and `shift` are issued by one thread and run on their own; `commit` makes an mbarrier tell when those that
the thread issued so far have ended. `ld` and `st` are issued by warps and end with `wait::ld` and `wait::st`. Where one
thread's accesses follow another's, the barrier between them needs `fence::before_thread_sync` in front and
`fence::after_thread_sync` after; a commit stands for the fence in front.

    python -m examples.blackwell.primitives

Measured: assembled by ptxas 13.5 without spills; results on the simulator, except those of `shift`: the manual does not
say plainly which way "down" is and whether rows move within 32 lanes or within all, and here is no GPU to ask. Not yet
measured: anything on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import contextmanager

import ml_dtypes
import numpy as np

from examples.common import examine, relative_error
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import b32, bf16, f32, u32

ROWS = 128
ARCH = "sm_100a"


@contextmanager
def tensor_memory(columns, warp):
    """Columns of tensor memory for the CTA: their address, in a register of every thread."""
    slot = smem.alloc(b32, (1,), name="slot")
    with ptx.if_(warp == 0):
        ptx.tcgen05.alloc(slot, columns)
        ptx.tcgen05.relinquish_alloc_permit()  # other CTAs of the SM need not wait for more
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()
    address = smem.load(b32, slot)
    yield address
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()
    with ptx.if_(warp == 0):
        ptx.tcgen05.dealloc(address, columns)


def own_row(pointer, tid, words):
    """Where this thread's row of a matrix with `words` 32-bit words in a row starts."""
    return pointer + ptx.mul(u32, tid, 4 * words, mode="wide")


def load_store() -> Kernel:
    """`alloc`, `st`, `ld`, `dealloc`: x (128, 32) of 32 bits goes to tensor memory, and back with its halves exchanged.

    `32x32b.x32`: a thread's 32 registers are 32 columns of its lane.
    """

    @kernel(arch=ARCH, in_specs=[Tile(ROWS, 32, u32)], out_specs=[Tile(ROWS, 32, u32)], grid=1, block=ROWS)
    def tcgen05_load_store(x, y):
        px, py = ptx.global_ptrs(x, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp = tid >> 5
        source, target = own_row(px, tid, 32), own_row(py, tid, 32)
        with tensor_memory(32, warp) as address:
            mine = address + (warp << 21)  # lane 32*warp
            words = reg.array(b32, 32)
            for i in range(0, 32, 4):
                ptx.inst.ld.global_.v4.b32([words[i + j] for j in range(4)], ptx.addr(source, 4 * i))
            ptx.tcgen05.st(mine, words, shape="32x32b", count=32)
            ptx.tcgen05.wait_st()
            halves = [reg.array(b32, 16) for _ in range(2)]
            for h, half in enumerate(halves):
                ptx.tcgen05.ld(half, mine + 16 * (1 - h), shape="32x32b", count=16)
            ptx.tcgen05.wait_ld()  # before this, the registers must not be read
            for h, half in enumerate(halves):
                for i in range(0, 16, 4):
                    ptx.inst.st.global_.v4.b32(ptx.addr(target, 64 * h + 4 * i), [half[i + j] for j in range(4)])
        ptx.ret()

    return tcgen05_load_store


def copy() -> Kernel:
    """`cp`, `commit`: x (128, 8) of 32 bits goes to tensor memory through shared memory.

    `128x256b` copies 128 rows of 32 bytes. In shared memory, without swizzle, 8 rows of 16 bytes lie together (128
    bytes): the other 16 bytes of the rows follow (leading offset), then the next 8 rows (stride offset).
    """

    @kernel(arch=ARCH, in_specs=[Tile(ROWS, 8, u32)], out_specs=[Tile(ROWS, 8, u32)], grid=1, block=ROWS)
    def tcgen05_copy(x, y):
        px, py = ptx.global_ptrs(x, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp = tid >> 5
        staged = smem.alloc(u32, (ROWS * 8,), name="staged")
        copied = smem.mbarrier(1, name="copied")
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(copied[0], 1)
            ptx.fence.mbarrier_init()
        words = reg.array(b32, 8)
        source, target = own_row(px, tid, 8), own_row(py, tid, 8)
        place = reg.from_(staged.name, u32) + ((tid >> 3) * 256 + (tid & 7) * 16)
        for i in range(2):
            half = [words[4 * i + j] for j in range(4)]
            ptx.inst.ld.global_.v4.b32(half, ptx.addr(source, 16 * i))
            ptx.inst.st.shared.v4.b32(ptx.addr(place, 128 * i), half)
        ptx.fence.proxy_async_shared_cta()  # cp reads through the async proxy
        with tensor_memory(32, warp) as address:  # its barrier: all have written
            with ptx.if_(tid == 0):
                matrix = ptx.tcgen05.descriptor(staged, stride_bytes=256, leading_bytes=128, swizzle=None)
                ptx.tcgen05.cp(address, matrix, "128x256b")
                ptx.tcgen05.commit(copied[0])
            ptx.mbarrier.wait(copied[0], 0)
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.ld(words, address + (warp << 21), shape="32x32b", count=8)
            ptx.tcgen05.wait_ld()
            for i in range(2):
                ptx.inst.st.global_.v4.b32(ptx.addr(target, 16 * i), [words[4 * i + j] for j in range(4)])
        ptx.ret()

    return tcgen05_copy


def shift() -> Kernel:
    """`shift`: x (128, 8) of 32 bits goes to tensor memory, where each row's 32 bytes move down by one row."""

    @kernel(arch=ARCH, in_specs=[Tile(ROWS, 8, u32)], out_specs=[Tile(ROWS, 8, u32)], grid=1, block=ROWS)
    def tcgen05_shift(x, y):
        px, py = ptx.global_ptrs(x, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp = tid >> 5
        shifted = smem.mbarrier(1, name="shifted")
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(shifted[0], 1)
            ptx.fence.mbarrier_init()
        words = reg.array(b32, 8)
        source, target = own_row(px, tid, 8), own_row(py, tid, 8)
        with tensor_memory(32, warp) as address:
            mine = address + (warp << 21)
            for i in range(2):
                ptx.inst.ld.global_.v4.b32([words[4 * i + j] for j in range(4)], ptx.addr(source, 16 * i))
            ptx.tcgen05.st(mine, words, shape="32x32b", count=8)
            ptx.tcgen05.wait_st()
            ptx.tcgen05.fence_before_thread_sync()
            ptx.bar.sync(0)
            ptx.tcgen05.fence_after_thread_sync()
            with ptx.if_(tid == 0):
                ptx.tcgen05.shift(address)
                ptx.tcgen05.commit(shifted[0])
            ptx.mbarrier.wait(shifted[0], 0)
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.ld(words, mine, shape="32x32b", count=8)
            ptx.tcgen05.wait_ld()
            for i in range(2):
                ptx.inst.st.global_.v4.b32(ptx.addr(target, 16 * i), [words[4 * i + j] for j in range(4)])
        ptx.ret()

    return tcgen05_shift


def multiply(N: int = 64, K: int = 64) -> Kernel:
    """`mma`, `commit`: C (128, N) = A (128, K) * B (N, K)^T, bf16 in, f32 out, one tile that TMA brings.

    The descriptor of A or B: K-major, 128-byte swizzle, 1024 bytes from 8 rows to the next 8. An instruction takes 16
    columns of K, 32 bytes further in the swizzled rows. N: multiple of 16 up to 256; K: up to 64, a multiple of 16.
    """
    if N % 16 or not 16 <= N <= 256 or K % 16 or not 16 <= K <= 64:
        raise ValueError(f"N is a multiple of 16 up to 256 and K one up to 64, not {N} and {K}")
    columns = max(32, 1 << (N - 1).bit_length())  # allocations are powers of two

    @kernel(
        arch=ARCH,
        in_specs=[
            Tile(ROWS, K, bf16, Layout.TMA_128B, tma_box=(ROWS, 64)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(N, 64)),
        ],
        out_specs=[Tile(ROWS, N, f32)],
        grid=1,
        block=ROWS,
    )
    def tcgen05_multiply(a, b, c):
        (pc,) = ptx.global_ptrs(c)
        map_a, map_b = a.tma_desc(), b.tma_desc()
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp = tid >> 5
        tile_a = smem.alloc(bf16, (ROWS, 64), align=1024, name="tile_a")
        tile_b = smem.alloc(bf16, (N, 64), align=1024, name="tile_b")
        loaded, multiplied = smem.mbarrier(1, name="loaded"), smem.mbarrier(1, name="multiplied")
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(loaded[0], 1)
            ptx.mbarrier.init(multiplied[0], 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(loaded[0], (ROWS + N) * 128)
            ptx.cp.async_.bulk.tensor_2d(dst=tile_a, src=map_a, coord=(0, 0), mbar=loaded[0])
            ptx.cp.async_.bulk.tensor_2d(dst=tile_b, src=map_b, coord=(0, 0), mbar=loaded[0])
        with tensor_memory(columns, warp) as address:
            with ptx.if_(tid == 0):
                ptx.mbarrier.wait(loaded[0], 0)
                instruction = ptx.tcgen05.make_instr_desc_f16bf16_f32(m=ROWS, n=N, ab_dtype="bf16")
                for k in range(0, K, 16):
                    ptx.tcgen05.mma(
                        address,
                        ptx.tcgen05.descriptor(tile_a, byte_offset=2 * k, stride_bytes=1024),
                        ptx.tcgen05.descriptor(tile_b, byte_offset=2 * k, stride_bytes=1024),
                        instruction,
                        kind="f16",
                        enable_input_d=k > 0,  # the first product overwrites what is there
                    )
                ptx.tcgen05.commit(multiplied[0])
            ptx.mbarrier.wait(multiplied[0], 0)
            ptx.tcgen05.fence_after_thread_sync()
            target = own_row(pc, tid, N)
            part = reg.array(b32, 16)
            for first in range(0, N, 16):
                ptx.tcgen05.ld(part, address + (warp << 21) + first, shape="32x32b", count=16)
                ptx.tcgen05.wait_ld()
                for i in range(0, 16, 4):
                    quad = [part[i + j] for j in range(4)]
                    ptx.inst.st.global_.v4.b32(ptx.addr(target, 4 * (first + i)), quad)
        ptx.ret()

    return tcgen05_multiply


def check_words(build: Callable[[], Kernel], words: int, expected: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Run a kernel on fresh random words; whether every bit of the result is right. Prints a line."""
    x = np.random.default_rng().integers(0, 1 << 32, (ROWS, words), dtype=np.uint32)
    kernel_ = build()
    right = np.array_equal(kernel_(x), expected(x))
    print(f"{kernel_.name}: {'exact' if right else 'WRONG'}")
    return right


def check_load_store() -> bool:
    return check_words(load_store, 32, lambda x: np.roll(x, 16, axis=1))


def check_copy() -> bool:
    return check_words(copy, 8, lambda x: x)


def check_multiply(N: int = 64, K: int = 64) -> float:
    """Run it on fresh random data and return the relative error; prints a line."""
    rng = np.random.default_rng()
    a = rng.uniform(-1, 1, (ROWS, K)).astype(ml_dtypes.bfloat16)
    b = rng.uniform(-1, 1, (N, K)).astype(ml_dtypes.bfloat16)
    kernel_ = multiply(N, K)
    error = relative_error(kernel_(a, b), a.astype(np.float64) @ b.astype(np.float64).T)
    print(f"{kernel_.name} {N} x {K}: relative error {error:.1e}")
    return error


def main() -> int:
    arguments = argparse.ArgumentParser(description="the instructions of tcgen05, one by one")
    arguments.add_argument("--check", action="store_true", help="verify, assemble and sanitize them, too")
    arguments.add_argument("--ptx", action="store_true", help="print the PTX and stop")
    options = arguments.parse_args()
    kernels = [load_store(), copy(), shift(), multiply()]
    if options.ptx:
        print("\n".join(k.ptx() for k in kernels), end="")
        return 0
    right = [check_load_store(), check_copy(), check_multiply() <= 1e-6, check_multiply(160, 48) <= 1e-6]
    if options.check:
        right += [examine(k) for k in kernels]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
