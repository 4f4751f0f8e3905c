"""Random instructions: drawn from the forms, taken from real files, and edited.

`Draw.instruction()` draws what a form should accept, with a few operands off its path; `Draw.mutate(text)` makes one edit.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pyptx.dialects.ptx.directive_facts import judge_directive
from pyptx.dialects.ptx.forms import Form
from pyptx.dialects.ptx.instruction import OPCODES, Instruction
from pyptx.dialects.ptx.operand_specs import OperandSpec, count_in
from pyptx.dialects.ptx.special_registers import SPECIAL_REGISTERS
from pyptx.dialects.ptx.target import parse_version
from pyptx.dialects.ptx.types import SCALAR_TYPES

TYPED = {
    "%u": ".u32", "%s": ".s32", "%f": ".f32", "%g": ".f64", "%v": ".u64", "%l": ".s64", "%i": ".s16", "%j": ".u16", "%c": ".u8",
    "%e": ".f16", "%x": ".f16x2", "%w": ".v2 .b32", "%y": ".v4 .f32",
}  # fmt: skip
"""The registers that drawn instructions may name beyond those of `pyptx.tools.oracle`: `%u0` to `%u8` are .u32, ..."""
BY_BITS = {1: ("%p",), 8: ("%b", "%c"), 16: "%h %h %h %i %j %e".split(), 32: "%r %r %r %r %u %s %f %x".split(),
           64: "%d %d %d %g %v %l".split(), 128: ("%q",)}  # fmt: skip
SYMBOLS = ("gb", "sb", "cb", "lb", "prm", "tx", "su", "fn", "fn2", "Lx", "tgts", "proto", "ctgts")
CONSTANTS = (
    "0 1 2 4 8 15 16 31 32 33 63 64 128 255 256 512 1000 65535 65536 -1 -8 -128 4294967295 4294967296 -2147483648"
    " 0x10 0xFFU 0xFFFFFFFF 0xFFFFFFFFFFFFFFFF 017 0b101 1U WARP_SZ -WARP_SZ ~0 !0 !1 (1) 1+1 (3-1)*2 1<<4 7&3 1<2 1?2:3 (.s64)1"
    " (.u64)-1"
).split()
FLOATS = (
    "1.0 -1.0 0.0 1e3 .5 2. 0f3F800000 0F00000000 0f7F800000 0d3FF0000000000000 0D0000000000000000 1.0+1.0 (2.5) 1.0/3.0"
    " -0f3F800000 -0d3FF0000000000000"
).split()
ODD = (
    "_ %tid.x %tid %laneid %clock64 %envreg3 %pm0 %is_explicit_cluster %tid.w {%r1} {%r1,%r2} {%h1,%h2} {%d1,%d2} {_,%r2} {1,2}"
    " {%r1,%r2,%r3,%r4} {} !%p1 -%r1 !%r1 %w1 %w1.x %y1.z %r1.b0 %r1.h1 %p1|%p2 %r1|%p2 _|%p1 [%d1] [gb] [%r1+4] [gb+4] (%r1) gb+4"
    " sb+0x10 fn+4 Lx+4 gb gb+-4 gb[1] gb[%r1] sb[%d1+4] cb[WARP_SZ] lb[%laneid+-1] gb[%p1] prm[0] %p1 %b1 %h1 %r1 %d1 %q1 %u1 %s1 %f1 %g1 %v1 %i1 %e1 %x1 Lx fn tx nosuch"
).split()
OFFSETS = (
    "+8",
    "+-16",
    "+0x10",
    "+4+4",
    "+(8)",
    "+WARP_SZ",
    "+4*2",
    "+-(8)",
    "+0",
    "+1U",
    "+!0",
    "+~1",
    "+1<<2",
    "-8",
    "+1.0",
)
INDICES = "0 3 %r1 %d1 %h1 %r2+4 %d1+-1 WARP_SZ 1U -1 %laneid %clock64+2 %tid.x %f1 1.0 %r1-4 {%r1}".split()
GUARDS = ("@%p1 ", "@!%p2 ")
SHARED = Path(__file__).resolve().parent.parent.parent / "shared"
WORDS = (
    "0 5 L2::no_allocate alloc cp dealloc en evict_first evict_last evict_normal evict_unchanged ld matrix::A"
    " matrix::D matrix::scaleA matrix::scaleB matrix::sparseMetadata maxabs mbarrier mbarrier::meet_tx::bytes mma"
    " multicast no_allocate s8.s4 safeadd scratch shift st tex"
).split()
"""Modifiers that ptxas 13.5 knows and no form of ours has: internal ones, and what is not a modifier anywhere else."""


@cache
def known_words() -> list[str]:
    """Every modifier that ptxas is known to know, those of our own forms among them."""
    own = (v for cls in OPCODES.values() for form in cls.forms for slot in form.slots for v in slot.values)
    return sorted({*WORDS, *own})


def declarations(version: str, target: str) -> str:
    """The lines that declare the registers of `TYPED`, as far as this version and target know them."""
    return "".join(
        f".reg {words} {stem}<9>;\n"
        for stem, words in TYPED.items()
        if judge_directive(".reg", words.split(), "entry body", parse_version(version), target) is None
    )


class Draw:
    """Draws instructions from forms, for the registers and symbols that the oracle's header and `declarations` declare."""

    def __init__(self, seed: object, opcodes: list[str] | None = None, oddness: float = 0.02):
        self.random = random.Random(f"{seed}")
        self.oddness = oddness
        """How often an operand is replaced by any other."""
        self.classes = [
            cls
            for opcode, cls in sorted(OPCODES.items())
            if cls.forms and (opcodes is None or opcode.split(".")[0] in opcodes)
        ]

    def instruction(self) -> str:
        """One instruction that its form should accept (needs aside), with a few operands off the form's path."""
        choose = self.random
        while True:
            cls = choose.choice(self.classes)
            drawn = self.of_form(cls, choose.choice(cls.forms))
            if drawn is not None:
                guard = choose.choice(GUARDS) if choose.random() < 0.05 else ""
                return guard + drawn

    def of_form(self, cls: type[Instruction], form: Form) -> str | None:
        """One instruction of a form, or None where the slots drawn do not go together."""
        choose = self.random
        slots: dict[str, str] = {}
        taken: dict[int, bool] = {}
        for slot in form.slots:
            if not slot.required:
                if slot.group:
                    taken.setdefault(slot.group, choose.random() < 0.4)
                if not taken.get(slot.group, choose.random() < 0.3):
                    continue
            slots[slot.name] = choose.choice(slot.values)
        specs = choose.choice(form.alternatives)
        try:
            operands = ", ".join(self.operand(cls, form, spec, slots) for spec in specs)
        except KeyError:
            return None
        modifiers = form.modifiers(slots)
        if choose.random() < 0.1:
            choose.shuffle(modifiers)
        return f"{form.opcode}{''.join('.' + m for m in modifiers)} {operands};".replace(" ;", ";")

    def operand(self, cls: type[Instruction], form: Form, spec: OperandSpec, slots: dict[str, str]) -> str:
        choose = self.random
        if choose.random() < self.oddness:
            return choose.choice(choose.choice((ODD, CONSTANTS, FLOATS)))
        if spec.kind == "address":
            return self.address(cls, form, spec, slots)
        if spec.kind == "pair":
            first = self.operand(cls, form, spec.parts[0], slots)
            if spec.optional_part and choose.random() < 0.5:
                return first
            return f"{first}|{self.operand(cls, form, spec.parts[1], slots)}"
        if spec.kind == "sink":
            return "_"
        if spec.kind == "arguments":
            return choose.choice(("()", "(%r1)", "(%r1, %r2)", "(1)", "(%f1)", "(_)", "(%d1)"))
        return self.value(cls, form, spec, slots)

    def address(self, cls: type[Instruction], form: Form, spec: OperandSpec, slots: dict[str, str]) -> str:
        choose = self.random
        base_spec = spec.parts[0]
        draw = choose.random()
        bits = SCALAR_TYPES[base_spec.type].bits if base_spec.type in SCALAR_TYPES else choose.choice((64, 64, 32))
        if cls.reference and draw < 0.6:
            base = "tx" if cls.reference == "texref" else "su"
        elif draw < 0.5:
            base = self.numbered(bits)
        elif draw < 0.85:
            places, _ = cls.variables(spec.name, slots, alone=True)
            names = {"global": "gb", "shared": "sb", "const": "cb", "local": "lb", "entry": "prm"}
            base = choose.choice([names[p] for p in sorted(places) if p in names] or ["gb"])
        elif draw < 0.97:
            base = choose.choice(SYMBOLS)
        else:
            base = choose.choice(
                "%r3 %h2 %b1 %p1 0 %clock64 %tid.x %laneid %q1 %f1 %w1.x 16 0x100 -4 1.0 WARP_SZ".split()
            )
        offset = choose.choice(OFFSETS[:3]) if choose.random() < 0.2 else ""
        if spec.parts[1:] or cls.reference:
            offset = ""
        if choose.random() < 0.01:
            offset = choose.choice(OFFSETS)
        rest = "".join(", " + self.operand(cls, form, part, slots) for part in spec.parts[1:])
        if base.isidentifier() and not rest and choose.random() < 0.03:
            return f"{base}[{choose.choice(INDICES)}]"
        unified = ".unified" if "." in spec.flags and choose.random() < 0.1 else ""
        return f"[{base}{offset}{rest}]{unified}"

    def value(self, cls: type[Instruction], form: Form, spec: OperandSpec, slots: dict[str, str]) -> str:
        choose = self.random
        wanted, count = _type(cls, spec, slots)
        if count is None or (count == 1 and choose.random() < 0.7):
            return self.scalar(form, spec, wanted)
        if "__" in spec.flags and choose.random() < 0.1:
            return "_"
        if choose.random() < 0.03:
            count = max(1, count + choose.choice((-1, 1)))
        elements = [self.scalar(form, spec, wanted) for _ in range(min(count, 130))]
        return "{" + ", ".join(elements) + "}"

    def scalar(self, form: Form, spec: OperandSpec, wanted: str) -> str:
        choose = self.random
        draw = choose.random()
        if wanted in ("imm",):
            return self.constant(form, spec)
        if wanted == "label":
            return choose.choice(("Lx", "Ly")) if draw < 0.9 else choose.choice(SYMBOLS)
        if wanted == "symbol":
            return choose.choice(("tgts", "fn", "fn2", "proto", "ctgts", "ctgt2", "tx")) if draw < 0.9 else "%d1"
        if wanted == "any":
            return f"%r{choose.randrange(8)}"
        if "@" in spec.flags and draw < 0.2:
            name, found = choose.choice(list(SPECIAL_REGISTERS.items()))
            return name + (choose.choice((".x", ".y", ".z")) if found.elements else "")
        if "&" in spec.flags and draw < 0.35:
            return choose.choice(SYMBOLS) + choose.choice(("", "", "+8"))
        if "_" in spec.flags and draw < 0.1:
            return "_"
        if spec.role == "$" and draw < 0.2:
            return self.constant(form, spec, wanted)
        mark = next((m for m in "!-" if m in spec.flags and choose.random() < 0.2), "")
        return mark + self.register(wanted, wider="+" in spec.flags)

    def register(self, wanted: str, *, wider: bool = False) -> str:
        choose = self.random
        bits = 1 if wanted == "pred" else SCALAR_TYPES[wanted].bits
        if wider and choose.random() < 0.2:
            bits = choose.choice([b for b in BY_BITS if b >= bits])
        if choose.random() < 0.02:
            bits = choose.choice(list(BY_BITS))
        return self.numbered(next((b for b in BY_BITS if b >= bits), 128))

    def numbered(self, bits: int) -> str:
        """Some register of that size, mostly of a bit type."""
        stems = BY_BITS[bits]
        stem = stems[0] if self.random.random() < 0.8 else self.random.choice(stems)
        return f"{stem}{self.random.randrange(8)}"

    def constant(self, form: Form, spec: OperandSpec, wanted: str = "") -> str:
        choose = self.random
        legal = form.ranges.get(spec.name)
        if legal is not None and choose.random() < 0.6:
            if isinstance(legal, tuple):
                return str(choose.randint(legal[0], legal[1] if legal[1] is not None else legal[0] + 8))
            return str(choose.choice(legal if isinstance(legal, range) else sorted(legal)))  # a range may be long
        floating = wanted in SCALAR_TYPES and SCALAR_TYPES[wanted].kind == "float"
        return choose.choice(CONSTANTS if (choose.random() < 0.85) != floating else FLOATS)

    def mutate(self, text: str) -> str:
        """One edit of the modifiers or of the operands, a guard put before it, or a gap inside."""
        choose = self.random
        guard = ""
        if text.startswith("@"):
            guard, _, text = text.partition(" ")
            guard += " "
        head, gap, tail = text.rstrip(";").partition(" ")
        draw = choose.random()
        if draw < 0.5:
            head = self._edited_modifiers(head)
        elif draw < 0.97:
            tail = self._edited_operands(tail)
        elif draw < 0.98 and "." in head:
            at = choose.choice([i for i, c in enumerate(head) if c == "."])
            head = f"{head[:at]} {head[at:]}"
        else:
            guard = choose.choice((*GUARDS, "@%r1 ", "@p ", "@!%p1 ", "@%q1 ", "@1 ", "@%is_explicit_cluster "))
        return f"{guard}{head}{gap}{tail};".replace(" ;", ";")

    def _edited_modifiers(self, head: str) -> str:
        """One modifier swapped with its neighbour, moved, dropped, doubled, replaced or added."""
        choose = self.random
        opcode, *words = head.split(".")
        action = choose.randrange(6)
        own = [
            v
            for o, c in OPCODES.items()
            if o.split(".")[0] == opcode
            for f in c.forms
            for s in f.slots
            for v in s.values
        ]
        others = [v for f in choose.choice(self.classes).forms for s in f.slots for v in s.values] or ["b32"]
        draw = choose.random()
        new = choose.choice(own if own and draw < 0.7 else others if draw < 0.9 else known_words())
        if not words or action == 0:
            words.insert(choose.randrange(len(words) + 1), new)
        elif action == 1:
            words.insert(choose.randrange(len(words) + 1), words.pop(choose.randrange(len(words))))
        elif action == 2:
            words.pop(choose.randrange(len(words)))
        elif action == 3:
            words.insert(choose.randrange(len(words) + 1), choose.choice(words))
        elif action == 4:
            choose.shuffle(words)
        else:
            words[choose.randrange(len(words))] = new
        return ".".join((opcode, *words))

    def _edited_operands(self, tail: str) -> str:
        """One operand, register or constant replaced, dropped, doubled, swapped, put in or out of brackets, or negated."""
        choose = self.random
        operands = split_operands(tail)
        if not operands:
            return tail
        i = choose.randrange(len(operands))
        action = choose.randrange(9)
        if action == 0:
            operands.pop(i)
        elif action == 1:
            operands.insert(i, choose.choice((choose.choice(operands), choose.choice(ODD), choose.choice(CONSTANTS))))
        elif action == 2:
            j = choose.randrange(len(operands))
            operands[i], operands[j] = operands[j], operands[i]
        elif action == 3:
            operands[i] = choose.choice(("[{}]", "{{{}}}", "({})", "!{}", "-{}", "{}.x", "{}|%p3", "{}+4")).format(
                operands[i]
            )
        elif action == 4:
            operands[i] = operands[i].strip("[]{}!-")
        else:
            tokens = list(
                re.finditer(r"%[a-z_]+[\w.]*|(?<![\w%.])\d[\w.]*|\b(?:gb|sb|cb|lb|tx|su|fn2?|prm|Lx|Ly)\b", tail)
            )
            if not tokens:
                return tail
            match = choose.choice(tokens)
            new = choose.choice(choose.choice((ODD, CONSTANTS, FLOATS)))
            return tail[: match.start()] + new + tail[match.end() :]
        return ", ".join(operands)


