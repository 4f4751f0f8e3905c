"""Shared memory that TMA writes with a swizzle, against what the kernel takes it for.

TMA places the 16-byte chunk c of the 128-byte row r of a box at chunk c ^ (r % 8) (for 128B), where r counts from a
multiple of 1024 bytes of the *address*. CUDA driver API, cuTensorMapEncodeTiled; PTX ISA 5.5.7.
"""

from __future__ import annotations

from typing import Any

from ..diagnostics import Diagnostic
from .instructions import AddressOperand
from .registers import Reg
from .shared import SharedAlloc, SharedSlice
from .tiles import Layout
from .trace import Trace

__all__ = ["note_copy", "swizzles_mistaken"]

SWIZZLES = {Layout.TMA_128B: "128B", Layout.TMA_64B: "64B", Layout.TMA_32B: "32B"}
_ATOMS = {"128B": 1024, "64B": 512, "32B": 256}


def note_copy(trace: Trace, tensor: Any, shared: Any) -> None:
    """Remember that a tensor copy goes to or from this shared memory, if it is an allocation that it names."""
    layout = trace.tensor_layouts.get(tensor.name) if isinstance(tensor, Reg) else None
    start = 0
    if isinstance(shared, AddressOperand):
        start, shared = shared.offset, shared.base
    if isinstance(shared, SharedSlice):
        start = start + shared.offset if isinstance(start, int) else 0
        shared = shared.alloc
    shared = getattr(shared, "allocation", shared)
    if isinstance(layout, Layout) and isinstance(shared, SharedAlloc):
        trace.tensor_copies.append(
            (shared, start if isinstance(start, int) else 0, SWIZZLES.get(layout), trace.place())
        )


def swizzles_mistaken(trace: Trace) -> list[Diagnostic]:
    """One finding for each allocation whose declared swizzle, alignment or use does not go with the tensor map's."""
    found: dict[str, Diagnostic] = {}
    for s, start, swizzle, place in trace.tensor_copies:
        if s.symbol in found:
            continue
        if s.swizzle is not None and s.swizzle != swizzle:
            found[s.symbol] = trace.diagnostic(
                f"TMA copies {s.symbol} {'without a swizzle' if swizzle is None else f'with the {swizzle} swizzle'}, and "
                f"its layout is {s.swizzle}",
                f"give the tensor's Tile the layout Layout.TMA_{s.swizzle}",
                place,
            )
        if swizzle is None:
            continue
        atom = _ATOMS[swizzle]
        if s.align % atom or start % atom:
            what = f"{start} bytes into {s.symbol}" if start % atom else f"{s.symbol}, which is {s.align}-byte aligned"
            found[s.symbol] = trace.diagnostic(
                f"TMA copies {what}, with the {swizzle} swizzle: its pattern repeats every {atom} bytes of the address",
                f"smem.alloc(..., align={atom}) or smem.wgmma_tile(...), and parts that are multiples of {atom} bytes",
                place,
            )
        elif s.element_place is not None:
            found[s.symbol] = trace.diagnostic(
                f"{s.symbol} is indexed here as rows and columns, and TMA copies it with the {swizzle} swizzle",
                f'address the bytes: smem.apply_swizzle(offset, "{swizzle}"); or take Layout.ROW for the tensor',
                s.element_place,
            )
    return list(found.values())
