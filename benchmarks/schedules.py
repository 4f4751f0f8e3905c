"""How much broken synchronisation is found in one call of `simulate` at its defaults, and what that costs.

Right kernels (mbarrier pipelines, cp.async, TMA, wgmma, tcgen05, named and grid barriers, clusters, locks, flags: those of the
sanitizer's tests) are weakened, one place at a time: a barrier, fence, wait, arrival or commit that is not there, a count
that is one off, the other parity, a smaller scope, a relaxed access, another barrier, a release before its access. Some of
that breaks nothing; what is left over is printed, or explained below.

The cost of a call is that of the right kernel, loaded and run before, against one schedule: in CPU time, the least of several
runs, and in calls of functions, which are the same on a busy machine.

    python -m benchmarks.schedules [--show] [--only WORD] [--seed N]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import pyptx
from pyptx.diagnostics import SimulationError
from pyptx.simulator import LoadedKernel, load, tensor_map

_LATER = "a fence or barrier that comes later does the same"
EXPLAINED: dict[tuple[str, str], str] = {
    ("ping-pong with named barriers", "no barrier 7:"): "barrier 1 takes all four warps' arrivals in any case",
    ("ping-pong with named barriers", "another barrier 7:"): "a number that nobody else uses",
    ("a TMA store without a proxy fence", "another barrier"): "all threads of the CTA execute the instruction",
    ("a spin lock with membar and volatile", "weak"): "the lock orders the accesses",
    ("a warp's sum by volatile accesses", "weak"): "the barriers order the accesses",
    ("a warp's sum by volatile accesses", "no barrier 3:"): "the lanes above 16 add zeros",
    ("a warp's sum by volatile accesses", "no barrier 21:"): "only lane 0 reads, what it wrote itself",
    ("the last steps of a tree rely on warps in lockstep", "no barrier 7:"): "nobody stores what is loaded before it",
    ("a stage is freed before the wgmma that reads it is complete", "no wait 32:"): "an earlier wait is for all groups",
    ("a stage is freed before the wgmma that reads it is complete", "one group more in flight 32:"): "the same",
    ("tiles handed over by TMA through global memory", "no fence 3:"): _LATER,
    (
        "tiles handed over by TMA through global memory",
        "no fence 12:",
    ): "the fence after the flag is seen does the same",
    (
        "tiles handed over by TMA through global memory",
        "no fence 20:",
    ): "the fence before the flag is set does the same",
    ("a tile of another CTA is loaded by TMA without a proxy fence", "no barrier 7:"): _LATER,
    ("a tile of another CTA is loaded by TMA without a proxy fence", "no fence 5:"): _LATER,
    ("a tile of another CTA is loaded by TMA without a proxy fence", "one more 4: [empty]"): "nobody uses it",
    ("TMA loads what the CTA has just stored to global memory", "no barrier 7:"): _LATER,
    ("TMA loads what the CTA has just stored to global memory", "no fence 5:"): _LATER,
    ("TMA loads what the CTA has just stored to global memory", "one more 4: [empty]"): "nobody uses it",
    ("one lane waits for the data of all", "one more 4: [empty]"): "nobody uses it",
    ("a barrier in a branch, and the others end", "no barrier 5:"): "nobody loads what others stored",
    ("the peer of a cluster may have exited", "no arrival"): "nobody waits for it",
    ("the peer of a cluster may have exited", "one more 2: [empty]"): "nobody waits for it",
    ("the peer of a cluster may have exited", "relaxed 5:"): "nobody waits for it",
    ("the peer of a cluster may have exited", "scope 5:"): "nobody waits for it",
    ("persistent CTAs that cancel others", "scope 9:"): "the mbarrier is the CTA's own",
}
"""(kernel, what was done) -> why the variant is as right as the kernel, by the words it begins with."""


@dataclass(frozen=True)
class Case:
    """A right kernel: the text around its body, and how to launch it."""

    name: str
    head: str
    body: str
    launch: dict[str, Any]
    maps: bool

    def simulate(self, body: str, **options: Any) -> Any:
        return self.run(self.loaded(body), **options)

    def loaded(self, body: str) -> LoadedKernel:
        return load(f"{self.head}{body}\n    ret;\n}}\n")["k"]

    def run(self, kernel: LoadedKernel, **options: Any) -> Any:
        source = np.random.default_rng(3).integers(0, 1 << 20, (64, 64)).astype(np.uint32)
        if not self.maps:
            source[...] = 0
        arrays = [source, np.zeros((64, 64), np.uint32)]
        maps = [tensor_map(a, (16, 16)) for a in arrays] if self.maps else []
        return kernel.simulate(*arrays, *maps, max_steps=100_000, **self.launch, **options)


def cases() -> list[Case]:
    """The right kernels."""
    from tests.simulator import test_schedules as own
    from tests.simulator.sanitizer import test_public_reports as reports
    from tests.simulator.sanitizer import test_styles as styles

    found = [Case(s.name, reports.HEAD.replace("sm_90a", s.target), s.kernel, _launch(s), True) for s in styles.STYLES]
    known: set[str] = set()
    for r in reports.REPORTS:
        if r.kernel not in known:
            known.add(r.kernel)
            body = r.kernel.format(*r.corrected)
            found.append(Case(r.name, reports.HEAD.replace("sm_90a", r.target), body, _launch(r), True))
    for name, body, launch in (
        ("a warp's sum by volatile accesses", own.tree("bar.warp.sync 0xffffffff;"), {"grid": 1, "block": 32}),
        ("a ring of one place", own.READY + own.ring(128), {"grid": 1, "block": 160}),
        ("two groups of warps", own.groups(2), {"grid": 1, "block": 128}),
        ("a grid barrier", own.grid_barrier(4), {"grid": 4, "block": 64}),
    ):
        found.append(Case(name, own.HEAD, body, launch, False))
    return found


def _launch(case: Any) -> dict[str, Any]:
    return {"grid": case.grid, "block": case.block, "cluster": case.cluster}


GONE = [
    ("no barrier", r"(?:bar|barrier)(?:\.cta|\.warp)?\.sync\b[^;]*;"),
    ("no cluster barrier", r"barrier\.cluster\.arrive[^;]*;\s*barrier\.cluster\.wait[^;]*;"),
    ("no fence", r"(?:fence|membar)\.[^;]*;"),
    ("no wait", r"(?:cp\.async\.(?:bulk\.)?wait\w*|wgmma\.wait_group|tcgen05\.wait::\w+)[^;]*;"),
    ("no commit", r"(?:cp\.async\.(?:bulk\.)?commit_group|wgmma\.commit_group|tcgen05\.commit)[^;]*;"),
    ("no arrival", r"mbarrier\.arrive[^;]*;"),
]
CHANGED = [
    ("one more", r"(?<=mbarrier\.init\.shared\.b64 )\[\w+\], (\d+)(?=;)", lambda n: n + 1),
    ("one less", r"(?<=mbarrier\.init\.shared\.b64 )\[\w+\], (\d+)(?=;)", lambda n: n - 1),
    ("a warp less", r"\b(?:bar|barrier)\.(?:cta\.)?(?:sync|arrive) [^;,]+, (\d+)(?=;)", lambda n: n - 32),
    ("another barrier", r"\b(?:bar|barrier)\.(?:cta\.)?(?:sync|arrive) (\d+), \d+(?=;)", lambda n: n ^ 3),
    ("one group more in flight", r"wait_group(?:\.read)?(?:\.sync\.aligned)? (\d+)(?=;)", lambda n: n + 1),
    ("the other parity", r"(?:try|test)_wait\.parity\S* [^;]*, ([01])(?=;)", lambda n: 1 - n),
    ("one CTA less", r"setp\.lt\.u32 %p3, %r7, (\d+)(?=;)", lambda n: n - 1),
    ("bytes", r"expect_tx\S* [^;]*, (\d+)(?=;)", lambda n: n // 2),
]
WORDS = [
    ("relaxed", r"\.(?:release|acquire|acq_rel)(?=\.(?:gpu|cta|cluster|sys)\b|\.shared|\.global)", ".relaxed"),
    ("scope", r"(?<!multicast)(?<!::)(?<!barrier)\.(?:gpu|cluster)(?=[.; ])", ".cta"),
    ("weak", r"(?:st|ld)(\.volatile|\.relaxed\.gpu|\.release\.gpu|\.acquire\.gpu)(?=\.)", ""),
]


def variants(body: str) -> Iterator[tuple[str, str]]:
    """(what was done, the body) of each variant."""
    for name, pattern in GONE:
        for m in re.finditer(r"(?:@!?%p\d+ )?(?<![\w.])" + pattern, body):
            line = body.count("\n", 0, m.start()) + 1
            yield f"{name} {line}: {m.group()[:60]}", body[: m.start()] + body[m.end() :]
    for name, pattern, change in CHANGED:
        for m in re.finditer(pattern, body):
            value = change(int(m.group(1)))
            if value < 1 and name in ("one less", "a warp less", "one CTA less"):
                continue
            line = body.count("\n", 0, m.start()) + 1
            yield f"{name} {line}: {m.group()[:60]}", body[: m.start(1)] + str(value) + body[m.end(1) :]
    for name, pattern, word in WORDS:
        for m in re.finditer(pattern, body):
            start, end = m.span(1) if m.re.groups else m.span()
            line = body.count("\n", 0, start) + 1
            statement = body[body.rfind("\n", 0, start) + 1 :].split("\n")[0].strip()
            yield f"{name} {line}: {statement[:60]}", body[:start] + word + body[end:]
    # an arrival before the access that comes before it
    for m in re.finditer(r"([^;{}\n:]*\b(?:ld|st)\.[^;]*;)(\s*)((?:@!?%p\d+ )?mbarrier\.arrive[^;]*;)", body):
        line = body.count("\n", 0, m.start(3)) + 1
        yield (
            f"early {line}: {m.group(3)[:60]}",
            body[: m.start()] + m.group(3) + m.group(2) + m.group(1) + body[m.end() :],
        )


def _reaches_all(case: Case, what: str) -> bool:
    """Whether a smaller scope still has all threads of the launch in it."""
    return what.startswith("scope") and case.launch["grid"] == 1


def judge(case: Case, body: str, **options: Any) -> str:
    """What one call finds: rules, or how it ends."""
    try:
        report = case.simulate(body, **options)
    except SimulationError as error:
        return "error" if error.report is not None else ""
    return " ".join(sorted({getattr(f, "rule", "") for f in report.findings}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--show", action="store_true", help="print every variant with what is found")
    parser.add_argument("--only", default="", help="kernels with this word in their name")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    first = 0
    costs: list[tuple[float, float]] = []
    for case in cases():
        if options.only not in case.name:
            continue
        costs.append(cost(case, options.seed))
        if options.show:
            print(f"cost {costs[-1][0]:.2f} in CPU time, {costs[-1][1]:.2f} in calls: {case.name}")
        if said := judge(case, case.body, seed=options.seed):
            print(f"FALSE ALARM  {case.name}: {said}")
        for what, body in variants(case.body):
            try:
                text = f"{case.head}{body}\n    ret;\n}}\n"
                if any(d.severity == "error" for d in pyptx.diagnose(text)) or _reaches_all(case, what):
                    continue
                said = judge(case, body, seed=options.seed)
            except SimulationError:
                continue
            why = next((why for (k, w), why in EXPLAINED.items() if k == case.name and what.startswith(w)), "")
            if why and not said:
                continue
            kind = re.sub(r" \d+:.*", "", what)
            total[kind] += 1
            found[kind] += bool(said)
            first += bool(judge(case, body, seed=options.seed, schedules=1)) if said else 0
            if options.show or not said:
                print(f"{said or 'NOT FOUND':40} {case.name}: {what}")
    print(f"{'kind':30} {'found':>6} {'of':>6}")
    for kind, count in total.items():
        print(f"{kind:30} {found[kind]:6} {count:6}")
    n, k = sum(total.values()), sum(found.values())
    print(
        f"{'all':30} {k:6} {n:6}  {100 * k / max(n, 1):.1f} %; by the first schedule alone {100 * first / max(n, 1):.1f} %"
    )
    for name, found_costs in zip(("CPU time", "calls of functions"), zip(*costs, strict=True), strict=True):
        print(f"cost in {name}, schedules=1 is 1: median {np.median(found_costs):.2f}, most {max(found_costs):.2f}")


def cost(case: Case, seed: int) -> tuple[float, float]:
    """What the default costs, one schedule being 1: in CPU time, and in calls of functions."""
    kernel = case.loaded(case.body)
    once, default = (partial(case.run, kernel, schedules=n, seed=seed) for n in (1, None))
    for action in (once, default):
        action()
    times = [(_time(once), _time(default)) for _ in range(5)]
    least = [min(t) for t in zip(*times, strict=True)]
    return least[1] / least[0], calls(default) / calls(once)


def _time(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def calls(action: Callable[[], object]) -> int:
    """How many functions an action calls, those of NumPy among them."""
    count = 0

    def called(_frame: object, event: str, _what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


if __name__ == "__main__":
    main()