def _type(cls: type[Instruction], spec: OperandSpec, slots: dict[str, str]) -> tuple[str, int | None]:
    """(scalar type or kind, number of elements) of an operand. KeyError where the slots do not go together."""
    name = spec.type
    if name == "frag":
        scalar, n = cls.fragment(spec.name, slots)
        return scalar, n or None
    count: int | None = None
    if spec.count.isdigit():
        count = int(spec.count)
    elif spec.count in slots:
        count = count_in(slots[spec.count])
    double = name.startswith("2*")
    name = name.removeprefix("2*")
    bits = name.startswith("bits(")
    name = name[5:-1] if bits else name
    name = slots.get(name, name)
    if double or bits:
        width = SCALAR_TYPES[name].bits * (2 if double else 1)
        name = f"{'b' if bits else SCALAR_TYPES[name].name[0]}{width}"
    return name, count


def split_operands(text: str) -> list[str]:
    """`%r1, {%r2, %r3}, [%d1+8]` -> its operands."""
    found: list[str] = []
    depth = 0
    current = ""
    for character in text:
        depth += (character in "[({") - (character in "])}")
        if character == "," and depth == 0:
            found.append(current.strip())
            current = ""
        else:
            current += character
    return [*found, current.strip()] if current.strip() else found


def balanced(line: str) -> bool:
    """Whether brackets are closed in their order: one that is not would swallow the lines below in our reader."""
    open_ones: list[str] = []
    for character in line:
        if character in "([{":
            open_ones.append(")]}"["([{".index(character)])
        elif character in ")]}" and (not open_ones or open_ones.pop() != character):
            return False
    return not open_ones


