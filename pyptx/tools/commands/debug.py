"""`pyptx debug`: a kernel on the simulator, step by step, in a terminal.

    pyptx debug kernel.ptx --grid 2 --block 64 --arg zeros:f32:1024 --arg u32:5

Follows one thread (the first; `thread` changes it); all others run along.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ...diagnostics import PTXError, counted, did_you_mean, origin_lines
from ...dialects.ptx.special_registers import is_special_register, own_bits, read_problem
from ...simulator import Observer, Timeline, load
from ...simulator.engine.engine import Engine
from ...simulator.machine.machine import POISON, Action, Machine
from ...simulator.machine.program import SHARED_BASE, Inst, Program, Reg
from ...simulator.observers.trace import Step, Trace, names_of, show_value, value_of
from ...sources import read_file

DTYPES = {
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "f16": np.float16, "s32": np.int32,
    "u32": np.uint32, "f32": np.float32, "s64": np.int64, "u64": np.uint64, "f64": np.float64,
}  # fmt: skip
MOST_BYTES = 4 << 30
"""Bytes of an array that `--arg` makes."""
HELP = """\
step [n], s      execute n instructions of the thread (an empty line repeats)
continue, c      run to the next breakpoint or to the end
break LINE, b    stop before the instruction at a line; `break` lists, `delete LINE` removes
print %r1, p     a register of the thread, also %tid.x (all its registers: print), as integer, hex and float
mem [s [n]], x   n bytes (64) of shared variable s, or from s+16 on; `mem` lists the shared variables
where, w         the place: thread, line, instruction, what it reads
list, l          the source around the place
thread CTA T, t  follow another thread: number of the CTA, number of the thread in it
help, h          these lines
quit, q          end"""
COMMANDS = tuple(re.findall(r"^\w+", HELP, re.M))
GDB = {
    "bt": "where", "backtrace": "where", "frame": "where", "info": "print", "display": "print", "next": "step", "n": "step",
    "stepi": "step", "si": "step", "nexti": "step", "run": "continue", "r": "continue", "finish": "continue",
    "disassemble": "list", "clear": "delete LINE", "tbreak": "break", "exit": "quit",
}  # fmt: skip
"""What people type who come from gdb -> the command here that comes nearest."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="PTX file")
    parser.add_argument("--entry", help="kernel to run, if the file has several")
    parser.add_argument("--grid", default="1", help="CTAs: 4 or 4,2")
    parser.add_argument("--block", help="threads of a CTA: 128 or 16,16 (default: the kernel's .reqntid, else 32)")
    parser.add_argument("--cluster", help="CTAs of a cluster")
    parser.add_argument("--smem", type=int, default=0, help="bytes of dynamic shared memory")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        help="a parameter, in order: TYPE:VALUE (u32:5), zeros:TYPE:COUNT, range:TYPE:COUNT, random:TYPE:COUNT, or a "
        ".npy file",
    )
    parser.add_argument("--seed", type=int, default=0, help="delay copies and shuffle warps, as this seed decides")
    parser.add_argument("--schedule", help="run the schedule of this number or token (0:3), as findings name it")
    parser.add_argument("--schedules", type=int, help="look for mistakes in so many schedules (default: 1)")
    parser.add_argument("--no-check", action="store_true", help="do not look for races and other mistakes")
    parser.add_argument("--break", dest="breaks", type=int, action="append", default=[], help="breakpoint: a line")
    parser.add_argument(
        "--numerics", action="store_true", help="print what the sums of matrix instructions lose, by line"
    )
    parser.add_argument(
        "--timeline", type=_timeline_file, help="write a timeline to this file: .svg, or .json for Perfetto"
    )


