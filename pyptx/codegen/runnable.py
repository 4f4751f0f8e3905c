"""A `main` that runs the kernels of a program on the simulator, with small inputs guessed from the parameters."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from ..dialects.ptx.structure import DeclarationAttr, TokensAttr
from ..dialects.ptx.syntax import Address, Symbol
from ..parser.reader import ModuleText
from ..ssa.builder import FunctionSource
from ..ssa.statement import Reg
from .layout import lines as laid_out
from .names import NameTable, string
from .naming import parameter_name

ELEMENTS = 65536
SIZE = 64
"""What integer parameters get: mostly sizes, and small enough for the arrays."""
_ARRAYS = {
    "f32": "float32", "f64": "float64", "f16": "float16", "s64": "int64", "u64": "uint64", "b64": "int64", "b32": "int32",
    "u32": "uint32", "s32": "int32", "b16": "float16", "u16": "uint16", "s16": "int16", "b8": "uint8", "u8": "uint8",
    "s8": "int8",
}  # fmt: skip


def main_lines(source: ModuleText) -> list[str]:
    """`def main(): ...` for all entries of the module."""
    dynamic = any(
        isinstance(s[0].payload, DeclarationAttr) and {".extern", ".shared"} <= set(s[0].payload.head)
        for s in source.items
        if not isinstance(s, FunctionSource)
    )
    shared = _most_shared(source.target) if dynamic else 0
    body: list[str] = ["rng = np.random.default_rng(0)", "kernels = pyptx.load(m.ptx())"]
    for item in source.items:
        if isinstance(item, FunctionSource) and item.has_body and ".entry" in _tokens(item, "head"):
            body += _run(item, shared)
    found = [
        "def main() -> None:",
        '    """Runs every kernel once on the simulator.',
        "",
        "    Arrays, sizes, grid and block are guesses from the parameters: put in real ones.",
        '    """',
    ]
    for line in body:
        found += laid_out(4, line)
    return found


def _run(entry: FunctionSource, shared: int) -> list[str]:
    name = cast(StringAttr, entry.properties["sym_name"]).data
    pointees = _pointees(entry)
    names = NameTable(("rng", "kernels", "np", "pyptx", "m", "report"))
    found: list[str] = []
    arguments: list[str] = []
    for declared in _parameters(entry):
        for symbol, tail in declared.items:
            argument = names.fresh(parameter_name(symbol))
            arguments.append(argument)
            if tail:
                found.append(f"{argument} = bytes({declared.size()})")
            elif symbol in pointees or (declared.type in ("u64", "b64", "s64") and ".ptr" in declared.head):
                dtype = _ARRAYS.get(pointees.get(symbol, "f32"), "float32")
                if dtype.startswith("float"):
                    found.append(f"{argument} = rng.standard_normal({ELEMENTS}).astype(np.{dtype})")
                else:
                    found.append(f"{argument} = rng.integers(0, {SIZE}, {ELEMENTS}).astype(np.{dtype})")
            else:
                found.append(f"{argument} = {'1.0' if declared.type[0] == 'f' else SIZE}")
    directives = _tokens(entry, "directives")
    block = _sizes(directives, ".reqntid", ".maxntid") or f"({SIZE},)"
    grid = _sizes(directives, ".reqnctapercluster") or "(1,)"
    call = ", ".join([f"kernels[{string(name)}]", *arguments, f"grid={grid}", f"block={block}"])
    call += f", smem={shared}" if shared else ""
    return [*found, f"report = pyptx.simulate({call})", f"print({string(name)}, report)"]


def _most_shared(target: str) -> int:
    """Bytes of shared memory that a block may have on every GPU of the target's family (CUDA C++ Programming Guide,
    compute capabilities).
    """
    number = int("".join(c for c in target if c.isdigit()) or "0")
    return (227 if 90 <= number < 120 else 99 if number >= 80 else 48) * 1024


def _sizes(words: tuple[str, ...], *directives: str) -> str:
    """The numbers behind the first of the directives that is there, as a tuple; empty if none is."""
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


def _pointees(entry: FunctionSource) -> dict[str, str]:
    """Pointer parameters with the type of what is first read or written through them."""
    found: dict[str, str] = {}
    came_from: dict[Reg, str] = {}
    for shape, regs, _, _, _ in entry.statements:
        cls = shape.instruction
        if cls is None:
            continue
        first = 1 if shape.guard >= 0 else 0
        opcode = cls.opcode.partition(".")[0]
        source = next((o for o in shape.layout if isinstance(o, Address)), None)
        if opcode == "ld" and "param" in shape.modifiers and source is not None and isinstance(source.base, Symbol):
            if shape.modifiers[-1] in ("u64", "b64", "s64") and shape.written:
                came_from[regs[shape.written[0]]] = source.base.name
        elif opcode in ("ld", "st", "atom", "red", "ldu") or source is not None:
            bases = [regs[i] for i in shape.read if regs[i] in came_from]
            for base in bases[: 1 if source is not None else 0]:
                found.setdefault(came_from[base], shape.modifiers[-1])
        elif opcode in ("mov", "cvta", "add", "mad", "sub") and len(shape.written) == 1:
            origins = [came_from[regs[i]] for i in shape.read if i >= first and regs[i] in came_from]
            if len(set(origins)) == 1:
                came_from[regs[shape.written[0]]] = origins[0]
    return found


def _tokens(entry: FunctionSource, name: str) -> tuple[str, ...]:
    attr = entry.properties.get(name)
    return attr.data if isinstance(attr, TokensAttr) else ()


def _parameters(entry: FunctionSource) -> list[DeclarationAttr]:
    attr = entry.properties.get("params")
    return list(cast("ArrayAttr[DeclarationAttr]", attr)) if attr is not None else []
