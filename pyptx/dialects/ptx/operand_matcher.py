"""Matches operands with what a form says of them, and finds the words for what does not match."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product

from ...diagnostics import counted
from .operand_specs import SPACES, Fragments, Legal, OperandSpec, Slots, count_in
from .special_registers import SPECIAL_REGISTERS, own_bits, read_problem
from .syntax import (
    PLACEHOLDERS,
    Address,
    Arguments,
    Element,
    Immediate,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    Sum,
    Symbol,
    Target,
    Vector,
    constant_problem,
    evaluate,
)
from .target import Need, need
from .types import SCALAR_TYPES, register_fits
from .vector_type import CONSTANTS, are_alike, bits_of, common_class, is_float_of, led_by_constant, odd_one

HANDLE = need("3.1", "20+")
"""A texture or surface named by a register instead of by its variable."""

_KINDS: dict[type, str] = {
    Immediate: "a constant", Not: "a negated operand", Sum: "a register plus a constant", Symbol: "a symbol", SpecialRegister: "a special register", Sink: "the sink '_'", Vector: "a vector",
    Address: "an address", Element: "an element of an array", Pair: "a pair", Arguments: "an argument list", Target: "a label", Register: "a register",
}  # fmt: skip


def _what(spec: OperandSpec, operand: Operand) -> str:
    """What stands where a form wants something else, and what to do about it."""
    kind = _KINDS.get(type(operand), "this")
    if isinstance(operand, SpecialRegister):
        advice = ": move it to a register first" if spec.role == "$" else ", which is read-only"
        return f"the special register {operand.name}{advice}"
    if isinstance(operand, Symbol):
        return f"the symbol {operand.name}"
    if isinstance(operand, Pair) and spec.role == "=":
        return f"{kind}: there is one result"
    return kind


def _elements(count: int) -> str:
    return f"{count} element{'s' if count != 1 else ''}"


@cache
def _selectors(pattern: str) -> str:
    """The selectors that a regular expression takes, in words: `b[0-3]|h[01]` -> `.b0 to .b3 or .h0 to .h1`."""
    named: list[str] = []
    for letter, highest in (("b", 7), ("h", 3)):
        for digits in (1, 2, 3, 4):
            numbers = product("01234567"[: highest + 1], repeat=digits)
            legal = [one for number in numbers if re.fullmatch(pattern, one := f"{letter}{''.join(number)}")]
            if legal:
                named.append(f".{legal[0]} to .{legal[-1]}" if len(legal) > 1 else f".{legal[0]}")
    return " or ".join(named)


_PLAIN = Register()


class OperandMatcher:
    """Walks operand specs and operands together, consuming register classes in text order."""

    def __init__(
        self, slots: Slots, classes: tuple[str, ...], owner: type[Fragments], ranges: Mapping[str, Legal],
        selectors: Mapping[str, str],
    ):  # fmt: skip
        self.slots, self.classes, self.owner, self.at = slots, classes, owner, 0
        self.ranges, self.selectors = ranges, selectors
        self.needs: list[tuple[str, Need]] = []  # of special registers
        self.depth = 0  # see Problem.depth
        self.element = -1  # see Problem.element

    def operand(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        """The operand with its registers' roles set, or a message."""
        if spec.kind == "address":
            return self._address(spec, operand)
        if spec.kind == "pair":
            return self._pair(spec, operand)
        if spec.kind == "sink":
            return (
                operand
                if isinstance(operand, Sink)
                else f"operand {spec.name} must be the sink '_', because the instruction has no result"
            )
        if spec.kind == "arguments":
            return self._arguments(spec.parts[0], operand)
        if isinstance(operand, Pair) and spec.role == "=" and isinstance(operand.second, Sink):
            first = self._value(spec, operand.first)  # ptxas lets any scalar result have an unwanted second one
            return first if isinstance(first, str) else Pair(first, operand.second)
        return self._value(spec, operand)

    def _pair(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        if not isinstance(operand, Pair):
            if spec.optional_part:
                return self.operand(spec.parts[0], operand)
            return f"operand {spec.name} must be a pair {spec.parts[0].name}|{spec.parts[1].name}"
        first = self.operand(spec.parts[0], operand.first)
        if isinstance(first, str):
            return first
        second = self.operand(spec.parts[1], operand.second)
        return second if isinstance(second, str) else Pair(first, second)

    def _element(self, spec: OperandSpec, operand: Element) -> Operand | str:
        """An element of an array as an address."""
        index = operand.index
        if isinstance(index, Register):
            index = Register()
            register_class = self.classes[self.at]
            self.at += 1
            found = SCALAR_TYPES.get(register_class)
            if found is None or found.kind not in ("bits", "unsigned", "signed") or found.bits > 64:
                return f"the index in operand {spec.name} must be an integer register, not .{register_class}"
        elif isinstance(index, SpecialRegister):
            special = SPECIAL_REGISTERS.get(index.name)
            if special is None or special.elements or special.predicate:
                return f"{index.name} is not an index"
            self.needs.append((index.name, special.need))
        elif not isinstance(index, Immediate):
            return f"the index in operand {spec.name} must be a constant or a register, not {_KINDS.get(type(index), 'this')}"
        elif index.is_float:
            return f"the index in operand {spec.name} must be an integer"
        if isinstance(operand.index, Register) and operand.index.member:
            return f"the index in operand {spec.name} may not be a vector element"
        if operand.offset and (problem := _offset_problem(operand.offset)) is not None:
            return f"operand {spec.name}: {problem}"
        if operand.offset[:1] == "-":
            return f"operand {spec.name}: an offset is added, write +{operand.offset}"
        return Element(operand.array, index, operand.offset)

    def _address(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        if isinstance(operand, Element) and self.owner.takes_elements:
            return self._element(spec, operand)
        if not isinstance(operand, Address):
            return f"operand {spec.name} must be an address in brackets, not {_what(spec, operand)}"
        base = operand.base
        exact, wanted = "?" in spec.parts[0].flags, spec.parts[1:]
        problem = self._base(spec, base, exact)
        if problem is not None:
            return problem
        if operand.offset and (wanted or (exact and "&" in spec.parts[0].flags)):
            return f"operand {spec.name} takes no offset"
        if operand.offset and (problem := _offset_problem(operand.offset)) is not None:
            return f"operand {spec.name}: {problem}"
        if operand.unified and ("." not in spec.flags or (SPACES - {"global"}) & set(self.slots.values())):
            return f".unified does not go with operand {spec.name}: it is for generic and global loads and atomics"
        if len(operand.rest) != len(wanted):
            return f"the address in operand {spec.name} takes {counted(len(wanted) + 1, 'part')}, not {len(operand.rest) + 1}"
        if operand.unified and not isinstance(base, Register):
            return f".unified in operand {spec.name} needs the address in a register"
        rest: list[Operand] = []
        for part, item in zip(wanted, operand.rest, strict=True):
            if isinstance(item, Immediate):
                return f"operand {spec.name}: inside the brackets a constant is written in braces, {{{item.text}}}"
            if isinstance(item, Register) and item.member:
                return f"operand {spec.name}: inside the brackets an element of a vector register is written in braces"
            if isinstance(item, Symbol) and item.offset:
                return f"operand {spec.name} takes {item.name}{item.offset} nowhere inside its brackets"
            result = self.operand(part, item)
            if isinstance(result, str):
                return result
            rest.append(result)
        return Address(base, operand.offset, tuple(rest), operand.unified)

    def _base(self, spec: OperandSpec, base: Operand, exact: bool) -> str | None:
        """Why this is not the base of an address; `exact`: of a size, and in a register, or None."""
        if isinstance(base, Register):
            return self._register_base(spec, base, exact)
        if exact and not ("&" in spec.parts[0].flags and isinstance(base, Symbol)):
            return f"the address in operand {spec.name} must be a register, not {_KINDS.get(type(base), 'this')}"
        if isinstance(base, Immediate):
            if "local" not in self.slots.values():
                return f"the address in operand {spec.name} must be a register or a variable: constants are .local only"
            if base.is_float:
                return f"the address in operand {spec.name} must be an integer"
            problem = constant_problem(base.text)
            return f"the address in operand {spec.name} is not a constant: {problem}" if problem is not None else None
        if isinstance(base, SpecialRegister) and "%" not in spec.parts[0].flags:
            return self._special_base(spec, base)
        if not isinstance(base, Symbol):
            return f"an address is a register, a symbol or a constant, not {_KINDS.get(type(base), 'this')}"
        return None

    def _register_base(self, spec: OperandSpec, base: Register, exact: bool) -> str | None:
        register_class = self.classes[self.at]
        self.at += 1
        bits = SCALAR_TYPES.get(register_class)
        if base.member:
            return f"the address in operand {spec.name} may not be a vector element ({base.member})"
        if bits is None or bits.kind not in ("bits", "unsigned", "signed") or bits.bits > 64:
            return f"the address in operand {spec.name} must be an integer register, not .{register_class}"
        least = spec.parts[0].type
        if least != "type" and not register_fits(least, register_class, wider=True):
            return (
                f"the address in operand {spec.name} must be .{least} or wider, and the register is .{register_class}"
            )
        if exact and (bits.bits != SCALAR_TYPES[least].bits or (least[0] == "b" and bits.kind != "bits")):
            return f"the address in operand {spec.name} must be .{least}, and the register is .{register_class}"
        if exact and "&" in spec.parts[0].flags:
            self.needs.append((f"operand {spec.name} in a register", HANDLE))
        return None

    def _special_base(self, spec: OperandSpec, base: SpecialRegister) -> str | None:
        found = SPECIAL_REGISTERS.get(base.name)
        first, *coordinates = spec.parts
        if coordinates:
            return f"the address in operand {spec.name} must be a register or a variable, not {base.name}"
        if found is None or found.elements or found.bits == (1,):
            return f"{base.name} is not an address"
        least = SCALAR_TYPES.get(first.type)
        if least is not None and own_bits(base.name) < least.bits:
            return f"the address in operand {spec.name} must be .{least.name} or wider, and {base.name} is not"
        self.needs.append((base.name, found.need))
        return None

    def type_of(self, spec: OperandSpec) -> tuple[str, int | None]:
        """(scalar type or kind, number of vector elements or None)."""
        name = spec.type
        if name == "frag":
            scalar, n = self.owner.fragment(spec.name, self.slots)
            return scalar, n or None
        count: int | None = None
        if spec.count:
            if spec.count.isdigit():
                count = int(spec.count)
            elif spec.count in self.slots:
                count = count_in(self.slots[spec.count])
        if count is None and "*" in spec.flags:
            count = 1
        double = name.startswith("2*")
        name = name.removeprefix("2*")
        bits = name.startswith("bits(")
        if bits:
            name = name[5:-1]
        name = self.slots.get(name, name)
        if double or bits:
            scalar = SCALAR_TYPES[name]
            width = scalar.bits * (2 if double else 1)
            name = f"{'b' if bits else scalar.name[0]}{width}"
        return name, count

    def _value(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        wanted, count = self.type_of(spec)
        loose = ">" in spec.flags
        scalar = loose or (count == 1 and spec.count != "1" and spec.type != "frag")
        if count is None or (scalar and not isinstance(operand, Vector)):
            return self._scalar(spec, wanted, operand)
        if isinstance(operand, Register) and not operand.member and self.classes[self.at].startswith(f"v{count}."):
            return self._register(spec, wanted, operand, self.classes[self.at].rpartition(".")[2])  # a vector register
        if isinstance(operand, SpecialRegister) and "@" in spec.flags and spec.count in self.slots:
            return self._special(spec, wanted, operand, count)
        if isinstance(operand, Sink) and "__" in spec.flags:
            return operand
        if not isinstance(operand, Vector):
            return f"operand {spec.name} must be a vector of {_elements(count)} in braces, not {_what(spec, operand)}"
        given = len(operand.elements)
        if given != count and not (loose and given > count and given in (2, 4)):
            self.depth = 1
            return f"operand {spec.name} must have {_elements(count)}, not {given}"
        if "*" in spec.flags and isinstance(operand.elements[0], Register) and self.classes[self.at] == "u16":
            return f"operand {spec.name}: a .u16 register may not stand in braces here, one of .b16 or .s16 may"
        self.depth = 2
        return self._vector(spec, wanted, operand)

    def _vector(self, spec: OperandSpec, wanted: str, operand: Vector) -> Operand | str:
        given = operand.elements
        if len(given) > 2 and given.count(_PLAIN) == len(given):
            # a fragment of like registers is as good as its first
            classes = self.classes[self.at : self.at + len(given)]
            if "." not in classes[0] and classes.count(classes[0]) == len(given):
                result = self._register(spec, wanted, _PLAIN, classes[0])
                self.at += len(given) - 1
                return result if isinstance(result, str) else Vector((result,) * len(given))
        found = self._members(spec, given)
        if isinstance(found, str):
            return found
        members, places = found
        self.element = -1
        if not members and all(isinstance(e, Sink) for e in operand.elements):
            return f"operand {spec.name} needs at least one element that is not the sink '_'"
        apart = int(spec.type == "frag" and self.owner.starts_with_index(spec.name, self.slots))
        common = common_class(members, apart)
        if common is None:
            self.element = places[odd_one(members, apart)]
            listed = ", ".join(dict.fromkeys(f".{m}" if m in SCALAR_TYPES else m for m in members))
            return f"the elements of operand {spec.name} must be of one type, not {listed}"
        if any(isinstance(e, Immediate) for e in given):
            for e in given:
                if isinstance(e, SpecialRegister) and ("." in e.name or SPECIAL_REGISTERS[e.name].predicate):
                    return (
                        f"operand {spec.name} has a constant and {e.name} side by side: put one of them into a register"
                    )
        led = spec.role == "$" and members[:1] != [] and members[0] in CONSTANTS
        if led and len(given) > 1 and (members[0] == "int" if apart else common != "int" or wanted == "f64"):
            fitting = led_by_constant(members[0], CONSTANTS.get(common, common), wanted)
            if fitting is None:
                return f"operand {spec.name}: after a floating-point constant registers have the size of .{wanted}, not of .{common}"
            common = fitting
        return self._typed_elements(spec, wanted, given, common, led)

    def _typed_elements(
        self, spec: OperandSpec, wanted: str, given: Sequence[Operand], common: str, led: bool
    ) -> Operand | str:
        """The elements of a vector whose registers and constants have the type `common`; `led` by a constant."""
        mixed = common in SCALAR_TYPES and spec.role == "$"
        if mixed and not any(isinstance(e, Register) for e in given):
            mixed = self._fits(spec, wanted, common) or self._moves_bits(spec, wanted, common)
        elements: list[Operand] = []
        for self.element, element in enumerate(given):
            if isinstance(element, Register):
                result = self._register(spec, wanted, element, common)
            elif mixed and isinstance(element, SpecialRegister):
                result = self._special(spec, f"b{own_bits(element.name)}" if led else common, element)
            elif mixed and isinstance(element, Immediate):
                result = element
            else:
                result = self._scalar(spec, wanted, element)
            if isinstance(result, str):
                return result
            elements.append(result)
        self.element = -1
        return Vector(tuple(elements))

    def _members(self, spec: OperandSpec, given: Sequence[Operand]) -> tuple[list[str], list[int]] | str:
        """The types of the registers and constants in a vector, and where each of them stands."""
        classes = iter(self.classes[self.at :])
        members: list[str] = []  # the class of each register; `int`, `float` or `float32` for a constant
        places: list[int] = []  # where each of them stands
        for self.element, element in enumerate(given):
            places.append(self.element)
            if isinstance(element, Register):
                vector, _, scalar = next(classes).rpartition(".")
                if vector and not element.member:
                    return f"operand {spec.name}: a vector register does not stand in braces"
                members.append(scalar)
            elif isinstance(element, Symbol) and element.offset:
                return f"operand {spec.name}: {element.name}{element.offset} does not stand in braces"
            elif isinstance(element, SpecialRegister):
                members.append("b64" if own_bits(element.name) == 64 else "b32")
            elif isinstance(element, Immediate):
                if (problem := constant_problem(element.text)) is not None:
                    return f"operand {spec.name}: {element.text} is not a constant: {problem}"
                members.append("float32" if element.is_single else "float" if element.is_float else "int")
            else:
                places.pop()
        return members, places

    def _arguments(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        """A call's list, of any length: its prototype says what each element must be."""
        written = spec.role == "="
        name = "results" if written else "arguments"
        if not isinstance(operand, Arguments):
            return f"the {name} of a call stand in parentheses"
        elements: list[Operand] = []
        for element in operand.elements:
            if isinstance(element, Register):
                element = self._register(spec, "any", element)
                if isinstance(element, str):
                    return element
            elif not (isinstance(element, Symbol) and not element.offset) and not isinstance(
                element, Sink if written else Immediate
            ):
                also = "_" if written else "constants"
                given = _KINDS.get(type(element), "this")
                return f"the {name} of a call are registers, .param variables or {also}, not {given}"
            elif isinstance(element, Immediate) and (problem := constant_problem(element.text)) is not None:
                return f"{element.text} is not a constant: {problem}"
            elements.append(element)
        return Arguments(tuple(elements))

    def _scalar(self, spec: OperandSpec, wanted: str, operand: Operand) -> Operand | str:
        match operand:
            case Register():
                return self._register(spec, wanted, operand)
            case Immediate():
                return self._immediate(spec, wanted, operand)
            case Sink():
                return operand if "_" in spec.flags else f"operand {spec.name} may not be the sink '_'"
            case Not(inner, mark):
                return self._negated(spec, wanted, inner, mark)
            case Sum(Register() as inner, offset):
                return self._sum(spec, wanted, inner, offset)
            case Element() if "&" in spec.flags:
                return self._element(spec, operand)
            case Symbol():
                result = self._symbol(spec, wanted, operand)
                if result is not None:
                    return result
            case Target():
                if wanted == "label":
                    return operand
            case SpecialRegister():
                if "@" in spec.flags:
                    return self._special(spec, wanted, operand)
            case _:
                pass
        return f"operand {spec.name} must be {describe(wanted, spec)}, not {_what(spec, operand)}"

    def _negated(self, spec: OperandSpec, wanted: str, inner: Operand, mark: str) -> Operand | str:
        if mark not in spec.flags or (mark == "!" and wanted != "pred"):
            return f"operand {spec.name} may not be negated with '{mark}'"
        if mark == "-" and isinstance(inner, Symbol):
            return f"operand {spec.name}: an address cannot be negated"
        if isinstance(inner, (Symbol, Not)):
            return f"operand {spec.name}: '{mark}' is legal before a register, not before {_KINDS.get(type(inner), 'this')}"
        if mark == "-" and isinstance(inner, Register) and self.classes[self.at] == "f16x2":
            return f"operand {spec.name}: a .f16x2 register cannot be negated"
        result = self._scalar(spec, wanted, inner)
        return result if isinstance(result, str) else Not(result, mark)

    def _symbol(self, spec: OperandSpec, wanted: str, operand: Symbol) -> Operand | str | None:
        """None where a symbol is not what is wanted."""
        if wanted in ("symbol", "label"):
            return f"operand {spec.name} is {describe(wanted, spec)}, without an offset" if operand.offset else operand
        if operand.offset and (problem := _offset_problem(operand.offset)) is not None:
            return f"operand {spec.name}: {problem}"
        if operand.offset and spec.name in self.selectors:
            return f"operand {spec.name} takes no address plus an offset: move it to a register"
        if "&" in spec.flags:
            return operand
        if operand.offset and spec.role == "$" and "%" not in spec.flags and _is_whole(wanted):
            if spec.type not in SCALAR_TYPES or SCALAR_TYPES[wanted].bits == 32:
                return operand  # an address plus an offset is an integer constant
        return None

    def _sum(self, spec: OperandSpec, wanted: str, register: Register, offset: str) -> Operand | str:
        """A register plus a constant, which ptxas takes for the value of a source."""
        if spec.role != "$":
            return f"operand {spec.name} is written and cannot be a register plus a constant"
        if wanted not in SCALAR_TYPES or spec.name in self.selectors:
            return f"operand {spec.name} takes no register plus a constant: add it with an instruction"
        if (problem := _offset_problem(offset)) is not None:
            return f"operand {spec.name}: {problem}"
        # where a modifier gives the type, ptxas does not look at the size of a register in a sum
        if not register.member and spec.type not in SCALAR_TYPES and are_alike(wanted, self.classes[self.at]):
            self.at += 1
            return Sum(PLACEHOLDERS["$"], offset)
        result = self._register(spec, wanted, register)
        return result if isinstance(result, str) else Sum(result, offset)

    def _special(
        self, spec: OperandSpec, wanted: str, operand: SpecialRegister, count: int | None = None
    ) -> Operand | str:
        scalar = SCALAR_TYPES.get(wanted)
        if scalar is None or scalar.kind in ("float", "packed"):
            return f"operand {spec.name} of type .{wanted} cannot be a special register"
        problem = read_problem(operand.name, scalar.bits, count, narrower="+" in spec.flags)
        if problem is not None:
            return problem
        base = operand.name.partition(".")[0]
        self.needs.append((base, SPECIAL_REGISTERS[base].need))
        return operand

    def _register(self, spec: OperandSpec, wanted: str, operand: Register, common: str = "") -> Operand | str:
        """`common` is the type of the vector that the register stands in."""
        register_class = self.classes[self.at]
        self.at += 1
        selector = self.selectors.get(spec.name)
        if operand.member and self.selectors:  # selectors and elements of vectors exclude each other
            if selector is None or "." in register_class or not re.fullmatch(selector, operand.member[1:]):
                legal = f"it may have {_selectors(selector)}" if selector else "it is read whole"
                return f"operand {spec.name} has no part {operand.member}: {legal}"
        elif operand.member:
            vector, _, register_class = register_class.rpartition(".")
            if not vector or operand.member not in MEMBERS:  # ptxas takes .z of a .v2, too
                own = self.classes[self.at - 1]
                return f"operand {spec.name}: a .{own} register has no element {operand.member}"
        if common:
            register_class = common
        role = spec.role
        if role == "=" and operand.member and not selector:
            role = "~"  # writing one element keeps the others
        if wanted == "any":
            return Register(role, operand.member)
        if wanted in ("imm", "label", "symbol"):
            return f"operand {spec.name} must be {describe(wanted, spec)}, not a register"
        if not self._fits(spec, wanted, register_class) and not (
            common and self._moves_bits(spec, wanted, register_class)
        ):
            return f"operand {spec.name} must be {describe(wanted, spec)}, and the register is .{register_class}"
        return Register(role, operand.member) if operand.member else PLACEHOLDERS[role]

    def _fits(self, spec: OperandSpec, wanted: str, register_class: str) -> bool:
        if "?" in spec.flags and SCALAR_TYPES[wanted].bits == bits_of(register_class):
            return True
        fits = register_fits(wanted, register_class, wider="+" in spec.flags)
        if fits and "#" in spec.flags:
            return SCALAR_TYPES[register_class].kind == "bits"
        fixed = spec.type in SCALAR_TYPES or spec.type == "frag"
        if fits and register_class == "f16x2" and fixed and "+" not in spec.flags:
            return SCALAR_TYPES[wanted].kind in ("bits", "packed")  # an integer only where the modifiers give the type
        return fits

    def _moves_bits(self, spec: OperandSpec, wanted: str, register_class: str) -> bool:
        """Whether a register in braces is an integer of the size of the float that the modifiers want: bits are moved."""
        return spec.type not in SCALAR_TYPES and spec.type != "frag" and is_float_of(wanted, register_class)

    def _immediate(self, spec: OperandSpec, wanted: str, operand: Immediate) -> Operand | str:
        if spec.role != "$":
            return f"operand {spec.name} is written and cannot be a constant ({operand.text})"
        if "%" in spec.flags:
            return f"operand {spec.name} must be a register, not a constant"
        if (
            "?" in spec.flags and not operand.is_float and SCALAR_TYPES[wanted].kind != "float"
        ):  # ptxas gives it 64 bits
            return f"operand {spec.name} must be a register, not an integer constant"
        if not operand.text.isalnum() and (problem := constant_problem(operand.text)) is not None:
            return f"operand {spec.name}: {operand.text} is not a constant: {problem}"
        if wanted == "imm":
            if operand.is_float:
                return f"operand {spec.name} must be an integer constant"
        elif wanted in ("label", "symbol"):
            return f"operand {spec.name} must be {describe(wanted, spec)}, not a constant"
        else:
            scalar = SCALAR_TYPES.get(wanted)
            if scalar is None or wanted in ("f16", "bf16") or scalar.kind == "packed":
                return f"operand {spec.name} of type .{wanted} must be a register, not a constant"
            if scalar.kind == "float" and not operand.is_float:
                return (
                    f"operand {spec.name} of type .{wanted} needs a floating-point constant such as 1.0 or 0f3F800000"
                )
            if scalar.kind in ("unsigned", "signed", "pred") and operand.is_float:
                return f"operand {spec.name} of type .{wanted} needs an integer constant"
            if scalar.kind == "bits" and operand.is_float:
                if scalar.bits not in (32, 64):
                    return f"operand {spec.name} of type .{wanted} needs an integer constant"
                if scalar.bits != (32 if operand.is_single else 64):
                    spelling = "0f3F800000" if scalar.bits == 32 else "1.0 or 0d3FF0000000000000"
                    return f"operand {spec.name} of type .{wanted} needs an integer or one such as {spelling}"
        return self._in_range(spec, operand)

    def _in_range(self, spec: OperandSpec, operand: Immediate) -> Operand | str:
        legal = self.ranges.get(spec.name)
        if legal is None:
            return operand
        value = operand.value
        if isinstance(legal, frozenset):
            if value in legal:
                return operand
            return f"operand {spec.name} must be one of {', '.join(map(str, sorted(legal)))}, not {operand.text}"
        if isinstance(legal, range):
            if value in legal:
                return operand
            wanted = f"a multiple of {legal.step} in {legal[0]}..{legal[-1]}"
            return f"operand {spec.name} must be {wanted}, not {operand.text}"
        if legal[0] <= value and (legal[1] is None or value <= legal[1]):
            return operand
        if legal[1] is None:
            return f"operand {spec.name} must be at least {legal[0]}, not {operand.text}"
        return f"operand {spec.name} must be in {legal[0]}..{legal[1]}, not {operand.text}"


def _offset_problem(offset: str) -> str | None:
    """Why what follows an address (`+8`) is not an offset, or None."""
    if offset[0] == "-":
        return f"an offset is added, write +{offset}"
    if offset[1:].isdecimal():
        return None
    if isinstance(evaluate(offset[1:]), float):
        return f"an offset is an integer, not {offset[1:]}"
    return constant_problem(offset[1:])


MEMBERS = (".x", ".r", ".y", ".g", ".z", ".b", ".w", ".a")
"""The elements of a vector register, two spellings each."""


def _is_whole(wanted: str) -> bool:
    scalar = SCALAR_TYPES.get(wanted)
    return scalar is not None and scalar.kind in ("bits", "unsigned", "signed")


def describe(wanted: str, spec: OperandSpec) -> str:
    """`.u32`-typed etc., for messages."""
    if wanted == "imm":
        return "a constant"
    if wanted in ("label", "symbol"):
        return f"a {wanted}"
    if wanted == "pred":
        return "a .pred register"
    return f".{wanted} or wider" if "+" in spec.flags else f".{wanted}"
