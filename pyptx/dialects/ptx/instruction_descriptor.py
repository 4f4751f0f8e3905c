"""The instruction descriptor of `tcgen05.mma`: a 32-bit operand with the types, the shape and the options of the
multiplication (PTX ISA 9.7.18.4.2).

One description for those who write descriptors (`ptx.tcgen05.make_instr_desc`) and those who read them (the simulator).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

Places = dict[str, tuple[int, int]]
"""Field -> (lowest bit, number of bits)."""

_SHARED: Places = {
    "sparse": (2, 1), "a": (7, 3), "b": (10, 3), "a_negate": (13, 1), "b_negate": (14, 1), "a_mn": (15, 1),
    "b_mn": (16, 1), "n": (17, 6),
}  # fmt: skip
_PLAIN: Places = {
    **_SHARED, "selector": (0, 2), "saturate": (3, 1), "d": (4, 2), "m": (24, 5), "depth": (29, 1), "max_shift": (30, 2),
}  # fmt: skip
_MX8: Places = {
    **_SHARED, "b_scale": (4, 2), "scale_type": (23, 1), "wide_scales": (26, 1), "m": (27, 2), "a_scale": (29, 2),
    "depth": (31, 1),
}  # fmt: skip
_MX4: Places = {**_MX8, "b": (10, 2), "sparsity_version": (12, 1), "scale_type": (23, 2), "deepest": (3, 1)}
_SUMS = {"f16": 0, "f32": 1, "s32": 2}
_F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
_AS_THEY_ARE = (
    "sparse", "saturate", "a_negate", "b_negate", "a_mn", "b_mn", "selector", "max_shift", "a_scale", "b_scale",
    "wide_scales", "sparsity_version",
)  # fmt: skip
"""Fields whose code is their value."""
_NARROW = ("e2m3", "e3m2", "e2m1")
"""Operand types of less than a byte: K-major only."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a `.kind` multiplies: codes of the operands' types, types of D, K of a dense A by code, codes of the scale
    factors' types.
    """

    types: dict[str, int]
    sums: tuple[str, ...]
    depths: tuple[int, ...]
    places: Places = field(default_factory=lambda: _PLAIN)
    scales: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def lowest_m_bits(self) -> int:
        """M is written without them."""
        return 7 if self.scales else 4


KINDS = {
    "f16": Kind({"f16": 0, "bf16": 1}, ("f32", "f16"), (16,)),
    "tf32": Kind({"tf32": 2}, ("f32",), (8,)),
    "f8f6f4": Kind(_F8F6F4, ("f32", "f16"), (32, 64)),
    "i8": Kind({"u8": 0, "s8": 1}, ("s32",), (32,)),
    "ti16": Kind({"s1z4m11": 3}, ("s32",), (16,)),
    "mxf8f6f4": Kind(_F8F6F4, ("f32",), (32, 64), _MX8, {"ue8m0": 1}),
    "mxf4": Kind({"e2m1": 1}, ("f32",), (64, 96, 128), _MX4, {"ue8m0": 1}),
    "mxf4nvf4": Kind({"e2m1": 1}, ("f32",), (64, 96, 128), _MX4, {"ue4m3": 0, "ue8m0": 1, "ue5m3": 2}),
}


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """One multiplication of shape m x n x k.

    kind: as in `.kind::f16`. a, b, d: the types of A, B and D. k: elements of a row of A, zeros of a sparse A included.
    a_mn, b_mn: the operand is M- or N-major (transposed). selector: which metadata a sparse A uses. max_shift: 0, or 1 to
    3 for 8, 16 or 32 columns that `.ws` may shift B. a_scale, b_scale: the first byte of the scale factors in a word of
    tensor memory; wide_scales: those of A lie in 128 lanes, not in 32.
    """

    kind: str
    a: str
    b: str
    d: str
    m: int
    n: int
    k: int
    sparse: bool = False
    saturate: bool = False
    a_negate: bool = False
    b_negate: bool = False
    a_mn: bool = False
    b_mn: bool = False
    selector: int = 0
    max_shift: int = 0
    a_scale: int = 0
    b_scale: int = 0
    scale_type: str = ""
    wide_scales: bool = False
    sparsity_version: int = 0

    @property
    def dense_k(self) -> int:
        """K of the dense multiplication that takes as long."""
        return self.k // 2 if self.sparse else self.k

    @property
    def negate(self) -> bool:
        """The products change their sign."""
        return self.a_negate != self.b_negate

    @property
    def word(self) -> int:
        """The descriptor's 32 bits. ValueError if a field cannot be said in this kind."""
        kind = KINDS[self.kind]
        for name, value, legal in (
            ("a", self.a, kind.types), ("b", self.b, kind.types), ("d", self.d, kind.sums),
            ("scale_type", self.scale_type, kind.scales or ("",)), ("k", self.dense_k, kind.depths),
        ):  # fmt: skip
            if value not in legal:
                raise ValueError(f"{name} of kind {self.kind} is {_either(legal)}, not {value or 'empty'}")
        lowest = kind.lowest_m_bits
        if self.m & (1 << lowest) - 1 or self.n & 7:
            raise ValueError(
                f"m is a multiple of {1 << lowest} and n of 8 in kind {self.kind}, not {self.m} and {self.n}"
            )
        depth = kind.depths.index(self.dense_k)
        codes = {name: int(getattr(self, name)) for name in _AS_THEY_ARE} | {
            "a": kind.types[self.a], "b": kind.types[self.b], "m": self.m >> lowest, "n": self.n >> 3,
            "depth": depth & 1, "deepest": depth >> 1, "scale_type": kind.scales.get(self.scale_type, 0),
        }  # fmt: skip
        if "d" in kind.places:
            codes["d"] = _SUMS[self.d]
        found = 0
        for name, code in codes.items():
            low, size = kind.places.get(name, (0, 0))
            if code >> size:
                raise ValueError(f"kind {self.kind} cannot say {name} = {getattr(self, name, code)}")
            found |= code << low
        return found

    def problem(self, group: int = 1, ws: bool = False) -> str:
        """Why no `tcgen05.mma` has this shape (PTX ISA 9.7.18.2.1), or the empty string. group: CTAs that take part; ws:
        it is weight stationary.
        """
        rows, step = _shapes(self, group, ws)
        if self.m not in rows:
            return f"M is {self.m}; it is {_either(rows)} here"
        if not 8 <= self.n <= 256:
            return f"N is {self.n}; it is 8 to 256"
        if ws:
            columns = (64, 128) if self.sparse else (64, 128, 256)
            if self.n not in columns:
                return f"N is {self.n}; it is {_either(columns)} with .ws{'.sp' if self.sparse else ''}"
        elif self.n % step and not (self.kind == "i8" and group == 1 and self.n in (8, 24) and not self.b_mn):
            return f"N is {self.n}; it is a multiple of {step} here"
        for name, kind, transposed in (("A", self.a, self.a_mn), ("B", self.b, self.b_mn)):
            if transposed and (kind in _NARROW or self.kind in ("mxf4", "mxf4nvf4")):
                return f"{name} of .{kind} is K-major"
        if self.kind == "i8" and (self.a_negate or self.b_negate):
            return "kind i8 does not negate A or B"
        if self.kind == "f8f6f4" and self.dense_k == 64 and (self.a in _NARROW or self.b in _NARROW):
            return f"operands with K = {self.k} are of .e4m3 or .e5m2"
        if self.kind in ("mxf4", "mxf4nvf4") and self.dense_k == 128 and (self.sparse or group == 1):
            return f"K is {self.k}; it is 128 or 192 for a sparse A, 64, 96 or with .cta_group::2 128 for a dense one"
        return ""

    @property
    def needs(self) -> Iterator[tuple[str, str]]:
        """What only some targets' tensor cores know, and which, in the notation of `target_in`."""
        fours = self.kind in ("mxf4", "mxf4nvf4")
        if fours and self.dense_k == 96:
            yield f"K = {self.k}", "103a 107a"
        elif self.dense_k > KINDS[self.kind].depths[0]:
            yield f"K = {self.k}", "107af"
        if fours and self.sparse:
            yield (
                f"sparsity version {self.sparsity_version}",
                "107a" if self.sparsity_version else "100a 101a 103a 110a",
            )
        if self.wide_scales:
            yield "scale factors in 128 lanes", "107af"
        if self.scale_type == "ue5m3":
            yield "scale factors of .ue5m3", "107af"


