"""`ptx.printf` and `ptx.assert_`: calls of what the CUDA driver links into kernels, `vprintf` and `__assertfail`.

Both are external functions (PTX ISA 7.1, 7.2; CUDA C++ Programming Guide, "Formatted Output" and "Assertion"). `vprintf` takes the addresses of the
format and of a buffer with the arguments, each aligned to its size, floats as doubles.
"""

from __future__ import annotations

import operator
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from ...diagnostics import counted
from ...dialects.ptx.structure import DeclarationAttr, FunctionOp, TokensAttr, VariableOp
from ...ssa.statement import Kind, Shape
from ...types import PtxType, b8, b32, f32, f64, s32, u32, u64
from ..core.instructions import AddressOperand, emit, move
from ..core.registers import Guard, NegPred, Reg, temporary
from ..core.trace import Trace, current, declaration_shape
from ..memory.addresses import var
from .control import if_

__all__ = ["assert_", "printf"]

_WORD = re.compile(r"%[a-zA-Z_]\w*(?:\.[xyzw]\b)?")
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?P<precision>\.(?:\*|\d*))?(?P<length>hh|ll|[hlLqjzt]?)(?P<kind>.?)"
)
_MOST_ARGUMENTS = 32
"""What `printf` of a kernel takes besides the format (CUDA C++ Programming Guide, "Limitations")."""


def printf(format: str, *values: Any, pred: Guard = None) -> None:
    r"""Print from every thread that comes here, where `pred` holds: as `printf` of CUDA C++, with the format of C. On a GPU the text
    appears when the host synchronizes; the simulator prints after the launch, and `Report.prints` has each line of text with the
    Python line and the thread that it comes from.

    | in the format | takes |
    |---|---|
    | `%d` `%i` `%u` `%x` `%X` `%o` `%c` | an integer register of 16 or 32 bits, an int, a predicate (1 or 0) |
    | `%lld` `%llu` `%llx` (`ll` or `l`) | an integer register of 64 bits, an int |
    | `%f` `%e` `%g` `%F` `%E` `%G` | an f32, f64 or f16 register, a float |
    | `%p` | a register of 64 bits: an address |
    | `%s` | a Python str |
    | `%%` | nothing |

        ptx.printf("thread %d has %f\n", t, value, pred=first)

    One `vprintf` call: the arguments are stored to local memory, which costs registers and stack. PTXError, at the line, for a
    wrong number of values, a value whose type the conversion does not take, a conversion that C does not have, more than 32 values.
    """
    trace = current()
    if not isinstance(format, str):
        raise trace.error(f"the format of printf is a str, not {type(format).__name__}", 'ptx.printf("x is %f\\n", x)')
    named = [] if values else [word for word in _WORD.findall(format) if word in trace.names or "." in word]
    if named:
        raise trace.error(
            f"the format has the name of the register {named[0]}, as an f-string writes it: it has no value while the kernel is traced",
            'the values follow the format: ptx.printf("thread %d\\n", tid)',
        )
    kinds = _conversions(trace, format)
    if len(kinds) != len(values):
        raise trace.error(
            f"the format {format!r} has {counted(len(kinds), 'conversion')}, and {counted(len(values), 'value')} {'is' if len(values) == 1 else 'are'} given",
            "each conversion such as %d takes one value; a percent sign is %%",
        )
    if len(values) > _MOST_ARGUMENTS:
        raise trace.error(f"printf takes {_MOST_ARGUMENTS} values at most, not {len(values)}", "print in two calls")
    for i, (kind, value) in enumerate(zip(kinds, values, strict=True), 1):
        _check(trace, i, kind, value)
    if pred is not None:
        with if_(pred):
            _printf(trace, format, kinds, values)
    else:
        _printf(trace, format, kinds, values)


def assert_(condition: Reg | NegPred | bool, message: str = "") -> None:
    """Stop the launch unless the predicate holds in each thread that comes here: as `assert` of CUDA C++, by `__assertfail`.

    A GPU prints file, line, kernel, block and thread and ends all kernels with cudaErrorAssert; the simulator raises a
    SimulationError that says the same. message: a Python str that is printed; by default the source line.

        ptx.assert_(t < 512, "more threads than elements")

    PTXError for what is not a predicate. A Python bool is decided while tracing: False is a PTXError at once.
    """
    trace = current()
    if isinstance(condition, bool):
        if not condition:
            raise trace.error(f"assertion failed: {message or 'False'}")
        return
    found = condition.reg if isinstance(condition, NegPred) else condition
    if not isinstance(found, Reg) or found.dtype.name != "pred":
        what = f"a register of {found.dtype}" if isinstance(found, Reg) else repr(condition)
        raise trace.error(f"assert_ takes a predicate p or ~p, not {what}", "a comparison is one: i < n")
    if not isinstance(message, str):
        raise trace.error(f"the message of assert_ is a str, not {type(message).__name__}")
    here = trace.diagnostic("")
    text = message or (here.source_line or "").strip()
    with if_(condition.reg if isinstance(condition, NegPred) else NegPred(condition)):
        arguments = [
            ("b64", _string(trace, text)),
            ("b64", _string(trace, os.path.basename(here.filename or ""))),
            ("b32", here.line or 0),
            ("b64", _string(trace, trace.name)),
            ("b64", 1),
        ]
        _call(trace, "__assertfail", arguments, returns=False)


