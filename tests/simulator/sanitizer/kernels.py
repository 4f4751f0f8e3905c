"""Small kernels for the rules: a body that breaks one, with `//!` at the end of the line that is to be named."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyptx.simulator import Report, load, tensor_map
from pyptx.simulator.launch.launch import simulate_entry
from pyptx.simulator.launch.options import checked_options
from pyptx.simulator.sanitizer import Finding

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{
    .reg .pred %p<10>;
    .reg .b32 %r<40>;
    .reg .f32 %f<40>;
    .reg .b64 %rd<30>;
    .shared .align 128 .b8 buf[4096];
    .shared .align 8 .b64 bar[4];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r3, buf; shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4;
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
"""


def run(
    body: str,
    *,
    grid: int = 1,
    block: int = 64,
    cluster: int | None = None,
    seed: int = 0,
    sm: int = 90,
    directives: str = "",
    fresh: bool = False,
    mapped: bool = False,
    programmatic: bool = False,
    schedules: int | None = None,
) -> Report:
    """Simulate a body with a source of 1024 random words (%rd1) and a destination of as many zeros (%rd2), or with `fresh` of words
    that nobody has written. `mapped`: with a tensor map of 64 x 64 words in boxes of 16 x 16, the parameter `map`.
    """
    source = np.random.default_rng(1).integers(0, 2**31, 1024, dtype=np.uint32)
    target = np.zeros(1024, np.uint32)
    head = HEAD.replace("sm_90a", f"sm_{sm}a").replace("8.7", "9.4" if sm == 107 else "8.7")
    parameter = ", .param .align 64 .b8 map[128])" if mapped else ")"
    head = head.replace(")\n{", f"{parameter} {directives}\n{{")
    maps = [tensor_map(np.zeros((64, 64), np.uint32), (16, 16))] if mapped else []
    loaded = load(head + body + "\n    ret;\n}\n")["k"].loaded
    launch = {"grid": grid, "block": block, "cluster": cluster, "programmatic": programmatic}
    options = checked_options({**launch, "seed": seed, "schedules": schedules, "max_steps": 200_000})
    return simulate_entry(loaded, "k", (source, target, *maps), options, uninitialised=(1,) if fresh else ())


def marked(body: str) -> list[int]:
    """The lines that end in `//!`."""
    return [i for i, line in enumerate((HEAD + body).split("\n"), 1) if line.rstrip().endswith("//!")]


def breaks(body: str, rule: str, **launch: Any) -> Finding:
    """The body breaks this rule and no other, at the marked lines."""
    report = run(body, **launch)
    findings = [f for f in report.findings if isinstance(f, Finding)]
    assert findings, "nothing was found"
    assert {f.rule for f in findings} == {rule}, "\n".join(map(str, findings))
    assert sorted({f.line for f in findings if f.line}) == marked(body), "\n".join(map(str, findings))
    found = findings[0]
    assert found.hint
    if not found.schedule:  # else it is of the launch as a whole
        assert found.section
        assert found.threads[0].startswith("thread (")
        assert found.instruction in found.message
    return found


def silent(body: str, **launch: Any) -> None:
    """The body breaks no rule, and neither does it with copies that complete late and warps in random order."""
    for seed in (0, 1, 2):
        report = run(body, seed=seed, **launch)
        assert not report.findings, "\n".join(map(str, report.findings))
