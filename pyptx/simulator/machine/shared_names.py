"""Shared memory in the author's terms: `full[1]` for the second mbarrier of an array, `tile+96` for a byte of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .program import Program


@dataclass(frozen=True, slots=True)
class Piece:
    """A named part of shared memory: where it begins (an address in its space), its bytes, those of an element."""

    name: str
    start: int
    size: int
    element: int = 1

    def at(self, address: int) -> str:
        """The place of an address in it."""
        offset = address - self.start
        if self.size == self.element > 1:
            return self.name if not offset else f"{self.name}+{offset}"
        if self.element > 1:
            index, rest = divmod(offset, self.element)
            return f"{self.name}[{index}]" + (f"+{rest}" if rest else "")
        return f"{self.name}+{offset}" if offset else self.name


class SharedNames:
    """The variables of a program in shared memory, with what a launch adds to them."""

    def __init__(self, program: Program, dynamic: int):
        self.pieces: list[Piece] = []
        for name, place in program.shared.items():
            start = place.address if place.size >= 0 else program.dynamic_offset + place.address
            size = place.size if place.size >= 0 else dynamic
            self.pieces.append(Piece(name, start, size, place.element))

    def add(self, named: Sequence[tuple[str, str, int, int, int]]) -> None:
        """Names that go before those of the variables, each with its variable, offset, size and bytes of an element."""
        starts = {p.name: p.start for p in self.pieces}
        pieces = [Piece(name, starts[v] + offset, size, e) for name, v, offset, size, e in named if v in starts]
        self.pieces[:0] = pieces

    def at(self, address: int) -> str:
        """The name of the smallest piece that an address lies in, with its place there; empty if none is known."""
        around = [p for p in self.pieces if p.start <= address < p.start + p.size]
        return min(around, key=lambda p: p.size).at(address) if around else ""
