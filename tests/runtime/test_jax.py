"""Kernels in JAX: jit, vmap, gradients, several devices, export, and the CUDA handler against a recording driver."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx.runtime.differentiable import differentiable_kernel
from tests.conftest import ROOT

from .conftest import FakeDriver
from .kernels import add, by_kind, described, scaled_sum

jax = pytest.importorskip("jax")
jnp = jax.numpy

from pyptx.diagnostics import PTXError  # noqa: E402
from pyptx.runtime import jax_ffi  # noqa: E402
from pyptx.simulator import load  # noqa: E402


@pytest.fixture(params=["native", "callback"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Through the C handler, and through `pure_callback`."""
    if request.param == "native":
        if jax_ffi.handlers() is None:
            pytest.skip("no gcc, or no FFI headers in this jaxlib")
    else:
        monkeypatch.setattr(jax_ffi, "handlers", lambda: None)
    return request.param


def arrays(rows: int = 3, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(rows, 64)), jnp.float32), jnp.asarray(rng.normal(size=64), jnp.float32)


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-6, atol=2e-6)


def test_eager_and_jit(way: str) -> None:
    kernel = scaled_sum()
    x, w = arrays()
    y = kernel(x, w, scale=2.0)
    assert isinstance(y, jax.Array)
    close(y, np.asarray(x) * 2 + np.asarray(w))
    f = jax.jit(lambda x, w: kernel(jnp.sin(x), w, scale=0.5) + 1)
    close(f(x, w), np.sin(np.asarray(x)) * 0.5 + np.asarray(w) + 1)
    big, _ = arrays(100)
    close(f(big, w), np.sin(np.asarray(big)) * 0.5 + np.asarray(w) + 1)


def test_vmap(way: str) -> None:
    kernel = scaled_sum()
    x, w = arrays(6)
    batch = x.reshape(2, 3, 64)
    close(jax.vmap(lambda t: kernel(t, w, scale=2.0))(batch), batch * 2 + w)


def test_gradient(way: str) -> None:
    def backward(x: Any, w: Any, g: Any, scale: float = 1.0) -> tuple[Any, Any]:
        return g * scale, g.sum(0)

    function = differentiable_kernel(scaled_sum(), backward)
    x, w = arrays()
    dx, dw = jax.jit(jax.grad(lambda x, w: (function(x, w, scale=3.0) ** 2).sum(), argnums=(0, 1)))(x, w)
    y = np.asarray(x) * 3 + np.asarray(w)
    np.testing.assert_allclose(np.asarray(dx), 6 * y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(dw), 2 * y.sum(0), rtol=1e-5, atol=1e-5)
    only = differentiable_kernel(add(), lambda x, y, g: 2 * g, num_grad_inputs=1)
    a = jnp.ones(64)
    da, db = jax.grad(lambda a, b: only(a, b).sum(), argnums=(0, 1))(a, a)
    close(da, np.full(64, 2.0))
    close(db, np.zeros(64))


def test_gradients_tell_equal_template_values_apart(way: str) -> None:
    function, x = differentiable_kernel(by_kind(), lambda x, g, k=1: g), arrays()[1]
    for value, factor in ((1, 2), (True, 3), (1.0, 2), ([1], 5)):
        close(jax.value_and_grad(lambda t, value=value: function(t, k=value).sum())(x)[0], factor * np.asarray(x).sum())


def test_a_kernel_without_a_gradient_says_so(way: str) -> None:
    """Eagerly, under jit, in forward mode; what needs no gradient passes."""
    kernel, x = add(), jnp.ones(64)
    words = r"add has no gradient in JAX.*differentiable_kernel\(add"
    for f in (kernel, jax.jit(kernel)):
        with pytest.raises(PTXError, match=words):
            jax.grad(lambda x, f=f: f(x, x).sum())(x)
        with pytest.raises(PTXError, match=words):
            jax.jvp(f, (x, x), (x, x))
        stopped = jax.grad(lambda x, f=f: (x * f(jax.lax.stop_gradient(x), jnp.ones(64))).sum())(x)
        np.testing.assert_array_equal(stopped, 2 * np.ones(64))


