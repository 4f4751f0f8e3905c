"""`ptx-retarget{target=sm_80}`: change the target, and say what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.utils.exceptions import DiagnosticException

from ..diagnostics import Diagnostic, PTXError, did_you_mean
from ..dialects.ptx.instruction import Instruction, problem_of
from ..dialects.ptx.structure import ModuleOp
from ..dialects.ptx.target import FIRST_PTX, NEWEST_PTX, TargetAttr, parse_version, version_text
from .ptx_pass import PTXPass
from .verify import diagnostic_at


class RetargetError(PTXError, DiagnosticException):
    """A module that its new target does not have all instructions for. `.diagnostics` names each, with its
    place.
    """


@dataclass(frozen=True)
class Retarget(PTXPass):
    """Change `.target`, and `.version` where the target is younger than it.

    `target` is an architecture such as `sm_80` or `sm_90a`; `version` (such as `8.7`) sets `.version` too.

    Contract: no instruction is changed. The module is verified for the new target; where instructions do not
    exist there, it keeps its old target and `RetargetError` lists each of them with its place and why.
    """

    name: ClassVar[str] = "ptx-retarget"
    changes_the_judge: ClassVar[bool] = True

    target: str
    version: str | None = None

    def run(self, module: ModuleOp) -> None:
        retarget(module, self.target, self.version)


def retarget(module: ModuleOp, target: str, version: str | None = None) -> None:
    """Change a module's target (`sm_80`) and, if given, its version (`8.7`). RetargetError where the module
    cannot follow.
    """
    first = FIRST_PTX.get(target)
    if first is None:
        raise RetargetError(Diagnostic("error", f"unknown target {target}", hint=did_you_mean(target, FIRST_PTX)))
    wanted = module.target.version if version is None else _version(version)
    if wanted < first and version is not None:
        message = f"target {target} needs PTX {version_text(first)} or newer, not {version}"
        raise RetargetError(Diagnostic("error", message))
    attr = TargetAttr((target, version_text(max(first, wanted)), module.target.options))
    problems: list[Diagnostic] = []
    for function in module.functions:
        for block in function.blocks:
            for op in block.ops:
                if isinstance(op, Instruction) and (problem := problem_of(op, attr)) is not None:
                    problems.append(diagnostic_at(op, problem.message, problem.hint))
    if problems:
        raise RetargetError(problems)
    module.target = attr


def _version(text: str) -> tuple[int, int]:
    try:
        version = parse_version(text)
    except ValueError:
        raise RetargetError(Diagnostic("error", f"{text!r} is not a PTX version", hint="such as 8.7")) from None
    if version > NEWEST_PTX:
        raise RetargetError(
            Diagnostic("error", f"PTX {text} is not known", hint=f"the newest is {version_text(NEWEST_PTX)}")
        )
    return version
