"""The base of passes that are a list of xDSL rewrite patterns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)

from ..dialects.ptx.structure import FunctionOp
from .assign_registers import assign_registers
from .ptx_pass import FunctionPass
from .trivia import keep_comments


class PatternPass(FunctionPass):
    """Apply rewrite patterns to each function until nothing changes.

    Patterns may make values without a register (`RegType.of("b32")`) and replace values at will: the pass ends with what
    `ptx-assign-registers` does. Comments before an operation that goes are handed to what replaces it, or to the next
    statement.
    """

    @abstractmethod
    def patterns(self) -> Sequence[RewritePattern]:
        """The patterns, tried in this order on each operation."""

    def run_on_function(self, function: FunctionOp) -> None:
        listener = PatternRewriterListener(
            operation_removal_handler=[keep_comments], operation_replacement_handler=[_move_comments]
        )
        walker = PatternRewriteWalker(GreedyRewritePatternApplier(list(self.patterns())), listener=listener)
        if walker.rewrite_region(function.regions[0]):
            assign_registers(function)


def _move_comments(op: Operation, new_results: Sequence[SSAValue | None]) -> None:
    """What stood before a replaced operation goes before the first operation that was made for it."""
    lead = op.attributes.get("lead")
    made = [value.owner for value in new_results if value is not None and isinstance(value.owner, Operation)]
    first = next((new for new in made if new.parent is op.parent and "lead" not in new.attributes), None)
    if lead is None or first is None:
        return
    while first.prev_op is not None and first.prev_op in made:
        first = first.prev_op
    first.attributes["lead"] = lead
    del op.attributes["lead"]
