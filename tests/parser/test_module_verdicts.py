"""Declarations, names, calls, labels, headers: our verdict on whole small modules against ptxas's (13.5, recorded)."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyptx
from pyptx.passes.verify import module_diagnostics

ROWS: list[tuple[str, bool]] = json.loads(
    gzip.open(Path(__file__).resolve().parent.parent / "data" / "isa" / "module_verdicts.json.gz", "rt").read()
)
STRICTER = (
    ("call (1),g1", "a constant cannot take a result"),
    ("call (1.0),g1", "a constant cannot take a result"),
    (".func f(.param .b32 a)\n", "a function needs a body or a semicolon; ptxas reads on into the next function"),
    (".reg .b32;", "a declaration needs a name"),
    ("\n.target sm_90\nret", ".target stands at the head of a module"),
    (".version 8.10", "ptxas reads it as 8.1"),
    ("param::func.b32", "a register is not a parameter"),
    ("L: .branchtargets L;", "a list cannot list itself"),
)
"""What ptxas lets through and we report, with the reason (docs/verdicts.md has them too)."""


def errors(text: str) -> list[str]:
    return [d.message for d in pyptx.diagnose(text) if d.severity == "error"]


def test_modules_are_judged_as_ptxas_judges_them() -> None:
    assert len(ROWS) > 900
    assert 300 < sum(ok for _, ok in ROWS) < 700
    wrong: list[str] = []
    for text, legal in ROWS:
        found = errors(text)
        if bool(found) == legal and not (legal and any(part in text for part, _ in STRICTER)):
            wrong.append(f"ptxas {'accepts' if legal else 'rejects'}: {found[:1]}\n{text}")
    assert not wrong, "\n\n".join(wrong[:5])


def test_every_error_has_a_place_in_the_text() -> None:
    for text, _ in ROWS:
        count = text.count("\n") + 1
        for found in pyptx.diagnose(text):
            assert 1 <= (found.line or 0) <= count
            assert (found.column or 0) >= 1


HEADER = re.compile(
    r"^\.(version|target|address_size) |^target sm|^there is no PTX version|^the module (does not start|has no)|texmode_|^the header ops are"
)
"""Findings about the header lines as text: their order, number and spelling are not in the IR."""


def test_the_ir_is_judged_as_the_text_is() -> None:
    compared = 0
    for text, _ in ROWS:
        try:
            module = pyptx.parse(text)
        except pyptx.PTXError:
            continue
        of_text = {m for m in errors(text) if not HEADER.search(m)}
        of_ir = {d.message for d in module_diagnostics(module) if d.severity == "error"}
        assert of_text == {m for m in of_ir if not HEADER.search(m)}, text
        if not errors(text):
            assert not of_ir, text
        compared += 1
    assert compared > 850
