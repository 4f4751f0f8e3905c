"""Where lowerings write: PTX instructions with blank registers, one block at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from ...dialects.ptx import all as _all  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers every op class)
from ...dialects.ptx.attributes import layout_attr, string_attr
from ...dialects.ptx.instruction import Instruction, find_opcode, slot_properties
from ...dialects.ptx.structure import DeclarationAttr, VariableOp
from ...dialects.ptx.syntax import PLACEHOLDERS, Address, Immediate, Operand, Pair, SpecialRegister, Symbol, Vector
from ...dialects.ptx.types import RegType
from ...ssa.fastir import create
from .names import Names
from .values import PREDICATE, Constant, Lowered, Memory, Scalar, ScalarValue, Unsupported, lanes_of, scalar_of


@dataclass(frozen=True, slots=True)
class At:
    """The operand `[base+offset]`; `base` is a register with an address or the name of a variable or parameter."""

    base: SSAValue | str
    offset: int = 0

    def further(self, offset: int) -> At:
        """The address some bytes on."""
        return At(self.base, self.offset + offset)


Given = SSAValue | Constant | At | Operand | tuple[ScalarValue, ...]
"""An operand of an instruction: a value, an address, or a piece of PTX. A tuple is written in braces."""


class LoweringError(PassFailedException):
    """An operation that cannot become PTX. The message names it and says why."""


_WRITTEN = "pyptx.written"


def keep_written(op: Operation, instead: Operation) -> None:
    """Have messages about `instead`, which a lowering made, show the operation that the author wrote."""
    instead.attributes[_WRITTEN] = ArrayAttr([string_attr(part) for part in written(op)])


def written(op: Operation) -> tuple[str, str]:
    """The name of the operation that the author wrote, and the operation in one line, for a message."""
    kept = op.attributes.get(_WRITTEN)
    if isinstance(kept, ArrayAttr):
        name, text = (part.data for part in kept if isinstance(part, StringAttr))
        return name, text
    text = str(op).strip().split("\n")[0]
    return op.name, text if len(text) <= 160 else text[:157] + "..."


@dataclass(frozen=True, slots=True)
class Setting:
    """What a function is lowered for: the bits of `index`, the architecture (90 for sm_90a), the names of the PTX module,
    and the symbols of the `gpu.module` with their PTX names and operations."""

    index_bits: int
    target: int
    names: Names
    symbols: Mapping[str, tuple[str, Operation]]
    declarations: dict[str, tuple[str, Operation]] = field(default_factory=dict[str, tuple[str, Operation]])
    """What functions need the module to declare: its name and the declaration, by purpose."""

    def dynamic_shared(self) -> str:
        """The name of the shared memory that the launch adds."""
        if "dynamic shared" not in self.declarations:
            name = self.names.unique("dynamic_shared")
            head = (".extern", ".shared", ".align", "16", ".b8")
            op = create(VariableOp, (), (), {"declaration": DeclarationAttr((head, ((name, ("[", "]")),)))}, {})
            self.declarations["dynamic shared"] = name, op
        return self.declarations["dynamic shared"][0]


class Emitter:
    """The function being made."""

    def __init__(self, name: str, setting: Setting):
        self.name, self.setting = name, setting
        self.index_bits, self.target = setting.index_bits, setting.target
        self.values: dict[SSAValue, Lowered] = {}
        self.blocks: dict[Block, Block] = {}
        self.variables: list[Operation] = []
        self.ops: list[Operation] = []
        self.source: Operation | None = None
        self.function_op: Operation | None = None
        self._in_block: dict[object, SSAValue] = {}

    # ------------------------------------------------------------------------------------------------
    # instructions

    def emit(self, opcode: str, *operands: Given, result: str | tuple[str, ...] = "") -> SSAValue:
        """Append `opcode` (`add.s32`). `result` is the register class of its destination, or of each one in
        braces.

        Returns the (first) result. Without one there is nothing to return: use `effect`.
        """
        return self._create(opcode, operands, result).results[0]

    def emit_vector(self, opcode: str, *operands: Given, result: tuple[str, ...]) -> tuple[SSAValue, ...]:
        """`emit` for an instruction that writes several registers."""
        return tuple(self._create(opcode, operands, result).results)

    def emit_pair(self, opcode: str, *operands: Given, result: tuple[str, str]) -> tuple[SSAValue, SSAValue]:
        """`emit` for an instruction that writes `d|p`."""
        first, second = self._create(opcode, operands, result, pair=True).results
        return first, second

    def effect(self, opcode: str, *operands: Given) -> None:
        """`emit` for an instruction without a result."""
        self._create(opcode, operands, "")

    def emit_guarded(self, guard: SSAValue, otherwise: SSAValue, opcode: str, *operands: Given) -> SSAValue:
        """`emit` where a predicate is true; elsewhere the result is `otherwise`."""
        return self._create(opcode, operands, register_class(otherwise), guard=(guard, otherwise)).results[0]

    def effect_guarded(self, guard: SSAValue, opcode: str, *operands: Given) -> None:
        """`effect` where a predicate is true."""
        self._create(opcode, operands, "", guard=(guard,))

    def _create(
        self,
        opcode: str,
        operands: tuple[Given, ...],
        result: str | tuple[str, ...],
        *,
        pair: bool = False,
        guard: tuple[SSAValue, ...] = (),
    ) -> Instruction:
        root, *words = opcode.split(".")
        found = find_opcode(root, words)
        assert found is not None, opcode
        cls, used = found
        layout: list[Operand] = []
        classes: list[str] = []
        read: list[SSAValue] = []
        hole = PLACEHOLDERS["$"]
        if isinstance(result, tuple):
            layout.append(Pair(hole, hole) if pair else Vector((hole,) * len(result)))
            classes += result
        elif result:
            layout.append(hole)
            classes.append(result)

        def place(given: Given) -> Operand:
            match given:
                case SSAValue():
                    read.append(given)
                    classes.append(register_class(given))
                    return hole
                case Constant():
                    return given.immediate
                case tuple():
                    return Vector(tuple(place(g) for g in given))
                case At(base, offset):
                    start = Symbol(base) if isinstance(base, str) else place(base)
                    return Address(start, f"{offset:+d}" if offset else "")
                case _:
                    return given

        layout += [place(given) for given in operands]
        modifiers = tuple(words[used:])
        resolution = cls.resolve(modifiers, tuple(layout), tuple(classes))
        if not resolution.uses:
            problem = resolution.problem
            raise Unsupported(f"{opcode}: {problem.message if problem is not None else 'not legal'}")
        use = resolution.uses[0]
        properties = {**slot_properties(use.form, use.slots), "layout": layout_attr(use.layout)}
        written = result if isinstance(result, tuple) else (result,) if result else ()
        if guard:
            properties["guard"] = string_attr("@")
            read += guard
        op = create(cls, read, [RegType((c, "", 0)) for c in written], properties, {}, (), self.location)
        self.ops.append(op)
        return op

    @property
    def location(self):
        assert self.source is not None
        return self.source.location

    # ------------------------------------------------------------------------------------------------------
    # values

    def scalar(self, value: SSAValue) -> Scalar:
        """The PTX form of a value's (element) type."""
        return scalar_of(value.type, self.index_bits)

    def lowered(self, value: SSAValue) -> Lowered:
        """What an operand has become."""
        return self.values[value]

    def operand(self, value: SSAValue) -> ScalarValue:
        """An operand that is a scalar."""
        found = self.values[value]
        if isinstance(found, (Memory, tuple)):
            raise Unsupported(f"a {value.type} cannot be used here")
        return found

    def memory(self, value: SSAValue) -> Memory:
        """An operand that is a memref."""
        found = self.values[value]
        assert isinstance(found, Memory)
        return found

    def lanes(self, value: SSAValue) -> tuple[ScalarValue, ...]:
        """An operand element by element; a scalar is its own element."""
        found = self.values[value]
        if isinstance(found, tuple):
            return found
        if isinstance(found, Memory):
            raise Unsupported(f"a {value.type} cannot be used here")
        return (found,)

    def register(self, value: ScalarValue) -> SSAValue:
        """A value in a register: a constant is moved into one, once per block."""
        if isinstance(value, SSAValue):
            return value
        key = (value.value, type(value.value), value.scalar)
        found = self._in_block.get(key)
        if found is None:
            scalar = value.scalar
            if scalar == PREDICATE:
                found = self.emit("mov.pred", Immediate("-1" if value.value else "0"), result="pred")
            else:
                type_ = scalar.float if scalar.float in ("f32", "f64") else f"b{max(scalar.bits, 16)}"
                found = self.emit(f"mov.{type_}", value, result=scalar.register_class)
            self._in_block[key] = found
        return found

    def address_of(self, name: str, bits: int) -> SSAValue:
        """The address of a variable, once per block."""
        found = self._in_block.get((name, bits))
        if found is None:
            found = self._in_block[name, bits] = self.emit(f"mov.b{bits}", Symbol(name), result=f"b{bits}")
        return found

    def special(self, name: str) -> SSAValue:
        """A 32-bit special register, read once per block."""
        found = self._in_block.get(name)
        if found is None:
            found = self._in_block[name] = self.emit("mov.u32", SpecialRegister(name), result="b32")
        return found

    def as_index(self, value: SSAValue) -> SSAValue:
        """An unsigned 32-bit value as `index`."""
        return value if self.index_bits == 32 else self.emit("cvt.u64.u32", value, result="b64")

    def once(self, key: object, make: Callable[[], SSAValue]) -> SSAValue:
        """What `make` emits, once per block."""
        found = self._in_block.get(key)
        if found is None:
            found = self._in_block[key] = make()
        return found

    def new_block(self) -> None:
        """Start a block: nothing computed before is known to be there."""
        self.ops = []
        self._in_block = {}

    # ---------------------------------------------------------------------------------------------------
    # variables

    def variable(self, space: str, size: int, alignment: int, hint: str | None) -> str:
        """Declare bytes in `.shared` or `.local` memory of the function; returns the name."""
        name = self.setting.names.unique(f"{self.name}_{hint or 'memory'}")
        head = ("." + space, ".align", str(alignment), ".b8")
        declaration = DeclarationAttr((head, ((name, ("[", str(size), "]")),)))
        self.variables.append(create(VariableOp, (), (), {"declaration": declaration}, {}))
        return name


