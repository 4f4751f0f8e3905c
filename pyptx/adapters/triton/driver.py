"""A driver for Triton that launches on the simulator (`triton.runtime.driver.set_active`)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...diagnostics import SimulationError
from ...parser import parse_text
from ...simulator import DeviceMemory, LoadedKernel, Report, load
from ..require import required
from .arguments import Arguments

__all__ = ["Launch", "Session", "make_driver"]

TESTED, LOWEST = "3.9.0", "3.9"
KEPT = 256
"""Loaded modules that are kept."""
H100 = {
    "max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32, "max_num_regs": 65536, "sm_clock_rate": 1_980_000,
    "mem_clock_rate": 2_619_000, "mem_bus_width": 5120,
}  # fmt: skip
"""What Triton asks of a device: an H100 SXM. Bytes, kHz, bits; 2 x 2,619 MHz x 5,120 bits are the 3.35 TB/s of NVIDIA's data sheet."""


@dataclass(slots=True)
class Launch:
    """One launch that was simulated."""

    kernel: str
    grid: tuple[int, int, int]
    block: int
    report: Report
    seconds: float


class Session:
    """What one `pyptx.triton.simulate` does: how it runs kernels, and the launches that it saw."""

    def __init__(self, arch: int, options: dict[str, Any], tell: Callable[[Launch], None]):
        self.arch = arch
        self.options = options
        self.tell = tell
        self.launches: list[Launch] = []
        self.edits: dict[str, Callable[[str], str]] = {}
        self._loaded: OrderedDict[str, LoadedKernel] = OrderedDict()

    def kernel(self, metadata: Any) -> LoadedKernel:
        """The PTX that Triton compiled for this metadata, loaded once."""
        key = f"{metadata.hash}.{metadata.name}"
        found = self._loaded.get(key)
        if found is None:
            text = self._edited(ptx_of(metadata), metadata.name)
            found = self._loaded[key] = load(parse_text(text + "\n", f"<{metadata.name}>"))[metadata.name]
            if len(self._loaded) > KEPT:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(key)
        return found

    def _edited(self, text: str, name: str) -> str:
        """The PTX after the session's edit of this kernel. SimulationError for an edit that gives none."""
        edit: Any = self.edits.get(name)
        if edit is None:
            return text
        found = edit(text) if callable(edit) else edit
        if callable(edit) and isinstance(found, str):
            return found
        what = f"returned {type(found).__name__}" if callable(edit) else f"is {type(edit).__name__}"
        raise SimulationError(f"run.edits[{name!r}] {what}: an edit is a function that gets the PTX and returns it")

    def run(self, metadata: Any, signature: dict[str, Any], grid: tuple[int, int, int], args: tuple[Any, ...]) -> None:
        memory = DeviceMemory()
        arguments = Arguments(signature.items(), getattr(metadata, "tensordesc_meta", None) or [], memory)
        values = arguments.values(args)
        ctas = getattr(metadata, "num_ctas", 1) or 1
        total = grid[0] * grid[1] * grid[2] * ctas
        values.append(_scratch(memory, "global scratch", total * (metadata.global_scratch_size or 0), 0))
        values.append(
            _scratch(memory, "profile scratch", total * (getattr(metadata, "profile_scratch_size", 0) or 0), 1)
        )
        kernel = self.kernel(metadata)
        values = values[: len(kernel.parameters)]
        block = 32 * metadata.num_warps
        begin = time.perf_counter()
        report = kernel.simulate(
            *values,
            grid=(grid[0] * ctas, *grid[1:]),
            block=block,
            cluster=(ctas, 1, 1) if ctas > 1 else None,
            smem=metadata.shared,
            memory=memory,
            cooperative=bool(getattr(metadata, "launch_cooperative_grid", False)),
            programmatic=bool(getattr(metadata, "launch_pdl", False)),
            **self.options,
        )
        launch = Launch(metadata.name, grid, block, report, time.perf_counter() - begin)
        self.launches.append(launch)
        self.tell(launch)


