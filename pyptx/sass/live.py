"""Live registers of machine code: a backward dataflow over its control flow graph.

A register is live after an instruction if a path from there reads it before it is surely written. What an instruction under a guard
writes keeps the old value where the guard is false. A call of a subroutine in the same section reads what the subroutine may
read and writes what it surely writes; in the subroutine, what any of its callers needs after the call is live at its return. Of a
function elsewhere nothing is known: its call reads and writes nothing but what nvdisasm says. The stack pointer (R1 in NVIDIA's
ABI) is live to the end of the function.
"""

from __future__ import annotations

from collections.abc import Mapping

from .listing import Function, Instruction
from .operands import Label

__all__ = ["live_after", "successors"]

_BRANCHES = frozenset({"BRA", "JMP", "BRX", "JMX", "BRXU", "JMXU"})
_INDIRECT = frozenset({"BRX", "JMX", "BRXU", "JMXU"})
_CALLS = frozenset({"CALL", "CAL"})
_STACK_POINTER = "R1"
_RETURNS = frozenset({"RET"})
_ENDS = frozenset({"EXIT", "KILL"}) | _RETURNS


def successors(function: Function) -> list[tuple[int, ...]]:
    """The indices of the instructions that may come next in the same subroutine; a call is followed by its return.

    BSYNC falls through: ptxas puts the label of its BSSY after it. An indirect branch goes where nvdisasm says; if it
    does not say, to every label.
    """
    return [_next(i, instruction, function) for i, instruction in enumerate(function.instructions)]


def _next(index: int, instruction: Instruction, function: Function) -> tuple[int, ...]:
    after = (index + 1,) if index + 1 < len(function.instructions) else ()
    if instruction.opcode in _ENDS:
        return after if instruction.guard is not None else ()
    if instruction.opcode not in _BRANCHES:
        return after
    goes = _targets(instruction, function)
    conditional = instruction.guard is not None or any(
        not isinstance(o, Label) for o in instruction.operands if instruction.opcode not in _INDIRECT
    )
    return tuple(dict.fromkeys((*(after if conditional else ()), *goes)))


def _targets(instruction: Instruction, function: Function) -> list[int]:
    if instruction.opcode not in _INDIRECT:
        return [] if instruction.target is None else [instruction.target // 16]
    named = [word.strip("`(),") for word in instruction.note.split()[1:] for word in word.split(",")]
    known = [function.labels[name] for name in named if name in function.labels]
    return [address // 16 for address in known or function.labels.values()]


def live_after(function: Function) -> list[frozenset[str]]:
    """The registers that are live after each instruction."""
    code = function.instructions
    bits = {name: 1 << n for n, name in enumerate(sorted({r for i in code for r in (*i.reads, *i.writes)}))}
    found = _Flow(function, bits).solve()
    sets: dict[int, frozenset[str]] = {}
    for mask in found:
        if mask not in sets:
            sets[mask] = frozenset(name for name, bit in bits.items() if mask & bit)
    return [sets[mask] for mask in found]


class _Flow:
    """The equations, with sets of registers as bits.

    What is live before a routine is `reads | (passes & X)` where X is live at its return: liveness distributes over unions,
    so two solutions, one with an empty and one with a full set at the return, give it for each call.
    """

    def __init__(self, function: Function, bits: Mapping[str, int]):
        self.code = function.instructions
        self.following = successors(function)
        self.order = self._order()
        self.reads = [sum(bits[r] for r in i.reads) for i in self.code]
        self.keeps = [-1 if i.guard is not None else ~sum(bits[r] for r in i.writes) for i in self.code]
        self.callee = [_callee(i) for i in self.code]
        self.callers: dict[int, list[int]] = {}
        """Index of a return -> indices of the calls that it may return to."""
        for entry in {e for e in self.callee if e is not None}:
            calls = [i for i, e in enumerate(self.callee) if e == entry]
            for at in self._returns(entry):
                self.callers.setdefault(at, []).extend(calls)
        self.all = (1 << len(bits)) - 1
        self.stack = bits.get(_STACK_POINTER, 0)

    def solve(self) -> list[int]:
        """Live after each instruction."""
        count = len(self.code)
        nothing, everything = [0] * count, [0] * count  # live before, by what is live at the returns
        while self._sweep(nothing, nothing, everything, 0) | self._sweep(everything, nothing, everything, self.all):
            pass
        before = [0] * count
        while self._sweep(before, nothing, everything, None):
            pass
        return [self._after(i, before, None) for i in range(count)]

    def _sweep(self, before: list[int], nothing: list[int], everything: list[int], at_return: int | None) -> bool:
        """One pass, what comes next before what it follows; whether anything changed."""
        changed = False
        for i in self.order:
            live = self._after(i, before, at_return) & self.keeps[i]
            entry = self.callee[i]
            if entry is not None:
                through = nothing[entry] | (everything[entry] & live)
                live = through | live if self.code[i].guard is not None else through
            live |= self.reads[i]
            if live != before[i]:
                before[i] = live
                changed = True
        return changed

    def _order(self) -> list[int]:
        """Postorder of the control flow graph: as many sweeps as loops are nested, wherever blocks lie in memory."""
        order: list[int] = []
        seen = [False] * len(self.code)
        for entry in range(len(self.code)):
            stack = [(entry, False)]
            while stack:
                index, left = stack.pop()
                if left:
                    order.append(index)
                elif not seen[index]:
                    seen[index] = True
                    stack.append((index, True))
                    callee = _callee(self.code[index])
                    stack += [(n, False) for n in (*self.following[index], *(() if callee is None else (callee,)))]
        return order

    def _after(self, index: int, before: list[int], at_return: int | None) -> int:
        live = self.stack if self.code[index].opcode in _ENDS else 0
        for following in self.following[index]:
            live |= before[following]
        if self.code[index].opcode in _RETURNS:
            if at_return is not None:
                return live | at_return
            for call in self.callers.get(index, ()):
                for following in self.following[call]:
                    live |= before[following]
        return live

    def _returns(self, entry: int) -> list[int]:
        """The returns of a routine."""
        seen, todo = {entry}, [entry]
        while todo:
            for following in self.following[todo.pop()]:
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return [i for i in seen if self.code[i].opcode in _RETURNS]


def _callee(instruction: Instruction) -> int | None:
    """The index of the routine that it calls, if it is in the same section."""
    return instruction.target // 16 if instruction.opcode in _CALLS and instruction.target is not None else None
