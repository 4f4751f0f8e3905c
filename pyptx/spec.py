"""The instructions as data, under the names of 0.1: opcodes, their syntax, and whether an instruction is legal.

The facts are those of the op classes (`pyptx.dialects.ptx`). Everything that a kernel emits is judged while it is
traced, always: there is no lenient mode.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .diagnostics import PtxValidationError, ValidationIssue, suggest
from .dialects.ptx import dialect as _dialect  # noqa: F401  # pyright: ignore[reportUnusedImport]  (all op classes)
from .dialects.ptx.forms import Form
from .dialects.ptx.instruction import OPCODES, Instruction, find_opcode
from .dialects.ptx.opcode_problems import takes_modifiers

__all__ = [
    "INSTRUCTIONS", "InstructionSpec", "ModifierGroup", "PtxValidationError", "UnvalidatedInstructionWarning",
    "ValidationError", "ValidationIssue", "get_specs", "is_strict", "register_overload", "set_strict", "strict",
    "validate_instruction", "validate_or_raise",
]  # fmt: skip

ValidationError = ValidationIssue


@dataclass(frozen=True)
class ModifierGroup:
    """Modifiers of which an instruction has one, with their dots; `required` where it must."""

    name: str
    options: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True)
class InstructionSpec:
    """One form of an instruction. `syntax` is its line in the PTX manual's notation, `add{.sat}.s32 d, a, b`."""

    opcode: str
    modifier_groups: tuple[ModifierGroup, ...] = ()
    operand_pattern: str = ""
    min_operands: int = 0
    max_operands: int = 0
    description: str = ""
    since_version: tuple[int, int] = (1, 0)
    arch: str | None = None
    syntax: str = ""
    section: str = ""


class UnvalidatedInstructionWarning(UserWarning):
    """Never given: every instruction is judged."""


def _spec(opcode: str, cls: type[Instruction], form: Form) -> InstructionSpec:
    groups = tuple(ModifierGroup(s.name, tuple("." + v for v in s.values), s.required) for s in form.slots)
    counts = [len(operands) for operands in form.alternatives]
    summary = (cls.__doc__ or "").partition("\n")[0]
    return InstructionSpec(
        opcode, groups, form.syntax.partition(" ")[2], min(counts), max(counts), summary, form.whole.since,
        form.whole.targets or None, form.syntax, cls.section,
    )  # fmt: skip


INSTRUCTIONS: Mapping[str, tuple[InstructionSpec, ...]] = MappingProxyType(
    {opcode: tuple(_spec(opcode, cls, form) for form in cls.forms) for opcode, cls in sorted(OPCODES.items())}
)
"""The forms of every opcode."""

_overloads: dict[str, list[InstructionSpec]] = {}


def register_overload(spec: InstructionSpec) -> None:
    """Let `validate_instruction` take a further form of an opcode. Kernels take what ptxas takes, no more."""
    _overloads.setdefault(spec.opcode, []).append(spec)


def get_specs(opcode: str) -> list[InstructionSpec]:
    """The forms of an opcode, those registered first; none for one that does not exist."""
    return [*_overloads.get(opcode, ()), *INSTRUCTIONS.get(opcode, ())]


def validate_instruction(
    inst: Any, spec_table: Mapping[str, InstructionSpec | Sequence[InstructionSpec]] | None = None
) -> list[ValidationIssue]:
    """What is wrong with an instruction, on any target; empty: nothing.

    inst: an object with an `opcode`, `modifiers` (with or without dots) and, if they are to be counted, `operands`; or
    the instruction's name, `"add.s32"`. spec_table: forms to judge by instead of pyptx's own, by opcode.
    """
    opcode, words, count = _parts(inst)
    others: list[InstructionSpec] = list(_overloads.get(opcode, ()))
    if spec_table is not None:
        found = spec_table.get(opcode, ())
        others += [found] if isinstance(found, InstructionSpec) else found
    judged = [_against(spec, inst, words, count) for spec in others]
    if spec_table is None or not others:
        judged.append(_by_class(inst, opcode, words, count))
    return min(judged, key=len)


def _parts(inst: Any) -> tuple[str, tuple[str, ...], int | None]:
    """Opcode, modifiers without dots, and the number of operands where it is known."""
    if isinstance(inst, str):
        opcode, *words = inst.split(".")
        return opcode, tuple(words), None
    operands = getattr(inst, "operands", None)
    return inst.opcode, tuple(m.lstrip(".") for m in inst.modifiers), None if operands is None else len(operands)


def _against(spec: InstructionSpec, inst: Any, words: Sequence[str], count: int | None) -> list[ValidationIssue]:
    """What a form that a program has made says about an instruction."""
    left = {"." + w for w in words}
    issues: list[ValidationIssue] = []
    for group in spec.modifier_groups:
        here = left.intersection(group.options)
        left -= here
        if group.required and not here:
            issues.append(ValidationIssue(inst, f"{spec.opcode} needs one of {', '.join(group.options)}"))
    issues += [ValidationIssue(inst, f"{spec.opcode} has no modifier {word}") for word in sorted(left)]
    if count is not None and not spec.min_operands <= count <= spec.max_operands:
        issues.append(_wrong_count(inst, spec.opcode, range(spec.min_operands, spec.max_operands + 1), count))
    return issues


def _by_class(inst: Any, opcode: str, words: tuple[str, ...], count: int | None) -> list[ValidationIssue]:
    """What pyptx's own forms say about an instruction."""
    found = find_opcode(opcode, words)
    if found is None:
        near = suggest(opcode, OPCODES)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        return [ValidationIssue(inst, f"there is no instruction {opcode}", hint=hint)]
    cls, used = found
    forms = cls.candidates(words[used:])
    if not forms:
        problem = cls.explain_modifiers(words[used:], takes_modifiers)
        return [ValidationIssue(inst, problem.message, hint=problem.hint)]
    counts = sorted({len(operands) for form, _ in forms for operands in form.alternatives})
    return [] if count is None or count in counts else [_wrong_count(inst, ".".join((opcode, *words)), counts, count)]


def _wrong_count(inst: Any, name: str, counts: Sequence[int], count: int) -> ValidationIssue:
    wanted = " or ".join(map(str, counts))
    return ValidationIssue(inst, f"{name} takes {wanted} operand{'' if wanted == '1' else 's'}, not {count}")


def validate_or_raise(inst: Any) -> None:
    """PtxValidationError where `validate_instruction` finds something."""
    issues = validate_instruction(inst)
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
