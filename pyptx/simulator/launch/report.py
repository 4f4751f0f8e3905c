"""What a simulated launch did."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from ... import notebook
from ...diagnostics import Diagnostic
from ..machine.machine import Printed
from ..observers.numerics import Numerics
from ..observers.profile import Profile
from ..sanitizer.grouping import grouped


@dataclass(slots=True)
class Line:
    """Executions of the instructions at one place of the source."""

    filename: str | None
    line: int | None
    text: str
    count: int


@dataclass(slots=True)
class Report:
    """Counts of executed instructions (one per thread), what the kernel printed, and findings (none stops
    the kernel).

    `opcodes` counts by opcode, `lines` by instruction in program order; `instructions` is the total.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    instructions: int = 0
    opcodes: Counter[str] = field(default_factory=Counter[str])
    lines: list[Line] = field(default_factory=list[Line])
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    prints: list[Printed] = field(default_factory=list[Printed])
    """What calls of printf printed, in order, each with its place in the source and its thread."""
    schedule: str = "0:0"
    """The schedule of the run whose results and counts these are."""
    profile: Profile | None = None
    """Bytes, sectors, bank conflicts and operations per line, if it was asked for: a model, not a measurement."""
    numerics: Numerics | None = None
    """What the sums of matrix instructions lost, by line, if it was asked for."""

    sampled: int | None = None
    """CTAs that were run, of those of the grid, with `sample=`; the counts are theirs."""
    pieces: int = 1
    """The pieces that `workers=` cut the grid into."""
    together: str = ""
    """Why `workers=` did not cut it, if that follows from the launch."""

    @property
    def output(self) -> str:
        """All that was printed, as a GPU prints it."""
        return "".join(p.text for p in self.prints)

    @property
    def errors(self) -> list[Diagnostic]:
        """The findings that are not warnings: what may go wrong on a GPU. A warning works on the GPUs and with the ptxas
        that there are, and the manual does not promise it.
        """
        return [f for f in self.findings if f.severity == "error"]

    @property
    def distinct(self) -> list[Diagnostic]:
        """The findings as calls and tools print them: one for each rule, opcode and pair of lines, with the first place and how
        many there are.
        """
        return grouped(self.findings)

    def __str__(self) -> str:
        lines = [
            f"{self.entry}: grid {_size(self.grid)}, block {_size(self.block)}: "
            f"{self.instructions:,} thread instructions"
            + ("" if self.sampled is None else f" of a sample of {self.sampled:,} of {math.prod(self.grid):,} CTAs")
        ]
        lines += [f"{count:>15,}  {opcode}" for opcode, count in self.opcodes.most_common()]
        if self.profile is not None:
            lines.append(str(self.profile))
        if self.numerics is not None:
            lines.append(str(self.numerics))
        lines += [f.render() for f in self.distinct]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        title = f"{self.entry}: grid {_size(self.grid)}, block {_size(self.block)}, {self.instructions:,} thread instructions"
        opcodes = notebook.table(("executed", "instruction"), [(n, opcode) for opcode, n in self.opcodes.most_common()])
        more = [part for part in (self.profile, self.numerics) if part is not None]
        return "".join(
            [
                *(f._repr_html_() for f in self.distinct),
                notebook.folded(title, opcodes),
                *(notebook.preformatted(str(part)) for part in more),
            ]
        )


def _size(size: tuple[int, int, int]) -> str:
    return " x ".join(map(str, size))
