"""`ptx-inline`: put the bodies of device functions where they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects.ptx.attributes import layout_attr, string_attr
from ..dialects.ptx.control import Branch, Call, Return
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    DeclarationAttr,
    FallOp,
    FunctionOp,
    LabelListOp,
    LabelOp,
    ModuleOp,
    ParameterOp,
    RegisterOp,
    UnknownOp,
    VariableOp,
)
from ..dialects.ptx.syntax import Arguments, Immediate, Operand, Register, Symbol, Target, transform
from ..dialects.ptx.types import RegType
from ..ssa.fastir import create, set_type
from .assign_registers import assign_registers
from .flatten_scopes import flatten_scopes
from .fresh import FreshNames, Names, module_names
from .operands import passed_of, places_of
from .parameters import Order, Uses, Variable, keep_in_registers, symbols_of
from .ptx_pass import PTXPass
from .trivia import erase


@dataclass(frozen=True)
class Inline(PTXPass):
    """Replace calls of device functions in the same module by their bodies.

    `max_instructions` is the size of a body from which on it is called all the same.

    Contract: inlines unguarded calls by name of functions that are defined in the module, do not return never, and do
    not call themselves, directly or not. Arguments and results in registers are passed as values. Those in `.param`
    variables go through registers where every access has one store before it of the same size, else through `.local`
    memory; functions that use such a variable in another way (its address) stay called. The functions stay in the
    module. Names of the body that the caller has too are changed; the caller's registers keep theirs. A function whose
    body names something of the module that the caller declares again, or that is declared after the caller, stays called, and so
    does one with variables that keep their values from call to call (`.global`, `.shared`). Order of instructions with effects is that of the execution.
    """

    name: ClassVar[str] = "ptx-inline"

    max_instructions: int = 200

    def run(self, module: ModuleOp) -> None:
        inline_calls(module, self.max_instructions)


def inline_calls(module: ModuleOp, max_instructions: int = 200) -> int:
    """Inline what can be; how many calls that were."""
    defined = {f.symbol: f for f in module.functions if not f.is_declaration}
    calls = {name: _calls(f) for name, f in defined.items()}
    order, recursive = _callees_first(calls)
    places = _declared_at(module)
    done = 0
    with module_names(module) as around:
        named = {name: {n for n in _named(f) if not around.is_free(n)} for name, f in defined.items()}
        bodies: dict[str, _Body] = {}
        for symbol in order:
            caller = _Caller(defined[symbol]) if calls[symbol] else None
            for call in reversed(caller.calls if caller else ()):
                # what follows a call moves to a block of its own: the last call's first
                callee = defined.get(_called(call) or "")
                if caller is None or callee is None or callee.symbol in recursive:
                    continue
                body = bodies.get(callee.symbol)
                if body is None:
                    body = bodies[callee.symbol] = _Body.of(callee, max_instructions)
                if not body.may_go_inside or not _passes_plainly(caller, call, callee):
                    continue
                if not all(caller.own.is_free(name) for name in named[callee.symbol]):
                    continue
                if any(places.get(name, 0) > places[symbol, "body"] for name in named[callee.symbol]):
                    continue
                named[symbol] |= named[callee.symbol]
                _Inliner(caller, call, callee).run()
                caller.inlined += 1
            if caller is not None and caller.inlined:
                caller.finish()
                done += caller.inlined
    return done


class _Caller:
    """A function whose calls are inlined, and what is known of it."""

    def __init__(self, function: FunctionOp) -> None:
        self.function = function
        self.calls = [op for block in function.blocks for op in block.ops if isinstance(op, Call)]
        self.own = Names().add_function(function)
        self.names = FreshNames(function)
        self.uses = Uses(function)
        self.passed: dict[Variable, None] = {}
        """Variables that calls which are gone took their arguments and results from."""
        self.inlined = 0

    def finish(self) -> None:
        order = Order(self.function) if self.passed else None
        for variable in self.passed:
            assert order is not None
            keep_in_registers(variable, self.uses.of(variable), order)
        assign_registers(self.function)


@dataclass(frozen=True, slots=True)
class _Body:
    """Whether the body of a function, after its own calls were inlined, may stand in another."""

    may_go_inside: bool

    @classmethod
    def of(cls, function: FunctionOp, most: int) -> _Body:
        if function.is_entry or ".noreturn" in function.directives:
            return cls(False)
        ops = [op for block in function.blocks for op in block.ops]
        if sum(isinstance(op, Instruction) for op in ops) > most or any(isinstance(op, UnknownOp) for op in ops):
            return cls(False)
        if any(isinstance(op, VariableOp) and op.declaration.space not in ("local", "param") for op in ops):
            return cls(False)
        uses = Uses(function)
        formals = [n for d in (*function.parameters, *function.returns) if d.space == "param" for n, _ in d.items]
        return cls(all(uses.are_plain((None, name), None) for name in formals))


def _declared_at(module: ModuleOp) -> dict[Any, int]:
    """Where the names of the module are declared first, and under (name, "body") where a function is defined."""
    places: dict[Any, int] = {}
    for at, op in enumerate(module.body.ops):
        if isinstance(op, FunctionOp):
            places.setdefault(op.symbol, at)
            if not op.is_declaration:
                places[op.symbol, "body"] = at
        elif isinstance(op, VariableOp):
            for name, _ in op.declaration.items:
                places.setdefault(name, at)
    return places


def _called(call: Call) -> str | None:
    symbols = [o.name for o in call.layout if isinstance(o, Symbol)]
    return symbols[0] if len(symbols) == 1 else None


def _calls(function: FunctionOp) -> list[str]:
    """The functions that a body calls by name, each once, in order of the names."""
    called = {_called(op) for block in function.blocks for op in block.ops if isinstance(op, Call)}
    return sorted(name for name in called if name is not None)


def _named(function: FunctionOp) -> set[str]:
    """The symbols that a body names, of whatever scope."""
    return {name for block in function.blocks for op in block.ops for name in symbols_of(op)}


def _callees_first(calls: Mapping[str, Sequence[str]]) -> tuple[list[str], set[str]]:
    """The functions, those that are called before those that call them; and those that can reach themselves (Tarjan 1972)."""
    order: list[str] = []
    recursive: set[str] = set()
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in calls:
        stack = [(root, iter(calls[root]))] if root not in index else []
        while stack:
            name, rest = stack[-1]
            if name not in index:
                index[name] = lowest[name] = len(index)
                path.append(name)
                on_path.add(name)
            following = next((n for n in rest if n in calls and (n not in index or n in on_path)), None)
            if following is None:
                stack.pop()
                order.append(name)
                if stack:
                    lowest[stack[-1][0]] = min(lowest[stack[-1][0]], lowest[name])
                if lowest[name] == index[name]:
                    circle = [path.pop()]
                    while circle[-1] != name:
                        circle.append(path.pop())
                    on_path.difference_update(circle)
                    if len(circle) > 1 or name in calls[name]:
                        recursive.update(circle)
            elif following in index:
                lowest[name] = min(lowest[name], index[following])
            else:
                stack.append((following, iter(calls[following])))
    return order, recursive


def _passes_plainly(caller: _Caller, call: Call, callee: FunctionOp) -> bool:
    """Whether arguments and results of a call can become values, or variables that are only loaded and stored."""
    if call.guard:
        return False
    results, arguments = _lists(call)
    formals = [d for d in callee.parameters for _ in d.items]
    returns = [d for d in callee.returns for _ in d.items]
    if len(arguments) != len(formals) or len(results) != len(returns):
        return False
    for actual, formal in (*zip(arguments, formals, strict=True), *zip(results, returns, strict=True)):
        if formal.space == "reg":
            if not isinstance(actual, Register) and (not isinstance(actual, Immediate) or formal.vector > 1):
                return False
        elif not isinstance(actual, Symbol):
            return False
        else:
            variable = caller.uses.at(call, actual.name)
            if variable[0] is None or not caller.uses.are_plain(variable, call):
                return False
    return True


def _lists(call: Call) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """(results, arguments) of a call."""
    layout = call.layout
    at = next(i for i, o in enumerate(layout) if isinstance(o, Symbol))
    before, after = layout[:at], layout[at + 1 :]
    results = before[0].elements if before and isinstance(before[0], Arguments) else ()
    arguments = after[0].elements if after and isinstance(after[0], Arguments) else ()
    return results, arguments


class _Inliner:
    def __init__(self, caller: _Caller, call: Call, callee: FunctionOp):
        self.uses, self.passed, self.names = caller.uses, caller.passed, caller.names
        self.caller, self.call, self.callee = caller.function, call, callee
        self.body = callee.clone()

    def run(self) -> None:
        body, call = self.body, self.call
        flatten_scopes(body, self.caller.parent_op())
        for block in body.blocks:
            for value in (*block.args, *(r for op in block.ops for r in op.results)):
                set_type(value, RegType((cast(RegType, value.type).register_class, "", 0)))
            for op in list(block.ops):
                if isinstance(op, RegisterOp):
                    erase(op)
        results, arguments = _lists(call)
        formals = [(d, n) for d in self.callee.parameters for n, _ in d.items]
        returns = [(d, n) for d in self.callee.returns for n, _ in d.items]
        spaced = {
            name: self.uses.at(self.call, actual.name)
            for actual, (_, name) in (*zip(arguments, formals, strict=True), *zip(results, returns, strict=True))
            if isinstance(actual, Symbol)
        }
        self._rename(spaced)
        self._pass_registers(arguments)
        continuation = self._splice()
        self._return(continuation)

    def _rename(self, spaced: dict[str, Variable]) -> None:
        """Names of the body that the caller has get new ones; formal parameters become the call's
        variables.
        """
        for variable in dict.fromkeys(spaced.values()):
            self.uses.drop_call(variable, self.call)
            self.passed[variable] = None
        renamed = {name: variable[1] for name, variable in spaced.items()}
        for block in self.body.blocks:
            for op in block.ops:
                if isinstance(op, VariableOp):
                    items = [(self.names.name(name), tail) for name, tail in op.declaration.items]
                    renamed.update((old, new) for (old, _), (new, _) in zip(op.declaration.items, items, strict=True))
                    op.declaration = DeclarationAttr((op.declaration.head, tuple(items)))
                elif isinstance(op, LabelOp):
                    new = self.names.name(op.label)
                    renamed[op.label] = new
                    op.label = new
                elif isinstance(op, LabelListOp) and op.label:
                    new = self.names.name(op.label)
                    renamed[op.label] = new
                    op.properties["label"] = string_attr(new)

        def leaf(operand: Operand) -> Operand:
            if isinstance(operand, Symbol):
                return Symbol(renamed.get(operand.name, operand.name), operand.offset)
            return operand

        for block in self.body.blocks:
            for op in block.ops:
                if isinstance(op, Instruction):
                    for name in symbols_of(op) & spaced.keys():
                        self.uses.add(spaced[name], op)
                    op.layout = transform(op.layout, leaf)
                elif isinstance(op, LabelListOp):
                    op.words = tuple(renamed.get(w, w) for w in op.words)

    def _pass_registers(self, arguments: tuple[Operand, ...]) -> None:
        from .fold import constant_move, immediate_bits

        parameters = next((op for op in self.body.blocks[0].ops if isinstance(op, ParameterOp)), None)
        if parameters is None:
            return
        operands = iter(self.call.operands)
        values: list[SSAValue] = []
        formals = iter(parameters.results)
        block = self.call.parent_block()
        assert block is not None
        for actual in arguments:
            if isinstance(actual, Register):
                values.append(next(operands))
                next(formals)
            elif isinstance(actual, Immediate):
                type_ = cast(RegType, next(formals).type)
                bits = immediate_bits(actual, type_.register_class)
                move = constant_move(bits if bits is not None else int(actual.value), type_, self.call.location)
                assert move is not None
                block.insert_op_before(move, self.call)
                values.append(move.results[0])
        for formal, value in zip(parameters.results, values, strict=True):
            formal.replace_all_uses_with(value)
        erase(parameters)

    def _splice(self) -> Block:
        """Split the caller's block after the call and put the body between the halves."""
        block = self.call.parent_block()
        assert block is not None
        region = self.caller.regions[0]
        types = [RegType((cast(RegType, r.type).register_class, "", 0)) for r in self.call.results]
        continuation = Block(arg_types=types)
        while (op := self.call.next_op) is not None:
            op.detach()
            continuation.add_op(op)
        inlined = self.body.blocks
        for op in inlined:
            self.body.regions[0].detach_block(op)
        block.add_op(create(FallOp, (), (), {}, {}, (inlined[0],), self.call.location))
        region.insert_block_after(continuation, block)
        region.insert_block_before(inlined, continuation)
        for result, argument in zip(self.call.results, continuation.args, strict=True):
            result.replace_all_uses_with(argument)
        erase(self.call)
        self.inlined = inlined
        return continuation

    def _return(self, continuation: Block) -> None:
        """Turn the body's returns into branches after the call, the last into falling through."""
        labelled = False
        for block in self.inlined:
            last = block.last_op
            if isinstance(last, FallOp) and not last.successors:
                last.successors = [continuation]
                continue
            if not isinstance(last, Return):
                continue
            places = places_of(last)
            returned = [last.operands[i] for i in places.returned]
            passed = [last.operands[i] for i, _, _, _ in passed_of(last, places)]
            if block is self.inlined[-1] and not last.guard:
                new: Operation = create(FallOp, returned, (), {}, {}, (continuation,), last.location)
            else:
                labelled = True
                properties: dict[str, Attribute] = {"layout": layout_attr((Target("0"),))}
                guard: list[SSAValue] = []
                if last.guard:
                    properties["guard"] = last.properties["guard"]
                    guard = [last.operands[places.guard]]
                targets = (continuation, *last.successors)
                new = create(Branch, [*guard, *returned, *passed], (), properties, {}, targets, last.location)
            block.insert_op_before(new, last)
            erase(last)
        if labelled:
            label = create(LabelOp, (), (), {"label": string_attr(self.names.name("$L__inlined"))}, {})
            first = continuation.first_op
            assert first is not None
            continuation.insert_op_before(label, first)
