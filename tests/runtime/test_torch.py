"""Kernels as torch operators: compile, export, autograd, vmap, opcheck, on CPU tensors through the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyptx import Tile, dim, kernel, ptx
from pyptx.diagnostics import PTXError
from pyptx.runtime.differentiable import differentiable_kernel
from pyptx.types import f32

from .kernels import add, by_kind, scaled_sum

torch = pytest.importorskip("torch")


def arrays(rows: int = 3) -> tuple[Any, Any]:
    return torch.randn(rows, 64), torch.randn(64)


def expected(x: Any, w: Any, scale: float) -> Any:
    return (x.double() * scale + w.double()).float()


def close(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def operators(kernel: Any) -> list[str]:
    return [v for k, v in kernel._cubin_handles.items() if isinstance(k, tuple) and k[0] == "operator"]


def test_compile_fullgraph() -> None:
    kernel = scaled_sum()
    x, w = arrays()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def f(x, w):
        return kernel(x * 2, w, scale=0.5).relu()

    close(f(x, w), expected(x * 2, w, 0.5).relu())


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch.jit, which torch imports itself
def test_compile_with_inductor() -> None:
    kernel = scaled_sum()
    x, w = arrays()
    f = torch.compile(lambda x, w: kernel(x.sin(), w, scale=3.0) + 1, fullgraph=True)
    try:
        found = f(x, w)
    except Exception as error:
        if "compiler" in str(error).lower() and "not found" in str(error).lower():
            pytest.skip(f"Inductor has no C++ compiler: {error}")
        raise
    close(found, expected(x.sin(), w, 3.0) + 1)


def test_compile_calls_the_kernel_each_time_and_recompiles_for_other_templates() -> None:
    kernel = scaled_sum()
    x, w = arrays()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    f = torch.compile(lambda x, w, s: kernel(x, w, scale=s), fullgraph=True, backend=backend)
    for _ in range(3):
        close(f(x, w, 2.0), expected(x, w, 2.0))
    assert len(graphs) == 1
    targets = [str(n.target) for n in graphs[0].graph.nodes if n.op == "call_function"]
    assert any("pyptx.scaled_sum_" in t for t in targets)


def test_dynamic_shapes_without_a_new_trace() -> None:
    """With sizes at run time, one graph and one trace serve all shapes."""
    N = dim("N", runtime=True)

    @kernel(in_specs=[Tile(N, f32)], out_specs=[Tile(N, f32)], grid=lambda N: -(-N // 64), block=64)
    def doubled(x: Any, out: Any, *, N: Any = None) -> None:
        i = ptx.special.ctaid.x() * 64 + ptx.special.tid.x()
        with ptx.if_(i < N):
            (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load() * 2.0)

    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    f = torch.compile(lambda x: doubled(x) + 1, fullgraph=True, dynamic=True, backend=backend)
    for size in (100, 64, 7):
        x = torch.randn(size)
        torch.testing.assert_close(f(x), 2 * x + 1)
    assert len(graphs) == 1
    assert len(doubled._cache) == 1


def test_dynamic_strides_without_a_new_trace() -> None:
    M, PITCH = dim("M", runtime=True), dim("PITCH", runtime=True)

    @kernel(in_specs=[Tile(M, 4, f32, strides=(PITCH, 1))], out_specs=[Tile(M, 4, f32)], grid=lambda M: M, block=4)
    def packed(x: Any, out: Any, *, PITCH: Any = None) -> None:
        row, column = ptx.special.ctaid.x(), ptx.special.tid.x()
        (ptx.pointer(out) + (row * 4 + column)).store((ptx.pointer(x) + (row * PITCH + column)).load())

    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    f = torch.compile(lambda x: packed(x[:, 2:6]) + 1, fullgraph=True, dynamic=True, backend=backend)
    for rows, columns in ((5, 12), (3, 20), (9, 7)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(f(x), x[:, 2:6] + 1)
    assert len(graphs) == 1
    assert len(packed._cache) == 1


def test_dynamic_shapes() -> None:
    kernel = scaled_sum()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    f = torch.compile(lambda x, w: kernel(x, w, scale=2.0), fullgraph=True, dynamic=True, backend=backend)
    for rows in (3, 5, 7, 11):
        x, w = arrays(rows)
        close(f(x, w), expected(x, w, 2.0))
    assert len(graphs) == 1  # one graph for all of them


FIRST_CALL = """
import sys, torch
from tests.runtime.kernels import scaled_sum
kernel, graphs = scaled_sum(), []
assert "pyptx.runtime.call" not in sys.modules
f = torch.compile(lambda x, w: kernel(x, w, scale=2.0), fullgraph=True, backend=lambda g, _: graphs.append(g) or g)
x, w = torch.randn(3, 64), torch.randn(64)
for _ in range(2):
    torch.testing.assert_close(f(x, w), x * 2 + w)
