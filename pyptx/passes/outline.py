"""`ptx-outline{label=... function=...}`: make a block of a function a device function of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from ..diagnostics import Diagnostic, PTXError, did_you_mean
from ..dialects.ptx.attributes import layout_attr, string_attr
from ..dialects.ptx.control import Call, Return
from ..dialects.ptx.effects import effect_of
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    DeclarationAttr,
    FallOp,
    FunctionOp,
    LabelOp,
    LocOp,
    ModuleOp,
    ParameterOp,
    TokensAttr,
    VariableOp,
    head_labels,
)
from ..dialects.ptx.syntax import Arguments, Operand, Register, Symbol, transform
from ..dialects.ptx.types import RegType
from ..ssa.fastir import create, set_type
from .assign_registers import assign_registers
from .canonical import header_gaps
from .ptx_pass import PTXPass
from .verify import diagnostic_at


class OutlineError(PTXError, DiagnosticException):
    """A block that cannot become a function; `.diagnostics` says why."""


@dataclass(frozen=True)
class Outline(PTXPass):
    """Move the instructions of one block into a new device function and call it there.

    `label` names the block; `function` the new function. The instructions between the label and the branch at the
    block's end move; what they read from outside becomes register parameters, what others read of theirs register
    results.

    Contract: the program computes the same. The block must not touch the function's own parameters or variables, hold
    control flow, or have operations in flight across its borders; `OutlineError` says so, at the instruction, and
    nothing is changed then.
    """

    name: ClassVar[str] = "ptx-outline"

    label: str
    function: str

    def run(self, module: ModuleOp) -> None:
        outline(module, self.label, self.function)


def outline(module: ModuleOp, label: str, name: str) -> FunctionOp:
    """Outline the block at a label into the function `name`; returns the new function. OutlineError where
    that is not possible.
    """
    labels = {
        op.label: (function, block)
        for function in module.functions
        for block in function.blocks
        for op in head_labels(block)
    }
    if label not in labels:
        message = f"no block starts at the label {label} (a label that nothing branches to starts none)"
        raise OutlineError(Diagnostic("error", message, hint=did_you_mean(label, labels)))
    if any(op.symbol == name for op in module.functions):
        raise OutlineError(Diagnostic("error", f"the module already has a function {name}"))
    caller, block = labels[label]
    moved = [op for op in block.ops if isinstance(op, Instruction) and not op.terminator]
    _check(caller, block, moved)
    inside = set(moved)
    inputs = list(dict.fromkeys(v for op in moved for v in op.operands if v.owner not in inside))
    outputs: list[SSAValue] = [
        r for op in moved for r in op.results if any(use.operation not in inside for use in r.uses)
    ]
    callee = _build(caller, name, moved, inputs, outputs)
    module.body.insert_op_before(callee, caller)
    _call(block, moved, name, inputs, outputs)
    assign_registers(callee)
    assign_registers(caller)
    return callee


def _check(caller: FunctionOp, block: Block, moved: list[Instruction]) -> None:
    local = {n for d in (*caller.parameters, *caller.returns) for n, _ in d.items}
    local.update(
        n for b in caller.blocks for op in b.ops if isinstance(op, VariableOp) for n, _ in op.declaration.items
    )
    problems: list[Diagnostic] = []
    if not moved:
        problems.append(Diagnostic("error", "the block has no instructions"))
    for op in block.ops:
        if not isinstance(op, (Instruction, LabelOp, LocOp, FallOp)) and op.name != "ptx.undef":
            problems.append(diagnostic_at(op, "the block holds a declaration, scope or directive, which stays"))
    for op in moved:
        if effect_of(op) == "control":
            problems.append(diagnostic_at(op, f"{op.opcode} is control flow, which cannot be outlined"))
        if op.in_flight or op.waits_for:
            problems.append(diagnostic_at(op, f"{op.opcode} leaves registers in flight, which a call may not pass"))
        named: list[str] = []
        transform(op.layout, lambda o, named=named: _note(o, named))
        for symbol in named:
            if symbol in local:
                problems.append(diagnostic_at(op, f"{symbol} belongs to {caller.symbol} and has no name elsewhere"))
        for value in (*op.operands, *op.results):
            if cast(RegType, value.type).register_class == "pred" and _crosses(value, set(moved)):
                problems.append(diagnostic_at(op, "a predicate cannot be passed to a function or returned"))
                break
    if problems:
        raise OutlineError(problems)


def _note(operand: Operand, named: list[str]) -> Operand:
    if isinstance(operand, Symbol):
        named.append(operand.name)
    return operand


def _crosses(value: SSAValue, inside: set[Instruction]) -> bool:
    if value.owner not in inside:
        return True
    return any(use.operation not in inside for use in value.uses)


def _build(
    caller: FunctionOp, name: str, moved: list[Instruction], inputs: list[SSAValue], outputs: list[SSAValue]
) -> FunctionOp:
    def register(value: SSAValue, stem: str, i: int) -> RegType:
        return RegType((cast(RegType, value.type).register_class, f"%{stem}{i}", 0))

    def declared(type_: RegType) -> DeclarationAttr:
        return DeclarationAttr(((".reg", f".{type_.register_class}"), ((type_.register_name, ()),)))

    parameters = [register(v, "in", i) for i, v in enumerate(inputs)]
    results = [register(v, "out", i) for i, v in enumerate(outputs)]
    ops: list[Operation] = []
    mapping: dict[SSAValue, SSAValue] = {}
    if inputs:
        op = create(ParameterOp, (), parameters, {}, {})
        ops.append(op)
        mapping.update(zip(inputs, op.results, strict=True))
    for op in moved:
        copy = op.clone(mapping)
        for result in copy.results:
            set_type(result, RegType((cast(RegType, result.type).register_class, "", 0)))
        copy.attributes.pop("lead", None)
        ops.append(copy)
    returned = [mapping[v] for v in outputs]
    ends: dict[str, Attribute] = {"layout": layout_attr(())}
    if returned:
        ends["silent"] = string_attr(f"{len(returned)},0")
    ops.append(create(Return, returned, (), ends, {}))
    properties: dict[str, Attribute] = {
        "head": TokensAttr((".func",)),
        "sym_name": string_attr(name),
        "params": ArrayAttr([declared(t) for t in parameters]),
        "directives": TokensAttr(()),
    }
    if outputs:
        properties["returns"] = ArrayAttr([declared(t) for t in results])
    function = create(FunctionOp, (), (), properties, {}, (), caller.location, (Region(Block(ops)),))
    function.attributes["gaps"] = TokensAttr(tuple(header_gaps(function)))
    return function


def _call(block: Block, moved: list[Instruction], name: str, inputs: list[SSAValue], outputs: list[SSAValue]) -> None:
    layout: list[Operand] = []
    if outputs:
        layout.append(Arguments(tuple(Register("=") for _ in outputs)))
    layout.append(Symbol(name))
    if inputs:
        layout.append(Arguments(tuple(Register() for _ in inputs)))
    properties: dict[str, Attribute] = {"layout": layout_attr(tuple(layout))}
    call = create(Call, inputs, [v.type for v in outputs], properties, {}, (), moved[0].location)
    block.insert_op_before(call, moved[0])
    for old, new in zip(outputs, call.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(moved):
        op.detach()
        op.erase(safe_erase=False)
