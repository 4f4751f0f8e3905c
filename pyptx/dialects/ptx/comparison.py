"""Comparison and selection (PTX ISA 9.7.7, 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .forms import Form, Use, form
from .instruction import Instruction, instruction
from .integer import FTZ, SIGNED, UNSIGNED
from .syntax import Pair, Sink

BITS = "b16 b32 b64"
EQUAL = "eq ne"
ORDER = f"{EQUAL} lt le gt ge"
UNSIGNED_ORDER = f"{ORDER} lo ls hi hs"
FLOAT_ORDER = f"{ORDER} equ neu ltu leu gtu geu num nan"
BOOL = "and or xor"
SELECTABLE = f"{BITS} {UNSIGNED} {SIGNED} f32 f64"
COMPARISONS = (
    (EQUAL, BITS),
    (ORDER, SIGNED),
    (UNSIGNED_ORDER, UNSIGNED),
    (FLOAT_ORDER, "f32"),
    (FLOAT_ORDER, "f64"),
)
"""(comparisons, operand types that have them) since PTX 1.0."""


def third_input(use: Use) -> str | None:
    """A Boolean operator and the predicate it combines with go together."""
    has_c = use.operand("c") is not None
    if use.has("bool") and not has_c:
        return f"{use.form.opcode}.{use.slots['bool']} needs a predicate c to combine the comparison with"
    if has_c and not use.has("bool"):
        return f"{use.form.opcode} takes the predicate operand c only with .and, .or or .xor"
    return None


def one_result(use: Use) -> str | None:
    """Scalar halves have no second result (ptxas lets the sink stand for it)."""
    results = use.operand("p")
    if isinstance(results, Pair) and not isinstance(results.second, Sink):
        return f"{use.form.opcode} on .{use.slots['type']} has one result p, not p|q"
    return third_input(use)


def setp(line: str, *, c: str = "c:pred!", rule: Callable[[Use], str | None] = third_input, **more: Any) -> Form:
    return form(f"setp.cmp{{.bool}}{line} p:pred_{{|q:pred_}}, a, b{{, {c}}}", bool=BOOL, rule=rule, **more)


def set_(dtype: str, types: str, cmp: str = FLOAT_ORDER, *, ftz: str = "", c: str = "c:pred!", **more: Any) -> Form:
    line = f"set.cmp{{.bool}}{ftz}.dtype.type d:dtype, a, b{{, {c}}}"
    return form(line, cmp=cmp, bool=BOOL, dtype=dtype, type=types, rule=third_input, **more)


@instruction
class Setp(Instruction):
    """Compare two values into predicates: p = a cmp b, and q, if given, its opposite.

    With a Boolean operator and c, p = (a cmp b) bool c and q = !(a cmp b) bool c. Comparisons ending in `u`
    are also true for NaN; lo ls hi hs are the unsigned lt le gt ge; num and nan tell whether both or not both
    are numbers. In f16x2 and bf16x2, p and q are the two elements' results.
    """

    name = "ptx.setp"
    section = "9.7.7.2"
    takes_constants = True
    unit = "compare"
    forms = (
        *(setp(".type", cmp=cmp, type=types) for cmp, types in COMPARISONS),
        setp(".ftz.f32", cmp=FLOAT_ORDER, ptx="1.4"),
        setp("{.ftz}.f16", rule=one_result, cmp=FLOAT_ORDER, ptx="4.2", sm="53+"),
        setp("{.ftz}.f16x2", cmp=FLOAT_ORDER, ptx="4.2", sm="53+"),
        setp(".bf16", c="c:pred!%", rule=one_result, cmp=FLOAT_ORDER, ptx="7.8", sm="90+"),
        setp(".bf16x2", c="c:pred!%", cmp=FLOAT_ORDER, ptx="7.8", sm="90+"),
    )


@instruction
class Set(Instruction):
    """Compare two values into a register: d is 1.0 (floats) or all ones (integers) if a cmp b holds, else 0.

    With a Boolean operator and c, the result of the comparison is combined with the predicate c first.
    Comparisons as in `setp`; packed types compare each element. The first type is d's, the second the
    inputs'; packed integers have d of their own type.
    """

    name = "ptx.set"
    section = "9.7.7.1"
    unit = "compare"
    forms = (
        *(set_("u32 s32 f32", types, cmp) for cmp, types in COMPARISONS),
        *(set_("f16", types, cmp, ptx="4.2", sm="53+") for cmp, types in COMPARISONS),
        *(set_("bf16", types, cmp, c="c:pred!%", ptx="7.8", sm="90+") for cmp, types in COMPARISONS),
        set_("u32 s32 f32", "f32", ftz=".ftz", ptx="1.4"),
        set_("f16", "f32", ftz=".ftz", ptx="4.2", sm="53+"),
        set_("f16", "f16", ftz="{.ftz}", ptx="4.2", sm="53+"),
        set_("f16x2", "f16x2", ftz="{.ftz}", ptx="4.2", sm="53+"),
        set_("u16 s16 u32 s32", "f16", ftz="{.ftz}", ptx="6.5", sm="53+"),
        set_("u32 s32", "f16x2", ftz="{.ftz}", ptx="6.5", sm="53+"),
        set_("bf16", "f16", c="c:pred!%", ptx="7.8", sm="90+"),
        set_("u16 s16 u32 s32 bf16", "bf16", c="c:pred!%", ptx="7.8", sm="90+"),
        set_("u32 s32 bf16x2", "bf16x2", c="c:pred!%", ptx="7.8", sm="90+"),
        form("set.cmp.type d, a, b", cmp=UNSIGNED_ORDER, type="u8x4 u16x2", ptx="9.4", sm="107af"),
        form("set.cmp.type d, a, b", cmp=ORDER, type="s8x4 s16x2", ptx="9.4", sm="107af"),
    )


@instruction
class Selp(Instruction):
    """Select by a predicate: d = c ? a : b.

    Only sizes matter: any type of the right size may hold the values.
    """

    name = "ptx.selp"
    section = "9.7.7.3"
    takes_constants = True
    unit = "compare"
    forms = (form("selp.type d, a, b, c:pred!", type=SELECTABLE),)


@instruction
class Slct(Instruction):
    """Select by a sign: d = c >= 0 ? a : b.

    c is s32 or f32; a NaN selects b, and `.ftz` takes subnormals as zero.
    """

    name = "ptx.slct"
    section = "9.7.7.4"
    unit = "compare"
    forms = (
        form("slct.type.ctype d, a, b, c:ctype", type=SELECTABLE, ctype="s32"),
        form("slct{.ftz}.type.ctype d, a, b, c:ctype", type=SELECTABLE, ctype="f32", needs=FTZ),
    )
