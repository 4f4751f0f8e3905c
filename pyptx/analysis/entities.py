"""What a name stands for in a PTX module (variable, parameter, register, label, function, prototype), and whether a
call fits its callee.

PTX ISA 5 (variables), 7.1 (function declarations and calls).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..dialects.ptx.structure import DeclarationAttr, extents
from ..dialects.ptx.syntax import Arguments, Immediate, Operand, Register, Sink, Symbol, plain_name
from ..dialects.ptx.types import ARRAY_TYPES, SCALAR_TYPES, register_fits

Kind = Literal["variable", "register", "label", "function", "entry", "prototype", "branch targets", "call targets"]
KIND_NAMES: dict[str, str] = {
    "variable": "a variable",
    "register": "a register",
    "label": "a label",
    "function": "a function",
    "entry": "a kernel",
    "prototype": "a .callprototype",
    "branch targets": "a .branchtargets list",
    "call targets": "a .calltargets list",
}
PLACE_NAMES: dict[str, str] = {
    "entry": "a kernel parameter", "input": "an input parameter of the function",
    "output": "a return parameter of the function",
    "argument": "a .param variable of this body",
}  # fmt: skip
OPAQUE = frozenset({"texref", "samplerref", "surfref"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule: what, what would be legal, and where: the word of the statement to point at, or the operand (-1:
    the whole).
    """

    message: str
    hint: str | None = None
    word: str = ""
    operand: int = -1
    severity: Literal["error", "warning"] = "error"
    untried: str | None = None
    """What may be meant, where nobody tries it."""

    @property
    def advice(self) -> str | None:
        """`hint` and `untried`, for those who cannot try anything."""
        return "\n".join(filter(None, (self.untried, self.hint))) or None


@dataclass(frozen=True, slots=True)
class Formal:
    """A parameter or variable as calls compare them: its scalar type, vector length, array extents, space and alignment
    in bytes.
    """

    name: str
    space: str
    type: str
    vector: int
    extents: tuple[int | None, ...]
    alignment: int

    @property
    def register_class(self) -> str:
        return f"v{self.vector}.{self.type}" if self.vector > 1 else self.type

    @property
    def incomplete(self) -> bool:
        return None in self.extents or self.extents[:1] == (0,)

    @property
    def bytes(self) -> int:
        total = _bytes(self.type) * self.vector
        for extent in self.extents:
            total *= extent or 0
        return total

    def __str__(self) -> str:
        array = "".join(f"[{'' if e is None else e}]" for e in self.extents)
        vector = f".v{self.vector} " if self.vector > 1 else ""
        return f".{self.space} {vector}.{self.type}{' ' + array if array else ''}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call must bring: the return parameters and the input parameters of a function or prototype."""

    returns: tuple[Formal, ...]
    inputs: tuple[Formal, ...]

    def __str__(self) -> str:
        returns = f"({', '.join(map(str, self.returns))}) " if self.returns else ""
        return f"{returns}_ ({', '.join(map(str, self.inputs))})"


@dataclass(slots=True)
class Entity:
    """One named thing. `place` of a variable is its state space, of a parameter `entry`, `input`, `output` or
    `argument`.
    """

    name: str
    kind: Kind
    place: str = ""
    formal: Formal | None = None
    signature: Signature | None = None
    targets: tuple[str, ...] = ()
    """The functions of a `.calltargets` list, or the initial values of an array that may be a call table."""
    linking: str = ""
    defined: bool = True
    ranged: bool = False
    """Whether it is of a range, `x<4>`: `x03` is then a name of x3, too."""

    @property
    def what(self) -> str:
        """`the .global variable gb`, for messages."""
        if self.place in PLACE_NAMES:
            return f"{self.name} is {PLACE_NAMES[self.place]}"
        if self.kind == "variable":
            opaque = self.formal is not None and self.formal.type in OPAQUE
            return f"{self.name} is a .{self.formal.type if opaque and self.formal else self.place} variable"
        return f"{self.name} is {KIND_NAMES[self.kind]}"