# ------------------------------------------------------------------------------------------------------------- formats


@dataclass(frozen=True, slots=True)
class _Conversion:
    """One conversion of a format: its text, its letter, and the bits of the integer that it takes."""

    text: str
    kind: str
    bits: int


def _conversions(trace: Trace, format: str) -> list[_Conversion]:
    found: list[_Conversion] = []
    for each in _CONVERSION.finditer(format):
        text, kind, length = each.group(), each["kind"], each["length"]
        if kind == "%" and text == "%%":
            continue
        if not kind or kind not in "diuxXocfFeEgGaAps":
            raise trace.error(
                f"{text!r} in the format is not a conversion", "%d %u %x %lld %f %e %g %c %s %p; a percent sign is %%"
            )
        if "*" in text:
            raise trace.error(f"{text!r}: the width of a conversion is a number here", "%8d")
        if length in ("hh", "h", "L", "q", "j", "z", "t") or (length and kind not in "diuxXo" and length != "l"):
            raise trace.error(f"{text!r}: {length} is not a length that pyptx prints", f"%{kind} or %ll{kind}")
        if max((int(n) for n in re.findall(r"\d+", text)), default=0) > 4095:
            raise trace.error(f"{text!r:.40}: a conversion prints at most 4095 characters (C17 7.21.6.1)", "%8d")
        found.append(_Conversion(text, kind, 64 if kind == "p" or (length and kind in "diuxXo") else 32))
    return found


def _check(trace: Trace, number: int, conversion: _Conversion, value: Any) -> None:
    """PTXError for a value that the conversion does not take."""
    text, kind = conversion.text, conversion.kind
    takes, fits, hint = "", False, None
    dtype = value.dtype if isinstance(value, Reg) else None
    if kind == "s":
        takes, fits = "a Python str", isinstance(value, str)
    elif kind in "fFeEgGaA":
        takes = "an f32, f64 or f16 register or a float"
        fits = dtype.name in ("f32", "f64", "f16") if dtype else isinstance(value, (int, float, np.floating))
        hint = "an integer is printed by %d" if dtype and dtype.is_integer else "convert it with ptx.cvt"
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise trace.error(f"value {number} of printf is too large for {text}: an f64 is up to 1.8e308")
    elif conversion.bits == 64:
        takes = "an integer register of 64 bits or an int"
        fits = dtype.is_integer and dtype.bits == 64 if dtype else _is_int(value) and kind != "p"
        hint = f"%{kind} takes 32 bits" if kind != "p" else None
    else:
        takes = "an integer register of 16 or 32 bits, a predicate or an int"
        fits = dtype.name == "pred" or (dtype.is_integer and dtype.bits in (16, 32)) if dtype else _is_int(value)
        hint = f"64 bits are printed by %ll{kind}" if dtype and dtype.bits == 64 else "a float is printed by %f"
    if not fits:
        what = f"a register of {dtype}" if dtype else f"{type(value).__name__} {value!r:.40}"
        raise trace.error(f"value {number} of printf is for {text}, which takes {takes}, not {what}", hint)
    if _is_int(value) and kind not in "fFeEgGaA" and not -(1 << (conversion.bits - 1)) <= value < 1 << conversion.bits:
        raise trace.error(
            f"{value} has more than the {conversion.bits} bits of {text}", "%lld" if conversion.bits == 32 else None
        )


def _is_int(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, (Reg, float))


# --------------------------------------------------------------------------------------------------------------- calls


