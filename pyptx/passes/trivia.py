"""Taking ops out of a block without losing the comments and line ends they carried."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from ..dialects.ptx.structure import FallOp, FunctionOp, ParameterOp, TextAttr, TokensAttr, UndefOp

_SILENT = (FallOp, ParameterOp, UndefOp)


def erase(op: Operation, *, trailing: bool = False) -> None:
    """Remove an op nobody uses. Comments before it go to the next statement; a shared line keeps its end.

    With `trailing` so do the comments after it, which else go with it.
    """
    keep_comments(op, trailing=trailing)
    op.detach()
    op.erase()


def keep_comments(op: Operation, *, trailing: bool = False) -> None:
    """Hand on what `erase` keeps of an op that is about to go."""
    lead = op.attributes.get("lead")
    gaps = op.attributes.get("gaps")
    text = lead.data if isinstance(lead, TextAttr) and _has_comment(lead.data) else ""
    if trailing and isinstance(gaps, TokensAttr) and _has_comment(gaps.data[-1]):
        text += f"\t{gaps.data[-1].strip()}\n"
    if text:
        _hand_on(op, text)
    if isinstance(gaps, TokensAttr) and "\n" in gaps.data[-1]:
        previous = op.prev_op
        kept = previous.attributes.get("gaps") if previous is not None else None
        if previous is not None and isinstance(kept, TokensAttr) and "\n" not in kept.data[-1]:
            previous.attributes["gaps"] = TokensAttr((*kept.data[:-1], kept.data[-1] + "\n"))


def _has_comment(text: str) -> bool:
    return "//" in text or "/*" in text


def _hand_on(op: Operation, lead: str) -> None:
    block = op.parent_block()
    following: Operation | None = op.next_op
    while True:
        while following is not None and isinstance(following, _SILENT):
            following = following.next_op
        if following is not None:
            old = following.attributes.get("lead")
            following.attributes["lead"] = TextAttr(lead + (cast(TextAttr, old).data if old is not None else ""))
            return
        block = block.next_block if block is not None else None
        if block is None:
            break
        following = block.first_op
    function = op.parent_op()
    if not isinstance(function, FunctionOp):
        return
    end = function.attributes.get("end")
    if isinstance(end, TokensAttr) and len(end.data) == 3:
        function.attributes["end"] = TokensAttr((lead + end.data[0], *end.data[1:]))


TRIVIA = ("lead", "gaps", "tail")
"""The attributes that hold comments, blank lines and layout."""


def strip_trivia(module: Operation) -> None:
    """Drop every comment and all layout below an op. What is printed afterwards follows the module's style."""
    for op in module.walk():
        for name in TRIVIA:
            op.attributes.pop(name, None)
