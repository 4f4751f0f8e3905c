"""Do the spellings that our messages propose assemble?

    python -m benchmarks.hints [--count 5000] [--seed 1] [--processes 2] [--words] [--show 20] [--kinds modifiers,names]

Takes instructions that ptxas accepts (probed rows of `isa/`, lines of real files and of `tests/data`), makes one fault in
each, keeps those that ptxas refuses, and applies every proposal of `pyptx.diagnose` to the text that it was made for: ptxas
says whether what comes out is legal. Prints, for each kind of message, how many proposals there were and how many of them
are legal; and for each kind of fault how many edits had a legal proposal, and how many one that gives the instruction back
as it was. `--words` reads the proposals out of the words of messages and hints instead of `Diagnostic.fixes`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyptx
from pyptx.diagnostics import Diagnostic
from pyptx.dialects.ptx.instruction import OPCODES
from pyptx.dialects.ptx.special_registers import SPECIAL_REGISTERS
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version
from pyptx.dialects.ptx.types import SCALAR_TYPES
from pyptx.tools.oracle import header

from .draws import BY_BITS, SYMBOLS, balanced, declarations, from_files, split_operands
from .fuzz_verdicts import FOOTER, TARGETS, VERSIONS, asked, written

OWN = Path(__file__).resolve().parent.parent / "tests" / "data" / "ptx"
PAIRS = (
    ("9.5", "sm_90a"), ("8.7", "sm_90a"), ("7.0", "sm_80"), ("9.5", "sm_100a"), ("9.0", "sm_120a"), ("8.0", "sm_90"),
    ("6.4", "sm_70"), ("9.5", "sm_107a"), ("7.8", "sm_86"), ("9.5", "sm_75"), ("9.5", "sm_120f"), ("6.0", "sm_60"),
    ("9.5", "sm_103a"), ("9.5", "sm_89"),
)  # fmt: skip
_HEAD = re.compile(r"((?:@!?[\w%]+ )?)([\w.:]+)(.*)", re.S)
_WORD = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True)
class Fault:
    """An instruction with one fault: the kind of fault, version and target, and the line as it was."""

    kind: str
    version: str
    target: str
    before: str
    line: str

    @property
    def text(self) -> str:
        return frame(self.version, self.target) + self.line + "\n" + FOOTER

    @property
    def number(self) -> int:
        return frame(self.version, self.target).count("\n") + 1


@dataclass
class Proposed:
    """One proposal: the kind of message that it comes with, and the texts, one of which should be legal."""

    fault: Fault
    message: str
    hint: str
    kind: str
    texts: list[str]
    legal: bool = False
    restores: bool = False


@lru_cache(maxsize=256)
def frame(version: str, target: str) -> str:
    return header(version, target) + declarations(version, target)


# ------------------------------------------------------------------------------------------------------------ faults


class Editor:
    """Makes one fault of a kind in an instruction; an empty string where it has no place for it."""

    def __init__(self, seed: object, words: Sequence[str]):
        self.random = random.Random(f"{seed}")
        self.words = words

    def kinds(self) -> dict[str, Callable[[str], str]]:
        return {
            "modifier dropped": self._modifier_dropped,
            "modifier added": self._modifier_added,
            "modifier exchanged": self._modifier_exchanged,
            "modifier misspelled": self._modifier_misspelled,
            "modifiers swapped": self._modifiers_swapped,
            "type": self._type,
            "register class": self._register_class,
            "register name": self._register_name,
            "opcode misspelled": self._opcode,
            "symbol misspelled": self._symbol,
            "special register": self._special,
            "punctuation missing": self._punctuation,
            "brackets": self._brackets,
            "operand missing": self._operand_missing,
            "operand added": self._operand_added,
            "constant": self._constant,
            "guard": self._guard,
        }

    def _parts(self, line: str) -> tuple[str, list[str], str]:
        match = _HEAD.match(line)
        assert match is not None
        return match[1], match[2].split("."), match[3]

    def _with_modifiers(self, line: str, change: Callable[[list[str]], None]) -> str:
        guard, words, rest = self._parts(line)
        if len(words) < 2:
            return ""
        change(words)
        return guard + ".".join(words) + rest

    def _modifier_dropped(self, line: str) -> str:
        return self._with_modifiers(line, lambda w: w.__delitem__(self.random.randrange(1, len(w))))

    def _modifier_added(self, line: str) -> str:
        new = self.random.choice(self._own(line) or self.words)
        return self._with_modifiers(line, lambda w: w.insert(self.random.randrange(1, len(w) + 1), new))

    def _modifier_exchanged(self, line: str) -> str:
        own = self._own(line)
        new = self.random.choice(own if own and self.random.random() < 0.7 else self.words)
        return self._with_modifiers(line, lambda w: w.__setitem__(self.random.randrange(1, len(w)), new))

    def _own(self, line: str) -> list[str]:
        root = self._parts(line)[1][0]
        classes = [cls for opcode, cls in OPCODES.items() if opcode.split(".")[0] == root]
        return sorted({v for cls in classes for f in cls.forms for s in f.slots for v in s.values})

    def _slip(self, word: str) -> str:
        """A letter left out, doubled, replaced, or two of them exchanged."""
        choose = self.random
        i = choose.randrange(len(word))
        return choose.choice(
            (
                word[:i] + word[i + 1 :],
                word[:i] + word[i] + word[i:],
                word[:i] + choose.choice("abcdefghijklmnopqrstuvwxyz12348") + word[i + 1 :],
                word[:i] + word[i + 1 : i + 2] + word[i] + word[i + 2 :],
            )
        )

    def _modifier_misspelled(self, line: str) -> str:
        def change(words: list[str]) -> None:
            i = self.random.randrange(1, len(words))
            words[i] = self._slip(words[i]) or words[i]

        return self._with_modifiers(line, change)

    def _modifiers_swapped(self, line: str) -> str:
        def change(words: list[str]) -> None:
            i, j = self.random.randrange(1, len(words)), self.random.randrange(1, len(words))
            words[i], words[j] = words[j], words[i]

        return self._with_modifiers(line, change)

    def _type(self, line: str) -> str:
        def change(words: list[str]) -> None:
            places = [i for i, w in enumerate(words) if w in SCALAR_TYPES]
            if places:
                words[self.random.choice(places)] = self.random.choice(list(SCALAR_TYPES))

        return self._with_modifiers(line, change)

    def _replaced(self, line: str, pattern: str, new: Callable[[re.Match[str]], str]) -> str:
        """One match among the operands replaced."""
        guard, words, rest = self._parts(line)
        matches = list(re.finditer(pattern, rest))
        if not matches:
            return ""
        match = self.random.choice(matches)
        return guard + ".".join(words) + rest[: match.start()] + new(match) + rest[match.end() :]

    def _register_class(self, line: str) -> str:
        stems = [s for names in BY_BITS.values() for s in names]
        return self._replaced(line, r"%([phrdbq])(\d+)(?!\w)", lambda m: self.random.choice(stems) + m[2][:1])

    def _register_name(self, line: str) -> str:
        changes: tuple[Callable[[re.Match[str]], str], ...] = (
            lambda m: f"{m[1]}{m[2]}", lambda m: f"%{m[1]}{m[1]}{m[2]}", lambda m: f"%{m[1]}x{m[2]}",
            lambda m: f"%{m[1].upper()}{m[2]}", lambda m: f"${m[1]}{m[2]}",
        )  # fmt: skip
        return self._replaced(line, r"%([phrdbq])(\d+)(?!\w)", self.random.choice(changes))

    def _opcode(self, line: str) -> str:
        guard, words, rest = self._parts(line)
        words[0] = self._slip(words[0])
        return guard + ".".join(words) + rest if words[0] else ""

    def _symbol(self, line: str) -> str:
        pattern = rf"(?<![%\w.])(?:{'|'.join(SYMBOLS)}|Ly|ctgt2)(?!\w)"
        return self._replaced(line, pattern, lambda m: self.random.choice((self._slip(m[0]), m[0] + ".x", m[0] + "_")))

    def _special(self, line: str) -> str:
        names = "|".join(re.escape(n) for n in sorted(SPECIAL_REGISTERS, key=len, reverse=True))
        changes: tuple[Callable[[re.Match[str]], str], ...] = (
            lambda m: m[0][1:], lambda m: "%" + self._slip(m[0][1:]), lambda m: m[0] + ".x",
        )  # fmt: skip
        return self._replaced(line, rf"(?:{names})(?!\w)", self.random.choice(changes))

    def _punctuation(self, line: str) -> str:
        places = [i for i, c in enumerate(line) if c in ",;[]{}"]
        i = self.random.choice(places)
        return line[:i] + line[i + 1 :]

    def _operands(self, line: str, change: Callable[[list[str]], None]) -> str:
        guard, words, rest = self._parts(line)
        operands = split_operands(rest.strip().removesuffix(";"))
        if not operands:
            return ""
        change(operands)
        return f"{guard}{'.'.join(words)} {', '.join(operands)};".replace(" ;", ";")

    def _brackets(self, line: str) -> str:
        def change(operands: list[str]) -> None:
            bracketed = [i for i, o in enumerate(operands) if o[0] in "[{"]
            if bracketed and self.random.random() < 0.7:
                i = self.random.choice(bracketed)
                operands[i] = operands[i][1:-1] if self.random.random() < 0.7 else f"{{{operands[i][1:-1]}}}"
            else:
                i = self.random.randrange(len(operands))
                operands[i] = f"[{operands[i]}]"

        return self._operands(line, change)

    def _operand_missing(self, line: str) -> str:
        return self._operands(line, lambda o: o.__delitem__(self.random.randrange(len(o))))

    def _operand_added(self, line: str) -> str:
        new = self.random.choice(("%r1", "%d1", "%p1", "0", "1"))
        return self._operands(line, lambda o: o.insert(self.random.randrange(len(o) + 1), new))

    def _constant(self, line: str) -> str:
        news = "0 1 1.0 0f3F800000 0d3FF0000000000000 -1 4294967296 0x1FFFFFFFF".split()
        return self._replaced(line, r"%[rdh]\d+|(?<![%\w.])\d[\w.]*", lambda m: self.random.choice(news))

    def _guard(self, line: str) -> str:
        guard = self.random.choice(("%p1 ", "@%r1 ", "@p1 ", "@ ", "!%p1 ", "@%P1 "))
        return "" if line[0] == "@" else guard + line


def _pool(choose: random.Random, sources: Sequence[str]) -> list[str]:
    """Instructions of these sources, a sample of the large ones."""
    lines: list[str] = []
    if "rows" in sources:
        lines += choose.sample(written("rows"), 900)
    if "corpus" in sources:
        lines += choose.sample(written("corpus"), 600)
    if "own" in sources:
        own = from_files(sorted(OWN.rglob("*.ptx")))
        lines += choose.sample(own, min(len(own), 150))
    return [s for s in lines if balanced(s) and s.count(";") == 1 and s[0] not in "{." and _HEAD.match(s)]


def faults(
    count: int, seed: int, chosen: Sequence[str] = (), sources: Sequence[str] = ("rows", "corpus", "own")
) -> Iterator[Fault]:
    """Instructions with one fault that ptxas refuses; of these kinds, if some are chosen."""
    choose = random.Random(seed)
    words = sorted({v for cls in OPCODES.values() for f in cls.forms for s in f.slots for v in s.values})
    left, number = count, 0
    while left > 0:
        version, target = PAIRS[number % len(PAIRS)]
        lines = _pool(choose, sources)
        legal = [s for s, refused in zip(lines, asked(lines, version, target), strict=True) if not refused]
        editor = Editor(f"{seed}/{number}", words)
        kinds = {k: f for k, f in editor.kinds().items() if not chosen or k in chosen}
        made: list[Fault] = []
        for i in range(700):
            line = choose.choice(legal)
            if i % 8 == 0 and (not chosen or "version or target" in chosen):
                older = [(v, t) for v in VERSIONS for t in TARGETS if FIRST_PTX[t] <= parse_version(v)]
                made.append(Fault("version or target", *choose.choice(older), line, line))
            elif kinds:
                kind = choose.choice(list(kinds))
                after = kinds[kind](line)
                if after and after != line:
                    made.append(Fault(kind, version, target, line, after))
        refused = [f for f, said in zip(made, _judged([f.text for f in made]), strict=True) if not said]
        choose.shuffle(refused)
        yield from refused[: min(left, 350)]
        left -= min(len(refused), 350)
        number += 1


# ---------------------------------------------------------------------------------------------------------- judgement


def _judged(texts: Sequence[str]) -> list[bool]:
    """Whether ptxas accepts each text: a frame and one line."""
    groups: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    found = [False] * len(texts)
    for i, text in enumerate(texts):
        match = re.match(r"\.version (\S+)\n\.target (\S+)\n", text)
        if match is None or parse_version(match[1]) < FIRST_PTX.get(match[2], (99, 0)):
            continue
        head = frame(match[1], match[2])
        line = text[len(head) : -len(FOOTER)].strip("\n")
        if text.endswith(FOOTER) and text.startswith(head):
            groups[match[1], match[2]][line].append(i)
        else:  # what the frame declares changed with the version
            line = next((s for s in reversed(text[: -len(FOOTER)].split("\n")) if s.strip()), "")
            groups[match[1], match[2]][line].append(i)
    for (version, target), lines in groups.items():
        for line, said in zip(lines, asked(list(lines), version, target), strict=True):
            for i in lines[line]:
                found[i] = not said
    return found


def fixes(fault: Fault) -> Iterator[Proposed]:
    """The structured proposals."""
    for d in _errors(fault):
        for fix in d.fixes:
            text = fix.apply(fault.text)
            yield Proposed(fault, d.message, d.hint or "", kind_of(d, fix.title), [text])


def _errors(fault: Fault) -> list[Diagnostic]:
    return [d for d in pyptx.diagnose(fault.text) if d.severity == "error"]


def kind_of(d: Diagnostic, title: str) -> str:
    """The kind of message: what it says before its names."""
    about = next((words for words in _KINDS if re.search(words, d.message)), "other")
    return f"{title.split(' ')[0]}: {about}"


_KINDS = (
    "has no modifier", "unknown instruction", "is not declared", "needs target|needs PTX|removed after", "needs one of|needs \\.",
    "does not go with|do not go|exclude", "is written twice", "takes \\d.* operands?", "the register is", "must be an address",
    "constant", "expected|unexpected|missing", "directly|before|order", "takes .* type", "label", "guard", "must be",
)  # fmt: skip


def worded(fault: Fault) -> Iterator[Proposed]:
    """The spellings in the words of messages and hints, applied where the message points."""
    for d in _errors(fault):
        if d.line != fault.number:
            continue
        said = f"{d.message}\n{d.hint or ''}"
        for kind, texts in _spellings(d, said, fault.line):
            before, after = fault.text[: -len(FOOTER) - len(fault.line) - 1], "\n" + FOOTER
            yield Proposed(fault, d.message, d.hint or "", kind, [before + t + after for t in texts])


_MODIFIERS = r"(?:one of )?((?:\.[\w:]+(?: or |, | )?)+)"


def _spellings(d: Diagnostic, said: str, line: str) -> Iterator[tuple[str, list[str]]]:  # noqa: C901  one case for each wording
    """(kind, lines, one of which the words mean)."""
    match = _HEAD.match(line)
    if match is None or d.column is None:
        return
    guard, head, rest = match[1], match[2], match[3]
    words = head.split(".")
    at = re.match(r"\.?[%$\w:]+", line[d.column - 1 :])
    pointed = at[0].lstrip(".") if at is not None else ""
    named = re.search(r"has no modifier \.([\w:]+)|: \.([\w:]+)(?:,| and| do)", said)
    bad = next((w for w in (*(named.groups() if named else ()), pointed) if w in words[1:]), "")

    def inserted(new: str) -> list[str]:
        return [guard + ".".join((*words[:i], new, *words[i:])) + rest for i in range(1, len(words) + 1)]

    def exchanged(old: str, new: str) -> list[str]:
        return [
            guard + ".".join((*words[:i], new, *words[i + 1 :])) + rest for i, w in enumerate(words) if w == old and i
        ]

    def names(found: str) -> list[str]:
        return re.findall(r"\.([\w:]+)", found)

    for m in re.finditer(rf"needs {_MODIFIERS}(?! or newer)", said):
        for new in names(m[1]):
            if not new.isdigit():
                yield "needs one of" if "one of" in m[0] else "needs .X", inserted(new)
    for kind in ("there should be", "legal:", "which takes", "insert", "add"):
        for m in re.finditer(rf"\b{kind} {_MODIFIERS}", said):
            for new in names(m[1]):
                if kind in ("insert", "add"):
                    yield kind, inserted(new)
                elif bad:
                    yield kind, exchanged(bad, new)
    for m in re.finditer(rf"(?:it goes|they go) with {_MODIFIERS}", said):
        types = [w for w in words[1:] if w in SCALAR_TYPES]
        for new in names(m[1]):
            yield "it goes with", [t for old in types for t in exchanged(old, new)] or [""]
    for m in re.finditer(r"(?:drop|remove) \.([\w:]+)", said):
        yield (
            "drop .X",
            [guard + ".".join((*words[:i], *words[i + 1 :])) + rest for i, w in enumerate(words) if w == m[1]],
        )
    for m in re.finditer(r"did you mean (.+)\?", said):
        for new in re.split(r", | or ", m[1]):
            new = new.strip("`")
            if new[0] == "." and bad:
                yield "did you mean", exchanged(bad, new[1:])
            elif new[0] != ".":
                head_like = [guard + ".".join((new, *words[i:])) + rest for i in range(1, len(words) + 1)]
                column = d.column - 1
                yield "did you mean", [*head_like, line[:column] + new + line[column + len(at[0] if at else "") :]]


def measure(found: Iterable[Fault], read: Callable[[Fault], Iterable[Proposed]]) -> tuple[list[Fault], list[Proposed]]:
    """The faults, and their proposals with ptxas's verdicts."""
    many = list(found)
    proposed = [p for fault in many for p in read(fault)]
    flat = [t for p in proposed for t in p.texts]
    legal = dict(zip(flat, _judged(flat), strict=True))
    for p in proposed:
        p.legal = any(legal[t] for t in p.texts)
        p.restores = any(_same(t, p.fault) for t in p.texts)
    return many, proposed


