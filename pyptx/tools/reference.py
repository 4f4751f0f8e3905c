"""Write the reference and the stubs of `ptx.inst`: instructions from the op classes, the rest from docstrings.

    python -m pyptx.tools.reference docs/reference
    python -m pyptx.tools.reference --stubs pyptx/frontend/core/inst_stubs.pyi

One Markdown page per chapter: for each instruction what it does, its syntax lines with the values of their slots, since
which PTX version and on which targets each exists, and the section of the PTX ISA manual. `authoring.md` has what
`ptx`, `reg` and `smem` have besides.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..dialects.ptx import all as all_chapters
from ..dialects.ptx.forms import Form
from ..dialects.ptx.instruction import MANUAL, OPCODES, Instruction
from ..dialects.ptx.special_registers import SPECIAL_REGISTERS
from ..dialects.ptx.target import ANYWHERE, Need, condition_text, version_text
from ..frontend.core.instructions import python_name
from . import authoring

CHAPTERS = all_chapters
"""Importing it registers every op class."""


def chapters() -> dict[str, list[type[Instruction]]]:
    """Chapter (module name) -> its op classes in order of declaration."""
    found: dict[str, list[type[Instruction]]] = {}
    for cls in OPCODES.values():
        found.setdefault(cls.__module__.rpartition(".")[2], []).append(cls)
    return dict(sorted(found.items()))


def need_text(need: Need) -> str:
    """`PTX 7.8, sm_90 or newer`."""
    parts = [f"PTX {version_text(need.since)}"]
    if need.targets:
        parts.append(condition_text(need.targets))
    if need.until is not None:
        where = f" on {condition_text(need.until_targets)}" if need.until_targets else ""
        parts.append(f"until PTX {version_text(need.until)}{where}")
    if need.option:
        word = need.option.removeprefix("!")
        parts.append(f"with .target {word}" if word == need.option else f"without .target {word}")
    return ", ".join(parts)


def key_text(key: str) -> str:
    """What a key of a form's needs stands for."""
    if key[0] == "?":
        return f"any `.{key[1:]}`"
    if key[0] == "/":
        return f"operand `{key[1:]}`"
    return " with ".join(f"`.{part}`" for part in key.split("+"))


def doc_of(cls: type[Instruction]) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def page(chapter: str, classes: Sequence[type[Instruction]]) -> str:
    """The Markdown page of a chapter."""
    module = sys.modules[classes[0].__module__]
    lines = [f"# {chapter.replace('_', ' ').capitalize()}", "", inspect.cleandoc(module.__doc__ or ""), ""]
    for cls in classes:
        lines += _entry(cls)
    return "\n".join(lines).rstrip() + "\n"


def _entry(cls: type[Instruction]) -> Iterator[str]:
    yield from (f"## {cls.opcode}", "", doc_of(cls), "")
    if cls.section:
        yield from (f"PTX ISA section {cls.section}. In Python: `ptx.inst.{python_path(cls.opcode)}`.", "")
    yield "```text"
    yield from dict.fromkeys(form.text for form in cls.forms)
    yield from ("```", "")
    slots = _slots(cls.forms)
    if slots:
        yield from ("| slot | values |", "|---|---|")
        for name, values in slots.items():
            yield f"| `.{name}` | {' '.join(f'`.{v}`' for v in values)} |"
        yield ""
    rows = list(dict.fromkeys(_availability(cls.forms)))
    if rows:
        yield from ("| what | needs |", "|---|---|")
        yield from (f"| {what} | {needs} |" for what, needs in rows)
        yield ""


def _slots(forms: Sequence[Form]) -> dict[str, list[str]]:
    """The slots that stand for a choice, with their values over all forms."""
    found: dict[str, list[str]] = {}
    for form in forms:
        for name, values in form.sets.items():
            known = found.setdefault(name, [])
            known += [v for v in values.split() if v not in known]
    return found


def _availability(forms: Sequence[Form]) -> Iterator[tuple[str, str]]:
    for form in forms:
        if form.whole is not ANYWHERE:
            yield f"`{form.head}`", need_text(form.whole)
        for key, need in form.needs.items():
            if need is not ANYWHERE:
                yield key_text(key), need_text(need)


def newer_than_the_manual() -> list[type[Instruction]]:
    """The instructions that the manual of version `MANUAL` does not have."""
    classes = (cls for chapter in chapters().values() for cls in chapter)
    return [cls for cls in classes if min(form.whole.since for form in cls.forms) > MANUAL]


