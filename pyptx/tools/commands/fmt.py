"""`pyptx fmt`: write PTX in one canonical, readable layout."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ...diagnostics import PTXError, file_problem
from ...dialects.ptx.structure import FunctionOp, ModuleOp
from ...parser.module import parse_text
from ...passes.canonical import canonicalise
from ...passes.readable_names import rename_readable
from ...passes.verify import ptx_modules
from ...sources import encoded, files_of, read_argument, write_output
from ...text import to_ptx


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", help="PTX files, folders or patterns, or - for standard input")
    parser.add_argument("--rename", action="store_true", help="short names for registers and labels")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("-i", "--in-place", action="store_true", help="overwrite the files")
    action.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not in canonical form")


def run(options: argparse.Namespace) -> int:
    different = 0
    status = 0
    for name in files_of(options.files):
        try:
            text, label = read_argument(name)
            new = format_text(text, label, rename=options.rename)
        except (OSError, PTXError) as error:  # the other files are written all the same
            unreadable = isinstance(error, OSError)
            print(file_problem(error) if unreadable else error, file=sys.stderr)
            status = max(status, 2 if unreadable else 1)
            continue
        if options.check:
            if new != text:
                different += 1
                print(f"{name}: not in canonical form")
        elif options.in_place and name != "-":
            if new != text:
                Path(name).write_bytes(encoded(new))
        else:
            write_output(new)
    return max(status, 1 if different else 0)


def format_text(text: str, filename: str | None = None, *, rename: bool = False) -> str:
    """PTX text in canonical form. PTXError where it does not parse."""
    module = parse_text(text + "\n" if text and not text.endswith("\n") else text, filename)
    for ptx in ptx_modules(module):
        if rename:
            rename_readable(ptx)
        canonicalise(ptx, demangled(ptx))
    return to_ptx(module)


def demangled(module: ModuleOp) -> dict[str, str]:
    """C++ names of the mangled functions with a body, from c++filt; empty where it is not installed."""
    mangled = [op.symbol for op in module.body.ops if isinstance(op, FunctionOp) and op.symbol.startswith("_Z")]
    mangled = [op for op in dict.fromkeys(mangled)]
    return _filter(mangled) if mangled else {}


def _filter(mangled: Sequence[str]) -> dict[str, str]:
    tool = shutil.which("c++filt")
    if tool is None:
        return {}
    done = subprocess.run([tool], input="\n".join(mangled), capture_output=True, text=True, timeout=60, check=False)
    names = done.stdout.splitlines()
    if done.returncode or len(names) != len(mangled):
        return {}
    return {symbol: name for symbol, name in zip(mangled, names, strict=True) if name != symbol}
