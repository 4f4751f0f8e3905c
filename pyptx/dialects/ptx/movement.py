"""Loads, stores, cache control and address conversion (PTX ISA 9.7.10)."""

from __future__ import annotations

from .forms import Slots, Use, form
from .instruction import Instruction, instruction
from .operand_specs import count_in
from .syntax import Address, Immediate, Register, Sink, Symbol, Vector
from .target import need
from .types import SCALAR_TYPES

ANY_TYPE = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
VECTORS = "v2 v4 v8"
SHARED = "shared shared::cta shared::cluster"
SCOPES = "cta cluster gpu sys"
LOAD_CACHE = "ca cg cs lu cv"
STORE_CACHE = "wb cg cs wt"
L1_EVICT = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
L2_EVICT = "L2::evict_normal L2::evict_first L2::evict_last"
PREFETCH_SIZE = "L1::32B L2::64B L2::128B L2::256B"
"""How much to fetch. The manual has `.L1::32B` for prefetch only; ptxas takes it here too, and other code comes of it."""
L2_PRIORITY = "L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged"

SPACE_NEEDS = {
    "shared::cta": need("7.8"),
    "shared::cluster": need("7.8", "90+"),
    "param::entry": need("8.3"),
    "param::func": need("8.3"),
}
SCOPE_NEEDS = {"cluster": need("7.8", "90+")}
WIDE = {f"v{n}+{kind}{256 // n}": need("8.8", "100+") for n in (4, 8) for kind in "busf"}
"""Vectors of 256 bits."""
ASYNC_TYPES = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
ACCESS_NEEDS = {
    **SPACE_NEEDS,
    **SCOPE_NEEDS,
    **WIDE,
    "b128": need("8.3", "70+"),
    "?evict": need("7.4", "70+"),
    "L2::cache_hint": need("7.4", "80+"),
    "L1::32B": need("7.4", "75+"),
    "L2::64B": need("7.4", "75+"),
    "L2::128B": need("7.4", "75+"),
    "L2::256B": need("7.4", "80+"),
}
ORDERED_NEEDS = {**ACCESS_NEEDS, "b128+sys": need("8.4", "70+")}


def hinted(use: Use) -> str | None:
    """`.L2::cache_hint` and the policy operand come together."""
    if use.has("L2::cache_hint") and use.operand("policy") is None:
        return ".L2::cache_hint needs a 64-bit cache policy as last operand"
    if use.operand("policy") is not None and not use.has("L2::cache_hint"):
        return "operand policy, a cache policy, needs the modifier .L2::cache_hint"
    return None


def _bits(use: Use) -> int:
    """The size of the access."""
    return SCALAR_TYPES[use.slots["type"]].bits * count_in(use.slots.get("vec", "v1"))


def _at_most_128(use: Use) -> str | None:
    bits = _bits(use)
    return None if bits <= 128 else f"{use.form.opcode} moves at most 128 bits, not {bits}"


def _access(use: Use) -> str | None:
    """What all loads and stores of a vector ask: its size, and where cache modifiers may be."""
    slots = use.slots
    bits = _bits(use)
    space = slots.get("space", "global")
    if isinstance(use.operand("d"), Sink):
        return "operand d may not be the sink '_' (only elements of a vector may)"
    if space == "param::func" and not isinstance(getattr(use.operand("a"), "base", None), Symbol):
        return ".param::func needs a parameter's name as address, not a register"
    if bits > 256 or (bits == 256 and slots["type"] == "b128"):
        vector = f".{slots.get('vec')}.{slots['type']}"
        return f"{vector} is {bits} bits; a vector has at most 128 (256 as .v8.b32 or .v4.b64)"
    stored = use.operand("b")
    if isinstance(stored, Sink) or (bits != 256 and isinstance(stored, Vector) and Sink() in stored.elements):
        return "operand b may not be the sink '_' (only elements of a 256-bit vector may)"
    if bits == 256 and space != "global":
        return f"256-bit vectors exist in global memory only, not in .{space}"
    if "l2_evict" in slots and bits != 256:
        return f".{slots['l2_evict']} needs a 256-bit vector (.v8.b32 or .v4.b64)"
    if "evict" in slots and "cop" in slots:
        return f".{slots['cop']} and .{slots['evict']} exclude each other"
    for cached in ("evict", "L2::cache_hint", "prefetch"):
        if cached in slots and space != "global":
            return f".{slots[cached]} is for global memory, not for .{space}"
    return hinted(use)


