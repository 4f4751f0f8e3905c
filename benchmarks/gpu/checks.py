"""The checks of `run.py`, and the process that runs them: one line of JSON for each, as it begins and when it is done.

Run by `run.py`, which stops this process where a check takes too long and starts another one for the rest. In the order
of `checks`, the most telling first.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARK = "@@pyptx "
"""Begins a line for `run.py`."""


@dataclass
class Row:
    """One result. `ratio`: how many times better than the baseline (above 1: we are)."""

    section: str = ""
    name: str = ""
    status: str = "ok"
    value: float | None = None
    unit: str = ""
    baseline: float | None = None
    against: str = ""
    ratio: float | None = None
    note: str = ""


class NotHere(Exception):
    """What a check needs is not on this machine; the message says what."""


@dataclass(frozen=True)
class Check:
    """Something to find out; `limit`: seconds after which it hangs."""

    section: str
    name: str
    work: Callable[[], Row]
    limit: float = 30


@dataclass
class Run:
    """The machine, and how things are measured on it."""

    fake: bool
    torch: Any
    device: str

    def sync(self) -> None:
        if not self.fake:
            self.torch.cuda.synchronize()

    def seconds(self, work: Callable[[], object], *, budget: float = 0.3) -> float:
        """GPU time of one call, median of batches between two events; host time with the fake driver."""
        for _ in range(3):
            work()
        self.sync()
        if self.fake:
            start = time.perf_counter()
            for _ in range(20):
                work()
            return (time.perf_counter() - start) / 20
        start = time.perf_counter()
        work()
        self.sync()
        once = max(time.perf_counter() - start, 1e-6)
        calls = max(1, min(200, int(budget / 7 / once)))
        times: list[float] = []
        for _ in range(7):
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(calls):
                work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3 / calls)
        return sorted(times)[3]

    def host(self, work: Callable[[], object], calls: int = 200) -> float:
        """Host time of one call that only enqueues: short bursts, so that the queue never fills."""
        best = float("inf")
        for _ in range(15):
            self.sync()
            start = time.perf_counter()
            for _ in range(calls):
                work()
            best = min(best, (time.perf_counter() - start) / calls)
        self.sync()
        return best

    def tensor(self, spec: Any, seed: int) -> Any:
        """Random values for a `Tile` whose dimensions are known."""
        torch = self.torch
        generator = torch.Generator(self.device).manual_seed(seed)
        made = torch.randn(spec.resolve_shape({}), generator=generator, device=self.device)
        return made.to(getattr(torch, DTYPES[spec.dtype.name]))

    def poisoned(self, spec: Any) -> Any:
        """An output full of NaNs."""
        dtype = getattr(self.torch, DTYPES[spec.dtype.name])
        return self.torch.full(spec.resolve_shape({}), float("nan"), dtype=dtype, device=self.device)


def numpy(tensor: Any) -> Any:
    return tensor.detach().float().double().cpu().numpy()


# --- right: every example of the card's generation against its float64 reference


DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "e4m3": "float8_e4m3fn", "s32": "int32"}
NORMS = ("rms_norm", "layer_norm", "softmax", "swiglu")
GEMMS = {
    "ampere": ("gemm", "gemm_pipelined", "gemm_highperf"),
    "hopper": ("gemm_highperf", "gemm", "fp8_gemm"),
    "blackwell": ("gemm_2sm", "gemm_1sm"),
}
BEST = {"ampere": "gemm_highperf", "hopper": "gemm_highperf", "blackwell": "gemm_2sm"}


def generation(run: Run) -> str:
    from pyptx.runtime.driver import find_driver

    major = find_driver().facts(0).capability[0]
    return "hopper" if major == 9 else "blackwell" if major == 10 else "ampere"


def arch(run: Run) -> str:
    """What the examples of this generation are built for: Ampere's on any other GPU too."""
    from pyptx.runtime.driver import find_driver

    return find_driver().facts(0).arch if generation(run) != "ampere" else "sm_80"


def example(run: Run, name: str) -> Any:
    return importlib.import_module(f"examples.{generation(run)}.{name}")


def reference_of(module: Any, name: str) -> Callable[..., Any]:
    """The float64 reference of an example, which the generations share."""
    if hasattr(module, "reference"):
        return module.reference
    if name.startswith("gemm"):
        return importlib.import_module("examples.gemms").reference
    return importlib.import_module(f"examples.hopper.{name}").reference


