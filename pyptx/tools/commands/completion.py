"""`pyptx completion`: the completion script of a shell, made by shtab from the parser."""

from __future__ import annotations

import argparse
import sys

from ...diagnostics import install

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help='for bash: eval "$(pyptx completion bash)"')


def run(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        message = f"completion scripts need shtab: {install('completion')}"
        print(f"pyptx: {message}", file=sys.stderr)
        return 2
    from ..cli import COMMANDS, make_parser

    print(shtab.complete(make_parser(COMMANDS, COMMANDS), shell=options.shell))
    return 0
