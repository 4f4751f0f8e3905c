"""The trace of a function in a `Module`: registers declared where the author declares them, in `{ }` scopes that may
hide outer names, and statements laid out as told.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from types import CodeType

from xdsl.dialects.builtin import FileLineColLoc, StringAttr

from ...diagnostics import Diagnostic
from ...dialects.ptx.structure import TokensAttr
from ...dialects.ptx.target import Version
from ...ssa.fastir import line_location
from ...ssa.statement import Environment, Shape
from ...ssa.statement import Reg as Variable
from ...types import PtxType, from_name
from ..core.registers import Reg
from ..core.trace import _CLOSE, _LABEL, _OPEN, Declaration, Trace

Gaps = tuple[str, ...]
_getframe = sys._getframe


class Names(Environment):
    """The registers visible at a point; members of declared ranges count as visible before their first use."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.known(name)

    def get(self, name: str, default: object = None) -> Variable | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return self[name]
        except KeyError:
            return None

    def known(self, name: str) -> bool:
        try:
            self[name]
        except KeyError:
            return False
        return True


class Registers(dict[int, Reg]):
    """The registers of a range `%r<100>`: `r[7]` is `%r7`."""

    __slots__ = ("base", "count", "dtype", "scope", "trace")

    def __init__(self, trace: ModuleTrace, base: str, count: int, dtype: PtxType, scope: int):
        super().__init__()
        self.trace, self.base, self.count, self.dtype, self.scope = trace, base, count, dtype, scope

    def __missing__(self, index: int) -> Reg:
        if not isinstance(index, int) or not 0 <= index < self.count:
            raise self.trace.error(
                f"the range {self.base}<{self.count}> has no register {index!r}",
                f"its registers are [0] to [{self.count - 1}]",
            )
        name = f"{self.base}{index}"
        names = self.trace.names
        variable = dict[str, Variable].get(names, name)
        if variable is None or variable.scope != self.scope:
            taken = variable
            variable = Variable(name, self.dtype.register_class, self.scope)
            if taken is None and self.scope in (self.trace.scope, *self.trace.scopes):
                names[name] = variable
        found = self[index] = Reg(name, self.dtype, variable)
        return found

    def __repr__(self) -> str:
        return f"Registers({self.base}<{self.count}>, {self.dtype})"


def type_of(register_class: str) -> PtxType:
    """The Python type of a register class; vectors such as `v4.f32` included."""
    if register_class.startswith("v"):
        lanes, _, element = register_class[1:].partition(".")
        return PtxType(register_class, int(lanes) * from_name(element).bits)
    return from_name(register_class)


class ModuleTrace(Trace):
    """A trace whose statements come in the author's order. `layouts` are the gaps that statements may be given."""

    faithful = True
    surface = ""

    def __init__(
        self, name: str, target: str, version: Version | None, place: tuple[str, int], layouts: tuple[Gaps, ...] = (),
        registers: str = "", calls: str = "llvm",
    ):  # fmt: skip
        self._filenames: dict[str, StringAttr] = {}
        super().__init__(name, target, version, place)
        self.names: Names = Names()  # pyright: ignore[reportIncompatibleVariableOverride]
        self.layouts = layouts
        self.registers = registers
        self.unsigned_operators = registers == "unsigned"
        self.calls = calls
        self.placed_labels: set[tuple[int, str]] = set()
        self._laid: dict[tuple[Shape, int], Shape] = {}
        self._body: CodeType | None = None
        self._body_places: dict[int, int] = {}
        self._line_starts: list[int] = []
        self._lines: list[int] = []

    def follow(self, code: CodeType) -> None:
        """Find places in this function's code fast: it is where most statements come from."""
        self._body = code
        spans = [(start, line) for start, _, line in code.co_lines() if line is not None]
        self._line_starts, self._lines = [s for s, _ in spans], [line for _, line in spans]

    def place(self, above: int = 1) -> int:
        frame = _getframe(2)
        body = self._body
        if frame.f_code is not body:
            outer = frame.f_back
            if outer is None or outer.f_code is not body:
                return super().place()
            frame = outer
        at = frame.f_lasti
        found = self._body_places.get(at)
        if found is None:
            line = self._lines[bisect_right(self._line_starts, at) - 1]
            assert body is not None
            found = self._body_places[at] = self.add_place(body.co_filename, line, 1)
        return found

    def diagnostic(self, message: str, hint: str | None = None, at: int | None = None) -> Diagnostic:
        """As `Trace.diagnostic`. Columns are looked up here only: a long function has very many."""
        place = self.place() if at is None else at
        offset = next((o for o, p in self._body_places.items() if p == place), None)
        if offset is not None and self._body is not None:
            _, _, column, _ = list(self._body.co_positions())[offset >> 1]
            location = self.locations[place]
            assert isinstance(location, FileLineColLoc)
            self.locations[place] = line_location(location.filename, location.line.data, (column or 0) + 1)
        return super().diagnostic(message, hint, place)

    def add_place(self, filename: str, line: int, column: int) -> int:
        name = self._filenames.get(filename)
        if name is None:
            name = self._filenames[filename] = StringAttr(filename)
        self.locations.append(line_location(name, line, column))
        return len(self.locations) - 1

    def declare(self, register_class: str, name: str) -> Variable:
        """A register that the DSL makes: at the top of the function, whatever scope is open."""
        self.check_free(name)
        found = self.names[name] = Variable(name, register_class, 0)
        self.declarations[name] = Declaration(register_class, name)
        return found

    def label(self, name: str) -> None:
        place = self.place()
        key = (self.scope, name)
        if key in self.placed_labels:
            raise self.error(f"label {name} is placed twice", "labels are unique within a { } scope of a function")
        self.placed_labels.add(key)
        self.labels[name] = place
        self.record(_LABEL, (), place, name)

    def take_label_back(self, name: str) -> None:
        self.placed_labels.discard((self.scope, name))
        super().take_label_back(name)

    def block_label(self, stem: str) -> str:
        while True:
            name = super().block_label(stem)
            if (self.scope, name) not in self.placed_labels:
                return name

    def if_labels(self) -> tuple[str, ...]:
        return (self.block_label("end"),)

    def open_scope(self) -> None:
        self.scope_count += 1
        self.scopes.append(self.scope)
        self.scope = self.names.open()
        self.record(_OPEN, (), self.place(), str(self.scope))

    def close_scope(self) -> None:
        if not self.scopes:
            raise self.error("no { } scope is open here")
        closed, names = self.scope, self.names
        names.close()
        for name in [n for n, reg in names.items() if reg.scope == closed]:
            del names[name]
        self.scope = self.scopes.pop()
        self.record(_CLOSE, (), self.place())

    def lay_out(self, index: int) -> None:
        """Give the latest statement the gaps number `index` of the module."""
        if not self.statements:
            raise self.error("no statement precedes this layout")
        shape, regs, lead, place, name = self.statements[-1]
        key = (shape, index)
        found = self._laid.get(key)
        if found is None:
            try:
                gaps = self.layouts[index]
            except IndexError:
                raise self.error(f"the module has no layout {index}") from None
            found = self._laid[key] = shape.copy()
            found.attributes["gaps"] = TokensAttr(gaps)
        self.statements[-1] = (found, regs, lead, place, name)
