"""The instructions as data, under the names of 0.1: opcodes, their syntax, and whether modifiers go together.

The facts are those of the op classes (`pyptx.dialects.ptx`). Everything that a kernel emits is judged while it is
traced, always: there is no lenient mode.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from .diagnostics import PTXError, suggest
from .dialects.ptx import dialect as _dialect  # noqa: F401  # pyright: ignore[reportUnusedImport]  (all op classes)
from .dialects.ptx.instruction import OPCODES, Instruction

__all__ = [
    "INSTRUCTIONS",
    "InstructionSpec",
    "PtxValidationError",
    "UnvalidatedInstructionWarning",
    "ValidationError",
    "ValidationIssue",
    "get_specs",
    "is_strict",
    "set_strict",
    "strict",
    "validate_instruction",
    "validate_or_raise",
]


@dataclass(frozen=True)
class InstructionSpec:
    """One form of an instruction: `add{.sat}.s32 d, a, b`, in the PTX manual's notation."""

    opcode: str
    syntax: str
    section: str


@dataclass(frozen=True)
class ValidationIssue:
    """Why modifiers do not go together, and what would."""

    message: str
    hint: str | None = None


ValidationError = ValidationIssue


class PtxValidationError(PTXError):
    """Modifiers that do not go together. `issues` lists why."""

    def __init__(self, issues: Sequence[ValidationIssue]) -> None:
        super().__init__("; ".join(i.message + (f" ({i.hint})" if i.hint else "") for i in issues))
        self.issues = tuple(issues)


class UnvalidatedInstructionWarning(UserWarning):
    """Never given: every instruction is judged."""


def _specs(opcode: str, cls: type[Instruction]) -> tuple[InstructionSpec, ...]:
    return tuple(InstructionSpec(opcode, form.syntax, cls.section) for form in cls.forms)


INSTRUCTIONS: Mapping[str, tuple[InstructionSpec, ...]] = MappingProxyType(
    {opcode: _specs(opcode, cls) for opcode, cls in sorted(OPCODES.items())}
)
"""The forms of every opcode."""


def get_specs(opcode: str) -> tuple[InstructionSpec, ...]:
    """The forms of an opcode; none for one that does not exist."""
    return INSTRUCTIONS.get(opcode, ())


def validate_instruction(opcode: str, modifiers: Sequence[str] = ()) -> list[ValidationIssue]:
    """What is wrong with an opcode and its modifiers (with or without dots), on any target; empty: nothing."""
    words = tuple(m.lstrip(".") for m in modifiers)
    cls = OPCODES.get(opcode)
    if cls is None:
        near = suggest(opcode, OPCODES)
        return [
            ValidationIssue(f"there is no instruction {opcode}", f"did you mean {' or '.join(near)}?" if near else None)
        ]
    if cls.candidates(words):
        return []
    problem = cls.explain_modifiers(words)
    return [ValidationIssue(problem.message, problem.hint)]


def validate_or_raise(opcode: str, modifiers: Sequence[str] = ()) -> None:
    """PtxValidationError where `validate_instruction` finds something."""
    issues = validate_instruction(opcode, modifiers)
    if issues:
        raise PtxValidationError(issues)


def is_strict() -> bool:
    """True: instructions are always judged."""
    return True


def set_strict(enabled: bool = True) -> None:
    """Nothing to set. ValueError for False: `ptx.raw` carries text that pyptx does not know."""
    if not enabled:
        raise ValueError("instructions are always judged; ptx.raw(text) takes what pyptx does not know")


@contextmanager
def strict(enabled: bool = True) -> Generator[None]:
    """As `set_strict`, for a while."""
    set_strict(enabled)
    yield
