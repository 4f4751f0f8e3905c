"""PTX -> cubin: nvJitLink in this process, else a ptxas subprocess; never the driver's JIT.

    cubin = compile_ptx(text, "sm_90a").cubin

The driver's JIT refuses PTX newer than itself, a cubin of the same CUDA major version it takes. Results are kept in the
process and on disk (`cache`); one text is compiled once, however many threads ask.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..diagnostics import Diagnostic, PTXError, install
from ..disk_cache import DiskCache, Entry, usable_cache
from .ptxas import PtxasResult, ResourceUsage, ToolNotFound, _read_diagnostics, _read_usage, assemble, tool_version

if TYPE_CHECKING:
    from ..frontend.kernel.kernel import Kernel

__all__ = [
    "Compiled",
    "NoCompiler",
    "compile_kernel",
    "compile_ptx",
    "compiler_version",
    "compilers",
]

_RECENT = 512
"""Compiled texts that the process keeps."""


class NoCompiler(RuntimeError):
    """Neither nvJitLink nor ptxas is here; the message says how to get one."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin. `usage`: registers, shared memory, spills by entry. `compiler`: which, with its version."""

    cubin: bytes = field(repr=False)
    arch: str
    compiler: str
    usage: Mapping[str, ResourceUsage]
    warnings: tuple[Diagnostic, ...] = ()
    from_disk: bool = False


def compile_ptx(
    ptx: str,
    arch: str,
    *,
    options: Sequence[str] = (),
    filename: str | None = None,
    compiler: str | None = None,
    cache: DiskCache | None = None,
) -> Compiled:
    """Compile PTX text for `arch` (`sm_90a`).

    `options`: ptxas's (`-O1`, `-lineinfo`, `-maxrregcount=128`). `compiler`: `nvjitlink` or `ptxas`; default
    `$PYPTX_COMPILER`, else the first that is here. `cache`: default is the user's (`disk_cache.default_cache`).
    PTXError with lines of the PTX text where it is refused, NoCompiler without a compiler.
    """
    chosen = compiler or os.environ.get("PYPTX_COMPILER") or _first_compiler()
    if chosen not in _COMPILERS:
        raise ValueError(f"unknown compiler {chosen!r}: nvjitlink or ptxas")
    try:
        name = f"{chosen} {compiler_version(chosen)}"
    except ToolNotFound as error:
        raise NoCompiler(str(error)) from None
    key = _key(ptx, arch, options, name)
    with _lock_of(key):
        if (found := _recent_get(key)) is not None:
            return found
        disk = cache if cache is not None else usable_cache("compiled kernels")
        entry = disk.get(key) if disk is not None else None
        if entry is not None:
            usage = {n: ResourceUsage(**u) for n, u in entry.facts["usage"].items()}
            result = Compiled(entry.cubin, arch, name, usage, from_disk=True)
        else:
            made = _run(chosen, ptx, arch, options, filename, fall_back=compiler is None).raise_on_error()
            assert made.cubin is not None
            result = Compiled(made.cubin, arch, name, made.usage, made.diagnostics)
            if disk is not None:
                facts: dict[str, Any] = {
                    "arch": arch,
                    "compiler": name,
                    "usage": {n: _usage_facts(u) for n, u in made.usage.items()},
                }
                disk.put(key, Entry(made.cubin, facts))
        _recent_put(key, result)
        return result


def _run(
    chosen: str, ptx: str, arch: str, options: Sequence[str], filename: str | None, *, fall_back: bool
) -> PtxasResult:
    """The compiler's result; ptxas's where nvJitLink was chosen for us and its library cannot be loaded."""
    try:
        return _COMPILERS[chosen](ptx, arch, options, filename)
    except NoCompiler:
        if not fall_back or chosen != "nvjitlink" or "ptxas" not in compilers():
            raise
        return _COMPILERS["ptxas"](ptx, arch, options, filename)


def compile_kernel(kernel: Kernel, arch: str | None = None, *, options: Sequence[str] = (), **kw: Any) -> Compiled:
    """Compile a traced `Kernel` for its arch (or another); `kw` as for `Kernel.ptx`.

    PTXError where the compiler refuses it, at the lines of the kernel's Python source.
    """
    try:
        return compile_ptx(kernel.ptx(**kw), arch or kernel.arch, options=options)
    except PTXError as error:
        mapped = getattr(kernel, "_mapped", None)
        if mapped is None:
            raise
        raise PTXError(mapped(error.diagnostics, kw)) from None


# --- which compiler


@lru_cache(maxsize=1)
def compilers() -> tuple[str, ...]:
    """The compilers that are here, the preferred one first."""
    found: list[str] = []
    try:
        if find_spec("cuda.bindings.nvjitlink") is not None and compiler_version("nvjitlink"):
            found.append("nvjitlink")
    except ImportError:
        pass
    try:
        if tool_version("ptxas"):
            found.append("ptxas")
    except ToolNotFound:
        pass
    return tuple(found)


def _first_compiler() -> str:
    # asking ptxas for its version costs a process: only where nvJitLink is missing
    if _has_nvjitlink():
        return "nvjitlink"
    found = compilers()
    if not found:
        raise NoCompiler(
            "no compiler for PTX: neither nvJitLink nor ptxas was found. "
            f"{install('cuda')} (nvJitLink, in process), or {install('ptxas')}, "
            "or put a CUDA toolkit's ptxas on PATH"
        )
    return found[0]


