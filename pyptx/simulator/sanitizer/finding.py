"""What the sanitizer says about one mistake."""

from __future__ import annotations

from dataclasses import dataclass

from ...diagnostics import Diagnostic, origin_lines

SECTIONS = {
    "uninitialised-register": "5.1.1",
    "uninitialised-global": "5.1.4",
    "uninitialised-shared": "5.1.7",
    "uninitialised-local": "5.1.5",
    "race": "8.7.1",
    "replicated-lanes": "8.7.1",
    "non-coherent-load": "8.1",
    "cp-async-not-waited": "9.7.10.28.1",
    "bulk-copy-not-waited": "9.7.10.28.1",
    "bulk-source-reused": "9.7.10.28.1",
    "copy-repeated": "9.7.10.28.1",
    "proxy": "8.6",
    "proxy-reuse": "8.6",
    "tensor-map-in-use": "9.7.10.28.1",
    "mbarrier-init-fence": "9.7.15.4",
    "mbarrier-reinit": "9.7.15.16.12",
    "mbarrier-invalid": "9.7.15.16.13",
    "mbarrier-touched": "9.7.15.16.13",
    "barrier-divergent": "9.7.15.1",
    "barrier-count": "9.7.15.1",
    "membermask": "9.7.10.6",
    "shuffle-source": "9.7.10.6",
    "warp-incomplete": "9.7.15.1",
    "exit-in-flight": "9.7.10.28.1",
    "cluster-exit": "5.1.7",
    "cluster-start": "5.1.7",
    "dependent-read": "9.7.15.14",
    "dependent-store": "9.7.15.14",
    "setmaxnreg": "9.7.21.5",
    "wgmma-register": "9.7.17.7.1",
    "wgmma-source-reused": "9.7.17.7.3",
    "wgmma-fence": "9.7.17.7.1",
    "wgmma-commit": "9.7.17.7.2",
    "uninitialised-tensor": "9.7.18.7",
    "tensor-leak": "9.7.18.7.1",
    "tcgen05-peer": "9.7.18.7.1",
    "tcgen05-wait": "9.7.18.8.5",
    "tcgen05-fence": "9.7.18.11",
    "tcgen05-commit": "9.7.18.12",
    "tcgen05-source-reused": "9.7.18.12",
    "tcgen05-collector": "9.7.18.10.10",
    "schedule-dependent": "3.1",
    "barrier-round": "9.7.15.1",
    "mbarrier-phase": "9.7.15.16.4",
}
"""Rule -> section of the PTX ISA manual that it follows (version `instruction.MANUAL`); of other rules that of the instruction."""


@dataclass(frozen=True, slots=True)
class Finding(Diagnostic):
    """A rule that a kernel broke at one instruction.

    `filename`, `line` and `column` are the place in the source: the PTX file, or the Python of a traced kernel.
    `other` is the instruction on the other side (of a race, of a copy), or what `role` says, with its place.
    """

    rule: str = ""
    instruction: str = ""
    """The PTX instruction."""
    threads: tuple[str, ...] = ()
    """The first threads it happened to, as `thread (x, y, z) of CTA (x, y, z)`."""
    count: int = 0
    """Threads it happened to, the first time."""
    space: str = ""
    address: int | None = None
    """The first address, in `space`."""
    section: str = ""
    """Of the PTX ISA manual."""
    other: Diagnostic | None = None
    role: str = "the other side"
    """What `other` is."""
    schedule: str = ""
    """The first schedule that showed it, as `simulate(..., schedule=)` takes it; empty for the first run."""

    def render(self, source_line: str | None = None) -> str:
        """As a person reads it, with how to see it again."""
        text = Diagnostic.render(self, source_line)
        if self.other is not None and self.other.origin != self.origin:
            text = "\n".join([text, *origin_lines(self.other.origin, f"{self.role} is from")])
        if self.schedule:
            text += f'\nfound by another schedule than the first: simulate(..., schedule="{self.schedule}") replays it'
        return text
