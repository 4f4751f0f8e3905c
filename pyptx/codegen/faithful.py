"""Faithful mode: each statement of a PTX file becomes one call of `pyptx.modules`, so that printing gives
the file back.

Statements come from the reader, before SSA. As there, everything but the register names is worked out once per shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute

from .. import modules
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    LabelListOp,
    LocOp,
    TokensAttr,
    UnknownOp,
)
from ..dialects.ptx.style import DEFAULT, Style
from ..dialects.ptx.target import Version, parse_version
from ..frontend.core.instructions import spelled, wide_floats
from ..parser.module_text import ModuleText
from ..printer.ptx import header_gaps
from ..ssa.builder import FunctionSource
from ..ssa.fastir import create
from ..ssa.shapes import guard_tokens
from ..ssa.statement import Kind, Reg, Shape, Statement
from . import directives, layout
from .names import NameTable, identifier, literal
from .operands import Expression
from .runnable import NAMES, Runnable

HELPERS = tuple(modules.__all__)
"""Names of `pyptx.modules` that a generated program may import; nothing else gets these names."""

HEADER_ORDER = ("version", "target", "address_size")


class Layouts:
    """The table of gaps: each layout that differs from the style, once."""

    def __init__(self, enabled: bool):
        self.enabled = enabled
        self._numbers: dict[tuple[str, ...], int] = {}

    def number(self, gaps: Sequence[str], canonical: Sequence[str]) -> int | None:
        """The number of these gaps; None where they are the style's."""
        if not self.enabled or list(gaps) == list(canonical):
            return None
        return self._numbers.setdefault(tuple(gaps), len(self._numbers))

    def lines(self) -> list[str]:
        return [f"        {_compressed(gaps)}," for gaps in self._numbers]

    def __bool__(self) -> bool:
        return bool(self._numbers)


