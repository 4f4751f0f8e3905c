"""Video instructions: arithmetic on parts of 32-bit registers (PTX ISA 9.7.20).

Scalar ones take one byte (`.b0` to `.b3`) or half (`.h0`, `.h1`) of each source and compute in 34 bits. SIMD
ones compute two halves or four bytes at once, picked from the eight bytes of b:a. (ptxas 13.5 lets a constant
stand for the result of a scalar one; we do not.)
"""

from __future__ import annotations

from typing import Any

from .forms import Form, Use, form
from .instruction import Instruction, instruction
from .syntax import Not

SIGNS: dict[str, Any] = {"dtype": "u32 s32", "atype": "u32 s32", "btype": "u32 s32"}


SCALAR: dict[str, Any] = {"ptx": "2.0", "sm": "20+"}
SIMD: dict[str, Any] = {"ptx": "3.0", "sm": "30+"}
PART = r"b[0-3]|h[01]"
SOURCES = {"a": PART, "b": PART}
COMPARISONS = "eq ne lt le gt ge"
HALVES = {"d": r"h0|h1|h10", "a": r"h[0-3]{2}", "b": r"h[0-3]{2}"}
BYTES = {"d": r"b(?=.)3?2?1?0?", "a": r"b[0-7]{4}", "b": r"b[0-7]{4}"}


def scalar(line: str, d: str = "dtype", **sets: Any) -> tuple[Form, ...]:
    """The three shapes: plain, with a second operation on c, and merged into c at the part that d names."""
    operands = f"d:{d}, a:atype, b:btype"
    return (
        form(f"{line} {operands}", selectors=SOURCES, **SCALAR, **sets),
        form(f"{line}.op2 {operands}, c:{d}", op2="add min max", selectors=SOURCES, **SCALAR, **sets),
        form(f"{line} {operands}, c:{d}", selectors={"d": PART, **SOURCES}, **SCALAR, **sets),
    )


def arithmetic(opcode: str) -> tuple[Form, ...]:
    return scalar(f"{opcode}.dtype.atype.btype{{.sat}}", **SIGNS)


def shift(opcode: str) -> tuple[Form, ...]:
    return scalar(f"{opcode}.dtype.atype.btype{{.sat}}.mode", **{**SIGNS, "btype": "u32"}, mode="clamp wrap")


WHOLE = {"c": ""}
"""The operand c of SIMD forms is read whole, and it is not a sum (ptxas: incorrect video selector)."""


def simd(opcode: str, parts: dict[str, str]) -> tuple[Form, ...]:
    """SIMD arithmetic: saturated, or with the results added up into c."""
    operands = "d:dtype, a:atype%, b:btype%, c:dtype%"
    return (
        form(f"{opcode}.dtype.atype.btype{{.sat}} {operands}", selectors={**parts, **WHOLE}, **SIMD, **SIGNS),
        form(f"{opcode}.dtype.atype.btype.add {operands}", selectors={**parts, **WHOLE}, **SIMD, **SIGNS),
    )


def simd_compare(opcode: str, parts: dict[str, str]) -> tuple[Form, ...]:
    line = f"{opcode}.atype.btype.cmp{{.add}} d:u32, a:atype%, b:btype%, c:u32%"
    return (form(line, cmp=COMPARISONS, atype="u32 s32", btype="u32 s32", selectors={**parts, **WHOLE}, **SIMD),)


def one_sign(use: Use) -> str | None:
    """vmad negates the product or c, not both, and neither with `.po`."""
    a, b, c = (isinstance(use.operand(name), Not) for name in "abc")
    if use.has("po") and (a != b or c):
        return "vmad.po takes no negated operand"
    return "vmad negates either one of a and b, or c" if a != b and c else None


