"""`func.call` of functions of the same `gpu.module`: the body of the function in its place.

Blocks and branches only: structured control flow is expanded before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.cf import BranchOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.gpu import FuncOp as KernelOp
from xdsl.ir import Operation, Region

from .emitter import LoweringError
from .names import symbol_of

MOST_OPERATIONS = 200_000
"""Operations of a kernel after its calls are gone: a chain of functions with two calls each doubles at each step."""


def inline_calls(module: Operation) -> None:
    """Put functions in the place of their calls. LoweringError for those that are not here and those that call themselves."""
    body = module.regions[0].block
    functions = {symbol_of(op): op for op in body.ops if isinstance(op, FuncOp)}
    for calls in _callees_first(functions, [op for op in body.ops if isinstance(op, KernelOp)]):
        for call in calls:
            _inline(call, functions[call.callee.string_value()].body)
    for function in functions.values():
        function.detach()
        function.erase(safe_erase=False)


def _callees_first(functions: Mapping[str, FuncOp], kernels: Sequence[KernelOp]) -> list[list[CallOp]]:
    """The calls in each kernel and in each function that one needs, callees before their callers."""
    sizes: dict[Operation, int] = {}
    order: list[list[CallOp]] = []
    calls: dict[Operation, list[CallOp]] = {}
    stack: list[Operation] = [*reversed(kernels)]
    while stack:
        caller = stack[-1]
        if caller not in calls:
            calls[caller] = _calls_in(caller, functions)
        mine = calls[caller]
        callees = [functions[call.callee.string_value()] for call in mine]
        waiting = [callee for callee in callees if callee not in sizes]
        if not waiting:
            stack.pop()
            sizes[caller] = sum(1 for _ in caller.walk()) + sum(sizes[callee] for callee in callees)
            if sizes[caller] > MOST_OPERATIONS:
                raise LoweringError(
                    f"{symbol_of(caller)} has more than {MOST_OPERATIONS} operations with those of the functions it calls; "
                    "call them in a loop"
                )
            order.append(mine)
        elif waiting[0] in calls:
            raise LoweringError(f"func.call @{symbol_of(waiting[0])}: the function calls itself; write a loop")
        else:
            stack.append(waiting[0])
    return order


def _calls_in(caller: Operation, functions: Mapping[str, FuncOp]) -> list[CallOp]:
    found = [op for op in caller.walk() if isinstance(op, CallOp)]
    for call in found:
        name = call.callee.string_value()
        if name not in functions or not functions[name].body.blocks:
            raise LoweringError(
                f"func.call @{name}: the gpu.module has no body of that function; link it with mlir-opt first"
            )
    return found


def _inline(call: CallOp, body: Region) -> None:
    copy = body.clone()
    first = copy.blocks[0]
    for argument, given in zip(list(first.args), call.arguments, strict=True):
        argument.replace_all_uses_with(given)
    block = call.parent
    assert block is not None
    if len(copy.blocks) == 1:
        *operations, last = first.ops
        for op in operations:
            op.detach()
        block.insert_ops_before(operations, call)
        _replace(call, cast(ReturnOp, last))
        return
    region = block.parent
    assert region is not None
    rest = block.split_before(call, arg_types=call.result_types)
    for inner in list(copy.blocks):
        last = inner.last_op
        if isinstance(last, ReturnOp):
            inner.insert_op_before(BranchOp(rest, *last.operands), last)
            last.detach()
            last.erase()
        copy.detach_block(inner)
        region.insert_block_before(inner, rest)
    for argument in list(first.args):
        first.erase_arg(argument)
    block.add_op(BranchOp(first))
    for result, argument in zip(call.results, rest.args, strict=True):
        result.replace_all_uses_with(argument)
    call.detach()
    call.erase()


def _replace(call: CallOp, returned: ReturnOp) -> None:
    for result, value in zip(call.results, returned.operands, strict=True):
        result.replace_all_uses_with(value)
    call.detach()
    call.erase()