PARAMETERS_READ = {
    "param": frozenset({"entry", "input", "argument"}),
    "param::entry": frozenset({"entry", "input"}),
    "param::func": frozenset({"input", "argument"}),
}
"""Which parameters a load of a parameter space may name; see `Instruction.variables`."""


@instruction
class Load(Instruction):
    """Load a scalar or a vector from memory: d = memory[a].

    Operands: d, one register or `{...}` of as many as `.vec` says, of the type or wider (integers are
    extended, `_` skips an element); a, the address, or an element of an array, `x[3]` or `x[%r1+3]`; policy, a 64-bit cache policy, with `.L2::cache_hint`
    only. Without a space the address is generic. `.weak` is the default; `.volatile`, `.relaxed`, `.acquire`
    and `.mmio` order the access, the last three at a scope; `.nc` and `.proxy::readonly` read global memory that
    nobody writes meanwhile (the latter as long as the kernel runs).
    """

    name = "ptx.ld"
    takes_elements = True
    section = "9.7.10.8"
    wide_addresses = True
    result_name = "v"
    access = "load"
    takes_references = False
    effect = "read"

    @classmethod
    def places_of(cls, space: str) -> frozenset[str]:
        return PARAMETERS_READ.get(space) or super().places_of(space)

    unit = "memory"
    forms = (
        form(
            "ld{.weak}{.space}{.cop}{.evict}{.l2_evict}{.L2::cache_hint}{.prefetch}{.vec}.type"
            " d:type[vec]+_*, [a]{.unified}{, policy:u64}",
            space=f"const global local param param::entry param::func {SHARED}",
            cop=LOAD_CACHE, evict=L1_EVICT, l2_evict=L2_EVICT, prefetch=PREFETCH_SIZE,
            vec=VECTORS, type=ANY_TYPE,
            needs={**ACCESS_NEEDS, "weak": need("5.1", "70+")},
            rule=_access,
        ),
        form(
            "ld.volatile{.space}{.l2_evict}{.prefetch}{.vec}.type d:type[vec]+_*, [a]{.unified}",
            space=f"global local {SHARED}", l2_evict=L2_EVICT, prefetch=PREFETCH_SIZE,
            vec=VECTORS, type=ANY_TYPE,
            needs={**ACCESS_NEEDS, "local": need("9.1")},
            rule=_access,
        ),
        form(
            "ld.sem.scope{.space}{.evict}{.l2_evict}{.L2::cache_hint}{.prefetch}{.vec}.type"
            " d:type[vec]+_*, [a]{.unified}{, policy:u64}",
            sem="relaxed acquire", scope=SCOPES, space=f"global {SHARED}",
            evict=L1_EVICT, l2_evict=L2_EVICT, prefetch=PREFETCH_SIZE,
            vec=VECTORS, type=ANY_TYPE,
            ptx="5.1", sm="70+", needs=ORDERED_NEEDS,
            rule=_access,
        ),
        form(
            "ld.mmio.sem.sys{.global}.type d:type+_*, [a]{.unified}", sem="relaxed acquire", type=ANY_TYPE,
            ptx="8.2", sm="70+", needs={"acquire": need("9.3"), "b128": need("8.4")},
            rule=_access,
        ),
        form(
            "ld.global{.cop}{.evict}{.l2_evict}.nc{.L2::cache_hint}{.prefetch}{.vec}.type"
            " d:type[vec]+_*, [a]{.unified}{, policy:u64}",
            cop="ca cg cs", evict=L1_EVICT, l2_evict=L2_EVICT, prefetch=PREFETCH_SIZE,
            vec=VECTORS, type=ANY_TYPE,
            ptx="3.1", needs=ACCESS_NEEDS,
            rule=_access,
        ),
        *(form(
            f"ld{space}.proxy::readonly{{.l2_evict}}{{.vec}}.type d:type[vec]+_*, [a]{{.unified}}",
            l2_evict=L2_EVICT, vec=VECTORS, type=ANY_TYPE.replace("b128 ", ""),
            ptx="9.4", sm="90+", needs=WIDE, rule=_access,
        ) for space in ("{.global}", ".global.nc")),
    )  # fmt: skip


