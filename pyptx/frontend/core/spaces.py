"""Whether an address is in the state space that an instruction takes: typed pointers, and variables by name."""

from __future__ import annotations

from collections.abc import Mapping

from ...dialects.ptx.forms import Problem, Use
from ...dialects.ptx.instruction import OPCODES, Resolution
from ...dialects.ptx.symbol_use import symbol_uses

__all__ = ["pointer_problem", "symbol_problem"]


def pointer_problem(resolution: Resolution, spaces: Mapping[int, str]) -> Problem | None:
    """What is wrong with the addresses at these operands, given by their state space (`generic` included)."""
    found: Problem | None = None
    for use in resolution.uses:
        problem = next((p for i, given in spaces.items() if (p := _mixed_up(use, i, given)) is not None), None)
        if problem is None:
            return None
        found = found or problem
    return found


def _mixed_up(use: Use, index: int, given: str) -> Problem | None:
    specs = use.form.alternative(use.layout) or ()
    alone = sum(s.kind == "address" for s in specs) == 1
    wanted = OPCODES[use.form.opcode].space_of(specs[index].name, use.slots, alone) or "generic"
    if _fits(given, wanted):
        return None
    opcode = use.form.opcode
    message = f"{opcode} takes {_article(wanted)} address here, and the pointer is to {given} memory"
    if given == "generic":
        message = f"{opcode} takes {_article(wanted)} address here, and the pointer is generic"
        return Problem(message, hint=f'convert it: p.to("{wanted.partition("::")[0]}") is cvta.to')
    if wanted == "generic":
        return Problem(
            message, hint=f"name the space in the instruction (.{given}), or convert the pointer: p.generic()"
        )
    return Problem(message, hint=f"write .{given} instead of .{wanted}, or pass a pointer to {wanted} memory")


def _fits(given: str, wanted: str) -> bool:
    """Global addresses are generic ones too; an address in the CTA's shared memory is one in the cluster's."""
    if given == wanted or (given == "global" and wanted == "generic"):
        return True
    return given == wanted.partition("::")[0] or (given == "shared::cta" and wanted in ("shared", "shared::cluster"))


def _article(space: str) -> str:
    return f"{'an' if space[0] in 'aeiou' else 'a'} {space}"


def symbol_problem(resolution: Resolution, spaces: Mapping[str, str]) -> Problem | None:
    """What is wrong with the variables that stand in brackets, `spaces` being the state space of each."""
    found: Problem | None = None
    for use in resolution.uses:
        problem = None
        for symbol in symbol_uses(use):
            space = spaces.get(symbol.name)
            if space is not None and symbol.wanted == "address" and space not in symbol.places:
                wanted = " or ".join(sorted(symbol.places))
                problem = Problem(
                    f"{symbol.opcode} takes {_article(wanted)} address here, and {symbol.name.rstrip(chr(39))} "
                    f"is {'a parameter' if space == 'entry' else f'in {space} memory'}",
                    hint="load its value first: ptx.global_ptrs(tensor), ptx.param(u64, name)"
                    if space == "entry"
                    else f"write .{space} in the instruction",
                )
        if problem is None:
            return None
        found = found or problem
    return found
