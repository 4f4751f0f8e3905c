"""Calls of device functions with the parameter blocks around them, for the functions of a `Module` (PTX ISA 7.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...diagnostics import counted
from ...types import from_name
from ..core.instructions import AddressOperand, inst, opcode
from ..core.registers import Reg
from ..core.trace import current
from .statements import close_scope, label_list, open_scope, variable
from .values import op

__all__ = ["CONVENTIONS", "Convention", "call", "default_type", "prototype_text"]


@dataclass(frozen=True, slots=True)
class Convention:
    """How a compiler writes the block of a call."""

    paired: bool = False
    """Whether each parameter is declared right before its store; else all are, and the result, before the first store."""
    result_first: bool = False
    backwards: bool = False
    """Whether the last argument is stored first."""
    offset: str = ""
    """What addresses carry: `+0` or nothing."""
    own_types: bool = False
    """Whether parameters are declared with the types they are stored as, not with bits of their size."""
    uni: bool = True
    """Of a call by name; one through a register is never `.uni`."""
    argument: str = "param{}"
    first: int = 0
    result: str = "retval0"

    def name(self, number: int) -> str:
        """The parameter for an argument, from 0."""
        return self.argument.format(number + self.first)

    def declared(self, dtype: str) -> str:
        """The head of a parameter's declaration."""
        return f".param .{dtype if self.own_types else default_type(dtype)}"

    def stored(self, register_class: str) -> str:
        """The type by which an argument in a register is stored: floats as such, else bits of its size."""
        return register_class if self.own_types or register_class[0] == "f" else default_type(register_class)

    def steps(self, count: int, returns: bool, prototype: bool) -> Iterator[tuple[str, int]]:
        """The statements of the block: `declare` or `store` with the number of an argument, `result` (its declaration),
        `prototype`, `call` and `load`.
        """
        order = range(count - 1, -1, -1) if self.backwards else range(count)
        if returns and self.result_first:
            yield "result", -1
        for i in range(count):
            yield "declare", i
            if self.paired:
                yield "store", i
        if returns and not self.result_first:
            yield "result", -1
        if not self.paired:
            for i in order:
                yield "store", i
        if prototype:
            yield "prototype", -1
        yield "call", -1
        if returns:
            yield "load", -1


CONVENTIONS: dict[str, Convention] = {
    "llvm": Convention(),
    "nvcc": Convention(paired=True, offset="+0"),
    "paired": Convention(paired=True),
    "backwards": Convention(backwards=True),
    "gcc": Convention(
        paired=True, result_first=True, own_types=True, uni=False, argument="%out_arg{}", first=1, result="%value_in"
    ),
}
"""By the `style` of `call`: LLVM and Clang, nvcc up to 12 and for older targets, nvcc 13, LLVM from 21 on, GCC."""


def default_type(register_class: str) -> str:
    """The bits of a type's size: that of a parameter."""
    return f"b{from_name(register_class).bits}"


def prototype_text(types: Sequence[str], returns: str) -> str:
    """The prototype of a function that is called through a register."""
    result = f".param .{default_type(returns)} _" if returns else ""
    return f".callprototype ({result}) _ ({', '.join(f'.param .{default_type(t)} _' for t in types)});"


def call(
    function: Any, *arguments: Any, types: Sequence[str] | None = None, returns: str = "", style: str | None = None,
    prototype: str = "", into: Any = None,
) -> Any:  # fmt: skip
    """Call a function with scalar arguments; its value, of the type `returns`, or None.

    A `{ }` block with a `.param` for each argument and the result, `st.param`, `call.uni` and `ld.param`. types: those of
    the arguments (default: floats as such, else bits of the registers' size, b32 for numbers). style: how the block is written, as one of
    `CONVENTIONS`, by default as the module says. prototype: for a function whose address is in a register, what to call its `.callprototype`. into: a
    register for the value, else a new one.
    """
    style = style or str(getattr(current(), "calls", "llvm"))
    how = CONVENTIONS.get(style)
    if how is None:
        raise ValueError(f"call: style is one of {', '.join(CONVENTIONS)}, not {style!r}")
    stored = list(types) if types is not None else [_type_of(a, how) for a in arguments]
    if len(stored) != len(arguments):
        raise ValueError(f"call: {counted(len(arguments), 'argument')} and {counted(len(stored), 'type')}")
    names = [how.name(i) for i in range(len(arguments))]
    found = None
    open_scope()
    for step, i in how.steps(len(arguments), bool(returns), bool(prototype)):
        match step:
            case "declare":
                variable(how.declared(stored[i]), names[i])
            case "store":
                opcode(f"st.param.{stored[i]}")(AddressOperand(names[i], how.offset or None), arguments[i])
            case "result":
                variable(how.declared(returns), how.result)
            case "prototype":
                label_list(prototype, prototype_text(stored, returns))
            case "call":
                results = [(how.result,)] if returns else []
                passed = [tuple(names)] if names or prototype else []
                target = inst.call.uni if how.uni and not prototype else inst.call
                target(*results, function, *passed, *([prototype] if prototype else []))
            case _:
                place = AddressOperand(how.result, how.offset or None)
                load = opcode(f"ld.param.{returns}")
                found = getattr(op.ld.param, returns)(place) if into is None else load(into, place)
    close_scope()
    return found


def _type_of(argument: Any, how: Convention) -> str:
    if isinstance(argument, Reg) and argument.variable is not None:
        return how.stored(argument.variable.register_class)
    return "b64" if isinstance(argument, str) else "b32"