@instruction
class LoadUniform(Instruction):
    """Load from global memory an address that is the same for all threads of the warp; the data must be
    read-only.

    Operands: d, a register or `{...}` of `.vec` registers; a, a global or generic address.
    """

    name = "ptx.ldu"
    takes_elements = True
    section = "9.7.10.10"
    wide_addresses = True
    result_name = "v"
    access = "load"
    takes_references = False
    effect = "read"
    unit = "memory"
    forms = (
        form(
            "ldu{.global}{.vec}.type d:type[vec]+_*, [a]{.unified}", vec="v2 v4", type=ANY_TYPE,
            ptx="2.0", needs={"b128": need("8.3", "70+")},
            rule=lambda use: _access(use) or _at_most_128(use),
        ),
    )  # fmt: skip


@instruction
class Store(Instruction):
    """Store a scalar or a vector to memory: memory[a] = b.

    Operands: a, as for `ld`; b, a register or constant of the type (a wider register is truncated), or
    `{...}` of as many as `.vec` says; policy, a 64-bit cache policy, with `.L2::cache_hint` only. Without a
    space the address is generic. `.volatile`, `.relaxed`, `.release` and `.mmio` order the access.
    """

    name = "ptx.st"
    takes_elements = True
    section = "9.7.10.11"
    wide_addresses = True
    access = "store"
    takes_references = False
    effect = "write"

    @classmethod
    def places_of(cls, space: str) -> frozenset[str]:
        return frozenset({"argument", "output"}) if space.startswith("param") else super().places_of(space)

    unit = "memory"
    forms = (
        form(
            "st{.weak}{.space}{.cop}{.evict}{.l2_evict}{.L2::cache_hint}{.vec}.type"
            " [a], b:type[vec]+_*{, policy:u64}",
            space=f"global local param param::func {SHARED}",
            cop=STORE_CACHE, evict=L1_EVICT, l2_evict=L2_EVICT, vec=VECTORS, type=ANY_TYPE,
            needs={**ACCESS_NEEDS, "weak": need("5.1", "70+")},
            rule=_access,
        ),
        form(
            "st.volatile{.space}{.l2_evict}{.vec}.type [a], b:type[vec]+_*",
            space=f"global local {SHARED}", l2_evict=L2_EVICT, vec=VECTORS, type=ANY_TYPE,
            needs={**ACCESS_NEEDS, "local": need("9.1")},
            rule=_access,
        ),
        form(
            "st.sem.scope{.space}{.evict}{.l2_evict}{.L2::cache_hint}{.vec}.type"
            " [a], b:type[vec]+_*{, policy:u64}",
            sem="relaxed release", scope=SCOPES, space=f"global {SHARED}",
            evict=L1_EVICT, l2_evict=L2_EVICT, vec=VECTORS, type=ANY_TYPE,
            ptx="5.1", sm="70+", needs=ORDERED_NEEDS,
            rule=_access,
        ),
        form(
            "st.mmio.sem.sys{.global}.type [a], b:type+*", sem="relaxed release", type=ANY_TYPE,
            ptx="8.2", sm="70+", needs={"release": need("9.3"), "b128": need("8.4")},
        ),
    )  # fmt: skip


