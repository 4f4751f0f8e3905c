"""FP8 products that tensor cores with short sums add up for too long.

The tensor cores of sm_89 (mma) and sm_90 (wgmma) keep 13 bits of fraction of a sum of FP8 products, in registers of f32 too
(docs/simulator.md), so that what they lose grows with K. Kernels that need more accuracy add the accumulators to other f32
registers every few instructions, by ordinary additions, and begin again from zero: this is called promotion. Counted is, for each
accumulator, how many products have been added since it began: from zero, by scale-d or because a register was set to zero, or
from what no such instruction has made. What ordinary instructions compute from an accumulator and leave in an accumulator counts as one that
goes on, as where flash attention scales it.

Nothing is watched in kernels without such instructions.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ....diagnostics import PTXError
from ....numerics.tensor_cores.rules import read_kind, rule_for
from ...machine.binding import meaning_of
from ...machine.machine import Action
from ...machine.program import Inst, Pair, Program, Reg, leaves
from ...machine.registry import Pure
from ..rule import Rule
from ..state.context import Context, Part
from ..state.loops import loop_of
from ..state.registers import moves, truth

Array = Any
INTERVAL = 128
"""Products that are added up before a promotion, at most: four instructions with K = 32. DeepSeek-V3 (arXiv 2412.19437, section
3.3.2) found it to be the smallest interval that costs little; CUTLASS's mma_promotion_interval is four instructions by default.
"""
SHORT = 13
"""Bits of fraction of a short sum; the others have 23 or more."""


def products_of(inst: Inst, arch: str) -> int:
    """The products that an instruction adds to each element, if the hardware sums them in few bits; else 0."""
    if not inst.family.sums or len(inst.types) < 3:
        return 0
    sparse = any(word.startswith("sp") for word in (*inst.opcode.split("."), *inst.modifiers))
    k = next(int(found[1]) for m in inst.modifiers if (found := re.fullmatch(r"m\d+n\d+k(\d+)", m)))
    d, a, b = inst.types[:3]
    products = k // 2 if sparse else k
    try:
        rule = rule_for(read_kind(f"{inst.family.sums}.k{products}.{d}.{a}.{b}.{d}"), arch)
    except PTXError:  # integers, f64, and what the architecture does not have
        return 0
    return 0 if rule.emulation or rule.fraction > SHORT else products


def _sources(program: Program, pure: set[int], accumulators: set[Reg]) -> set[Reg]:
    """These registers, and those that reach them through moves and ordinary arithmetic."""
    found = set(accumulators)
    computing = [i for i in program.instructions if moves(i) or i.number in pure]
    size = -1
    while size != len(found):
        size = len(found)
        for inst in computing:
            for written, read in _flows(inst):
                if not found.isdisjoint(written):
                    found.update(read)
    return found


def _flows(inst: Inst) -> list[tuple[list[Reg], list[Reg]]]:
    """What is written, and from what."""
    if inst.copies:
        pairs = [o for o in inst.operands if isinstance(o, Pair) and isinstance(o.first, Reg)]
        return [([p.first], [p.second] if isinstance(p.second, Reg) else []) for p in pairs]  # pyright: ignore[reportReturnType]
    return [(list(inst.written), [r for r in inst.needs if r != inst.guard])]


FP8_PROMOTION = Rule(
    "fp8-promotion",
    (),
    f"more than {INTERVAL} FP8 products are added up in an accumulator whose sums keep {SHORT} bits (sm_89, `wgmma` of sm_90)",
    f"add the accumulator to f32 registers after at most {INTERVAL} products (DeepSeek-V3, arXiv 2412.19437, section 3.3.2; CUTLASS "
    "does so by default), and begin again from zero, with scale-d = 0 or registers that are zero",
    "advice",
)


class Promotion(Part):
    """How many products each accumulator holds."""

    rules = (FP8_PROMOTION,)

    def __init__(self, context: Context):
        super().__init__(context)
        machine = self.machine
        program = machine.program
        arch = machine.arithmetic.arch or program.target
        self.products = {i: n for i in program.instructions if (n := products_of(i, arch))}
        self.arch = arch
        if not self.products:
            return
        accumulators = {
            r for i in self.products for o in (i.operands[0], i.operands[i.family.addend]) for r in _registers(o)
        }
        bodies = [i for segment in program.segments for i in segment.body]
        pure = {i.number for i in bodies if not i.copies and isinstance(meaning_of(machine, i), Pure)}
        watched = _sources(program, pure, accumulators)
        self.pure = pure
        self.place = {reg: at for at, reg in enumerate(sorted(watched, key=lambda r: (r.pool, r.slot)))}
        self.count = np.zeros((len(watched), machine.lanes), np.int32)
        """Products in each register of each lane."""
        self.most: dict[Inst, tuple[int, int]] = {}
        """The most products after an instruction, and the lane that has them."""

    def start(self) -> None:
        if self.products:
            self.count[...] = 0
            self.most.clear()

    def bound(self, inst: Inst, action: Action) -> Action:
        if not self.products:
            return action
        if inst in self.products:
            return self._multiplying(inst, action)
        flows = [([r for r in written if r in self.place], read) for written, read in _flows(inst)]
        flows = [(written, [r for r in read if r in self.place]) for written, read in flows if written]
        if not flows:
            return action
        hands_on = moves(inst) or inst.number in self.pure
        machine = self.machine

        def watched(mask: Array) -> object:
            here = machine.active(inst, mask)
            held = [self._held(read if hands_on else []) for _, read in flows]
            result = action(mask)
            for (written, _), (products, something) in zip(flows, held, strict=True):
                for reg in written:
                    set_to_zero = something & ~self._something(reg)
                    np.copyto(self.count[self.place[reg]], np.where(set_to_zero, 0, products), where=here)
            return result

        return watched

    def _multiplying(self, inst: Inst, action: Action) -> Action:
        machine, count = self.machine, self.count
        products = self.products[inst]
        addend = inst.operands[inst.family.addend]
        before, after = self._at(_registers(addend)), self._at(_registers(inst.operands[0]))
        at = inst.family.adds_if(inst.modifiers)

        def watched(mask: Array) -> object:
            here = machine.active(inst, mask)
            adds = True if at is None else truth(machine, inst.operands[at])
            found = products + np.where(adds, count[before].max(axis=0, initial=0), 0)
            count[after] = np.where(here, found, count[after])
            lane = int(np.argmax(np.where(here, found, 0)))
            if found[lane] > self.most.get(inst, (0, 0))[0]:
                self.most[inst] = int(found[lane]), lane
            return action(mask)

        return watched

    def _held(self, registers: list[Reg]) -> tuple[Array, Array]:
        """The products in registers, and where one of them is not zero."""
        products, something = np.zeros(self.machine.lanes, np.int32), np.zeros(self.machine.lanes, np.bool_)
        for reg in registers:
            products = np.maximum(products, self.count[self.place[reg]])
            something |= self._something(reg)
        return products, something

    def _something(self, reg: Reg) -> Array:
        """Where a register is not zero."""
        return self.machine.row(reg).reshape(-1, self.machine.lanes).any(axis=0)

    def _at(self, registers: list[Reg]) -> Array:
        return np.array([self.place[r] for r in registers if r in self.place], np.intp)

    def finish(self) -> None:
        """Tell of the longest sum of each loop."""
        if not self.products:
            return
        longest: dict[Inst, Inst] = {}
        for inst, (products, _) in self.most.items():
            if products > INTERVAL:
                loop = loop_of(self.machine.program, inst) or inst
                longest[loop] = max(longest.get(loop, inst), inst, key=lambda i: self.most[i][0])
        for inst in longest.values():
            self._tell(inst, *self.most[inst])

    def _tell(self, inst: Inst, products: int, lane: int) -> None:
        loop = loop_of(self.machine.program, inst)
        k = self.products[inst]
        self.report(
            FP8_PROMOTION,
            inst,
            f"{products} FP8 products are added up in one accumulator ({products // k} instructions with K = {k}) without promotion "
            f"to other f32 registers: the tensor cores of {self.arch} keep {SHORT} bits of fraction of such sums, and the error grows "
            "with K",
            np.array([lane]),
            other=loop,
            role="the first instruction of the loop",
        )


def _registers(operand: Any) -> list[Reg]:
    return [r for r in leaves(operand) if isinstance(r, Reg)]
