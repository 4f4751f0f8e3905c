"""Read one instruction's tokens: guard, opcode, modifiers, operand list."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..dialects.ptx.instruction import Instruction, find_opcode
from ..dialects.ptx.memo import Memo, count_entry
from ..dialects.ptx.syntax import (
    Layout,
    Operand,
    OperandParser,
    Register,
    SpecialRegister,
    Symbol,
    SyntaxProblem,
    Token,
    lex,
)


@dataclass(slots=True)
class InstructionText:
    """An instruction as written: its op class (None: unknown opcode), modifiers after the opcode, operands, registers
    in text order.
    """

    cls: type[Instruction] | None
    root: str
    modifiers: tuple[str, ...]
    layout: Layout
    registers: list[str]
    guard: str
    guard_register: str | None
    opcode_at: int
    """Index of the opcode's token."""
    operands_at: int
    """Index of the first token after the modifiers."""
    constants: list[tuple[int, int]]
    """Token ranges of the constants spelled with several tokens."""


def read_instruction(
    tokens: list[Token],
    start: int,
    end: int,
    is_register: Callable[[str], bool],
    is_special: Callable[[str], bool],
    gaps: list[str] | None = None,
) -> InstructionText:
    """Read tokens `[start, end)`, without the semicolon. SyntaxProblem where they are not an instruction."""
    at = start
    guard, guard_register = "", None
    if at >= end:
        raise SyntaxProblem("expected an instruction", start)
    if tokens[at][1] == "@":
        guard = "@"
        at += 1
        if at < end and tokens[at][1] == "!":
            guard = "@!"
            at += 1
        if at >= end or tokens[at][0] != "id":
            raise SyntaxProblem("a guard is @p or @!p", min(at, end - 1))
        guard_register = tokens[at][1]
        at += 1
    if at >= end or tokens[at][0] != "id":
        raise SyntaxProblem("expected an instruction", min(at, end - 1))
    opcode_at = at
    root = tokens[at][1]
    at += 1
    words: list[str] = []
    while at < end and tokens[at][0] == "mod":
        words.append(tokens[at][1][1:])
        at += 1
    found = find_opcode(root, words)
    cls, used = found if found is not None else (None, 0)
    if gaps is not None and cls is not None and any(gaps[opcode_at + 1 : at]):
        _check_gaps(cls, words[used:], gaps[opcode_at + 1 : at], opcode_at + 1)
    lists = cls is not None and cls.argument_lists
    layout, names, constants = _operands(tokens, at, end, is_register, is_special, lists, gaps)
    return InstructionText(
        cls, root, tuple(words[used:]), layout, names, guard, guard_register, opcode_at, at, constants
    )


def starts_instruction(tokens: list[Token], at: int, end: int) -> bool:
    """Whether tokens `[at, end)` start as an instruction does: with a guard, or with an opcode that exists."""
    kind, token = tokens[at]
    words = [t[1:] for _, t in takewhile(lambda t: t[0] == "mod", tokens[at + 1 : end])]
    return token == "@" or (kind == "id" and find_opcode(token, words) is not None)


def _check_gaps(cls: type[Instruction], modifiers: Sequence[str], gaps: Sequence[str], at: int) -> None:
    """Gaps between the opcode's words: it is one word for ptxas, and so is a modifier that must come first (`mul.lo`)."""
    whole = cls.opcode.count(".")
    if modifiers and any(s.first and modifiers[0] in s.values for f in cls.forms for s in f.slots):
        whole += 1
    for i, gap in enumerate(gaps[:whole]):
        if gap:
            name = ".".join((cls.opcode, *modifiers)[: 1 + (whole > cls.opcode.count("."))])
            raise SyntaxProblem(f"{name} is one word, without a gap", at + i)


_lists: Memo[tuple[str, ...], Layout] = Memo()
"""Operand lists read before, by their tokens with a mark for each register and other name."""
_NO_NAMES = frozenset({"_", "WARP_SZ"})


def _operands(
    tokens: list[Token], at: int, end: int, is_register: Callable[[str], bool], is_special: Callable[[str], bool],
    call: bool, gaps: list[str] | None,
) -> tuple[Layout, list[str], list[tuple[int, int]]]:  # fmt: skip
    """The operand list in tokens `[at, end)`, the names of its registers, the constants of several tokens."""
    names: list[str] = []
    key = ["call" if call else ""]
    for kind, token in tokens[at:end]:
        if kind == "id" and token not in _NO_NAMES:
            if is_register(token):
                names.append(token)
                token = "\3"
            else:
                token = f"\0{token}" if is_special(token) else f"\1{token}"
        elif kind == "num" and token[0] == ".":
            token = f"\2{token}"  # elsewhere it may be a modifier
        elif token < " ":
            token = f"\5{token}"  # a control character of the text, which is not a mark
        key.append(token)
    known = _lists.get(tuple(key))
    if known is not None:
        return known, names, []

    def classify(name: str) -> Operand:
        if is_register(name):
            return Register()
        return SpecialRegister(name) if is_special(name) else Symbol(name)

    parser = OperandParser(tokens, at, end, classify, call=call, gaps=gaps)
    layout = parser.layout()
    if not parser.constants:  # those hold the gaps between their tokens
        _lists[tuple(key)] = layout
    return layout, names, parser.constants


_HEAD = re.compile(r"[a-z]\w*(?:\.\w+(?:::\w+)*)*").fullmatch
_Classes = tuple[str | None, ...]
_operand_texts: Memo[str, tuple[tuple[str, ...], dict[_Classes, tuple[Layout, list[str], tuple[str, ...]]]]] = Memo()
"""Operand lists read before, as written: the names in it, and by what their register classes are (None: no register)
the layout, its registers and their classes.
"""


def instruction_text(text: str, register_class: Callable[[str], str | None]) -> tuple[InstructionText, tuple[str, ...]]:
    """Read one instruction from text (`add.u32 %r1, %r2, 3;`); `register_class` knows the declared registers.

    Returns the reading and the register classes in text order. SyntaxProblem where it is not an instruction.
    """
    head, _, operands = text.partition(" ")
    root, *words = head.split(".")
    found = find_opcode(root, words) if _HEAD(head) else None
    remembers = (
        found is not None and not found[0].jumps and not found[0].argument_lists
    )  # those read names in their own way
    known = _operand_texts.get(operands) if remembers else None
    if known is not None and found is not None:
        again = known[1].get(tuple(map(register_class, known[0])))
        if again is not None:
            cls, used = found
            layout, names, classes = again
            return InstructionText(
                cls, root, tuple(words[used:]), layout, names, "", None, 0, 1 + len(words), []
            ), classes
    tokens, _ = lex(text)
    end = len(tokens)
    if end and tokens[-1][1] == ";":
        end -= 1
    if not end:
        raise SyntaxProblem("expected an instruction", 0)
    reading = read_instruction(
        tokens, 0, end, lambda n: register_class(n) is not None, lambda n: n[0] == "%" and register_class(n) is None
    )
    classes = tuple(register_class(n) or "" for n in reading.registers)
    if remembers and not reading.constants:
        named = tuple([t for k, t in tokens[reading.operands_at : end] if k == "id" and t not in _NO_NAMES])
        if operands not in _operand_texts:
            _operand_texts[operands] = (named, {})
        count_entry()
        kinds = _operand_texts[operands][1]
        kinds[tuple(map(register_class, named))] = (reading.layout, reading.registers, classes)
    return reading, classes
