"""Verify a whole module fast: every instruction's verdict, then the module checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Operation

from ..analysis.cfg import CFG, cfg_of
from ..analysis.checks import check_function
from ..analysis.entities import Fault
from ..analysis.module_rules import ModuleRules, labels_of
from ..analysis.symbols import Names
from ..diagnostics import Diagnostic
from ..dialects.ptx.instruction import Instruction, verdict_of
from ..dialects.ptx.structure import (
    DirectiveOp,
    FunctionOp,
    HeaderOp,
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
from ..dialects.ptx.target import FIRST_PTX, TargetAttr, one_target, target_of, version_text
from ..printer.ptx import print_op
from ..ssa.fastir import gc_paused


def ptx_modules(module: Operation) -> list[ModuleOp]:
    if isinstance(module, ModuleOp):
        return [module]
    if isinstance(module, BuiltinModule):
        return [op for op in module.body.block.ops if isinstance(op, ModuleOp)]
    return []


def module_diagnostics(module: Operation) -> list[Diagnostic]:
    """Everything wrong with the PTX in a module: illegal instructions, then broken rules of the IR."""
    with gc_paused():
        return list(_diagnostics(module))


def _diagnostics(module: Operation) -> Iterator[Diagnostic]:
    for ptx in ptx_modules(module):
        target = one_target(ptx.target)
        try:
            first = FIRST_PTX.get(target_of(target.target).name)  # `compute_90` is another spelling of sm_90
        except ValueError:
            first = None
        if first is None:
            yield Diagnostic("error", f"unknown target {target.target}")
            continue
        if target.version < first and not all(map(_of_the_header, ptx.body.ops)):
            needed = f"needs PTX {version_text(first)} or newer, not {target.data[1]}"
            yield Diagnostic("error", f"target {target.target} {needed}")
        header = ptx.header_problem()
        if header is not None:
            yield Diagnostic("error", header)
        cfgs = {f: cfg_of(f) for f in ptx.functions if not f.is_declaration}
        yield from _judge(ptx, cfgs)
        for function, cfg in cfgs.items():
            for violation in check_function(function, cfg):
                yield diagnostic_at(violation.op, violation.message)


def _of_the_header(op: Operation) -> bool:
    """Whether an op is a line of the header. ptxas does not look at the target of a module that has nothing else."""
    words = op.words if isinstance(op, DirectiveOp) else ()
    return isinstance(op, HeaderOp) or words[:1] in ((".version",), (".target",), (".address_size",))


def _judge(module: ModuleOp, cfgs: Mapping[FunctionOp, CFG]) -> Iterator[Diagnostic]:
    """Illegal instructions, names and declarations, in layout order."""
    target = one_target(module.target)
    rules = ModuleRules(target.version, target.target, target.options)
    for op in module.body.ops:
        if isinstance(op, FunctionOp):
            yield from _function(op, cfgs.get(op), rules, target)
        elif isinstance(op, VariableOp):
            yield from _faults(op, rules.variable(op.declaration))
        elif isinstance(op, DirectiveOp):
            yield from _faults(op, rules.directive(op.words, "module"))


def _faults(op: Operation, faults: Iterable[Fault]) -> Iterator[Diagnostic]:
    for fault in faults:
        yield diagnostic_at(op, fault.message, fault.advice, fault.severity)


def _function(function: FunctionOp, cfg: CFG | None, rules: ModuleRules, target: TargetAttr) -> Iterator[Diagnostic]:
    returns = function.returns if "returns" in function.properties else None
    params = function.parameters if "params" in function.properties else None
    yield from _faults(
        function, rules.function(function.symbol, function.head, function.directives, returns, params, cfg is not None)
    )
    if cfg is None:
        return
    entry = function.is_entry
    ops = [op for inner in cfg.ops for op in inner]
    names = rules.body(params or (), returns or (), entry, labels_of(_scopes(ops)), function.directives)
    ordinal = 0
    label = ""
    for op in ops:
        if "layout" in op.properties:
            problem, use, _ = verdict_of(cast(Instruction, op), target)
            if problem is not None:
                yield diagnostic_at(op, problem.message, problem.hint)
            elif (
                use is not None
                and (uses := symbol_uses(use))
                and (fault := _symbol_fault(cast(Instruction, op), uses, names)) is not None
            ):
                yield diagnostic_at(op, fault.message, fault.advice)
        elif isinstance(op, LabelOp):
            label = op.label
            if (fault := names.label(label)) is not None:
                yield diagnostic_at(op, fault.message, fault.advice)
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
        elif isinstance(op, LocOp):
            yield from _faults(op, rules.lines.loc(op.words))
        elif isinstance(op, DirectiveOp) and ".func" in op.words:
            yield from _faults(op, rules.body_function(names, op.words))
        elif isinstance(op, DirectiveOp):
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


def _symbol_fault(op: Instruction, uses: Sequence[SymbolUse], names: Names) -> Fault | None:
    """What is wrong with the symbols of a legal instruction. Branch targets are blocks and need no check."""
    for use in uses:
        fault = names.check(use)
        if fault is not None:
            return fault
    if uses[0].wanted == "call":
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
