"""`pyptx diff`: compare two PTX files up to the names of registers, labels and whatever else is local."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from ...parser.module import parse_text
from ...passes.equivalent import differences
from ...sources import read_argument

UNREADABLE = 2
"""Exit status for PTX that cannot be read: 1 says that the files differ."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="a PTX file, or - for standard input")
    parser.add_argument("b", help="a PTX file, or - for standard input")
    parser.add_argument("--ignore-debug", action="store_true", help="leave .loc, .file and debug sections out")
    parser.add_argument(
        "--context", type=_count, default=3, metavar="N", help="equal statements to show around each (3)"
    )
    parser.add_argument("--json", action="store_true", help="the differences as a list of objects")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of statements: write 0 or more")
    return int(text)


def run(options: argparse.Namespace) -> int:
    if options.a == options.b == "-":
        print("pyptx diff: only one of the files can be standard input", file=sys.stderr)
        return 2
    a, b = (parse_text(*read_argument(name)) for name in (options.a, options.b))
    found = differences(a, b, ignore_debug=options.ignore_debug, context=options.context)
    if options.json:
        print(json.dumps([asdict(d) for d in found], indent=1))
    elif found:
        print(f"--- {options.a}\n+++ {options.b}")
        for difference in found:
            print(difference.text)
    return 1 if found else 0
