"""NVIDIA's offline toolchain: find it, assemble PTX with it, read back what it says and what it made.

`ptxas` is the judge of what PTX is legal. Its messages come back as `Diagnostic`s that point into the
PTX text; whatever it does, crash included, is a result and not a traceback. No GPU, no driver.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ..diagnostics import Diagnostic, PTXError, Severity, install

__all__ = [
    "PtxasResult",
    "ResourceUsage",
    "SassLine",
    "ToolNotFound",
    "assemble",
    "checking_arch",
    "disassemble",
    "find_tool",
    "run_nvdisasm",
    "run_ptxas",
    "sass_with_lines",
    "supported_archs",
    "target_of",
    "tool_version",
]

_FILE = "kernel.ptx"
_TIMEOUT = 600.0
_READ_TIMEOUT = 120.0
"""Of the tools that read a cubin: a damaged one can keep them busy."""


class ToolNotFound(RuntimeError):
    """ptxas, nvdisasm or cuobjdump is not on this machine; the message says how to get it."""


# --- finding the tools


def find_tool(name: str) -> str:
    """Path of `ptxas`, `nvdisasm` or `cuobjdump`.

    Looks at the environment variable of that name (`$PTXAS`, `$NVDISASM`, `$CUOBJDUMP`), then where
    cuda-pathfinder looks (wheels, conda, `$CUDA_HOME`), then on PATH. Raises `ToolNotFound`.
    """
    return _find_tool(name, os.environ.get(name.upper()), os.environ.get("PATH"))


@lru_cache(maxsize=64)
def _find_tool(name: str, override: str | None, path: str | None) -> str:
    if override:
        if found := shutil.which(override, path=path):
            return found
        raise ToolNotFound(f"${name.upper()} is {override!r}, which is not an executable file")
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        pass
    else:
        if found := find_nvidia_binary_utility(name):
            return str(found)
    if found := shutil.which(name, path=path):
        return found
    raise ToolNotFound(
        f"{name} was not found (looked at ${name.upper()}, the NVIDIA wheels, $CUDA_HOME and PATH): " + install("ptxas")
    )


@lru_cache(maxsize=64)
def _output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60).stdout


def tool_version(name: str) -> str:
    """Version of a tool, such as `13.5.37`; empty when it prints none. Raises `ToolNotFound`."""
    found = re.search(r"\bV(\d+(?:\.\d+)+)", _output_of(find_tool(name), "--version"))
    return found[1] if found else ""


def supported_archs() -> tuple[str, ...]:
    """The numbers that this ptxas takes as `sm_NN` and `compute_NN`: `75`, ..., `90`, `90a`, ..."""
    found = set(re.findall(r"\bcompute_(\d+[af]?)\b", _output_of(find_tool("ptxas"), "--help")))
    return tuple(sorted(found, key=lambda arch: (int(arch.rstrip("af")), arch)))


def checking_arch(target: str) -> str:
    """The `compute_NN` under which ptxas checks a module of this `.target`, without generating code.

    It is the target itself where this ptxas knows it, else the next newer one: under `compute_NN` any
    older `.target` is accepted and still checked as what it says it is.
    """
    number = target.removeprefix("sm_").removeprefix("compute_")
    archs = supported_archs()
    if number in archs or not archs or not re.fullmatch(r"\d+[af]?", number):
        return f"compute_{number}"
    value = int(number.rstrip("af"))
    plain = [arch for arch in archs if arch.isdigit()]
    return "compute_" + next((arch for arch in plain if int(arch) >= value), plain[-1])


def target_of(ptx: str) -> str | None:
    """The `sm_NN` of the `.target` directive of a PTX text, None where there is none."""
    found = re.search(r"^[ \t]*\.target\b[^\n;]*?\b(sm_\w+)", ptx, re.MULTILINE)
    return found[1] if found else None


# --- assembling


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What one entry function costs, per thread (registers, spills, stack) or per CTA (the rest); bytes."""

    registers: int = 0
    shared_bytes: int = 0
    """Static shared memory."""
    spill_stores: int = 0
    spill_loads: int = 0
    stack_bytes: int = 0
    barriers: int = 0
    dynamic_shared_bytes: int = 0
    """That a kernel's launch adds (`Kernel.usage`); ptxas does not know it."""


