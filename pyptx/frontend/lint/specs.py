"""Tensors of a kernel that it uses against its specs: inputs that it writes, outputs that it does not.

A call returns the outputs and takes the inputs for unchanged: torch.compile and JAX may reuse or move them. Both are
warnings, as a kernel that works in place on its inputs does what it says where it is called eagerly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc

from ...analysis.cfg import cfg_of
from ...analysis.written import written_parameters
from ...diagnostics import Diagnostic
from ...dialects.ptx.structure import ModuleOp

__all__ = ["spec_problems"]


def spec_problems(
    module: Any, inputs: Sequence[str], outputs: Sequence[str], place: tuple[str, int]
) -> list[Diagnostic]:
    """A warning for each input that the kernel writes, at the first write, and for each output that it certainly does
    not, at `place` (file, line), the kernel's.
    """
    functions = next(op for op in module.body.block.ops if isinstance(op, ModuleOp)).functions
    entry = next(op for op in functions if op.is_entry)
    parameters = {f"{name}{suffix}" for name in (*inputs, *outputs) for suffix in ("", "_tma_desc")}
    found = written_parameters(cfg_of(entry), parameters)
    problems: list[Diagnostic] = []
    for name in inputs:
        op = found.writes.get(name) or found.writes.get(f"{name}_tma_desc")
        if op is not None:
            location = op.location
            file, line, column = place[0], place[1], 1
            if isinstance(location, FileLineColLoc):
                file, line, column = location.filename.data, location.line.data, location.column.data
            message = (
                f"{name} is an input, of in_specs, and written here: torch.compile and JAX take inputs for unchanged"
            )
            hint = f"make it an output, of out_specs; to work in place call the kernel with out={name}"
            problems.append(Diagnostic("warning", message, file, line, column, hint))
    for name in outputs:
        if not {name, f"{name}_tma_desc"} & (found.writes.keys() | found.escaped):
            message = (
                f"{name} is an output, of out_specs, and the kernel never writes it: a call returns memory as it was"
            )
            hint = f"ptx.pointer({name}), (p + i).store(v); tensors stand in the order of in_specs + out_specs"
            problems.append(Diagnostic("warning", message, *place, 1, hint))
    return problems
