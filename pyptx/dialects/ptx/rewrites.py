"""The seam through which the passes give the dialect what xDSL's `canonicalize` asks of it: a folder, constants and
rewrite patterns. `passes.canonicalization` fills it; without that, nothing folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import HasCanonicalizationPatternsTrait, HasFolder

if TYPE_CHECKING:
    from xdsl.pattern_rewriter import RewritePattern

    from .instruction import Instruction
    from .types import RegType


@dataclass
class Rewrites:
    """What canonicalization does with instructions."""

    fold: Callable[[Instruction], Sequence[int] | None]
    """The bits of each result, where all operands are constants."""
    constant: Callable[[int, RegType], Operation | None]
    """The instruction that puts these bits into a register."""
    patterns: tuple[RewritePattern, ...]
    """Patterns for any instruction."""


_installed: list[Rewrites] = []


def install(rewrites: Rewrites) -> None:
    """Give the dialect its rewrites."""
    _installed[:] = [rewrites]


class InstructionFolder(HasFolder):
    """Instructions on constants fold to the bits of their results."""

    @classmethod
    def fold(cls, op: Operation) -> Sequence[SSAValue | Attribute] | None:
        results = _installed[0].fold(cast("Instruction", op)) if _installed else None
        return None if results is None else [IntAttr(bits) for bits in results]


class InstructionPatterns(HasCanonicalizationPatternsTrait):
    """The installed patterns."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return _installed[0].patterns if _installed else ()


class Constants(ConstantMaterializationInterface):
    """Bits become a `mov`."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        return _installed[0].constant(cast("IntAttr", value).data, cast("RegType", type)) if _installed else None
