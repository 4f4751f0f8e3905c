"""How often our verifier and ptxas agree, over the probed instruction instances of `isa/verdicts.tsv.gz`.

    python -m benchmarks.verdicts [--family add,sub] [--show 20]

Each instance is judged on every target x the PTX versions 6.5, 7.8, 8.5, 9.0, 9.5 where the target exists. Prints per
family (the opcode) the
false-accept rate (among what ptxas rejects) and the false-reject rate (among what it accepts), and their means over
families.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

import pyptx.dialects.ptx.all  # noqa: F401
from pyptx.analysis.entities import Entity, Fault, Formal, Signature
from pyptx.analysis.symbols import Names
from pyptx.dialects.ptx.forms import Problem, Use
from pyptx.dialects.ptx.instruction import Resolution
from pyptx.dialects.ptx.opcode_problems import unknown_opcode
from pyptx.dialects.ptx.symbol_use import symbol_uses
from pyptx.dialects.ptx.syntax import Layout, SyntaxProblem
from pyptx.dialects.ptx.target import FIRST_PTX, Need, parse_version
from pyptx.parser.instruction import instruction_text

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("6.5", "7.8", "8.5", "9.0", "9.5")
Pair = tuple[str, str]
"""(target, PTX version)."""
CLASSES = {"p": "pred", "h": "b16", "r": "b32", "d": "b64", "b": "b8", "q": "b128"}
_REGISTER = re.compile(r"%([phrdbq])\d+")
_DECLARED = re.compile(r"\.reg\s+\.(\w+)\s+([\w$%]+)$")
_OPCODE = re.compile(r"(?:@!?[%\w]+\s+)?(\w+)")


def table_folder() -> Path:
    """Where the verdict table lies: in the project, else next to it."""
    for folder in (ROOT / "tests/data/isa", ROOT.parent / "shared/isa"):
        if (folder / "verdicts.tsv.gz").exists():
            return folder
    sys.exit("no isa/verdicts.tsv.gz")


@dataclass
class Table:
    """The instances, and on which pairs ptxas accepts each of them."""

    pairs: list[Pair]
    accepted: list[int]
    """A set of pairs per requirement, one bit for each pair."""
    rows: list[tuple[int, str]]
    """(requirement, text)."""


def load() -> Table:
    """Read the table of this project."""
    folder = table_folder()
    requirements = json.loads((folder / "requirements.json").read_text())
    parsed = {v: parse_version(v) for v in VERSIONS}
    pairs = [
        (t, v)
        for t, (first, _) in requirements["versions_of_target"].items()
        if FIRST_PTX[t] >= (4, 0)
        for v in VERSIONS
        if parse_version(first) <= parsed[v]
    ]
    accepted: list[int] = []
    for spans in requirements["requirements"]:
        inside: set[Pair] = set()
        for span in spans:
            low, high = parse_version(span["from"]), parse_version(span["to"])
            inside.update((t, v) for t, v in pairs if t in span["targets"] and low <= parsed[v] <= high)
        accepted.append(_bits(pairs, inside.__contains__))
    with gzip.open(folder / "verdicts.tsv.gz", "rt") as file:
        split = [line.split("\t") for line in file.read().splitlines()]
    return Table(pairs, accepted, [(int(requirement), text) for _, requirement, text in split])


def _bits(pairs: list[Pair], is_in: Callable[[Pair], bool]) -> int:
    """A set of pairs as one bit for each."""
    return sum(1 << i for i, pair in enumerate(pairs) if is_in(pair))


def statements(text: str) -> tuple[list[str], dict[str, str]]:
    """The instructions of a row (`{ .reg .pred p; a; b; }` has several), and the registers that it declares."""
    if text[0] != "{":
        return [text], {}
    declared: dict[str, str] = {}
    found: list[str] = []
    for part in text.strip().removeprefix("{").removesuffix("}").split(";"):
        part = part.strip()
        match = _DECLARED.match(part)
        if match is not None:
            declared[match[2]] = match[1]
        elif part:
            found.append(part + ";")
    return found, declared


def family_of(text: str) -> str:
    """The opcode of a row's first instruction."""
    match = _OPCODE.match(statements(text)[0][0])
    return match[1] if match is not None else text


