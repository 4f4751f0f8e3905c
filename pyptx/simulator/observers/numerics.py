"""What the matrix instructions of a launch lose, line by line: errors against the true sums, addends that alignment cuts off,
overflow, and what another architecture would have computed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ...diagnostics import PTXError, SimulationError
from ...numerics import quiet
from ...numerics.tensor_cores.losses import losses
from ...numerics.tensor_cores.rules import GENERATIONS
from ...numerics.tensor_cores.sums import Factors, Sum
from ..machine.machine import Action, Machine, Observer
from ..machine.program import Inst

Array = Any
ARCHITECTURES = tuple(f"sm_{numbers[0]}" for numbers in GENERATIONS.values())
"""One for each generation of tensor cores."""


@dataclass(slots=True)
class LineNumerics:
    """The sums of one matrix instruction: elements of D, each time it was executed."""

    text: str
    filename: str | None
    line: int | None
    source: str = ""
    """The place in the program that the PTX was made from (`.loc`), `file:line`."""
    kind: str = ""
    """How it is called in the table of sums: instruction, K of the machine instruction, types of D, A and B."""
    fraction: int = 0
    """Bits of fraction to which alignment cuts addends; 0: they are not aligned."""
    sums: int = 0
    worst_ulps: float = 0.0
    """The largest error, in units in the last place of D's type."""
    error: float = 0.0
    """The norm of the errors."""
    norm: float = 0.0
    """The norm of the true sums."""
    cut: int = 0
    """Sums some of whose addends lost bits to alignment."""
    lost: int = 0
    """Sums some of whose addends, not zero, lost all bits to alignment."""
    overflowed: int = 0
    """Sums of finite numbers that are infinite."""
    not_finite: int = 0
    """Sums with infinities or NaNs among the operands: nothing else counts them."""
    differ: dict[str, int] = field(default_factory=dict[str, int])
    """Architecture -> sums that come out differently there; only those that have the instruction."""

    def merge(self, other: LineNumerics) -> None:
        """Add other sums of it."""
        for name in ("sums", "cut", "lost", "overflowed", "not_finite"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.worst_ulps = max(self.worst_ulps, other.worst_ulps)
        self.error = math.hypot(self.error, other.error)
        self.norm = math.hypot(self.norm, other.norm)
        self.differ = {name: count + other.differ.get(name, 0) for name, count in self.differ.items()}

    @property
    def relative_error(self) -> float:
        """Norm of the errors over norm of the true sums."""
        return _ratio(self.error, self.norm)


class Numerics(Observer):
    """Collects a `LineNumerics` for each matrix instruction of floating-point numbers; `str()` is a table."""

    def __init__(self, lines: dict[int, LineNumerics] | None = None, arch: str = "") -> None:
        self.lines: dict[int, LineNumerics] = lines or {}
        self.arch = arch
        self._others: dict[int, list[tuple[Sum, list[str]]]] = {}
        self._warps: Array = None

    def attach(self, machine: Machine) -> None:
        if machine.arithmetic.sums != "hardware":
            raise SimulationError(
                f'numerics=True tells what the sums of arithmetic="hardware" lose, not those of {machine.arithmetic.sums!r}'
            )
        self.machine = machine
        self.arch = machine.arithmetic.arch

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.family.unit != "tensor core":
            return action
        machine = self.machine

        def watched(mask: Array) -> object:
            self._warps = machine.active(inst, mask).reshape(-1, 32).any(axis=1)
            return action(mask)

        return watched

    def summed(
        self, inst: Inst, lane: int, how: Sum, a: Array, b: Array, c: Array, factors: Factors, result: Array
    ) -> None:
        if result.ndim > 2:  # the warps of the batch, of which some execute it
            here = self._warps
            a, b, c, result = a[here], b[here], c[here], result[here]
            factors = None if factors is None else (factors[0][here], factors[1][here])
        line = self._line(inst, how)
        with quiet():
            found = losses(how, a, b, c, factors, result)
            line.sums += result.size
            line.worst_ulps = max(line.worst_ulps, float(found.ulps.max(initial=0)))
            line.error = math.hypot(line.error, float(np.linalg.norm(found.error)))
            line.norm = math.hypot(line.norm, float(np.linalg.norm(found.exact)))
            line.cut += int(np.count_nonzero(found.cut))
            line.lost += int(np.count_nonzero(found.lost))
            line.overflowed += int(np.count_nonzero(found.overflowed))
            line.not_finite += int(np.count_nonzero(~found.finite))
            for other, names in self._others[inst.number]:
                unlike = other(a, b, c, factors) != result
                zeros = unlike & (found.exact == 0) & (found.error == 0)  # +0 and -0 are one number
                count = int(np.count_nonzero(unlike & ~zeros & found.finite))
                line.differ |= {name: line.differ[name] + count for name in names}

    def _line(self, inst: Inst, how: Sum) -> LineNumerics:
        found = self.lines.get(inst.number)
        if found is None:
            origin = self.machine.program.origin(inst)
            source = origin[0].location if origin else ""
            found = self.lines[inst.number] = LineNumerics(
                inst.text, inst.filename, inst.line, source, _name(how), how.rule.fraction
            )
            self._others[inst.number] = list(_elsewhere(how))
            for _, names in self._others[inst.number]:
                found.differ |= dict.fromkeys(names, 0)
        return found

    # -------------------------------------------------------------------------------------------------- totals

    def merge(self, other: Numerics) -> None:
        """Add what other CTAs of the same launch lost."""
        self.arch = self.arch or other.arch
        for number, line in other.lines.items():
            if number in self.lines:
                self.lines[number].merge(line)
            else:
                self.lines[number] = line

    @property
    def relative_error(self) -> float:
        """Norm of the errors of all sums over norm of the true sums."""
        lines = self.lines.values()
        return _ratio(math.hypot(*(x.error for x in lines)), math.hypot(*(x.norm for x in lines)))

    def data(self) -> dict[str, Any]:
        """All of it as plain data; a relative error is None where the true sums are zero and D is not."""
        lines = [{**asdict(x), "relative_error": _finite(x.relative_error)} for x in self._sorted()]
        return {"arch": self.arch, "relative_error": _finite(self.relative_error), "lines": lines}

    def json(self) -> str:
        """`data()` as JSON."""
        return json.dumps(self.data(), indent=1)

    def _sorted(self) -> list[LineNumerics]:
        return sorted(self.lines.values(), key=lambda x: (x.filename or "", x.line or 0))

    def __str__(self) -> str:
        if not self.lines:
            return f"numerics on {self.arch}: no matrix instruction of floating-point numbers was executed"
        rows = [
            f"numerics on {self.arch}: errors of D against the true sum of one instruction",
            f"{'sums':>12} {'worst ulps':>10} {'rel. error':>10} {'cut':>6} {'lost':>6} {'overflow':>8}  instruction",
        ]
        file: str | None = None
        for line in _by_place(self._sorted()):
            if line.filename != file:
                file = line.filename
                rows.append(f"{'':>59}{file or ''}")
            place = f"{line.line}: " if line.line is not None else ""
            numbers = (
                f"{line.sums:>12,} {_ulps(line.worst_ulps):>10} {line.relative_error:>10.1e} {_share(line.cut, line.sums):>6} "
                f"{_share(line.lost, line.sums):>6} {line.overflowed:>8,}"
            )
            rows.append(f"{numbers}  {place}{line.kind}{f', {line.source}' if line.source else ''}")
            unlike: dict[int, list[str]] = {}
            for name, count in line.differ.items():
                unlike.setdefault(count, []).append(name)
            unlike.pop(0, None)
            if unlike:
                told = "; ".join(f"{_share(count, line.sums)} on {', '.join(names)}" for count, names in unlike.items())
                rows.append(f"{'':>59}differ: {told}")
            if line.not_finite:
                rows.append(f"{'':>59}{line.not_finite:,} with operands that are not finite")
        rows.append(f"relative error of all sums: {self.relative_error:.1e}")
        return "\n".join(rows)


def _elsewhere(how: Sum) -> Iterable[tuple[Sum, list[str]]]:
    """The other ways in which the instruction is summed, and the architectures."""
    found: dict[tuple[Any, Any], tuple[Sum, list[str]]] = {}
    for name in ARCHITECTURES:
        try:
            other = how.on(name)
        except PTXError:
            continue
        if (other.kind, other.rule) != (how.kind, how.rule):
            found.setdefault((other.kind, other.rule), (other, []))[1].append(name)
    return found.values()


def _name(how: Sum) -> str:
    kind = how.kind
    scale = f".block{kind.block}.{kind.scale}" if kind.block else ""
    return f"{kind.instruction}.k{kind.k}.{kind.d}.{kind.a}.{kind.b}{scale}"


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.inf if part else 0.0


def _ulps(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _share(part: int, whole: int) -> str:
    return "" if not part else "<0.1%" if part / whole < 5e-4 else f"{part / whole:.1%}"


def _by_place(lines: list[LineNumerics]) -> list[LineNumerics]:
    """The instructions of one place and kind together, such as those of unrolled code."""
    found: dict[object, LineNumerics] = {}
    for line in lines:
        key = (line.filename, line.line, line.source, line.kind)
        found[key] = _together(found[key], line) if key in found else line
    return list(found.values())


def _together(a: LineNumerics, b: LineNumerics) -> LineNumerics:
    return replace(
        a,
        sums=a.sums + b.sums,
        worst_ulps=max(a.worst_ulps, b.worst_ulps),
        error=math.hypot(a.error, b.error),
        norm=math.hypot(a.norm, b.norm),
        cut=a.cut + b.cut,
        lost=a.lost + b.lost,
        overflowed=a.overflowed + b.overflowed,
        not_finite=a.not_finite + b.not_finite,
        differ={name: count + b.differ[name] for name, count in a.differ.items()},
    )
