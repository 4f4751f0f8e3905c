"""`ptx.inst`: every PTX instruction as an attribute path, `ptx.inst.add.u32(d, a, b)`.

A path finds its op class once; a call cuts its operands into registers and everything else (the key of the statement's
`Shape`), so that the second instruction of a shape costs a dictionary look-up. The op class judges each shape once per
kernel.
"""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...diagnostics import PTXError, counted
from ...dialects.ptx import all as all_chapters
from ...dialects.ptx.instruction import OPCODES, Instruction, find_opcode
from ...dialects.ptx.memo import Memo
from ...dialects.ptx.opcode_problems import unknown_opcode
from ...dialects.ptx.syntax import (
    Address,
    Arguments,
    Immediate,
    Layout,
    Not,
    Operand,
    OperandParser,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
    SyntaxProblem,
    Vector,
    evaluate,
    is_special_register,
    lex,
    transform,
)
from ...dialects.ptx.types import SCALAR_TYPES
from ...ssa.shapes import branch_target, fill_instruction, table_name
from ...ssa.statement import Kind, Shape
from ...ssa.statement import Reg as Variable
from ...types import PtxType
from .advice import refused, refused_value
from .nonvalue import NotAValue, NoTruth
from .raw import raw
from .registers import Guard, NegPred, PipeRef, Reg, RegArray, SpecialReg, temporary
from .spaces import pointer_problem
from .trace import FINISHED, Trace, _current, current

Key = Any
"""What a Python operand is apart from its registers: a register class (str), an int, or a tagged tuple (see `_key`)."""


