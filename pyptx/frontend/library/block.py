"""`ptx.block`: reductions over the threads of a CTA: shuffles, shared memory and a barrier (PTX ISA 9.7.10.6, 9.7.15.1)."""

from __future__ import annotations

import math
from typing import Any

from ...diagnostics import did_you_mean
from ..core.instructions import emit, move
from ..core.registers import Reg
from ..core.trace import current
from ..memory.shared import alloc, load, store
from . import warp
from .barriers import bar
from .control import if_
from .special import sreg

__all__ = ["reduce_max", "reduce_min", "reduce_sum"]


def reduce_sum(
    reg: Reg, threads: int, *, thread: Reg | None = None, repeated: bool = False, name: str | None = None
) -> Reg:
    """Sum over all `threads` threads of the CTA, in place: afterwards every thread has it in `reg`, which is returned.

    Warps add theirs (`ptx.warp.reduce_sum`), leave it in an array of 4 * threads / 32 bytes of shared memory, wait at barrier
    0, and each thread adds up the array in order: the same bits in every thread and every run.

        ptx.block.reduce_sum(value, 128)  # value, a register of each of 128 threads, is the sum now

    reg: f32, u32, s32 or b32 (PTXError else). threads: those of the CTA, a multiple of 32 up to 1024 (ValueError else); all must
    take part, and PTXError where @kernel says another block. thread: this one's number, a u32 or s32 register; by default %tid.x, so a CTA with more than one dimension must give it.
    repeated: a second barrier follows, after which the array may be written again: needed in a loop of the kernel. name: of the
    array, as for `smem.alloc`.
    """
    return _reduce("add", reg, threads, thread, repeated, name)


def reduce_max(
    reg: Reg, threads: int, *, thread: Reg | None = None, repeated: bool = False, name: str | None = None
) -> Reg:
    """Maximum over all threads of the CTA, in place, as `reduce_sum`. Signed for s32, unsigned for u32 and b32; of f32 a NaN
    loses against a number.
    """
    return _reduce("max", reg, threads, thread, repeated, name)


def reduce_min(
    reg: Reg, threads: int, *, thread: Reg | None = None, repeated: bool = False, name: str | None = None
) -> Reg:
    """Minimum over all threads of the CTA, in place, as `reduce_max`."""
    return _reduce("min", reg, threads, thread, repeated, name)


def _check_block(threads: int, thread: Reg | None) -> None:
    """PTXError where the kernel's block is known and has other threads, or several dimensions and no `thread`."""
    trace = current()
    block = trace.block
    if block is None:
        return
    if threads != math.prod(block):
        raise trace.error(
            f"a block reduction of {threads} threads, and the kernel's block {block} has {math.prod(block)}: all of them take part",
            f"threads={math.prod(block)}",
        )
    if block[0] != threads and thread is None:
        raise trace.error(
            f"the kernel's block {block} has more than one dimension, and %tid.x does not number its threads",
            "thread=tid.x + tid.y * ntid.x (+ tid.z * ntid.x * ntid.y)",
        )


_OF_A_WARP = {"add": warp.reduce_sum, "max": warp.reduce_max, "min": warp.reduce_min}


def _reduce(operation: str, reg: Reg, threads: int, thread: Reg | None, repeated: bool, name: str | None) -> Reg:
    if not isinstance(threads, int) or not 32 <= threads <= 1024 or threads % 32:
        raise ValueError(f"threads of a block reduction are a multiple of 32 from 32 to 1024, not {threads!r}")
    _check_block(threads, thread)
    _OF_A_WARP[operation](reg)
    warps = threads // 32
    if warps == 1:
        return reg
    kind = "u32" if reg.dtype.name == "b32" else reg.dtype.name
    partial = alloc(reg.dtype, (warps,), name=name)
    tid = sreg("%tid.x") if thread is None else thread
    with if_((tid & 31) == 0):
        store(reg.dtype, partial[tid >> 5], reg)
    bar.sync(0)
    move(reg, load(reg.dtype, partial[0]))
    for each in range(1, warps):
        emit(f"{operation}.{kind}", reg, reg, load(reg.dtype, partial[each]))
    if repeated:
        bar.sync(0)
    return reg


def __getattr__(name: str) -> Any:
    known = {
        "sum": "reduce_sum",
        "max": "reduce_max",
        "min": "reduce_min",
        "reduce_add": "reduce_sum",
        "reduce": "reduce_sum",
    }
    near = f"did you mean `{known[name]}`?" if name in known else did_you_mean(name, __all__)
    raise AttributeError(f"ptx.block has no {name!r}; {near or 'it has ' + ', '.join(__all__)}")
