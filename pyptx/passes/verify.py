"""Verify a whole module fast: every instruction's verdict, then the module checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Attribute, Operation

from ..analysis.cfg import ops_of
from ..analysis.checks import check_module
from ..analysis.entities import Fault
from ..analysis.module_rules import ModuleRules, labels_of
from ..analysis.symbols import Names
from ..diagnostics import Diagnostic
from ..dialects.ptx.attributes import LayoutAttr
from ..dialects.ptx.instruction import Instruction, modifiers_of, plain_roles, problem_of
from ..dialects.ptx.structure import (
    DirectiveOp,
    FunctionOp,
    LabelListOp,
    LabelOp,
    LocOp,
    ModuleOp,
    RegisterOp,
    ScopeBeginOp,
    ScopeEndOp,
    VariableOp,
)
from ..dialects.ptx.symbol_use import SymbolUse, symbol_uses
from ..dialects.ptx.syntax import Operand, Symbol, transform
from ..dialects.ptx.target import FIRST_PTX, TargetAttr, target_of, version_text
from ..printer.ptx import print_op


def ptx_modules(module: Operation) -> list[ModuleOp]:
    if isinstance(module, ModuleOp):
        return [module]
    if isinstance(module, BuiltinModule):
        return [op for op in module.body.block.ops if isinstance(op, ModuleOp)]
    return []


def module_diagnostics(module: Operation) -> list[Diagnostic]:
    """Everything wrong with the PTX in a module: illegal instructions, then broken rules of the IR."""
    found: list[Diagnostic] = []
    for ptx in ptx_modules(module):
        target = ptx.target
        try:
            first = FIRST_PTX.get(target_of(target.target).name)  # `compute_90` is another spelling of sm_90
        except ValueError:
            first = None
        if first is None:
            found.append(Diagnostic("error", f"unknown target {target.target}"))
            continue
        if target.version < first:
            found.append(
                Diagnostic(
                    "error", f"target {target.target} needs PTX {version_text(first)} or newer, not {target.data[1]}"
                )
            )
        found += _judge(ptx)
        found += [diagnostic_at(v.op, v.message) for v in check_module(ptx)]
    return found


def _judge(module: ModuleOp) -> Iterator[Diagnostic]:
    """Illegal instructions, names and declarations, in layout order."""
    target = module.target
    rules = ModuleRules(target.version, target.target, target.options)
    for op in module.body.ops:
        if isinstance(op, FunctionOp):
            yield from _function(op, rules, target)
        elif isinstance(op, VariableOp):
            yield from _faults(op, rules.variable(op.declaration))
        elif isinstance(op, DirectiveOp):
            yield from _faults(op, rules.directive(op.words, "module"))


def _faults(op: Operation, faults: Iterable[Fault]) -> Iterator[Diagnostic]:
    for fault in faults:
        yield diagnostic_at(op, fault.message, fault.hint, fault.severity)


def _function(function: FunctionOp, rules: ModuleRules, target: TargetAttr) -> Iterator[Diagnostic]:
    defined = not function.is_declaration
    returns = function.returns if "returns" in function.properties else None
    params = function.parameters if "params" in function.properties else None
    yield from _faults(
        function, rules.function(function.symbol, function.head, function.directives, returns, params, defined)
    )
    if not defined:
        return
    entry = function.is_entry
    ops = [op for block in function.blocks for op in ops_of(block)]
    names = rules.body(params or (), returns or (), entry, labels_of(_scopes(ops)))
    ordinal = 0
    label = ""
    for op in ops:
        layout = op.properties.get("layout")
        if layout is not None:
            problem = problem_of(cast(Instruction, op), target)
            if problem is not None:
                yield diagnostic_at(op, problem.message, problem.hint)
            elif _has_names(layout) and (fault := _symbol_fault(cast(Instruction, op), names)) is not None:
                yield diagnostic_at(op, fault.message, fault.hint)
        elif isinstance(op, LabelOp):
            label = op.label
            if (fault := names.label(label)) is not None:
                yield diagnostic_at(op, fault.message, fault.hint)
            continue
        elif isinstance(op, ScopeBeginOp):
            ordinal += 1
            names.open(ordinal)
        elif isinstance(op, ScopeEndOp):
            names.close()
        elif isinstance(op, (VariableOp, RegisterOp)):
            yield from _faults(op, rules.body_declaration(names, op.declaration, entry))
        elif isinstance(op, LabelListOp):
            yield from _faults(op, rules.label_list(names, op.label or label, op.words))
        elif isinstance(op, DirectiveOp) and not isinstance(op, LocOp):
            yield from _faults(op, rules.directive(op.words, "entry body" if entry else "func body"))
        label = ""


def _scopes(ops: Sequence[Operation]) -> list[tuple[str, str]]:
    events: list[tuple[str, str]] = []
    ordinal = 0
    for op in ops:
        if "layout" in op.properties:
            continue
        if isinstance(op, LabelOp):
            events.append(("label", op.label))
        elif isinstance(op, ScopeBeginOp):
            ordinal += 1
            events.append(("open", str(ordinal)))
        elif isinstance(op, ScopeEndOp):
            events.append(("close", ""))
        elif isinstance(op, LabelListOp) and not op.label and events and events[-1][0] == "label":
            events.pop()
    return events


_named: dict[int, tuple[bool, Attribute]] = {}


def _has_names(layout: Attribute) -> bool:
    """Whether an operand list names a symbol; memoised on the attribute's identity."""
    found = _named.get(id(layout))
    if found is None:
        if len(_named) > 100_000:
            _named.clear()
        names: list[Operand] = []

        def note(operand: Operand) -> Operand:
            if isinstance(operand, Symbol):
                names.append(operand)
            return operand

        transform(cast(LayoutAttr, layout).data, note)
        found = _named[id(layout)] = (bool(names), layout)
    return found[0]


_uses: dict[tuple[object, ...], tuple[tuple[SymbolUse, ...], object]] = {}


def _symbol_fault(op: Instruction, names: Names) -> Fault | None:
    """What is wrong with the symbols of a legal instruction. Memoised on its properties; branch targets are blocks and
    need no check.
    """
    key = (op.__class__, *op.properties, *map(id, op.properties.values()))
    found = _uses.get(key)
    if found is None:
        if len(_uses) > 100_000:
            _uses.clear()
        classes = tuple(t.data[0] for t in op.register_types)
        resolution = type(op).resolve(modifiers_of(type(op), op.properties), plain_roles(op.layout), classes)
        uses = symbol_uses(resolution.uses[0]) if resolution.uses else ()
        found = _uses[key] = (uses, tuple(op.properties.values()))
    for use in found[0]:
        fault = names.check(use)
        if fault is not None:
            return fault
    if found[0] and found[0][0].wanted == "call":
        return names.check_call(op.layout, [t.data[0] for t in op.register_types])
    return None


def diagnostic_at(op: Operation, message: str, hint: str | None = None, severity: str = "error") -> Diagnostic:
    """A diagnostic at an op's source place; the op's text stands in for the source line."""
    location = op.location
    level = "warning" if severity == "warning" else "error"
    if isinstance(location, FileLineColLoc):
        return Diagnostic(
            level, message, location.filename.data, location.line.data, location.column.data, hint, source_line=None
        )
    return Diagnostic(level, f"{message}: {print_op(op)}", hint=hint)