@instruction
class Vadd(Instruction):
    """d = a + b of scalar parts, sign- or zero-extended; `.sat` clamps to d's type.

    With c: a second operation (`.add .min .max`) of the result with c, or the result merged into c at the
    part that d names (`d.h1`).
    """

    name = "ptx.vadd"
    section = "9.7.20.1.1"
    unit = "arithmetic"
    forms = arithmetic("vadd")


@instruction
class Vsub(Instruction):
    """d = a - b of scalar parts. `.sat`, c, the second operation and merging as in `vadd`."""

    name = "ptx.vsub"
    section = "9.7.20.1.1"
    unit = "arithmetic"
    forms = arithmetic("vsub")


@instruction
class Vabsdiff(Instruction):
    """d = |a - b| of scalar parts. `.sat`, c, the second operation and merging as in `vadd`."""

    name = "ptx.vabsdiff"
    section = "9.7.20.1.1"
    unit = "arithmetic"
    forms = arithmetic("vabsdiff")


@instruction
class Vmin(Instruction):
    """d = min(a, b) of scalar parts. `.sat`, c, the second operation and merging as in `vadd`."""

    name = "ptx.vmin"
    section = "9.7.20.1.1"
    unit = "arithmetic"
    forms = arithmetic("vmin")


@instruction
class Vmax(Instruction):
    """d = max(a, b) of scalar parts. `.sat`, c, the second operation and merging as in `vadd`."""

    name = "ptx.vmax"
    section = "9.7.20.1.1"
    unit = "arithmetic"
    forms = arithmetic("vmax")


@instruction
class Vshl(Instruction):
    """d = a << b of scalar parts; b is limited to 32 (`.clamp`) or taken modulo 32 (`.wrap`).

    The rest as in `vadd`.
    """

    name = "ptx.vshl"
    section = "9.7.20.1.2"
    unit = "arithmetic"
    forms = shift("vshl")


@instruction
class Vshr(Instruction):
    """d = a >> b of scalar parts; b is limited to 32 (`.clamp`) or taken modulo 32 (`.wrap`).

    The rest as in `vadd`.
    """

    name = "ptx.vshr"
    section = "9.7.20.1.2"
    unit = "arithmetic"
    forms = shift("vshr")


@instruction
class Vmad(Instruction):
    """d = a * b + c of scalar parts a and b.

    The product or c may be negated, `.po` adds one; `.shr7`, `.shr15` shift the result right.

    `.sat` clamps the result to d's type.
    """

    name = "ptx.vmad"
    section = "9.7.20.1.3"
    unit = "arithmetic"
    forms = (
        form(
            "vmad.dtype.atype.btype{.po}{.sat}{.scale} d:dtype, a:atype-, b:btype-, c:dtype-",
            scale="shr7 shr15", selectors=SOURCES, rule=one_sign, **SCALAR, **SIGNS,
        ),
    )  # fmt: skip


@instruction
class Vset(Instruction):
    """d = 1 if a cmp b holds for scalar parts, else 0. c, the second operation and merging as in `vadd`."""

    name = "ptx.vset"
    section = "9.7.20.1.4"
    unit = "arithmetic"
    forms = scalar("vset.atype.btype.cmp", d="u32", cmp=COMPARISONS, atype="u32 s32", btype="u32 s32")


@instruction
class Vadd2(Instruction):
    """d = a + b for two halves at once.

    Each is sign- or zero-extended, and clamped with `.sat`; d's mask says which results to write, the others
    come from c. With `.add` all are added up with c. The sources' selectors pick their parts from the four
    halves of b:a.
    """

    name = "ptx.vadd2"
    section = "9.7.20.2.1"
    unit = "arithmetic"
    forms = simd("vadd2", HALVES)


@instruction
class Vsub2(Instruction):
    """d = a - b for two halves at once. Selectors, `.sat` and `.add` as in `vadd2`."""

    name = "ptx.vsub2"
    section = "9.7.20.2.1"
    unit = "arithmetic"
    forms = simd("vsub2", HALVES)