def _timeline_file(text: str) -> str:
    if Path(text).suffix not in (".svg", ".json"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a timeline's file: its name ends in .svg or .json")
    return text


class _Quit(Exception):
    """The person wants to stop."""


def run(options: argparse.Namespace) -> int:
    kernels = load(Path(options.file))
    name = options.entry or (next(iter(kernels)) if len(kernels) == 1 else None)
    if name is None or name not in kernels:
        print(f"{options.file}: choose one with --entry: {', '.join(kernels) or 'it has no kernel'}", file=sys.stderr)
        return 2
    try:
        arguments = [argument(text, seed) for seed, text in enumerate(options.arg)]
        grid, block, cluster = (sizes(v) for v in (options.grid, options.block, options.cluster))
    except ValueError as error:
        print(f"pyptx debug: {error}", file=sys.stderr)
        return 2
    program = kernels[name].loaded.program(name)
    if block is None and ".reqntid" not in program.directives:
        block = (32,)
    stepper = Stepper(read_file(options.file), program)
    if not stepper.break_at(options.breaks) and options.breaks:
        return 2
    timeline = Timeline() if options.timeline else None
    watching: list[Observer] = [stepper.written, stepper.trace, *((timeline,) if timeline is not None else ())]
    try:
        report = kernels[name].simulate(
            *arguments,
            grid=grid,
            block=block,
            cluster=cluster,
            smem=options.smem,
            seed=options.seed,
            schedule=options.schedule,
            schedules=options.schedules or (None if options.schedule is not None else 1),
            check=not options.no_check,
            numerics=options.numerics,
            observers=watching,
        )
    except _Quit:
        return 0
    except PTXError as error:
        print(error)
        return 1
    finally:
        if timeline is not None:
            timeline.save(options.timeline)
    if report.output:
        print(report.output, end="")
    for finding in report.distinct:
        print(finding.render())
    if report.numerics is not None:
        print(report.numerics)
    print(f"the kernel ended: {report.instructions:,} thread instructions, {counted(len(report.findings), 'finding')}")
    for text, value in zip(options.arg, arguments, strict=True):
        if isinstance(value, np.ndarray):
            print(f"{text}: {value.reshape(-1)[:8]}{' ...' if value.size > 8 else ''}")
    return 1 if any(f.severity != "advice" for f in report.findings) else 0


def sizes(text: str | None) -> tuple[int, ...] | None:
    """The numbers of `--grid`, `--block` or `--cluster`. ValueError if it holds anything else."""
    if text is None:
        return None
    words = text.replace("x", ",").split(",")
    if len(words) > 3 or not all(word.strip().isdecimal() and int(word) for word in words):
        raise ValueError(f"{text} is not a size: write one to three positive numbers, such as 128 or 16,16")
    return tuple(map(int, words))


def argument(text: str, seed: int = 0) -> Any:
    """A parameter from the command line; `seed`: of random ones. ValueError if it cannot be read."""
    if text.endswith(".npy"):
        try:
            return np.load(text)
        except OSError as error:
            raise ValueError(f"--arg {text}: {error.strerror or error}") from None
    words = text.split(":")
    kind = words[-2] if len(words) >= 2 else ""
    if kind not in DTYPES or len(words) > 3 or (len(words) == 3 and words[0] not in ("zeros", "range", "random")):
        raise ValueError(f"--arg {text}: write TYPE:VALUE, zeros:TYPE:COUNT, range:TYPE:COUNT or random:TYPE:COUNT")
    dtype = np.dtype(DTYPES[kind])
    if len(words) == 2:
        return _number(text, words[1], float if dtype.kind == "f" else lambda word: int(word, 0))
    count = int(_number(text, words[2], lambda word: int(word, 0)))
    if not 0 <= count * dtype.itemsize <= MOST_BYTES:
        raise ValueError(f"--arg {text}: {counted(count, 'element')} are not an array of 0 to {MOST_BYTES >> 30} GiB")
    if words[0] == "random":
        rng = np.random.default_rng(seed)
        return rng.normal(size=count).astype(dtype) if dtype.kind == "f" else rng.integers(0, 100, count).astype(dtype)
    return np.arange(count).astype(dtype) if words[0] == "range" else np.zeros(count, dtype)


def _number(text: str, word: str, read: Callable[[str], float]) -> float:
    try:
        return read(word)
    except ValueError:
        raise ValueError(f"--arg {text}: {word!r} is not a number") from None


class Written(Observer):
    """Which threads have written which registers in this batch of CTAs."""

    def attach(self, machine: Machine) -> None:
        self.machine = machine
        self.lanes: dict[Reg, np.ndarray] = {}

    def started(self, engine: Engine) -> None:
        self.lanes.clear()

    def bound(self, inst: Inst, action: Action) -> Action:
        def noted(mask: Any) -> object:
            active = self.machine.active(inst, mask)
            done = action(mask)
            self._note(inst, active)
            return done

        return noted

    def ended(self, inst: Inst, mask: np.ndarray) -> None:
        self._note(inst, mask)

    def barrier_waits(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self._note(inst, mask)

    def _note(self, inst: Inst, lanes: np.ndarray) -> None:
        for reg in inst.written:
            self.lanes[reg] = lanes | self.lanes.get(reg, False)

    def has(self, reg: Reg, lane: int) -> bool:
        """Whether the thread has written it. What the machine itself wrote (a call's results) is known by its value."""
        seen = reg in self.lanes and bool(self.lanes[reg][lane])
        bits = 0 if reg.pool == "p" else int(reg.pool)
        return seen or value_of(self.machine, reg, lane) != int.from_bytes(bytes([POISON]) * (bits // 8), "little")


class Stepper:
    """Reads commands from standard input whenever the followed thread is about to stop."""

    def __init__(self, source: str, program: Program):
        self.source = source.split("\n")
        self.program = program
        self.breaks: set[int] = set()
        self.written = Written()
        self.steps = 1
        """Instructions until the thread stops, while `stepping`."""
        self.stepping = True
        self.trace = Trace(before=self.before, threads=[(0, 0)])
        self.last = "step"
        self.names = names_of(program)

    def break_at(self, lines: Iterable[int]) -> bool:
        """Set breakpoints, each at the first instruction at or after its line; whether one was set."""
        code = sorted({i.line for i in self.program.instructions if i.line is not None and not i.copies})
        found: set[int] = set()
        for line in lines:
            at = next((n for n in code if n >= line), None)
            if at is None:
                print(
                    f"line {line}: no instruction there or after it"
                    + (f"; the last is line {code[-1]}" if code else "")
                )
                continue
            if at != line:
                print(f"line {line} has no instruction: the breakpoint is at the next one, line {at}")
            found.add(at)
        self.breaks |= found
        self.stepping = self.stepping and not found
        return bool(found)

    def before(self, step: Step) -> None:
        """An instruction of the thread is next."""
        if self.steps:
            self.steps -= 1
        if step.inst.line not in self.breaks and (self.steps or not self.stepping):
            return
        self.stepping = False
        self.where(step)
        while not self.command(step):
            pass

    def command(self, step: Step) -> bool:  # noqa: C901  one case for each command of the debugger
        """Read and do one command; whether the thread goes on."""
        print("(pyptx) ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise _Quit
        words = line.split() or self.last.split()
        self.last = " ".join(words)
        verb, *rest = words
        match verb:
            case "s" | "step":
                count = rest[0] if rest else "1"
                if len(rest) > 1 or not count.isdecimal() or not int(count):
                    print(f"step takes a number of instructions, 1 or more, not {' '.join(rest)}")
                    return False
                self.steps = int(count)
                self.stepping = True
                return True
            case "c" | "continue":
                self.steps, self.stepping = 0, False
                return True
            case "b" | "break" | "delete":
                lines = sorted({int(w) for w in rest if w.isdigit()})
                if verb == "delete":
                    self.breaks -= set(lines)
                else:
                    self.break_at(lines)
                print("breakpoints: " + (", ".join(map(str, sorted(self.breaks))) or "none"))
            case "p" | "print":
                self.show(step, rest)
            case "x" | "mem":
                self.memory(step, rest)
            case "w" | "where":
                self.where(step)
            case "l" | "list":
                at = step.inst.line or 1
                for n in range(max(1, at - 4), min(len(self.source), at + 5) + 1):
                    print(f"{'->' if n == at else '  '} {n:>5}  {self.source[n - 1]}")
            case "t" | "thread" if len(rest) == 2 and all(w.isdigit() for w in rest):
                self.follow(step, int(rest[0]), int(rest[1]))
                return True
            case "q" | "quit":
                raise _Quit
            case "h" | "help":
                print(HELP)
            case "t" | "thread":
                print("thread takes two numbers: of the CTA, and of the thread in it")
            case _:
                hint = f"did you mean `{GDB[verb]}`?" if verb in GDB else did_you_mean(verb, COMMANDS)
                print(f"unknown command {verb}; {f'{hint} ' if hint else ''}h for help")
        return False

    def follow(self, step: Step, cta: int, thread: int) -> None:
        """Follow another thread from its next instruction on."""
        machine = step.machine
        self.trace.threads = [(cta, thread)]
        inside = machine.first_cta <= cta < machine.first_cta + machine.ctas and thread < machine.launch.threads
        self.trace.lanes = [(cta - machine.first_cta) * machine.padded + thread] if inside else []
        self.steps, self.stepping = 1, True
        print(f"follows thread {thread} of CTA {cta}" + ("" if inside else ", which does not run now"))

    def where(self, step: Step) -> None:
        """Say where the thread is."""
        print(
            f"{step.cta} thread {step.thread}, {step.place}: {step.text}" + ("" if step.executes else "  (guard false)")
        )
        for line in origin_lines(self.program.origin(step.inst)):
            print(f"    {line}")
        if step.read:
            print("    " + ", ".join(f"{n} = {show_value(v, step.floats.get(n, 0))}" for n, v in step.read.items()))

    def show(self, step: Step, names: list[str]) -> None:
        """Print registers."""
        for name in names or sorted(self.names):
            reg = self.names.get(name)
            if reg is None:
                print(_special(step, name))
                continue
            if not self.written.has(reg, step.lane):
                print(f"{name}: not written")
                continue
            value = value_of(step.machine, reg, step.lane)
            real = f"  {show_value(value, int(reg.pool))}" if reg.pool in ("32", "64") else ""
            if reg in step.machine.program.floats:
                print(f"{name} ={real}  0x{value:x}")
            else:
                print(f"{name} = {value}  0x{value:x}{real}")

    def memory(self, step: Step, words: list[str]) -> None:
        """Print bytes of shared memory of the thread's CTA."""
        machine: Machine = step.machine
        start = {
            n: (p.address if p.size >= 0 else self.program.dynamic_offset) - SHARED_BASE
            for n, p in self.program.shared.items()
        }
        if not words:
            for name, at in start.items():
                size = self.program.shared[name].size
                print(f"{name}  0x{at + SHARED_BASE:x}  {size if size >= 0 else machine.launch.dynamic_shared} bytes")
            print(f"shared memory of a CTA: {machine.shared_size} bytes")
            return
        name, _, offset = words[0].partition("+")
        known = name in start and all(w.isdecimal() for w in (offset or "0", *words[1:]))
        if not known or len(words) > 2:
            print(
                f"mem takes a shared variable ({', '.join(start) or 'there is none'}) and maybe a number of bytes: mem s+16 64"
            )
            return
        first = start[name] + int(offset or 0)
        data = machine.shared[int(machine.cta_of_lane[step.lane])][: machine.shared_size]
        data = data[first : first + (int(words[1]) if len(words) > 1 else 64)]
        if not data.size:
            print(f"0x{first + SHARED_BASE:x} is after the end of shared memory")
        for row in range(0, data.size, 16):
            print(f"0x{first + row + SHARED_BASE:05x}  {data[row : row + 16].tobytes().hex(' ', 4)}")


def _special(step: Step, name: str) -> str:
    """The line that shows a special register of the thread, or says why it cannot."""
    if not is_special_register(name.partition(".")[0]):
        return f"unknown register {name}"
    problem = read_problem(name, own_bits(name), None)
    if problem is not None:
        return problem
    if "clock" in name or "timer" in name:
        return f"{name} changes: what it is shows when an instruction reads it"
    value = int(step.machine.special(name)[step.lane])
    return f"{name} = {value}  0x{value:x}"
