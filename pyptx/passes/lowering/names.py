"""Names of PTX for symbols and values of MLIR, which may hold any character."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xdsl.ir import Operation

_ILLEGAL = re.compile(r"[^A-Za-z0-9_$]")
_LOCAL_LABEL = "$L__BB_"


class Names:
    """The names given out in one PTX module; no two are equal."""

    def __init__(self) -> None:
        self._taken = {"_", "$", "WARP_SZ"}  # which ptxas does not take as names

    def unique(self, text: str) -> str:
        """The text itself if it is a name of PTX that is not taken, else one like it."""
        stem = found = legal(text)
        count = 0
        while found in self._taken:
            count += 1
            found = f"{stem}_{count}"
        self._taken.add(found)
        return found


def legal(text: str) -> str:
    """A text with `_` for each character that a name of PTX may not have."""
    name = _ILLEGAL.sub("_", text)
    if not name or name[0].isdigit() or name.startswith(_LOCAL_LABEL):
        name = "_" + name
    return name


def name_symbols(names: Names, modules: Iterable[tuple[str, Iterable[Operation]]]) -> Mapping[Operation, str]:
    """The PTX name of each operation with a symbol, given (module, operations) in order.

    Legal names that occur once stay. A symbol that several modules define is prefixed with its module's name.
    """
    found: list[tuple[str, str, Operation]] = []
    for module, operations in modules:
        found += [(module, symbol_of(op), op) for op in operations if symbol_of(op)]
    count: dict[str, int] = {}
    for _, symbol, _ in found:
        count[symbol] = count.get(symbol, 0) + 1
    wanted = [(symbol if count[symbol] == 1 else f"{module}_{symbol}", op) for module, symbol, op in found]
    # those that are legal come first, so that they keep their names
    return {op: names.unique(name) for name, op in sorted(wanted, key=lambda pair: legal(pair[0]) != pair[0])}


def symbol_of(op: Operation) -> str:
    """The symbol an operation defines, or nothing."""
    attr = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return getattr(attr, "data", "")
