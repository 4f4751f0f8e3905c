"""Vectors of many registers that instructions take whole, such as the accumulators of `wgmma`: each becomes one list, in
the order of the instruction, as soon as its registers are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..dialects.ptx.syntax import Register, Vector, operand_tokens
from ..ssa.statement import Reg, Shape
from .body import Body

__all__ = ["Fragments"]

_LEAST = 8
"""Registers of a vector that is worth a name of its own."""
_SHORT = 60
"""Characters of a list that is worth a name even if one instruction alone takes it."""


class Fragments:
    """Those of one function."""

    def __init__(self) -> None:
        self.uses: dict[tuple[Reg, ...], int] = {}
        self.complete: dict[int, list[tuple[Reg, ...]]] = {}
        """The vectors by the statement that mentions the last of their registers first."""

    def observe(self, shape: Shape, regs: Sequence[Reg]) -> None:
        """Count the long vectors that a statement reads, or reads and writes."""
        at = 1 if shape.guard >= 0 else 0
        for operand in shape.layout:
            count = sum(1 for t in operand_tokens(operand) if t in ("$", "=", "~"))
            if count >= _LEAST and isinstance(operand, Vector) and count == len(operand.elements):
                roles = {e.role for e in operand.elements if isinstance(e, Register)}
                vector = tuple(regs[at : at + count])
                if "=" not in roles and len(set(vector)) == count:
                    self.uses[vector] = self.uses.get(vector, 0) + 1
            at += count

    def schedule(self, mentioned: Mapping[Reg, int]) -> None:
        """Find out where each vector is complete, given where each register is mentioned first."""
        for vector in self.uses:
            self.complete.setdefault(max(mentioned[r] for r in vector), []).append(vector)

    def write(self, function: Body, start: int, end: int) -> None:
        """Give the vectors that statements [start, end) have completed a name."""
        if not self.complete:
            return
        for at in range(start, end):
            for vector in self.complete.get(at, ()):
                self._name(function, vector)

    def _name(self, function: Body, vector: tuple[Reg, ...]) -> None:
        if any(r not in function.bound for r in vector):
            return
        text = function.sequence(vector)
        if text.isidentifier() or (self.uses[vector] < 2 and (len(text) > _SHORT or text[0] != "[")):
            return
        name = function.names.fresh("frag")
        function.write_line(f"{name} = {text}")
        for i, reg in enumerate(vector):
            function.expressions[reg] = f"{name}[{i}]"
            function.arrays[reg] = name, i
        function.array_sizes[name] = len(vector)
