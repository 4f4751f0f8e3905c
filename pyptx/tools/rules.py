"""Write the tables of the sanitizer's rules into a page.

    python -m pyptx.tools.rules docs/simulator.md

A table is between `<!-- rules: NAME -->` and `<!-- end -->`: `all` has every rule, `tolerated` those whose breaking GPUs tolerate.
A rule's file is in `pyptx/simulator/sanitizer/rules`; the kernels that break and keep it are in the file of the same name in
`tests/simulator/sanitizer/rules`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..simulator.sanitizer import Rule
from ..simulator.sanitizer.parts import PARTS

TABLE = re.compile(r"(<!-- rules: (\w+) -->\n).*?(<!-- end -->\n)", re.S)


def rules_by_file() -> dict[str, tuple[Rule, ...]]:
    """The name of each file of rules -> its rules, in alphabetical order."""
    found = {part.__module__.rpartition(".")[2]: part.rules for part in PARTS if part.rules}
    return dict(sorted(found.items()))


def all_rules() -> Iterator[str]:
    yield "| rule | what is wrong | manual | file |"
    yield "|---|---|---|---|"
    for file, rules in rules_by_file().items():
        for rule in rules:
            yield f"| `{rule.name}` | {rule.summary} | {', '.join(rule.sections)} | `{file}.py` |"


def tolerated() -> Iterator[str]:
    yield "| rule | what happens on a GPU | manual |"
    yield "|---|---|---|"
    for rules in rules_by_file().values():
        for rule in rules:
            if rule.tolerated is not None:
                when = f", {rule.tolerated.when}" if rule.tolerated.when else ""
                yield f"| `{rule.name}`{when} | {rule.tolerated.effect} | {rule.section} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {"all": all_rules, "tolerated": tolerated}


def filled(page: str) -> str:
    """A page with its tables."""
    return TABLE.sub(lambda m: m[1] + "".join(f"{line}\n" for line in TABLES[m[2]]()) + m[3], page)


def main(arguments: Sequence[str] | None = None) -> int:
    for name in sys.argv[1:] if arguments is None else arguments:
        path = Path(name)
        path.write_text(filled(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
