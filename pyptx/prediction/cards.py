"""Architectures and cards: what a prediction knows of the hardware, each number with its source (`facts`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..diagnostics import UsageError, did_you_mean
from .facts import Fact

__all__ = ["ARCHITECTURES", "CARDS", "Architecture", "Card", "card_of"]


@dataclass(frozen=True)
class Architecture:
    """One SM. Rates are results of a clock and SM, latencies are in cycles."""

    name: str
    fp32: Fact
    half2: Fact
    """Results of packed half-precision operations, two for each lane."""
    integer: Fact
    """Additions, logic, shifts, comparisons."""
    multiply: Fact
    fp64: Fact
    special: Fact
    """Reciprocals, roots, exponentials; conversions."""
    lanes: Fact
    """Of the pipe that all memory instructions and shuffles go through."""
    tensor: Fact
    """Dense half-precision operations (a multiplication and an addition are two) with sums in single precision."""
    address_interval: Fact
    queue: Fact
    """Memory instructions that a sub-core has under way before it waits."""
    shared_latency: Fact
    l1_latency: Fact
    l2_latency: Fact
    dram_latency: Fact
    tensor_latency: Fact
    l1_kib: Fact
    """L1 and shared memory together."""


@dataclass(frozen=True)
class Card:
    name: str
    arch: str
    sms: Fact
    boost_ghz: Fact
    dram_gb_s: Fact
    l2_mib: Fact
    power_w: Fact
    l2_bytes: Fact
    """Of a clock, all SMs together."""
    loaded_ghz: Fact | None = None
    """The clock that the power limit leaves to dense tensor-core work, where it was measured."""
    tensor_factor: float = 1.0
    """GeForce cards have half the rate of sums in single precision."""
    dram_reads: Fact = field(default_factory=lambda: Fact(0.96, "ROWS", "fitted", 0.04))
    """The share of the bandwidth that kernels reach that read only; and those that write as well."""
    dram_mixed: Fact = field(default_factory=lambda: Fact(0.91, "ROWS", "fitted", 0.04))
    aliases: tuple[str, ...] = ()

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.arch]


def _cpg(value: float) -> Fact:
    return Fact(value, "CPG", "sourced")


def _wp(value: float) -> Fact:
    return Fact(value, "WP", "recalled")


def _lanes(value: float) -> Fact:
    return Fact(value, "ROWS", "fitted")


_ASSUMED_AGU = Fact(2, "HUE, for sm_86 half of it", "assumed", 0.5)

ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture(
            "sm_80", fp32=_cpg(64), half2=_cpg(256), integer=_cpg(64), multiply=Fact(64, "WP", "recalled"), fp64=_cpg(32),
            special=_cpg(16), lanes=Fact(32, "WP", "recalled"), tensor=_wp(2048), address_interval=_ASSUMED_AGU,
            queue=Fact(6, "HUE", "assumed", 0.3), shared_latency=Fact(23, "AMP", "recalled"), l1_latency=Fact(33, "AMP", "recalled"),
            l2_latency=Fact(200, "AMP", "recalled", 0.1), dram_latency=Fact(466, "HOP", "recalled", 0.1),
            tensor_latency=Fact(33, "AMP", "recalled"), l1_kib=_wp(192),
        ),
        Architecture(
            "sm_86", fp32=_cpg(128), half2=_cpg(256), integer=_cpg(64), multiply=Fact(64, "WP", "recalled"), fp64=_cpg(2),
            special=_cpg(16), lanes=_lanes(16), tensor=_wp(1024), address_interval=Fact(4, "HUE", "recalled"),
            queue=Fact(6, "HUE", "recalled", 0.2), shared_latency=Fact(23, "HUE", "recalled", 0.1), l1_latency=Fact(33, "HUE", "recalled"),
            l2_latency=Fact(240, "HOP", "recalled", 0.15), dram_latency=Fact(480, "HOP", "recalled", 0.15),
            tensor_latency=Fact(34, "AMP", "assumed", 0.2), l1_kib=_wp(128),
        ),
        Architecture(
            "sm_89", fp32=_cpg(128), half2=_cpg(128), integer=_cpg(64), multiply=Fact(64, "WP", "recalled"),
            fp64=Fact(2, "CPG", "recalled"), special=Fact(16, "CPG", "recalled"), lanes=_lanes(16), tensor=_wp(1024),
            address_interval=Fact(4, "HUE, of sm_86", "assumed"), queue=Fact(6, "HUE, of sm_86", "assumed", 0.2),
            shared_latency=Fact(23, "HUE, of sm_86", "assumed", 0.1), l1_latency=Fact(40, "DEW", "sourced"),
            l2_latency=Fact(296, "DEW", "sourced", 0.1), dram_latency=Fact(636, "DEW", "sourced", 0.1),
            tensor_latency=Fact(34, "AMP", "assumed", 0.2), l1_kib=_wp(128),
        ),
        Architecture(
            "sm_90a", fp32=_cpg(128), half2=_cpg(256), integer=_cpg(64), multiply=Fact(64, "WP", "recalled"),
            fp64=Fact(64, "CPG", "recalled"), special=Fact(16, "CPG", "recalled"), lanes=_lanes(32),
            tensor=Fact(2560, "HOP", "sourced", 0.05), address_interval=_ASSUMED_AGU, queue=Fact(6, "HUE, of sm_86", "assumed", 0.2),
            shared_latency=Fact(29, "HOP", "recalled"), l1_latency=Fact(40, "DEW", "sourced"),
            l2_latency=Fact(281, "DEW", "sourced", 0.1), dram_latency=Fact(690, "DEW", "sourced", 0.1),
            tensor_latency=Fact(33, "AMP", "assumed", 0.2), l1_kib=_wp(256),
        ),
        Architecture(
            "sm_100a", fp32=_wp(128), half2=_cpg(256), integer=Fact(64, "CPG", "recalled"), multiply=Fact(64, "CPG", "recalled"),
            fp64=Fact(64, "WP", "recalled"), special=Fact(16, "CPG", "recalled"), lanes=Fact(32, "of sm_90", "assumed", 0.5),
            tensor=Fact(2048, "NONE", "assumed", 0.5), address_interval=_ASSUMED_AGU, queue=Fact(6, "HUE, of sm_86", "assumed", 0.3),
            shared_latency=Fact(29, "of sm_90", "assumed", 0.1), l1_latency=Fact(40, "DEW", "sourced"),
            l2_latency=Fact(295, "DEW", "sourced", 0.15), dram_latency=Fact(860, "DEW", "sourced", 0.1),
            tensor_latency=Fact(33, "AMP", "assumed", 0.3), l1_kib=_wp(256),
        ),
        Architecture(
            "sm_120a", fp32=_wp(128), half2=Fact(128, "CPG", "recalled"), integer=Fact(128, "BLK", "recalled"),
            multiply=Fact(64, "CPG", "recalled"), fp64=Fact(2, "CPG", "recalled"), special=Fact(16, "CPG", "recalled"), lanes=_lanes(16),
            tensor=Fact(1024, "WAY", "sourced"), address_interval=Fact(4, "HUE, of sm_86", "assumed"),
            queue=Fact(6, "HUE, of sm_86", "assumed", 0.2), shared_latency=Fact(23, "HUE, of sm_86", "assumed", 0.1),
            l1_latency=Fact(44, "DEW", "sourced"), l2_latency=Fact(352, "DEW", "sourced", 0.1),
            dram_latency=Fact(864, "DEW", "sourced", 0.1), tensor_latency=Fact(34, "AMP", "assumed", 0.2), l1_kib=_wp(128),
        ),
    )
}  # fmt: skip

_PER_SM = "64 bytes for each SM; the whole chip's is not published"


def _per_sm(sms: int, bytes: float = 48) -> Fact:
    return Fact(sms * bytes, _PER_SM, "assumed", 0.3)


GDDR = Fact(0.82, "ROWS", "fitted", 0.06)

CARDS = (
    Card("A100 SXM 80GB", "sm_80", _wp(108), _wp(1.41), _wp(2039), _wp(40), _wp(400), _wp(5120),
         aliases=("A100", "A100 80GB")),
    Card("RTX A6000", "sm_86", _wp(84), _wp(1.80), _wp(768), _wp(6), _wp(300), _per_sm(84), aliases=("A6000",), dram_mixed=GDDR),
    Card("RTX 3080", "sm_86", _wp(68), _wp(1.71), _wp(760), _wp(5), _wp(320), _per_sm(68), tensor_factor=0.5, dram_mixed=GDDR),
    Card("RTX 4090", "sm_89", _wp(128), _wp(2.52), _wp(1008), _wp(72), _wp(450), Fact(1946, "L2ADA", "sourced", 0.2), tensor_factor=0.5, dram_mixed=GDDR),
    Card("L20", "sm_89", _wp(92), _wp(2.52), _wp(864), _wp(96), _wp(275), Fact(1946, "L2ADA, of the RTX 4090", "assumed", 0.3), dram_mixed=GDDR),
    Card("L4", "sm_89", _wp(58), _wp(2.04), _wp(300), _wp(48), _wp(72), Fact(972, "L2ADA, of the RTX 4090", "assumed", 0.3), dram_mixed=GDDR),
    Card("H100 SXM", "sm_90a", _wp(132), _wp(1.98), _wp(3350), _wp(50), _wp(700), _per_sm(132),
         Fact(1.55, "WAY", "sourced", 0.02), aliases=("H100", "H100 SXM5 80GB", "H100 SXM5")),
    Card("H100 PCIe", "sm_90a", _wp(114), _wp(1.755), _wp(2039), _wp(50), _wp(350), _per_sm(114)),
    Card("H200", "sm_90a", _wp(132), _wp(1.98), _wp(4800), _wp(50), _wp(700), _per_sm(132), Fact(1.55, "WAY, of H100 SXM", "assumed", 0.05)),
    Card("B200", "sm_100a", _wp(148), _wp(1.965), _wp(8000), _wp(126.5), _wp(1000), _per_sm(148, 64)),
    Card("RTX 5090", "sm_120a", _wp(170), _wp(2.407), _wp(1792), _wp(96), _wp(575), Fact(4096, "WAY, of the RTX PRO 6000", "assumed", 0.2),
         tensor_factor=0.5, dram_mixed=Fact(0.73, "ROWS", "fitted", 0.04)),
    Card("RTX PRO 6000 Max-Q", "sm_120a", _wp(188), Fact(2.28, "WAY", "sourced"), _wp(1792), _wp(128), _wp(300),
         Fact(4096, "WAY", "derived", 0.1), Fact(1.52, "WAY", "sourced", 0.02), aliases=("RTX PRO 6000", "RTX PRO 6000 Blackwell Max-Q"), dram_mixed=GDDR),
)  # fmt: skip
"""NVIDIA's numbers, as recalled, but where a fact says otherwise."""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("nvidia", "").replace("geforce", ""))


def card_of(name: object) -> Card:
    """The card of a name such as `H100 SXM`. PTXError with those that are known."""
    if not isinstance(name, str):
        raise UsageError(f'card must be the name of a card, such as "H100 SXM", not {name!r}')
    wanted = _plain(name)
    for card in CARDS:
        if wanted in (_plain(n) for n in (card.name, *card.aliases)):
            return card
    names = [card.name for card in CARDS]
    hint = did_you_mean(name, [n for card in CARDS for n in (card.name, *card.aliases)])
    raise UsageError(f"{name!r} is not a known card: {f'{hint}; ' if hint else ''}known are {', '.join(names)}")
