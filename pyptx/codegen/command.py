"""The command line of `python -m pyptx.codegen` and `pyptx transpile`."""

from __future__ import annotations

import argparse

from ..sources import encoded, read_argument, write_output
from . import text_to_python


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="PTX file, or - for standard input")
    parser.add_argument(
        "--sugar", action="store_true", help="readable Python: structured control flow, operators, names"
    )
    parser.add_argument("--no-trivia", action="store_true", help="without comments and the layout of the file")
    parser.add_argument("--name", help="with --sugar: name of the first kernel's function (its own)")
    parser.add_argument("--runnable", action="store_true", help="add a main that runs the kernels on the simulator")
    parser.add_argument("--allow-unknown", action="store_true", help="carry unknown instructions through as they are")
    parser.add_argument("-o", "--output", help="write here instead of to standard output")


def run(options: argparse.Namespace) -> int:
    text, name = read_argument(options.file)
    program = text_to_python(
        text, filename=name, sugar=options.sugar, kernel_name=options.name, trivia=not options.no_trivia,
        runnable=options.runnable, allow_unknown=options.allow_unknown,
    )  # fmt: skip
    if options.output:
        with open(options.output, "wb") as file:
            file.write(encoded(program))
    else:
        write_output(program)
    return 0
