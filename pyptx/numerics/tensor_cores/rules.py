"""How each tensor core sums: one row of a table for an architecture, an instruction and a kind of operands.

The facts are those of a published model of the hardware, fitted to GPUs from V100 to B200 (arXiv 2511.10909), and of the
machine code of ptxas 13 where an instruction is emulated. A row marked `choice` extends the nearest known one to what neither
covers; docs/simulator.md lists them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ...diagnostics import Diagnostic, PTXError

Emulation = Literal["", "halves", "chain", "fma"]

GENERATIONS: dict[str, tuple[int, ...]] = {
    "Volta": (70, 72),
    "Turing": (75,),
    "Ampere": (80, 82, 86, 87, 88),
    "Ada": (89,),
    "Hopper": (90,),
    "Blackwell": (100, 101, 103, 107, 110),
    "RTX Blackwell": (120, 121),
}
"""Architectures whose tensor cores compute alike. sm_82, sm_86 to sm_88, sm_101 to sm_110 and sm_121 are choices: the source has
the others."""

OLDER = (50, 52, 53, 60, 61, 62)
"""Architectures without tensor cores."""

CLASSES: dict[str, tuple[str, ...]] = {
    "half": ("f16", "bf16"),
    "tf32": ("tf32",),
    "fp8": ("e4m3", "e5m2"),
    "small": ("e3m2", "e2m3", "e2m1"),
    "f64": ("f64",),
}
CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names}


@dataclass(frozen=True)
class Rule:
    """How one instruction sums.

    `unit` products at a time and the accumulator are one fused sum (None: all of the instruction's K). Every addend is cut off,
    toward zero, `fraction` bits below the largest exponent; the exact sum of what is left is cut off to f32 with `kept` bits of
    fraction, or rounded to f16. With `group`, as many products of one block are summed exactly before that, and the group is one
    addend whose exponent is that of its scale factors. Other sums have an `emulation`, which names the sequence of instructions:

    - `halves`: two fused sums, of the elements 0 and 1 and of the elements 2 and 3 of each four, and one addition of C to nearest.
    - `chain`: `unit` products at a time by fma in f32, from zero on, and an addition of the result to C in f32.
    - `fma`: along K, from C on.
    """

    unit: int | None
    fraction: int
    kept: int = 23
    group: int = 1
    emulation: Emulation = ""
    choice: bool = False


_WHOLE = Rule(None, 25)
_CHAIN = {
    "quad.f32": Rule(4, 0, emulation="chain"),
    "quad.f16": Rule(2, 0, emulation="chain"),
    "f64": Rule(None, 0, emulation="fma"),
}
_AMPERE = {**_CHAIN, "half": Rule(8, 24), "tf32": Rule(4, 24)}
_HOPPER = {**_CHAIN, "half": _WHOLE, "tf32": _WHOLE, "fp8": Rule(None, 25, emulation="halves")}
_WHOLE_CHOICE = Rule(None, 25, choice=True)
_SCALED_4 = Rule(None, 35, group=16)

RULES: dict[tuple[str, str], dict[str, Rule]] = {
    ("Volta", "mma"): {"quad.f32": Rule(4, 23), "quad.f16": Rule(4, 23)},
    ("Turing", "mma"): {"quad.f32": Rule(4, 24), "quad.f16": Rule(4, 24), "half": Rule(8, 24)},
    ("Ampere", "mma"): _AMPERE,
    ("Ada", "mma"): {**_AMPERE, "fp8": Rule(16, 13, kept=13)},
    ("Hopper", "mma"): _HOPPER,
    ("Hopper", "wgmma"): {"half": _WHOLE, "tf32": _WHOLE, "fp8": Rule(None, 13, kept=13)},
    ("Blackwell", "mma"): _HOPPER,
    ("Blackwell", "tcgen05"): {"half": _WHOLE, "tf32": _WHOLE, "fp8": _WHOLE, "small": _WHOLE_CHOICE},
    ("Blackwell", "tcgen05.block_scale"): {"fp8": _WHOLE, "small": _WHOLE_CHOICE, "packed": _SCALED_4},
    ("RTX Blackwell", "mma"): {**_HOPPER, "fp8": _WHOLE, "small": _WHOLE_CHOICE},
    ("RTX Blackwell", "mma.block_scale"): {"fp8": _WHOLE, "small": _WHOLE_CHOICE, "packed": _SCALED_4},
}
"""(generation, instruction) -> class of operands -> rule. `quad` is m8n8k4 of f16 with the type of D, `packed` is e2m1 with two elements in a byte."""


@dataclass(frozen=True)
class Form:
    """An instruction that PTX has: the depths K of one of it, the types of D, where it is. `widens`: C may be f16 where D is f32. `rows`: the M
    that tells it from another one (0: any).
    """

    depths: tuple[int, ...]
    results: tuple[str, ...]
    since: int
    needs: str
    widens: bool = False
    rows: int = 0
    blocks: tuple[int, ...] = ()
    scales: tuple[str, ...] = ()


_TCGEN05 = "sm_100a, sm_100f, sm_103a, sm_103f, sm_107a, sm_107f, sm_110a or sm_110f"
_SM120 = "sm_120a, sm_120f, sm_121a or sm_121f"
_BOTH, _F32 = ("f32", "f16"), ("f32",)


def _newer(number: int) -> str:
    return f"sm_{number} or newer"


FORMS: dict[tuple[str, str], tuple[Form, ...]] = {
    ("mma", "f16"): (
        Form((4,), _BOTH, 70, _newer(70), widens=True),
        Form((8,), _BOTH, 75, _newer(75)),
        Form((16,), _BOTH, 80, _newer(80)),
    ),
    ("mma", "bf16"): (Form((8, 16), _F32, 80, _newer(80)),),
    ("mma", "tf32"): (Form((4, 8), _F32, 80, _newer(80)),),
    ("mma", "fp8"): (Form((16, 32), _BOTH, 89, _newer(89)),),
    ("mma", "small"): (Form((32,), _BOTH, 120, _SM120),),
    ("mma", "f64"): (
        Form((4,), ("f64",), 80, _newer(80), rows=8),
        Form((4, 8, 16), ("f64",), 90, _newer(90), rows=16),
    ),
    ("wgmma", "f16"): (Form((16,), _BOTH, 90, "sm_90a"),),
    ("wgmma", "bf16"): (Form((16,), _F32, 90, "sm_90a"),),
    ("wgmma", "tf32"): (Form((8,), _F32, 90, "sm_90a"),),
    ("wgmma", "fp8"): (Form((32,), _BOTH, 90, "sm_90a"),),
    ("tcgen05", "f16"): (Form((16,), _BOTH, 100, _TCGEN05),),
    ("tcgen05", "bf16"): (Form((16,), _F32, 100, _TCGEN05),),
    ("tcgen05", "tf32"): (Form((8,), _F32, 100, _TCGEN05),),
    ("tcgen05", "fp8"): (Form((32,), _BOTH, 100, _TCGEN05),),
    ("tcgen05", "small"): (Form((32,), _BOTH, 100, _TCGEN05),),
    ("mma.block_scale", "fp8"): (Form((32,), _F32, 120, _SM120, blocks=(32,), scales=("ue8m0",)),),
    ("mma.block_scale", "small"): (Form((32,), _F32, 120, _SM120, blocks=(32,), scales=("ue8m0",)),),
    ("mma.block_scale", "packed"): (Form((64,), _F32, 120, _SM120, blocks=(16, 32), scales=("ue8m0", "ue4m3")),),
    ("tcgen05.block_scale", "fp8"): (Form((32,), _F32, 100, _TCGEN05, blocks=(32,), scales=("ue8m0",)),),
    ("tcgen05.block_scale", "small"): (Form((32,), _F32, 100, _TCGEN05, blocks=(32,), scales=("ue8m0",)),),
    ("tcgen05.block_scale", "packed"): (Form((64,), _F32, 100, _TCGEN05, blocks=(16, 32), scales=("ue8m0", "ue4m3")),),
}
"""(instruction, operands) -> its forms, shallow to deep. `packed` is e2m1 with K = 64."""


@dataclass(frozen=True)
class Kind:
    """One matrix instruction: its depth and types; `block` elements along K share a scale factor (0: there is none)."""

    text: str
    instruction: str
    k: int
    d: str
    a: str
    b: str
    c: str
    operands: str
    form: Form
    block: int = 0
    scale: str = ""


_SHAPE = re.compile(r"(?:m(\d+))?(?:n\d+)?k(\d+)")
_DROPPED = re.compile(r"sync|aligned|row|col|mma|mma_async|cta_group::[12]|kind::\w+|scale_vec::[124]X|block_scale")


def _refused(message: str, hint: str | None = None) -> PTXError:
    return PTXError(Diagnostic("error", message, hint=hint))


def read_kind(text: str) -> Kind:
    """`"wgmma.m64n8k16.f32.bf16.bf16"`: instruction, shape, types of D, A, B (and C) as PTX writes them.

    Of the shape only K counts, and without one it is the deepest of the instruction. `sync`, `aligned`, layouts and `kind::` may be
    there. With `block16` or `block32`, or `block_scale` and `scale_vec::`, the last type is that of the scale factors.
    PTXError if there is no such instruction.
    """
    first, *words = text.split(".")
    if first not in ("mma", "wgmma", "tcgen05"):
        raise _refused(f"{text}: {first or 'nothing'} is not a matrix instruction", "known: mma, wgmma, tcgen05")
    shapes = [m for m in map(_SHAPE.fullmatch, words) if m]
    m, k = (int(x or 0) for x in shapes[0].groups()) if shapes else (0, 0)
    block, parts = _block(words)
    types = [w for w in words if not (_SHAPE.fullmatch(w) or _DROPPED.fullmatch(w) or re.fullmatch(r"block\d+", w))]
    scaled = bool(block or parts)
    scale = types.pop() if scaled and types else ""
    if len(types) not in (3, 4):
        raise _refused(
            f"{text}: a kind has the types of D, A and B{' and of the scale factors' if scaled else ''}",
            "for example mma.m16n8k16.f32.bf16.bf16.f32",
        )
    d, a, b, c = (*types, types[0])[:4]
    name = f"{first}.block_scale" if scaled else first
    operands = _operands(text, name, a, b, k or (64 if (a, b) == ("e2m1", "e2m1") and scaled else 0))
    form = _form(text, name, operands, (m, k), d, c)
    k = k or form.depths[-1]
    block = block or (k // parts if parts else 0)
    if scaled and (block not in form.blocks or scale not in form.scales):
        legal = f"blocks of {' or '.join(map(str, form.blocks))} and scale factors of type {' or '.join(form.scales)}"
        raise _refused(f"{text}: {name} of {a} and {b} has {legal}")
    return Kind(text, name, k, d, a, b, c, operands, form, block, scale)


def _block(words: list[str]) -> tuple[int, int]:
    """(elements of a block, blocks along K): one of them is given, both are 0 without scale factors."""
    for word in words:
        if found := re.fullmatch(r"block(\d+)", word):
            return int(found[1]), 0
        if found := re.fullmatch(r"scale_vec::(\d)X", word):
            return 0, int(found[1])
    return 0, int("block_scale" in words)


def _operands(text: str, name: str, a: str, b: str, k: int) -> str:
    """The key of FORMS: types that share a rule and may be mixed have the name of their class."""
    classes = {CLASS_OF.get(t, "") for t in (a, b)}
    if name.endswith("block_scale") and k == 64 and (a, b) == ("e2m1", "e2m1"):
        return "packed"
    if "" in classes or (len(classes) > 1 and not classes <= {"fp8", "small"}):
        raise _refused(f"{text}: {name} does not multiply {a} and {b}", f"known: {', '.join(CLASS_OF)}")
    found = "small" if "small" in classes else classes.pop()
    if found != "half":
        return found
    if a != b and name != "tcgen05":
        raise _refused(f"{text}: {name} does not multiply {a} and {b}", f"A and B have the same type, {a} or {b}")
    return "f16" if a == b == "f16" else "bf16"


def _form(text: str, name: str, operands: str, shape: tuple[int, int], d: str, c: str) -> Form:
    m, k = shape
    known = FORMS.get((name, operands), ())
    if not known:
        raise _refused(f"{text}: {name} does not multiply {operands} operands")
    deep = [f for f in known if (not k or k in f.depths) and (not m or m == (f.rows or m))]
    if not deep:
        depths = ", ".join(str(x) for f in known for x in f.depths)
        raise _refused(f"{text}: K = {k} is not a depth of {name} with {operands} operands", f"known: {depths}")
    form = deep[0] if k else deep[-1]
    if d not in form.results or (c != d and not (form.widens and (d, c) == ("f32", "f16"))):
        raise _refused(f"{text}: .{d} and .{c} are not types of D and C here", f"known: {', '.join(form.results)}")
    return form


def generation(arch: str) -> str:
    """The generation of an architecture, `sm_90` or `sm_90a`. PTXError if it is unknown; "" where there are no tensor cores."""
    number = _number(arch)
    return next((name for name, numbers in GENERATIONS.items() if number in numbers), "")


def _number(arch: str) -> int:
    if not isinstance(arch, str):
        raise _refused(f"arch must be the name of a target, not {arch!r}", "such as sm_90a")
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    number = int(found[1]) if found else 0
    known = [*OLDER, *(n for numbers in GENERATIONS.values() for n in numbers)]
    if number not in known:
        raise _refused(f"unknown target {arch}", "known: " + " ".join(f"sm_{n}" for n in known))
    return number


def rule_for(kind: Kind, arch: str) -> Rule:
    """How `kind` sums on an architecture. PTXError if the architecture does not have it."""
    name = generation(arch)
    rules, operands = RULES.get((name, kind.instruction), {}), operands_of(kind)
    if operands not in rules or _number(arch) < kind.form.since:
        raise _refused(f"{kind.text} needs target {kind.form.needs}, not {arch}")
    return rules[operands]


def operands_of(kind: Kind) -> str:
    """The class of operands in RULES."""
    if kind.form.widens:
        return f"quad.{kind.d}"
    return {"f16": "half", "bf16": "half"}.get(kind.operands, kind.operands)
