"""What the analyses say about one function."""

from __future__ import annotations

from dataclasses import dataclass

from ..diagnostics import Diagnostic, merged
from ..dialects.ptx.structure import FunctionOp, head_labels
from ..ssa.graph import Dominators
from .banks import BankUse
from .cfg import CFG
from .finding import Finding
from .loops import LoopForest
from .mix import Mix
from .occupancy import Occupancy
from .pressure import Pressure
from .shared import SharedUse
from .threads import Threads
from .traffic import Traffic


@dataclass(slots=True)
class FunctionReport:
    """Everything the analyses say about one entry or function."""

    function: FunctionOp
    cfg: CFG
    dominators: Dominators
    loops: LoopForest
    trips: list[int | None]
    """How often each loop runs, where that is a constant."""
    pressure: Pressure
    mix: Mix
    shared: SharedUse
    threads: Threads
    banks: list[BankUse]
    traffic: Traffic
    registers: int
    """Registers per thread for the occupancy: those of ptxas if given, else the relaxed estimate, at most 255."""
    registers_measured: bool
    occupancy: Occupancy | None
    """None for a device function, and before sm_50."""
    findings: list[Finding]
    dynamic_shared: int = 0
    """Bytes of shared memory that the launch adds, per CTA."""

    @property
    def name(self) -> str:
        return self.function.symbol

    def told(self, filename: str | None = None) -> list[Diagnostic]:
        """The findings as tools print them: those of unrolled code once, with their number."""
        return merged(
            Diagnostic(f.severity, f.message, filename if f.line else None, f.line, hint=f.hint, origin=f.origin)
            for f in self.findings
        )

    def block_name(self, block: int) -> str:
        """The label of a block, or `entry` or `block 3`."""
        labels = head_labels(self.cfg.blocks[block])
        return labels[0].label if labels else "entry" if block == 0 else f"block {block}"
