"""Random instructions drawn from the forms, and one-edit mutations of them, judged by pyptx and by ptxas.

    python -m benchmarks.fuzz_verdicts [--seconds 120] [--seed 1] [--opcode mma] [--show 40]

Each round takes one (version, target), draws instructions (every op class, all slots, all operands, constants in and
out of range, wrong
registers), mutates half of them once (a modifier swapped, dropped or doubled; an operand's kind or register changed),
and compares the
verdicts on the whole text. Prints agreement, and the shortest disagreements grouped by kind. `EXPLAINED` lists the
kinds that stay, each with
its reason (see docs/verdicts.md).
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pyptx
import pyptx.dialects.ptx.all
from pyptx.dialects.ptx.forms import Form, OperandSpec, count_in
from pyptx.dialects.ptx.instruction import OPCODES, Instruction
from pyptx.dialects.ptx.special_registers import SPECIAL_REGISTERS
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version
from pyptx.dialects.ptx.types import SCALAR_TYPES
from pyptx.tools.oracle import header, verdicts

FOOTER = "Lx: ret;\nLy: ret;\n}\n"
VERSIONS = ("6.5", "7.8", "8.1", "8.5", "8.7", "9.0", "9.2", "9.3", "9.5")
TARGETS = (
    "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_100a sm_100f sm_103a sm_107a sm_110a sm_120 "
    "sm_120a sm_120f"
).split()
REGISTERS = {"pred": "%p", "b8": "%b", "b16": "%h", "b32": "%r", "b64": "%d", "b128": "%q"}
BY_BITS = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}
SYMBOLS = ("gb", "sb", "cb", "lb", "prm", "tx", "su", "fn", "fn2", "Lx", "tgts", "proto", "ctgts")
CONSTANTS = (
    "0",
    "1",
    "2",
    "4",
    "8",
    "15",
    "16",
    "31",
    "32",
    "33",
    "63",
    "64",
    "128",
    "255",
    "256",
    "512",
    "1000",
    "65536",
    "-1",
    "-8",
    "4294967296",
)
FLOATS = ("1.0", "0f3F800000", "0d3FF0000000000000")


@dataclass(frozen=True)
class Explained:
    """A kind of disagreement that stays: what ptxas does, a pattern for the instruction and one for the message, and
    why.
    """

    kind: str
    accepted: bool
    """Whether ptxas accepts it (and we do not)."""
    text: str
    message: str
    reason: str

    def matches(self, found: Disagreement) -> bool:
        return (
            found.accepted == self.accepted
            and re.search(self.text, found.text) is not None
            and re.search(self.message, found.message) is not None
        )


EXPLAINED: tuple[Explained, ...] = (
    Explained(
        "function name as a number",
        True,
        r"\bfn2?\b",
        "",
        "ptxas takes a function's name for a register of any type, even as destination of vshr; mov takes an address",
    ),
    Explained(
        "tensor memory address",
        True,
        r"^(@!?%p\d )?tcgen05\.",
        r"operand taddr",
        "tcgen05.shift, cp and dealloc take anything as address of tensor memory; only a 32-bit register can hold one",
    ),
    Explained(
        "sampler in unified mode",
        True,
        r"^(@!?%p\d )?(tex|tld4)",
        r"texmode_independent|takes \d parts",
        "ptxas skips the check of .target where the sampler operand is a texture reference or a function",
    ),
    Explained(
        "one register for a vector",
        True,
        r"mov\.\S*v[24]",
        r"must be a vector in braces",
        "mov.v2 {a, b}, c with a register c is accepted and documented nowhere",
    ),
    Explained(
        "testp without a test",
        True,
        r"testp",
        r"needs one of \.finite",
        "testp.f32 p, a asks nothing; ptxas takes it all the same",
    ),
    Explained(
        "modifier without meaning",
        True,
        "",
        r"has no modifier|does not go with|exclude each other",
        "some modifiers of other instructions (.finite, .b6x16_p32, ...) are dropped silently by ptxas",
    ),
    Explained(
        "vector that starts with a constant",
        True,
        r"\{(_, )*(-?\d|0f|0d)",
        r"of one type|or wider, and the register|and the register is|is read as",
        "behind a leading constant ptxas does not look at the sizes of the registers",
    ),
    Explained(
        "constant for packed 8-bit floats",
        True,
        r"multimem",
        r"must be a register, not a constant",
        "multimem.st of .e5m2x4 and the like takes constants, of other packed types it does not",
    ),
    Explained(
        "constant as destination",
        True,
        "",
        r"is written and cannot be a constant",
        "a few instructions let a constant stand as destination",
    ),
    Explained(
        "special register as destination",
        True,
        r"^(@!?%p\d )?(ld|ldu|suld|tex|tld4|atom)\..*\{[^}]*%[a-z]+[a-z_\d]*\b[^}]*\}.*\[",
        r"operand d must be \.\w+( or wider)?, not a special register",
        "a loaded vector lets a read-only register stand among what it writes",
    ),
    Explained(
        "floating-point lane mask",
        True,
        r"shfl",
        r"needs an integer constant",
        "shfl.sync takes 0f3F800000 as clamp and mask",
    ),
    Explained(
        "columns of an exclusive dealloc",
        True,
        r"tcgen05\.dealloc\.exclusive",
        r"ncols",
        "with .exclusive the number of columns is not checked",
    ),
    Explained(
        "predicate in a fragment",
        True,
        r"wmma|tcgen05|mma",
        r"takes no predicate|the register is \.pred",
        "ptxas counts a predicate as 32 bits where a sink or constant stands in the same fragment",
    ),
    Explained(
        "constant beyond 32 bits",
        True,
        r"\b(4294967296|65536)\b",
        r"must be (in|one of|a multiple)",
        "ptxas cuts some constants to 32 or 16 bits before it checks their range",
    ),
    Explained(
        "vector without .v2",
        True,
        r"su(ld|st|red)|tex|tld4|st\.async",
        r"must have \d elements",
        "surface accesses and st.async of one element let more stand in braces, offsets of textures fewer",
    ),
    Explained(
        "constants and special registers in fragments",
        True,
        r"mma|matrix|query_cancel|tcgen05|mov\.|multimem|sured|sust|^(@!?%p\d )?(tex|tld4)",
        r"not a constant|not a special register|operand c must be .b|floating-point constant|integer constant|one type",
        "matrix and texture operands let constants of the wrong kind and special registers stand among registers",
    ),
    Explained(
        "constants of the wrong kind in fragments",
        False,
        r"(mma|tex|tld4|su(ld|st|red)).*\{[^}]*\b(\d|0f|_)",
        r"Arguments mismatch|unexpected type|Result discard|Incompatible|declarations of the probe|Sink",
        "which constants and sinks may stand in fragments and coordinates depends on target and neighbours",
    ),
    Explained(
        "special registers in a vector",
        False,
        r"mov\.b\d+ .*\{.*%[a-z]\w*[a-z]",
        r"Incompatible elements",
        "sizes of special registers packed by mov",
    ),
    Explained(
        "constant as result of a call",
        True,
        r"call[.\w]* \(",
        r"results of a call",
        "ptxas lets a constant stand where a result goes",
    ),
    Explained(
        "st.async without completion",
        True,
        r"st\.async",
        r"complete_tx|needs \.release",
        "the modifier that says how st.async completes may be missing",
    ),
    Explained(
        "constant out of range",
        False,
        r"tcgen05\.commit|st\.bulk",
        r"out of range|Arguments mismatch",
        "limits of constants that the manual does not give",
    ),
    Explained(
        "reference as address",
        False,
        r"\[(tx|su)\b",
        r"Indirect access to (texture|surface)",
        "some address checks see the texture or surface reference, most do not",
    ),
    Explained(
        "register of a tensor map",
        True,
        r"tensor",
        r"operand map must be an integer register",
        "predicates and 128-bit registers pass for addresses of tensor maps",
    ),
    Explained(
        "address of a proxy fence",
        True,
        r"fence\.proxy",
        r"the address in operand",
        "ptxas takes any register as address",
    ),
    Explained(
        "phase given as constant",
        True,
        r"mbarrier",
        r"operand phase",
        "ptxas checks the constant phase of some waits only",
    ),
    Explained(
        "narrow operand of multimem",
        True,
        r"multimem\.(st|red)",
        r"and the register is",
        "multimem.st.async takes wider registers for its bytes",
    ),
    Explained(
        "narrow address",
        False,
        r"\[%[bh]\d",
        r"Arguments mismatch",
        "8 and 16-bit registers as address: some forms of ldmatrix, st.async and others refuse them",
    ),
    Explained(
        "narrow address of a barrier",
        True,
        r"\[%[bh]",
        r"operand mbar must be",
        "8 and 16-bit registers as barrier of bulk copies: refused by some forms, and no address for any",
    ),
    Explained(
        "negated float constant", False, r"!\d\.|!0f", r"Integer constant", "!1.0 is an integer expression nowhere"
    ),
    Explained(
        "sampler of a mip-mapped read",
        True,
        r"tex\.(level|grad).*\[\w+, %d\d",
        r"texmode_independent|takes \d operands",
        "what tex.grad and tex.level let stand with a sampler in a register in unified mode depends on the target",
    ),
)


class Draw:
    """Draws instructions from forms, for the registers and symbols that the oracle's header declares."""

    def __init__(self, seed: object, opcodes: list[str] | None = None):
        self.random = random.Random(f"{seed}")
        self.classes = [
            cls
            for opcode, cls in sorted(OPCODES.items())
            if cls.forms and (opcodes is None or opcode.split(".")[0] in opcodes)
        ]

    def instruction(self) -> str:
        """One instruction that its form should accept (needs aside), with a few operands off the form's path."""
        choose = self.random
        cls = choose.choice(self.classes)
        form = choose.choice(cls.forms)
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
            return self.instruction()
        guard = choose.choice(("@%p1 ", "@!%p2 ")) if choose.random() < 0.05 else ""
        modifiers = "".join("." + m for m in form.modifiers(slots))
        return f"{guard}{form.opcode}{modifiers} {operands};".replace(" ;", ";")

    def operand(self, cls: type[Instruction], form: Form, spec: OperandSpec, slots: dict[str, str]) -> str:
        choose = self.random
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
            return choose.choice(("()", "(%r1)", "(%r1, %r2)", "(1)"))
        return self.value(cls, form, spec, slots)

    def address(self, cls: type[Instruction], form: Form, spec: OperandSpec, slots: dict[str, str]) -> str:
        choose = self.random
        base_spec = spec.parts[0]
        draw = choose.random()
        bits = SCALAR_TYPES[base_spec.type].bits if base_spec.type in SCALAR_TYPES else 64
        if cls.reference and draw < 0.6:
            base = "tx" if cls.reference == "texref" else "su"
        elif draw < 0.5:
            base = f"{BY_BITS[bits]}{choose.randrange(8)}"
        elif draw < 0.85:
            places, _ = cls.variables(spec.name, slots, alone=True)
            names = {"global": "gb", "shared": "sb", "const": "cb", "local": "lb", "entry": "prm"}
            base = choose.choice([names[p] for p in sorted(places) if p in names] or ["gb"])
        elif draw < 0.95:
            base = choose.choice(SYMBOLS)
        else:
            base = choose.choice(("%r3", "%h2", "%b1", "%p1", "0", "%clock64", "%q1"))
        offset = choose.choice(("+8", "+-16", "+0x10")) if choose.random() < 0.2 else ""
        if spec.parts[1:] or cls.reference:
            offset = ""
        if choose.random() < 0.002:
            offset = choose.choice(("-8", "+1.0"))
        rest = "".join(", " + self.operand(cls, form, part, slots) for part in spec.parts[1:])
        unified = ".unified" if "." in spec.flags and choose.random() < 0.1 else ""
        return f"[{base}{offset}{rest}]{unified}"

    def value(self, cls: type[Instruction], form: Form, spec: OperandSpec, slots: dict[str, str]) -> str:
        choose = self.random
        wanted, count = self._type(cls, spec, slots)
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
            return self.constant(form, spec)
        mark = (
            "!"
            if "!" in spec.flags and choose.random() < 0.2
            else "-"
            if "-" in spec.flags and choose.random() < 0.2
            else ""
        )
        return mark + self.register(wanted, wider="+" in spec.flags)

    def register(self, wanted: str, *, wider: bool = False) -> str:
        choose = self.random
        bits = 1 if wanted == "pred" else SCALAR_TYPES[wanted].bits
        if wider and choose.random() < 0.2:
            bits = choose.choice([b for b in BY_BITS if b >= bits])
        if choose.random() < 0.02:
            bits = choose.choice(list(BY_BITS))
        bits = next((b for b in BY_BITS if b >= bits), 128)
        return f"{BY_BITS[bits]}{choose.randrange(8)}"

    def constant(self, form: Form, spec: OperandSpec) -> str:
        choose = self.random
        legal = form.ranges.get(spec.name)
        if legal is not None and choose.random() < 0.6:
            if isinstance(legal, tuple):
                return str(choose.randint(legal[0], legal[1] if legal[1] is not None else legal[0] + 8))
            return str(choose.choice(sorted(legal)))
        return choose.choice(CONSTANTS if choose.random() < 0.85 else FLOATS)

    def _type(self, cls: type[Instruction], spec: OperandSpec, slots: dict[str, str]) -> tuple[str, int | None]:
        name = spec.type
        if name == "frag":
            scalar, n = cls.fragment(spec.name, slots)
            return scalar, n or None
        count: int | None = None
        if spec.count:
            count = (
                int(spec.count)
                if spec.count.isdigit()
                else count_in(slots[spec.count])
                if spec.count in slots
                else None
            )
        double = name.startswith("2*")
        name = name.removeprefix("2*")
        bits = name.startswith("bits(")
        name = name[5:-1] if bits else name
        name = slots.get(name, name)
        if double or bits:
            width = SCALAR_TYPES[name].bits * (2 if double else 1)
            name = f"{'b' if bits else SCALAR_TYPES[name].name[0]}{width}"
        return name, count

    def mutate(self, text: str) -> str:
        """One edit: a modifier swapped, dropped, doubled or replaced, an operand replaced, dropped or doubled."""
        choose = self.random
        head, _, tail = text.partition(" ")
        if text.startswith("@"):
            return text
        parts = head.rstrip(";").split(".")
        action = choose.randrange(7)
        if action == 0 and len(parts) > 2:
            i = choose.randrange(1, len(parts) - 1)
            parts[i], parts[i + 1] = parts[i + 1], parts[i]
        elif action == 1 and len(parts) > 1:
            parts.pop(choose.randrange(1, len(parts)))
        elif action == 2 and len(parts) > 1:
            other = choose.choice(self.classes)
            words = [v for f in other.forms for s in f.slots for v in s.values]
            if words:
                parts[choose.randrange(1, len(parts))] = choose.choice(words)
        elif action == 3:
            cls = OPCODES.get(".".join(parts[:1])) or choose.choice(self.classes)
            words = [v for f in cls.forms for s in f.slots for v in s.values]
            if words:
                parts.insert(choose.randrange(1, len(parts) + 1), choose.choice(words))
        else:
            tokens = list(re.finditer(r"(?<![+-])%[a-z]+\d+|(?<![+.-])\b\d+\b", tail))
            if tokens:
                match = choose.choice(tokens)
                new = choose.choice(
                    ("%p1", "%b1", "%h1", "%r1", "%d1", "%q1", "1", "0", "1.0", "gb", "sb", "%laneid", "Lx", "fn", "tx")
                )
                tail = tail[: match.start()] + new + tail[match.end() :]
        return f"{'.'.join(parts)} {tail}" if tail else ".".join(parts) + ";"


