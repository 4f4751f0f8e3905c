"""A cubin read into a `Listing`: the text of its instructions comes from NVIDIA's nvdisasm, their bits from the same output.

nvdisasm runs twice. Once for the line tables (`-g` has the source's, `-gp` that of the PTX text), and once for the life
ranges (`-lrm`): its table has a column per register and says which an instruction reads (`v`), writes (`^`) or both
(`x`). So what an operand covers (`HMMA`'s four registers, the second result of `LDG.ENL2.256`) is NVIDIA's knowledge, not a table
of ours. The structured output of nvdisasm (`-json`) has neither bits, lines nor life ranges.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from ..diagnostics import PTXError
from ..disk_cache import Entry, usable_cache
from ..runtime.ptxas import find_tool, run_nvdisasm
from .control import control_of
from .elf import registers_of, sections_of, shared_bytes
from .listing import Function, Guard, Instruction, Listing, SassError
from .live import live_after
from .operands import Label, Operand, OperandError, read_operands

__all__ = ["read"]

_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,]+),")
_LABEL = re.compile(r"^([^\s:/][^\s:]*):\s*(?://|$)")
_INSTRUCTION = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>.*?)\s*;\s*/\* 0x(?P<low>[0-9a-f]{16}) \*/")
_HIGH = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
_NOTE = re.compile(r'\s*\(\*"([^"]*)"\*\)')
_GUARD = re.compile(r"@(!)?(U?P(?:\d+|T))\s+")
_PLACE = re.compile(r'^\s*//## File "(.*)", line (\d+)')
_PTX_FILE = ".nv_debug_ptx_txt"
_COLUMNS = {"GPR": "R", "UGPR": "UR", "PRED": "P", "UPRED": "UP"}
"""What nvdisasm calls the register files."""


def read(cubin: bytes | bytearray | memoryview) -> Listing:
    """The code of a cubin. PTXError where it cannot be read, SassError where an instruction is not understood,
    `pyptx.runtime.ptxas.ToolNotFound` without nvdisasm.
    """
    if not isinstance(cubin, (bytes, bytearray, memoryview)):
        raise PTXError(f"sass.read takes the bytes of a cubin, not {type(cubin).__name__}")
    return _read(bytes(cubin))


@lru_cache(maxsize=64)
def _read(cubin: bytes) -> Listing:
    sections = sections_of(cubin)
    with ThreadPoolExecutor(1) as pool:
        printed_lines = pool.submit(_print, cubin, "-c", "-ndf", "-g", "-gp")
        printed = _print(cubin, "-c", "-hex", "-lrm", "narrow")
    target = _TARGET.search(printed)
    if target is None:
        raise PTXError("nvdisasm does not say which architecture this cubin is for")
    places = _places(printed_lines.result())
    registers = registers_of(sections)
    functions: dict[str, Function] = {}
    for raw in _raw_functions(printed):
        function = _function(raw, target[1], places.get(raw.name, {}))
        functions[raw.name] = replace(
            function, registers=registers.get(raw.name, 0), shared_bytes=shared_bytes(sections, raw.name)
        )
    return Listing(target[1], functions, cubin)


def _print(cubin: bytes, *options: str) -> str:
    """What nvdisasm prints, from the disk cache where it printed that before: a run of it takes longer than the rest."""
    tool = os.path.realpath(find_tool("nvdisasm"))
    status, disk = os.stat(tool), usable_cache("listings of nvdisasm")
    if disk is None:
        return run_nvdisasm(cubin, *options)
    which = f"{tool} {status.st_size} {status.st_mtime_ns} {' '.join(options)} "
    key = hashlib.sha256(which.encode("utf-8", "surrogateescape") + cubin).hexdigest()
    if (kept := disk.get(key)) is not None:
        return zlib.decompress(kept.cubin).decode("utf-8", "replace")
    printed = run_nvdisasm(cubin, *options)
    disk.put(key, Entry(zlib.compress(printed.encode("utf-8", "replace")), {"listing": list(options)}))
    return printed


# --- lines


class _At(NamedTuple):
    line: int | None
    source: tuple[str, int] | None


def _places(printed: str) -> dict[str, dict[int, _At]]:
    """Function -> address -> place."""
    found: dict[str, dict[int, _At]] = {}
    body: dict[int, _At] = {}
    at = _At(None, None)
    for text in printed.splitlines():
        if section := _SECTION.match(text):
            body = found.setdefault(section[1], {})
            at = _At(None, None)
        elif place := _PLACE.match(text):
            name, line = place[1], int(place[2])
            # line 0: the compiler's own code
            at = (
                at._replace(line=line or None)
                if name.startswith(_PTX_FILE)
                else at._replace(source=(name, line) if line else None)
            )
        elif text.lstrip().startswith("/*"):
            body[int(text.lstrip()[2:].partition("*")[0], 16)] = at
    return found


# --- instructions


@dataclass(slots=True)
class _Raw:
    """An instruction as it is printed."""

    address: int
    text: str
    word: int
    marks: str = ""


@dataclass(slots=True)
class _RawFunction:
    name: str
    instructions: list[_Raw] = field(default_factory=list[_Raw])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    columns: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    """(register file, first column, number of registers) of the table of life ranges."""


def _raw_functions(printed: str) -> Iterator[_RawFunction]:
    function: _RawFunction | None = None
    names: list[str] = []
    for text in printed.splitlines():
        if section := _SECTION.match(text):
            if function is not None:
                yield function
            function, names = _RawFunction(section[1]), []
        elif function is None:
            continue
        elif found := _INSTRUCTION.match(text):
            function.instructions.append(_Raw(int(found["address"], 16), found["text"], int(found["low"], 16)))
        elif found := _HIGH.match(text):
            last = function.instructions[-1]
            last.word |= int(found[1], 16) << 64
            last.marks = text
        elif found := _LABEL.match(text):
            if not found[1].startswith(".text."):
                function.labels[found[1]] = 16 * len(function.instructions)
        elif not function.instructions and "// |" in text:
            names = names or _names_of(text)
            function.columns = function.columns or _columns(text, names)
    if function is not None:
        yield function


def _names_of(text: str) -> list[str]:
    """The register files of a table's head: `// | GPR | PRED |`."""
    words = [cell.strip() for cell in text[text.index("// |") + 4 :].split("|")]
    return words[:-1] if all(w.isalpha() for w in words[:-1]) else []


