"""`kernel.launch(grid, block, args)` inside `torch.compile(fullgraph=True)`: traced kernels and imported PTX."""

from __future__ import annotations

from typing import Any

import pytest

import pyptx
from pyptx import kernel, ptx, reg
from pyptx.types import f32, u32, u64

torch = pytest.importorskip("torch")

SCALE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 p, .param .u32 n, .param .f32 a)
{
	.reg .pred %p<2>;
	.reg .b32 %r<5>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	ld.param.f32 %f1, [a];
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mad.lo.u32 %r2, %r3, %r4, %r2;
	setp.ge.u32 %p1, %r2, %r1;
	@%p1 bra END;
	mul.wide.u32 %rd2, %r2, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.f32 %f2, [%rd3];
	mul.f32 %f2, %f2, %f1;
	st.global.f32 [%rd3], %f2;
END:
	ret;
}
"""


@kernel(arch="sm_80", raw_params=[("u64", "p"), ("u32", "n")])
def twice() -> None:
    p, n = ptx.param(u64, "p"), ptx.param(u32, "n")
    i = ptx.special.tid.x()
    with ptx.if_(i < n):
        at = ptx.addr(p + i * 4)
        v = ptx.inst.ld.global_.f32(reg.scalar(f32), at)
        ptx.inst.st.global_.f32(at, v + v)


@pytest.mark.parametrize(
    "make", [lambda: pyptx.load(SCALE)["scale"], lambda: pyptx.Kernel.from_ptx(SCALE)], ids=["load", "from_ptx"]
)
def test_imported_ptx_is_a_graph_node(make: object) -> None:
    scale = make()  # pyright: ignore

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        scale.launch((4,), (64,), (y, y.numel(), 3.0))
        return y * 2

    x = torch.randn(200)
    want = (x + 1) * 3.0 * 2
    torch.testing.assert_close(program(x), want)
    for _ in range(2):
        torch.testing.assert_close(torch.compile(program, fullgraph=True, backend="aot_eager")(x), want)


def test_a_traced_kernel_is_a_graph_node() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        twice.launch((1,), (32,), (y, 20))
        return y

    x = torch.randn(32)
    want = torch.cat([2 * x[:20], x[20:]])
    torch.testing.assert_close(torch.compile(program, fullgraph=True, backend="aot_eager")(x), want)


def test_options_that_a_graph_cannot_hold_are_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        twice.launch((1,), (32,), (x, 20), cooperative=True)
        return x

    with pytest.raises(Exception, match=r"launch inside torch\.compile takes cluster and smem, not cooperative"):
        torch.compile(program, fullgraph=True, backend="aot_eager")(torch.randn(32))


def test_opcheck_through_the_public_accessor() -> None:
    from .kernels import add

    x, y = torch.randn(2, 64)
    torch.library.opcheck(add().op(), (x, y))


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda: pyptx.load(SCALE)["scale"], (200, 3.0)),
        (lambda: twice, (20,)),
    ],
    ids=["load", "raw_params"],
)
def test_opcheck_of_launches(make: Any, values: tuple[Any, ...]) -> None:
    kernel = make()
    x = torch.randn(200)
    want = x * values[1] if len(values) > 1 else torch.cat([x[:20] * 2, x[20:]])
    grid = [4 if len(values) > 1 else 1]
    op = kernel.op(x, *values)
    assert op is kernel.op(torch.zeros(1), *values), "one operator for one kind of arguments"
    torch.library.opcheck(op, (x.clone(), *values, grid, [64]))

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        op(y, *values, grid, [64])
        return y

    torch.testing.assert_close(torch.compile(program, fullgraph=True, backend="aot_eager")(x), want)
    with pytest.raises(pyptx.PTXError, match=rf"takes {1 + len(values)} arguments, .* not for 0"):
        kernel.op()


def test_kernels_of_cuda_cpp_are_graph_nodes() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = pyptx.cuda.compile(
        "template <int N> __global__ void add(float* x, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += N; }",
        arch="sm_90", name="add<3>",
    )  # fmt: skip
    x = torch.randn(100)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        kernel.launch((2,), (64,), (y, 100))
        return y

    torch.testing.assert_close(torch.compile(program, fullgraph=True, backend="aot_eager")(x), x.sin() + 3)
    torch.library.opcheck(kernel.op(x, 100), (x, 100, [2], [64]), test_utils=("test_schema", "test_faketensor"))
