"""Branches, calls and returns (PTX ISA 9.7.14)."""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction


@instruction
class Branch(Instruction):
    """Go to a label. `.uni` promises that all threads of the warp that run it go there.

    Operand: target, a label.
    """

    name = "ptx.bra"
    section = "9.7.14.3"
    effect = "control"
    terminator = True
    jumps = True
    unit = "control"
    forms = (form("bra{.uni} target:label"),)


@instruction
class BranchIndexed(Instruction):
    """Go to one of a list of labels.

    Operands: index, 32 bits, from 0; targets, the name of a `.branchtargets` list.
    """

    name = "ptx.brx.idx"
    section = "9.7.14.4"
    effect = "control"
    terminator = True
    symbol_kind = "branch targets"
    unit = "control"
    forms = (form("brx.idx{.uni} index:u32, targets:symbol", ptx="5.1"),)


@instruction
class Call(Instruction):
    """Call a function, by name or through a register that holds its address.

    Operands: (d) the results, registers, `.param` variables or `_`; function; (a) the arguments, registers,
    constants or `.param` variables; prototype, for a register: the name of a `.callprototype`, of a
    `.calltargets` list or of a call table, an array in `.global` or `.const` memory whose initial values are
    functions. Empty lists may be left out.
    """

    name = "ptx.call"
    argument_lists = True
    section = "9.7.14.5"
    effect = "control"
    symbol_kind = "call"
    differs = "thread"
    unit = "control"
    forms = (
        form("call{.uni} (d), function:symbol, (a)", ptx="2.0"),
        form("call{.uni} (d), function:symbol", ptx="2.0"),
        form("call{.uni} function:symbol, (a)", ptx="2.0"),
        form("call{.uni} function:symbol", ptx="2.0"),
        *(
            form(f"call{{.uni}} {results}function:{pointer}%, {arguments}prototype:symbol", ptx="2.1")
            for pointer in ("u64", "u32")
            for results in ("(d), ", "")
            for arguments in ("(a), ", "")
        ),
    )


@instruction
class Return(Instruction):
    """Return from a function, or end the thread in a kernel. `.uni` promises that the whole warp returns."""

    name = "ptx.ret"
    section = "9.7.14.6"
    effect = "control"
    terminator = True
    returns = True
    unit = "control"
    forms = (form("ret{.uni}"),)


@instruction
class Exit(Instruction):
    """End the thread."""

    name = "ptx.exit"
    section = "9.7.14.7"
    effect = "control"
    terminator = True
    unit = "control"
    forms = (form("exit"),)
