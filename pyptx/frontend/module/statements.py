"""What a function of a `Module` is made of besides instructions: register declarations, labels, scopes, variables,
directives, layout (the public module `pyptx.modules`).

Each call records one PTX statement, at the place where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...dialects.ptx.attributes import string_attr
from ...dialects.ptx.instruction import Instruction
from ...dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    LabelListOp,
    LocOp,
    RegisterOp,
    TokensAttr,
    UnknownOp,
    VariableOp,
)
from ...dialects.ptx.syntax import Layout
from ...ssa.statement import Kind, Shape
from ..core import declarations as spelling
from ..core.instructions import AddressOperand, Opcode, spelled
from ..core.registers import Guard, PipeRef, Reg
from ..core.trace import current
from .trace import ModuleTrace, Registers, type_of

__all__ = [
    "addr", "at", "close_scope", "declare", "directive", "exact", "fmt", "label", "label_list", "lead", "loc", "open_scope",
    "pair", "pragma", "reg", "section", "targets", "unknown", "variable",
]  # fmt: skip


def _trace() -> ModuleTrace:
    trace = current()
    if not isinstance(trace, ModuleTrace):
        raise trace.error(
            "this belongs into a function of a pyptx.Module", "in a @kernel, use reg.scalar, ptx.label, ptx.var, ..."
        )
    return trace


# ------------------------------------------------------------------------------------------------------------ operands


def addr(base: Any, offset: int | str | None = None, *rest: Any) -> AddressOperand:
    """`[base+offset]`; further parts (tensor coordinates, an mbarrier) follow after commas."""
    return AddressOperand(base, offset, rest)


def at(base: Any, offset: int) -> AddressOperand:
    """`[base+offset]`, or `[base]` where the offset is 0: for loops that count it."""
    return AddressOperand(base, offset or None)


def pair(first: Any, second: Any) -> PipeRef:
    """`first|second`: two destinations; None is the sink `_`."""
    return PipeRef(first, second)


# ------------------------------------------------------------------------------------------------------- declarations


def reg(
    register_class: str, *items: str | tuple[str, int], head: spelling.Text | None = None, layout: int | None = None
) -> Any:
    """`.reg .b32 %x, %r<100>;`: declare registers. A name gives a register, (name, count) a range to be indexed.

    Returns what was declared, as a tuple if there are several. `head`: the words before the names where they are not
    `.reg` and the type. PTX ISA 5.1.1.
    """
    trace = _trace()
    place = trace.place()
    dtype = type_of(register_class)
    found: list[Any] = []
    declared: list[tuple[str, tuple[str, ...]]] = []
    for item in items:
        name, count = (item, None) if isinstance(item, str) else item
        problem = trace.names.declare(name, register_class, count)
        if problem is not None:
            raise trace.error(problem)
        if count is None:
            declared.append((name, ()))
            found.append(Reg(name, dtype, trace.names[name]))
        else:
            declared.append((name, ("<", str(count), ">")))
            found.append(Registers(trace, name, count, dtype, trace.scope))
    if not found:
        raise trace.error("a register declaration needs a name")
    start = (".reg", *["." + w for w in register_class.split(".")]) if head is None else spelling.words(head)
    shape = _declaration(RegisterOp, Kind.REGISTERS, DeclarationAttr((start, tuple(declared))))
    _record(trace, shape, place, layout)
    return found[0] if len(found) == 1 else tuple(found)


def variable(head: spelling.Text, name: str, shape: Any = None, init: Any = None, layout: int | None = None) -> str:
    """A variable of the function: `variable(".shared .align 16 .b8", "tile", 1024)`. Returns its name.

    shape: an int, a tuple of ints, or `()` for an array of unknown size. init: a constant, or nested lists of
    constants (ints, or PTX text). PTX ISA 5.
    """
    trace = _trace()
    trace.symbols.add(name)
    _record(
        trace, _declaration(VariableOp, Kind.OTHER, spelling.variable(head, name, shape, init)), trace.place(), layout
    )
    return name


def declare(head: spelling.Text, *items: tuple[str, spelling.Text], layout: int | None = None) -> None:
    """Variables, each as (name, what follows it in PTX): `declare(".local .b32", ("a", "[4]"), ("b", ""))`."""
    trace = _trace()
    trace.symbols.update(name for name, _ in items)
    declared = DeclarationAttr((spelling.words(head), tuple([(n, spelling.words(t)) for n, t in items])))
    _record(trace, _declaration(VariableOp, Kind.OTHER, declared), trace.place(), layout)


# --------------------------------------------------------------------------------------------------- labels and scopes


def label(name: str, layout: int | None = None) -> None:
    """A label. PTX ISA 4.4."""
    trace = _trace()
    trace.label(name)
    if layout is not None:
        trace.lay_out(layout)


def open_scope(layout: int | None = None) -> None:
    """`{`: registers, variables and labels from here to `close_scope()` may hide outer ones."""
    trace = _trace()
    trace.open_scope()
    if layout is not None:
        trace.lay_out(layout)


def close_scope(layout: int | None = None) -> None:
    """`}` of the innermost `open_scope()`."""
    trace = _trace()
    trace.close_scope()
    if layout is not None:
        trace.lay_out(layout)


def targets(name: str, *labels: str, layout: int | None = None) -> None:
    """`name: .branchtargets labels;`: where a `brx.idx` may go. PTX ISA 11.3.1."""
    label_list(name, *spelling.branch_targets(labels), layout=layout)


def label_list(name: str, *tokens: str, layout: int | None = None) -> None:
    """`name: .calltargets f, g;` or `name: .callprototype (...) _ (...);`, given as tokens or as one string of them. PTX ISA
    9.7.14, 11.3.
    """
    trace = _trace()
    if len(tokens) == 1:
        tokens = spelling.words(tokens[0])
    trace.symbols.add(name)
    _record(trace, _label_list(name, tokens), trace.place(), layout, name)


# ---------------------------------------------------------------------------------------------------------- directives


def loc(
    file: int, line: int, column: int, inlined: Sequence[Any] | None = None, *, layout: int | None = None,
    label: str | None = None,
) -> None:  # fmt: skip
    """`.loc file line column`: where the following instructions come from.

    inlined: (label of the function's name, [offset of it,] file, line, column) of the call. label: one to stand before
    it, for debug data. PTX ISA 11.5.
    """
    trace = _trace()
    if label is not None:
        trace.label(label)
    key = None if inlined is None else tuple(inlined)
    _record(trace, _loc(file, line, column, key), trace.place(), layout)


def pragma(*texts: str, layout: int | None = None) -> None:
    """`.pragma "nounroll";`. PTX ISA 11.4."""
    directive(*spelling.directives([("pragma", *texts)]), layout=layout)


def section(name: str, *rows: str, layout: int | None = None) -> None:
    """`.section name { rows }`: debug data. PTX ISA 11.5."""
    directive(*spelling.section(name, rows), layout=layout)


def directive(*tokens: str, layout: int | None = None) -> None:
    """A directive by its tokens."""
    trace = _trace()
    shape = Shape(Kind.OTHER, [], [])
    shape.op_class, shape.styled = LocOp if tokens[:1] == (".loc",) else DirectiveOp, True
    shape.properties = {"words": TokensAttr(tokens)}
    _record(trace, shape, trace.place(), layout)


def unknown(*tokens: str, layout: int | None = None) -> None:
    """An instruction that pyptx does not know, by its tokens. Registers in it are only text: nothing follows them."""
    trace = _trace()
    shape = Shape(Kind.OTHER, [], [])
    shape.op_class, shape.styled = UnknownOp, True
    shape.properties = {"words": TokensAttr(tokens)}
    _record(trace, shape, trace.place(), layout)


# -------------------------------------------------------------------------------------------------------------- layout


def lead(text: str) -> None:
    """Comments and blank lines before the next statement, or before the function's closing brace."""
    current().lead += text


def fmt(layout: int, instruction: object = None) -> None:
    """Lay out the instruction just recorded: `fmt(3, inst.add.u32(a, b, c))` gives it the gaps number 3 of the
    module.
    """
    _trace().lay_out(layout)


# ------------------------------------------------------------------------------------------------- exact instructions


class ExactOpcode(Opcode):
    """An instruction that is recorded as spelled: modifiers stay in the order given, constants as they are, and nobody
    judges whether the target has it.
    """

    def __getattr__(self, name: str) -> ExactOpcode:
        if name[:2] == "__":
            raise AttributeError(name)
        return _exact((*self._words, *spelled(name).split(".")))

    def __call__(self, *operands: Any, pred: Guard = None) -> Any:
        trace = _trace()
        judge, trace.check = trace.check, _accept
        try:
            return super().__call__(*operands, pred=pred)
        finally:
            trace.check = judge

    def _constants(self, cls: type[Instruction], classes: tuple[str, ...], layout: Layout, wide: bool) -> Layout:
        return layout

    def _finish(self, shape: Shape) -> None:
        pass


class _Exact:
    def __getattr__(self, name: str) -> ExactOpcode:
        if name[:2] == "__":
            raise AttributeError(name)
        return _exact((spelled(name),))


exact = _Exact()
"""`exact.atom.add.relaxed.gpu.f32(...)`: `ptx.inst` for instructions to be taken as spelled; see `ExactOpcode`."""


@lru_cache(maxsize=4096)
def _exact(path: tuple[str, ...]) -> ExactOpcode:
    return ExactOpcode(path)


def _accept(shape: Shape, place: int) -> None:
    pass


# --------------------------------------------------------------------------------------------------------------- shapes


def _record(trace: ModuleTrace, shape: Shape, place: int, layout: int | None, name: str = "") -> None:
    trace.record(shape, (), place, name)
    if layout is not None:
        trace.lay_out(layout)


def _declaration(op_class: type[RegisterOp | VariableOp], kind: Kind, declaration: DeclarationAttr) -> Shape:
    shape = Shape(kind, [], [])
    shape.op_class, shape.styled = op_class, True
    shape.properties = {"declaration": declaration}
    return shape


@lru_cache(maxsize=8192)
def _loc(file: int, line: int, column: int, inlined: tuple[Any, ...] | None) -> Shape:
    shape = Shape(Kind.OTHER, [], [])
    shape.op_class, shape.styled = LocOp, True
    shape.properties = {"words": TokensAttr(spelling.loc(file, line, column, inlined))}
    return shape


def _label_list(name: str, tokens: tuple[str, ...]) -> Shape:
    shape = Shape(Kind.OTHER, [], [])
    shape.op_class, shape.styled = LabelListOp, True
    shape.properties = {"words": TokensAttr(tokens)}
    if name:
        shape.properties["label"] = string_attr(name)
    if tokens[:1] == (".branchtargets",):
        shape.kind = Kind.TABLE
        shape.payload = [t for t in tokens[1:] if t not in (",", ";")]
    return shape
