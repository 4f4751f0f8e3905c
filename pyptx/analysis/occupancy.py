"""How many CTAs of a kernel fit on one multiprocessor, and what stops more.

The rules and the limits on CTAs, barriers and allocation are those of NVIDIA's `cuda_occupancy.h` (CUDA
13.5); threads, registers and
shared memory per multiprocessor are those of the CUDA C++ Programming Guide, "Technical Specifications per
Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dialects.ptx.target import target_of

WARP = 32
REGISTER_UNIT = 256
"""Registers are allocated per warp in units of this many."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one multiprocessor (SM) of a compute capability has. Sizes in bytes, registers are 32 bits."""

    capability: tuple[int, int]
    ctas: int
    warps: int
    shared: int
    """Shared memory per SM."""
    shared_per_cta: int
    """The most a CTA may have (more than 48 KB only as opted-in dynamic shared memory)."""
    reserved_shared: int
    """What the system takes of each CTA's allocation."""
    shared_unit: int
    barriers: int | None
    """Named barriers per SM; None where they never limit (before 9.0)."""
    registers: int = 65536
    registers_per_cta: int = 65536
    partitions: int = 4
    """Each has its share of the registers, and a warp lives in one."""
    assumed: str = ""
    """Not empty where the limits of this capability are not published: whose are used instead."""

    @property
    def name(self) -> str:
        return f"{self.capability[0]}.{self.capability[1]}"


_KB = 1024


def _limits(
    major: int,
    minor: int,
    ctas: int,
    warps: int,
    shared: int,
    per_cta: int,
    registers: int = 65536,
    partitions: int = 4,
) -> Limits:
    recent = major >= 8
    barriers = None if major < 9 else ctas if (major, minor) in _ONE_BARRIER_EACH else 2 * ctas
    return Limits(
        (major, minor),
        ctas,
        warps,
        shared * _KB,
        per_cta * _KB,
        _KB if recent else 0,
        128 if recent else 256,
        barriers,
        registers_per_cta=registers,
        partitions=partitions,
    )


_ONE_BARRIER_EACH = {(10, 1), (10, 3), (10, 7), (11, 0), (12, 0), (12, 1)}

LIMITS: dict[tuple[int, int], Limits] = {
    limits.capability: limits
    for limits in (
        _limits(5, 0, 32, 64, 64, 48),
        _limits(5, 2, 32, 64, 96, 48),
        _limits(5, 3, 32, 64, 64, 48, registers=32768),
        _limits(6, 0, 32, 64, 64, 48, partitions=2),
        _limits(6, 1, 32, 64, 96, 48),
        _limits(6, 2, 32, 64, 64, 48, registers=32768),
        _limits(7, 0, 32, 64, 96, 96),
        _limits(7, 2, 32, 64, 96, 96),
        _limits(7, 5, 16, 32, 64, 64),
        _limits(8, 0, 32, 64, 164, 163),
        _limits(8, 6, 16, 48, 100, 99),
        _limits(8, 7, 16, 48, 164, 163),
        _limits(8, 9, 24, 48, 100, 99),
        _limits(9, 0, 32, 64, 228, 227),
        _limits(10, 0, 32, 64, 228, 227),
        _limits(10, 1, 24, 48, 228, 227),
        _limits(10, 3, 32, 64, 228, 227),
        _limits(11, 0, 24, 48, 228, 227),
        _limits(12, 0, 24, 48, 100, 99),
        _limits(12, 1, 24, 48, 100, 99),
    )
}
"""The published compute capabilities from 5.0 on."""


def most_shared(target: str) -> int:
    """Bytes of shared memory that a CTA may have on a target; 48 KiB before sm_50."""
    return limits_of(target).shared_per_cta if target_of(target).number >= 50 else 48 << 10


def limits_of(target: str) -> Limits:
    """The limits of a target such as `sm_90a`. ValueError before sm_50.

    A target whose limits are not published gets those of the nearest older capability, and says so in
    `assumed`.
    """
    number = target_of(target).number
    wanted = (number // 10, number % 10)
    found = LIMITS.get(wanted)
    if found is not None:
        return found
    older = [c for c in LIMITS if c <= wanted]
    if not older:
        raise ValueError(f"no occupancy limits are known for {target}; they are for sm_50 and newer")
    nearest = LIMITS[max(older)]
    return Limits(
        wanted,
        nearest.ctas,
        nearest.warps,
        nearest.shared,
        nearest.shared_per_cta,
        nearest.reserved_shared,
        nearest.shared_unit,
        nearest.barriers,
        nearest.registers,
        nearest.registers_per_cta,
        nearest.partitions,
        f"limits of compute capability {nearest.name}; those of {wanted[0]}.{wanted[1]} are not published",
    )


@dataclass(frozen=True, slots=True)
class Occupancy:
    """CTAs and warps per SM; `by` maps each resource to how many CTAs it alone would allow (None: no
    limit)."""

    limits: Limits
    threads: int
    registers: int
    shared: int
    ctas: int
    by: dict[str, int | None]

    @property
    def warps(self) -> int:
        return self.ctas * -(-self.threads // WARP)

    @property
    def fraction(self) -> float:
        """Warps per SM as a part of the most there can be."""
        return self.warps / self.limits.warps

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that stop one more CTA."""
        return tuple(name for name, ctas in self.by.items() if ctas == self.ctas)


def occupancy(target: str, *, threads: int, registers: int, shared: int = 0, barriers: int = 0) -> Occupancy:
    """Occupancy of a kernel on a target: `threads` per CTA, `registers` per thread, `shared` bytes (static
    and dynamic) and
    named `barriers` per CTA."""
    limits = limits_of(target)
    warps = -(-threads // WARP)
    by: dict[str, int | None] = {"CTAs": limits.ctas}
    by["warps"] = limits.warps // warps if 0 < threads <= 1024 else 0
    per_warp = _round_up(registers * WARP, REGISTER_UNIT)
    most = 255 if limits.capability < (7, 0) else 256
    if per_warp == 0:
        by["registers"] = None
    elif registers > most or per_warp * _round_up(warps, 4) > limits.registers_per_cta:
        by["registers"] = 0  # in fours even on 6.0, where nothing may run that would not run on 6.1
    else:
        by["registers"] = limits.registers // limits.partitions // per_warp * limits.partitions // max(warps, 1)
    allocated = _round_up(shared + limits.reserved_shared, limits.shared_unit)
    if shared > limits.shared_per_cta:
        by["shared memory"] = 0
    else:
        by["shared memory"] = limits.shared // allocated if allocated else None
    by["barriers"] = limits.barriers // barriers if barriers and limits.barriers is not None else None
    return Occupancy(limits, threads, registers, shared, min(c for c in by.values() if c is not None), by)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