def right(run: Run, *, first: bool) -> Iterator[Check]:
    """Each example at one size (`first`), or at the other sizes and types; on poisoned outputs."""
    from pyptx.types import bf16, f32

    def case(name: str, size: tuple[int, ...], **options: Any) -> Check:
        words = " ".join(str(getattr(v, "name", v)) for v in options.values())
        label = f"{name} {'x'.join(map(str, size))} {words}".strip()
        return Check("right", label, lambda: compare(run, name, size, options))

    one, more = ((4, 64), ((4, 128),)) if run.fake else ((256, 4096), ((37, 512), (64, 8192)))
    square, large = ((256,) * 3, ((256, 512, 64),)) if run.fake else ((512, 768, 256), ((2048,) * 3, (4096, 512, 8192)))
    queries = (1, 128, 128, 128) if run.fake else (2, 1024, 1024, 128)
    attends = (Path(ROOT, "examples", generation(run), "flash_attention.py")).exists()
    groups = (Path(ROOT, "examples", generation(run), "grouped_gemm.py")).exists()
    if first:
        yield from (case(name, square) for name in GEMMS[generation(run)])
        if attends:
            yield from (case("flash_attention", queries, causal=c) for c in (False, True))
        if groups:
            yield Check("right", "grouped_gemm 4 experts", lambda: grouped(run))
        yield from (case(name, one, dtype=bf16) for name in NORMS if has(run, name))
        return
    for name in NORMS:
        if has(run, name):
            yield from (
                case(name, size, dtype=t) for size in (one, *more) for t in (f32, bf16) if (size, t) != (one, bf16)
            )
    yield from (case(name, size) for name in GEMMS[generation(run)] for size in large)
    if attends:
        yield case("flash_attention", (*queries[:3], 64), causal=True)


def has(run: Run, name: str) -> bool:
    return Path(ROOT, "examples", generation(run), f"{name}.py").exists()


def compare(run: Run, name: str, size: tuple[int, ...], options: dict[str, Any]) -> Row:
    module = example(run, name)
    kernel = module.build(*size, **options, arch=arch(run))
    inputs = [run.tensor(spec, i) for i, spec in enumerate(kernel.in_specs)]
    known = {n: v for n, v in options.items() if n == "causal"}
    return judged(run, kernel, inputs, reference_of(module, name)(*map(numpy, inputs), **known))


def grouped(run: Run) -> Row:
    """Experts with 2, 0, 1 and 1 blocks of rows, and a block of nobody's."""
    module = example(run, "grouped_gemm")
    expert = run.torch.tensor([0, 0, 2, 3, -1], dtype=run.torch.int32, device=run.device)
    experts, (N, K) = 4, (256, 64) if run.fake else (512, 1024)
    kernel = module.build(module.BLOCK * len(expert), experts, N, K, arch=arch(run))
    a, b = (run.tensor(spec, i) for i, spec in enumerate(kernel.in_specs[:2]))
    reference = importlib.import_module("examples.hopper.grouped_gemm").reference
    return judged(run, kernel, [a, b, expert], reference(numpy(a), numpy(b).reshape(experts, N, K), expert.tolist()))


def judged(run: Run, kernel: Any, inputs: Sequence[Any], wanted: Any) -> Row:
    """Launch it on poisoned outputs, and compare them with the reference."""
    import numpy as np

    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    outputs = tuple(run.poisoned(spec) for spec in kernel.out_specs)
    kernel(*inputs, out=outputs)
    run.sync()
    found = [numpy(o) for o in outputs]
    assert [f.shape for f in found] == [w.shape for w in wanted], "the reference has another shape"
    if run.fake:
        return Row(status="not checked", note="launched on the fake driver")
    worst = float(np.max([error_of(f, w) for f, w in zip(found, wanted, strict=True)]))  # NaN if one is
    limit = 2e-2 if any(s.dtype.bits <= 16 for s in kernel.in_specs) else 1e-5
    return Row(
        status="ok" if worst <= limit else "WRONG", value=worst, unit="rel. error", baseline=limit, against="limit"
    )


def error_of(found: Any, wanted: Any) -> float:
    """The relative error in norm, or that of the worst element against the largest: one wrong element among millions shows."""
    import numpy as np

    difference = np.abs(found - wanted)
    return float(
        np.maximum(np.linalg.norm(difference) / np.linalg.norm(wanted), difference.max() / np.abs(wanted).max())
    )


# --- launch: host time of one launch, next to torch's own


def launches(run: Run, *, slow: bool) -> Iterator[Check]:
    """Eager, given outputs, replayed; `slow`: compiled by torch, from JAX, which start slowly."""
    if slow:
        yield Check("launch", "torch.compile", lambda: launch_row(run, compiled), 90)
        yield Check("launch", "torch.compile, reduce-overhead", lambda: reduced(run), 90)
        yield Check("launch", "jax.jit", lambda: from_jax(run), 90)
        return
    yield Check("launch", "eager, out=", lambda: launch_row(run, lambda k, x, w, y: lambda: k(x, w, out=y)))
    yield Check("launch", "eager", lambda: launch_row(run, lambda k, x, w, y: lambda: k(x, w)))
    yield Check("launch", "torch's operator", lambda: launch_row(run, operator))
    yield Check("launch", "Triton", lambda: launch_row(run, triton_add))
    yield Check("launch", "CUDA graph replay", lambda: replayed(run))


def small(run: Run) -> tuple[Any, Any, Any, Any]:
    """A kernel that does next to nothing, with its tensors."""
    kernel = example(run, "rms_norm").build(4, 64, arch=arch(run))
    x, w = (run.tensor(s, i) for i, s in enumerate(kernel.in_specs))
    return kernel, x, w, run.poisoned(kernel.out_specs[0])


