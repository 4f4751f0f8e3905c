"""One statement of a PTX text: what it declares, its shape and the registers in it."""

from __future__ import annotations

import re

from ..diagnostics import did_you_mean
from ..dialects.ptx.attributes import string_attr
from ..dialects.ptx.directive_facts import SOURCE_SECTION, judge_directive
from ..dialects.ptx.foundation import ArrayAttr, Attribute
from ..dialects.ptx.instruction import admits
from ..dialects.ptx.opcode_problems import takes_modifiers, unknown_opcode
from ..dialects.ptx.proposals import Admits
from ..dialects.ptx.structure import (
    MOST_OF_A_RANGE,
    DeclarationAttr,
    DirectiveOp,
    EntryOp,
    FunctionOp,
    LabelListOp,
    LocOp,
    RegisterOp,
    ScopeBeginOp,
    ScopeEndOp,
    TextAttr,
    TokensAttr,
    UnknownOp,
    VariableOp,
    address_size,
)
from ..dialects.ptx.syntax import SyntaxProblem, Token, is_special_register
from ..dialects.ptx.target import parse_version, target_meant, target_of
from ..dialects.ptx.types import REGISTER_CLASSES
from ..ssa.shapes import branch_target, fill_instruction, guard_tokens, table_name
from ..ssa.statement import Environment, FunctionSource, Kind, Reg, Shape
from . import known_lines, templates
from .declarations import read_declaration, read_header
from .instruction import InstructionText, read_instruction, starts_instruction
from .module_text import Issue, ModuleText
from .positions import Positions
from .recipes import Definition, Head
from .shapes import declaration_shape, directive_shape, label_shape, with_whole_constants

_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$]*").fullmatch
_VARIABLE_WORDS = frozenset({".global", ".const", ".shared", ".local", ".param", ".tex", ".sampler", ".surf"})
_BEFORE_A_SPACE = frozenset({".extern", ".visible", ".weak", ".common", ".align", ".attribute"})