def _printf(trace: Trace, format: str, kinds: Sequence[_Conversion], values: Sequence[Any]) -> None:
    stored = [_widened(trace, kind, value) for kind, value in zip(kinds, values, strict=True)]
    end, places = 0, list[int]()
    for dtype, _ in stored:
        end = -(-end // dtype.bytes) * dtype.bytes
        places.append(end)
        end += dtype.bytes
    buffer: Any = 0
    if stored:
        name = var("local", b8, f"$_printf_{trace.count('printf')}", size=end, align=8)
        buffer = temporary(trace, u64)
        local = temporary(trace, u64)
        move(local, name)
        for (dtype, value), at in zip(stored, places, strict=True):
            emit(f"st.local.{dtype.name}", AddressOperand(local, at or None), value)
        emit("cvta.local.u64", buffer, local)
    _call(trace, "vprintf", [("b64", _string(trace, format)), ("b64", buffer)], returns=True)


def _widened(trace: Trace, conversion: _Conversion, value: Any) -> tuple[PtxType, Any]:
    """A value as it lies in the buffer: floats as f64, integers with 32 or 64 bits."""
    if conversion.kind in "fFeEgGaA":
        if not isinstance(value, Reg):
            return f64, float(value)
        if value.dtype.name == "f16":
            value, half = temporary(trace, f32), value
            emit("cvt.f32.f16", value, half)
        if value.dtype.name == "f32":
            value, single = temporary(trace, f64), value
            emit("cvt.f64.f32", value, single)
        return f64, value
    if conversion.kind == "s":
        return u64, _string(trace, value)
    if not isinstance(value, Reg):
        bits = operator.index(value) & ((1 << conversion.bits) - 1)
        return (u64 if conversion.bits == 64 else u32), bits
    if conversion.bits == 64:
        return u64, value
    if value.dtype.name == "pred":
        number = temporary(trace, u32)
        emit("selp.u32", number, 1, 0, value)
        return u32, number
    if value.dtype.bits == 16:
        signed = value.dtype.is_signed
        number = temporary(trace, s32 if signed else u32)
        emit("cvt.s32.s16" if signed else "cvt.u32.u16", number, value)
        return u32, number
    return b32, value


@dataclass(frozen=True, slots=True)
class _Text:
    """A string of the module."""

    text: str
    name: str


def _string(trace: Trace, text: str) -> Reg:
    """The generic address of a string of the module, one variable for each text."""
    known = next((each for each in trace.notes(_Text) if each.text == text), None)
    if known is None:
        data = [*text.encode(), 0]
        known = _Text(text, f"$_text_{trace.count('text')}")
        trace.notes(_Text).append(known)
        trace.symbols.add(known.name)
        trace.spaces[known.name] = "global"
        words = [word for byte in data for word in (",", str(byte))][1:]
        tail = ("[", str(len(data)), "]", "=", "{", *words, "}")
        shape = declaration_shape(VariableOp, (".global", ".align", "1", ".b8"), known.name, tail=tail)
        trace.module_statements.append((shape, (), "", trace.place(), ""))
    address = temporary(trace, u64)
    move(address, known.name)
    emit("cvta.global.u64", address, address)
    return address


@dataclass(frozen=True, slots=True)
class _Declared:
    """An external function that is declared already."""

    name: str


def _call(trace: Trace, function: str, arguments: Sequence[tuple[str, Any]], *, returns: bool) -> None:
    """`call` of an external function, in a `{ }` block with its parameters; it may be reached by some lanes of a warp only."""
    if _Declared(function) not in trace.notes(_Declared):
        trace.notes(_Declared).append(_Declared(function))
        trace.symbols.add(function)
        trace.module_statements.append(
            (_prototype(function, [t for t, _ in arguments], returns), (), "", trace.place(), "")
        )
    trace.open_scope()
    names = [f"param{i}" for i in range(len(arguments))]
    for (dtype, _), name in zip(arguments, names, strict=True):
        _parameter(trace, dtype, name)
    if returns:
        _parameter(trace, "b32", "retval0")
    for (dtype, value), name in zip(arguments, names, strict=True):
        emit(f"st.param.{dtype}", AddressOperand(name), value)
    emit("call", *([("retval0",)] if returns else []), function, tuple(names))
    trace.close_scope()


def _parameter(trace: Trace, dtype: str, name: str) -> None:
    trace.record(declaration_shape(VariableOp, (".param", f".{dtype}"), name), (), trace.place())


def _prototype(function: str, types: Sequence[str], returns: bool) -> Shape:
    shape = Shape(Kind.OTHER, [], [])
    shape.op_class, shape.styled = FunctionOp, True
    declared = [_declaration(t, f"{function}_param_{i}") for i, t in enumerate(types)]
    shape.properties = {
        "head": TokensAttr((".extern", ".func")),
        "sym_name": StringAttr(function),
        "params": ArrayAttr(declared),
        "directives": TokensAttr(()),
    }
    if returns:
        shape.properties["returns"] = ArrayAttr([_declaration("b32", "func_retval0")])
    return shape


def _declaration(dtype: str, name: str) -> DeclarationAttr:
    return DeclarationAttr(((".param", f".{dtype}"), ((name, ()),)))
