"""`device="cuda"` on a machine without a GPU: unmodified tests get CPU tensors, and torch.cuda answers as an H100 would."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from .require import required

__all__ = ["cuda_on_cpu"]


class _Stream:
    """A stream or event: everything is done when the call returns."""

    cuda_stream = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def elapsed_time(self, other: Any) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


class _Event(_Stream):
    """An event of a stream."""


class _ExternalStream(_Stream):
    """A stream of somebody else."""


def _nothing(*args: Any, **options: Any) -> None:
    return None


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **options: value


def _functions(arch: int) -> dict[str, Any]:
    """What `torch.cuda.<name>` is inside."""
    properties = SimpleNamespace(
        name=f"pyptx simulator (sm_{arch})", major=arch // 10, minor=arch % 10, total_memory=80 << 30, multi_processor_count=132,
        warp_size=32, shared_memory_per_block_optin=232448, max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536, gcnArchName="", L2_cache_size=50 << 20,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_capability": (arch // 10, arch % 10),
        "get_device_properties": properties, "get_device_name": properties.name, "is_bf16_supported": True, "is_initialized": True,
        "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0,
        "mem_get_info": (80 << 30, 80 << 30),
    }  # fmt: skip
    silent = "synchronize empty_cache manual_seed manual_seed_all set_device reset_peak_memory_stats init _lazy_init set_rng_state ipc_collect"
    answers |= dict.fromkeys(silent.split())
    answers |= {"current_stream": _Stream(), "default_stream": _Stream()}
    answers |= {"stream": contextlib.nullcontext(), "device": contextlib.nullcontext()}
    classes = {"Stream": _Stream, "Event": _Event, "ExternalStream": _ExternalStream}
    return {
        **{name: _always(value) for name, value in answers.items()},
        **classes,
    }  # each its own: TorchDynamo keys by identity


def _make_mode(torch: Any) -> Any:
    mode: Any = required("torch.overrides", "torch", "2.13.0").TorchFunctionMode
    is_cuda = torch.Tensor.is_cuda.__get__

    def on_cpu(value: Any) -> Any:
        """The CPU for a device of CUDA; anything else as it is."""
        if isinstance(value, str) and value.split(":")[0] == "cuda":
            return "cpu"
        return (
            torch.device("cpu") if isinstance(value, torch.device) and getattr(value, "type", "") == "cuda" else value
        )

    class CudaOnCpu(mode):
        """Calls of torch that name a CUDA device name the CPU instead."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            if function == is_cuda:
                return True
            if getattr(function, "__name__", "") == "cuda" and args:
                return args[0]
            if any(isinstance(a, (str, torch.device)) for a in args):
                args = tuple(on_cpu(a) for a in args)
            if "device" in named:
                named["device"] = on_cpu(named["device"])
            if named.get("pin_memory"):
                named["pin_memory"] = False
            return function(*args, **named)

    return CudaOnCpu(), on_cpu


@contextlib.contextmanager
def cuda_on_cpu(arch: int = 90) -> Generator[None]:
    """Inside, torch's `cuda` devices are the CPU, and `torch.cuda` describes a GPU of compute capability `arch` / 10."""
    torch: Any = required("torch", "torch", "2.13.0")
    autocast: Any = required("torch.amp.autocast_mode", "torch", "2.13.0").autocast
    mode, on_cpu = _make_mode(torch)
    start, generator = autocast.__init__, torch.Generator
    forward, backward = torch.amp.custom_fwd, torch.amp.custom_bwd
    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype

    class Generator(generator):
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator.__new__(cls, on_cpu(device))

    def begin(self: Any, device_type: Any = "cpu", *args: Any, **options: Any) -> None:
        start(self, on_cpu(device_type), *args, **options)

    with contextlib.ExitStack() as stack:
        for name, value in _functions(arch).items():
            stack.enter_context(patch.object(torch.cuda, name, value, create=True))
        stack.enter_context(patch.object(torch, "Generator", Generator))
        stack.enter_context(patch.object(autocast, "__init__", begin))
        amp = torch.amp
        stack.enter_context(
            patch.object(
                amp,
                "custom_fwd",
                lambda fwd=None, *, device_type, **o: forward(fwd, device_type=on_cpu(device_type), **o),
            )
        )
        stack.enter_context(
            patch.object(
                amp, "custom_bwd", lambda bwd=None, *, device_type: backward(bwd, device_type=on_cpu(device_type))
            )
        )
        stack.enter_context(patch.object(torch, "is_autocast_enabled", lambda d="cpu": enabled(on_cpu(d))))
        stack.enter_context(patch.object(torch, "get_autocast_dtype", lambda d="cpu": dtype(on_cpu(d))))
        stack.enter_context(mode)
        yield
