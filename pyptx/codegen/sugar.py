"""Readable mode: control flow as blocks, instructions as expressions and operators, registers named for what they hold.

The Python runs in the order of the PTX and makes the same instructions; only registers and labels are named anew. An
expression is nested into another exactly where its instruction stands directly before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute

from ..dialects.ptx.instruction import OPCODES, Instruction
from ..dialects.ptx.structure import DeclarationAttr, LabelListOp, LocOp, TokensAttr, UnknownOp, VariableOp
from ..dialects.ptx.style import DEFAULT
from ..dialects.ptx.syntax import (
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
    operand_tokens,
)
from ..frontend.core.instructions import spelled, wide_floats
from ..frontend.core.operators import COMPARISONS, operator_opcode
from ..frontend.core.results import operator_type, result_type
from ..frontend.module.arguments import Statement, ends_in_jump, load_type
from ..frontend.module.calls import CONVENTIONS, Convention
from ..frontend.module.operations import element_class, pair_classes, result_class
from ..parser.reader import ModuleText
from ..ssa.builder import FunctionSource
from ..ssa.statement import Kind, Reg, Shape
from ..ssa.statement import Statement as Recorded
from . import calls, constants, directives, idioms, layout, objects, repeats
from .faithful import HELPERS, FaithfulWriter, FunctionWriter, python_path
from .fragments import Fragments
from .names import NameTable, literal, string
from .naming import Namer, demangled, local_name, parameter_name
from .operands import constant
from .rolling import OR_NONE, Counted, Rolled
from .runnable import NAMES
from .structure import Region, recover

_BINARY = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6}
_IN_PLACE = ("+", "-", "*", "<<", ">>", "&", "|", "^")
_ATOM = 9
QUOTES = "\"'"
_MAX_TEXT = 76
"""Characters beyond which an expression is not nested into another."""


@dataclass(slots=True)
class Line:
    """One line to be written; `target` is the register that it assigns, if it may be nested into its use."""

    depth: int
    text: str
    target: Reg | None = None
    value: str = ""
    precedence: int = _ATOM
    comment: str = ""
    """What stands above it."""


@lru_cache(maxsize=4096)
def _needs_sign(name: str, bits: str) -> int:
    """1 for an instruction that an operator is on signed integers alone, -1 on unsigned ones alone, else 0."""
    symbols = (*_BINARY, *COMPARISONS.values())
    signed, unsigned = (any(operator_opcode(s, f"{k}{bits}") == name for s in symbols) for k in "su")
    return signed - unsigned


_STATE = ("expressions", "arrays", "array_sizes", "kinds", "bound", "forced", "nested_not", "whole", "vectors")
_LONG_PATH = re.compile(r"\b((?:op|inst)\.[\w.]{30,})\(")
_VARIABLE = re.compile(r'm\.variable\(("[^"\\]*"), ("[^"\\]*")((?:, \w+)?)\)')
"""A variable without an initialiser."""
_MIN_USES = 3
_UNDO = 40
"""Lines before a loop that writing its beginning may nest into it."""
_MANY_PARAMETERS = 8
"""From here on, parameters without names are `*args`."""
_LONG_LIST = 200
"""Characters beyond which an initialiser is written as one string."""


class SugarWriter(FaithfulWriter):
    """Writes a module readably."""

    readable = True

    def __init__(self, source: ModuleText, kernel_name: str | None):
        super().__init__(source, DEFAULT, False)
        for name in (*constants.ALL_NAMES, "name"):
            self.names.take(name)
        self.kernel_name = kernel_name
        self.first = True
        self.registers = _registers(source)
        self.calls = calls.style_of(i.statements for i in source.items if isinstance(i, FunctionSource))
        self.implicit_ret = _implicit_ret(source)
        self.constants: set[str] = set()
        self.fixed_labels = _named_in_sections(source)
        self.symbols = self._symbol_names()
        self.mentioned: set[str] = set()
        """Of the Python names of variables and functions, those that a function uses."""

    def _symbol_names(self) -> dict[str, str]:
        """Python names for variables with mangled names: `m.variable` returns the PTX name, which goes by them."""
        found: dict[str, str] = {}
        for item in self.source.items:
            payload = None if isinstance(item, FunctionSource) else item[0].payload
            if isinstance(payload, DeclarationAttr) and len(payload.items) == 1:
                name = payload.items[0][0]
                short = local_name(name)
                if short != name and name not in found and name not in self.fixed_labels:
                    found[name] = self.names.fresh(short)
            elif isinstance(item, FunctionSource) and item.has_body:
                name = cast(StringAttr, item.properties["sym_name"]).data
                is_entry = ".entry" in cast(TokensAttr, item.properties["head"]).data
                found[name] = self.names.fresh(self.python_name(name, "entry" if is_entry else "func"))
        return found

    def function_name(self, name: str, kind: str) -> str:
        return self.symbols[name]

    def _module_statement(self, statement: Recorded) -> None:
        before = len(self.out)
        super()._module_statement(statement)
        shape = statement[0]
        if isinstance(shape.payload, DeclarationAttr) and len(self.out) > before:
            known = self.symbols.get(shape.payload.items[0][0])
            if known is not None and self.out[-1].startswith("m.variable(") and len(self.out[-1]) <= _LONG_LIST:
                self.out[-1] = f"{known} = {self.out[-1]}"
                return
            self.symbols = {k: v for k, v in self.symbols.items() if v != known}
        if isinstance(shape.payload, DeclarationAttr) and len(self.out[-1]) > _LONG_LIST:
            self.out[-1] = "m." + directives.compact_declaration(shape.payload)
        elif shape.tokens[:1] == [".section"] and len(self.out) > before:
            self.out[-1] = "m." + directives.compact_section(shape.tokens)

    def text(self) -> str:
        """The program, laid out as `ruff format` would."""
        found: list[str] = []
        for line in self._variables(super().text().split("\n")):
            plain = not line.startswith((" ", "@", ")", '"""'))
            found += layout.lines(0, line) if plain and len(line) > layout.WIDTH else [line]
        return _few_blank_lines(found)

    def _variables(self, lines: Sequence[str]) -> list[str]:
        """Variables that no function mentions without a Python name, and those that differ in their names alone as one
        loop.
        """
        found: list[str] = []
        names: dict[int, list[str]] = {}  # of the loops, by the line where each begins
        loop = ("", "")
        for line in lines:
            assigned, _, call = line.partition(" = m.variable(")
            if call and assigned.isidentifier() and assigned not in self.mentioned:
                line = f"m.variable({call}"
            match = _VARIABLE.fullmatch(line)
            if match is not None and (match[1], match[3]) == loop:
                names[max(names)].append(match[2])
                continue
            if match is not None:
                loop = match[1], match[3]
                names[len(found)] = [match[2]]
            elif line.strip():
                loop = ("", "")
            found.append(line)
        for at, own in names.items():
            match = _VARIABLE.fullmatch(found[at])
            assert match is not None
            if len(own) >= _MIN_USES:
                found[at] = f"for name in [{', '.join(own)}]:\n    m.variable({match[1]}, name{match[3]})"
            elif len(own) > 1:
                found[at] = "\n".join(f"m.variable({match[1]}, {name}{match[3]})" for name in own)
        return "\n".join(found).split("\n")

    def function_writer(self, source: FunctionSource) -> FunctionWriter:
        return SugarFunction(self, source)

    def python_name(self, name: str, kind: str) -> str:
        if kind == "entry" and self.first and self.kernel_name is not None:
            self.first = False
            return self.kernel_name
        return demangled(name)

    def decorator_arguments(self, name: str, python_name: str, options: list[str]) -> str:
        return super().decorator_arguments(name, python_name, options) if python_name != name else ", ".join(options)

    def definitions(self) -> list[str]:
        return constants.definitions(self.constants)

    def constructor_options(self) -> list[str]:
        options = [f"{self.registers}_registers=True"] if self.registers else []
        options += [f"calls={string(self.calls)}"] if self.calls != "llvm" else []
        return [*options, "implicit_ret=True"] if self.implicit_ret else options

    def _parameters(self, attr: Attribute, stem: str) -> str:
        """Parameters as words where they have the usual names, repeated ones once."""
        calls: list[str] = []
        count = 0
        for i, declared in enumerate(cast("ArrayAttr[DeclarationAttr]", attr)):
            words = directives.parameter_words(declared, f"{stem}{i}")
            if words is None:
                calls.append(directives.parameter_call(declared))
                self.used.add(calls[-1].partition("(")[0])
                continue
            if calls and calls[-1] in (string(words), string(f"{words} * {count}")):
                count += 1
                calls[-1] = string(f"{words} * {count}")
            else:
                count = 1
                calls.append(string(words))
        return f"[{', '.join(calls)}]"


