"""The initial values of texture, sampler and surface references: fields with their values (PTX ISA 5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .entities import Fault

_SIZES = "width height depth channel_data_type channel_order array_size"
_SAMPLING = "filter_mode addr_mode_0 addr_mode_1 addr_mode_2"
FIELDS = {
    "texref": frozenset(f"{_SIZES} {_SAMPLING} normalized_coords num_mipmap_levels num_samples".split()),
    "samplerref": frozenset(f"{_SAMPLING} force_unnormalized_coords".split()),
    "surfref": frozenset(_SIZES.split()),
}
MODES = frozenset("nearest linear wrap mirror clamp_ogl clamp_to_edge clamp_to_border".split())
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?)U?").fullmatch


def opaque_faults(name: str, kind: str, array: bool, words: Sequence[str]) -> Iterator[Fault]:
    """What is wrong with `{ width = 8, addr_mode_0 = wrap }`, the tokens after the `=` of a reference."""
    text = "".join(words)
    shape = re.sub(r"\w+=-?[\w.]+", "f", text)  # each field as one letter
    if array:
        shape = re.sub(r"\{f(?:,f)*\}|\{\}", "f", shape)
    if not re.fullmatch(r"\{(?:f(?:,f)*)?\}", shape) and not (array and shape == "f" and words[0] == "{"):
        yield Fault(f"the initial value of {name} is a list of fields", "{ width = 8, addr_mode_0 = wrap }", word=name)
        return
    for field, value in re.findall(r"(\w+)=(-?[\w.]+)", text):
        if field not in FIELDS[kind]:
            yield Fault(f"a .{kind} has no field {field}", f"legal: {' '.join(sorted(FIELDS[kind]))}", word=field)
        elif value not in MODES and not _NUMBER(value):
            yield Fault(f"{field} of {name} cannot be {value}", f"a number, or {' '.join(sorted(MODES))}", word=field)