assert len(graphs) == 1
"""
NAME = """
import torch
from tests.runtime.kernels import scaled_sum
from pyptx.runtime.torch_ops import operator_name
print(operator_name(kernel if "kernel" in globals() else scaled_sum(), (), ("scale",)))
"""


def test_other_processes() -> None:
    """The first call may be a compiled one: nothing of the runtime is imported yet, and what the call leaves behind makes no
    second graph. Operators have the same names in every process.
    """
    import subprocess
    import sys

    root = Path(__file__).resolve().parents[2]
    names: set[str] = set()
    for code in (FIRST_CALL + NAME, NAME):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
        assert done.returncode == 0, done.stderr[-3000:]
        names.add(done.stdout)
    assert len(names) == 1


def test_numbers_in_tensors_and_of_numpy_in_compiled_code() -> None:
    """Dynamo sees both as tensors: one graph all the same, and no new one for the next number."""
    import numpy as np
    from torch._dynamo.testing import CompileCounter

    k, (x, w) = scaled_sum(), arrays()
    for make in (torch.tensor, np.float32):
        counter = CompileCounter()
        compiled = torch.compile(lambda scale: k(x, w, scale=scale), fullgraph=True, backend=counter)
        for number in (2.0, -0.5, 3.0):
            close(compiled(make(number)), expected(x, w, number))
        assert counter.frame_count == 1


def test_symbolic_numbers_as_raw_parameters_in_compiled_code() -> None:
    """Numbers that Dynamo makes symbolic on the second call stay in one graph."""
    k, (x, w) = scaled_sum(), arrays()
    by_number = torch.compile(lambda n: k(x, w, scale=n), fullgraph=True, backend="eager")
    by_shape = torch.compile(
        lambda t: k(t * 1, w, scale=float(t.shape[0])), fullgraph=True, backend="eager", dynamic=True
    )
    for number in (2, 3, 5.5, -1.25):
        close(by_number(number), expected(x, w, number))
    for rows in (2, 3, 4):
        t = x[:1].repeat(rows, 1)
        close(by_shape(t), expected(t, w, rows))


def test_export() -> None:
    kernel = scaled_sum()

    class Model(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return kernel(x, w, scale=2.0) * 2

    x, w = arrays()
    rows = torch.export.Dim("rows", min=2, max=100)
    program = torch.export.export(Model(), (x, w), dynamic_shapes=({0: rows}, None))
    assert sum("pyptx.scaled_sum" in str(n.target) for n in program.graph.nodes) == 1
    y, _ = arrays(9)
    close(program.module()(y, w), expected(y, w, 2.0) * 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch.jit, which torch imports itself
def test_ahead_of_time_inductor(tmp_path: Path) -> None:
    """Export with a dynamic batch, compile to a shared library, load, run."""
    import shutil

    if shutil.which("g++") is None:
        pytest.skip("Inductor needs g++")
    kernel = scaled_sum()
    x, w = arrays()

    class Module(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return kernel(x * 2, w, scale=0.5) + 1

    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(Module(), (x, w), dynamic_shapes={"x": {0: batch}, "w": None})
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "module.pt2"))
    loaded = torch._inductor.aoti_load_package(package)
    for rows in (3, 7):
        x, w = arrays(rows)
        close(loaded(x, w), expected(x * 2, w, 0.5) + 1)


def test_opcheck() -> None:
    kernel = scaled_sum()
    x, w = arrays()
    kernel(x.requires_grad_(), w, scale=2.0)  # makes the operator
    [name] = operators(kernel)
    op = getattr(torch.ops.pyptx, name).default
    for inputs in ((x.detach(), w, 2.0), (x.detach().requires_grad_(), w.detach(), -1.5)):
        tests = ["test_schema", "test_faketensor", "test_autograd_registration"]
        if not inputs[0].requires_grad:
            tests.append("test_aot_dispatch_dynamic")
        torch.library.opcheck(op, inputs, test_utils=tests)


def test_opcheck_of_the_out_variant_and_of_a_differentiable_kernel() -> None:
    kernel = scaled_sum()
    x, w = arrays()
    from pyptx.runtime.torch_ops import operator_name

    op = getattr(torch.ops.pyptx, operator_name(kernel, (), ("scale",), into=True)).default
    torch.library.opcheck(op, (x, w, torch.zeros(3, 64), 2.0))
    plain, gradient = add(), lambda x, y, g: (g * 2, g * 3)
    function = differentiable_kernel(plain, gradient)
    a = torch.randn(64, requires_grad=True)
    function(a, a)
    [name] = operators(plain)
    torch.library.opcheck(getattr(torch.ops.pyptx, name).default, (a, torch.randn(64, requires_grad=True)))


def test_out() -> None:
    kernel = scaled_sum()
    x, w = arrays()
    y = torch.zeros(3, 64)
    assert kernel(x, w, scale=2.0, out=y) is y
    close(y, expected(x, w, 2.0))
    z = torch.zeros(3, 64)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def f(x, w, z):
        kernel(x, w, scale=4.0, out=z)
        return z + 1

    close(f(x, w, z), expected(x, w, 4.0) + 1)
    close(z, expected(x, w, 4.0))


def test_vmap() -> None:
    kernel = scaled_sum()
    x, w = torch.randn(4, 3, 64), torch.randn(64)
    close(torch.vmap(lambda t: kernel(t, w, scale=2.0))(x), expected(x, w, 2.0))
    moved = x.movedim(0, 2).contiguous()
    found = torch.vmap(lambda t: kernel(t, w, scale=2.0), in_dims=2, out_dims=1)(moved)
    close(found, expected(x, w, 2.0).movedim(0, 1))


def test_a_kernel_without_a_gradient_says_so() -> None:
    x, w = arrays()
    y = scaled_sum()(x.requires_grad_(), w, scale=1.0)
    with pytest.raises(PTXError, match=r"scaled_sum has no gradient.*differentiable_kernel\(scaled_sum, backward\)"):
        y.sum().backward()
    with torch.no_grad():
        assert not scaled_sum()(x, w, scale=1.0).requires_grad


def gradient(x: Any, w: Any, g: Any, scale: float = 1.0) -> tuple[Any, Any]:
    """Of y = x * scale + w."""
    return g * scale, g.sum(0)


def test_functorch_of_a_kernel_without_a_gradient() -> None:
    """Its gradient raises; what needs none passes."""
    kernel, x = add(), torch.randn(32)
    with pytest.raises(PTXError, match=r"add has no gradient.*differentiable_kernel\(add"):
        torch.func.grad(lambda x: kernel(x, x).sum())(x)
    found = torch.func.grad(lambda x: (x * kernel(x.detach(), x.detach())).sum())(x)
    close(found, 2 * x)
    per_sample = torch.vmap(torch.func.grad(lambda x: (x * kernel(x.detach(), x.detach())).sum()))
    many = torch.randn(3, 32)
    close(per_sample(many), 2 * many)


def test_gradient() -> None:
    function = differentiable_kernel(scaled_sum(), gradient)
    x, w = (t.requires_grad_() for t in arrays())
    y = function(x, w, scale=3.0)
    close(y.detach(), expected(x.detach(), w.detach(), 3.0))
    seed = torch.randn(3, 64)
    y.backward(seed)
    close(x.grad, seed * 3)
    close(w.grad, seed.sum(0))
    assert not function(x.detach(), w.detach(), scale=3.0).requires_grad


def test_gradient_by_a_kernel_and_compiled() -> None:
    """z = x + y, whose gradient kernel is itself a kernel: (g + g) for x, though that is not the derivative."""
    double = add()
    function = differentiable_kernel(add(), double, save_for_backward=["x"], num_grad_inputs=1)
    x, y = torch.randn(64, requires_grad=True), torch.randn(64, requires_grad=True)
    seed = torch.randn(64)
    function(x, y).backward(seed)
    close(x.grad, x.detach() + seed)
    assert y.grad is None
    x.grad = None
    f = torch.compile(lambda x, y: function(x, y) * 1.0, fullgraph=True, backend="aot_eager")
    f(x, y).backward(seed)
    close(x.grad, x.detach() + seed)


def test_functorch_grad() -> None:
    function = differentiable_kernel(scaled_sum(), gradient)
    x, w = arrays()
    found = torch.func.grad(lambda t: function(t, w, scale=3.0).sum())(x)
    close(found, torch.full((3, 64), 3.0))
    batch = torch.randn(2, 3, 64)
    per_example = torch.vmap(torch.func.grad(lambda t: (function(t, w, scale=3.0) ** 2).sum()))(batch)
    close(per_example, 6 * expected(batch, w, 3.0))


def test_functorch_tells_equal_template_values_apart() -> None:
    function, x = differentiable_kernel(by_kind(), lambda x, g, k=1: g), torch.randn(64)
    for value, factor in ((1, 2), (True, 3), (1.0, 2), ([1], 5)):
        loss = lambda t, value=value: (function(t, k=value)).sum()  # noqa: E731
        assert torch.func.grad_and_value(loss)(x)[1].item() == pytest.approx(
            factor * x.sum().item(), rel=1e-5, abs=1e-5
        )


def test_wrong_uses_of_differentiable_kernel() -> None:
    with pytest.raises(TypeError, match="needs a forward kernel"):
        differentiable_kernel(lambda x: x, lambda g: g)
    with pytest.raises(TypeError, match="not 3"):
        differentiable_kernel(add(), 3)
    with pytest.raises(TypeError, match="has no 'q'; it has x, y, z"):
        differentiable_kernel(add(), gradient, save_for_backward=["q"])
    with pytest.raises(TypeError, match="has 2 inputs"):
        differentiable_kernel(add(), gradient, num_grad_inputs=3)
    function = differentiable_kernel(add(), lambda x, y, g: (g, g, g))
    with pytest.raises(TypeError, match="returned 3 gradients"):
        function(torch.zeros(64, requires_grad=True), torch.zeros(64)).sum().backward()


def test_fake_meta_and_subclasses() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    kernel = add()
    with FakeTensorMode():
        made = kernel(torch.empty(96), torch.empty(96))
        assert made.shape == (96,)
        assert type(made).__name__ == "FakeTensor"
    meta = kernel(torch.empty(96, device="meta"), torch.empty(96, device="meta"))
    assert meta.device.type == "meta"
    negative = (torch.randn(1, 64) + 1j * torch.randn(1, 64)).conj().imag.squeeze(0)[:1]
    assert negative.is_neg()

    class Sub(torch.Tensor):
        pass

    x = torch.randn(64)
    close(kernel(x.as_subclass(Sub), x).as_subclass(torch.Tensor), x + x)


def test_tensors_that_are_not_what_their_memory_says() -> None:
    """A negative bit, and the zeros without memory of forward-mode AD."""
    kernel, x = add(), torch.randn(64)
    close(kernel(torch._neg_view(x), x), torch.zeros(64))
    close(kernel(torch._efficientzerotensor(64), x), x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch.jit, which torch imports itself
def test_forward_mode_says_that_there_is_none() -> None:
    """In a dual level, and under functorch's jvp: a tangent is never lost in silence."""
    import torch.autograd.forward_ad as forward_ad

    kernel, x = add(), torch.randn(64)
    function = differentiable_kernel(add(), lambda x, y, g: (g, g))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(64))
        for f in (kernel, function):
            with pytest.raises(PTXError, match=r"add has no forward-mode derivative.*differentiable_kernel"):
                f(dual, x)
        with pytest.raises(PTXError, match="no forward-mode"):
            kernel(x, x, out=dual)
        close(kernel(x, x), 2 * x)
    for f in (kernel, function):
        with pytest.raises(PTXError, match="no forward-mode"):
            torch.func.jvp(lambda x, f=f: f(x, x), (x,), (x,))