def named(known: Mapping[str, Entity], name: str) -> Entity | None:
    """What the name is: of a range's names, `x03` is another spelling of `x3`."""
    found = known.get(name)
    if found is None and (plain := plain_name(name)) != name:
        found = known.get(plain)
        return found if found is not None and found.ranged else None
    return found


def call_table(formal: Formal, tail: Sequence[str]) -> tuple[str, ...]:
    """The initial values of an array of addresses, or of their bytes, each by its first name or number, if the first is
    a name (`tail` is what follows the array's name); empty if it cannot list the functions of an indirect call (PTX
    ISA 9.7.14.5).
    """
    if formal.type not in ("u8", "u32", "u64") or len(formal.extents) != 1 or formal.vector > 1 or "=" not in tail:
        return ()
    values = tail[tail.index("=") + 1 :]
    if len(values) < 3 or values[0] != "{" or not (_named(values[1]) or (len(values) > 4 and _named(values[3]))):
        return ()
    found: list[str] = []
    start = 1
    for at in range(1, len(values)):
        if values[at] in (",", "}"):
            masked = at - start > 3 and values[start + 1] == "("  # `0xFF(name)`
            found.append(values[start + 2 if masked else start])
            start = at + 1
    return tuple(found) if found and _named(found[0]) else ()


def _named(word: str) -> bool:
    return (word[0].isalpha() or word[0] in "_$%") and word not in ("WARP_SZ", "%")


def _bytes(scalar: str) -> int:
    found = SCALAR_TYPES.get(scalar)
    return (found.bits + 7) // 8 if found is not None else 8


@lru_cache(maxsize=8192)
def formals(declaration: DeclarationAttr) -> tuple[Formal, ...]:
    """One `Formal` for each name of a declaration (`a<4>` counts as one)."""
    found: list[Formal] = []
    scalar, vector = declaration.type, declaration.vector
    try:
        alignment = declaration.alignment
    except (ValueError, IndexError):
        alignment = None
    for name, tail in declaration.items:
        try:
            sizes = tuple(extents(tail)) if tail[:1] == ("[",) else ()
        except ValueError:  # where it is declared, that is an error
            sizes = ()
        natural = _bytes(scalar) * vector
        found.append(Formal(name, declaration.space, scalar, vector, sizes, alignment or natural))
    return tuple(found)


def signature_of(returns: Sequence[DeclarationAttr], params: Sequence[DeclarationAttr]) -> Signature:
    return Signature(tuple(f for d in returns for f in formals(d)), tuple(f for d in params for f in formals(d)))


# ------------------------------------------------------------------------------------------------------------ calls