def _few_blank_lines(lines: Sequence[str]) -> str:
    """Two blank lines around functions, at most one elsewhere."""
    found: list[str] = []
    blank = 0
    for line in lines:
        if not line:
            blank += 1
            continue
        if blank and found:
            wide = line.startswith(("@", "def ")) or found[-1].startswith(" ")
            wide = wide and not line.startswith(" ")
            found += [""] * (2 if wide else 1)
        blank = 0
        found.append(line)
    return "\n".join([*found, ""])


def _registers(source: ModuleText) -> str:
    """How registers are declared, going by what instructions write: `bit`, floats as bits; `unsigned`, integers as `.u32`
    and the like; else empty.
    """
    bits = unsigned = 0
    for item in source.items:
        if isinstance(item, FunctionSource):
            for shape, regs, _, _, _ in item.statements:
                if shape.written and shape.instruction is not None and shape.modifiers:
                    kind = regs[shape.written[0]].register_class[0]
                    if shape.modifiers[-1] in ("f32", "f64"):
                        bits += 1 if kind == "b" else -1
                    elif kind in "ub":
                        unsigned += 1 if kind == "u" else -1
    return "unsigned" if unsigned > 0 else "bit" if bits > 0 else ""


def _implicit_ret(source: ModuleText) -> bool:
    """Whether all functions end in a jump, most of them in a plain `ret`: then that goes without saying."""
    functions = [i.statements for i in source.items if isinstance(i, FunctionSource) and i.has_body]
    return bool(functions) and all(ends_in_jump(s) for s in functions) and any(_ends_in_ret(s) for s in functions)


def _ends_in_ret(statements: Sequence[Statement]) -> bool:
    """Whether a function ends in a `ret` that `implicit_ret` makes."""
    if not statements:
        return False
    shape = statements[-1][0]
    labels = [name for s, _, _, _, name in statements if s.kind == Kind.LABEL]
    last: list[str] = []  # labels right before it: scopes may have others of the same name
    for before, _, _, _, name in reversed(statements[:-1]):
        if before.kind in (Kind.INSTRUCTION, Kind.TERMINATOR):
            break
        last += [name] if before.kind == Kind.LABEL else []
    return (
        shape.instruction is not None
        and shape.instruction.returns
        and not shape.modifiers
        and shape.guard < 0
        and all(labels.count(name) == 1 for name in last)
        and not ends_in_jump(statements[:-1])
    )


def _named_in_sections(source: ModuleText) -> set[str]:
    """Names that debug data mentions: labels of these names keep them."""
    found: set[str] = set()
    for item in source.items:
        if not isinstance(item, FunctionSource) and item[0].tokens[:1] == [".section"]:
            found.update(item[0].tokens)
    return found


