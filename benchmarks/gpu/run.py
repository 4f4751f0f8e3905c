"""One script for a machine with a GPU: are the kernels right on it, and how fast is everything.

    python benchmarks/gpu/run.py --minutes 4                 # on the GPU machine
    python benchmarks/gpu/run.py --fake --minutes 1          # here: a driver that records, CPU tensors, tiny sizes

Needs torch, NumPy and ml_dtypes; jax, triton and compute-sanitizer are used if they are there. xDSL and its
dependencies are taken from `benchmarks/gpu/wheels/*.whl` where they are not installed (`--pack` fetches them, on a
machine with a network). The compiler is nvJitLink or the machine's own ptxas, so the PTX stays at what that reads.

The most telling checks come first; what time does not allow is listed as not run. The table comes last, and everything
goes into `$OUT/gpu.json` too. No number of this script has been measured on a GPU yet.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(__file__).with_name("wheels")
PACKAGES = ("xdsl==0.75.*", "immutabledict", "ordered-set", "typing-extensions")


@dataclass
class Row:
    """One result. `ratio`: how many times better than the baseline (above 1: we are)."""

    section: str
    name: str
    status: str = "ok"
    value: float | None = None
    unit: str = ""
    baseline: float | None = None
    against: str = ""
    ratio: float | None = None
    note: str = ""


@dataclass
class Run:
    """The machine, the clock and the rows so far."""

    fake: bool
    deadline: float
    torch: Any
    device: str
    rows: list[Row] = field(default_factory=list)

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

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
        generator = torch.Generator().manual_seed(seed)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[spec.dtype.name]
        return torch.randn(spec.resolve_shape({}), generator=generator).to(dtype).to(self.device)

    def poisoned(self, spec: Any) -> Any:
        made = self.tensor(spec, 0)
        return made.fill_(float("nan"))


def numpy(tensor: Any) -> Any:
    return tensor.detach().cpu().double().numpy()


# --- the sections, the most telling first


NORMS = ("rms_norm", "layer_norm", "softmax", "swiglu")


def generation(run: Run) -> str:
    if run.fake:
        return "hopper"
    major = run.torch.cuda.get_device_capability()[0]
    return {8: "ampere", 9: "hopper"}.get(major, "blackwell" if major >= 10 else "ampere")


def example(run: Run, name: str) -> Any:
    return importlib.import_module(f"examples.{generation(run)}.{name}")


def arch() -> str:
    from pyptx.runtime.driver import find_driver

    return find_driver().facts(0).arch


def right(run: Run) -> Iterator[Row]:
    """Every example against its float64 reference, on poisoned outputs."""
    from pyptx.types import bf16, f32

    cases: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []
    sizes = [(4, 64)] if run.fake else [(37, 512), (256, 4096), (64, 8192)]
    for name in NORMS:
        cases += [(name, size, {"dtype": dtype}) for dtype in (f32, bf16) for size in sizes]
    square = [(256,) * 3] if run.fake else [(512, 768, 256), (2048,) * 3]
    cases += [(name, size, {}) for name in ("gemm_highperf", "gemm") for size in square]
    attention = (1, 128, 128, 128) if run.fake else (2, 1024, 1024, 128)
    cases += [("flash_attention", attention, {"causal": c}) for c in (False, True)]
    for name, size, options in cases:
        label = f"{name} {'x'.join(map(str, size))} {' '.join(str(v) for v in options.values())}"
        try:
            module = example(run, name)
        except ModuleNotFoundError:
            yield Row("right", label, "not run", note="no such example for this GPU")
            continue
        yield guarded(
            "right", label, lambda module=module, size=size, options=options: compare(run, module, size, options)
        )


def compare(run: Run, module: Any, size: tuple[int, ...], options: dict[str, Any]) -> Row:
    kernel = module.build(*size, **options, arch=arch())
    inputs = [run.tensor(spec, i) for i, spec in enumerate(kernel.in_specs)]
    outputs = tuple(run.poisoned(spec) for spec in kernel.out_specs)
    kernel(*inputs, out=outputs)
    run.sync()
    if run.fake:
        return Row("right", "", "not checked", note="launched on the fake driver")
    wanted = module.reference(*map(numpy, inputs), **{n: v for n, v in options.items() if n == "causal"})
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    import numpy as np

    worst = max(float(np.linalg.norm(numpy(o) - w) / np.linalg.norm(w)) for o, w in zip(outputs, wanted, strict=True))
    limit = 2e-2 if any(s.dtype.bits == 16 for s in kernel.in_specs) else 1e-5
    return Row("right", "", "ok" if worst <= limit else "WRONG", worst, "rel. error", limit, "limit")


def overhead(run: Run) -> Iterator[Row]:
    """Host time of one launch: eager, given outputs, compiled, replayed, from JAX; beside torch's own and Triton."""
    torch = run.torch
    kernel = example(run, "rms_norm").build(4, 64, arch=arch())
    x, w = (run.tensor(s, i) for i, s in enumerate(kernel.in_specs))
    y = run.poisoned(kernel.out_specs[0])
    own = run.host(lambda: torch.add(x, 1.0, out=y)) * 1e6

    def row(name: str, work: Callable[[], object], calls: int = 200) -> Row:
        value = run.host(work, calls) * 1e6
        return Row("launch", name, value=value, unit="us", baseline=own, against="torch.add(out=)", ratio=own / value)

    yield guarded("launch", "eager, out=", lambda: row("", lambda: kernel(x, w, out=y)))
    yield guarded("launch", "eager", lambda: row("", lambda: kernel(x, w)))

    def compiled() -> Row:
        f = torch.compile(lambda x, w: kernel(x, w), fullgraph=True)
        f(x, w)
        return row("", lambda: f(x, w))

    def replayed() -> Row:
        graph = torch.cuda.CUDAGraph()
        kernel(x, w, out=y)
        run.sync()
        with torch.cuda.graph(graph):
            for _ in range(20):
                kernel(x, w, out=y)
        value = run.seconds(graph.replay) / 20 * 1e6
        return Row("launch", "", value=value, unit="us", note="GPU time per kernel of a graph of 20")

    if run.fake:
        yield Row("launch", "CUDA graph replay", "not run", note="needs a GPU")
    else:
        yield guarded("launch", "CUDA graph replay", replayed)
    yield guarded("launch", "torch.compile", compiled)
    yield guarded("launch", "jax.jit", lambda: from_jax(run, kernel, x, w))


