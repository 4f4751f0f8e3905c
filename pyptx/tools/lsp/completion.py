"""What may come at a place of PTX text: opcodes, the modifiers that are legal there, registers, symbols, directives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...dialects.ptx.directive_facts import WORDS
from ...dialects.ptx.forms import Form
from ...dialects.ptx.instruction import OPCODES, Instruction
from ...dialects.ptx.opcodes import opcodes_of, roots
from ...dialects.ptx.special_registers import SPECIAL_REGISTERS
from ...dialects.ptx.target import parse_version
from .names import Names

__all__ = ["Item", "completions", "target_of_text"]

HEAD = re.compile(r"(?:^|[;{}])\s*(?:@!?%?[\w$]*\s+)?(?P<head>[a-z][\w.:]*)?$")


@dataclass(frozen=True, slots=True)
class Item:
    label: str
    kind: str
    """opcode, modifier, register, special, label, variable, function, directive"""
    detail: str = ""


def target_of_text(text: str) -> tuple[tuple[int, int], str]:
    """The `.version` and `.target` of a text: the newest and sm_90a where it has none yet."""
    version = re.search(r"^\s*\.version\s+(\d+\.\d+)", text, re.M)
    target = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.M)
    return parse_version(version[1] if version else "9.5"), target[1] if target else "sm_90a"


def completions(names: Names, offset: int) -> list[Item]:
    """What may be written at a place."""
    line = names.text[names.text.rfind("\n", 0, offset) + 1 : offset]
    code = line.partition("//")[0]
    if code != line:
        return []
    head = HEAD.search(code)
    if head is not None:
        word = head["head"] or ""
        if "." in word:
            return list(_modifiers(word, *target_of_text(names.text)))
        items = [Item(o, "opcode") for o in roots() if o.startswith(word)]
        return items if word else [*items, *(Item(d, "directive") for d in WORDS)]
    if re.search(r"(?:^|[\s{}])\.\w*$", code) and not re.search(r"%\w*\.\w*$", code):
        return [Item(d, "directive") for d in WORDS]
    return list(_operands(names, offset, code))


def _operands(names: Names, offset: int, code: str) -> Iterator[Item]:
    """Registers, labels and symbols that are visible here; in a branch, labels come first."""
    scope, seen = names.scope_at(offset), set[str]()
    branch = re.match(r"\s*(?:@\S+\s+)?(bra|brx|call)\b", code) is not None
    found: list[Item] = []
    while scope is not None:
        for d in (*scope.names.values(), *scope.families.values()):
            for name in _members(d.name, d.count, names):
                if name not in seen:
                    seen.add(name)
                    found.append(Item(name, "register" if d.kind == "register" else d.kind, d.detail))
        scope = scope.parent
    yield from sorted(found, key=lambda i: (branch and i.kind not in ("label", "function"), i.kind != "register"))
    for name, known in SPECIAL_REGISTERS.items():
        yield Item(name, "special", known.meaning)


def _members(name: str, count: int | None, names: Names) -> list[str]:
    """A name, or of `%r<99>` those that are used and the first that is not."""
    if count is None:
        return [name]
    used = {t.text for t in names.tokens if t.kind == "name" and t.text.startswith(name)}
    members = [f"{name}{i}" for i in range(min(count, 4096)) if f"{name}{i}" in used]
    free = next((f"{name}{i}" for i in range(count) if f"{name}{i}" not in used), None)
    return members if free is None else [*members, free]


def _modifiers(head: str, version: tuple[int, int], target: str) -> Iterator[Item]:
    """The words that may follow the last dot, legal with those before it, for this version and target."""
    root, *given = head.split(".")
    given = given[:-1]  # the word that is being written
    seen: set[str] = set()
    for opcode in opcodes_of(root):
        words = opcode.split(".")[1:]
        if words[: len(given)] == given and len(words) > len(given):
            word = words[len(given)]
            if word not in seen and any(_reachable(f, (), version, target) for f in OPCODES[opcode].forms):
                seen.add(word)
                yield Item(word, "modifier", opcode)
        if given[: len(words)] == words:
            for word, what in _of_class(OPCODES[opcode], given[len(words) :], version, target):
                if word not in seen:
                    seen.add(word)
                    yield Item(word, "modifier", what)


def _of_class(
    cls: type[Instruction], given: Sequence[str], version: tuple[int, int], target: str
) -> Iterator[tuple[str, str]]:
    for form in cls.forms:
        slots = form.places(tuple(given))
        if slots is None:
            continue
        for slot in form.slots:
            if slot.name in slots:
                continue
            for value in slot.values:
                if _reachable(form, (*given, value), version, target):
                    yield value, form.syntax


def _reachable(form: Form, words: tuple[str, ...], version: tuple[int, int], target: str) -> bool:
    """Whether an instruction with these modifiers, and maybe more, is legal."""
    slots = form.places(words)
    return slots is not None and all(need.met(version, target) for _, need in form.needed(slots, (), ()))
