"""`Module`: a PTX module written in Python, statement by statement (the public module `pyptx.modules`).

A kernel made with `@kernel` is one entry whose declarations pyptx writes. A `Module` holds what a PTX file holds:
several entries and device functions, variables with initialisers, directives, debug data; in the author's order, with
registers under the author's names. `python -m pyptx.codegen` writes such modules.

    m = Module("sm_90a", "8.7")

    @m.entry("fill", params=[param("u64", "out"), param("f32", "value")])
    def fill():
        rd, f = reg("b64", ("%rd", 3)), reg("f32", ("%f", 2))
        inst.ld.param.u64(rd[1], addr("out"))
        inst.ld.param.f32(f[1], addr("value"))
        inst.cvta.to.global_.u64(rd[2], rd[1])
        inst.st.global_.f32(addr(rd[2]), f[1])
        inst.ret()

    print(m.ptx())
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, overload

from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Attribute, Operation

from ... import notebook
from ...diagnostics import Diagnostic, PTXError
from ...dialects.ptx.attributes import string_attr
from ...dialects.ptx.structure import (
    HEADERS,
    DeclarationAttr,
    DirectiveOp,
    EntryOp,
    FunctionOp,
    HeaderOp,
    ModuleOp,
    RegisterOp,
    TextAttr,
    TokensAttr,
    UnknownOp,
    VariableOp,
)
from ...dialects.ptx.style import DEFAULT, Style, StyleAttr
from ...dialects.ptx.target import FIRST_PTX, TargetAttr, Version, parse_version, target_of, version_text
from ...ssa.builder import FunctionSource, UnresolvedLabel, build_function
from ...ssa.fastir import create, gc_paused
from ...ssa.statement import Reg as Variable
from ...ssa.statement import Statement
from ..core import declarations as spelling
from ..core.declarations import parameter as param
from ..core.instructions import inst
from ..core.trace import declaration_shape, trace_scope
from ..kernel.build import unwritten
from ..kernel.imported import EntryKernel
from ..library.blocks import check_blocks
from ..memory.parameters import raw_parameter
from ..memory.placing import place_allocations
from .arguments import Parameter, finish
from .trace import Gaps, ModuleTrace
from .values import Value, value_of

__all__ = ["Function", "Module", "Style", "declaration", "inst", "param"]

Parameters = Sequence[DeclarationAttr | str]
"""What a function takes: from `param`, or words such as `"u64.ptr.global.palign16"` (see `raw_parameter`), which may be
repeated: `"u32 * 9"`."""


def declaration(head: spelling.Text, *items: tuple[str, spelling.Text]) -> DeclarationAttr:
    """Parameters as PTX declares them: `declaration(".param .align 8 .b8", ("x", "[16]"))`. See also `param`."""
    return DeclarationAttr((spelling.words(head), tuple([(n, spelling.words(t)) for n, t in items])))


@dataclass(slots=True)
class Function:
    """An entry or function of a module. As an operand it stands for its name; `calls` need it declared before."""

    name: str
    body: Callable[..., object] | None
    properties: dict[str, Attribute]
    is_entry: bool
    lead: str = ""
    layout: int | None = None
    end: tuple[str, str] | None = None

    def __ptx_symbol__(self) -> tuple[str, int]:
        return self.name, 0

    def declarations(self, which: str) -> tuple[DeclarationAttr, ...]:
        attr = self.properties.get(which)
        return tuple(attr) if isinstance(attr, ArrayAttr) else ()


class Module:
    """A PTX module under construction. `ptx()` is its text, `module()` its IR.

    target: `"sm_90a"`, with `options` such as `"texmode_independent"` or `"debug"`. version: `"8.7"`; by default the
    lowest that admits what the functions use. style: how statements are laid out; layouts: gaps around the tokens of
    the statements that are laid out otherwise (`fmt`). headers: which of `.version`, `.target`, `.address_size` are
    written, in order; write them with `header` where other directives stand between. lead: comments at the top.
    bit_registers: floats live in `.b32` and `.b64` registers, as LLVM has it, not `.f32` and `.f64` (those `op` makes).
    unsigned_registers: integers live in `.u32` and so on, and `+ - *` of them are spelled `add.u32` ..., as GCC has it.
    calls: the style of `call` where it has none of its own. implicit_ret: a function whose end can be reached gets a `ret` there, as a Python function has it.
    """

    def __init__(
        self, target: str, version: str | None = None, *, address_size: int | str = 64, options: Sequence[str] = (),
        style: Style = DEFAULT, layouts: Sequence[Gaps] = (), headers: Sequence[str] = HEADERS, lead: str = "",
        bit_registers: bool = False, unsigned_registers: bool = False, implicit_ret: bool = False,
        calls: str = "llvm",
    ):  # fmt: skip
        try:
            known = target_of(target).known
        except ValueError:
            known = False
        if not known:
            raise ValueError(f"unknown target {target!r}; known: {' '.join(FIRST_PTX)}")
        self.target, self.options, self.address_size = target, tuple(options), str(address_size)
        self.version: Version | None = None if version is None else parse_version(version)
        self._version_text = version
        self.style = style
        self.layouts = tuple(layouts)
        if bit_registers and unsigned_registers:
            raise ValueError("registers are bit_registers or unsigned_registers, not both")
        self.registers = "bit" if bit_registers else "unsigned" if unsigned_registers else ""
        self.implicit_ret = implicit_ret
        self.calls = calls
        self._items: list[Operation | Function] = []
        self._lead = lead
        self._built: BuiltinModule | None = None
        self._unwritten: list[Diagnostic] = []
        self._text: str | None = None
        for what in headers:
            self.header(what)

    # ---------------------------------------------------------------------------------------------------- statements

    def lead(self, text: str) -> None:
        """Comments and blank lines before the next statement, or at the end of the file."""
        self._lead += text

    def header(self, what: str, layout: int | None = None) -> None:
        """`.version`, `.target` or `.address_size` here, from the module's own values."""
        if what not in HEADERS:
            raise ValueError(f"a header is one of {', '.join(HEADERS)}, not {what!r}")
        self._append(HeaderOp, {"what": string_attr(what)}, layout)

    def variable(
        self, head: spelling.Text, name: str, shape: Any = None, init: Any = None, layout: int | None = None
    ) -> str:
        """A variable: `m.variable(".global .align 4 .f32", "table", 4, ["0f3F800000", ...])`. Returns its name.

        shape: an int, a tuple of ints, or `()` for an array of unknown size. init: a constant, or nested lists of
        constants (ints, or PTX text such as `"generic(x)+4"`). PTX ISA 5.
        """
        self._append(VariableOp, {"declaration": spelling.variable(head, name, shape, init)}, layout)
        return name

    def declare(self, head: spelling.Text, *items: tuple[str, spelling.Text], layout: int | None = None) -> None:
        """Variables, each as (name, what follows it in PTX): `m.declare(".global .b32", ("a", "= 1"), ("b", ""))`."""
        self._append(VariableOp, {"declaration": declaration(head, *items)}, layout)

    def file(self, number: int, name: str, *more: int, layout: int | None = None) -> None:
        """`.file number "name"[, time stamp, size]`. PTX ISA 11.5."""
        self.directive(*spelling.file(number, name, *more), layout=layout)

    def section(self, name: str, *rows: str, layout: int | None = None) -> None:
        """`.section name { rows }`: debug data, one row of PTX a string. PTX ISA 11.5."""
        self.directive(*spelling.section(name, rows), layout=layout)

    def pragma(self, *texts: str, layout: int | None = None) -> None:
        """`.pragma "text";`. PTX ISA 11.4."""
        self.directive(*spelling.directives([("pragma", *texts)]), layout=layout)

    def alias(self, name: str, function: str, layout: int | None = None) -> None:
        """`.alias name, function;`: a second name for a function. PTX ISA 11.2.3."""
        self.directive(".alias", name, ",", function, ";", layout=layout)

    def directive(self, *tokens: str, layout: int | None = None) -> None:
        """A directive by its tokens."""
        self._append(DirectiveOp, {"words": TokensAttr(tokens)}, layout)

    def unknown(self, *tokens: str, layout: int | None = None) -> None:
        """Text that pyptx does not know, by its tokens."""
        self._append(UnknownOp, {"words": TokensAttr(tokens)}, layout)

    def _append(self, op_class: type[Operation], properties: dict[str, Attribute], layout: int | None = None) -> None:
        attributes: dict[str, Attribute] = {}
        if layout is not None:
            attributes["gaps"] = TokensAttr(self._gaps(layout))
        if self._lead:
            attributes["lead"] = TextAttr(self._lead)
            self._lead = ""
        self._items.append(create(op_class, (), (), properties, attributes))
        self._built = self._text = None

    def _gaps(self, layout: int) -> Gaps:
        if not 0 <= layout < len(self.layouts):
            raise ValueError(f"the module has no layout {layout}: layouts has {len(self.layouts)} entries")
        return self.layouts[layout]

    # ----------------------------------------------------------------------------------------------------- functions

    @overload
    def entry(self, name: Callable[..., object], /) -> EntryKernel: ...
    @overload
    def entry(
        self, name: str | None = None, /, *, params: Parameters | None = (), head: spelling.Text = ".visible .entry",
        directives: Sequence[Sequence[Any]] | spelling.Text = (), layout: int | None = None,
        end: tuple[str, str] | None = None,
    ) -> Callable[[Callable[..., object]], EntryKernel]: ...  # fmt: skip
    def entry(self, name: Any = None, /, **options: Any) -> Any:
        """Decorator: a kernel, of the Python function's name unless another is given. `directives` are tuples such as
        ("maxntid", 128, 1, 1).

        The function takes all parameters, as names to load from, or no arguments. What it is then is a kernel: `k.ptx()`
        is the text of the module, `k.check()` what is wrong with it, and `pyptx.simulate` runs it. PTX ISA 11.2.
        """
        if callable(name):
            return self.entry()(name)
        decorate = self._decorator(name, {"head": ".visible .entry", "params": (), **options}, True)
        return lambda body: EntryKernel(self, decorate(body))

    @overload
    def func(self, name: Callable[..., object], /) -> Function: ...
    @overload
    def func(
        self, name: str | None = None, /, *, params: Parameters | None = (),
        returns: Parameters | None = None, head: spelling.Text = ".func",
        directives: Sequence[Sequence[Any]] | spelling.Text = (), layout: int | None = None,
        end: tuple[str, str] | None = None,
    ) -> Callable[[Callable[..., object]], Function]: ...  # fmt: skip
    def func(self, name: Any = None, /, **options: Any) -> Any:
        """Decorator: a device function. The Python function takes all return parameters and parameters (those in
        registers as registers, others as names to load from), or just those in registers.

        Call it with `inst.call.uni((ret,), f, (a, b))`. PTX ISA 7, 11.2.
        """
        if callable(name):
            return self.func()(name)
        return self._decorator(name, {"head": ".func", "params": (), **options}, False)

    def prototype(
        self, name: str, *, params: Parameters | None = (),
        returns: Parameters | None = None, head: spelling.Text = ".extern .func",
        directives: Sequence[Sequence[Any]] | spelling.Text = (), layout: int | None = None,
    ) -> Function:  # fmt: skip
        """A function or entry that is defined later or elsewhere: `.extern .func (...) vprintf (...);`."""
        is_entry = ".entry" in spelling.words(head)
        made = self._function(name, params, returns, head, directives, is_entry, layout)
        self._add(made)
        return made

    def _decorator(
        self, name: str | None, options: dict[str, Any], is_entry: bool
    ) -> Callable[[Callable[..., object]], Function]:
        def decorate(body: Callable[..., object]) -> Function:
            made = self._function(
                name or body.__name__, options.get("params"), options.get("returns"), options["head"],
                options.get("directives", ()), is_entry, options.get("layout"),
            )  # fmt: skip
            made.end = options.get("end")
            made.body = body
            self._add(made)
            return made

        return decorate

    def _function(
        self, name: str, params: Parameters | None, returns: Parameters | None,
        head: spelling.Text, directives: Sequence[Sequence[Any]] | spelling.Text, is_entry: bool, layout: int | None,
    ) -> Function:  # fmt: skip
        properties: dict[str, Attribute] = {"head": TokensAttr(spelling.words(head)), "sym_name": string_attr(name)}
        if returns is not None:
            properties["returns"] = ArrayAttr([_named(d, f"func_retval{i}") for i, d in enumerate(_declared(returns))])
        if params is not None:
            properties["params"] = ArrayAttr([_named(d, f"{name}_param_{i}") for i, d in enumerate(_declared(params))])
        listed = _directive_words(directives)
        properties["directives"] = TokensAttr(listed)
        return Function(name, None, properties, is_entry, layout=layout)

    def _add(self, function: Function) -> None:
        function.lead, self._lead = self._lead, ""
        self._items.append(function)
        self._built = self._text = None

    # ------------------------------------------------------------------------------------------------------- results

    def module(self) -> BuiltinModule:
        """The IR: a `builtin.module` with one `ptx.module`. Do not change it in place, it is shared: clone it.

        PTXError, at the Python line, for what PTX does not allow.
        """
        if self._built is None:
            with gc_paused():
                self._built = self._build()
        return self._built

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return notebook.ptx(self.ptx(), "module")

    def ptx(self) -> str:
        """The PTX text."""
        if self._text is None:
            from ...printer.ptx import print_module

            self._text = print_module(self.module())
        return self._text

    def diagnose(self) -> list[Diagnostic]:
        """Everything our verifier has to say about the module."""
        from ...passes.verify import module_diagnostics

        try:
            found = module_diagnostics(self.module())
            return [*self._unwritten, *found]
        except PTXError as error:
            return list(error.diagnostics)

    def _build(self) -> BuiltinModule:
        ops: list[Operation] = []
        needs = FIRST_PTX.get(self.target, (1, 0))
        problems: list[Diagnostic] = []
        self._unwritten.clear()
        for item in self._items:
            if isinstance(item, Function):
                op, trace = self._build_function(item, problems)
                if trace is not None:
                    needs = max(needs, trace.needs)
                    for shape, _, _, place, _ in trace.module_statements:
                        assert shape.op_class is not None
                        ops.append(
                            create(shape.op_class, (), (), shape.properties or {}, {}, (), trace.locations[place])
                        )
                ops.append(op)
            else:
                ops.append(item.clone())
        if problems:
            raise PTXError(problems)
        version = self._version_text or version_text(needs)
        module = ModuleOp.build(TargetAttr((self.target, version, self.options)), ops, self.address_size)
        if self.style != DEFAULT:
            module.attributes["style"] = StyleAttr(self.style)
        if self._lead:
            module.attributes["tail"] = TextAttr(self._lead)
        return BuiltinModule([module])

    def _build_function(self, function: Function, problems: list[Diagnostic]) -> tuple[FunctionOp, ModuleTrace | None]:
        op_class = EntryOp if function.is_entry else FunctionOp
        attributes: dict[str, Attribute] = {}
        if function.layout is not None:
            attributes["gaps"] = TokensAttr(self._gaps(function.layout))
        if function.lead:
            attributes["lead"] = TextAttr(function.lead)
        if function.body is None:
            return create(op_class, (), (), function.properties, attributes), None
        code = getattr(function.body, "__code__", None)
        place = (code.co_filename, code.co_firstlineno) if code is not None else ("<module>", 1)
        trace = ModuleTrace(function.name, self.target, self.version, place, self.layouts, self.registers, self.calls)
        source = FunctionSource(op_class, function.properties, attributes, locations=trace.locations)
        arguments: list[Value | Parameter] = []
        for which, found in (("returns", source.outputs), ("params", source.inputs)):
            arguments += _register_parameters(trace, function.declarations(which), found)
        if code is not None:
            trace.follow(code)
            arguments = _taken(code, arguments, len(function.declarations("returns")))
        with trace_scope(trace):
            value = function.body(*arguments)
            finish(trace.statements, value, function.declarations("returns"), self.implicit_ret)
        check_blocks(trace)
        if trace.scopes:
            raise trace.error("a { } scope is not closed", at=0)
        source.statements = _assemble(trace)
        indent, after = function.end or ("", "\n")
        if trace.lead or function.end is not None:
            source.attributes["end"] = TokensAttr((trace.lead, indent, after))
        self._unwritten += unwritten(trace, source)
        unresolved: list[UnresolvedLabel] = []
        op = build_function(source, self.style, None, unresolved)
        problems += [
            trace.diagnostic(f"label {p.label} is not placed in this function", "label(name) places it", p.line)
            for p in unresolved
        ]
        return op, trace


