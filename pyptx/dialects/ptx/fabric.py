"""Fabric instructions: copies, reductions and atomics on the memory of another GPU, addressed through a
fabric endpoint.

An address in the fabric is `[endpoint, a]`: a .b32 endpoint and a .b64 address after it (with
`.counted::bytes` a third part, the .b64 counter that counts the bytes there). All of them are attempts: the
mbarrier in shared memory that counts completion also gets a report of whether they succeeded
(`.mbarrier::report::fabric`, see `mbarrier.test_wait`). `submit` starts what was issued so far.
"""

from __future__ import annotations

from .async_copy import DIMS, RUBIN, TensorCopy
from .forms import Form, Slots, Use, form
from .instruction import Instruction, instruction
from .movement import hinted

BYTES = "mbarrier::complete_tx::bytes"
CHUNKS = "mbarrier::complete_tx::16B"
REPORT = "mbarrier::report::fabric"

RED_TYPES = (
    ("add", "u32 u64 f16 bf16 f32 f64"),
    ("min max", "u32 s32 u64 s64 f16 bf16"),
    ("and or xor", "b32 b64"),
)
VARIANTS = "100af 103af 107af 110af 120af 121af"
PULLRED_TYPES = (
    ("add", "u32 u64 f16 bf16 f32", "", "100+"),
    ("min max", "u32 s32 u64 s64 f16 bf16", "", "100+"),
    ("and or xor", "b32 b64", "", "100+"),
    ("min max", "e4m3 e5m2", "", VARIANTS),
    ("add", "e4m3 e5m2", ".acc::f16", VARIANTS),
    ("add", "f16 bf16 e4m3 e5m2", ".acc::f32", VARIANTS),
)
"""Operations, types, how they are accumulated, and where."""
ATOM_TYPES = (
    ("add", "u32 u64 f16x2 bf16x2 f32 f64"),
    ("min max", "u32 s32 u64 s64 f16x2 bf16x2"),
    ("and or xor", "b32 b64"),
    ("exch cas", "b32 b64 b128"),
)

_ORDER = "{.relaxed}{.sys}"

FAR = "[endpoint:u32?, a:u64%]"
COUNTED = "[endpoint:u32?, a:u64%, counter:u64%]"


def _rule(use: Use) -> str | None:
    if use.has("relaxed") and not use.has("sys"):
        return ".relaxed needs .sys too"
    return hinted(use)


def _tensors(opcode: str, middle: str, tail: str, before: str, after: str, **slots: str) -> tuple[Form, ...]:
    """The forms with a tensor map, whose address of the tensor is always overridden, extents and strides
    maybe.
    """
    counter = ", counter:u64%" if "counted" in middle else ""
    shapes = (
        (DIMS, "", ""),
        ("1d", ".override::global_dim", ", extents:frag"),
        ("2d 3d 4d 5d", ".override::global_dim_stride", ", extents:frag, strides:frag%, high:u16%"),
    )
    return tuple(
        form(
            f"{opcode}.dim.space{{.tile}}.completion.report{middle}{{.L2::cache_hint}}"
            f".override::global_address{override}{_ORDER}.{tail}"
            f" {before}[map:u64?&, endpoint:u32%, base:u64%{counter}{parts}, c:frag]{after}{{, policy:u64}}",
            **slots, space="shared::cta", report=REPORT, dim=dims,  # pyright: ignore[reportArgumentType]
            ptx="9.4", sm=RUBIN, rule=_rule,
        )
        for dims, override, parts in shapes
    )  # fmt: skip


class FabricOperation(Instruction):
    """What the operations on memory reached through the fabric share."""

    effect = "order"
    access_bytes = 16
    proxy = "async"
    unit = "async copy"
    takes_references = False


class FabricTensorOperation(FabricOperation, TensorCopy):
    """Those with a tensor map. ptxas looks for a map that is named by its variable in shared memory, where no map can be used."""

    @classmethod
    def space_of(cls, operand: str, slots: Slots, alone: bool) -> str:
        return "shared" if operand == "map" else super().space_of(operand, slots, alone)


