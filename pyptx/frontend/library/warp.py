"""`ptx.warp`: reductions, scans, votes and exchanges between the lanes of a warp (PTX ISA 9.7.10.6 shfl.sync, 9.7.14 vote)."""

from __future__ import annotations

from typing import Any

from ...diagnostics import did_you_mean
from ...types import b32, pred, u32
from ..core.instructions import emit, move
from ..core.nonvalue import as_int
from ..core.registers import NegPred, PipeRef, Reg, predicate, temporary
from ..core.trace import Trace, current
from .special import sreg

__all__ = [
    "all", "any", "argmax", "argmin", "ballot", "broadcast", "reduce_max", "reduce_min", "reduce_sum", "scan_max", "scan_min",
    "scan_sum",
]  # fmt: skip

_WIDTHS = (2, 4, 8, 16, 32)
_EVERY_LANE = -1
"""The mask of the lanes that take part: all."""


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


def scan_sum(reg: Reg, *, exclusive: bool = False, width: int = 32) -> Reg:
    """Sums of the lanes up to this one, within each group of `width` lanes (2, 4, 8, 16 or 32), in a fresh register.
    exclusive: without this lane's own value; the first lane has 0. log2(width) `shfl.sync.up`, each with a guarded `add`.

        position = ptx.warp.scan_sum(length, exclusive=True)  # where each lane's part of a list starts

    reg: f32, u32, s32 or b32 (PTXError else); all 32 lanes must take part. ValueError for another width.
    """
    return _scan("add", reg, exclusive, width)


def scan_max(reg: Reg, *, exclusive: bool = False, width: int = 32) -> Reg:
    """Maxima of the lanes up to this one, as `scan_sum`; without any lane the least value of the type (-inf of f32). Signed for
    s32, unsigned for u32 and b32; of f32 a NaN loses against a number.
    """
    return _scan("max", reg, exclusive, width)


def scan_min(reg: Reg, *, exclusive: bool = False, width: int = 32) -> Reg:
    """Minima of the lanes up to this one, as `scan_max`; without any lane the largest value of the type (inf of f32)."""
    return _scan("min", reg, exclusive, width)


def argmax(value: Reg, index: Reg | None = None, *, width: int = 32) -> tuple[Reg, Reg]:
    """The largest value of each group of `width` lanes and the index that comes with it, in fresh registers of every lane.

    index: a u32 or s32 register, by default the number of the lane; of equal values the least index wins. A NaN counts as
    -inf. value: f32, u32, s32 or b32 (PTXError else); all 32 lanes must take part. ValueError for another width.
    """
    return _best("max", value, index, width)


def argmin(value: Reg, index: Reg | None = None, *, width: int = 32) -> tuple[Reg, Reg]:
    """The least value of each group of `width` lanes and the index that comes with it, as `argmax`. A NaN counts as inf."""
    return _best("min", value, index, width)


def ballot(condition: Reg | NegPred) -> Reg:
    """`vote.sync.ballot.b32`: a u32 register whose bit i says whether the predicate holds in lane i. All 32 lanes must take part."""
    result = temporary(current(), u32)
    emit("vote.sync.ballot.b32", result, _predicate(condition), _EVERY_LANE)
    return result


def any(condition: Reg | NegPred) -> Reg:
    """`vote.sync.any.pred`: a predicate, the same in all lanes: whether `condition` holds in one at least. All 32 lanes must take
    part.
    """
    return _vote("any", condition)


def all(condition: Reg | NegPred) -> Reg:
    """`vote.sync.all.pred`: whether `condition` holds in every lane, as `any`."""
    return _vote("all", condition)


def broadcast(reg: Reg, lane: Reg | int = 0, *, width: int = 32) -> Reg:
    """The value of one lane of each group of `width` lanes, in a fresh register of all of them: `shfl.sync.idx`, two for 64 bits.

    lane: its number in the group, an int or a register that is the same in the group. ptxas knows the result as uniform for the
    warp, so `ptx.warp.broadcast(tid >> 5)` is a warp number by which whole warps branch. PTXError unless reg has 32 or 64 bits
    and `lane` lies in the group; ValueError for another width.
    """
    trace = current()
    bits = reg.dtype.bits if isinstance(reg, Reg) else 0
    if bits not in (32, 64):
        what = reg.dtype if isinstance(reg, Reg) else type(reg).__name__
        raise trace.error(f"warp.broadcast works on registers of 32 and 64 bits, not {what}")
    _check_width(width)
    lane = as_int(lane)
    if isinstance(lane, Reg):
        if not lane.dtype.is_integer or lane.dtype.bits != 32:
            raise trace.error(f"the lane of warp.broadcast is an int or a 32-bit integer register, not {lane.dtype}")
    elif not isinstance(lane, int) or isinstance(lane, bool):
        raise trace.error(f"the lane of warp.broadcast is an int or a 32-bit integer register, not {lane!r}")
    elif not 0 <= lane < width:
        raise trace.error(f"lane {lane} is not in a group of {width} lanes", f"0 to {width - 1}")
    result = temporary(trace, reg.dtype)
    if bits == 32:
        emit("shfl.sync.idx.b32", result, reg, lane, _segments(width) | 31, _EVERY_LANE)
        return result
    low, high = temporary(trace, b32), temporary(trace, b32)
    emit("mov.b64", [low, high], reg)
    for part in (low, high):
        emit("shfl.sync.idx.b32", part, part, lane, _segments(width) | 31, _EVERY_LANE)
    emit("mov.b64", result, [low, high])
    return result