def ours(lines: list[str], version: str, target: str) -> list[list[str]]:
    """Our errors for each line, in the frame that the oracle uses."""
    head = header(version, target)
    first = head.count("\n") + 1
    found: list[list[str]] = [[] for _ in lines]
    for diagnostic in pyptx.diagnose(head + "".join(f"{line}\n" for line in lines) + FOOTER):
        if diagnostic.severity == "error" and diagnostic.line is not None and 0 <= diagnostic.line - first < len(lines):
            found[diagnostic.line - first].append(diagnostic.message)
    return found


@dataclass(frozen=True)
class Disagreement:
    """One instruction on which we differ from ptxas."""

    text: str
    version: str
    target: str
    accepted: bool
    """By ptxas."""
    message: str

    @property
    def kind(self) -> str:
        message = re.sub(r"'[^']*'|\d+(\.\d+)?", "..", self.message)
        opcode = self.text.removeprefix("@%p1 ").removeprefix("@!%p2 ").split(".")[0].split()[0]
        return f"{opcode}: {'we reject' if self.accepted else 'we accept'}: {message[:90]}"


def explanation(disagreement: Disagreement) -> Explained | None:
    return next((e for e in EXPLAINED if e.matches(disagreement)), None)


def rounds(seed: int, size: int = 2500, opcodes: list[str] | None = None) -> Iterator[tuple[int, list[Disagreement]]]:
    """Endless rounds of `size` instructions on one (version, target): how many ptxas accepted, the disagreements.

    Where they disagree, ptxas is asked again with that instruction alone in the file: behind others a few of its
    answers depend on what it read before (vset, texture reads with a sampler).
    """
    pairs = [(v, t) for v in VERSIONS for t in TARGETS if FIRST_PTX[t] <= parse_version(v)]
    choose = random.Random(seed)
    number = 0
    while True:
        # the newest version sees everything, so every second round takes it
        version, target = choose.choice(pairs) if number % 2 else ("9.5", choose.choice(TARGETS))
        draw = Draw(f"{seed}/{number}", opcodes)
        number += 1
        lines = [draw.instruction() for _ in range(size)]
        lines = [draw.mutate(line) if i % 2 else line for i, line in enumerate(lines)]
        lines = [line for line in lines if balanced(line)]
        theirs = asked(lines, version, target)
        mine = ours(lines, version, target)
        found = [
            Disagreement(line, version, target, not a, (b or a)[0])
            for line, a, b in zip(lines, theirs, mine, strict=True)
            if bool(a) != bool(b) and bool(asked([line], version, target)[0]) != bool(b)
        ]
        yield sum(not a for a in theirs), found