def from_files(paths: Sequence[Path]) -> list[str]:
    """The distinct instructions of real files, with the oracle's registers and variables for theirs."""
    found: dict[str, None] = {}
    for path in paths:
        text = path.read_text(errors="replace")
        classes = {m[2]: m[1] for m in re.finditer(r"\.reg\s+\.(\w+)\s+(%?[\w$]+?)(?:<\d+>)?;", text)}
        for line in re.findall(
            r"^\s*((?:@!?%\w+\s+)?[a-z][\w.:]*(?:\s[^;{}/]*(?:\{[^;{}/]*\}[^;{}/]*)*)?;)\s*$", text, re.M
        ):
            found[_renamed(line, classes)] = None
    return list(found)


def _renamed(line: str, classes: dict[str, str]) -> str:
    def register(match: re.Match[str]) -> str:
        name = match[0]
        if name.partition(".")[0] in SPECIAL_REGISTERS:
            return name
        declared = classes.get(name) or classes.get(name.rstrip("0123456789"), "b32")
        bits = 1 if declared == "pred" else SCALAR_TYPES[declared].bits if declared in SCALAR_TYPES else 32
        return f"{BY_BITS[bits][0]}{sum(map(ord, name)) % 8}"

    line = re.sub(r"%[a-z_A-Z]\w*(?:\.[xyzw]\b)?", register, re.sub(r"\s+", " ", line))
    line = re.sub(r"\[[A-Za-z_$][\w$]*", "[gb", line)
    return re.sub(r"\$L\w+|\bL\w*BB\w+", "Lx", line)
