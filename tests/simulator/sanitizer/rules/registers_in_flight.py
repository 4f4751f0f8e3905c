"""Registers of wgmma."""

from __future__ import annotations

from ..pieces import Pair
from ..wgmma_pieces import BEGIN, END, MMA, READY, USE

COMMIT, WAIT = "    wgmma.commit_group.sync.aligned;\n", "    wgmma.wait_group.sync.aligned 0;\n"
RIGHT = READY + BEGIN + MMA + "\n" + END + USE
LAUNCH = {"block": 128}
PAIRS = [
    Pair("wgmma-register", READY + BEGIN + MMA + "\n" + COMMIT + USE + " //!\n" + WAIT, RIGHT, LAUNCH),
    Pair("wgmma-commit", READY + BEGIN + MMA + "\n" + WAIT + USE + " //!\n" + END, RIGHT, LAUNCH),
    Pair("wgmma-fence", READY + MMA + " //!\n" + END + USE, RIGHT, LAUNCH),
    Pair("wgmma-fence", READY + BEGIN + "    mov.f32 %f1, 0f3F800000;\n" + MMA + " //!\n" + END + USE, RIGHT, LAUNCH),
]