@cache
def _register_class(name: str) -> str | None:
    match = _REGISTER.fullmatch(name)
    return CLASSES[match[1]] if match is not None else None


def resolve(text: str, declared: dict[str, str]) -> Resolution:
    """All readings of one instruction over the registers `%p1`, `%r1`, ... and those declared."""

    register_class = _register_class
    if declared:

        def register_class(name: str) -> str | None:
            return _register_class(name) or declared.get(name)

    try:
        reading, classes = instruction_text(text, register_class)
    except SyntaxProblem as problem:
        return Resolution([], Problem(str(problem)))
    if reading.cls is None:
        return Resolution([], unknown_opcode(reading.root, reading.modifiers))
    if reading.guard_register is not None and register_class(reading.guard_register) != "pred":
        return Resolution([], Problem("the guard must be a .pred register"))
    found = reading.cls.resolve(reading.modifiers, reading.layout, classes)
    if found.uses and (fault := _symbol_fault(found.uses[0], reading.layout, classes)) is not None:
        return Resolution([], Problem(fault.message))
    return found


def _names() -> Names:
    """The symbols that the instances assume (see `pyptx.tools.oracle`)."""
    word = Formal("a", "reg", "b32", 1, (), 4)
    one = Signature((word,), (word,))
    places = {"gb": "global", "sb": "shared", "cb": "const", "lb": "local", "prm": "entry"}
    array = Formal("", "", "b8", 1, (2048,), 128)
    entities = [Entity(name, "variable", place, array) for name, place in places.items()]
    entities += [
        Entity(n, "variable", "global", Formal(n, "global", t, 1, (), 8))
        for n, t in (("tx", "texref"), ("su", "surfref"))
    ]
    entities += [Entity("kk", "entry", signature=Signature((), (word,)))]
    entities += [Entity("fn", "function", signature=Signature((), ())), Entity("fn2", "function", signature=one)]
    entities += [Entity("tgts", "branch targets"), Entity("proto", "prototype", signature=one)]
    entities += [Entity("ctgts", "call targets", targets=("fn",)), Entity("ctgt2", "call targets", targets=("fn2",))]
    return Names({e.name: e for e in entities}, {0: {"Lx": 1, "Ly": 1}})


NAMES = _names()


def _symbol_fault(use: Use, layout: Layout, classes: tuple[str, ...]) -> Fault | None:
    symbols = symbol_uses(use)
    for symbol in symbols:
        fault = NAMES.check(symbol)
        if fault is not None:
            return fault
    return NAMES.check_call(layout, classes) if symbols and symbols[0].wanted == "call" else None


class Judge:
    """Our verdict on a row, as the set of pairs on which we accept it (one bit each)."""

    def __init__(self, pairs: list[Pair]):
        self.pairs = pairs
        self.need = lru_cache(maxsize=None)(self._need)

    def _need(self, need: Need) -> int:
        return _bits(self.pairs, lambda pair: need.met(parse_version(pair[1]), pair[0]))

    def accepted(self, text: str) -> int:
        """Where every instruction of the row is legal."""
        instructions, declared = statements(text)
        found = (1 << len(self.pairs)) - 1
        for instruction in instructions:
            anywhere = 0
            for use in resolve(instruction, declared).uses:
                here = found
                for _, need in use.needs:
                    here &= self.need(need)
                anywhere |= here
            found = anywhere
        return found

    def first(self, pairs: int) -> Pair:
        """The first pair of a set."""
        return self.pairs[(pairs & -pairs).bit_length() - 1]

    def message(self, text: str, pair: Pair) -> str:
        """Why we reject a row on a pair (empty: we do not)."""
        instructions, declared = statements(text)
        for instruction in instructions:
            problem = resolve(instruction, declared).verdict(parse_version(pair[1]), pair[0])
            if problem is not None:
                return problem.message
        return ""