def call_problem(
    callee: str, signature: Signature, results: Arguments | None, arguments: Arguments | None, classes: Sequence[str],
    lookup: Mapping[str, Entity], *, counted: bool = True,
) -> str | None:  # fmt: skip
    """Why a call does not fit a signature, or None. `classes` are the classes of its registers in text order. Of the
    functions that an indirect call may reach ptxas counts the parameters of one only (`counted`) where the call has
    none.
    """
    given = results.elements if results is not None else ()
    if len(given) != len(signature.returns) and (counted or given):
        return f"{callee} returns {_count(len(signature.returns), 'value')}, and the call takes {len(given)}"
    passed = arguments.elements if arguments is not None else ()
    wanted = len(signature.inputs)
    unsized = arguments is not None and bool(signature.inputs) and signature.inputs[-1].incomplete
    optional = wanted - 1 if unsized else wanted
    if not optional <= len(passed) <= wanted and (counted or passed):
        return f"{callee} takes {_count(wanted, 'argument')}, and the call gives {len(passed)}"
    at = 0
    for what, actuals, wanted_formals in (("result", given, signature.returns), ("argument", passed, signature.inputs)):
        for number, (actual, formal) in enumerate(zip(actuals, wanted_formals, strict=False), 1):
            register_class = ""
            if isinstance(actual, Register):
                register_class = classes[at]
                at += 1
            problem = _mismatch(actual, formal, register_class, what, lookup)
            if problem is not None:
                return f"{what} {number} of the call of {callee}: {problem}"
    return None


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _mismatch(
    actual: Operand, formal: Formal, register_class: str, what: str, lookup: Mapping[str, Entity]
) -> str | None:
    scalar = SCALAR_TYPES.get(formal.type)
    match actual:
        case Sink():
            return None if what == "result" else "an argument may not be the sink '_'"
        case Register():
            if formal.extents:
                return f"the parameter is {formal}: it needs a .param variable, not a register"
            if formal.space == "param" and formal.alignment != _bytes(formal.type) * formal.vector:
                return f"the parameter has .align {formal.alignment}: it needs a .param variable that has it, too"
            return _class_mismatch(formal, register_class, "register")
        case Immediate():
            if formal.extents or scalar is None or scalar.kind == "pred":
                return f"the parameter is {formal}, which no constant fits"
            if scalar.kind == "float" and not actual.is_float:
                return f"the parameter is {formal}: write the constant as 1.0 or 0f3F800000"
            if scalar.is_integer and actual.is_float:
                return f"the parameter is {formal}, which needs an integer constant"
            return None
        case Symbol():
            entity = lookup.get(actual.name)
            if entity is None or entity.kind == "label":
                return f"{actual.name} is not declared"
            if entity.place != "argument" or entity.formal is None:
                return f"{entity.what}; pass a register, a constant or a .param variable declared in this body"
            return _variable_mismatch(formal, entity.formal)
        case _:
            return None


def _class_mismatch(formal: Formal, register_class: str, what: str) -> str | None:
    vector, _, scalar = register_class.rpartition(".")
    if int(vector[1:] if vector else 1) == formal.vector and register_fits(formal.type, scalar):
        return None
    return f"the parameter is {formal}, and the {what} is .{register_class}"


def _variable_mismatch(formal: Formal, actual: Formal) -> str | None:
    if bool(formal.extents) != bool(actual.extents):
        return f"the parameter is {formal}, and {actual.name} is {actual}"
    if not formal.extents:
        problem = _class_mismatch(formal, actual.register_class, "variable")
    elif not _arrays_fit(formal, actual):
        problem = f"the parameter is {formal}, and {actual.name} is {actual}"
    else:
        problem = None
    if problem is None and formal.alignment != actual.alignment and (formal.space == "param" or formal.extents):
        return f"the parameter is aligned to {formal.alignment} bytes, and {actual.name} to {actual.alignment}"
    return problem


def _arrays_fit(formal: Formal, actual: Formal) -> bool:
    """Arrays agree in size, and in element type unless one of them is of a bit type."""
    kinds = {SCALAR_TYPES[t].kind for t in (formal.type, actual.type) if t in SCALAR_TYPES}
    if formal.type in ARRAY_TYPES or actual.type in ARRAY_TYPES:
        return False  # not even one of the same type
    if formal.type != actual.type and "bits" not in kinds:
        return False
    if formal.incomplete:
        return True
    if len(formal.extents) > 1 or len(actual.extents) > 1:
        return formal.extents == actual.extents
    return formal.bytes == actual.bytes


def prototype_difference(first: Signature, second: Signature) -> str | None:
    """How two declarations of one function differ, or None."""
    for what, a, b in (("return values", first.returns, second.returns), ("parameters", first.inputs, second.inputs)):
        if len(a) != len(b):
            return f"the number of {what} was {len(a)} and is {len(b)}"
        for x, y in zip(a, b, strict=True):
            if (x.space, x.type, x.vector, x.extents) != (y.space, y.type, y.vector, y.extents):
                return f"{what[:-1]} {y.name} was {x} and is {y}"
            if x.alignment != y.alignment:
                return f"{what[:-1]} {y.name} was aligned to {x.alignment} and is aligned to {y.alignment}"
    return None
