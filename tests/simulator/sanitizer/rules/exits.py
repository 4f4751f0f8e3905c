"""What is in flight at the end."""

from __future__ import annotations

from .. import wgmma_pieces as wgmma
from ..pieces import FENCE, FILL, INIT, LOAD, STORE, WAIT, Pair

PAIRS = [
    Pair(
        "exit-in-flight",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4; //!",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.wait_all;",
        {},
        "warning",
    ),
    Pair(
        "exit-in-flight",
        INIT + LOAD.replace("1024, [bar];\n$", "1024, [bar]; //!\n$"),
        INIT + LOAD + WAIT,
    ),
    Pair(
        "exit-in-flight",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format(" //!", ""),
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;"),
    ),
    Pair("exit-in-flight", wgmma.READY + wgmma.BEGIN + wgmma.MMA + " //!\n    wgmma.commit_group.sync.aligned;\n",
         wgmma.READY + wgmma.BEGIN + wgmma.MMA + "\n" + wgmma.END, {"block": 128}),
]  # fmt: skip
