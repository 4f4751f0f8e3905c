"""Findings for people: one for each mistake, though unrolled code shows it at every register and address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...diagnostics import Diagnostic
from .finding import Finding

LONG = re.compile(r"\{(%[\w$.]+),(?:\s*%[\w$.]+,){3,}\s*(%[\w$.]+)\}")
"""A list of five registers or more."""


def grouped(findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The first finding of each rule between the same lines by the same opcode, which says how many there are; long lists of
    registers show their ends.
    """
    groups: dict[object, list[Diagnostic]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    return [_merged(group) for group in groups.values()]


def _key(finding: Diagnostic) -> object:
    if not isinstance(finding, Finding) or finding.line is None:
        return id(finding)
    words = finding.instruction.split()
    opcode = words[1] if words[:1] and words[0].startswith("@") else words[0] if words else ""
    other = finding.other and (finding.other.filename, finding.other.line)
    return finding.rule, finding.severity, finding.filename, finding.line, opcode.rstrip(";"), other


def _merged(group: list[Diagnostic]) -> Diagnostic:
    message = LONG.sub(r"{\1 to \2}", group[0].message)
    more = len(group) - 1
    if more:
        message += f"; {more} more like this at the same line{'s' if _two_lines(group[0]) else ''}"
    return replace(group[0], message=message)


def _two_lines(finding: Diagnostic) -> bool:
    other = finding.other if isinstance(finding, Finding) else None
    return other is not None and (other.filename, other.line) != (finding.filename, finding.line)
