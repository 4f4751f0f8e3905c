"""Findings for people: causes before symptoms, and one for each mistake, though unrolled code shows it at every register and
address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from ...analysis.source_map import SUFFIXES
from ...diagnostics import Diagnostic, more_places, shape_of
from .finding import Finding
from .rule import NAMED

LONG = re.compile(r"\{(%[\w$.]+),(?:\s*%[\w$.]+,){3,}\s*(%[\w$.]+)\}")
"""A list of five registers or more."""
_GUARD = re.compile(r"^@!?\S+\s+")


def grouped(findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The first finding of each rule between the same lines of the source, or between instructions of one shape where the
    source is PTX, which says how many there are and where; long lists of registers show their ends. Errors come before
    warnings, and causes before symptoms.
    """
    groups: dict[object, list[Diagnostic]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    return sorted((_merged(group) for group in groups.values()), key=_rank)


def _rank(finding: Diagnostic) -> tuple[int, bool]:
    severity = ("error", "warning").index(finding.severity) if finding.severity in ("error", "warning") else 2
    return severity, isinstance(finding, Finding) and NAMED[finding.rule].symptom


def _key(finding: Diagnostic) -> object:
    if not isinstance(finding, Finding) or finding.line is None:
        return id(finding)
    place = _place(finding, finding.instruction)
    other = finding.other and _place(finding.other, finding.other.message)
    return finding.rule, finding.severity, finding.filename, place, other


def _place(told: Diagnostic, text: str) -> object:
    """Where something happened: the opcode and the line of a program that PTX is made from; of PTX, the instruction but for
    its registers and offsets, as unrolled code repeats it.
    """
    shape = shape_of(_GUARD.sub("", text.strip("`")))
    opcode = shape.partition(" ")[0].rstrip(";")
    if told.origin:
        return opcode, tuple((o.filename, o.line) for o in told.origin)
    if told.filename is not None and PurePath(told.filename).suffix.lower() in SUFFIXES:
        return opcode, told.line
    return shape


def _merged(group: list[Diagnostic]) -> Diagnostic:
    message = LONG.sub(r"{\1 to \2}", group[0].message)
    return replace(group[0], message=message + more_places(group))
