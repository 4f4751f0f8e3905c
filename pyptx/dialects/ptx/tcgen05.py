"""Tensor core instructions of Blackwell (PTX ISA 9.7.18): `tcgen05`, with tensor memory for the accumulator.

Tensor memory is addressed by 32-bit registers (lane in the upper half, column in the lower), never by a
variable's name.
"""

from __future__ import annotations

from typing import Any, cast

from .forms import Form, Slots, Use, form
from .instruction import Instruction, instruction
from .matrix import plain_fragment
from .syntax import Immediate, Register, Vector
from .target import need

TCGEN05 = "100af 103af 107af 110af"
SPECIFIC = "100a 103a 107a 110a"
CTA_GROUP = "cta_group::1 cta_group::2"
COLUMNS = frozenset((32, 64, 128, 256, 512))


def _exclusive_columns(use: Use) -> str | None:
    """ptxas looks at the lower 32 bits of the constant, and leaves the upper bound to the target."""
    columns = use.operand("ncols")
    if not isinstance(columns, Immediate) or (columns.value % (1 << 32) and columns.value % 32 == 0):
        return None
    return f"operand ncols must be a multiple of 32 (at most 512, or 576 on sm_107), not {columns.text}"


# ------------------------------------------------------------------------------------------------- allocation


@instruction
class Tcgen05Alloc(Instruction):
    """Allocate columns of tensor memory and write the address of the first to shared memory; waits until
    there is room.

    One warp executes it (one of each CTA of the pair with `.cta_group::2`). Operands: dst, the address in
    shared memory; ncols, how many columns: 32, 64, 128, 256 or 512. With `.exclusive` it is the only
    allocation, of any multiple of 32 columns up to all there are (512, 576 on sm_107).
    """

    name = "ptx.tcgen05.alloc"
    section = "9.7.18.7.1"
    effect = "order"
    access_bytes = 4
    access = "store"
    proxy = ""
    unit = "barrier"
    forms = (
        form(
            "tcgen05.alloc.cta_group.sync.aligned{.ss}.b32 [dst], ncols:u32",
            cta_group=CTA_GROUP,
            ss="shared::cta",
            ptx="8.6",
            sm=TCGEN05,
            ranges={"ncols": COLUMNS},
        ),
        form(
            "tcgen05.alloc.exclusive.cta_group.sync.aligned{.ss}.b32 [dst], ncols:u32",
            cta_group=CTA_GROUP,
            ss="shared::cta",
            ptx="9.4",
            sm=TCGEN05,
            rule=_exclusive_columns,
            judges_constants=True,
        ),
    )


@instruction
class Tcgen05Dealloc(Instruction):
    """Give back columns of tensor memory that `tcgen05.alloc` allocated; every allocation must be given back
    before the kernel ends.

    Operands: taddr, the address of the allocation; ncols, its number of columns. `.exclusive` if and only if it
    was allocated with it.
    """

    name = "ptx.tcgen05.dealloc"
    section = "9.7.18.7.1"
    effect = "order"
    unit = "barrier"
    forms = (
        form(
            "tcgen05.dealloc.cta_group.sync.aligned.b32 taddr:u32%, ncols:u32",
            cta_group=CTA_GROUP,
            ptx="8.6",
            sm=TCGEN05,
            ranges={"ncols": COLUMNS},
        ),
        form(
            "tcgen05.dealloc.exclusive.cta_group.sync.aligned.b32 taddr:u32%, ncols:u32",
            cta_group=CTA_GROUP,
            ptx="9.4",
            sm=TCGEN05,
            rule=_exclusive_columns,
            judges_constants=True,
        ),
    )


@instruction
class Tcgen05RelinquishAllocPermit(Instruction):
    """Promise that the CTA allocates no more tensor memory, so that CTAs that wait for room may go on."""

    name = "ptx.tcgen05.relinquish_alloc_permit"
    section = "9.7.18.7.1"
    effect = "order"
    unit = "barrier"
    forms = (
        form("tcgen05.relinquish_alloc_permit.cta_group.sync.aligned", cta_group=CTA_GROUP, ptx="8.6", sm=TCGEN05),
    )


# --------------------------------------------------------------------------------------------- load and store

