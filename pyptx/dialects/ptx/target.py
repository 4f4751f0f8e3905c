"""Targets (`sm_90a`) and PTX versions (`8.7`): what exists where.

PTX ISA 11.1 (.version, .target). Every acceptance fact of the ISA has the shape *PTX version >= v and target in a set*
(plus, for a handful of removed forms, an upper version): `Need` says it, `Target` is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from ...diagnostics import suggest
from .foundation import Data, irdl_attr_definition
from .memo import Memo, Numbers

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

Version = tuple[int, int]

FIRST_PTX: dict[str, Version] = {
    "sm_10": (1, 0), "sm_11": (1, 0), "sm_12": (1, 2), "sm_13": (1, 2), "sm_20": (2, 0), "sm_21": (2, 0),
    "sm_30": (3, 0), "sm_32": (4, 0), "sm_35": (3, 1), "sm_37": (4, 1),
    "sm_50": (4, 0), "sm_52": (4, 1), "sm_53": (4, 2), "sm_60": (5, 0), "sm_61": (5, 0), "sm_62": (5, 0),
    "sm_70": (5, 1), "sm_72": (6, 1), "sm_75": (6, 3), "sm_80": (7, 0), "sm_82": (7, 0), "sm_86": (7, 1), "sm_87": (7, 4),
    "sm_88": (9, 0), "sm_89": (7, 8), "sm_90": (7, 8), "sm_90a": (8, 0), "sm_100": (8, 6), "sm_100a": (8, 6),
    "sm_100f": (8, 8), "sm_101": (8, 6), "sm_101a": (8, 6), "sm_101f": (8, 8), "sm_103": (8, 8), "sm_103a": (8, 8),
    "sm_103f": (8, 8), "sm_107": (9, 4), "sm_107a": (9, 4), "sm_107f": (9, 4), "sm_110": (9, 0), "sm_110a": (9, 0),
    "sm_110f": (9, 0), "sm_120": (8, 7), "sm_120a": (8, 7), "sm_120f": (8, 8), "sm_121": (8, 8), "sm_121a": (8, 8),
    "sm_121f": (8, 8),
}  # fmt: skip
"""The first PTX version that knows each target (PTX ISA 11.1.2; probed where the manual and ptxas differ)."""


def near_targets(name: str, limit: int = 3) -> list[str]:
    """The targets of an unknown target's generation (`sm_91`: 9.x), nearest first."""
    number = re.sub(r"\D", "", name)
    if re.fullmatch(r"sm_\d+[af]?", name) is None:
        return []
    same = [t for t in FIRST_PTX if int(re.sub(r"\D", "", t)) // 10 == int(number) // 10]
    return sorted(same, key=lambda t: abs(int(re.sub(r"\D", "", t)) - int(number)))[:limit]


def runs_on(target: str, arch: str) -> bool:
    """Whether code for an architecture can be made of PTX for a target."""
    own, there = target_of(target), target_of(arch)
    if own.variant == "a":
        return target == arch
    if own.variant == "f":
        return own.number // 10 == there.number // 10 and own.number <= there.number
    return own.number <= there.number


def unknown_target(arch: object) -> str | None:
    """What is wrong with the name of a target, and what was probably meant; None for a target."""
    if not isinstance(arch, str):
        return f'arch must be the name of a target, such as "sm_90a", not {arch!r}'
    if arch in FIRST_PTX:
        return None
    near = near_targets(arch) or suggest(arch, FIRST_PTX)
    proposal = f"did you mean {' or '.join(near)}?" if near else f"known: {' '.join(FIRST_PTX)}"
    return f"unknown arch {arch!r}; {proposal}"


NEWEST_PTX: Version = (9, 5)


def parse_version(text: str) -> Version:
    """`"8.7"` -> (8, 7). ValueError when it is not two integers."""
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(f'a PTX version is written like "8.7", not {text!r}')
    return int(major), int(minor)


def version_text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


@dataclass(frozen=True, slots=True)
class Target:
    """One `.target` architecture: number 90 and variant `""`, `"a"` (arch-specific) or `"f"` (family-specific)."""

    name: str
    number: int
    variant: str

    @property
    def known(self) -> bool:
        return self.name in FIRST_PTX


@lru_cache(maxsize=256)
def target_of(name: str) -> Target:
    """`"sm_90a"` -> Target. ValueError when it is not spelled like a target."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)([af]?)", name)
    if match is None:
        raise ValueError(f"{name!r} is not a target; targets look like sm_80, sm_90a, sm_100f")
    return Target(f"sm_{match[1]}{match[2]}", int(match[1]), match[2])


_LIKE_A_TARGET = re.compile(r"(sm|compute)_(\d+)[\w$]*?([af]?)").fullmatch


def target_meant(name: str) -> str:
    """The known target for which ptxas takes an unknown one: the number counts, and an `a` or `f` at the end (`sm_90b`:
    sm_90). The name itself if there is none.
    """
    match = _LIKE_A_TARGET(name)
    if match is None or name in FIRST_PTX:
        return name
    meant = f"sm_{int(match[2][:9])}{match[3]}"
    return f"{match[1]}_{meant[3:]}" if meant in FIRST_PTX and len(match[2]) < 10 else name


@lru_cache(maxsize=1024)
def target_in(name: str, condition: str) -> bool:
    """Whether a target satisfies a condition: words like `80+` (80 and above), `90a`, `100af` (100a or 100f), any of
    them.
    """
    target = target_of(name)
    for word in condition.split():
        if word.endswith("+"):
            if target.number >= int(word[:-1]):
                return True
            continue
        number = word.rstrip("af")
        variants = word[len(number) :]
        if target.number == int(number) and (target.variant in variants if variants else target.variant == ""):
            if variants and not target.variant:
                continue
            return True
    return False


def condition_text(condition: str) -> str:
    """`"90+"` -> `sm_90 or newer`; `"100af 110a"` -> `sm_100a, sm_100f or sm_110a`."""
    names: list[str] = []
    for word in condition.split():
        if word.endswith("+"):
            names.append(f"sm_{word[:-1]} or newer")
            continue
        number = word.rstrip("af")
        names += [f"sm_{number}{v}" for v in word[len(number) :]] or [f"sm_{number}"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


@dataclass(frozen=True, slots=True)
class Need:
    """What a form or a modifier needs: PTX >= `since`, a target in `targets` (empty: any), PTX <= `until`.

    `until` applies to targets in `until_targets` only (empty: all), for the few forms that newer targets dropped.
    `option` is a word that
    the `.target` directive must have (`!word`: must not have), such as `texmode_independent`.
    """

    since: Version = (1, 0)
    targets: str = ""
    until: Version | None = None
    until_targets: str = ""
    option: str = ""

    def met(self, version: Version, target: str, options: Sequence[str] = ()) -> bool:
        if version < self.since:
            return False
        if self.option and (self.option.removeprefix("!") in options) == (self.option[0] == "!"):
            return False
        if self.targets and not target_in(target, self.targets):
            return False
        if self.until is None or version <= self.until:
            return True
        return bool(self.until_targets) and not target_in(target, self.until_targets)

    def why_not(self, version: Version, target: str, what: str) -> str:
        """A sentence that says which version and target have `what`; call it only where `met` is false."""
        if self.targets and not target_in(target, self.targets):
            where = f"{what} needs target {condition_text(self.targets)}"
            since = max(self.since, min(FIRST_PTX[t] for t in FIRST_PTX if target_in(t, self.targets)))
            if version < since:
                return f"{where} and PTX {version_text(since)} or newer, not {target} and {version_text(version)}"
            return f"{where}, not {target}"
        if version < self.since:
            return f"{what} needs PTX {version_text(self.since)} or newer, and .version is {version_text(version)}"
        if self.until is None:
            word = self.option.removeprefix("!")
            return (
                f"{what} needs .target {target}, {word}"
                if word == self.option
                else f"{what} does not go with .target {word}"
            )
        where = f" on {condition_text(self.until_targets)}" if self.until_targets else ""
        return (
            f"{what} was removed after PTX {version_text(self.until)}{where}, and .version is {version_text(version)}"
        )

    def wanted(self, version: Version, target: str) -> str:
        """What of target and version must change to have it, in words."""
        since = version_text(self.since)
        if not self.targets or target_in(target, self.targets):
            return f"PTX {since} or newer" if version < self.since else ""
        where = f"target {condition_text(self.targets)}"
        return f"{where} and PTX {since} or newer" if version < self.since else where

    def cure(self, version: Version, target: str, options: Sequence[str] = ()) -> tuple[Version, str] | None:
        """The nearest version and target that have it, of those with these options; None if no change of them helps."""
        goal = target if not self.targets or target_in(target, self.targets) else self._nearest(version, target)
        if goal is None:
            return None
        since = max(self.since, FIRST_PTX[goal])
        for changed in (max(version, since), self.until):
            if changed is not None and changed >= since and self.met(changed, goal, options):
                return changed, goal
        return None

    def _nearest(self, version: Version, target: str) -> str | None:
        """The target next to this one that has it, a newer one if there is one, and one that needs no newer PTX."""
        number = target_of(target).number
        fitting = [t for t in FIRST_PTX if target_in(t, self.targets)]

        def distance(name: str) -> tuple[bool, bool, int]:
            apart = target_of(name).number - number
            return apart < 0, FIRST_PTX[name] > max(version, self.since), abs(apart)

        return min(fitting, key=distance, default=None)


def combined(needs: Sequence[Need]) -> Need | None:
    """One need that is met where all these are: the newest version, the targets common to them; None if there are none.

    Targets are newer than some versions: where they decide, the version is one that knows the first of them.
    """
    conditions = list(dict.fromkeys(n.targets for n in needs if n.targets))
    since = max((n.since for n in needs), default=(1, 0))
    targets = ""
    if conditions:
        common = [t for t in FIRST_PTX if all(target_in(t, c) for c in conditions)]
        if not common:
            return None
        same = [c for c in conditions if common == [t for t in FIRST_PTX if target_in(t, c)]]
        targets = same[0] if same else _condition(common)
        since = max(since, min(FIRST_PTX[t] for t in common))
    return Need(since, targets)


def _condition(targets: Sequence[str]) -> str:
    """A condition that these targets satisfy and no others."""
    first = min(target_of(t).number for t in targets)
    if list(targets) == [t for t in FIRST_PTX if target_of(t).number >= first]:
        return f"{first}+"
    return " ".join(t.removeprefix("sm_") for t in targets)


ANYWHERE = Need()


def need(
    since: str = "1.0", targets: str = "", *, until: str | None = None, until_targets: str = "", option: str = ""
) -> Need:
    """`need("7.8", "90+")`: PTX 7.8 and sm_90 or newer. See `target_in` for the notation of `targets`."""
    return Need(parse_version(since), targets, parse_version(until) if until else None, until_targets, option)


def all_met(needs: Iterable[Need], version: Version, target: str, options: Sequence[str] = ()) -> bool:
    return all(n.met(version, target, options) for n in needs)


@irdl_attr_definition
class TargetAttr(Data[tuple[str, str, tuple[str, ...]]]):
    """`#ptx.target<"sm_90a", "8.7">` with optional platform words (`"debug"`, `"texmode_independent"`) after them.

    `data` is (target, version, options). The target of a module is one attribute; passes and verifiers read only this.
    """

    name: ClassVar[str] = "ptx.target"

    @property
    def target(self) -> str:
        return self.data[0]

    @property
    def version(self) -> Version:
        return parse_version(self.data[1])

    @property
    def options(self) -> tuple[str, ...]:
        return self.data[2]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, str, tuple[str, ...]]:
        with parser.in_angle_brackets():
            target = parser.parse_str_literal()
            parser.parse_punctuation(",")
            version = parser.parse_str_literal()
            options: list[str] = []
            while parser.parse_optional_punctuation(","):
                options.append(parser.parse_str_literal())
        return target, version, tuple(options)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for i, word in enumerate((self.data[0], self.data[1], *self.data[2])):
                printer.print_string(", " if i else "")
                printer.print_string_literal(word)


_targets: Memo[TargetAttr, TargetAttr] = Memo()
target_numbers: Numbers[TargetAttr] = Numbers()


def one_target(target: TargetAttr) -> TargetAttr:
    """The first target attribute equal to this one: the verdicts are kept by its identity."""
    found = _targets.get(target)
    if found is None:
        found = _targets[target] = target
    return found