@instruction
class Vavrg2(Instruction):
    """d = (a + b) / 2, rounded away from zero, for two halves at once.

    Selectors, `.sat` and `.add` as in `vadd2`.
    """

    name = "ptx.vavrg2"
    section = "9.7.20.2.1"
    unit = "arithmetic"
    forms = simd("vavrg2", HALVES)


@instruction
class Vabsdiff2(Instruction):
    """d = |a - b| for two halves at once. Selectors, `.sat` and `.add` as in `vadd2`."""

    name = "ptx.vabsdiff2"
    section = "9.7.20.2.1"
    unit = "arithmetic"
    forms = simd("vabsdiff2", HALVES)


@instruction
class Vmin2(Instruction):
    """d = min(a, b) for two halves at once. Selectors, `.sat` and `.add` as in `vadd2`."""

    name = "ptx.vmin2"
    section = "9.7.20.2.1"
    unit = "arithmetic"
    forms = simd("vmin2", HALVES)


@instruction
class Vmax2(Instruction):
    """d = max(a, b) for two halves at once. Selectors, `.sat` and `.add` as in `vadd2`."""

    name = "ptx.vmax2"
    section = "9.7.20.2.1"
    unit = "arithmetic"
    forms = simd("vmax2", HALVES)


@instruction
class Vset2(Instruction):
    """Compare two halves at once: 1 where a cmp b holds, else 0. Selectors and `.add` as in `vadd2`."""

    name = "ptx.vset2"
    section = "9.7.20.2.2"
    unit = "arithmetic"
    forms = simd_compare("vset2", HALVES)


@instruction
class Vadd4(Instruction):
    """d = a + b for four bytes at once.

    Each is sign- or zero-extended, and clamped with `.sat`; d's mask says which results to write, the others
    come from c. With `.add` all are added up with c. The sources' selectors pick their parts from the eight
    bytes of b:a.
    """

    name = "ptx.vadd4"
    section = "9.7.20.2.3"
    unit = "arithmetic"
    forms = simd("vadd4", BYTES)


@instruction
class Vsub4(Instruction):
    """d = a - b for four bytes at once. Selectors, `.sat` and `.add` as in `vadd4`."""

    name = "ptx.vsub4"
    section = "9.7.20.2.3"
    unit = "arithmetic"
    forms = simd("vsub4", BYTES)


@instruction
class Vavrg4(Instruction):
    """d = (a + b) / 2, rounded away from zero, for four bytes at once.

    Selectors, `.sat` and `.add` as in `vadd4`.
    """

    name = "ptx.vavrg4"
    section = "9.7.20.2.3"
    unit = "arithmetic"
    forms = simd("vavrg4", BYTES)


@instruction
class Vabsdiff4(Instruction):
    """d = |a - b| for four bytes at once. Selectors, `.sat` and `.add` as in `vadd4`."""

    name = "ptx.vabsdiff4"
    section = "9.7.20.2.3"
    unit = "arithmetic"
    forms = simd("vabsdiff4", BYTES)


@instruction
class Vmin4(Instruction):
    """d = min(a, b) for four bytes at once. Selectors, `.sat` and `.add` as in `vadd4`."""

    name = "ptx.vmin4"
    section = "9.7.20.2.3"
    unit = "arithmetic"
    forms = simd("vmin4", BYTES)


@instruction
class Vmax4(Instruction):
    """d = max(a, b) for four bytes at once. Selectors, `.sat` and `.add` as in `vadd4`."""

    name = "ptx.vmax4"
    section = "9.7.20.2.3"
    unit = "arithmetic"
    forms = simd("vmax4", BYTES)


@instruction
class Vset4(Instruction):
    """Compare four bytes at once: 1 where a cmp b holds, else 0. Selectors and `.add` as in `vadd4`."""

    name = "ptx.vset4"
    section = "9.7.20.2.4"
    unit = "arithmetic"
    forms = simd_compare("vset4", BYTES)
