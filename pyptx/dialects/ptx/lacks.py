"""What a module lacks for an instruction: the version and target that its parts need, those nearest to the module's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .forms import Problem
from .target import FIRST_PTX, Need, Version, all_met, combined, target_in, version_text

__all__ = ["Alternatives", "lack"]

Alternatives = Sequence[Sequence[tuple[str, Need]]]
"""Ways to have something, each with (what, need) of its parts."""


@dataclass(frozen=True, slots=True)
class _Lack:
    """What keeps one alternative from being there: its needs as one, and what is named first that is not met."""

    need: Need
    what: str
    message: str
    cure: tuple[Version, str] | None
    changes: int
    """0: the version has to change, 1: the target, 2: both, 3: the words of `.target`, or nothing helps."""

    @property
    def distance(self) -> tuple[int, Version]:
        return self.changes, self.need.since

    def covers(self, other: _Lack, version: Version) -> bool:
        """Whether it is had wherever the other one is, from this version on."""
        return max(self.need.since, version) <= max(other.need.since, version) and all(
            target_in(t, self.need.targets) for t in FIRST_PTX if self.need.targets and target_in(t, other.need.targets)
        )


def lack(alternatives: Alternatives, version: Version, target: str, options: Sequence[str]) -> Problem | None:
    """None where one of the alternatives is there, else what the nearest of them lack, all of it."""
    if any(all_met((n for _, n in needs), version, target, options) for needs in alternatives):
        return None
    ways = sorted((_lack_of(needs, version, target, options) for needs in alternatives), key=lambda way: way.distance)
    if not ways:
        return None
    nearest = ways[0]
    message = nearest.message
    if nearest.changes in (1, 2):
        apart = [
            w for i, w in enumerate(ways) if w.changes in (1, 2) and not any(o.covers(w, version) for o in ways[:i])
        ]
        apart = [w for i, w in enumerate(apart) if not any(o.covers(w, version) for o in apart[i + 1 :])][:2]
        wanted = ", or ".join(dict.fromkeys(w.need.wanted(version, target) for w in apart))
        given = f"{target} and {version_text(version)}" if " and PTX " in wanted else target
        message = f"{nearest.what} needs {wanted}, not {given}"
        nearest = apart[0]
    cures = tuple((version_text(w.cure[0]), w.cure[1]) for w in (nearest,) if w.cure is not None)
    return Problem(message, -1, word=nearest.what.partition(" ")[0].lstrip("."), cures=cures)


def _lack_of(needs: Sequence[tuple[str, Need]], version: Version, target: str, options: Sequence[str]) -> _Lack:
    what, first = next((w, n) for w, n in needs if not n.met(version, target, options))
    plain = [n for _, n in needs if n.until is None and not n.option]
    need = combined(plain)
    if need is None:  # no target has all of it
        return _Lack(first, what, first.why_not(version, target, what), None, 3)
    if first.until is not None or first.option or need.met(version, target, options):
        cure = first.cure(version, target, options)
        if cure is not None and not all_met((n for _, n in needs), *cure, options):
            cure = None
        return _Lack(need, what, first.why_not(version, target, what), cure, 3)
    cure = need.cure(version, target, options)
    changes = (cure[0] != version) + 2 * (cure[1] != target) - 1 if cure is not None else 3
    if cure is not None and not all_met((n for _, n in needs), *cure, options):
        cure = None
    return _Lack(need, what, need.why_not(version, target, what), cure, changes)