def from_jax(run: Run, kernel: Any, x: Any, w: Any) -> Row:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return Row("launch", "", "not run", note="jax is not installed")
    a, b = jnp.asarray(x.cpu().numpy()), jnp.asarray(w.cpu().numpy())
    f = jax.jit(kernel)
    f(a, b).block_until_ready()
    value = run.host(lambda: f(a, b), 100) * 1e6
    plain = jax.jit(lambda a, b: a + b[0])
    plain(a, b).block_until_ready()
    own = run.host(lambda: plain(a, b), 100) * 1e6
    return Row("launch", "", value=value, unit="us", baseline=own, against="jax.jit of a + b", ratio=own / value)


def gemm(run: Run) -> Iterator[Row]:
    """bf16, C = A B^T, against cuBLAS (torch.matmul) in the same process."""
    torch = run.torch
    for n in (256,) if run.fake else (4096, 8192, 2048, 16384):

        def work(n: int = n) -> Row:
            kernel = example(run, "gemm_highperf").build(n, n, n, arch=arch())
            a, b = (run.tensor(s, i) for i, s in enumerate(kernel.in_specs))
            c = run.poisoned(kernel.out_specs[0])
            other = torch.empty_like(c)
            ours = 2 * n**3 / run.seconds(lambda: kernel(a, b, out=c)) / 1e12
            theirs = 2 * n**3 / run.seconds(lambda: torch.matmul(a, b.t(), out=other)) / 1e12
            good = run.fake or float((c.float() - other.float()).norm() / other.float().norm()) < 1e-2
            status = "not checked" if run.fake else "ok" if good else "WRONG"
            return Row("gemm", "", status, ours, "TFLOP/s", theirs, "cuBLAS", ours / theirs)

        yield guarded("gemm", f"bf16 {n}^3", work)


