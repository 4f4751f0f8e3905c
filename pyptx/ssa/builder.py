"""Statements -> SSA: blocks, block arguments, ties and operands of one function.

Only labels that are branched to start blocks. A register whose single definition dominates all its uses goes straight
through; for the rest, block arguments are placed on iterated dominance frontiers, pruned by liveness (int bitsets),
and renamed in preorder of the dominator tree with an undo log. Everything is ordered, so the same statements give the
same IR in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import UNKNOWN_LOC, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects.ptx.attributes import layout_attr, string_attr
from ..dialects.ptx.structure import FallOp, FunctionOp, ParameterOp, UndefOp, text_attr
from ..dialects.ptx.style import Style, style_numbers
from ..dialects.ptx.syntax import Layout, Target
from ..dialects.ptx.types import RegType, register_type
from . import in_flight
from .fastir import add_ops, create, line_location
from .graph import Dominators, dominance_frontiers, dominators
from .shapes import with_trivia
from .statement import FunctionSource as FunctionSource
from .statement import Kind, Reg, Shape, Statement
from .statement import UnresolvedLabel as UnresolvedLabel

Path = tuple[int, ...]
"""The scopes that a place is in, outermost first."""
Place = tuple[int, str]
"""A scope and a label in it."""
"""Scopes from the outermost to the innermost."""


def build_function(
    source: FunctionSource,
    style: Style,
    filename: StringAttr | None = None,
    problems: list[UnresolvedLabel] | None = None,
) -> FunctionOp:
    """The function op for a source. Branches to labels that do not exist are reported in `problems`."""
    location = UNKNOWN_LOC if filename is None else line_location(filename, source.line, 1)
    if not source.has_body:
        return create(source.op_class, (), (), source.properties, source.attributes, (), location)
    blocks = _Builder(source, style, filename, problems if problems is not None else []).build()
    region = Region(blocks)
    return create(source.op_class, (), (), source.properties, source.attributes, (), location, (region,))


class _Builder:
    def __init__(
        self, source: FunctionSource, style: Style, filename: StringAttr | None, problems: list[UnresolvedLabel]
    ):
        self.source, self.style, self.filename, self.problems = source, style, filename, problems
        self.style_number = style_numbers[style]
        self.blocks: list[list[Statement]] = []
        self.successors: list[list[int]] = []
        self.label_indices: list[int] = []
        self.exposed: list[dict[Reg, None]] = []
        self.defined: list[list[Reg]] = []
        self.arguments: list[Sequence[Reg]] = []

    def build(self) -> list[Block]:
        self._split_into_blocks()
        if any(s[0].instruction is not None and s[0].instruction.in_flight for b in self.blocks for s in b):
            in_flight.carry(self.blocks, self.successors)
        self._collect_uses()
        tree = dominators(self.successors)
        self._place_arguments(tree)
        return self._rename(tree)

    # ------------------------------------------------------------------------------------------------------ blocks

    def _split_into_blocks(self) -> None:  # noqa: C901  over every statement: a call for each costs too much
        statements = self.source.statements
        labels, tables, wanted = self._branches()
        instruction = Kind.INSTRUCTION

        def resolve(label: str, path: Path) -> Place | None:
            for s in reversed(path):
                if (s, label) in labels:
                    return (s, label)
            return None

        def labels_of(shape: Shape, name: str, path: Path) -> tuple[list[str], Path]:
            """The labels that a branch may go to, and the scopes in which they are looked up."""
            if shape.instruction is not None and not shape.instruction.jumps:  # it names a list
                for s in reversed(path):
                    if (s, name) in tables:
                        return tables[s, name]
            return [name], path

        targets: set[tuple[int, str] | None] = set()
        for shape, name, path in wanted:
            listed, scopes = labels_of(shape, name, path)
            targets.update(resolve(x, scopes) for x in listed)

        current: list[Statement] = []
        blocks = [current]
        at: dict[tuple[int, str], tuple[int, int]] = {}  # label -> (block, index among the labels at its head)
        paths: list[Path] = [(0,)]
        scope = 0
        stack = []
        ended = False
        heads = 0
        for statement in statements:
            kind = statement[0].kind
            if kind is instruction and not ended:
                current.append(statement)
                continue
            if kind == Kind.LABEL and (scope, statement[4]) in targets:
                only_labels = heads > 0 and heads == len(current)
                if not only_labels:
                    if current or len(blocks) == 1:  # the entry block may not be branched to
                        current = []
                        blocks.append(current)
                        paths.append((*stack, scope))
                    heads = 0
                ended = False
                at[(scope, statement[4])] = (len(blocks) - 1, heads)
                current.append(statement)
                heads += 1
                continue
            if ended:
                current = []
                blocks.append(current)
                paths.append((*stack, scope))
                heads = 0
                ended = False
            if kind == Kind.LABEL and heads == len(current) and heads:
                heads += 1
            current.append(statement)
            if kind == Kind.OPEN:
                stack.append(scope)
                scope = int(statement[4])
            elif kind == Kind.CLOSE:
                scope = stack.pop() if stack else 0
            elif kind == Kind.TERMINATOR:
                ended = True
                paths[-1] = (*stack, scope)
        self.blocks = blocks
        self.source.statements = []  # from here on the blocks hold them, and each lets go when it is built
        self._connect(paths, at, labels_of, resolve)

    def _branches(
        self,
    ) -> tuple[dict[Place, int], dict[Place, tuple[list[str], Path]], list[tuple[Shape, str, Path]]]:
        """The labels, the lists of labels, and the branches, each with the scopes that it is in."""
        labels: dict[tuple[int, str], int] = {}
        tables: dict[tuple[int, str], tuple[list[str], Path]] = {}
        wanted: list[tuple[Shape, str, Path]] = []
        scope = 0
        stack: list[int] = []
        previous_label = ""
        instruction = Kind.INSTRUCTION
        for shape, _, _, _, name in self.source.statements:
            kind = shape.kind
            if kind is instruction:
                continue
            if kind == Kind.LABEL:
                labels[(scope, name)] = -1
                previous_label = name
            elif kind == Kind.OPEN:
                stack.append(scope)
                scope = int(name)
            elif kind == Kind.CLOSE:
                scope = stack.pop() if stack else 0
            elif kind == Kind.TABLE:
                if listed := name or previous_label:  # a list without a label can be no branch's table
                    tables[scope, listed] = (cast("list[str]", shape.payload), (*stack, scope))
            elif kind == Kind.TERMINATOR and name:
                wanted.append((shape, name, (*stack, scope)))
        return labels, tables, wanted

    def _connect(
        self,
        paths: list[Path],
        at: dict[Place, tuple[int, int]],
        labels_of: Callable[[Shape, str, Path], tuple[list[str], Path]],
        resolve: Callable[[str, Path], Place | None],
    ) -> None:
        """The successors of each block."""
        blocks, count = self.blocks, len(self.blocks)
        self.successors = [[] for _ in blocks]
        self.label_indices = [0] * count
        for i, block in enumerate(blocks):
            last = block[-1] if block else None
            if last is None or last[0].kind != Kind.TERMINATOR:
                if i + 1 < count:
                    self.successors[i].append(i + 1)
                continue
            shape, _, _, line, name = last
            names, path = labels_of(shape, name, paths[i]) if name else ([], paths[i])
            reached: dict[int, None] = {}
            for label in names:
                key = resolve(label, path)
                if key is None:
                    self.problems.append(UnresolvedLabel(label, line, last))
                    continue
                block_index, self.label_indices[i] = at[key]
                reached[block_index] = None
            self.successors[i] += reached
            if shape.guard >= 0 and i + 1 < count:
                self.successors[i].append(i + 1)

    # -------------------------------------------------------------------------------------------------------- uses

    def _collect_uses(self) -> None:  # noqa: C901  over every statement: a call for each costs too much
        outputs = self.source.outputs
        for reg in self.source.inputs:
            reg.definitions = 1
            reg.block = reg.first = 0
        for b, block in enumerate(self.blocks):
            exposed: dict[Reg, None] = {}
            defined: list[Reg] = list(self.source.inputs) if b == 0 else []
            for shape, regs, _, _, _ in block:
                if regs:
                    for i in shape.read:
                        if regs[i].block != b:
                            exposed[regs[i]] = None
                    if shape.guard >= 0 and regs[shape.guard].block != b:
                        exposed[regs[shape.guard]] = None
                    for i in shape.tied:
                        if regs[i].block != b:
                            exposed[regs[i]] = None
                    for i in shape.written:
                        reg = regs[i]
                        reg.definitions += 1
                        if reg.block != b:
                            reg.block = b
                            defined.append(reg)
                            if reg.first < 0:
                                reg.first = b
                if outputs and shape.instruction is not None and shape.instruction.returns:
                    for reg in outputs:
                        if reg.block != b:
                            exposed[reg] = None
            self.exposed.append(exposed)
            self.defined.append(defined)

    # ------------------------------------------------------------------------------------------------------ arguments

    def _place_arguments(self, tree: Dominators) -> None:
        """Decide which registers need block arguments, and where."""
        count = len(self.blocks)
        self.arguments = [()] * count
        renamed = self._renamed(tree)
        if not renamed or count == 1:
            return
        for k, reg in enumerate(renamed):
            reg.bit = 1 << k
        used, killed = [0] * count, [0] * count
        for b in range(count):
            bits = 0
            for reg in self.exposed[b]:
                bits |= reg.bit
            used[b] = bits
            bits = 0
            for reg in self.defined[b]:
                bits |= reg.bit
            killed[b] = bits
        live = self._live(tree, used, killed)
        frontiers = dominance_frontiers(tree)
        phi = [0] * count
        work = [b for b in tree.order if killed[b] and frontiers[b]]
        while work:
            b = work.pop()
            bits = killed[b] | phi[b]
            for f in frontiers[b]:
                new = bits & live[f] & ~phi[f]
                if new:
                    phi[f] |= new
                    if frontiers[f]:
                        work.append(f)
        for b, bits in enumerate(phi):
            here: list[Reg] = []
            while bits:
                low = bits & -bits
                here.append(renamed[low.bit_length() - 1])
                bits ^= low
            self.arguments[b] = here

    def _renamed(self, tree: Dominators) -> list[Reg]:
        """The registers that hold several values, or are read where their definition does not dominate."""
        renamed: list[Reg] = []
        for defined in self.defined:
            for reg in defined:
                if reg.definitions > 1 and not reg.bit:
                    reg.bit = 1
                    renamed.append(reg)
        for b in range(len(self.blocks)):
            if not tree.reachable(b):
                continue
            for reg in self.exposed[b]:
                if reg.bit or not reg.definitions:
                    continue
                first = reg.first
                if first == b or not tree.reachable(first) or not tree.dominates(first, b):
                    reg.bit = 1
                    renamed.append(reg)
        return renamed

    def _live(self, tree: Dominators, used: list[int], killed: list[int]) -> list[int]:
        """The registers (as bits) that are live where each block begins."""
        live = list(used)
        changed = True
        while changed:
            changed = False
            for b in reversed(tree.order):
                out = 0
                for s in self.successors[b]:
                    out |= live[s]
                out = used[b] | (out & ~killed[b])
                if out != live[b]:
                    live[b] = out
                    changed = True
        return live

    # -------------------------------------------------------------------------------------------------------- rename

    def _rename(self, tree: Dominators) -> list[Block]:  # noqa: C901  over every statement: a call for each costs too much
        made = [Block(arg_types=[_type(r) for r in args]) for args in self.arguments]
        reachable = tree.preorder
        sequence = reachable
        if len(reachable) != len(made):
            sequence = reachable + [b for b in range(len(made)) if not tree.reachable(b)]
        log: list[tuple[Reg, SSAValue | None]] = []
        marks: list[tuple[int, int]] = []
        style, filename, locations = self.style, self.filename, self.source.locations
        style_number = self.style_number
        outputs = self.source.outputs
        label, terminator_kind = Kind.LABEL, Kind.TERMINATOR
        for b in sequence:
            if tree.reachable(b):
                while marks and not tree.dominates(marks[-1][0], b):
                    _undo(log, marks.pop()[1])
                marks.append((b, len(log)))
            block = made[b]
            ops: list[Operation] = []
            append = ops.append
            for reg, value in zip(self.arguments[b], block.args, strict=True):
                log.append((reg, reg.value))
                reg.value = value
            if b == 0 and self.source.inputs:
                op = create(ParameterOp, (), [_type(r) for r in self.source.inputs], {}, {})
                append(op)
                for reg, value in zip(self.source.inputs, op.results, strict=True):
                    reg.value = value

            def undefined(reg: Reg, append: object = append) -> SSAValue:
                op = create(UndefOp, (), (_type(reg),), {}, {})
                append(op)  # pyright: ignore
                value = op.results[0]
                log.append((reg, reg.value))
                reg.value = value
                return value

            terminator: Statement | None = None
            values: list[SSAValue] = []
            for statement in self.blocks[b]:
                shape, regs, lead, line, name = statement
                properties = shape.properties
                attributes = shape.attributes if shape.styled else shape.trivia.get(style_number)
                if attributes is None:
                    attributes = with_trivia(shape, style, style_number)
                assert properties is not None and shape.op_class is not None
                if lead:
                    attributes = dict(attributes)
                    attributes["lead"] = text_attr(lead)
                kind = shape.kind
                if kind is label:
                    properties = dict[str, Attribute](label=string_attr(name))
                values = [regs[i].value or undefined(regs[i]) for i in shape.read] if regs else []
                if outputs and shape.instruction is not None and shape.instruction.returns:
                    values.extend(r.value or undefined(r) for r in outputs)
                if regs:
                    if shape.guard >= 0:
                        reg = regs[shape.guard]
                        values.append(reg.value or undefined(reg))
                    for i in shape.tied:
                        values.append(regs[i].value or undefined(regs[i]))
                if kind is terminator_kind:
                    terminator = statement
                    break
                if filename is not None:
                    location = line_location(filename, line, shape.column)
                else:
                    location = UNKNOWN_LOC if locations is None else locations[line]
                if written := shape.written:
                    types = [regs[i].type or _type(regs[i]) for i in written]
                    op = create(shape.op_class, values, types, properties, attributes, (), location)
                    results = iter(op.results)
                    for i in written:
                        reg = regs[i]
                        if reg.bit:
                            log.append((reg, reg.value))
                        reg.value = next(results)
                else:
                    op = create(shape.op_class, values, (), properties, attributes, (), location)
                append(op)
            else:
                values = []
            for s in self.successors[b]:
                values.extend(r.value or undefined(r) for r in self.arguments[s])
            targets = [made[s] for s in self.successors[b]]
            if terminator is None:
                append(create(FallOp, values, (), {}, {}, targets))
            else:
                append(self._terminator(terminator, values, targets, self.label_indices[b]))
            add_ops(block, ops)
            self.blocks[b] = []
        return made

    def _terminator(
        self, statement: Statement, values: list[SSAValue], targets: list[Block], label_index: int
    ) -> Operation:
        shape, _, lead, line, name = statement
        assert shape.properties is not None and shape.op_class is not None
        properties = shape.properties
        attributes = shape.attributes if shape.styled else with_trivia(shape, self.style, self.style_number)
        if shape.instruction is not None and shape.instruction.returns and self.source.outputs:
            properties = {**properties, "silent": string_attr(f"{len(self.source.outputs)},0")}
        if lead:
            attributes = {**attributes, "lead": text_attr(lead)}
        jumps = any(isinstance(o, Target) for o in shape.layout)
        if jumps and label_index:
            properties = {**properties, "layout": layout_attr(_retarget(shape, str(label_index)))}
        elif jumps and any(p.label == name for p in self.problems):
            properties = {**properties, "layout": layout_attr(_retarget(shape, name))}
        if self.filename is not None:
            location = line_location(self.filename, line, shape.column)
        else:
            location = UNKNOWN_LOC if self.source.locations is None else self.source.locations[line]
        return create(shape.op_class, values, (), properties, attributes, targets, location)


def _retarget(shape: Shape, name: str) -> Layout:
    return tuple(Target(name) if isinstance(o, Target) else o for o in shape.layout)


def _type(reg: Reg) -> RegType:
    if reg.type is None:
        reg.type = register_type(reg.register_class, reg.name, reg.scope)
    return reg.type


def _undo(log: list[tuple[Reg, SSAValue | None]], mark: int) -> None:
    while len(log) > mark:
        reg, value = log.pop()
        reg.value = value
