"""Ask ptxas, in bulk, which PTX instructions it accepts.

    python -m pyptx.tools.oracle 8.7 sm_90a 'add.s32 %r0,%r1,%r2;' 'wgmma.fence.sync.aligned;'
    python -m pyptx.tools.oracle 8.7 sm_90a < instructions.txt          one instruction per line
    python -m pyptx.tools.oracle --file kernel.ptx                      a file, under its own target

One instruction per line, thousands of lines per file. ptxas reports every semantic error with its line
and goes on; only a grammar error stops it, and then the run resumes below. A crash counts as a refusal.
About 0.05 ms per instruction.

All lines stand in one entry function, under the names that `header` declares: `%p<20>` predicates,
`%h<40>` .b16, `%r<520>` .b32, `%d<60>` .b64, `%b<20>` .b8, `%q<60>` .b128; the variables `gb` (global),
`sb` (shared), `cb` (const), `lb` (local), the parameter `prm`, `tx` and `su`; the functions `fn`, `fn2`;
the labels `Lx`, `Ly`; and `tgts`, `proto`, `ctgts`, `ctgt2`. What a line declares, later lines see.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pyptx.diagnostics import Diagnostic
from pyptx.tools.ptxas import ABORTED, MESSAGE, assemble, checking_arch, run_ptxas, target_of

__all__ = ["check_file", "header", "main", "verdicts"]

_MOST_LINES = 8000
_FEWEST_LINES = 64
_FOOTER = "Lx: ret;\nLy: ret;\n}\n"


def header(version: str, target: str) -> str:
    """Declarations that probed instructions may use, as far as this version and target know them."""
    v = tuple(int(part) for part in version.split("."))
    number = re.fullmatch(r"sm_(\d+)[af]?", target)
    if number is None:
        raise ValueError(f"target must be sm_NN, sm_NNa or sm_NNf, not {target!r}")
    sm = int(number[1])
    lines = [f".version {version}", f".target {target}"]
    if v >= (2, 3):
        lines.append(".address_size 64")
    lines += [
        ".global .align 128 .b8 gb[2048];",
        ".shared .align 128 .b8 sb[2048];",
        ".const .align 128 .b8 cb[256];",
    ]
    if v >= (1, 5):
        lines += [".global .texref tx;", ".global .surfref su;"]
    if v >= (2, 0):
        lines += [".func fn() { ret; }", ".func (.reg .b32 rv) fn2 (.reg .b32 a) { ret; }"]
    lines += [
        ".entry kk(.param .b64 prm) {" if v >= (1, 4) else ".entry kk {",
        ".reg .pred %p<20>;",
        ".reg .b16 %h<40>;",
        ".reg .b32 %r<520>;",
        ".reg .b64 %d<60>;",
        ".reg .b8 %b<20>;",
        ".local .align 16 .b8 lb[256];",
    ]
    if v >= (8, 3) and sm >= 70:
        lines.append(".reg .b128 %q<60>;")
    if v >= (6, 0) and sm >= 30:
        lines.append("tgts: .branchtargets Lx, Ly;")
    if v >= (2, 1) and sm >= 20:
        lines += [
            "proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);",
            "ctgts: .calltargets fn;",
            "ctgt2: .calltargets fn2;",
        ]
    return "\n".join(lines) + "\n"


def verdicts(lines: Sequence[str], version: str, target: str, declarations: str = "") -> list[list[str]]:
    """What ptxas says against each instruction: an empty list where it accepts it.

    `version` is the PTX version (`"8.7"`), `target` the `.target` (`"sm_90a"`), `declarations` lines that stand before
    the instructions. Raises `ToolNotFound`
    without a ptxas, RuntimeError when it refuses the declarations themselves.
    """
    probe = _Probe(header(version, target) + declarations, checking_arch(target))
    flat = [line.replace("\r", " ").replace("\n", " ") for line in lines]
    out: list[list[str]] = []
    for start in range(0, len(flat), _MOST_LINES):
        out += probe.judge(flat[start : start + _MOST_LINES])
    return out


class _Probe:
    def __init__(self, head: str, arch: str) -> None:
        self.head = head
        self.first = head.count("\n") + 1
        self.arch = arch

    def run(self, lines: Sequence[str]) -> tuple[bool, list[tuple[int | None, str, str]]]:
        """Whether ptxas crashed (or hung), and its errors: index into lines, severity, text."""
        text = self.head + "".join(f"{line}\n" for line in lines) + _FOOTER
        code, log, _ = run_ptxas(text, ("-arch", self.arch, "-w"), timeout=300)
        found: list[tuple[int | None, str, str]] = []
        for printed in log.splitlines():
            message = MESSAGE.match(printed)
            if message is None or message["severity"] not in ("error", "fatal"):
                continue
            if message["text"].startswith(ABORTED):
                continue
            index = int(message["line"]) - self.first if message["line"] else None
            found.append((index, message["severity"], message["text"]))
        return code is None or code < 0, found

    def judge(self, lines: Sequence[str]) -> list[list[str]]:
        out: list[list[str]] = [[] for _ in lines]
        todo = list(lines)
        start, size = 0, len(lines)
        while start < len(todo):
            chunk = todo[start : start + size]
            crashed, found = self.run(chunk)
            if crashed:
                culprit = start + self._first_crash(chunk)
                if not todo[culprit]:
                    raise RuntimeError("ptxas crashes on the declarations of the probe")
                out[culprit].append("ptxas crashed")
                todo[culprit] = ""
                continue
            stopped = None
            for index, severity, text in found:
                if index is None or index < 0:
                    raise RuntimeError(f"ptxas refuses the declarations of the probe: {text}")
                index = min(index, len(chunk) - 1)
                if severity == "fatal":
                    index = stopped = _blamed(chunk, index)
                out[start + index].append(text)
            # Grammar errors cost a run each: where they are dense, look at fewer lines at a time.
            if stopped is None:
                start, size = start + len(chunk), min(_MOST_LINES, 4 * size)
            else:
                for index in range(stopped + 1, len(chunk)):
                    out[start + index].clear()  # they are judged again
                start, size = start + stopped + 1, max(_FEWEST_LINES, 2 * (stopped + 1))
        return out

    def _first_crash(self, chunk: Sequence[str]) -> int:
        """Index of the line with which ptxas first crashes; the lines before it do not crash."""
        low, high = 0, len(chunk)
        while low < high:
            middle = (low + high) // 2
            if self.run(chunk[:middle])[0]:
                high = middle
            else:
                low = middle + 1
        return max(low - 1, 0)


def _blamed(chunk: Sequence[str], index: int) -> int:
    """The line to blame for a grammar error that ptxas saw at `index`.

    It sees a missing semicolon only at the next token, lines later maybe.
    """
    if index > 0:
        before = next((i for i in range(index - 1, -1, -1) if chunk[i].strip()), None)
        if before is not None and _is_open(chunk[before]):
            return before
    while index > 0 and not chunk[index].strip():
        index -= 1
    return index


def _is_open(line: str) -> bool:
    code = re.sub(r"/\*.*?\*/", " ", line).split("//")[0].rstrip()
    return bool(code) and code[-1] not in ";:{}"


def check_file(path: str | Path) -> list[Diagnostic]:
    """What ptxas says against a whole PTX file, under its own `.target`, without generating code."""
    text = Path(path).read_bytes().decode("utf-8", "surrogateescape")
    result = assemble(text, target_of(text) or "sm_90", check_only=True, filename=str(path))
    return list(result.errors)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line in the module's docstring. 0: all accepted; 1: something refused; 2: usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) == 2 and arguments[0] == "--file":
        errors = check_file(arguments[1])
        for error in errors:
            print(error.render())
        print("REJECT" if errors else "OK    ", arguments[1], sep="\t")
        return int(bool(errors))
    if len(arguments) < 2:
        print(__doc__)
        return 2
    version, target, *lines = arguments
    lines = lines or [line.rstrip("\n") for line in sys.stdin if line.strip()]
    try:
        judged = verdicts(lines, version, target)
    except RuntimeError as error:  # a version or target that this ptxas does not know, or no ptxas
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    for line, messages in zip(lines, judged, strict=True):
        print("REJECT" if messages else "OK    ", line, *messages[:1], sep="\t")
    return int(any(judged))


if __name__ == "__main__":
    sys.exit(main())
