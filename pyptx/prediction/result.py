"""What a prediction says."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..diagnostics import PTXError
from ..notebook import table
from .timeline import Timeline

__all__ = ["LineStalls", "LoopStalls", "Prediction", "Variant", "WhatIf"]


@dataclass(frozen=True)
class LineStalls:
    """A line of the PTX, or of what it was made from: the cycles that warps waited before its instructions, by reason."""

    line: int | None
    text: str
    executed: int
    """By the warps of a CTA."""
    cycles: Mapping[str, float]
    file: str | None = None
    """Of a line of the program that the PTX was made from, its file."""

    @property
    def total(self) -> float:
        return sum(self.cycles.values())

    @property
    def reason(self) -> str:
        """What most of the cycles are for."""
        return max(self.cycles, key=lambda k: self.cycles[k], default="none")

    @property
    def place(self) -> str:
        """The line, after the name of the file if it has one."""
        number = "?" if self.line is None else str(self.line)
        return f"line {number}" if self.file is None else f"{self.file.rsplit('/', 1)[-1]}:{number}"


@dataclass(frozen=True)
class LoopStalls:
    """A loop: what one iteration costs a warp."""

    first: int | None
    """Lines of the PTX, the first and the last that its instructions come from."""
    last: int | None
    iterations: float
    """Of a warp each time that it enters the loop, on average. They are those of the machine code: ptxas may unroll the loop of the PTX, and
    one iteration is then several of it.
    """
    instructions: float
    """Of a warp, in an iteration."""
    cycles: float
    """Of a warp, in an iteration: instructions and waits."""
    stalls: Mapping[str, float]
    """The waits by reason."""

    def __str__(self) -> str:
        where = f"lines {self.first} to {self.last}" if self.first != self.last else f"line {self.first}"
        waits = sorted(self.stalls.items(), key=lambda kv: -kv[1])[:3]
        return (
            f"{where}: {self.iterations:,.0f} iterations, each {self.cycles:,.0f} cycles of a warp, {self.instructions:,.0f} instructions"
            + "".join(f", {cycles:,.0f} {reason}" for reason, cycles in waits if cycles >= 0.5)
        )


@dataclass(frozen=True)
class Prediction:
    """A predicted time. All numbers are predictions, none is a measurement; `low` and `high` are the range, from the uncertainty of the
    constants that the card's description states and from what the model does not know about this kernel.
    """

    kernel: str
    card: str
    cycles: int | None
    """None where only a bound is known."""
    low: float
    high: float | None
    """Cycles."""
    clock_ghz: float
    binds: str
    """What decides the time: a pipe, issue, shared memory, L2, DRAM, latency (with the reason), barriers, the tail, the launch."""
    utilisation: Mapping[str, float]
    """Of each unit, while the kernel runs."""
    stalls: Mapping[str, float]
    """Shares of the cycles of all warps."""
    lines: Sequence[LineStalls] = field(repr=False, default=())
    sources: Sequence[LineStalls] = field(repr=False, default=())
    """By line of the program, where `.loc` or a trace in Python says it."""
    loops: Sequence[LoopStalls] = field(repr=False, default=())
    """In the order of their code, those that a warp goes back in: a loop of one iteration is not among them."""
    roofline: float | None = None
    """The time that the busiest of arithmetic, L2 and DRAM needs at least, as a share of the predicted time."""
    launch_us: float = 0.0
    loaded_ghz: float | None = None
    """The clock under the power limit, where a law is known for this card and kind of kernel."""
    resident: int = 0
    """CTAs of an SM at a time."""
    registers: int = 0
    waves: float = 0.0
    dram_bytes: float = 0.0
    l2_bytes: float = 0.0
    extrapolated: bool = False
    """Whether the cycles are a line through replays of two lengths: numbers of iterations of a loop, or of instructions."""
    fit_error: float | None = None
    """How far a third replay is from that line, as a fraction; part of the range."""
    notes: Sequence[str] = ()
    """What the model does not know about this kernel, and what it assumed."""

    question: Any = field(default=None, repr=False, compare=False)
    """What `what_if` needs to predict the launch again (`variants.Question`)."""

    def what_if(
        self, *, cards: str | Sequence[str] = (), clocks: float | Sequence[float] = (), registers: int | Sequence[int] = (),
        kernels: Mapping[str, Any] | None = None,
    ) -> WhatIf:  # fmt: skip
        """What the launch would take with other CTAs per SM, stages of copies, registers, and without bank conflicts; on other cards, at
        other clocks (GHz), with at most so many registers, and with other kernels that take the same arguments, by name.

        The first three change what the model assumes, not the code: whether shared memory and registers allow it is not asked.
        PTXError for a prediction that was not made by `predict`, and for what is not a card, clock, number or mapping.
        """
        if self.question is None:
            raise PTXError("what_if needs a prediction that predict made in this process")
        return self.question.answer(self, cards, clocks, registers, {} if kernels is None else kernels)

    def timeline(self) -> Timeline:
        """What each warp of one SM does, issues or waits for, over time. Print it, or show its `svg()`.

        PTXError for a prediction that was not made by `predict`, and for a kernel that is not replayed.
        """
        if self.question is None:
            raise PTXError("timeline needs a prediction that predict made in this process")
        return self.question.timeline()

    def seconds(self, cycles: float | None = None, clock: float | None = None) -> float | None:
        """The time of so many cycles (default: those predicted) at a clock in GHz (default: this prediction's)."""
        cycles = self.cycles if cycles is None else cycles
        return None if cycles is None else cycles / ((clock or self.clock_ghz) * 1e9) + self.launch_us * 1e-6

    @property
    def time_us(self) -> float | None:
        found = self.seconds()
        return None if found is None else found * 1e6

    @property
    def likely_us(self) -> float:
        """The predicted time at the clock that the power limit leaves, where that is known; else at this prediction's. NaN where only a bound
        is known.
        """
        found = self.seconds(None, self.loaded_ghz)
        return float("nan") if found is None else found * 1e6

    @property
    def range_us(self) -> tuple[float, float | None]:
        low, high = self.seconds(self.low), None if self.high is None else self.seconds(self.high)
        assert low is not None
        return low * 1e6, None if high is None else high * 1e6

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        data: dict[str, Any] = asdict(replace(self, question=None))
        del data["question"]
        data["predicted"] = True
        data["time_us"], data["range_us"] = self.time_us, self.range_us
        return data

    def to_json(self) -> str:
        return json.dumps(self.as_json(), indent=1)

    def facts(self) -> list[tuple[str, str]]:
        """Names and texts of what is printed first."""
        low, high = self.range_us
        span = f"at least {low:,.2f} us" if high is None else f"between {low:,.2f} and {high:,.2f} us"
        rows: list[tuple[str, str]] = []
        if self.time_us is None:
            rows.append(("predicted time", f"{span} at {self.clock_ghz:g} GHz"))
        else:
            rows.append(
                (
                    "predicted time",
                    f"{self.time_us:,.2f} us at {self.clock_ghz:g} GHz, {span}",
                )
            )
            rows.append(("predicted cycles", f"{self.cycles:,}, and {self.launch_us:g} us for the launch"))
        if self.loaded_ghz is not None and self.cycles is not None:
            loaded = self.seconds(None, self.loaded_ghz)
            assert loaded is not None
            rows.append(("at the power limit", f"{loaded * 1e6:,.2f} us predicted at {self.loaded_ghz:g} GHz"))
        rows.append(("bound by", self.binds))
        if self.utilisation:
            used = sorted(self.utilisation.items(), key=lambda kv: -kv[1])
            rows.append(("utilisation", ", ".join(f"{name} {share:.0%}" for name, share in used if share >= 0.005)))
        if self.stalls:
            waits = sorted(self.stalls.items(), key=lambda kv: -kv[1])
            rows.append(("warps wait for", ", ".join(f"{name} {share:.0%}" for name, share in waits if share >= 0.01)))
        if self.roofline is not None:
            rows.append(
                ("roofline", f"{self.roofline:.0%} of the predicted time is the least that the busiest unit needs")
            )
        if self.resident:
            text = f"{self.resident} CTAs per SM, {self.registers} registers, {self.waves:.2f} waves"
            rows.append(("occupancy", text))
        if self.extrapolated:
            error = "" if self.fit_error is None else f"; a third replay is {self.fit_error:.1%} off it"
            rows.append(("extrapolated", f"a line through replays of two lengths{error}"))
        return rows

    def __str__(self) -> str:
        out = [f"{self.kernel} on {self.card} (predicted, not measured)"]
        out += [f"  {name:<19}{text}" for name, text in self.facts()]
        out += _listed("predicted stalls by PTX line", self.lines, 11)
        out += _listed("predicted stalls by source line", self.sources, 26)
        if self.loops:
            out += ["  predicted loops", *(f"    {loop}" for loop in self.loops[:8])]
        out += [f"  note: {note}" for note in self.notes]
        return "\n".join(out)

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in self.facts())
        lines = _cells(self.lines)
        sources = _cells(self.sources)
        loops = [[str(loop)] for loop in self.loops]
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        title = html.escape(f"{self.kernel} on {self.card} (predicted, not measured)")
        return (
            f"<h3>{title}</h3><table>{rows}</table><h4>Predicted stalls by PTX line</h4>"
            + table(("share", "line", "waits for", "PTX"), lines)
            + (
                f"<h4>Predicted stalls by source line</h4>{table(('share', 'line', 'waits for', 'source'), sources)}"
                if sources
                else ""
            )
            + (f"<h4>Predicted loops</h4>{table(('loop',), loops)}" if loops else "")
            + f"<ul>{notes}</ul>"
        )