class Opcode:
    """An instruction's dotted name. Attributes extend it, a call emits it.

    Names: a trailing `_` is dropped (`and_`), `_2d` is `2d`, `__` is `::`. PTXError at the call for an unknown opcode
    or modifier and for operands that no form of the instruction takes, or that the kernel's target does not have.
    """

    chapters = all_chapters  # importing it registers every op class

    _words: tuple[str, ...]
    _cls: type[Instruction] | None
    _modifiers: tuple[str, ...]
    _shapes: Memo[tuple[Key, ...], tuple[Shape, str]]

    def __init__(self, words: tuple[str, ...]):
        self._words = words
        self._cls = None
        self._modifiers = ()
        self._shapes = Memo()
        self._reads_special = False

    def __getattr__(self, name: str) -> Opcode:
        if name[:2] == "__":
            raise AttributeError(name)
        found = _path((*self._words, *spelled(name).split(".")))
        self.__dict__[name] = found
        return found

    def __repr__(self) -> str:
        return "ptx.inst." + ".".join(self._words)

    def __dir__(self) -> list[str]:
        """What may follow, for completion in notebooks: the rest of longer opcodes, and the modifiers of those forms
        that know all that is written.
        """
        root, *rest = self._words
        dotted = [*self._words, ""]
        found = {o.split(".")[len(self._words)] for o in OPCODES if o.startswith(".".join(dotted))}
        if (known := find_opcode(root, rest)) is not None:
            written = set(rest[known[1] :])
            found |= {word for form in known[0].forms if written <= form.tokens for word in form.tokens - written}
        return sorted(map(python_name, found))

    def __call__(self, *operands: Any, pred: Guard = None) -> Any:
        trace = _current.get()
        if trace is None:
            current()
            raise AssertionError
        regs: list[Variable] = []
        key: list[Key] = []
        if pred is not None:
            key.append(_guard(trace, pred, regs))
        for operand in operands:
            kind = operand.__class__
            if kind is Reg:
                variable = operand.variable or operand.resolve(trace)
                regs.append(variable)
                key.append(variable.register_class)
            elif kind is int:
                key.append(operand)
            elif kind is RegArray:
                regs += operand.variables
                key.append(operand.key)
            else:
                key.append(_key(trace, operand, regs, self))
        found = self._shapes.get(tuple(key))
        if found is None:
            found = self._make(trace, tuple(key))
        shape, name = found
        place = trace.place(2)
        if shape not in trace.used:
            try:
                trace.check(shape, place)
            except PTXError as error:
                assert self._cls is not None
                raise refused(self._cls, self._modifiers, operands, error) from None
        trace.statements.append((shape, regs, trace.lead, place, name))
        trace.lead = ""
        if operands:
            first = operands[0]
            if isinstance(first, Reg):
                return first
        return None

    def _make(self, trace: Trace, key: tuple[Key, ...]) -> tuple[Shape, str]:
        cls = self._find(trace)
        guard = ""
        if key and isinstance(key[0], str) and key[0][0] == "@":
            guard, guard_class = key[0].split(" ")
            operands = key[1:]
        else:
            guard_class, operands = "", key
        wide = wide_floats(self._words)
        layout = tuple(_operand(k, wide) for k in operands)
        classes = tuple(c for k in operands for c in _classes(k))
        if FINISHED in (*classes, guard_class):
            raise trace.error("a register of another kernel stands here", "registers live in the trace that made them")
        if cls.resolve(self._modifiers, layout, classes).problem is not None:
            layout = self._constants(cls, classes, layout, wide)
        spaces = {i: k[1] for i, k in enumerate(operands) if isinstance(k, tuple) and k[0] == "space"}
        if spaces:
            problem = pointer_problem(cls.resolve(self._modifiers, layout, classes), spaces)
            if problem is not None:
                raise trace.error(problem.message, problem.hint)
        if not trace.faithful:
            self._check_constants(trace, cls, layout, classes)
        name = ""
        if cls.jumps:
            layout, name = branch_target(layout)
        elif cls.terminator:
            name = table_name(layout)
        shape = Shape(Kind.TERMINATOR if cls.terminator else Kind.INSTRUCTION, [], [])
        fill_instruction(shape, cls, self._modifiers, layout, classes, guard)
        self._finish(shape)
        shape.bare = (guard_class, *classes) if guard else classes
        shape.styled = True
        found = self._shapes[key] = (shape, name)
        return found

    def _check_constants(self, trace: Trace, cls: type[Instruction], layout: Layout, classes: tuple[str, ...]) -> None:
        """PTXError for an integer that has more bits than its operand: ptxas would cut it off."""
        if not any(isinstance(o, Immediate) and len(o.text) > 4 and o.text.lstrip("-").isdigit() for o in layout):
            return
        uses = cls.resolve(self._modifiers, layout, classes).uses
        types = uses[0].form.operand_types(uses[0].slots, layout, cls) if uses else ()
        for operand, kind in zip(layout, types, strict=False):
            bits = SCALAR_TYPES[kind].bits if kind in SCALAR_TYPES else 0
            if isinstance(operand, Immediate) and operand.text.lstrip("-").isdigit() and bits > 1:
                if not fits(int(operand.text), bits):
                    raise trace.error(f"{operand.text} has more than the {bits} bits of its operand of type {kind}")

    def _constants(self, cls: type[Instruction], classes: tuple[str, ...], layout: Layout, wide: bool) -> Layout:
        return _with_float_constants(cls, self._modifiers, layout, classes, wide)

    def _finish(self, shape: Shape) -> None:
        shape.attributes.pop("written", None)  # traced instructions print in canonical order

    def _find(self, trace: Trace) -> type[Instruction]:
        if self._cls is None:
            root, *rest = self._words
            found = find_opcode(root, rest)
            if found is None:
                problem = unknown_opcode(root, tuple(rest))
                raise trace.refusal(problem.message, problem.hint)
            cls, used = found
            self._modifiers = tuple(rest[used:])
            self._reads_special = cls.reads_special
            self._cls = cls
        return self._cls


class InstructionNamespace:
    """`ptx.inst`: attributes are opcodes."""

    def __getattr__(self, name: str) -> Opcode:
        if name[:2] == "__":
            raise AttributeError(name)
        found = _path((spelled(name),))
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted({python_name(o.partition(".")[0]) for o in OPCODES})

    def _raw_emit(self, text: str) -> None:
        raw(text)


_paths: dict[tuple[str, ...], Opcode] = {}


def _path(words: tuple[str, ...]) -> Opcode:
    found = _paths.get(words)
    if found is None:
        found = _paths[words] = Opcode(words)
        if (known := find_opcode(words[0], words[1:])) is not None:
            found.__doc__ = known[0].__doc__  # for help in notebooks
    return found