@lru_cache(maxsize=1)
def _has_nvjitlink() -> bool:
    try:
        return find_spec("cuda.bindings.nvjitlink") is not None and bool(compiler_version("nvjitlink"))
    except ImportError:
        return False


@lru_cache(maxsize=4)
def compiler_version(name: str) -> str:
    """Its version, as precise as it can be had; empty if it does not work. ToolNotFound (ptxas)."""
    if name == "ptxas":
        return tool_version("ptxas")
    try:
        # a wheel's version names the build; the library itself knows only major and minor, and costs 100 ms to load
        return version("nvidia-nvjitlink")
    except PackageNotFoundError:
        pass
    try:
        nvjitlink: Any = import_module("cuda.bindings.nvjitlink")
        return ".".join(map(str, nvjitlink.version()))
    except Exception:  # a missing library, an older CUDA: whatever it is, it cannot be used
        return ""


def _run_nvjitlink(ptx: str, arch: str, options: Sequence[str], filename: str | None) -> PtxasResult:
    try:
        link: Any = import_module("cuda.bindings.nvjitlink")
    except ImportError as error:
        raise NoCompiler(f"nvJitLink needs cuda-bindings ({error}): {install('cuda')}") from None
    source = ptx.encode("utf-8", "surrogateescape")
    words = [f"-arch={arch}", "-verbose", *(_link_option(o) for o in options)]
    failure: str | None = None
    cubin: bytes | None = None
    try:
        handle = link.create(len(words), words)
    except Exception as error:
        if type(error).__name__ != "nvJitLinkError":  # the library itself is missing or broken
            raise NoCompiler(f"nvJitLink cannot be loaded ({error}): {install('cuda')}") from None
        message = f"nvJitLink {compiler_version('nvjitlink')} refused {' '.join(words)}: {error}"
        return PtxasResult(False, None, (Diagnostic("error", message, filename),))
    try:
        try:
            link.add_data(handle, link.InputType.PTX, source, len(source), "kernel.ptx")
            link.complete(handle)
            buffer = bytearray(link.get_linked_cubin_size(handle))
            link.get_linked_cubin(handle, buffer)
            cubin = bytes(buffer)
        except link.nvJitLinkError as error:
            failure = str(error)
        log = _log(link.get_error_log_size, link.get_error_log, handle)
        log += _log(link.get_info_log_size, link.get_info_log, handle)
    finally:
        link.destroy(handle)
    diagnostics = _read_diagnostics(log, ptx, filename)
    if failure is not None and not any(d.severity == "error" for d in diagnostics):
        diagnostics.append(Diagnostic("error", f"nvJitLink failed: {failure} {' '.join(log.split())[-300:]}", filename))
    ok = failure is None
    return PtxasResult(ok, cubin if ok else None, tuple(diagnostics), _read_usage(log) if ok else {}, log)


def _link_option(option: str) -> str:
    """A ptxas option as nvJitLink takes it: `-v` and the like are its own, what it does not know goes on to ptxas."""
    if option in ("-lineinfo", "--generate-line-info"):
        return "-lineinfo"
    if option in ("-g", "--device-debug"):
        return "-g"
    if option in ("-O0", "-O3"):  # it knows no others, ptxas does
        return option
    return f"-Xptxas={option}"


def _log(size: Callable[[Any], int], read: Callable[[Any, bytearray], Any], handle: Any) -> str:
    count = size(handle)
    if count <= 1:
        return ""
    buffer = bytearray(count)
    read(handle, buffer)
    return buffer.rstrip(b"\0").decode("utf-8", "replace") + "\n"


def _run_ptxas(ptx: str, arch: str, options: Sequence[str], filename: str | None) -> PtxasResult:
    try:
        return assemble(ptx, arch, options=options, filename=filename)
    except ToolNotFound as error:
        raise NoCompiler(str(error)) from None


_COMPILERS: dict[str, Callable[[str, str, Sequence[str], str | None], PtxasResult]] = {
    "nvjitlink": _run_nvjitlink,
    "ptxas": _run_ptxas,
}

# --- caches: pure, keyed by everything that goes in

_recent: OrderedDict[str, Compiled] = OrderedDict()
_locks: dict[str, tuple[threading.Lock, int]] = {}
_guard = threading.Lock()


class _lock_of:
    """The lock of one key, for as long as someone holds or awaits it."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __enter__(self) -> None:
        with _guard:
            lock, users = _locks.get(self._key) or (threading.Lock(), 0)
            _locks[self._key] = (lock, users + 1)
        lock.acquire()

    def __exit__(self, *_: object) -> None:
        with _guard:
            lock, users = _locks[self._key]
            if users == 1:
                del _locks[self._key]
            else:
                _locks[self._key] = (lock, users - 1)
        lock.release()


def _recent_get(key: str) -> Compiled | None:
    with _guard:
        found = _recent.get(key)
        if found is not None:
            _recent.move_to_end(key)
        return found


def _recent_put(key: str, value: Compiled) -> None:
    with _guard:
        _recent[key] = value
        while len(_recent) > _RECENT:
            _recent.popitem(last=False)


def _key(ptx: str, arch: str, options: Sequence[str], compiler: str) -> str:
    digest = hashlib.sha256()
    for part in ("1", compiler, arch, str(len(options)), *options, ptx):
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _usage_facts(usage: ResourceUsage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in ResourceUsage.__dataclass_fields__}