@instruction
class FabricSubmit(Instruction):
    """Start the fabric operations that this thread has issued, or only those that fetch
    (`.op_restrict::fetching`).
    """

    name = "ptx.fabric.submit"
    section = "9.7.11.5.5"
    effect = "order"
    forms = (form("fabric.submit{.op_restrict::fetching}", ptx="9.3", sm="100+"),)


@instruction
class FabricSubmitCommitGroup(Instruction):
    """Start the fabric operations that this thread has issued and make one group of them, for `fabric.wait`."""

    name = "ptx.fabric.submit.commit_group"
    section = "9.7.11.5"
    effect = "order"
    forms = (form("fabric.submit.commit_group", ptx="9.5", sm="100+"),)


@instruction
class FabricWait(Instruction):
    """Wait until the sources of this thread's fabric operations have been read.

    Operand: n, a constant, how many of the newest groups may still be going on.
    """

    name = "ptx.fabric.wait"
    section = "9.7.11.5.6"
    effect = "order"
    forms = (
        form("fabric.wait.sync_restrict::reads {n:imm}", ptx="9.3", sm="100+"),
        form("fabric.wait.sync_restrict::read n:imm", ptx="9.5", sm="100+"),
    )


@instruction
class FabricTryGet(FabricOperation):
    """Copy a run of bytes from memory reached through the fabric to shared memory, asynchronously.

    Operands: dst, in shared memory; `[endpoint, a]`, the source; size in bytes; mbar, the mbarrier that
    counts the bytes and gets the report; policy, with `.L2::cache_hint`.
    """

    name = "ptx.fabric.try_get.async"
    section = "9.7.11.5.1"
    access = "copy"
    forms = (
        form(f"fabric.try_get.async.space.completion.report{{.L2::cache_hint}}{_ORDER}.b128"
             f" [dst], {FAR}, size:u32, [mbar]{{, policy:u64}}",
             space="shared::cta", completion=BYTES, report=REPORT, ptx="9.3", sm="100+", rule=_rule),
    )  # fmt: skip


@instruction
class FabricTryGetTensor(FabricTensorOperation):
    """Copy a box of a tensor reached through the fabric to shared memory, asynchronously.

    Operands: dst, in shared memory; `[map, endpoint, base, {c...}]`, the tensor map, the endpoint, the
    tensor's address there and the coordinates of the box (extents, strides and their high bits too where they
    are overridden); mbar, the mbarrier that counts the bytes and gets the report; policy, with
    `.L2::cache_hint`.
    """

    name = "ptx.fabric.try_get.async.tensor"
    section = "9.7.11.5.7"
    access = "copy"
    forms = _tensors("fabric.try_get.async.tensor", "", "b128", "[dst], ", ", [mbar]", completion=BYTES)


@instruction
class FabricTryPut(FabricOperation):
    """Copy a run of bytes from shared memory to memory reached through the fabric, asynchronously.

    Operands: `[endpoint, a]`, the destination, with `.counted::bytes` `[endpoint, a, counter]`; src, in
    shared memory; size in bytes; mbar, the mbarrier that counts 16-byte chunks and gets the report; mask,
    with `.cp_mask`, a bit for each byte of a chunk that is written; policy, with `.L2::cache_hint`.
    `.multimem` writes to all memories reached through a multimem address.
    """

    name = "ptx.fabric.try_put.async"
    section = "9.7.11.5.2"
    access = "copy"
    forms = tuple(
        form(f"fabric.try_put.async{{.multimem}}.space.completion.report{extra}{{.L2::cache_hint}}{_ORDER}.b128"
             f" {address}, [src], size:u32, [mbar]{mask}{{, policy:u64}}",
             space="shared::cta", completion=CHUNKS, report=REPORT, ptx="9.3", sm="100+", rule=_rule)
        for extra, address, mask in (("", FAR, ""), (".cp_mask", FAR, ", mask:u16*"), (".counted::bytes", COUNTED, ""))
    )  # fmt: skip


