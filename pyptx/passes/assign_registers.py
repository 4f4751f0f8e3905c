"""`ptx-assign-registers`: give every value a register that still holds it where it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import ClassVar, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ..analysis.cfg import cfg_of
from ..analysis.checks import check_registers, check_scopes
from ..dialects.ptx.attributes import layout_attr, string_attr
from ..dialects.ptx.control import Branch, Return
from ..dialects.ptx.conversion import Cvt
from ..dialects.ptx.instruction import Instruction, slot_properties
from ..dialects.ptx.move import Mov
from ..dialects.ptx.structure import (
    FallOp,
    FunctionOp,
    LabelListOp,
    LabelOp,
    ParameterOp,
    RegisterOp,
    ScopeBeginOp,
    ScopeEndOp,
    TokensAttr,
    UndefOp,
    head_labels,
)
from ..dialects.ptx.syntax import PLACEHOLDERS, Symbol, Target, transform
from ..dialects.ptx.types import RegType
from ..ssa.fastir import create, set_type
from ..ssa.shapes import table_name
from .coalesce import name_blank_values
from .fresh import FreshNames, FreshRegisters
from .operands import passed_of, places_of
from .ptx_pass import FunctionPass

_ROUNDS = 50


class AssignRegisters(FunctionPass):
    """Name blank values and repair stale ones.

    Contract: afterwards every value has a register, every use reads a register that still holds its value
    (`check_module` is clean), and the program does what its SSA form says. Blank values share a register with
    the block arguments, results and returned registers they feed where their lives allow it, and get a new
    one otherwise; where a block argument, a tied operand or a returned register needs a value from another
    register, a `mov` goes before the branch or instruction (a branch with several successors gets a new block
    on that edge; moves that overwrite each other's sources are ordered, cycles go through a new register). A
    value whose register is overwritten too early gets a new register, or a copy if its register is fixed.
    Code whose registers are fine keeps its bytes. Idempotent. A new register extends the function's own range
    (`.reg .b32 %r<10>`), or a new range is declared.
    """

    name: ClassVar[str] = "ptx-assign-registers"

    def run_on_function(self, function: FunctionOp) -> None:
        assign_registers(function)


def assign_registers(function: FunctionOp) -> bool:
    """Name and repair the values of one function; whether anything changed. Passes that change values end
    with this.
    """
    assigner = _Assigner(function)
    changed = name_blank_values(function, assigner.fresh, assigner.returned)
    for _ in range(_ROUNDS):
        moved = assigner.move_to_fixed_registers()
        stale = assigner.repair()
        if not moved and not stale:
            break
        changed = True
    else:
        raise RuntimeError(f"the registers of {function.symbol} do not settle")
    assigner.fresh.declare()
    return changed


class _Assigner:
    def __init__(self, function: FunctionOp):
        self.function = function
        self.names = FreshNames(function)
        self.fresh = FreshRegisters(function, self.names)
        self.edges = Edges(function, self.names)
        self.returned = [
            RegType((d.register_class, name, 0)) for d in function.returns if d.space == "reg" for name, _ in d.items
        ]
        self.renamed: set[SSAValue] = set()
        self.copies: dict[SSAValue, SSAValue] = {}

    # ---------------------------------------------------------------------- moves

    def move_to_fixed_registers(self) -> bool:
        """Put moves where a tied operand, a returned register or a block argument gets a value of another
        register.
        """
        changed = False
        for block in self.function.blocks:
            for op in list(block.ops):
                if not op.operands:
                    continue
                places = places_of(op)
                wanted = [(i, op.results[r].type) for i, r in places.ties]
                wanted += zip(places.returned, self.returned, strict=False)
                if len(op.successors) == 1:
                    wanted += [(i, target.args[a].type) for i, _, target, a in passed_of(op, places)]
                changed |= self._move_operands(op, wanted)
                if len(op.successors) > 1:
                    passed = list(passed_of(op, places))
                    moved = {k for i, k, target, a in passed if op.operands[i].type != target.args[a].type}
                    if moved:
                        self.edges.split(op, sorted(moved))
                        changed = True
        # a split edge's block may need moves itself: the next round sees it
        return changed

    def _move_operands(self, op: Operation, wanted: Sequence[tuple[int, object]]) -> bool:
        moves = [(i, cast(RegType, t)) for i, t in wanted if op.operands[i].type != t]
        if not moves:
            return False
        copies = self.parallel_copy(op, [(op.operands[i], t) for i, t in moves])
        for (i, _), copy in zip(moves, copies, strict=True):
            op.operands[i] = copy
        return True

    def parallel_copy(self, before: Operation, moves: Sequence[tuple[SSAValue, RegType]]) -> list[SSAValue]:
        """Moves that happen as if at once: none overwrites a source that another still reads."""
        copies: list[SSAValue | None] = [None] * len(moves)
        pending = {i: source for i, (source, _) in enumerate(moves)}
        writes: dict[Attribute, list[int]] = {}
        for i, (_, type_) in enumerate(moves):
            writes.setdefault(type_, []).append(i)
        readers = Counter(source.type for source in pending.values())
        """How many moves that are still to come read a register."""
        ready = [i for i, (_, type_) in enumerate(moves) if not readers[type_]]

        def let_go(source: SSAValue) -> None:
            readers[source.type] -= 1
            if not readers[source.type]:
                for i in writes.get(source.type, ()):
                    heappush(ready, i)

        while pending:
            if ready:
                i = heappop(ready)
                source = pending.pop(i)
                copies[i] = self._move(source, moves[i][1], before)
            else:  # a cycle: save one source
                i = next(iter(pending))
                source = pending[i]
                type_ = self.fresh.type(cast(RegType, source.type).register_class)
                pending[i] = self._move(source, type_, before)
                readers[type_] += 1
            let_go(source)
        return cast("list[SSAValue]", copies)

    def _move(self, source: SSAValue, type_: RegType, before: Operation) -> SSAValue:
        move = move_op(source, type_, before.location)
        block = before.parent_block()
        assert block is not None
        block.insert_op_before(move, before)
        return move.results[0]

    # ---------------------------------------------------------------------- repair

    def repair(self) -> bool:
        """Give values that are read after their register changed, outside its scope, or where an inner scope
        hides it, another register.
        """
        cfg = cfg_of(self.function)
        stale: dict[SSAValue, dict[Operation, None]] = {}
        for check in (check_registers, check_scopes):
            for violation in check(self.function, cfg):
                if violation.value is not None:
                    if violation.check == "scopes" and violation.value in violation.op.results:
                        self._flatten()  # a register must be written where it has no name
                        return True
                    stale.setdefault(violation.value, {})[violation.op] = None
        copied: dict[Operation, dict[SSAValue, SSAValue]] = {}
        for value, uses in stale.items():
            if not is_fixed(value) and value not in self.renamed:
                self.renamed.add(value)
                set_type(value, self.fresh.type(cast(RegType, value.type).register_class))
                continue
            copy = self.copies.get(value)
            if copy is None:
                copy = self.copies[value] = self._copy_after_definition(value)
            for use in uses:
                copied.setdefault(use, {})[value] = copy
        for use, instead in copied.items():
            for i, operand in enumerate(use.operands):
                if operand in instead:
                    use.operands[i] = instead[operand]
        return bool(stale)

    def _flatten(self) -> None:
        from .flatten_scopes import flatten_scopes

        self.fresh.declare()
        flatten_scopes(self.function)
        self.names = FreshNames(self.function)
        self.fresh = FreshRegisters(self.function, self.names)
        self.edges = Edges(self.function, self.names)

    def _copy_after_definition(self, value: SSAValue) -> SSAValue:
        type_ = self.fresh.type(cast(RegType, value.type).register_class)
        if isinstance(value, BlockArgument):
            block = value.block
            move = move_op(value, type_, UNKNOWN_LOC)
            before = block.first_op
            while isinstance(before, (LabelOp, UndefOp, ParameterOp, RegisterOp)):
                before = before.next_op
            assert before is not None
            block.insert_op_before(move, before)
        else:
            owner = cast(Operation, value.owner)
            move = move_op(value, type_, owner.location)
            block = owner.parent_block()
            assert block is not None
            after: Operation = owner
            if isinstance(owner, ParameterOp):  # the copy must follow the declarations
                while isinstance(after.next_op, (UndefOp, ParameterOp, RegisterOp, LabelOp)):
                    after = after.next_op
            block.insert_op_after(move, after)
        return move.results[0]


def is_fixed(value: SSAValue) -> bool:
    """Whether a value's register is given: a block argument, a register parameter, a result tied to an
    operand.
    """
    if isinstance(value, BlockArgument):
        return True
    op = cast(Operation, value.owner)
    if isinstance(op, ParameterOp):
        return True
    return any(op.results[r] is value for _, r in places_of(op).ties)


def move_op(source: SSAValue, type_: RegType, location: LocationAttr) -> Operation:
    """The op that copies a value into a register of the same class (PTX ISA 9.7.10.3)."""
    register_class = type_.register_class
    vector, _, scalar = register_class.rpartition(".")
    scalar = {"f16": "b16", "f16x2": "b32"}.get(scalar, scalar)
    layout = layout_attr((PLACEHOLDERS["="], PLACEHOLDERS["$"]))
    if scalar in ("b8", "u8", "s8"):  # mov has no 8-bit type
        wide = "s8" if scalar == "s8" else "u8"
        return create(
            Cvt,
            (source,),
            (type_,),
            {"dtype": string_attr(wide), "atype": string_attr(wide), "layout": layout},
            {},
            (),
            location,
        )
    if scalar == "pred" or scalar == "b128":
        candidates = Mov.candidates((scalar,))
    else:
        candidates = Mov.candidates((vector, scalar) if vector else (scalar,))
    form, slots = candidates[0]
    properties = {**slot_properties(form, slots), "layout": layout}
    return create(Mov, (source,), (type_,), properties, {}, (), location)


# ---------------------------------------------------------------------- edges


def split_edge(function: FunctionOp, op: Operation, successor: int, names: FreshNames) -> Block:
    """Put a new block on one edge of a branch; it takes over what the branch passed along that edge."""
    return Edges(function, names).split(op, (successor,))[0]


class Edges:
    """Puts new blocks on edges of a function, and knows where its scopes and lists of labels are."""

    def __init__(self, function: FunctionOp, names: FreshNames) -> None:
        self.function, self.names = function, names
        self._look()

    def _look(self) -> None:
        self._in_scope: set[Block] = set()
        self._tables: dict[str, LabelListOp] = {}
        self._users: Counter[str] = Counter()
        depth = 0
        for block in self.function.blocks:
            if depth:
                self._in_scope.add(block)
            for op in block.ops:
                if isinstance(op, Instruction):
                    self._users.update({o.name for o in op.layout if isinstance(o, Symbol)})
                elif isinstance(op, LabelListOp):
                    self._tables.setdefault(op.list_name, op)
                else:
                    depth += isinstance(op, ScopeBeginOp) - isinstance(op, ScopeEndOp)

    def split(self, op: Operation, successors: Sequence[int]) -> list[Block]:
        """Put a new block on some edges of a branch; each takes over what the branch passed along its edge."""
        passed: dict[int, list[SSAValue]] = {k: [] for k in successors}
        kept: list[SSAValue] = list(op.operands)[: places_of(op).passed]
        for i, k, _, _ in passed_of(op):
            passed.get(k, kept).append(op.operands[i])
        targets = list(op.successors)
        renamed: dict[str, str] = {}
        made = [self._block(op, k, passed[k], renamed) for k in successors]
        if renamed:
            self._retarget(op, renamed)
        for k, new in zip(successors, made, strict=True):
            targets[k] = new
        op.operands = kept
        op.successors = targets
        return made

    def _block(self, op: Operation, successor: int, passed: Sequence[SSAValue], renamed: dict[str, str]) -> Block:
        """The block for one edge. A branch to it has a new label, which `renamed` has for the old ones."""
        target = op.successors[successor]
        region, source = self.function.regions[0], op.parent_block()
        assert source is not None
        if successor == len(op.successors) - 1 and (isinstance(op, FallOp) or places_of(op).guard >= 0):
            new = Block([create(FallOp, passed, (), {}, {}, (target,), op.location)])
            region.insert_block_after(new, source)
            return new
        if target in self._in_scope:
            from .flatten_scopes import flatten_scopes

            flatten_scopes(
                self.function
            )  # at the end of the function an inner scope's registers and labels have no name
            self._look()
        last = region.last_block
        assert last is not None
        _end_properly(last)
        name = self.names.name("$L__edge")
        label = create(LabelOp, (), (), {"label": string_attr(name)}, {})
        jump = create(Branch, passed, (), {"layout": layout_attr((Target("0"),))}, {}, (target,), op.location)
        new = Block([label, jump])
        region.add_block(new)
        renamed.update({head.label: name for head in head_labels(target)})
        return new

    def _retarget(self, op: Operation, renamed: Mapping[str, str]) -> None:
        """Make the text of a branch name new blocks: its label index, or the words of its table."""
        if not isinstance(op, Instruction):
            return
        if op.jumps:
            op.layout = transform(op.layout, lambda o: Target("0") if isinstance(o, Target) else o)
            return
        goes_by = table_name(op.layout)
        table = self._tables[goes_by]
        words = tuple([renamed.get(w, w) for w in table.words])
        if self._users[goes_by] == 1:
            table.words = words
            return
        fresh = self.names.name(goes_by)
        copy = create(LabelListOp, (), (), {"label": string_attr(fresh), "words": TokensAttr(words)}, {})
        block = table.parent_block()
        assert block is not None
        block.insert_op_after(copy, table)
        op.layout = transform(
            op.layout, lambda o: Symbol(fresh, o.offset) if isinstance(o, Symbol) and o.name == goes_by else o
        )
        self._tables[fresh] = copy
        self._users[goes_by] -= 1
        self._users[fresh] = 1


def _end_properly(last: Block) -> None:
    """A function that ends by falling off its end returns there, before more blocks come after it."""
    op = last.last_op
    if isinstance(op, FallOp) and not op.successors:
        op.detach()
        op.erase()
        last.add_op(create(Return, (), (), {"layout": layout_attr(())}, {}))