def _taken(code: CodeType, arguments: list[Value | Parameter], returns: int) -> list[Value | Parameter]:
    """The arguments that a Python function takes: all, those in registers, or all but the return parameters."""
    if code.co_argcount >= len(arguments) or code.co_flags & inspect.CO_VARARGS:
        return arguments
    in_registers: list[Value | Parameter] = [a for a in arguments if isinstance(a, Value)]
    if code.co_argcount != len(in_registers) and code.co_argcount == len(arguments) - returns:
        return arguments[returns:]
    return in_registers


def _named(declared: DeclarationAttr, name: str) -> DeclarationAttr:
    """A parameter without a name gets this one."""
    head, items = declared.data
    return DeclarationAttr((head, tuple([(own or name, tail) for own, tail in items])))


def _declared(parameters: Parameters) -> list[DeclarationAttr]:
    """Parameters as declarations, without names where they are given as words."""
    found: list[DeclarationAttr] = []
    for item in parameters:
        if isinstance(item, DeclarationAttr):
            found.append(item)
            continue
        words, _, count = item.partition("*")
        if count and not count.strip().isdigit():
            raise ValueError(f"{item!r}: a parameter is repeated a number of times, as in 'u32 * 3'")
        found += [raw_parameter(words.strip(), "")] * int(count or 1)
    return found


