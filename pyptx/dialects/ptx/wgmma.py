"""Warpgroup matrix instructions of Hopper (PTX ISA 9.7.17): `wgmma`, which four warps execute together and
asynchronously.
"""

from __future__ import annotations

from typing import Any

from .forms import Form, Slots, form
from .instruction import Instruction, instruction
from .matrix import FP8, extent, fragment_of


def _shapes(k: int, columns: range | tuple[int, ...]) -> str:
    return " ".join(f"m64n{n}k{k}" for n in columns)


# ptxas asks for .sync but not for .aligned here; the manual's syntax has both
_EVERY_EIGHT = range(8, 257, 8)
_INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))
_TRANSPOSABLE = ("imm_trans_a", "imm_trans_b")
_RANGES: dict[str, tuple[int, int] | frozenset[int]] = {
    "scale_d": (0, 1),
    "imm_scale_a": frozenset((-1, 1)),
    "imm_scale_b": frozenset((-1, 1)),
    "imm_trans_a": (0, 1),
    "imm_trans_b": (0, 1),
}


def _wgmma(
    modifiers: str,
    k: int,
    dtype: str,
    atype: str,
    ptx: str,
    *,
    btype: str = "",
    scaled: bool = True,
    transposable: bool = False,
    selectors: int = 1,
    sparse: bool = True,
    **more: Any,
) -> tuple[Form, ...]:
    """The forms for one set of types: dense and (2:4 sparse, twice as deep) sparse A, each from a descriptor
    and from registers.
    """
    found: list[Form] = []
    for sp in (False, True) if sparse else (False,):
        for operand in ("a_desc:u64", "a:frag%" if scaled else "a:frag?%"):
            operands = ["d~:frag", operand, "b_desc:u64", *(["e:b32?%*", "f:imm"] if sp else []), "scale_d:pred!"]
            if scaled:
                operands += ["imm_scale_a:imm", "imm_scale_b:imm"]
            if transposable:  # registers hold A in one order only
                operands += [f"{name}:imm" for name in _TRANSPOSABLE if operand == "a_desc:u64" or name[-1] == "b"]
            found.append(
                form(
                    f"wgmma.mma_async{'.sp' if sp else ''}.sync{{.aligned}}.shape{modifiers} {', '.join(operands)}",
                    shape=_shapes(2 * k if sp else k, _EVERY_EIGHT if scaled else _INTEGER_COLUMNS),
                    dtype=dtype,
                    atype=atype,
                    btype=btype or atype,
                    ptx=max(ptx, "8.2") if sp else ptx,
                    sm="90a",
                    ranges={**_RANGES, "f": (0, selectors - 1)},
                    **more,
                )
            )
    return tuple(found)


_TYPES = ".dtype.atype.btype"


@instruction
class WgmmaMmaAsync(Instruction):
    """Multiply and accumulate matrices asynchronously: D = A * B, or D = A * B + D. The four warps of a
    warpgroup execute it together.

    Operands: d, the thread's part of D, read and written until `wgmma.wait_group` says it is done; A, a
    shared-memory descriptor or the thread's four registers of it; b_desc, the descriptor of B; scale_d,
    whether D is added (a predicate or 0/1). Floating-point forms take imm_scale_a and imm_scale_b (1, or -1
    to negate), 16-bit ones also imm_trans_a and imm_trans_b (1: transposed; A only from a descriptor). With
    `.sp` A is 2:4 sparse, e its metadata and f the selector of the threads that supply it.
    """

    name = "ptx.wgmma.mma_async"
    section = "9.7.17.5.2"
    result_name = "acc"
    effect = "order"
    starts = "wgmma"
    access_bytes = 16
    proxy = "async"
    in_flight = "wgmma"
    differs = "thread"
    unit = "tensor core"
    sums = "wgmma"
    forms = (
        *_wgmma(_TYPES, 16, "f16 f32", "f16", "8.0", transposable=True, selectors=2),
        *_wgmma(_TYPES, 16, "f32", "bf16", "8.0", transposable=True, selectors=2),
        *_wgmma(_TYPES, 8, "f32", "tf32", "8.0", selectors=2),
        *_wgmma(_TYPES, 32, "f16 f32", FP8, "8.0"),
        *_wgmma("{.satfinite}" + _TYPES, 32, "s32", "s8", "8.0", scaled=False),
        *_wgmma("{.satfinite}" + _TYPES, 32, "s32", "u8", "8.0", scaled=False),
        *_wgmma("{.satfinite}" + _TYPES, 32, "s32", "s8", "8.4", btype="u8", scaled=False),
        *_wgmma("{.satfinite}" + _TYPES, 32, "s32", "u8", "8.4", btype="s8", scaled=False),
        *_wgmma(_TYPES + ".bitop.popc", 256, "s32", "b1", "8.0", scaled=False, sparse=False, bitop="and"),
    )

    @classmethod
    def adds_if(cls, modifiers: tuple[str, ...]) -> int | None:
        return 5 if "sp" in modifiers else 3  # scale_d

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        m, n, _ = extent(slots["shape"])
        if name == "d":
            return fragment_of(slots["dtype"], m * n // 128)
        # A takes four registers whatever its type; those of a floating-point A behave like .f16x2
        return ("b32" if slots["dtype"] == "s32" else "f16x2"), 4


@instruction
class WgmmaFence(Instruction):
    """Order accesses to registers before `wgmma.mma_async`: needed before the first one and whenever the
    registers of D or A were touched.
    """

    name = "ptx.wgmma.fence"
    section = "9.7.17.7.1"
    effect = "order"
    unit = "barrier"
    forms = (form("wgmma.fence.sync{.aligned}", ptx="8.0", sm="90a"),)


@instruction
class WgmmaCommitGroup(Instruction):
    """Put all `wgmma.mma_async` that the warpgroup has started and not yet committed into one group, for
    `wgmma.wait_group`.
    """

    name = "ptx.wgmma.commit_group"
    section = "9.7.17.7.2"
    effect = "order"
    gathers = "wgmma"
    unit = "barrier"
    forms = (form("wgmma.commit_group.sync{.aligned}", ptx="8.0", sm="90a"),)


@instruction
class WgmmaWaitGroup(Instruction):
    """Wait until at most n of the latest groups of `wgmma.mma_async` are still running; 0 waits for all of
    them.

    Operands: n, a constant. Only after it may the registers of D (and of A) in the finished groups be
    touched.
    """

    name = "ptx.wgmma.wait_group"
    section = "9.7.17.7.3"
    effect = "order"
    waits_for = "wgmma"
    unit = "barrier"
    forms = (form("wgmma.wait_group.sync{.aligned} n:imm", ranges={"n": (0, None)}, ptx="8.0", sm="90a"),)