@instruction
class StoreAsync(Instruction):
    """Store without waiting: to shared memory of the cluster, counted by an mbarrier, or to global memory
    with release.

    Operands: a, the address; b, a register or constant, or `{...}` of `.vec` of them; mbar, the mbarrier (in
    the same CTA as a) whose transaction count gets the bytes written. ptxas 13.5 lets the mbarrier, its
    modifier, `.release` or the braces be missing; that has no meaning and is refused.
    """

    name = "ptx.st.async"
    section = "9.7.10.12"
    effect = "order"
    access = "store"
    unit = "memory"
    forms = (
        form(
            "st.async{.weak}{.space}.mbarrier::complete_tx::bytes{.vec}.type [a], b:type[vec]*, [mbar:u32+]",
            space=SHARED, vec="v2 v4", type="b32 b64 b128 u32 u64 s32 s64 f32 f64",
            ptx="8.1", sm="90+", needs={"b128": need("9.2")}, rule=_at_most_128,
        ),
        form(
            "st.async.release.scope{.global}.type [a], b", scope="gpu sys", type=ASYNC_TYPES,
            ptx="8.7", sm="100+",
        ),
        form("st.async.mmio.release.sys{.global}.type [a], b", type=ASYNC_TYPES, ptx="8.7", sm="100+"),
    )  # fmt: skip


def _bulk(use: Use) -> str | None:
    a = use.operand("a")
    if use.has("shared::cta") and isinstance(a, Address) and not isinstance(a.base, Register):
        return "with .shared::cta the address in operand a must be a register"
    return None


@instruction
class StoreBulk(Instruction):
    """Fill a range of shared memory with zeros.

    Operands: a, the address; size in bytes, a multiple of 8 up to 2^24; value, 0.
    """

    name = "ptx.st.bulk"
    section = "9.7.10.14"
    effect = "write"
    access_bytes = 8
    access = "store"
    unit = "memory"
    forms = tuple(
        form(
            f"st.bulk{{.weak}}{{.shared::cta}} [a:u32+], size:{size}, value:imm",
            ranges={"size": range(0, (1 << 24) + 1, 8), "value": frozenset({0})}, ptx=ptx, sm="100+", rule=_bulk,
        )
        for size, ptx in (("u64", "8.6"), ("u32", "9.0"))
    )  # fmt: skip


@instruction
class Prefetch(Instruction):
    """Bring the cache line at an address into L1 or L2, or a tensor map into the descriptor cache.

    Operand: a, the address (global, local or generic; const, param or generic for `.tensormap`).
    """

    name = "ptx.prefetch"
    section = "9.7.10.16"
    wide_addresses = True
    effect = "order"
    unit = "async copy"
    forms = (
        form("prefetch{.space}.level [a]", space="global local", level="L1 L2", ptx="2.0"),
        form("prefetch{.global}.level [a]", level="L2::evict_last L2::evict_normal", ptx="7.4", sm="80+"),
        form("prefetch{.space}.tensormap [a]", space="const param", ptx="8.0", sm="90+"),
        form(
            "prefetch{.global}.L1::32B.valid_addr{.level} [a]", level="L2 L2::evict_last L2::evict_normal",
            ptx="9.4", sm="90+",
        ),
    )  # fmt: skip


@instruction
class PrefetchUniform(Instruction):
    """Bring the line at a generic address into the uniform cache. Operand: a, the address."""

    name = "ptx.prefetchu"
    section = "9.7.10.16"
    wide_addresses = True
    generic_places = "global"
    effect = "order"
    unit = "async copy"
    forms = (form("prefetchu.L1 [a%]", ptx="2.0"),)


