"""Registers that warps hand to each other."""

from __future__ import annotations

from ..pieces import Pair

DEC = "    setmaxnreg.dec.sync.aligned.u32 {};{}\n"
INC = "    setmaxnreg.inc.sync.aligned.u32 {};{}\n"
MEET = "    bar.sync 0;\n"
LAUNCH = {"block": 128, "directives": ".reqntid 128 .maxnreg 160"}
PAIRS = [
    Pair("setmaxnreg", DEC.format(168, " //!"), DEC.format(40, ""), LAUNCH),
    Pair("setmaxnreg", DEC.format(40, "") + MEET + INC.format(200, " //!"), DEC.format(40, "") + MEET + INC.format(160, ""), LAUNCH),
    Pair("setmaxnreg", DEC.format(40, "") + INC.format(160, " //!"), DEC.format(40, "") + MEET + INC.format(160, ""), LAUNCH,
         "warning"),
]  # fmt: skip
