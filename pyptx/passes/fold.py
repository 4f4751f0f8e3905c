"""`ptx-fold`: compute at compile time what is constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Operation, SSAValue

from ..analysis.cfg import cfg_of
from ..dialects.ptx.attributes import LayoutAttr, layout_attr
from ..dialects.ptx.comparison import Selp
from ..dialects.ptx.control import Branch, Exit, Return
from ..dialects.ptx.effects import effect_of
from ..dialects.ptx.instruction import Instruction, problem_of, slot_properties
from ..dialects.ptx.move import Mov
from ..dialects.ptx.operands import Bound, Group, Negated, Value, bound_operands
from ..dialects.ptx.structure import FallOp, FunctionOp
from ..dialects.ptx.syntax import PLACEHOLDERS, Immediate, Operand, Register, registers
from ..dialects.ptx.types import SCALAR_TYPES, RegType, class_bits
from ..ssa.fastir import create
from .assign_registers import move_op
from .constant import FLOATS, evaluate, float_bits, mask, signed, width
from .operands import passed_of, places_of
from .ptx_pass import FunctionPass
from .trivia import erase


class Fold(FunctionPass):
    """Replace instructions on constants by their results.

    Contract: an unguarded pure instruction whose operands are all constants becomes a `mov` of the exact
    result into the same register: integer arithmetic, logic and shifts, comparison and selection, conversions
    in range, and f32/f64 arithmetic with a given (or the default) rounding. What PTX leaves open (division by
    zero, NaN payloads, flushed results, overflow) and approximate functions stay. Operations with a neutral
    element (`add a, 0`, `mul a, 1`, `and a, -1`) become moves, `mul a, 0` and `and a, 0` zero. Where an
    instruction reads a constant register and may have a constant there, it gets it. A guard that is constant
    goes, with its instruction where it is false, unless that orders anything; a branch on a constant
    predicate becomes unconditional or falls through. Blocks that are then unreachable stay. Idempotent.
    """

    name: ClassVar[str] = "ptx-fold"

    def run_on_function(self, function: FunctionOp) -> None:
        fold_constants(function)


def fold_constants(function: FunctionOp) -> bool:
    """Fold one function; whether anything changed."""
    return _Folder(function).run()


@dataclass(slots=True)
class _Folder:
    function: FunctionOp
    known: dict[SSAValue, int]
    changed: bool

    def __init__(self, function: FunctionOp):
        self.function, self.known, self.changed = function, {}, False

    def run(self) -> bool:
        cfg = cfg_of(self.function)
        for b in cfg.dominators().preorder:
            for op in list(cfg.blocks[b].ops):
                if isinstance(op, Instruction):
                    self._visit(op)
        return self.changed

    def _visit(self, op: Instruction) -> None:
        if op.guard and not self._guard(op):
            return
        if op.terminator:
            return
        if not op.guard and effect_of(op) == "pure":
            if isinstance(op, Mov):
                self._note_move(op)
                return
            results = folded(op, self.known.get)
            if results is not None:
                self._replace(op, results)
                return
            source = neutral(op, self.known.get)
            if source is not None and self._become_move(op, source):
                return
        self._use_immediates(op)

    # ---------------------------------------------------------------------- constants

    def _note_move(self, op: Instruction) -> None:
        bits = moved_constant(op, self.known.get)
        if bits is None:
            return
        if op.operands:
            self._replace(op, (bits,))
        else:
            self.known[op.results[0]] = bits

    def _replace(self, op: Instruction, results: Sequence[int]) -> None:
        """Put moves of constants in an instruction's place."""
        block = op.parent_block()
        assert block is not None
        for i, (result, bits) in enumerate(zip(op.results, results, strict=True)):
            register = cast(RegType, result.type)
            bits = extended(op, register, bits)
            move = constant_move(bits, register, op.location)
            if move is None:
                return
            if i == 0 and (lead := op.attributes.get("lead")) is not None:
                move.attributes["lead"] = lead
            block.insert_op_before(move, op)
            result.replace_all_uses_with(move.results[0])
            self.known[move.results[0]] = bits
        op.attributes.pop("lead", None)
        erase(op)
        self.changed = True

    def _become_move(self, op: Instruction, source: Bound | int) -> bool:
        register = cast(RegType, op.results[0].type)
        if isinstance(source, int):
            self._replace(op, (source,))
            return True
        if isinstance(source, Immediate):
            bits = immediate_bits(source, op.slot("type") or "")
            if bits is None:
                return False
            self._replace(op, (bits,))
            return True
        if not isinstance(source, Value) or source.member:
            return False
        if cast(RegType, source.value.type).register_class != register.register_class:
            return False
        known = self.known.get(source.value)
        if known is not None:
            self._replace(op, (known,))
            return True
        move = move_op(source.value, register, op.location)
        if (lead := op.attributes.pop("lead", None)) is not None:
            move.attributes["lead"] = lead
        block = op.parent_block()
        assert block is not None
        block.insert_op_before(move, op)
        op.results[0].replace_all_uses_with(move.results[0])
        erase(op)
        self.changed = True
        return True

    # ---------------------------------------------------------------------- immediates

    def _use_immediates(self, op: Instruction) -> None:
        """Write constants where the instruction reads constant registers, last operand first, as far as it
        may have them.
        """
        if not op.takes_constants or problem_of(op) is not None:
            return
        types = _operand_types(op)
        for at in range(len(op.layout) - 1, 0, -1):
            operand = op.layout[at]
            if not isinstance(operand, Register) or operand.member or operand.role != "$":
                continue
            index = sum(1 for o in op.layout[1:at] for r in _placeholders(o) if r.role == "$")
            value = op.operands[index]
            bits = self.known.get(value)
            register_class = cast(RegType, value.type).register_class
            if bits is None or types[at - 1] == "pred" or class_bits(register_class) != width(types[at - 1]):
                continue
            text = spell(bits, types[at - 1], register_class)
            before, operands = op.properties["layout"], list(op.operands)
            op.layout = (*op.layout[:at], Immediate(text), *op.layout[at + 1 :])
            op.operands = [*operands[:index], *operands[index + 1 :]]
            if problem_of(op) is not None:
                op.properties["layout"] = before
                op.operands = operands
            else:
                self.changed = True

    # ---------------------------------------------------------------------- guards

    def _guard(self, op: Instruction) -> bool:
        """Resolve a constant guard; whether the op is still there to look at."""
        places = places_of(op)
        value = self.known.get(op.operands[places.guard])
        if value is None:
            return True
        runs = bool(value & 1) == (op.guard == "@")
        if op.terminator:
            return self._terminator(op, runs)
        if effect_of(op) not in ("pure", "read", "write"):
            return True
        if runs:
            ties = {i for i, r in places.ties if not _is_tied_anyway(op, r)}
            op.operands = [v for i, v in enumerate(op.operands) if i != places.guard and i not in ties]
            del op.properties["guard"]
            op.attributes.pop("gaps", None)
            self.changed = True
            return True
        for i, r in places.ties:
            op.results[r].replace_all_uses_with(op.operands[i])
        erase(op)
        self.changed = True
        return False

    def _terminator(self, op: Instruction, runs: bool) -> bool:
        if not isinstance(op, (Branch, Return, Exit)) or not op.successors:
            return True
        places = places_of(op)
        keep = 0 if runs else len(op.successors) - 1
        block = op.parent_block()
        assert block is not None
        passed = [op.operands[i] for i, s, _, _ in passed_of(op, places) if s == keep]
        returned = [op.operands[i] for i in places.returned]
        if runs:
            targets = op.successors[:1] if isinstance(op, Branch) else ()
            values = returned + (passed if isinstance(op, Branch) else [])
            properties = {k: v for k, v in op.properties.items() if k != "guard"}
            new: Operation = create(type(op), values, (), properties, {}, targets, op.location)
            if (lead := op.attributes.pop("lead", None)) is not None:
                new.attributes["lead"] = lead
        else:
            new = create(FallOp, passed, (), {}, {}, (op.successors[keep],), op.location)
        block.insert_op_after(new, op)
        erase(op)
        self.changed = True
        return False


