"""The other languages' columns of the phrasebook: compiled by NVRTC and Triton, looked up in CuTe DSL."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "phrasebook.md").read_text().partition("## Running")[0]


def column(index: int) -> list[str]:
    """What a column has as code, and as code only."""
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")]
    return [m[1] for row in rows if (m := re.match(r" `([^`]+)`", row[index]))]


CUDA = """#include <cuda_pipeline.h>
#include <cuda/ptx>
#include <mma.h>
"""
FUNCTION = """__global__ void {attribute} f{number}(float *x, float *y, int n, float a, float b, float c, bool q, const half *h) {{
  __shared__ alignas(16) float s[64][64];
  __shared__ unsigned long long bar[1];
  {fragments}
  int i = n + 1, j = n + 2;
  float v = a;
  {{ {statement}; }}
}}
"""
FRAGMENTS = """nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> fa;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> fb;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> fc;
"""


def test_cuda_column() -> None:
    """Each phrase is a statement, or an attribute of the kernel."""
    pytest.importorskip("cuda.bindings.nvrtc")
    from pyptx.adapters import cuda

    phrases = column(0)
    assert len(phrases) > 35 and "__syncthreads()" in phrases
    source = CUDA
    for number, phrase in enumerate(phrases):
        statement = phrase.replace("#pragma unroll", "\n#pragma unroll\nfor (int k = 0; k < 4; k++) v += 1")
        attribute = phrase if re.match(r"__\w+__\([\d, ]+\)$", phrase) else ""
        shadowed = statement.replace("__shared__ float s[64]", "__shared__ float t[64]")
        fragments = FRAGMENTS if "wmma" in phrase else ""
        source += FUNCTION.format(
            attribute=attribute, number=number, statement="" if attribute else shadowed, fragments=fragments
        )
    text, _ = cuda.ptx(source, arch="sm_90a", names=[f"f{i}" for i in range(len(phrases))], options=["-std=c++17"])
    assert text.count(".entry") == len(phrases)


TRITON = """import triton
import triton.language as tl

@triton.jit
def kernel(x, n, TL: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    a, b, c, q = v, v + 1, v + 2, v > 0
    ma = tl.full((16, 16), 1.0, tl.float16)
    mb, mc = ma, tl.full((16, 16), 1.0, tl.float32)
    descriptor = tl.make_tensor_descriptor(x, shape=[64, 64], strides=[64, 1], block_shape=[16, 16])
{body}
    tl.store(x + i, v)
"""


def test_triton_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phrase is a statement of a kernel, or an option of its launch."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDAOptions
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    phrases = column(1)
    options = [p for p in phrases if re.fullmatch(r"\w+=\d+", p)]
    assert set(options) == {"num_warps=8", "num_ctas=2", "num_stages=3"}
    assert all(p.partition("=")[0] in CUDAOptions.__dataclass_fields__ for p in options)
    body: list[str] = []
    for phrase in (p for p in phrases if p not in options and p != "mask="):
        body.append(f"    for _ in {phrase}: v += 1" if phrase.startswith("tl.range(") else f"    {phrase}")
    assert len(body) > 15
    path = tmp_path / "phrases.py"
    path.write_text(TRITON.format(body="\n".join(body)))
    spec = importlib.util.spec_from_file_location("phrases", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source = ASTSource(module.kernel, signature={"x": "*fp32", "n": "i32", "TL": "constexpr"}, constexprs={"TL": 1})
    compiled: Any = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert ".entry kernel" in compiled.asm["ptx"]


def test_cute_column() -> None:
    """Each name exists, and takes the arguments that are given."""
    cutlass = pytest.importorskip("cutlass")
    from cutlass import cute, pipeline, utils
    from cutlass.cute.nvgpu import warp

    names = {"cutlass": cutlass, "cute": cute, "pipeline": pipeline, "utils": utils, "warp": warp}
    found = [
        m
        for p in column(2)
        for m in re.finditer(r"((?:cute|cutlass|pipeline|utils|warp)(?:\.\w+)+)(?:\(([^()]*)\))?", p)
    ]
    assert len(found) > 25
    for match in found:
        value = eval(match[1], names)
        if match[2] is not None and "..." not in match[2]:
            inspect.signature(value).bind(*range(len([w for w in match[2].split(",") if w.strip()])))
