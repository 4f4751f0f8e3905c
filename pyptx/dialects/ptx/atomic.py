"""Atomics, reductions and multimem instructions (PTX ISA 9.7.13.5 to 9.7.13.8, 9.7.9.14)."""

from __future__ import annotations

from collections.abc import Callable

from .forms import Form, Use, count_in, form
from .instruction import Instruction, instruction
from .movement import SCOPES, SHARED, hinted
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


def _packet(use: Use) -> str | None:
    """Vectors of small floats fill 32 to 128 bits."""
    bits = SCALAR_TYPES[use.slots["type"]].bits * count_in(use.slots.get("vec", "v1"))
    if 32 <= bits <= 128:
        return hinted(use)
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
            ptx="8.1", sm="90+", needs=NEEDS, rule=hinted,
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

    Operands: d, may be `_`; a, the address; b, the operand (cas: the value compared with), or `{...}` of `.vec`;
    c, for cas: the value to write; policy, a 64-bit cache policy, with `.L2::cache_hint` only.
    Small floats need `.noftz`; vectors are in global memory only, each element atomic by itself.
    """

    name = "ptx.atom"
    section = "9.7.13.5"
    effect = "order"
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
    section = "9.7.13.6"
    effect = "order"
    forms = _forms("red", "relaxed release", "", "[a]", exchange=False)


ASYNC_LINES = (
    ("add", "u32 s32 u64 s64"),
    ("min max", "u32 s32"),
    ("inc dec", "u32"),
    ("and or xor", "b32"),
)


@instruction
class RedAsync(Instruction):
    """Combine memory with b without waiting: shared memory of the cluster with an mbarrier, or global memory.

    Operands: a, the address; b, the operand; mbar, the mbarrier (in the same CTA as a) that counts the bytes.
    """

    name = "ptx.red.async"
    section = "9.7.13.7"
    effect = "order"
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


def _multimem(text: str, sem: str, rule: Callable[[Use], str | None] | None = None, **more: str) -> tuple[Form, ...]:
    """A line without semantics (or weak) and the same line with semantics and scope."""
    ptx, sm = more.pop("ptx", "8.1"), more.pop("sm", "90+")
    weak = "" if text.startswith("multimem.red") else "{.weak}"
    return (
        form(text.replace("@", weak), ptx=ptx, sm=sm, rule=rule, **more),
        form(text.replace("@", ".sem.scope"), sem=sem, scope=SCOPES, ptx=ptx, sm=sm, rule=rule, **more),
    )


SMALL = "f16 bf16 f16x2 bf16x2"


@instruction
class MultimemLoadReduce(Instruction):
    """Load from all the memories behind a multimem address and reduce the values to one.

    Operands: d, or `{...}` of `.vec`; a, a multimem address. `.acc` is the precision of the sum of small floats.
    """

    name = "ptx.multimem.ld_reduce"
    section = "9.7.9.14"
    effect = "order"
    forms = (
        *_multimem("multimem.ld_reduce@{.global}.op.type d, [a]{.unified}", "relaxed acquire", op="add", type="u32 s32 u64"),
        *_multimem(
            "multimem.ld_reduce@{.global}.op.type d, [a]{.unified}", "relaxed acquire", op="min max", type="u32 s32 u64 s64"
        ),
        *_multimem("multimem.ld_reduce@{.global}.op.type d, [a]{.unified}", "relaxed acquire", op="and or xor", type="b32 b64"),
        *_multimem(
            "multimem.ld_reduce@{.global}.op{.vec}.type d[vec]_*, [a]{.unified}", "relaxed acquire", _packet,
            op="min max", vec="v2 v4 v8", type=SMALL,
        ),
        *_multimem(
            "multimem.ld_reduce@{.global}.add{.vec}.type d[vec]_*, [a]{.unified}", "relaxed acquire", _packet,
            vec="v2 v4 v8", type=SMALL,
        ),
        *_multimem(
            "multimem.ld_reduce@{.global}.add.acc::f32{.vec}.type d[vec]_*, [a]{.unified}", "relaxed acquire", _packet,
            vec="v2 v4 v8", type=SMALL, ptx="8.2",
        ),
        *_multimem("multimem.ld_reduce@{.global}.add{.vec}.f32 d[vec]_*, [a]{.unified}", "relaxed acquire", vec="v2 v4"),
        *_multimem("multimem.ld_reduce@{.global}.add.f64 d*, [a]{.unified}", "relaxed acquire"),
        *_multimem(
            "multimem.ld_reduce@{.global}.op{.vec}.type d[vec]_*, [a]{.unified}", "relaxed acquire", _packet,
            op="min max", vec="v2 v4 v8", type=FP8, ptx="8.6", sm=FP8_TARGETS,
        ),
        *_multimem(
            "multimem.ld_reduce@{.global}.add{.acc::f16}{.vec}.type d[vec]_*, [a]{.unified}", "relaxed acquire", _packet,
            vec="v2 v4 v8", type=FP8, ptx="8.6", sm=FP8_TARGETS,
        ),
    )  # fmt: skip


@instruction
class MultimemStore(Instruction):
    """Store a value to all the memories behind a multimem address. Operands: a, the address; b, or `{...}` of `.vec`."""

    name = "ptx.multimem.st"
    section = "9.7.9.14"
    effect = "order"
    forms = (
        *_multimem("multimem.st@{.global}.type [a], b", "relaxed release", type="b32 b64 u32 u64 s32 s64"),
        *_multimem(
            "multimem.st@{.global}{.vec}.type [a], b[vec]*", "relaxed release", _packet, vec="v2 v4 v8", type=SMALL
        ),
        *_multimem("multimem.st@{.global}{.vec}.f32 [a], b[vec]*", "relaxed release", vec="v2 v4"),
        *_multimem("multimem.st@{.global}.f64 [a], b*", "relaxed release"),
        *_multimem(
            "multimem.st@{.global}{.vec}.type [a], b[vec]*", "relaxed release", _packet,
            vec="v2 v4 v8", type=FP8, ptx="8.6", sm=FP8_TARGETS,
        ),
    )  # fmt: skip


@instruction
class MultimemRed(Instruction):
    """Combine all the memories behind a multimem address with b. Operands: a, the address; b, or `{...}` of `.vec`."""

    name = "ptx.multimem.red"
    section = "9.7.9.14"
    effect = "order"
    forms = (
        *_multimem("multimem.red@{.global}.op.type [a], b", "relaxed release", op="add", type="u32 s32 u64"),
        *_multimem(
            "multimem.red@{.global}.op.type [a], b", "relaxed release", op="min max", type="u32 s32 u64 s64"
        ),
        *_multimem("multimem.red@{.global}.op.type [a], b", "relaxed release", op="and or xor", type="b32 b64"),
        *_multimem(
            "multimem.red@{.global}.add{.vec}.type [a], b[vec]*", "relaxed release", _packet,
            vec="v2 v4 v8", type=SMALL,
        ),
        *_multimem(
            "multimem.red@{.global}.op.vec.type [a], b[vec]*", "relaxed release", _packet,
            op="min max", vec="v2 v4 v8", type=SMALL,
        ),
        *_multimem("multimem.red@{.global}.add{.vec}.f32 [a], b[vec]*", "relaxed release", vec="v2 v4"),
        *_multimem("multimem.red@{.global}.add.f64 [a], b*", "relaxed release"),
    )  # fmt: skip


@instruction
class MultimemStoreAsync(Instruction):
    """Store to all the memories behind a multimem address without waiting. Operands: a, the address; b."""

    name = "ptx.multimem.st.async"
    section = "9.7.9.14"
    effect = "order"
    forms = (
        form(
            "multimem.st.async.release.scope{.global}.type [a], b", scope="gpu sys",
            type="b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64", ptx="9.3", sm="100+",
        ),
    )  # fmt: skip


@instruction
class MultimemRedAsync(Instruction):
    """Add b to all the memories behind a multimem address without waiting. Operands: a, the address; b."""

    name = "ptx.multimem.red.async"
    section = "9.7.9.14"
    effect = "order"
    forms = (
        form(
            "multimem.red.async.release.scope{.global}.add.type [a], b", scope="gpu sys", type="u32 s32 u64",
            ptx="9.3", sm="100+",
        ),
    )  # fmt: skip