class FaithfulWriter:
    """Writes one module. `lines()` is the program."""

    readable = False
    """Whether what has a nicer spelling gets that."""
    runnable = False
    """Whether to add a `main` that runs the kernels, instead of printing the PTX."""

    def __init__(self, source: ModuleText, style: Style, trivia: bool):
        self.source = source
        self.style = style if trivia else DEFAULT
        self.trivia = trivia
        self.layouts = Layouts(trivia)
        self.version: Version = parse_version(source.version)
        self.names = NameTable((*HELPERS, "m", *NAMES))
        self.used: set[str] = {"Module"}
        self.out: list[str] = []

    def text(self) -> str:
        """The Python program."""
        items = list(self.source.items)
        head = self._constructor(items)
        for item in items:
            if isinstance(item, FunctionSource):
                self._function(item)
            else:
                self._module_statement(item)
        if self.trivia and self.source.tail:
            self.out.append(f"m.lead({literal(self.source.tail)})")
        if self.style != DEFAULT:
            self.used.add("Style")
        if self.layouts:
            constructor = ["m = Module(", *[f"    {option}," for option in head]]
            constructor += ["    layouts=[", *self.layouts.lines(), "    ],", ")"]
        else:
            constructor = layout.lines(0, f"m = Module({', '.join(head)})")
        imports = ", ".join(sorted(self.used, key=str.lower))
        lines = ['"""A PTX module as pyptx statements; `m.ptx()` is its text."""', ""]
        runnable = Runnable.of(self.source) if self.runnable else None
        if runnable is not None:
            lines += runnable.imports
        lines.append(_wrapped("from pyptx.modules import ", sorted(self.used, key=_import_order), imports))
        if runnable is not None and runnable.simulator:
            names = ("Surface", "Texture", "tensor_map")
            lines.append(f"from pyptx.simulator import {', '.join(n for n in names if n in runnable.simulator)}")
        lines += ["", *self.definitions(), *constructor]
        lines += self.out
        if runnable is not None:
            lines += [
                *runnable.specs,
                "",
                "",
                *runnable.main,
                "",
                "",
                'if __name__ == "__main__":',
                "    sys.exit(1 if main() else 0)",
                "",
            ]
        else:
            lines += ["", 'if __name__ == "__main__":', '    print(m.ptx(), end="")', ""]
        return "\n".join(lines)

    # --------------------------------------------------------------------------------------------------------- module

    def _constructor(self, items: list[Statement | FunctionSource]) -> list[str]:
        """The arguments of `Module`, taking the headers at the top off the items when they are plain."""
        source = self.source
        options = [literal(source.target), literal(source.version)]
        if source.address_size not in ("", "64"):
            size = source.address_size
            options.append(f"address_size={size if size == '32' else literal(size)}")
        if source.options:
            options.append(f"options={literal(list(source.options))}")
        if self.style != DEFAULT:
            options.append(f"style={_style(self.style)}")
        options += self.constructor_options()
        taken: list[str] = []
        lead = ""
        while items and not isinstance(items[0], FunctionSource) and self._is_header(items[0]):
            shape, _, before, _, _ = items[0]
            if self.trivia and shape.gaps != self.style.module_gaps(shape.tokens):
                break
            if before and self.trivia:
                if taken:
                    break
                lead = before
            taken.append(cast(str, shape.payload))
            items.pop(0)
        if tuple(taken) != HEADER_ORDER:
            options.append(f"headers={literal(taken)}")
        if lead:
            options.append(f"lead={literal(lead)}")
        return options

    def constructor_options(self) -> list[str]:
        return []

    def definitions(self) -> list[str]:
        return []

    @staticmethod
    def _is_header(statement: Statement) -> bool:
        shape = statement[0]
        return isinstance(shape.payload, str) and shape.op_class is DirectiveOp

    def _module_statement(self, statement: Statement) -> None:
        shape, _, lead, _, _ = statement
        if lead and self.trivia:
            self.out.append(f"m.lead({literal(lead)})")
        number = self.layouts.number(shape.gaps, self.style.module_gaps(shape.tokens))
        if self._is_header(statement):
            call = f"header({literal(shape.payload)})"
        elif shape.op_class is UnknownOp:
            call = f"unknown({_literals(shape.tokens)})"
        elif isinstance(shape.payload, DeclarationAttr):
            call = directives.declaration_call(shape.payload, self.readable)
        else:
            call = directives.directive_call(shape.tokens, shape.gaps)
        self.out.append("m." + _with_layout(call, number))

    # ------------------------------------------------------------------------------------------------------ functions

    def _function(self, source: FunctionSource) -> None:
        properties, attributes = source.properties, source.attributes
        lead = attributes.get("lead")
        if lead is not None and self.trivia:
            self.out.append(f"m.lead({literal(_data(lead))})")
        head = directives.text_of(_words(properties["head"]))
        name = cast(StringAttr, properties["sym_name"]).data
        is_entry = ".entry" in _words(properties["head"])
        options: list[str] = []
        if "returns" in properties:
            options.append(f"returns={self._parameters(properties['returns'], 'func_retval')}")
        if "params" not in properties:
            options.append("params=None")
        elif _declarations(properties["params"]):
            options.append(f"params={self._parameters(properties['params'], name + '_param_')}")
        kind = "entry" if is_entry else "func"
        if not source.has_body:
            kind = "prototype"
        default = {"entry": ".visible .entry", "func": ".func", "prototype": ".extern .func"}[kind]
        if head != default:
            options.append(f"head={literal(head)}")
        words = _words(properties["directives"])
        if words:
            options.append(f"directives={directives.function_directives(words)}")
        options += self._header_layout(source)
        end = self._end(source)
        if end is not None and end[1:] != ("", "\n"):
            options.append(f"end={literal(end[1:])}")
        if kind == "prototype":
            self.out += layout.lines(0, f"m.prototype({', '.join([literal(name), *options])})")
            return
        body = self.function_writer(source)
        python_name = self.function_name(name, kind)
        arguments = self.decorator_arguments(name, python_name, options)
        self.out += [
            "",
            "",
            *layout.lines(0, f"@m.{kind}({arguments})" if arguments else f"@m.{kind}"),
        ]
        at = len(self.out)
        body.write()
        self.out[at:at] = layout.lines(0, f"def {python_name}({', '.join(body.arguments)}):")
        if end is not None and end[0]:
            self.out.append(f"    lead({literal(end[0])})")
            self.used.add("lead")
        elif not source.statements:
            self.out.append("    pass")
        self.out += ["", ""]

    def decorator_arguments(self, name: str, python_name: str, options: list[str]) -> str:
        return ", ".join([literal(name), *options])

    def function_writer(self, source: FunctionSource) -> FunctionWriter:
        return FunctionWriter(self, source)

    def function_name(self, name: str, kind: str) -> str:
        """The name of a function's Python function."""
        return self.names.fresh(self.python_name(name, kind))

    def python_name(self, name: str, kind: str) -> str:
        return name

    def _end(self, source: FunctionSource) -> tuple[str, str, str] | None:
        attr = source.attributes.get("end")
        if attr is None or not self.trivia:
            return None
        before, indent, after = cast(TokensAttr, attr).data
        return before, indent, after

    def _header_layout(self, source: FunctionSource) -> list[str]:
        gaps = source.attributes.get("gaps")
        if gaps is None or not self.trivia:
            return []
        op = create(source.op_class, (), (), source.properties, {})
        tokens = op.tokens()
        if source.has_body:
            tokens[-1] = "{"
        number = self.layouts.number(cast(TokensAttr, gaps).data, header_gaps(op, tokens))
        return [] if number is None else [f"layout={number}"]

    def _parameters(self, attr: Attribute, stem: str) -> str:
        """A list of parameters."""
        calls = [directives.parameter_call(d) for d in _declarations(attr)]
        self.used.update(c.partition("(")[0] for c in calls)
        return f"[{', '.join(calls)}]"


