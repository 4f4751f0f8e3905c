"""`pyptx check`: our verdict on PTX files, then ptxas's if it is installed."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...analysis.source_map import map_of_text
from ...diagnostics import Diagnostic, PTXError, merged
from ...parser.diagnose import judge_text, unwritten_registers
from ...sources import files_of, read_argument
from ..terminal import coloured

if TYPE_CHECKING:
    from ..ptxas import PtxasResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", help="PTX files, folders or patterns, or - for standard input")
    parser.add_argument("--no-ptxas", action="store_true", help="only our own verdict")
    parser.add_argument("--json", action="store_true", help="one JSON object per finding, in a list")


def run(options: argparse.Namespace) -> int:
    findings: list[Diagnostic] = []
    unreadable = False
    for name in files_of(options.files):
        try:
            text, label = read_argument(name)
        except OSError as error:  # the other files are judged all the same
            print(f"pyptx: {name}: {error.strerror or error}", file=sys.stderr)
            unreadable = True
            continue
        except PTXError as error:  # an encoding that PTX does not have
            found, ptxas, label = [*error.diagnostics], "", name
        else:
            found, ptxas = check_text(text, label, with_ptxas=not options.no_ptxas)
        findings += found
        if not options.json:
            for diagnostic in merged(found):
                print(coloured(diagnostic.render()))
            errors = sum(d.severity == "error" for d in found)
            judge = f"pyptx and {ptxas}" if ptxas else "pyptx"
            print(f"{label}: {errors} error{'' if errors == 1 else 's'}" if errors else f"{label}: fine ({judge})")
    if options.json:
        import json

        print(json.dumps([asdict(d) for d in findings], indent=1))
    if unreadable:
        return 2
    return 1 if any(d.severity == "error" for d in findings) else 0


def check_text(text: str, filename: str | None, *, with_ptxas: bool = True) -> tuple[list[Diagnostic], str]:
    """(findings, how ptxas was asked: `ptxas`, `ptxas -c`, or not at all). ptxas is asked only for what we accept: its
    findings are then news.
    """
    found, how = _judged(text, filename, with_ptxas)
    return map_of_text(text).attach(found), how


def _judged(text: str, filename: str | None, with_ptxas: bool) -> tuple[list[Diagnostic], str]:
    found, source = judge_text(text, filename)
    if any(d.severity == "error" for d in found):
        return found, ""
    lines = text.split("\n")
    for name, at in unwritten_registers(source):
        message = f"{name} is read, and nothing in the function writes it"
        found.append(Diagnostic("warning", message, filename, at, source_line=lines[at - 1]))
    if not with_ptxas:
        return found, ""
    from ..ptxas import ToolNotFound, target_of

    try:
        result, unresolved = _assembled(text, target_of(text) or "sm_75")
    except ToolNotFound:
        return found, ""
    for message in unresolved:
        hint = "the file is a part of a program: assemble it with ptxas -c, and link it"
        found.append(Diagnostic("warning", f"ptxas without -c refuses this file: {message}", filename, hint=hint))
    for d in result.diagnostics:
        line = lines[d.line - 1] if d.line and d.line <= len(lines) else None
        found.append(
            Diagnostic(d.severity, f"ptxas: {d.message}", filename, d.line, d.column, d.hint, source_line=line)
        )
    return found, "ptxas -c" if unresolved else "ptxas"


def _assembled(text: str, target: str) -> tuple[PtxasResult, list[str]]:
    """What ptxas says: by generating code where it can for this target, else (targets it has dropped) by checking. And
    what it could not resolve where it took the text as a part of a program only.
    """
    from ..ptxas import assemble, supported_archs

    if target.removeprefix("sm_") not in supported_archs():
        return assemble(text, target, check_only=True), []
    result = assemble(text, target)
    unresolved = [d.message for d in result.errors if "unresolved extern" in d.message.lower()]
    return (assemble(text, target, options=("-c",)), unresolved) if unresolved else (result, [])