@dataclass
class Tally:
    """Counts of one family."""

    rejected: int = 0
    false_accepts: int = 0
    accepted: int = 0
    false_rejects: int = 0

    @property
    def rates(self) -> tuple[float, float]:
        """(false accepts among what ptxas rejects, false rejects among what it accepts), in percent."""
        return (
            100 * self.false_accepts / self.rejected if self.rejected else 0.0,
            100 * self.false_rejects / self.accepted if self.accepted else 0.0,
        )


@dataclass
class Agreement:
    """The whole comparison."""

    families: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    wrong: list[tuple[str, int, int]] = field(default_factory=list)
    """(text, pairs where we alone accept, pairs where ptxas alone accepts)."""
    instances: int = 0
    seconds: float = 0.0

    @property
    def means(self) -> tuple[float, float]:
        """Mean rates over families, in percent."""
        rates = [tally.rates for tally in self.families.values()]
        return sum(a for a, _ in rates) / len(rates), sum(r for _, r in rates) / len(rates)


def compare(table: Table, families: set[str] | None = None) -> Agreement:
    """Judge every row."""
    judge = Judge(table.pairs)
    found = Agreement()
    start = time.perf_counter()
    total = len(table.pairs)
    for requirement, text in table.rows:
        family = family_of(text)
        if families is not None and family not in families:
            continue
        truth = table.accepted[requirement]
        ours = judge.accepted(text)
        tally = found.families[family]
        tally.rejected += total - truth.bit_count()
        tally.accepted += truth.bit_count()
        found.instances += 1
        if ours != truth:
            alone, missing = ours & ~truth, truth & ~ours
            tally.false_accepts += alone.bit_count()
            tally.false_rejects += missing.bit_count()
            found.wrong.append((text, alone, missing))
    found.seconds = time.perf_counter() - start
    return found


def _disagreements(found: Agreement, judge: Judge) -> Iterator[str]:
    for text, alone, missing in found.wrong:
        if alone:
            yield f"{text}  [we accept, ptxas rejects on {alone.bit_count()}, e.g. {judge.first(alone)}]"
        if missing:
            pair = judge.first(missing)
            yield f"{text}  [we reject, ptxas accepts on {missing.bit_count()}, e.g. {pair}]: {judge.message(text, pair)}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--family", help="only opcodes with this root (comma separated)")
    arguments.add_argument("--show", type=int, default=0, help="print up to N disagreements")
    options = arguments.parse_args()
    table = load()
    found = compare(table, set(options.family.split(",")) if options.family else None)
    for line, _ in zip(_disagreements(found, Judge(table.pairs)), range(options.show), strict=False):
        print(line)
    print(f"{'family':24} {'rejected':>9} {'false acc':>9} {'%':>7} {'accepted':>9} {'false rej':>9} {'%':>7}")
    for name, tally in sorted(found.families.items()):
        a, r = tally.rates
        if tally.false_accepts or tally.false_rejects:
            print(
                f"{name:24} {tally.rejected:9} {tally.false_accepts:9} {a:7.3f} "
                f"{tally.accepted:9} {tally.false_rejects:9} {r:7.3f}"
            )
    if found.families:
        a, r = found.means
        print(f"mean over {len(found.families)} families: false accepts {a:.3f} %, false rejects {r:.3f} %")
    verdicts = found.instances * len(table.pairs)
    rate = found.instances / max(found.seconds, 1e-9)
    print(
        f"{found.instances} instances, {verdicts} verdicts, {found.seconds:.1f} s: "
        f"{rate:.0f} instances/s, {rate * len(table.pairs):.0f} verdicts/s"
    )


if __name__ == "__main__":
    main()
