"""`ptx.entry` -> `Program`: the one place of the simulator that reads the IR.

Registers become slots, symbols become addresses, blocks become segments, labels become numbers. Silent ops
(undef, fall, scopes,
registers, directives) vanish. Functions the entry can reach are placed before their callers, so that running
the lowest segment first
brings threads of different call sites together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Block, Operation, SSAValue

from ...diagnostics import Diagnostic, SimulationError
from ...dialects.ptx import syntax
from ...dialects.ptx.control import Branch, BranchIndexed, Call, Exit
from ...dialects.ptx.instruction import Instruction, find_opcode, silent_registers, verdict_of
from ...dialects.ptx.misc import Trap
from ...dialects.ptx.special_registers import own_bits
from ...dialects.ptx.stack import Alloca
from ...dialects.ptx.structure import (
    DeclarationAttr,
    FunctionOp,
    LabelListOp,
    ParameterOp,
    ScopeBeginOp,
    ScopeEndOp,
    UnknownOp,
    VariableOp,
    head_labels,
)
from ...dialects.ptx.syntax import plain_name
from ...dialects.ptx.types import SCALAR_TYPES, RegType, class_bits, takes_added_constant
from ...printer.ptx import print_op
from ..machine.program import (
    LOCAL_BASE,
    PARAMETER_BASE,
    SHARED_BASE,
    Address,
    Args,
    Formal,
    Function,
    Imm,
    Inst,
    Name,
    Negative,
    Not,
    Operand,
    Pair,
    Parameter,
    Part,
    Place,
    Program,
    Reg,
    Segment,
    Sink,
    Special,
    Vec,
    leaves,
)
from ..machine.registry import find_key, waits
from ..semantics.builtins import BUILTINS
from .call_graph import reach, symbols_in
from .image import Image, Variable, align, code_address, element_bytes, natural_alignment

STACK_LIMIT = 16 * 1024
"""Bytes of stack a thread has for functions that may call themselves, and again for `alloca`."""


def pool_of(bits: int) -> str:
    return "p" if bits == 1 else str(max(8, bits))


def decode(image: Image, entry: FunctionOp, target: str) -> Program:
    """Decode one entry and what it calls. SimulationError for what has no place in a program (an undefined
    function).
    """
    return _Decoder(image, entry, target).decode()


class _Decoder:
    def __init__(self, image: Image, entry: FunctionOp, target: str):
        self.image, self.entry, self.target = image, entry, target
        self.pools = {pool: 0 for pool in ("p", "8", "16", "32", "64", "128")}
        self.segments: list[Segment] = []
        self.instructions: list[Inst] = []
        self.functions: dict[str, Function] = {}
        self.shared: dict[str, Place] = {}
        self.placed: dict[str, Place] = {}
        self.shared_top = SHARED_BASE
        self.dynamic_alignment = 16
        self.local_top = LOCAL_BASE
        self.frame_pointers: list[Reg] = []
        self.floats: set[Reg] = set()

    def decode(self) -> Program:
        order, recursive = reach(self.image, self.entry)
        self._place_shared(order)
        for symbol in order:
            function = Function(symbol, self.image.functions[symbol])
            function.builtin = self.image.operations[symbol].is_declaration
            if function.builtin and symbol not in BUILTINS:
                raise SimulationError(
                    f"the kernel calls {symbol}, which is declared but not "
                    "defined in this module: link its definition in"
                )
            self.functions[symbol] = function
            if symbol in recursive:
                function.frame = self._new_reg("32")
                self.frame_pointers.append(function.frame)
        for symbol in order:
            if not self.functions[symbol].builtin:
                _FunctionDecoder(self, self.functions[symbol], self.image.operations[symbol]).decode()
        stack = align(self.local_top, 16)
        dynamic = stack + (STACK_LIMIT if recursive else 0)
        takes = any(i.family is Alloca for i in self.instructions)
        self._find_local_registers()
        parameters = _parameters(self.entry)
        directives = {
            name: numbers
            for name in (
                ".maxntid",
                ".reqntid",
                ".reqnctapercluster",
                ".explicitcluster",
                ".maxclusterrank",
                ".maxnreg",
                ".minnctapersm",
                ".minperctamemory",
            )
            if (numbers := self.entry.numbers(name)) is not None
        }
        return Program(
            self.entry.symbol,
            self.segments,
            list(self.functions.values()),
            self.functions[self.entry.symbol].entry,
            parameters,
            self.pools,
            self.shared_top - SHARED_BASE,
            align(self.shared_top, self.dynamic_alignment),
            dynamic + (STACK_LIMIT if takes else 0),
            stack,
            dynamic,
            self.frame_pointers,
            self.target,
            directives,
            self.instructions,
            frozenset(self.floats),
            self.placed,
            self.image.sources,
        )

    # ----------------------------------------------------------------------------------------------------
    # call graph

    def _place_shared(self, order: Sequence[str]) -> None:
        used = {
            plain_name(s)
            for symbol in order
            for b in self.image.operations[symbol].blocks
            for op in b.ops
            for s in symbols_in(op)
        }
        for v in self.image.variables.values():
            if v.space != "shared" or plain_name(v.name) not in used:
                continue
            self.shared[v.name] = self.place_shared(v.declaration, v.index)

    def place_shared(self, declaration: DeclarationAttr, index: int) -> Place:
        name, tail = declaration.items[index]
        alignment = natural_alignment(declaration)
        size = declaration.size(index)
        if not size and tail[:1] == ("[",):
            self.dynamic_alignment = max(self.dynamic_alignment, alignment)
            place = Place("shared", 0, name, -1, None, element_bytes(declaration.type))
            return self.placed.setdefault(name, place)  # after all static variables
        address = align(self.shared_top, alignment)
        self.shared_top = address + size
        place = Place("shared", address, name, size, None, element_bytes(declaration.type))
        self.placed.setdefault(name, place)
        return place

    def _new_reg(self, pool: str) -> Reg:
        reg = Reg(pool, self.pools[pool])
        self.pools[pool] += 1
        return reg

    new_reg = _new_reg

    def _find_local_registers(self) -> None:
        """Which registers no segment reads before it writes them: those need not be kept for inactive
        lanes.
        """
        exposed: set[Reg] = set()
        for segment in self.segments:
            defined: set[Reg] = set()
            for inst in segment.instructions:
                for reg in inst.read:
                    if reg not in defined:
                        exposed.add(reg)
                if inst.guard is None and segment.ends != "call":
                    defined.update(inst.written)
            if segment.ends == "call" and segment.last is not None:
                exposed.update(segment.last.written)
            if segment.ends == "sync" and segment.last is not None:
                exposed.update(segment.last.written)
        for function in self.functions.values():
            exposed.update(r for f in (*function.parameters, *function.returns) for r in f.registers)
        for inst in self.instructions:
            inst.local = frozenset(r for r in inst.written if r not in exposed)


def _place_of(v: Variable, offset: int) -> Place:
    return Place(v.space, v.address + offset, v.name, v.size, None, element_bytes(v.declaration.type))


def _parameters(entry: FunctionOp) -> list[Parameter]:
    found: list[Parameter] = []
    top = 0
    for declaration in entry.parameters:
        for index, (name, tail) in enumerate(declaration.items):
            alignment = natural_alignment(declaration)
            offset = align(top, alignment)
            size = declaration.size(index)
            found.append(Parameter(name, declaration.type, size, offset, tail[:1] == ("[",), alignment))
            top = offset + size
    return found


class _Operands:
    """The operands of one instruction, and the registers that it reads and writes."""

    def __init__(self, function: _FunctionDecoder, op: Instruction):
        self.function, self.op = function, op
        self.values, self.results = list(op.operands), list(op.results)
        self.values_taken = self.results_taken = 0
        self.read: list[Reg] = []
        self.written: list[Reg] = []

    def register(self, r: syntax.Register) -> Reg | Vec | Part:
        if r.role == "$":
            found = self.function.value(self.values[self.values_taken])
            self.values_taken += 1
        else:
            found = self.function.value(self.results[self.results_taken])
            self.results_taken += 1
        part = ""
        if r.member and isinstance(found, Vec):
            found = found.elements["xyzwrgba".index(r.member[1]) % 4]
        elif r.member:
            part = r.member[1:]
        (self.read if r.role == "$" else self.written).extend(x for x in leaves(found) if isinstance(x, Reg))
        if r.role == "~":
            self.read.extend(x for x in leaves(found) if isinstance(x, Reg))
        if part:
            assert isinstance(found, Reg)
            return Part(found, part)
        return cast("Reg | Vec", found)

    def operand(self, o: syntax.Operand) -> Operand:
        match o:
            case syntax.Register():
                return self.register(o)
            case syntax.Immediate(text):
                return _immediate(text)
            case syntax.SpecialRegister(name):
                return Special(name)
            case syntax.Sink():
                return Sink()
            case syntax.Not(inner, mark):
                return Not(self.operand(inner)) if mark == "!" else Negative(self.operand(inner))
            case syntax.Pair(first, second):
                return Pair(self.operand(first), self.operand(second))
            case syntax.Vector(elements):
                return Vec(tuple(map(self.operand, elements)))
            case syntax.Arguments(elements):
                return Args(tuple(map(self.operand, elements)))
            case syntax.Target(name):
                return Name(name)
            case _:
                return self.place(o)

    def place(self, o: syntax.Operand) -> Operand:
        """An operand that is an address or names one."""
        match o:
            case syntax.Symbol(name, offset):
                return self.function.resolve(name, _offset(offset))
            case syntax.Sum(inner, offset):
                read_class = cast(RegType, self.values[self.values_taken].type).register_class
                return self.function.sum(self.op, self.operand(inner), read_class, _offset(offset))
            case syntax.Address(base, offset, rest):
                return Address(self.operand(base), _offset(offset), tuple(map(self.operand, rest)))
            case syntax.Element(array, index, offset):
                return self.function.element(self.op, self.operand(array), self.operand(index), _offset(offset))
            case _:
                raise AssertionError(o)


class _FunctionDecoder:
    def __init__(self, decoder: _Decoder, function: Function, op: FunctionOp):
        self.decoder, self.function, self.op = decoder, function, op
        self.registers: dict[object, Reg | Vec] = {}
        self.names: list[dict[str, Place]] = [{}]
        self.tables: dict[str, list[str]] = {}
        self.top = 0 if function.frame else decoder.local_top
        self.limit = self.top
        self.starts: dict[Block, int] = {}
        self.fixes: list[tuple[Segment, list[tuple[Block, list[tuple[Reg, Reg]]]], Block | None]] = []
        self.cc = Reg("p", -1)
        self.before: list[Inst] = []
        """What the instruction being decoded needs done before it."""
        self.pool_start = dict(decoder.pools)

    #
    #
    #
    #
    # ---------------------------------------------------------------------------------------------------------- names

    def _declare(self, declaration: DeclarationAttr, index: int) -> Place:
        name = declaration.items[index][0]
        space = declaration.space
        if space == "shared":
            place = self.decoder.place_shared(declaration, index)
        elif space in ("local", "param"):
            self.top = align(self.top, max(natural_alignment(declaration), 1))
            size = declaration.size(index)
            place = Place("local", self.top, name, size, self.function.frame, element_bytes(declaration.type))
            self.top += size
            self.limit = max(self.limit, self.top)
        else:
            raise SimulationError(f"a .{space} variable ({name}) inside a function cannot be simulated")
        self.names[-1][name] = place
        return place

    def resolve(self, name: str, offset: int) -> Operand:
        for scope in reversed(self.names):
            if name in scope:
                place = scope[name]
                return replace(place, address=place.address + offset)
        image = self.decoder.image
        if name in self.decoder.shared:
            place = self.decoder.shared[name]
            return replace(place, address=place.address + offset)
        if name in image.variables:
            return _place_of(image.variables[name], offset)
        if name in image.functions:
            return Place("code", code_address(image.functions[name]), name)
        plain = plain_name(name)
        return Name(name) if plain == name else self.resolve(plain, offset)

    # -------------------------------------------------------------------------------------------------------
    # registers

    def value(self, value: SSAValue) -> Reg | Vec:
        register_class, name, scope = cast(RegType, value.type).data
        key: object = (name, scope) if name else value
        found = self.registers.get(key)
        if found is None:
            found = self.registers[key] = self._new_register(register_class)
        return found

    def _new_register(self, register_class: str) -> Reg | Vec:
        vector, _, scalar = register_class.rpartition(".")
        pool = pool_of(class_bits(scalar))
        count = int(vector[1:]) if vector else 1
        registers = tuple(self.decoder.new_reg(pool) for _ in range(count))
        if scalar in ("f32", "f64"):
            self.decoder.floats.update(registers)
        return Vec(registers) if vector else registers[0]

    def _moves(self, pairs: Iterable[tuple[SSAValue, SSAValue]]) -> list[tuple[Reg, Reg]]:
        """(destination, source) of the copies that (destination value, source value) need."""
        moves: list[tuple[Reg, Reg]] = []
        for destination, source in pairs:
            if destination.type is source.type and cast(RegType, source.type).data[1]:
                continue
            d, s = self.value(destination), self.value(source)
            if d != s:
                moves += [
                    (a, b)
                    for a, b in zip(leaves(d), leaves(s), strict=True)
                    if isinstance(a, Reg) and isinstance(b, Reg)
                ]
        return moves

    #
    #
    #
    #
    # --------------------------------------------------------------------------------------------------------- segments

    def decode(self) -> None:
        function, decoder = self.function, self.decoder
        self.cc = decoder.new_reg("p")
        if self.op.is_entry:
            for p in _parameters(self.op):
                place = Place("param", PARAMETER_BASE + p.offset, p.name, p.size, None, element_bytes(p.type))
                self.names[0][p.name] = place
        else:
            self._formals()
        blocks = self.op.blocks
        for block in blocks:
            for op in block.ops:
                if isinstance(op, LabelListOp):
                    words = op.words
                    if ".branchtargets" in words:
                        self.tables[op.list_name] = [
                            w for w in words[words.index(".branchtargets") + 1 :] if w not in (",", ";")
                        ]
        for i, block in enumerate(blocks):
            self.starts[block] = len(decoder.segments)
            self._block(block, blocks[i + 1] if i + 1 < len(blocks) else None)
        for segment, edges, after in self.fixes:
            segment.targets = tuple(self._edge(b, moves) for b, moves in edges)
            if after is not None:
                segment.after = self.starts[after]
        function.entry = self.starts[blocks[0]]
        function.frame_size = align(self.limit, 16)
        if function.frame:
            function.frame_size = max(function.frame_size, 16)  # a return address at least, so that recursion ends
        else:
            decoder.local_top = align(self.limit, 16)
        function.registers = {
            pool: (self.pool_start[pool], count)
            for pool, count in decoder.pools.items()
            if count > self.pool_start[pool]
        }

    def _formals(self) -> None:
        inputs = [op for b in self.op.blocks[:1] for op in b.ops if isinstance(op, ParameterOp)]
        registers = list(inputs[0].results) if inputs else []
        taken = 0
        for declaration in self.op.parameters:
            for index in range(len(declaration.items)):
                if declaration.space == "reg":
                    place = self.value(registers[taken])
                    taken += 1
                    self.function.parameters.append(Formal(place, class_bits(declaration.register_class) // 8))
                else:
                    self.function.parameters.append(Formal(self._declare(declaration, index), declaration.size(index)))
        for declaration in self.op.returns:
            for index, (name, _) in enumerate(declaration.items):
                if declaration.space == "reg":
                    place = self._output(name, declaration.register_class)
                    self.function.returns.append(Formal(place, class_bits(declaration.register_class) // 8))
                else:
                    self.function.returns.append(Formal(self._declare(declaration, index), declaration.size(index)))

    def _output(self, name: str, register_class: str) -> Reg | Vec:
        """The register or vector of a `.reg` return parameter."""
        for block in self.op.blocks:
            last = block.last_op
            if last is not None:
                for value in last.operands:
                    data = cast(RegType, value.type).data
                    if data[1] == name and data[2] == 0:
                        return self.value(value)
        return self._new_register(register_class)

    def _edge(self, block: Block, moves: list[tuple[Reg, Reg]]) -> int:
        start = self.starts[block]
        if not moves:
            return start
        self.decoder.segments.append(Segment([self._copies(moves)], "next", None, self.function.number, (), start))
        return len(self.decoder.segments) - 1

    def _copies(self, moves: list[tuple[Reg, Reg]]) -> Inst:
        operands = tuple(Pair(d, s) for d, s in moves)
        inst = Inst("copies", (), (), operands, tuple(d for d, _ in moves), tuple(s for _, s in moves))
        return self._number(inst)

    def _number(self, inst: Inst) -> Inst:
        inst.number = len(self.decoder.instructions)
        self.decoder.instructions.append(inst)
        return inst

    def _segment(
        self, body: list[Inst], ends: str, last: Inst | None, targets: tuple[int, ...] = (), after: int = -1
    ) -> Segment:
        segment = Segment(body, ends, last, self.function.number, targets, after)
        self.decoder.segments.append(segment)
        return segment

    def _block(self, block: Block, following: Block | None) -> None:
        body: list[Inst] = []
        for op in block.ops:
            if not isinstance(op, Instruction):
                self._directive(op, body)
            elif op.terminator:
                self._terminator(op, body, following)
                return
            else:
                body = self._added(op, body)
        last = block.last_op
        successors = list(last._successors) if last is not None else []
        if not successors:
            self._segment(body, "return", None)
            return
        assert last is not None
        arguments = list(last.operands)[len(last.operands) - len(successors[0].args) :]
        moves = self._moves(zip(successors[0].args, arguments, strict=True))
        if moves:
            body.append(self._copies(moves))
        segment = self._segment(body, "next", None)
        self.fixes.append((segment, [], successors[0]))

    def _added(self, op: Instruction, body: list[Inst]) -> list[Inst]:
        """The body with an instruction, or the next one where it ends the segment."""
        moves, inst = self._instruction(op)
        body += self.before
        self.before.clear()
        if moves:
            body.append(self._copies(moves))
        ends = (
            "call" if isinstance(op, Call) else "trap" if isinstance(op, Trap) else "sync" if waits(inst.opcode) else ""
        )
        if not ends:
            body.append(inst)
            return body
        self._segment(body, ends, inst, (), len(self.decoder.segments) + 1)
        return []

    def _directive(self, op: Operation, body: list[Inst]) -> None:
        inner = self.decoder.image.inner
        if isinstance(op, VariableOp):
            for name, declaration, index in op.declaration.variables():
                if (op, name) in inner:
                    self.names[-1][name] = _place_of(inner[op, name], 0)
                else:
                    self._declare(declaration, index)
        elif isinstance(op, ScopeBeginOp):
            self.names.append({})
        elif isinstance(op, ScopeEndOp):
            if len(self.names) > 1:
                self.names.pop()
        elif isinstance(op, UnknownOp):
            inst = Inst("unknown", (), (), (), (), (), text=print_op(op))
            self._place(inst, op)
            body.append(self._number(inst))

    def _terminator(self, op: Instruction, body: list[Inst], following: Block | None) -> None:
        _, inst = self._instruction(op)
        successors = list(op._successors)
        total = sum(len(s.args) for s in successors)
        values = list(op.operands)[len(op.operands) - total :]
        edges: list[tuple[Block, list[tuple[Reg, Reg]]]] = []
        for s in successors:
            edges.append((s, self._moves(zip(s.args, values[: len(s.args)], strict=True))))
            values = values[len(s.args) :]
        guarded = inst.guard is not None
        if isinstance(op, Branch):
            segment = self._segment(body, "branch", inst)
            if not guarded:
                self.fixes.append((segment, edges[:1], None))
            elif len(edges) > 1 and edges[1][1]:
                self.fixes.append((segment, edges[:2], None))
                segment.after = -2  # the second target
            else:
                self.fixes.append((segment, edges[:1], edges[-1][0] if len(edges) > 1 else following))
        elif isinstance(op, BranchIndexed):
            labels = self.tables.get(inst.operands[1].name if isinstance(inst.operands[1], Name) else "", [])
            at = {label.label: edge for edge in edges for label in head_labels(edge[0])}
            segment = self._segment(body, "table", inst)
            self.fixes.append((segment, [at[x] for x in labels if x in at], following if guarded else None))
        else:
            segment = self._segment(body, "exit" if isinstance(op, Exit) else "return", inst)
            if guarded and following is not None:
                self.fixes.append((segment, [], following))

    # ------------------------------------------------------------------------------------------------------
    # instructions

    def _instruction(self, op: Instruction) -> tuple[list[tuple[Reg, Reg]], Inst]:
        self._refuse_illegal(op)
        found = _Operands(self, op)
        values, results = found.values, found.results
        operands = tuple(found.operand(o) for o in op.layout)
        read, written = found.read, found.written
        words = (*op.opcode.split(".")[1:], *op.modifiers)
        root = op.opcode.partition(".")[0]
        key, used = find_key(root, words)
        modifiers = words[used:]
        types = tuple(m for m in modifiers if m in SCALAR_TYPES)
        inst = Inst(key or op.opcode, modifiers, types, operands, (), (), text=_text(op), family=type(op), cc=self.cc)
        inst.frame = self.function.frame
        moves: list[tuple[Reg, Reg]] = []
        silent_reads, _ = silent_registers(op)
        at = found.values_taken + silent_reads
        if op.guard:
            guard = self.value(values[at])
            assert isinstance(guard, Reg)
            inst.guard, inst.negated = guard, op.guard == "@!"
            read.append(guard)
            at += 1
        # what a guarded or partial write leaves must be in the result's own register first
        placed = [r for r in syntax.registers(op.layout) if r.role != "$"]
        tied = [r for r, p in zip(results, placed, strict=False) if op.guard or p.role == "~"]
        if tied:
            moves = self._moves(zip(tied, values[at : at + len(tied)], strict=False))
            read.extend(x for r in tied for x in leaves(self.value(r)) if isinstance(x, Reg))
        if "cc" in modifiers:
            written.append(self.cc)
        if type(op).reads_carry:
            read.append(self.cc)
        inst.written, inst.read = tuple(written), tuple(read)
        self._place(inst, op)
        return moves, self._number(inst)

    def _refuse_illegal(self, op: Instruction) -> None:
        """SimulationError for what no version and target has: the meanings rely on the forms."""
        problem = verdict_of(op, None)[0]
        if problem is None:
            return
        file, line, column = place_of(op)
        message = f"{problem.message} (instruction `{_text(op)}`)"
        raise SimulationError(Diagnostic("error", message, file, line, column, problem.hint))

    def element(self, op: Instruction, array: Operand, index: Operand, offset: int) -> Operand:
        """The address of an element of an array. Of the index times the size of an element the low 32 bits count: with a
        sign where the index is a constant, without one where it is a register. That is what ptxas makes of it.
        """
        assert isinstance(array, Place)
        size = array.element
        if isinstance(index, Imm):
            distance = size * (int(index.value) + offset) & 0xFFFF_FFFF
            address = replace(array, address=array.address + distance - (distance >> 31 << 32))
            return Address(address, 0) if op.access else address
        bits = own_bits(index.name) if isinstance(index, Special) else int(cast(Reg, index).pool)
        low = self._step(op, f"cvt.u32.u{bits}", "32", index)
        scaled = self._step(op, "mad.lo.u32", "32", low, Imm(size), Imm(offset * size & 0xFFFF_FFFF))
        wide = self._step(op, "cvt.u64.u32", "64", scaled)
        start = self._step(op, "mov.u64", "64", array)
        address = self._step(op, "add.u64", "64", wide, start)
        if op.access:
            return Address(address, 0)
        narrow = SCALAR_TYPES[op.modifiers[-1]].bits
        return address if narrow >= 64 else self._step(op, f"cvt.u{narrow}.u64", pool_of(narrow), address)

    def sum(self, op: Instruction, register: Operand, register_class: str, added: int) -> Operand:
        """A register plus a constant as a source: ptxas adds modulo the register's size."""
        if not takes_added_constant(register_class):
            file, line, column = place_of(op)
            message = f"a constant is added to an integer register, not to one of type .{register_class} (instruction `{_text(op)}`)"
            raise SimulationError(Diagnostic("error", message, file, line, column, "add it with an instruction"))
        bits = SCALAR_TYPES[register_class].bits
        constant = Imm(added & (1 << bits) - 1)
        if bits > 8:
            return self._step(op, f"add.u{bits}", str(bits), register, constant)
        wide = self._step(op, "add.u32", "32", self._step(op, "cvt.u32.u8", "32", register), constant)
        return self._step(op, "cvt.u8.u32", "8", wide)

    def _step(self, op: Instruction, spelled: str, pool: str, *operands: Operand) -> Reg:
        """The result of an instruction that is done before the one being decoded."""
        result = self.decoder.new_reg(pool)
        root, *words = spelled.split(".")
        key, used = find_key(root, words)
        family = find_opcode(root, words)
        assert key is not None and family is not None
        modifiers = tuple(words[used:])
        types = tuple(m for m in modifiers if m in SCALAR_TYPES)
        read = tuple(o for o in operands if isinstance(o, Reg))
        inst = Inst(
            key, modifiers, types, (result, *operands), (result,), read, text=_text(op), family=family[0], cc=self.cc
        )
        inst.frame = self.function.frame
        self._place(inst, op)
        self.before.append(self._number(inst))
        return result

    def _place(self, inst: Inst, op: Operation) -> None:
        inst.filename, inst.line, inst.column = place_of(op)


def place_of(op: Operation) -> tuple[str | None, int | None, int | None]:
    """File, line and column of an op, as far as they are known."""
    location = op.location
    if not isinstance(location, FileLineColLoc):
        return None, None, None
    return location.filename.data, location.line.data, location.column.data


def _text(op: Instruction) -> str:
    """The instruction as PTX, with the names of the labels it jumps to."""
    text = print_op(op)
    successors = list(op._successors)
    if successors and "<no label" in text:
        labels = head_labels(successors[0])
        text = re.sub(r"<no label (\d+)>", lambda m: labels[int(m[1])].label if int(m[1]) < len(labels) else m[0], text)
    return text


def _offset(text: str) -> int:
    if not text:
        return 0
    value = int(syntax.evaluate(text[1:]))
    return -value if text[0] == "-" else value  # ptxas wants +-8; what it refuses must not mean something else here


def _immediate(text: str) -> Imm:
    exact = int(text[2:], 16) if text[:2] in ("0f", "0F", "0d", "0D") else None
    return Imm(syntax.evaluate(text), exact)