@lru_cache(maxsize=20_000)
def opcode(text: str) -> Opcode:
    """The instruction of a PTX spelling: `opcode("fence.proxy.async::generic.acquire")`."""
    return _path(tuple(text.split(".")))


def spelled(name: str) -> str:
    """A Python attribute as PTX spells it: `and_` -> `and`, `_2d` -> `2d`, `shared__cta` -> `shared::cta`,
    `sp__2_4` -> `sp::2:4`.
    """
    if name.endswith("_") and len(name) > 1:
        name = name[:-1]
    if name[0] == "_" and name[1:2].isdigit():
        name = name[1:]
    name = name.replace("__", "::")
    return _RATIO.sub(r"sp::\1:\2", name) if name.startswith("sp::") else name


_RATIO = re.compile(r"sp::(\d+)_(\d+)$")


def python_name(word: str) -> str:
    """The attribute for a word of PTX, the opposite of `spelled`: `and` -> `and_`, `2d` -> `_2d`, `shared::cta` ->
    `shared__cta`.
    """
    word = word.replace("::", "__").replace(":", "_")
    return f"{word}_" if iskeyword(word) else f"_{word}" if word[0].isdigit() else word


def emit(text: str, *operands: Any, pred: Guard = None) -> Any:
    """Emit the instruction of a PTX spelling."""
    return opcode(text)(*operands, pred=pred)


# ------------------------------------------------------------------------------------------------------------ operands


class AddressOperand(NoTruth):
    """`[base+offset]`, from `ptx.addr`. `rest` are further parts inside the brackets (tensor coordinates); `space` is
    the state space where that is known (`generic` too), else empty.
    """

    __slots__ = ("base", "offset", "rest", "space")

    def __init__(self, base: Any, offset: int | str | None = None, rest: tuple[Any, ...] = (), space: str = ""):
        self.base, self.offset, self.rest, self.space = base, offset, rest, space

    def described(self) -> tuple[str, str]:
        instead = "bytes are added inside: ptx.addr(p, 16), ptx.addr(p + 16); a load reads what is there"
        return "an address in brackets", instead

    def __repr__(self) -> str:
        return f"[{self.base!r}{'' if self.offset is None else f'+{self.offset}'}]"


def _guard(trace: Trace, pred: Any, regs: list[Variable]) -> str:
    mark = "@"
    if isinstance(pred, NegPred):
        mark, pred = "@!", pred.reg
    if isinstance(pred, NotAValue):
        raise pred.refusal()
    if not isinstance(pred, Reg):
        raise trace.error(f"pred= takes a predicate register p or ~p, not {type(pred).__name__}")
    if isinstance(pred, SpecialReg):
        pred = moved(trace, pred)
    variable = pred.variable or pred.resolve(trace)
    regs.append(variable)
    return f"{mark} {variable.register_class}"


def _key(trace: Trace, operand: Any, regs: list[Variable], path: Opcode) -> Key:
    """An operand's key; its registers go to `regs` in text order."""
    match operand:
        case SpecialReg():
            path._find(trace)
            if path._reads_special:
                return ("sreg", operand.name)
            return _key(trace, moved(trace, operand), regs, path)
        case Reg():
            variable = operand.variable or operand.resolve(trace)
            regs.append(variable)
            return variable.register_class
        case int() | np.integer():
            return int(operand)
        case float() | np.floating():
            return ("float", repr(float(operand)))
        case str():
            return _text_key(trace, operand, regs, path)
        case AddressOperand():
            return _address_key(trace, operand, regs, path)
        case RegArray():
            regs += operand.variables
            return operand.key
        case list():
            elements = cast("list[Any]", operand)
            return ("{", *[_key(trace, e, regs, path) for e in elements])
        case tuple():
            parts = cast("tuple[Any, ...]", operand)
            return ("(", *[_key(trace, e, regs, path) for e in parts])
        case PipeRef():
            return ("|", _key(trace, operand.left, regs, path), _key(trace, operand.right, regs, path))
        case NegPred():
            return ("!", _key(trace, operand.reg, regs, path))
        case None:
            return ("_",)
        case _:
            return _object_key(trace, operand, regs, path)


