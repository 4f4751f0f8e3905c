"""The common type that ptxas gives the registers and constants of a list in braces."""

from __future__ import annotations

from collections.abc import Sequence

from .types import SCALAR_TYPES

CONSTANTS = {"int": "s64", "float": "f64", "float32": "f32"}
"""The types of the constants among the members of a vector: `float32` is one such as 0f3F800000."""


def bits_of(register_class: str) -> int:
    """The size that ptxas sees where size is all that counts: a predicate is a 32-bit register. 0 for a vector register."""
    if register_class == "pred":
        return 32
    return SCALAR_TYPES[register_class].bits if register_class in SCALAR_TYPES else 0


def common_class(members: Sequence[str], apart: int = 0) -> str | None:
    """The one type of a vector of these register classes and constants (`int`, `float`, `float32`), or None.

    Neighbours must be alike, those after the first `apart` ones: the same type, both integers, both floats, or one of them of
    a bit type. Where the types differ, the vector is of a bit type. Registers have one size. After a leading constant they may
    have several: the last one that differs from the constant's is the vector's. Constants of one kind stay what they are.
    """
    if not all(map(_alike, members[apart:], members[apart + 1 :])):
        return None
    if len(set(members)) == 1 and members[0] in CONSTANTS:
        return members[0]
    types = [CONSTANTS.get(m, m) for m in members]
    if members and members[0] in CONSTANTS:
        first = SCALAR_TYPES[types[0]].bits
        size = next((n for t in reversed(types) if (n := bits_of(t)) != first), first)
    else:
        sizes = {bits_of(m) for m in members if m in SCALAR_TYPES}
        if len(sizes) > 1:
            return None
        size = sizes.pop() if sizes else 0
    kinds = set(types)
    return kinds.pop() if len(kinds) == 1 else f"b{size}" if size else ""


def odd_one(members: Sequence[str], apart: int) -> int:
    """The first of these classes without a common one that is not like those before it."""
    return next(i for i in range(1, len(members) + 1) if common_class(members[:i], apart) is None) - 1


def led_by_constant(first: str, common: str, wanted: str) -> str | None:
    """The type that the elements of a vector count as where `wanted` is asked for, if its first is a constant; None where a
    floating-point one does not go with the sizes of the others.
    """
    scalar = SCALAR_TYPES[wanted]
    if first == "int":
        return common if common == "s64" and scalar.kind == "float" else f"b{scalar.bits}"
    found = SCALAR_TYPES[common]
    if scalar.kind == "bits":
        return common if found.bits == scalar.bits else None
    return wanted if scalar.kind == "float" and found.kind in ("bits", "float") else common


def is_float_of(wanted: str, register_class: str) -> bool:
    """Whether it is an integer type of the size of the float `wanted`."""
    scalar = SCALAR_TYPES.get(register_class)
    if scalar is None or not scalar.is_integer:
        return False
    return SCALAR_TYPES[wanted].kind == "float" and SCALAR_TYPES[wanted].bits == scalar.bits


def are_alike(wanted: str, register_class: str) -> bool:
    """Whether a register is of the kind that an instruction type asks for, whatever the sizes."""
    have, want = SCALAR_TYPES.get(register_class), SCALAR_TYPES.get(wanted)
    if have is None or want is None or "pred" in (have.kind, want.kind):
        return False
    kinds = {"signed" if k.is_integer or k.kind == "packed" else k.kind for k in (have, want)}
    return "bits" in kinds or len(kinds) == 1


def _alike(first: str, second: str) -> bool:
    if first == second:
        return True
    kinds = {SCALAR_TYPES[CONSTANTS.get(m, m)].kind for m in (first, second)}
    return "bits" in kinds or kinds == {"float"} or kinds <= {"signed", "unsigned"}
