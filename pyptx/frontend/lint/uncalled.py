"""Instructions that are named and not called: `ptx.bar.sync` on a line of its own does nothing.

Python evaluates the attribute and drops it. That shows in the bytecode: the drop follows the attribute directly, which is
looked for once for each function that has emitted something.
"""

from __future__ import annotations

import dis
import sys
from types import CodeType, ModuleType
from typing import Any

from ..core.bytecode import instructions, per_code
from ..core.instructions import InstructionNamespace, Opcode
from ..core.trace import Trace

__all__ = ["note_uncalled"]

_POP, _LOAD, _CACHE = (dis.opmap.get(name, -1) for name in ("POP_TOP", "LOAD_ATTR", "CACHE"))


def note_uncalled(trace: Trace, function: Any) -> None:
    """Warn of each in the code of the kernel and of what it called."""
    own: CodeType | None = getattr(function, "__code__", None)
    codes = trace.codes() if own is None else [own, *trace.codes()]
    for code in {id(code): code for code in codes}.values():
        for root, path, line, column in _dropped(code):
            if _looked_up(_global(function, root), path) is None:
                continue
            spelled = ".".join((root, *path))
            trace.warn(
                f"{spelled} is named here and not called: no instruction comes of it",
                f"write {spelled}(...), with its operands",
                trace.add_place(code.co_filename, line, column),
            )


def _global(function: Any, name: str) -> Any:
    """What a name stands for in the kernel's module, or in a function around it; `ptx` is itself in helpers of other
    modules, too.
    """
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for n, cell in cells:
        if n == name:
            try:
                return cell.cell_contents
            except ValueError:  # not bound yet
                return None
    return function.__globals__[name] if name in function.__globals__ else sys.modules.get(f"pyptx.{name}")


def _looked_up(root: Any, path: tuple[str, ...]) -> Any:
    """The function of pyptx that a path leads to; None for anything else."""
    value = root
    for name in path:
        if not (isinstance(value, (ModuleType, Opcode, InstructionNamespace)) or _is_ours(value)):
            return None
        value = getattr(value, name, None)
    return value if callable(value) and (isinstance(value, Opcode) or _is_ours(value)) else None


def _is_ours(value: Any) -> bool:
    module = getattr(value, "__module__", None) or type(value).__module__
    return isinstance(module, str) and module.partition(".")[0] == "pyptx"


@per_code
def _dropped(code: CodeType) -> tuple[tuple[str, tuple[str, ...], int, int], ...]:
    """(global, attributes, line, column) of the statements that are such a path and nothing else."""
    if not _may_drop(code.co_code):
        return ()
    found: list[tuple[str, tuple[str, ...], int, int]] = []
    path: list[str] = []
    root = ""
    for instruction in instructions(code):
        name = instruction.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            root, path = instruction.argval, []
        elif name == "LOAD_ATTR" and root:
            path.append(instruction.argval)
        else:
            place = instruction.positions
            if name == "POP_TOP" and root and path and place is not None and place.lineno is not None:
                found.append((root, tuple(path), place.lineno, (place.col_offset or 0) + 1))
            root = ""
    return tuple(found)


def _may_drop(code: bytes) -> bool:
    """Whether a POP_TOP follows a LOAD_ATTR, which is quick to see."""
    at = code.find(_POP)
    while at >= 0:
        if not at % 2:
            before = at - 2
            while before > 0 and code[before] == _CACHE:
                before -= 2
            if code[before] == _LOAD:
                return True
        at = code.find(_POP, at + 1)
    return False
