"""What registers are called in readable programs: after the instruction that writes them first, and how they are
used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.movement import ConvertAddress
from ..dialects.ptx.syntax import Address, Immediate, Operand, Register, SpecialRegister, Symbol, Vector
from ..frontend.module.arguments import Statement as Recorded
from ..ssa.statement import Reg, Shape
from .names import identifier

_PARAMETER = re.compile(r".*_param_(\d+)$")
_DIGITS = 5
"""Of a number that a register is named after."""
_SPECIAL = {"%tid.x": "tid", "%ctaid.x": "ctaid", "%ntid.x": "ntid", "%nctaid.x": "nctaid", "%laneid": "lane"}


_DESCRIPTOR = "_desc"
_VAGUE = frozenset(
    "addr base bytes count dst index left len map offset right size src target value".split()
)  # what the manual calls operands that may be anything


def parameter_name(symbol: str) -> str:
    """`_Z5saxpyifPf_param_2` -> `arg2`; other names as they are."""
    match = _PARAMETER.fullmatch(symbol)
    return f"arg{match[1]}" if match else identifier(symbol)


def demangled(symbol: str) -> str:
    """The function's own name in an Itanium-mangled symbol (`_Z5saxpyifPf` -> `saxpy`), else the symbol."""
    match = re.match(r"_ZN?K?(?:\d+_GLOBAL__N__[0-9a-zA-Z_]*?)?((?:\d+\w*?)+)", symbol)
    if match is None:
        return symbol
    nested = symbol[2] == "N"
    rest, found = symbol[2:].lstrip("NK"), ""
    while nested or not found:  # after a name that is not nested stand the types of parameters
        digits = re.match(r"[1-9]\d*", rest)
        if digits is None:
            break
        size = int(digits[0])
        rest = rest[len(digits[0]) :]
        if size > len(rest):
            return symbol
        found, rest = rest[:size], rest[size:]
    return found or symbol


def local_name(symbol: str) -> str:
    """The own name of a variable in an Itanium-mangled symbol (`_ZZ6reducePfE4tile` -> `tile`), else the symbol."""
    if not re.match(r"_Z(?:Z|N|L|\d)", symbol):  # `_ZTV1D` is not a D
        return symbol
    for at in range(len(symbol) - 2, 1, -1):  # the last component: a number, and as many characters
        digits = re.match(r"[1-9]\d*", symbol[at:])
        if digits is None or symbol[at - 1].isdigit():
            continue
        name = symbol[at + len(digits[0]) :]
        size = int(digits[0])
        if size <= len(name) and re.fullmatch(r"(?:E|_\d+|E_\d+)*", name[size:]) and not name[0].isdigit():
            return name[:size]
    return symbol


