"""Launches with explicit arguments as torch operators: `kernel.launch(grid, block, args)` inside `torch.compile`, for traced
kernels with raw parameters and for imported PTX.

The operator takes the arguments in the order of the entry's parameters, then grid, block, and if needed cluster and bytes of shared memory. PTX may
write through any pointer, so every tensor counts as changed.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import torch

from ..diagnostics import PTXError, counted
from .torch_ops import _library

__all__ = ["launch_traced", "operator_for", "operator_name"]

_OPTIONS = ("cluster", "smem")
_lock = threading.RLock()
_kernels: dict[str, Any] = {}
"""Operator -> its kernel. Operators are global in torch, and stay."""


def launch_traced(kernel: Any, grid: Any, block: Any, args: Sequence[Any], options: dict[str, Any]) -> None:
    """As `kernel.launch`, in words that TorchDynamo can follow. TypeError for options that a graph cannot hold."""
    given = {name: value for name, value in options.items() if value is not None}
    wrong = [name for name in given if name not in _OPTIONS]
    if wrong:
        raise TypeError(f"launch inside torch.compile takes {' and '.join(_OPTIONS)}, not {wrong[0]}")
    name = kernel._torch_launch(_kinds(args))
    getattr(torch.ops.pyptx, name)(
        *args, _extent(grid), _extent(block), _extent(given.get("cluster")), int(given.get("smem") or -1)
    )


def operator_for(kernel: Any, args: Sequence[Any]) -> Any:
    """The operator that launches a kernel with arguments like these, for `torch.library.opcheck` and for graphs that are edited."""
    known = getattr(kernel, "parameters", None)
    count = len(known) if known is not None else len(kernel.specs) + len(kernel.raw_params)
    if len(args) != count:
        raise PTXError(
            f"{kernel.name} takes {counted(count, 'argument')}, and its operator is for arguments like them, not for {len(args)}"
        )
    return getattr(torch.ops.pyptx, kernel._torch_launch(_kinds(args))).default


def _kinds(args: Sequence[Any]) -> str:
    """`t` for a tensor, `f` for a float, `i` for a whole number, an address or none, for each argument."""
    return "".join("t" if isinstance(a, torch.Tensor) else "f" if isinstance(a, float) else "i" for a in args)


def _extent(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (tuple, list)) else [value]


def operator_name(kernel: Any, text: str, kinds: str) -> str:
    """The name in `torch.ops.pyptx` of launches of a kernel, whose PTX is `text`, with arguments of these kinds (`t` a
    tensor, `i` a whole number, `f` a float). Registers it the first time.
    """
    digest = hashlib.sha256(f"{kernel.name}\0{kinds}\0{text}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
    name = f"launch_{''.join(c if c.isalnum() else '_' for c in kernel.name)}_{digest}"
    with _lock:
        if name not in _kernels:
            _register(name, kinds)
        _kernels[name] = kernel
    return name


def _register(name: str, kinds: str) -> None:
    types = {"t": "Tensor", "i": "SymInt", "f": "float"}
    parameters = [f"{types[kind]}{f'(a{i}!)' if kind == 't' else ''} x{i}" for i, kind in enumerate(kinds)]
    extents = ["SymInt[] grid", "SymInt[] block", "SymInt[] cluster=[]", "SymInt smem=-1"]
    library = _library()
    library.define(f"{name}({', '.join([*parameters, *extents])}) -> ()", tags=(torch.Tag.pt2_compliant_tag,))

    def run(*args: Any) -> None:
        values = args[: len(kinds)]
        grid, block, *rest = args[len(kinds) :]
        cluster = rest[0] if rest else []  # torch leaves out what is the schema's default
        smem = rest[1] if len(rest) > 1 else -1
        options = {"cluster": tuple(cluster) or None, "smem": None if smem < 0 else smem}
        with torch.no_grad():
            _kernels[name].launch(tuple(grid), tuple(block), values, **options)

    def fake(*args: Any) -> None:
        return None

    for key in ("CPU", "CUDA"):
        library.impl(name, run, key)
    torch.library.register_fake(f"pyptx::{name}", fake, lib=library)