def test_transformations_of_programs(way: str) -> None:
    """Scans, branches, nested and empty batches, donation, another device."""
    kernel, x = add(), jnp.ones(64)
    summed, _ = jax.lax.scan(lambda carry, _: (kernel(carry, x), None), x, None, length=5)
    np.testing.assert_array_equal(summed, 6 * np.ones(64))
    chosen = jax.jit(lambda p, x: jax.lax.cond(p, lambda x: kernel(x, x), lambda x: x, x))
    np.testing.assert_array_equal(chosen(True, x), 2 * np.ones(64))
    many = jnp.asarray(np.random.default_rng().normal(size=(2, 3, 64)), jnp.float32)
    nested = jax.vmap(jax.vmap(kernel, in_axes=(0, None)), in_axes=(0, None))
    np.testing.assert_array_equal(jax.jit(nested)(many, x), np.asarray(many) + 1)
    assert jax.vmap(kernel, in_axes=(0, None))(jnp.zeros((0, 64)), x).shape == (0, 64)
    given = jnp.arange(64.0)
    np.testing.assert_array_equal(jax.jit(kernel, donate_argnums=0)(given, x), np.arange(64.0) + 1)
    last = jax.device_put(x, jax.devices()[-1])
    assert kernel(last, last).devices() == last.devices()


def test_shard_map_over_eight_devices(way: str) -> None:
    if len(jax.devices("cpu")) < 8:
        pytest.skip("JAX was started with fewer than 8 CPU devices")
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    kernel = scaled_sum()
    mesh = Mesh(np.array(jax.devices("cpu")[:8]), ("rows",))
    x, w = arrays(16)
    placed = jax.device_put(x, NamedSharding(mesh, PartitionSpec("rows")))
    sharded = jax.jit(
        jax.shard_map(
            lambda x, w: kernel(x, w, scale=2.0), mesh=mesh, in_specs=(PartitionSpec("rows"), PartitionSpec()),
            out_specs=PartitionSpec("rows"), check_vma=False,
        )
    )  # fmt: skip
    y = sharded(placed, w)
    assert len(y.sharding.device_set) == 8
    close(y, np.asarray(x) * 2 + np.asarray(w))


def test_a_launch_refuses_what_it_cannot_change() -> None:
    """JAX's arrays are immutable: a launch on them would be one that nobody sees the results of."""
    kernel = load(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) { ret; }\n")["k"]
    with pytest.raises(
        TypeError, match="argument 0 of the launch is a JAX array on the CPU, which a launch cannot change"
    ):
        kernel.launch((1,), (1,), [jax.numpy.ones(4)])
    with pytest.raises(TypeError, match=r"is a value that JAX traces.* inside jax.jit by jax.pure_callback"):
        jax.jit(lambda x: kernel.launch((1,), (1,), [x]))(jax.numpy.ones(4))


def test_export_with_a_symbolic_shape_is_refused() -> None:
    from jax import export

    kernel = scaled_sum()
    rows = export.symbolic_shape("rows, 64")
    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in (rows, (64,))]
    with pytest.raises(PTXError, match=r"has the symbolic shape \(rows, 64\): .* export it once for each shape"):
        export.export(jax.jit(lambda x, w: kernel(x, w, scale=2.0)))(*shapes)