def index() -> str:
    """The list of pages and opcodes."""
    lines = [
        "# Instruction reference",
        "",
        "Generated from the op classes; `python -m pyptx.tools.reference docs/reference` writes it again.",
        "What else a kernel is written with (`ptx.pipeline`, `ptx.tma`, `smem.alloc`, ...): [authoring](authoring.md).",
        "",
        f"Sections are those of the PTX ISA manual {version_text(MANUAL)}. Newer than it, and under the number of the "
        f"chapter: {', '.join(f'`{cls.opcode}`' for cls in newer_than_the_manual())}.",
        "",
    ]
    for chapter, classes in chapters().items():
        links = ", ".join(f"[{c.opcode}]({chapter}.md#{authoring.anchor(c.opcode)})" for c in classes)
        lines += [f"**[{chapter.replace('_', ' ')}]({chapter}.md)**: {links}", ""]
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[str, str]:
    """File name -> text of the whole reference."""
    chapter_pages = {f"{name}.md": page(name, classes) for name, classes in chapters().items()}
    return {"index.md": index(), **authoring.pages(), **chapter_pages}


# ------------------------------------------------------------------------------------------------------------ stubs


def python_path(opcode: str) -> str:
    """An opcode as attribute path: keywords get a trailing `_`, a leading digit a leading one."""
    return ".".join(python_name(word) for word in opcode.split("."))


_SYNTAX_LINES = 6


class Tree(dict[str, "Tree"]):
    """The words of the opcodes, as a prefix tree."""


def stubs() -> str:
    """The stub module: a class for each word of an opcode, which has the words that may follow: the rest of longer opcodes,
    and the modifiers of its forms. `ptx.inst.ld.global_.` completes, `ptx.inst.ld.nosuch` is an error.
    """
    tree = Tree()
    for opcode in OPCODES:
        node = tree
        for word in opcode.split("."):
            node = node.setdefault(word, Tree())
    lines: list[str] = [*_STUBS_HEAD.split("\n")]
    _classes(tree, (), lines)
    lines += ["class Instructions:", '    """`ptx.inst`: every PTX instruction."""', ""]
    lines += [f"    {python_name(word)}: {_class_name((word,))}[Emits]" for word in sorted(tree)]
    lines += ["    def _raw_emit(self, text: str) -> None: ...", ""]
    lines += ["class Operations:", '    """`ptx.op`: every PTX instruction as a function of its sources."""', ""]
    lines += [f"    {python_name(word)}: {_class_name((word,))}[Makes]" for word in sorted(tree)]
    lines += ["", "class SpecialRegisters:", '    """`ptx.special`: the special registers."""', ""]
    for name, found in SPECIAL_REGISTERS.items():
        lines.append(f"    {name[1:]}: {'SpecialVector' if found.elements else 'SpecialScalar'}")
        lines += [f"    {name[1:]}_{element}: SpecialScalar" for element in "xyzw" if found.elements]
    return "\n".join([*lines, ""])


_STUBS_HEAD = '''"""Generated by `python -m pyptx.tools.reference --stubs`: what `ptx.inst`, `ptx.op` and `ptx.special` have, for editors."""

from typing import Any, Generic, Protocol, TypeVar

from .registers import NegPred, Reg, SpecialReg

class Emits(Protocol):
    def __call__(self, *operands: Any, pred: Reg | NegPred | None = None) -> Any: ...

class Makes(Protocol):
    def __call__(self, *operands: Any, into: Any = None, pred: Reg | NegPred | None = None) -> Any: ...

_Call = TypeVar("_Call", Emits, Makes)

class SpecialScalar:
    def __call__(self) -> SpecialReg: ...

class SpecialVector:
    x: SpecialScalar
    y: SpecialScalar
    z: SpecialScalar
    w: SpecialScalar
'''


def _class_name(words: Sequence[str]) -> str:
    return "_" + "_".join(w.replace("::", "__") for w in words)


def _classes(tree: Tree, path: tuple[str, ...], lines: list[str]) -> None:
    for word in sorted(tree):
        words = (*path, word)
        children = tree[word]
        _classes(children, words, lines)
        own = _class_name(words)
        lines.append(f"class {own}(Generic[_Call]):")
        cls = OPCODES.get(".".join(words))
        modifiers: set[str] = set()
        if cls is not None:
            modifiers = {token for form in cls.forms for token in form.tokens} - children.keys()
            syntax = list(dict.fromkeys(form.text for form in cls.forms))
            shown = [*syntax[:_SYNTAX_LINES], *(["..."] if len(syntax) > _SYNTAX_LINES else [])]
            text = doc_of(cls).replace("\\", "\\\\").split("\n")
            lines += [f'    """{text[0]}', *(f"    {line}".rstrip() for line in text[1:]), ""]
            lines += [*(f"        {line}" for line in shown), "", f"    PTX ISA {cls.section}.", '    """', ""]
        lines += [f"    {python_name(child)}: {_class_name((*words, child))}[_Call]" for child in sorted(children)]
        lines += [f"    {python_name(modifier)}: {own}[_Call]" for modifier in sorted(modifiers)]
        lines += ["    __call__: _Call", ""]


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if len(words) == 2 and words[0] == "--stubs":
        Path(words[1]).write_text(stubs())
        return 0
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__)
        return 2
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    written = pages()
    for old in folder.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