def _object_key(trace: Trace, operand: Any, regs: list[Variable], path: Opcode) -> Key:
    """The key of an object that stands for a symbol or an address."""
    symbol = getattr(operand, "__ptx_symbol__", None)
    if symbol is not None:
        name, offset = symbol()
        return ("sym", name, offset)
    address = getattr(operand, "__ptx_address__", None)
    if address is not None:
        return _address_key(trace, address(), regs, path)
    if isinstance(operand, NotAValue):
        raise operand.refusal()
    raise trace.error(
        f"{type(operand).__name__} is not an operand of an instruction",
        "operands are registers, numbers, names, lists for {vectors}, tuples for (arguments) and ptx.addr(...)",
    )


def moved(trace: Trace, special: Any) -> Any:
    """A special register's value in a register: those that never change are copied once per kernel."""
    if special.name.partition(".")[0] not in _CONSTANT:
        result = temporary(trace, special.dtype)
        move(result, special)
        return result
    known = trace.specials.get(special.name)
    if known is None:
        with trace.outermost():
            known = trace.specials[special.name] = temporary(trace, special.dtype)
        trace.dominating(lambda: move(known, special))
    return known


_CONSTANT = frozenset(
    "%tid %ntid %ctaid %nctaid %laneid %clusterid %nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank "
    "%cluster_nctarank".split()
)


def _address_key(trace: Trace, operand: AddressOperand, regs: list[Variable], path: Opcode) -> Key:
    base, offset = operand.base, operand.offset
    if isinstance(base, Reg) and (base.dtype.bits < 32 or base.dtype.is_float) and not trace.faithful:
        raise _no_address(trace, base)
    key = base if isinstance(base, int) else _key(trace, base, regs, path)
    if isinstance(key, tuple) and key[0] == "sym" and isinstance(offset, int):
        key, offset = ("sym", key[1], key[2] + offset), None
    rest = [_key(trace, part, regs, path) for part in operand.rest]
    found = ("[", key, offset, *rest)
    return ("space", operand.space, found) if operand.space else found


def _no_address(trace: Trace, value: Reg) -> PTXError:
    """The error for a register in brackets that is not an address by its type."""
    hint = "convert an integer to u32 (shared memory) or u64 first: ptx.cvt"
    for shape, regs, *_ in reversed(trace.statements):
        if any(regs[i].name == value.name for i in shape.written):
            if shape.instruction is not None and shape.instruction.access == "load":
                hint = "it is the value that was loaded, not its place: s.element(row, col) of a view s is the address"
            break
    return trace.error(
        f"an address is a 32-bit or 64-bit integer register, not {value.name} of type {value.dtype}", hint
    )


def _text_key(trace: Trace, text: str, regs: list[Variable], path: Opcode) -> Key:
    """A string: a constant if it starts like one, else a name; brackets and braces are read as PTX."""
    allocation = getattr(text, "allocation", None)
    if allocation is not None:
        return ("sym", allocation.by_name, 0)
    known = trace.names.get(text)
    if known is not None and (text[0] == "%" or not path._find(trace).jumps):  # a label may be called as a register
        regs.append(known)
        return known.register_class
    if _is_symbol(text):
        return ("sym", _symbol_name(trace, text), 0)

    constant = _constant_key(text)
    if constant is not None:
        return constant
    classes: list[str] = []

    def classify(name: str) -> Operand:
        found = trace.names.get(name)
        if found is not None:
            regs.append(found)
            classes.append(found.register_class)
            return Register()
        return SpecialRegister(name) if is_special_register(name) else Symbol(_symbol_name(trace, name))

    tokens, gaps = lex(text)
    try:
        layout = OperandParser(tokens, 0, len(tokens), classify, gaps=gaps).layout()
    except SyntaxProblem as problem:
        raise trace.error(f"{text!r} is not a PTX operand: {problem}") from None
    if len(layout) != 1:
        raise trace.error(f"{text!r} is {counted(len(layout), 'operand')}, pass them one by one")
    return ("node", layout[0], tuple(classes))


