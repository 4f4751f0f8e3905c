"""Reading, judging and printing PTX text: lines/s on generated files, and by file over the corpus if it is there.

python -m benchmarks.text [--corpus] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pyptx
from benchmarks._table import Table, measure
from pyptx.analysis.cfg import ops_of
from pyptx.dialects.ptx.instruction import Instruction, problem_of
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.passes.verify import module_diagnostics
from pyptx.runtime.ptxas import ToolNotFound, checking_arch, run_ptxas

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"


def generated(lines: int) -> str:
    """A kernel of about that many lines, like compiler output: loops, guards, loads, arithmetic, stores."""
    body: list[str] = []
    label = 0
    while len(body) < lines - 20:
        n = len(body)
        r = [f"%r{(n + k) % 900 + 1}" for k in range(8)]
        f = [f"%f{(n + k) % 900 + 1}" for k in range(8)]
        body += [
            f"$L{label}:",
            f"\tld.global.nc.v2.f32 {{{f[0]}, {f[1]}}}, [%rd{n % 90 + 1}+{n % 64 * 4}];",
            f"\tmad.lo.s32 {r[0]}, {r[1]}, {n % 1000}, {r[2]};",
            f"\tfma.rn.f32 {f[2]}, {f[0]}, {f[1]}, {f[3]};",
            f"\tfma.rn.f32 {f[3]}, {f[2]}, {f[0]}, {f[4]};",
            f"\tadd.f32 {f[4]}, {f[3]}, 0f3F800000;",
            f"\tshl.b32 {r[3]}, {r[0]}, 2;",
            f"\tand.b32 {r[4]}, {r[3]}, {n % 255};",
            f"\tcvt.rn.f32.s32 {f[5]}, {r[4]};",
            f"\tmul.f32 {f[6]}, {f[5]}, {f[4]};",
            f"\tst.global.f32 [%rd{n % 90 + 2}], {f[6]};",
            f"\tsetp.lt.s32 %p{label % 8 + 1}, {r[0]}, {r[4]};",
            f"\t@%p{label % 8 + 1} bra $L{label};",
        ]
        label += 1
    head = (
        ".version 8.0\n.target sm_90\n.address_size 64\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n"
        "\t.reg .pred %p<10>;\n\t.reg .b32 %r<1000>;\n\t.reg .f32 %f<1000>;\n\t.reg .b64 %rd<100>;\n\n"
    )
    return head + "\n".join(body) + "\n\tret;\n}\n"


def parse_verified(text: str) -> ModuleOp:
    inner = pyptx.parse(text).body.block.first_op
    assert isinstance(inner, ModuleOp)
    errors = module_diagnostics(inner)
    assert not errors, errors[0].render()
    return inner


def instructions(module: ModuleOp) -> list[Instruction]:
    return [op for f in module.functions for b in f.blocks for op in ops_of(b) if isinstance(op, Instruction)]


def generated_rows(table: Table, sizes: list[int]) -> None:
    for size in sizes:
        text = generated(size)
        lines = text.count("\n")
        timing = measure(lambda text=text: parse_verified(text), repeats=3)
        table.add(f"parse + verify, {lines} lines", lines / timing.median, at_least=60_000, note=timing)
        timing = measure(lambda text=text: pyptx.diagnose(text), repeats=3)
        table.add(f"diagnose, {lines} lines", lines / timing.median, at_least=120_000, note=timing)
        module = parse_verified(text)
        timing = measure(lambda module=module: pyptx.to_ptx(module), repeats=3)
        table.add(f"print, {lines} lines", lines / timing.median, at_least=250_000, note=timing)


def verify_row(size: int) -> None:
    table = Table("verify one op, warm", "us/op")
    module = parse_verified(generated(size))
    table.add(f"verdict, {len(instructions(module))} generated ops", verdict_cost(module), at_most=1.5)
    table.print()


def verdict_cost(module: ModuleOp) -> float:
    """Microseconds for a verdict on each instruction of a module that was verified before, over five passes.

    One pass would time the collection before it, which empties the CPU's caches.
    """
    ops, target, passes = instructions(module), module.target, 5
    timing = measure(lambda: [problem_of(op, target) for _ in range(passes) for op in ops], repeats=3)
    return 1e6 * timing.median / max(passes * len(ops), 1)


def import_rows() -> None:
    table = Table("import, in a fresh process", "ms")
    for what, code in (
        ("python alone", "pass"),
        ("numpy, ml_dtypes and xdsl's builtin", "import numpy, ml_dtypes, xdsl.dialects.builtin"),
        ("pyptx, full dialect", "import pyptx, pyptx.text, numpy, ml_dtypes; pyptx.parse"),
    ):
        times: list[float] = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(1e3 * (time.perf_counter() - start))
        budget = 300 if what.startswith("pyptx") else None
        table.add(what, statistics.median(times), at_most=budget, note="median of 7, wall clock")
    table.print()


def memory_row(size: int) -> None:
    text = generated(size)
    lines = text.count("\n")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    module = pyptx.parse(text)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    table = Table("memory of the IR", "bytes/line")
    table.add(f"parse, {lines} lines", (after - before) / lines, at_most=2500)
    table.print()
    del module


def ptxas_seconds(text: str, target: str) -> float | None:
    """Wall-clock seconds that ptxas takes to parse and check the file, without generating code; None without it."""
    start = time.perf_counter()
    try:
        run_ptxas(text, ("-arch", checking_arch(target), "-w"))
    except ToolNotFound:
        return None
    return time.perf_counter() - start


def corpus_rows() -> None:
    table = Table("corpus, files of 1,000 lines and more", "lines/s")
    first: list[float] = []
    parsed: list[float] = []
    printed: list[float] = []
    diagnosed: list[float] = []
    judged: list[float] = []
    for path in sorted(CORPUS.rglob("*.ptx")):
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
        lines = text.count("\n")
        if lines < 1000:
            continue
        start = time.process_time()
        try:
            module = pyptx.parse(text)
        except pyptx.PTXError:
            continue
        module_diagnostics(module)
        first.append(lines / (time.process_time() - start))
        both = measure(lambda text=text: module_diagnostics(pyptx.parse(text)), repeats=3)
        parsed.append(lines / both.median)
        printed.append(lines / measure(lambda module=module: pyptx.to_ptx(module), repeats=3).median)
        diagnosed.append(lines / measure(lambda text=text: pyptx.diagnose(text), repeats=3).median)
        inner = module.body.block.first_op
        assert isinstance(inner, ModuleOp)
        judged.append(verdict_cost(inner))
        theirs = ptxas_seconds(text, inner.target.target)
        note = f"{lines} lines; print {printed[-1]:,.0f}"
        if theirs is not None:
            note += f"; ptxas {lines / theirs:,.0f}"
        table.add(str(path.relative_to(CORPUS)), parsed[-1], at_least=40_000, note=note)
    table.print()
    total = Table(f"corpus, medians over {len(parsed)} files", "lines/s")
    total.add("parse + verify", statistics.median(parsed), at_least=60_000, note=f"slowest {min(parsed):,.0f}")
    total.add(
        "parse + verify, the first time in a process", statistics.median(first), note=f"slowest {min(first):,.0f}"
    )
    total.add("diagnose", statistics.median(diagnosed), at_least=120_000, note=f"slowest {min(diagnosed):,.0f}")
    total.add("print", statistics.median(printed), at_least=250_000, note=f"slowest {min(printed):,.0f}")
    total.print()
    warm = Table("verify one op of the corpus, warm", "us/op")
    warm.add("verdict, median of the files", statistics.median(judged), at_most=1.5, note=f"slowest {max(judged):.2f}")
    warm.print()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--corpus", action="store_true", help="by file over ../shared/corpus too")
    arguments.add_argument("--quick", action="store_true", help="small sizes only")
    options = arguments.parse_args()
    import_rows()
    table = Table("PTX text", "lines/s")
    generated_rows(table, [1_000] if options.quick else [1_000, 10_000, 50_000])
    table.print()
    verify_row(10_000)
    memory_row(10_000)
    if options.corpus and CORPUS.is_dir():
        corpus_rows()


if __name__ == "__main__":
    main()
