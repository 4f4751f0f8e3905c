"""Typed pointers: an address that knows its state space and its element (`ptx.pointer`)."""

from __future__ import annotations

from typing import Any, Self

from ...types import PtxType, b64, s32, u64
from ..core.instructions import AddressOperand, bits_of, emit, move, moved
from ..core.registers import Guard, Reg, RegArray, SpecialReg, array, temporary
from ..core.trace import current
from .addresses import global_ptrs
from .parameters import TensorSpec
from .shared import Allocation, MbarrierRef, SharedAlloc, SharedSlice, address_register, emit_store, memory_type

__all__ = ["Pointer", "pointer"]

SPACES = ("generic", "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")


class Pointer:
    """An address of elements of type `dtype` in a state space.

    `p + i` and `p - i` count elements and make a new pointer (one `mad` or `add`); `p += i` moves this one. `p.load()`
    and `p.store(v)` are one instruction each. As an operand it stands for `[p]`: an instruction for another state space
    refuses it. PTX ISA 5.1, 6.4.
    """

    __slots__ = ("_base", "_offset", "dtype", "space")

    def __init__(self, base: Any, dtype: PtxType, space: str, offset: int = 0):
        """Use `ptx.pointer`. `base`: a register that is the pointer's own, or a variable, `offset` bytes before it."""
        self._base, self.dtype, self.space, self._offset = base, dtype, space, offset

    def __repr__(self) -> str:
        return f"Pointer({self._base!r}{f'+{self._offset}' if self._offset else ''}, {self.dtype}, {self.space})"

    def __ptx_address__(self) -> AddressOperand:
        return self._at(0)

    def _at(self, elements: int) -> AddressOperand:
        return AddressOperand(self._base, self._offset + elements * self.size or None, (), self.space)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.dtype.bits // 8

    @property
    def address(self) -> Reg:
        """The address in a register: the pointer's own (do not change it), or a fresh one for a variable."""
        return self._base if isinstance(self._base, Reg) else address_register(AddressOperand(self._base, self._offset))

    def copy(self) -> Pointer:
        """The same address in a register of its own: `+=` then moves the copy only."""
        address = self.address
        if address is self._base:
            address = temporary(current(), address.dtype)
            move(address, self._base)
        return Pointer(address, self.dtype, self.space)

    def cast(self, dtype: PtxType) -> Pointer:
        """The same address, of elements of another type."""
        return Pointer(self._base, _element(dtype), self.space, self._offset)

    # ------------------------------------------------------------------------------------------------------ arithmetic

    def __add__(self, index: Any) -> Pointer:
        return self._moved(index, 1)

    def __radd__(self, index: Any) -> Pointer:
        return self._moved(index, 1)

    def __sub__(self, index: Any) -> Pointer:
        if isinstance(index, Reg):
            raise current().error(
                "a register is not subtracted from a pointer", "negate it: p + -i; i must be signed (s32, s64)"
            )
        return self._moved(index, -1)

    def __iadd__(self, index: Any) -> Self:
        if not isinstance(self._base, Reg):
            raise current().error(
                f"{self!r} is the fixed address of a variable, += cannot move it",
                "q = p.copy() before the loop has a register",
            )
        self._add(self._base, index, 1)
        return self

    def __isub__(self, index: Any) -> Self:
        return self.__iadd__(-index)

    def __getitem__(self, index: Any) -> Pointer:
        """`p[i]` is `p + i`: write `p[i].load()`."""
        return self + index

    def __setitem__(self, index: Any, value: object) -> None:
        raise current().error("a pointer's element is not assigned to", "(p + i).store(value)")

    def __bool__(self) -> bool:
        return True

    def _moved(self, index: Any, sign: int) -> Pointer:
        if isinstance(index, int) and not isinstance(self._base, Reg):
            return Pointer(self._base, self.dtype, self.space, self._offset + sign * index * self.size)
        if isinstance(index, int) and not index:
            return self.copy()
        return Pointer(self._add(None, index, sign), self.dtype, self.space)

    def _add(self, target: Reg | None, index: Any, sign: int) -> Reg:
        """One instruction (a variable's address and a narrow index cost another): address + index elements."""
        trace = current()
        if isinstance(index, bool) or not isinstance(index, (int, Reg)):
            raise trace.error(f"a pointer moves by integers, not {index!r}")
        start = self.address
        result = target if target is not None else temporary(trace, start.dtype)
        if isinstance(index, int):
            return emit(f"add.s{start.dtype.bits}", result, start, sign * index * self.size)
        if isinstance(index, SpecialReg):
            index = moved(trace, index)
        if not index.dtype.is_integer or index.dtype.bits < 32:
            raise trace.error(f"a pointer moves by 32-bit or 64-bit integers, not {index.dtype}")
        wide = start.dtype.bits == 64
        if not wide and index.dtype.bits == 64:
            raise trace.error("a 32-bit pointer moves by 32-bit integers", "convert: ptx.cvt(u32, u64, d, i)")
        if wide and index.dtype.bits == 32:
            signed = "s32" if index.dtype is s32 else "u32"
            return emit(f"mad.wide.{signed}", result, index, self.size, start)
        return emit(f"mad.lo.u{start.dtype.bits}", result, index, self.size, start)

    # ---------------------------------------------------------------------------------------------------------- memory

    def load(self, at: int = 0, *, vec: int = 1, modifiers: str = "", dst: Any = None, pred: Guard = None) -> Any:
        """`ld` of the element `at` elements further (a Python int), or of `vec` (2, 4, 8) neighbours as a register
        array.

        One instruction. modifiers: more of them, such as "nc" or "relaxed.gpu". dst: where to, a fresh register else.
        """
        if dst is None:
            dst = temporary(current(), self.dtype) if vec == 1 else array(self.dtype, vec)
        emit(self._spelled("ld", modifiers, dst), dst, self._at(self._constant(at)), pred=pred)
        return dst

    def store(self, value: Any, at: int = 0, *, modifiers: str = "", pred: Guard = None) -> None:
        """`st` of a register, a number, or a list of 2, 4 or 8 for a vector, `at` elements further. One instruction."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = bits_of(self.dtype, value)
        emit_store(self._spelled("st", modifiers, value), self.dtype, self._at(self._constant(at)), value, pred)

    def _spelled(self, root: str, modifiers: str, data: Any) -> str:
        vector = f"v{len(data)}" if isinstance(data, (list, tuple, RegArray)) else ""
        space = "" if self.space == "generic" else self.space
        return ".".join(w for w in (root, modifiers.strip("."), space, vector, memory_type(self.dtype)) if w)

    def _constant(self, at: Any) -> int:
        if not isinstance(at, int):
            raise current().error(f"load and store take a constant offset, not {at!r}", "(p + i).load()")
        return at

    # ----------------------------------------------------------------------------------------------------- conversions

    def to(self, space: str) -> Pointer:
        """`cvta.to`: a generic pointer as one into the space that it points to. PTX ISA 9.7.10.23."""
        if self.space != "generic":
            raise current().error(f"only a generic pointer is converted to {space}, and this one is {self.space}")
        return Pointer(
            emit(f"cvta.to.{_space(space)}.u64", temporary(current(), u64), self.address), self.dtype, space
        )  # fmt: skip

    def generic(self) -> Pointer:
        """`cvta`: the generic pointer to the same element. A 32-bit address is widened first."""
        if self.space == "generic":
            return self
        address = self.address
        if address.dtype.bits == 32:
            address = emit("cvt.u64.u32", temporary(current(), u64), address)
        return Pointer(emit(f"cvta.{self.space}.u64", temporary(current(), u64), address), self.dtype, "generic")


def pointer(source: Any, dtype: PtxType | None = None, space: str | None = None) -> Pointer:
    """A typed pointer.

    source: a tensor parameter (loaded and converted to global: two instructions), a shared allocation, a stage of one,
    an mbarrier, a variable's name, or a register with an address (copied into one of the pointer's own). dtype: the
    element type, that of the tensor or allocation by default. space: for a register, one of "global", "shared",
    "shared::cta", "shared::cluster", "local", "const", "param" or "generic".
    """
    trace = current()
    if isinstance(source, Pointer):
        return source if dtype is None else source.cast(dtype)
    if isinstance(source, Reg):
        if space is None or dtype is None:
            raise trace.error(
                f"{source!r} is only a number: a pointer needs its element type and its state space",
                f'ptx.pointer({source.name.lstrip("%")}, f32, "global")',
            )
        if source.dtype.bits not in (32, 64) or source.dtype.is_float:
            raise trace.error(f"an address is a 32-bit or 64-bit integer, not {source.dtype}")
        if source.dtype.bits == 32 and space in ("generic", "global", "param"):
            raise trace.error(f"a {space} address has 64 bits, and {source!r} has 32")
        return Pointer(source, _element(dtype), _space(space)).copy()
    if isinstance(source, TensorSpec):
        return Pointer(global_ptrs(source)[0], _element(dtype or source.dtype), "global")
    if isinstance(source, (SharedAlloc, SharedSlice)):
        stage = source.stage if isinstance(source, SharedSlice) else None
        base = address_register(source) if isinstance(stage, Reg) else source
        return Pointer(base, _element(dtype or source.dtype), "shared")
    if isinstance(source, (MbarrierRef, Allocation)):
        return Pointer(source, _element(dtype or b64), "shared")
    known = trace.spaces.get(source) if isinstance(source, str) else None
    known = "param" if known == "entry" else known
    if known is None:
        raise trace.error(
            f"{source!r} is nothing to point to", "a tensor, a shared allocation, a variable's name, or a register"
        )
    return Pointer(source, _element(dtype), known)


def _element(dtype: PtxType | None) -> PtxType:
    if not isinstance(dtype, PtxType):
        raise current().error("a pointer needs its element type", "ptx.pointer(source, f32)")
    if dtype.bits < 8:
        raise current().error(f"memory is addressed by bytes, and {dtype} has {dtype.bits} bits", "point to b8 or b32")
    return dtype


def _space(space: str) -> str:
    if space not in SPACES:
        raise current().error(f"{space!r} is not a state space", f"spaces: {', '.join(SPACES)}")
    return space
