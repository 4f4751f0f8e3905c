"""The predefined read-only registers (PTX ISA 10): name, type, elements, and since when and where they exist.

`mov` reads all of them, `cvt` the integer ones; nothing else does (a form's operand says so with `@`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .target import Need, need


@dataclass(frozen=True, slots=True)
class Predefined:
    """A special register: `%tid` has elements (`%tid.x`), `%laneid` is a scalar.

    `bits` are the sizes it may be read in, its own first.
    """

    name: str
    bits: tuple[int, ...]
    elements: bool
    need: Need
    meaning: str
    directive: str = ""
    """The directive that a kernel whose body reads it must have."""

    @property
    def predicate(self) -> bool:
        return self.bits == (1,)


SPECIAL_REGISTERS: dict[str, Predefined] = {}
ELEMENTS = frozenset(".x .y .z .w .r .g .b .a".split())


def _add(
    names: str, meaning: str, bits: str = "32", *, elements: bool = False, ptx: str = "1.0", sm: str = "",
    directive: str = "",
) -> None:  # fmt: skip
    sizes = tuple(map(int, bits.split()))
    for name in names.split():
        SPECIAL_REGISTERS[name] = Predefined(name, sizes, elements, need(ptx, sm), meaning, directive)


_add("%tid", "thread index in the CTA", "32 16", elements=True)
_add("%ntid", "threads per CTA", "32 16", elements=True)
_add("%ctaid", "CTA index in the grid", "32 16", elements=True)
_add("%nctaid", "CTAs per grid", "32 16", elements=True)
_add("%gridid", "identifier of the grid launch", "64 32 16")
_add("%laneid %warpid %smid", "index of the lane in its warp, the warp in its CTA, the SM", ptx="1.3")
_add("%nwarpid %nsmid", "upper bounds of %warpid and %smid", ptx="2.0", sm="20+")
_add(
    "%lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt",
    "lanes relative to this one",
    ptx="2.0",
    sm="20+",
)
_add("%clock", "cycle counter, low 32 bits")
_add("%clock_hi", "cycle counter, high 32 bits", ptx="5.0", sm="20+")
_add("%clock64", "cycle counter", "64", ptx="2.0", sm="20+")
_add("%globaltimer", "nanosecond timer", "64", ptx="3.1", sm="30+")
_add("%globaltimer_lo %globaltimer_hi", "nanosecond timer, one half", ptx="3.1", sm="30+")
_add("%pm0 %pm1 %pm2 %pm3", "performance counters, low 32 bits", ptx="1.3")
_add("%pm4 %pm5 %pm6 %pm7", "performance counters, low 32 bits", ptx="3.0", sm="20+")
_add(" ".join(f"%pm{i}_64" for i in range(8)), "performance counters", "64", ptx="4.0", sm="50+")
_add(" ".join(f"%envreg{i}" for i in range(32)), "set by the driver before the launch")
_add(
    "%total_smem_size %dynamic_smem_size",
    "bytes of shared memory of the CTA, all and dynamic",
    ptx="4.1",
    sm="20+",
)
_add("%aggr_smem_size", "bytes of shared memory with the reserved part", ptx="8.1", sm="90+")
_add(
    " ".join(f"%reserved_smem_offset_{end}" for end in ("begin", "end", "cap", "0", "1")),
    "where the system's part of shared memory lies",
    ptx="7.6",
    sm="80+",
)
_add(
    "%clusterid %nclusterid",
    "cluster index in the grid, clusters per grid",
    elements=True,
    ptx="7.8",
    sm="90+",
)
_add(
    "%cluster_ctaid %cluster_nctaid",
    "CTA index in its cluster, CTAs per cluster",
    elements=True,
    ptx="7.8",
    sm="90+",
)
_add("%cluster_ctarank %cluster_nctarank", "the same as one number", ptx="7.8", sm="90+")
_add("%is_explicit_cluster", "whether the launch gave a cluster size", "1", ptx="7.8", sm="90+")
_add("%current_graph_exec", "identifier of the graph being executed, 0 if none", "64", ptx="8.0", sm="50+")
_add(
    "%perctamemoryoffset",
    "address of the CTA's own slice of global memory",
    "64",
    ptx="9.4",
    sm="80+",
    directive=".minperctamemory",
)
_add(
    "%perctamemorysize",
    "bytes of that slice, a multiple of 1024; 0 if the driver has no such memory",
    ptx="9.4",
    sm="80+",
    directive=".minperctamemory",
)
_add("%locality_domain_id %locality_domain_supplemental_sm", "locality domain of the SM", ptx="9.5", sm="100+")


@lru_cache(maxsize=4096)
def is_special_register(name: str) -> bool:
    """Whether a name (without element) is one of PTX's special registers."""
    return name in SPECIAL_REGISTERS


def own_bits(name: str) -> int:
    """The size of a special register, given with or without element; 32 for a name that is none."""
    found = SPECIAL_REGISTERS.get(name.partition(".")[0])
    return found.bits[0] if found else 32


def read_problem(name: str, bits: int, vector: int | None, narrower: bool = False) -> str | None:
    """Why `%tid.x` or `%laneid` cannot be read as `bits` bits, or None.

    `vector`: as so many elements at once. `narrower`: a part of it is fine (`cvt`).
    """
    base, dot, element = name.partition(".")
    found = SPECIAL_REGISTERS.get(base)
    if found is None:
        return f"there is no special register {base}"
    if dot:
        if not found.elements:
            return f"{base} has no elements, write {base}"
        if dot + element not in ELEMENTS:
            return f"{base} has the elements .x .y .z, not {dot}{element}"
    elif found.elements and vector != 4:
        return f"{base} is a vector of 4, write {base}.x, {base}.y or {base}.z"
    if bits not in found.bits and not (narrower and bits < max(found.bits)):
        sizes = ", ".join(".pred" if b == 1 else f".u{b}" for b in found.bits)
        return f"{name} is read as {sizes}, not in {bits} bits"
    return None
