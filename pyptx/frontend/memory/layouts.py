"""Where the elements of an array in shared memory lie, from a layout of `tensor_layouts`: shapes and strides, and a swizzle.

A layout maps coordinates to the number of an element. Its modes may be nested: (4, 2) with strides (1, 64) takes coordinate 5 apart as (1, 1). Constants are
folded while tracing; what is left of registers is shifts, masks and multiplications.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...types import u32
from ..core.instructions import emit, move
from ..core.registers import Reg, temporary
from ..core.trace import Trace, current

__all__ = ["Placement", "Swizzle", "placement", "row_major", "swizzled_rows"]

Leaf = tuple[int, int]
"""(size, stride), in elements."""


@dataclass(frozen=True)
class Swizzle:
    """Bits `base + shift` to `base + shift + bits - 1` of an offset are xor-ed to those from `base` on."""

    bits: int
    base: int
    shift: int

    @property
    def mask(self) -> int:
        """Of the bits that are read."""
        return ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))

    @property
    def span(self) -> int:
        """After so many it repeats."""
        return 1 << (self.base + self.bits + abs(self.shift))

    def __call__(self, offset: int) -> int:
        read = offset & self.mask
        return offset ^ (read >> self.shift if self.shift >= 0 else read << -self.shift)

    def scaled(self, factor: int) -> Swizzle:
        """For offsets in units that are a power of two smaller."""
        return Swizzle(self.bits, self.base + factor.bit_length() - 1, self.shift)

    def of_elements(self, bits: int) -> Swizzle:
        """One of bytes, for offsets in elements."""
        return Swizzle(self.bits, self.base - bits.bit_length() + 4, self.shift)

    def emit(self, offset: Reg) -> None:
        """Apply it to a u32 register."""
        read = temporary(current(), u32)
        emit("and.b32", read, offset, self.mask)
        emit("shr.u32" if self.shift >= 0 else "shl.b32", read, read, abs(self.shift))
        emit("xor.b32", offset, offset, read)


HARDWARE = {"32B": Swizzle(1, 4, 3), "64B": Swizzle(2, 4, 3), "128B": Swizzle(3, 4, 3), "128B_32B": Swizzle(2, 5, 2)}
"""The swizzles of TMA and of matrix descriptors, of bytes."""


@dataclass(frozen=True)
class Placement:
    """Where the element with a coordinate for each mode lies."""

    modes: tuple[tuple[Leaf, ...], ...]
    """The leaves of each mode, the fastest first."""
    swizzle: Swizzle | None = None
    start: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(size for size, _ in leaves) for leaves in self.modes)

    @property
    def elements(self) -> int:
        """How many elements the memory must hold."""
        last = self.start + sum((size - 1) * stride for leaves in self.modes for size, stride in leaves)
        span = self.swizzle.span if self.swizzle is not None else 1
        return -(-(last + 1) // span) * span

    def alignment(self, size: int) -> int:
        """Bytes to which the memory must be aligned so that the swizzle is a function of the address, as TMA and wgmma take it."""
        return self.swizzle.span * size if self.swizzle is not None else 1

    def hardware_swizzle(self, bits: int) -> str | None:
        """The swizzle of TMA and matrix descriptors ("32B", "64B", "128B", "128B_32B") that this is, for elements of so many bits; None: another
        or none.
        """
        if self.swizzle is None:
            return None
        base = self.swizzle.base + bits.bit_length() - 4
        return next(
            (
                n
                for n, s in HARDWARE.items()
                if (s.bits, s.base, s.shift) == (self.swizzle.bits, base, self.swizzle.shift)
            ),
            None,
        )

    def contiguous(self, count: int) -> int | None:
        """The mode along which every `count` elements (a power of two) lie next to each other, aligned to their size; None: none does so."""
        if self.start % count:
            return None
        if self.swizzle is not None and self.swizzle.base - min(self.swizzle.shift, 0) < count.bit_length() - 1:
            return None
        for mode, leaves in enumerate(self.modes):
            others = [leaf for i, each in enumerate(self.modes) for leaf in (each if i != mode else each[1:])]
            if (
                leaves[0][1] == 1
                and leaves[0][0] % count == 0
                and all(stride % count == 0 for size, stride in others if size > 1)
            ):
                return mode
        return None

    def linear(self, index: Sequence[int]) -> int:
        """The number of an element from the first one, without the swizzle."""
        total = 0
        for position, leaves in zip(index, self.modes, strict=True):
            for size, stride in leaves:
                total += position % size * stride
                position //= size
        return total

    def part(self, trace: Trace, name: str, index: Sequence[Any], bits: int) -> tuple[Placement, Reg | None]:
        """What `index` leaves: an int or a register chooses one coordinate of a mode, a slice some of them. Also the bytes, in a register, by which
        registers move it. PTXError for a slice that the layout tears apart, and for registers that would change what the swizzle does.
        """
        start, kept, terms = self.start, list[tuple[Leaf, ...]](), list[tuple[Any, int]]()
        span = self.swizzle.span if self.swizzle is not None else 1
        for i, (position, leaves) in enumerate(zip(index, self.modes, strict=True)):
            extent = prod(size for size, _ in leaves)
            if isinstance(position, slice):
                first, last, step = position.indices(extent)
                if step != 1 or last <= first:
                    raise trace.error(
                        f"{name} has no elements {_spelled(position)} in dimension {i}, which has {extent}",
                        "a part has one element or more, one after the other",
                    )
                cut = _cut(leaves, first, last - first)
                if cut is None:
                    raise trace.error(
                        f"elements {_spelled(position)} of dimension {i} do not follow each other in the layout of {name}, {_modes(leaves)}"
                    )
                start, kept = start + _at(leaves, first), [*kept, cut]
            elif isinstance(position, int):
                if not 0 <= position < extent:
                    raise trace.error(f"index {position} is outside dimension {i} of {name}, which has {extent}")
                start += _at(leaves, position)
            else:
                before = 1
                for number, (size, stride) in enumerate(leaves):
                    if stride % span or stride * bits % 8:
                        raise trace.error(
                            f"a register as index of dimension {i} of {name} moves the part by {stride * bits // 8} bytes, and its swizzle repeats after {span * bits // 8}",
                            "choose by a register what is a multiple of that: stages, groups of 8 rows",
                        )
                    terms.append(
                        (_digit(position, before, 0 if number == len(leaves) - 1 else size), stride * bits // 8)
                    )
                    before *= size
        return Placement(tuple(kept), self.swizzle, start), _weighted(terms, 0) if terms else None

    def offset(self, index: Sequence[Any], size: int) -> tuple[int, Reg | None]:
        """(constant bytes, register with the others or None) of an element of `size` bytes; indices are ints in range and registers."""
        constant, terms = self.start * size, list[tuple[Any, int]]()
        for position, leaves in zip(index, self.modes, strict=True):
            before = 1
            for i, (extent, stride) in enumerate(leaves):
                last = i == len(leaves) - 1
                if isinstance(position, int):
                    constant += position // before % extent * stride * size
                elif stride:
                    terms.append((_digit(position, before, 0 if last else extent), stride * size))
                before *= extent
        swizzle = self.swizzle.scaled(size) if self.swizzle is not None else None
        if not terms:
            return (swizzle(constant) if swizzle is not None else constant), None
        total = _weighted(terms, 0 if swizzle is None else constant)
        if swizzle is None:
            return constant, total
        swizzle.emit(total)
        return 0, total

    def composed(self, trace: Trace, other: Any) -> Placement:
        """The elements that another layout chooses, by its coordinates: PTXError where it reaches beyond this one."""
        library: Any = sys.modules.get("tensor_layouts")
        if library is None or not _is_plain(other):
            raise trace.error(f"partition takes a Layout of tensor_layouts, not {other!r:.60}", "such as atom.c_layout")
        count = prod(self.shape)
        reach = _placement(trace, other, None, 0).elements
        own = library.Layout(*(tuple(tuple(leaf[n] for leaf in leaves) for leaves in self.modes) for n in (0, 1)))
        if reach > count:
            raise trace.error(
                f"{other} chooses elements up to number {reach - 1}, and the array of shape {self.shape} has {count}"
            )
        try:
            made = library.compose(own, other)
        except (ValueError, NotImplementedError) as error:
            raise trace.error(f"{own} and {other} have no composition: {error}") from None
        return _placement(trace, made, self.swizzle, self.start)


def placement(trace: Trace, layout: Any) -> Placement:
    """Of a `Layout`, or of a `Swizzle` composed with one. PTXError for anything else."""
    if _is_plain(layout):
        return _placement(trace, layout, None, 0)
    outer, inner, start = (getattr(layout, name, None) for name in ("outer", "inner", "offset"))
    numbers = [getattr(outer, name, None) for name in ("bits", "base", "shift")]
    if not _is_plain(inner) or not isinstance(start, int) or not all(isinstance(n, int) for n in numbers):
        raise trace.error(
            f"layout= takes a Layout of tensor_layouts, or a Swizzle composed with one, not {layout!r:.60}",
            "tensor_layouts.compose(Swizzle(3, 3, 3), Layout((64, 64), (64, 1)))",
        )
    bits, base, shift = (int(n) for n in numbers if n is not None)
    return _placement(trace, inner, Swizzle(bits, base, shift), start)


def row_major(shape: Sequence[int]) -> Placement:
    """That of an array without a layout."""
    return Placement(tuple(((size, prod(shape[i + 1 :])),) for i, size in enumerate(shape)))


def swizzled_rows(shape: Sequence[int], bits: int, swizzle: str | None, *, panels: bool = False) -> Placement:
    """A row-major array whose 16-byte chunks lie as TMA swizzles them. panels: rows wider than 128 bytes are cut into stripes of 128 bytes, each of
    which has all rows.
    """
    made = row_major(shape)
    width = 1024 // bits
    if panels and shape[-1] > width:
        rows = (shape[-2], width), ((width, 1), (shape[-1] // width, shape[-2] * width))
        made = Placement((*made.modes[:-2], (rows[0],), rows[1]))
    return Placement(made.modes, HARDWARE[swizzle].of_elements(bits) if swizzle is not None else None)


def _is_plain(layout: Any) -> bool:
    return hasattr(layout, "shape") and hasattr(layout, "stride") and not hasattr(layout, "outer") and callable(layout)


def _placement(trace: Trace, layout: Any, swizzle: Swizzle | None, start: int) -> Placement:
    shape, stride = layout.shape, layout.stride
    if not isinstance(shape, tuple):
        shape, stride = (shape,), (stride,)
    modes = tuple(_merged(_leaves(trace, layout, s, d)) for s, d in zip(shape, stride, strict=True))
    return Placement(modes, swizzle, start)


def _leaves(trace: Trace, layout: Any, shape: Any, stride: Any) -> list[Leaf]:
    if isinstance(shape, tuple):
        parts: Any = shape
        return [leaf for s, d in zip(parts, stride, strict=True) for leaf in _leaves(trace, layout, s, d)]
    if not isinstance(shape, int) or not isinstance(stride, int) or shape < 1 or stride < 0:
        raise trace.error(
            f"the layout {layout} has a mode {shape}:{stride}; sizes are positive and strides not negative"
        )
    return [(shape, stride)]


def _merged(leaves: list[Leaf]) -> tuple[Leaf, ...]:
    """Without leaves of size 1, and with those together that follow each other in memory."""
    found: list[Leaf] = []
    for size, stride in leaves:
        if size == 1:
            continue
        if found and stride == found[-1][0] * found[-1][1]:
            found[-1] = (found[-1][0] * size, found[-1][1])
        else:
            found.append((size, stride))
    return tuple(found) or ((1, 0),)


def _at(leaves: Sequence[Leaf], position: int) -> int:
    return Placement((tuple(leaves),)).linear((position,))


def _cut(leaves: tuple[Leaf, ...], first: int, count: int) -> tuple[Leaf, ...] | None:
    """`count` coordinates of a mode from one on, as a mode of its own; None where they are not one."""
    found, left = list[Leaf](), count
    for size, stride in leaves:
        if left <= size:
            found.append((left, stride))
            left = 1
            break
        if left % size:
            return None
        found.append((size, stride))
        left //= size
    cut = _merged(found)
    start = _at(leaves, first)
    return cut if left == 1 and all(_at(leaves, first + i) == start + _at(cut, i) for i in range(count)) else None


def _spelled(part: slice) -> str:
    return ":".join(
        "" if n is None else str(n) for n in (part.start, part.stop, *([] if part.step is None else [part.step]))
    )


def _modes(leaves: Sequence[Leaf]) -> str:
    sizes, strides = (", ".join(str(leaf[n]) for leaf in leaves) for n in (0, 1))
    return f"({sizes}):({strides})"


def _digit(position: Any, before: int, extent: int) -> Any:
    """position / before % extent, in a register; an extent of 0 leaves the remainder out."""
    for value, power, other in ((before, "shr.u32", "div.u32"), (extent, "and.b32", "rem.u32")):
        if value <= 1:
            continue
        result = temporary(current(), u32)
        if value & (value - 1):
            emit(other, result, position, value)
        else:
            emit(power, result, position, value.bit_length() - 1 if power == "shr.u32" else value - 1)
        position = result
    return position


def _weighted(terms: Sequence[tuple[Any, int]], constant: int) -> Reg:
    """The sum of registers by their weights and a constant, in a fresh u32 register."""
    total = temporary(current(), u32)
    (first, weight), *rest = terms
    if constant:
        emit("mad.lo.u32", total, first, weight, constant)
    elif weight == 1:
        move(total, first)
    else:
        emit("mul.lo.u32", total, first, weight)
    for register, each in rest:
        emit("mad.lo.u32", total, register, each, total)
    return total
