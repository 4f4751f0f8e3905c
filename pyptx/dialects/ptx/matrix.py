"""Warp-level matrix instructions (PTX ISA 9.7.16): `mma`, `wmma`, and the matrix loads, stores and transpose.

A matrix is spread over the registers of a warp as *fragments*. How many registers a fragment takes follows
from the number of matrix elements a thread holds and the size of an element (`fragment`).
"""

from __future__ import annotations

import re
from typing import Any

from ...diagnostics import counted
from .forms import Form, Slots, Use, form
from .instruction import Instruction, instruction
from .syntax import Immediate, SpecialRegister, Vector, registers
from .target import need
from .types import SCALAR_TYPES

FP8 = "e4m3 e5m2"
FP8_FP6_FP4 = "e4m3 e5m2 e3m2 e2m3 e2m1"
ROUND = "rn rz rm rp"
SHARED = "shared shared::cta"
BLACKWELL = "100af 103af 107af 110af 120af 121af"
_SM120 = "120af 121af"
SHARED_CTA = {"shared::cta": need("7.8")}

_IN_REGISTERS = {"f16": "f16x2", "bf16": "bf16x2", "f64": "b64", "f32": "f32", "s32": "s32", "tf32": "tf32"}
"""The type that registers of a fragment have; for the 8-bit and smaller element types only their size counts.
"""


def extent(shape: str) -> tuple[int, int, int]:
    """`m16n8k16` -> (16, 8, 16)."""
    m, n, k = re.findall(r"\d+", shape)
    return int(m), int(n), int(k)