@instruction
class ApplyPriority(Instruction):
    """Give the cache lines of an address range the priority `evict_normal` again.

    Operands: a, a global or generic address; size, the constant 128.
    """

    name = "ptx.applypriority"
    section = "9.7.10.17"
    wide_addresses = True
    effect = "order"
    unit = "async copy"
    forms = (
        form(
            "applypriority{.global}.L2::evict_normal [a], size:imm", ranges={"size": frozenset({128})},
            ptx="7.4", sm="80+",
        ),
    )  # fmt: skip


@instruction
class ApplyPriorityBulk(Instruction):
    """Give the cache lines of a whole range the priority `evict_normal` again, without waiting.

    Operands: a, a global or generic address; size in bytes, a multiple of 16. Part of the thread's bulk
    group.
    """

    name = "ptx.applypriority.async.bulk"
    section = "9.7.10.18"
    effect = "order"
    unit = "async copy"
    forms = (
        form(
            "applypriority.async.bulk{.global}.bulk_group.L2::evict_normal [a], size:u32",
            ptx="9.4", sm="107af", ranges={"size": range(0, 1 << 20, 16)},
        ),
    )  # fmt: skip


@instruction
class Discard(Instruction):
    """Drop the data of a cache line without writing it back; its content is undefined afterwards.

    Operands: a, a global or generic address aligned to 128; size, the constant 128.
    """

    name = "ptx.discard"
    section = "9.7.10.20"
    wide_addresses = True
    effect = "write"
    unit = "async copy"
    forms = (form("discard{.global}.L2 [a], size:imm", ranges={"size": frozenset({128})}, ptx="7.4", sm="80+"),)


def _fraction(use: Use) -> str | None:
    fraction = use.operand("fraction")
    if isinstance(fraction, Immediate) and not 0 < fraction.value <= 1:
        return f"operand fraction must be in (0, 1], not {fraction.text}"
    return None


def _sizes(use: Use) -> str | None:
    primary, total = use.operand("primary_size"), use.operand("total_size")
    if isinstance(primary, Immediate) and isinstance(total, Immediate):
        if int(primary.value) % (1 << 32) > int(total.value) % (1 << 32):
            return f"operand primary_size, {primary.text}, is larger than total_size {total.text}"
    return None


@instruction
class CreatePolicyFractional(Instruction):
    """Make a cache policy that gives a fraction of the accesses the primary priority, the others the
    secondary.

    Operands: d, the policy (64 bits); fraction, in (0, 1], 1.0 if absent.
    """

    name = "ptx.createpolicy.fractional"
    section = "9.7.10.21"
    unit = "convert"
    forms = (
        form(
            "createpolicy.fractional.primary{.secondary}.b64 d:u64{, fraction:f32}",
            primary=L2_PRIORITY, secondary="L2::evict_first L2::evict_unchanged",
            ptx="7.4", sm="80+", rule=_fraction, judges_constants=True,
        ),
    )  # fmt: skip


@instruction
class CreatePolicyRange(Instruction):
    """Make a cache policy from an address range: the first bytes get the primary priority, the rest the
    secondary.

    Operands: d, the policy (64 bits); a, a global or generic address, or with `.fabric` the range's endpoint (.b32)
    and its offset there (.b64); primary_size and total_size, 32-bit byte counts.
    """

    name = "ptx.createpolicy.range"
    section = "9.7.10.21"
    unit = "convert"
    forms = (
        form(
            "createpolicy.range{.global}.primary{.secondary}.b64"
            " d:u64, [a]{.unified}, primary_size:u32, total_size:u32",
            primary=L2_PRIORITY, secondary="L2::evict_first L2::evict_unchanged",
            ptx="7.4", sm="80+", rule=_sizes, judges_constants=True,
        ),
        form(
            "createpolicy.range.fabric.primary{.secondary}.b64"
            " d:u64, [endpoint:u32?, offset:u64%], primary_size:u32, total_size:u32",
            primary=L2_PRIORITY, secondary="L2::evict_first L2::evict_unchanged",
            ptx="9.4", sm="100+", rule=_sizes, judges_constants=True,
        ),
    )  # fmt: skip