class FunctionWriter:
    """Writes the statements of one function."""

    def __init__(self, module: FaithfulWriter, source: FunctionSource):
        self.module, self.source = module, source
        self.out = module.out
        self.names = NameTable((*HELPERS, "m", *NAMES))
        self.expressions: dict[Reg, str] = {}
        self.singles: dict[tuple[int, str], str] = {}
        self.ranges: dict[int, list[tuple[str, int, str]]] = {}
        self.scope = 0
        self.scopes: list[int] = []
        self.templates: dict[tuple[Shape, str], tuple[str, tuple[int, ...]]] = {}
        self.judged: dict[tuple[Shape, tuple[str, ...]], bool] = {}
        self.arguments: list[str] = []
        for reg in (*source.outputs, *source.inputs):
            argument = self.names.fresh(reg.name)
            self.arguments.append(argument)
            self.expressions[reg] = argument

    def write(self) -> None:
        out, trivia, used = self.out, self.module.trivia, self.module.used
        expressions = self.expressions
        get = expressions.get
        find = self._expression
        templates = self.templates
        for shape, regs, lead, _, name in self.source.statements:
            if lead and trivia:
                out.append(f"    lead({literal(lead)})")
                used.add("lead")
            if shape.kind <= Kind.TERMINATOR and shape.op_class is not UnknownOp:
                classes = tuple([r.register_class for r in regs])
                key = (shape, classes, name) if shape.kind else (shape, classes)
                found = templates.get(key)  # pyright: ignore[reportArgumentType]
                if found is None:
                    found = templates[key] = self._template(shape, classes, name)  # pyright: ignore[reportArgumentType]
                template, special = found
                if regs:
                    texts = [get(r) or find(r) for r in regs]
                    if special:
                        texts = [texts[i] if i >= 0 else regs[~i].name for i in special]
                    out.append(template % tuple(texts))
                else:
                    out.append(template)
            else:
                out.append("    " + self._statement(shape, name))

    def _expression(self, reg: Reg) -> str:
        """The Python expression of a register."""
        single = self.singles.get((reg.scope, reg.name))
        if single is None:
            for base, count, variable in self.ranges.get(reg.scope, ()):
                digits = reg.name[len(base) :]
                if (
                    reg.name.startswith(base)
                    and digits.isdigit()
                    and digits == str(int(digits))
                    and int(digits) < count
                ):
                    single = f"{variable}[{digits}]"
                    break
            else:
                raise AssertionError(f"{reg!r} is not declared")
        self.expressions[reg] = single
        return single

    # ---------------------------------------------------------------------------------------------------- instructions

    def _template(self, shape: Shape, classes: tuple[str, ...], name: str) -> tuple[str, tuple[int, ...]]:
        """A line with holes for the registers; the order of the holes (`~i`: the PTX name), if not their own."""
        cls = shape.instruction
        assert cls is not None
        words = (*cls.opcode.split("."), *shape.modifiers)
        expression = Expression(wide_floats(words))
        exact = self._must_be_exact(shape, classes)
        expression.text(f"    {'exact' if exact else 'inst'}{python_path(words)}(")
        self.module.used.add("exact" if exact else "inst")
        for i, operand in enumerate(shape.layout):
            if i:
                expression.text(", ")
            expression.operand(operand, name)
        order = [i if not as_name else ~i for i, as_name in enumerate(expression.holes)]
        if shape.guard >= 0:
            order = [i + 1 if i >= 0 else i - 1 for i in order] + [0]
            comma = ", " if shape.layout else ""
            expression.text(f"{comma}pred={'~' if shape.guard_mark == '@!' else ''}")
            expression.register()
        expression.text(")")
        template = expression.template
        number = self.module.layouts.number(shape.gaps, self._canonical(shape))
        if number is not None:
            template = f"    fmt({number}, {template[4:]})"
            self.module.used.add("fmt")
        for helper in ("addr", "pair"):
            if f"{helper}(" in template:
                self.module.used.add(helper)
        if not expression.holes:
            template = template % ()
        return template, tuple(order) if order != list(range(len(order))) else ()

    def _must_be_exact(self, shape: Shape, classes: tuple[str, ...]) -> bool:
        """Whether `ptx.inst` would change or refuse the instruction."""
        cls = shape.instruction
        assert cls is not None
        if "written" in shape.attributes:
            return True
        if shape.guard >= 0:
            if classes[0] != "pred":
                return True
            classes = classes[1:]
        resolution = cls.resolve(shape.modifiers, shape.plain_layout, classes)
        return resolution.verdict(self.module.version, self.module.source.target) is not None

    def _canonical(self, shape: Shape) -> list[str]:
        return self.module.style.instruction_gaps(shape.tokens, guard_tokens(shape.guard_mark), shape.opcode_tokens)

    # ------------------------------------------------------------------------------------------------ other statements

    def _statement(self, shape: Shape, name: str) -> str:
        module = self.module
        number = module.layouts.number(shape.gaps, module.style.directive_gaps(shape.tokens))
        prefix = ""
        if shape.kind == Kind.LABEL:
            call = f"label({literal(name)})"
        elif shape.kind == Kind.OPEN:
            self.scopes.append(self.scope)
            self.scope = int(name)
            call = "open_scope()"
        elif shape.kind == Kind.CLOSE:
            self.scope = self.scopes.pop()
            call = "close_scope()"
        elif shape.kind == Kind.REGISTERS:
            declaration = cast(DeclarationAttr, shape.payload)
            call = directives.register_call(declaration)
            prefix = ", ".join(self._declare(declaration)) + " = "
        elif shape.op_class is LabelListOp:
            words = _words((shape.properties or {})["words"])
            labels = [w for w in words[1:] if w not in (",", ";")]
            if words[0] == ".branchtargets" and tuple(directives.spelling.branch_targets(labels)) == words:
                call = f"targets({_literals([name, *labels])})"
            else:
                text = directives.text_of(words) if module.readable else words
                call = f"label_list({_literals([name, *([text] if isinstance(text, str) else words)])})"
        elif shape.op_class is UnknownOp:
            call = f"unknown({_literals(shape.tokens)})"
        elif isinstance(shape.payload, DeclarationAttr):
            call = directives.declaration_call(shape.payload)
        elif shape.op_class is LocOp:
            call = directives.loc_call(shape.tokens) or f"directive({_literals(shape.tokens)})"
        else:
            call = directives.directive_call(shape.tokens, shape.gaps)
            if call.partition("(")[0] in ("file", "alias"):
                call = f"directive({_literals(shape.tokens)})"
        module.used.add(call.partition("(")[0])
        return prefix + _with_layout(call, number)

    def _declare(self, declaration: DeclarationAttr) -> list[str]:
        """Python names for the registers of a declaration."""
        found: list[str] = []
        for i, (name, tail) in enumerate(declaration.items):
            variable = self.names.fresh(name)
            found.append(variable)
            if tail:
                self.ranges.setdefault(self.scope, []).insert(0, (name, declaration.count(i) or 0, variable))
            else:
                self.singles[self.scope, name] = variable
        return found


