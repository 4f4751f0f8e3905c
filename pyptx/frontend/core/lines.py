"""`@kernel(debug=True)`: `.file` and `.loc` directives that point at the author's Python lines (PTX ISA 11.5).

ptxas makes the line table of the cubin from them, with `-lineinfo`, with `-g` and without either, so that profilers and
cuda-gdb show the Python source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import FileLineColLoc, LocationAttr

from ...dialects.ptx.structure import LocOp, TokensAttr
from ...ssa.statement import Shape, Statement
from .trace import directive_shape

__all__ = ["file_directive", "with_lines"]


def file_directive(index: int, name: str) -> Shape:
    """`.file index "name"`. ValueError for names that a PTX string cannot hold: ptxas knows no escapes in it."""
    if not name.isascii() or not name.isprintable() or '"' in name:
        raise ValueError(f"a file name in PTX is printable ASCII without quotes, not {name!r}")
    return directive_shape((".file", str(index), f'"{name}"'))


def with_lines(
    statements: Sequence[Statement], places: Sequence[LocationAttr], module_statements: Sequence[Statement]
) -> tuple[list[Statement], list[Statement]]:
    """The statements with a `.loc` before each instruction whose Python line is not that of the one before, and the
    `.file`s that they need.

    A `.loc` of the author (`ptx.loc`) holds for the instructions of the Python line after it.
    """
    first = 1 + max(map(_file_index, module_statements), default=0)
    files: dict[str, int] = {}
    shapes: dict[tuple[int, int, int], Shape] = {}
    found: list[Statement] = []
    previous: tuple[str, int] | None = None
    authored = False
    for statement in statements:
        shape, regs, lead, place, name = statement
        location = places[place]
        if shape.op_class is LocOp:
            authored = True
        elif shape.instruction is not None and isinstance(location, FileLineColLoc):
            line = (location.filename.data, location.line.data)
            if line != previous and not authored:
                index = files.setdefault(line[0], first + len(files))
                key = (index, line[1], location.column.data)
                if key not in shapes:
                    shapes[key] = directive_shape((".loc", *map(str, key)), LocOp)
                found.append((shapes[key], (), lead, place, ""))
                statement = (shape, regs, "", place, name)
            previous, authored = line, False
        found.append(statement)
    return found, [(file_directive(i, _plain(name)), (), "", 0, "") for name, i in files.items()]


def _plain(name: str) -> str:
    return re.sub(r'[^ -~]|"', "?", name)


def _file_index(statement: Statement) -> int:
    """The number of a `.file` directive, 0 for any other statement."""
    words = (statement[0].properties or {}).get("words")
    if not isinstance(words, TokensAttr) or words.data[:1] != (".file",):
        return 0
    return int(words.data[1])
