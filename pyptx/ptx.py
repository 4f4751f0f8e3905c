"""The instructions of a traced kernel: `ptx.inst.add.u32(d, a, b)`, `with ptx.if_(p):`, `ptx.bar.sync(0)`."""

from typing import TYPE_CHECKING, Any, cast

from .compat import accept_former_names as _accept_former_names
from .frontend.core.instructions import emit as _emit_text
from .frontend.core.instructions import inst
from .frontend.core.raw import raw
from .frontend.library import block, warp
from .frontend.library import elementary as math
from .frontend.library.barriers import (
    NamedBarrier,
    bar,
    elect_sync,
    fence,
    named_barrier,
    setmaxnreg,
    setmaxnreg_dec,
    setmaxnreg_inc,
)
from .frontend.library.clusters import cluster
from .frontend.library.control import (
    PipelineState,
    bra,
    break_,
    continue_,
    elect,
    else_,
    expr,
    fresh_label,
    if_,
    kloop,
    label,
    loop,
    pipeline,
    range_,
    ret,
    scope,
)
from .frontend.library.copies import cp, tma
from .frontend.library.debug import file_, intrinsic, loc, pipe, pragma
from .frontend.library.fragments import partition
from .frontend.library.matrix import ldmatrix, mma, stmatrix, stmatrix_x4_trans_f32_bf16
from .frontend.library.mbarriers import MbarrierRing, MbarrierSlot, mbarrier
from .frontend.library.pipelines import Consumer, Pipeline, Producer, Stage
from .frontend.library.printing import assert_, printf
from .frontend.library.scalar import add, and_, cvt, ld, mad, mov, mul, not_, or_, selp, setp, shl, shr, st, sub, xor_
from .frontend.library.special import Special, sreg, target
from .frontend.library.tcgen05 import tcgen05
from .frontend.library.wgmma import wgmma
from .frontend.lint.unknown_names import unknown_name as _unknown_name
from .frontend.memory.addresses import Cvta, addr, global_ptrs, param, var
from .frontend.memory.pointers import Pointer, pointer
from .frontend.module.operations import op

if TYPE_CHECKING:
    from .frontend.core.inst_stubs import SpecialRegisters  # generated: every special register

special = cast("SpecialRegisters", Special())
cvta = Cvta()
ctaid_x, ctaid_y = special.ctaid_x, special.ctaid_y


def _emit(opcode: str, mods: Any = (), operands: Any = (), pred: Any = None) -> Any:
    """Emit an instruction given by its opcode and a list of modifiers (with or without dots)."""
    return _emit_text(".".join([opcode, *(m.lstrip(".") for m in mods)]), *operands, pred=pred)


def __getattr__(name: str) -> Any:
    raise AttributeError(_unknown_name(name, __all__))


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Consumer", "MbarrierRing", "MbarrierSlot", "NamedBarrier", "Pipeline", "PipelineState", "Pointer", "Producer", "Stage", "add", "addr", "and_", "assert_", "bar", "block", "bra", "break_", "cluster", "continue_", "cp", "ctaid_x", "ctaid_y", "cvt", "cvta",
    "elect", "elect_sync", "else_", "expr", "fence", "file_", "fresh_label", "global_ptrs", "if_", "inst", "intrinsic", "kloop",
    "label", "ld", "ldmatrix", "loc", "loop", "mad", "math", "mbarrier", "mma", "mov", "mul", "named_barrier", "not_", "op", "or_",
    "param", "partition", "pipe", "pipeline", "pointer", "pragma", "printf", "range_", "raw", "ret", "scope", "selp", "setmaxnreg", "setmaxnreg_dec",
    "setmaxnreg_inc", "setp", "shl", "shr", "special", "sreg", "st", "stmatrix", "stmatrix_x4_trans_f32_bf16", "sub",
    "target", "tcgen05", "tma", "var", "warp", "wgmma", "xor_",
]  # fmt: skip

_accept_former_names(globals(), "ptx.")
