"""What is shown for the thing under the cursor, as Markdown."""

from __future__ import annotations

import re

from ...dialects.ptx.instruction import Instruction, find_opcode
from ...dialects.ptx.special_registers import ELEMENTS, SPECIAL_REGISTERS
from ..reference import doc_of, need_text
from .completion import target_of_text
from .names import Definition, Names, Token

__all__ = ["hover_text", "instruction_at"]

LINE = re.compile(r"(?P<guard>@!?%?[\w$]+\s+)?(?P<head>[a-z]\w*(?:\.\w+(?:::\w+)*)*)")
FORMS = 4


def instruction_at(names: Names, token: Token) -> tuple[type[Instruction], list[str]] | None:
    """The op class and modifiers of the instruction whose opcode or modifier a token is."""
    text = names.text
    begin = max(text.rfind(c, 0, token.start) for c in ";{}:\n") + 1
    while begin > 1 and text[begin - 2 : begin] == "::":  # a qualifier such as .shared::cta
        begin = max(text.rfind(c, 0, begin - 2) for c in ";{}\n") + 1
    match = LINE.match(text, begin + len(text[begin:]) - len(text[begin:].lstrip()))
    if match is None or not match.start("head") <= token.start < match.end("head"):
        return None
    root, *modifiers = match["head"].split(".")
    found = find_opcode(root, modifiers)
    return None if found is None else (found[0], modifiers[found[1] :])


def hover_text(names: Names, offset: int) -> str | None:
    """Markdown about the instruction, register, symbol or label at a place; None where there is nothing to say."""
    token = names.token_at(offset)
    if token is None or token.kind not in ("name", "directive"):
        return None
    instruction = instruction_at(names, token)
    if instruction is not None:
        return _instruction(names, *instruction)
    special = SPECIAL_REGISTERS.get(_without_element(token.text))
    if special is not None:
        needs = need_text(special.need) if special.need.targets or special.need.since > (1, 0) else ""
        bits = " or ".join(f".b{b}" if b > 1 else ".pred" for b in special.bits)
        return f"**{special.name}** ({bits}): {special.meaning}" + (f"\n\nNeeds {needs}." if needs else "")
    definition = names.definition_at(token.start)
    return None if definition is None else _definition(names, definition, token)


def _instruction(names: Names, cls: type[Instruction], modifiers: list[str]) -> str:
    forms = [f for f in cls.forms if f.places(tuple(modifiers)) is not None] or list(cls.forms)
    version, target = target_of_text(names.text)
    lines = [f"**{cls.opcode}**" + (f" (PTX ISA {cls.section})" if cls.section else ""), "", doc_of(cls), "", "```ptx"]
    lines += list(dict.fromkeys(f.syntax for f in forms))[:FORMS]
    lines += ["```"]
    needs: dict[str, bool] = {}
    for form in forms[:FORMS]:
        for what, need in form.needed(form.places(tuple(modifiers)) or {}, (), ()):
            needs.setdefault(f"`{what}` needs {need_text(need)}", need.met(version, target))
    lines += [f"- {what}{'' if met else f' (not {target} here)'}" for what, met in needs.items()]
    return "\n".join(lines)


def _definition(names: Names, d: Definition, token: Token) -> str:
    line = names.text.count("\n", 0, d.start) + 1
    uses = [u for u in d.uses if d.count is None or _without_element(u.text) == _without_element(token.text)]
    lines = {names.text.count("\n", 0, u.start) + 1 for u in uses}
    shown = ", ".join(map(str, sorted(lines)[:12])) + (" and more" if len(lines) > 12 else "")
    name = token.text if d.count is not None else d.name
    declared = f"{d.detail} {d.name}" + (f"<{d.count}>" if d.count is not None else "")
    shape = f"{d.name}:" if d.kind == "label" else declared
    where = f"used on {_lines(len(lines))}: {shown}" if lines else "not used"
    return f"**{_without_element(name)}**: {d.kind}\n\n```ptx\n{shape}\n```\n\nDeclared on line {line}; {where}."


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _without_element(name: str) -> str:
    stem, dot, element = name.rpartition(".")
    return stem if dot and "." + element in ELEMENTS else name
