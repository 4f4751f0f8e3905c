"""Opcodes that do not exist: what is wrong with them, and the legal ones that are near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from ...diagnostics import suggest
from .explanation import one_of
from .forms import Problem
from .opcodes import find_opcode, opcodes_of, roots
from .proposals import Admits, Head, Search, any_of

__all__ = ["instead", "misspelled_opcode", "opcode_of", "scattered_opcode", "takes_modifiers", "unknown_opcode"]


def takes_modifiers(head: Head) -> bool:
    """Whether some form has this opcode with these modifiers, whatever its operands."""
    found = find_opcode(head[0], head[1:])
    return found is not None and bool(found[0].candidates(head[1 + found[1] :]))


def unknown_opcode(root: str, modifiers: tuple[str, ...], admits: Admits = takes_modifiers) -> Problem:
    """The message for an opcode that does not exist. `admits` judges what is proposed."""
    known = roots()
    if root not in known:
        near = suggest(root, known, 12)
        return instead(f"unknown instruction {root}", (root, *modifiers), [(n, *modifiers) for n in near], admits)
    problem = scattered_opcode(root, modifiers, 0, admits) or misspelled_opcode((root, *modifiers), 1, admits)
    if problem is None:
        names = opcodes_of(root)
        spelled = ".".join((root, *modifiers[:1]))
        near = [(*name.split("."), *modifiers[cut:]) for cut in (1, 0) for name in names]
        problem = instead(f"unknown instruction {spelled}", (root, *modifiers), near, admits)
        if not problem.proposals:
            return replace(problem, hint=f"{root} has {one_of(names, dot='')}")
    return problem


def instead(message: str, head: Head, near: Sequence[Head], admits: Admits) -> Problem:
    """The problem of an opcode with the heads near it that are legal."""
    search = Search(head, admits)
    found = search.offer(near, 4)
    names = list(dict.fromkeys(opcode_of(h) for h in found))
    hint = f"did you mean {any_of(names)}?" if names else None
    return Problem(message, -1, hint, proposals=tuple(found))


def opcode_of(head: Head) -> str:
    """The dotted opcode that a head starts with."""
    found = find_opcode(head[0], head[1:])
    return head[0] if found is None else found[0].opcode


def misspelled_opcode(words: Head, known: int, admits: Admits) -> Problem | None:
    """The problem where one word spoils an opcode that starts with more than these `known` words, or is nearly one."""
    same, nexts = _longest_start(words)
    near = suggest(words[same], nexts) if same < len(words) else []
    if not near and same <= known:
        return None
    start = words[:same]
    heads = [(*start, n, *words[same + 1 :]) for n in near or nexts]
    heads += [(*start, n, *words[same:]) for n in nexts]
    return instead(f"unknown instruction {'.'.join(words[: same + 1])}", words, heads, admits)


def scattered_opcode(root: str, modifiers: Sequence[str], known: int, admits: Admits) -> Problem | None:
    """The problem where the words of an opcode, more than `known` of them after its root, do not stand together in
    front: `mbarrier.shared.try_wait`.
    """
    whole = [o.split(".")[1:] for o in opcodes_of(root)]
    same, _ = _longest_start((root, *modifiers))
    whole = [words for words in whole if len(words) >= max(same, known + 1) and set(words) <= set(modifiers)]
    if not whole:
        return None
    words = max(whole, key=len)
    rest = list(modifiers)
    for word in words:
        rest.remove(word)
    opcode = ".".join((root, *words))
    message = f"{'.'.join((root, *modifiers))}: the words of {opcode} stand together, in front of all modifiers"
    problem = instead(message, (root, *modifiers), [(root, *words, *rest)], admits)
    return replace(problem, hint=f"write {'.'.join((opcode, *rest))}" if problem.proposals else None)


def _longest_start(words: Sequence[str]) -> tuple[int, list[str]]:
    """How many of the words start an opcode, and the words that may come next."""
    names = [o.split(".") for o in opcodes_of(words[0])]
    same = max(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(n, words, strict=False))) for n in names)
    return same, list(dict.fromkeys(n[same] for n in names if n[:same] == list(words[:same]) and len(n) > same))