@dataclass(frozen=True, slots=True)
class PtxasResult:
    """What ptxas made of a PTX text.

    `cubin` is None when it was refused or only checked. `diagnostics` has the errors, the warnings, and
    as warnings the advisories that cost speed (C7508, C7510, C7517, ...), with the line in the PTX.
    `usage` maps entry names to what they cost; empty after a mere check. `log` is all ptxas printed.
    """

    ok: bool
    cubin: bytes | None = field(default=None, repr=False)
    diagnostics: tuple[Diagnostic, ...] = ()
    usage: Mapping[str, ResourceUsage] = field(default_factory=dict[str, ResourceUsage])
    log: str = field(default="", repr=False)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity == "error")

    def raise_on_error(self) -> PtxasResult:
        """This result, or `PTXError` with everything ptxas had to say."""
        if not self.ok:
            raise PTXError(self.diagnostics)
        return self


def assemble(
    ptx: str,
    arch: str,
    *,
    options: Sequence[str] = (),
    check_only: bool = False,
    filename: str | None = None,
    timeout: float = _TIMEOUT,
) -> PtxasResult:
    """Assemble PTX text for `arch` (`sm_90a`), or with `check_only` just ask whether it is legal.

    A check parses and verifies without generating code, and takes any `.target` up to `arch`, those
    included that this ptxas no longer generates code for. `options` go to ptxas as they are
    (`("-O1", "-lineinfo")`); `filename` is what diagnostics call the text; `timeout` is in seconds.
    Raises `ToolNotFound` when there is no ptxas, and nothing else.
    """
    if check_only:
        arch = checking_arch(arch)
    returncode, log, cubin = run_ptxas(ptx, ("-arch", arch, "-v", *options), timeout=timeout)
    diagnostics = list(_read_diagnostics(log, ptx, filename))
    failed = any(d.severity == "error" for d in diagnostics)
    if returncode is None:
        message = f"ptxas did not finish within {timeout:g} s"
        diagnostics.append(Diagnostic("error", message, filename, hint="try options=('-O1',), or a longer timeout"))
    elif returncode < 0:
        message = f"ptxas crashed ({_signal_name(-returncode)})"
        hint = "this is a fault of ptxas, on PTX it does not expect; pyptx.diagnose may tell which line"
        diagnostics.append(Diagnostic("error", message, filename, hint=hint))
    elif returncode and not failed:
        tail = " ".join(log.split())[-200:]
        diagnostics.append(Diagnostic("error", f"ptxas failed with exit status {returncode}: {tail}", filename))
    elif not returncode and not check_only and cubin is None:
        diagnostics.append(Diagnostic("error", "ptxas succeeded, but wrote no cubin", filename))
    ok = not any(d.severity == "error" for d in diagnostics)
    return PtxasResult(
        ok=ok,
        cubin=cubin if ok and not check_only else None,
        diagnostics=tuple(diagnostics),
        usage=_read_usage(log) if ok else {},
        log=log,
    )


def run_ptxas(ptx: str, arguments: Sequence[str], *, timeout: float = _TIMEOUT) -> tuple[int | None, str, bytes | None]:
    """One run of ptxas: its exit status (negative: killed by that signal; None: timed out), all it
    printed, and the cubin if it wrote one. In the log the text goes by the name `kernel.ptx`."""
    ptxas = find_tool("ptxas")
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        source, cubin = Path(folder, _FILE), Path(folder, "kernel.cubin")
        source.write_bytes(ptx.encode("utf-8", "surrogateescape"))
        command = [ptxas, *arguments, source.name, "-o", cubin.name]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as expired:
            return None, _decode(expired.stderr) + _decode(expired.stdout), None
        log = _decode(done.stderr) + _decode(done.stdout)
        return done.returncode, log, cubin.read_bytes() if cubin.is_file() else None


