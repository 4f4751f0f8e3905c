"""Judge PTX text without building IR: syntax, names, declarations, and every instruction's legality on the module's
target.

Verdicts are memoised on (statement shape, register classes), so real files cost little more than reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

from ..analysis.declarations import header_faults
from ..analysis.entities import Fault
from ..analysis.module_rules import ModuleRules, labels_of
from ..analysis.symbols import Names
from ..diagnostics import Diagnostic
from ..dialects.ptx.directive_facts import judge_directive
from ..dialects.ptx.forms import Problem
from ..dialects.ptx.foundation import StringAttr
from ..dialects.ptx.instruction import Judge, admits, nothing
from ..dialects.ptx.memo import count_entry, trim
from ..dialects.ptx.proposals import advice as advice_of_heads
from ..dialects.ptx.proposals import hint_of
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    LabelListOp,
    LocOp,
    TokensAttr,
    UnknownOp,
    address_size,
)
from ..dialects.ptx.symbol_use import SymbolUse, symbol_uses
from ..dialects.ptx.syntax import registers
from ..dialects.ptx.target import (
    FIRST_PTX,
    TargetAttr,
    Version,
    parse_version,
    target_meant,
    target_numbers,
    target_of,
    version_text,
)
from ..dialects.ptx.types import takes_added_constant
from ..ssa.collector import gc_paused
from ..ssa.never_written import never_written
from ..ssa.shapes import guard_tokens
from ..ssa.statement import FunctionSource, Kind, Reg, Shape, Statement, Verdict
from .characters import foreign_characters
from .issues import diagnostics, header_issues
from .module_text import Issue, ModuleText
from .places import fault_at, issue_at, placed_tokens
from .reader import Reader

if TYPE_CHECKING:
    from .fixes import Fixer


def diagnose_text(text: str, filename: str | None = None) -> list[Diagnostic]:
    """Everything wrong with a PTX text, in order of place; empty when ptxas should accept it. Never raises."""
    return judge_text(text, filename)[0]


def judge_text(text: str, filename: str | None = None) -> tuple[list[Diagnostic], ModuleText]:
    """The same, and what was read."""
    trim()
    with gc_paused():
        source = Reader(text).read()
        issues = [*source.issues, *foreign_characters(text)]
        headers = list(header_issues(source))
        issues += headers
        if not headers:
            issues += _Judge(source, text, {(i.line, i.message.partition(" is ")[0]) for i in issues}).judge()
    return list(diagnostics(issues, text, filename)), source


def unwritten_registers(source: ModuleText) -> Iterator[tuple[str, int]]:
    """Each register that a function reads and never writes, with the line where it first does."""
    for item in source.items:
        if isinstance(item, FunctionSource):
            yield from ((reg.name, line) for reg, line in never_written(item))


class _Judge:
    """Walks a module's statements: instructions against their forms, names and declarations against the rules."""

    def __init__(self, source: ModuleText, text: str, reported: set[tuple[int, str]]):
        self.source = source
        self.text = text
        self.reported = reported  # (line, "register %r1") of what reading found already
        self.version: Version = parse_version(source.version)
        self.target = target_of(source.target).name
        self.options = source.options
        self.rules = ModuleRules(self.version, self.target, self.options)
        self._lines: list[str] | None = None
        self._read: FunctionSource | None = None
        """The function that is being judged."""
        self._proposed: dict[object, Problem] = {}
        """Problems with what is proposed for symbols as they are, by the statement without its registers' names."""

    @cached_property
    def fixer(self) -> Fixer:
        """What proposes changes; most texts need none."""
        from .fixes import Fixer

        made = Fixer(self.version, self.target, self.options, self.text)
        if self._read is not None:
            made.enter(self._read)
        return made

    def judge(self) -> Iterator[Issue]:
        yield from self._header()
        first = FIRST_PTX[self.target]
        if self.version < first and any(_says_something(item) for item in self.source.items):
            message = (
                f"target {self.target} needs PTX {version_text(first)} or newer, and .version is {self.source.version}"
            )
            yield Issue(message, self.source.header_lines.get("target", 1), 9)
            return
        for item in self.source.items:
            if isinstance(item, FunctionSource):
                yield from self._function(item)
                continue
            shape, _, _, line, _ = item
            if isinstance(shape.payload, DeclarationAttr):
                yield from self._placed(self.rules.variable(shape.payload), line)
            elif shape.op_class is not UnknownOp and shape.tokens[0] not in _HEADERS:
                yield from self._placed(self.rules.directive(shape.tokens, "module"), line)

    # ------------------------------------------------------------------------------------------------------- header

    def _header(self) -> Iterator[Issue]:
        """`.version`, `.target`, `.address_size`: their order, and the words of `.target`."""
        yield from self._placed(header_faults(self.version), 1)
        seen: list[str] = []
        for item in self.source.items:
            words, line = ([".func"], item.line) if isinstance(item, FunctionSource) else (item[0].tokens, item[3])
            if words[0] == ";":
                continue
            fault = self._header_fault(words, seen)
            if fault is not None:
                yield from self._placed([fault], line)
            if words[0] == ".target" and words[1:] and (meant := target_meant(words[1])) != words[1]:
                message = f"there is no target {words[1]}, and ptxas takes it for {meant}"
                yield from self._placed([Fault(message, f"write {meant}", words[1], severity="warning")], line)
            seen.append(words[0])
        if "debug" in self.options and ".section" not in seen:
            message = ".target debug needs debug information, and the module has no .section"
            yield from self._placed([Fault(message, "leave the word debug out", word="debug")], 1)

    def _header_fault(self, words: Sequence[str], seen: list[str]) -> Fault | None:
        first = words[0]
        if not seen and first != ".version":
            return Fault("the module does not start with .version", word=first)
        if seen == [".version"] and first != ".target":
            return Fault(".target must follow .version", word=first)
        if first == ".version" and seen:
            return Fault(".version may stand only once", word=first)
        if first == ".target" and seen:
            if any(w not in (".version", ".target") for w in seen):
                return Fault(".target must stand at the head of the module", word=first)
            options = [w for w in words[1:] if w != "," and not w.startswith(("sm_", "compute_"))]
            problem = judge_directive(".target", options, "header", self.version, self.target)
            if problem is not None:
                return Fault(problem.message, problem.hint, word=options[0] if options else first)
        elif first == ".address_size":
            if seen[-1] != ".target":
                return Fault(".address_size must follow .target, once", word=first)
            size = address_size(words[1]) if len(words) > 1 else None
            problem = judge_directive(first, (str(size),), "header", self.version, self.target)
            if problem is not None:
                return Fault(problem.message, problem.hint, word=first)
        return None

    # ----------------------------------------------------------------------------------------------------- functions

    def _function(self, source: FunctionSource) -> Iterator[Issue]:
        properties = source.properties
        head = cast(TokensAttr, properties["head"]).data
        directives = cast(TokensAttr, properties["directives"]).data
        returns = cast("Sequence[DeclarationAttr] | None", properties.get("returns"))
        params = cast("Sequence[DeclarationAttr] | None", properties.get("params"))
        name = cast(StringAttr, properties["sym_name"]).data
        entry = ".entry" in head
        returns = tuple(returns) if returns is not None else None
        params = tuple(params) if params is not None else None
        faults = self.rules.function(name, head, directives, returns, params, source.has_body)
        yield from self._placed(faults, source.line)
        if not source.has_body:
            return
        names = self.rules.body(params or (), returns or (), entry, _labels(source.statements), directives)
        self._read = source
        if "fixer" in self.__dict__:
            self.fixer.enter(source)
        yield from self._statements(source.statements, names, entry)

    def _statements(self, statements: Sequence[Statement], names: Names, entry: bool) -> Iterator[Issue]:  # noqa: C901  one case for each kind of statement
        label = ""
        where = target_numbers[TargetAttr((self.target, version_text(self.version), self.options))]
        for index, (shape, regs, _, line, name) in enumerate(statements):
            kind = shape.kind
            if kind <= Kind.TERMINATOR:
                classes = tuple([r.register_class for r in regs])
                try:
                    problem, symbols, narrow = shape.verdicts[where, classes]
                except KeyError:
                    problem, symbols, narrow = shape.verdicts[where, classes] = self._verdict(shape, classes, nothing)
                    count_entry()
                if problem is not None:
                    yield self._refused(index, shape, regs, classes, names, line, name)
                elif symbols and (fault := self._symbols(shape, symbols, classes, names)) is not None:
                    yield self._misnamed(index, shape, regs, fault, names, line)
                elif shape.adds >= 0:
                    yield fault_at(shape, regs, _added(shape, classes), line)
                elif narrow >= 0:
                    yield fault_at(shape, regs, _narrow(narrow), line)
                elif name and not symbols:
                    fault = names.branch(name)
                    if fault is not None:
                        yield self._misnamed(index, shape, regs, fault, names, line, name)
            elif kind == Kind.LABEL:
                label = name
                fault = names.label(name)
                if fault is not None:
                    yield fault_at(shape, regs, fault, line)
                continue
            elif kind == Kind.OPEN:
                names.open(int(name))
            elif kind == Kind.CLOSE:
                names.close()
            elif isinstance(shape.payload, DeclarationAttr):
                yield from self._placed(self.rules.body_declaration(names, shape.payload, entry), line)
            elif shape.op_class is LabelListOp:
                words = cast(TokensAttr, (shape.properties or {})["words"]).data
                yield from self._placed(self.rules.label_list(names, name or label, words), line)
            elif shape.op_class is DirectiveOp and ".func" in shape.tokens:
                yield from self._placed(self.rules.body_function(names, shape.tokens), line)
            elif shape.op_class is LocOp:
                yield from self._placed(self.rules.lines.loc(shape.tokens), line)
            elif shape.op_class is not UnknownOp:
                yield from self._placed(
                    self.rules.directive(shape.tokens, "entry body" if entry else "func body"), line
                )
            else:
                self._unread(index, shape, cast("list[Issue]", shape.payload), names, line)
            label = ""

    # --------------------------------------------------------------------------------------------------------- fixes

    def _refused(
        self,
        index: int,
        shape: Shape,
        regs: Sequence[Reg],
        classes: tuple[str, ...],
        names: Names,
        line: int,
        label: str,
    ) -> Issue:
        """The issue of an instruction that no form takes here, with its fixes; `label` is that of a branch."""
        here = self.fixer.arrive(index)
        key = (id(shape), classes, tuple([t for t in shape.tokens if t[0] not in "%."]))
        found = self._proposed.get(key)
        if found is None:
            # the verdict is shared: its message may name another constant, and what it proposes another symbol
            found, _, _ = self._verdict(shape, classes, self.fixer.judge(names))
            assert found is not None
            self._proposed[key] = found
        problem = found
        issue = issue_at(shape, regs, problem, line)
        placed = placed_tokens(shape, regs, line, label)
        fixes = self.fixer.of_problem(placed, shape, problem)
        if here and (problem.operand >= 0 or not shape.plain_layout or (shape.guard >= 0 and classes[0] != "pred")):
            changes = self.fixer.near_operand(placed, problem.operand, names)
            more, advice = self.fixer.search(placed, changes, names, 1 if fixes else 3)
            if more and any(not self.fixer.makes_legal(placed, fix, names) for fix in fixes):
                fixes = []  # a name is wrong: other modifiers do not cure it
                issue.hint = next((s for s in (issue.hint or "").split("\n") if s.startswith("syntax: ")), None)
            issue.hint = hint_of(advice, issue.hint)
            fixes = [*more, *fixes]
        issue.fixes = tuple(fixes)
        return issue

    def _misnamed(
        self, index: int, shape: Shape, regs: Sequence[Reg], fault: Fault, names: Names, line: int, label: str = ""
    ) -> Issue:
        """The issue of an instruction whose symbols are not what it needs, with its fixes."""
        issue = fault_at(shape, regs, fault, line)
        if not self.fixer.arrive(index):
            return issue
        placed = placed_tokens(shape, regs, line, label)
        at = guard_tokens(shape.guard_mark)
        head = tuple(t.lstrip(".") for t in shape.tokens[at : at + shape.opcode_tokens])
        fixes, advice = self.fixer.search(placed, self.fixer.near_operand(placed, fault.operand, names), names)
        cls = shape.instruction
        if cls is not None:
            classes = tuple([r.register_class for r in regs])[1 if shape.guard >= 0 else 0 :]
            judge = admits(lambda found: self.fixer.admits(found, names), shape.plain_layout, classes)
            heads = cls.in_other_spaces(shape.modifiers, judge)
            fixes += self.fixer.of_heads(placed, at, head, heads)
            advice = hint_of(advice, advice_of_heads(head, heads))
        issue.hint = hint_of(advice, None if advice and fault.untried else issue.hint)
        issue.fixes = tuple(fixes)
        return issue

    def _unread(self, index: int, shape: Shape, issues: list[Issue], names: Names, line: int) -> None:
        """Add the fixes to the issues of a statement that could not be read."""
        from .fixes import Placed

        if not issues or not self.fixer.arrive(index):
            return
        issue = issues[0]
        placed = Placed(shape.tokens, shape.gaps, line, shape.column)
        fixes, advice = self.fixer.of_unread(placed, (issue.line, issue.column), names)
        issue.fixes = tuple(fixes)
        issue.hint = advice

    def _verdict(self, shape: Shape, classes: tuple[str, ...], judge: Judge | None = None) -> Verdict:
        cls = shape.instruction
        if cls is None:
            return None, (), -1
        if shape.guard >= 0:
            if classes[0] != "pred":
                return Problem(f"the guard must be a .pred register, and it is .{classes[0]}"), (), -1
            classes = classes[1:]
        resolution = cls.resolve(shape.modifiers, shape.plain_layout, classes)
        symbols = symbol_uses(resolution.uses[0]) if resolution.uses else ()
        narrow = cls.narrow_address(resolution.uses[0]) if resolution.uses and cls.wide_addresses else -1
        return resolution.verdict(self.version, self.target, self.options, judge), symbols, narrow

    def _symbols(
        self, shape: Shape, uses: tuple[SymbolUse, ...], classes: tuple[str, ...], names: Names
    ) -> Fault | None:
        for use in uses:
            fault = names.check(use)
            if fault is not None:
                return fault
        if uses[0].wanted == "call":
            return names.check_call(shape.plain_layout, classes[1:] if shape.guard >= 0 else classes)
        return None

    # -------------------------------------------------------------------------------------------------------- places

    def _placed(self, faults: Iterator[Fault] | Sequence[Fault], line: int) -> Iterator[Issue]:
        """Faults of a statement that starts in `line`, at the word each is about."""
        for fault in faults:
            at, column = self._find(line, fault.word)
            if not any((number, what) in self.reported for number in (line, at) for what in _said(fault)):
                yield Issue(fault.message, at, column, fault.hint, fault.severity)

    def _find(self, line: int, word: str) -> tuple[int, int]:
        if self._lines is None:
            self._lines = self.text.split("\n")
        lines = self._lines
        first = lines[line - 1] if line <= len(lines) else ""
        start = len(first) - len(first.lstrip()) + 1
        if not word:
            return line, start
        pattern = re.compile(rf"(?<![\w$%.:]){re.escape(word)}(?![\w$])")
        for number in range(line, min(line + 40, len(lines) + 1)):
            text = lines[number - 1]
            match = pattern.search(text)
            if match is not None:
                return number, match.start() + 1
        return line, start


