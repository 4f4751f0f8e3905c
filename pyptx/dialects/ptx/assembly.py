"""The custom assembly format of instructions and functions: what xDSL prints unless asked for the generic form.

    %r3 = ptx.add s32 %r1, 4 : (!ptx.reg<b32, "%r1">) -> !ptx.reg<b32, "%r3">
    ptx.st global.f32 [%rd1 + 8], %f1 if %p1 : ...
    ptx.bra if %p1 to ^bb1(%r4), ^bb2 : ...

    instruction ::= opcode modifiers? properties? operands? guard? with? to? attributes? `:` function-type
    modifiers   ::= bare-id | string            `global.v2.f32`; a string where it is not an identifier
    properties  ::= `<{` ... `}>`               those that modifiers, operands and guard do not give
    operands    ::= operand (`,` operand)* | `layout` string `(` values `)`
    guard       ::= (`if` | `unless`) value
    with        ::= `with` `(` values `)`       old values of written registers, registers in flight or returned
    to          ::= `to` block (`(` values `)`)? (`,` ...)*

    operand ::= value | `=` | `inout`                 a register that is read, written, or both
              | integer | string                      a constant, in decimal or as PTX spells it
              | `@` name ((`+`|`-`) integer)?         a variable, function or list of labels
              | bare-id                               a special register without its `%`, or the sink `_`
              | `not` operand | `neg` operand | operand `|` operand | `{` operands `}` | `(` operands `)`
              | `[` operand ((`+`|`-`) integer)? (`,` operands)? `]` `unified`?
              | `@` name `[` operand ((`+`|`-`) integer)? `]`

A destination that comes first and is a single register is not written: the result shows it. Values are named after their
registers. An operand list that this cannot say is its layout as a string, as in the generic form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.parser import UnresolvedOperand

from .attributes import layout_attr, string_attr
from .instruction import Instruction, slot_properties
from .syntax import (
    PLACEHOLDERS,
    Address,
    Arguments,
    Element,
    Immediate,
    Layout,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    Sum,
    Symbol,
    SyntaxProblem,
    Target,
    Vector,
    layout_text,
    parse_layout,
    registers,
)
from .types import RegType

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from .structure import FunctionOp

_WORD = re.compile(r"[A-Za-z_][\w$.]*").fullmatch
_INTEGER = re.compile(r"-?[1-9]\d*|0").fullmatch
_OFFSET = re.compile(r"[+-](?:-?[1-9]\d*|0)").fullmatch  # `+-8` is how most compilers write it
_KEYWORDS = frozenset("if unless with to layout not neg inout unified attributes".split())
_JUMP: Layout = (Target("0"),)
"""The operand list of a branch: the successor shows it."""


# ------------------------------------------------------------------------------------------------------------- printing


def print_instruction(op: Instruction, printer: Printer) -> None:
    """Print what follows the opcode."""
    properties = dict(op.properties)
    del properties["layout"]
    properties.pop("guard", None)
    layout, operands = op.layout, list(op.operands)
    text = ".".join(op.modifiers)
    given = _slot_properties(type(op), tuple(text.split(".")) if text else ())
    if given is not None and all(properties.get(name) == value for name, value in given.items()):
        for name in given:
            del properties[name]
    else:
        text = ""
    words: list[Callable[[], object]] = []
    read = sum(1 for r in registers(layout) if r.role == "$")
    bare = _print_layout(printer, op, layout, operands[:read], words)
    if text or bare:
        printer.print_string(" ")
        printer.print_string(text) if _WORD(text) else printer.print_string_literal(text)
    _print_properties(printer, properties)
    for word in words:
        word()
    _print_rest(printer, op, operands[read:])
    printer.print_op_attributes(op.attributes, print_keyword=True)
    printer.print_string(" : ")
    printer.print_function_type(op.operand_types, op.result_types)


def _print_layout(
    printer: Printer, op: Instruction, layout: Layout, values: Sequence[SSAValue], words: list[Callable[[], object]]
) -> bool:
    """Collect what prints the operand list; whether it starts with an identifier or a string, as modifiers do."""
    if layout[:1] == (PLACEHOLDERS["="],):
        layout = layout[1:]
    if not layout or (op.jumps and layout == _JUMP and op.successors):
        return False
    if not all(_is_plain(operand) for operand in layout):

        def fall_back() -> None:
            printer.print_string(" layout ")
            printer.print_bytes_literal(layout_text(op.layout).encode("utf-8", "surrogateescape"))
            printer.print_string(" ")
            printer.print_operands(values)

        words.append(fall_back)
        return False
    remaining = iter(values)
    words.append(lambda: printer.print_string(" "))
    words.append(lambda: printer.print_list(layout, lambda o: _print_operand(printer, o, remaining)))
    first = layout[0]
    if isinstance(first, Pair):
        first = first.first
    return isinstance(first, (SpecialRegister, Sink)) or (isinstance(first, Immediate) and not _INTEGER(first.text))


def _print_properties(printer: Printer, properties: dict[str, Attribute]) -> None:
    if properties:
        printer.print_string(" ")
        with printer.in_angle_brackets():
            printer.print_attr_dict(properties)


def _print_rest(printer: Printer, op: Instruction, values: list[SSAValue]) -> None:
    """The operands after those of the list: the guard, tied and silent values, what goes to the successors."""
    silent = _silent_reads(op.properties)
    if op.guard and len(values) > silent:
        printer.print_string(" if " if op.guard == "@" else " unless ")
        printer.print_operand(values.pop(silent))
    passed = [len(block.args) for block in op.successors]
    kept = max(len(values) - sum(passed), 0)
    if kept:
        printer.print_string(" with ")
        printer.print_operands(values[:kept])
    rest = iter(values[kept:])
    for i, (block, count) in enumerate(zip(op.successors, passed, strict=True)):
        printer.print_string(", " if i else " to ")
        printer.print_block_name(block)
        if count:
            printer.print_operands(list(islice(rest, count)))


def _is_plain(operand: Operand) -> bool:
    """Whether the operand has a form of its own here."""
    match operand:
        case Register(_, member):
            return not member
        case Immediate() | Sink():
            return True
        case Symbol(_, offset):
            return not offset or _OFFSET(offset) is not None
        case SpecialRegister(name):
            return _WORD(name[1:]) is not None and name[1:] not in _KEYWORDS
        case Target():
            return False
        case Not(inner, mark):
            return mark in ("!", "-") and _is_plain(inner)
        case Sum(inner, offset):
            return _is_plain(inner) and _OFFSET(offset) is not None
        case Pair(first, second):
            return _is_plain(first) and _is_plain(second)
        case Vector(elements) | Arguments(elements):
            return all(_is_plain(e) for e in elements)
        case Address(base, offset, rest):
            plain_base = not isinstance(base, Symbol) or not base.offset
            return (
                plain_base and all(_is_plain(o) for o in (base, *rest)) and (not offset or _OFFSET(offset) is not None)
            )
        case Element(array, index, offset):
            plain_array = isinstance(array, Symbol) and not array.offset
            return plain_array and _is_plain(index) and (not offset or _OFFSET(offset) is not None)


def _print_operand(printer: Printer, operand: Operand, values: Iterator[SSAValue]) -> None:  # noqa: C901  one case for each kind of operand
    write = printer.print_string
    match operand:
        case Register("$"):
            printer.print_operand(next(values))
        case Register(role):
            write("inout" if role == "~" else role)
        case Immediate(text):
            write(text) if _INTEGER(text) else printer.print_bytes_literal(text.encode("utf-8", "surrogateescape"))
        case Symbol(name, offset):
            printer.print_symbol_name(name)
            _print_offset(printer, offset)
        case SpecialRegister(name):
            write(name[1:])
        case Sink():
            write("_")
        case Not(inner, mark):
            write("not " if mark == "!" else "neg ")
            _print_operand(printer, inner, values)
        case Sum(inner, offset):
            _print_operand(printer, inner, values)
            _print_offset(printer, offset)
        case Pair(first, second):
            _print_operand(printer, first, values)
            write(" | ")
            _print_operand(printer, second, values)
        case Vector(elements):
            with printer.in_braces():
                printer.print_list(elements, lambda o: _print_operand(printer, o, values))
        case Arguments(elements):
            with printer.in_parens():
                printer.print_list(elements, lambda o: _print_operand(printer, o, values))
        case Address(base, offset, rest, unified):
            with printer.in_square_brackets():
                _print_operand(printer, base, values)
                _print_offset(printer, offset)
                for item in rest:
                    write(", ")
                    _print_operand(printer, item, values)
            write(" unified" if unified else "")
        case Element(array, index, offset):
            _print_operand(printer, array, values)
            with printer.in_square_brackets():
                _print_operand(printer, index, values)
                _print_offset(printer, offset)
        case Target():
            raise AssertionError("a branch target has no form of its own")


def _print_offset(printer: Printer, offset: str) -> None:
    if offset:
        printer.print_string(f" {offset[0]} {offset[1:]}")


# -------------------------------------------------------------------------------------------------------------- parsing


def parse_instruction(cls: type[Instruction], parser: Parser) -> Instruction:
    """Read what follows the opcode."""
    start = parser.pos
    properties: dict[str, Attribute] = _parse_modifiers(cls, parser)
    properties.update(parser.parse_optional_properties_dict())
    reads: list[UnresolvedOperand] = []
    layout = _parse_operands(parser, reads)
    guard: list[UnresolvedOperand] = []
    word = parser.parse_optional_keyword_in(("if", "unless"))
    if word is not None:
        properties["guard"] = string_attr("@" if word == "if" else "@!")
        guard.append(parser.parse_unresolved_operand())
    kept = _parse_values(parser) if parser.parse_optional_keyword("with") else []
    successors: list[Block] = []
    passed: list[UnresolvedOperand] = []
    if parser.parse_optional_keyword("to"):
        parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: passed.extend(_parse_successor(parser, successors))
        )
    attributes = parser.parse_optional_attr_dict_with_keyword()
    parser.parse_punctuation(":")
    type_ = parser.parse_function_type()
    silent = _silent_reads(properties)
    operands = [*reads, *kept[:silent], *guard, *kept[silent:], *passed]
    if cls.jumps and not layout and successors:
        layout = _JUMP
    written = sum(1 for r in registers(layout) if r.role != "$") + _silent_ties(properties)
    if written < len(type_.outputs.data):
        layout = (PLACEHOLDERS["="], *layout)
    properties["layout"] = layout_attr(layout)
    return cls.create(
        operands=parser.resolve_operands(operands, type_.inputs.data, start),
        result_types=type_.outputs.data,
        properties=properties,
        attributes=attributes.data if attributes is not None else {},
        successors=successors,
    )


def _parse_modifiers(cls: type[Instruction], parser: Parser) -> dict[str, Attribute]:
    if _at_keyword(parser):
        return {}
    start = parser.pos
    text = parser.parse_optional_identifier_or_str_literal()
    if not text:
        return {}
    given = _slot_properties(cls, tuple(text.split(".")))
    if given is None:
        parser.raise_error(f"{cls.opcode} has no form with the modifiers .{text}", start, parser.pos)
    return given


def _at_keyword(parser: Parser) -> bool:
    token = parser._current_token  # xDSL has no public peek
    return token.text in _KEYWORDS


def _parse_operands(parser: Parser, reads: list[UnresolvedOperand]) -> Layout:
    if parser.parse_optional_keyword("layout"):
        start = parser.pos
        text = _parse_text(parser)
        try:
            layout = parse_layout(text)
        except SyntaxProblem as problem:
            parser.raise_error(str(problem), start, parser.pos)
        reads.extend(_parse_values(parser))
        return layout
    first = _parse_optional_operand(parser, reads)
    if first is None:
        return ()
    operands = [_added(first, parser)]
    while parser.parse_optional_punctuation(","):
        operands.append(_added(_parse_operand(parser, reads), parser))
    return tuple(operands)


def _added(operand: Operand, parser: Parser) -> Operand:
    """An operand outside brackets and braces, with the constant that is added to it."""
    offset = _parse_offset(parser) if operand == PLACEHOLDERS["$"] else ""
    return Sum(operand, offset) if offset else operand


def _parse_operand(parser: Parser, reads: list[UnresolvedOperand]) -> Operand:
    found = _parse_optional_operand(parser, reads)
    if found is None:
        parser.raise_error("expected an operand")
    return found


def _parse_optional_operand(parser: Parser, reads: list[UnresolvedOperand]) -> Operand | None:
    first = _parse_single(parser, reads)
    if first is not None and parser.parse_optional_punctuation("|"):
        second = _parse_single(parser, reads)
        if second is None:
            parser.raise_error("expected the second operand of a pair")
        return Pair(first, second)
    return first


def _parse_single(parser: Parser, reads: list[UnresolvedOperand]) -> Operand | None:
    value = parser.parse_optional_unresolved_operand()
    if value is not None:
        reads.append(value)
        return PLACEHOLDERS["$"]
    if parser.parse_optional_punctuation("="):
        return PLACEHOLDERS["="]
    if parser.parse_optional_punctuation("{"):
        return Vector(_parse_elements(parser, reads, "}"))
    if parser.parse_optional_punctuation("("):
        return Arguments(_parse_elements(parser, reads, ")"))
    if parser.parse_optional_punctuation("["):
        return _parse_address(parser, reads)
    integer = parser.parse_optional_integer(allow_boolean=False)
    if integer is not None:
        return Immediate(str(integer))
    symbol = parser.parse_optional_symbol_name()
    if symbol is not None:
        return _parse_symbol(parser, reads, symbol.data)
    text = _parse_optional_text(parser)
    if text is not None:
        return Immediate(text)
    word = parser.parse_optional_keyword_in(("not", "neg", "inout"))
    if word == "inout":
        return PLACEHOLDERS["~"]
    if word is not None:
        inner = _parse_single(parser, reads)
        if inner is None:
            parser.raise_error(f"expected an operand after {word!r}")
        return Not(inner, "!" if word == "not" else "-")
    if _at_keyword(parser):
        return None
    name = parser.parse_optional_identifier()
    if name is None:
        return None
    return Sink() if name == "_" else SpecialRegister(f"%{name}")


def _parse_elements(parser: Parser, reads: list[UnresolvedOperand], close: str) -> Layout:
    elements: list[Operand] = []
    while not parser.parse_optional_punctuation("}" if close == "}" else ")"):
        if elements:
            parser.parse_punctuation(",")
        elements.append(_parse_operand(parser, reads))
    return tuple(elements)


def _parse_symbol(parser: Parser, reads: list[UnresolvedOperand], name: str) -> Operand:
    if parser.parse_optional_punctuation("["):
        index = _parse_operand(parser, reads)
        index, offset = _split(index, parser)
        parser.parse_punctuation("]")
        return Element(Symbol(name), index, offset)
    return Symbol(name, _parse_offset(parser))


def _parse_address(parser: Parser, reads: list[UnresolvedOperand]) -> Operand:
    base, offset = _split(_parse_operand(parser, reads), parser)
    rest: list[Operand] = []
    while parser.parse_optional_punctuation(","):
        rest.append(_parse_operand(parser, reads))
    parser.parse_punctuation("]")
    unified = parser.parse_optional_keyword("unified") is not None
    return Address(base, offset, tuple(rest), unified)


def _split(operand: Operand, parser: Parser) -> tuple[Operand, str]:
    """An operand inside brackets and its offset, which belongs to the brackets."""
    if isinstance(operand, Symbol) and operand.offset:
        return Symbol(operand.name), operand.offset
    return operand, _parse_offset(parser)


def _parse_offset(parser: Parser) -> str:
    for sign in ("+", "-"):
        if parser.parse_optional_punctuation(sign):
            return f"{sign}{parser.parse_integer(allow_boolean=False)}"
    return ""


def _parse_values(parser: Parser) -> list[UnresolvedOperand]:
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)


def _parse_successor(parser: Parser, successors: list[Block]) -> list[UnresolvedOperand]:
    successors.append(parser.parse_successor())
    values: list[UnresolvedOperand] = []
    if parser.parse_optional_punctuation("("):
        values.append(parser.parse_unresolved_operand())
        while parser.parse_optional_punctuation(","):
            values.append(parser.parse_unresolved_operand())
        parser.parse_punctuation(")")
    return values


def _parse_optional_text(parser: Parser) -> str | None:
    text = parser.parse_optional_str_literal()
    if text is not None:
        return text
    data = parser.parse_optional_bytes_literal()
    return data.decode("utf-8", "surrogateescape") if data is not None else None


def _parse_text(parser: Parser) -> str:
    text = _parse_optional_text(parser)
    if text is None:
        parser.raise_error("expected a layout as a string")
    return text


# -------------------------------------------------------------------------------------------------------------- helpers


def _slot_properties(cls: type[Instruction], modifiers: tuple[str, ...]) -> dict[str, Attribute] | None:
    """The properties that these modifiers give; None where no form takes them."""
    found = cls.candidates(modifiers)
    return slot_properties(*found[0]) if found else None


def _silent(properties: dict[str, Attribute]) -> tuple[int, int]:
    attr = properties.get("silent")
    reads, _, ties = cast(StringAttr, attr).data.partition(",") if attr is not None else ("0", "", "0")
    return int(reads), int(ties)


def _silent_reads(properties: dict[str, Attribute]) -> int:
    return _silent(properties)[0]


def _silent_ties(properties: dict[str, Attribute]) -> int:
    return _silent(properties)[1]


# ------------------------------------------------------------------------------------------------------------ functions


def name_values(op: FunctionOp) -> None:
    """Give the values of a function the names of their registers, where they have none."""
    for block in op.blocks:
        for value in (*block.args, *(result for nested in block.ops for result in nested.results)):
            if value.name_hint is None and isinstance(value.type, RegType):
                name = re.sub(r"[^\w$.-]", "_", value.type.register_name.lstrip("%"))
                if name and SSAValue.is_valid_name(name):
                    value.name_hint = name


def print_function(op: FunctionOp, printer: Printer) -> None:
    """Print what follows `ptx.entry` or `ptx.func`: name, the other properties, the body, attributes."""
    name_values(op)
    printer.print_string(" ")
    printer.print_symbol_name(op.symbol)
    _print_properties(printer, {k: v for k, v in op.properties.items() if k != "sym_name"})
    if op.regions:
        printer.print_string(" ")
        printer.print_region(op.regions[0])
    printer.print_op_attributes(op.attributes, print_keyword=True)


def parse_function(cls: type[FunctionOp], parser: Parser) -> FunctionOp:
    """Read what follows `ptx.entry` or `ptx.func`."""
    name = parser.parse_symbol_name()
    properties: dict[str, Attribute] = {"sym_name": string_attr(name.data), **parser.parse_optional_properties_dict()}
    region = parser.parse_optional_region()
    attributes = parser.parse_optional_attr_dict_with_keyword()
    return cls.create(
        properties=properties,
        regions=[region] if region is not None else [],
        attributes=attributes.data if attributes is not None else {},
    )