def _decode(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", "replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- reading what ptxas prints

MESSAGE = re.compile(
    r"^ptxas (?:(?P<file>[^,]*), line (?P<line>\d+); )?"
    r"(?P<severity>error|fatal|warning|info)\s*: (?P<text>.*)$"
)
"""One message of ptxas. Semantic errors carry a line and do not stop it; a `fatal` does."""

ABORTED = "Ptx assembly aborted due to errors"
"""The last line of a refused run. It says nothing the messages above it have not said."""

_ADVICE = re.compile(r"\(C\d+\)|Potential Performance Loss|Advisory")
_LINE_IN_TEXT = re.compile(r"\bline (\d+)\b")
_QUOTED = re.compile(r"'([^']+)'")
_SEVERITY: dict[str, Severity] = {"error": "error", "fatal": "error", "warning": "warning", "info": "warning"}


def _read_diagnostics(log: str, ptx: str, filename: str | None) -> list[Diagnostic]:
    """The messages worth a person's attention, once each, in the order ptxas gave them."""
    found: dict[Diagnostic, None] = {}
    source: list[str] | None = None
    for printed in log.splitlines():
        message = MESSAGE.match(printed)
        if message is None or message["text"].startswith(ABORTED):
            continue
        text = message["text"].strip()
        if message["severity"] == "info" and not _ADVICE.search(text):
            continue
        line = int(message["line"]) if message["line"] else None
        if line is None and (inside := _LINE_IN_TEXT.search(text)):
            line = int(inside[1])
        if source is None:
            source = ptx.split("\n")
        hint = _hint(text)
        if line is None and (lacking := _UNRESOLVED.match(text)):
            line, hint = _use_of(lacking["name"], ptx)
        source_line = source[line - 1].rstrip("\r") if line and line <= len(source) else None
        column = None
        if source_line is not None:
            # ptxas names no column, but it mostly quotes the culprit.
            places = [source_line.find(quoted) for quoted in _QUOTED.findall(text)]
            column = next((place + 1 for place in places if place >= 0), None)
        text = text.replace(f"'{_FILE}'", f"'{filename or '<ptx>'}'")
        severity = _SEVERITY[message["severity"]]
        found[Diagnostic(severity, text, filename, line, column, hint, source_line)] = None
    return list(found)


_UNRESOLVED = re.compile(r"Unresolved extern (?:function|variable) '(?P<name>[^']+)'")


def _use_of(name: str, ptx: str) -> tuple[int | None, str | None]:
    """The line of the first use of an extern name, else of its declaration; what would be legal."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), ptx, flags=re.DOTALL)
    word = re.compile(rf"(?<![\w$%.]){re.escape(name)}(?![\w$])")
    declared: int | None = None
    for statement in re.finditer(r"[^;{}]+", text):
        place = word.search(text, statement.start(), statement.end())
        if place is None:
            continue
        line = text.count("\n", 0, place.start()) + 1
        if ".extern" not in statement[0]:
            where = "" if declared is None else f" (declared at line {declared})"
            return line, f"define {name} in this text{where}: ptxas links no other"
        declared = declared or line
    return declared, f"define {name} in this text: ptxas links no other"


def _hint(text: str) -> str | None:
    if "for option 'gpu-name'" in text:
        archs = ", ".join(f"sm_{arch}" for arch in supported_archs())
        return f"this ptxas ({tool_version('ptxas')}) generates code for {archs}"
    return None


_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for")
_PROPERTIES = re.compile(r"Function properties for (?P<name>\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")


def _read_usage(log: str) -> dict[str, ResourceUsage]:
    """What `-v` says about each entry function. Device functions are in the log only."""
    entries: list[str] = []
    stacks: dict[str, tuple[int, int, int]] = {}
    used: dict[str, tuple[int, int, int]] = {}
    current = ""
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            current = entry["name"]
            entries.append(current)
        elif properties := _PROPERTIES.search(line):
            current = properties["name"]
        elif stack := _STACK.search(line):
            stacks[current] = (int(stack[1]), int(stack[2]), int(stack[3]))
        elif registers := _REGISTERS.search(line):
            barriers, shared = _BARRIERS.search(line), _SHARED.search(line)
            used[current] = (
                int(registers[1]),
                int(barriers[1]) if barriers else 0,
                int(shared[1]) + int(shared[2] or 0) if shared else 0,
            )
    usage: dict[str, ResourceUsage] = {}
    for name in entries:
        stack_bytes, stores, loads = stacks.get(name, (0, 0, 0))
        registers_used, barriers_used, shared_bytes = used.get(name, (0, 0, 0))
        usage[name] = ResourceUsage(registers_used, shared_bytes, stores, loads, stack_bytes, barriers_used)
    return usage


# --- reading the machine code back


@dataclass(frozen=True, slots=True)
class SassLine:
    """One machine instruction: byte offset in its function, text, and the PTX line it came from."""

    offset: int
    text: str
    line: int | None = None
    label: str | None = None
    """The label before it, as branches name it (`.L_x_2`)."""


def disassemble(cubin: bytes) -> str:
    """SASS of all functions of a cubin, as `nvdisasm -c` prints it (else `cuobjdump -sass`)."""
    try:
        nvdisasm = find_tool("nvdisasm")
    except ToolNotFound:
        try:
            return _read_cubin([find_tool("cuobjdump"), "-sass"], cubin)
        except ToolNotFound:
            pass
        raise
    return _read_cubin([nvdisasm, "-c"], cubin)


def run_nvdisasm(cubin: bytes, *options: str) -> str:
    """What nvdisasm prints of a cubin. Raises `ToolNotFound`, and PTXError where it cannot read the cubin."""
    return _read_cubin([find_tool("nvdisasm"), *options], cubin)


_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_PTX_LINE = re.compile(r'^\s*//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_LABEL = re.compile(r"^([.$\w]+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$")


def sass_with_lines(cubin: bytes) -> dict[str, tuple[SassLine, ...]]:
    """SASS of each function, instruction by instruction, with the PTX line after each.

    Lines are known only for what was assembled with `options=("-lineinfo",)`; else they are None.
    Needs nvdisasm. Trailing padding (`NOP` and the self-branch after the last instruction) is kept.
    """
    text = run_nvdisasm(cubin, "-gp", "-c")
    functions: dict[str, list[SassLine]] = {}
    body: list[SassLine] | None = None
    line = label = None
    for printed in text.splitlines():
        if section := _SECTION.match(printed):
            body = functions.setdefault(section[1], [])
            line = label = None
        elif body is None:
            continue
        elif place := _PTX_LINE.match(printed):
            line = int(place[1])
        elif head := _LABEL.match(printed):
            label = head[1] if head[1].startswith(".L") else None
        elif instruction := _INSTRUCTION.match(printed):
            body.append(SassLine(int(instruction[1], 16), instruction[2], line, label))
            label = None
    return {name: tuple(lines) for name, lines in functions.items()}


def _read_cubin(command: list[str], cubin: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        Path(folder, "kernel.cubin").write_bytes(cubin)
        try:
            done = subprocess.run(
                [*command, "kernel.cubin"],
                cwd=folder,
                capture_output=True,
                timeout=_READ_TIMEOUT,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise PTXError(
                f"{Path(command[0]).name} did not read this cubin within {_READ_TIMEOUT:g} s; it may be damaged"
            ) from None
    if done.returncode:
        said = " ".join(_decode(done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
        raise PTXError(f"{Path(command[0]).name} cannot read this cubin: {said}")
    return _decode(done.stdout)
