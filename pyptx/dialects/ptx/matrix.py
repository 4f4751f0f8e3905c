"""Warp-level matrix instructions (PTX ISA 9.7.14): `mma`, `wmma`, and the matrix loads, stores and transpose.

A matrix is spread over the registers of a warp as *fragments*. How many registers a fragment takes follows from the number of matrix
elements a thread holds and the size of an element (`fragment`).
"""

from __future__ import annotations

import re

from .forms import Form, Slots, Use, form
from .instruction import Instruction, instruction
from .syntax import Immediate, Vector
from .target import need
from .types import SCALAR_TYPES

FP8 = "e4m3 e5m2"
FP8_FP6_FP4 = "e4m3 e5m2 e3m2 e2m3 e2m1"
ROUND = "rn rz rm rp"
SHARED = "shared shared::cta"
BLACKWELL = "100af 103af 107af 110af 120af 121af"
SHARED_CTA = {"shared::cta": need("7.8")}

_IN_REGISTERS = {"f16": "f16x2", "bf16": "bf16x2", "f64": "b64", "f32": "f32", "s32": "s32", "tf32": "tf32"}
"""The type that registers of a fragment have; for the 8-bit and smaller element types only their size counts."""


def extent(shape: str) -> tuple[int, int, int]:
    """`m16n8k16` -> (16, 8, 16)."""
    m, n, k = re.findall(r"\d+", shape)
    return int(m), int(n), int(k)


