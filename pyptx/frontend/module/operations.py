"""`op`: instructions as functions of their sources, which make their own destination: `y = op.ex2.approx.f32(x)`.

In a `@kernel` (`ptx.op`) the result is a register of the type that the instruction writes. In a function of a `Module` it is a
`Value`, whose class goes by the registers that the module has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...dialects.ptx.instruction import find_opcode
from ...types import PtxType, from_name
from ..core.instructions import Opcode, opcode, python_name, spelled
from ..core.registers import Guard, PipeRef, Reg, temporary
from ..core.results import element_type, operator_type, pair_types, result_type, written
from ..core.trace import Trace, current
from .statements import pair
from .trace import ModuleTrace, type_of

__all__ = ["Value", "ValueOpcode", "element_class", "fresh_value", "op", "pair_classes", "result_class"]


class Value(Reg):
    """A register of a `Module`'s function. `dtype` is what operators take it for; its class is in `variable`."""

    __slots__ = ()
    __hash__ = Reg.__hash__

    @classmethod
    def fresh_predicate(cls, trace: Any) -> Value:
        """A predicate to be written."""
        return fresh_value(trace, "pred", from_name("pred"))

    def fresh(self, trace: Any, dtype: PtxType) -> Value:
        """A register for the result of an operator: of the same class, if it has the same type."""
        if dtype is self.dtype and self.variable is not None:
            return fresh_value(trace, self.variable.register_class, dtype)
        return fresh_value(trace, result_class(dtype.name, trace.registers), dtype)

    def __or__(self, other: Any) -> Any:
        """`a | b`, of predicates too (two destinations are `pair(p, q)`)."""
        return self.either(other)


def fresh_value(trace: Trace, register_class: str, dtype: PtxType) -> Value:
    """A new register of a class in a `Module`'s function."""
    variable = trace.fresh(type_of(register_class))
    return Value(variable.name, dtype, variable)


# -------------------------------------------------------------------------------------------------- classes of results


@lru_cache(maxsize=1024)
def result_class(dtype: str, registers: str) -> str:
    """The class of a `Module`'s register for a type: bits for integers, or `.u32` and so on with `unsigned` registers;
    floats of 32 and 64 bits have their own unless registers are `bit`.
    """
    if dtype == "pred" or (dtype in ("f32", "f64") and registers != "bit"):
        return dtype
    is_integer = dtype[0] in "bus" and dtype[1:].isdigit()
    return f"{'u' if registers == 'unsigned' and is_integer else 'b'}{max(from_name(dtype).bits, 16)}"


def pair_classes(words: tuple[str, ...], registers: str, optional: bool = False) -> tuple[str, str] | None:
    """The register classes of an instruction that always has the results `d|p`, or that may have them."""
    types = pair_types(words, optional)
    return types and (result_class(types[0], registers), result_class(types[1], registers))


def element_class(words: tuple[str, ...], count: int, registers: str) -> str:
    """The class of each of the `count` registers that an instruction with a vector as result writes."""
    return result_class(element_type(words, count), registers)


# -------------------------------------------------------------------------------------------------------- instructions


class ValueOpcode:
    """`op.<opcode>(sources)`: the instruction, writing fresh registers, which are returned: one, or a list for a vector and
    for the pair `d|p`, as the instruction's forms say.

    into: what the result is where its name does not say it: a register class (a type in a `@kernel`); a number or list of
    classes makes a vector, a tuple of two the pair `d|p`, `pair` that of an instruction which may have one.
    """

    def __init__(self, words: tuple[str, ...]):
        self._words = words
        self._opcode: Opcode = opcode(".".join(words))
        self.__doc__ = self._opcode.__doc__

    def __getattr__(self, name: str) -> ValueOpcode:
        if name[:2] == "__":
            raise AttributeError(name)
        found = _value_opcode((*self._words, *spelled(name).split(".")))
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return dir(self._opcode)

    def __repr__(self) -> str:
        return "op." + ".".join(map(python_name, self._words))

    def __call__(self, *operands: Any, into: Any = None, pred: Guard = None) -> Any:
        trace = current()
        result: Any = self._results(trace, len(operands), into)
        written: Any = result
        if isinstance(result, tuple):
            result = list(result)
            written = PipeRef(*result)
        self._opcode(written, *operands, pred=pred)
        if isinstance(result, Reg):
            result.defined_at = len(trace.statements) - 1
        return result

    def _results(self, trace: Trace, operands: int, into: Any) -> Reg | list[Reg] | tuple[Reg, ...]:
        """Registers for what it writes: a list for a vector, a tuple for a pair."""
        words = self._words
        if into is pair:
            into = self._pair(trace)
        if into is None:
            return self._default(trace, operands)
        if isinstance(into, int):
            return [_made(trace, element_type(words, into)) for _ in range(into)]
        named = result_type(words)
        if isinstance(into, (str, PtxType)):
            return _made(trace, named, into)
        chosen: Sequence[Any] = into
        made = [_made(trace, "pred" if str(c) == "pred" else named, c) for c in chosen]
        return tuple(made) if isinstance(into, tuple) else made

    def _pair(self, trace: Trace) -> tuple[str, str]:
        types = pair_types(self._words, True)
        if types is None:
            raise trace.error(f"{'.'.join(self._words)} has no pair of results d|p", "leave `into` out")
        if isinstance(trace, ModuleTrace):
            return result_class(types[0], trace.registers), result_class(types[1], trace.registers)
        return types

    def _default(self, trace: Trace, operands: int) -> Reg | list[Reg] | tuple[Reg, ...]:
        """Registers for what its forms say that it writes with that many operands."""
        ways = written(self._words)
        if not ways:
            found = find_opcode(self._words[0], self._words[1:])
            if found is not None and found[0].candidates(self._words[1 + found[1] :]):
                raise trace.error(
                    f"{'.'.join(self._words)} writes no register",
                    f"write inst.{'.'.join(map(python_name, self._words))}(...): op is for instructions with a result",
                )
            return _made(trace, "b32")  # no such instruction, which the call explains
        way = next((w for w in ways if w.operands == operands), ways[0])
        if len(way.results) == 2 and not way.optional:
            return tuple([_made(trace, dtype) for dtype, _ in way.results])
        dtype, count = way.results[0]
        if way.is_scalar or count is None:
            return _made(trace, dtype)
        return [_made(trace, dtype) for _ in range(count)]


def _made(trace: Trace, dtype: str, into: Any = None) -> Reg:
    """A register for a result of a type; `into`: of that class, in a `@kernel` of that type."""
    kind = from_name(operator_type(dtype))
    if isinstance(trace, ModuleTrace):
        return fresh_value(trace, str(into) if into is not None else result_class(dtype, trace.registers), kind)
    if into is not None:
        return temporary(trace, into if isinstance(into, PtxType) else type_of(into))
    return temporary(trace, from_name(dtype))


@lru_cache(maxsize=8192)
def _value_opcode(words: tuple[str, ...]) -> ValueOpcode:
    return ValueOpcode(words)


class _Operations:
    """`op.ex2.approx.f32(x)`: an instruction that declares a register for its destination and returns it."""

    def __getattr__(self, name: str) -> ValueOpcode:
        if name[:2] == "__":
            raise AttributeError(name)
        found = _value_opcode((spelled(name),))
        self.__dict__[name] = found
        return found


if TYPE_CHECKING:
    from ..core.inst_stubs import Operations  # generated: every opcode with its help

    op: Operations
else:
    op = _Operations()
"""Every PTX instruction as a function of its sources: `d = op.add.s32(a, b)`."""
