"""LLVM IR -> a function in memory, through llvmlite: the only module that knows it."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

from ..diagnostics import SimulationError, install
from ..disk_cache import Entry, usable_cache

Native = Callable[[int, int, int], int]
"""`(pointers, warps, mask) -> 0, or 1 + the number of the load or store that cannot go on`. `pointers` and `mask` are
addresses of an array of words and of the mask, 0 without one.
"""

KIND = "native functions"
"""What is kept on disk, in a warning."""
KEPT = 1024
"""Compiled runs that a process keeps."""


@cache
def available() -> bool:
    """Whether llvmlite is installed."""
    return importlib.util.find_spec("llvmlite") is not None


@cache
def _target() -> tuple[Any, Callable[[], Any], str]:
    """(llvmlite.binding, what makes a machine to compile for: the one we run on, with all it has; what code for it depends on)."""
    if not available():
        raise SimulationError(f"engine='jit' needs llvmlite: {install('jit')}, or engine='numpy'")
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    cpu = llvm.get_host_cpu_name()
    version = importlib.import_module("llvmlite").__version__
    made_for = f"native 1, llvmlite {version}, LLVM {llvm.llvm_version_info}, {target.triple}, {cpu}, {features}"
    return llvm, partial(target.create_target_machine, cpu=cpu, features=features, opt=3, jit=True), made_for


def require() -> None:
    """SimulationError, which names the extra, if there is no llvmlite."""
    _target()


@lru_cache(maxsize=KEPT)
def compile_ir(text: str) -> Native:
    """The function `run` of a module, optimised and vectorised. The same text is compiled once, and kept on disk."""
    return compile_kept(text, lambda: text)


def compile_kept(source: str, write: Callable[[], str]) -> Native:
    """The function `run` of the module that `write` gives, which `source` says all of: it is written and compiled only if the disk
    cache does not have its code.
    """
    llvm, make_machine, _ = _target()
    code = llvm.ObjectFileRef.from_data(_object_code(source, write))
    # An engine of its own, so that a run that is evicted takes its code along; it also frees the machine it is given.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), make_machine())
    engine.add_object_file(code)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        engine.get_function_address("run")
    )
    function.engine = engine  # pyright: ignore[reportAttributeAccessIssue]
    return function


def is_loaded() -> bool:
    """Whether this process has loaded LLVM, which takes longer than to load compiled code."""
    return _target.cache_info().currsize > 0


def is_kept(text: str) -> bool:
    """Whether the disk cache has the code of a module."""
    disk = usable_cache(KIND)
    return disk is not None and disk.get(_key(text)) is not None


def _key(source: str) -> str:
    return hashlib.sha256(f"{_target()[2]}\n{source}".encode()).hexdigest()


def _object_code(source: str, write: Callable[[], str]) -> bytes:
    """A module as an object file for this CPU: from the disk cache, else compiled and put there."""
    llvm, make_machine, made_for = _target()
    disk, key = usable_cache(KIND), _key(source)
    kept = None if disk is None else disk.get(key)
    if kept is not None:
        return kept.cubin
    machine = make_machine()
    module = llvm.parse_assembly(write())
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.loop_interleaving = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    code = machine.emit_object(module)
    if disk is not None:
        disk.put(key, Entry(code, {"compiler": made_for}))
    return code
