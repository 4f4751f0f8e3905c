"""CUDA C++ with cooperative groups and cuda::pipeline as cases: python cuda_kernels.py FOLDER ARCH, in a Python with
nvidia-cuda-nvcc, nvidia-cuda-crt and nvidia-cuda-cccl.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import nvidia
from case import Case, save

OUT, ARCH = sys.argv[1:3]
ROOT = Path(next(iter(nvidia.__path__))) / "cu13"
HEAD = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
"""

KERNELS: dict[str, str] = {
    "tile_reduce": """(const int *x, int *out, int n) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int s = cg::reduce(tile, i < n ? x[i] : 0, cg::plus<int>());
  if (tile.thread_rank() == 0) atomicAdd(out, s);
}""",
    "block_reduce": """(const int *x, int *out, int n) {
  __shared__ int part[32];
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int s = cg::reduce(tile, i < n ? x[i] : 0, cg::plus<int>());
  if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = s;
  block.sync();
  if (tile.meta_group_rank() == 0) {
    s = cg::reduce(tile, tile.thread_rank() < tile.meta_group_size() ? part[tile.thread_rank()] : 0, cg::plus<int>());
    if (tile.thread_rank() == 0) atomicAdd(out, s);
  }
}""",
    "coalesced": """(const int *x, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) {
    auto active = cg::coalesced_threads();
    int s = cg::reduce(active, x[i], cg::plus<int>());
    if (active.thread_rank() == 0) atomicAdd(out, s);
  }
  if (i < n && x[i] <= 0) atomicAdd(out, x[i]);
}""",
    "memcpy_async": """(const int *x, int *out, int n) {
  __shared__ int stage[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, stage, x + blockIdx.x * 256, sizeof(int) * 256);
  cg::wait(block);
  atomicAdd(out, stage[255 - threadIdx.x]);
}""",
    "pipeline": """(const int *x, int *out, int n) {
  __shared__ int stage[2][256];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int j = 0, f = 0; j < n / 256; ++j) {
    for (; f < n / 256 && f < j + 2; ++f) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[f % 2], x + f * 256, sizeof(int) * 256, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stage[j % 2][255 - threadIdx.x];
    pipe.consumer_release();
  }
  atomicAdd(out, blockIdx.x == 0 ? sum : 0);
}""",
    "thread_pipeline": """(const int *x, int *out, int n) {
  __shared__ int stage[2][256];
  auto pipe = cuda::make_pipeline();
  int sum = 0, t = threadIdx.x;
  for (int j = 0, f = 0; j < n / 256; ++j) {
    for (; f < n / 256 && f < j + 2; ++f) {
      pipe.producer_acquire();
      cuda::memcpy_async(&stage[f % 2][t], x + f * 256 + t, sizeof(int), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stage[j % 2][t];
    pipe.consumer_release();
  }
  atomicAdd(out, blockIdx.x == 0 ? sum : 0);
}""",
    "barrier": """(const int *x, int *out, int n) {
  __shared__ int stage[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  stage[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  auto token = bar.arrive();
  bar.wait(cuda::std::move(token));
  atomicAdd(out, stage[255 - threadIdx.x]);
}""",
    "grid_last_block": """(const int *x, int *out, int n) {
  __shared__ bool last;
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, x[blockIdx.x * 256 + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    out[2 + blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(out + 1, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    int s = 0;
    for (int i = 0; i < gridDim.x; ++i) s += ((volatile int *)out)[2 + i];
    out[0] = s;
  }
}""",
    "scan": """(const int *x, int *out, int n) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int s = cg::inclusive_scan(tile, x[i]);
  if (tile.thread_rank() == 15) atomicAdd(out, s);
}""",
}
GRID = {
    "grid": """(const int *x, int *out, int n) {
  auto grid = cg::this_grid();
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, x[grid.thread_rank()]);
  __syncthreads();
  if (threadIdx.x == 0) out[2 + blockIdx.x] = sum;
  grid.sync();
  if (grid.thread_rank() == 0) for (int i = 0; i < gridDim.x; ++i) out[0] += out[2 + i];
}"""
}
"""Cooperative launches."""
CLUSTER = {
    "cluster": """(const int *x, int *out, int n) {
  __shared__ int part;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) part = 0;
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&part, 0), x[blockIdx.x * 256 + threadIdx.x]);
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) atomicAdd(out, part);
}"""
}


def compile_it(kernels: dict[str, str]) -> str:
    """One module of all kernels: reading the headers takes nvcc most of its time."""
    source_text = HEAD + "\n".join(f'extern "C" __global__ void {name}{body}' for name, body in kernels.items())
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "k.cu", Path(folder) / "k.ptx"
        source.write_text(source_text)
        command = [str(ROOT / "bin" / "nvcc"), "-ptx", "-std=c++17", f"-arch={ARCH}", "-I", str(ROOT / "include"),
                   "-I", str(ROOT / "include" / "cccl"), str(source), "-o", str(target)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit((done.stderr or done.stdout).strip())
        return target.read_text()


def emit(name: str, text: str) -> None:
    full = f"cuda_{name}_{ARCH}"
    x: Any = np.random.default_rng(7).integers(-9, 10, 1024, dtype=np.int32)
    out = np.zeros(64, np.int32)
    wanted = out.copy()
    wanted[0] = x.sum()
    if name == "grid_last_block":
        wanted[1:6] = 4, *x.reshape(4, 256).sum(1)
    elif name in GRID:
        wanted[2:6] = x.reshape(4, 256).sum(1)
    cluster = [2, 1, 1] if name in CLUSTER else None
    case = Case(full, text, f"k_{name}", [4, 1, 1], [256, 1, 1], cluster, cooperative=name in GRID)
    case.pointers = [(0, 0, 0, 0), (1, 0, 1, 0)]
    case.arguments = [bytes(8).hex(), bytes(8).hex(), np.int32(1024).tobytes().hex()]
    save(Path(OUT), case, [x, out], {1: wanted}, {1: "s32"})
    print(full)


CHOSEN = KERNELS | GRID | ({} if ARCH.startswith("sm_8") else CLUSTER)
TEXT = compile_it({f"k_{name}": body for name, body in CHOSEN.items()})
for chosen in CHOSEN:
    emit(chosen, TEXT)