def _shapes(d: InstructionDescriptor, group: int, ws: bool) -> tuple[tuple[int, ...], int]:
    """(values of M, what N is a multiple of)."""
    kind = KINDS[d.kind]
    if ws:
        return (32, 64, 128), 64
    deep = d.dense_k > kind.depths[0] and not d.sparse
    if group == 1:
        rows = (128,) if kind.scales or deep else (64, 128)
    else:
        rows = (256,) if deep or (kind.scales and d.sparse) else (128, 256)
    if d.kind == "ti16":
        return rows, 8 if d.m == 64 else 16 * group
    bytes_across = d.b_mn and d.kind in ("f8f6f4", "mxf8f6f4")
    return rows, (16 if bytes_across or d.kind == "i8" else 8) * group


@lru_cache(maxsize=256)
def read_descriptor(word: int, kind: str) -> InstructionDescriptor | str:
    """What a descriptor says to an instruction of a kind, or what is wrong with it."""
    k = KINDS[kind]
    fields = {name: word >> low & (1 << size) - 1 for name, (low, size) in k.places.items()}
    rest = word & ~sum((1 << size) - 1 << low for low, size in k.places.values())
    if rest:
        bits = ", ".join(str(i) for i in range(32) if rest >> i & 1)
        return f"bit {bits} of the instruction descriptor 0x{word:08x} must be 0 with .kind::{kind}"
    codes = {code: name for name, code in k.types.items()}
    a, b = codes.get(fields["a"]), codes.get(fields["b"])
    if a is None or b is None:
        return (
            f"the operand types {fields['a']} and {fields['b']} in bits 7 to 12 of the instruction descriptor "
            f"0x{word:08x} are not of .kind::{kind}"
        )
    d = k.sums[0] if k.scales else next((s for s in k.sums if _SUMS[s] == fields["d"]), None)
    if d is None:
        return f"the type {fields['d']} of D in bits 4 and 5 of the instruction descriptor is not of .kind::{kind}"
    scale = next((s for s, code in k.scales.items() if code == fields["scale_type"]), "")
    if k.scales and not scale:
        return (
            f"the type {fields['scale_type']} of the scale factors in the instruction descriptor 0x{word:08x} is not of "
            f".kind::{kind}"
        )
    depth = fields["depth"] | fields.get("deepest", 0) << 1
    if depth >= len(k.depths):
        return f"K in the instruction descriptor 0x{word:08x} has the code {depth}, which .kind::{kind} does not know"
    sparse = bool(fields["sparse"])
    return InstructionDescriptor(
        kind, a, b, d, fields["m"] << k.lowest_m_bits, fields["n"] << 3, k.depths[depth] * (2 if sparse else 1), sparse,
        *(bool(fields.get(x, 0)) for x in ("saturate", "a_negate", "b_negate", "a_mn", "b_mn")),
        *(fields.get(x, 0) for x in ("selector", "max_shift", "a_scale", "b_scale")),
        scale_type=scale, wide_scales=bool(fields.get("wide_scales", 0)),
        sparsity_version=fields.get("sparsity_version", 0),
    )  # fmt: skip


def _either(values: Iterable[object]) -> str:
    names = [str(v) or "not given" for v in values]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