def bandwidth(run: Run) -> Iterator[Row]:
    """Norms against torch eager, torch.compile, and a plain copy of the same bytes."""
    torch = run.torch
    functional = torch.nn.functional
    b, n = (4, 64) if run.fake else (8192, 8192)
    size = torch.randn(b, n, device=self_device(run), dtype=torch.bfloat16)
    copy = torch.empty_like(size)
    copied = 2 * size.numel() * 2 / run.seconds(lambda: copy.copy_(size)) / 1e9
    yield Row("bandwidth", "copy", value=copied, unit="GB/s")
    eager: dict[str, Callable[..., Any]] = {
        "rms_norm": lambda x, w: functional.rms_norm(x, (n,), w, 1e-6),
        "layer_norm": lambda x, *w: functional.layer_norm(x, (n,), *w),
        "softmax": lambda x: functional.softmax(x, 1),
        "swiglu": lambda g, u: functional.silu(g) * u,
    }
    from pyptx.types import bf16

    for name in NORMS:

        def work(name: str = name) -> Row:
            kernel = example(run, name).build(b, n, dtype=bf16, arch=arch())
            inputs = [run.tensor(s, i) for i, s in enumerate(kernel.in_specs)]
            out = run.poisoned(kernel.out_specs[0])
            moved = sum(t.numel() * t.element_size() for t in (*inputs, out))
            ours = moved / run.seconds(lambda: kernel(*inputs, out=out)) / 1e9
            theirs = moved / run.seconds(lambda: eager[name](*inputs)) / 1e9
            note = f"{ours / copied:.0%} of copy"
            if not run.fake and run.left > 40:
                f = torch.compile(eager[name])
                note += f"; torch.compile {moved / run.seconds(lambda: f(*inputs)) / 1e9:.0f} GB/s"
            return Row("bandwidth", "", "ok", ours, "GB/s", theirs, "torch eager", ours / theirs, note)

        yield guarded("bandwidth", f"{name} bf16 {b}x{n}", work)


def self_device(run: Run) -> str:
    return run.device


def attention(run: Run) -> Iterator[Row]:
    """Flash attention against torch's SDPA."""
    torch = run.torch
    heads, length, d = (1, 128, 128) if run.fake else (64, 4096, 128)
    for causal in (False, True):

        def work(causal: bool = causal) -> Row:
            kernel = example(run, "flash_attention").build(heads, length, length, d, causal=causal, arch=arch())
            q, k, v = (run.tensor(s, i) for i, s in enumerate(kernel.in_specs))
            outputs = tuple(run.poisoned(s) for s in kernel.out_specs)
            flops = 4 * heads * length * length * d / (2 if causal else 1)
            ours = flops / run.seconds(lambda: kernel(q, k, v, out=outputs)) / 1e12
            sdpa = torch.nn.functional.scaled_dot_product_attention
            theirs = flops / run.seconds(lambda: sdpa(q[None], k[None], v[None], is_causal=causal)) / 1e12
            return Row("attention", "", "ok", ours, "TFLOP/s", theirs, "SDPA", ours / theirs)

        yield guarded("attention", f"{heads}x{length}x{d}{' causal' if causal else ''}", work)


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


def instruction_text(instruction: str, target: str) -> str:
    """out[i] = instruction(a[i], b[i], c[i]) on 32-bit patterns."""
    count = next((n for n, heads in ARITY.items() if instruction.startswith(heads)), 2)
    operands = ["%r1", "%r2", "%r3"][:count]
    if instruction.startswith("lop3"):
        operands = ["%r1", "%r2", "%r3", "0x96"]
    return f""".version 8.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
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
    {instruction} %r4, {", ".join(operands)};
    st.global.b32 [%rd4], %r4;
    ret;
}}
"""


