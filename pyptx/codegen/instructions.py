"""Instructions as expressions, operators and calls; an expression is nested into another exactly where its instruction
comes directly before.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import DeclarationAttr, LocOp, UnknownOp
from ..dialects.ptx.syntax import Address, Immediate, Operand, Pair, Register, SpecialRegister, Symbol, Vector
from ..frontend.core.instructions import wide_floats
from ..frontend.core.operators import COMPARISONS
from ..frontend.core.results import result_type
from ..frontend.module.operations import element_class, pair_classes, result_class
from ..ssa.statement import Kind, Reg, Shape
from . import idioms, layout, objects
from .body import ATOM, BINARY, QUOTES
from .expressions import Counted, OperandReader
from .faithful import python_path
from .names import string
from .naming import parameter_name
from .operands import constant
from .survey import Survey

_IN_PLACE = ("+", "-", "*", "<<", ">>", "&", "|", "^")


class InstructionWriter(Survey):
    """A function whose statements can be written."""

    def write_statement(self, shape: Shape, regs: Sequence[Reg], name: str) -> None:
        """Write a statement that is not a label; without nesting others into it where the line would be too long."""
        self.popped = []
        if shape.op_class is LocOp and self.lines and self.lines[-1].depth == self.depth:
            self._location(self._statement(shape, name))
            return
        if shape.kind > Kind.TERMINATOR or shape.op_class is UnknownOp:
            text = self._statement(shape, name)
            declared = shape.payload.items if isinstance(shape.payload, DeclarationAttr) else ()
            known = self.variables.get(declared[0][0]) if len(declared) == 1 and text.startswith("variable(") else None
            self.write_line(f"{known} = {text}" if known is not None else text)
            return
        fresh = self._fresh_results(shape, regs, self.bound) if shape.kind == Kind.INSTRUCTION else ()
        self._instruction(shape, regs, name)
        if self.popped and len(self.lines[-1].text) + 4 * (self.depth + 1) > layout.WIDTH:
            self.lines.pop()
            for reg in fresh:
                self.bound.discard(reg)
                self.names.release(self.expressions[reg].partition("[")[0])
                self.arrays.pop(reg, None)
            self.unnest()
            self.flat = True
            self._instruction(shape, regs, name)
            self.flat = False

    def _location(self, call: str) -> None:
        """A `.loc`, with the label before it."""
        previous = self.lines[-1].text
        if previous.startswith("label(") and call.startswith("loc("):
            self.lines[-1].text = f"{call[:-1]}, label={previous[6:]}"
        else:
            self.write_line(call)

    def open_condition(self, shape: Shape, regs: Sequence[Reg]) -> None:
        """`with if_(...)`, for the branch past it."""
        uni = ", uni=True" if "uni" in shape.modifiers else ""
        reg = regs[shape.guard]
        self.popped = []
        text, precedence = self.take(reg)
        if self.popped and len(text) + 4 * (self.depth + 1) + len("with if_(~()):") + len(uni) > layout.WIDTH:
            self.unnest()
            text, precedence = self.expressions[reg], ATOM
        if shape.guard_mark == "@":  # the block runs where the branch is not taken
            text = f"~{text}" if precedence >= 7 else f"~({text})"
        self.write_line(f"with if_({text}{uni}):")
        self.shared.used.add("if_")
        self.depth += 1

    def close(self) -> None:
        """End a block."""
        if self.lines[-1].depth < self.depth:
            self.write_line("pass")
        self.depth -= 1
        self.lines[-1].target = None

    def _instruction(self, shape: Shape, regs: Sequence[Reg], name: str) -> None:
        cls = shape.instruction
        assert cls is not None
        words = (*cls.opcode.split("."), *shape.modifiers)
        fresh = self._fresh_results(shape, regs, self.bound)
        sources = list(shape.layout[1:] if fresh else shape.layout)
        first = (1 if shape.guard >= 0 else 0) + len(fresh)
        used = regs[first:]
        taken = self.fold(used, regs[shape.guard] if shape.guard >= 0 else None)
        if fresh and len(fresh) == 1 and shape.guard < 0:
            found = self._operator(words, sources, used, taken)
            if found is not None and found[2] == fresh[0].register_class:
                self._assign(fresh[0], shape, regs, found[0], found[1], found[3])
                return
        if not fresh and shape.guard < 0 and self._in_place(words, shape, regs, taken):
            return
        parameter = self._loads_parameter(words, shape, fresh)
        if parameter is not None:
            self.shared.used.add("load")
            self._assign(fresh[0], shape, regs, f"load({parameter})", ATOM, self.kind_of(words[-1]))
            return
        exact = self._must_be_exact(shape, tuple(r.register_class for r in regs))
        if not exact and self._object_call(cls, words, shape, regs, sources, fresh, taken, name):
            return
        reader = OperandReader(self, used, taken, words, name)
        arguments = [reader.operand(o)[0] for o in sources]
        if fresh:
            into = self._into(words, shape, fresh)
            if into:
                arguments.append(f"into={into}")
        if shape.guard >= 0:
            arguments.append(f"pred={self._guard_text(shape, regs, taken)}")
        root = "op" if fresh else "exact" if exact else "inst"
        call = f"{root}{python_path(words)}({', '.join(arguments)})"
        if fresh and words == ("mov", "u32") and isinstance(sources[0], SpecialRegister) and len(arguments) == 1:
            call, root = f"special.{sources[0].name[1:]}()", "special"
        self.shared.used.add(root)
        if not fresh:
            self.write_line(call)
        elif isinstance(shape.layout[0], (Vector, Pair)):
            self._assign_vector(fresh, shape, regs, call, self.kind_of(result_type(words)))
        else:
            self._assign(fresh[0], shape, regs, call, ATOM, self.kind_of(result_type(words)))

    def _object_call(
        self, cls: type[Instruction], words: tuple[str, ...], shape: Shape, regs: Sequence[Reg],
        sources: Sequence[Operand], fresh: Sequence[Reg], taken: dict[int, tuple[str, int]], name: str,
    ) -> bool:  # fmt: skip
        """Write a call of one of the DSL's objects, if the instruction is one."""
        if fresh and (len(fresh) > 1 or self._into(words, shape, fresh)):
            return False
        used = regs[(1 if shape.guard >= 0 else 0) + len(fresh) :]
        before = self.shared.used.copy()
        call = objects.called(cls, words, sources, OperandReader(self, used, taken, words, name), len(fresh))
        if call is None:
            self.shared.used.intersection_update(before)
            return False
        if shape.guard >= 0:
            call += ("" if call.endswith("(") else ", ") + f"pred={self._guard_text(shape, regs, taken)}"
        call += ")"
        if fresh:
            self._assign(fresh[0], shape, regs, call, ATOM, self.kind_of(result_type(words)))
        else:
            self.write_line(call)
        return True

    def _guard_text(self, shape: Shape, regs: Sequence[Reg], taken: dict[int, tuple[str, int]]) -> str:
        text, precedence = taken.get(-1) or (self.expressions[regs[shape.guard]], ATOM)
        if shape.guard_mark == "@!":
            text = f"~{text}" if precedence >= 7 else f"~({text})"
        return text

    def _loads_parameter(self, words: tuple[str, ...], shape: Shape, fresh: Sequence[Reg]) -> str | None:
        """The parameter, in Python, that an instruction loads just as `load` does."""
        if not fresh or shape.guard >= 0 or len(shape.layout) != 2:
            return None
        match shape.layout[1]:
            case Address(Symbol(name, ""), "", (), False) if words == ("ld", "param", self.load_types.get(name)):
                return self.parameters[name] if not self._into(words, shape, fresh) else None
            case _:
                return None

    def _operator(
        self, words: tuple[str, ...], sources: Sequence[Operand], used: Sequence[Reg], taken: dict[int, tuple[str, int]]
    ) -> tuple[str, int, str, str] | None:
        """(expression, precedence, class of the result, kind of the result), if an operator is this instruction."""
        name_of = ".".join(words)
        if len(sources) == 1 and isinstance(sources[0], Register) and not sources[0].member:
            kind = self.kinds[used[0]]
            for symbol, name in (("-", "neg"), ("~", "~")):
                if self.operator(name, kind) == name_of:
                    text, precedence = taken.get(0) or (self.expressions[used[0]], ATOM)
                    return symbol + (text if precedence >= 7 else f"({text})"), 7, used[0].register_class, kind
            return None
        if len(sources) != 2:
            return None
        parts = self._parts(words, sources, used, taken)
        if parts is None:
            return None
        dispatching = used[0]  # the first register, wherever it is: the other one is a number
        kind = self.kinds[dispatching]
        (left, left_precedence), (right, right_precedence) = parts
        for symbol, own in BINARY.items():
            if self.operator(symbol, kind) == name_of:
                left = left if left_precedence >= own else f"({left})"
                right = right if right_precedence > own else f"({right})"
                return f"{left} {symbol} {right}", own, dispatching.register_class, kind
        if not isinstance(sources[0], Register):
            return None  # Python would turn the comparison around
        for symbol, name in COMPARISONS.items():
            if self.operator(name, kind) == name_of:
                left = left if left_precedence > 0 else f"({left})"
                right = right if right_precedence > 0 else f"({right})"
                return f"{left} {symbol} {right}", 0, "pred", "pred"
        return None

    def _parts(
        self, words: tuple[str, ...], sources: Sequence[Operand], used: Sequence[Reg], taken: dict[int, tuple[str, int]]
    ) -> list[tuple[str, int]] | None:
        """The operands of an operator with their precedences; None where it has none in a register, or one that is no
        number or register.
        """
        position = 0
        parts: list[tuple[str, int]] = []
        for operand in sources:
            match operand:
                case Register(_, ""):
                    parts.append(taken.get(position) or (self.expressions[used[position]], ATOM))
                    position += 1
                case Counted(text, precedence):
                    parts.append((text, precedence))
                case Immediate(text) if constant(text, wide_floats(words))[0] not in QUOTES:
                    written = self.number(text, words)
                    parts.append((written, ATOM if written[0] != "-" else 7))
                case _:
                    return None
        return parts if position else None

    def _in_place(
        self, words: tuple[str, ...], shape: Shape, regs: Sequence[Reg], taken: dict[int, tuple[str, int]]
    ) -> bool:
        """`acc += x`, if that is the instruction."""
        match shape.layout:
            case (Register("=", ""), Register("$", ""), other) if regs[0] is regs[1]:
                pass
            case _:
                return False
        kind = self.kinds[regs[0]]
        symbol = next((s for s in _IN_PLACE if self.operator(s, kind) == ".".join(words)), None)
        if symbol is None:
            return False
        match other:
            case Register(_, ""):
                text = (taken.get(2) or (self.expressions[regs[2]], ATOM))[0]
            case Counted(value, _):
                text = value
            case Immediate(value):
                if constant(value, wide_floats(words))[0] in QUOTES:
                    return False
                text = self.number(value, words)
            case _:
                return False
        self.write_line(f"{self.expressions[regs[0]]} {symbol}= {text}")
        return True

    def _into(self, words: tuple[str, ...], shape: Shape, fresh: Sequence[Reg]) -> str:
        """The `into=` that the result needs; empty where the instruction's name says it."""
        classes = [r.register_class for r in fresh]
        if isinstance(shape.layout[0], Pair):
            if tuple(classes) == pair_classes(words, self.shared.registers):
                return ""
            if tuple(classes) == pair_classes(words, self.shared.registers, True):
                self.shared.used.add("pair")
                return "pair"
            return f"({string(classes[0])}, {string(classes[1])})"
        if not isinstance(shape.layout[0], Vector):
            predicted = result_class(result_type(words), self.shared.registers)
            return "" if classes[0] == predicted else string(classes[0])
        predicted = element_class(words, len(classes), self.shared.registers)
        if all(c == predicted for c in classes):
            named = next((int(w[1]) for w in words if w in ("v2", "v4", "v8")), 0)
            return "" if named == len(classes) else str(len(classes))
        if len(set(classes)) == 1:
            return f"[{string(classes[0])}] * {len(classes)}"
        return f"[{', '.join(string(c) for c in classes)}]"

    def _assign(self, reg: Reg, shape: Shape, regs: Sequence[Reg], text: str, precedence: int, kind: str) -> None:
        self.bound.add(reg)
        self.kinds[reg] = kind
        # a name is only needed where the expression is not nested into its use: it is given when that is known
        single = self.defs.get(reg) == 1 and self.uses.get(reg, 0) == 1 and reg not in self.nested_not
        name = self._new_name(reg, shape, regs)
        if self.defs.get(reg) == 1 and not self.uses.get(reg) and reg not in self.nested_not:  # nobody wants it
            self.names.release(name)
            self.write_line(text if precedence == ATOM else f"_ = {text}")
            return
        self.write_line(
            f"{name} = {text}",
            target=reg if single else None,
            value=text,
            precedence=precedence,
            comment=idioms.comment(text),
        )

    def _new_name(self, reg: Reg, shape: Shape, regs: Sequence[Reg]) -> str:
        """A name for a register that is written for the first time."""
        if reg in self.forced:
            self.expressions[reg] = self.forced[reg]
            self.names.take(self.forced[reg])
            return self.forced[reg]
        suggested = self.namer.suggest(reg, shape, regs)
        symbol = shape.layout[-1].base if isinstance(shape.layout[-1], Address) else None
        if isinstance(symbol, Symbol) and self.symbol_uses.get(symbol.name) == 1 and symbol.name in self.parameters:
            suggested = parameter_name(symbol.name)  # the parameter is not needed any more once it is loaded
            if self.parameters[symbol.name] == suggested:
                self.names.release(suggested)
        name = self.expressions[reg] = self.names.fresh(suggested)
        self.namer.known[reg] = name
        return name

    def _assign_vector(self, fresh: Sequence[Reg], shape: Shape, regs: Sequence[Reg], call: str, kind: str) -> None:
        suggested = self.namer.suggest(fresh[0], shape, regs)
        for reg in fresh:
            self.bound.add(reg)
            self.kinds[reg] = kind if reg.register_class != "pred" else "pred"
        stems = self.namer.halves(shape, regs) or [suggested] * len(fresh)
        names = [
            self.names.fresh("p" if r.register_class == "pred" else stem) for r, stem in zip(fresh, stems, strict=True)
        ]
        head = 4 * (self.depth + 1) + len(", ".join(names)) + len(" = ") + call.index("(") + 1
        if len(fresh) > 4 or len(fresh) == 1 or tuple(fresh) in self.whole or head > layout.WIDTH:
            for name in names:
                self.names.release(name)
            name = self.names.fresh(suggested)
            for i, reg in enumerate(fresh):
                self.expressions[reg] = f"{name}[{i}]"
                self.arrays[reg] = name, i
            self.array_sizes[name] = len(fresh)
            self.write_line(f"{name} = {call}")
            return
        for i, reg in enumerate(fresh):
            if self.defs.get(reg) == 1 and not self.uses.get(reg) and reg not in self.nested_not:  # nobody wants it
                self.names.release(names[i])
                names[i] = "_"
        self.expressions.update(zip(fresh, names, strict=True))
        self.namer.known.update(zip(fresh, names, strict=True))
        self.write_line(f"{', '.join(names)} = {call}")