def _measured(
    count: int, seed: int, chosen: Sequence[str], read: Callable[[Fault], Iterable[Proposed]]
) -> tuple[list[Fault], list[Proposed]]:
    return measure(faults(count, seed, chosen), read)


def _same(text: str, fault: Fault) -> bool:
    lines = text[: -len(FOOTER)].strip().split("\n")
    return re.sub(r"\s", "", lines[-1]) == re.sub(r"\s", "", fault.before)


@dataclass
class Row:
    """Counts of one kind of message."""

    count: int = 0
    legal: int = 0
    bad: list[Proposed] = field(default_factory=list[Proposed])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=5000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--processes", type=int, default=1, help="each has a seed and a share of the count")
    arguments.add_argument("--words", action="store_true", help="read the proposals from the words of the messages")
    arguments.add_argument("--show", type=int, default=0, help="proposals that ptxas refuses, to print of each kind")
    arguments.add_argument(
        "--without", type=int, default=0, help="edits without a legal proposal, to print of each kind"
    )
    arguments.add_argument("--kinds", default="", help="only these kinds of faults, comma separated")
    options = arguments.parse_args()
    chosen = [k for k in options.kinds.split(",") if k]
    read = worded if options.words else fixes
    parts = [
        (options.count // options.processes, options.seed + 7919 * i, chosen, read) for i in range(options.processes)
    ]
    many: list[Fault] = []
    proposed: list[Proposed] = []
    with multiprocessing.Pool(options.processes) as pool:
        for edits, found in pool.starmap(_measured, parts) if len(parts) > 1 else [_measured(*parts[0])]:
            many += edits
            proposed += found
    rows: dict[str, Row] = defaultdict(Row)
    for p in proposed:
        row = rows[p.kind]
        row.count += 1
        row.legal += p.legal
        if not p.legal:
            row.bad.append(p)
    for kind, row in sorted(rows.items(), key=lambda r: -r[1].count):
        print(f"{row.count:6} {100 * row.legal / row.count:6.1f} %  {kind}")
        for p in row.bad[: options.show]:
            last = p.texts[0][: -len(FOOTER)].strip().split("\n")[-1] if p.texts else ""
            print(
                f"        {p.fault.version} {p.fault.target} {p.fault.line}\n          -> {last}\n          {p.message} | {p.hint}"
            )
    helped = {id(p.fault) for p in proposed if p.legal}
    restored = {id(p.fault) for p in proposed if p.restores and p.legal}
    accepted = Counter[str]()
    silent: dict[str, list[Fault]] = defaultdict(list)
    for fault in many:
        silent[fault.kind] += [fault] if id(fault) not in helped else []
        if id(fault) not in helped and not _errors(fault):
            accepted[fault.kind] += 1
    totals = Counter(f.kind for f in many)
    for kind, total in totals.most_common():
        mine = [f for f in many if f.kind == kind]
        good, back = sum(id(f) in helped for f in mine), sum(id(f) in restored for f in mine)
        print(
            f"{total:6} {kind:22} {100 * good / total:5.1f} % with a legal proposal, {100 * back / total:5.1f} % restored"
        )
        for f in silent[kind][: options.without]:
            d = next(iter(_errors(f)), None)
            print(
                f"        {f.version} {f.target} {f.before}\n          -> {f.line}\n          {d.message if d else 'accepted'} | {d.hint if d else ''}"
            )
    legal = sum(p.legal for p in proposed)
    print(
        f"{len(many)} edits; {len(proposed)} proposals, {100 * legal / max(len(proposed), 1):.1f} % legal; "
        f"{100 * len(helped) / max(len(many), 1):.1f} % of the edits with a legal proposal, {100 * len(restored) / max(len(many), 1):.1f} % restored; "
        f"{sum(accepted.values())} accepted by us"
    )


if __name__ == "__main__":
    main()
