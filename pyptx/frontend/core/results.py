"""What an instruction writes, going by its forms: the types that `op.<opcode>(sources)` makes registers of."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...dialects.ptx.forms import Result
from ...dialects.ptx.instruction import find_opcode
from ...dialects.ptx.types import SCALAR_TYPES
from ...types import from_name

__all__ = ["Written", "element_type", "operator_type", "pair_types", "result_type", "written"]

Words = tuple[str, ...]


class Written(NamedTuple):
    """One way to write an instruction that has a result: how many operands follow it, and the result (two for `d|p`, of
    which the second may be optional).
    """

    operands: int
    optional: bool
    results: tuple[Result, ...]

    @property
    def is_scalar(self) -> bool:
        """Whether one register is a result on its own."""
        return (len(self.results) == 1 or self.optional) and self.results[0][1] in (None, 1)


@lru_cache(maxsize=8192)
def written(words: Words) -> tuple[Written, ...]:
    """The ways to write an instruction with a result, those with one register first; () if none has one."""
    found = find_opcode(words[0], words[1:])
    if found is None:
        return ()
    cls, used = found
    ways = [
        Written(operands, optional, tuple((_known(dtype), count) for dtype, count in results))
        for form, slots in cls.candidates(words[1 + used :])
        for operands, optional, results in form.results(slots, cls)
    ]
    return tuple(sorted(ways, key=lambda way: not way.is_scalar))


@lru_cache(maxsize=8192)
def result_type(words: Words) -> str:
    """The type of an instruction's result: `mul.wide.s32` s64, `cvt.f32.f16` f32, `setp` pred. For a vector that of its
    elements, for a pair that of the first; `b32` for what has none.
    """
    ways = written(words)
    return ways[0].results[0][0] if ways else "b32"


@lru_cache(maxsize=1024)
def pair_types(words: Words, optional: bool = False) -> tuple[str, str] | None:
    """The types of the results `d|p` of an instruction that always has both, or that may have them."""
    ways = written(words)
    pairs = [way.results for way in ways if len(way.results) == 2 and (optional or not way.optional)]
    if not pairs or (not optional and len(pairs) < len(ways)):
        return None
    (first, _), (second, _) = pairs[0]
    return first, second


@lru_cache(maxsize=1024)
def element_type(words: Words, count: int) -> str:
    """The type of each of the `count` registers that an instruction with a vector as result writes."""
    fitting = (way.results[0][0] for way in written(words) if way.results[0][1] == count)
    return next(fitting, result_type(words))


@lru_cache(maxsize=1024)
def operator_type(dtype: str) -> str:
    """What operators take a result for: what its instruction is named for; 8 bits are held in 16, tf32 computes as f32."""
    return {"s8": "s16", "u8": "u16", "b8": "b16", "tf32": "f32"}.get(dtype, dtype)


def _known(dtype: str) -> str:
    """A type that registers have in Python; of the other packed ones (`e4m3x2`) the bits."""
    try:
        return from_name(dtype).name
    except ValueError:
        return f"b{SCALAR_TYPES[dtype].bits}" if dtype in SCALAR_TYPES else "b32"