class SugarFunction(FunctionWriter):
    """Writes one function readably."""

    def __init__(self, module: SugarWriter, source: FunctionSource):
        super().__init__(module, source)
        self.sugar = module
        self.parameters: dict[str, str] = {}
        self.load_types: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.results: list[str] = []
        self.silent = 0  # statements at the end that are not written: `return value` or nothing says them
        self.names = NameTable((*HELPERS, "m", *NAMES, *constants.ALL_NAMES, *module.symbols.values(), *self.arguments))
        self._name_parameters()
        self.bound: set[Reg] = {*source.outputs, *source.inputs}
        self.kinds: dict[Reg, str] = {r: self.kind_of(r.register_class) for r in self.bound}
        self.arrays: dict[Reg, tuple[str, int]] = {}
        self.array_sizes: dict[str, int] = {}
        self.lines: list[Line] = []
        self.defs: dict[Reg, int] = {}
        self.namer = Namer(self.defs)
        self.fragments = Fragments()
        self.uses: dict[Reg, int] = {}
        self.whole: set[tuple[Reg, ...]] = set()
        self.depth = 0
        self.mentioned: dict[Reg, int] = {}
        self.symbol_uses: dict[str, int] = {}
        self.makes: dict[int, tuple[Reg, ...]] = {}
        self.forced: dict[Reg, str] = {}  # names that loops want
        self.nested_not: set[Reg] = set()  # registers that are needed after the loop which makes them
        self.vectors: dict[tuple[Reg, ...], str] = {}
        self.flat = False  # nothing is nested just now
        self.popped: list[Line] = []  # the lines that went into the latest
        self.statements: list[Statement] = []
        self.targets: dict[int, int] = {}
        self.label_names: dict[int, str] = {}
        self.explicit: set[int] = set()

    # ------------------------------------------------------------------------------------------------------- analysis

    def _name_parameters(self) -> None:
        """All parameters become arguments of the Python function, those in registers among them."""
        in_registers = iter(self.arguments)
        arguments: list[str] = []
        named = [parameter_name(name) for d in self._declarations("params") for name, _ in d.items]
        many = len(named) > _MANY_PARAMETERS and named == [f"arg{i}" for i in range(len(named))]
        many = many and not self.arguments and not self._declarations("returns")
        for which in ("returns", "params"):
            for declared in self._declarations(which):
                for name, tail in declared.items:
                    if declared.space == "reg":
                        arguments.append(next(in_registers))
                        continue
                    if not tail:
                        self.load_types[name] = load_type(declared.type, self.sugar.registers)
                    if which == "returns":
                        self.results.append(name)
                    short = parameter_name(name) if which == "params" else "result"
                    if many:
                        self.parameters[name] = f"args[{len(arguments)}]"
                        arguments.append("*args")
                        continue
                    argument = self.names.fresh(short)
                    self.parameters[name] = argument
                    arguments.append(argument)
        self.arguments = arguments if len(set(arguments)) > 1 else arguments[:1]

    def kind_of(self, dtype: str) -> str:
        """What operators take a register of this type for."""
        return operator_type(dtype)

    def operator(self, symbol: str, kind: str) -> str | None:
        """The instruction of an operator on a register of that kind."""
        return operator_opcode(symbol, kind, self.sugar.registers == "unsigned")

    def _declarations(self, which: str) -> list[DeclarationAttr]:
        attr = self.source.properties.get(which)
        return list(cast("ArrayAttr[DeclarationAttr]", attr)) if attr is not None else []

    def symbol(self, name: str) -> str:
        """A symbol as an operand: a parameter by its Python name."""
        known = self.parameters.get(name) or self.variables.get(name)
        if known is None and (known := self.sugar.symbols.get(name)) is not None:
            self.sugar.mentioned.add(known)
        return known or string(name)

    def write(self) -> None:
        self._collect()
        self.namer.settle(self.statements)
        regions = self._structure()
        self._find_end(regions)
        body = self._declare_early()
        self.lines += body
        self._emit(regions)
        self._shorten()
        for line in self.lines:
            if line.comment:
                self.out.append(f"{' ' * (4 * (line.depth + 1))}# {line.comment}")
            self.out += layout.lines(4 * (line.depth + 1), line.text)

    def _shorten(self) -> None:
        """Names for long instructions that come often: `mma = inst.mma.sync.aligned...`."""
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            if 4 * (line.depth + 1) + len(line.text) > layout.WIDTH:
                for path in set(_LONG_PATH.findall(line.text)):
                    found.setdefault(path, []).append(line)
        aliases: list[Line] = []
        aliases_of = _alias_names([p for p, lines in found.items() if len(lines) >= _MIN_USES])
        for path, lines in found.items():
            if len(lines) < _MIN_USES:
                continue
            alias = self.names.fresh(aliases_of[path])
            line = f"{alias} = {path}"
            helps = len(line) + 4 > layout.WIDTH >= len(path) + 8  # where brackets make it fit
            aliases.append(Line(0, f"{alias} = ({path})" if helps else line))
            for line in self.lines:
                line.text = line.text.replace(f"{path}(", f"{alias}(")
        self.lines[:0] = aliases

    def _find_end(self, regions: Sequence[Region]) -> None:
        """How many statements at the end `implicit_ret` and `return value` make."""
        statements = self.statements
        end = len(statements)
        if not _ends_in_ret(statements) or any(
            r.start < end <= r.end for r in regions if r.kind != "block" or r.end == end
        ):
            return
        if self._returned() is not None:
            self.silent = 2
            if self.symbol_uses.get(self.results[0]) == 1 and not self.source.outputs and not self.source.inputs:
                self.arguments.remove(self.parameters[self.results[0]])
        elif self.sugar.implicit_ret:
            self.silent = 1

    def _returned(self) -> Reg | None:
        """The register that the statement before the last stores as the function's one result."""
        if len(self.results) != 1 or len(self.statements) < 2 or len(self._declarations("returns")) != 1:
            return None
        shape, regs, _, _, _ = self.statements[-2]
        dtype = self.load_types.get(self.results[0])
        match shape.layout:
            case (Address(Symbol(name, ""), "", ()), Register(_, "")) if name == self.results[0] and shape.guard < 0:
                words = (shape.instruction.opcode, *shape.modifiers) if shape.instruction is not None else ()
                if words != ("st", "param", dtype) or self._must_be_exact(shape, tuple(r.register_class for r in regs)):
                    return None
                return regs[0]
            case _:
                return None

    def _collect(self) -> None:
        """Statements without register declarations and empty scopes; counts of definitions and uses; branch targets."""
        kept = _scopes_to_keep(self.source.statements)
        labels: dict[tuple[int, str], int] = {}
        wanted: list[tuple[int, str, tuple[int, ...]]] = []
        tables: list[tuple[int, str, tuple[int, ...]]] = []
        stack = [0]
        for statement in self.source.statements:
            shape, regs, _, _, name = statement
            kind = shape.kind
            if kind == Kind.REGISTERS:
                directives.register_call(cast(DeclarationAttr, shape.payload))  # not written, but it must be one
                continue
            if kind == Kind.OPEN:
                stack.append(int(name))
                if int(name) in kept:
                    self.statements.append(statement)
                continue
            if kind == Kind.CLOSE:
                if stack.pop() in kept:
                    self.statements.append(statement)
                continue
            at = len(self.statements)
            self.statements.append(statement)
            for reg in regs:
                self.mentioned.setdefault(reg, at)
            if kind == Kind.LABEL:
                labels[stack[-1], name] = at
            elif kind == Kind.TABLE:
                tables += [(at, label, tuple(stack)) for label in cast("list[str]", shape.payload)]
            elif kind == Kind.TERMINATOR and name and shape.instruction is not None and shape.instruction.jumps:
                wanted.append((at, name, tuple(stack)))
            if shape.instruction is not None:
                self._count(shape, regs)
                for operand in shape.layout:
                    for token in operand_tokens(operand):
                        if token in self.parameters:
                            self.symbol_uses[token] = self.symbol_uses.get(token, 0) + 1

        def find(name: str, path: tuple[int, ...]) -> int | None:
            return next((labels[s, name] for s in reversed(path) if (s, name) in labels), None)

        for at, name, path in wanted:
            found = find(name, path)
            if found is not None:
                self.targets[at] = found
        self.keep = {found for _, name, path in tables if (found := find(name, path)) is not None}
        symbols = self._symbols()
        self._name_variables(symbols)
        mentioned = self.sugar.fixed_labels | symbols
        self.keep |= {at for (_, name), at in labels.items() if name in mentioned}
        self.tables = {(at, name): find(name, path) for at, name, path in tables}

    def _name_variables(self, mentioned: set[str]) -> None:
        """Python names for the function's variables with mangled names, as far as instructions mention them."""
        declared: list[str] = []
        for shape, _, _, _, _ in self.statements:
            if shape.op_class is VariableOp and isinstance(shape.payload, DeclarationAttr):
                declared += [name for name, _ in shape.payload.items]
        for name in declared:
            short = local_name(name)
            if short != name and name in mentioned and declared.count(name) == 1 and name not in self.sugar.symbols:
                self.variables[name] = self.names.fresh(short)

    def _count(self, shape: Shape, regs: Sequence[Reg]) -> None:
        for i in shape.written:
            self.defs[regs[i]] = self.defs.get(regs[i], 0) + 1
        for i in (*shape.read, *((shape.guard,) if shape.guard >= 0 else ())):
            self.uses[regs[i]] = self.uses.get(regs[i], 0) + 1
        for i in shape.tied:
            self.uses[regs[i]] = self.uses.get(regs[i], 0) + 2
        self.namer.observe(shape, regs)
        self.fragments.observe(shape, regs)
        at = 1 if shape.guard >= 0 else 0
        for number, operand in enumerate(shape.layout):
            count = sum(1 for t in operand_tokens(operand) if t in ("$", "=", "~"))
            if isinstance(operand, (Element, Sum)):  # a string of PTX names its register, which needs a name
                self.nested_not.update(regs[at : at + count])
            if number and isinstance(operand, Vector) and count == len(operand.elements) > 1:
                self.whole.add(tuple(regs[at : at + count]))
            at += count

    def _symbols(self) -> set[str]:
        """Names that instructions mention as values, not as branch targets."""
        found: set[str] = set()
        seen: set[int] = set()
        for shape, _, _, _, _ in self.statements:
            if id(shape) in seen or shape.instruction is None:
                continue
            seen.add(id(shape))
            for operand in shape.layout:
                found.update(t for t in operand_tokens(operand) if t[0] not in "^$=~")
        return found

    def _structure(self) -> list[Region]:
        self.keep |= {label for at, label in self.targets.items() if label < at and self._leaves(label)}
        branches = [(at, label, self.statements[at][0].guard >= 0) for at, label in self.targets.items()]
        structure = recover(branches, self.keep)
        self.explicit = structure.explicit
        targeted = set(self.targets.values())
        names: set[str] = set()
        for at, (shape, _, _, _, name) in enumerate(self.statements):
            if shape.kind == Kind.LABEL and (at in self.explicit or at not in targeted):
                self.explicit.add(at)
                fresh, number = name, 1
                while fresh in names:
                    fresh, number = f"{name}_{number}", number + 1
                names.add(fresh)
                self.label_names[at] = fresh
        return structure.regions

    def _leaves(self, label: int) -> bool:
        """Whether the function is left right after a label: a branch back to it makes no loop."""
        for shape, _, _, _, _ in self.statements[label + 1 :]:
            if shape.kind == Kind.TERMINATOR:
                return shape.guard < 0 and shape.instruction is not None and shape.instruction.returns
            if shape.kind in (Kind.LABEL, Kind.TABLE):
                return False
        return False

    def _declare_early(self) -> list[Line]:
        """Registers whose first mention is not a plain definition."""
        seen: set[Reg] = set(self.bound)
        early: list[Reg] = []
        for at, (shape, regs, _, _, _) in enumerate(self.statements):
            if shape.instruction is None:
                continue
            fresh = self._fresh_results(shape, regs, seen)
            if fresh and shape.kind == Kind.INSTRUCTION:
                self.makes[at] = fresh
            for reg in regs:
                if reg not in seen:
                    seen.add(reg)
                    if reg not in fresh:
                        early.append(reg)
        found: list[Line] = []
        signed = self._signed(set(early))
        for reg in early:
            name = self.names.fresh(self.namer.updated.get(reg) or {"pred": "p"}.get(reg.register_class, "r"))
            self.expressions[reg] = name
            self.bound.add(reg)
            kind = self.kinds[reg] = signed.get(reg) or self.kind_of(reg.register_class)
            known = "" if kind == self.kind_of(reg.register_class) else f", {string(kind)}"
            found.append(Line(0, f"{name} = new({string(reg.register_class)}{known})"))
            self.sugar.used.add("new")
        return found

    def _signed(self, registers: set[Reg]) -> dict[Reg, str]:
        """The signed type of those registers of untyped bits for which more operators of it are instructions here than of
        the unsigned one.
        """
        votes: dict[Reg, int] = {}
        for shape, regs, *_ in self.statements:
            first = (1 if shape.guard >= 0 else 0) + (1 if shape.written else 0)
            if shape.instruction is None or len(regs) <= first or regs[first] not in registers:
                continue
            reg, name = regs[first], ".".join((shape.instruction.opcode, *shape.modifiers))
            votes[reg] = votes.get(reg, 0) + _needs_sign(name, reg.register_class[1:])
        return {
            reg: f"s{reg.register_class[1:]}"
            for reg, vote in votes.items()
            if vote > 0 and reg.register_class[0] == "b"
        }

    def _fresh_results(self, shape: Shape, regs: Sequence[Reg], bound: set[Reg]) -> tuple[Reg, ...]:
        """The registers that `op` may make for this instruction: those of its first operand, all new."""
        if not shape.layout or not shape.written:
            return ()
        first = shape.layout[0]
        at = 1 if shape.guard >= 0 else 0
        if isinstance(first, Register) and not first.member and first.role != "$":
            found = (regs[at],)
        elif (
            isinstance(first, Vector)
            and first.elements
            and all(isinstance(e, Register) and not e.member and e.role != "$" for e in first.elements)
        ):
            found = tuple(regs[at : at + len(first.elements)])
        elif isinstance(first, Pair) and all(
            isinstance(e, Register) and not e.member and e.role != "$" for e in (first.first, first.second)
        ):
            found = tuple(regs[at : at + 2])
        else:
            return ()
        if len(set(found)) != len(found) or any(r in bound for r in found):
            return ()
        others = [r for i, r in enumerate(regs) if not at <= i < at + len(found)]
        if any(r in others for r in found) or self._must_be_exact(shape, tuple(r.register_class for r in regs)):
            return ()
        return found

    # ------------------------------------------------------------------------------------------------------- emission

    def _emit(self, regions: list[Region]) -> None:
        opening: dict[int, list[Region]] = {}
        for region in regions:
            opening.setdefault(region.start, []).append(region)
        self.jumps = {r.jump for r in regions if r.kind == "else"}
        self.regions_of: dict[int, Region] = {}
        for region in regions:
            for branch in region.branches:
                self.regions_of[branch] = region
        self.conditions = self._conditions(regions)
        borders = {p for r in regions if r.start not in self.conditions or r.kind != "if" for p in (r.start, r.end)}
        self.loads = self._find_loads(borders)
        self.fragments.schedule(self.mentioned)
        repeats = {repeat.start: repeat for repeat in self._find_repeats(borders)}
        done = 0
        branches = {r.branches[0] for r in regions if r.kind == "if"}
        open_regions: list[Region] = []
        for at in range(len(self.statements) + 1):
            while open_regions and open_regions[-1].end == at:
                open_regions.pop()
                self.close()
            for region in opening.get(at, ()) if at >= done else ():
                if (
                    at in self.conditions
                    and region.kind == "if"
                    and at in repeats
                    and Rolled(self, repeats[at]).write()
                ):
                    done = at + repeats[at].period * repeats[at].count
                    break
                wait = objects.wait_in(self, region)
                if wait is not None:
                    self._wait(wait)
                    done = at + wait.size
                    break
                self._open(region)
                open_regions.append(region)
            if at < done or at in branches or at in self.jumps:
                continue
            if at >= len(self.statements) - self.silent:
                if at == len(self.statements) - 2 and self.silent == 2:
                    self._return(self.statements[at][1][0])
                continue
            if at in repeats and Rolled(self, repeats[at]).write():
                done = at + repeats[at].period * repeats[at].count
            elif self.statements[at][0].kind == Kind.OPEN and (size := self._call(at)):
                done = at + size
            elif at in self.loads:
                done = at + self.loads[at]
                self._load_together(self.statements[at:done])
            else:
                self._statement_at(at)
            self.fragments.write(self, at, max(done, at + 1))
        if not self.lines:
            self.write_line("pass")

    def _return(self, reg: Reg) -> None:
        self.popped = []
        text, _ = self.take(reg)
        if self.popped and len(text) + len("    return ") > layout.WIDTH:
            self._restore()
            text = self.expressions[reg]
        self.write_line(f"return {text}")

    def snapshot(self) -> tuple[object, ...]:
        """What writing changes, to take it back with `restore`."""
        state = {name: getattr(self, name).copy() for name in _STATE}
        return (
            len(self.lines),
            self.lines[-_UNDO:],
            self.depth,
            state,
            self.names.taken.copy(),
            (self.sugar.used.copy(), self.sugar.constants.copy()),
        )

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        count, last, self.depth, state, self.names.taken, (self.sugar.used, self.sugar.constants) = snapshot
        for name in _STATE:
            setattr(self, name, state[name])
        del self.lines[max(count - _UNDO, 0) :]
        self.lines += last

    def line(self, text: str, deeper: int = 0) -> Line:
        return Line(self.depth + deeper, text)

    def write_line(self, text: str, **more: object) -> None:
        self.lines.append(Line(self.depth, text, **more))  # pyright: ignore[reportArgumentType]

    def _open(self, region: Region) -> None:
        used = self.sugar.used
        if region.kind == "if":
            shape, regs, _, _, _ = self.statements[region.branches[0]]
            self.open_condition(shape, regs)
            return
        if region.kind == "else":
            uni = "uni=True" if "uni" in self.statements[region.jump][0].modifiers else ""
            self.write_line(f"with else_({uni}):")
            used.add("else_")
        else:
            region.name = self.names.fresh("again" if region.kind == "loop" else "part")
            moved = self._condition_of(region)
            self.write_line(f"with {region.kind}() as {region.name}:")
            used.add(region.kind)
            if moved is not None:
                moved.depth = self.depth + 1
                self.lines.append(moved)
        self.depth += 1

    def open_condition(self, shape: Shape, regs: Sequence[Reg]) -> None:
        """`with if_(...)`, for the branch past it."""
        uni = ", uni=True" if "uni" in shape.modifiers else ""
        reg = regs[shape.guard]
        self.popped = []
        text, precedence = self.take(reg)
        if self.popped and len(text) + 4 * (self.depth + 1) + len("with if_(~()):") + len(uni) > layout.WIDTH:
            self._restore()
            text, precedence = self.expressions[reg], _ATOM
        if shape.guard_mark == "@":  # the block runs where the branch is not taken
            text = f"~{text}" if precedence >= 7 else f"~({text})"
        self.write_line(f"with if_({text}{uni}):")
        self.sugar.used.add("if_")
        self.depth += 1

    def _condition_of(self, region: Region) -> Line | None:
        """The line that computes the condition of the branch which a block begins with: it may as well stand inside."""
        shape, regs, _, _, _ = self.statements[region.start]
        last = self.lines[-1] if self.lines else None
        if region.kind != "block" or region.start not in self.targets or shape.guard < 0 or last is None:
            return None
        if last.target is not regs[shape.guard] or last.depth != self.depth:
            return None
        return self.lines.pop()

    def close(self) -> None:
        """End a block."""
        if self.lines[-1].depth < self.depth:
            self.write_line("pass")
        self.depth -= 1
        self.lines[-1].target = None

    def _statement_at(self, at: int) -> None:
        shape, regs, _, _, name = self.statements[at]
        if shape.kind == Kind.LABEL:
            if at in self.explicit:
                self.write_line(f"label({string(self.label_names[at])})")
                self.sugar.used.add("label")
        elif at in self.targets:
            self.popped = []
            self._branch(at, shape, regs)
        elif shape.kind == Kind.TABLE and shape.op_class is LabelListOp:
            labels = [self.label_names[cast(int, self.tables[at, n])] for n in cast("list[str]", shape.payload)]
            self.write_line(f"targets({', '.join(string(n) for n in (name, *labels))})")
            self.sugar.used.add("targets")
        else:
            self.write_statement(shape, regs, name)

    def write_statement(self, shape: Shape, regs: Sequence[Reg], name: str) -> None:
        """Write a statement that is not a label; without nesting others into it where the line would be too long."""
        self.popped = []
        if shape.op_class is LocOp and self.lines and self.lines[-1].depth == self.depth:
            self._location(self._statement(shape, name))
            return
        if shape.kind > Kind.TERMINATOR or shape.op_class is UnknownOp:
            text = self._statement(shape, name)
            declared = shape.payload.items if isinstance(shape.payload, DeclarationAttr) else ()
            known = self.variables.get(declared[0][0]) if len(declared) == 1 and text.startswith("variable(") else None
            self.write_line(f"{known} = {text}" if known is not None else text)
            return
        fresh = self._fresh_results(shape, regs, self.bound) if shape.kind == Kind.INSTRUCTION else ()
        self._instruction(shape, regs, name)
        if self.popped and len(self.lines[-1].text) + 4 * (self.depth + 1) > layout.WIDTH:
            self.lines.pop()
            for reg in fresh:
                self.bound.discard(reg)
                self.names.release(self.expressions[reg].partition("[")[0])
                self.arrays.pop(reg, None)
            self._restore()
            self.flat = True
            self._instruction(shape, regs, name)
            self.flat = False

    def _location(self, call: str) -> None:
        """A `.loc`, with the label before it."""
        previous = self.lines[-1].text
        if previous.startswith("label(") and call.startswith("loc("):
            self.lines[-1].text = f"{call[:-1]}, label={previous[6:]}"
        else:
            self.write_line(call)

    def _restore(self) -> None:
        """Put the nested lines back."""
        for line in reversed(self.popped):
            assert line.target is not None
            self.names.take(self.expressions[line.target])
            self.lines.append(line)
        self.popped = []

    def _branch(self, at: int, shape: Shape, regs: Sequence[Reg]) -> None:
        condition = ""
        if shape.guard >= 0:
            text, precedence = self.take(regs[shape.guard])
            condition = text if shape.guard_mark == "@" else (f"~{text}" if precedence >= 7 else f"~({text})")
        region = self.regions_of.get(at)
        uni = "uni=True" if "uni" in shape.modifiers else ""
        if region is None:
            label = string(self.label_names[self.targets[at]])
            pred = f", pred={condition}" if condition else ""
            self.write_line(f"inst.bra{'.uni' if uni else ''}({label}{pred})")
            self.sugar.used.add("inst")
            return
        method = "again" if region.kind == "loop" else "leave"
        self.write_line(f"{region.name}.{method}({', '.join(t for t in (condition, uni) if t)})")

    # ------------------------------------------------------------------------------------------------------ parameters

    def _find_loads(self, borders: set[int]) -> dict[int, int]:
        """Stretches of parameters being loaded: how many, by where they start."""
        found: dict[int, int] = {}
        start = -1
        for at in range(len(self.statements) + 1):
            is_load = at < len(self.statements) and self._loaded(at) is not None
            if start >= 0 and (not is_load or at in borders):
                if at - start > 1:
                    found[start] = at - start
                start = -1
            if is_load and start < 0:
                start = at
        return found

    def _loaded(self, at: int) -> str | None:
        """The parameter that a statement loads just as `load` does."""
        shape = self.statements[at][0]
        if shape.instruction is None:
            return None
        return self._loads_parameter((shape.instruction.opcode, *shape.modifiers), shape, self.makes.get(at, ()))

    def _loads_parameter(self, words: tuple[str, ...], shape: Shape, fresh: Sequence[Reg]) -> str | None:
        """The parameter, in Python, that an instruction loads just as `load` does."""
        if not fresh or shape.guard >= 0 or len(shape.layout) != 2:
            return None
        match shape.layout[1]:
            case Address(Symbol(name, ""), "", (), False) if words == ("ld", "param", self.load_types.get(name)):
                return self.parameters[name] if not self._into(words, shape, fresh) else None
            case _:
                return None

    def _load_together(self, statements: Sequence[Statement]) -> None:
        """`a, n = load(a, n)`, as many in a line as fit."""
        self.sugar.used.add("load")
        targets: list[str] = []
        sources: list[str] = []
        width = 4 * (self.depth + 1) + len(" = load()")
        for shape, regs, _, _, _ in statements:
            source = self.parameters[cast(Symbol, cast(Address, shape.layout[1]).base).name]
            name = self._new_name(regs[0], shape, regs)
            self.bound.add(regs[0])
            self.kinds[regs[0]] = self.kind_of(shape.modifiers[-1])
            if targets and width + sum(len(t) + 2 for t in (*targets, *sources, name, source)) > layout.WIDTH:
                self.write_line(f"{', '.join(targets)} = load({', '.join(sources)})")
                targets, sources = [], []
            targets.append(name)
            sources.append(source)
        self.write_line(f"{', '.join(targets)} = load({', '.join(sources)})")

    # --------------------------------------------------------------------------------------------------------- repeats

    def _conditions(self, regions: Sequence[Region]) -> dict[int, int]:
        """Conditions without an else, whose label is theirs alone: their branch -> their label."""
        labels: dict[int, int] = {}
        for region in regions:
            labels[region.label] = labels.get(region.label, 0) + len(region.branches)
        return {
            r.start: r.label
            for r in regions
            if r.kind == "if" and r.otherwise is None and r.end == r.label and labels[r.label] == 1
            if r.label not in self.explicit and "exact" not in self.statements[r.start][0].attributes
        }

    def _find_repeats(self, borders: set[int]) -> list[repeats.Repeat]:
        start_of = {reg: -1 if reg in self.bound else at for reg, at in self.mentioned.items()}
        labels = {at for at, (shape, _, _, _, _) in enumerate(self.statements) if shape.kind == Kind.LABEL}
        labels -= set(self.conditions.values())
        return repeats.find(
            repeats.Function(
                self.statements,
                borders | labels | set(self.loads) | {len(self.statements) - self.silent},
                lambda at: self.makes.get(at, ()),
                self._is_exact,
                start_of,
                self.namer.role,
                self.conditions,
            )
        )

    def _is_exact(self, shape: Shape, regs: Sequence[Reg]) -> bool:
        if shape.instruction is None:
            return False
        key = shape, tuple([r.register_class for r in regs])
        found = self.judged.get(key)
        if found is None:
            found = self.judged[key] = self._must_be_exact(*key)
        return found

    def sequence(self, regs: Sequence[Reg]) -> str:
        """An expression for a list of these registers: an array, a stretch of one, or their names."""
        found = self.vector(regs)
        if found is not None:
            return found
        places = [self.arrays.get(r) for r in regs]
        if None not in places and len({p[0] for p in places if p}) == 1:
            text = self.stretch(next(p[0] for p in places if p), [p[1] for p in places if p])
            if text is not None:
                return text
        parts: list[str] = []
        at = 0
        while at < len(regs):
            end = at + 1
            while end < len(regs) and regs[end] is regs[at]:
                end += 1
            text = self.expressions[regs[at]]
            if end - at > 3:
                parts.append(f"*[{text}] * {end - at}")
                at = end
                continue
            run = self._run(regs[at:])
            if len(run) > 2:
                part = self.stretch(self.arrays[regs[at]][0], run)
                parts.append(f"*{part}")
                at += len(run)
                continue
            parts.append(text)
            at += 1
        if len(parts) == 1 and parts[0][0] == "*":
            return parts[0][1:]
        return f"[{', '.join(parts)}]"

    def _run(self, regs: Sequence[Reg]) -> list[int]:
        """The places of the first registers in their array, as far as they go up or down by one."""
        places: list[int] = []
        name = ""
        for reg in regs:
            array, place = self.arrays.get(reg) or ("", 0)
            step = place - places[-1] if places else 0
            if not array or (places and (array != name or abs(step) != 1)):
                break
            if len(places) > 1 and step != places[1] - places[0]:
                break
            name = array
            places.append(place)
        return places

    def stretch(self, name: str, at: Sequence[int]) -> str | None:
        """`array[::-1]` or another stretch of an array with a step; None for other places."""
        step = at[1] - at[0]
        if step == 0 or any(b - a != step for a, b in pairwise(at)):
            return None
        size = self.array_sizes[name]
        if step == 1 and at[0] == 0 and len(at) == size:
            return name
        stop = at[-1] + (1 if step > 0 else -1)
        begin = "" if at[0] == (0 if step > 0 else size - 1) else str(at[0])
        end = "" if stop < 0 or stop >= size else str(stop)
        return f"{name}[{begin}:{end}]" if step == 1 else f"{name}[{begin}:{end}:{step}]"

    # ---------------------------------------------------------------------------------------------------- instructions

    def take(self, reg: Reg) -> tuple[str, int]:
        """The expression of a register: the line before, if that computes it for this use alone, else its name."""
        last = self.lines[-1] if self.lines else None
        if (
            not self.flat
            and last is not None
            and last.target is reg
            and last.depth == self.depth
            and self.defs.get(reg) == 1
            and self.uses.get(reg) == 1
            and len(last.value) <= _MAX_TEXT
        ):
            self.popped.append(self.lines.pop())
            self.names.release(self.expressions[reg])
            return last.value, last.precedence
        return self.expressions[reg], _ATOM

    def _instruction(self, shape: Shape, regs: Sequence[Reg], name: str) -> None:
        cls = shape.instruction
        assert cls is not None
        words = (*cls.opcode.split("."), *shape.modifiers)
        fresh = self._fresh_results(shape, regs, self.bound)
        sources = list(shape.layout[1:] if fresh else shape.layout)
        first = (1 if shape.guard >= 0 else 0) + len(fresh)
        used = regs[first:]
        taken = self._fold(used, regs[shape.guard] if shape.guard >= 0 else None)
        if fresh and len(fresh) == 1 and shape.guard < 0:
            found = self._operator(words, sources, used, taken)
            if found is not None and found[2] == fresh[0].register_class:
                self._assign(fresh[0], shape, regs, found[0], found[1], found[3])
                return
        if not fresh and shape.guard < 0 and self._in_place(words, shape, regs, taken):
            return
        parameter = self._loads_parameter(words, shape, fresh)
        if parameter is not None:
            self.sugar.used.add("load")
            self._assign(fresh[0], shape, regs, f"load({parameter})", _ATOM, self.kind_of(words[-1]))
            return
        exact = self._must_be_exact(shape, tuple(r.register_class for r in regs))
        if not exact and self._object_call(cls, words, shape, regs, sources, fresh, taken, name):
            return
        reader = OperandReader(self, used, taken, words, name)
        arguments = [reader.operand(o)[0] for o in sources]
        if fresh:
            into = self._into(words, shape, fresh)
            if into:
                arguments.append(f"into={into}")
        if shape.guard >= 0:
            arguments.append(f"pred={self._guard_text(shape, regs, taken)}")
        root = "op" if fresh else "exact" if exact else "inst"
        call = f"{root}{python_path(words)}({', '.join(arguments)})"
        if fresh and words == ("mov", "u32") and isinstance(sources[0], SpecialRegister) and len(arguments) == 1:
            call, root = f"special.{sources[0].name[1:]}()", "special"
        self.sugar.used.add(root)
        if not fresh:
            self.write_line(call)
        elif isinstance(shape.layout[0], (Vector, Pair)):
            self._assign_vector(fresh, shape, regs, call, self.kind_of(result_type(words)))
        else:
            self._assign(fresh[0], shape, regs, call, _ATOM, self.kind_of(result_type(words)))

    def _object_call(
        self, cls: type[Instruction], words: tuple[str, ...], shape: Shape, regs: Sequence[Reg],
        sources: Sequence[Operand], fresh: Sequence[Reg], taken: dict[int, tuple[str, int]], name: str,
    ) -> bool:  # fmt: skip
        """Write a call of one of the DSL's objects, if the instruction is one."""
        if fresh and (len(fresh) > 1 or self._into(words, shape, fresh)):
            return False
        used = regs[(1 if shape.guard >= 0 else 0) + len(fresh) :]
        before = self.sugar.used.copy()
        call = objects.called(cls, words, sources, OperandReader(self, used, taken, words, name), len(fresh))
        if call is None:
            self.sugar.used = before
            return False
        if shape.guard >= 0:
            call += ("" if call.endswith("(") else ", ") + f"pred={self._guard_text(shape, regs, taken)}"
        call += ")"
        if fresh:
            self._assign(fresh[0], shape, regs, call, _ATOM, self.kind_of(result_type(words)))
        else:
            self.write_line(call)
        return True

    def _guard_text(self, shape: Shape, regs: Sequence[Reg], taken: dict[int, tuple[str, int]]) -> str:
        text, precedence = taken.get(-1) or (self.expressions[regs[shape.guard]], _ATOM)
        if shape.guard_mark == "@!":
            text = f"~{text}" if precedence >= 7 else f"~({text})"
        return text

    def _call(self, at: int) -> int:
        """Write a call with its parameter block, if it is one that `call` makes; how many statements that were."""
        found = calls.called_at(self.statements, at, self.sugar.calls)
        if found is None or any(self._is_exact(s, r) for s, r, _, _, _ in self.statements[at : at + found.size]):
            return 0
        made: tuple[Reg, ...] = ()
        if found.load >= 0:
            shape, regs, _, _, _ = self.statements[found.load]
            made = self.makes.get(found.load, ())
            if made and (len(made) > 1 or self._into(("ld", "param", found.returns), shape, made)):
                return 0
            if not made and (len(regs) != 1 or regs[0] not in self.bound):
                return 0
        options: list[str] = []
        if found.types != [
            self._stored_as(operand, regs, CONVENTIONS[found.style]) for operand, regs in found.arguments
        ]:
            options.append(f"types={literal(found.types)}")
        options += [f"returns={string(found.returns)}"] if found.returns else []
        options += [f"style={string(found.style)}"] if found.style != self.sugar.calls else []
        options += [f"prototype={string(found.prototype)}"] if found.prototype else []
        if found.load >= 0 and not made:
            options.append(f"into={self.expressions[self.statements[found.load][1][0]]}")
        self.popped = []
        used = [
            *found.through,
            *(r for operand, regs in found.arguments if isinstance(operand, Register) for r in regs),
        ]
        while True:
            taken = self._fold(used, None)
            reader = OperandReader(self, used, taken, ("st", "param", "b32"), "")
            arguments = [reader.operand(operand)[0] for operand in (found.function, *(o for o, _ in found.arguments))]
            text = f"call({', '.join([*arguments, *options])})"
            if not self.popped or len(text) + 4 * (self.depth + 1) + 16 <= layout.WIDTH:
                break
            self._restore()
            self.flat = True
        self.flat = False
        self.sugar.used.add("call")
        if made:
            shape, regs, _, _, _ = self.statements[found.load]
            self._assign(made[0], shape, regs, text, _ATOM, self.kind_of(found.returns))
        else:
            self.write_line(text)
        return found.size

    def _stored_as(self, operand: Operand, regs: Sequence[Reg], how: Convention) -> str:
        if isinstance(operand, Register):
            return how.stored(regs[0].register_class)
        return "b64" if self.number(cast(Immediate, operand).text, ("st",))[0] in QUOTES else "b32"

    def _wait(self, wait: objects.Wait) -> None:
        """`mbarrier(full).wait(phase)`: the loop that it makes."""
        shape, regs, _, _, name = self.statements[wait.ask]
        words = ("mbarrier", "try_wait", *shape.modifiers)
        self.popped = []
        while True:
            taken = self._fold(regs[1:], None)
            reader = OperandReader(self, regs[1:], taken, words, name)
            place = objects.mbarrier_at(reader, cast(Address, shape.layout[1]), wait.space)
            if place is None:
                place = f"mbarrier({reader.operand(shape.layout[1])[0]})"
            values = [reader.operand(o)[0] for o in shape.layout[2:]]
            call = f"{place}.wait({', '.join([*values, *wait.options])})"
            if not self.popped or len(call) + 4 * (self.depth + 1) <= layout.WIDTH:
                break
            self._restore()
            self.flat = True
        self.flat = False
        self.bound.add(regs[0])
        self.kinds[regs[0]] = "pred"
        self.write_line(call)

    def _fold(self, used: Sequence[Reg], guard: Reg | None) -> dict[int, tuple[str, int]]:
        """Which registers are computed by the lines before, by position (-1: the guard), taken from the last on."""
        taken: dict[int, tuple[str, int]] = {}
        total = 0
        positions = [*range(len(used)), *([-1] if guard is not None else [])]
        for position in reversed(positions):
            reg = guard if position < 0 else used[position]
            assert reg is not None
            if not self.lines or self.lines[-1].target is not reg or total + len(self.lines[-1].value) > _MAX_TEXT:
                continue
            text, precedence = self.take(reg)
            if text == self.expressions[reg]:
                continue
            taken[position] = text, precedence
            total += len(text)
        return taken

    def _operator(
        self, words: tuple[str, ...], sources: Sequence[Operand], used: Sequence[Reg], taken: dict[int, tuple[str, int]]
    ) -> tuple[str, int, str, str] | None:
        """(expression, precedence, class of the result, kind of the result), if an operator is this instruction."""
        name_of = ".".join(words)
        if len(sources) == 1 and isinstance(sources[0], Register) and not sources[0].member:
            kind = self.kinds[used[0]]
            for symbol, name in (("-", "neg"), ("~", "~")):
                if self.operator(name, kind) == name_of:
                    text, precedence = taken.get(0) or (self.expressions[used[0]], _ATOM)
                    return symbol + (text if precedence >= 7 else f"({text})"), 7, used[0].register_class, kind
            return None
        if len(sources) != 2:
            return None
        position = 0
        parts: list[tuple[str, int]] = []
        dispatching: Reg | None = None
        for operand in sources:
            match operand:
                case Register(_, ""):
                    dispatching = dispatching or used[position]
                    parts.append(taken.get(position) or (self.expressions[used[position]], _ATOM))
                    position += 1
                case Counted(text, precedence):
                    parts.append((text, precedence))
                case Immediate(text):
                    if constant(text, wide_floats(words))[0] in QUOTES:
                        return None
                    written = self.number(text, words)
                    parts.append((written, _ATOM if written[0] != "-" else 7))
                case _:
                    return None
        if dispatching is None:
            return None
        kind = self.kinds[dispatching]
        (left, left_precedence), (right, right_precedence) = parts
        for symbol, own in _BINARY.items():
            if self.operator(symbol, kind) == name_of:
                left = left if left_precedence >= own else f"({left})"
                right = right if right_precedence > own else f"({right})"
                return f"{left} {symbol} {right}", own, dispatching.register_class, kind
        if not isinstance(sources[0], Register):
            return None  # Python would turn the comparison around
        for symbol, name in COMPARISONS.items():
            if self.operator(name, kind) == name_of:
                left = left if left_precedence > 0 else f"({left})"
                right = right if right_precedence > 0 else f"({right})"
                return f"{left} {symbol} {right}", 0, "pred", "pred"
        return None

    def number(self, text: str, words: tuple[str, ...]) -> str:
        """A constant of an instruction: by its name, in hexadecimal, or as it is."""
        python = constant(text, wide_floats(words))
        if python[0] in QUOTES:
            python = string(text)
        call = objects.descriptor_call(int(python)) if len(python) > 15 and python.isdigit() else None
        if call is not None:
            self.sugar.used.add("descriptor")
            return call
        python, name = constants.spelled(python, words)
        if name is not None:
            self.sugar.constants.add(name)
        return python

    def _in_place(
        self, words: tuple[str, ...], shape: Shape, regs: Sequence[Reg], taken: dict[int, tuple[str, int]]
    ) -> bool:
        """`acc += x`, if that is the instruction."""
        match shape.layout:
            case (Register("=", ""), Register("$", ""), other) if regs[0] is regs[1]:
                pass
            case _:
                return False
        kind = self.kinds[regs[0]]
        symbol = next((s for s in _IN_PLACE if self.operator(s, kind) == ".".join(words)), None)
        if symbol is None:
            return False
        match other:
            case Register(_, ""):
                text = (taken.get(2) or (self.expressions[regs[2]], _ATOM))[0]
            case Counted(value, _):
                text = value
            case Immediate(value):
                if constant(value, wide_floats(words))[0] in QUOTES:
                    return False
                text = self.number(value, words)
            case _:
                return False
        self.write_line(f"{self.expressions[regs[0]]} {symbol}= {text}")
        return True

    def _into(self, words: tuple[str, ...], shape: Shape, fresh: Sequence[Reg]) -> str:
        """The `into=` that the result needs; empty where the instruction's name says it."""
        classes = [r.register_class for r in fresh]
        if isinstance(shape.layout[0], Pair):
            if tuple(classes) == pair_classes(words, self.sugar.registers):
                return ""
            if tuple(classes) == pair_classes(words, self.sugar.registers, True):
                self.sugar.used.add("pair")
                return "pair"
            return f"({string(classes[0])}, {string(classes[1])})"
        if not isinstance(shape.layout[0], Vector):
            predicted = result_class(result_type(words), self.sugar.registers)
            return "" if classes[0] == predicted else string(classes[0])
        predicted = element_class(words, len(classes), self.sugar.registers)
        if all(c == predicted for c in classes):
            named = next((int(w[1]) for w in words if w in ("v2", "v4", "v8")), 0)
            return "" if named == len(classes) else str(len(classes))
        if len(set(classes)) == 1:
            return f"[{string(classes[0])}] * {len(classes)}"
        return f"[{', '.join(string(c) for c in classes)}]"

    def _assign(self, reg: Reg, shape: Shape, regs: Sequence[Reg], text: str, precedence: int, kind: str) -> None:
        self.bound.add(reg)
        self.kinds[reg] = kind
        # a name is only needed where the expression is not nested into its use: it is given when that is known
        single = self.defs.get(reg) == 1 and self.uses.get(reg, 0) == 1 and reg not in self.nested_not
        name = self._new_name(reg, shape, regs)
        if self.defs.get(reg) == 1 and not self.uses.get(reg) and reg not in self.nested_not:  # nobody wants it
            self.names.release(name)
            self.write_line(text if precedence == _ATOM else f"_ = {text}")
            return
        self.write_line(
            f"{name} = {text}",
            target=reg if single else None,
            value=text,
            precedence=precedence,
            comment=idioms.comment(text),
        )

    def _new_name(self, reg: Reg, shape: Shape, regs: Sequence[Reg]) -> str:
        """A name for a register that is written for the first time."""
        if reg in self.forced:
            self.expressions[reg] = self.forced[reg]
            self.names.take(self.forced[reg])
            return self.forced[reg]
        suggested = self.namer.suggest(reg, shape, regs)
        symbol = shape.layout[-1].base if isinstance(shape.layout[-1], Address) else None
        if isinstance(symbol, Symbol) and self.symbol_uses.get(symbol.name) == 1 and symbol.name in self.parameters:
            suggested = parameter_name(symbol.name)  # the parameter is not needed any more once it is loaded
            if self.parameters[symbol.name] == suggested:
                self.names.release(suggested)
        name = self.expressions[reg] = self.names.fresh(suggested)
        self.namer.known[reg] = name
        return name

    def _assign_vector(self, fresh: Sequence[Reg], shape: Shape, regs: Sequence[Reg], call: str, kind: str) -> None:
        suggested = self.namer.suggest(fresh[0], shape, regs)
        for reg in fresh:
            self.bound.add(reg)
            self.kinds[reg] = kind if reg.register_class != "pred" else "pred"
        stems = self.namer.halves(shape, regs) or [suggested] * len(fresh)
        names = [
            self.names.fresh("p" if r.register_class == "pred" else stem) for r, stem in zip(fresh, stems, strict=True)
        ]
        head = 4 * (self.depth + 1) + len(", ".join(names)) + len(" = ") + call.index("(") + 1
        if len(fresh) > 4 or len(fresh) == 1 or tuple(fresh) in self.whole or head > layout.WIDTH:
            for name in names:
                self.names.release(name)
            name = self.names.fresh(suggested)
            for i, reg in enumerate(fresh):
                self.expressions[reg] = f"{name}[{i}]"
                self.arrays[reg] = name, i
            self.array_sizes[name] = len(fresh)
            self.write_line(f"{name} = {call}")
            return
        for i, reg in enumerate(fresh):
            if self.defs.get(reg) == 1 and not self.uses.get(reg) and reg not in self.nested_not:  # nobody wants it
                self.names.release(names[i])
                names[i] = "_"
        self.expressions.update(zip(fresh, names, strict=True))
        self.namer.known.update(zip(fresh, names, strict=True))
        self.write_line(f"{', '.join(names)} = {call}")

    def vector(self, regs: Sequence[Reg]) -> str | None:
        """An array or slice of one that is these registers."""
        if tuple(regs) in self.vectors:
            return self.vectors[tuple(regs)]
        first = self.arrays.get(regs[0])
        if first is None:
            return None
        name, start = first
        if any(self.arrays.get(r) != (name, start + i) for i, r in enumerate(regs)):
            return None
        if start == 0 and len(regs) == self.array_sizes[name]:
            return name
        return f"{name}[{start}:{start + len(regs)}]"


