"""`load`: PTX text -> kernels that can be simulated."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from ... import notebook
from ...diagnostics import PTXError, SimulationError, UsageError
from ...dialects.ptx.structure import ModuleOp
from ...frontend import deferred
from ...frontend.kernel.launch_call import explained
from ...parser import parse_text
from ...parser.diagnose import diagnose_text
from ...printer.ptx import print_module
from ...sources import path_given_as_text, source_of
from ..machine.machine import Observer
from ..machine.program import Parameter
from ..machine.texture import Sampler, Surface, Texture
from ..observers.trace import Step, Stored, ThreadName
from .device_memory import DeviceMemory
from .launch import LoadedModule, simulate_entry
from .options import Workers, checked_options
from .report import Report

__all__ = ["LoadedKernel", "load"]


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """One entry of a loaded module. Module variables keep their values from launch to launch, as on a GPU."""

    loaded: LoadedModule
    name: str

    def __repr__(self) -> str:
        return f"LoadedKernel({self.name}({', '.join(p.name for p in self.parameters)}))"

    def _repr_html_(self) -> str:
        """How a notebook shows it: the PTX of its module."""
        return notebook.ptx(print_module(self.module), self.name)

    @property
    def module(self) -> ModuleOp:
        return self.loaded.module

    @property
    def parameters(self) -> list[Parameter]:
        """Names, types and sizes of the kernel's parameters."""
        return self.loaded.program(self.name).parameters

    def variable(self, name: str) -> Any:
        """The bytes of a module variable, as a NumPy array that launches read and write: `kernel.variable("w").view(np.float32)`."""
        if name not in self.loaded.contents:
            raise SimulationError(
                f"the module has no variable {name}; it has {', '.join(self.loaded.contents) or 'none'}"
            )
        return self.loaded.contents[name]

    def set_variable(self, name: str, values: Any, offset: int = 0) -> None:
        """Copy values into a module variable (`.global` or `.const`: `__device__`, `__constant__`), from byte `offset` on, before a launch
        reads it, as cudaMemcpyToSymbol does: an array, a NumPy scalar, or bytes. SimulationError where they do not fit.
        """
        contents = self.variable(name)
        if not isinstance(values, (bytes, bytearray, np.ndarray, np.generic)):
            raise SimulationError(
                f"{name} has no type in PTX, only {contents.size} bytes: give an array or scalar of NumPy (np.int32(4)) or bytes, "
                f"not {type(values).__name__}"
            )
        raw = np.frombuffer(values if isinstance(values, (bytes, bytearray)) else values.tobytes(), np.uint8)
        if offset < 0 or offset + raw.size > contents.size:
            raise SimulationError(f"{name} has {contents.size} bytes, and {raw.size} do not fit at byte {offset}")
        contents[offset : offset + raw.size] = raw

    def bind(self, name: str, item: Texture | Surface | Sampler) -> None:
        """Say what a `.texref`, `.samplerref` or `.surfref` variable of the module stands for in simulated launches
        from now on. SimulationError for an unknown name or the wrong kind of object.
        """
        self.loaded.bind(name, item)

    @explained
    def launch(self, grid: Any, block: Any, args: Any, *, stream: Any = None, **options: Any) -> None:
        """Launch with arguments in parameter order: GPU tensors through the driver, on `stream` or torch's current one;
        CPU arrays on the simulator, changed in place. Options: see `pyptx.runtime.raw.launch_entry`.
        """
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_dynamo_compiling():
            return deferred.torch_launch.launch_traced(self, grid, block, args, {"stream": stream, **options})
        deferred.raw.launch_loaded(self, grid, block, args, stream=stream, **options)

    def op(self, *args: Any) -> Any:
        """The torch operator that launches it with arguments like these, in parameter order, for `torch.library.opcheck` and for graphs
        that are edited: `kernel.op(x, n)(x, n, [grid], [block])`. Every tensor counts as changed.
        """
        return deferred.torch_launch.operator_for(self, args)

    def _torch_launch(self, kinds: str) -> str:
        """The name of the operator that launches it with arguments of these kinds. TorchDynamo runs this while it traces."""

        return deferred.torch_launch.operator_name(self, print_module(self.module), kinds)

    _torch_launch._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]

    def simulate(
        self,
        *args: object,
        grid: Any = None,
        block: Any = None,
        cluster: Any = None,
        smem: int = 0,
        check: bool = True,
        seed: int = 0,
        max_steps: int | None = None,
        trace: Callable[[str], object] | None = None,
        on_instruction: Callable[[Step], object] | None = None,
        on_store: Callable[[Stored], object] | None = None,
        threads: Sequence[ThreadName] | None = None,
        profile: bool = False,
        numerics: bool = False,
        observers: Sequence[Observer] = (),
        arithmetic: str = "hardware",
        arch: str | None = None,
        approx: str = "rounded",
        engine: str | None = None,
        schedules: int | None = None,
        schedule: int | str | None = None,
        cooperative: bool | None = None,
        programmatic: bool = False,
        memory: DeviceMemory | None = None,
        workers: Workers | None = None,
        sample: float | None = None,
    ) -> Report:
        """Run the entry on the CPU. See `pyptx.simulator.simulate`."""
        options = {k: v for k, v in locals().items() if k not in ("self", "args")}
        return simulate_entry(self.loaded, self.name, args, checked_options(options))


def load(source: str | os.PathLike[str] | Operation) -> Mapping[str, LoadedKernel]:
    """The entries of PTX text, of a file (see `sources.source_of`) or of a module, by name. PTXError if it is not PTX."""
    if isinstance(source, Operation):
        module = source
    else:
        text, name = source_of(source)
        try:
            module = parse_text(text, name or "<ptx>")
        except PTXError:
            if (meant := path_given_as_text(source)) is not None:
                raise UsageError(meant) from None
            raise PTXError([d for d in diagnose_text(text, name or "<ptx>") if d.severity == "error"]) from None
    loaded = LoadedModule(module)
    return Entries({name: LoadedKernel(loaded, name) for name in loaded.entries})


class Entries(dict[str, LoadedKernel]):
    """Entry name -> kernel; asking for another name says which there are."""

    def __missing__(self, name: str) -> LoadedKernel:
        raise KeyError(f"the module has no entry {name}; it has {', '.join(self) or 'none'}")
