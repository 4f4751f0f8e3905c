"""Every modifier that ptxas knows, and operands of every kind, put into an instruction of every form: where do the verdicts differ?

    python -m benchmarks.sweep [--opcode ld] [--target sm_107a] [--edits operands]

The fuzzer edits instructions with modifiers of our own forms, so it cannot find what the dialect has never heard of. This
goes the other way: it takes a few instructions of each form, adds each word of `draws.known_words`, or puts it in the
place of each modifier, puts each of `OPERANDS` before, after or in the place of each operand, leaves each operand out, and compares the
verdicts at the newest version. Prints the differences by opcode and message.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator

from pyptx.dialects.ptx.instruction import OPCODES

from .draws import Draw, known_words, split_operands
from .explained import Disagreement, explanation
from .fuzz_verdicts import asked, ours

VERSION = "9.5"
OPERANDS = (
    "_ %p1 !%p1 %b1 %h1 %r1 %d1 %q1 %f1 %g1 1 -1 1.0 [gb] [sb] [cb] [lb] [%r1] [%d1] {%r1,%r2} {%r1,%r2,%r3,%r4} {%d1,%d2} {%h1,%h2}"
    " %r1|%p1 %p1|%p2 gb fn Lx tx su %tid.x (%r1) [gb,{%r1}] [tx,{%r1,%r2}] {}"
).split()
TARGETS = ("sm_107a", "sm_100a", "sm_120a", "sm_90a")


def instances(opcode: str, target: str, forms: int, each: int) -> Iterator[str]:
    """Up to `each` instructions of up to `forms` forms of an opcode that we take at `target`."""
    draw = Draw(f"sweep/{opcode}", oddness=0)
    every = OPCODES[opcode].forms
    for form in every[:: -(-len(every) // forms)]:
        tries = {draw.of_form(OPCODES[opcode], form) for _ in range(12)}
        lines = sorted((t for t in tries if t is not None), key=len)
        legal = [line for line, wrong in zip(lines, ours(lines, VERSION, target), strict=True) if not wrong]
        yield from (legal[i * len(legal) // each] for i in range(min(each, len(legal))))


def with_operands(line: str) -> Iterator[str]:
    """The line with one operand more, less, or another."""
    head, _, tail = line.rstrip(";").partition(" ")
    own = split_operands(tail)
    for i in range(len(own) + 1):
        for other in OPERANDS:
            yield f"{head} {', '.join((*own[:i], other, *own[i:]))};"
            if i < len(own):
                yield f"{head} {', '.join((*own[:i], other, *own[i + 1 :]))};"
        if i < len(own):
            yield f"{head} {', '.join((*own[:i], *own[i + 1 :]))};".replace(" ;", ";")


def with_words(line: str, opcode: str, new: list[str]) -> Iterator[str]:
    """The line with each word added after its modifiers, or in the place of one of them."""
    head, gap, tail = line.partition(" ")
    head, end = (head.rstrip(";"), ";") if not gap else (head, "")
    own = head[len(opcode) :].split(".")[1:]
    for word in new:
        if word not in own:
            yield f"{head}.{word}{end}{gap}{tail}"
            for i in range(len(own)):
                yield f"{'.'.join((opcode, *own[:i], word, *own[i + 1 :]))}{end}{gap}{tail}"


def differences(lines: list[str], target: str) -> Iterator[Disagreement]:
    """Where we and ptxas differ, in the file and alone (see `fuzz_verdicts.rounds`)."""
    for start in range(0, len(lines), 20000):
        part = lines[start : start + 20000]
        for line, refused, wrong in zip(part, asked(part, VERSION, target), ours(part, VERSION, target), strict=True):
            if bool(refused) == bool(wrong):
                continue
            found = Disagreement(line, VERSION, target, not refused, (wrong or refused)[0])
            if explanation(found) is None:
                (refused,), (wrong,) = asked([line], VERSION, target), ours([line], VERSION, target)
            if bool(refused) != bool(wrong):
                yield found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--opcode", help="only these (comma separated)")
    arguments.add_argument("--target", help="only this one")
    arguments.add_argument("--each", type=int, default=1, help="instructions of a form")
    arguments.add_argument("--forms", type=int, default=12, help="forms of an opcode, evenly, where it has more")
    arguments.add_argument("--edits", choices=("words", "operands"), default="words")
    options = arguments.parse_args()
    total = differing = 0
    explained: Counter[str] = Counter()
    for target in (options.target,) if options.target else TARGETS:
        for opcode in options.opcode.split(",") if options.opcode else sorted(OPCODES):
            first = list(instances(opcode, target, options.forms, options.each))
            if options.edits == "words":
                edited = (e for line in first for e in with_words(line, opcode, known_words()))
            else:
                edited = (e for line in first for e in with_operands(line))
            lines = list(dict.fromkeys(edited))
            groups: dict[str, list[Disagreement]] = defaultdict(list)
            for found in differences(lines, target):
                reason = explanation(found)
                if reason is None:
                    groups[found.kind].append(found)
                else:
                    explained[reason.kind] += 1
            total += len(lines)
            differing += sum(map(len, groups.values()))
            for kind, cases in sorted(groups.items(), key=lambda g: -len(g[1])):
                shortest = min(cases, key=lambda d: len(d.text))
                print(f"{len(cases):5} {target} {kind}\n      {shortest.text[:170]}", flush=True)
    print(f"explained: {dict(explained.most_common())}")
    print(f"{total} instructions, {differing} unexplained disagreements")


if __name__ == "__main__":
    main()
