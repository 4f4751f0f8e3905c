"""`ptx.warp`: reductions over the lanes of a warp (PTX ISA 9.7.10.6, shfl.sync)."""

from __future__ import annotations

from typing import Any

from ...diagnostics import did_you_mean
from ...types import b32
from ..core.instructions import emit
from ..core.registers import Reg, temporary
from ..core.trace import current

__all__ = ["reduce_max", "reduce_min", "reduce_sum"]


def reduce_sum(reg: Reg, *, width: int = 32) -> Reg:
    """Sum over each group of `width` lanes (2, 4, 8, 16 or 32), in place: afterwards every lane of the group has it in
    `reg`, which is returned. A butterfly of log2(width) `shfl.sync.bfly`; the order of an f32 sum is that of the tree.

        total = ptx.warp.reduce_sum(value)  # value, a register, is the sum now

    reg: f32, u32, s32 or b32 (PTXError else); all 32 lanes must take part. ValueError for another width.
    """
    return _reduce("add", reg, width)


def reduce_max(reg: Reg, *, width: int = 32) -> Reg:
    """Maximum over each group of `width` lanes, in place, as `reduce_sum`. Signed for s32, unsigned for u32 and b32;
    of f32 a NaN loses against a number.
    """
    return _reduce("max", reg, width)


def reduce_min(reg: Reg, *, width: int = 32) -> Reg:
    """Minimum over each group of `width` lanes, in place, as `reduce_max`."""
    return _reduce("min", reg, width)


def __getattr__(name: str) -> Any:
    known = {"reduce_add": "reduce_sum", "sum": "reduce_sum", "max": "reduce_max", "min": "reduce_min"}
    near = f"did you mean `{known[name]}`?" if name in known else did_you_mean(name, __all__)
    raise AttributeError(f"ptx.warp has no {name!r}; {near or 'it has ' + ', '.join(__all__)}")


def _reduce(operation: str, reg: Any, width: int) -> Reg:
    trace = current()
    if not isinstance(reg, Reg) or reg.dtype.bits != 32 or reg.dtype.name not in ("f32", "u32", "s32", "b32"):
        what = reg.dtype if isinstance(reg, Reg) else type(reg).__name__
        raise trace.error(f"warp.reduce works on f32, u32, s32 and b32 registers, not {what}")
    if width not in (2, 4, 8, 16, 32):
        raise ValueError(f"the width of a warp reduction is 2, 4, 8, 16 or 32 lanes, not {width!r}")
    kind = reg.dtype.name if reg.dtype.name != "b32" else "u32"
    distance = width // 2
    is_float = kind == "f32"
    mine, theirs = temporary(trace, b32), temporary(trace, b32)
    other = temporary(trace, reg.dtype) if is_float else theirs
    while distance:
        emit("mov.b32", mine, reg)
        emit("shfl.sync.bfly.b32", theirs, mine, distance, 31, -1)
        if is_float:
            emit("mov.b32", other, theirs)
        emit(f"{operation}.{kind}", reg, reg, other)
        distance //= 2
    return reg
