"""CUDA C++ on the simulator: NVRTC compiles it, without a driver.

    kernels = pyptx.cuda.compile("kernel.cu", arch="sm_90a", name=["scale<float, 128>", "add"])
    kernels["scale<float, 128>"].simulate(x, n, grid=4, block=128)

A file with host code (`kernel<<<...>>>`, `main`) is compiled by nvcc, which leaves the host's part aside.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..diagnostics import Diagnostic, PTXError
from ..parser import parse_text
from ..simulator import load
from .require import required
from .signatures import CudaKernel, demangled, parameters_at
from .targets import checked_target

__all__ = ["CudaKernel", "compile", "ptx"]

TESTED = "13.5"
FILES = re.compile(r"^\s*#\s*include(?!\s*<)|^\s*#\s*include\s*<(?!cuda|mma|cooperative_groups)", re.MULTILINE)
"""Includes of files that may change while this process runs: all but CUDA's own headers."""
HOST_CODE = re.compile(r"<<<|^\s*int\s+main\s*\(", re.MULTILINE)
"""What only host code has."""


def compile(
    source: str | os.PathLike[str],
    *,
    arch: str = "sm_90",
    name: str | Iterable[str] | None = None,
    options: Sequence[str] = (),
    compiler: str | None = None,
) -> Any:
    """Kernels of CUDA C++, given as text or as the path of a `.cu` file.

    name: a kernel as C++ writes it, such as `"f<float, 128>"` (one kernel is returned), or several (a dict by these names); None: all
    that are `extern "C"` or instantiated, by their C++ names (overloads by their signatures, `"f(int*)"`). options: of the compiler, such as `"-DN=4"`, `"-I..."`, `"--std=c++20"`;
    `-lineinfo` is always given, so that findings name lines of the source. compiler: `"nvrtc"`, `"nvcc"`, or None: nvcc where the source
    has host code.

    PTXError with the compiler's messages; MissingFrontEnd where the compiler is not installed.
    """
    names = [name] if isinstance(name, str) else list(name or ())
    text, lowered = ptx(source, arch=arch, names=names, options=options, compiler=compiler)
    found = load(parse_text(text + "\n", _title(source)))
    kernels = {k: CudaKernel(v.loaded, v.name, demangled(k)) for k, v in found.items()}
    if not names:
        shared = Counter(_cpp_name(k.signature) for k in kernels.values())
        return {n if shared[n := _cpp_name(k.signature)] == 1 else k.signature: k for k in kernels.values()}
    result = {n: _choose(n, lowered.get(n), kernels) for n in names}
    return result[name] if isinstance(name, str) else result


def ptx(
    source: str | os.PathLike[str],
    *,
    arch: str = "sm_90",
    names: Sequence[str] = (),
    options: Sequence[str] = (),
    compiler: str | None = None,
) -> tuple[str, dict[str, str]]:
    """The PTX of CUDA C++, and the symbols of `names` where NVRTC says them. Arguments and errors as for `compile`."""
    text, title = _text(source), _title(source)
    if compiler not in (None, "nvrtc", "nvcc"):
        raise PTXError(f"compiler={compiler!r} is not one of 'nvrtc', 'nvcc'")
    if isinstance(options, str):
        raise PTXError(f"options={options!r} is a string; it is a sequence, such as [{options!r}]")
    checked_target(arch)
    if compiler == "nvcc" or (compiler is None and HOST_CODE.search(text)):
        return _nvcc(source, text, arch, tuple(options)), {}
    folder = () if not _is_path(source) else (f"-I{Path(source).resolve().parent}",)
    compiled = _nvrtc.__wrapped__ if FILES.search(text) or any("include" in o for o in options) else _nvrtc
    return compiled(text, title, arch, tuple(names), (*options, *folder))


def _is_path(source: str | os.PathLike[str]) -> bool:
    return isinstance(source, os.PathLike) or (source.endswith((".cu", ".cuh")) and "\n" not in source)


def _text(source: str | os.PathLike[str]) -> str:
    """The source; bytes that are not UTF-8 (comments of old files) do not matter to the compiler."""
    return Path(source).read_bytes().decode("utf-8-sig", errors="replace") if _is_path(source) else str(source)


def _title(source: str | os.PathLike[str]) -> str:
    return os.fspath(source) if _is_path(source) else "<cuda>"