@instruction
class FabricTryPutTensor(FabricTensorOperation):
    """Copy a box from shared memory into a tensor reached through the fabric, asynchronously.

    Operands: `[map, endpoint, base, {c...}]` as for `fabric.try_get.async.tensor`, with `.counted::bytes` a
    counter after base; src, in shared memory; size in bytes; mbar, the mbarrier that counts 16-byte chunks
    and gets the report; policy, with `.L2::cache_hint`.
    """

    name = "ptx.fabric.try_put.async.tensor"
    section = "9.7.11.5.8"
    access = "copy"
    forms = tuple(
        found
        for extra in ("", ".counted::bytes")
        for found in _tensors(
            "fabric.try_put.async.tensor{.multimem}", extra, "b128", "", ", [src], size:u32, [mbar]", completion=CHUNKS
        )
    )


@instruction
class FabricTryRed(FabricOperation):
    """Combine a run of elements in shared memory into memory reached through the fabric, asynchronously.

    Operands as for `fabric.try_put.async`, without a mask: `[endpoint, a]` or `[endpoint, a, counter]`, src,
    size, mbar, policy. Each element is updated atomically, relaxed at `.sys` scope.
    """

    name = "ptx.fabric.try_red.async"
    section = "9.7.11.5.3"
    access = "atomic"
    forms = tuple(
        form(f"fabric.try_red.async{{.multimem}}.space.completion.report{extra}{{.L2::cache_hint}}{_ORDER}.op.type"
             f" {address}, [src], size:u32, [mbar]{{, policy:u64}}",
             space="shared::cta", completion=CHUNKS, report=REPORT, op=op, type=types,
             ptx="9.3", sm="100+", rule=_rule)
        for extra, address in (("", FAR), (".counted::bytes", COUNTED))
        for op, types in RED_TYPES
    )  # fmt: skip


@instruction
class FabricTryRedTensor(FabricTensorOperation):
    """Combine a box in shared memory into a tensor reached through the fabric, asynchronously: tensor = tensor op box.

    Operands as for `fabric.try_put.async.tensor`. The map gives the element type.
    """

    name = "ptx.fabric.try_red.async.tensor"
    section = "9.7.11.5.9"
    access = "atomic"
    forms = tuple(
        found
        for extra in ("", ".counted::bytes")
        for found in _tensors(
            "fabric.try_red.async.tensor{.multimem}", extra, "op", "", ", [src], size:u32, [mbar]",
            completion=CHUNKS, op="add min max and or xor",
        )
    )  # fmt: skip


@instruction
class FabricTryPullred(FabricOperation):
    """Combine the elements of all memories reached through a multimem address into shared memory, asynchronously, as a
    warp.

    Operands: dst, in shared memory; `[endpoint, a]`, the multimem source; size in bytes; mbar, the mbarrier
    that counts the bytes and gets the report; members, the constant 0xffffffff. `.acc::f32` adds floats of 16 and
    8 bits in f32, `.acc::f16` those of 8 bits in f16.
    """

    name = "ptx.fabric.try_pullred.async"
    section = "9.7.11.5.4"
    access = "copy"
    forms = tuple(
        form(f"fabric.try_pullred.async.multimem.space.completion.report{_ORDER}.op{accumulate}.type.sync"
             f" [dst], {FAR}, size:u32, [mbar], members:imm",
             space="shared::cta", completion=BYTES, report=REPORT, op=op, type=types,
             ptx="9.3", sm=sm, rule=_rule, ranges={"members": frozenset({-1, 0xFFFF_FFFF, (1 << 64) - 1})})
        for op, types, accumulate, sm in PULLRED_TYPES
    )  # fmt: skip


@instruction
class FabricTryAtom(FabricOperation):
    """An atomic operation on memory reached through the fabric, asynchronously: the old value goes to shared memory.

    Operands: `[endpoint, a]`, the place; dst, where the old value goes in shared memory; src, where the
    operands are (two for `.cas`); mbar, the mbarrier that counts completion and gets the report; policy, with
    `.L2::cache_hint`.
    """

    name = "ptx.fabric.try_atom.async"
    section = "9.7.11.5.10"
    access = "atomic"
    forms = tuple(
        form(f"fabric.try_atom.async.space.completion.report{{.L2::cache_hint}}.relaxed.sys.op.type"
             f" {FAR}, [dst], [src], [mbar%]{{, policy:u64}}",
             space="shared::cta", completion=CHUNKS, report=REPORT, op=op, type=types,
             ptx="9.4", sm="100+", rule=hinted)
        for op, types in ATOM_TYPES
    )  # fmt: skip
