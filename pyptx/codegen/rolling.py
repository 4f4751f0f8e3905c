"""Writes what repeats (`repeats.py`) as a Python loop or comprehension, where that is shorter.

The body is written once, for the first round, with registers and integers that change replaced by the loop's variables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from ..dialects.ptx.syntax import Address, Immediate, Operand, Vector, operand_tokens
from ..frontend.core.results import result_type
from ..ssa.statement import Kind, Reg, Shape
from . import layout
from .body import Line
from .expressions import OR_NONE, Counted
from .instructions import InstructionWriter
from .repeats import Place, Repeat, offset_of, plain_integer

_ROW = re.compile(r"(.+)\[(\d+)\]")
MAX_LISTS = 4
"""A loop that collects more results than that is not an easier to read."""
MIXED = "mixed"
"""The type of a variable that stands for values of several types: no operator takes it."""


class Rolled:
    """One repeat being written into a function."""

    def __init__(self, function: InstructionWriter, repeat: Repeat):
        self.function, self.repeat = function, repeat
        self.variables: list[str] = []
        self.iterables: list[str] = []
        self.counter = ""
        self.counted: list[int] = []
        self.stand_ins: dict[tuple[Reg, ...], Reg] = {}
        self.carriers: dict[Place, tuple[Reg, str]] = {}

    def write(self) -> bool:
        """Write the loop; False, with nothing written, where the statements one by one are no longer."""
        f, repeat = self.function, self.repeat
        before = f.snapshot()
        if not self._choose_carried():
            f.restore(before)
            return False
        start = len(f.lines)
        statements = self._statements()
        lists, last = self._live()
        if len(lists) > MAX_LISTS:
            f.restore(before)
            return False
        for k in lists:
            made = [repeat.fresh[p][0] for p in sorted(repeat.fresh) if p[0] == k]
            f.whole.add(tuple(made))
        f.nested_not |= {repeat.fresh[p][0] for p in repeat.fresh if p[0] in lists or p in last}
        f.nested_not |= {repeat.fresh[p][0] for p in repeat.carried.values()}
        header = self._header()
        f.write_line(header)
        f.depth += 1
        self._write_body(statements)
        f.depth -= 1
        body = f.lines[start + 1 :]
        plain = sum(_height(line) for line in body) * repeat.count
        names = {k: self._element(k) for k in lists}
        loop = self._collect(header, body, names)
        if sum(map(_height, loop)) > plain - 2 or len(header) + 4 * (f.depth + 1) > 2 * layout.WIDTH:
            f.restore(before)
            return False
        f.lines[start:] = loop
        f.lines[-1].target = None
        for variable in [*self.variables, *([self.counter] if self.counter else [])]:
            f.names.release(variable)
        self._bind(names)
        return True

    def _write_body(self, statements: Sequence[tuple[Shape, Sequence[Reg], str]]) -> None:
        f, start = self.function, self.repeat.start
        ends: list[int] = []
        for at, (shape, regs, name) in enumerate(statements, start):
            while ends and ends[-1] == at:
                f.close()
                ends.pop()
            if at in f.conditions:
                f.open_condition(shape, regs)
                ends.append(f.conditions[at])
            elif shape.kind != Kind.LABEL:
                f.write_statement(shape, regs, name)
        for _ in ends:
            f.close()

    # ----------------------------------------------------------------------------------------------------- variables

    def _choose_carried(self) -> bool:
        """Variables that hold what the round before made; they begin as what was there before the loop."""
        f, repeat = self.function, self.repeat
        for place, made in repeat.carried.items():
            first = self._column(place)[0]
            known = self.carriers.get(made)
            if known is not None and known[0] is not first:
                return False
            if sum(1 for p in repeat.fresh if p[0] == made[0]) != 1 or known is not None:
                if known is None:
                    return False
                continue
            shape, regs, _, _, _ = f.statements[repeat.start + made[0]]
            text, _ = f.take(first)
            name = f.names.fresh(f.namer.suggest(regs[made[1]], shape, regs))
            f.write_line(f"{name} = {text}")
            self.carriers[made] = first, name
            f.forced[repeat.fresh[made][0]] = name
        return True

    def _column(self, place: Place) -> list[Reg]:
        repeat, statements = self.repeat, self.function.statements
        return [statements[repeat.start + i * repeat.period + place[0]][1][place[1]] for i in range(repeat.count)]

    def _statements(self) -> list[tuple[Shape, Sequence[Reg], str]]:
        """The statements of the first round, in terms of the loop's variables."""
        f, repeat = self.function, self.repeat
        found: list[tuple[Shape, Sequence[Reg], str]] = []
        for k in range(repeat.period):
            shape, regs, _, _, name = f.statements[repeat.start + k]
            regs = list(regs)
            at = 1 if shape.guard >= 0 else 0
            for operand in shape.layout:
                count = sum(1 for t in operand_tokens(operand) if t in ("$", "=", "~"))
                if isinstance(operand, Vector) and count > 1:
                    self._whole_vector(k, at, count, regs)
                at += count
            for j, reg in enumerate(regs):
                if (k, j) in repeat.varying and reg is f.statements[repeat.start + k][1][j]:
                    regs[j] = self._stand_in(self._column((k, j)))
                elif (k, j) in repeat.carried:
                    made = repeat.carried[k, j]
                    regs[j] = self._carrier(made)
            if any(hole[0] == k for hole in repeat.integers):
                shape = self._with_counters(k, shape)
            found.append((shape, regs, name))
        return found

    def _carrier(self, made: Place) -> Reg:
        f, repeat = self.function, self.repeat
        first, name = self.carriers[made]
        key = (first, repeat.fresh[made][0])
        if key not in self.stand_ins:
            shape = f.statements[repeat.start + made[0]][0]
            assert shape.instruction is not None
            words = (*shape.instruction.opcode.split("."), *shape.modifiers)
            kind = f.kind_of(result_type(words))
            self._new_stand_in(key, first, name, kind if kind == f.kinds[first] else MIXED)
        return self.stand_ins[key]

    def _new_stand_in(self, key: tuple[Reg, ...], like: Reg, text: str, kind: str) -> Reg:
        f = self.function
        reg = self.stand_ins[key] = Reg(like.name, like.register_class, like.scope)
        f.expressions[reg], f.kinds[reg] = text, kind
        f.bound.add(reg)
        return reg

    def _kind(self, column: Sequence[Reg]) -> str:
        kinds = {self.function.kinds[r] for r in column}
        return kinds.pop() if len(kinds) == 1 else MIXED

    def _stand_in(self, column: list[Reg]) -> Reg:
        """A register that stands for these ones, as a variable of the loop, or an element of one."""
        key = tuple(column)
        if key in self.stand_ins:
            return self.stand_ins[key]
        f = self.function
        rows = [f.arrays.get(r) for r in column]
        if None not in rows:
            places = cast("list[tuple[str, int]]", rows)
            if len({n for n, _ in places}) > 1 and len({j for _, j in places}) == 1:
                names = tuple([n for n, _ in places])
                sizes = {f.array_sizes[n] for n in names}
                if len(sizes) == 1:
                    variable = self._row_variable(names)
                    reg = self._new_stand_in(key, column[0], f"{variable}[{places[0][1]}]", self._kind(column))
                    f.arrays[reg] = variable, places[0][1]
                    f.array_sizes[variable] = sizes.pop()
                    return reg
        variable = self._variable(f.sequence(column))
        return self._new_stand_in(key, column[0], variable, self._kind(column))

    def _variable(self, iterable: str) -> str:
        if iterable in self.iterables:
            return self.variables[self.iterables.index(iterable)]
        number = len(self.variables)
        name = self.function.names.fresh("abcdefgh"[number] if number < 8 else "v")
        self.variables.append(name)
        self.iterables.append(iterable)
        return name

    def _row_variable(self, names: tuple[str, ...]) -> str:
        """A variable that goes through arrays, which may be the rows of one."""
        matches = [_ROW.fullmatch(n) for n in names]
        if all(m is not None for m in matches):
            found = [m for m in matches if m is not None]
            numbers = [int(m[2]) for m in found]
            if len({m[1] for m in found}) == 1:
                text = self.function.stretch(found[0][1], numbers)
                if text is not None:
                    return self._variable(text)
        return self._variable(f"[{', '.join(names)}]")

    def _whole_vector(self, k: int, at: int, count: int, regs: list[Reg]) -> None:
        """A vector that is a stretch of one array, moving by a step: `acc[i : i + 4]`."""
        f = self.function
        columns = [self._column((k, j)) for j in range(at, at + count)]
        if not any((k, j) in self.repeat.varying for j in range(at, at + count)):
            return
        rows = list(zip(*columns, strict=True))
        starts: list[int] = []
        for row in rows:
            places = [f.arrays.get(r) for r in row]
            if (
                None in places
                or places[0] is None
                or places != [(places[0][0], places[0][1] + j) for j in range(count)]
            ):
                return
            starts.append(places[0][1])
        array = f.arrays[rows[0][0]][0]
        if any(f.arrays[row[0]][0] != array for row in rows):
            return
        step = starts[1] - starts[0]
        if step == 0 or any(b - a != step for a, b in pairwise(starts)):
            return
        begin, _ = self._count(starts)
        end, _ = self._count([s + count for s in starts])
        colon = ":" if begin.isidentifier() and end.isidentifier() else " : "
        stand_ins = [self._new_stand_in(tuple(c), c[0], f"{array}[{begin}]", self._kind(c)) for c in columns]
        f.vectors[tuple(stand_ins)] = f"{array}[{begin}{colon}{end}]"
        for column in columns:
            del self.stand_ins[tuple(column)]
        regs[at : at + count] = stand_ins

    def _with_counters(self, k: int, shape: Shape) -> Shape:
        """The shape with the integers that change as expressions."""
        found: list[Operand] = []
        hole = 0
        for operand in shape.layout:
            changed: object = operand
            if isinstance(operand, Immediate) and plain_integer(operand.text):
                values = self.repeat.integers.get((k, hole))
                if values is not None:
                    changed = Counted(*self._count(values))
                hole += 1
            elif isinstance(operand, Address) and offset_of(operand) is not None:
                values = self.repeat.integers.get((k, hole))
                if values is not None:
                    text, _ = self._count(values)
                    text += OR_NONE if 0 in values else ""
                    changed = Address(operand.base, "@" + text, operand.rest, operand.unified)
                hole += 1
            found.append(cast(Operand, changed))
        new = shape.copy()
        new.layout = tuple(found)
        return new

    def _count(self, values: Sequence[int]) -> tuple[str, int]:
        """Integers in arithmetic progression, in terms of the loop's counter: (Python, precedence)."""
        if not self.counter:
            self.counter = self.function.names.fresh("i")
            self.counted = list(values)
        step, own = values[1] - values[0], self.counted[1] - self.counted[0]
        if step % own:
            step_text = self._variable(_range(values))
            return step_text, 9
        factor = step // own
        rest = values[0] - self.counted[0] * factor
        text = self.counter if factor == 1 else f"{self.counter} * {factor}"
        if rest:
            text += f" {'+' if rest > 0 else '-'} {abs(rest)}"
        return text, 5 if rest else 6 if factor != 1 else 9

    def _header(self) -> str:
        variables, iterables = list(self.variables), list(self.iterables)
        if self.counter:
            variables.append(self.counter)
            iterables.append(_range(self.counted))
        if not variables:
            return f"for _ in range({self.repeat.count}):"
        if len(iterables) == 1:
            return f"for {variables[0]} in {iterables[0]}:"
        return f"for {', '.join(variables)} in zip({', '.join(iterables)}):"

    # ------------------------------------------------------------------------------------------------------- results

    def _live(self) -> tuple[list[int], set[Place]]:
        """The statements whose results are needed of more than the last round; the places needed of the last one."""
        f, repeat = self.function, self.repeat
        inside: dict[Reg, int] = {}
        for at in range(repeat.start, repeat.start + repeat.period * repeat.count):
            shape, regs, _, _, _ = f.statements[at]
            for i in (*shape.read, *((shape.guard,) if shape.guard >= 0 else ())):
                inside[regs[i]] = inside.get(regs[i], 0) + 1
            for i in shape.tied:
                inside[regs[i]] = inside.get(regs[i], 0) + 2
        lists: set[int] = set()
        last: set[Place] = set()
        for place, regs in repeat.fresh.items():
            outside = [f.uses.get(r, 0) > inside.get(r, 0) or f.defs.get(r, 0) > 1 for r in regs]
            if any(outside[:-1]):
                lists.add(place[0])
            elif outside[-1]:
                last.add(place)
        return sorted(lists), last

    def _element(self, k: int) -> str:
        """The name of what a statement makes in one round."""
        place = min(p for p in self.repeat.fresh if p[0] == k)
        reg = self.repeat.fresh[place][0]
        array = self.function.arrays.get(reg)
        return array[0] if array is not None else self.function.expressions[reg]

    def _collect(self, header: str, body: list[Line], names: dict[int, str]) -> list[Line]:
        """The loop with its results collected in lists; a comprehension where nothing else happens in it."""
        f = self.function
        self.list_names: dict[int, str] = {}
        if not names:
            return [f.line(header), *body]
        for k, name in names.items():
            self.list_names[k] = f.names.fresh(_plural(name))
        (k, name), *others = names.items()
        kept = {made[0] for made in self.carriers}
        if len(body) == 1 and not others and not kept and body[0].text.startswith(f"{name} = "):
            value = body[0].text.removeprefix(f"{name} = ")
            f.names.release(name)
            return [f.line(f"{self.list_names[k]} = [{value} {header[:-1]}]")]
        lines = [f.line(header)]
        for line in body:
            mine = next((k for k, n in names.items() if line.text.startswith(f"{n} = ")), None)
            if mine is None:
                lines.append(line)
                continue
            word = re.compile(rf"\b{re.escape(names[mine])}\b")
            if mine in kept or any(word.search(other.text) for other in body if other is not line):
                lines += [line, f.line(f"{self.list_names[mine]}.append({names[mine]})", line.depth - f.depth)]
            else:
                value = line.text.removeprefix(f"{names[mine]} = ")
                lines.append(f.line(f"{self.list_names[mine]}.append({value})", line.depth - f.depth))
        empty = ", ".join(["[]"] * len(names))
        return [f.line(f"{', '.join(self.list_names.values())} = {empty}"), *lines]

    def _bind(self, names: dict[int, str]) -> None:
        """What the registers of all rounds are called after the loop."""
        f, repeat = self.function, self.repeat
        for place, regs in repeat.fresh.items():
            first = regs[0]
            element = f.arrays.get(first)
            list_name = self.list_names.get(place[0])
            kind, text = f.kinds[first], f.expressions[first]
            for i, reg in enumerate(regs):
                f.bound.add(reg)
                f.kinds[reg] = kind
                if list_name is None:
                    f.expressions[reg] = text
                    if element is not None:
                        f.arrays[reg] = element
                    continue
                row = f"{list_name}[{i}]"
                if element is None:
                    f.expressions[reg] = row
                    f.arrays[reg] = list_name, i
                else:
                    f.expressions[reg] = f"{row}[{element[1]}]"
                    f.arrays[reg] = row, element[1]
                    f.array_sizes[row] = f.array_sizes[element[0]]
            if list_name is not None:
                f.array_sizes[list_name] = repeat.count


def _height(line: Line) -> int:
    return len(layout.lines(4 * (line.depth + 1), line.text))


def _range(values: Sequence[int]) -> str:
    step = values[1] - values[0]
    stop = values[-1] + (1 if step > 0 else -1) if abs(step) == 1 else values[0] + step * len(values)
    begin = f"{values[0]}, " if values[0] or step != 1 else ""
    return f"range({begin}{stop}{f', {step}' if step != 1 else ''})"


def _plural(name: str) -> str:
    stem = name.rstrip("0123456789_") or name
    return "counts" if stem == "i" else stem + "s"


__all__ = ["MIXED", "Rolled"]
