"""Copies that several threads issue."""

from __future__ import annotations

from ..pieces import FENCE, FILL, Pair

ISSUE = """
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 256;{}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""
READY = FILL + FENCE + "    bar.sync 0;\n"
PAIRS = [
    Pair("copy-repeated", READY + ISSUE.format(" //!"), READY + "    @!%p1 bra $end;\n" + ISSUE.format("") + "$end:"),
]