class Namer:
    """Suggests a name for a register from the statement that writes it. `defs`: how many statements write each."""

    def __init__(self, defs: Mapping[Reg, int]) -> None:
        self.defs = defs
        self.known: dict[Reg, str] = {}
        self.pointers: set[Reg] = set()
        self.updated: dict[Reg, str] = {}
        self.roles: dict[Reg, str] = {}
        """What the instructions that read a register call it; empty where they do not agree."""
        self.parameters: set[Reg] = set()
        """Registers that hold a parameter: they are named after it."""
        self.sums: dict[Reg, Reg] = {}
        """A sum with the register that something was added to."""

    def observe(self, shape: Shape, regs: Sequence[Reg]) -> None:
        """Learn how registers are used: as addresses, as counters, as accumulators, as a descriptor or a policy."""
        cls = shape.instruction
        if cls is None or not regs:
            return
        roles = operand_roles(cls, shape.modifiers, len(shape.layout))
        at = 1 if shape.guard >= 0 else 0
        for number, operand in enumerate(shape.layout):
            if isinstance(operand, Address) and isinstance(operand.base, Register):
                self.pointers.add(regs[at])
            if roles and isinstance(operand, (Register, Address)) and at < len(regs):
                self._play(regs[at], roles[number], operand)
            at += _registers_in(operand)
        if len(regs) < 3 and shape.guard < 0:
            loaded = len(regs) == 1 and cls.access == "load" and "param" in shape.modifiers
            if loaded or (issubclass(cls, ConvertAddress) and regs[-1] in self.parameters):
                self.parameters.add(regs[0])
        read = {regs[i] for i in (*shape.read, *(shape.tied if shape.guard < 0 else ()))}
        for i in shape.written:
            if regs[i] in read:
                counter = cls.carries_address and shape.modifiers[-1][0] in "bus"
                self.updated.setdefault(regs[i], "i" if counter else "acc")
        if cls.carries_address and len(regs) == 2 and shape.guard < 0:
            made, source = regs
            if len(shape.layout) > 2:
                self.sums[made] = source
            elif self.sums.get(source) is made:  # `next = i + 1`, and later `i = next`
                self.updated.setdefault(made, "i")

    def _play(self, reg: Reg, role: str, operand: Register | Address) -> None:
        if isinstance(operand, Address) and not isinstance(operand.base, Register):
            return
        if role and self.roles.setdefault(reg, role) != role:
            self.roles[reg] = ""

    def role(self, reg: Reg) -> str:
        """What sets a register apart from others that the same instruction makes: only alike ones are elements of a list."""
        return reg.name if reg in self.parameters else self.updated.get(reg, "")

    def settle(self, statements: Sequence[Recorded]) -> None:
        """Name what a descriptor is made from after it: the words that it is packed from, what it is the sum of."""
        if not any(role.endswith(_DESCRIPTOR) for role in self.roles.values()):
            return
        for shape, regs, _, _, _ in reversed(statements):
            if shape.instruction is None or shape.guard >= 0 or len(shape.layout) < 2:
                continue
            match shape.layout:
                case (Vector(), Register(_, "")) if len(regs) == 3:
                    high = self.roles.get(regs[1], "")
                    if high.endswith(_DESCRIPTOR + "_hi"):
                        self.roles.setdefault(regs[2], high.removesuffix("_hi"))
                case (Register(_, ""), Vector()) if len(regs) == 3 and self._is_descriptor(regs[0]):
                    self.roles.setdefault(regs[1], self.roles[regs[0]] + "_lo")
                    self.roles.setdefault(regs[2], self.roles[regs[0]] + "_hi")
                case (Register(_, ""), *_) if len(shape.written) == 1 and self._is_descriptor(regs[0]):
                    for source in regs[1:]:
                        if source.register_class == regs[0].register_class:
                            self.roles.setdefault(source, self.roles[regs[0]])
                case _:
                    pass

    def _is_descriptor(self, reg: Reg) -> bool:
        return self.roles.get(reg, "").endswith(_DESCRIPTOR)

    def halves(self, shape: Shape, regs: Sequence[Reg]) -> list[str] | None:
        """Names for the two words that a register is split into: `desc_lo`, `desc_hi`."""
        match shape.layout:
            case (Vector(elements), Register(_, "")) if len(elements) == 2 and len(regs) == 3 and shape.guard < 0:
                stem = re.sub(r"_\d+$", "", self.known.get(regs[2], ""))
                return [f"{stem}_lo", f"{stem}_hi"] if stem.isidentifier() else None
            case _:
                return None

    def suggest(self, reg: Reg, shape: Shape, regs: Sequence[Reg]) -> str:
        """A name for the register that this statement writes first."""
        cls = shape.instruction
        assert cls is not None
        source = next((o for o in shape.layout[1:] if not isinstance(o, Register)), None)
        if cls.carries_address and len(shape.layout) == 2 and (named := self._moved(reg, source)):
            return named
        if isinstance(source, Address) and isinstance(source.base, Symbol) and "param" in shape.modifiers:
            if source.base.name.startswith("retval"):
                return "result"
            name = parameter_name(source.base.name)
            return name if not source.offset else f"{name}_{identifier(source.offset.lstrip('+'))}".replace("__", "_")
        if issubclass(cls, ConvertAddress) and shape.read:
            base = self.known.get(regs[shape.read[-1]])
            if base is not None:
                stem = base.removesuffix("_addr")
                stem = stem if stem.startswith("arg") else stem.rstrip("0123456789_")
                return stem if stem.endswith("ptr") else f"{stem}_ptr"
        if reg in self.updated and reg.register_class != "pred":
            return self.updated[reg]
        if self.roles.get(reg):
            return self.roles[reg]
        if reg.register_class == "pred":
            return "p"
        if reg in self.pointers:
            return "ptr"
        if cls.result_name:
            return cls.result_name
        return _by_type(reg, shape)

    def _moved(self, reg: Reg, source: Operand | None) -> str:
        """A name for what holds a special register, an address or a constant; empty for others."""
        match source:
            case SpecialRegister(name):
                return _SPECIAL.get(name, identifier(name.replace(".", "_")))
            case Symbol(name):
                return f"{parameter_name(name)}_addr" if _PARAMETER.fullmatch(name) else identifier(local_name(name))
            case Immediate(text) if reg.register_class != "pred":
                return _number_name(text) if reg not in self.updated and self.defs.get(reg, 1) == 1 else ""
            case _:
                return ""


def _by_type(reg: Reg, shape: Shape) -> str:
    kind = reg.register_class
    if kind[0] == "f" or any(m in ("f32", "f64") for m in shape.modifiers[-1:]):
        return "x"
    return {"b64": "w", "u64": "w", "s64": "w", "b16": "h", "u16": "h", "s16": "h"}.get(kind, "r")


@lru_cache(maxsize=4096)
def operand_roles(cls: type[Instruction], modifiers: tuple[str, ...], count: int) -> tuple[str, ...]:
    """What an instruction calls its operands, in registers or as the bases of addresses, where that says something:
    `a_desc`, `policy`, `mbar`; empty strings, or nothing, for the others.
    """
    for form, _ in cls.candidates(modifiers):
        for specs in form.alternatives:
            if len(specs) == count:
                named = [s.parts[0] if s.kind == "address" and s.parts else s for s in specs]
                names = tuple(
                    [s.name if s.role == "$" and len(s.name) > 2 and s.name not in _VAGUE else "" for s in named]
                )
                return names if any(names) else ()
    return ()


def _number_name(text: str) -> str:
    """`c16` for a register that holds 16; empty for numbers whose name would say no more than `r`."""
    digits = text[1:] if text[:1] == "-" else text
    if not digits.isdigit() or len(digits) > _DIGITS:
        return ""
    return f"{'minus' if text[0] == '-' else 'c'}{int(digits)}"


def _registers_in(operand: Operand) -> int:
    if isinstance(operand, Register):
        return 1
    if isinstance(operand, Address):
        return sum(_registers_in(o) for o in (operand.base, *operand.rest))
    inner = [getattr(operand, name, None) for name in ("operand", "first", "second")]
    elements = getattr(operand, "elements", ())
    return sum(_registers_in(o) for o in (*inner, *elements) if o is not None)