class OperandReader:
    """Operands as expressions, registers taken in text order."""

    def __init__(
        self, function: SugarFunction, used: Sequence[Reg], taken: dict[int, tuple[str, int]], words: tuple[str, ...],
        name: str,
    ):  # fmt: skip
        self.function, self.used, self.taken, self.words, self.name = function, used, taken, words, name
        self.at = 0

    def operand(self, operand: Operand) -> tuple[str, int]:
        match operand:
            case Register(_, ""):
                position = self.at
                self.at += 1
                return self.taken.get(position) or (self.function.expressions[self.used[position]], _ATOM)
            case Counted(text, precedence):
                return text, precedence
            case Immediate(text):
                return self.function.number(text, self.words), _ATOM
            case Symbol(name, ""):
                return self.function.symbol(name), _ATOM
            case SpecialRegister(name):
                return string(name), _ATOM
            case Target():
                return string(self.name), _ATOM
            case Sink():
                return "None", _ATOM
            case Not(Register(_, ""), "!"):
                text, precedence = self.operand(operand.operand)
                return f"~{text}" if precedence >= 7 else f"~({text})", 7
            case Pair(first, second):
                self.function.sugar.used.add("pair")
                return f"pair({self.operand(first)[0]}, {self.operand(second)[0]})", _ATOM
            case Vector(elements):
                return self._vector(elements), _ATOM
            case Arguments(elements):
                inner = ", ".join(self.operand(e)[0] for e in elements)
                return f"({inner},)" if len(elements) == 1 else f"({inner})", _ATOM
            case Address(base, offset, rest, False) if _plain(base, offset):
                return self._address(base, offset, rest), _ATOM
            case _:
                return self._as_ptx(operand), _ATOM

    def _vector(self, elements: tuple[Operand, ...]) -> str:
        if elements and all(isinstance(e, Register) and not e.member for e in elements):
            regs = self.used[self.at : self.at + len(elements)]
            if not any(p in self.taken for p in range(self.at, self.at + len(elements))):
                self.at += len(elements)
                return self.function.sequence(regs)
        return "[" + ", ".join(self.operand(e)[0] for e in elements) + "]"

    def _address(self, base: Operand, offset: str, rest: tuple[Operand, ...]) -> str:
        parts = self._parts(base, offset)
        if len(parts) == 2 and not rest and parts[1].endswith(OR_NONE):
            self.function.sugar.used.add("at")
            return f"at({parts[0]}, {parts[1].removesuffix(OR_NONE)})"
        if len(parts) == 1 and rest:
            parts.append("None")
        return self._address_of(parts, rest)

    def address_parts(self, address: Address) -> list[str] | None:
        """The base and the offset (if it has one) of an address; None for one that has to be written as PTX."""
        return self._parts(address.base, address.offset) if _plain(address.base, address.offset) else None

    def _parts(self, base: Operand, offset: str) -> list[str]:
        parts = [self.operand(base)[0]]
        if offset[:1] == "@":  # an expression of a loop
            return [*parts, offset[1:]]
        if not offset:
            return parts
        number = offset[1:]
        whole = number.lstrip("-").isdigit() and str(int(number)) == number
        plain = whole and not (number == "0" and isinstance(base, Symbol))
        return [*parts, number if plain else string(offset)]

    def _address_of(self, parts: list[str], rest: tuple[Operand, ...]) -> str:
        parts += [self.operand(part)[0] for part in rest]
        self.function.sugar.used.add("addr")
        return f"addr({', '.join(parts)})"

    def _as_ptx(self, operand: Operand) -> str:
        """A string of PTX. Registers in it go by their PTX names, which only an f-string knows here."""
        text = ""
        has_register = False
        for token in operand_tokens(operand):
            if token in ("$", "=", "~"):
                text += "{" + self.function.expressions[self.used[self.at]] + ".name}"
                self.at += 1
                has_register = True
            else:
                text += token.replace("{", "{{").replace("}", "}}") if _has_register(operand) else token
        return ("f" if has_register else "") + string(text)


