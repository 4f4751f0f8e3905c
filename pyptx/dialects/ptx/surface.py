"""Surface instructions (PTX ISA 9.7.13): `suld`, `sust`, `sured`, `suq`.

A surface is named by a `.surfref` variable or by a 64-bit register that holds a handle. `.clamp` says what an
access outside of it does: `.trap` stops the kernel, `.clamp` takes the nearest element, `.zero` reads zero
and writes nothing.
"""

from __future__ import annotations

from typing import Any, cast

from .forms import Form, Slots, form
from .instruction import Instruction, instruction
from .target import need

_COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4}
"""Elements of the coordinate vector: array index first, padded to 1, 2 or 4."""
_CLAMP = "trap clamp zero"
_GEOMETRY: dict[str, Any] = {
    "3d": need("3.0", "20+"),
    "a1d": need("3.0", "20+"),
    "a2d": need("3.0", "20+"),
    "?cop": need("2.0", "20+"),
}


class _Surface(Instruction):
    """What the surface accesses share: the size of the coordinate vector."""

    reference = "surfref"
    partial_access = True
    effect = "order"

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return "s32", _COORDINATES[slots["geom"]]


@instruction
class SuldB(_Surface):
    """Read an element of a surface as raw bits.

    Operands: d, a value or a vector of two or four (as the type allows); a, the surface; b, the coordinates,
    in bytes along x.
    """

    name = "ptx.suld.b"
    section = "9.7.13.1"
    # ptxas does not compare the number of registers with .vec (it takes four for a scalar); the manual's rule
    # holds here
    unit = "texture and surface"
    forms = tuple(
        form(
            f"suld.b.geom{{.cop}}{vector}.dtype.clamp {operand}, [a:u64?&, b:frag>]",
            geom="1d 2d 3d a1d a2d",
            cop="ca cg cs cv",
            dtype=dtype,
            clamp=_CLAMP,
            ptx="1.5",
            needs=_GEOMETRY,
            **cast("dict[str, Any]", vec),
        )
        for vector, operand, dtype, vec in (
            ("", "d:dtype+*", "b8 b16 b32 b64", {}),
            (".vec", "d:dtype[vec]+_", "b8 b16 b32", {"vec": "v2 v4"}),
            (".vec", "d:dtype[vec]+_", "b64", {"vec": "v2"}),
        )
    )


_STORE = "sust.{}.geom{{.cop}}{{.vec}}.ctype.clamp [a:u64?&, b:frag>], c:ctype[vec]+*"


@instruction
class SustB(_Surface):
    """Write an element of a surface as raw bits.

    Operands: a, the surface; b, the coordinates, in bytes along x; c, the value or a vector of two or four.
    """

    name = "ptx.sust.b"
    section = "9.7.13.2"
    unit = "texture and surface"
    forms = tuple(
        form(
            _STORE.format("b"),
            geom="1d 2d 3d a1d a2d",
            cop="wb cg cs wt",
            vec=vec,
            ctype=ctype,
            clamp=_CLAMP,
            ptx="1.5",
            needs=_GEOMETRY,
        )
        for vec, ctype in (("v2 v4", "b8 b16 b32"), ("v2", "b64"))
    )


@instruction
class SustP(_Surface):
    """Write an element of a surface, converting from 32-bit values to the surface's format.

    Operands: a, the surface; b, the coordinates, in elements; c, the value or a vector of two or four.
    """

    name = "ptx.sust.p"
    section = "9.7.13.2"
    unit = "texture and surface"
    forms = (
        form(
            _STORE.format("p"),
            geom="1d 2d 3d a1d a2d",
            cop="wb cg cs wt",
            vec="v2 v4",
            ctype="b32",
            clamp=_CLAMP,
            ptx="2.0",
            sm="20+",
            needs={**_GEOMETRY, "a1d": need("4.1"), "a2d": need("4.1")},
        ),
    )


def _sured(kind: str, op: str, types: str, ptx: str = "2.0") -> Form:
    return form(
        f"sured.{kind}.op.geom.ctype.clamp [a:u64?&, b:frag>], c:ctype+",
        op=op,
        geom="1d 2d 3d",
        ctype=types,
        clamp=_CLAMP,
        ptx=ptx,
        sm="20+",
        needs={"3d": need("3.0")},
    )


@instruction
class SuredB(_Surface):
    """Combine a value atomically with an element of a surface, taken as raw bits; gives no result.

    Operands: a, the surface; b, the coordinates, in bytes along x; c, the value.
    """

    name = "ptx.sured.b"
    section = "9.7.13.3"
    unit = "texture and surface"
    forms = (
        _sured("b", "add", "u32 u64 s32"),
        _sured("b", "min max", "u32 s32"),
        _sured("b", "min max", "u64 s64", "8.1"),
        _sured("b", "and or", "b32"),
    )


@instruction
class SuredP(_Surface):
    """Combine a value atomically with an element of a surface, addressed by element; gives no result.
    Operands as for `sured.b`.
    """

    name = "ptx.sured.p"
    section = "9.7.13.3"
    unit = "texture and surface"
    forms = (_sured("p", "add min max and or", "b32"), _sured("p", "min max", "b64", "8.1"))


@instruction
class Suq(Instruction):
    """Ask for a property of a surface: size, format, memory layout.

    Operands: d, the answer; a, the surface.
    """

    name = "ptx.suq"
    section = "9.7.13.4"
    reference = "surfref"
    unit = "texture and surface"
    forms = (
        form("suq.query.b32 d:b32, [a:u64?&]", query="width height depth", ptx="1.5"),
        form("suq.query.b32 d:b32, [a:u64?&]", query="channel_data_type channel_order", ptx="2.1"),
        form("suq.query.b32 d:b32, [a:u64?&]", query="array_size", ptx="4.1"),
        form("suq.query.b32 d:b32, [a:u64?&]", query="memory_layout", ptx="4.2"),
    )