def launch_row(run: Run, make: Callable[..., Callable[[], object]]) -> Row:
    kernel, x, w, y = small(run)
    work = make(kernel, x, w, y)
    work()
    own = run.host(lambda: run.torch.add(x, 1.0, out=y)) * 1e6
    value = run.host(work) * 1e6
    return Row(value=value, unit="us", baseline=own, against="torch.add(out=)", ratio=own / value)


def operator(kernel: Any, x: Any, w: Any, y: Any) -> Callable[[], object]:
    """Through the dispatcher, as a graph calls it."""
    import torch

    op = getattr(torch.ops.pyptx, kernel._torch_operator((), (), False)).default
    return lambda: op(x, w)


def compiled(kernel: Any, x: Any, w: Any, y: Any) -> Callable[[], object]:
    import torch

    f = torch.compile(lambda x, w: kernel(x, w), fullgraph=True)
    return lambda: f(x, w)


def reduced(run: Run) -> Row:
    """`mode="reduce-overhead"`: torch captures the kernel into a CUDA graph, and replays it on other inputs."""
    kernel, x, w, _ = small(run)
    f = run.torch.compile(lambda x, w: kernel(x + 1, w) * 2, fullgraph=True, mode="reduce-overhead")
    errors: list[float] = []
    for step in range(4):  # warms up, captures, replays
        given = x * (step + 1)
        found = numpy(f(given, w))
        wanted = 2 * reference_of(example(run, "rms_norm"), "rms_norm")(numpy(given) + 1, numpy(w))
        errors.append(error_of(found, wanted))
    good = run.fake or all(e < 1e-5 for e in errors)
    value = run.host(lambda: f(x, w)) * 1e6
    return Row(status="ok" if good else "WRONG", value=value, unit="us", note=f"rel. errors {errors}; three kernels")


def triton_add(kernel: Any, x: Any, w: Any, y: Any) -> Callable[[], object]:
    """A Triton kernel of as many arguments."""
    del kernel
    try:
        from benchmarks.gpu.triton_kernels import nothing
    except ImportError as error:
        raise NotHere(str(error)) from None

    if x.device.type != "cuda":
        raise NotHere("needs a GPU")
    return lambda: nothing[(4,)](x, w, y, 64)


def replayed(run: Run) -> Row:
    if run.fake:
        return Row(status="not run", note="needs a GPU")
    torch = run.torch
    kernel, x, w, y = small(run)
    graph = torch.cuda.CUDAGraph()
    kernel(x, w, out=y)
    run.sync()
    with torch.cuda.graph(graph):
        for _ in range(20):
            kernel(x, w, out=y)
    y.fill_(float("nan"))
    graph.replay()
    run.sync()
    value = run.seconds(graph.replay) / 20 * 1e6
    wrong = bool(y.isnan().any())
    return Row(status="WRONG" if wrong else "ok", value=value, unit="us", note="GPU time per kernel of a graph of 20")


def from_jax(run: Run) -> Row:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return Row(status="not run", note="jax is not installed")
    import numpy as np

    kernel, x, w, _ = small(run)
    a, b = jnp.asarray(x.cpu().numpy()), jnp.asarray(w.cpu().numpy())
    f = jax.jit(kernel)
    found = np.asarray(f(a, b)).astype(np.float64)
    wanted = reference_of(example(run, "rms_norm"), "rms_norm")(numpy(x), numpy(w))
    good = run.fake or float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted)) < 1e-5
    plain = jax.jit(lambda a, b: a + b[0])
    plain(a, b).block_until_ready()
    value = run.host(lambda: f(a, b), 100) * 1e6
    f(a, b).block_until_ready()
    own = run.host(lambda: plain(a, b), 100) * 1e6
    row = Row(value=value, unit="us", baseline=own, against="jax.jit of a + b", ratio=own / value)
    row.status, row.note = "ok" if good else "WRONG", f"on {jax.default_backend()}, jax {jax.__version__}"
    return row


# --- how fast: matrix products, attention, bandwidth


def gemm(run: Run, sizes: Sequence[int]) -> Iterator[Check]:
    """bf16, C = A B^T, against cuBLAS (torch.matmul) in the same process."""
    for n in sizes:
        yield Check("gemm", f"bf16 {n}^3", lambda n=n: gemm_row(run, n), 60)


def gemm_row(run: Run, n: int) -> Row:
    torch = run.torch
    kernel = example(run, BEST[generation(run)]).build(n, n, n, arch=arch(run))
    a, b = (run.tensor(s, i) for i, s in enumerate(kernel.in_specs))
    c, other = run.poisoned(kernel.out_specs[0]), run.poisoned(kernel.out_specs[0])
    ours = 2 * n**3 / run.seconds(lambda: kernel(a, b, out=c)) / 1e12
    theirs = 2 * n**3 / run.seconds(lambda: torch.matmul(a, b.t(), out=other)) / 1e12
    good = run.fake or float((c.float() - other.float()).norm() / other.float().norm()) < 1e-2
    return Row("", "", "ok" if good else "WRONG", ours, "TFLOP/s", theirs, "cuBLAS", ours / theirs)