@lru_cache(maxsize=64)
def _nvrtc(
    text: str, title: str, arch: str, names: tuple[str, ...], options: tuple[str, ...]
) -> tuple[str, dict[str, str]]:
    nvrtc: Any = required("cuda.bindings.nvrtc", "cuda-bindings", TESTED)

    def call(function: Any, *args: Any) -> Any:
        try:
            status, *rest = function(*args)
        except RuntimeError as error:  # the bindings are there, the library is not
            required("nvidia.cu13", "nvidia-cuda-nvrtc", TESTED)
            raise PTXError(f"NVRTC does not load: {error}") from None
        if int(status) and function is not nvrtc.nvrtcCompileProgram:
            raise PTXError(f"NVRTC: {call(nvrtc.nvrtcGetErrorString, status).decode()}{_about_name(args, names)}")
        return (int(status), *rest) if function is nvrtc.nvrtcCompileProgram else rest[0] if rest else None

    def read(size: Any, get: Any) -> str:
        buffer = b" " * call(size, program)
        call(get, program, buffer)
        return buffer.rstrip(b"\0 ").decode(errors="replace")

    program = call(nvrtc.nvrtcCreateProgram, text.encode(), title.encode(), 0, [], [])
    for name in names:
        call(nvrtc.nvrtcAddNameExpression, program, name.encode())
    given = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", "-lineinfo", *_include(), *options]
    status, *_ = call(nvrtc.nvrtcCompileProgram, program, len(given), [o.encode() for o in given])
    if status:
        log = read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).strip() or "NVRTC failed without a message"
        raise PTXError(Diagnostic("error", log, hint=_hint(log)))
    lowered = {n: call(nvrtc.nvrtcGetLoweredName, program, n.encode()).decode() for n in names}
    made = read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    if not _is_path(title):  # a text is in no folder, NVRTC puts it into the current one
        made = re.sub(rf'^(\s*\.file\s+\d+ )"[^"\n]*/{re.escape(title)}"', rf'\1"{title}"', made, flags=re.MULTILINE)
    return made, lowered


MISSING = re.compile(r'cannot open source file "([^"]+)"')
BUILT_IN = frozenset(
    "cstdio stdio.h cassert assert.h cstring string.h cstdlib stdlib.h cmath math.h ctime time.h new".split()
)
"""Headers whose device functions (printf, assert, memcpy, malloc, sqrtf, clock) NVRTC knows without a header."""
IN_LIBCUDACXX = {
    "stdint.h": "cstdint", "stddef.h": "cstddef", "limits.h": "climits", "float.h": "cfloat",
    **{n: n for n in "cstdint cstddef climits cfloat type_traits utility tuple array limits complex atomic functional optional span "
       "variant bit initializer_list iterator numeric ratio chrono concepts ranges".split()},
}  # fmt: skip
"""Headers of the standard library -> what libcu++ has of them, under `cuda/std/`."""


def _hint(log: str) -> str | None:
    """What would help where NVRTC, which has no headers of the host, fails."""
    if "__nv_name_map" in log:
        return "name= is a kernel of the source, as C++ writes it"
    missing = MISSING.search(log)
    if missing is None:
        return None
    header = missing[1]
    if header in BUILT_IN:
        return f'leave out <{header}>: NVRTC knows the functions that device code may call; or compiler="nvcc"'
    if header in IN_LIBCUDACXX:
        return f'NVRTC has no headers of the host: include <cuda/std/{IN_LIBCUDACXX[header]}>; or compiler="nvcc"'
    return f'give the folder of {header} in options=["-I..."]; a header of the host needs compiler="nvcc"'


def _about_name(args: tuple[Any, ...], names: tuple[str, ...]) -> str:
    last = args[-1] if args else b""
    return f": {last.decode()}" if isinstance(last, bytes) and last.decode(errors="replace") in names else ""


@lru_cache(maxsize=1)
def _include() -> tuple[str, ...]:
    """The folders of CUDA's headers, where the wheels with them are installed."""
    pathfinder: Any = required("cuda.pathfinder", "cuda-pathfinder", "1.9")
    found = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    return tuple(f"-I{folder}" for folder in found if folder)


def _nvcc(source: str | os.PathLike[str], text: str, arch: str, options: tuple[str, ...]) -> str:
    from ..runtime.ptxas import find_tool

    with tempfile.TemporaryDirectory() as folder:
        path = Path(source) if _is_path(source) else Path(folder, "kernel.cu")
        if not _is_path(source):
            path.write_text(text)
        output = Path(folder, "kernel.ptx")
        command = [
            find_tool("nvcc"),
            "-ptx",
            f"-arch={arch.replace('sm_', 'compute_')}",
            "-lineinfo",
            *_include(),
            *options,
        ]
        done = subprocess.run(
            [*command, "-o", str(output), str(path)], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            missing = re.search(r"(nv|cuda|cub|thrust)/\S+: No such file", done.stderr)
            hint = "\nhint: pip install nvidia-cuda-cccl, which has this header" if missing else ""
            raise PTXError((done.stderr or done.stdout).strip() + hint or f"nvcc failed with status {done.returncode}")
        return output.read_text()


def _cpp_name(signature: str) -> str:
    """The name in a demangled signature: without a result type and the parameters."""
    return re.sub(r"^void ", "", signature[: parameters_at(signature)])


def _choose(name: str, lowered: str | None, kernels: Mapping[str, CudaKernel]) -> CudaKernel:
    """The kernel of a C++ name. PTXError with those that there are."""
    if lowered is not None and lowered in kernels:
        return kernels[lowered]
    wanted = re.sub(r"\s+", "", name)
    by_name = [k for k in kernels.values() if re.sub(r"\s+", "", _cpp_name(k.signature)) == wanted]
    if len(by_name) == 1:
        return by_name[0]
    if len(by_name) > 1:
        overloads = ", ".join(k.signature for k in by_name)
        raise PTXError(f"{name} is overloaded: {overloads}; compile without name= gives them by their signatures")
    known = ", ".join(_cpp_name(k.signature) for k in kernels.values()) or "none"
    raise PTXError(f"{name} is not a kernel of this source; it has: {known}")
