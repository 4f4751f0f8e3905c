"""`convert-to-ptx{target=sm_80}`: GPU kernels in upstream dialects to the `ptx` dialect, with no LLVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.dialects.memref import GlobalOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.transforms.convert_scf_to_cf import ConvertScfToCf

from ..dialects.ptx.attributes import string_attr
from ..dialects.ptx.structure import HeaderOp, ModuleOp
from ..dialects.ptx.target import FIRST_PTX, NEWEST_PTX, TargetAttr, parse_version, target_of, version_text
from ..ssa.fastir import create
from .lowering import (
    LoweringError,
    Setting,
    check_globals,
    expand_atomics,
    expand_control,
    expand_parallel,
    inline_calls,
    lower_function,
    lower_global,
)
from .lowering.names import Names, name_symbols, symbol_of


@dataclass(frozen=True)
class ConvertToPTX(ModulePass):
    """Lower the `gpu.module`s of a module to one `ptx.module`.

    Kernels (`gpu.func` with `kernel`) may use arith, math, scf (`for`, `while`, `if`, `index_switch`, `parallel`), cf, memref,
    vector, gpu, and `func.call` of functions in their `gpu.module`, which are inlined. Options: `target` (`sm_80`), `version` (by default the first PTX version with all that is
    lowered: 7.0, or what the target needs), `index` (32 or 64, the bits of `index`, 64 by default).

    Contract: results are blank registers; run `ptx-assign-registers` before printing, and `ptx-cse`, `ptx-dce` before
    that if you like. Parameters: a memref is the pointer to its first element and then one integer of index size per
    `?` of its shape; it must be contiguous or strided by constants. Memory space 3 is shared memory. `vector.load` and
    `vector.store` want addresses aligned to the largest power of two that divides a row of the vector. Host code next to the `gpu.module` is left as it is.
    `LoweringError`, naming the operation, where something has no lowering.
    """

    name: ClassVar[str] = "convert-to-ptx"

    target: str = "sm_80"
    version: str | None = None
    index: int = 64

    def apply(self, ctx: Context, op: BuiltinModule) -> None:
        if self.target not in FIRST_PTX:
            raise LoweringError(f"unknown target {self.target}; known: {' '.join(FIRST_PTX)}")
        if self.index not in (32, 64):
            raise LoweringError(f"an index has 32 or 64 bits, not {self.index}")
        version = max(parse_version(self.version) if self.version else (7, 0), FIRST_PTX[self.target])
        if version > NEWEST_PTX:
            raise LoweringError(
                f"PTX {version_text(version)} is newer than {version_text(NEWEST_PTX)}, the newest known"
            )
        modules = [inner for inner in op.body.block.ops if isinstance(inner, gpu.ModuleOp)]
        if not modules:
            raise LoweringError(f"this module has no gpu.module with kernels{_outlined(op)}")
        number = target_of(self.target).number
        names = Names()
        known = name_symbols(names, [(symbol_of(m), m.body.block.ops) for m in modules])
        declarations: dict[str, tuple[str, Operation]] = {}
        settings: list[Setting] = []
        for module in modules:
            symbols = {symbol_of(o): (known[o], o) for o in module.body.block.ops if o in known}
            settings.append(Setting(self.index, number, names, symbols, declarations))
            check_globals(module, settings[-1])
        for module in modules:
            expand_parallel(module)
        ConvertScfToCf().apply(ctx, op)
        for module, setting in zip(modules, settings, strict=True):
            expand_control(module)
            inline_calls(module)
            expand_atomics(module, setting)
        converted: list[Operation] = []
        for module, setting in zip(modules, settings, strict=True):
            converted += [self._lower(inner, setting) for inner in module.body.block.ops]
        headers = [
            create(HeaderOp, (), (), {"what": string_attr(what)}, {}) for what in ("version", "target", "address_size")
        ]
        attribute = TargetAttr((self.target, version_text(version), ()))
        ptx = ModuleOp.build(attribute, [*headers, *(declared for _, declared in declarations.values()), *converted])
        op.body.block.insert_op_before(ptx, modules[0])
        for module in modules:
            module.detach()
            module.erase(safe_erase=False)

    def _lower(self, op: Operation, setting: Setting) -> Operation:
        if isinstance(op, gpu.FuncOp):
            if op.kernel is None:
                raise LoweringError(
                    f"gpu.func {op.sym_name.data} is not a kernel; write a device function as func.func, which func.call inlines"
                )
            return lower_function(op, setting)
        if isinstance(op, GlobalOp):
            return lower_global(op, setting)
        raise LoweringError(f"{op.name} in a gpu.module has no lowering to PTX; there are gpu.func and memref.global")


def _outlined(module: BuiltinModule) -> str:
    """What to do about kernels that are still where they are launched."""
    launches = any(inner.name == "gpu.launch" for inner in module.walk())
    return "; gpu.launch still holds its kernel: outline it with mlir-opt --gpu-kernel-outlining" if launches else ""