def register_class(value: SSAValue) -> str:
    return value.type.data[0]  # pyright: ignore


# -----------------------------------------------------------------------------------------------------------
# registry

Lowering = Callable[[Emitter, Operation], None]
LOWERINGS: dict[str, Lowering] = {}
"""Operation name -> what makes PTX of it."""

_F = TypeVar("_F", bound=Lowering)


def lowers(*names: str) -> Callable[[_F], _F]:
    """Register the lowering of the named operations."""

    def register(function: _F) -> _F:
        for name in names:
            LOWERINGS[name] = function
        return function

    return register


Elementwise = Callable[[Emitter, Operation, Scalar, list[ScalarValue]], ScalarValue]


def elementwise(*names: str) -> Callable[[Elementwise], Elementwise]:
    """Register a lowering on scalars; on vectors it is applied element by element.

    The function gets the type of the first operand and the operands.
    """

    def register(function: Elementwise) -> Elementwise:
        def lower(e: Emitter, op: Operation) -> None:
            scalar = e.scalar(op.operands[0])
            columns = [e.lanes(v) for v in op.operands]
            count = lanes_of(op.results[0].type)
            columns = [c * count if len(c) == 1 else c for c in columns]
            made = [function(e, op, scalar, list(row)) for row in zip(*columns, strict=True)]
            e.values[op.results[0]] = tuple(made) if is_vector(op.results[0].type) else made[0]

        lowers(*names)(lower)
        return function

    return register


def is_vector(type_: Attribute) -> bool:
    from xdsl.dialects.builtin import VectorType

    return isinstance(type_, VectorType)


def has_fastmath(op: Operation, *flags: str) -> bool:
    """Whether an operation's fast-math flags have one of these (or `fast`, which is all)."""
    attr = op.properties.get("fastmath")
    if attr is None:
        return False
    given = {str(getattr(flag, "value", flag)) for flag in attr.data}  # pyright: ignore
    return bool(given & {*flags, "fast"})


def known_block_size(function: Operation) -> tuple[int, int, int] | None:
    """The block size a kernel is made for, in the older spelling of the attribute or today's."""
    attr = function.properties.get("known_block_size") or function.attributes.get("gpu.known_block_size")
    return None if attr is None else tuple(attr.get_values())  # pyright: ignore