def fragment_of(element: str, elements: int, bits: int = 0) -> tuple[str, int]:
    """(register type, number of registers) for so many elements per thread, each of `bits` (0: of its own
    size).
    """
    register = _IN_REGISTERS.get(element, "b32")
    bits = bits or SCALAR_TYPES[element].bits
    return register, max(elements * bits // SCALAR_TYPES[register].bits, 1)


def _same_types(use: Use) -> str | None:
    if use.slots["atype"] == use.slots["btype"]:
        return None
    return f"A and B must have one type, not .{use.slots['atype']} and .{use.slots['btype']}"


def plain_fragment(use: Use) -> str | None:
    """`plain_elements`, and no elements of vector registers either."""
    if any(r.member for r in registers(use.layout)):
        return "a fragment takes no elements of vector registers"
    return plain_elements(use)


def plain_elements(use: Use) -> str | None:
    """ptxas takes predicates, special registers and floating-point constants of 64 bits for 32-bit registers
    in most vectors; the instructions with this rule are lowered to ones that do not.
    """
    if "pred" in use.classes:
        return "a fragment takes no predicate"
    for vector in use.layout:
        if not isinstance(vector, Vector):
            continue
        for element in vector.elements:
            if isinstance(element, SpecialRegister):
                return f"a fragment takes no special register such as {element.name}"
            if isinstance(element, Immediate) and element.is_float and not element.is_single:
                return f"a floating-point constant in a fragment is written as 0f and 8 digits, not {element.text}"
    return None


# -------------------------------------------------------------------------------------------------------- mma

_DENSE = "mma.sync.aligned.shape.alayout.blayout"
_TYPES = ".dtype.atype.btype.ctype "
_PLAIN = "d:frag_, a:frag%, b:frag%, c:frag%"
_INTEGER = "d:frag_, a:frag?%, b:frag?%, c:frag"
"""Operands of 8 bits and less: only the size of their registers counts."""
_FLOAT, _SMALL = _TYPES + _PLAIN, _TYPES + _INTEGER
_DOUBLE = "{.rnd}.dtype.atype.btype.ctype d:frag_, a:frag, b:frag, c:frag"
_SATURATING, _F8F6F4 = "{.satfinite}" + _SMALL, ".kind::f8f6f4" + _SMALL
_SINGLE_BIT = ".dtype.atype.btype.ctype.bitop.popc " + _INTEGER


def _row_by_column(dtype: str, ab: str) -> dict[str, Any]:
    """Row-major A and column-major B, and C of the type of D."""
    return {"alayout": "row", "blayout": "col", "dtype": dtype, "atype": ab, "btype": ab, "ctype": dtype}


def _dense(
    modifiers: str, shape: str, dtype: str, ab: str, ptx: str, sm: str, *, same: bool = False, **more: str
) -> Form:
    """One dense form with row-major A and column-major B, and C of the type of D."""
    sets: dict[str, Any] = {**_row_by_column(dtype, ab), **more}
    rule = _same_types if same else None
    return form(_DENSE + modifiers, shape=shape, ptx=ptx, sm=sm, rule=rule, **sets)


def _scale_rule(use: Use) -> str | None:
    """The byte selector follows from how many scale factors a step takes, the thread selector from the
    matrix.
    """
    vector = use.slots.get("scale_vec") or ("scale_vec::2X" if use.slots["kind"] == "kind::mxf4" else "scale_vec::1X")
    bytes_ = {"scale_vec::1X": (0, 1, 2, 3), "scale_vec::2X": (0, 2), "scale_vec::4X": (0,)}[vector]
    for name, threads in (("selector_a", (0, 1)), ("selector_b", (0, 1, 2, 3))):
        selectors = use.operand(name)
        assert isinstance(selectors, Vector)
        for what, element, legal in zip(("byte", "thread"), selectors.elements, (bytes_, threads), strict=True):
            if isinstance(element, Immediate) and element.value not in legal:
                return f"the {what} selector in operand {name} must be {_alternatives(legal)}, not {element.text}"
    return None


def _alternatives(values: tuple[int, ...]) -> str:
    words = [str(v) for v in values]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


_SCALES = ", scale_a:b32?%*, selector_a:u16[2], scale_b:b32?%*, selector_b:u16[2]"


def _all_scaled(opcode: str, k: int, operands: str, fours: str, **more: str) -> tuple[Form, ...]:
    """The block-scaled forms for m16n8k`k` (4-bit elements: twice as deep), the 4-bit ones on the targets `fours`."""
    rows = (
        ("kind::mxf8f6f4", "{.scale_vec}", "scale_vec::1X", FP8_FP6_FP4, "ue8m0", "8.7"),
        ("kind::mxf4", "{.scale_vec}", "scale_vec::2X", "e2m1", "ue8m0", "8.7"),
        ("kind::mxf4nvf4", ".scale_vec", "scale_vec::2X", "e2m1", "ue8m0", "8.7"),
        ("kind::mxf4nvf4", ".scale_vec", "scale_vec::4X", "e2m1", "ue8m0", "9.1"),
        ("kind::mxf4nvf4", ".scale_vec", "scale_vec::4X", "e2m1", "ue4m3", "8.7"),
    )
    found: list[Form] = []
    for kind, scale, vec, ab, stype, ptx in rows:
        wide = kind == "kind::mxf8f6f4"
        sets: dict[str, Any] = {
            "alayout": "row",
            "blayout": "col",
            "dtype": "f32",
            "atype": ab,
            "btype": ab,
            "ctype": "f32",
            **more,
        }
        modifiers = f".kind.block_scale{scale}.dtype.atype.btype.ctype.stype"
        found.append(
            form(
                f"{opcode}.sync.aligned.shape.alayout.blayout{modifiers} {operands}{_SCALES}",
                shape=f"m16n8k{k if wide else 2 * k}",
                kind=kind,
                scale_vec=vec,
                stype=stype,
                ptx=ptx,
                sm=_SM120 if wide else fours,
                rule=_scale_rule,
                ranges={"f": (0, 0)} if "sparsity" in more else None,
                **sets,
            )
        )
    return tuple(found)


_SPARSE = "mma.sparsity.sync.aligned.shape.alayout.blayout"
_SPARSE_HALF = _TYPES + "d:frag_?, a:frag%, b:frag%, c:frag?%"
_SPARSE_WIDE = _TYPES + "d:frag_?, a:frag?%, b:frag?%, c:frag?%"
_ORDERED = "sp::ordered_metadata"
_METADATA = ", e:b32?%*>, f:imm"


def _sparse(
    modifiers: str, shape: str, dtype: str, ab: str, ptx: str, sm: str, selectors: int, sparsity: str = f"sp {_ORDERED}"
) -> Form:
    """One sparse form; `selectors` is how many ways there are to pick the threads that supply the metadata."""
    sets = _row_by_column(dtype, ab)
    return form(
        f"{_SPARSE}{modifiers}{_METADATA}",
        sparsity=sparsity,
        shape=shape,
        ptx=ptx,
        sm=sm,
        ranges={"f": (0, selectors - 1)},
        needs={_ORDERED: need("8.5")},
        **sets,
    )


_LAYOUTS: dict[str, Any] = {"alayout": "row col", "blayout": "row col"}


def _quad(dtype: str, ab: str, ctype: str, ptx: str, sm: str) -> Form:
    """The 8x8x4 shape multiplies four independent matrices, one per group of eight threads, in any layout."""
    sets: dict[str, Any] = {"dtype": dtype, "atype": ab, "btype": ab, "ctype": ctype, **_LAYOUTS}
    return form(_DENSE + _FLOAT, shape="m8n8k4", ptx=ptx, sm=sm, rule=_same_types, **sets)


@instruction
class Mma(Instruction):
    """Multiply two matrices held by a warp and add a third: D = A * B + C. All 32 threads of the warp execute
    it together.

    Operands: d, a, b, c are the thread's fragments, vectors of as many registers as its share of the matrix
    fills; the types are those of D, A, B, C in this order. With `.sp` A is 2:4 sparse and holds only its
    non-zero half: e is the metadata that says which elements these are and f selects the threads that supply
    it. `.block_scale` multiplies blocks of A and B with scale factors: scale_a and scale_b hold them, and
    each selector pair {byte, thread} says which are meant. `.satfinite` clamps an integer sum, `.xor.popc`
    and `.and.popc` multiply single bits and count.
    """

    name = "ptx.mma"
    section = "9.7.16.5.14"
    result_name = "acc"
    whole_warp = True
    differs = "thread"
    unit = "tensor core"
    sums = "mma"
    addend = 3
    forms = (
        # half precision
        _quad("f16 f32", "f16", "f16", "6.4", "70+"),
        _quad("f32", "f16", "f32", "6.4", "70+"),
        _quad("f32", "bf16 tf32", "f32", "7.0", "80+"),
        _dense(_FLOAT, "m16n8k8", "f16", "f16", "6.5", "75+"),
        _dense(_FLOAT, "m16n8k8", "f32", "f16", "6.5", "75+"),
        _dense(_FLOAT, "m16n8k16", "f16", "f16", "7.0", "80+"),
        _dense(_FLOAT, "m16n8k16", "f32", "f16 bf16", "7.0", "80+", same=True),
        _dense(_FLOAT, "m16n8k8", "f32", "bf16 tf32", "7.0", "80+", same=True),
        _dense(_FLOAT, "m16n8k4", "f32", "tf32", "7.0", "80+"),
        # double precision
        _dense(_DOUBLE, "m8n8k4", "f64", "f64", "7.0", "80+", rnd=ROUND),
        _dense(_DOUBLE, "m16n8k4 m16n8k8 m16n8k16", "f64", "f64", "7.8", "90+", rnd=ROUND),
        # integers
        _dense(_SATURATING, "m8n8k16", "s32", "u8 s8", "6.5", "75+"),
        _dense(_SATURATING, "m16n8k16 m16n8k32", "s32", "u8 s8", "7.0", "80+"),
        _dense(_SATURATING, "m8n8k32", "s32", "u4 s4", "6.5", "75+"),
        _dense(_SATURATING, "m16n8k32 m16n8k64", "s32", "u4 s4", "7.0", "80+"),
        # single bits
        _dense(_SINGLE_BIT, "m8n8k128", "s32", "b1", "7.0", "75+", bitop="xor"),
        _dense(_SINGLE_BIT, "m16n8k128 m16n8k256", "s32", "b1", "7.0", "80+", bitop="xor"),
        _dense(_SINGLE_BIT, "m8n8k128 m16n8k128 m16n8k256", "s32", "b1", "7.1", "80+", bitop="and"),
        # 8-bit floats and smaller
        _dense(_SMALL, "m16n8k16", "f32", FP8, "8.7", "89+"),
        _dense(_SMALL, "m16n8k32", "f32", FP8, "8.4", "89+"),
        _dense(_SMALL, "m16n8k16 m16n8k32", "f16", FP8, "8.7", "89+"),
        _dense(_F8F6F4, "m16n8k16", "f32", FP8, "8.7", BLACKWELL),
        _dense(_F8F6F4, "m16n8k32", "f32", FP8, "8.6", BLACKWELL),
        _dense(_F8F6F4, "m16n8k16 m16n8k32", "f16", FP8, "8.7", BLACKWELL),
        _dense(_F8F6F4, "m16n8k32", "f32", FP8_FP6_FP4, "8.7", _SM120),
        _dense(_F8F6F4, "m16n8k32", "f16", FP8_FP6_FP4, "8.7", _SM120),
        *_all_scaled("mma", 32, _PLAIN, _SM120),
        # sparse A
        _sparse(_FLOAT, "m16n8k16", "f16", "f16", "7.1", "80+", 4),
        _sparse(_SPARSE_HALF, "m16n8k16", "f32", "f16", "7.1", "80+", 4),
        _sparse(_SPARSE_WIDE, "m16n8k16", "f32", "bf16", "7.1", "80+", 4),
        _sparse(_FLOAT, "m16n8k32", "f16", "f16", "7.1", "80+", 2),
        _sparse(_SPARSE_HALF, "m16n8k32", "f32", "f16", "7.1", "80+", 4),
        _sparse(_SPARSE_WIDE, "m16n8k32", "f32", "bf16", "7.1", "80+", 2),
        _sparse(_SPARSE_WIDE, "m16n8k8", "f32", "tf32", "7.1", "80+", 4),
        _sparse(_SPARSE_WIDE, "m16n8k16", "f32", "tf32", "7.1", "80+", 2),
        _sparse(_SATURATING, "m16n8k32", "s32", "u8 s8", "7.1", "80+", 2),
        _sparse(_SATURATING, "m16n8k64", "s32", "u8 s8", "7.1", "80+", 1),
        _sparse(_SATURATING, "m16n8k64", "s32", "u4 s4", "7.1", "80+", 2),
        _sparse(_SATURATING, "m16n8k128", "s32", "u4 s4", "7.1", "80+", 1),
        _sparse(_SMALL, "m16n8k64", "f32", FP8, "8.4", "89+", 1),
        _sparse(_SMALL, "m16n8k64", "f16", FP8, "8.7", _SM120, 1, sparsity=_ORDERED),
        _sparse(_F8F6F4, "m16n8k64", "f32", FP8, "8.6", BLACKWELL, 1, sparsity=_ORDERED),
        _sparse(_F8F6F4, "m16n8k64", "f32", FP8_FP6_FP4, "8.7", _SM120, 1, sparsity=_ORDERED),
        _sparse(_F8F6F4, "m16n8k64", "f16", FP8_FP6_FP4, "8.7", _SM120, 1, sparsity=_ORDERED),
        *_all_scaled("mma.sparsity", 64, _PLAIN + _METADATA, "120a 121a", sparsity=_ORDERED),
    )

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        m, n, k = extent(slots["shape"])
        element = slots[f"{name}type"]
        threads = 8 if slots["shape"] == "m8n8k4" and element != "f64" else 32
        bits = 4 if slots.get("kind") in ("kind::mxf4", "kind::mxf4nvf4") and name in "ab" else 0
        kept = k // 2 if "sparsity" in slots else k
        elements = {"a": m * kept, "b": k * n, "c": m * n, "d": m * n}[name]
        register, count = fragment_of(element, elements // threads, bits)
        scaled = "block_scale" in slots and name in "ab"
        return ("bf16x2" if scaled else register), count  # bit registers only, as for bf16


# ------------------------------------------------------------------------------------------------------- wmma

_CUBES = "m16n16k16 m8n32k16 m32n8k16"


def _wmma_fragment(name: str, shape: str, element: str) -> tuple[str, int]:
    m, n, k = extent(shape)
    if element == "f16" and name in "ab":
        return "f16x2", 8  # whatever the shape; elements are held twice
    register, count = fragment_of(element, {"a": m * k, "b": k * n, "c": m * n, "d": m * n}[name] // 32)
    return {"u8": "s32", "s8": "s32", "f64": "f64"}.get(element, register), count


def _double_fragment(use: Use) -> str | None:
    """Each register of a fragment of doubles is one, also where others of its vector are of a bit type."""
    at = 0
    for operand in use.layout:
        count = len(registers((operand,)))
        foreign = set(use.classes[at : at + count]) - {"b64", "f64"}
        if isinstance(operand, Vector) and foreign:
            return f"a fragment of .f64 takes registers of .f64 and .b64, not .{min(foreign)}"
        at += count
    return plain_fragment(use)


def _counted_fragment(use: Use) -> str | None:
    """`.v8`, which no manual has, says how many registers the fragment has."""
    count = next((len(o.elements) for o in use.layout if isinstance(o, Vector)), 1)
    said = use.slots.get("vec", f"v{count}")
    return f"the fragment has {counted(count, 'register')}, not .{said}" if said != f"v{count}" else plain_fragment(use)


def _counted_doubles(use: Use) -> str | None:
    return _counted_fragment(use) or _double_fragment(use)


def _wmma_forms(text: str, rows: tuple[tuple[str, str, str, str], ...], narrow: str = "row col") -> tuple[Form, ...]:
    """Forms of a load or store by (shapes, types, PTX, targets); `narrow` is the layout of the sub-byte types."""
    return tuple(
        form(
            text,
            matrix_layout=narrow if type_ in ("u4 s4", "b1") else "row col",
            shape=shape,
            ss="global shared shared::cta",
            vec="v2 v4 v8" if type_ in ("f16", "bf16") else "v2 v4",  # up to 128 bits
            type=type_,
            ptx=ptx,
            sm=sm,
            needs=SHARED_CTA,
            rule=_counted_doubles if type_ == "f64" else _counted_fragment,
        )
        for shape, type_, ptx, sm in rows
    )


_MULTIPLICANDS = (
    (_CUBES, "f16", "6.3", "70+"),
    (_CUBES, "u8 s8", "6.3", "72+"),
    ("m8n8k32", "u4 s4", "6.3", "75+"),
    ("m8n8k128", "b1", "6.3", "75+"),
    (_CUBES, "bf16", "7.0", "80+"),
    ("m16n16k8", "tf32", "7.0", "80+"),
    ("m8n8k4", "f64", "7.0", "80+"),
)
_ACCUMULATORS = (
    (_CUBES, "f16 f32", "6.3", "70+"),
    (_CUBES, "s32", "6.3", "72+"),
    ("m8n8k32 m8n8k128", "s32 f32", "6.3", "75+"),
    ("m16n16k8", "f32", "7.0", "80+"),
    ("m8n8k4", "f64", "7.0", "80+"),
)
_LOAD = "wmma.load.{}.sync.aligned.matrix_layout.shape{{.ss}}{{.vec}}.type r=:frag_, [p]{{, stride:u32}}"
_STORE = "wmma.store.d.sync.aligned.matrix_layout.shape{.ss}{.vec}.type [p], r:frag{, stride:u32}"


class _WmmaLoad(Instruction):
    section = "9.7.16.4.3"
    partial_access = True
    result_name = "frag"
    effect = "read"
    access = "load"
    whole_warp = True
    differs = "thread"
    unit = "memory"


@instruction
class WmmaLoadA(_WmmaLoad):
    """Load the A matrix of `wmma.mma` from memory into the fragments of a warp.

    Operands: r, the thread's fragment; p, the address of the matrix (the same in all threads); stride, the
    distance between the starts of two rows (`.row`) or columns (`.col`) in elements, by default the width of
    the matrix.
    """

    name = "ptx.wmma.load.a"
    forms = _wmma_forms(_LOAD.format("a"), _MULTIPLICANDS, "row")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("a", slots["shape"], slots["type"])


@instruction
class WmmaLoadB(_WmmaLoad):
    """Load the B matrix of `wmma.mma` from memory into the fragments of a warp.

    Operands as those of `wmma.load.a`.
    """

    name = "ptx.wmma.load.b"
    forms = _wmma_forms(_LOAD.format("b"), _MULTIPLICANDS, "col")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("b", slots["shape"], slots["type"])


@instruction
class WmmaLoadC(Instruction):
    """Load the accumulator C of `wmma.mma` from memory into the fragments of a warp.

    Operands as those of `wmma.load.a`.
    """

    name = "ptx.wmma.load.c"
    section = "9.7.16.4.3"
    partial_access = True
    result_name = "acc"
    effect = "read"
    access = "load"
    whole_warp = True
    differs = "thread"
    unit = "memory"
    forms = _wmma_forms(_LOAD.format("c"), _ACCUMULATORS)

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("c", slots["shape"], slots["type"])


@instruction
class WmmaStoreD(Instruction):
    """Store the result D of `wmma.mma` from the fragments of a warp to memory.

    Operands: p, the address of the matrix (the same in all threads); r, the thread's fragment; stride as for
    `wmma.load.a`.
    """

    name = "ptx.wmma.store.d"
    section = "9.7.16.4.4"
    partial_access = True
    effect = "write"
    access = "store"
    whole_warp = True
    unit = "memory"
    forms = _wmma_forms(_STORE, _ACCUMULATORS)

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("d", slots["shape"], slots["type"])


_WMMA_PLAIN = "d:frag_, a:frag%, b:frag%, c:frag%"
_WMMA_INTEGER = "d:frag_, a:frag%, b:frag%, c:frag"
_WMMA = "wmma.mma.sync.aligned.alayout.blayout.shape"


@instruction
class WmmaMma(Instruction):
    """Multiply two matrices that `wmma.load` brought into a warp and add a third: D = A * B + C.

    Operands: d, a, b, c, the thread's fragments. For half-precision A and B the types name D and C, otherwise
    D, A, B, C. `.satfinite` clamps integer sums; `.xor.popc` and `.and.popc` multiply single bits and count.
    """

    name = "ptx.wmma.mma"
    section = "9.7.16.4.5"
    result_name = "acc"
    whole_warp = True
    differs = "thread"
    unit = "tensor core"
    sums = "mma"
    addend = 3
    forms = (
        form(
            _WMMA + ".dtype.ctype d:frag_, a:frag%, b:frag%, c:frag%",
            shape=_CUBES,
            dtype="f16 f32",
            ctype="f16 f32",
            ptx="6.3",
            sm="70+",
            **_LAYOUTS,
        ),
        form(
            _WMMA + ".dtype.ctype.satfinite d:frag_, a:frag%, b:frag%, c:frag%",
            shape=_CUBES,
            dtype="f16 f32",
            ctype="f16 f32",
            ptx="6.3",
            sm="70+",
            until="6.4",
            **_LAYOUTS,
        ),
        form(
            _WMMA + ".s32.atype.btype.s32{.satfinite} " + _WMMA_INTEGER,
            shape=_CUBES,
            atype="u8 s8",
            btype="u8 s8",
            ptx="6.3",
            sm="72+",
            rule=_same_types,
            **_LAYOUTS,
        ),
        form(
            _WMMA + ".s32.atype.btype.s32{.satfinite} " + _WMMA_INTEGER,
            shape="m8n8k32",
            alayout="row",
            blayout="col",
            atype="u4 s4",
            btype="u4 s4",
            ptx="6.3",
            sm="75+",
            rule=_same_types,
        ),
        form(
            "wmma.mma.bitop.popc.sync.aligned.alayout.blayout.shape.s32.b1.b1.s32 " + _WMMA_INTEGER,
            shape="m8n8k128",
            alayout="row",
            blayout="col",
            bitop="xor and",
            ptx="6.3",
            sm="75+",
            needs={"and": need("7.1", "80+")},
        ),
        form(_WMMA + ".f32.bf16.bf16.f32 " + _WMMA_PLAIN, shape=_CUBES, ptx="7.0", sm="80+", **_LAYOUTS),
        form(_WMMA + ".f32.tf32.tf32.f32 " + _WMMA_PLAIN, shape="m16n16k8", ptx="7.0", sm="80+", **_LAYOUTS),
        form(
            _WMMA + "{.rnd}.f64.f64.f64.f64 d:frag_, a:frag, b:frag, c:frag",
            shape="m8n8k4",
            rnd=ROUND,
            ptx="7.0",
            sm="80+",
            **_LAYOUTS,
        ),
    )

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        if "dtype" in slots:
            element = slots["dtype"] if name == "d" else slots["ctype"] if name == "c" else "f16"
        else:
            place = {"d": "type", "a": "type2", "b": "type3", "c": "type4"}[name]
            element = slots.get(f"{name}type") or slots.get(place) or slots["type"]
        register, count = _wmma_fragment(name, slots["shape"], element)
        if name in "ab":
            return {"b32": "s32"}.get(register, register), count
        return {"f64": "b64"}.get(register, register), count


# ------------------------------------------------------------------------------------- load, store, transpose

_MATRICES: dict[str, Any] = {"num": "x1 x2 x4"}


@instruction
class Ldmatrix(Instruction):
    """Load 8x8, 8x16 or 16x16 matrices from shared memory into the fragments of a warp, in the layout that
    `mma` wants.

    Operands: r, one 32-bit register per 8x8 matrix of 16-bit elements (or its equivalent); p, in each thread,
    the address of one row. `.x1 .x2 .x4` is the number of matrices; threads 0-7 give the rows of the first,
    8-15 of the second, and so on. `.trans` transposes. The `.b8x16` types expand 4-bit or 6-bit elements,
    padded in memory to rows of 16 bytes, to bytes; `.s8.s4` (PTX 9.4) expands signed 4-bit integers, packed in
    rows of 8 bytes, to bytes of the same value.
    """

    name = "ptx.ldmatrix"
    section = "9.7.16.5.15"
    result_name = "frag"
    effect = "read"
    access_bytes = 16
    access = "load"
    whole_warp = True
    differs = "thread"
    unit = "shared memory"
    forms = (
        form(
            "ldmatrix.sync.aligned.shape.num{.trans}{.ss}.b16 r=:frag?_, [p]",
            shape="m8n8",
            ss=SHARED,
            ptx="6.5",
            sm="75+",
            needs=SHARED_CTA,
            **_MATRICES,
        ),
        form(
            "ldmatrix.sync.aligned.shape.num{.ss}.dtype.source r=:frag?_, [p]",
            shape="m8n16",
            ss=SHARED,
            dtype="b8x16",
            source="b6x16_p32 b4x16_p64",
            ptx="8.6",
            sm=BLACKWELL,
            **_MATRICES,
        ),
        form(
            "ldmatrix.sync.aligned.shape.num{.ss}.s8.s4 r=:frag?_, [p]",
            shape="m8n16",
            ss=SHARED,
            ptx="9.4",
            sm="90a " + BLACKWELL,
            **_MATRICES,
        ),
        form(
            "ldmatrix.sync.aligned.shape.num.trans{.ss}.b8 r=:frag?_, [p]",
            shape="m16n16",
            ss=SHARED,
            num="x1 x2",
            ptx="8.6",
            sm=BLACKWELL,
        ),
        form(
            "ldmatrix.sync.aligned.shape.num.trans{.ss}.dtype.source r=:frag?_, [p]",
            shape="m16n16",
            ss=SHARED,
            num="x1 x2",
            dtype="b8x16",
            source="b6x16_p32 b4x16_p64",
            ptx="8.6",
            sm=BLACKWELL,
        ),
    )

    @classmethod
    def bytes_together(cls, modifiers: tuple[str, ...]) -> int:
        return 8 if "s4" in modifiers else cls.access_bytes  # of a row

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return "b32", int(slots["num"][1:]) * (2 if slots["shape"] == "m16n16" else 1)


@instruction
class Stmatrix(Instruction):
    """Store 8x8 matrices of 16-bit elements, or 16x8 ones of bytes, from the fragments of a warp to shared
    memory.

    Operands: p, in each thread, the address of one row; r, one 32-bit register per matrix. `.x1 .x2 .x4` is
    the number of matrices, `.trans` transposes them.
    """

    name = "ptx.stmatrix"
    section = "9.7.16.5.16"
    effect = "write"
    access_bytes = 16
    access = "store"
    whole_warp = True
    unit = "shared memory"
    forms = (
        form(
            "stmatrix.sync.aligned.shape.num{.trans}{.ss}.b16 [p], r:frag?%",
            shape="m8n8",
            ss=SHARED,
            ptx="7.8",
            sm="90+",
            **_MATRICES,
        ),
        form(
            "stmatrix.sync.aligned.shape.num.trans{.ss}.b8 [p], r:frag?%",
            shape="m16n8",
            ss=SHARED,
            ptx="8.6",
            sm=BLACKWELL,
            **_MATRICES,
        ),
    )

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return "b32", int(slots["num"][1:])


@instruction
class Movmatrix(Instruction):
    """Transpose an 8x8 matrix of 16-bit elements held by a warp, one 32-bit register per thread.

    Operands: d, the fragment of the transposed matrix; a, that of the matrix.
    """

    name = "ptx.movmatrix"
    section = "9.7.16.5.17"
    whole_warp = True
    differs = "thread"
    unit = "move"
    forms = (form("movmatrix.sync.aligned.shape.trans.b16 d:b32?, a:b32?%", shape="m8n8", ptx="7.8", sm="75+"),)
