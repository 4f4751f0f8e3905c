"""What is checked at once for many warpgroups and copies has the findings of checks one by one, on random pipelines."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pyptx.simulator.sanitizer import Finding
from pyptx.simulator.sanitizer.events.copies import Asynchronous
from pyptx.simulator.sanitizer.state.copies import Copies

from . import wgmma_pieces as wgmma
from .kernels import run
from .pieces import INIT, LOAD, WAIT

STATEMENTS = [
    "    st.shared.u32 [%r5], %r1;",
    "    st.shared.u32 [%r5+1024], %r1;",
    "    bar.sync 0;",
    "    fence.proxy.async.shared::cta;",
    "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;",
    "    cp.async.ca.shared.global [%r5+1024], [%rd4], 4;\n    cp.async.commit_group;",
    "    cp.async.wait_group 0;",
    "    cp.async.wait_group 1;",
    wgmma.BEGIN + wgmma.MMA,
    "    wgmma.commit_group.sync.aligned;",
    "    wgmma.wait_group.sync.aligned 0;",
    LOAD,
    "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;",
]


def pipeline(seed: int) -> str:
    """Fills shared memory, mostly, then multiplies, copies, stores and waits as it happens."""
    rng = random.Random(seed)
    begin = [INIT, wgmma.ZERO, wgmma.FILL if seed % 4 else "", wgmma.DESCRIPTORS, wgmma.PROXY if seed % 3 else ""]
    body: list[str] = []
    for number in range(14):
        statement = rng.choice(STATEMENTS)
        if statement == LOAD:  # one in flight: later ones would need other parities
            statement = LOAD + (WAIT if rng.random() < 0.7 else "") if "bulk" not in "".join(body) else ""
        body.append(statement.replace("$", f"$s{number}"))
    end = "    cp.async.wait_all;\n    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;"
    return "\n".join([*begin, *body, end])


def findings(body: str) -> list[tuple[object, ...]]:
    report = run(body, block=256, grid=2)
    return [(str(f), f.count, f.threads, f.rule) for f in report.findings if isinstance(f, Finding)]


def test_random_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [pipeline(seed) for seed in (*range(8), 232)]
    found = [findings(body) for body in bodies]
    monkeypatch.setattr(Asynchronous, "_nothing_wrong", lambda *_: False)
    monkeypatch.setattr(Copies, "settled", lambda _, lanes, *__: np.zeros(lanes.size, np.bool_))
    assert [findings(body) for body in bodies] == found
    assert {"race", "proxy", "wgmma-source-reused"} <= {rule for told in found for *_, rule in told}
