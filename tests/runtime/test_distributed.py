"""Kernels in several processes: the distributed examples on two local ones, and DTensor."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .kernels import add, scaled_sum

ROOT = Path(__file__).resolve().parents[2]


def needs_gloo() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    return torch


def run(*words: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "PYPTX_CUDA_DRIVER_LIBRARY")}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "words",
    [("sharded_gemm", "--size", "256", "128", "64"), ("grouped_gemm", "--size", "4", "256", "64", "--capacity", "5")],
)
def test_examples_over_two_processes(words: tuple[str, ...]) -> None:
    """Each exits with 0 only if both ranks agree with float64."""
    needs_gloo()
    said = run(f"examples.distributed.{words[0]}", *words[1:])
    assert "rank 0 of 2 on" in said
    assert "rank 1 of 2 on" in said


def test_two_processes_of_jax() -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    said = run("examples.distributed.jax_gemm", "--size", "256", "128", "64")
    assert "process 0 of 2, 2 devices in all: 128 of 256 rows here" in said
    assert "process 1 of 2" in said


def _on_dtensors(rank: int, port: int, folder: str) -> None:
    """One of two ranks: every placement of the inputs, rows that do not divide, a sum over parts."""
    import torch
    import torch.distributed as distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    import pyptx

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    kernel = scaled_sum()
    pyptx.register_sharding(kernel, parallel=("B",))
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(7, 64, generator=generator), torch.randn(64, generator=generator)
    for of_x in (Shard(0), Shard(1), Replicate()):
        for of_w in (Shard(0), Replicate()):
            y = kernel(distribute_tensor(x, mesh, [of_x]), distribute_tensor(w, mesh, [of_w]), scale=2.0)
            torch.testing.assert_close(y.full_tensor(), 2 * x + w)
            if of_x == Shard(0):  # no data moved: each rank has computed its rows
                assert y.placements == (Shard(0),)
                assert y.to_local().shape == (4 - rank, 64)
    total = row_sums()
    pyptx.register_sharding(total, parallel=("M",), summed=("N",))
    x = torch.randint(-8, 9, (32, 6), generator=generator).float()  # sums are exact, whatever their order
    parts = total(distribute_tensor(x, mesh, [Shard(1)]))
    assert parts.placements == (Partial(),)
    torch.testing.assert_close(parts.full_tensor(), x.sum(1), rtol=0, atol=0)
    assert total(distribute_tensor(x.contiguous(), mesh, [Shard(0)])).placements == (Shard(0),)
    distributed.destroy_process_group()
    Path(folder, str(rank)).touch()


def row_sums() -> Any:
    """y[m] = the sum of x[m, :]; one thread per row, M <= 32."""
    from pyptx import Tile, kernel, ptx, reg
    from pyptx.types import f32, u32

    @kernel(in_specs=(Tile("M", "N", f32),), out_specs=(Tile("M", f32),), grid=1, block=32)
    def row_sums(x, y, *, M, N):
        px, py = ptx.global_ptrs(x, y)
        row = reg.from_(ptx.special.tid.x(), u32)
        total = reg.scalar(f32, init=0.0)
        with ptx.if_(row < M):
            for i in range(N):
                ptx.inst.add.f32(total, total, ptx.ld(f32, reg.scalar(f32), ptx.addr(px + (row * N + i) * 4)))
            ptx.inst.st.global_.f32(ptx.addr(py + row * 4), total)
        ptx.ret()

    return row_sums


def test_dtensor(tmp_path: Path) -> None:
    torch = needs_gloo()
    from examples.distributed.ranks import free_port

    torch.multiprocessing.spawn(_on_dtensors, (free_port(), str(tmp_path)), nprocs=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]


def test_shardings_that_cannot_be() -> None:
    pytest.importorskip("torch")
    from pyptx import register_sharding

    with pytest.raises(ValueError, match="scaled_sum has no symbolic dimension 'N' among its inputs'; it has: B"):
        register_sharding(scaled_sum(), parallel=("N",))
    with pytest.raises(ValueError, match="the outputs have N, so they are not sums over it"):
        register_sharding(add(), summed=("N",))
    with pytest.raises(ValueError, match="N is not in every output"):
        register_sharding(row_sums(), parallel=("N",))
