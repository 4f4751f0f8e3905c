"""Turn the reading of an instruction into a `Shape`: roles, properties, trivia. Shared by parser and tracer."""

from __future__ import annotations

from ..dialects.ptx.attributes import layout_attr, string_attr
from ..dialects.ptx.foundation import Attribute, data_attr
from ..dialects.ptx.instruction import Instruction, slot_properties
from ..dialects.ptx.memo import count_entry
from ..dialects.ptx.structure import TokensAttr
from ..dialects.ptx.style import Style
from ..dialects.ptx.syntax import Layout, Sum, Symbol, SyntaxProblem, Target, registers
from .statement import Kind, Shape


def fill_instruction(
    shape: Shape,
    cls: type[Instruction],
    modifiers: tuple[str, ...],
    layout: Layout,
    classes: tuple[str, ...],
    guard: str,
) -> None:
    """Give a shape its op class, roles and properties. `classes` are those of the registers in the operand list."""
    resolution = cls.resolve(modifiers, layout, classes)
    if resolution.uses:
        use = resolution.uses[0]
        placed = use.layout
        properties: dict[str, Attribute] = slot_properties(use.form, use.slots)
        canonical = tuple(use.form.modifiers(use.slots))
        shape.constants_free = not cls.judges_constants(modifiers)
    else:
        placed = cls.roles(modifiers, layout, classes)
        properties = {"modifiers": string_attr("".join("." + m for m in modifiers))}
        canonical = modifiers
        if candidates := cls.candidates(modifiers):
            form, slots = candidates[0]
            properties = slot_properties(form, slots)
            canonical = tuple(form.modifiers(slots))
    shape.instruction = shape.op_class = cls
    shape.modifiers = modifiers
    shape.layout = placed
    shape.plain_layout = layout
    shape.adds = next((i for i, operand in enumerate(layout) if isinstance(operand, Sum)), -1)
    shape.guard_mark = guard
    properties["layout"] = layout_attr(placed)
    if guard:
        properties["guard"] = string_attr(guard)
    first = 1 if guard else 0
    shape.guard = 0 if guard else -1
    roles = [r.role for r in registers(placed)]
    shape.written = tuple(i + first for i, role in enumerate(roles) if role != "$")
    shape.read = tuple(i + first for i, role in enumerate(roles) if role == "$")
    shape.tied = shape.written if guard else tuple(i + first for i, role in enumerate(roles) if role == "~")
    shape.properties = properties
    if canonical != modifiers:
        shape.attributes["written"] = string_attr("".join("." + m for m in modifiers))


def table_name(layout: Layout) -> str:
    """The label list that an indexed branch goes by; it stays in the operand list."""
    return next((o.name for o in layout if isinstance(o, Symbol)), "")


def branch_target(layout: Layout) -> tuple[Layout, str]:
    """Take the label out of a branch's operand list: the layout with `^0` in its place, and the label."""
    for i, operand in enumerate(layout):
        if isinstance(operand, Symbol):
            if operand.offset:
                raise SyntaxProblem(f"a branch goes to a label, without an offset ({operand.offset})", 0)
            return (*layout[:i], Target("0"), *layout[i + 1 :]), operand.name
        if isinstance(operand, Target):
            return (*layout[:i], Target("0"), *layout[i + 1 :]), operand.name
    return layout, ""


def with_trivia(shape: Shape, style: Style, number: int) -> dict[str, Attribute]:
    """The attributes of the shape's ops in a file of this style, which has this number: its gaps are kept where they differ from the style's."""
    if shape.model is not None:  # they have them in common
        known = shape.model.trivia.get(number)
        return known if known is not None else with_trivia(shape.model, style, number)
    if shape.kind in (Kind.INSTRUCTION, Kind.TERMINATOR):
        canonical = style.instruction_gaps(shape.tokens, guard_tokens(shape.guard_mark), shape.opcode_tokens)
    else:
        canonical = style.directive_gaps(shape.tokens)
    attributes = dict(shape.attributes)
    if canonical != shape.gaps:
        attributes["gaps"] = data_attr(TokensAttr, tuple(shape.gaps))
    shape.trivia[number] = attributes
    count_entry()
    return attributes


def guard_tokens(mark: str) -> int:
    """How many tokens a guard takes: `@ %p` 2, `@ ! %p` 3."""
    return len(mark) + 1 if mark else 0
