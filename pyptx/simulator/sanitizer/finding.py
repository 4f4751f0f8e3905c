"""What the sanitizer says about one mistake."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...diagnostics import Diagnostic, origin_lines
from ..machine.program import Inst
from .rule import NAMED, Rule

MOST_FINDINGS = 100
"""Of each rule."""


@dataclass(frozen=True, slots=True)
class Finding(Diagnostic):
    """A rule that a kernel broke at one instruction.

    `filename`, `line` and `column` are the place in the source: the PTX file, or the Python of a traced kernel.
    `other` is the instruction on the other side (of a race, of a copy), or what `role` says, with its place.
    """

    rule: str = ""
    """The name of one of `rules.RULES`."""
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

    def __post_init__(self) -> None:
        if self.rule not in NAMED:
            raise ValueError(f"{self.rule!r} is not the name of a rule of the sanitizer")

    def render(self, source_line: str | None = None) -> str:
        """As a person reads it, with how to see it again."""
        text = Diagnostic.render(self, source_line)
        if self.other is not None and self.other.origin != self.origin:
            text = "\n".join([text, *origin_lines(self.other.origin, f"{self.role} is from")])
        if self.schedule:
            text += f'\nfound by another schedule than the first: simulate(..., schedule="{self.schedule}") replays it'
        return text


class Findings:
    """The findings of a launch: the first of each rule between two instructions, up to `MOST_FINDINGS` of each rule."""

    def __init__(self, before: Findings | None = None) -> None:
        """`before`: of an earlier run of the same launch; what it has is not kept again."""
        self.kept: list[Finding] = []
        self.keys: list[tuple[object, ...]] = []
        """What each of `kept` is the first of."""
        self._known: set[tuple[object, ...]] = set() if before is None else before._known
        self._counts: Counter[str] = Counter() if before is None else before._counts
        """Findings by rule."""
        self.in_step: dict[tuple[int, int], tuple[Inst, Inst]] = {} if before is None else before.in_step
        """Accesses that rely on the lanes of a warp running in step (`Lockstep`): a mistake if another order gives other results."""

    def wants(self, rule: Rule, number: int, other: int | None, key: object) -> bool:
        """Whether a finding of a rule at the instruction with this number is to be kept; it is from now on."""
        known = (rule.name, number, other, key)
        if known in self._known:
            return False
        self._counts[rule.name] += 1
        if self._counts[rule.name] > MOST_FINDINGS:
            return False
        self._known.add(known)
        self.keys.append(known)
        return True

    def merge(self, later: Findings) -> None:
        """Take what other CTAs of the same launch showed: what is known is not kept again."""
        more = later._counts - Counter(str(key[0]) for key in later.keys)
        for key, finding in zip(later.keys, later.kept, strict=True):
            if key not in self._known:
                self._counts[finding.rule] += 1
                if self._counts[finding.rule] <= MOST_FINDINGS:
                    self._known.add(key)
                    self.keys.append(key)
                    self.kept.append(finding)
        self._counts += more
        self.in_step.update(later.in_step)

    def has(self, rule: Rule, number: int) -> bool:
        """Whether there is a finding of a rule at the instruction with this number."""
        return any(known[:2] == (rule.name, number) for known in self._known)

    @property
    def told(self) -> list[Diagnostic]:
        """The findings, and of which rules there are more."""
        full = [rule for rule, count in self._counts.items() if count > MOST_FINDINGS]
        return [
            *self.kept,
            *(
                Diagnostic("note", f"there are more findings of the rule {r} than the {MOST_FINDINGS} that are kept")
                for r in full
            ),
        ]
