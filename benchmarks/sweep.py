"""Every modifier that ptxas knows, put into an instruction of every form: where do the verdicts differ?

    python -m benchmarks.sweep [--opcode ld] [--target sm_107a] [--each 2] [--show 60]

The fuzzer edits instructions with modifiers of our own forms, so it cannot find what the dialect has never heard of. This
goes the other way: it takes a few instructions of each form, adds each word of `WORDS` and of `isa/modifiers.json`, or puts it in the
place of each modifier, and compares the verdicts at the newest version. Prints the differences by opcode and word.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator

import pyptx.dialects.ptx.all
from pyptx.dialects.ptx.instruction import OPCODES

from .draws import Draw
from .explained import Disagreement, explanation
from .fuzz_verdicts import SHARED, asked, ours

import os
KEEP = open(os.environ["KEEP"],"a") if "KEEP" in os.environ else None
VERSION = "9.5"
TARGETS = ("sm_107a", "sm_100a", "sm_120a", "sm_90a")
WORDS = (
    "2pi pzo e2m1p4x4 ue8m0x4 kind::ti16 decompress::lut::b collector::b::fill collector::b::use collector::b::lastuse"
    " collector::b::discard scaled::n1::ue8m0 multicast::cluster::16b multicast::cluster::32b im2col_no_offs::w proxy::readonly fabric"
    " sp::1:2 sp::1:4 sp::1:8 sp::1:16 sp::2:4 sp::2:8 sp::2:16 sp::4:8 sp::4:16 s8.s4 uni parity expect_tx cc wide lo hi"
).split()
"""Words of the manual's syntax lines beyond those of `isa/modifiers.json`."""


def words() -> list[str]:
    """Every modifier to try, those of our own forms among them."""
    known = json.loads((SHARED / "isa" / "modifiers.json").read_text())["known"]
    own = (v for cls in OPCODES.values() for form in cls.forms for slot in form.slots for v in slot.values)
    return sorted({*known, *WORDS, *own})


def instances(opcode: str, target: str, each: int) -> Iterator[str]:
    """Up to `each` instructions of every form of an opcode that we take at `target`."""
    draw = Draw(f"sweep/{opcode}", oddness=0)
    draw.classes = [OPCODES[opcode]]
    for form in OPCODES[opcode].forms:
        tries = {draw.of_form(OPCODES[opcode], form) for _ in range(12)}
        lines = sorted((t for t in tries if t is not None), key=len)
        legal = [line for line, wrong in zip(lines, ours(lines, VERSION, target), strict=True) if not wrong]
        yield from (legal[i * len(legal) // each] for i in range(min(each, len(legal))))


def edits(line: str, opcode: str, new: list[str]) -> Iterator[str]:
    """The line with each word added behind its modifiers, or in the place of one of them."""
    head, gap, tail = line.partition(" ")
    head, end = (head.rstrip(";"), ";") if not gap else (head, "")
    own = head[len(opcode) :].split(".")[1:]
    for word in new:
        if word not in own:
            yield f"{head}.{word}{end}{gap}{tail}"
            for i in range(len(own)):
                yield f"{'.'.join((opcode, *own[:i], word, *own[i + 1 :]))}{end}{gap}{tail}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--opcode", help="only these (comma separated)")
    arguments.add_argument("--target", help="only this one")
    arguments.add_argument("--each", type=int, default=2, help="instructions of a form")
    arguments.add_argument("--show", type=int, default=200)
    options = arguments.parse_args()
    new = words()
    total = differing = explained = 0
    for target in (options.target,) if options.target else TARGETS:
        for opcode in options.opcode.split(",") if options.opcode else sorted(OPCODES):
            lines = list(dict.fromkeys(e for line in instances(opcode, target, options.each) for e in edits(line, opcode, new)))
            groups: dict[str, list[Disagreement]] = defaultdict(list)
            for start in range(0, len(lines), 20000):
                part = lines[start : start + 20000]
                for line, refused, wrong in zip(part, asked(part, VERSION, target), ours(part, VERSION, target), strict=True):
                    if bool(refused) == bool(wrong):
                        continue
                    found = Disagreement(line, VERSION, target, not refused, (wrong or refused)[0])
                    if explanation(found) is not None:
                        explained += 1
                        continue
                    (refused,), (wrong,) = asked([line], VERSION, target), ours([line], VERSION, target)
                    if bool(refused) == bool(wrong):
                        continue
                    groups[found.kind].append(found)
                    if KEEP: KEEP.write(json.dumps([line, target, found.accepted, found.message])+"\n")
            total += len(lines)
            differing += sum(map(len, groups.values()))
            for kind, cases in sorted(groups.items(), key=lambda g: -len(g[1]))[: options.show]:
                shortest = min(cases, key=lambda d: len(d.text))
                print(f"{len(cases):5} {target} {kind}\n      {shortest.text[:170]}", flush=True)
    print(f"{total} instructions, {differing} unexplained disagreements, {explained} explained")


if __name__ == "__main__":
    main()