def bandwidth(run: Run, *, compiled: bool) -> Iterator[Check]:
    """Norms against torch eager (or torch.compile), and a plain copy of as many bytes."""
    if not compiled:
        yield Check("bandwidth", "copy", lambda: Row(value=copied(run), unit="GB/s"))
    for name in NORMS:
        if has(run, name):
            label = f"{name} bf16, torch.compile" if compiled else f"{name} bf16"
            yield Check("bandwidth", label, lambda name=name: norm_row(run, name, compiled), 90 if compiled else 30)


def copied(run: Run) -> float:
    torch = run.torch
    source = torch.randn(*((4, 64) if run.fake else (8192, 8192)), device=run.device).to(torch.bfloat16)
    target = torch.empty_like(source)
    return 2 * source.numel() * 2 / run.seconds(lambda: target.copy_(source)) / 1e9


def norm_row(run: Run, name: str, compiled: bool) -> Row:
    from pyptx.types import bf16

    functional = run.torch.nn.functional
    b, n = (4, 64) if run.fake else (8192, 8192)
    eager: dict[str, Callable[..., Any]] = {
        "rms_norm": lambda x, w: functional.rms_norm(x, (n,), w, 1e-6),
        "layer_norm": lambda x, *w: functional.layer_norm(x, (n,), *w),
        "softmax": lambda x: functional.softmax(x, 1),
        "swiglu": lambda g, u: functional.silu(g) * u,
    }
    kernel = example(run, name).build(b, n, dtype=bf16, arch=arch(run))
    inputs = [run.tensor(s, i) for i, s in enumerate(kernel.in_specs)]
    out = run.poisoned(kernel.out_specs[0])
    other = run.torch.compile(eager[name]) if compiled else eager[name]
    moved = sum(t.numel() * t.element_size() for t in (*inputs, out))
    ours = moved / run.seconds(lambda: kernel(*inputs, out=out)) / 1e9
    theirs = moved / run.seconds(lambda: other(*inputs)) / 1e9
    against = "torch.compile" if compiled else "torch eager"
    note = f"{b}x{n}; {ours / copied(run):.0%} of a copy"
    wanted = eager[name](*(t.float() for t in inputs))
    good = run.fake or float((out.float() - wanted).norm() / wanted.norm()) < 1e-2
    return Row("", "", "ok" if good else "WRONG", ours, "GB/s", theirs, against, ours / theirs, note)


def attention(run: Run) -> Iterator[Check]:
    """Flash attention against torch's SDPA."""
    if has(run, "flash_attention"):
        for causal in (False, True):
            name = "flash attention, causal" if causal else "flash attention"
            yield Check("attention", name, lambda causal=causal: attention_row(run, causal), 60)


def attention_row(run: Run, causal: bool) -> Row:
    heads, length, d = (1, 128, 128) if run.fake else (64, 4096, 128)
    kernel = example(run, "flash_attention").build(heads, length, length, d, causal=causal, arch=arch(run))
    q, k, v = (run.tensor(s, i) for i, s in enumerate(kernel.in_specs))
    outputs = tuple(run.poisoned(s) for s in kernel.out_specs)
    flops = 4 * heads * length * length * d / (2 if causal else 1)
    ours = flops / run.seconds(lambda: kernel(q, k, v, out=outputs)) / 1e12
    sdpa = run.torch.nn.functional.scaled_dot_product_attention
    theirs = flops / run.seconds(lambda: sdpa(q[None], k[None], v[None], is_causal=causal)) / 1e12
    other = sdpa(q[None], k[None], v[None], is_causal=causal)[0].float()
    good = run.fake or float((outputs[0].float() - other).norm() / other.norm()) < 2e-2
    note = f"{heads} heads x {length} x {d}"
    return Row("", "", "ok" if good else "WRONG", ours, "TFLOP/s", theirs, "SDPA", ours / theirs, note)


# --- differential: single instructions, the GPU against the simulator


INSTRUCTIONS = """add.u32 sub.s32 mul.lo.u32 mul.hi.u32 mul.hi.s32 mad.lo.u32 mad.hi.s32 min.s32 max.u32 and.b32 or.b32
xor.b32 shl.b32 shr.u32 shr.s32 prmt.b32 lop3.b32 shf.l.wrap.b32 shf.r.clamp.b32 bfe.u32 bfe.s32 sad.u32 dp4a.u32.u32
dp2a.lo.s32.s32 div.u32 rem.s32 mul24.lo.u32 abs.s32 neg.s32 popc.b32 clz.b32 brev.b32 bfind.u32 not.b32 cnot.b32
add.rn.f32 add.rz.f32 add.rm.f32 add.rp.f32 add.rn.ftz.f32 add.sat.f32 sub.rn.f32 mul.rn.f32 mul.rz.f32 fma.rn.f32
fma.rz.f32 fma.rp.f32 div.rn.f32 min.f32 max.f32 min.NaN.f32 copysign.f32 abs.f32 neg.f32 sqrt.rn.f32 rcp.rn.f32
add.f16x2 mul.f16x2 fma.rn.f16x2 fma.rn.bf16x2 min.f16x2 max.NaN.bf16x2 vadd4.u32.u32.u32 vabsdiff4.u32.u32.u32
cvt.rn.f16x2.f32 cvt.rz.bf16x2.f32 cvt.rni.s32.f32 cvt.rzi.u32.f32 cvt.rn.f32.s32 cvt.rp.f32.u32""".split()
ARITY = {
    1: ("abs", "neg", "popc", "clz", "brev", "bfind", "not", "cnot", "sqrt", "rcp", "cvt.rni", "cvt.rzi", "cvt.rn.f32",
        "cvt.rp"),
    3: ("mad", "fma", "prmt", "shf", "bfe", "sad", "dp4a", "dp2a", "vadd4", "vabsdiff4"),
}  # fmt: skip