def differential(run: Run) -> Iterator[Row]:
    """Instructions on random bit patterns: the GPU against the simulator, bit for bit (NaNs as NaNs)."""
    import numpy as np

    import pyptx

    rng = np.random.default_rng(7)
    special = np.array(
        [0, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x3F800000, 0xFFFFFFFF, 1 << 23], np.uint32
    )
    arrays = [rng.integers(0, 1 << 32, 1024, dtype=np.uint32) for _ in range(3)]
    for array in arrays:
        array[: 9 * 9] = rng.choice(special, 81)
    on_gpu = [run.torch.from_numpy(a.view(np.int32)).to(run.device) for a in arrays]
    for instruction in INSTRUCTIONS:

        def work(instruction: str = instruction) -> Row:
            entry = pyptx.load(instruction_text(instruction, arch()))["k"]
            wanted = np.zeros(1024, np.uint32)
            entry.simulate(*arrays, wanted, grid=1, block=1024)
            out = run.torch.full((1024,), 0x55555555, dtype=run.torch.int32, device=run.device)
            entry.launch(1, 1024, (*on_gpu, out), device=0)
            run.sync()
            if run.fake:
                return Row("differential", "", "not checked")
            got = out.cpu().numpy().view(np.uint32)
            bad = np.flatnonzero((got != wanted) & ~(both_nan(instruction, got, wanted)))
            if not bad.size:
                return Row("differential", "", "ok")
            i = int(bad[0])
            given = ", ".join(hex(int(a[i])) for a in arrays)
            note = f"{bad.size} of 1024 differ, e.g. of {given}: GPU {got[i]:#x}, simulator {wanted[i]:#x}"
            return Row("differential", "", "WRONG", note=note)

        yield guarded("differential", instruction, work)


def both_nan(instruction: str, a: Any, b: Any) -> Any:
    import numpy as np

    if not instruction.endswith(".f32") or instruction.startswith("cvt"):
        return np.zeros(a.shape, bool)
    return np.isnan(a.view(np.float32)) & np.isnan(b.view(np.float32))


def sanitizer(run: Run) -> Iterator[Row]:
    """compute-sanitizer on two kernels."""
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if tool is None or run.fake:
        yield Row("sanitizer", "memcheck", "not run", note="needs a GPU and compute-sanitizer")
        return
    for name, size in (("rms_norm", "64, 512"), ("gemm_highperf", "512, 512, 512")):
        code = (
            f"import torch\nfrom examples.{generation(run)} import {name} as m\nk = m.build({size}, arch={arch()!r})\n"
            "t = {'f32': torch.float32, 'bf16': torch.bfloat16}\n"
            "k(*(torch.randn(s.resolve_shape({}), device='cuda').to(t[s.dtype.name]) for s in k.in_specs))\n"
            "torch.cuda.synchronize()"
        )
        for check in ("memcheck", "racecheck"):

            def work(check: str = check, code: str = code) -> Row:
                command = [tool, "--tool", check, "--error-exitcode", "9", sys.executable, "-c", code]
                environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
                done = subprocess.run(
                    command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=max(20, run.left)
                )
                last = done.stdout.strip().splitlines()[-1:] or [""]
                return Row("sanitizer", "", "WRONG" if done.returncode else "ok", note=last[0][:150])

            yield guarded("sanitizer", f"{check} {name}", work)


def guarded(section: str, name: str, work: Callable[[], Row]) -> Row:
    """The row of a piece of work; what it raises is its result."""
    try:
        row = work()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        words = " ".join(str(error).split())[:300]
        row = Row(section, name, "FAILED", note=f"{type(error).__name__} at {where}: {words}")
    row.section, row.name = section, name
    return row


SECTIONS: tuple[tuple[str, Callable[[Run], Iterator[Row]]], ...] = (
    ("right", right), ("launch", overhead), ("gemm", gemm), ("bandwidth", bandwidth), ("attention", attention),
    ("differential", differential), ("sanitizer", sanitizer),
)  # fmt: skip


