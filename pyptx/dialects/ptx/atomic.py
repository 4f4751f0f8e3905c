"""Atomics, reductions and multimem instructions (PTX ISA 9.7.15.5 to 9.7.15.8, 9.7.10.13, 9.7.10.15)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .forms import Form, Use, form
from .instruction import Instruction, instruction
from .lowered import no_displaced_symbol, single_constant
from .movement import SCOPES, SHARED, hinted
from .operand_specs import count_in
from .syntax import Immediate, Sink, Vector
from .target import Need, need
from .types import SCALAR_TYPES

SPACES = f"global {SHARED}"
NEEDS: dict[str, Need] = {
    "shared::cta": need("7.8"),
    "shared::cluster": need("7.8", "90+"),
    "cluster": need("7.8", "90+"),
    "?scope": need("5.0", "60+"),
    "?sem": need("5.1", "70+"),
    "f64": need("5.0", "60+"),
    "b128": need("8.3", "90+"),
    "L2::cache_hint": need("7.4", "80+"),
    "noftz+f32": need("9.4", "90+"),
    "noftz+f16": need("6.3", "70+"),
    "noftz+f16x2": need("6.2", "60+"),
    "noftz+bf16": need("7.8", "90+"),
    "noftz+bf16x2": need("7.8", "90+"),
}
FP8_TARGETS = "100af 103af 107af 110af 120a 121a"
FP8 = "e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4"

INTEGER_LINES = (
    ("add", "u32 s32 u64"),
    ("min max", "u32 s32 u64 s64"),
    ("inc dec", "u32"),
    ("and or xor", "b32 b64"),
)
"""Operations on integers with the types each has."""


def _hinted(use: Use) -> str | None:
    if use.has("L2::cache_hint") and use.slots.get("space", "global") != "global":
        return f".L2::cache_hint is for global memory, not for .{use.slots['space']}"
    return hinted(use)


def _result(use: Use) -> str | None:
    if isinstance(use.operand("d"), Sink):
        return "operand d may not be the sink '_' (only elements of a vector may)"
    return None


def _vector(use: Use) -> str | None:
    """Vectors of small floats take constants after a register only."""
    b, scalar = use.operand("b"), use.slots["type"]
    if isinstance(b, Vector) and isinstance(b.elements[0], Immediate):
        if scalar in ("bf16", "f16x2", "bf16x2") or (scalar == "f16" and b.elements[0].is_float):
            return f"the first element of a vector of .{scalar} must be a register, not {b.elements[0].text}"
    return hinted(use)


def _packet(use: Use) -> str | None:
    """Vectors of small floats fill 32 to 128 bits."""
    bits = SCALAR_TYPES[use.slots["type"]].bits * count_in(use.slots.get("vec", "v1"))
    if 32 <= bits <= 128:
        return _result(use) or _vector(use)
    return f"the vector has {bits} bits; {use.form.opcode} takes 32 to 128"


def _forms(opcode: str, sems: str, d: str, address: str, *, exchange: bool) -> tuple[Form, ...]:
    """The lines that `atom` (with a destination) and `red` (without) share."""
    head = f"{opcode}{{.sem}}{{.scope}}{{.space}}"
    tail = f"{{.L2::cache_hint}}.type {d}{address}, b{{, policy:u64}}"

    def line(op: str, types: str, modifiers: str = "") -> Form:
        return form(
            f"{head}.op{modifiers}{tail}", sem=sems, scope=SCOPES, space=SPACES, op=op, type=types,
            needs=NEEDS, rule=_hinted,
        )  # fmt: skip

    def vectors(op: str, types: str, vec: str, modifiers: str = "") -> Form:
        text = f"{opcode}{{.sem}}{{.scope}}{{.global}}.op{modifiers}{{.L2::cache_hint}}.vec.type "
        text += f"{d.replace('_', '[vec]__')}{address}, b[vec]{{, policy:u64}}"
        return form(
            text, sem=sems, scope=SCOPES, op=op, vec=vec, type=types,
            ptx="8.1", sm="90+", needs=NEEDS, rule=_vector,
        )  # fmt: skip

    return (
        *(line(op, types) for op, types in INTEGER_LINES),
        *((line("exch", "b32 b64 b128"),) if exchange else ()),
        line("add", "f32 f64"),
        line("add", "f16 f16x2 bf16 bf16x2 f32", ".noftz"),
        vectors("add min max", "f16 bf16", "v2 v4 v8", ".noftz"),
        vectors("add min max", "f16x2 bf16x2", "v2 v4", ".noftz"),
        vectors("add", "f32", "v2 v4", "{.noftz}"),
    )


@instruction
class Atom(Instruction):
    """Read a value, combine it with b, write it back, in one step; d gets the old value.

    Operands: d, may be `_`; a, the address; b, the operand (cas: the value compared with), or `{...}` of
    `.vec`; c, for cas: the value to write; policy, a 64-bit cache policy, with `.L2::cache_hint` only. Small
    floats need `.noftz`; vectors are in global memory only, each element atomic by itself. `.add.f32` flushes
    subnormals in global memory, not in shared memory, unless `.noftz`.
    """

    name = "ptx.atom"
    section = "9.7.15.5"
    wide_addresses = True
    result_name = "old"
    effect = "order"
    polls = True
    access = "atomic"
    differs = "thread"
    unit = "atomic"
    forms = (
        *_forms("atom", "relaxed acquire release acq_rel", "d_, ", "[a]{.unified}", exchange=True),
        form(
            "atom{.sem}{.scope}{.space}.cas.type d_, [a]{.unified}, b, c",
            sem="relaxed acquire release acq_rel", scope=SCOPES, space=SPACES, type="b16 b32 b64 b128",
            needs={**NEEDS, "b16": need("6.3", "70+")},
        ),
    )  # fmt: skip


@instruction
class Red(Instruction):
    """Combine memory with b in one step, without a result: memory[a] = op(memory[a], b).

    Operands: a, the address; b, the operand, or `{...}` of `.vec`; policy, a 64-bit cache policy, with
    `.L2::cache_hint` only.
    """

    name = "ptx.red"
    returns_nothing = True
    section = "9.7.15.6"
    wide_addresses = True
    effect = "order"
    access = "atomic"
    unit = "atomic"
    forms = _forms("red", "relaxed release", "", "[a]", exchange=False)


ASYNC_LINES = (
    ("add", "u32 s32 u64 s64"),
    ("min max", "u32 s32"),
    ("inc dec", "u32"),
    ("and or xor", "b32"),
)


@instruction
class RedAsync(Instruction):
    """Combine memory with b without waiting: shared memory of another CTA of the cluster with an mbarrier, or
    global memory, as a release.

    ptxas 13.5 lets the mbarrier be missing, and more; that has no meaning and is refused here.

    Operands: a, the address; b, the operand; mbar, the mbarrier (in the same CTA as a) that counts the bytes.
    """

    name = "ptx.red.async"
    section = "9.7.15.7"
    effect = "order"
    access = "atomic"
    unit = "atomic"
    forms = tuple(
        line
        for op, types in ASYNC_LINES
        for line in (
            form(
                "red.async.relaxed.cluster{.space}.mbarrier::complete_tx::bytes.op.type [a], b, [mbar]",
                space="shared::cluster", op=op, type=types, ptx="8.1", sm="90+",
            ),
            form(
                "red.async.release.scope{.global}.op.type [a], b", scope="gpu sys", op=op, type=types,
                ptx="8.7", sm="100+",
            ),
            form(
                "red.async.mmio.release.sys{.global}.op.type [a], b", op=op, type=types, ptx="8.7", sm="100+"
            ),
            form(
                "red.async.relaxed.scope{.global}.op.type [a], b", scope="gpu sys", op=op, type=types,
                ptx="8.1", sm="90+", needs={"global": need("8.7", "100+")},
            ),
        )
    )  # fmt: skip


PRECISIONS = "acc::f16 acc::f32"
SMALL = "f16 bf16 f16x2 bf16x2"
PACKETS = "v2 v4 v8"


def _multimem(
    opcode: str,
    sem: str,
    operands: str,
    line: str,
    value: str = "",
    rule: Callable[[Use], str | None] | None = None,
    ptx: str = "8.1",
    sm: str = "90+",
    **sets: Any,
) -> tuple[Form, ...]:
    """A line without semantics (or weak) and the same with semantics and scope; `value` is how its register
    stands.
    """
    weak = "" if opcode == "multimem.red" else "{.weak}"
    if opcode != "multimem.ld_reduce":  # ptxas ignores the precision where nothing is summed
        line, sets["acc"] = line + "{.acc}", PRECISIONS
    tail = f"{{.global}}{line} {operands.replace('@', value)}"
    return (
        form(f"{opcode}{weak}{tail}", ptx=ptx, sm=sm, rule=rule, **sets),
        form(f"{opcode}.sem.scope{tail}", sem=sem, scope=SCOPES, ptx=ptx, sm=sm, rule=rule, **sets),
    )


_load_reduce = partial(_multimem, "multimem.ld_reduce", "relaxed acquire", "d@, [a]{.unified}")
_store = partial(_multimem, "multimem.st", "relaxed release", "[a], b@")
_reduce = partial(_multimem, "multimem.red", "relaxed release", "[a:u64+], b@")
_TINY = {"vec": PACKETS, "type": FP8, "ptx": "8.6", "sm": FP8_TARGETS}


@instruction
class MultimemLoadReduce(Instruction):
    """Load from all the memories reached through a multimem address and reduce the values to one.

    Operands: d, or `{...}` of `.vec`; a, a multimem address. `.acc` is the precision in which small floats
    are summed.
    """

    name = "ptx.multimem.ld_reduce"
    section = "9.7.10.15"
    effect = "order"
    access = "load"
    unit = "async copy"
    forms = (
        *_load_reduce(".op.type", op="add", type="u32 s32 u64"),
        *_load_reduce(".op.type", op="min max", type="u32 s32 u64 s64"),
        *_load_reduce(".op.type", op="and or xor", type="b32 b64"),
        *_load_reduce(".add{.vec}.f32", "[vec]_*", _result, vec="v2 v4"),
        *_load_reduce(".add.f64", "*"),
        *_load_reduce(".op{.vec}.type", "[vec]_*", _packet, op="add min max", vec=PACKETS, type=SMALL),
        *_load_reduce(".add.acc::f32{.vec}.type", "[vec]_*", _packet, "8.2", vec=PACKETS, type=SMALL),
        *_load_reduce(".op{.vec}.type", "[vec]_*?", _packet, op="add min max", **_TINY),
        *_load_reduce(".add.acc::f16{.vec}.type", "[vec]_*?", _packet, **_TINY),
    )


@instruction
class MultimemStore(Instruction):
    """Store to all the memories reached through a multimem address.

    Operands: a, the address; b, or `{...}` of `.vec`.
    """

    name = "ptx.multimem.st"
    section = "9.7.10.15"
    effect = "order"
    takes_references = False
    access = "store"
    unit = "async copy"
    forms = (
        *_store(".type", type="b32 b64 u32 u64 s32 s64"),
        *_store("{.vec}.f32", "[vec]*", vec="v2 v4"),
        *_store(".f64", "*"),
        *_store("{.vec}.type", "[vec]*", _packet, vec=PACKETS, type=SMALL),
        *_store("{.vec}.type", "[vec]*?", _packet, **_TINY),
    )


@instruction
class MultimemRed(Instruction):
    """Combine all the memories reached through a multimem address with b. Operands: a; b, or `{...}` of `.vec`."""

    name = "ptx.multimem.red"
    section = "9.7.10.15"
    effect = "order"
    access = "atomic"
    unit = "async copy"
    forms = (
        *_reduce(".op.type", op="add", type="u32 s32 u64"),
        *_reduce(".op.type", op="min max", type="u32 s32 u64 s64"),
        *_reduce(".op.type", op="and or xor", type="b32 b64"),
        *_reduce(".add{.vec}.f32", "[vec]*", vec="v2 v4"),
        *_reduce(".add.f64", "*"),
        *_reduce(".add{.vec}.type", "[vec]*", _packet, vec=PACKETS, type=SMALL),
        *_reduce(".op.vec.type", "[vec]*", _packet, op="min max", vec=PACKETS, type=SMALL),
    )


@instruction
class MultimemStoreAsync(Instruction):
    """Store to all the memories reached through a multimem address without waiting. Operands: a, the address; b."""

    name = "ptx.multimem.st.async"
    section = "9.7.10.13"
    effect = "order"
    access = "store"
    unit = "async copy"
    forms = (
        form(
            "multimem.st.async{.acc}.release.scope{.global}.type [a], b", acc=PRECISIONS, scope="gpu sys",
            type="b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f64", ptx="9.3", sm="100+",
        ),
        form(
            "multimem.st.async{.acc}.release.scope{.global}.f32 [a], b", acc=PRECISIONS, scope="gpu sys", ptx="9.3", sm="100+",
            rule=single_constant,
        ),
    )  # fmt: skip


@instruction
class MultimemRedAsync(Instruction):
    """Add b to all the memories reached through a multimem address without waiting. Operands: a, the address; b."""

    name = "ptx.multimem.red.async"
    section = "9.7.15.8"
    effect = "order"
    access = "atomic"
    unit = "async copy"
    forms = (
        form(
            "multimem.red.async{.acc}.release.scope{.global}.add.type [a], b", acc=PRECISIONS,
            scope="gpu sys", type="u32 s32 u64",
            ptx="9.3", sm="100+", rule=no_displaced_symbol,
        ),
    )  # fmt: skip
