"""`pyptx sass`: the machine code that ptxas makes of a PTX file, or that a cubin has, with control codes, places and pipes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...diagnostics import PTXError, UsageError
from ...prediction.pipes import pipe_of
from ...runtime.compile import NoCompiler
from ...sass import Function, Instruction, Listing, SassError, assemble, read
from ...sources import read_argument
from ..ptxas import ToolNotFound

CUBIN = b"\x7fELF"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="PTX file, cubin, or - for PTX from standard input")
    parser.add_argument("--arch", help="what ptxas makes code for, such as sm_90a (default: the .target of the text)")
    parser.add_argument("--kernel", metavar="NAME", help="only this function")
    parser.add_argument("--ptx", action="store_true", help="the PTX line before the instructions that it becomes")
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(options: argparse.Namespace) -> int:
    try:
        listing, text = _listing(options.file, options.arch)
    except (ToolNotFound, NoCompiler) as error:
        raise UsageError(str(error)) from None
    except SassError as error:
        raise PTXError(str(error)) from None
    if options.ptx and not text:
        print(f"pyptx: {options.file} is a cubin, which has no PTX: --ptx shows none", file=sys.stderr)
    functions = [f for f in listing if options.kernel in (None, f.name)]
    if not functions:
        names = ", ".join(listing.functions) or "none"
        raise UsageError(f"{options.kernel} is not a function of {options.file}, which has {names}")
    if options.json:
        print(
            json.dumps(
                {"file": options.file, "arch": listing.arch, "functions": [as_json(f) for f in functions]}, indent=1
            )
        )
    else:
        print("\n\n".join(as_text(f, text.split("\n") if options.ptx else ()) for f in functions))
    odd = sorted({i.mnemonic for f in functions for i in f if pipe_of(i) is None})
    if odd:
        print(f"pyptx: the pipe of {', '.join(odd)} is not known", file=sys.stderr)
    return 1 if odd else 0


def _listing(name: str, arch: str | None) -> tuple[Listing, str]:
    data = b"" if name == "-" else Path(name).read_bytes()
    if data.startswith(CUBIN):
        if arch is not None:
            raise UsageError(f"{name} is a cubin, whose code is for one architecture: --arch is for PTX")
        return read(data), ""
    text, label = read_argument(name)
    return assemble(text, arch, filename=label), text


def live_count(instruction: Instruction) -> int:
    """Registers of a thread that are live after it."""
    return sum(r[0] == "R" for r in instruction.live)


def as_text(function: Function, lines: Sequence[str]) -> str:
    out = [
        f"{function.name}  ({function.arch}, {function.registers} registers, {function.shared_bytes} bytes of static shared memory)",
        f"  {'addr':<6}{'wait:rd:wr:yield:stall':<24}{'pipe':<14}{'live':>4}  {'line':>5}  instruction",
    ]
    before: int | None = None
    for i in function:
        if i.line is not None and i.line != before and 0 < i.line <= len(lines):
            out.append(f"{'':55}// {lines[i.line - 1].strip()}")
        before = i.line
        place = "" if i.line is None else str(i.line)
        source = f"  // {i.source[0].rsplit('/', 1)[-1]}:{i.source[1]}" if i.source else ""
        out.append(
            f"  {i.address:04x}  {i.control.short:<24}{pipe_of(i) or '?':<14}{live_count(i):>4}  {place:>5}  {i.text}{source}"
        )
    return "\n".join(out)


def as_json(function: Function) -> dict[str, Any]:
    return {
        "name": function.name,
        "registers": function.registers,
        "shared_bytes": function.shared_bytes,
        "instructions": [
            {
                "address": i.address,
                "text": i.text,
                "opcode": i.opcode,
                "modifiers": i.modifiers,
                "control": {
                    "stall": i.control.stall,
                    "yield": i.control.yields,
                    "write_barrier": i.control.write_barrier,
                    "read_barrier": i.control.read_barrier,
                    "wait": i.control.wait,
                    "reuse": i.control.reuse,
                },
                "pipe": pipe_of(i),
                "line": i.line,
                "source": i.source,
                "live": sorted(i.live),
            }
            for i in function
        ],
    }
