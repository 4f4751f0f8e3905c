"""Static instruction mix: how many instructions of which kind a function has, in all and in each loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..dialects.ptx.instruction import Instruction
from .cfg import CFG
from .loops import LoopForest

CLASSES: tuple[str, ...] = (
    "tensor core",
    "fp64",
    "fp32",
    "fp16",
    "special function",
    "integer",
    "logic",
    "compare",
    "convert",
    "move",
    "global memory",
    "shared memory",
    "local memory",
    "parameter and constant",
    "generic memory",
    "texture and surface",
    "async copy",
    "atomic",
    "warp",
    "barrier",
    "control",
    "other",
)
"""The kinds, by the unit of the SM or the memory that an instruction keeps busy, in the order in which they
are shown."""

_SPACES = {
    "global": "global memory",
    "shared": "shared memory",
    "shared::cta": "shared memory",
    "shared::cluster": "shared memory",
    "local": "local memory",
    "param": "parameter and constant",
    "param::entry": "parameter and constant",
    "param::func": "parameter and constant",
    "const": "parameter and constant",
}
_FLOATS = {
    "f64": "fp64",
    "f32": "fp32",
    "f32x2": "fp32",
    "tf32": "fp32",
    "f16": "fp16",
    "f16x2": "fp16",
    "bf16": "fp16",
    "bf16x2": "fp16",
}


def kind_of(op: Instruction) -> str:
    """The kind of an instruction, one of `CLASSES`."""
    modifiers = op.modifiers
    if op.unit == "memory":
        return _space(modifiers)
    if op.unit and op.unit != "arithmetic":
        return op.unit
    found = next((_FLOATS[m] for m in reversed(modifiers) if m in _FLOATS), None)
    return found or ("integer" if op.unit else "other")


def _space(modifiers: Iterable[str]) -> str:
    return next((_SPACES[m] for m in modifiers if m in _SPACES), "generic memory")


@dataclass(slots=True)
class Mix:
    """Counts of a function: instructions by kind and by spelled opcode (`fma.rn.f32`); for each loop, those
    inside it."""

    kinds: Counter[str] = field(default_factory=Counter[str])
    opcodes: Counter[str] = field(default_factory=Counter[str])
    loops: list[Counter[str]] = field(default_factory=list[Counter[str]])
    """By kind, one entry per loop of the forest, inner loops included."""

    @property
    def total(self) -> int:
        return self.kinds.total()


def spelled(op: Instruction) -> str:
    """Opcode with modifiers: `ld.global.v4.f32`."""
    return ".".join((op.opcode, *op.modifiers))


def instruction_mix(cfg: CFG, loops: LoopForest) -> Mix:
    """Count the instructions of a function."""
    mix = Mix(loops=[Counter() for _ in loops.loops])
    for b, block in enumerate(cfg.blocks):
        here: Counter[str] = Counter()
        for op in block.ops:
            if isinstance(op, Instruction):
                here[kind_of(op)] += 1
                mix.opcodes[spelled(op)] += 1
        mix.kinds.update(here)
        for i in loops.around(b):
            mix.loops[i].update(here)
    return mix
