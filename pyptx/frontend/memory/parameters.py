"""The parameters of a traced kernel: tensor pointers, raw parameters, TMA descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...dialects.ptx.structure import DeclarationAttr
from ...types import PtxType, from_name, u64
from ..core.instructions import AddressOperand, opcode
from ..core.nonvalue import NotAValue
from ..core.registers import Reg, temporary
from ..core.tiles import Layout, Tile
from ..core.trace import Trace, tracing

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EntryParameter", "TensorSpec", "TmaDescriptorHandle", "raw_parameter"]


@dataclass(frozen=True)
class TmaDescriptorHandle:
    """The TMA descriptor of a tensor, outside of a trace: it has the name of its parameter, and the tensor."""

    tensor: TensorSpec

    @property
    def name(self) -> str:
        """The parameter's name, `<tensor>_tma_desc`."""
        return f"{self.tensor.name}_tma_desc"


@dataclass(frozen=True)
class TensorSpec(NotAValue):
    """A tensor parameter as the kernel's function sees it. `shape` is None while some dimension is not known."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: PtxType | None = None
    layout: Layout | None = None

    def __ptx_symbol__(self) -> tuple[str, int]:
        return self.name, 0

    def described(self) -> tuple[str, str]:
        instead = f"p = ptx.pointer({self.name}) points to its elements: (p + i).load(), (p + i).store(v)"
        return f"{self.name}, a tensor,", instead

    def __getitem__(self, index: Any) -> Any:
        raise self.refusal()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self.refusal()

    def tma_desc(self) -> Reg | TmaDescriptorHandle:
        """The address of the tensor's TMA descriptor, a 64-bit register that is loaded once per kernel.

        Adds the parameter `<name>_tma_desc`. Outside of a trace: a `TmaDescriptorHandle`.
        """
        trace = tracing()
        name = f"{self.name}_tma_desc"
        if trace is None:
            return TmaDescriptorHandle(self)
        known = trace.descriptors.get(self.name)
        if known is not None:
            assert isinstance(known, Reg)
            return known
        trace.symbols.add(name)
        trace.spaces[name] = "entry"
        with trace.outermost():
            result = temporary(trace, u64)
        trace.dominating(lambda: opcode("ld.param.u64")(result, AddressOperand(name)))
        trace.descriptors[self.name] = result
        if self.name in trace.tiles:
            trace.described[result.name] = trace.tiles[self.name]
        return result


@dataclass(frozen=True)
class EntryParameter:
    """One parameter of the entry, for whoever packs the arguments.

    `kind`: `tensor` (a pointer to it), `raw` (of `raw_params`), `dim` (the size of a dimension at run time) or `tma` (a pointer to the 128-byte descriptor of
    `tensor`, whose box is `tile.tma_box`). `tensor` is the index of the tensor among inputs and outputs.
    """

    name: str
    kind: Literal["tensor", "raw", "dim", "tma"]
    declaration: DeclarationAttr
    tensor: int | None = None
    tile: Tile | None = None

    @property
    def dtype(self) -> PtxType:
        """The type of the parameter itself (u64 for pointers)."""
        return from_name(self.declaration.type)

    @property
    def is_pointer(self) -> bool:
        return self.kind in ("tensor", "tma") or ".ptr" in self.declaration.head

    @property
    def array(self) -> int | None:
        """Elements, for an array parameter."""
        return self.declaration.count()


def pointer_parameter(name: str) -> DeclarationAttr:
    return DeclarationAttr(((".param", ".u64"), ((name, ()),)))


_SPACES = ("global", "shared", "local", "const", "param")


def raw_parameter(words: str, name: str) -> DeclarationAttr:
    """`("u64.ptr.global.palign16", "a")` as a declaration.

    The base type, then parts: `ptr`, `global|shared|local|const|param` (after `ptr`), `alignN` (of the parameter),
    `palignN` (of what the pointer points to, 1 if absent), `arrayN`. ValueError for anything else.
    """
    base, *parts = words.lstrip(".").split(".")
    dtype = from_name(base)
    align = pointee = count = None
    pointer = False
    space: str | None = None
    for part in parts:
        number = part.lstrip("aghilnpry")
        if part == "ptr":
            pointer = True
        elif part in _SPACES and pointer:
            space = part
        elif part.startswith("align") and number.isdigit() and part == f"align{number}":
            align = int(number)
        elif part.startswith("palign") and part == f"palign{number}" and number.isdigit():
            pointee = int(number)
        elif part.startswith("array") and part == f"array{number}" and number.isdigit():
            count = int(number)
        else:
            raise ValueError(
                f"raw parameter {name}: {words!r} has the unknown part {part!r}; "
                "parts are ptr, a state space after ptr, alignN, palignN, arrayN"
            )
    head = [".param"]
    if align is not None:
        head += [".align", str(align)]
    head.append("." + dtype.name)
    if pointer:
        head.append(".ptr")
        if space is not None:
            head.append("." + space)
        head += [".align", str(pointee or 1)]
    tail = ("[", str(count), "]") if count is not None else ()
    return DeclarationAttr((tuple(head), ((name, tail),)))


def entry_parameters(
    tensors: Sequence[TensorSpec], specs: Sequence[Tile], raw: Sequence[tuple[str, str]], dims: Sequence[str],
    trace: Trace | None,
) -> list[EntryParameter]:  # fmt: skip
    """The parameter list: pointers of the tensors (when there are specs), raw parameters, dimensions at run time, descriptors in order of
    first use.
    """
    found: list[EntryParameter] = []
    index = {t.name: i for i, t in enumerate(tensors)}

    def tile(i: int) -> Tile | None:
        return specs[i] if i < len(specs) else None

    if specs:
        found += [
            EntryParameter(t.name, "tensor", pointer_parameter(t.name), i, tile(i)) for i, t in enumerate(tensors)
        ]
    found += [EntryParameter(name, "raw", raw_parameter(words, name)) for words, name in raw]
    found += [EntryParameter(name, "dim", raw_parameter("s32", name)) for name in dims]
    for name in trace.descriptors if trace is not None else ():
        full = f"{name}_tma_desc"
        i = index.get(name)
        found.append(EntryParameter(full, "tma", pointer_parameter(full), i, tile(i) if i is not None else None))
    return found