def test_export_runs_in_another_process(tmp_path: Path) -> None:
    """The exported bytes carry the program: the other process has no kernel, only the handlers."""
    pytest.importorskip("flatbuffers")
    if jax_ffi.handlers() is None:
        pytest.skip("no gcc, or no FFI headers in this jaxlib")
    from jax import export

    kernel = scaled_sum()
    x, w = arrays()
    checks = [export.DisabledSafetyCheck.custom_call("pyptx_kernel")]
    exported = export.export(jax.jit(lambda x, w: kernel(x, w, scale=2.0)), disabled_checks=checks)(x, w)
    (tmp_path / "program").write_bytes(bytes(exported.serialize()))
    np.savez(tmp_path / "arrays.npz", x=x, w=w)
    code = f"""
import numpy as np, jax
from jax import export
from pyptx.runtime import jax_ffi
jax_ffi.handlers()
a = np.load({str(tmp_path / "arrays.npz")!r})
f = export.deserialize(bytearray(open({str(tmp_path / "program")!r}, "rb").read()))
y = np.asarray(f.call(a["x"], a["w"]))
np.testing.assert_allclose(y, a["x"] * 2 + a["w"], rtol=2e-6, atol=2e-6)
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "fine", done.stderr


def test_lowering_for_cuda_needs_no_gpu() -> None:
    if jax_ffi.handlers() is None:
        pytest.skip("no gcc, or no FFI headers in this jaxlib")
    kernel = scaled_sum()
    x, w = arrays()
    lowered = jax.jit(lambda x, w: kernel(x, w, scale=2.0)).trace(x, w).lower(lowering_platforms=("cuda",))
    assert "pyptx_kernel" in lowered.as_text()


def test_a_gpu_without_native_handlers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not simulated on the host in silence: XLA says that it has no such function, whose name says why."""
    monkeypatch.setattr(jax_ffi, "handlers", lambda: None)
    x, w = arrays()
    traced = jax.jit(lambda x, w: scaled_sum()(x, w, scale=2.0)).trace(x, w)
    assert "because_there_is_no_gcc" in traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "because_there_is_no_gcc" not in traced.lower(lowering_platforms=("cpu",)).as_text()


def test_tiles_are_checked(way: str) -> None:
    kernel = scaled_sum()
    x, w = arrays()
    for bad, words in [
        ((x.astype(jnp.float16), w), "float16"),
        ((x[0], w), "rank 2"),
        ((x, w[:32]), "size 64 along axis 0"),
    ]:
        with pytest.raises(PTXError, match=words):
            jax.jit(lambda x, w: kernel(x, w, scale=1.0))(*bad)
    with pytest.raises(TypeError, match="scale is an array or a traced value"):
        jax.jit(lambda x, w, s: kernel(x, w, scale=s))(x, w, 2.0)
    with pytest.raises(TypeError, match="pass scale="):
        kernel(x, w)


@pytest.mark.filterwarnings("ignore:.*never writes it")
def test_a_fault_comes_back_with_its_place(way: str) -> None:
    import pyptx
    from pyptx import Tile, ptx, reg
    from pyptx.types import f32

    @pyptx.kernel(arch="sm_90a", in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=1, block=(32, 1, 1))
    def beyond(x, y):
        px, _ = ptx.global_ptrs(x, y)
        v = reg.scalar(f32)
        ptx.inst.ld.global_.f32(v, ptx.addr(px, 4096))
        ptx.ret()

    with pytest.raises(Exception, match=r"out of bounds|no allocation|beyond"):
        np.asarray(jax.jit(beyond)(jnp.zeros(32)))


def test_empty(way: str) -> None:
    y = scaled_sum()(jnp.zeros((0, 64)), jnp.zeros(64), scale=1.0)
    assert y.shape == (0, 64)


# --- the CUDA handler, on the CPU platform and against a driver that records


@pytest.fixture
def cuda(fake: FakeDriver) -> FakeDriver:
    if jax_ffi.handlers() is None:
        pytest.skip("no gcc, or no FFI headers in this jaxlib")
    return fake


def test_cuda_handler_packs_parameters(cuda: FakeDriver) -> None:
    kernel = scaled_sum(version="8.1")
    x, w = arrays(5)
    f = jax.jit(lambda x, w: kernel(x, w, scale=2.5))
    for _ in range(3):
        y = f(x, w)
        y.block_until_ready()
    assert len(cuda.launches) == 3
    made = cuda.launches[-1]
    assert (made["name"], made["grid"], made["block"]) == ("scaled_sum", "5,1,1", "64,1,1")
    px, pw, py, scale = cuda.parameters()
    pointers = [a.unsafe_buffer_pointer() for a in (x, w, y)]
    assert [int.from_bytes(p, "little") for p in (px, pw, py)] == pointers
    assert struct.unpack("<f", scale) == (2.5,)
    assert [line for line in cuda.lines if line.startswith("module")] == ["module sm_90"]


