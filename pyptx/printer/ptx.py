"""Print a `ptx.module` as PTX.

For instructions a printf template is made once per distinct (op class, properties, trivia) and filled with the
register names in the types of the op's values; everything else prints its tokens. Gaps come from the op's trivia when
the token count matches, else from the file's style.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import cast

from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation

from ..diagnostics import Diagnostic, PTXError
from ..dialects.ptx.instruction import Instruction, modifiers_of, silent_registers
from ..dialects.ptx.memo import Memo
from ..dialects.ptx.structure import (
    FallOp,
    FunctionOp,
    LabelOp,
    ModuleOp,
    ParameterOp,
    Structural,
    TextAttr,
    TokensAttr,
    UndefOp,
    head_labels,
)
from ..dialects.ptx.style import DEFAULT, Style, StyleAttr
from ..dialects.ptx.syntax import Layout, layout_tokens, registers
from ..ssa.fastir import gc_paused

_SILENT = (UndefOp, FallOp, ParameterOp)

_Template = tuple[str, tuple[int, ...], bool]
"""A printf format; the operand (>= 0) or result (~index) for each of its slots, a label slot last; and whether these are
all results and then all operands, in their order.
"""

_common: Memo[Style, _Common] = Memo()
_LABEL = 1 << 30
"""Marks a slot of a template that takes a label; the low bits are the index among the labels of the target block."""


class _Common:
    """What all modules of a style share, of operations without gaps of their own: the templates of instructions and the
    text of everything else, each with the attributes whose ids are in its key.
    """

    def __init__(self) -> None:
        self.templates: Memo[tuple[object, ...], tuple[_Template, object]] = Memo()
        self.statements: Memo[tuple[object, ...], tuple[str, object]] = Memo()


def print_module(module: Operation) -> str:
    """The PTX text of a `ptx.module` (or of the one inside a `builtin.module`)."""
    if isinstance(module, BuiltinModule):
        found = [op for op in module.body.block.ops if isinstance(op, ModuleOp)]
        if len(found) != 1:
            raise ValueError(f"expected one ptx.module in the builtin.module, found {len(found)}")
        module = found[0]
    if not isinstance(module, ModuleOp):
        raise ValueError(f"expected a ptx.module, not {module.name}")
    with gc_paused():  # the module may be large, and nothing here is garbage
        return _ModulePrinter(module).print()


def blank(op: Operation) -> PTXError:
    """A value without a register name cannot be printed."""
    message = f"{op.name} uses a value without a register name"
    return PTXError([Diagnostic("error", message, hint="run ptx-assign-registers before printing PTX")])


def print_op(op: Operation) -> str:
    """One instruction or directive as PTX, without trivia, for messages."""
    if isinstance(op, Instruction):
        printer = _ModulePrinter(None)
        printer.labels = {}
        return printer.instruction(op, bare=True).strip()
    return " ".join(op.tokens()) if isinstance(op, Structural) else op.name


class _ModulePrinter:
    def __init__(self, module: ModuleOp | None):
        self.module = module
        style = module.attributes.get("style") if module is not None else None
        self.style: Style = style.data if isinstance(style, StyleAttr) else DEFAULT
        if self.style not in _common:
            _common[self.style] = _Common()
        self.common = _common[self.style]
        self.templates: dict[tuple[object, ...], _Template] = {}
        self.statements: dict[tuple[object, ...], str] = {}
        self.keep: list[object] = []
        self.labels: dict[Block, list[str]] = {}
        self.out: list[str] = []

    def print(self) -> str:
        assert self.module is not None
        self.out += [" ".join(tokens).replace(" ,", ",") + "\n" for tokens in self.module.implied_headers()]
        for op in self.module.body.ops:
            if isinstance(op, FunctionOp):
                self.function(op)
            elif isinstance(op, Structural):
                self.structural(op, indent=False)
        tail = self.module.attributes.get("tail")
        if tail is not None:
            self.out.append(cast(TextAttr, tail).data)
        return "".join(self.out)

    # -------------------------------------------------------------------------------------------------------- functions

    def function(self, function: FunctionOp) -> None:
        lead = function.attributes.get("lead")
        if lead is not None:
            self.out.append(cast(TextAttr, lead).data)
        tokens = function.tokens()
        gaps = _kept(function, len(tokens))
        self.out.append(_zip(gaps if gaps is not None else header_gaps(function, tokens), tokens))
        if function.is_declaration:
            return
        blocks = list(function.regions[0].blocks)
        self.labels = {b: [op.label for op in head_labels(b)] for b in blocks}
        self._body(blocks)
        end = function.attributes.get("end")
        if isinstance(end, TokensAttr) and len(end.data) == 3:
            before, indent, after = end.data
            self.out.append(f"{before}{indent}}}{after}")
        else:
            self.out.append("}\n")

    def _body(self, blocks: Sequence[Block]) -> None:
        out, templates = self.out, self.templates
        append = out.append
        nothing = id(None)
        for block in blocks:
            op = block._first_op
            while op is not None:
                properties = op.properties
                if "layout" in properties:
                    attributes = op.attributes
                    if attributes and "lead" in attributes:
                        append(attributes["lead"].data)  # pyright: ignore
                    if attributes and "spelling" in attributes:
                        append(self.instruction(cast(Instruction, op)))
                        op = op._next_op
                        continue
                    if attributes:
                        parts: list[object] = [op.__class__, id(attributes.get("gaps")), id(attributes.get("written"))]
                    else:
                        parts = [op.__class__, nothing, nothing]
                    parts += properties
                    parts += map(id, properties.values())
                    key = tuple(parts)
                    entry = templates.get(key)
                    if entry is None:
                        entry = templates[key] = self._known_template(cast(Instruction, op), key)
                    form, order, in_order = entry
                    if order and order[-1] >= _LABEL:
                        append(form % self._names(op, order))
                    else:
                        names = [v._type.data[1] for v in (*op.results, *op._operands)]  # pyright: ignore
                        if not in_order or len(names) != len(order):
                            results = len(op.results)
                            names = [names[i + results if i >= 0 else ~i] for i in order]
                        if "" in names:
                            raise blank(op)
                        append(form % tuple(names))
                elif not isinstance(op, _SILENT):
                    self.structural(cast(Structural, op), indent=True)
                op = op._next_op

    def _names(self, op: Operation, order: Sequence[int]) -> tuple[str, ...]:
        names: list[str] = []
        for i in order:
            if i >= _LABEL:
                labels = self.labels.get(op.successors[0], []) if op.successors else []
                index = i - _LABEL
                names.append(labels[min(index, len(labels) - 1)] if labels else f"<no label {index}>")
            else:
                value = op.operands[i] if i >= 0 else op.results[~i]
                if not value.type.data[1] and self.module is not None:  # pyright: ignore
                    raise blank(op)
                names.append(value.type.data[1])  # pyright: ignore
        return tuple(names)

    # ----------------------------------------------------------------------------------------------------------
    # statements

    def instruction(self, op: Instruction, *, bare: bool = False) -> str:
        form, order, _ = self._template(op, bare=bare)
        names = self._names(op, order)
        spelled = op.attributes.get("spelling")
        if isinstance(spelled, TokensAttr) and not bare:
            names = tuple(s if _plain(s) == n else n for n, s in zip_longest(names, spelled.data, fillvalue=""))
        return form % names[: len(order)]

    def _known_template(self, op: Instruction, key: tuple[object, ...]) -> _Template:
        held = (tuple(op.properties.values()), dict(op.attributes))
        if "gaps" in op.attributes:
            self.keep.append(held)
            return self._template(op)
        common = self.common.templates
        known = common.get(key)
        if known is None:
            known = common[key] = (self._template(op), held)
        self.keep.append(known[1])
        return known[0]

    def _template(self, op: Instruction, *, bare: bool = False) -> _Template:
        tokens: list[str] = []
        order: list[int] = []
        layout: Layout = op.layout
        reads = sum(1 for r in registers(layout) if r.role == "$")
        silent_reads, _ = silent_registers(op)
        guard = op.guard
        if guard:
            tokens += list(guard)
            tokens.append("%s")
            order.append(reads + silent_reads)
        guard_count = len(tokens)
        canonical = modifiers_of(type(op), op.properties)
        written = op.attributes.get("written")
        if isinstance(written, StringAttr):
            words = tuple(written.data.split(".")[1:])
            repeated = Counter(words)
            repeated.subtract(canonical)  # some may be written twice (`add.sat.sat.s32`)
            if all(n >= 0 for n in repeated.values()) and set(words) == set(canonical):
                canonical = words
        root, *rest = op.opcode.split(".")
        tokens.append(root)
        tokens += ["." + w for w in rest]
        tokens += ["." + w for w in canonical]
        opcode_count = len(tokens) - guard_count
        read = result = 0
        label: int | None = None
        for token in layout_tokens(layout):
            if token == "$":
                tokens.append("%s")
                order.append(read)
                read += 1
            elif token in ("=", "~"):
                tokens.append("%s")
                order.append(~result)
                result += 1
            elif token[0] == "^" != token:  # a label; `^` alone is an operator of an offset
                if token[1:].isdigit():
                    tokens.append("%s")
                    label = _LABEL + int(token[1:])
                    order.append(label)
                else:
                    tokens.append(token[1:])
            else:
                tokens.append(token.replace("%", "%%"))
        tokens.append(";")
        gaps = None if bare else _kept(op, len(tokens))
        if gaps is None:
            gaps = self.style.instruction_gaps(tokens, guard_count, opcode_count)
        in_order = order == [*(~i for i in range(len(op.results))), *range(len(op._operands))]
        return _zip([g.replace("%", "%%") for g in gaps], tokens), tuple(order), in_order

    def structural(self, op: Structural, *, indent: bool) -> None:
        attributes = op.attributes
        lead = attributes.get("lead")
        if lead is not None:
            self.out.append(cast(TextAttr, lead).data)
        key = (op.__class__, indent, id(attributes.get("gaps")), *map(id, op.properties.values()))
        text = self.statements.get(key)
        if text is None:
            text = self.statements[key] = self._known_statement(op, indent, key)
        self.out.append(text)

    def _known_statement(self, op: Structural, indent: bool, key: tuple[object, ...]) -> str:
        held = (tuple(op.properties.values()), dict(op.attributes))
        if "gaps" in op.attributes or not op.own_words:
            self.keep.append(held)
            return self._statement(op, indent)
        common = self.common.statements
        known = common.get(key)
        if known is None:
            known = common[key] = (self._statement(op, indent), held)
        self.keep.append(known[1])
        return known[0]

    def _statement(self, op: Structural, indent: bool) -> str:
        tokens = op.tokens()
        gaps = _kept(op, len(tokens))
        if gaps is None:
            if indent or isinstance(op, LabelOp):
                gaps = self.style.directive_gaps(tokens)
            else:
                gaps = self.style.module_gaps(tokens)
        return _zip(gaps, tokens)


def _plain(name: str) -> str:
    """A register's name without zeros before its number."""
    stem = name.rstrip("0123456789")
    return name if stem == name else f"{stem}{int(name[len(stem) :])}"


