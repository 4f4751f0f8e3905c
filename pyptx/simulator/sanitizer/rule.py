"""What a rule of the sanitizer is: its name, the sections of the PTX ISA manual that it follows, and its words.

Only rules have findings: a `Finding` refuses a name that no `Rule` has, and `rules.RULES` holds all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...diagnostics import Severity

NAMED: dict[str, Rule] = {}
"""The rules by name."""


@dataclass(frozen=True, slots=True)
class Tolerated:
    """What GPUs do all the same, although the manual does not promise it: breaking the rule is a warning."""

    effect: str
    """What happens on a GPU."""
    when: str = ""
    """In which cases; empty: always."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that kernels keep."""

    name: str
    sections: tuple[str, ...]
    """Of the PTX ISA manual (version `instruction.MANUAL`); findings name the first, or that of the instruction."""
    summary: str
    """What is wrong in a kernel that breaks it: one line of the table in docs/simulator.md."""
    cure: str
    """What a right kernel does: the hint of findings that have none of their own."""
    severity: Severity = "error"
    """Of findings that do not say otherwise."""
    tolerated: Tolerated | None = None
    symptom: bool = False
    """It says what other mistakes lead to: a value that nobody had written yet, results that differ, a fault."""

    def __post_init__(self) -> None:
        assert self.name not in NAMED, f"two rules have the name {self.name}"
        NAMED[self.name] = self

    @property
    def section(self) -> str:
        return self.sections[0] if self.sections else ""
