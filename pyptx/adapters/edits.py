"""Edits of the PTX that a front end compiled: a pipeline of passes, a text, or a function on the module."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from ..diagnostics import PTXError, did_you_mean
from ..dialects.ptx.structure import EntryOp, ModuleOp
from ..parser.diagnose import diagnose_text
from ..parser.module import parse_text
from ..passes.registry import PASSES
from ..passes.verify import module_diagnostics
from ..printer.ptx import print_module
from ..sources import source_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp as BuiltinModule

__all__ = ["edited", "refuse_other_edits"]

_UPSTREAM = ("dce", "cse", "canonicalize")
"""xDSL's own passes that work on `ptx`."""


def edited(text: str, edit: Any, entry: str) -> str:
    """The PTX of a kernel after an edit, which must leave `entry` with the same parameters. `edit`:

    - a pipeline of passes as `pyptx-opt -p` takes it, `"ptx-dce,ptx-fold"`;
    - PTX, as text, as the path of a file, or as an object that has it (`pyptx.Module`, what `pyptx.parse` gives);
    - a function that gets the module that `pyptx.parse` makes and changes it, or returns one of the above.

    PTXError for an edit that is none of these, or whose PTX is not right.
    """
    result = edit
    if _is_pipeline(edit):
        result = _through(_pipeline(edit), text)
    elif callable(edit) and not hasattr(edit, "ptx"):
        module = parse_text(text, f"<{entry}>")
        returned = edit(module)
        result = module if returned is None else returned
    made, name = _text_of(result)
    errors = [d for d in diagnose_text(made, name or f"<{entry}, edited>") if d.severity == "error"]
    if errors:
        raise PTXError(errors)
    _same_entry(text, made, entry)
    return made


def _is_pipeline(edit: Any) -> bool:
    return isinstance(edit, str) and "\n" not in edit and ".version" not in edit and not edit.endswith(".ptx")


def refuse_other_edits(edit: Any) -> None:
    """PTXError for what cannot be an edit, whatever is compiled."""
    if _is_pipeline(edit):
        _pipeline(edit)
    elif not callable(edit):
        _source(edit)


def _source(found: Any) -> Any:
    """Text, a path, an operation or an object with `ptx()`. PTXError for other objects."""
    if isinstance(found, (str, os.PathLike, Operation)) or callable(getattr(found, "ptx", None)):
        return found
    raise PTXError(
        "an edit is a pipeline of passes, PTX, or a function on the module that changes it or returns one of these, "
        f"not {type(found).__name__}"
    )


def _text_of(result: Any) -> tuple[str, str | None]:
    """The PTX text of what an edit is or gives, and its file."""
    found = _source(result)
    if isinstance(found, (str, os.PathLike)):
        return source_of(found)
    if not isinstance(found, Operation):
        return str(found.ptx()), None
    wrong = [d for d in module_diagnostics(found) if d.severity == "error"]
    if wrong:
        raise PTXError(wrong)
    return print_module(found), None


def _pipeline(spec: str) -> list[Any]:
    """The passes of a pipeline. PTXError for names that are not passes, and for wrong options."""
    from xdsl.transforms import get_all_passes
    from xdsl.utils.arg_spec import parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError

    upstream = get_all_passes()
    known = {**{name: upstream[name] for name in _UPSTREAM if name in upstream}, **PASSES}
    try:
        specs = list(parse_pipeline(spec))
        unknown = next((p.name for p in specs if p.name not in known), None)
        if unknown is None:
            return [known[p.name]().from_pass_spec(p) for p in specs]
    except (ArgSpecParseError, ValueError) as error:
        words = [line.strip() for line in str(error).splitlines() if line.strip(" ^-~")]
        raise PTXError(f"the pipeline {spec!r} is not valid: {words[-1]}") from None
    near = did_you_mean(unknown, known) or f"it has {', '.join(sorted(known))}"
    raise PTXError(f"pyptx has no pass {unknown!r}: {near}")


def _through(passes: list[Any], text: str) -> BuiltinModule:
    from xdsl.context import Context

    module = parse_text(text)
    for each in passes:
        each.apply(Context(), module)
    return module


def _same_entry(before: str, after: str, entry: str) -> None:
    """PTXError where the launcher, which passes what was compiled, would not fit the edited entry."""
    old, new = _parameters(before), _parameters(after)
    if entry not in new:
        raise PTXError(f"the edited PTX has no entry {entry}; it has {', '.join(new) or 'none'}")
    if old[entry] != new[entry]:
        raise PTXError(
            f"the edited {entry} has parameters ({', '.join(new[entry])}), and the launcher passes ({', '.join(old[entry])})"
        )


def _parameters(text: str) -> dict[str, list[str]]:
    """Types and sizes of the parameters of each entry."""
    module = next(op for op in parse_text(text).body.block.ops if isinstance(op, ModuleOp))
    entries = (op for op in module.functions if isinstance(op, EntryOp) and not op.is_declaration)
    return {
        op.symbol: [f".{d.type} of {d.size(i)} bytes" for d in op.parameters for i in range(len(d.items))]
        for op in entries
    }
