"""Facts about directives, held against what ptxas said (tests/data/isa/directives.json)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyptx.dialects.ptx.directive_facts import DECLARATIONS, judge_directive, judge_together
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version

PROBES = json.loads((Path(__file__).parent.parent / "data/isa/directives.json").read_text())

PLACE = {
    "global var": "global", "global var init": "global init", "const var": "const", "shared var": "shared",
    "local var": "local", "func def": "func",
    "inside body": "entry body", "body": "entry body", "entry header": "entry",
    "static aliasee": "module", ".global": "global", ".shared": "shared", ".const": "const",
    "entry param u64": "entry param", "u32 param": "entry param", "b64 param": "entry param",
}  # fmt: skip
"""The probes' names of places, where they differ from ours."""

OTHER_SPELLINGS = {
    ".attribute(.managed)": (".attribute", ".managed"), ".file": (".file",), ".file ts size": (".file", "timestamp"),
    ".loc": (".loc",), ".loc inlined": (".loc", "inlined_at"), ".loc label+N": (".loc", "inlined_at"),
    ".section": (".section",), ".alias": (".alias",), ".branchtargets": (".branchtargets",),
    ".calltargets": (".calltargets",), ".callprototype": (".callprototype",),
    ".callprototype noreturn": (".callprototype", ".noreturn"),
    ".callprototype abi_preserve": (".callprototype", ".abi_preserve"),
    "init/decl v3": (".global", ".v3", ".f32"), "init/decl v8": (".global", ".v8", ".f32"),
    "init/decl v2 b128": (".global", ".v2", ".b128"), "init/decl b1024": (".global", ".b1024"),
    "init/decl vector": (".global", ".v4", ".f32"), "init/decl pred var": (".global", ".pred"),
}  # fmt: skip

SKIPPED = {
    '.pragma "used_bytes_mask "0xf""',  # quotes in quotes: no such pragma
    ".target option debug",  # legal with debug information
    ".ptr",  # whether the parameter is a pointer
}


def spelled(probe: str) -> tuple[str, ...] | None:
    """A probe's directive and arguments, or None where the probe is about something else."""
    if probe in SKIPPED:
        return None
    if probe in OTHER_SPELLINGS:
        return OTHER_SPELLINGS[probe]
    if match := re.fullmatch(r'\.pragma "(.*)";?', probe):
        return (".pragma", match[1])
    if match := re.fullmatch(r"\.target option (.*)", probe):
        return (".target", match[1])
    if match := re.fullmatch(r"init/decl reg (\w+)", probe):
        return None if match[1] in ("array", "range", "list", "vec") else (".reg", f".{match[1]}")
    words = probe.replace(" noalign", "").replace(",", " ").split()
    known = (*DECLARATIONS, ".align", ".ptr", ".visible", ".extern", ".weak", ".common", ".address_size")
    performance = re.match(r"\.(max|min|req|local_|no|abi|explicit|blocks|shared_|unique|cluster_)", probe)
    return tuple(words) if words and "+" not in words and (words[0] in known or performance) else None


def probed() -> list[tuple[str, tuple[str, ...], dict[str, object]]]:
    found: list[tuple[str, tuple[str, ...], dict[str, object]]] = []
    for probe, rows in PROBES.items():
        words = spelled(probe)
        if words is not None:
            found += [(probe, words, row) for row in rows]
    return found


def judged(words: tuple[str, ...], where: str, version: str, target: str):
    return judge_directive(words[0], words[1:], PLACE.get(where, where), parse_version(version), target)


def test_most_probes_are_judged():
    assert len(probed()) > 400


@pytest.mark.parametrize(("probe", "words", "row"), probed(), ids=lambda v: v if isinstance(v, str) else "")
def test_as_ptxas_says(probe: str, words: tuple[str, ...], row: dict[str, object]):
    where = str(row["where"])
    if probe.startswith("init/decl reg"):
        where = "entry body"
    for target in row["targets_9_5"]:  # pyright: ignore
        assert judged(words, where, "9.5", target) is None, (probe, where, target)
    for target in row["rejected_9_5"]:  # pyright: ignore
        if probe == ".blocksareclusters ":
            continue  # legal in an entry together with .reqntid and .reqnctapercluster
        assert judged(words, where, "9.5", target) is not None, (probe, where, target)
    if row["ok"]:
        first, target = str(row["min_ptx"]), str(row["probed_on"])
        assert judged(words, where, first, target) is None, (probe, where, first)
        major, minor = parse_version(first)
        before = (major, minor - 1) if minor else (major - 1, 9)
        if before >= max((2, 3), FIRST_PTX[target]):  # the probes had .address_size, and no target older than itself
            text = f"{before[0]}.{before[1]}"
            assert judged(words, where, text, target) is not None, (probe, where, text)


@pytest.mark.parametrize(("probe", "row"), [(p, r[0]) for p, r in PROBES.items() if " + " in p])
def test_together_as_ptxas_says(probe: str, row: dict[str, object]):
    names = re.findall(r"\.[a-z]+", probe)
    assert (judge_together(names) is None) == row["ok"]


@pytest.mark.parametrize(
    ("name", "arguments", "place", "message"),
    [
        (".maxntid", ("32",), "func", ".maxntid may not stand in a .func after its parameters"),
        (".maxntid", ("0",), "entry", "at least 1, not 0"),
        (".maxntid", ("1", "2", "3", "4"), "entry", "1 to 3 numbers, not 4"),
        (".minnctapersm", (), "entry", "one number, not 0"),
        (".maxnctapersm", ("2",), "entry", "there is no directive .maxnctapersm"),
        (".explicitcluster", ("1",), "entry", "takes no number"),
        (".align", ("3",), "global", "a power of two, not 3"),
        (".align", ("256",), "func param", "at most 128"),
        (".global", (".pred",), "module", "only a register can be a predicate"),
        (".reg", (".bf16",), "entry body", "no variable has the type .bf16"),
        (".local", (".b32",), "module", ".local may not stand in module scope"),
        (".target", ("texmode_unified", "texmode_independent"), "header", "exclude each other"),
    ],
)
def test_messages(name: str, arguments: tuple[str, ...], place: str, message: str):
    problem = judge_directive(name, arguments, place, (9, 0), "sm_90")
    assert problem is not None
    assert message in problem.message


def test_versions_and_targets():
    problem = judge_directive(".reqnctapercluster", ("2",), "entry", (8, 0), "sm_80")
    assert problem is not None
    assert "sm_90 or newer" in problem.message
    problem = judge_directive(".reg", (".b128",), "entry body", (8, 0), "sm_90")
    assert problem is not None
    assert "PTX 8.3" in problem.message


def test_together():
    problem = judge_together((".blocksareclusters", ".reqntid"))
    assert problem is not None
    assert ".reqnctapercluster" in problem.message
    assert judge_together((".maxntid", ".maxntid", ".minnctapersm")) is None
