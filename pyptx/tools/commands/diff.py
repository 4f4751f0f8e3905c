"""`pyptx diff`: compare two PTX files up to the names of registers, labels and whatever else is local, or by what they compute."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...parser.module import parse_text
from ...passes.equivalent import differences
from ...sources import read_argument

if TYPE_CHECKING:
    from ..compare import Comparison, Store

RUN_ONLY = ("entry", "grid", "block", "cluster", "smem", "arg", "elements", "inputs", "seed", "rtol", "max_steps")
"""Options that say how kernels are run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="a PTX file, or - for standard input")
    parser.add_argument("b", help="a PTX file, or - for standard input")
    parser.add_argument("--ignore-debug", action="store_true", help="leave .loc, .file and debug sections out")
    parser.add_argument(
        "--context", type=_count, default=3, metavar="N", help="equal statements to show around each (3)"
    )
    parser.add_argument("--json", action="store_true", help="the differences as a list of objects")
    running = parser.add_argument_group(
        "running",
        "With --run, the kernels of both files run on the simulator, on random and hostile inputs. Exit status 0: all inputs that "
        "ran to their end gave the same bits; 1: something differs; 2: nothing could be compared.",
    )
    running.add_argument("--run", action="store_true", help="compare what the kernels compute")
    running.add_argument("--entry", help="this kernel only")
    running.add_argument("--grid", type=_sizes, metavar="N[,N,N]", help="CTAs (2, or two clusters)")
    running.add_argument("--block", type=_sizes, metavar="N[,N,N]", help="threads of a CTA (a guess)")
    running.add_argument("--cluster", type=_sizes, metavar="N[,N,N]", help="CTAs of a cluster")
    running.add_argument("--smem", type=_count, metavar="N", help="bytes of dynamic shared memory (all there is)")
    running.add_argument(
        "--arg", action="append", metavar="NAME=VALUE", type=_argument,
        help="a parameter of A, the same in every case: TYPE:VALUE (u32:5), zeros:TYPE:COUNT, range:TYPE:COUNT, random:TYPE:COUNT, or a .npy file",
    )  # fmt: skip
    running.add_argument("--elements", type=_positive, metavar="N", help="elements of the other arrays (65536)")
    running.add_argument("--inputs", type=_positive, metavar="N", help="random inputs (3), besides the hostile ones")
    running.add_argument("--seed", type=_count, metavar="N", help="of the random inputs (0)")
    running.add_argument(
        "--rtol", type=_tolerance, metavar="R", help="how much floats may differ, relatively (0: in no bit)"
    )
    running.add_argument(
        "--max-steps", type=_positive, metavar="N", help="instructions until a launch is stopped (100000)"
    )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of statements: write 0 or more")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a relative tolerance: write a number from 0 to 1, such as 1e-6"
        )
    return value


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.strip().isdecimal() and int(p) for p in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not one to three positive integers, such as 4 or 16,16")
    return tuple(map(int, parts))


def _argument(text: str) -> tuple[str, Any]:
    from .debug import argument

    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as n=u32:100")
    try:
        return name, argument(value, 0)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    if options.a == options.b == "-":
        print("pyptx diff: only one of the files can be standard input", file=sys.stderr)
        return 2
    given = [name for name in RUN_ONLY if getattr(options, name) is not None]
    if given and not options.run:
        print(f"pyptx diff: --{given[0].replace('_', '-')} says how kernels are run: add --run", file=sys.stderr)
        return 2
    texts = [read_argument(name) for name in (options.a, options.b)]
    if options.run:
        return _run_both(texts, options)
    a, b = (parse_text(*text) for text in texts)
    found = differences(a, b, ignore_debug=options.ignore_debug, context=options.context)
    if options.json:
        print(json.dumps([asdict(d) for d in found], indent=1))
    elif found:
        print(f"--- {options.a}\n+++ {options.b}")
        for difference in found:
            print(difference.text)
    return 1 if found else 0


def _run_both(texts: list[tuple[str, str]], options: argparse.Namespace) -> int:
    from ..compare import Settings, Version, compare

    named = {"arg": "arguments", "rtol": "relative"}
    given = {named.get(n, n): v for n in RUN_ONLY if (v := getattr(options, n)) is not None}
    if "arguments" in given:
        given["arguments"] = dict(given["arguments"])
    a, b = (Version.of(*text) for text in texts)
    found = compare(a, b, Settings(**given))
    if options.json:
        print(json.dumps([asdict(comparison) for comparison in found], indent=1))
    else:
        print("\n".join(_described(comparison) for comparison in found))
    if any(c.count("differs") for c in found):
        return 1
    return 0 if all(c.count("same") for c in found) else 2


def _described(comparison: Comparison) -> str:
    """A paragraph for reading: the counts, and the first difference."""
    name = comparison.a if comparison.a == comparison.b else f"{comparison.a} and {comparison.b}"
    counts = [f"{n} {text}" for r, text in _RESULTS.items() if (n := comparison.count(r))]
    lines = [f"{name}: grid {_listed(comparison.grid)}, block {_listed(comparison.block)}: {', '.join(counts)}"]
    lines += [f"  {note}" for note in comparison.notes]
    stopped: dict[str, list[str]] = {}
    for outcome in comparison.outcomes:
        if outcome.result == "stops":
            stopped.setdefault(outcome.why, []).append(outcome.case)
    for why, inputs in stopped.items():
        listed = "every input" if len(inputs) == len(comparison.outcomes) else "; ".join(inputs)
        lines.append(f"  {listed}: both stop: {why}")
    first = next((o for o in comparison.outcomes if o.difference is not None), None)
    if first is not None and first.difference is not None:
        lines.append(f"  {first.case}: {first.difference.what}")
        lines += [f"    {_store(s)}" for s in (first.difference.a, first.difference.b) if s is not None]
    return "\n".join(lines)


_RESULTS = {
    "same": "inputs with the same results",
    "differs": "with different ones",
    "stops": "on which both stop with an error",
}


def _listed(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _store(store: Store) -> str:
    place = f"{store.file}:{store.line}" if store.line is not None else store.file
    by = f" of thread {store.thread} of CTA {store.cta}" if store.thread is not None else ""
    return f"{place}: {store.value} by `{store.text}`{by}" if by else f"{place}: {store.value}: {store.text}"