@lru_cache(maxsize=8192)
def _is_symbol(text: str) -> bool:
    tokens, _ = lex(text)
    name = len(tokens) == 1 and tokens[0] == ("id", text)
    return name and text not in ("_", "WARP_SZ") and not is_special_register(text)


@lru_cache(maxsize=8192)
def _constant_key(text: str) -> Key:
    """The key of a constant or special register; None where the text has other names, which only the trace knows."""
    if is_special_register(text.partition(".")[0]):
        return ("node", SpecialRegister(text), ()) if len(lex(text)[0]) <= 2 else None
    tokens, gaps = lex(text)
    if any(kind == "id" for kind, _ in tokens):
        return None
    try:
        layout = OperandParser(tokens, 0, len(tokens), Symbol, gaps=gaps).layout()
    except SyntaxProblem:
        return None
    return ("node", layout[0], ()) if len(layout) == 1 and isinstance(layout[0], Immediate) else None


def _symbol_name(trace: Trace, name: str) -> str:
    allocation = trace.allocations.get(name)
    return allocation.by_name if allocation is not None else name


def _operand(key: Key, wide: bool) -> Operand:
    """The layout node of a key."""
    if isinstance(key, str):
        return Register()
    if isinstance(key, int):
        return Immediate(str(key))
    match key:
        case ("float", text):
            return Immediate(float_text(float(text), wide))
        case ("sreg", name):
            return SpecialRegister(name)
        case ("sym", name, offset):
            return Symbol(name, _offset(offset) if offset else "")
        case ("_",):
            return Sink()
        case ("!", inner):
            return Not(_operand(inner, wide))
        case ("|", first, second):
            return Pair(_operand(first, wide), _operand(second, wide))
        case ("{", *elements):
            return Vector(tuple(_operand(e, wide) for e in elements))
        case ("(", *elements):
            return Arguments(tuple(_operand(e, wide) for e in elements))
        case ("[", base, offset, *rest):
            node = _operand(base, wide)
            text = _offset(offset) if offset is not None else ""
            if isinstance(node, Symbol) and node.offset:
                node, text = Symbol(node.name), node.offset + text
            return Address(node, text, tuple(_operand(e, wide) for e in rest))
        case ("space", _, inner):
            return _operand(inner, wide)
        case ("node", node, _):
            return node
        case _:
            raise AssertionError(key)


def _classes(key: Key) -> tuple[str, ...]:
    """The register classes in a key, in text order."""
    if isinstance(key, str):
        return (key,)
    if isinstance(key, int):
        return ()
    match key:
        case ("!" | "|" | "{" | "(", *parts):
            return tuple(c for p in parts for c in _classes(p))
        case ("[", base, _, *rest):
            return tuple(c for p in (base, *rest) for c in _classes(p))
        case ("space", _, inner):
            return _classes(inner)
        case ("node", _, classes):
            return classes
        case _:
            return ()


def _offset(offset: int | str) -> str:
    """`+8`; a negative one as PTX has it, `+-8`."""
    text = str(offset)
    if text[:1] == "+":
        return text
    return "+" + text


def float_text(value: float, wide: bool) -> str:
    """A float as PTX constant, exact: `0f` + f32 bits (rounded to nearest), or `0d` + f64 bits."""
    if wide:
        return "0d" + struct.pack(">d", value).hex().upper()
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if math.isnan(value):
        return "0f7FFFFFFF"
    return "0f" + struct.pack(">f", rounded).hex().upper()


def wide_floats(words: tuple[str, ...]) -> bool:
    """Whether float constants of an instruction are f64: the last float type in its name, else the width of its bit
    type.
    """
    for word in reversed(words):
        if word in ("f64", "b64"):
            return True
        if word in ("f32", "f16", "bf16", "b32", "tf32"):
            return False
    return False


def _with_float_constants(
    cls: type[Instruction], modifiers: tuple[str, ...], layout: Layout, classes: tuple[str, ...], wide: bool
) -> Layout:
    """The layout with its Python ints as floats, if that makes it legal (`ptx.inst.max.f32(d, a, 0)`)."""
    if not any(m in ("f32", "f64") for m in modifiers):
        return layout
    changed = transform(
        layout,
        lambda o: (
            Immediate(float_text(float(evaluate(o.text)), wide)) if isinstance(o, Immediate) and not o.is_float else o
        ),
    )
    return layout if cls.resolve(modifiers, changed, classes).problem is not None else changed