def fragment_of(element: str, elements: int, bits: int = 0) -> tuple[str, int]:
    """(register type, number of registers) for so many elements per thread, each of `bits` (0: of its own size)."""
    register = _IN_REGISTERS.get(element, "b32")
    bits = bits or SCALAR_TYPES[element].bits
    return register, max(elements * bits // SCALAR_TYPES[register].bits, 1)


def _same_types(use: Use) -> str | None:
    if use.slots["atype"] == use.slots["btype"]:
        return None
    return f"A and B must have one type, not .{use.slots['atype']} and .{use.slots['btype']}"


# ------------------------------------------------------------------------------------------------------------------- mma

_DENSE = "mma.sync.aligned.shape.alayout.blayout"
_TYPES = ".dtype.atype.btype.ctype "
_PLAIN = "d:frag_, a:frag%, b:frag%, c:frag%"
_INTEGER = "d:frag_, a:frag?%, b:frag?%, c:frag"
"""Operands of 8 bits and less: only the size of their registers counts."""
_FLOAT, _SMALL = _TYPES + _PLAIN, _TYPES + _INTEGER


def _dense(
    modifiers: str, shape: str, dtype: str, ab: str, ptx: str, sm: str, *, same: bool = False, **more: str
) -> Form:
    """One dense form with row-major A and column-major B, and C of the type of D."""
    return form(
        _DENSE + modifiers, shape=shape, alayout="row", blayout="col", dtype=dtype, atype=ab, btype=ab, ctype=dtype,
        ptx=ptx, sm=sm, rule=_same_types if same else None, **more,
    )  # fmt: skip


def _scale_rule(use: Use) -> str | None:
    """The byte selector follows from how many scale factors a step takes, the thread selector from the matrix."""
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


def _scaled(
    opcode: str, shape: str, kind: str, scale: str, ab: str, stype: str, operands: str, ptx: str, sm: str, **more: str
) -> Form:
    """One block-scaled form; `scale` is the scale_vec part of the syntax."""
    return form(
        f"{opcode}.sync.aligned.shape.alayout.blayout.kind.block_scale{scale}.dtype.atype.btype.ctype.stype {operands}{_SCALES}",
        shape=shape, alayout="row", blayout="col", kind=kind, dtype="f32", atype=ab, btype=ab, ctype="f32", stype=stype,
        ptx=ptx, sm=sm, rule=_scale_rule, ranges={"f": (0, 0)} if opcode != "mma" else None, **more,
    )  # fmt: skip


def _all_scaled(opcode: str, k: int, operands: str, fours: str, **more: str) -> tuple[Form, ...]:
    """The block-scaled forms for A and B of m16n8k`k` 8-bit elements (4-bit ones: twice as deep), these on the targets `fours`."""
    wide, deep = f"m16n8k{k}", f"m16n8k{2 * k}"
    targets, scales = "120af 121af", "{.scale_vec}"
    return (
        _scaled(opcode, wide, "kind::mxf8f6f4", scales, FP8_FP6_FP4, "ue8m0", operands, "8.7", targets, scale_vec="scale_vec::1X", **more),
        _scaled(opcode, deep, "kind::mxf4", scales, "e2m1", "ue8m0", operands, "8.7", fours, scale_vec="scale_vec::2X", **more),
        _scaled(opcode, deep, "kind::mxf4nvf4", ".scale_vec", "e2m1", "ue8m0", operands, "8.7", fours, scale_vec="scale_vec::2X", **more),
        _scaled(opcode, deep, "kind::mxf4nvf4", ".scale_vec", "e2m1", "ue8m0", operands, "9.1", fours, scale_vec="scale_vec::4X", **more),
        _scaled(opcode, deep, "kind::mxf4nvf4", ".scale_vec", "e2m1", "ue4m3", operands, "8.7", fours, scale_vec="scale_vec::4X", **more),
    )  # fmt: skip


_SPARSE = "mma.sparsity.sync.aligned.shape.alayout.blayout"
_SPARSE_HALF = _TYPES + "d:frag_?, a:frag%, b:frag%, c:frag?%"
_SPARSE_WIDE = _TYPES + "d:frag_?, a:frag?%, b:frag?%, c:frag?%"
_METADATA = ", e:b32?%*, f:imm"


def _sparse(
    modifiers: str, shape: str, dtype: str, ab: str, ptx: str, sm: str, selectors: int,
    *, same: bool = False, sparsity: str = "sp sp::ordered_metadata", **more: str,
) -> Form:  # fmt: skip
    """One sparse form; `selectors` is how many ways there are to pick the threads that supply the metadata."""
    metadata = _METADATA.replace("*", "") if dtype == "s32" else _METADATA
    return form(
        _SPARSE + modifiers + metadata, sparsity=sparsity, shape=shape, alayout="row", blayout="col",
        dtype=dtype, atype=ab, btype=ab, ctype=dtype, ptx=ptx, sm=sm, rule=_same_types if same else None,
        ranges={"f": (0, selectors - 1)}, needs={"sp::ordered_metadata": need("8.5")}, **more,
    )  # fmt: skip


@instruction
class Mma(Instruction):
    """Multiply two matrices held by a warp and add a third: D = A * B + C. All 32 threads of the warp execute it together.

    Operands: d, a, b, c are the thread's fragments, vectors of as many registers as its share of the matrix fills; the types are those
    of D, A, B, C in this order. With `.sp` A is 2:4 sparse and holds only its non-zero half: e is the metadata that says which elements
    these are and f selects the threads that supply it. `.block_scale` multiplies blocks of A and B with scale factors: scale_a and
    scale_b hold them, and each selector pair {byte, thread} says which are meant. `.satfinite` clamps an integer sum,
    `.xor.popc` and `.and.popc` multiply single bits and count.
    """

    name = "ptx.mma"
    section = "9.7.14.5"
    forms = (
        # half precision; the 8x8x4 shape multiplies four independent matrices, one per group of eight threads
        form(
            _DENSE + _FLOAT, shape="m8n8k4", alayout="row col", blayout="row col", dtype="f16 f32", atype="f16", btype="f16",
            ctype="f16", ptx="6.4", sm="70+",
        ),
        form(
            _DENSE + _FLOAT, shape="m8n8k4", alayout="row col", blayout="row col", dtype="f32", atype="f16", btype="f16",
            ctype="f32", ptx="6.4", sm="70+",
        ),
        form(
            _DENSE + _FLOAT, shape="m8n8k4", alayout="row col", blayout="row col", dtype="f32", atype="bf16 tf32", btype="bf16 tf32",
            ctype="f32", ptx="7.0", sm="80+", rule=_same_types,
        ),
        _dense(_FLOAT, "m16n8k8", "f16", "f16", "6.5", "75+"),
        _dense(_FLOAT, "m16n8k8", "f32", "f16", "6.5", "75+"),
        _dense(_FLOAT, "m16n8k16", "f16", "f16", "7.0", "80+"),
        _dense(_FLOAT, "m16n8k16", "f32", "f16 bf16", "7.0", "80+", same=True),
        _dense(_FLOAT, "m16n8k8", "f32", "bf16 tf32", "7.0", "80+", same=True),
        _dense(_FLOAT, "m16n8k4", "f32", "tf32", "7.0", "80+"),
        # double precision
        _dense("{.rnd}" + _FLOAT.replace("%", ""), "m8n8k4", "f64", "f64", "7.0", "80+", rnd=ROUND),
        _dense("{.rnd}" + _FLOAT.replace("%", ""), "m16n8k4 m16n8k8 m16n8k16", "f64", "f64", "7.8", "90+", rnd=ROUND),
        # integers
        _dense("{.satfinite}" + _SMALL, "m8n8k16", "s32", "u8 s8", "6.5", "75+"),
        _dense("{.satfinite}" + _SMALL, "m16n8k16 m16n8k32", "s32", "u8 s8", "7.0", "80+"),
        _dense("{.satfinite}" + _SMALL, "m8n8k32", "s32", "u4 s4", "6.5", "75+"),
        _dense("{.satfinite}" + _SMALL, "m16n8k32 m16n8k64", "s32", "u4 s4", "7.0", "80+"),
        # single bits
        _dense(".dtype.atype.btype.ctype.bitop.popc " + _INTEGER, "m8n8k128", "s32", "b1", "7.0", "75+", bitop="xor"),
        _dense(".dtype.atype.btype.ctype.bitop.popc " + _INTEGER, "m16n8k128 m16n8k256", "s32", "b1", "7.0", "80+", bitop="xor"),
        _dense(
            ".dtype.atype.btype.ctype.bitop.popc " + _INTEGER, "m8n8k128 m16n8k128 m16n8k256", "s32", "b1", "7.1", "80+", bitop="and"
        ),
        # 8-bit floats and smaller
        _dense(_SMALL, "m16n8k16", "f32", FP8, "8.7", "89+"),
        _dense(_SMALL, "m16n8k32", "f32", FP8, "8.4", "89+"),
        _dense(_SMALL, "m16n8k16 m16n8k32", "f16", FP8, "8.7", "89+"),
        _dense(".kind::f8f6f4" + _SMALL, "m16n8k16", "f32", FP8, "8.7", BLACKWELL),
        _dense(".kind::f8f6f4" + _SMALL, "m16n8k32", "f32", FP8, "8.6", BLACKWELL),
        _dense(".kind::f8f6f4" + _SMALL, "m16n8k16 m16n8k32", "f16", FP8, "8.7", BLACKWELL),
        _dense(".kind::f8f6f4" + _SMALL, "m16n8k32", "f32", FP8_FP6_FP4, "8.7", "120af 121af"),
        _dense(".kind::f8f6f4" + _SMALL, "m16n8k32", "f16", FP8_FP6_FP4, "8.7", "120af 121af"),
        *_all_scaled("mma", 32, _PLAIN, "120af 121af"),
        # sparse A
        _sparse(_FLOAT, "m16n8k16", "f16", "f16", "7.1", "80+", 4),
        _sparse(_SPARSE_HALF, "m16n8k16", "f32", "f16", "7.1", "80+", 4),
        _sparse(_SPARSE_WIDE, "m16n8k16", "f32", "bf16", "7.1", "80+", 4),
        _sparse(_FLOAT, "m16n8k32", "f16", "f16", "7.1", "80+", 2),
        _sparse(_SPARSE_HALF, "m16n8k32", "f32", "f16", "7.1", "80+", 4),
        _sparse(_SPARSE_WIDE, "m16n8k32", "f32", "bf16", "7.1", "80+", 2),
        _sparse(_SPARSE_WIDE, "m16n8k8", "f32", "tf32", "7.1", "80+", 4),
        _sparse(_SPARSE_WIDE, "m16n8k16", "f32", "tf32", "7.1", "80+", 2),
        _sparse("{.satfinite}" + _SMALL, "m16n8k32", "s32", "u8 s8", "7.1", "80+", 2),
        _sparse("{.satfinite}" + _SMALL, "m16n8k64", "s32", "u8 s8", "7.1", "80+", 1),
        _sparse("{.satfinite}" + _SMALL, "m16n8k64", "s32", "u4 s4", "7.1", "80+", 2),
        _sparse("{.satfinite}" + _SMALL, "m16n8k128", "s32", "u4 s4", "7.1", "80+", 1),
        _sparse(_SMALL, "m16n8k64", "f32", FP8, "8.4", "89+", 1),
        _sparse(_SMALL, "m16n8k64", "f16", FP8, "8.7", "120af 121af", 1, sparsity="sp::ordered_metadata"),
        _sparse(".kind::f8f6f4" + _SMALL, "m16n8k64", "f32", FP8, "8.6", BLACKWELL, 1, sparsity="sp::ordered_metadata"),
        _sparse(".kind::f8f6f4" + _SMALL, "m16n8k64", "f32", FP8_FP6_FP4, "8.7", "120af 121af", 1, sparsity="sp::ordered_metadata"),
        _sparse(".kind::f8f6f4" + _SMALL, "m16n8k64", "f16", FP8_FP6_FP4, "8.7", "120af 121af", 1, sparsity="sp::ordered_metadata"),
        *_all_scaled("mma.sparsity", 64, _PLAIN + _METADATA, "120a 121a", sparsity="sp::ordered_metadata"),
    )  # fmt: skip

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


# ------------------------------------------------------------------------------------------------------------------ wmma

_CUBES = "m16n16k16 m8n32k16 m32n8k16"


def _wmma_fragment(name: str, shape: str, element: str) -> tuple[str, int]:
    m, n, k = extent(shape)
    if element == "f16" and name in "ab":
        return "f16x2", 8  # whatever the shape; elements are held twice
    return fragment_of(element, {"a": m * k, "b": k * n, "c": m * n, "d": m * n}[name] // 32)


def _wmma_load(which: str, only: str) -> tuple[Form, ...]:
    """The load forms of A or B; `only` is the layout that the sub-byte types have."""
    text = f"wmma.load.{which}.sync.aligned.matrix_layout.shape{{.ss}}.type r=:frag_, [p]{{, stride:u32}}"
    whole = {"ss": "global shared shared::cta", "matrix_layout": "row col"}
    part = {**whole, "matrix_layout": only}
    return (
        form(text, shape=_CUBES, type="f16", ptx="6.3", sm="70+", needs=SHARED_CTA, **whole),
        form(text, shape=_CUBES, type="u8 s8", ptx="6.3", sm="72+", needs=SHARED_CTA, **whole),
        form(text, shape="m8n8k32", type="u4 s4", ptx="6.3", sm="75+", needs=SHARED_CTA, **part),
        form(text, shape="m8n8k128", type="b1", ptx="6.3", sm="75+", needs=SHARED_CTA, **part),
        form(text, shape=_CUBES, type="bf16", ptx="7.0", sm="80+", needs=SHARED_CTA, **whole),
        form(text, shape="m16n16k8", type="tf32", ptx="7.0", sm="80+", needs=SHARED_CTA, **whole),
        form(text, shape="m8n8k4", type="f64", ptx="7.0", sm="80+", needs=SHARED_CTA, **whole),
    )


def _wmma_accumulator(text: str) -> tuple[Form, ...]:
    """The forms of a load or store of the accumulator."""
    sets = {"ss": "global shared shared::cta", "matrix_layout": "row col"}
    return (
        form(text, shape=_CUBES, type="f16 f32", ptx="6.3", sm="70+", needs=SHARED_CTA, **sets),
        form(text, shape=_CUBES, type="s32", ptx="6.3", sm="72+", needs=SHARED_CTA, **sets),
        form(text, shape="m8n8k32 m8n8k128", type="s32 f32", ptx="6.3", sm="75+", needs=SHARED_CTA, **sets),
        form(text, shape="m16n16k8", type="f32", ptx="7.0", sm="80+", needs=SHARED_CTA, **sets),
        form(text, shape="m8n8k4", type="f64", ptx="7.0", sm="80+", needs=SHARED_CTA, **sets),
    )


@instruction
class WmmaLoadA(Instruction):
    """Load the A matrix of `wmma.mma` from memory into the fragments of a warp.

    Operands: r, the thread's fragment; p, the address of the matrix (the same in all threads); stride, the distance between the
    starts of two rows (`.row`) or columns (`.col`) in elements, by default the width of the matrix.
    """

    name = "ptx.wmma.load.a"
    section = "9.7.14.4.3"
    effect = "read"
    forms = _wmma_load("a", "row")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("a", slots["shape"], slots["type"])


@instruction
class WmmaLoadB(Instruction):
    """Load the B matrix of `wmma.mma` from memory into the fragments of a warp.

    Operands as those of `wmma.load.a`.
    """

    name = "ptx.wmma.load.b"
    section = "9.7.14.4.3"
    effect = "read"
    forms = _wmma_load("b", "col")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("b", slots["shape"], slots["type"])


@instruction
class WmmaLoadC(Instruction):
    """Load the accumulator C of `wmma.mma` from memory into the fragments of a warp.

    Operands as those of `wmma.load.a`.
    """

    name = "ptx.wmma.load.c"
    section = "9.7.14.4.3"
    effect = "read"
    forms = _wmma_accumulator("wmma.load.c.sync.aligned.matrix_layout.shape{.ss}.type r=:frag_, [p]{, stride:u32}")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("c", slots["shape"], slots["type"])


@instruction
class WmmaStoreD(Instruction):
    """Store the result D of `wmma.mma` from the fragments of a warp to memory.

    Operands: p, the address of the matrix (the same in all threads); r, the thread's fragment; stride as for `wmma.load.a`.
    """

    name = "ptx.wmma.store.d"
    section = "9.7.14.4.4"
    effect = "write"
    forms = _wmma_accumulator("wmma.store.d.sync.aligned.matrix_layout.shape{.ss}.type [p], r:frag{, stride:u32}")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _wmma_fragment("d", slots["shape"], slots["type"])


_WMMA = "wmma.mma.sync.aligned.alayout.blayout.shape"
_LAYOUTS = {"alayout": "row col", "blayout": "row col"}


@instruction
class WmmaMma(Instruction):
    """Multiply two matrices that `wmma.load` brought into a warp and add a third: D = A * B + C.

    Operands: d, a, b, c, the thread's fragments. For half-precision A and B the types name D and C, otherwise D, A, B, C. `.satfinite`
    clamps integer sums; `.xor.popc` and `.and.popc` multiply single bits and count.
    """

    name = "ptx.wmma.mma"
    section = "9.7.14.4.5"
    forms = (
        form(_WMMA + ".dtype.ctype d:frag_, a:frag%, b:frag%, c:frag%", shape=_CUBES, dtype="f16 f32", ctype="f16 f32", ptx="6.3", sm="70+", **_LAYOUTS),
        form(
            _WMMA + ".dtype.ctype.satfinite d:frag_, a:frag%, b:frag%, c:frag%", shape=_CUBES, dtype="f16 f32", ctype="f16 f32",
            ptx="6.3", sm="70+", until="6.4", **_LAYOUTS,
        ),
        form(_WMMA + ".s32.atype.btype.s32{.satfinite} " + _INTEGER, shape=_CUBES, atype="u8 s8", btype="u8 s8", ptx="6.3", sm="72+", rule=_same_types, **_LAYOUTS),
        form(
            _WMMA + ".s32.atype.btype.s32{.satfinite} " + _INTEGER, shape="m8n8k32", alayout="row", blayout="col",
            atype="u4 s4", btype="u4 s4", ptx="6.3", sm="75+", rule=_same_types,
        ),
        form(
            "wmma.mma.bitop.popc.sync.aligned.alayout.blayout.shape.s32.b1.b1.s32 " + _INTEGER, shape="m8n8k128",
            alayout="row", blayout="col", bitop="xor and", ptx="6.3", sm="75+", needs={"and": need("7.1", "80+")},
        ),
        form(_WMMA + ".f32.bf16.bf16.f32 " + _PLAIN, shape=_CUBES, ptx="7.0", sm="80+", **_LAYOUTS),
        form(_WMMA + ".f32.tf32.tf32.f32 " + _PLAIN, shape="m16n16k8", ptx="7.0", sm="80+", **_LAYOUTS),
        form(_WMMA + "{.rnd}.f64.f64.f64.f64 d:frag_, a:frag, b:frag, c:frag", shape="m8n8k4", rnd=ROUND, ptx="7.0", sm="80+", **_LAYOUTS),
    )  # fmt: skip

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        if "dtype" in slots:
            element = slots["dtype"] if name == "d" else slots["ctype"] if name == "c" else "f16"
        else:
            place = {"d": "type", "a": "type2", "b": "type3", "c": "type4"}[name]
            element = slots.get(f"{name}type") or slots.get(place) or slots["type"]
        return _wmma_fragment(name, slots["shape"], element)


# ----------------------------------------------------------------------------------------------- load, store, transpose

_MATRICES = {"num": "x1 x2 x4"}


@instruction
class Ldmatrix(Instruction):
    """Load 8x8, 8x16 or 16x16 matrices from shared memory into the fragments of a warp, in the layout that `mma` wants.

    Operands: r, one 32-bit register per 8x8 matrix of 16-bit elements (or its equivalent); p, in each thread, the address of one row.
    `.x1 .x2 .x4` is the number of matrices; threads 0-7 give the rows of the first, 8-15 of the second, and so on. `.trans` transposes.
    The `.b8x16` types expand 4-bit or 6-bit elements, padded in memory, to bytes.
    """

    name = "ptx.ldmatrix"
    section = "9.7.14.5.15"
    effect = "read"
    forms = (
        form(
            "ldmatrix.sync.aligned.shape.num{.trans}{.ss}.b16 r=:b32[num]?_, [p]", shape="m8n8", ss=SHARED,
            ptx="6.5", sm="75+", needs=SHARED_CTA, **_MATRICES,
        ),
        form(
            "ldmatrix.sync.aligned.shape.num{.ss}.dtype.source r=:b32[num]?_, [p]", shape="m8n16", ss=SHARED, dtype="b8x16",
            source="b6x16_p32 b4x16_p64", ptx="8.6", sm=BLACKWELL, **_MATRICES,
        ),
        form(
            "ldmatrix.sync.aligned.shape.num.trans{.ss}.b8 r=:frag?_, [p]", shape="m16n16", ss=SHARED, num="x1 x2", ptx="8.6", sm=BLACKWELL,
        ),
        form(
            "ldmatrix.sync.aligned.shape.num.trans{.ss}.dtype.source r=:frag?_, [p]", shape="m16n16", ss=SHARED, num="x1 x2",
            dtype="b8x16", source="b6x16_p32 b4x16_p64", ptx="8.6", sm=BLACKWELL,
        ),
    )  # fmt: skip

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return "b32", 2 * int(slots["num"][1:])  # a 16x16 matrix of bytes takes two registers


@instruction
class Stmatrix(Instruction):
    """Store 8x8 matrices of 16-bit elements, or 16x8 ones of bytes, from the fragments of a warp to shared memory.

    Operands: p, in each thread, the address of one row; r, one 32-bit register per matrix. `.x1 .x2 .x4` is the number of matrices,
    `.trans` transposes them.
    """

    name = "ptx.stmatrix"
    section = "9.7.14.5.16"
    effect = "write"
    forms = (
        form("stmatrix.sync.aligned.shape.num{.trans}{.ss}.b16 [p], r:b32[num]?", shape="m8n8", ss=SHARED, ptx="7.8", sm="90+", **_MATRICES),
        form("stmatrix.sync.aligned.shape.num.trans{.ss}.b8 [p], r:b32[num]?", shape="m16n8", ss=SHARED, ptx="8.6", sm=BLACKWELL, **_MATRICES),
    )  # fmt: skip


@instruction
class Movmatrix(Instruction):
    """Transpose an 8x8 matrix of 16-bit elements held by a warp, one 32-bit register per thread.

    Operands: d, the fragment of the transposed matrix; a, that of the matrix.
    """

    name = "ptx.movmatrix"
    section = "9.7.14.5.17"
    forms = (form("movmatrix.sync.aligned.shape.trans.b16 d:b32, a:b32", shape="m8n8", ptx="7.8", sm="75+"),)