# ---------------------------------------------------------------------------------------------------- helpers


def python_path(words: Sequence[str]) -> str:
    """`.add.u32` as attributes."""
    text = ""
    for word in words:
        name = word.replace("::", "__").replace(":", "_")
        if name[0].isdigit():
            name = "_" + name
        if identifier(name) != name or name in ("pred",):
            name += "_"
        if spelled(name) != word:
            raise directives.Unspellable(f"no Python attribute spells {word}")
        text += "." + name
    return text


def _with_layout(call: str, number: int | None) -> str:
    if number is None:
        return call
    comma = "" if call.endswith("()") else ", "
    return f"{call[:-1]}{comma}layout={number})"


def _literals(values: Sequence[str]) -> str:
    return ", ".join(literal(v) for v in values)


def _style(style: Style) -> str:
    fields = ("indent", "after_opcode", "after_comma", "after_inner_comma", "after_guard", "line_end")
    options = [
        f"{name}={literal(getattr(style, name))}" for name in fields if getattr(style, name) != getattr(Style(), name)
    ]
    return f"Style({', '.join(options)})"


def _compressed(gaps: Sequence[str]) -> str:
    """A tuple of strings, runs of repeated ones written as products."""
    parts: list[str] = []
    plain: list[str] = []

    def flush() -> None:
        if plain:
            parts.append("(" + "".join(f"{literal(g)}, " for g in plain).rstrip() + ")")
            plain.clear()

    at = 0
    while at < len(gaps):
        best, period = 1, 1
        for width in (1, 2, 3):
            unit = gaps[at : at + width]
            repeats = 1
            while gaps[at + repeats * width : at + (repeats + 1) * width] == unit and len(unit) == width:
                repeats += 1
            if repeats > 4 and repeats * width > best * period:
                best, period = repeats, width
        if best > 4:
            flush()
            unit = "(" + "".join(f"{literal(g)}, " for g in gaps[at : at + period]).rstrip() + ")"
            parts.append(f"{unit} * {best}")
            at += best * period
        else:
            plain.append(gaps[at])
            at += 1
    flush()
    return " + ".join(parts) or "()"


def _words(attr: Attribute) -> tuple[str, ...]:
    return cast(TokensAttr, attr).data


def _data(attr: Attribute) -> str:
    return cast(str, attr.data)  # pyright: ignore


def _declarations(attr: Attribute) -> list[DeclarationAttr]:
    return list(cast("ArrayAttr[DeclarationAttr]", attr))


def _import_order(name: str) -> tuple[bool, str]:
    return (not name[0].isupper(), name)


def _wrapped(start: str, names: Sequence[str], joined: str) -> str:
    text = start + ", ".join(names)
    if len(text) <= 88:
        return text
    return start + "(\n" + "".join(f"    {n},\n" for n in names) + ")"