@instruction
class CreatePolicyConvert(Instruction):
    """Turn an access property made by the CUDA runtime into a cache policy. Operands: d and a, 64 bits."""

    name = "ptx.createpolicy.cvt"
    section = "9.7.10.21"
    unit = "convert"
    forms = (form("createpolicy.cvt.L2.b64 d:u64, a:u64", ptx="7.4", sm="80+"),)


ADDRESS = "u32 u64"
ADDRESS_SPACES = f"global local const param param::entry {SHARED}"
ADDRESS_NEEDS = {
    **SPACE_NEEDS,
    "const": need("3.1"),
    "param": need("7.7", "70+"),
    "param::entry": need("8.3", "70+"),
}


@instruction
class ConvertAddress(Instruction):
    """Turn an address of a state space into a generic address, or (`.to`) a generic address into one of the
    space.

    Operands: d; a, a register or, without `.to`, a variable with an optional offset. Both 32 or both 64 bits.
    """

    name = "ptx.cvta"
    takes_functions = False
    section = "9.7.10.23"
    carries_address = True

    @classmethod
    def variables(cls, operand: str, slots: Slots, alone: bool) -> tuple[frozenset[str], bool]:
        space = slots["space"]
        if space.startswith("param"):
            return frozenset({"entry", "input", "output"}), True
        return cls.places_of(space), space == "global"

    unit = "convert"
    forms = (
        form("cvta.space.type d, a&", space=ADDRESS_SPACES, type=ADDRESS, ptx="2.0", needs=ADDRESS_NEEDS),
        form("cvta.^to.space.type d, a", space=ADDRESS_SPACES, type="u32 u64", ptx="2.0", needs=ADDRESS_NEEDS),
    )


@instruction
class IsSpace(Instruction):
    """Test whether a generic address lies in a state space.

    Operands: p, the answer; a, the address (32 or 64 bits).
    """

    name = "ptx.isspacep"
    section = "9.7.10.22"
    unit = "compare"
    forms = (
        form("isspacep.space p:pred, a:u64", space=ADDRESS_SPACES, ptx="2.0", needs=ADDRESS_NEEDS),
        form("isspacep.space p:pred, a:u32", space=ADDRESS_SPACES, ptx="2.0", needs=ADDRESS_NEEDS),
    )


@instruction
class IsType(Instruction):
    """Test whether a 64-bit handle is a texture, sampler or surface reference. Operands: p, the answer; a."""

    name = "ptx.istypep"
    section = "9.7.12.6"
    unit = "compare"
    forms = (form("istypep.kind p:pred, a:u64", kind="texref samplerref surfref", ptx="4.0"),)


@instruction
class MapAddress(Instruction):
    """The address of the same shared variable in another CTA of the cluster.

    Operands: d; a, a shared address (generic, or in the shared window with `.shared::cluster`); b, the CTA's
    rank.
    """

    name = "ptx.mapa"
    section = "9.7.10.26"
    carries_address = True
    result_name = "ptr"
    generic_places = "shared"
    takes_references = False
    unit = "convert"
    forms = (
        form("mapa.type d, a&, b:u32", type="u32 u64 s32 s64", ptx="7.8", sm="90+"),
        form("mapa.shared::cluster.type d, a&, b:u32", type="u32 u64 s32 s64", ptx="7.8", sm="90+"),
    )


@instruction
class CtaRank(Instruction):
    """The rank in the cluster of the CTA that owns a shared address. Operands: d, 32 bits; a, the address."""

    name = "ptx.getctarank"
    section = "9.7.10.27"
    generic_places = "shared"
    takes_references = False
    unit = "convert"
    forms = (
        form("getctarank.type d:u32, a&", type="u32 u64 s32 s64", ptx="7.8", sm="90+"),
        form("getctarank.shared::cluster.type d:u32, a&", type="u32 u64 s32 s64", ptx="7.8", sm="90+"),
    )