BODIES = {
    **{f"{name}.b64": f"mov.b64 %rd6, {{%r1, %r2}}; mov.b64 %rd7, {{%r2, %r3}}; or.b64 %rd7, %rd7, 1; {name} %rd6, {rest}; {{fold}}" for name, rest in {
        "add.s64": "%rd6, %rd7", "sub.u64": "%rd6, %rd7", "mul.lo.s64": "%rd6, %rd7", "mul.hi.u64": "%rd6, %rd7",
        "mul.hi.s64": "%rd6, %rd7", "mad.lo.u64": "%rd6, %rd7, %rd6", "shl.b64": "%rd6, %r3", "shr.s64": "%rd6, %r3",
        "min.s64": "%rd6, %rd7", "xor.b64": "%rd6, %rd7", "brev.b64": "%rd6", "abs.s64": "%rd6", "rem.u64": "%rd6, %rd7",
        "div.s64": "%rd6, %rd7",
    }.items()},
    **{f"{name} (f64)": f"cvt.f64.f32 %fd1, %f1; cvt.f64.f32 %fd2, %f2; cvt.f64.f32 %fd3, %f3; {name} %fd1, {rest}; "
       "setp.num.f64 %p1, %fd1, %fd1; @!%p1 mov.f64 %fd1, 0d0000000000000000; mov.b64 %rd6, %fd1; {fold}" for name, rest in {
        "add.rn.f64": "%fd1, %fd2", "add.rm.f64": "%fd1, %fd2", "mul.rp.f64": "%fd1, %fd2", "fma.rn.f64": "%fd1, %fd2, %fd3",
        "fma.rz.f64": "%fd1, %fd2, %fd3", "div.rn.f64": "%fd1, %fd2", "sqrt.rn.f64": "%fd1", "rcp.rn.f64": "%fd1",
        "min.f64": "%fd1, %fd2",
    }.items()},
    "mul.wide.s32": "mul.wide.s32 %rd6, %r1, %r2; {fold}",
    "mad.wide.u32": "mov.b64 %rd7, {%r2, %r3}; mad.wide.u32 %rd6, %r1, %r2, %rd7; {fold}",
    "add.cc, addc": "add.cc.u32 %r4, %r1, %r2; addc.u32 %r5, %r2, %r3; xor.b32 %r4, %r4, %r5;",
    "sub.cc, subc": "sub.cc.u32 %r4, %r1, %r2; subc.u32 %r5, %r2, %r3; xor.b32 %r4, %r4, %r5;",
    "mad.lo.cc, madc.hi": "mad.lo.cc.u32 %r4, %r1, %r2, %r3; madc.hi.u32 %r5, %r1, %r2, %r3; xor.b32 %r4, %r4, %r5;",
    "bfi.b32": "and.b32 %r5, %r3, 31; shr.u32 %r6, %r3, 27; bfi.b32 %r4, %r1, %r2, %r5, %r6;",
    "bmsk.wrap.b32": "bmsk.wrap.b32 %r4, %r1, %r2;",
    "szext.clamp.s32": "szext.clamp.s32 %r4, %r1, %r2;",
    "fns.b32": "and.b32 %r5, %r2, 31; mov.u32 %r6, 2; fns.b32 %r4, %r1, %r5, %r6;",
    "setp.lt.f32, selp": "setp.lt.f32 %p1, %f1, %f2; selp.b32 %r4, %r1, %r3, %p1;",
    "setp.neu.f32, selp": "setp.neu.f32 %p1, %f1, %f2; selp.b32 %r4, %r1, %r3, %p1;",
    "set.ltu.u32.f32": "set.ltu.u32.f32 %r4, %f1, %f2;",
    "slct.s32.f32": "slct.s32.f32 %r4, %r1, %r2, %f3;",
    "testp.subnormal.f32": "testp.subnormal.f32 %p1, %f1; selp.b32 %r4, 1, 0, %p1;",
    "cvt.rn.f16.f32": "cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r4, %h1;",
    "cvt.f32.f16": "cvt.u16.u32 %h1, %r1; cvt.f32.f16 %f1, %h1; mov.b32 %r4, %f1; and.b32 %r5, %r4, 0x7fffffff; "
    "setp.gt.u32 %p1, %r5, 0x7f800000; selp.b32 %r4, 0x7fffffff, %r4, %p1;",
    "cvt.rn.satfinite.e4m3x2.f32": "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r4, %h1;",
    "cvt.rn.satfinite.e5m2x2.f32": "cvt.rn.satfinite.e5m2x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r4, %h1;",
    "cvt.rn.f16x2.e4m3x2": "cvt.u16.u32 %h1, %r1; cvt.rn.f16x2.e4m3x2 %r4, %h1;",
    "cvt.rna.tf32.f32": "setp.num.f32 %p1, %f1, %f1; mov.b32 %r4, 0; @%p1 cvt.rna.tf32.f32 %r4, %f1;",
    "cvt.rn.f32.f64": "mov.b64 %rd6, {%r1, %r2}; mov.b64 %fd1, %rd6; cvt.rn.f32.f64 %f1, %fd1; mov.b32 %r4, %f1; "
    "setp.num.f32 %p1, %f1, %f1; @!%p1 mov.b32 %r4, 0;",
    **{f"shfl.sync.{mode}": f"shfl.sync.{mode}.b32 %r4|%p1, %r1, {lane}, {clamp}, -1; selp.b32 %r5, 1, 0, %p1; xor.b32 %r4, %r4, %r5;"
       for mode, lane, clamp in (("bfly", 5, 31), ("up", 3, 0), ("down", 7, 31), ("idx", 19, 0x181F))},
    "shfl.sync.idx, lanes from data": "shfl.sync.idx.b32 %r4, %r1, %r2, 31, -1;",
    "vote.sync.ballot": "setp.lt.s32 %p1, %r1, 0; vote.sync.ballot.b32 %r4, %p1, -1;",
    "match.any.sync": "and.b32 %r5, %r1, 3; match.any.sync.b32 %r4, %r5, -1;",
    **{f"redux.sync.{op}": f"redux.sync.{op} %r4, %r1, -1;" for op in ("add.s32", "min.s32", "max.u32", "and.b32", "xor.b32")},
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r1;",
    "mma m16n8k32 s8": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r4, %r5, %r6, %r7}, {%r1, %r2, %r3, %r1}, {%r2, %r3}, "
    "{%r3, %r2, %r1, %r3}; xor.b32 %r4, %r4, %r5; xor.b32 %r4, %r4, %r6; xor.b32 %r4, %r4, %r7;",
    "mma m16n8k32 u8 satfinite": "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {%r4, %r5, %r6, %r7}, "
    "{%r1, %r2, %r3, %r1}, {%r2, %r3}, {%r3, %r2, %r1, %r3}; xor.b32 %r4, %r4, %r5; xor.b32 %r4, %r4, %r6; xor.b32 %r4, %r4, %r7;",
    "atom.shared.add.u32": "and.b32 %r5, %r8, 63; shl.b32 %r5, %r5, 2; mov.u32 %r6, s; add.u32 %r6, %r6, %r5; "
    "mov.u32 %r7, 0; st.shared.u32 [%r6], %r7; bar.sync 0; atom.shared.add.u32 %r7, [%r6], %r1; bar.sync 0; ld.shared.u32 %r4, [%r6];",
    "red.shared.min.s32": "mov.u32 %r6, s; mov.u32 %r7, 0x7fffffff; st.shared.u32 [%r6], %r7; bar.sync 0; "
    "red.shared.min.s32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r4, [%r6];",
}  # fmt: skip
"""Families that one line cannot say: r4 from r1, r2, r3 (f1, f2, f3 are the same bits; r8 is the thread). `{fold}`: the two
halves of rd6.
"""


