"""`Kernel`: text layout, parameters, template parameters and dimensions, versions, launch shape, errors at the
Python line.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import PTXError, Tile, kernel, ptx, reg, simulate, smem
from pyptx.diagnostics import TraceWarning
from pyptx.kernel import Kernel, TensorSpec, TmaDescriptorHandle
from pyptx.runtime import ptxas
from pyptx.types import bf16, f32, s32, u32, u64
from tests.frontend.tracing import assembled, body, ptx_of


@kernel(in_specs=[Tile("B", "N", f32)], out_specs=[Tile("B", "N", f32)], grid=lambda B, N: (B, N // 128), block=128)
def scaled(x, y, *, factor=2.0):
    src, dst = ptx.global_ptrs(x, y)
    at = ptx.special.ctaid.x() * x.shape[1]
    at += ptx.special.ctaid.y() * 128
    at += ptx.special.tid.x()
    at <<= 2
    src += at
    dst += at
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(src))
    value *= factor
    ptx.inst.st.global_.f32(ptx.addr(dst), value)
    ptx.ret()


def test_kernel_is_the_decorator_whatever_is_imported():
    assert pyptx.kernel is kernel
    assert inspect.isfunction(pyptx.kernel)
    assert isinstance(kernel(lambda: ptx.ret()), Kernel)


def test_text_layout():
    @kernel(raw_params=[("u64", "a"), ("u32", "n")], reqntid=(128, 1, 1))
    def laid_out():
        n = ptx.param(u32, "n")
        shared = smem.alloc(f32, 4)
        with ptx.if_(n > 3):
            ptx.inst.st.shared.f32(ptx.addr(shared), 1.5)
        ptx.ret()

    assert (
        assembled(laid_out)
        == """\
.version 8.0
.target sm_90a
.address_size 64