def _directive_words(directives: Sequence[Any] | str) -> spelling.Words:
    if isinstance(directives, str):
        return spelling.words(directives)
    if isinstance(directives, tuple) and directives and isinstance(directives[0], str):
        return directives
    return spelling.directives(directives)


def _register_parameters(
    trace: ModuleTrace, declarations: Sequence[DeclarationAttr], found: list[Variable]
) -> list[Value | Parameter]:
    """Declare the `.reg` parameters among a function's; other parameters are symbols."""
    made: list[Value | Parameter] = []
    for declared in declarations:
        for name, tail in declared.items:
            if declared.space != "reg":
                trace.symbols.add(name)
                made.append(Parameter(name, "" if tail else declared.type))
                continue
            problem = trace.names.declare(name, declared.register_class)
            if problem is not None:
                raise trace.error(problem, at=0)
            found.append(trace.names[name])
            made.append(value_of(trace.names[name]))
    return made


def _assemble(trace: ModuleTrace) -> list[Statement]:
    """What the DSL declared by itself, then the statements in order."""
    found: list[Statement] = [
        (declaration_shape(RegisterOp, (".reg", "." + d.register_class), d.name, d.count), (), "", 0, "")
        for d in trace.declarations.values()
        if not d.hidden
    ]
    if trace.allocations:
        found += place_allocations(trace, False)
    found += trace.variables
    found += trace.prologue
    if not found and not trace.insertions:
        return trace.statements
    for i, statement in enumerate(trace.statements):
        found.append(statement)
        found += trace.insertions.get(i, ())
    return found
