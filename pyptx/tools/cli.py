"""The `pyptx` command. Each subcommand is a module of `pyptx.tools.commands` with `add_arguments(parser)` and
`run(options) -> int`.

Exit status: 0 fine, 1 findings, differences or PTX that cannot be read (`PTXError`), 2 usage (`UsageError`: bad arguments, missing
tool; `OSError`: unreadable file). With `--json`, errors in the PTX are `{"errors": [...]}`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterable, Sequence
from importlib import import_module

from .. import __version__, dialects
from ..sources import make_output_total
from ..ssa.collector import gc_paused

COMMANDS: dict[str, str] = {
    "analyse": "pressure, loops, occupancy, bank conflicts, traffic and suspicious code, as text, JSON or HTML",
    "cache": "what is in the disk cache of compiled kernels; empty it",
    "check": "report what ptxas would refuse, with the place and what would be legal",
    "completion": "what a shell needs to complete this command line",
    "debug": "run a kernel on the simulator step by step",
    "diff": "compare two PTX files up to the names of registers and labels",
    "fmt": "write PTX in one canonical, readable layout",
    "lsp": "the language server for editors: diagnostics, completion, hover, rename and the rest",
    "info": "versions, tools found, GPU, cache",
    "puzzle": "small kernels to write, judged by the simulator and its sanitizer",
    "sass": "the machine code of a kernel with control codes, PTX lines, live registers and pipes",
    "transpile": "turn PTX into Python that gives it back",
}
"""Subcommand -> one line of help."""
TEXT_ONLY = frozenset({"check"})
"""Subcommands that judge text: their process makes no IR, and does not import xDSL."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    wanted = next((w for w in words if not w.startswith("-")), None)
    if arguments is None:  # the process is ours
        make_output_total()
        dialects.makes_ir = wanted not in TEXT_ONLY
    named = words[:1] if words and words[0] in COMMANDS else list(COMMANDS)  # one, or all for the help
    parser = make_parser(named, [wanted] if wanted in COMMANDS else [])
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help()
        return 2
    from ..diagnostics import PTXError, UsageError, file_problem

    command = _module(options.command)
    try:
        return int(command.run(options))
    except PTXError as error:
        if getattr(options, "json", False):
            import json
            from dataclasses import asdict

            print(json.dumps({"errors": [asdict(d) for d in error.diagnostics]}, indent=1))
        else:
            print(error, file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        return 0
    except OSError as error:
        print(file_problem(error), file=sys.stderr)
        return 2


def make_parser(names: Iterable[str], complete: Container[str]) -> argparse.ArgumentParser:
    """The parser of the command line with these commands; those in `complete`, which are imported, with their arguments."""
    parser = argparse.ArgumentParser(
        prog="pyptx", description="Check, format, compare, analyse, debug and translate PTX."
    )
    parser.add_argument("--version", action="version", version=f"pyptx {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="command")
    for name in names:
        text = COMMANDS[name]
        sub = subparsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name in complete:
            _module(name).add_arguments(sub)
    return parser


def _module(name: str):
    with gc_paused():  # what an import makes stays
        return import_module(f".commands.{name}", __package__)


if __name__ == "__main__":
    sys.exit(main())