def test_cuda_handler_makes_descriptors_once(cuda: FakeDriver) -> None:
    kernel = described(version="8.2")
    a = jnp.zeros((64, 64), jnp.bfloat16)
    f = jax.jit(kernel)
    f(a, a).block_until_ready()
    made = cuda.lines.count("encode")
    assert made in (2, 3)  # of a (twice the same array and map), and of c
    import ctypes

    where = [int.from_bytes(p, "little") for p in cuda.parameters()[3:]]
    image = ctypes.string_at(where[0], 128)
    assert struct.unpack_from("<4sBBBBQ", image)[:2] == (b"FTM1", 9)
    assert struct.unpack_from("<Q", image, 8)[0] == a.unsafe_buffer_pointer()
    f(a, a).block_until_ready()
    assert [int.from_bytes(p, "little") for p in cuda.parameters()[3:5]] == where[:2]


def test_cuda_handler_reports_the_drivers_errors(cuda: FakeDriver) -> None:
    kernel = add(version="8.3")
    x = jnp.zeros(64)
    f = jax.jit(kernel)
    f(x, x).block_until_ready()
    cuda.fail("cuLaunchKernelEx", 701)
    with pytest.raises(Exception, match=r"launching add with grid \(2, 1, 1\).*LAUNCH_OUT_OF_RESOURCES"):
        f(x, x).block_until_ready()
    f(x, x).block_until_ready()
    cuda.set("major", 8)
    from pyptx.runtime.driver import find_driver

    find_driver()._facts.clear()
    other = add(version="8.4")
    with pytest.raises(Exception, match="add is compiled for sm_90a, and Fake GPU 0 is sm_80"):
        jax.jit(other)(x, x).block_until_ready()


def test_two_local_processes() -> None:
    """Nothing of a call depends on the process: the same program text in both."""
    code = (
        "import jax.numpy as jnp\nfrom tests.runtime.kernels import scaled_sum\nfrom pyptx.runtime import jax_ffi\n"
        "p = jax_ffi.program_of(scaled_sum(), [((3, 64), 'float32'), ((64,), 'float32')], {'scale': 2.0})\n"
        "print(jax_ffi.key_of(p.text()))"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root, env=environment)
        for _ in range(2)
    ]
    keys = {run.communicate()[0] for run in runs}
    assert len(keys) == 1
    assert keys != {""}


HANDLER = """
import sys, warnings
import jax.numpy as jnp, numpy as np
from pyptx.runtime.jax_ffi import _built, _seal_of, handlers
import hashlib
what = sys.argv[1]
path = _built()
if path is None:
    print("no compiler")
    raise SystemExit
if what == "damaged":
    path.write_bytes(b"not a library")
elif what == "foreign":  # intact, and of another machine
    path.write_bytes(b"\\x7fELF of another machine")
    _seal_of(path).write_text(hashlib.sha256(path.read_bytes()).hexdigest())
elif what == "shared":
    path.parent.chmod(0o777)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = handlers()
print(found is not None, [str(w.message) for w in caught])
"""


@pytest.mark.parametrize("what", ["intact", "damaged", "foreign", "shared"])
def test_a_damaged_native_handler_is_built_again(what: str, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    environment = {**os.environ, "PYPTX_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", HANDLER, what], capture_output=True, text=True, env=environment, check=True
    )
    if done.stdout.startswith("no compiler"):
        pytest.skip("there is no C compiler: JAX calls go through Python")
    if what == "shared":
        assert done.stdout.startswith("False")
        assert "others can write" in done.stdout
    else:
        assert done.stdout == "True []\n"


def test_out_is_refused_in_words() -> None:
    kernel = scaled_sum()
    x, w = arrays()
    with pytest.raises(TypeError, match="out= is not valid: use the array that the call returns"):
        kernel(x, w, scale=2.0, out=jnp.zeros_like(x))
