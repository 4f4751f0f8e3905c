"""Asynchronous copies: cp.async, bulk copies and tensor copies (PTX ISA 9.7.10.28).

The instruction starts the copy and goes on. How one learns that it is complete is in the instruction:
cp.async and the copies to global memory join a group (`commit_group`, `wait_group`; `.bulk_group`), copies to
shared memory lower the bytes that an mbarrier expects (`.mbarrier::complete_tx::bytes`, operand mbar). Bulk
and tensor copies are issued by one thread, through the async proxy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .forms import Form, Slots, Use, form
from .instruction import Instruction, instruction
from .movement import PREFETCH_SIZE, hinted
from .syntax import Address, Immediate, Vector
from .target import need

BYTES = "mbarrier::complete_tx::bytes"
MULTICAST16 = "multicast::cluster multicast::cluster::16b"
MULTICAST32 = "multicast::cluster::32b"
REPORTS = (
    "mbarrier::report::disabled mbarrier::report::validity::per_element::ff"
    " mbarrier::report::validity::per_16bytes::8 mbarrier::report::validity::per_16bytes::80"
    " mbarrier::report::validity::per_16bytes::8000 mbarrier::report::validity::per_16bytes::80000000"
)
SCOPES = "cta cluster gpu sys"
RUBIN = "107af"
DATA_CENTER = "100af 103af 107af 110af"
"""The targets with tensor memory; they have the newer access modes and `.cta_group`."""
FAST = f"90a {DATA_CENTER}"
"""Those that copy to the shared memory of other CTAs without a detour, too."""

OWN = "shared shared::cta"
CHUNK = {"size": frozenset({4, 8, 16})}
SIZE = {"size": range(0, 1 << 20, 16)}
MASK = {**SIZE, "mask": (0, 0xFFFF)}
MASK32 = {**SIZE, "mask": (0, 0xFFFF_FFFF)}
REMAINDER = {**SIZE, "left": (0, 15), "right": (0, 15)}

BULK = {
    "weak": need("9.3"),
    "?report": need("9.4", RUBIN),
    "multicast::cluster::16b": need("9.4"),
}

SHARED_REDUCTIONS = (
    ("add", "u32 s32 u64"),
    ("min max", "u32 s32"),
    ("inc dec", "u32"),
    ("and or xor", "b32"),
)
GLOBAL_REDUCTIONS = (
    ("add", "u32 s32 u64 f32 f64"),
    ("min max", "u32 s32 u64 s64 f16 bf16"),
    ("inc dec", "u32"),
    ("and or xor", "b32 b64"),
)


def _source_size(use: Use) -> str | None:
    """`.cg` copies 16 bytes, and not more can be read than copied."""
    size, source = use.operand("size"), use.operand("source_size")
    assert isinstance(size, Immediate)
    if use.slots["cop"] == "cg" and size.value != 16:
        return f"operand size must be 16 with .cg, not {size.text} (.ca copies 4, 8 or 16 bytes)"
    if isinstance(source, Immediate) and not 0 <= source.value <= size.value:
        return f"operand source_size must be in 0..{size.text}, the bytes copied, not {source.text}"
    return None


_CP_ASYNC = "cp.async.cop.dst.global"


@instruction
class CpAsync(Instruction):
    """Copy 4, 8 or 16 bytes from global to shared memory, asynchronously: the thread goes on and waits for
    its groups.

    Operands: dst, shared address; src, global address; size, a constant, 16 with `.cg` (cached in L2 only);
    source_size, how many bytes to read, at most size: the others become zero, or ignore, a predicate that makes
    all zero; policy, a 64-bit cache policy, with `.L2::cache_hint`. `.L2::128B` and the like prefetch that
    much into L2.
    """

    name = "ptx.cp.async"
    section = "9.7.10.28.3.1"
    effect = "order"
    access = "copy"
    unit = "async copy"
    forms = (
        form(f"{_CP_ASYNC}{{.prefetch}} [dst], [src], size:imm{{, source_size:u32}}",
             cop="ca cg", dst=OWN, prefetch=PREFETCH_SIZE,
             ptx="7.0", sm="80+", needs={"?prefetch": need("7.4")}, ranges=CHUNK, rule=_source_size),
        form(f"{_CP_ASYNC}.L2::cache_hint{{.prefetch}}"
             " [dst], [src], size:imm{, source_size:u32}, policy:u64",
             cop="ca cg", dst=OWN, prefetch=PREFETCH_SIZE,
             ptx="7.4", sm="80+", ranges=CHUNK, rule=_source_size),
        form(f"{_CP_ASYNC}{{.prefetch}} [dst], [src], size:imm, ignore:pred!%",
             cop="ca cg", dst=OWN, prefetch=PREFETCH_SIZE,
             ptx="7.5", sm="80+", ranges=CHUNK, rule=_source_size),
        form(f"{_CP_ASYNC}.L2::cache_hint{{.prefetch}} [dst], [src], size:imm, ignore:pred!%, policy:u64",
             cop="ca cg", dst=OWN, prefetch=PREFETCH_SIZE,
             ptx="7.5", sm="80+", ranges=CHUNK, rule=_source_size),
    )  # fmt: skip


@instruction
class CpAsyncCommitGroup(Instruction):
    """Make one group of all cp.async of this thread that are in no group yet. An empty group is fine."""

    name = "ptx.cp.async.commit_group"
    section = "9.7.10.28.3.2"
    effect = "order"
    unit = "barrier"
    forms = (form("cp.async.commit_group", ptx="7.0", sm="80+"),)


@instruction
class CpAsyncWaitGroup(Instruction):
    """Wait until at most n of this thread's newest cp.async groups are still going on; n is a constant.

    What arrived is visible to this thread only; other threads need a barrier after it.
    """

    name = "ptx.cp.async.wait_group"
    section = "9.7.10.28.3.3"
    effect = "order"
    unit = "barrier"
    forms = (form("cp.async.wait_group n:imm", ptx="7.0", sm="80+"),)


@instruction
class CpAsyncWaitAll(Instruction):
    """Wait until all cp.async of this thread are complete, committed or not."""

    name = "ptx.cp.async.wait_all"
    section = "9.7.10.28.3.3"
    effect = "order"
    unit = "barrier"
    forms = (form("cp.async.wait_all", ptx="7.0", sm="80+"),)


@instruction
class CpAsyncMbarrierArrive(Instruction):
    """Arrive at an mbarrier as soon as all cp.async that this thread has issued so far are complete.

    Operand: mbar, the mbarrier in shared memory. The arrival is on top of the expected ones, whose number is
    raised by one meanwhile; with `.noinc` it is one of those given at `mbarrier.init`.
    """

    name = "ptx.cp.async.mbarrier.arrive"
    section = "9.7.15.16.18"
    effect = "order"
    unit = "barrier"
    forms = (
        form("cp.async.mbarrier.arrive{.noinc}.space.b64 [mbar]", space=OWN,
             ptx="7.0", sm="80+", needs={"shared::cta": need("7.8")}),
        form("cp.async.mbarrier.arrive{.noinc}.b64 [mbar:u32+]", ptx="7.0", sm="80+"),
    )  # fmt: skip


def _bulk(line: str, *, scope: str = SCOPES, relaxed: str = "", **facts: Any) -> tuple[Form, ...]:
    """A bulk copy in both memory orders, for which <order> and <type> stand in `line`: weak, or of elements of 16 bytes.
    `relaxed`: the targets where the latter may be `.relaxed`.
    """
    needs = {**BULK, "relaxed": need("9.3", relaxed)}
    return (
        form(line.replace("<order>", "{.weak}").replace("<type>", ""), needs=BULK, **facts),
        form(line.replace("<order>", "{.relaxed.scope}").replace("<type>", ".b128"), scope=scope, needs=needs, **facts),
    )


_BULK = "cp.async.bulk<order>.dst.src.completion"
_TO_ONE = f"{_BULK}{{.L2::cache_hint}}{{.report}}<type> [dst], [src], size:u32, [mbar:u32+]{{, policy:u64}}"
_TO_MANY = f"{_BULK}.multicast{{.L2::cache_hint}}{{.report}}<type> [dst], [src], size:u32, [mbar:u32+], mask"


class _BulkCopy(Instruction):
    """What the bulk copies share."""

    effect = "order"
    access_bytes = 16
    access = "copy"
    proxy = "async"
    unit = "async copy"


@instruction
class CpAsyncBulk(_BulkCopy):
    """Copy a run of bytes between global and shared memory, or to another CTA's shared memory,
    asynchronously.

    Operands: dst and src, addresses in the two spaces, 16-byte aligned; size in bytes, a multiple of 16;
    mbar, the mbarrier that counts the bytes where dst is shared; mask, with `.multicast::cluster` a bit for
    each CTA that gets a copy, at the same offset (16 or, with `::32b`, 32 of them), with `.cp_mask` a bit for
    each byte of a 16-byte chunk that is written; left and right, with `.ignore_oob`, 0 to 15 bytes at both
    ends that may lie outside of an allocation and arrive with any value; policy, with `.L2::cache_hint`. The
    accesses are weak; with `.b128` they may be `.relaxed` at a scope, atomic for each 16 bytes.
    """

    name = "ptx.cp.async.bulk"
    section = "9.7.10.28.4.1"
    forms = (
        *_bulk(
            _TO_ONE, dst="shared::cta", src="global", completion=BYTES, report=REPORTS,
            ptx="8.6", sm="90+", ranges=SIZE, rule=hinted,
        ),
        *_bulk(
            f"{_BULK}.ignore_oob{{.L2::cache_hint}}{{.report}}<type>"
            " [dst], [src], size:u32, left:u32, right:u32, [mbar:u32+]{, policy:u64}",
            dst="shared::cta", src="global", completion=BYTES, report="mbarrier::report::disabled",
            ptx="9.2", sm="90+", ranges=REMAINDER, rule=hinted,
        ),
        *_bulk(
            _TO_ONE, dst="shared::cluster", src="global", completion=BYTES, report=REPORTS,
            ptx="8.0", sm="90+", relaxed=FAST, ranges=SIZE, rule=hinted,
        ),
        *_bulk(
            f"{_TO_MANY}:u16*{{, policy:u64}}",
            dst="shared::cluster", src="global", completion=BYTES, multicast=MULTICAST16, report=REPORTS,
            ptx="8.0", sm="90+", relaxed=FAST, ranges=MASK, rule=hinted,
        ),
        *_bulk(
            f"{_TO_MANY}:u32{{, policy:u64}}",
            dst="shared::cluster", src="global", completion=BYTES, multicast=MULTICAST32, report=REPORTS,
            ptx="9.4", sm=RUBIN, ranges=MASK32, rule=hinted,
        ),
        *_bulk(
            f"{_BULK}<type> [dst], [src], size:u32, [mbar:u32+]",
            dst="shared::cluster", src="shared::cta", completion=BYTES, scope="cta cluster",
            ptx="8.0", sm="90+", ranges=SIZE,
        ),
        *_bulk(
            f"{_BULK}{{.L2::cache_hint}}<type> [dst], [src], size:u32{{, policy:u64}}",
            dst="global", src="shared::cta", completion="bulk_group",
            ptx="8.0", sm="90+", ranges=SIZE, rule=hinted,
        ),
        *_bulk(
            f"{_BULK}{{.L2::cache_hint}}.cp_mask<type> [dst], [src], size:u32{{, policy:u64}}, mask:u16*",
            dst="global", src="shared::cta", completion="bulk_group",
            ptx="8.6", sm="100+", ranges=SIZE, rule=hinted,
        ),
    )  # fmt: skip


@instruction
class MultimemCpAsyncBulk(_BulkCopy):
    """Copy a run of bytes from shared memory to all memories reached through a multimem address, asynchronously.

    Operands: dst, the multimem address; src, in shared memory; size in bytes, a multiple of 16; mask, with
    `.cp_mask`, a bit for each byte of a 16-byte chunk that is written. Completes through the bulk group. The
    accesses are weak; with `.b128` they may be `.relaxed` at a scope, atomic for each 16 bytes.
    """

    name = "ptx.multimem.cp.async.bulk"
    section = "9.7.10.28.4.4"
    forms = (
        *_bulk(
            f"multimem.{_BULK}<type> [dst], [src], size:u32",
            dst="global", src="shared::cta", completion="bulk_group", ptx="9.1", sm="90+", ranges=SIZE,
        ),
        *_bulk(
            f"multimem.{_BULK}.cp_mask<type> [dst], [src], size:u32, mask:u16*",
            dst="global", src="shared::cta", completion="bulk_group", ptx="9.1", sm="100+", ranges=SIZE,
        ),
    )  # fmt: skip


def _reductions_to_shared(opcode: str) -> tuple[Form, ...]:
    return tuple(
        form(f"{opcode}.dst.src.completion{{.relaxed.scope}}.op.type [dst], [src], size:u32, [mbar]",
             dst="shared::cluster", src="shared::cta", completion=BYTES, scope="cta cluster",
             op=op, type=types, ptx="8.0", sm="90+", needs={"relaxed": need("9.3")}, ranges=SIZE)
        for op, types in SHARED_REDUCTIONS
    )  # fmt: skip


def _reductions_to_global(opcode: str, ptx: str, hint: str, policy: str) -> tuple[Form, ...]:
    head = f"{opcode}.dst.src.completion{{.relaxed.scope}}{hint}.op"
    tail = f"type [dst], [src], size:u32{policy}"
    needs = {"relaxed": need("9.3"), "f32": need(ptx), "noftz+f32": need("9.4")}
    return (
        *(form(f"{head}.{tail}",
               dst="global", src="shared::cta", completion="bulk_group", scope=SCOPES, op=op, type=types,
               ptx=ptx, sm="90+", needs=needs, ranges=SIZE, rule=hinted)
          for op, types in GLOBAL_REDUCTIONS),
        form(f"{head}.noftz.{tail}",
             dst="global", src="shared::cta", completion="bulk_group", scope=SCOPES,
             op="add", type="f16 bf16 f32", ptx=ptx, sm="90+", needs=needs, ranges=SIZE, rule=hinted),
    )  # fmt: skip


@instruction
class CpReduceAsyncBulk(Instruction):
    """Combine a run of elements in shared memory into global memory or another CTA's shared memory,
    asynchronously.

    dst[i] = dst[i] op src[i]. Operands: dst and src, addresses, 16-byte aligned; size in bytes, a multiple of
    16; mbar, the mbarrier that counts the bytes where dst is shared; policy, with `.L2::cache_hint`. Each
    element is updated atomically, relaxed at `.sys` scope (older manuals: `.gpu`) unless
    `.relaxed.scope` says otherwise.
    """

    name = "ptx.cp.reduce.async.bulk"
    section = "9.7.10.28.4.2"
    partial_access = True
    effect = "order"
    access_bytes = 16
    access = "atomic"
    proxy = "async"
    unit = "async copy"
    forms = (
        *_reductions_to_global("cp.reduce.async.bulk", "8.0", "{.L2::cache_hint}", "{, policy:u64}"),
        *_reductions_to_shared("cp.reduce.async.bulk"),
    )


@instruction
class MultimemCpReduceAsyncBulk(Instruction):
    """Combine a run of elements in shared memory into all memories reached through a multimem address, asynchronously.

    Operands: dst, the multimem address; src, in shared memory; size in bytes, a multiple of 16. Completes
    through the bulk group. Operations and types are those of `cp.reduce.async.bulk` to global memory.
    """

    name = "ptx.multimem.cp.reduce.async.bulk"
    section = "9.7.10.28.4.5"
    effect = "order"
    access_bytes = 16
    access = "atomic"
    proxy = "async"
    unit = "async copy"
    forms = _reductions_to_global("multimem.cp.reduce.async.bulk", "9.1", "", "")


@instruction
class CpAsyncBulkPrefetch(Instruction):
    """Bring a run of bytes of global memory into the L2 cache, asynchronously.

    Operands: src, 16-byte aligned; size in bytes, a multiple of 16; policy, with `.L2::cache_hint`.
    """

    name = "ptx.cp.async.bulk.prefetch"
    section = "9.7.10.28.4.3"
    effect = "order"
    unit = "async copy"
    forms = (
        form("cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [src], size:u32{, policy:u64}",
             ptx="8.0", sm="90+", ranges=SIZE, rule=hinted),
        form("cp.async.bulk.prefetch.L2.global.L2::evict_last [src], size:u32",
             ptx="9.4", sm=RUBIN, ranges=SIZE),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------- tensor copies

DIMS = "1d 2d 3d 4d 5d"


class Mode(NamedTuple):
    """An access mode: its modifier in a form and the values of that, its dimensions, offsets, since when."""

    modifier: str
    values: str
    dims: str
    offsets: str = ""
    ptx: str = "8.0"
    sm: str = "90+"
    own: str = "90+"
    """The targets in place of `sm` where the destination is `.shared::cta`."""


TILE = Mode("{.mode}", "tile", DIMS)
GATHER = Mode(".mode", "tile::gather4", "2d", "", "8.6", DATA_CENTER, "100+")
SCATTER = Mode(".mode", "tile::scatter4", "2d", "", "8.6", DATA_CENTER)
IM2COL = Mode(".mode", "im2col", "3d 4d 5d", ", offsets:frag")
IM2COL_W = Mode(".mode", "im2col::w", "3d 4d 5d", ", offsets:frag", "8.6", DATA_CENTER, "100+")
IM2COL_W128 = Mode(".mode", "im2col::w::128", "3d 4d 5d", ", offsets:frag", "8.6", DATA_CENTER, DATA_CENTER)
NO_OFFSETS = Mode(".mode", "im2col_no_offs", "3d 4d 5d")
NO_OFFSETS_W = Mode(".mode", "im2col_no_offs::w", "3d 4d 5d", "", "9.4", RUBIN)

READS = (TILE, IM2COL, IM2COL_W, IM2COL_W128, GATHER)
WRITES = (TILE, NO_OFFSETS, NO_OFFSETS_W, SCATTER)

OVERRIDES = (
    ("", "[map, c:frag]"),
    (".override::global_address", "[map, base:u64%, c:frag]"),
)
SHAPES = (
    ("1d", ".override::global_address.override::global_dim", "[map, base:u64%, extents:frag, c:frag]"),
    ("2d 3d 4d 5d", ".override::global_address.override::global_dim_stride",
     "[map, base:u64%, extents:frag, strides:frag%, high:u16%, c:frag]"),
)  # fmt: skip


def _coordinates(use: Use) -> str | None:
    """With the extents overridden, coordinates given as constants must be 0."""
    if ".override::global_dim" in use.form.text:
        for operand in use.layout:
            last = operand.rest[-1] if isinstance(operand, Address) and operand.rest else None
            for element in last.elements if isinstance(last, Vector) else ():
                if isinstance(element, Immediate) and element.value != 0:
                    return f"with .override::global_dim a constant coordinate must be 0, not {element.text}"
    return hinted(use)


def _tensor(
    line: str,
    modes: tuple[Mode, ...],
    *,
    ptx: str = "8.0",
    sm: str = "",
    own: bool = False,
    **slots: str,
) -> tuple[Form, ...]:
    """A form for each access mode and override, for which <mode>, <override>, <map> and <offsets> stand in `line`.

    The extents cannot be overridden with `.multicast::cluster` and a mask of 16 bits.
    """
    multicast = slots.get("multicast")
    needs = {
        "?cta_group": need("8.6", DATA_CENTER),
        "?report": need("9.4", RUBIN),
        "multicast::cluster::16b": need("9.4"),
    }
    forms: list[Form] = []
    for mode in modes:
        first, targets = max(ptx, mode.ptx), sm or (mode.own if own else mode.sm)
        kinds = [(mode.dims, *override) for override in OVERRIDES]
        for dims, override, address in (*kinds, *(SHAPES if mode is TILE and multicast != MULTICAST16 else ())):
            text = line.replace("<mode>", mode.modifier).replace("<offsets>", mode.offsets)
            forms.append(
                form(
                    text.replace("<override>", override).replace("<map>", address),
                    **slots, dim=dims, mode=mode.values,  # pyright: ignore[reportArgumentType]
                    ptx="9.4" if override else first, sm=RUBIN if override else targets,
                    needs=needs, ranges=MASK32 if multicast == MULTICAST32 else MASK, rule=_coordinates,
                )
            )  # fmt: skip
    return tuple(forms)


class TensorCopy(Instruction):
    """What the instructions with a tensor map share: the number of coordinates, offsets, extents and strides."""

    partial_access = True

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        dim, mode = int(slots["dim"][0]), slots.get("mode", "tile")
        if name == "c":
            return "s32", 5 if mode in ("tile::gather4", "tile::scatter4") else dim
        if name == "offsets":
            return "u16", dim - 2 if mode == "im2col" else 2
        return ("u16", dim) if name == "extents" else ("u32", dim - 1)


_TO_SHARED = "cp.async.bulk.tensor.dim.dst.src<mode>.completion"
_LOAD_EXTRAS = "{.cta_group}{.L2::cache_hint}{.report}<override> [dst], <map>, [mbar]<offsets>"
GROUPS = "cta_group::1 cta_group::2"


@instruction
class CpAsyncBulkTensor(TensorCopy):
    """Copy a box of a tensor in global memory to shared memory, or back, asynchronously (TMA).

    Operands: `[map, {c...}]`, the address of the 128-byte tensor map and the box's first element, one .b32
    coordinate for each dimension, fastest first (five with `.tile::gather4` and `.tile::scatter4`: the
    column, then four rows); dst or src, the box in shared memory; mbar, the mbarrier that counts the bytes,
    when loading; offsets, in the im2col modes; mask, with `.multicast::cluster` a bit for each CTA that gets
    the box; policy, with `.L2::cache_hint`. With `.cta_group::2` the mbarrier may be that of the peer CTA.
    The overrides (sm_107) put base, the tensor's address, its extents, strides and their high bits in place
    of the map's.
    """

    name = "ptx.cp.async.bulk.tensor"
    section = "9.7.10.28.5.3"
    effect = "order"
    access_bytes = 16
    access = "copy"
    proxy = "async"
    unit = "async copy"
    forms = (
        *_tensor(
            f"{_TO_SHARED}{_LOAD_EXTRAS}{{, policy:u64}}", READS, ptx="8.6", own=True,
            cta_group=GROUPS, report=REPORTS, dst="shared::cta", src="global", completion=BYTES,
        ),
        *_tensor(
            f"{_TO_SHARED}{_LOAD_EXTRAS}{{, policy:u64}}", READS,
            cta_group=GROUPS, report=REPORTS, dst="shared::cluster", src="global", completion=BYTES,
        ),
        *_tensor(
            f"{_TO_SHARED}.multicast{_LOAD_EXTRAS}, mask:u16{{, policy:u64}}", READS,
            cta_group=GROUPS, report=REPORTS, dst="shared::cluster", src="global", completion=BYTES,
            multicast=MULTICAST16,
        ),
        *_tensor(
            f"{_TO_SHARED}.multicast{_LOAD_EXTRAS}, mask:u32{{, policy:u64}}", READS,
            cta_group=GROUPS, report=REPORTS, dst="shared::cluster", src="global", completion=BYTES,
            multicast=MULTICAST32, ptx="9.4", sm=RUBIN,
        ),
        *_tensor(
            "cp.async.bulk.tensor.dim.dst.src<mode>.completion{.L2::cache_hint}{.report}<override>"
            " <map>, [src]{, policy:u64}", WRITES, report="mbarrier::report::disabled",
            dst="global", src="shared::cta", completion="bulk_group",
        ),
    )  # fmt: skip


@instruction
class CpReduceAsyncBulkTensor(TensorCopy):
    """Combine a box in shared memory into a tensor in global memory, asynchronously: tensor = tensor op box.

    Operands: `[map, {c...}]`, the tensor map and the coordinates of the box, as for `cp.async.bulk.tensor`;
    src, the box in shared memory; policy, with `.L2::cache_hint`. The map gives the element type. Completes
    through the bulk group; each element is updated atomically, relaxed at `.gpu` scope.
    """

    name = "ptx.cp.reduce.async.bulk.tensor"
    section = "9.7.10.28.5.4"
    effect = "order"
    access_bytes = 16
    access = "atomic"
    proxy = "async"
    unit = "async copy"
    forms = _tensor(
        "cp.reduce.async.bulk.tensor.dim.dst.src.op<mode>.completion{.L2::cache_hint}<override>"
        " <map>, [src]{, policy:u64}", WRITES,
        dst="global", src="shared::cta", op="add min max inc dec and or xor", completion="bulk_group",
    )  # fmt: skip


@instruction
class CpAsyncBulkPrefetchTensor(TensorCopy):
    """Bring a box of a tensor in global memory into the L2 cache, asynchronously.

    Operands: `[map, {c...}]`, offsets and policy as for a load with `cp.async.bulk.tensor`.
    """

    name = "ptx.cp.async.bulk.prefetch.tensor"
    section = "9.7.10.28.5.5"
    effect = "order"
    unit = "async copy"
    forms = (
        *_tensor(
            "cp.async.bulk.prefetch.tensor.dim.L2.src<mode>{.L2::cache_hint}<override>"
            " <map><offsets>{, policy:u64}", READS, src="global",
        ),
        *_tensor(
            "cp.async.bulk.prefetch.tensor.dim.L2.src<mode>.L2::evict_last<override> <map><offsets>", READS,
            src="global", ptx="9.4", sm=RUBIN,
        ),
    )  # fmt: skip


@instruction
class ApplyPriorityTensor(TensorCopy):
    """Give the cache lines of a box of a tensor in global memory the priority `evict_normal` again, asynchronously.

    Operands: `[map, {c...}]` and offsets as for a load with `cp.async.bulk.tensor`. Part of the thread's bulk group.
    """

    name = "ptx.applypriority.async.bulk.tensor"
    section = "9.7.10.19"
    effect = "order"
    unit = "async copy"
    forms = _tensor(
        "applypriority.async.bulk.tensor.dim{.global}.bulk_group<mode>.L2::evict_normal<override> <map><offsets>",
        READS, ptx="9.4", sm=RUBIN,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ completion


@instruction
class CpAsyncBulkCommitGroup(Instruction):
    """Make one group of all bulk and tensor copies of this thread with `.bulk_group` that are in no group
    yet.
    """

    name = "ptx.cp.async.bulk.commit_group"
    section = "9.7.10.28.6.1"
    effect = "order"
    unit = "barrier"
    forms = (form("cp.async.bulk.commit_group", ptx="8.0", sm="90+"),)


@instruction
class CpAsyncBulkWaitGroup(Instruction):
    """Wait until at most n of this thread's newest bulk groups are still going on; n is a constant.

    With `.read` it waits only until the sources have been read, so that they may be overwritten; with
    `.sync_restrict::proxy::async` the result is made visible to the async proxy only.
    """

    name = "ptx.cp.async.bulk.wait_group"
    section = "9.7.10.28.6.2"
    effect = "order"
    unit = "barrier"
    forms = (
        form("cp.async.bulk.wait_group{.read} n:imm", ptx="8.0", sm="90+"),
        form("cp.async.bulk.wait_group.sync_restrict::proxy::async n:imm", ptx="9.5", sm="90+"),
    )
