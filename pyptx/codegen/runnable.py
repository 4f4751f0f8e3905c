"""A `main` that runs the kernels of a program on the simulator, with small inputs guessed from the parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import StringAttr

from ..parser.module_text import ModuleText
from ..ssa.builder import FunctionSource
from ..types import from_name
from .guesses import Functions, Guess, Guesses, declarations, guess, tokens
from .launch_guess import (
    EXTENT,
    EXTENTS,
    SIZE,
    array_type,
    box_of,
    launch_of,
    shared_address,
    tensors_of_maps,
)
from .layout import WIDTH
from .layout import lines as laid_out
from .names import NameTable, string
from .naming import parameter_name

__all__ = ["NAMES", "Runnable"]

NAMES = (
    "np",
    "pyptx",
    "sys",
    "main",
    "run",
    "Layout",
    "Tile",
    "types",
    "tensor_map",
    "Texture",
    "Surface",
    "SPECS",
)
"""Names at the top of a runnable program that nothing else gets."""
ELEMENTS = 1 << 20
TABLE_WORDS = 1 << 12
"""Of memory with pointers."""
_NUMPY = {
    "u32": "int32", "s32": "int32", "b32": "int32", "u64": "int64", "s64": "int64", "b64": "int64", "f32": "float32",
    "f64": "float64",
}  # fmt: skip
"""Members of structures that get a number."""


@dataclass
class Runnable:
    """The parts of a runnable program: what it imports, the specs of its kernels' tensors, and `main`."""

    imports: list[str] = field(default_factory=lambda: ["import sys", "", "import numpy as np", "", "import pyptx"])
    specs: list[str] = field(default_factory=list[str])
    main: list[str] = field(default_factory=list[str])
    used: set[str] = field(default_factory=set[str])
    simulator: set[str] = field(default_factory=set[str])
    """What it imports of `pyptx.simulator`."""

    @classmethod
    def of(cls, source: ModuleText) -> Runnable:
        """For all entries of the module."""
        made = cls()
        functions = Functions(source)
        body: list[str] = []
        rows: list[str] = []
        for item in source.items:
            if isinstance(item, FunctionSource) and item.has_body and ".entry" in tokens(item, "head"):
                specs, lines = made._entry(item, source, functions)
                rows += specs
                body += lines
        if rows:
            made.specs = [
                "",
                "SPECS = {",
                *rows,
                "}",
                '"""What the pointers of each kernel point to: guesses from its loads, stores and copies.',
                "",
                "PTX has no shapes, so arrays have rank 1; boxes follow from the bytes that mbarriers expect.",
                '"""',
            ]
            imported = [n for n in ("Layout", "Tile", "types") if n in made.used]
            made.imports.append(f"from pyptx import {', '.join(imported)}")
        made.main = [
            "def run(name: str, kernel: pyptx.LoadedKernel, arguments: list, blocks: list, **launch) -> int:",
            '    """Runs a kernel and prints its report, with the first of the blocks that works; 1 if none does."""',
            '    reason = ""',
            "    for block in blocks:",
            "        try:",
            "            print(name, pyptx.simulate(kernel, *arguments, block=block, **launch))",
            "            return 0",
            "        except pyptx.SimulationError as error:",
            '            reason = reason or str(error).split("\\n")[0]',
            '    print(f"{name} does not run with these guesses: {reason}", file=sys.stderr)',
            "    return 1",
            "",
            "",
            "def main() -> int:",
            '    """Runs every kernel once on the simulator; how many of them did not run.',
            "",
            "    Arrays, sizes, grid and block are guesses from the parameters: put in real ones.",
            '    """',
            *(["    rng = np.random.default_rng(0)"] if rows else []),
            "    kernels = pyptx.load(m.ptx())",
            "    failed = 0",
        ]
        for line in body:
            made.main += [line] if line.startswith(" ") else laid_out(4, line)
        made.main.append("    return failed")
        if not any("np." in line for line in made.main):
            made.imports.remove("import numpy as np")
        return made

    def _entry(self, entry: FunctionSource, source: ModuleText, functions: Functions) -> tuple[list[str], list[str]]:
        """(rows of `SPECS`, lines of `main`) for one kernel."""
        name = cast(StringAttr, entry.properties["sym_name"]).data
        found = guess(entry, functions)
        names = NameTable(("rng", "kernels", "kernel", "arguments", "failed", "m", "specs", "memory", *NAMES))
        rows: list[str] = []
        lines: list[str] = []
        arguments: dict[str, str] = {}
        tensors = tensors_of_maps(found)
        for declared in declarations(entry, "params"):
            for i, (symbol, tail) in enumerate(declared.items):
                argument = arguments[symbol] = names.fresh(parameter_name(symbol))
                own = found.parameters[symbol]
                shared = None if tail else shared_address(own, declared.size(i))
                if shared is not None:
                    lines.append(f"{argument} = 0x{shared:x}  # where shared memory begins")
                elif own.handle:
                    lines.append(f"{argument} = {self._image(own)}")
                elif own.rank or symbol in tensors.values():
                    pass  # after the tensors
                elif tail:
                    members, value = self._structure(argument, declared.size(), found.members.get(symbol, {}))
                    rows += members
                    lines.append(f"{argument} = {value}")
                elif own.pointees and from_name(declared.type).bits == 64:
                    made, added = self._table(argument, own, names)
                    rows += made
                    lines += added
                elif own.pointer and from_name(declared.type).bits == 64:
                    rows += _row(argument, self._tile(own), _comment(own))
                    lines.append(f"{argument} = {_random(argument)}")
                else:
                    lines.append(f"{argument} = {_number(declared.type)}")
        for symbol, own in found.parameters.items():
            if not own.rank or own.handle or symbol not in arguments:
                continue
            tensor = tensors.get(symbol)
            array = arguments[tensor] if tensor is not None else names.fresh(f"{arguments[symbol]}_of")
            tile, sizes = self._boxed(own, found.swizzled)
            rows += _row(array, tile, _comment(own))
            lines.append(f"{array} = specs[{string(array)}].random(rng, {sizes})")
            lines.append(f"{arguments[symbol]} = tensor_map({array}, specs[{string(array)}])")
            self.simulator.add("tensor_map")
        in_memory = any("memory." in line for line in lines)
        if in_memory:
            lines.insert(0, "memory = pyptx.DeviceMemory()")
        if rows:
            lines.insert(0, f"specs = SPECS[{string(name)}]")
            rows = [f"    {string(name)}: {{", *rows, "    },"]
        lines += [f"kernel = kernels[{string(name)}]", f"arguments = [{', '.join(arguments.values())}]"]
        launch = _launch(entry, found, source) + (", memory=memory" if in_memory else "")
        lines.append(f"failed += run({string(name)}, kernel, arguments, {launch})")
        return rows, lines

    def _image(self, own: Guess) -> str:
        """A texture or surface of ones, in a surface 16 bytes an element, the most that one access has."""
        kind = "Texture" if own.handle == "texref" else "Surface"
        self.simulator.add(kind)
        extents = [*EXTENTS[own.geometry], *([4] if kind == "Surface" else [])]
        array = f"np.ones(({', '.join(map(str, extents))}{',' if len(extents) == 1 else ''}), np.float32)"
        return f"{kind}({array}, geometry={string(own.geometry)})"

    def _structure(self, argument: str, size: int, members: dict[int, Guess]) -> tuple[list[str], str]:
        """(rows of `SPECS`, value) for a structure: its pointers are arrays, its numbers small ones."""
        rows: list[str] = []
        values: list[str] = []
        for offset, own in sorted(members.items()):
            if own.pointer:
                name = f"{argument}_{offset}"
                rows += _row(name, self._tile(own), _comment(own))
                values.append(f"{offset}: {_random(name)}")
            elif own.type in _NUMPY:
                values.append(f"{offset}: np.{_NUMPY[own.type]}({_number(own.type)})")
        return rows, f"{{{', '.join(values)}}}" if rows else f"bytes({size})"

    def _table(self, argument: str, own: Guess, names: NameTable) -> tuple[list[str], list[str]]:
        """(rows of `SPECS`, lines) for memory with pointers: a structure of them and of small numbers, over and over."""
        words = [str(SIZE)] * (max(own.pointees) // 8 + 1)
        rows: list[str] = []
        lines: list[str] = []
        for offset, pointee in sorted(own.pointees.items()):
            name = words[offset // 8] = names.fresh(f"{argument}_{offset}")
            rows += _row(name, self._tile(pointee), _comment(pointee))
            lines.append(f"{name} = memory.copy({_random(name)})")
        lines.append(f"{argument} = memory.pointers([{', '.join(words)}] * {TABLE_WORDS // len(words)})")
        return rows, lines

    def _tile(self, own: Guess) -> str:
        self.used |= {"Tile", "types"}
        return f'Tile("N", types.{array_type(own)})'

    def _boxed(self, own: Guess, swizzled: bool) -> tuple[str, str]:
        """The tile of a tensor map and the extents to try, as keywords."""
        dtype = array_type(own)
        box = box_of(own)
        dims = [f"D{i}" for i in range(own.rank)]
        layout = ""
        if swizzled and own.rank > 1:
            layout = ", Layout.TMA_128B"
            self.used.add("Layout")
        self.used |= {"Tile", "types"}
        shape = ", ".join(string(d) for d in dims)
        tile = f"Tile({shape}, types.{dtype}{layout}, tma_box={box})"
        return tile, ", ".join(f"{d}={EXTENT}" for d in dims)


def _row(name: str, tile: str, comment: str) -> list[str]:
    """A row of a kernel's specs, with its comment where there is room."""
    row = f"{string(name)}: {tile},"
    if len(row) + len(comment) + 10 <= WIDTH:
        return [f"        {row}  {comment}"]
    return [f"        {comment}", *laid_out(8, row)]


def _comment(own: Guess) -> str:
    verbs = " and ".join(v for v, is_so in (("read", own.reads), ("written", own.writes)) if is_so) or "not seen in use"
    if own.rank:
        return f"# {verbs}, by TMA"
    return f"# {verbs}" + (f", {own.elements} elements at a time" if own.elements > 1 else "")


def _number(dtype: str) -> str:
    return "1.0" if dtype[0] == "f" else str(SIZE)


def _random(name: str) -> str:
    return f"specs[{string(name)}].random(rng, N={ELEMENTS})"


def _launch(entry: FunctionSource, found: Guesses, source: ModuleText) -> str:
    """The blocks to try, and as keywords grid and what else a launch says."""
    shape = launch_of(entry, found, source)
    blocks = ", ".join(map(str, shape.blocks))
    text = f"[{blocks}], grid={shape.grid}"
    text += f", cluster={shape.cluster}" if shape.cluster else ""
    text += f", smem={shape.smem}" if shape.smem else ""
    return text + (", cooperative=True" if shape.cooperative else "")