.visible .entry laid_out(
	.param .u64 a,
	.param .u32 n
)
.reqntid 128, 1, 1
{
	.reg .u32 %r0;
	.reg .pred %p<1>;
	.shared .align 128 .b8 smem_0[16];
	ld.param.u32 %r0, [n];
	setp.gt.u32 %p0, %r0, 3;
	@!%p0 bra $_else_0;
	st.shared.f32 [smem_0], 0f3FC00000;
$_else_0:
$_endif_0:
	ret;
}
"""
    )


def test_no_specs_and_no_raw_parameters_means_no_parameters():
    text = ptx_of(lambda: ptx.ret())
    assert ".param" not in text


def test_parameter_order_is_tensors_raw_parameters_descriptors():
    @kernel(in_specs=[Tile("M", bf16), Tile("M", bf16)], out_specs=[Tile("M", bf16)], raw_params=[("u32", "n")])
    def ordered(a, b, c):
        b.tma_desc()
        a.tma_desc()
        ptx.ret()

    names = [p.name for p in ordered.trace(M=4).parameters]
    assert names == ["a", "b", "c", "n", "b_tma_desc", "a_tma_desc"]
    kinds = [p.kind for p in ordered.trace(M=4).parameters]
    assert kinds == ["tensor", "tensor", "tensor", "raw", "tma", "tma"]
    assembled(ordered, M=4)


def test_raw_parameter_grammar():
    @kernel(
        arch="sm_80",
        raw_params=[
            ("u64.ptr.global.palign16", "a"),
            ("b8.align64.array128", "map"),
            ("u64.ptr", "generic"),
            ("f32", "x"),
        ],
    )
    def parameters():
        ptx.param(f32, "x")
        ptx.param(pyptx.types.b64, "map")
        ptx.ret()

    text = assembled(parameters)
    assert ".param .u64 .ptr .global .align 16 a," in text
    assert ".param .align 64 .b8 map[128]," in text
    assert ".param .u64 .ptr .align 1 generic," in text
    with pytest.raises(ValueError, match="unknown part 'sideways'"):
        kernel(raw_params=[("u32.sideways", "a")])(lambda: ptx.ret()).ptx()


def test_version_is_the_lowest_that_admits_what_is_used():
    assert ".version 7.0\n" in ptx_of(lambda: ptx.ret(), arch="sm_80")
    assert ".version 8.0\n" in ptx_of(lambda: ptx.wgmma.fence(), arch="sm_90a")
    assert ".version 8.6\n" in ptx_of(lambda: ptx.tcgen05.wait_ld(), arch="sm_100a")
    assert ".version 8.7\n" in ptx_of(lambda: ptx.ret(), arch="sm_90a", version="8.7")

    def elected():
        ptx.elect_sync(reg.scalar(u32), reg.scalar(pyptx.types.pred))

    assert ".version 8.0\n" in ptx_of(elected, arch="sm_90")
    with pytest.raises(PTXError, match=r"needs PTX 8\.0 or newer"):
        kernel(arch="sm_90", version="7.8")(elected).ptx()


def test_arch_auto_resolves_at_first_use():
    k = kernel(arch="auto")(lambda: ptx.ret())
    assert k._arch == "auto"
    try:
        expected = pyptx.detect_arch()
    except RuntimeError:
        expected = "sm_90a"
    assert k.arch == expected


def test_unknown_arch_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="sm_90a"):
        kernel(arch="sm_90b")(lambda: ptx.ret())


def test_template_parameters_dimensions_and_wrong_names():
    assert scaled.template_params == {"factor": 2.0}
    assert scaled.symbolic_dims == ("B", "N")
    assert "0f40400000" in scaled.ptx(B=1, N=128, factor=3.0)
    with pytest.raises(TypeError, match="factor, B, N"):
        scaled.ptx(B=1, N=128, facotr=3.0)
    with pytest.raises(TypeError, match="is an int"):
        scaled.ptx(B=1.5, N=128)


def test_one_and_true_are_different_template_values():
    seen = []

    @kernel
    def remembered(*, flag=None):
        seen.append(flag)
        ptx.ret()

    remembered.ptx(flag=1)
    remembered.ptx(flag=True)
    remembered.ptx(flag=1)
    assert seen == [1, True]
    assert [type(s) for s in seen] == [int, bool]


def test_template_values_are_told_apart_inside_of_containers():
    @dataclasses.dataclass(frozen=True)
    class Config:
        value: object

    seen = []

    @kernel
    def remembered(*, given=None):
        seen.append(given)
        ptx.ret()

    first, second = np.zeros(2001, np.float32), np.zeros(2001, np.float32)
    second[1000] = 5  # where its repr has an ellipsis
    values = [
        (1,), (True,), (1.0,), ((1,),), ((True,),), [1], [True], {"a": 1}, {"a": True}, frozenset({1}), frozenset({1.0}),
        Config(1), Config(True), 0.0, -0.0, (0.0,), (-0.0,), first, second,
    ]  # fmt: skip
    for value in values * 2:
        remembered.ptx(given=value)
    assert len(seen) == len(values), "each of them is traced once"


def test_tensor_specs_know_their_shape_only_when_all_dimensions_do():
    shapes = []

    @kernel(in_specs=[Tile("M", 4, f32)], out_specs=[Tile("M", "N", f32)])
    def shaped(a, b):
        shapes.append((a.shape, b.shape, a.dtype))
        ptx.ret()

    shaped.ptx(M=8)
    assert shapes == [((8, 4), None, f32)]


def test_tma_descriptor_outside_of_a_trace_is_a_handle():
    assert TensorSpec("A").tma_desc() == TmaDescriptorHandle(tensor=TensorSpec("A"))
    assert TmaDescriptorHandle(TensorSpec("A")).name == "A_tma_desc"


def test_launch_shape():
    assert scaled.resolve_launch({"B": 3, "N": 512}) == ((3, 4, 1), (128, 1, 1), (1, 1, 1), 0)


def test_runs_on_the_simulator():
    x = np.arange(512, dtype=np.float32).reshape(2, 256)
    y = np.zeros_like(x)
    simulate(scaled.module(B=2, N=256), x, y, grid=(2, 2), block=128)
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(scaled(x), 2 * x)


def test_calling_needs_specs_and_enough_arrays():
    with pytest.raises(NotImplementedError):
        kernel(lambda: ptx.ret())()
    with pytest.raises(TypeError):
        scaled()


def test_same_text_in_any_process():
    script = "from tests.frontend.test_kernel import scaled; import sys; sys.stdout.write(scaled.ptx(B=2, N=256))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": str(i)}
        ).stdout
        for i in (1, 2)
    }
    assert texts == {scaled.ptx(B=2, N=256)}
    again = Kernel(scaled._fn, in_specs=scaled.in_specs, out_specs=scaled.out_specs)
    assert again.ptx(B=2, N=256) in texts


def test_an_illegal_instruction_is_reported_at_its_python_line():
    def wrong():
        a = reg.scalar(f32)
        b = reg.scalar(u32)
        ptx.inst.add.f32(a, a, b)  # here

    with pytest.raises(PTXError) as caught:
        kernel(wrong).ptx()
    (diagnostic,) = caught.value.diagnostics
    source, first = inspect.getsourcelines(wrong)
    assert diagnostic.filename == __file__
    assert diagnostic.line == first + next(i for i, line in enumerate(source) if "# here" in line)
    assert "the register is .u32" in diagnostic.message
    assert diagnostic.source_line is not None
    assert "# here" in diagnostic.source_line


def test_target_needs_are_reported():
    with pytest.raises(PTXError, match="sm_90a"):
        kernel(arch="sm_80")(lambda: ptx.wgmma.fence()).ptx()
    with pytest.raises(PTXError, match="sm_100"):
        kernel(arch="sm_90a")(lambda: ptx.tcgen05.wait_ld()).ptx()


def test_ptxas_messages_point_to_the_python_line(monkeypatch):
    def stored():
        pointer = ptx.param(u64, "p")
        ptx.inst.st.global_.u32(ptx.addr(pointer), 7)  # here
        ptx.ret()

    k = kernel(raw_params=[("u64", "p")])(stored)
    line = next(i for i, text in enumerate(k.ptx().split("\n"), 1) if "st.global" in text)
    complaint = ptxas.PtxasResult(ok=False, diagnostics=(pyptx.Diagnostic("error", "no such thing", None, line),))
    monkeypatch.setattr(ptxas, "assemble", lambda *args, **kw: complaint)
    (found,) = k.check()
    source, first = inspect.getsourcelines(stored)
    assert (found.message, found.filename) == ("no such thing", __file__)
    assert found.line == first + next(i for i, text in enumerate(source) if "# here" in text)


def test_check_is_empty_for_a_good_kernel():
    assert scaled.check(B=1, N=128) == []


def test_missing_ret_is_added_where_the_end_can_be_reached():
    assert body(ptx_of(lambda: None)) == ["ret;"]
    assert body(ptx_of(lambda: ptx.ret())) == ["ret;"]

    def guarded():
        p = reg.scalar(u32, init=1) == 1
        ptx.ret(pred=p)

    assert body(ptx_of(guarded))[-2:] == ["@%p0 ret;", "ret;"]


def test_missing_label_is_reported_at_the_branch():
    with pytest.raises(PTXError, match="label nowhere is not placed"):
        kernel(lambda: ptx.bra("nowhere")).ptx()


def test_outside_of_a_trace():
    for use in (lambda: reg.scalar(u32), lambda: ptx.inst.ret(), lambda: smem.alloc(f32, 4)):
        with pytest.raises(RuntimeError, match="no kernel is being traced"):
            use()


def test_sass():
    from pyptx.runtime.ptxas import ToolNotFound

    try:
        text = scaled.sass(B=1, N=128)
    except ToolNotFound:
        pytest.skip("no disassembler")
    assert "STG" in text


def test_directives():
    def nothing():
        ptx.ret()

    text = ptx_of(nothing, raw_directives=[("maxntid", (256, 1, 1)), ("minnctapersm", 1)])
    assert ".maxntid 256, 1, 1\n.minnctapersm 1\n{" in text
    with pytest.raises(PTXError, match=r"no directive \.maxthreads"):
        kernel(raw_directives=[("maxthreads", (1,))])(nothing).ptx()


def test_signed_types_have_names():
    assert s32.is_signed
    assert not u32.is_signed


def test_the_decorator_takes_functions_only() -> None:
    def body(x, *, n=1):
        ptx.ret()

    for wrong, cure in (("sm_90a", "arch=..."), (functools.partial(body, n=2), "defaults")):
        with pytest.raises(TypeError, match=f"decorates a function, not .*{cure}"):
            kernel(wrong)  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_a_generator_is_no_kernel() -> None:
    def body(x):
        yield x

    with pytest.raises(TypeError, match="yield or async"):
        kernel(body)


def test_simulate_refuses_arrays_of_other_elements() -> None:
    x = np.ones((2, 128), np.float32)
    for wrong in (np.ones((2, 128)), np.ones((2, 128), np.int32)):
        with pytest.raises(
            pyptx.SimulationError, match=r"argument 1 of scaled has elements of \.f32, and the array's are"
        ):
            simulate(scaled, x, wrong)


def test_a_launch_of_one_thread_that_nobody_asked_for() -> None:
    """One CTA of one thread is what neither grid= nor block= means; a kernel that asks for its index wants more."""
    out = np.zeros(4, np.uint32)

    def made(**options: Any) -> Any:
        @kernel(arch="sm_80", in_specs=[], out_specs=[Tile(4, u32)], **options)
        def numbered(out: Any) -> None:
            i = ptx.special.tid.x()
            (base,) = ptx.global_ptrs(out)
            ptx.inst.st.global_.u32(ptx.addr(base + i * 4), i)

        return numbered

    with pytest.warns(TraceWarning, match=r"numbered reads %tid.x, and one CTA of one thread is launched"):
        made()()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pyptx.simulate(made(), out, block=4)
        pyptx.simulate(made(), out, grid=1, block=4)
        made(block=4)()
        made(grid=1, block=4)()
    assert out.tolist() == [0, 1, 2, 3]
