"""A `main` that runs the kernels of a program on the simulator, with small inputs guessed from the parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import StringAttr

from ..analysis.occupancy import most_shared
from ..dialects.ptx.structure import DeclarationAttr
from ..parser.module_text import ModuleText
from ..ssa.builder import FunctionSource
from ..types import from_name
from .guesses import Guess, Guesses, declarations, guess, tokens
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
    "not_run",
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
SIZE = 64
"""What integer parameters get: mostly sizes, and small enough for the arrays."""
EXTENT = 256
"""Each dimension of a tensor that copies read by a tensor map: beyond it they read zeros."""
ROW_BYTES = 128
_SLACK = 1024
"""Shared memory left for alignment."""
MOST_IN_BOX = 256
BLOCKS = (64,), (8, 8), (4, 4, 4)
BLOCKS_WITH_BARRIERS = (128,), (16, 16), (8, 8, 4)
"""Blocks of one, two and three dimensions."""
_KNOWN = frozenset(
    "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 e4m3 e5m2".split()
)  # what NumPy has arrays of
_EXTENTS = {
    "1d": (SIZE,), "2d": (SIZE, SIZE), "3d": (SIZE, SIZE, SIZE), "a1d": (4, SIZE), "a2d": (4, SIZE, SIZE),
    "cube": (6, SIZE, SIZE), "acube": (4, 6, SIZE, SIZE), "2dms": (4, SIZE, SIZE), "a2dms": (4, 4, SIZE, SIZE),
}  # fmt: skip
"""Of textures and surfaces, by geometry."""
_NUMPY = {
    "u32": "int32", "s32": "int32", "b32": "int32", "u64": "int64", "s64": "int64", "b64": "int64", "f32": "float32",
    "f64": "float64",
}  # fmt: skip
"""Members of structures that get a number."""
_SUFFIX = "_tma_desc"
"""What pyptx's own kernels call the tensor map of a tensor."""


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
        shared = _dynamic_shared(source)
        body: list[str] = []
        rows: list[str] = []
        for item in source.items:
            if isinstance(item, FunctionSource) and item.has_body and ".entry" in tokens(item, "head"):
                specs, lines = made._entry(item, shared)
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
            "def not_run(name: str, error: Exception) -> bool:",
            '    """Says that a kernel does not run with these guesses."""',
            '    print(f"{name} does not run with these guesses:", str(error).split("\\n")[0], file=sys.stderr)',
            "    return True",
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

    def _entry(self, entry: FunctionSource, shared: int) -> tuple[list[str], list[str]]:
        """(rows of `SPECS`, lines of `main`) for one kernel."""
        name = cast(StringAttr, entry.properties["sym_name"]).data
        found = guess(entry)
        names = NameTable(("rng", "kernels", "kernel", "arguments", "failed", "m", "error", "specs", *NAMES))
        rows: list[str] = []
        lines: list[str] = []
        arguments: dict[str, str] = {}
        tensors = _tensors_of_maps(found)
        for declared in declarations(entry, "params"):
            for symbol, tail in declared.items:
                argument = arguments[symbol] = names.fresh(parameter_name(symbol))
                own = found.parameters[symbol]
                if own.handle:
                    lines.append(f"{argument} = {self._image(own)}")
                elif own.rank or symbol in tensors.values():
                    pass  # after the tensors
                elif tail:
                    members, value = self._structure(argument, declared.size(), found.members.get(symbol, {}))
                    rows += members
                    lines.append(f"{argument} = {value}")
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
        if rows:
            lines.insert(0, f"specs = SPECS[{string(name)}]")
            rows = [f"    {string(name)}: {{", *rows, "    },"]
        lines += [f"kernel = kernels[{string(name)}]", f"arguments = [{', '.join(arguments.values())}]"]
        run = f"print({string(name)}, pyptx.simulate(kernel, *arguments, {_launch(entry, found, shared)}))"
        failed = f"failed += not_run({string(name)}, error)"
        return rows, [*lines, "try:", *laid_out(8, run), "except pyptx.SimulationError as error:", *laid_out(8, failed)]

    def _image(self, own: Guess) -> str:
        """A texture or surface of ones, in a surface 16 bytes an element, the most that one access has."""
        kind = "Texture" if own.handle == "texref" else "Surface"
        self.simulator.add(kind)
        extents = [*_EXTENTS[own.geometry], *([4] if kind == "Surface" else [])]
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

    def _tile(self, own: Guess) -> str:
        self.used |= {"Tile", "types"}
        return f'Tile("N", types.{_array_type(own)})'

    def _boxed(self, own: Guess, swizzled: bool) -> tuple[str, str]:
        """The tile of a tensor map and the extents to try, as keywords."""
        dtype = _array_type(own)
        size = from_name(dtype).bytes
        inner = ROW_BYTES // size
        rest = max((own.box_bytes or 64 * ROW_BYTES) // ROW_BYTES, 1)
        box = [inner]
        for _ in range(own.rank - 1):
            box.append(min(rest, MOST_IN_BOX))
            rest = max(rest // MOST_IN_BOX, 1)
        if own.rank == 1:
            box = [min(inner * rest, MOST_IN_BOX)]
        dims = [f"D{i}" for i in range(own.rank)]
        layout = ""
        if swizzled and own.rank > 1:
            layout = ", Layout.TMA_128B"
            self.used.add("Layout")
        self.used |= {"Tile", "types"}
        shape = ", ".join(string(d) for d in dims)
        extents = ", ".join(str(n) for n in reversed(box)) + ("," if own.rank == 1 else "")
        tile = f"Tile({shape}, types.{dtype}{layout}, tma_box=({extents}))"
        return tile, ", ".join(f"{d}={EXTENT}" for d in dims)


def _tensors_of_maps(found: Guesses) -> dict[str, str]:
    """Tensor maps with the parameter that is the tensor itself, as pyptx's own kernels have them: it is not used."""
    return {
        name: tensor
        for name, own in found.parameters.items()
        if own.rank and not own.handle and (tensor := name.removesuffix(_SUFFIX)) != name
        if tensor in found.parameters and not found.parameters[tensor].used
    }


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


def _array_type(own: Guess) -> str:
    return own.type if own.type in _KNOWN else "f32"


def _number(dtype: str) -> str:
    return "1.0" if dtype[0] == "f" else str(SIZE)


def _random(name: str) -> str:
    return f"specs[{string(name)}].random(rng, N={ELEMENTS})"


def _launch(entry: FunctionSource, found: Guesses, shared: int) -> str:
    """Grid, block and what else a launch says, as keywords."""
    directives = tokens(entry, "directives")
    block = _sizes(directives, ".reqntid", ".maxntid") or _block(found)
    required = _sizes(directives, ".reqnctapercluster")
    cluster = "(2,)" if found.clusters and not required else ""
    text = f"grid={required or cluster or '(1,)'}, block={block}"
    text += f", cluster={cluster}" if cluster else ""
    return text + (f", smem={shared}" if shared else "")


def _block(found: Guesses) -> str:
    if found.barrier_threads > 0:
        return f"({found.barrier_threads},)"
    x, *rest = (BLOCKS_WITH_BARRIERS if found.barrier_threads else BLOCKS)[found.dimensions - 1]
    return f"({', '.join(map(str, (x, *rest)))}{'' if rest else ','})"


def _dynamic_shared(source: ModuleText) -> int:
    """Bytes of shared memory for a launch to give: all that is left, if some array's size is for the launch to say."""
    declared: list[DeclarationAttr] = []
    for item in source.items:
        statements = item.statements if isinstance(item, FunctionSource) else [item]
        payloads = [s[0].payload for s in statements]
        declared += [d for d in payloads if isinstance(d, DeclarationAttr) and ".shared" in d.head]
    static = sum(d.size(i) for d in declared if ".extern" not in d.head for i in range(len(d.items)))
    if not any(".extern" in d.head for d in declared):
        return 0
    return max(most_shared(source.target) - static - _SLACK, 0) // _SLACK * _SLACK


def _sizes(words: tuple[str, ...], *directives: str) -> str:
    """The numbers after the first of the directives that is there, as a tuple; empty if none is."""
    for directive in directives:
        if directive in words:
            sizes: list[str] = []
            for word in words[words.index(directive) + 1 :]:
                if word.startswith("."):
                    break
                if word.isdigit():
                    sizes.append(word)
            return f"({', '.join(sizes)},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    return ""