def main() -> int:
    arguments = argparse.ArgumentParser(description="checks and measurements on a GPU")
    arguments.add_argument("--minutes", type=float, default=4.0)
    arguments.add_argument("--only", nargs="+", choices=[n for n, _ in SECTIONS], help="these sections")
    arguments.add_argument("--fake", action="store_true", help="a recording driver in place of a GPU")
    arguments.add_argument("--json", type=Path, help="default: $OUT/gpu.json, else gpu.json here")
    arguments.add_argument(
        "--pack", action="store_true", help="fetch the wheels that a machine without a network needs"
    )
    options = arguments.parse_args()
    if options.pack:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(WHEELS), *PACKAGES]
        return subprocess.run(command).returncode
    sys.path[:0] = [str(ROOT)]
    sys.path += [str(wheel) for wheel in sorted(WHEELS.glob("*.whl"))]
    with tempfile.TemporaryDirectory() as scratch:
        notes = prepare(Path(scratch), options.fake)
        import torch

        device = "cpu" if options.fake else "cuda"
        run = Run(options.fake, time.monotonic() + 60 * options.minutes, torch, device)
        facts = {**machine(run), **notes}
        for name, section in SECTIONS:
            if options.only and name not in options.only:
                continue
            if run.left < 3:
                run.rows.append(Row(name, "all of it", "not run", note="no time left"))
                continue
            for row in section(run):
                if run.fake:  # what a driver that does nothing was timed at is no result
                    row.value = row.baseline = row.ratio = None
                    row.status = "not checked" if row.status == "ok" else row.status
                run.rows.append(row)
                print(f"{row.section:12} {row.status:11} {row.name}  {row.note[:160]}", flush=True)
                if run.left < 0:
                    run.rows.append(Row(name, "the rest", "not run", note="no time left"))
                    break
        report(run, facts, options.json)
    return 1 if any(row.status in ("WRONG", "FAILED") for row in run.rows) else 0


def prepare(scratch: Path, fake: bool) -> dict[str, str]:
    """Build what needs a compiler: the launcher, and with `--fake` the driver."""
    notes: dict[str, str] = {}
    compiler = shutil.which("gcc") or shutil.which("cc")
    include = sysconfig.get_paths()["include"]
    os.environ.setdefault("PYPTX_CACHE_DIR", str(scratch / "cache"))
    os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"  # the machine's own ptxas, if nothing else is there
    if fake:
        assert compiler, "--fake needs gcc"
        library = scratch / "fake_cuda.so"
        source = ROOT / "tests/runtime/fake_cuda.c"
        command = [compiler, "-O2", "-std=gnu11", "-shared", "-fPIC", str(source), "-o", str(library), "-lpthread"]
        subprocess.run(command, check=True)
        os.environ["PYPTX_CUDA_DRIVER_LIBRARY"] = str(library)
    if compiler and Path(include, "Python.h").exists():
        import importlib.util

        target = scratch / "_launcher.abi3.so"
        source = ROOT / "pyptx/runtime/_launcher.c"
        subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(target)], check=True
        )
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


def report(run: Run, facts: dict[str, str], path: Path | None) -> None:
    target = path or Path(os.environ.get("OUT", ".")) / "gpu.json"
    target.write_text(json.dumps({"facts": facts, "fake": run.fake, "rows": [asdict(r) for r in run.rows]}, indent=1))
    print("\n" + "\n".join(f"{name:20} {value}" for name, value in facts.items()) + "\n")
    if run.fake:
        print("a fake driver: kernels were compiled and launched, nothing ran, nothing was measured\n")
    shown = [r for r in run.rows if r.section != "differential" or r.status not in ("ok", "not checked")]
    for row in shown:
        value = "" if row.value is None else f"{row.value:10.4g} {row.unit}"
        base = "" if row.baseline is None else f"{row.baseline:9.4g} {row.against}"
        ratio = "" if row.ratio is None else f"{row.ratio:5.2f}x"
        print(f"{row.section:12} {row.status:11} {row.name:42} {value:22} {base:26} {ratio:7} {row.note[:90]}".rstrip())
    counts: dict[str, int] = {}
    for row in run.rows:
        counts[row.status] = counts.get(row.status, 0) + 1
    print("\n" + ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) + f"; {target}")


if __name__ == "__main__":
    sys.exit(main())
