"""Kernels whose copies and matrix instructions run by themselves (TMA, wgmma, tcgen05): a lower bound from what they move and multiply, and a
wide range. What they do is counted by the simulator on a few CTAs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..diagnostics import PTXError
from ..sass import Function
from ..simulator.launch.explore import Snapshot
from ..simulator.launch.launch import simulate_entry
from ..simulator.launch.prepared import Prepared
from ..simulator.machine.global_memory import GlobalMemory
from ..simulator.observers.profile import Profile
from .cards import Card
from .emulation import Geometry
from .facts import Fact
from .pipes import asynchronous
from .result import Prediction

__all__ = ["Counted", "bound", "count"]

SLOWEST = 3.0
"""The range's end, in times of the lower bound: published GEMMs of Hopper and Blackwell with copies by TMA reach 0.35 to 0.9 of it (rows gemm_wgmma_tma and
gemm_tcgen05 of `measured.json`).
"""
START_US = 5.0
"""What a pipeline may take to fill, drain and end at most (assumed)."""
MOST_BYTES = 1 << 29
MOST_STEPS = 300_000
SAMPLE = 1e-9
PEAKS = {
    "sm_90a": Fact(4096, "WP", "recalled"),
    "sm_100a": Fact(8192, "MBB", "derived"),
}
"""Operations of a clock and SM, dense, of halves; bytes do twice, nibbles four times, tf32 half of that."""


@dataclass(frozen=True)
class Counted:
    """What the launch does, from a few of its CTAs."""

    operations: float
    """Of the tensor cores, in operations on halves."""
    moved: float
    """Bytes from and to global memory."""
    ctas: int
    """How many were run."""


def count(prepared: Prepared, geometry: Geometry) -> Counted | None:
    """Run some CTAs on the simulator; None where that would take too long or is not possible. Memory is as before."""
    if sum(b.size for b in geometry.buffers) > MOST_BYTES:
        return None
    memory = GlobalMemory()
    for allocation in geometry.allocations:
        memory.add(allocation)
    before = Snapshot(memory)
    options = replace(prepared.options, check=False, profile=True, sample=SAMPLE, max_steps=MOST_STEPS)
    try:
        report = simulate_entry(prepared.loaded, prepared.name, prepared.args, options)
    except PTXError:
        return None
    finally:
        before.restore()
    if report.profile is None or not report.sampled:
        return None
    share = geometry.ctas / report.sampled
    return Counted(_operations(report.profile) * share, report.profile.bytes["global"] * share, report.sampled)


def _operations(profile: Profile) -> float:
    return sum(line.flops * _cost(line.text) for line in profile.lines.values() if line.matrix)


def _cost(text: str) -> float:
    """The cost of an operation of a matrix instruction, against one on halves."""
    if re.search(r"mxf4|nvf4", text):
        return 0.25
    if "tf32" in text:
        return 2.0
    return 0.5 if re.search(r"e4m3|e5m2|f8f6f4|\.[su]8|kind::i8|mxf8", text) else 1.0


def bound(function: Function, geometry: Geometry, card: Card, ghz: float, counted: Counted | None) -> Prediction:
    """The time that DRAM or L2 and the tensor cores need at least, up to a few times of it."""
    once = sum(b.size for b in geometry.buffers)
    fits = once <= card.l2_mib.value * 2**20
    floors = {"L2" if fits else "DRAM": once / (card.l2_bytes.value if fits else card.dram_gb_s.value / ghz)}
    peak = PEAKS.get(card.arch)
    if counted is not None:
        floors["L2"] = max(floors.get("L2", 0.0), counted.moved / card.l2_bytes.value)
        if counted.operations and peak is not None:
            sms = min(geometry.ctas, round(card.sms.value))
            floors["tensor cores"] = counted.operations / peak.value / sms
    name, low = max(floors.items(), key=lambda item: item[1])
    opcodes = ", ".join(asynchronous(function))
    how = (
        "what the arguments need to be read or written once"
        if counted is None
        else f"what {counted.ctas} simulated CTAs move and multiply"
    )
    slower = max(1.0, ghz / card.loaded_ghz.value) if card.loaded_ghz else 1.0
    return Prediction(
        kernel=function.name, card=card.name, cycles=None, low=low, high=low * SLOWEST * slower + START_US * ghz * 1e3, clock_ghz=ghz,
        binds=f"{name} at least", utilisation={}, stalls={}, registers=function.registers,
        dram_bytes=float(once), l2_bytes=0.0 if counted is None else counted.moved,
        notes=[f"{opcodes} are not replayed: the range is from {how}, to {SLOWEST:g} times that"],
    )  # fmt: skip
