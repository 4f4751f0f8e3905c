"""Tracing a kernel to verified PTX text: lines/s by size, and the cost of a second call with the same specialisation.

python -m benchmarks.trace
"""

from __future__ import annotations

from benchmarks._table import Table, measure
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.types import f32


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