def asked(lines: list[str], version: str, target: str) -> list[list[str]]:
    """ptxas's errors for each line. A few instructions make it complain without a line: halving finds these."""
    try:
        return verdicts(lines, version, target)
    except RuntimeError as error:
        if len(lines) == 1:
            return [[str(error)]]
        half = len(lines) // 2
        return asked(lines[:half], version, target) + asked(lines[half:], version, target)


def balanced(line: str) -> bool:
    """Whether brackets are closed: one that is not would swallow the lines below in our reader."""
    return (
        line.count("{") == line.count("}") and line.count("[") == line.count("]") and line.count("(") == line.count(")")
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--size", type=int, default=2500, help="instructions a round")
    arguments.add_argument("--opcode", help="only these (comma separated)")
    arguments.add_argument("--show", type=int, default=40)
    options = arguments.parse_args()
    end = time.monotonic() + options.seconds
    groups: dict[str, list[Disagreement]] = defaultdict(list)
    explained: Counter[str] = Counter()
    total = accepted = 0
    for legal, found in rounds(options.seed, options.size, options.opcode.split(",") if options.opcode else None):
        total += options.size
        accepted += legal
        for disagreement in found:
            reason = explanation(disagreement)
            if reason is not None:
                explained[reason.kind] += 1
            else:
                groups[disagreement.kind].append(disagreement)
        if time.monotonic() > end:
            break
    for kind, cases in sorted(groups.items(), key=lambda g: -len(g[1]))[: options.show]:
        shortest = min(cases, key=lambda d: len(d.text))
        print(f"{len(cases):5} {kind}\n      {shortest.version} {shortest.target}  {shortest.text[:170]}")
    wrong = sum(map(len, groups.values()))
    print(f"explained: {dict(explained.most_common())}")
    print(
        f"{total} instructions, {accepted} accepted by ptxas; "
        f"{wrong} unexplained disagreements in {len(groups)} kinds; "
        f"agreement {100 * (1 - wrong / max(total, 1)):.3f} %"
    )


if __name__ == "__main__":
    main()
