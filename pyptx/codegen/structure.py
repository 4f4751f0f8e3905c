"""Blocks, loops and conditions from the branches of a function, in the order of its text.

A label that is branched to from before ends a block, one that is branched to from after starts a loop; blocks and
loops are stretched until they nest (nothing moves: only where their `with` begins or ends). What does not nest, a
branch into the middle of a loop, keeps its label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_DEPTH = 8
"""Deeper structure is harder to read than labels (and Python allows 20 nested blocks)."""
MAX_STACK = 3
"""Blocks that begin at one place, as a switch has one for each case."""
MAX_REGIONS = 1500


@dataclass(eq=False)
class Region:
    """Statements [start, end). `label` is the index of the label statement, `branches` those of the branches to it."""

    kind: str
    start: int
    end: int
    label: int
    branches: list[int]
    otherwise: Region | None = None
    """Of a condition: its else part."""
    jump: int = -1
    """Of an else part: the branch past it, which ends the part before."""
    name: str = ""
    depth: int = 0


@dataclass
class Structure:
    """The regions of a function, and the labels (by index) that stay labels."""

    regions: list[Region]
    explicit: set[int]


def recover(branches: Sequence[tuple[int, int, bool]], keep: set[int]) -> Structure:
    """The structure for branches given as (statement, label statement, guarded); `keep` are labels that must stay."""
    explicit = set(keep)
    while True:
        regions = _regions([b for b in branches if b[1] not in explicit])
        if len(regions) > MAX_REGIONS:
            return Structure([], explicit | {label for _, label, _ in branches})
        bad = _nest(regions)
        while not bad and _separate_else(regions):
            bad = _nest(regions)
        if not bad:
            bad = _stacked(regions) or _too_deep(regions)
        if not bad:
            return Structure(regions, explicit)
        explicit |= bad


def _regions(branches: Sequence[tuple[int, int, bool]]) -> list[Region]:
    by_label: dict[int, list[int]] = {}
    guarded: dict[int, bool] = {}
    for at, label, has_guard in branches:
        by_label.setdefault(label, []).append(at)
        guarded[at] = has_guard
    regions: list[Region] = []
    for label, places in by_label.items():
        before = [b for b in places if b < label]
        behind = [b for b in places if b > label]
        if before:
            kind = "if" if len(before) == 1 and guarded[before[0]] else "block"
            regions.append(Region(kind, before[0], label, label, before))
        if behind:
            regions.append(Region("loop", label, behind[-1] + 1, label, behind))
    _attach_else(regions, guarded)
    return regions


def _attach_else(regions: list[Region], guarded: dict[int, bool]) -> None:
    """`@p bra A; ...; bra B; A: ...; B:`: the block that ends at B becomes the else part of the condition that ends
    at A.
    """
    singles = {r.start: r for r in regions if r.kind == "block" and len(r.branches) == 1 and not guarded[r.start]}
    loops = {r.label for r in regions if r.kind == "loop"}
    for region in list(regions):
        if region.kind != "if" or region.label in loops:
            continue
        other = singles.get(region.end - 1)
        if other is not None and other.start > region.start and other.end > region.end:
            region.otherwise = other
            other.kind, other.jump = "else", other.start
            other.start = region.end
            del singles[region.end - 1]


def _nest(regions: list[Region]) -> set[int]:
    """Stretch regions until they nest; the labels of those that cannot."""
    for _ in range(200):
        crossing = _first_crossing(regions)
        if crossing is None:
            return set()
        first, second = crossing  # first.start < second.start < first.end < second.end
        if second.kind == "block":
            second.start = first.start
        elif second.kind == "if":
            second.kind, second.start = "block", first.start
            _detach(second, regions)
        elif first.kind == "loop":
            first.end = second.end
        elif second.kind == "else":
            condition = next(r for r in regions if r.otherwise is second)
            _detach(condition, regions)
        else:
            return {first.label}
        for region in regions:  # an if that does not begin with its branch, an else that does not follow its if
            if region.kind == "if" and region.start != region.branches[0]:
                region.kind = "block"
                _detach(region, regions)
            if region.otherwise is not None and (
                region.end != region.otherwise.start or region.otherwise.start != region.label
            ):
                _detach(region, regions)
    return {r.label for r in regions}


def _separate_else(regions: list[Region]) -> bool:
    """Give up an else that something else opens before; whether there was one."""
    for region in regions:
        other = region.otherwise
        if other is not None and any(
            r is not other and r.start == other.start and _opening_order(r) < _opening_order(other) for r in regions
        ):
            _detach(region, regions)
            return True
    return False


def _detach(region: Region, regions: list[Region]) -> None:
    other = region.otherwise
    if other is not None:
        region.otherwise = None
        other.kind, other.start, other.jump = "block", min(other.branches[0], other.start), -1


def _first_crossing(regions: list[Region]) -> tuple[Region, Region] | None:
    regions.sort(key=_opening_order)
    stack: list[Region] = []
    for region in regions:
        while stack and stack[-1].end <= region.start:
            stack.pop()
        if stack and region.end > stack[-1].end:
            return stack[-1], region
        stack.append(region)
    return None


def _opening_order(region: Region) -> tuple[int, int, int]:
    return region.start, -region.end, ("block", "else", "if", "loop").index(region.kind)


def _stacked(regions: list[Region]) -> set[int]:
    """Blocks within many others that begin at the same place: all but the outermost."""
    starts: dict[int, list[Region]] = {}
    for region in regions:
        if region.kind == "block":
            starts.setdefault(region.start, []).append(region)
    return {
        region.label
        for same in starts.values()
        if len(same) > MAX_STACK
        for region in sorted(same, key=_opening_order)[1:]
    }


def _too_deep(regions: list[Region]) -> set[int]:
    bad: set[int] = set()
    stack: list[Region] = []
    for region in sorted(regions, key=_opening_order):
        while stack and stack[-1].end <= region.start:
            stack.pop()
        stack.append(region)
        region.depth = len(stack)
        if region.depth > MAX_DEPTH:
            bad.add(region.label)
    return bad