_PER_COLUMN = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers per repetition of each shape."""


def _repeats(shape: str) -> str:
    """The repetitions that fit 128 registers."""
    return " ".join(f"x{n}" for n in (1, 2, 4, 8, 16, 32, 64, 128) if n * _PER_COLUMN[shape] <= 128)


def _load_store(text: str, **more: Any) -> tuple[Form, ...]:
    """One form per shape; `@` in the text is where the 16x32bx2 shape has the offset of its second half."""
    return tuple(
        form(
            text.replace("@", ", immhalfsplitoff:imm" if shape == "16x32bx2" else ""),
            shape=shape,
            num=_repeats(shape),
            ptx="8.6",
            sm=TCGEN05,
            rule=plain_fragment,
            **more,
        )
        for shape in _PER_COLUMN
    )


def _data(slots: Slots) -> tuple[str, int]:
    return "b32", int(slots["num"][1:]) * _PER_COLUMN[slots["shape"]]


class _Load(Instruction):
    """What the loads from tensor memory share."""

    section = "9.7.18.8.3"
    effect = "order"
    starts = "tcgen05.ld"
    in_flight = "tcgen05.ld"
    differs = "thread"
    unit = "tensor core"


@instruction
class Tcgen05Ld(_Load):
    """Load from tensor memory into registers, asynchronously: the registers may be touched only after
    `tcgen05.wait::ld`.

    Operands: r, as many registers as shape times repetition (`.num`) gives; taddr, the address; for the shape
    16x32bx2 immhalfsplitoff, the distance of its second half. `.pack::16b` packs two 16-bit columns into a
    register. A warp reaches only its quarter of the lanes.
    """

    name = "ptx.tcgen05.ld"
    result_name = "acc"
    forms = _load_store("tcgen05.ld.sync.aligned.shape.num{.pack}.b32 r=:frag, [taddr:u32?]@", pack="pack::16b")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _data(slots)


def _reduction(shape: str, modifiers: str, type_: str) -> Form:
    offset = ", immhalfsplitoff:imm" if shape == "16x32bx2" else ""
    return form(
        f"tcgen05.ld.red.sync.aligned.shape.num.redop{modifiers}.type r=:frag, d:b32*, [taddr:u32?]{offset}",
        shape=shape,
        num="x2 x4 x8 x16 x32 x64 x128",
        redop="min max",
        type=type_,
        ptx="8.8",
        sm="103af 107af 110af",
        rule=plain_fragment,
    )


@instruction
class Tcgen05LdRed(_Load):
    """Load from tensor memory as `tcgen05.ld` does and also give the smallest or largest of the loaded values
    of the thread.

    Operands: r, the loaded registers; d, the minimum or maximum; taddr, the address; immhalfsplitoff as for
    `tcgen05.ld`. `.abs` compares absolute values, `.NaN` gives NaN if there is one.
    """

    name = "ptx.tcgen05.ld.red"
    forms = tuple(
        _reduction(shape, modifiers, type_)
        for shape in ("32x32b", "16x32bx2")
        for modifiers, type_ in (("{.abs}{.NaN}", "f32"), ("", "u32 s32"))
    )

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _data(slots)


class _Compressed(_Load):
    """What the two compressing loads share: the number of registers."""

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        loaded = int(slots["num"][1:])
        return "b32", max(loaded // 32, 1) if name == "meta" else loaded // 2


_COMPRESSING = ".sync.aligned.shape.num.redop{.abs}@.sparsity.f32.b2 meta=:frag, r=:frag"
"""`@`: where the reducing load may have .NaN."""
_COMPRESSED: dict[str, Any] = {"num": "x4 x8 x16 x32 x64 x128", "redop": "min max", "sparsity": "sp::2:4"}


@instruction
class Tcgen05LdSpcompress(_Compressed):
    """Load 32-bit floats from tensor memory and keep two of every four, the smallest or largest (of their
    absolute values with `.abs`); NaNs are always kept.

    Operands: meta, two bits per kept value that say which one it was; r, the kept values, half as many
    registers as `.num` says; taddr, the address. The registers may be touched only after `tcgen05.wait::ld`.
    """

    name = "ptx.tcgen05.ld.spcompress"
    forms = (
        form(
            f"tcgen05.ld.spcompress{_COMPRESSING.replace('@', '')}, [taddr:u32?]",
            shape="32x32b",
            ptx="9.4",
            sm="107a",
            rule=plain_fragment,
            **_COMPRESSED,
        ),
    )


@instruction
class Tcgen05LdRedSpcompress(_Compressed):
    """Load and compress as `tcgen05.ld.spcompress` does and also give the smallest or largest of the loaded
    values of the thread.

    Operands: as there, and d, the minimum or maximum, before the address. `.NaN` makes d NaN if there is one.
    """

    name = "ptx.tcgen05.ld.red.spcompress"
    forms = (
        form(
            f"tcgen05.ld.red.spcompress{_COMPRESSING.replace('@', '{.NaN}')}, d:b32*, [taddr:u32?]",
            shape="32x32b",
            ptx="9.4",
            sm="107a",
            rule=plain_fragment,
            **_COMPRESSED,
        ),
    )


@instruction
class Tcgen05St(Instruction):
    """Store registers to tensor memory, asynchronously: `tcgen05.wait::st` waits until the data are there.

    Operands: taddr, the address; immhalfsplitoff as for `tcgen05.ld`; r, the registers. `.unpack::16b`
    spreads the halves of a register over two columns.
    """

    name = "ptx.tcgen05.st"
    section = "9.7.18.8.4"
    effect = "order"
    starts = "tcgen05.st"
    unit = "tensor core"
    forms = _load_store("tcgen05.st.sync.aligned.shape.num{.unpack}.b32 [taddr:u32?]@, r:frag%", unpack="unpack::16b")

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return _data(slots)


@instruction
class Tcgen05WaitLd(Instruction):
    """Wait until all `tcgen05.ld` of the thread are done; only then may their registers be touched."""

    name = "ptx.tcgen05.wait::ld"
    section = "9.7.18.8.5"
    effect = "order"
    waits_for = "tcgen05.ld"
    unit = "barrier"
    forms = (form("tcgen05.wait::ld.sync.aligned", ptx="8.6", sm=TCGEN05),)


@instruction
class Tcgen05WaitSt(Instruction):
    """Wait until all `tcgen05.st` of the thread are done."""

    name = "ptx.tcgen05.wait::st"
    section = "9.7.18.8.5"
    effect = "order"
    waits_for = "tcgen05.st"
    unit = "barrier"
    forms = (form("tcgen05.wait::st.sync.aligned", ptx="8.6", sm=TCGEN05),)


# --------------------------------------------------------------------------------------------- copy and shift


@instruction
class Tcgen05Cp(Instruction):
    """Copy from shared memory to tensor memory, asynchronously; `tcgen05.commit` reports completion.

    Operands: taddr, the destination; s_desc, the shared-memory descriptor of the source. `.warpx2` and
    `.warpx4` repeat the data for several quarters of the lanes; `.b8x16` expands 4-bit or 6-bit elements to
    bytes.
    """

    name = "ptx.tcgen05.cp"
    section = "9.7.18.9.2"
    effect = "order"
    starts = "tcgen05"
    access_bytes = 16
    proxy = "async"
    unit = "async copy"
    forms = tuple(
        form(
            f"tcgen05.cp.cta_group.shape{multicast}{{.dst_fmt.src_fmt}} [taddr:u32?], s_desc:u64",
            cta_group=CTA_GROUP,
            shape=shape,
            dst_fmt="b8x16",
            src_fmt="b6x16_p32 b4x16_p64",
            ptx="8.6",
            sm=TCGEN05,
            **cast("dict[str, Any]", warps),
        )
        for shape, multicast, warps in (
            ("128x256b 4x256b 128x128b", "", {}),
            ("64x128b", ".multicast", {"multicast": "warpx2::02_13 warpx2::01_23"}),
            ("32x128b", ".multicast", {"multicast": "warpx4"}),
        )
    )


@instruction
class Tcgen05Shift(Instruction):
    """Move the rows of a matrix in tensor memory down by one lane, asynchronously, all but the last of each
    group.

    Operands: taddr, the address; its lane must be a multiple of 32.
    """

    name = "ptx.tcgen05.shift"
    section = "9.7.18.9.3"
    effect = "order"
    starts = "tcgen05"
    unit = "barrier"
    forms = (form("tcgen05.shift.cta_group.down [taddr:u32?]", cta_group=CTA_GROUP, ptx="8.6", sm=SPECIFIC),)


# -------------------------------------------------------------------------------------------------------- mma

_USES = ("fill", "use", "lastuse", "discard")
_COLLECTOR_A = " ".join(f"collector::a::{use}" for use in _USES)
_COLLECTOR_B = " ".join(f"collector::b::{use}" for use in _USES)
_COLLECTOR_WS = " ".join(f"collector::b{n}::{use}" for n in range(4) for use in _USES)
_ASHIFT = "collector::a::lastuse collector::a::discard"
_COLLECTORS: dict[str, Any] = {"b_collector": _COLLECTOR_B, "needs": {"?b_collector": need("9.4", "107af")}}

_FLOATS = ("kind::f16 kind::tf32 kind::f8f6f4", "8.6", TCGEN05)
_SCALABLE_FLOATS = ("kind::f16 kind::tf32", "8.6", "100af 103af 107af")
_INTEGERS = (("kind::i8", "8.6", "100a 110a"), ("kind::ti16", "9.4", "107af"))
_KINDS = (_FLOATS, *_INTEGERS)
"""(kinds, since, targets)."""
_SCALABLE = (_SCALABLE_FLOATS, *_INTEGERS)
"""The kinds that take scale_input_d; ptxas takes it for integers too, any constant, unless A is sparse and lanes
are disabled.
"""
_SOURCES = ("a_desc:u64", "[a:b32?]")
"""A: in shared memory or in tensor memory."""


def _mma(
    sparse: bool, collector: str, tail: str, kinds: tuple[tuple[str, str, str], ...], sources: tuple[str, ...]
) -> tuple[Form, ...]:
    """Forms of the non-scaled mma, on the targets each kind has."""
    metadata = "[sp_meta:b32?], " if sparse else ""
    shift = ".ashift" if collector == _ASHIFT else ""
    return tuple(
        form(
            f"tcgen05.mma{'.sp' if sparse else ''}.cta_group.kind{{.collector}}{{.b_collector}}{shift} "
            f"[d$:b32?], {source}, b_desc:u64, {metadata}idesc:u32, {tail}",
            cta_group=CTA_GROUP,
            kind=kind,
            collector=collector,
            ptx=ptx,
            sm=sm,
            ranges={"scale_input_d": (0, 15)} if kind == _SCALABLE_FLOATS[0] else {},
            rule=_lane_masks,
            **_COLLECTORS,
        )
        for kind, ptx, sm in kinds
        for source in sources
    )


def _lane_masks(use: Use) -> str | None:
    allowed = 0 if isinstance(use.operand("enable_input_d"), Immediate) else 1
    if use.classes.count("pred") > allowed:
        return "operand disable_output_lane takes 32-bit registers, no predicates"
    return None


_PLAIN = "enable_input_d:pred!"
_LANES = "disable_output_lane:frag%, enable_input_d:pred!"


def _shared_kinds() -> tuple[Form, ...]:
    found: list[Form] = []
    for sparse in (False, True):
        for tail in (_PLAIN, _LANES):
            scalable = _SCALABLE[:1] if sparse and tail == _LANES else _SCALABLE
            for collector, sources in ((_COLLECTOR_A, _SOURCES), (_ASHIFT, _SOURCES[1:])):
                found += _mma(sparse, collector, tail, _KINDS, sources)
                found += _mma(sparse, collector, f"{tail}, scale_input_d:imm", scalable, sources)
    return tuple(found)


def _scaled(sparse: bool, kind: str, scale: str, values: str, ptx: str, sm: str) -> tuple[Form, ...]:
    metadata = "[sp_meta:b32?], " if sparse else ""
    sets: dict[str, Any] = {"scale_vectorsize": values} if values else {}
    return tuple(
        form(
            f"tcgen05.mma{'.sp' if sparse else ''}.cta_group.kind.block_scale{scale}{{.collector}}{{.b_collector}} "
            f"[d$:b32?], {a}, b_desc:u64, {metadata}idesc:u32, [scale_a:b32?], [scale_b:b32?], {_PLAIN}",
            cta_group=CTA_GROUP,
            kind=kind,
            collector=_COLLECTOR_A,
            ptx=ptx,
            sm=sm,
            **_COLLECTORS,
            **sets,
        )
        for a in _SOURCES
    )


def _scaled_kinds() -> tuple[Form, ...]:
    """The block-scaled kinds: how many elements share a scale factor may be said in two ways, or follows from
    the kind.
    """
    found: list[Form] = []
    for sparse in (False, True):
        fours = SPECIFIC if sparse else TCGEN05
        vector = ".scale_vectorsize"
        found += _scaled(sparse, "kind::mxf8f6f4", "", "", "8.6", TCGEN05)
        found += _scaled(sparse, "kind::mxf8f6f4", vector, "scale_vec::1X", "8.6", SPECIFIC)
        found += _scaled(sparse, "kind::mxf8f6f4", vector, "block32", "8.8", TCGEN05)
        found += _scaled(sparse, "kind::mxf4", "", "", "8.6", fours)
        found += _scaled(sparse, "kind::mxf4", vector, "scale_vec::2X", "8.6", SPECIFIC)
        found += _scaled(sparse, "kind::mxf4", vector, "block32", "8.8", fours)
        found += _scaled(sparse, "kind::mxf4nvf4", vector, "scale_vec::2X scale_vec::4X", "8.7", SPECIFIC)
        found += _scaled(sparse, "kind::mxf4nvf4", vector, "block16 block32", "8.8", fours)
    return tuple(found)


def _looked_up() -> tuple[Form, ...]:
    """B as indices into a table in tensor memory."""
    facts: dict[str, Any] = {
        "cta_group": CTA_GROUP,
        "decompress": "decompress::lut::b",
        "collector": _COLLECTOR_A,
        "b_collector": _COLLECTOR_B,
        "ptx": "9.4",
        "sm": "107af",
    }
    operands = "b_desc:u64, [lut:b32?], idesc:u32"
    found: list[Form] = []
    for a in _SOURCES:
        for tail in (_PLAIN, _LANES):
            found.append(
                form(
                    f"tcgen05.mma.cta_group.kind.decompress{{.collector}}{{.b_collector}} "
                    f"[d$:b32?], {a}, {operands}, {tail}",
                    kind="kind::f8f6f4",
                    rule=_lane_masks,
                    **facts,
                )
            )
        found.append(
            form(
                f"tcgen05.mma.cta_group.kind.block_scale.decompress{{.scale_vectorsize}}{{.collector}}{{.b_collector}} "
                f"[d$:b32?], {a}, {operands}, [scale_a:b32?], [scale_b:b32?], {_PLAIN}",
                kind="kind::mxf8f6f4",
                scale_vectorsize="scale_vec::1X block32",
                needs={"scale_vec::1X": need("9.4", "107a")},
                **facts,
            )
        )
    return tuple(found)


@instruction
class Tcgen05Mma(Instruction):
    """Multiply and accumulate matrices asynchronously in tensor memory: D = A * B + D. One thread issues it
    for the whole CTA (or pair).

    Operands: d, the address of D; A, a shared-memory descriptor or an address in tensor memory; b_desc, the
    descriptor of B; idesc, the instruction descriptor (types, shape, negation, transposition);
    enable_input_d, whether D is added. Optional: disable_output_lane, a mask of lanes of D that stay as they
    are (4 registers, 8 for `.cta_group::2`); scale_input_d, a power of two by which D is divided first.
    `.block_scale` kinds take scale factors from tensor memory at scale_a and scale_b; `.sp` takes 2:4 sparse
    A with metadata at sp_meta. With `.decompress::lut::b` B consists of 3-bit indices into a table at lut,
    which has eight values for each eight columns. `.kind::ti16` multiplies integers of a sign and eleven bits.
    `.collector::a` and `.collector::b` say whether the operand is to be kept in a buffer (`fill`), may be taken
    from there (`use`, `lastuse`) or not (`discard`, the default).
    """

    name = "ptx.tcgen05.mma"
    section = "9.7.18.10.10.1"
    effect = "order"
    starts = "tcgen05"
    access_bytes = 16
    proxy = "async"
    unit = "tensor core"
    forms = (*_shared_kinds(), *_scaled_kinds(), *_looked_up())

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        return "b32", 4 * int(slots["cta_group"][-1])


def _weight_stationary(opcode: str, sparse: str) -> tuple[Form, ...]:
    metadata = "[sp_meta:b32?], " if sparse else ""
    return tuple(
        form(
            f"{opcode}{sparse}.cta_group.kind{{.collector}} "
            f"[d$:b32?], {a}, b_desc:u64, {metadata}idesc:u32, {_PLAIN}{{, zero_column_mask_desc:u64}}",
            cta_group="cta_group::1",
            kind=kind,
            collector=_COLLECTOR_WS,
            ptx=ptx,
            sm=sm,
        )
        for kind, ptx, sm in _KINDS
        for a in _SOURCES
    )


@instruction
class Tcgen05MmaWs(Instruction):
    """Multiply and accumulate like `tcgen05.mma`, keeping B in one of four collector buffers so that it may
    serve several A (weights).

    Operands: as for `tcgen05.mma`; zero_column_mask_desc, optional, says which columns of B count as zero.
    One CTA only.
    """

    name = "ptx.tcgen05.mma.ws"
    section = "9.7.18.10.10.3"
    effect = "order"
    starts = "tcgen05"
    access_bytes = 16
    proxy = "async"
    unit = "tensor core"
    forms = (*_weight_stationary("tcgen05.mma.ws", ""), *_weight_stationary("tcgen05.mma.ws", ".sp"))


# -------------------------------------------------------------------------------------------- synchronisation


@instruction
class Tcgen05FenceBefore(Instruction):
    """Order the asynchronous `tcgen05` operations before it before whatever synchronisation with other
    threads follows.
    """

    name = "ptx.tcgen05.fence::before_thread_sync"
    section = "9.7.18.11.1"
    effect = "order"
    unit = "barrier"
    forms = (form("tcgen05.fence::before_thread_sync", ptx="8.6", sm=TCGEN05),)


@instruction
class Tcgen05FenceAfter(Instruction):
    """Order the asynchronous `tcgen05` operations after it after the synchronisation with other threads that
    came before.
    """

    name = "ptx.tcgen05.fence::after_thread_sync"
    section = "9.7.18.11.1"
    effect = "order"
    unit = "barrier"
    forms = (form("tcgen05.fence::after_thread_sync", ptx="8.6", sm=TCGEN05),)


def _mask_in_braces(use: Use) -> str | None:
    mask = use.operand("cta_mask")
    if isinstance(mask, Vector) and not isinstance(mask.elements[0], Register):
        return "operand cta_mask in braces must be a register"
    return None


@instruction
class Tcgen05Commit(Instruction):
    """Make an mbarrier track all asynchronous `tcgen05` operations that the thread has started: it gets an
    arrival when they are done.

    Operands: mbar, the mbarrier in shared memory; with `.multicast::cluster` also cta_mask, the CTAs of the
    cluster whose mbarrier at the same offset is signalled (16 bits wide, or 32 with `::32b`).
    `.sync_restrict` waits for the reads of A only.
    """

    name = "ptx.tcgen05.commit"
    section = "9.7.18.12.1"
    effect = "order"
    gathers = "tcgen05"
    unit = "barrier"
    forms = (
        form(
            "tcgen05.commit.cta_group.completion{.sync_restrict}{.ss}.b64 [mbar]",
            cta_group=CTA_GROUP,
            completion="mbarrier::arrive::one",
            sync_restrict="sync_restrict::shared::read::mma::a",
            ss="shared::cluster",
            ptx="8.6",
            sm=TCGEN05,
            needs={"?sync_restrict": need("9.4", "107af")},
        ),
        form(
            "tcgen05.commit.cta_group.completion{.sync_restrict}{.ss}.multicast.b64 [mbar], cta_mask:u16*",
            cta_group=CTA_GROUP,
            completion="mbarrier::arrive::one",
            sync_restrict="sync_restrict::shared::read::mma::a",
            ss="shared::cluster",
            multicast="multicast::cluster multicast::cluster::16b",
            rule=_mask_in_braces,
            ptx="8.6",
            sm=TCGEN05,
            needs={"?sync_restrict": need("9.4", "107af"), "multicast::cluster::16b": need("9.4")},
        ),
        form(
            "tcgen05.commit.cta_group.completion{.sync_restrict}{.ss}.multicast.b64 [mbar], cta_mask:u32",
            cta_group=CTA_GROUP,
            completion="mbarrier::arrive::one",
            sync_restrict="sync_restrict::shared::read::mma::a",
            ss="shared::cluster",
            multicast="multicast::cluster::32b",
            ptx="9.4",
            sm="107af",
        ),
    )
