"""Read one instruction's tokens: guard, opcode, modifiers, operand list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dialects.ptx import all as _all  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers every op class)
from ..dialects.ptx.instruction import Instruction, find_opcode
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
    """Read tokens `[start, end)`, without the semicolon. SyntaxProblem where they are no instruction."""
    at = start
    guard, guard_register = "", None
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
    names: list[str] = []

    jumps = cls is not None and cls.jumps

    def classify(name: str) -> Operand:
        if is_register(name) and (not jumps or name[0] == "%"):  # a label may have the name of an outer register
            names.append(name)
            return Register()
        if is_special(name):
            return SpecialRegister(name)
        return Symbol(name)

    parser = OperandParser(tokens, at, end, classify, call=root == "call", gaps=gaps)
    layout = parser.layout()
    return InstructionText(
        cls, root, tuple(words[used:]), layout, names, guard, guard_register, opcode_at, at, parser.constants
    )


def instruction_text(text: str, register_class: Callable[[str], str | None]) -> tuple[InstructionText, tuple[str, ...]]:
    """Read one instruction from text (`add.u32 %r1, %r2, 3;`); `register_class` knows the declared registers.

    Returns the reading and the register classes in text order. SyntaxProblem where it is no instruction.
    """
    tokens, _ = lex(text)
    end = len(tokens)
    if end and tokens[-1][1] == ";":
        end -= 1
    if not end:
        raise SyntaxProblem("expected an instruction", 0)
    reading = read_instruction(
        tokens, 0, end, lambda n: register_class(n) is not None, lambda n: n[0] == "%" and register_class(n) is None
    )
    return reading, tuple(register_class(n) or "" for n in reading.registers)
