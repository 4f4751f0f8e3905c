"""Collector buffers of tcgen05.mma."""

from __future__ import annotations

from ..pieces import Pair
from ..tensor_pieces import OTHER, collecting

LAUNCH = {"block": 128, "sm": 107}
RIGHT = collecting(".collector::a::fill", ".collector::a::use", ".collector::a::lastuse", "")
PAIRS = [
    Pair("tcgen05-collector", collecting(".collector::a::use //!"), RIGHT, LAUNCH),
    Pair("tcgen05-collector", collecting(".collector::a::fill", OTHER, ".collector::a::use //!"), RIGHT, LAUNCH),
]
