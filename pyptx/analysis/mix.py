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

_ROOTS: dict[str, str] = {
    root: kind
    for kind, roots in {
        "tensor core": "mma wgmma tcgen05",
        "special function": "ex2 lg2 sin cos tanh rsqrt rcp sqrt",
        "logic": "and or xor not cnot lop3 shl shr shf prmt bfe bfi brev popc clz bfind fns szext bmsk",
        "compare": "setp set selp slct testp isspacep istypep",
        "convert": "cvt cvta mapa getctarank createpolicy",
        "move": "mov movmatrix",
        "texture and surface": "tex tld4 txq suld sust sured suq",
        "async copy": "cp multimem prefetch prefetchu applypriority discard tensormap",
        "atomic": "atom red",
        "warp": "shfl vote match activemask redux elect",
        "barrier": "bar barrier mbarrier membar fence griddepcontrol",
        "control": "bra brx call ret exit trap brkpt nanosleep pmevent setmaxnreg stacksave stackrestore alloca",
    }.items()
    for root in roots.split()
}
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
_MEMORY = frozenset("ld ldu st ldmatrix stmatrix".split())
_SHARED_ONLY = frozenset("ldmatrix stmatrix".split())


def kind_of(op: Instruction) -> str:
    """The kind of an instruction, one of `CLASSES`."""
    opcode = op.opcode
    root = opcode.partition(".")[0]
    modifiers = op.modifiers
    if opcode.startswith(("tcgen05.", "wgmma.", "wmma.")):
        if root == "wmma":
            return "tensor core" if opcode == "wmma.mma" else _space(modifiers)
        last = opcode.split(".")[1]
        return {
            "mma": "tensor core",
            "mma_async": "tensor core",
            "ld": "tensor core",
            "st": "tensor core",
            "cp": "async copy",
        }.get(last, "barrier")
    if root in _MEMORY:
        return "shared memory" if root in _SHARED_ONLY else _space(modifiers)
    if opcode.startswith(
        (
            "cp.async.wait",
            "cp.async.commit",
            "cp.async.bulk.wait",
            "cp.async.bulk.commit",
            "cp.async.mbarrier",
        )
    ):
        return "barrier"
    found = _ROOTS.get(root)
    if found is not None:
        return found
    for modifier in reversed(modifiers):
        if modifier in _FLOATS:
            return _FLOATS[modifier]
    if root in (
        "add",
        "sub",
        "mul",
        "mad",
        "fma",
        "div",
        "rem",
        "abs",
        "neg",
        "min",
        "max",
        "sad",
        "copysign",
    ):
        return "integer"
    if root in ("mul24", "mad24", "dp4a", "dp2a", "addc", "subc", "madc", "clmad") or root.startswith("v"):
        return "integer"
    return "other"


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
