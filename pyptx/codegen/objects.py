"""Instructions on mbarriers and tensor maps as calls of the DSL's objects: `mbarrier(full).wait(phase)`, `tma.load(...)`."""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.ptx.async_copy import CpAsyncBulkTensor
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.mbarrier import MbarrierTryWait
from ..dialects.ptx.syntax import Address, Operand, Register, Sink, Vector
from ..frontend.module.async_objects import (
    MBARRIER_METHODS,
    OWN_SPACE,
    tensor_load,
    tensor_store,
)
from ..ssa.statement import Kind
from .body import Body
from .expressions import OperandReader
from .names import string
from .structure import Region

__all__ = ["Wait", "called", "wait_in"]

_SPACES = (OWN_SPACE, "shared", "shared::cluster")
_BARRIERS: dict[str, tuple[str, str, str]] = {
    template.format(space=space): (method, operands, space)
    for method, (template, operands) in MBARRIER_METHODS.items()
    for space in _SPACES
}


def called(
    cls: type[Instruction], words: Sequence[str], operands: Sequence[Operand], reader: OperandReader, fresh: int
) -> str | None:
    """The call of an object's method for an instruction, up to its closing bracket; None where there is none.
    `operands` are without the results, of which there are `fresh`.
    """
    found = _BARRIERS.get(".".join(words))
    if found is not None:
        method, kinds, space = found
        return _of_mbarrier(method, kinds, space, operands, reader, fresh)
    if issubclass(cls, CpAsyncBulkTensor) and not fresh:
        return _tensor_copy(".".join(words), words, operands, reader)
    return None


def _of_mbarrier(
    method: str, kinds: str, space: str, operands: Sequence[Operand], reader: OperandReader, fresh: int
) -> str | None:
    options: list[str] = []
    if kinds[0] == "=" and not fresh:
        kinds, options = "_" + kinds[1:], ["state=False"]
    if (kinds[0] == "=") != bool(fresh):
        return None
    kinds = kinds.lstrip("=")
    if len(operands) != len(kinds):
        return None
    place, values = "", list[str]()
    for kind, operand in zip(kinds, operands, strict=True):
        match kind, operand:
            case "m", Address(rest=()):
                address = mbarrier_at(reader, operand, space)
                if address is None:
                    return None
                place = address
            case "_", Sink():
                pass
            case "v", _:
                values.append(reader.operand(operand)[0])
            case _:
                return None
    return f"{place}.{method}({', '.join([*values, *options])}"


def mbarrier_at(reader: OperandReader, address: Address, space: str) -> str | None:
    """`mbarrier(full, 8)`."""
    parts = reader.address_parts(address)
    if parts is None:
        return None
    reader.function.shared.used.add("mbarrier")
    own = [] if space == OWN_SPACE else [f"space={string(space)}"]
    return f"mbarrier({', '.join([*parts, *own])})"


def _tensor_copy(spelled: str, words: Sequence[str], operands: Sequence[Operand], reader: OperandReader) -> str | None:
    rank = next((int(w[0]) for w in words if w[1:] == "d" and w[0].isdigit()), 0)
    mode = "tile" if "tile" in words else ""
    multicast, policy = "multicast::cluster" in words, "L2::cache_hint" in words
    space = "shared::cta" if "shared::cta" in words else "shared::cluster"
    options = [f"mode={string(mode)}"] if mode else []
    if spelled == tensor_load(rank, space, mode, multicast, policy) and len(operands) == 3 + multicast + policy:
        texts = _all([_place(operands[0], reader), _box(operands[1], rank, reader), _barrier(operands[2], reader)])
        if texts is None:
            return None
        more = [reader.operand(o)[0] for o in operands[3:]]
        names = [n for n, there in (("multicast", multicast), ("policy", policy)) if there]
        more = [f"{n}={v}" for n, v in zip(names, more, strict=True)]
        options += [f"space={string(OWN_SPACE)}"] if space == OWN_SPACE else []
        method = "load"
    elif spelled == tensor_store(rank, mode, policy) and len(operands) == 2 + policy:
        texts = _all([_box(operands[0], rank, reader), _place(operands[1], reader)])
        if texts is None:
            return None
        more = [f"policy={reader.operand(o)[0]}" for o in operands[2:]]
        method = "store"
    else:
        return None
    reader.function.shared.used.add("tma")
    return f"tma.{method}({', '.join([*texts, *more, *options])}"