def test_vmap_over_an_empty_batch() -> None:
    kernel, w = scaled_sum(), torch.randn(64)
    found = torch.vmap(lambda x: kernel(x, w, scale=1.0))(torch.zeros(0, 5, 64))
    assert (found.shape, found.dtype) == ((0, 5, 64), torch.float32)
    function = differentiable_kernel(scaled_sum(), gradient)
    per_sample = torch.vmap(torch.func.grad(lambda x: function(x, w, scale=1.0).sum()))
    assert per_sample(torch.zeros(0, 5, 64)).shape == (0, 5, 64)


def test_integers_that_dynamo_takes_for_symbolic() -> None:
    """Dimensions by name, and template parameters that change from call to call."""
    from pyptx import Tile, kernel, ptx, reg
    from pyptx.types import f32

    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=1, block=32)
    def doubled(x, y, *, times=1):
        px, py = ptx.global_ptrs(x, y)
        v, here = reg.scalar(f32), ptx.special.tid.x() * 4
        ptx.inst.ld.global_.f32(v, ptx.addr(px + here))
        for _ in range(times):
            ptx.inst.add.f32(v, v, v)
        ptx.inst.st.global_.f32(ptx.addr(py + here), v)

    f = torch.compile(lambda x, times: doubled(x, times=times), fullgraph=True, backend="aot_eager")
    for times in (1, 2, 3, 4):
        x = torch.randn(32)
        close(f(x, times), x * 2**times)
    plain = add()
    g = torch.compile(lambda x, y: plain(x, y, N=x.shape[0]), fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (64, 96):
        x = torch.randn(n)
        close(g(x, x), 2 * x)
    wrong = torch.compile(lambda x: plain(x, x, N=x.shape[0] + 32), fullgraph=True, dynamic=True, backend="aot_eager")
    with pytest.raises(Exception, match=r"x must be Tile\(N, f32\), so of size 96"):
        wrong(torch.zeros(64))


def test_copies_of_a_module_share_the_kernel() -> None:
    """As they share functions; what it has launched and compiled stays with it."""
    import copy

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = add()
            self.function = differentiable_kernel(self.kernel, lambda x, y, g: (g, g))
            self.weight = torch.nn.Parameter(torch.randn(64))

        def forward(self, x: Any) -> Any:
            return self.kernel(self.function(x, self.weight).detach(), x)

    module, x = Module(), torch.randn(64)
    wanted = module(x)
    other = copy.deepcopy(module)
    assert other.kernel is module.kernel
    assert other.function is module.function
    assert other.weight is not module.weight
    close(other(x), wanted)


def test_errors_in_compiled_code_are_the_kernels() -> None:
    kernel = add()
    f = torch.compile(lambda x, y: kernel(x, y), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"y must be Tile\(N, f32\).*size 64"):
        f(torch.zeros(64), torch.zeros(32))


def test_kernels_of_one_factory_have_names_of_their_own() -> None:
    """A package made by AOTInductor finds the right one, whatever order the other process makes them in."""
    from pyptx.runtime.torch_ops import operator_name

    from .kernels import offset_by

    names = {n: operator_name(offset_by(n)) for n in (1, 2, 3)}
    assert len(set(names.values())) == 3
    assert not any(name.endswith(f"_{n}") for name in names.values() for n in (2, 3)), "told apart by order only"
