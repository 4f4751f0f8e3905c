"""Texture instructions (PTX ISA 9.7.12): `tex`, `tld4`, `txq`, `istypep` excepted.

A texture is named by a `.texref` variable or by a 64-bit register that holds a handle. With `.target
texmode_independent` the sampler is an operand of its own; in the default unified mode it comes with the
texture, or from a register.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .forms import Form, Slots, Use, form
from .instruction import Instruction, instruction
from .syntax import Address, Immediate, Pair, Register, Vector, registers
from .target import Need, need

_COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4, "2dms": 4, "a2dms": 4}
"""Elements of the coordinate vector: array index or sample first, padded to 1, 2 or 4."""
_SPATIAL = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "2dms": 2, "a2dms": 2, "3d": 4, "cube": 4, "acube": 4}
"""Elements of an offset or a gradient: one per dimension, padded."""

_ARRAYS = ("a1d", "a2d", "acube")
"""Geometries whose index stands among floats."""

_GEOMETRY_NEEDS = {
    "a1d": need("2.3"),
    "a2d": need("2.3"),
    "cube": need("3.0"),
    "acube": need("3.0", "20+"),
    "2dms": need("3.2", "30+"),
    "a2dms": need("3.2", "30+"),
    "f16": need("4.2", "53+"),
    "f16x2": need("4.2", "53+"),
    "/p": need("7.1", "60+"),
}
UNIFIED = need(option="!texmode_independent")
INDEPENDENT = need(option="texmode_independent")


def _operands(use: Use) -> str | None:
    """ptxas counts a predicate as 32 bits here, too, but moves pairs of halves by instructions that do not."""
    result = use.layout[0]
    vector = result.first if isinstance(result, Pair) else result
    if use.slots["dtype"] == "f16x2" and "pred" in use.classes[: len(registers((vector,)))]:
        return "the pairs of halves in operand d go into registers of 32 bits, not into predicates"
    return _coordinates(use)


def _coordinates(use: Use) -> str | None:
    """The index of an array is an integer also among floats and bit types. Coordinates of ctype .f32 are such registers, in braces
    also integers of 32 bits; those that tex.grad moves one by one are not.
    """
    place = next(i for i, o in enumerate(use.layout) if isinstance(o, Address))
    coordinates = use.layout[place].rest[-1]  # pyright: ignore[reportAttributeAccessIssue]
    behind = len(use.classes) - len(registers(use.layout[place + 1 :]))
    if not isinstance(coordinates, Vector):
        kind = use.classes[behind - 1] if isinstance(coordinates, Register) else ""
        if use.slots["ctype"] == "f32" and "." not in kind and kind not in ("", "b32", "f32"):
            return f"a coordinate outside of braces is .f32 or .b32, not .{kind}"
        return None
    at = behind - len(registers((coordinates,)))
    classes = [c.rpartition(".")[2] for c in use.classes[at:behind]]
    floats = use.slots["ctype"] == "f32"
    if floats and set(classes) & _NO_FLOATS and len(set(classes)) == 1:
        return f"operand c must be .f32, and the register is .{classes[0]}"
    geometry, index = use.slots["geom"], coordinates.elements[0]
    if geometry in _ARRAYS:
        kind = classes[0] if isinstance(index, Register) else ""
        if kind in ("f32", "f16x2", "pred") or (isinstance(index, Immediate) and index.is_float):
            return f"the index of an array, the first of the coordinates, is .u32 or .b32, not {'.' + kind if kind else 'a float'}"
    if floats and use.form.opcode == "tex.grad" and geometry in ("cube", "acube", "3d"):
        return _moved(coordinates, classes, 1 if geometry == "acube" else 0)
    return None


_NO_FLOATS = {"f16x2", "pred"}
"""Registers that are not a 32 bits of a coordinate, unless others are next to them."""


def _moved(coordinates: Vector, classes: list[str], first: int) -> str | None:
    """Coordinates from the first on that tex.grad moves to .f32 registers, one by one."""
    at = 0
    for i, element in enumerate(coordinates.elements):
        is_register = isinstance(element, Register)
        given = f".{classes[at]}" if is_register else "a special register"
        if isinstance(element, Immediate):
            given = "an integer" if not element.is_float else ".f32"
        at += is_register
        if i >= first and given not in (".f32", ".b32"):
            return f"operand c of tex.grad must be .f32 or .b32 with this geometry, not {given}"
    return None


def _sampled(
    opcode: str,
    slots: dict[str, Any],
    tail: str,
    ptx: str,
    needs: dict[str, Need],
    *,
    handle: str,
    sm: str = "",
) -> tuple[Form, ...]:
    """One line of syntax in its three spellings: no sampler, a sampler in a register, a `.samplerref`.

    In the unified mode a sampler in a register goes with the geometries in `handle` only (probed with ptxas
    13.5, one instruction per file: after others its answer depends on what it read before).
    """
    head = ".".join((opcode, *slots))
    separate = {
        geometry: replace(needs.get(geometry, need()), option="texmode_independent")
        for geometry in slots["geom"].split()
        if geometry not in handle.split()
    }
    sizes = "?" if slots["ctype"] == "f32" else ""  # in braces
    return tuple(
        form(
            f"{head} d:dtype[vec]_{{|p:pred}}, [a:u64?&{sampler}, c:frag>{sizes}]{tail}",
            ptx=ptx,
            sm=sm,
            needs=needs | more,
            rule=_operands,
            **slots,
        )
        for sampler, more in (("", {"/d": UNIFIED}), (", b:u64%", separate), (", b:symbol", {"/d": INDEPENDENT}))
    )


_ALL = "1d 2d 3d a1d a2d cube acube 2dms a2dms"
_FLAT = "1d 2d 3d a1d a2d 2dms a2dms"


def _tex(
    opcode: str, level: str, ptx: str, sm: str, *, multisample: bool, handle: tuple[str, str, str, str]
) -> tuple[Form, ...]:
    """The forms of one tex opcode; `level` is its level-of-detail operand (or operands).

    `handle` says for the plain form, with offset, with depth, and with both, which geometries take a sampler in
    a register in unified mode.
    """
    floats = ("f32", "1d 2d 3d a1d a2d cube acube", "1d 2d a1d a2d", "1d 2d a1d a2d cube acube", "1d 2d a1d a2d")
    samples = " 2dms a2dms" if multisample else ""
    integers = ("s32", "1d 2d 3d a1d a2d" + samples, "1d 2d a1d a2d" + samples, "1d 2d a1d a2d", "")
    with_plain, with_e, with_f, with_ef = handle
    found: list[Form] = []
    for ctype, plain, offset, depth, both in (floats, integers):
        for geometry, tail, since, unified in (
            (plain, "", ptx, with_plain),
            (offset, ", e:frag>", "4.3", with_e),
            ("3d", ", e:frag", "4.3", with_e),
            (depth, f", f:{ctype}", "4.3", with_f),
            (both, f", e:frag>, f:{ctype}", "4.3", with_ef),
        ):
            if not geometry:
                continue
            for vec, dtype in (("v4", "u32 s32 f32 f16"), ("v2", "f16x2")):
                needs = {
                    key: n for key, n in _GEOMETRY_NEEDS.items() if key in ("/p", *geometry.split(), *dtype.split())
                }
                if sm:
                    needs["ctype"] = need("1.0", sm)
                slots = {"geom": geometry, "vec": vec, "dtype": dtype, "ctype": ctype}
                found += _sampled(opcode, slots, level + tail, since, needs, handle=unified)
    return tuple(found)


class _Texture(Instruction):
    """What the texture reads share: the sizes of their vectors, and that textures are memory."""

    reference = "texref"
    symbol_kind = "samplerref"
    partial_access = True

    section = "9.7.12.3"
    result_name = "v"
    effect = "read"

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        if name == "c":
            return slots["ctype"], _COORDINATES[slots["geom"]]
        return ("s32" if name == "e" else "f32"), _SPATIAL[slots["geom"]]

    @classmethod
    def starts_with_index(cls, name: str, slots: Slots) -> bool:
        return name == "c" and slots["geom"] in _ARRAYS


@instruction
class Tex(_Texture):
    """Read a texture at coordinates, filtered, at the level of detail that the coordinates of neighbouring
    threads imply.

    Operands: d, four values (two pairs of halves for `.v2.f16x2`); p, optional, whether the texel is
    resident; a, the texture; b, the sampler; c, the coordinates, array index or sample first, padded to 1, 2
    or 4 elements; e, optional, texel offsets; f, optional, the value to compare depth with.
    """

    name = "ptx.tex"
    unit = "texture and surface"
    forms = _tex("tex", "", "1.5", "", multisample=True, handle=(_FLAT, _FLAT, _FLAT, _FLAT))


@instruction
class TexBase(_Texture):
    """Read a texture at coordinates, filtered, at the base level of detail. Operands as for `tex`."""

    name = "ptx.tex.base"
    unit = "texture and surface"
    forms = _tex("tex.base", "", "3.1", "20+", multisample=True, handle=(_FLAT, _FLAT, _FLAT, _FLAT))


@instruction
class TexLevel(_Texture):
    """Read a texture at coordinates, filtered, at the level of detail that operand lod gives. The others are
    as for `tex`.
    """

    name = "ptx.tex.level"
    unit = "texture and surface"
    forms = _tex(
        "tex.level",
        ", lod:ctype*",
        "3.1",
        "20+",
        multisample=False,
        handle=("1d 2d a1d a2d cube acube", "1d a1d", _ALL, _ALL),
    )


@instruction
class TexGrad(_Texture):
    """Read a texture at coordinates, filtered, at the level of detail that the derivatives dPdx and dPdy of
    the coordinates imply.

    They are vectors of 1, 2 or 4 floats, by the texture's dimensions. The other operands are as for `tex`.
    """

    name = "ptx.tex.grad"
    unit = "texture and surface"
    forms = _tex("tex.grad", ", dPdx:frag, dPdy:frag", "3.1", "20+", multisample=False, handle=("2d", "2d", "", ""))


def _tld4() -> tuple[Form, ...]:
    found: list[Form] = []
    for geometry, tail, ptx in (
        ("2d", "", "2.2"),
        ("a2d cube acube", "", "4.3"),
        ("2d a2d", ", e:frag>", "4.3"),
        ("2d a2d cube acube", ", f:ctype", "4.3"),
        ("2d a2d", ", e:frag>, f:ctype", "4.3"),
    ):
        slots = {"comp": "r g b a", "geom": geometry, "vec": "v4", "dtype": "u32 s32 f32", "ctype": "f32"}
        found += _sampled("tld4", slots, tail, ptx, {"/p": need("7.1", "60+")}, handle="2d a2d", sm="20+")
    return tuple(found)


@instruction
class Tld4(_Texture):
    """Read one component (red, green, blue or alpha) of the four texels that bilinear filtering would use.

    Operands: as for `tex`; d gets the four texels, counter-clockwise from the lower left.
    """

    name = "ptx.tld4"
    section = "9.7.12.4"
    unit = "texture and surface"
    forms = _tld4()


@instruction
class Txq(Instruction):
    """Ask for a property of a texture or sampler: size, format, number of levels, addressing, filtering.

    Operands: d, the answer; a, the texture (with `.target texmode_independent` the sampler, for the sampler's
    properties).
    """

    name = "ptx.txq"
    section = "9.7.12.5"
    reference = "texref"
    unit = "texture and surface"
    forms = (
        form("txq.tquery.b32 d:b32, [a:u64?&]", tquery="width height depth normalized_coords", ptx="1.5"),
        form("txq.tquery.b32 d:b32, [a:u64?&]", tquery="channel_data_type channel_order", ptx="2.1"),
        form("txq.tquery.b32 d:b32, [a:u64?&]", tquery="array_size num_mipmap_levels num_samples", ptx="4.1"),
        form("txq.squery.b32 d:b32, [a:u64?&]", squery="filter_mode addr_mode_0 addr_mode_1 addr_mode_2", ptx="1.5"),
        form("txq.squery.b32 d:b32, [a:u64?]", squery="force_unnormalized_coords", ptx="3.1"),
        form(
            "txq.squery.b32 d:b32, [a:u64?&]", squery="force_unnormalized_coords", ptx="1.5", needs={"/d": INDEPENDENT}
        ),
    )


@instruction
class TxqLevel(Instruction):
    """Ask for the size of one level of detail of a texture.

    Operands: d, the answer; a, the texture; lod, the level.
    """

    name = "ptx.txq.level"
    section = "9.7.12.5"
    reference = "texref"
    unit = "texture and surface"
    forms = (
        form("txq.level.tlquery.b32 d:b32, [a:u64?&], lod:u32*", tlquery="width height depth", ptx="4.3", sm="30+"),
    )