def instruction_text(instruction: str, target: str) -> str:
    """out[i] = instruction(a[i], b[i], c[i]) on 32-bit patterns."""
    from pyptx.dialects.ptx.target import FIRST_PTX

    count = next((n for n, heads in ARITY.items() if instruction.startswith(heads)), 2)
    operands = ["%r1", "%r2", "%r3"][:count]
    if instruction.startswith("lop3"):
        operands = ["%r1", "%r2", "%r3", "0x96"]
    body = f"{instruction} %r4, {', '.join(operands)};"
    if instruction in BODIES:
        fold = "mov.b64 {%r4, %r5}, %rd6; xor.b32 %r4, %r4, %r5;"
        body = BODIES[instruction].replace("{fold}", fold)
    version = "{}.{}".format(*max((8, 0), FIRST_PTX[target]))
    return f""".version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)
{{
    .reg .pred %p<2>;
    .reg .b16 %h<2>;
    .reg .b32 %r<9>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<9>;
    .reg .f64 %fd<4>;
    .shared .align 4 .b8 s[256];
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u64 %rd4, [out];
    mov.u32 %r5, %tid.x;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd1, %rd1, %rd5;
    add.s64 %rd2, %rd2, %rd5;
    add.s64 %rd3, %rd3, %rd5;
    add.s64 %rd4, %rd4, %rd5;
    ld.global.b32 %r1, [%rd1];
    ld.global.b32 %r2, [%rd2];
    ld.global.b32 %r3, [%rd3];
    mov.b32 %f1, %r1;
    mov.b32 %f2, %r2;
    mov.b32 %f3, %r3;
    mov.u32 %r8, %r5;
    {body}
    st.global.b32 [%rd4], %r4;
    ret;
}}
"""