# ---------------------------------------------------------------------- one instruction

Known = Callable[[SSAValue], int | None]
"""The bits of a value that is known to be constant, or None."""


def folded(op: Instruction, known: Known) -> tuple[int, ...] | None:
    """The bits of each result of an instruction whose operands are all constants; None if one is not, or where PTX
    leaves the result open.
    """
    bound = bound_operands(op)
    if not bound or not all(isinstance(r, Value) for r in _written(bound[0])):
        return None
    types = _operand_types(op)
    if len(types) != len(bound) - 1:
        return None  # no form of the instruction: the verifier's business
    values: list[int] = []
    for operand, type_ in zip(bound[1:], types, strict=True):
        value = constant(operand, type_, known)
        if value is None:
            return None
        values.append(value)
    results = evaluate(op.opcode, op.slots, values)
    if results is None or len(results) < len(op.results):
        return None
    return results[: len(op.results)]


def neutral(op: Instruction, known: Known) -> Bound | int | None:
    """What `a + 0`, `a * 1`, `a & -1`, `a * 0`, `a & 0` or a selection by a constant gives: an operand or the bits of a
    constant; None for other instructions.
    """
    bound = bound_operands(op)
    if len(op.results) != 1 or not isinstance(bound[0], Value):
        return None
    if isinstance(op, Selp):
        choice = constant(bound[3], "pred", known)
        return None if choice is None else bound[1] if choice else bound[2]
    type_ = op.slot("type") or ""
    if len(bound) != 3 or type_ not in SCALAR_TYPES or SCALAR_TYPES[type_].kind not in ("signed", "unsigned", "bits"):
        return None
    if set(op.slots) - {"type", "mode"} or op.slots.get("mode", "lo") != "lo":
        return None
    right = constant(bound[2], _operand_types(op)[1], known)
    left = constant(bound[1], type_, known)
    if op.absorbing is not None and op.absorbing in (left, right):
        return op.absorbing
    if op.identity is None:
        return None
    identity = op.identity & mask(width(type_))
    if right == identity:
        return bound[1]
    return bound[2] if op.commutative and left == identity else None


