"""Tracing a kernel to verified PTX text: lines/s of the examples (with ptxas's time next to it) and by size, and the cost of a
second call with the same specialisation.

python -m benchmarks.trace
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from benchmarks._table import Table, measure
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.runtime.ptxas import ToolNotFound, assemble
from pyptx.types import f32

EXAMPLES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("ampere.gemm", "ampere.gemm_pipelined", "ampere.gemm_highperf", "hopper.gemm", "hopper.gemm_highperf",
         "hopper.fp8_gemm", "blackwell.gemm_1sm", "blackwell.gemm_2sm", "geforce.block_scaled_gemm"), (512, 512, 512)
    ),
    **dict.fromkeys(("hopper.grouped_gemm", "blackwell.grouped_gemm"), (512, 4, 512, 512)),
    **dict.fromkeys((f"hopper.{n}" for n in ("rms_norm", "layer_norm", "softmax", "swiglu")), (512, 4096)),
    "hopper.flash_attention": (4, 512, 512, 128),
}  # fmt: skip
"""Modules of examples -> the arguments of their `build`."""


def examples() -> None:
    """One table over the examples: each a fresh kernel, the caches of this process warm, as for the next specialisation."""
    table = Table("trace examples to verified PTX text", "lines/s")
    seconds = lines = judged = 0.0
    for name, size in EXAMPLES.items():
        build_it = import_module(f"examples.{name}").build
        kernel_ = build_it(*size)
        text = kernel_.ptx()
        count = text.count("\n")
        timing = measure(lambda b=build_it, s=size: b(*s).ptx(), repeats=3)
        try:
            start = time.perf_counter()
            assemble(text, kernel_.arch)
            ptxas = time.perf_counter() - start
        except ToolNotFound:
            ptxas = 0.0
        seconds, lines, judged = seconds + timing.median, lines + count, judged + ptxas
        note = f"{count} lines, {timing.median * 1e3:.0f} ms; ptxas {ptxas * 1e3:.0f} ms"
        table.add(name, count / timing.median, note=note)
    table.add("all together", lines / seconds, at_least=60_000, note=f"{lines:.0f} lines; ptxas {judged:.1f} s")
    table.print()


def build(rounds: int) -> Kernel:
    """An unrolled kernel of about 10 lines a round: loads, arithmetic by call and by operator, stores."""

    @kernel(arch="sm_90a", in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=1, block=128)
    def unrolled(x, y):
        px, py = ptx.global_ptrs(x, y)
        tid = ptx.special.tid.x()
        px += tid * 16
        total = reg.scalar(f32, init=0.0)
        v = reg.array(f32, 4)
        for i in range(rounds):
            ptx.inst.ld.global_.v4.f32(v, ptx.addr(px, 16 * (i % 64)))
            for k in range(4):
                ptx.inst.fma.rn.f32(total, v[k], v[k], total)
            total += 1.0
            scaled = total * 0.5
            bits = ptx.inst.mov.b32(reg.scalar(f32), scaled)
            ptx.inst.st.global_.f32(ptx.addr(py, 4 * (i % 64)), bits)
        ptx.ret()

    return unrolled


def main() -> None:
    examples()
    table = Table("trace to verified PTX text", "lines/s")
    for rounds in (100, 1000, 5000):
        lines = build(rounds).ptx().count("\n")
        timing = measure(lambda rounds=rounds: build(rounds).ptx(), repeats=3)
        table.add(f"{lines} lines", lines / timing.median, at_least=60_000, note=timing)
    table.print()
    again = build(100)
    again.ptx()
    timing = measure(lambda: [again.ptx() for _ in range(1000)], repeats=5)
    second = Table("the same specialisation again", "us")
    second.add("Kernel.ptx()", 1e6 * timing.median / 1000, at_most=1.0, note=timing)
    second.print()


if __name__ == "__main__":
    main()