# -----------------------------------------------------------------------------------------------------------------
# moves


def move(target: Any, value: Any) -> None:
    """`mov` a register, number or name into a register; numbers are rounded to its type."""
    dtype: PtxType = target.dtype
    if isinstance(value, (bool, int, float, np.integer, np.floating)):
        emit(f"mov.{_move_type(dtype, True)}", target, bits_of(dtype, value))
    elif isinstance(value, SpecialReg):
        name = "pred" if dtype.name == "pred" else f"u{dtype.bits}"
        emit(f"mov.{name}", target, value)
    elif isinstance(value, Reg):
        try:
            emit(f"mov.{_move_type(dtype, False)}" if dtype.bits != 8 else "cvt.u8.u8", target, value)
        except PTXError as error:
            raise refused_value(dtype, value, error) from None
    elif isinstance(value, NotAValue) and (dtype.is_float or dtype.bits < 32):
        raise value.refusal()  # an address fits into integers only
    else:
        emit(f"mov.{_move_type(dtype, False)}", target, value)


def shape_of_move(dtype: PtxType) -> Shape:
    """The shape of a `mov` between two registers of a type."""
    path = opcode(f"mov.{_move_type(dtype, False)}")
    key = (dtype.register_class, dtype.register_class)
    found = path._shapes.get(key) or path._make(current(), key)
    return found[0]


def _move_type(dtype: PtxType, constant: bool) -> str:
    if dtype.name in ("pred", "f32", "f64") or (dtype.name[0] in "us" and dtype.is_integer):
        return dtype.name
    if constant and dtype.name == "tf32":
        return "b32"
    return f"b{dtype.bits}"


def bits_of(dtype: PtxType, value: Any) -> int | float | str:
    """A number as constant of a type: floats of f16, bf16 and the 8-bit formats as their bits. PTXError if it has
    none.
    """
    name = dtype.name
    if name in ("f32", "f64"):
        return float(value)
    if name == "tf32":
        return float_text(float(value), False)
    if name in _ENCODERS:
        number, copies = _ENCODERS[name]
        bits = int.from_bytes(np.array(float(value), dtype=_dtype(number)).tobytes(), "little")
        width = dtype.bits // copies
        return sum(bits << (width * i) for i in range(copies))
    if isinstance(value, (float, np.floating)):
        if dtype.name.startswith("b") and dtype.bits in (32, 64):
            return float_text(float(value), dtype.bits == 64)
        raise current().error(
            f"the float {float(value)!r} is not a value of type {dtype}", "use an int, or an f32 register"
        )
    number = int(value)
    if dtype.is_integer and not fits(number, dtype.bits):
        raise current().error(f"{number} has more than the {dtype.bits} bits of {dtype}", "use a wider type")
    return number


def fits(number: int, bits: int) -> bool:
    """Whether a constant has that many bits, signed or not."""
    return -(1 << (bits - 1)) <= number < 1 << bits


_ENCODERS = {
    "f16": ("float16", 1), "bf16": ("bfloat16", 1), "f16x2": ("float16", 2), "bf16x2": ("bfloat16", 2),
    "f32x2": ("float32", 2), "e4m3": ("float8_e4m3fn", 1), "e5m2": ("float8_e5m2", 1),
}  # fmt: skip


def _dtype(name: str) -> Any:
    if name.startswith("float") and "_" not in name:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def constant(dtype: PtxType, value: float) -> Any:
    """A float constant in a fresh register, for types without constants in PTX (f16, bf16 and packed pairs: in both
    halves).
    """
    result = temporary(current(), dtype)
    move(result, value)
    return result


if TYPE_CHECKING:
    from .inst_stubs import Instructions  # generated: every opcode with its help

    inst: Instructions
else:
    inst = InstructionNamespace()

__all__ = ["AddressOperand", "Opcode", "PTXError", "emit", "inst", "opcode"]
