"""Readable mode: control flow as blocks, instructions as expressions and operators, registers named for what they hold.

The Python runs in the order of the PTX and makes the same instructions; only registers and labels are named anew. An
expression is nested into another exactly where its instruction comes directly before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute

from ..dialects.ptx.structure import DeclarationAttr, TokensAttr
from ..dialects.ptx.style import DEFAULT
from ..frontend.module.arguments import ends_in_jump
from ..parser.module_text import ModuleText
from ..ssa.builder import FunctionSource
from ..ssa.statement import Statement
from . import calls, constants, directives, layout
from .body import Shared
from .faithful import FaithfulWriter, FunctionWriter
from .functions import SugarFunction
from .names import string
from .naming import demangled, local_name
from .survey import ends_in_ret

__all__ = ["SugarWriter"]

_VARIABLE = re.compile(r'm\.variable\(("[^"\\]*"), ("[^"\\]*")((?:, \w+)?)\)')
"""A variable without an initialiser."""
_MIN_USES = 3
"""Variables that are worth a loop."""
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
        self.shared = Shared(
            used=self.used,
            registers=_registers(source),
            calls=calls.style_of(i.statements for i in source.items if isinstance(i, FunctionSource)),
            implicit_ret=_implicit_ret(source),
            fixed_labels=_named_in_sections(source),
            symbols={},
        )
        self.shared.symbols = self._symbol_names()

    def _symbol_names(self) -> dict[str, str]:
        """Python names for variables with mangled names: `m.variable` returns the PTX name, which goes by them."""
        found: dict[str, str] = {}
        for item in self.source.items:
            payload = None if isinstance(item, FunctionSource) else item[0].payload
            if isinstance(payload, DeclarationAttr) and len(payload.items) == 1:
                name = payload.items[0][0]
                short = local_name(name)
                if short != name and name not in found and name not in self.shared.fixed_labels:
                    found[name] = self.names.fresh(short)
            elif isinstance(item, FunctionSource) and item.has_body:
                name = cast(StringAttr, item.properties["sym_name"]).data
                is_entry = ".entry" in cast(TokensAttr, item.properties["head"]).data
                found[name] = self.names.fresh(self.python_name(name, "entry" if is_entry else "func"))
        return found

    def function_name(self, name: str, kind: str) -> str:
        return self.shared.symbols[name]

    def _module_statement(self, statement: Statement) -> None:
        before = len(self.out)
        super()._module_statement(statement)
        shape = statement[0]
        if isinstance(shape.payload, DeclarationAttr) and len(self.out) > before:
            known = self.shared.symbols.get(shape.payload.items[0][0])
            if known is not None and self.out[-1].startswith("m.variable(") and len(self.out[-1]) <= _LONG_LIST:
                self.out[-1] = f"{known} = {self.out[-1]}"
                return
            self.shared.symbols = {k: v for k, v in self.shared.symbols.items() if v != known}
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
            if call and assigned.isidentifier() and assigned not in self.shared.mentioned:
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
        return SugarFunction(self, self.shared, source)

    def python_name(self, name: str, kind: str) -> str:
        if kind == "entry" and self.first and self.kernel_name is not None:
            self.first = False
            return self.kernel_name
        return demangled(name)

    def decorator_arguments(self, name: str, python_name: str, options: list[str]) -> str:
        return super().decorator_arguments(name, python_name, options) if python_name != name else ", ".join(options)

    def definitions(self) -> list[str]:
        return constants.definitions(self.shared.constants)

    def constructor_options(self) -> list[str]:
        options = [f"{self.shared.registers}_registers=True"] if self.shared.registers else []
        options += [f"calls={string(self.shared.calls)}"] if self.shared.calls != "llvm" else []
        return [*options, "implicit_ret=True"] if self.shared.implicit_ret else options

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
    return bool(functions) and all(ends_in_jump(s) for s in functions) and any(ends_in_ret(s) for s in functions)


def _named_in_sections(source: ModuleText) -> set[str]:
    """Names that debug data mentions: labels of these names keep them."""
    found: set[str] = set()
    for item in source.items:
        if not isinstance(item, FunctionSource) and item[0].tokens[:1] == [".section"]:
            found.update(item[0].tokens)
    return found
