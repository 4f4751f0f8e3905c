"""What the tests of the passes run on: a fixed sample of the corpus over its producers, and programs made at random."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.parser.module import parse_text
from tests.conftest import CORPUS, corpus_files

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
SIZE = 60_000
"""Bytes; larger files say nothing more about a pass and cost ptxas seconds."""


def corpus_sample(count: int = 60) -> list[Path]:
    """The same `count` files each time, taken in turn from the producers in the corpus."""
    files = corpus_files()
    if len(files) < count:
        return files
    by_producer: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        if path.stat().st_size <= SIZE:
            by_producer[path.relative_to(CORPUS).parts[0]].append(path)
    for paths in by_producer.values():
        random.Random(4).shuffle(paths)
    found: list[Path] = []
    rank = 0
    while len(found) < count:
        found += [paths[rank] for _, paths in sorted(by_producer.items()) if rank < len(paths)]
        rank += 1
    return found[:count]


def text_of(path: Path) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def ptx_of(text: str, name: str | None = None) -> ModuleOp:
    inner = parse_text(text, name).body.block.first_op
    assert isinstance(inner, ModuleOp)
    return inner


def random_program(seed: int) -> str:
    """A kernel of loops, branches, guarded writes and reused registers that ends; it stores 8 words per thread."""
    rng = random.Random(seed)
    lines: list[str] = []
    labels = iter(f"L{i}" for i in range(1000))
    counters = iter(f"%c{i}" for i in range(100))

    def register() -> str:
        return f"%r{rng.randrange(8)}"

    def operand() -> str:
        return register() if rng.random() < 0.7 else str(rng.randrange(-3, 9))

    def statement(depth: int) -> None:
        kind = rng.random()
        if kind < 0.12:
            lines.append(f"\tmov.b32 {register()}, {register()};")
        elif kind < 0.2:
            lines.append(f"\tmov.b32 {register()}, {rng.randrange(-5, 50)};")
        elif kind < 0.5:
            opcode = rng.choice(
                ["add.s32", "sub.s32", "mul.lo.s32", "xor.b32", "and.b32", "or.b32", "min.s32", "max.u32"]
            )
            lines.append(f"\t{opcode} {register()}, {register()}, {operand()};")
        elif kind < 0.6:
            lines.append(
                f"\tsetp.{rng.choice(['lt', 'ge', 'eq'])}.s32 %p{rng.randrange(3)}, {register()}, {operand()};"
            )
        elif kind < 0.72:
            mark = rng.choice(["", "!"])
            lines.append(f"\t@{mark}%p{rng.randrange(3)} add.s32 {register()}, {register()}, {operand()};")
        elif kind < 0.78:
            lines.append(f"\tselp.b32 {register()}, {register()}, {operand()}, %p{rng.randrange(3)};")
        elif kind < 0.9 and depth:
            end = next(labels)
            other = next(labels) if rng.random() < 0.5 else None
            lines.append(f"\t@%p{rng.randrange(3)} bra {other or end};")
            block(depth - 1)
            if other:
                lines.append(f"\tbra {end};")
                lines.append(f"{other}:")
                block(depth - 1)
            lines.append(f"{end}:")
        elif depth:
            top, counter = next(labels), next(counters)
            lines.append(f"\tmov.u32 {counter}, 0;")
            lines.append(f"{top}:")
            block(depth - 1)
            lines.append(f"\tadd.u32 {counter}, {counter}, 1;")
            lines.append(f"\tsetp.lt.u32 %q, {counter}, {rng.randrange(1, 4)};")
            lines.append(f"\t@%q bra {top};")

    def block(depth: int) -> None:
        for _ in range(rng.randrange(2, 6)):
            statement(depth)

    for _ in range(4):
        block(2)
    start = [f"\tmov.b32 %r{i}, {rng.randrange(20)};" for i in range(1, 8)]
    start += [f"\tsetp.gt.s32 %p{i}, %r{i}, %r0;" for i in range(3)]
    stores = [f"\tst.global.u32 [%rd2+{4 * i}], %r{i};" for i in range(8)]
    return "\n".join(
        [
            ".version 8.0", ".target sm_80", ".address_size 64", ".visible .entry k(.param .u64 out)", "{",
            "\t.reg .pred %p<3>, %q;", "\t.reg .b32 %r<8>, %c<100>;", "\t.reg .b64 %rd<3>;",
            "\tmov.u32 %r0, %tid.x;", "\tld.param.u64 %rd1, [out];", "\tmul.wide.u32 %rd2, %r0, 32;",
            "\tadd.u64 %rd2, %rd1, %rd2;", *start, *lines, *stores, "\tret;", "}", "",
        ]
    )  # fmt: skip