def constant(operand: Bound, type_: str, known: Known) -> int | None:
    """The bits of a constant operand that is read as a value of a type."""
    if isinstance(operand, Value):
        return None if operand.member else known(operand.value)
    if isinstance(operand, Immediate):
        return immediate_bits(operand, type_)
    if isinstance(operand, Negated) and operand.mark == "!" and isinstance(operand.operand, Value):
        inner = known(operand.operand.value)
        return None if inner is None else inner ^ 1
    return None


def extended(op: Instruction, register: RegType, bits: int) -> int:
    """A result as it is in its register: a wider one is sign-extended."""
    type_, wide = op.slot("dtype") or "", class_bits(register.register_class)
    if type_ in SCALAR_TYPES and type_[0] == "s" and width(type_) < wide:
        return signed(bits, width(type_)) & mask(wide)
    return bits


def moved_constant(op: Instruction, known: Known) -> int | None:
    """The bits that a `mov` of a constant puts into a register; None for other moves."""
    if len(op.results) != 1 or len(op.layout) != 2 or not isinstance(op.layout[0], Register) or op.layout[0].member:
        return None
    source = op.layout[1]
    if isinstance(source, Register):
        return None if source.member else known(op.operands[0])
    if isinstance(source, Immediate):
        return immediate_bits(source, op.slot("type") or cast(RegType, op.results[0].type).register_class)
    return None


# ---------------------------------------------------------------------- helpers


def _written(operand: Bound) -> tuple[Bound, ...]:
    return operand.elements if isinstance(operand, Group) else (operand,)


def _placeholders(operand: Operand) -> list[Register]:
    return registers((operand,))


def _is_tied_anyway(op: Instruction, result: int) -> bool:
    written = [r for o in op.layout for r in _placeholders(o) if r.role != "$"]
    return result >= len(written) or written[result].role == "~"


def _operand_types(op: Instruction) -> list[str]:
    """The scalar type that each source operand is read as; constants without one count as the instruction's."""
    type_ = op.slot("atype") or op.slot("type") or ""
    return [t if t in SCALAR_TYPES else type_ for t in op.scalar_types[1:]]


def immediate_bits(immediate: Immediate, type_: str) -> int | None:
    """The bits of a constant as a value of a type; None where that is not plain."""
    scalar = SCALAR_TYPES.get(type_)
    if scalar is None:
        return None
    text = immediate.text.lower()
    if scalar.kind == "pred":
        return int(bool(immediate.value))
    for prefix, bits in (("0f", 32), ("0d", 64)):
        if text.startswith(prefix) and len(text) == 2 + bits // 4:
            return int(text[2:], 16) if scalar.bits == bits and scalar.kind in ("float", "bits") else None
    value = immediate.value
    if type_ in FLOATS:
        return float_bits(value, type_) if isinstance(value, float) else None
    if isinstance(value, float) or scalar.kind not in ("signed", "unsigned", "bits"):
        return None
    return value & mask(scalar.bits)


def spell(bits: int, type_: str, register_class: str) -> str:
    """A constant of a type, in decimal, or as the bits of a float."""
    scalar = SCALAR_TYPES[type_]
    if register_class in ("f32", "f64") or type_ in ("f32", "f64"):
        return f"0f{bits:08X}" if scalar.bits == 32 else f"0d{bits:016X}"
    if scalar.kind == "unsigned":
        return f"{bits}U" if bits >> 63 else str(bits)
    return str(signed(bits, scalar.bits))


def constant_move(bits: int, type_: RegType, location: LocationAttr = UNKNOWN_LOC) -> Operation | None:
    """`mov` of a constant into a register; None for classes that have none."""
    register_class = type_.register_class
    scalar = {"f16": "b16", "f16x2": "b32"}.get(register_class, register_class)
    candidates = Mov.candidates((scalar,))
    if not candidates or scalar == "b128" or "." in scalar:
        return None
    text = str(bits & 1) if scalar == "pred" else spell(bits, scalar, register_class)
    layout: LayoutAttr = layout_attr((PLACEHOLDERS["="], Immediate(text)))
    form, slots = candidates[0]
    return create(Mov, (), (type_,), {**slot_properties(form, slots), "layout": layout}, {}, (), location)