def header_gaps(function: FunctionOp, tokens: Sequence[str]) -> list[str]:
    """Header layout of functions that did not come from text: one parameter and one directive a line."""
    gaps = [""]
    depth = 0
    listed = False
    directives = len(tokens) - 1 - len(function.directives)
    for i in range(1, len(tokens)):
        previous, token = tokens[i - 1], tokens[i]
        if previous == "(":
            depth += 1
        if token == ")":
            depth -= 1
        in_params = depth == 1 and ".param" in tokens[i:]
        if previous == "(" and token != ")" and in_params:
            gaps.append("\n\t")
            listed = True
        elif previous == "," and depth == 1:
            gaps.append("\n\t" if listed else " ")
        elif token == ")" and listed and depth == 0:
            gaps.append("\n")
            listed = False
        elif token == "{" or (i >= directives and token.startswith(".") and previous != "{"):
            gaps.append("\n")
        elif token in ",;)]>[:(" or previous in "([<":
            gaps.append("")
        else:
            gaps.append(" ")
    gaps.append("\n")
    return gaps


def _kept(op: Operation, count: int) -> Sequence[str] | None:
    """The op's own gaps, if it has them and they still fit its tokens."""
    attr: Attribute | None = op.attributes.get("gaps")
    if isinstance(attr, TokensAttr) and len(attr.data) == count + 1:
        return attr.data
    return None


def _zip(gaps: Sequence[str], tokens: Sequence[str]) -> str:
    parts = [gaps[0]]
    for token, gap in zip(tokens, gaps[1:], strict=True):
        parts.append(token)
        parts.append(gap)
    return "".join(parts)