def _alias_names(paths: Sequence[str]) -> dict[str, str]:
    """A short name for each long instruction: its opcode, and what sets it apart from others of that opcode."""
    words = {path: [spelled(w) for w in path.split(".")[1:]] for path in paths}
    opcodes: dict[str, int] = {}
    for path, own in words.items():
        opcodes[path] = next((n for n in range(len(own), 0, -1) if ".".join(own[:n]) in OPCODES), 1)
    found: dict[str, str] = {}
    for path, own in words.items():
        name = own[: opcodes[path]]
        others = [w for p, w in words.items() if p != path and w[: opcodes[p]] == name]
        apart = [w for w in own[opcodes[path] :] if not all(w in other for other in others)] if others else []
        found[path] = "_".join([*name, *apart]).replace("::", "_").replace(".", "_")
    return found


def _has_register(operand: Operand) -> bool:
    return any(t in ("$", "=", "~") for t in operand_tokens(operand))


def _plain(base: Operand, offset: str) -> bool:
    if offset and offset[0] not in "+@":
        return False
    match base:
        case Register(_, "") | Symbol(_, ""):
            return True
        case Immediate(text):
            return constant(text, False)[0] not in QUOTES
        case _:
            return False


def _scopes_to_keep(statements: Sequence[Statement]) -> set[int]:
    """Scopes that declare more than registers and labels: parameters of calls, variables, prototypes."""
    kept: set[int] = set()
    stack = [0]
    for shape, _, _, _, name in statements:
        if shape.kind == Kind.OPEN:
            stack.append(int(name))
        elif shape.kind == Kind.CLOSE:
            stack.pop()
        elif shape.op_class in (VariableOp, LabelListOp):
            kept.add(stack[-1])
    return kept


__all__ = ["SugarWriter"]