class StatementReader:
    """Reads statements into a module; nothing here builds IR."""

    def __init__(self, *, allow_unknown: bool):
        self.allow_unknown = allow_unknown
        self.module = ModuleText()
        self.defined: Definition | None = None
        """The module-level statement read last."""
        self.function: FunctionSource | None = None
        self.environment: Environment | None = None
        self.depth = 0
        self.lead = ""
        self._symbols: set[str] = set()
        self._taken: set[str] = set()
        """The names of special registers that this function gives to something else."""
        self._issues_before = 0
        """Issues found before the statement that is being read."""

    def _issue(self, message: str, line: int, column: int, hint: str | None = None) -> None:
        self.module.issues.append(Issue(message, line, column, hint))

    def _name(self) -> str:
        assert self.function is not None
        attr = self.function.properties.get("sym_name")
        return getattr(attr, "data", "the function")

    def _statement(
        self, tokens: list[Token], start: int, end: int, gaps: list[str], position: Positions, single: bool, text: str,
        names: list[str], newline: str,
    ) -> None:  # fmt: skip
        kind, token = tokens[start]
        line = position.line(start)
        words = [t for _, t in tokens[start:end]]
        self._issues_before = len(self.module.issues)
        try:
            if self.function is None:
                self._module_statement(tokens, start, end, words, gaps, position)
                return
            if token == "{":
                self._open(words, gaps, line)
            elif token == "}":
                self._close(words, gaps, line)
            elif token == ";":
                raise SyntaxProblem("a ';' alone: PTX has no empty statement", start)
            elif kind == "id" and end - start == 2 and words[1] == ":":
                if token in ("WARP_SZ", "_") or "::" in token:
                    raise SyntaxProblem(f"{token} cannot be a label", start)
                assert self.environment is not None
                self.environment.hide(token)
                self._take(token)
                self._record(label_shape(token, gaps[-1], words, gaps), (), line, token)
            elif kind == "mod" or (kind == "id" and end - start > 2 and words[1] == ":"):
                self._directive(tokens, start, end, words, gaps, position, single and bool(newline), text)
            else:
                self._instruction(tokens, start, end, words, gaps, position, single, text, names, newline)
        except SyntaxProblem as problem:
            at = min(max(problem.position, start), end - 1)
            if at > start and "\n" in gaps[at - start] and words[at - start] != ";":
                # what is wrong starts a line: the line before it was not ended
                cut = at - start
                message = f"expected ';' after {words[cut - 1]!r}"
                self._issue(message, position.line(at - 1), position.column(at - 1) + len(words[cut - 1]))
                if self.function is not None and starts_instruction(tokens, at, end):
                    self._record_raw(words[:cut], [*gaps[:cut], ""], line, position.column(start))
                    self._statement(tokens, at, end, gaps[cut:], position, False, text, names, newline)
                    return
            else:
                self._issue(str(problem), position.line(at), position.column(at))
            self._record_raw(words, gaps, line, position.column(start))

    def _record(self, shape: Shape, regs: list[Reg] | tuple[()], line: int, name: str = "") -> None:
        assert self.function is not None
        self.function.statements.append((shape, regs, self.lead, line, name))
        self.lead = ""

    def _record_raw(self, words: list[str], gaps: list[str], line: int, column: int) -> None:
        shape = directive_shape(UnknownOp, words, gaps)
        shape.column = column
        shape.payload = self.module.issues[self._issues_before :]
        if self.function is None:
            self.module.items.append((shape, (), self.lead, line, ""))
            self.lead = ""
        else:
            self._record(shape, (), line)

    def _open(self, words: list[str], gaps: list[str], line: int) -> None:
        assert self.environment is not None
        self.depth += 1
        shape = Shape(Kind.OPEN, words, gaps)
        shape.op_class, shape.properties = ScopeBeginOp, {}
        self._record(shape, (), line, str(self.environment.open()))

    def _close(self, words: list[str], gaps: list[str], line: int) -> None:
        assert self.function is not None and self.environment is not None
        self.depth -= 1
        if self.depth == 0:
            self.function.attributes["end"] = TokensAttr((self.lead, *gaps))
            self.lead = ""
            self.module.items.append(self.function)
            self.function = self.environment = None
            return
        self.environment.close()
        shape = Shape(Kind.CLOSE, words, gaps)
        shape.op_class, shape.properties = ScopeEndOp, {}
        self._record(shape, (), line)

    # --------------------------------------------------------------------------------------------------- instructions

    def _instruction(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions,
        single: bool, text: str, names: list[str], newline: str,
    ) -> None:  # fmt: skip
        environment = self.environment
        assert environment is not None
        if words[-1] != ";":
            raise SyntaxProblem("expected ';' at the end of the instruction", end - 1)
        reading = read_instruction(tokens, start, end - 1, environment.known, self._is_special, position.gaps)
        line = position.line(start)
        if reading.cls is None:
            at = reading.opcode_at
            if not self.allow_unknown:
                problem = unknown_opcode(reading.root, reading.modifiers, self._admits(reading))
                self._issue(problem.message, position.line(at), position.column(at), problem.hint)
            self._record_raw(words, gaps, line, position.column(start))
            return
        all_names = ([reading.guard_register] if reading.guard_register else []) + reading.registers
        plain = single and names == all_names and all(map(environment.known, all_names[:1]))
        if not plain and not reading.cls.terminator and self._undeclared(tokens, start, end, position):
            self._record_raw(words, gaps, line, position.column(start))
            return
        if reading.guard_register is not None and not environment.known(reading.guard_register):
            raise SyntaxProblem(
                f"the guard {reading.guard_register} is not a declared register",
                start + guard_tokens(reading.guard) - 1,
            )
        regs = self._registers_of(all_names)
        spelled = any(reg.name != name for reg, name in zip(regs, all_names, strict=True))
        cls = reading.cls
        layout, name = reading.layout, ""
        if cls.jumps:
            layout, name = branch_target(layout)
        elif cls.terminator:
            name = table_name(layout)
        words, gaps = with_whole_constants(words, gaps, reading.constants, start)
        shape = Shape(Kind.TERMINATOR if cls.terminator else Kind.INSTRUCTION, words, gaps)
        classes = tuple(r.register_class for r in regs[1 if reading.guard else 0 :])
        fill_instruction(shape, cls, reading.modifiers, layout, classes, reading.guard)
        shape.opcode_tokens = reading.operands_at - reading.opcode_at
        shape.column = position.column(start)  # not of the opcode: that depends on the length of the guard
        if spelled:
            shape.attributes["spelling"] = TokensAttr(tuple(all_names))
        self._record(shape, regs, line, name)
        if plain and newline and "\n" not in text and not spelled:
            shape.bare = tuple(sorted({t for k, t in tokens[start:end] if k == "id" and t[0] != "%"}))
            known_lines.keep(text, shape, name, len(names))

    def _registers_of(self, names: list[str]) -> list[Reg]:
        assert self.environment is not None
        found = [self.environment.register(name) for name in names]
        return [reg for reg in found if reg is not None]

    def _take(self, name: str) -> None:
        """Something in this function gets a name, which may be a special register's: that is then hidden."""
        if name[0] == "%" and is_special_register(name):
            self._taken.add(name)

    def _is_special(self, name: str) -> bool:
        return is_special_register(name) and name not in self._taken

    def _admits(self, reading: InstructionText) -> Admits:
        """Judges heads with the operands of an instruction, on the module's target."""
        module = self.module
        classes = tuple([reg.register_class for reg in self._registers_of(reading.registers)])
        try:
            version = parse_version(module.version)
            target_of(module.target)
        except ValueError:
            return takes_modifiers
        return admits(lambda found: found.exists(version, module.target, module.options), reading.layout, classes)

    def _undeclared(self, tokens: list[Token], start: int, end: int, position: Positions) -> bool:
        """Report `%names` that are neither registers, special registers nor declared symbols."""
        environment = self.environment
        assert environment is not None
        found = False
        for at in range(start, end):
            kind, token = tokens[at]
            if kind != "id" or token[0] != "%" or environment.known(token) or is_special_register(token):
                continue
            if token not in self._symbols:
                self._issue(f"{token} is not declared", position.line(at), position.column(at))
                found = True
        return found

    # ----------------------------------------------------------------------------------------------------- directives

    def _directive(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions,
        whole_line: bool, text: str,
    ) -> None:  # fmt: skip
        first = words[0]
        line = position.line(start)
        if first == ".reg":
            self._registers(tokens, start, end, words, gaps, position)
            return
        if ".func" in words[:2]:
            header = read_header(tokens, start, end)
            if words[-1] != ";":
                raise SyntaxProblem(f"{header.name} cannot have a body here: only declarations of functions", end - 1)
            self._symbols.add(header.name)
            self._record(directive_shape(DirectiveOp, words, gaps), (), line)
            return
        if first in _VARIABLE_WORDS or first in _BEFORE_A_SPACE:
            if ".reg" in words[:8]:
                self._registers(tokens, start, end, words, gaps, position)
                return
            if words[-1] != ";":
                raise SyntaxProblem("expected ';' at the end of the declaration", end - 1)
            declaration = read_declaration(tokens, start, end - 1)
            self._declare_symbols(declaration)
            shape = declaration_shape(VariableOp, declaration, words, gaps, Kind.OTHER)
            self._record(shape, (), line)
            return
        if first == ".loc":
            shape = directive_shape(LocOp, words, gaps)
            self._record(shape, (), line)
            if whole_line:
                templates.keep(shape, text, 0)
            return
        list_at = 2 if len(words) > 2 and words[1] == ":" else 0
        if words[list_at] in (".branchtargets", ".calltargets", ".callprototype"):
            self._label_list(words, gaps, line, start, list_at)
            return
        if first in (".pragma", ".file", ".section", ".alias", ".loc_intermediate"):
            self._record(directive_shape(DirectiveOp, words, gaps), (), line)
            return
        raise SyntaxProblem(f"unknown directive {first}", start)

    def _label_list(self, words: list[str], gaps: list[str], line: int, start: int, list_at: int) -> None:
        label = words[0] if list_at else ""
        if words[-1] != ";":
            raise SyntaxProblem(f"expected ';' at the end of the {words[list_at]}", start + len(words) - 1)
        branches = words[list_at] == ".branchtargets"
        shape = directive_shape(LabelListOp, words[list_at:], gaps, words)
        assert shape.properties is not None
        if label:
            shape.properties["label"] = string_attr(label)
            self._symbols.add(label)
            assert self.environment is not None
            self.environment.hide(label)
            self._take(label)
        if branches:
            shape.kind = Kind.TABLE
            shape.payload = [w for w in words[list_at + 1 :] if _IDENTIFIER(w)]
        self._record(shape, (), line, label)

    def _registers(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions
    ) -> None:
        environment = self.environment
        assert environment is not None
        if words[-1] != ";":
            raise SyntaxProblem("expected ';' at the end of the declaration", end - 1)
        declaration = read_declaration(tokens, start, end - 1)
        if declaration.type not in REGISTER_CLASSES:
            given = next((w for w in declaration.head[1:] if w not in (".v2", ".v4")), "")
            types = self._register_types()
            known = did_you_mean(given, types) or f"types of registers: {' '.join(types)}"
            message = f"a register cannot have the type {given}" if given else ".reg needs a type"
            self._issue(message, position.line(start), position.column(start), known)
            self._record_raw(words, gaps, position.line(start), position.column(start))
            return
        self._declare_registers(declaration, position.line(start), position.column(start))
        self._record(declaration_shape(RegisterOp, declaration, words, gaps, Kind.REGISTERS), (), position.line(start))

    def _register_types(self) -> list[str]:
        """The types that registers may have on the module's target."""
        types = [f".{c}" for c in REGISTER_CLASSES]
        try:
            version, target = parse_version(self.module.version), target_of(self.module.target).name
        except ValueError:
            return types
        return [t for t in types if judge_directive(".reg", [t], "entry body", version, target) is None]

    def _declare_registers(self, declaration: DeclarationAttr, line: int, column: int) -> None:
        assert self.environment is not None
        register_class = declaration.register_class
        for i, (name, tail) in enumerate(declaration.items):
            count = declaration.count(i) if tail[:1] == ("<",) else None
            message = self.environment.declare(name, register_class, count)
            if message is not None:
                self._issue(message, line, column)

    def _declare_symbols(self, declaration: DeclarationAttr) -> None:
        for i, (name, tail) in enumerate(declaration.items):
            ranged = tail[:1] == ("<",)  # `.param .b64 %p<2>` declares %p0 and %p1
            names = [f"{name}{n}" for n in range(min(declaration.count(i) or 0, MOST_OF_A_RANGE))] if ranged else [name]
            self._symbols.update(names)
            if self.environment is not None:
                for hidden in names:
                    self.environment.hide(hidden)
                    self._take(hidden)

    # ---------------------------------------------------------------------------------------------------- module level

    def _module_statement(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions
    ) -> None:
        first = words[0]
        line = position.line(start)
        if first not in (".section", SOURCE_SECTION) and (".func" in words or ".entry" in words):
            self._function(tokens, start, end, words, gaps, position)
            return
        if first in (".version", ".target", ".address_size"):
            self._header(words, gaps, line, start)
            return
        if first in (".file", ".section", ".pragma", ".alias", ".loc", ".loc_intermediate", SOURCE_SECTION):
            shape = directive_shape(DirectiveOp, words, gaps)
        elif any(w in _VARIABLE_WORDS or w in (".texref", ".samplerref", ".surfref") for w in words[:20]):
            shape = declaration_shape(VariableOp, read_declaration(tokens, start, end - 1), words, gaps, Kind.OTHER)
        else:
            raise SyntaxProblem(f"expected a module-level directive, found {first!r}", start)
        self._define(Definition(shape), line)

    def _define(self, definition: Definition, line: int) -> None:
        """Record a module-level statement."""
        self.defined = definition
        if definition.head is not None:
            self._enter(definition.head, line)
            return
        assert definition.shape is not None
        if isinstance(definition.shape.payload, DeclarationAttr):
            self._declare_symbols(definition.shape.payload)
        self.module.items.append((definition.shape, (), self.lead, line, ""))
        self.lead = ""

    def _header(self, words: list[str], gaps: list[str], line: int, start: int) -> None:
        module = self.module
        what = words[0][1:]
        if len(words) < 2:
            raise SyntaxProblem(f".{what} needs a value", start)
        value = words[1]
        if what == "version":
            if gaps[1].strip(" \t"):
                raise SyntaxProblem("the number of .version must follow it on its line, after spaces only", start)
            if not re.fullmatch(r"\d+\.\d+", value):
                raise SyntaxProblem(f".version needs a number such as 8.7, not {value!r}", start + 1)
            repeated = bool(module.version) and module.version != value
            module.version = module.version or value
        elif what == "target":
            if words[2::2] != [","] * len(words[2::2]) or len(words) % 2 or not all(map(_IDENTIFIER, words[1::2])):
                raise SyntaxProblem(".target is a target such as sm_90a, and words after commas", start + 1)
            repeated = bool(module.target)
            if not repeated:
                module.target = target_meant(value)
                module.options = tuple(words[3::2])
        else:
            size = address_size(value) if len(words) == 2 else None
            if size is None:
                raise SyntaxProblem(f".address_size needs 32 or 64, not {' '.join(words[1:])}", start + 1)
            repeated = bool(module.address_size)
            module.address_size = module.address_size or str(size)
        if not repeated:
            module.header_lines[what] = line
        shape = directive_shape(DirectiveOp, words, gaps)
        if not repeated:
            shape.payload = what  # printed from the module's own attributes
        module.items.append((shape, (), self.lead, line, ""))
        self.lead = ""

    def _function(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions
    ) -> None:
        header = read_header(tokens, start, end)
        if words[-1] not in (";", "{"):
            raise SyntaxProblem(f"expected '{{' or ';' after the head of {header.name}, found {words[-1]!r}", end - 1)
        properties: dict[str, Attribute] = {
            "head": TokensAttr(tuple(header.head)),
            "sym_name": string_attr(header.name),
        }
        if header.returns is not None:
            properties["returns"] = ArrayAttr(header.returns)
        if header.params is not None:
            properties["params"] = ArrayAttr(header.params)
        properties["directives"] = TokensAttr(tuple(header.directives))
        op_class = EntryOp if ".entry" in header.head else FunctionOp
        head = Head(op_class, properties, TokensAttr(tuple(gaps)), header, words[-1] != ";")
        self._define(Definition(None, head), position.line(start))

    def _enter(self, head: Head, line: int) -> None:
        """Record a declared function, or start on the body of a defined one."""
        source = FunctionSource(head.op_class, dict(head.properties), line=line, has_body=head.has_body)
        source.attributes["gaps"] = head.gaps
        if self.lead:
            source.attributes["lead"] = TextAttr(self.lead)
        self.lead = ""
        header = head.header
        self._symbols.add(header.name)
        if not head.has_body:
            self.module.items.append(source)
            return
        environment = Environment()
        self._taken = set()
        for declarations, regs in ((header.returns, source.outputs), (header.params, source.inputs)):
            for declaration in declarations or ():
                for name, _ in declaration.items:
                    if declaration.space == "reg" and declaration.type not in REGISTER_CLASSES:
                        self._symbols.add(name)  # reported with the header
                    elif declaration.space == "reg":
                        environment.declare(name, declaration.register_class)
                        regs.append(environment[name])
                    else:
                        self._symbols.add(name)
                        self._take(name)
        self.function, self.environment, self.depth = source, environment, 1
