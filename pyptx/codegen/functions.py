"""Functions in readable mode: control flow as blocks, loads of parameters together, calls, repeats as loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from ..dialects.ptx.instruction import OPCODES
from ..dialects.ptx.structure import LabelListOp
from ..dialects.ptx.syntax import Address, Immediate, Operand, Register, Symbol
from ..frontend.core.instructions import spelled
from ..frontend.module.arguments import Statement
from ..frontend.module.calls import CONVENTIONS, Convention
from ..ssa.statement import Kind, Reg, Shape
from . import calls, layout, objects, repeats
from .body import ATOM, QUOTES, Line
from .expressions import OperandReader
from .instructions import InstructionWriter
from .names import literal, string
from .rolling import Rolled
from .structure import Region

__all__ = ["SugarFunction"]

_LONG_PATH = re.compile(r"\b((?:op|inst)\.[\w.]{30,})\(")
_MIN_USES = 3
"""Uses of a long instruction that is worth a name."""


class SugarFunction(InstructionWriter):
    """Writes one function readably."""

    def write(self) -> None:
        self._collect()
        self.namer.settle(self.statements)
        regions = self._structure()
        self._find_end(regions)
        body = self._declare_early()
        self.lines += body
        self._emit(regions)
        self._shorten()
        for line in self.lines:
            if line.comment:
                self.out.append(f"{' ' * (4 * (line.depth + 1))}# {line.comment}")
            self.out += layout.lines(4 * (line.depth + 1), line.text)

    def _emit(self, regions: list[Region]) -> None:
        opening: dict[int, list[Region]] = {}
        for region in regions:
            opening.setdefault(region.start, []).append(region)
        self.jumps = {r.jump for r in regions if r.kind == "else"}
        self.regions_of = {branch: region for region in regions for branch in region.branches}
        self.conditions = self._conditions(regions)
        borders = {p for r in regions if r.start not in self.conditions or r.kind != "if" for p in (r.start, r.end)}
        self.loads = self._find_loads(borders)
        self.fragments.schedule(self.mentioned)
        found = {repeat.start: repeat for repeat in self._find_repeats(borders)}
        done = 0
        branches = {r.branches[0] for r in regions if r.kind == "if"}
        open_regions: list[Region] = []
        for at in range(len(self.statements) + 1):
            while open_regions and open_regions[-1].end == at:
                open_regions.pop()
                self.close()
            for region in opening.get(at, ()) if at >= done else ():
                written = self._whole_region(region, found.get(at))
                if written:
                    done = at + written
                    break
                self._open(region)
                open_regions.append(region)
            if at < done or at in branches or at in self.jumps:
                continue
            if at >= len(self.statements) - self.silent:
                if at == len(self.statements) - 2 and self.silent == 2:
                    self._return(self.statements[at][1][0])
                continue
            if size := self._roll(found.get(at)):
                done = at + size
            elif self.statements[at][0].kind == Kind.OPEN and (size := self._call(at)):
                done = at + size
            elif at in self.loads:
                done = at + self.loads[at]
                self._load_together(self.statements[at:done])
            else:
                self._statement_at(at)
            self.fragments.write(self, at, max(done, at + 1))
        if not self.lines:
            self.write_line("pass")

    def _roll(self, repeat: repeats.Repeat | None) -> int:
        """Write a repeat as a loop; how many statements that were, 0 where it is not worth one."""
        if repeat is None or not Rolled(self, repeat).write():
            return 0
        return repeat.period * repeat.count

    def _whole_region(self, region: Region, repeat: repeats.Repeat | None) -> int:
        """Write a region whose statements are one loop or call; how many statements that were, 0 for others."""
        if region.kind == "if" and region.start in self.conditions and (size := self._roll(repeat)):
            return size
        wait = objects.wait_in(self, region)
        if wait is None:
            return 0
        self._wait(wait)
        return wait.size

    def _open(self, region: Region) -> None:
        used = self.shared.used
        if region.kind == "if":
            shape, regs, _, _, _ = self.statements[region.branches[0]]
            self.open_condition(shape, regs)
            return
        if region.kind == "else":
            uni = "uni=True" if "uni" in self.statements[region.jump][0].modifiers else ""
            self.write_line(f"with else_({uni}):")
            used.add("else_")
        else:
            region.name = self.names.fresh("again" if region.kind == "loop" else "part")
            moved = self._condition_of(region)
            self.write_line(f"with {region.kind}() as {region.name}:")
            used.add(region.kind)
            if moved is not None:
                moved.depth = self.depth + 1
                self.lines.append(moved)
        self.depth += 1

    def _condition_of(self, region: Region) -> Line | None:
        """The line that computes the condition of the branch which a block begins with: it may as well stand inside."""
        shape, regs, _, _, _ = self.statements[region.start]
        last = self.lines[-1] if self.lines else None
        if region.kind != "block" or region.start not in self.targets or shape.guard < 0 or last is None:
            return None
        if last.target is not regs[shape.guard] or last.depth != self.depth:
            return None
        return self.lines.pop()

    def _statement_at(self, at: int) -> None:
        shape, regs, _, _, name = self.statements[at]
        if shape.kind == Kind.LABEL:
            if at in self.explicit:
                self.write_line(f"label({string(self.label_names[at])})")
                self.shared.used.add("label")
        elif at in self.targets:
            self.popped = []
            self._branch(at, shape, regs)
        elif shape.kind == Kind.TABLE and shape.op_class is LabelListOp:
            labels = [self.label_names[cast(int, self.tables[at, n])] for n in cast("list[str]", shape.payload)]
            self.write_line(f"targets({', '.join(string(n) for n in (name, *labels))})")
            self.shared.used.add("targets")
        else:
            self.write_statement(shape, regs, name)

    def _branch(self, at: int, shape: Shape, regs: Sequence[Reg]) -> None:
        condition = ""
        if shape.guard >= 0:
            text, precedence = self.take(regs[shape.guard])
            condition = text if shape.guard_mark == "@" else (f"~{text}" if precedence >= 7 else f"~({text})")
        region = self.regions_of.get(at)
        uni = "uni=True" if "uni" in shape.modifiers else ""
        if region is None:
            label = string(self.label_names[self.targets[at]])
            pred = f", pred={condition}" if condition else ""
            self.write_line(f"inst.bra{'.uni' if uni else ''}({label}{pred})")
            self.shared.used.add("inst")
            return
        method = "again" if region.kind == "loop" else "leave"
        self.write_line(f"{region.name}.{method}({', '.join(t for t in (condition, uni) if t)})")

    def _return(self, reg: Reg) -> None:
        self.popped = []
        text, _ = self.take(reg)
        if self.popped and len(text) + len("    return ") > layout.WIDTH:
            self.unnest()
            text = self.expressions[reg]
        self.write_line(f"return {text}")

    def _conditions(self, regions: Sequence[Region]) -> dict[int, int]:
        """Conditions without an else, whose label is theirs alone: their branch -> their label."""
        labels: dict[int, int] = {}
        for region in regions:
            labels[region.label] = labels.get(region.label, 0) + len(region.branches)
        return {
            r.start: r.label
            for r in regions
            if r.kind == "if" and r.otherwise is None and r.end == r.label and labels[r.label] == 1
            if r.label not in self.explicit and "exact" not in self.statements[r.start][0].attributes
        }

    def _find_repeats(self, borders: set[int]) -> list[repeats.Repeat]:
        start_of = {reg: -1 if reg in self.bound else at for reg, at in self.mentioned.items()}
        labels = {at for at, (shape, _, _, _, _) in enumerate(self.statements) if shape.kind == Kind.LABEL}
        labels -= set(self.conditions.values())
        return repeats.find(
            repeats.Function(
                self.statements,
                borders | labels | set(self.loads) | {len(self.statements) - self.silent},
                lambda at: self.makes.get(at, ()),
                self.is_exact,
                start_of,
                self.namer.role,
                self.conditions,
            )
        )

    def _find_loads(self, borders: set[int]) -> dict[int, int]:
        """Stretches of parameters being loaded: how many, by where they start."""
        found: dict[int, int] = {}
        start = -1
        for at in range(len(self.statements) + 1):
            is_load = at < len(self.statements) and self._loaded(at) is not None
            if start >= 0 and (not is_load or at in borders):
                if at - start > 1:
                    found[start] = at - start
                start = -1
            if is_load and start < 0:
                start = at
        return found

    def _loaded(self, at: int) -> str | None:
        """The parameter that a statement loads just as `load` does."""
        shape = self.statements[at][0]
        if shape.instruction is None:
            return None
        return self._loads_parameter((shape.instruction.opcode, *shape.modifiers), shape, self.makes.get(at, ()))

    def _load_together(self, statements: Sequence[Statement]) -> None:
        """`a, n = load(a, n)`, as many in a line as fit."""
        self.shared.used.add("load")
        targets: list[str] = []
        sources: list[str] = []
        width = 4 * (self.depth + 1) + len(" = load()")
        for shape, regs, _, _, _ in statements:
            source = self.parameters[cast(Symbol, cast(Address, shape.layout[1]).base).name]
            name = self._new_name(regs[0], shape, regs)
            self.bound.add(regs[0])
            self.kinds[regs[0]] = self.kind_of(shape.modifiers[-1])
            if targets and width + sum(len(t) + 2 for t in (*targets, *sources, name, source)) > layout.WIDTH:
                self.write_line(f"{', '.join(targets)} = load({', '.join(sources)})")
                targets, sources = [], []
            targets.append(name)
            sources.append(source)
        self.write_line(f"{', '.join(targets)} = load({', '.join(sources)})")

    def _call(self, at: int) -> int:
        """Write a call with its parameter block, if it is one that `call` makes; how many statements that were."""
        found = calls.called_at(self.statements, at, self.shared.calls)
        if found is None or any(self.is_exact(s, r) for s, r, _, _, _ in self.statements[at : at + found.size]):
            return 0
        made: tuple[Reg, ...] = ()
        if found.load >= 0:
            shape, regs, _, _, _ = self.statements[found.load]
            made = self.makes.get(found.load, ())
            if made and (len(made) > 1 or self._into(("ld", "param", found.returns), shape, made)):
                return 0
            if not made and (len(regs) != 1 or regs[0] not in self.bound):
                return 0
        options: list[str] = []
        if found.types != [
            self._stored_as(operand, regs, CONVENTIONS[found.style]) for operand, regs in found.arguments
        ]:
            options.append(f"types={literal(found.types)}")
        options += [f"returns={string(found.returns)}"] if found.returns else []
        options += [f"style={string(found.style)}"] if found.style != self.shared.calls else []
        options += [f"prototype={string(found.prototype)}"] if found.prototype else []
        if found.load >= 0 and not made:
            options.append(f"into={self.expressions[self.statements[found.load][1][0]]}")
        self.popped = []
        used = [
            *found.through,
            *(r for operand, regs in found.arguments if isinstance(operand, Register) for r in regs),
        ]
        while True:
            taken = self.fold(used, None)
            reader = OperandReader(self, used, taken, ("st", "param", "b32"), "")
            arguments = [reader.operand(operand)[0] for operand in (found.function, *(o for o, _ in found.arguments))]
            text = f"call({', '.join([*arguments, *options])})"
            if not self.popped or len(text) + 4 * (self.depth + 1) + 16 <= layout.WIDTH:
                break
            self.unnest()
            self.flat = True
        self.flat = False
        self.shared.used.add("call")
        if made:
            shape, regs, _, _, _ = self.statements[found.load]
            self._assign(made[0], shape, regs, text, ATOM, self.kind_of(found.returns))
        else:
            self.write_line(text)
        return found.size

    def _stored_as(self, operand: Operand, regs: Sequence[Reg], how: Convention) -> str:
        if isinstance(operand, Register):
            return how.stored(regs[0].register_class)
        return "b64" if self.number(cast(Immediate, operand).text, ("st",))[0] in QUOTES else "b32"

    def _wait(self, wait: objects.Wait) -> None:
        """`mbarrier(full).wait(phase)`: the loop that it makes."""
        shape, regs, _, _, name = self.statements[wait.ask]
        words = ("mbarrier", "try_wait", *shape.modifiers)
        self.popped = []
        while True:
            taken = self.fold(regs[1:], None)
            reader = OperandReader(self, regs[1:], taken, words, name)
            place = objects.mbarrier_at(reader, cast(Address, shape.layout[1]), wait.space)
            if place is None:
                place = f"mbarrier({reader.operand(shape.layout[1])[0]})"
            values = [reader.operand(o)[0] for o in shape.layout[2:]]
            call = f"{place}.wait({', '.join([*values, *wait.options])})"
            if not self.popped or len(call) + 4 * (self.depth + 1) <= layout.WIDTH:
                break
            self.unnest()
            self.flat = True
        self.flat = False
        self.bound.add(regs[0])
        self.kinds[regs[0]] = "pred"
        self.write_line(call)

    def _shorten(self) -> None:
        """Names for long instructions that come often: `mma = inst.mma.sync.aligned...`."""
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            if 4 * (line.depth + 1) + len(line.text) > layout.WIDTH:
                for path in set(_LONG_PATH.findall(line.text)):
                    found.setdefault(path, []).append(line)
        aliases: list[Line] = []
        aliases_of = _alias_names([p for p, lines in found.items() if len(lines) >= _MIN_USES])
        for path, lines in found.items():
            if len(lines) < _MIN_USES:
                continue
            alias = self.names.fresh(aliases_of[path])
            line = f"{alias} = {path}"
            helps = len(line) + 4 > layout.WIDTH >= len(path) + 8  # where brackets make it fit
            aliases.append(Line(0, f"{alias} = ({path})" if helps else line))
            for line in self.lines:
                line.text = line.text.replace(f"{path}(", f"{alias}(")
        self.lines[:0] = aliases


def _alias_names(paths: Sequence[str]) -> dict[str, str]:
    """A short name for each long instruction: its opcode, and what sets it apart from others of that opcode."""
    words = {path: [spelled(w) for w in path.split(".")[1:]] for path in paths}
    opcodes: dict[str, int] = {}
    for path, own in words.items():
        opcodes[path] = next((n for n in range(len(own), 0, -1) if ".".join(own[:n]) in OPCODES), 1)
    found: dict[str, str] = {}
    for path, own in words.items():
        name = own[: opcodes[path]]
        others = [w for p, w in words.items() if p != path and w[: opcodes[p]] == name]
        apart = [w for w in own[opcodes[path] :] if not all(w in other for other in others)] if others else []
        found[path] = "_".join([*name, *apart]).replace("::", "_").replace(".", "_")
    return found