def differential(run: Run) -> Iterator[Check]:
    """Instructions on random bit patterns: the GPU against the simulator, bit for bit (NaNs as NaNs)."""
    for instruction in (*INSTRUCTIONS, *BODIES):
        yield Check("differential", instruction, lambda instruction=instruction: differential_row(run, instruction), 15)


def differential_row(run: Run, instruction: str) -> Row:
    import numpy as np

    import pyptx
    from pyptx.runtime.driver import find_driver

    # fresh values in each run, the seed in the note of a difference
    seed = int.from_bytes(os.urandom(4), "little")
    rng = np.random.default_rng(seed)
    special = [0, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x3F800000, 0xFFFFFFFF, 1 << 23]
    arrays = [rng.integers(0, 1 << 32, 1024, dtype=np.uint32) for _ in range(3)]
    for array in arrays:
        array[: 9 * 9] = rng.choice(np.array(special, np.uint32), 81)
    text = instruction_text(instruction, find_driver().facts(0).arch)
    if generation(run) == "ampere" and (wrong := [d for d in pyptx.diagnose(text) if d.severity == "error"]):
        raise NotHere(wrong[0].message)  # FP8 before sm_89
    entry = pyptx.load(text)["k"]
    wanted = np.zeros(1024, np.uint32)
    entry.simulate(*arrays, wanted, grid=1, block=1024)
    on_gpu = [run.torch.from_numpy(a.view(np.int32)).to(run.device) for a in arrays]
    out = run.torch.full((1024,), 0x55555555, dtype=run.torch.int32, device=run.device)
    entry.launch(1, 1024, (*on_gpu, out), device=0)
    run.sync()
    if run.fake:
        return Row(status="not checked")
    got = out.cpu().numpy().view(np.uint32)
    bad = np.flatnonzero((got != wanted) & ~(both_nan(instruction, got, wanted)))
    if not bad.size:
        return Row()
    i = int(bad[0])
    given = ", ".join(hex(int(a[i])) for a in arrays)
    note = f"{bad.size} of 1024 differ, e.g. of {given}: GPU {got[i]:#x}, simulator {wanted[i]:#x}; seed {seed}"
    return Row(status="WRONG", note=note)


def both_nan(instruction: str, a: Any, b: Any) -> Any:
    import numpy as np

    if not instruction.endswith(".f32") or instruction.startswith("cvt"):
        return np.zeros(a.shape, bool)
    return np.isnan(a.view(np.float32)) & np.isnan(b.view(np.float32))


def sanitizer(run: Run) -> Iterator[Check]:
    """compute-sanitizer on two kernels."""
    for tool, name, size in (
        ("memcheck", BEST[generation(run)], "512, 512, 512"), ("racecheck", "rms_norm", "64, 512"),
        ("memcheck", "rms_norm", "64, 512"), ("racecheck", BEST[generation(run)], "256, 256, 128"),
    ):  # fmt: skip
        yield Check(
            "sanitizer", f"{tool} {name}", lambda tool=tool, name=name, size=size: sanitized(run, tool, name, size), 75
        )


def sanitized(run: Run, check: str, name: str, size: str) -> Row:
    tool = shutil.which("compute-sanitizer")
    if tool is None or run.fake:
        return Row(status="not run", note="needs a GPU and compute-sanitizer")
    code = (
        f"import torch\nfrom examples.{generation(run)} import {name} as m\nk = m.build({size}, arch={arch(run)!r})\n"
        "t = {'f32': torch.float32, 'bf16': torch.bfloat16}\n"
        "k(*(torch.randn(s.resolve_shape({}), device='cuda').to(t[s.dtype.name]) for s in k.in_specs))\n"
        "torch.cuda.synchronize()\nprint('ran to its end')"
    )
    command = [tool, "--tool", check, "--error-exitcode", "9", sys.executable, "-c", code]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=70)
    except subprocess.TimeoutExpired:
        return Row(status="not run", note="took more than 70 s under the sanitizer")
    lines = [line for line in done.stdout.splitlines() if line.startswith("========= ")]
    telling = [line for line in lines if "ERROR" not in line][:2] + lines[-1:]
    good = done.returncode == 0 and "ran to its end" in done.stdout
    return Row(status="ok" if good else "WRONG", note=" ".join(telling or done.stderr.splitlines()[-2:])[:200])


def faults(run: Run) -> Iterator[Check]:
    """What may happen on a GPU, for the test of `run.py`: the words in $PYPTX_GPU_FAULTS."""

    def lose() -> Row:
        run.device = "lost"
        raise RuntimeError("an illegal memory access was encountered")

    happen: dict[str, Callable[[], Any]] = {
        "hang": lambda: time.sleep(1000), "crash": lambda: os.abort(), "context": lose, "error": lambda: 1 // 0,
    }  # fmt: skip
    for word in os.environ.get("PYPTX_GPU_FAULTS", "").split():
        yield Check("right", word, happen[word], 3)