def _columns(text: str, names: list[str]) -> list[tuple[str, int, int]]:
    """Where the columns are, from the row with the last digits of the numbers: `// | # 0123 | # 01 |`."""
    found = list(re.finditer(r"\|\s+#\s+(\d*)", text))
    if len(found) != len(names):
        return []
    return [(_file_of(name), m.start(1), len(m[1])) for name, m in zip(names, found, strict=True)]


def _file_of(name: str) -> str:
    if name not in _COLUMNS:
        raise SassError(f"nvdisasm has a register file {name} in its life ranges, which is not known")
    return _COLUMNS[name]


def _function(raw: _RawFunction, arch: str, places: Mapping[int, _At]) -> Function:
    made = [_instruction(r, raw, arch, places.get(r.address, _At(None, None))) for r in raw.instructions]
    function = Function(raw.name, arch, tuple(made), raw.labels)
    live = live_after(function)
    return replace(function, instructions=tuple(replace(i, live=after) for i, after in zip(made, live, strict=True)))


def _instruction(raw: _Raw, function: _RawFunction, arch: str, place: _At) -> Instruction:
    note = _NOTE.search(raw.text)
    text = _NOTE.sub("", raw.text)
    guard = _GUARD.match(text)
    mnemonic, _, rest = (text[guard.end() :] if guard else text).strip().partition(" ")
    try:
        operands = read_operands(rest.strip())
    except OperandError as error:
        raise SassError(
            f"operand {error} of {mnemonic} is not known ({arch}, {function.name}, address {raw.address:#06x})"
        ) from None
    opcode, *modifiers = mnemonic.split(".")
    reads, writes = _marked(raw.marks, function.columns)
    return Instruction(
        raw.address,
        raw.word,
        text,
        opcode,
        tuple(modifiers),
        tuple(_placed(o, function.labels) for o in operands),
        control_of(raw.word),
        Guard(guard[2], guard[1] is not None) if guard else None,
        note[1] if note else "",
        place.line,
        place.source,
        reads,
        writes,
    )


def _placed(operand: Operand, labels: Mapping[str, int]) -> Operand:
    return Label(operand.name, labels.get(operand.name)) if isinstance(operand, Label) else operand


def _marked(text: str, columns: list[tuple[str, int, int]]) -> tuple[frozenset[str], frozenset[str]]:
    """(read, written) registers of a row of the table of life ranges."""
    reads: list[str] = []
    writes: list[str] = []
    for file, start, count in columns:
        cells = text[start : start + count]
        if not cells.strip(" :"):
            continue
        for number, mark in enumerate(cells):
            if mark in "vx":
                reads.append(f"{file}{number}")
            if mark in "^x":
                writes.append(f"{file}{number}")
    return frozenset(reads), frozenset(writes)