SESSIONS: list[Session] = []
"""The sessions that are open, the innermost last. Triton keeps a launcher with each compiled kernel, so that a launcher belongs to
no session.
"""


def ptx_of(metadata: Any) -> str:
    """The PTX text of a compiled kernel, which is in Triton's cache next to its metadata."""
    cache = required("triton.runtime.cache", "triton", TESTED)
    path = cache.get_cache_manager(metadata.hash).get_file(f"{metadata.name}.ptx")
    if path is None:
        raise SimulationError(f"Triton kept no PTX of {metadata.name}: unset TRITON_STORE_BINARY_ONLY")
    return Path(path).read_text()


def _scratch(memory: DeviceMemory, name: str, size: int, number: int) -> Any:
    """Memory that Triton's launcher would allocate for a launch; 0 where the kernel needs none."""
    return memory.map(np.zeros(size, np.uint8), name=name) if size else np.uint64(0)


def make_driver(session: Session) -> Any:  # noqa: C901  the members of one driver, as closures
    """An object for `triton.runtime.driver.set_active`."""
    base = required("triton.backends.driver", "triton", TESTED, LOWEST).DriverBase
    target = required("triton.backends.compiler", "triton", TESTED).GPUTarget
    torch = required("torch", "torch", "2.13.0")

    class Launcher:
        """What Triton calls for a launch; the arguments after `exit_hook` are those of the kernel."""

        def __init__(self, source: Any, metadata: Any):
            self.signature = dict(source.signature)
            self.metadata = metadata

        def __call__(
            self,
            x: int,
            y: int,
            z: int,
            stream: Any,
            function: Any,
            packed: Any,
            hooks: Any,
            enter: Any,
            leave: Any,
            *args: Any,
        ) -> None:
            if x * y * z <= 0:
                return
            if enter:
                enter(hooks)
            SESSIONS[-1].run(self.metadata, self.signature, (x, y, z), args)
            if leave:
                leave(hooks)

    class Utilities:
        """Triton's calls of the CUDA driver, without one."""

        def load_binary(self, name: str, kernel: Any, shared: int, device: int) -> tuple[Any, str, int, int, int]:
            return object(), name, 32, 0, 1024  # module, function, registers, spills, threads at most

        def unload_module(self, module: Any) -> None:
            pass

        def get_device_properties(self, device: int) -> dict[str, int]:
            return dict(H100)

        def set_printf_fifo_size(self, size: int) -> None:
            pass

        def cuOccupancyMaxActiveClusters(self, *args: Any) -> int:
            return H100["multiprocessor_count"]

        def is_stream_capturing(self, stream: Any) -> bool:
            return False

    class SimulatedDriver(base):
        def __init__(self) -> None:
            self.utils = Utilities()
            self.launcher_cls = Launcher

        @classmethod
        def is_active(cls) -> bool:
            return True

        def get_current_target(self) -> Any:
            return target("cuda", session.arch, 32)

        def get_active_torch_device(self) -> Any:
            return torch.device("cpu")

        def get_device_capability(self, device: int = 0) -> tuple[int, int]:
            return divmod(session.arch, 10)

        def get_current_device(self) -> str:
            return f"simulated sm_{session.arch}"  # the key of Triton's table of compiled kernels: not that of a GPU

        def set_current_device(self, device: Any) -> None:
            pass

        def get_current_stream(self, device: Any = 0) -> int:
            return 0

        def map_python_to_cpp_type(self, kind: str) -> str:
            return kind

        def get_benchmarker(self) -> Any:
            def benchmark(call: Callable[[], Any], *, quantiles: Any = None, **options: Any) -> Any:
                """No time is measured: every configuration runs once and takes as long as the others."""
                call()
                return [0.0] * len(quantiles or (0.5, 0.2, 0.8))

            return benchmark

        def get_device_interface(self) -> Any:
            return torch.cuda

        def get_empty_cache_for_benchmark(self) -> Any:
            return torch.empty(1)

        def clear_cache(self, cache: Any) -> None:
            pass

    return SimulatedDriver()
