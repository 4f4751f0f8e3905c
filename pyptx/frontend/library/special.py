"""Special registers: `ptx.special.tid.x()`, `ptx.special.laneid()`, `ptx.sreg("%clock64")` (PTX ISA 10)."""

from __future__ import annotations

from ...diagnostics import suggest
from ...dialects.ptx.special_registers import ELEMENTS, SPECIAL_REGISTERS
from ...types import PtxType, pred, u32, u64
from ..core.nonvalue import NoTruth
from ..core.registers import SpecialReg
from ..core.trace import current
from ..lint.unknown_names import cuda_name

__all__ = ["Special", "sreg", "target"]


class _Named(NoTruth):
    """A special register by name, not read yet."""

    def __init__(self, name: str):
        self._name = name


class _Scalar(_Named):
    """A special register without elements, or one element; calling it gives the register."""

    def __call__(self) -> SpecialReg:
        return sreg(self._name)

    def described(self) -> tuple[str, str]:
        name = f"ptx.special.{self._name[1:]}"
        return name, f"call it: {name}()"


class _Vector(_Named):
    """A special register with elements."""

    def __init__(self, name: str):
        super().__init__(name)
        self.x, self.y, self.z, self.w = (_Scalar(f"{name}.{element}") for element in "xyzw")

    def described(self) -> tuple[str, str]:
        name = f"ptx.special.{self._name[1:]}"
        return name, f"it has elements: {name}.x()"


class Special:
    """`ptx.special`: every special register of the ISA by its name without %; `.x() .y() .z()` for the vectors.

    `ctaid_x()` and the like are short for `ctaid.x()`.
    """

    def __getattr__(self, name: str) -> _Vector | _Scalar:
        found = SPECIAL_REGISTERS.get("%" + name)
        if found is not None:
            made = _Vector("%" + name) if found.elements else _Scalar("%" + name)
        else:
            base, _, element = name.rpartition("_")
            if "%" + base not in SPECIAL_REGISTERS or "." + element not in ELEMENTS:
                near = [cuda] if (cuda := cuda_name(name)) else suggest(name, [n[1:] for n in SPECIAL_REGISTERS])
                hint = f"; did you mean {' or '.join(near)}?" if near else ""
                raise AttributeError(f"PTX has no special register %{name}{hint}")
            made = _Scalar(f"%{base}.{element}")
        self.__dict__[name] = made
        return made

    def __dir__(self) -> list[str]:
        return sorted(n[1:] for n in SPECIAL_REGISTERS)


def sreg(name: str) -> SpecialReg:
    """A special register by its PTX name, `%tid.x` or `%clock64`. It may stand where `mov` or `cvt` read it; elsewhere
    it is copied first.
    """
    base, _, element = name.partition(".")
    found = SPECIAL_REGISTERS.get(base)
    if found is None or (element and not found.elements):
        near = suggest(base, SPECIAL_REGISTERS)
        raise current().error(
            f"there is no special register {name}", f"did you mean {' or '.join(near)}?" if near else None
        )
    return SpecialReg(name, _TYPES[found.bits[0]])


_TYPES: dict[int, PtxType] = {1: pred, 32: u32, 64: u64}


def target() -> str:
    """The target that the kernel is being traced for, e.g. `sm_100a`: for kernels with several.

    PTXError outside of a kernel.
    """
    return current().target
