"""Programmatic dependent launches: what comes before griddepcontrol.wait and after griddepcontrol.launch_dependents."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.simulator import load
from pyptx.simulator.sanitizer import Finding

from .kernels import HEAD, marked

WAIT, LAUNCH = "    griddepcontrol.wait;\n", "    griddepcontrol.launch_dependents;\n"
READ, STORE = "    ld.global.u32 %r10, [%rd4];{}\n", "    st.global.u32 [%rd5], %r10;{}\n"
COPY = "    cp.async.ca.shared.global [%r5], [%rd4], 4;{}\n    cp.async.wait_all;\n    ld.shared.u32 %r10, [%r5];\n"
ATOM = "    atom.global.add.u32 %r10, [%rd4], 1;{}\n"
BY_ONE = "    @%p1 griddepcontrol.wait;\n"


def findings(body: str, *, programmatic: bool = True) -> list[Finding]:
    kernel = load(HEAD + body + "\n    ret;\n}\n")["k"]
    source, target = np.ones(1024, np.uint32), np.zeros(1024, np.uint32)
    report = kernel.simulate(source, target, grid=2, block=64, max_steps=100_000, programmatic=programmatic)
    return [f for f in report.findings if isinstance(f, Finding) and f.rule.startswith("dependent")]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (READ.format(" //!") + WAIT + STORE.format(""), "dependent-read"),
        (READ.format(" //!") + STORE.format(""), "dependent-read"),  # no wait at all
        (COPY.format(" //!") + WAIT + STORE.format(""), "dependent-read"),
        (ATOM.format(" //!") + WAIT + STORE.format(""), "dependent-read"),
        (BY_ONE + READ.format(" //!") + STORE.format(""), "dependent-read"),  # one thread waits, and nobody meets it
        (WAIT + READ.format("") + LAUNCH + STORE.format(" //!"), "dependent-store"),
    ],
)
def test_it_is_found(body: str, rule: str) -> None:
    """The manual: .wait waits until the grids before have completed and their memory is visible; a dependent may begin after
    .launch_dependents.
    """
    found = findings(body)
    assert {f.rule for f in found} == {rule}
    assert sorted({f.line for f in found if f.line}) == marked(body)
    assert all(f.severity == "warning" for f in found)
    assert not findings(body, programmatic=False)


@pytest.mark.parametrize(
    "body",
    [
        WAIT + READ.format("") + STORE.format("") + LAUNCH,
        WAIT + LAUNCH + READ.format(""),
        BY_ONE + "    bar.sync 0;\n" + READ.format("") + STORE.format(""),
        "    mov.u32 %r10, 1;\n" + STORE.format("") + "    ld.global.u32 %r11, [%rd5];\n" + WAIT,  # its own
    ],
)
def test_it_is_silent(body: str) -> None:
    assert not findings(body)
