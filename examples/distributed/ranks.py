"""What the distributed examples share: the ranks of torch.distributed, on this machine or started by torchrun."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from examples.common import positive
from examples.gemms import LIMIT

Work = Callable[[int, int, Any], float]
"""Of (rank, ranks, options): one rank's part; the relative error of what it got."""


@contextmanager
def group(rank: int, ranks: int) -> Generator[Any]:
    """This process as a rank: its device, a GPU of its own (NCCL) or the CPU (gloo)."""
    import torch
    import torch.distributed as distributed

    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    distributed.init_process_group("nccl" if gpu else "gloo", rank=rank, world_size=ranks)
    try:
        yield torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")
    finally:
        distributed.destroy_process_group()


def random(shape: tuple[int, ...], *, seed: int, device: Any) -> Any:
    """bf16 in [-1, 1), the same for the same seed on every rank."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator) * 2 - 1).to(torch.bfloat16).to(device)


def relative_error(got: Any, wanted: np.ndarray) -> float:
    """Norm of the difference of a tensor and a float64 reference, over the norm of that."""
    return float(np.linalg.norm(numpy(got) - wanted) / np.linalg.norm(wanted))


def numpy(tensor: Any) -> np.ndarray:
    return tensor.cpu().double().numpy()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def main(work: Work, parser: argparse.ArgumentParser) -> int:
    """Start `--ranks` processes here, or with `--ranked` be the one that torchrun started. The exit status."""
    parser.add_argument("--ranks", type=positive, default=2, help="local processes to start")
    parser.add_argument("--ranked", action="store_true", help="started by torchrun: this is one of the ranks")
    options = parser.parse_args()
    if options.ranked and not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        parser.error("--ranked is for processes that torchrun starts, which sets RANK and WORLD_SIZE")
    if options.ranked:
        error = work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), options)
        return 0 if error <= LIMIT else 1
    from torch.multiprocessing.spawn import spawn

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    spawn(_child, (work, options.ranks, options), nprocs=options.ranks)
    return 0


def _child(rank: int, work: Work, ranks: int, options: Any) -> None:
    if not work(rank, ranks, options) <= LIMIT:
        sys.exit(1)
