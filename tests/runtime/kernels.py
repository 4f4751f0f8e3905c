"""Small traced kernels that the runtime's tests share."""

from __future__ import annotations

from typing import Any

from pyptx import Layout, Tile, kernel, ptx, reg
from pyptx.types import bf16, f32, u32


def scaled_sum(**options: Any) -> Any:
    """y[b, n] = x[b, n] * scale + w[n], one CTA per row, one thread per column; `scale` is a raw f32."""

    @kernel(
        arch="sm_90a", in_specs=(Tile("B", 64, f32), Tile(64, f32)), out_specs=(Tile("B", 64, f32),),
        grid=lambda B: (B, 1, 1), block=(64, 1, 1), raw_params=[("f32", "scale")], **options,
    )  # fmt: skip
    def scaled_sum(x, w, y):
        px, pw, py = ptx.global_ptrs(x, w, y)
        scale = ptx.param(f32, "scale")
        column = reg.from_(ptx.special.tid.x(), u32)
        row = reg.from_(ptx.special.ctaid.x(), u32)
        here = (row * 64 + column) * 4
        a, b = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, ptx.addr(px + here))
        ptx.inst.ld.global_.f32(b, ptx.addr(pw + column * 4))
        ptx.inst.fma.rn.f32(a, a, scale, b)
        ptx.inst.st.global_.f32(ptx.addr(py + here), a)
        ptx.ret()

    return scaled_sum


def add(**options: Any) -> Any:
    """z[n] = x[n] + y[n], 32 threads per CTA; N is a multiple of 32."""

    @kernel(
        arch="sm_90a", in_specs=(Tile("N", f32), Tile("N", f32)), out_specs=(Tile("N", f32),),
        grid=lambda N: (N // 32, 1, 1), block=(32, 1, 1), **options,
    )  # fmt: skip
    def add(x, y, z):
        px, py, pz = ptx.global_ptrs(x, y, z)
        here = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 4
        a, b = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, ptx.addr(px + here))
        ptx.inst.ld.global_.f32(b, ptx.addr(py + here))
        ptx.inst.add.f32(a, a, b)
        ptx.inst.st.global_.f32(ptx.addr(pz + here), a)
        ptx.ret()

    return add


def by_kind(**options: Any) -> Any:
    """y[n] = x[n] times 2 for a number `k`, 3 for a bool, 5 for a list: equal values that are different templates."""

    @kernel(
        arch="sm_90a", in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),),
        grid=lambda N: (N // 32, 1, 1), block=(32, 1, 1), **options,
    )  # fmt: skip
    def by_kind(x, y, *, k=1):
        px, py = ptx.global_ptrs(x, y)
        here = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 4
        a = reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, ptx.addr(px + here))
        ptx.inst.mul.f32(a, a, 3.0 if isinstance(k, bool) else 5.0 if isinstance(k, list) else 2.0)
        ptx.inst.st.global_.f32(ptx.addr(py + here), a)
        ptx.ret()

    return by_kind


def described(**options: Any) -> Any:
    """A kernel with TMA descriptors of its three tensors, which it only reads."""
    box: dict[str, Any] = {"layout": Layout.TMA_128B, "tma_box": (64, 64)}

    @kernel(
        arch="sm_90a", in_specs=(Tile("M", "K", bf16, **box), Tile("K", "N", bf16, **box)),
        out_specs=(Tile("M", "N", bf16, **box),), grid=lambda M, N, K: (M // 64, N // 64, 1),
        block=(128, 1, 1), **options,
    )  # fmt: skip
    def described(a, b, c):
        pc = ptx.global_ptrs(c)[0]
        total = a.tma_desc() + b.tma_desc()
        total = total + c.tma_desc()
        ptx.inst.st.global_.b64(ptx.addr(pc), total)
        ptx.ret()

    return described


def offset_by(amount: int) -> Any:
    """y[n] = x[n] + amount: kernels of one name and one signature."""

    @kernel(arch="sm_80", in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=1, block=lambda N: N)
    def offset(x, y):
        tid = ptx.special.tid.x()
        (ptx.pointer(y) + tid).store((ptx.pointer(x) + tid).load() + float(amount))

    return offset