def _says_something(item: Statement | FunctionSource) -> bool:
    """Whether an item is more than a line of the header: of a module without anything ptxas does not look at the target."""
    return isinstance(item, FunctionSource) or item[0].tokens[0] not in _HEADERS


_HEADERS = frozenset({".version", ".target", ".address_size", ";"})


def _said(fault: Fault) -> tuple[str, str]:
    """How reading reports the same: see `Environment.declare`."""
    return f"register {fault.word}", f"register range {fault.word}<>"


def _labels(statements: Sequence[Statement]) -> dict[int, dict[str, int]]:
    events: list[tuple[str, str]] = []
    for shape, _, _, _, name in statements:
        kind = shape.kind
        if kind == Kind.LABEL:
            events.append(("label", name))
        elif kind == Kind.OPEN:
            events.append(("open", name))
        elif kind == Kind.CLOSE:
            events.append(("close", ""))
        elif shape.op_class is LabelListOp and not name and events and events[-1][0] == "label":
            events.pop()  # the label of a list on its own line
    return labels_of(events)


def _added(shape: Shape, classes: tuple[str, ...]) -> Fault:
    """The warning about a register plus a constant as a source, which ptxas takes and no manual has."""
    before = (1 if shape.guard >= 0 else 0) + len(registers(shape.plain_layout[: shape.adds]))
    register_class = classes[before]
    message = "a register plus a constant is not PTX by the manual, and ptxas adds them as integers"
    if not takes_added_constant(register_class):
        message = f"ptxas takes a .{register_class} register plus a constant, and what it generates is undefined"
    return Fault(message, "add the constant with an instruction", operand=shape.adds, severity="warning")


def _narrow(operand: int) -> Fault:
    message = (
        "ptxas generates code for 64-bit addresses of global and generic memory only, and this register has 32 bits"
    )
    return Fault(message, "widen it with cvt.u64.u32", operand=operand, severity="warning")
