"""`@pyptx.autotune`: the fastest of several configurations of a kernel, measured on a GPU or predicted without one."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .analysis.occupancy import occupancy
from .diagnostics import PTXError
from .disk_cache import CacheRefused, DiskCache, Entry, cache_directory
from .frontend.kernel.kernel import Kernel
from .runtime.arguments import cpu_arguments
from .runtime.bench import Stopwatch, bench
from .runtime.ptxas import ToolNotFound

__all__ = ["Config", "Tuned", "Tuning", "autotune"]

Config = Mapping[str, Any]
"""Values of template parameters: `{"BLOCK": 128, "STAGES": 3}`."""
Cost = Callable[..., float]
Prune = Callable[[list[Config], dict[str, int]], Iterable[Config]]


@dataclass(frozen=True)
class Tuning:
    """What was found for one set of sizes. `print` it for a table."""

    kernel: str
    key: Mapping[str, Any]
    config: Config
    """The fastest."""
    method: str
    """Where the times come from: `measured on ...`, `predicted for ...`, `cost`."""
    seconds: tuple[tuple[Config, float], ...]
    """The time of each configuration that can be launched, fastest first."""
    rejected: tuple[tuple[Config, str], ...] = ()
    """The others, each with the reason."""
    cached: bool = field(default=False, compare=False)
    """Whether the times are from the disk."""

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.key.items())
        lines = [f"{self.kernel}({sizes}), {self.method}{' (cached)' if self.cached else ''}"]
        lines += [f"{seconds * 1e6:>14,.2f} us  {_shown(config)}" for config, seconds in self.seconds]
        lines += [f"{'rejected':>17}  {_shown(config)}: {reason}" for config, reason in self.rejected]
        return "\n".join(lines)


class Tuned:
    """A kernel whose template parameters are chosen at the first call with each set of sizes. Made by `autotune`."""

    def __init__(
        self,
        kernel: Kernel,
        configs: Sequence[Config],
        key: Sequence[str] | None,
        prune: Prune | None,
        cost: Cost | None,
        card: str | None,
        cache: bool | str | Path,
        stopwatch: Stopwatch | None,
    ):
        self.kernel, self.configs = kernel, [dict(c) for c in configs]
        self.key = tuple(kernel.symbolic_dims if key is None else key)
        self._prune, self._cost, self._card, self._stopwatch = prune, cost, card, stopwatch
        self._cache = cache
        self.found: dict[tuple[Any, ...], Tuning] = {}
        """What was found, by the values of `key`."""
        functools.update_wrapper(self, kernel.__wrapped__)

    def __repr__(self) -> str:
        return f"Tuned({self.kernel!r}, {len(self.configs)} configs, key={self.key})"

    def __call__(self, *arrays: Any, **kw: Any) -> Any:
        """Run the kernel with the best configuration for these sizes; tune at the first call with them."""
        return self.kernel(*arrays, **{**self.tune(*arrays, **kw).config, **kw})

    def tune(self, *arrays: Any, **kw: Any) -> Tuning:
        """What was found for the sizes of these arguments, found now if they are new.

        PTXError if no configuration can be launched, with the reason of each.
        """
        options = {name: value for name, value in kw.items() if name != "out"}
        values = self._values(arrays, options)
        found = self.found.get(values)
        if found is None:
            found = self.found[values] = self._search(arrays, options, dict(zip(self.key, values, strict=True)))
        return found

    def best(self, *arrays: Any, **kw: Any) -> Kernel:
        """The kernel with the best configuration for these sizes: for torch.compile, `simulate` and graphs."""
        return self.kernel.specialize(**self.tune(*arrays, **kw).config)

    # ------------------------------------------------------------------------------------------------------------ search

    def _values(self, arrays: Sequence[Any], kw: Mapping[str, Any]) -> tuple[Any, ...]:
        known = {**self.kernel.template_params, **kw, **self.kernel.bind(*(a.shape for a in arrays), **kw)}
        missing = [name for name in self.key if name not in known]
        if missing:
            raise PTXError(f"{self.kernel.name}: key {missing[0]} has no value here: give {missing[0]}=...")
        return tuple(known[name] for name in self.key)

    def _search(self, arrays: Sequence[Any], kw: Mapping[str, Any], key: Mapping[str, Any]) -> Tuning:
        dims = self.kernel.bind(*(a.shape for a in arrays), **kw)
        configs, rejected = self._pruned(dims), list[tuple[Config, str]]()
        fitting: list[Config] = []
        for config in configs:
            reason = _why_not(self.kernel, dims, {**kw, **config})
            if reason is None:
                fitting.append(config)
            else:
                rejected.append((config, reason))
        if not fitting:
            reasons = "\n".join(f"  {_shown(config)}: {reason}" for config, reason in rejected)
            raise PTXError(f"{self.kernel.name}: none of {len(configs)} configurations can be launched:\n{reasons}")
        method, time_of = self._method(arrays, kw)
        place = self._place(method, fitting, dims, kw)
        known = self._read(place, len(fitting))
        times = known if known is not None else [float(time_of(config)) for config in fitting]
        if known is None:
            self._write(place, times)
        order = sorted(range(len(fitting)), key=lambda i: (math.isnan(times[i]), times[i], i))
        seconds = tuple((fitting[i], times[i]) for i in order)
        return Tuning(self.kernel.name, dict(key), seconds[0][0], method, seconds, tuple(rejected), known is not None)

    def _pruned(self, dims: dict[str, int]) -> list[Config]:
        if self._prune is None:
            return list(self.configs)
        kept = [dict(c) for c in self._prune([dict(c) for c in self.configs], dict(dims))]
        if not kept:
            raise PTXError(
                f"{self.kernel.name}: prune leaves none of {len(self.configs)} configurations for {_shown(dims)}"
            )
        return list(kept)

    def _method(self, arrays: Sequence[Any], kw: Mapping[str, Any]) -> tuple[str, Callable[[Config], float]]:
        """What the times are, and how to get that of a configuration."""
        kernel = self.kernel
        if self._cost is not None:
            cost = self._cost
            return "cost", lambda config: cost(kernel.specialize(**config), *arrays, **kw)
        if self._stopwatch is not None or _on_gpu(arrays):
            outputs = kernel(*arrays, **{**self.configs[0], **kw}) if _on_gpu(arrays) else None

            def measured(config: Config) -> float:
                into = {} if outputs is None else {"out": outputs}
                run = functools.partial(kernel, *arrays, **into, **{**config, **kw})
                return bench(run, stopwatch=self._stopwatch).median

            name = self._stopwatch.name if self._stopwatch is not None else _gpu_name()
            return f"measured on {name}", measured
        card = self._card or _card_for(kernel)
        return f"predicted for {card}", lambda config: _predicted(kernel.specialize(**config), arrays, kw, card)

    # ------------------------------------------------------------------------------------------------------------- cache

    def _place(
        self, method: str, configs: Sequence[Config], dims: Mapping[str, int], kw: Mapping[str, Any]
    ) -> str | None:
        """The key on disk: the PTX of every configuration and its launch, and where times come from. None: not kept, as the result of a cost
        function is not, which may have changed.
        """
        if self._cache is False or self._cost is not None:
            return None
        parts: list[Any] = [__version__, method, sorted(dims.items())]
        for config in configs:
            options = {**kw, **config}
            names = {
                n: v
                for n, v in {**options, **dims}.items()
                if n in (*self.kernel.template_params, *self.kernel.symbolic_dims)
            }
            parts += [self.kernel.ptx(**names), repr(self.kernel.resolve_launch(dims, **options))]
        return hashlib.sha256(json.dumps(parts, default=repr).encode()).hexdigest()

    def _disk(self) -> DiskCache | None:
        try:
            return DiskCache(cache_directory() / "tuning" if self._cache is True else Path(str(self._cache)))
        except CacheRefused:
            return None

    def _read(self, place: str | None, count: int) -> list[float] | None:
        disk = self._disk() if place is not None else None
        entry = disk.get(place) if disk is not None and place is not None else None
        if entry is None:
            return None
        times = entry.facts.get("seconds")
        return [float(t) for t in times] if isinstance(times, list) and len(times) == count else None

    def _write(self, place: str | None, times: Sequence[float]) -> None:
        disk = self._disk() if place is not None else None
        if disk is not None and place is not None:
            disk.put(place, Entry(b"", {"seconds": list(times)}))


def autotune(
    configs: Sequence[Config],
    key: Sequence[str] | None = None,
    *,
    prune: Prune | None = None,
    cost: Cost | None = None,
    card: str | None = None,
    cache: bool | str | Path = True,
    stopwatch: Stopwatch | None = None,
) -> Callable[[Kernel], Tuned]:
    """Decorator of a kernel: choose the fastest of `configs`, values of its template parameters, at the first call with each set of sizes.

        @pyptx.autotune([{"BLOCK": b} for b in (64, 128, 256)], key=["N"])
        @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=lambda N, BLOCK: -(-N // BLOCK), block=lambda BLOCK: BLOCK)
        def scaled(x, out, *, N=None, BLOCK=128): ...

    On GPU tensors each is measured (`pyptx.bench`: the median, with L2 flushed, from a CUDA graph). On CPU arrays the time is predicted by
    `pyptx.predict` for `card`, by default one of the kernel's architecture. A configuration that does not trace, that ptxas refuses, or of
    which no CTA fits on an SM is not tried; `Tuning.rejected` says why.

    key: the dimensions and template parameters that decide, by default all dimensions; other values mean another search. prune: called with the
    configurations and the dimensions, returns those to try. cost: called with the kernel of a configuration and the arguments, returns what is to be
    least, in place of time. cache: keep times on disk (in `pyptx cache`'s directory, or in the one given): they are found again while the PTX of all
    configurations is the same. stopwatch: how to measure, see `pyptx.bench`.

    TypeError for configurations or keys that name no parameter of the kernel.
    """
    given = [dict(c) for c in configs]
    if not given:
        raise TypeError("autotune needs one configuration at least: configs=[{...}, ...]")

    def decorate(kernel: Kernel) -> Tuned:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"autotune decorates a Kernel, not {kernel!r}: put it above @kernel(...)")
        _check_names(kernel, given, key)
        return Tuned(kernel, given, key, prune, cost, card, cache, stopwatch)

    return decorate


def _check_names(kernel: Kernel, configs: Sequence[Config], key: Sequence[str] | None) -> None:
    template = list(kernel.template_params)
    for config in configs:
        for name in config:
            if name not in template or name in kernel.symbolic_dims:
                known = ", ".join(n for n in template if n not in kernel.symbolic_dims) or "none"
                raise TypeError(
                    f"autotune: {name} is not a template parameter of kernel {kernel.name}; it has: {known}"
                )
    for name in key or ():
        if name not in (*template, *kernel.symbolic_dims):
            known = ", ".join(dict.fromkeys([*kernel.symbolic_dims, *template]))
            raise TypeError(
                f"autotune: key {name!r} is not a dimension or template parameter of kernel {kernel.name}: {known}"
            )
        if any(name in config for config in configs):
            raise TypeError(f"autotune: {name} is in configs and in key: what is searched for is not a key")


def _why_not(kernel: Kernel, dims: Mapping[str, int], kw: Mapping[str, Any]) -> str | None:
    """Why a configuration cannot be launched; None if it can."""
    names = {n: v for n, v in {**kw, **dims}.items() if n in (*kernel.template_params, *kernel.symbolic_dims)}
    try:
        launch = kernel.resolve_launch(dims, **kw)
        usage = kernel.usage(**names)
    except ToolNotFound:
        errors = [d for d in kernel.diagnose(**names) if d.severity == "error"]
        return errors[0].message if errors else None
    except PTXError as error:
        return error.diagnostics[0].message
    except ValueError as error:
        return str(error)
    threads = math.prod(launch.block)
    shared = usage.shared_bytes + usage.dynamic_shared_bytes
    fits = occupancy(kernel.arch, threads=threads, registers=usage.registers, shared=shared, barriers=usage.barriers)
    if fits.ctas:
        return None
    return (
        f"no CTA fits on an SM of {kernel.arch}, for lack of {' and '.join(fits.limited_by)}: {threads} threads with {usage.registers} registers, "
        f"{shared} bytes of shared memory, where an SM has {fits.limits.registers} registers and a CTA at most {fits.limits.shared_per_cta} bytes"
    )


def _predicted(kernel: Kernel, arrays: Sequence[Any], kw: Mapping[str, Any], card: str) -> float:
    from .prediction import predict

    inputs = [a if isinstance(a, np.ndarray) or hasattr(a, "data_ptr") else np.zeros(a.shape, a.dtype) for a in arrays]
    template = {name: value for name, value in kw.items() if name in kernel.template_params}
    outputs, _ = cpu_arguments(kernel, inputs, kw)
    found = predict(kernel.specialize(**template), *inputs, *outputs, card=card)
    if (seconds := found.seconds()) is not None:
        return seconds
    low, high = found.range_us
    return math.inf if high is None else math.sqrt(low * high) * 1e-6


def _card_for(kernel: Kernel) -> str:
    """A card of the kernel's architecture."""
    from .prediction import CARDS

    of_arch = [card.name for card in CARDS if card.arch == kernel.arch]
    if not of_arch:
        raise PTXError(
            f"{kernel.name}: no card of {kernel.arch} is known: give card=, one of {', '.join(card.name for card in CARDS)}, or cost="
        )
    return of_arch[0]


def _on_gpu(arrays: Sequence[Any]) -> bool:
    return any(getattr(getattr(a, "device", None), "type", "") == "cuda" for a in arrays)


def _gpu_name() -> str:
    torch: Any = sys.modules["torch"]
    return torch.cuda.get_device_name()


def _shown(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())