def _all(texts: Sequence[str | None]) -> list[str] | None:
    found = [t for t in texts if t is not None]
    return found if len(found) == len(texts) else None


def _place(operand: Operand, reader: OperandReader) -> str | None:
    if not isinstance(operand, Address) or operand.rest:
        return None
    parts = reader.address_parts(operand)
    return _joined(parts, reader) if parts is not None else None


def _joined(parts: Sequence[str], reader: OperandReader) -> str:
    if len(parts) == 1:
        return parts[0]
    reader.function.shared.used.add("addr")
    return f"addr({', '.join(parts)})"


def _box(operand: Operand, rank: int, reader: OperandReader) -> str | None:
    match operand:
        case Address(rest=(Vector(elements) as at,)) if len(elements) == rank:
            parts = reader.address_parts(operand)
            if parts is None:
                return None
            return f"{_joined(parts, reader)}, {reader.operand(at)[0]}"
        case _:
            return None


def _barrier(operand: Operand, reader: OperandReader) -> str | None:
    if not isinstance(operand, Address) or operand.rest:
        return None
    return mbarrier_at(reader, operand, OWN_SPACE)


class Wait:
    """A loop that waits for an mbarrier: the statement that asks, and how the loop is made."""

    __slots__ = ("ask", "branches", "how", "size", "space", "uni")

    def __init__(self, ask: int, size: int, how: str, space: str, uni: bool, branches: int):
        self.ask, self.size, self.how, self.space, self.uni, self.branches = ask, size, how, space, uni, branches

    @property
    def options(self) -> list[str]:
        found = [f"how={string(self.how)}"] if self.how != "parity" else []
        found += ["uni=True"] if self.uni else []
        return [*found, *(["branches=2"] if self.branches == 2 else [])]


def wait_in(function: Body, region: Region) -> Wait | None:
    """What a loop waits for, if it is one that `Mbarrier.wait` makes, and nothing else."""
    size = region.end - region.start
    if region.kind != "loop" or len(region.branches) != 1 or size not in (3, 4):
        return None
    statements = function.statements
    ask = region.start + 1
    shape = statements[ask][0]
    cls, made = shape.instruction, function.makes.get(ask, ())
    if cls is None or not issubclass(cls, MbarrierTryWait) or shape.guard >= 0 or len(made) != 1:
        return None
    done = made[0]
    words = shape.modifiers
    places = shape.layout
    if len(words) < 2 or words[-1] != "b64" or words[-2] not in _SPACES or not isinstance(places[0], Register):
        return None
    if len(places) not in (3, 4) or not isinstance(places[1], Address) or places[1].rest:
        return None
    if (function.defs.get(done), function.uses.get(done)) != (1, 1) or done.register_class != "pred":
        return None
    back = region.end - 1
    jump = statements[back][0]
    uni = "uni" in jump.modifiers
    how = ".".join(words[:-2])
    if size == 3:
        if jump.guard < 0 or jump.guard_mark != "@!" or statements[back][1][jump.guard] is not done:
            return None
        return Wait(ask, 3, how, words[-2], uni, 1)
    leave, label = statements[back - 1], back + 1
    out = function.regions_of.get(back - 1)
    if jump.guard >= 0 or leave[0].guard < 0 or leave[0].guard_mark != "@" or leave[1][leave[0].guard] is not done:
        return None
    if out is None or "uni" in leave[0].modifiers or out.label != label or len(out.branches) != 1:
        return None
    if out.kind == "loop" or label >= len(statements) or statements[label][0].kind != Kind.LABEL or out.start < ask:
        return None
    return Wait(ask, 5, how, words[-2], uni, 2)