def checks(run: Run) -> list[Check]:
    """All of them, the most telling first."""
    fast, rest = ((256,), ()) if run.fake else ((8192, 4096), (2048, 16384))
    return [
        *faults(run), *right(run, first=True), *launches(run, slow=False), *gemm(run, fast), *attention(run),
        *bandwidth(run, compiled=False), *differential(run), *launches(run, slow=True), *right(run, first=False),
        *gemm(run, rest), *sanitizer(run), *bandwidth(run, compiled=True),
    ]  # fmt: skip


SECTIONS = ("right", "launch", "gemm", "attention", "bandwidth", "differential", "sanitizer")

# --- the process


def tell(**facts: Any) -> None:
    print(MARK + json.dumps(facts), flush=True)


def main() -> int:
    """Run the checks from `--start` on. Exit status 3: CUDA has given up this process, the rest needs another one."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--start", type=int, default=0)
    arguments.add_argument("--fake", type=int, default=0)
    arguments.add_argument("--only", nargs="*")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        notes = prepare(Path(scratch), options.fake)
        import torch

        if not options.fake and not torch.cuda.is_available():
            tell(problem="torch sees no GPU here; --fake runs everything against a driver that records")
            return 1
        run = Run(bool(options.fake), torch, "cpu" if options.fake else "cuda")
        tell(facts={**machine(run), **notes})
        found = [c for c in checks(run) if not options.only or c.section in options.only]
        tell(plan=[(c.section, c.name) for c in found])
        for index in range(options.start, len(found)):
            check = found[index]
            tell(begin=index, limit=check.limit)
            row = guarded(check)
            if run.fake:  # what a driver that does nothing was timed at is not a result
                row.value = row.baseline = row.ratio = None
                row.note = "" if row.unit else row.note
                row.status = "not checked" if row.status == "ok" else row.status
            lost = row.status in ("FAILED", "WRONG") and context_is_lost(run)
            tell(row=asdict(row), index=index, lost=lost)
            if lost:
                os._exit(3)  # destructors would wait for the lost context
    tell(end=True)
    return 0


def guarded(check: Check) -> Row:
    """The row of a check; what it raises is its result."""
    try:
        row = check.work()
    except NotHere as error:
        row = Row(status="not run", note=str(error))
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if str(ROOT) in f.filename]
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        words = " ".join(str(error).split())[:300]
        row = Row(status="FAILED", note=f"{type(error).__name__} at {where}: {words}")
    row.section, row.name = check.section, check.name
    return row


def context_is_lost(run: Run) -> bool:
    if run.fake:
        return "context" in os.environ.get("PYPTX_GPU_FAULTS", "") and run.device == "lost"
    try:
        run.sync()
    except Exception:
        return True
    return False


def prepare(scratch: Path, fake: int) -> dict[str, str]:
    """Build what needs a compiler: the launcher, and with `--fake` the driver, of a GPU of that target."""
    notes: dict[str, str] = {}
    compiler = shutil.which("gcc") or shutil.which("cc")
    include = sysconfig.get_paths()["include"]
    os.environ.setdefault("PYPTX_CACHE_DIR", str(scratch / "cache"))
    os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"  # the machine's own ptxas, if nothing else is there
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the GPU's memory
    if fake:
        assert compiler, "--fake needs gcc"
        library = scratch / "fake_cuda.so"
        source = ROOT / "tests/runtime/fake_cuda.c"
        command = [compiler, "-O2", "-std=gnu11", "-shared", "-fPIC", str(source), "-o", str(library), "-lpthread"]
        subprocess.run(command, check=True)
        os.environ["PYPTX_CUDA_DRIVER_LIBRARY"] = str(library)
        control = ctypes.CDLL(str(library))
        for what, number in zip((b"major", b"minor"), divmod(fake, 10), strict=True):
            control.fake_set(what, ctypes.c_long(number))
    if compiler and Path(include, "Python.h").exists():
        import importlib.util

        target = scratch / "_launcher.abi3.so"
        source = ROOT / "pyptx/runtime/_launcher.c"
        command = [compiler, "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return {"launcher": f"ctypes: gcc said {done.stderr.strip()[:200]}"}
        spec = importlib.util.spec_from_file_location("pyptx.runtime._launcher", target)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["pyptx.runtime._launcher"] = module
        import pyptx.runtime

        pyptx.runtime._launcher = module  # pyright: ignore[reportAttributeAccessIssue]
        notes["launcher"] = "native"
    else:
        notes["launcher"] = "ctypes (no gcc or no Python.h)"
    return notes


def machine(run: Run) -> dict[str, str]:
    from pyptx.runtime.compile import compiler_version, compilers
    from pyptx.runtime.driver import find_driver

    driver = find_driver()
    facts = driver.facts(0)
    found = compilers()
    return {
        "gpu": f"{facts.name} ({facts.arch}, {facts.multiprocessors} SMs)",
        "driver": f"CUDA {driver.version[0]}.{driver.version[1]}",
        "compiler": f"{found[0]} {compiler_version(found[0])}" if found else "none",
        "python": platform.python_version(),
        "torch": run.torch.__version__,
        "dlpack exchange api": str(hasattr(run.torch.Tensor, "__dlpack_c_exchange_api__")),
    }


if __name__ == "__main__":
    sys.path[0:1] = [str(ROOT)]
    sys.exit(main())