def _worst(lines: Sequence[LineStalls], count: int) -> list[tuple[float, LineStalls]]:
    """Those with most waits, and their share."""
    whole = sum(line.total for line in lines) or 1.0
    return [(line.total / whole, line) for line in sorted(lines, key=lambda line: -line.total)[:count]]


def _listed(title: str, lines: Sequence[LineStalls], width: int) -> list[str]:
    found = [
        f"    {share:>4.0%}  {line.place:<{width}} {line.reason:<29} {line.text.strip()[:70]}"
        for share, line in _worst(lines, 8)
    ]
    return [f"  {title}", *found] if found else []


def _cells(lines: Sequence[LineStalls]) -> list[list[str]]:
    return [[f"{share:.1%}", line.place, line.reason, line.text.strip()] for share, line in _worst(lines, 20)]


@dataclass(frozen=True)
class Variant:
    """The launch with one thing different."""

    name: str
    prediction: Prediction | None
    lacking: str = ""
    """Why the prediction is missing."""


@dataclass(frozen=True)
class WhatIf:
    """A table of variants of a prediction. All times are predicted."""

    base: Prediction
    variants: Sequence[Variant]

    HEAD = ("variant", "predicted us", "range", "against", "CTAs per SM", "registers", "bound by")

    def rows(self) -> list[tuple[str, ...]]:
        """The texts of the table, the prediction itself first."""
        return [self._row("as it is", self.base), *(self._row(v.name, v.prediction, v.lacking) for v in self.variants)]

    def _row(self, name: str, found: Prediction | None, lacking: str = "") -> tuple[str, ...]:
        if found is None:
            return (name, "", "", "", "", "", lacking)
        low, high = found.range_us
        span = f"{low:,.2f} or more" if high is None else f"{low:,.2f} to {high:,.2f}"
        time, base = found.time_us, self.base.time_us
        against = "" if time is None or not base else f"{time / base:.2f}"
        resident = str(found.resident) if found.resident else ""
        return (
            name,
            "" if time is None else f"{time:,.2f}",
            span,
            against,
            resident,
            str(found.registers),
            found.binds.partition(" (")[0],
        )

    def __str__(self) -> str:
        rows = [self.HEAD, *self.rows()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.HEAD) - 1)]
        lines = [f"{self.base.kernel} on {self.base.card}, what if (predicted, not measured)"]
        for row in rows:
            cells = [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:-1], widths[1:], strict=True)),
                row[-1],
            ]
            lines.append("  " + "  ".join(cells).rstrip())
        return "\n".join(lines)

    def as_json(self) -> list[dict[str, Any]]:
        """As plain data: of each variant its name, and its prediction or what it lacks."""
        return [
            {"variant": v.name, "lacking": v.lacking or None, "prediction": v.prediction and v.prediction.as_json()}
            for v in self.variants
        ]

    def _repr_html_(self) -> str:
        return table(self.HEAD, self.rows())