def __getattr__(name: str) -> Any:
    known = {
        "reduce_add": "reduce_sum", "sum": "reduce_sum", "max": "reduce_max", "min": "reduce_min", "scan": "scan_sum",
        "scan_add": "scan_sum", "vote": "ballot", "shuffle": "broadcast", "shfl": "broadcast",
    }  # fmt: skip
    near = f"did you mean `{known[name]}`?" if name in known else did_you_mean(name, __all__)
    raise AttributeError(f"ptx.warp has no {name!r}; {near or 'it has ' + ', '.join(__all__)}")


def _reduce(operation: str, reg: Any, width: int) -> Reg:
    trace = current()
    kind = _kind(trace, "a warp reduction", reg)
    _check_width(width)
    distance = width // 2
    is_float = kind == "f32"
    mine, theirs = temporary(trace, b32), temporary(trace, b32)
    other = temporary(trace, reg.dtype) if is_float else theirs
    while distance:
        emit("mov.b32", mine, reg)
        emit("shfl.sync.bfly.b32", theirs, mine, distance, 31, _EVERY_LANE)
        if is_float:
            emit("mov.b32", other, theirs)
        emit(f"{operation}.{kind}", reg, reg, other)
        distance //= 2
    return reg


def _scan(operation: str, reg: Any, exclusive: bool, width: int) -> Reg:
    trace = current()
    kind = _kind(trace, "a scan", reg)
    _check_width(width)
    result, theirs, inside = temporary(trace, reg.dtype), temporary(trace, reg.dtype), predicate(trace)
    move(result, reg)
    distance = 1
    while distance < width:
        emit("shfl.sync.up.b32", PipeRef(theirs, inside), result, distance, _segments(width), _EVERY_LANE)
        emit(f"{operation}.{kind}", result, result, theirs, pred=inside)
        distance *= 2
    if exclusive:
        emit("shfl.sync.up.b32", PipeRef(theirs, inside), result, 1, _segments(width), _EVERY_LANE)
        emit(f"selp.{kind}", result, theirs, neutral(operation, kind), inside)
    return result


def _best(operation: str, value: Any, index: Any, width: int) -> tuple[Reg, Reg]:
    """Each step takes the neighbour's value where it is better, or equal with a lesser index."""
    trace = current()
    kind = _kind(trace, f"warp.arg{operation}", value)
    _check_width(width)
    if index is not None and not (isinstance(index, Reg) and index.dtype.name in ("u32", "s32", "b32")):
        what = f"a register of {index.dtype}" if isinstance(index, Reg) else repr(index)
        raise trace.error(f"the index of warp.arg{operation} is a u32 or s32 register, not {what}")
    order = "s32" if index is not None and index.dtype.is_signed else "u32"
    best, number = temporary(trace, value.dtype), temporary(trace, u32 if index is None else index.dtype)
    other, its_number = temporary(trace, best.dtype), temporary(trace, number.dtype)
    if kind == "f32":
        emit(f"{operation}.f32", best, value, neutral(operation, kind))  # a number instead of NaN
    else:
        move(best, value)
    move(number, sreg("%laneid") if index is None else index)
    better, equal = predicate(trace), predicate(trace)
    distance = width // 2
    while distance:
        emit("shfl.sync.bfly.b32", other, best, distance, 31, _EVERY_LANE)
        emit("shfl.sync.bfly.b32", its_number, number, distance, 31, _EVERY_LANE)
        emit(f"setp.eq.{kind}", equal, other, best)
        emit(f"setp.lt.and.{order}", equal, its_number, number, equal)
        emit(f"setp.{'gt' if operation == 'max' else 'lt'}.or.{kind}", better, other, best, equal)
        emit(f"selp.{kind}", best, other, best, better)
        emit(f"selp.{order}", number, its_number, number, better)
        distance //= 2
    return best, number


def _vote(which: str, condition: Any) -> Reg:
    result = predicate(current())
    emit(f"vote.sync.{which}.pred", result, _predicate(condition), _EVERY_LANE)
    return result


def _predicate(condition: Any) -> Any:
    found = condition.reg if isinstance(condition, NegPred) else condition
    if not isinstance(found, Reg) or found.dtype != pred:
        what = f"a register of {found.dtype}" if isinstance(found, Reg) else repr(found)
        raise current().error(f"a vote takes a predicate p or ~p, not {what}", "a comparison is one: x > 0")
    return condition


def _kind(trace: Trace, what: str, reg: Any) -> str:
    """The type by which a register is added and compared."""
    if not isinstance(reg, Reg) or reg.dtype.name not in ("f32", "u32", "s32", "b32"):
        given = reg.dtype if isinstance(reg, Reg) else type(reg).__name__
        raise trace.error(f"{what} works on f32, u32, s32 and b32 registers, not {given}")
    return reg.dtype.name if reg.dtype.name != "b32" else "u32"


def _check_width(width: object) -> None:
    if width not in _WIDTHS:
        raise ValueError(f"the width of a warp operation is 2, 4, 8, 16 or 32 lanes, not {width!r}")


def _segments(width: int) -> int:
    """The operand c of shfl for groups of `width` lanes, the clamp left out (PTX ISA 9.7.10.6)."""
    return (32 - width) << 8


def neutral(operation: str, kind: str) -> float | int:
    """The value that changes nothing when it is combined."""
    if operation == "add":
        return 0.0 if kind == "f32" else 0
    least: dict[str, float | int] = {"f32": float("-inf"), "s32": -(2**31), "u32": 0}
    largest: dict[str, float | int] = {"f32": float("inf"), "s32": 2**31 - 1, "u32": 2**32 - 1}
    return (least if operation == "max" else largest)[kind]
