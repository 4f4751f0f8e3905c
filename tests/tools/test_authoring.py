"""The reference of what kernels are written with: everything public is there, and its examples are programs."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.tools.authoring import FAMILIES, ROOTS, members, pages, signature
from pyptx.types import bf16, f32, s32, u32
from tests.frontend.tracing import assembled

PAGE = "\n".join(pages().values())


@pytest.mark.parametrize("module", [ptx, reg, smem])
def test_everything_public_is_there_and_documented(module: Any) -> None:
    short = module.__name__.removeprefix("pyptx.")
    for name in module.__all__:
        section = PAGE.split(f"\n## {short}.{name}\n", 1)[1].split("\n## ", 1)[0]
        text = inspect.getdoc(getattr(module, name))
        assert text
        assert text.split("\n", 1)[0] in section


@pytest.mark.parametrize(
    "line",
    [
        "ptx.cp.async_.cg(dst, src, bytes: int = 16, *, src_bytes=None, pred: Guard = None)",
        "ptx.warp.reduce_sum(reg: Reg, *, width: int = 32) -> Reg",
        "ptx.pipeline(n: int, *, cursor: Reg | None = None, phase: Reg | None = None) -> PipelineState",
        "ptx.PipelineState.advance() -> tuple[Reg, Reg]",
        "### ptx.cp.async_bulk\n\nThe same as `ptx.cp.async_.bulk`.",
        "ptx.MbarrierSlot.wait(phase, *, scope: Scope = 'cta', pred: Guard = None)",
        "- `Layout.TMA_64B`",
    ],
)
def test_members_are_listed_with_full_names(line: str) -> None:
    assert f"\n{line}\n" in PAGE


def test_each_name_is_on_one_page() -> None:
    names = [name for family in FAMILIES for name in members(family)]
    modules = {"ptx": ptx, "reg": reg, "smem": smem}
    public = {f"{short}.{name}" for short, module in modules.items() for name in module.__all__}
    assert len(names) == len(set(names))
    assert set(names) == public | (ROOTS.keys() - modules.keys()), "a new name needs a place in FAMILIES"


def test_what_is_for_the_tracer_is_left_out() -> None:
    assert "Trace)" not in PAGE
    assert ".described" not in PAGE
    assert " at 0x" not in PAGE  # a default by its address would differ from run to run


def test_a_signature() -> None:
    def function(self, a: Any, b: str = "x", *, mask: int = 0x3FF80) -> None: ...

    function.__annotations__ = {"a": "Any", "b": "str", "mask": "int", "return": "None"}
    assert signature("f", function) == "f(a, b: str = 'x', *, mask: int = 0x3FF80)"


EXAMPLES = [
    ptx.pipeline, ptx.kloop, type(ptx.cp.async_), ptx.cp.async_.bulk.load, type(ptx.cp.async_.bulk.tensor_2d),
    type(ptx.tma), type(ptx.mbarrier), type(ptx.wgmma), ptx.warp.reduce_sum,
    ptx.warp.scan_sum, ptx.block.reduce_sum, ptx.math.exp, ptx.printf, ptx.assert_, ptx.elect, ptx.Pipeline,
]  # fmt: skip


def example(documented: Any) -> str:
    """The indented lines of a docstring."""
    lines = (inspect.getdoc(documented) or "").split("\n")
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))


@pytest.mark.parametrize("documented", EXAMPLES, ids=lambda d: d.__name__)
def test_examples_trace_and_assemble(documented: Callable[..., Any] | type) -> None:
    code = compile(example(documented), "<example>", "exec")
    assert code.co_names

    @kernel(
        arch="sm_90a",
        in_specs=[Tile("N", f32), Tile("M", "K", f32, tma_box=(16, 32)), Tile("R", "C", bf16, tma_box=(64, 128), tma_rank=3)],
        out_specs=[Tile("N", f32)],
        grid=1,
        block=128,
    )  # fmt: skip
    def program(numbers, matrix, panels, out):
        (x,) = ptx.global_ptrs(numbers)
        t = reg.from_(ptx.special.tid.x(), u32)
        wide = documented is type(ptx.tma)
        names = {
            "ptx": ptx, "reg": reg, "smem": smem, "f32": f32, "bf16": bf16, "u32": u32, "x": x, "t": t, "first": t == 0,
            "tile": smem.alloc(bf16, (2, 64, 64)) if wide else smem.alloc(f32, 16 * 32),
            "tensor": panels if wide else matrix,
            "row": t, "column": t, "bar": smem.mbarrier(1)[0], "full": smem.mbarrier(3), "ring": ptx.pipeline(3),
            "count": t, "total": reg.scalar(u32, init=0), "value": reg.scalar(f32, init=1.0), "largest": reg.scalar(f32, init=2.0), "length": t,
            "a": smem.wgmma_tile(bf16, (64, 64)), "b": smem.wgmma_tile(bf16, (64, 64)),
        }  # fmt: skip
        if documented in (ptx.math.exp, ptx.Pipeline):
            names["total"] = reg.scalar(f32, init=0.0)
        if documented is ptx.kloop:
            names["total"] = reg.scalar(s32, init=0)
        exec(code, names)

    assembled(program, N=512, M=16, K=32, R=64, C=128)
