"""Making one instruction op from text, for passes and patterns."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import SSAValue

from ...diagnostics import counted
from . import all as _all  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers every op class)
from .attributes import layout_attr
from .instruction import Instruction, find_opcode, slot_properties
from .syntax import SyntaxProblem, parse_layout, registers
from .types import RegType


def make_op(
    text: str,
    operands: Sequence[SSAValue] = (),
    results: Sequence[RegType] = (),
    location: LocationAttr = UNKNOWN_LOC,
) -> Instruction:
    """An instruction that is in no block yet: `make_op("shl.b32 =, $, 3", [value], [RegType.of("b32")])`.

    `text` is the instruction with `=` for each register that it writes and `$` for each that it reads. `operands` are
    the values read, in text order, and `results` the types of the written registers; a type without a name gets one from
    `ptx-assign-registers`. Whether the instruction is legal is asked by `op.verify()`, as for every op. ValueError where
    the opcode, its modifiers, the layout or the counts are wrong, TypeError where an argument is of another type.
    """
    if not isinstance(text, str):
        raise TypeError(f"make_op takes an instruction as text, not {type(text).__name__}")
    for given, wanted in ((operands, SSAValue), (results, RegType)):
        other = next((type(one).__name__ for one in given if not isinstance(one, wanted)), None)
        if other is not None:
            what = "operands of make_op are values" if wanted is SSAValue else "results of make_op are register types"
            raise TypeError(f"the {what}, not {other}")
    head, _, rest = text.strip().partition(" ")
    root, *words = head.split(".")
    found = find_opcode(root, words)
    if found is None:
        raise ValueError(f"{head} is not a PTX instruction")
    cls, used = found
    forms = cls.candidates(tuple(words[used:]))
    if not forms:
        raise ValueError(f"{cls.opcode} has no form with the modifiers of {head}")
    try:
        layout = parse_layout(rest.rstrip("; "))
    except SyntaxProblem as problem:
        raise ValueError(f"{rest!r} is not an operand list: {problem}") from None
    read = sum(1 for r in registers(layout) if r.role == "$")
    written = len(registers(layout)) - read
    if (read, written) != (len(operands), len(results)):
        given = f"{counted(len(operands), 'operand')} and {counted(len(results), 'result')} are given"
        raise ValueError(f"{text!r} reads {read} registers and writes {written}, and {given}")
    op = cls.create(
        operands=list(operands),
        result_types=list(results),
        properties={**slot_properties(*forms[0]), "layout": layout_attr(layout)},
    )
    op.location = location
    return op
