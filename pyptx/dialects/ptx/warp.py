"""Warp-wide exchange and votes (PTX ISA 9.7.10.6 and 9.7.15)."""

from __future__ import annotations

from typing import Any

from .forms import form
from .instruction import Instruction, instruction
from .target import need

SHUFFLE = "up down bfly idx"
UNSYNCED: dict[str, Any] = {"until": "6.3", "until_sm": "70+"}
"""Forms without `.sync`, which sm_70 and newer lost with PTX 6.4."""
DISJOINT: dict[str, Any] = {"masks": "no_membermask_overlap", "needs": {"no_membermask_overlap": need("8.4")}}
"""The manual does not know this modifier. By its name it promises that lanes which wait at the same time do so with masks
that have no lane in common; it changes no result."""


@instruction
class Shuffle(Instruction):
    """Read a register of another lane of the warp.

    Operands: d, 32 bits; p, whether the source lane was in range; a, the value this lane offers; b, the lane,
    delta or mask; c, the clamp and segment mask; membermask, the lanes that take part (with `.sync`).
    """

    name = "ptx.shfl"
    section = "9.7.10.6"
    result_name = "other"
    effect = "order"
    exchanges = True
    differs = "thread"
    unit = "warp"
    forms = (
        form("shfl.sync{.masks}.mode.b32 d{|p:pred_}, a, b, c, membermask:u32", mode=SHUFFLE, ptx="5.1", **DISJOINT),
        form("shfl.mode.b32 d{|p:pred_}, a, b, c", mode=SHUFFLE, ptx="3.0", **UNSYNCED),
    )


@instruction
class Vote(Instruction):
    """Combine a predicate over the warp: true for all lanes, for any, the same in all (`uni`), or one bit
    per lane.

    Operands: p (or d, 32 bits, for `ballot`); a, the predicate, may be negated; membermask, the lanes that
    take part (with `.sync`).
    """

    name = "ptx.vote"
    section = "9.7.15.10"
    result_name = "votes"
    effect = "order"
    exchanges = True
    differs = "warp"
    unit = "warp"
    forms = (
        form("vote.sync{.masks}.mode.pred p:pred, a:pred!, membermask:u32", mode="all any uni", ptx="5.1", **DISJOINT),
        form("vote.sync{.masks}.ballot.b32 d, a:pred!, membermask:u32", ptx="5.1", **DISJOINT),
        form("vote.mode.pred p:pred, a:pred!", mode="all any uni", ptx="1.2", **UNSYNCED),
        form("vote.ballot.b32 d, a:pred!", ptx="2.0", **UNSYNCED),
    )


@instruction
class Match(Instruction):
    """Find the lanes that hold the same value: the mask of those equal to this lane's, or of all if all are
    equal.

    Operands: d, the mask (32 bits); p, with `.all`: whether all agree; a, the value; membermask, the lanes
    that take part.
    """

    name = "ptx.match"
    section = "9.7.15.11"
    result_name = "same"
    effect = "order"
    exchanges = True
    differs = "warp"
    unit = "warp"
    forms = (
        form("match.any.sync{.masks}.type d:u32, a, membermask:u32", type="b32 b64", ptx="5.1", sm="70+", **DISJOINT),
        form(
            "match.all.sync{.masks}.type d:u32_{|p:pred_}, a, membermask:u32",
            type="b32 b64",
            ptx="5.1",
            sm="70+",
            **DISJOINT,
        ),
    )

    @classmethod
    def difference(cls, modifiers: tuple[str, ...]) -> str:
        return "thread" if "any" in modifiers else "warp"


@instruction
class ActiveMask(Instruction):
    """The mask of the lanes that run this instruction together. Operand: d, 32 bits."""

    name = "ptx.activemask"
    looks_at_schedule = True
    section = "9.7.15.12"
    result_name = "mask"
    effect = "order"
    differs = "warp"
    unit = "warp"
    forms = (form("activemask.b32 d", ptx="6.2"),)


@instruction
class Redux(Instruction):
    """Reduce a value over the lanes of the mask; every lane gets the result.

    Operands: d; a, the value; membermask, the lanes that take part. For f32 `.abs` compares magnitudes,
    `.NaN` lets a NaN win (else NaNs count only if there is nothing else), and -0 is less than +0.
    """

    name = "ptx.redux"
    section = "9.7.15.13"
    effect = "order"
    exchanges = True
    differs = "warp"
    unit = "warp"
    forms = (
        form(
            "redux.sync{.masks}.op.type d:u32, a:u32, membermask:u32", op="add min max", type="u32 s32", ptx="7.0", sm="80+", **DISJOINT,
        ),
        form("redux.sync{.masks}.op.b32 d:u32, a:u32, membermask:u32", op="and or xor", ptx="7.0", sm="80+", **DISJOINT),
        form(
            "redux.sync{.masks}.op{.abs}{.NaN}.f32 d:f32, a:f32, membermask:u32", op="min max", **DISJOINT,
            ptx="8.6", sm="100af 103af 107af",
        ),
    )  # fmt: skip


@instruction
class Elect(Instruction):
    """Choose one leader lane of the mask, the same one each time.

    Operands: d, its number, may be `_`; p, true in that lane; membermask.
    """

    name = "ptx.elect"
    section = "9.7.15.15"
    result_name = "leader"
    effect = "order"
    differs = "thread"
    unit = "warp"
    forms = (form("elect.sync d:u32_|p:pred, membermask:u32", ptx="8.0", sm="90+"),)
