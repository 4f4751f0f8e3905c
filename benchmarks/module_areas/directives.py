"""Random small modules of every kind of directive and declaration, in one."""

from __future__ import annotations

import random

from pyptx.dialects.ptx.directive_facts import PERFORMANCE as FACTS
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version

from .draw import TARGETS, VERSIONS, Draw

TYPES = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 pred texref samplerref surfref b1024 bf16".split()
NUMBERS = (
    "0 1 2 3 4 7 8 16 31 32 64 128 256 1024 1025 65536 4294967295 4294967296 -1 1.0 0x20 010 WARP_SZ 1U (2) 2+1".split()
)
NAMES = "a b c f g h k".split()
LINKING = ".visible .extern .weak .common".split()
PERFORMANCE = (
    ".maxntid .reqntid .minnctapersm .maxnctapersm .maxnreg .local_maxnreg .reqnctapercluster .maxclusterrank .explicitcluster"
    " .blocksareclusters .noreturn .abi_preserve .abi_preserve_control .pragma .minperctamemory .language"
).split()
PRAGMAS = (
    "nounroll", "used_bytes_mask 0xf", "enable_smem_spilling", "frequency 100", "foo", "noinline", "", "mma_throughput",
    "frequency", "frequency -1", "used_bytes_mask", "mma_throughput 2",
)  # fmt: skip
LANGUAGES = ('"ptx"', '"NVVM"', '"cuda c++"', '"foo"', "5", "0xA", "11", '""')
SOURCE = """.nv_intermediate_source_section {{
.code_block {{
.ir_name: {}
.sourceFileName: {}
.source_begin
{}
.source_end
}}
}}"""


class Mixed:
    """Draws modules of everything."""

    def __init__(self, seed: object):
        self.random = random.Random(f"{seed}")
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def maybe(self, chance: float, text: str) -> str:
        return text if self.random.random() < chance else ""

    def name(self) -> str:
        """Mostly a new name."""
        self.count += 1
        return self.random.choice(NAMES) if self.random.random() < 0.3 else f"n{self.count}"

    def number(self) -> str:
        choose = self.random
        return choose.choice(NUMBERS) if choose.random() < 0.04 else str(choose.choice((1, 2, 4, 8, 16, 32)))

    def type(self) -> str:
        return "." + (
            self.random.choice(TYPES) if self.random.random() < 0.07 else self.pick("b8", "b32", "u64", "f32", "u32")
        )

    def module(self) -> tuple[str, str, str]:
        """(text, version, target)."""
        choose = self.random
        version = choose.choice(VERSIONS) if choose.random() < 0.25 else "9.5"
        legal = [t for t in TARGETS if FIRST_PTX[t] <= parse_version(version)]
        target = choose.choice(legal if choose.random() < 0.98 else TARGETS)
        options = self.maybe(
            0.05, self.pick(", texmode_unified", ", texmode_independent", ", debug", ", map_f64_to_f32", ", foo")
        )
        lines = [f".version {version}", f".target {target}{options}"]
        if choose.random() < 0.9:
            lines.append(f".address_size {choose.choices(('64', '32', '16'), (90, 9, 1))[0]}")
        for _ in range(choose.randrange(1, 5)):
            item = choose.choice(
                (self.variable, self.variable, self.function, self.function, self.function, self.other)
            )
            lines += item()
        return "\n".join(lines) + "\n", version, target

    def variable(self) -> list[str]:
        return [
            f"{self.maybe(0.4, self.pick(*LINKING) + ' ')}{self.declaration(self.pick('.global', '.const', '.shared', '.global'))};"
        ]

    def declaration(self, space: str) -> str:
        choose = self.random
        attribute = self.maybe(
            0.05, ".attribute(" + self.pick(".managed", ".unified(1,2)", ".managed, .unified(1, 2)", "") + ") "
        )
        align = self.maybe(0.2, f".align {self.number()} ")
        vector = self.maybe(0.08, self.random.choices((".v2 ", ".v4 ", ".v8 "), (8, 8, 1))[0])
        head = f"{space} {attribute}{align}{vector}{self.type()} "
        items: list[str] = []
        for _ in range(1 + (choose.random() < 0.15)):
            name = self.name()
            size = self.maybe(0.03 if space == ".reg" else 0.4, f"[{self.maybe(0.95, self.number())}]")
            size += self.maybe(0.06, f"[{self.number()}]")
            size = self.maybe(0.05, f"<{self.number()[:5]}>") or size
            value = "{1}" if size else "1"
            if choose.random() < 0.5:
                value = self.pick("1", "1.0", "-1", "{1}", "{1, 2}", "{1, 2, 3, 4}", "a", "b+4", "generic(a)", "{a, b}", "0xFF(a)", "{{1}, {2}}",
                              "{}", "0f3F800000", "1+1", "f", "{1.0, 2.0}", "WARP_SZ")  # fmt: skip
            items.append(
                name
                + size
                + (
                    self.maybe(0.25, f" = {value}")
                    if space in (".global", ".const")
                    else self.maybe(0.02, f" = {value}")
                )
            )
        return head + ", ".join(items)

    def parameters(self, entry: bool) -> str:
        choose = self.random
        found: list[str] = []
        for i in range(choose.randrange(0, 3)):
            space = ".param" if entry or choose.random() < 0.5 else ".reg"
            align = self.maybe(0.15, f".align {self.number()} ")
            pointer = self.maybe(
                0.15 if entry else 0.01,
                ".ptr "
                + self.maybe(0.6, self.pick(".global ", ".shared ", ".const ", ".local ", ".param "))
                + self.maybe(0.6, f".align {self.number()} "),
            )
            size = self.maybe(0.15 if space == ".param" else 0.01, f"[{self.maybe(0.9, self.number())}]")
            found.append(f"{space} {align}{self.type()} {pointer}p{i}{size}")
        return ", ".join(found)

    def function(self) -> list[str]:
        choose = self.random
        entry = choose.random() < 0.5
        linking = self.maybe(0.4, choose.choices(LINKING, (10, 3, 5, 1))[0] + " ")
        result = (
            self.maybe(
                0.3,
                "("
                + self.pick(
                    ".reg .b32 r",
                    ".param .b32 r",
                    ".param .b8 r[8]",
                    ".reg .b32 r, .reg .b32 s",
                    ".param .b32 r, .param .b32 s",
                    ".reg .pred r",
                    "",
                )
                + ") ",
            )
            if not entry or choose.random() < 0.05
            else ""
        )
        attribute = self.maybe(0.01, ".attribute(.unified(1, 2)) ")
        head = f"{linking}{'.entry' if entry else '.func'} {attribute}{result}{self.name()}"
        head += f"({self.parameters(entry)})" if choose.random() < 0.95 else ""
        directives = [self.performance(entry) for _ in range(choose.choice((0, 0, 0, 1, 1, 2, 3)))]
        if choose.random() < 0.25 and not any(
            d.startswith((".m", ".r", ".e", ".b")) and choose.random() < 0.9 for d in directives
        ):
            return [head + "".join(" " + d for d in directives) + ";"]
        return [head, *directives, "{", *self.body(0), "ret;" if choose.random() < 0.9 else "", "}"]

    def performance(self, entry: bool) -> str:
        choose = self.random
        fitting = [n for n, d in FACTS.items() if ("entry" if entry else "func") in d.places] + [".pragma"] * entry
        name = choose.choice(fitting if choose.random() < 0.9 else PERFORMANCE)
        if name == ".pragma":
            return f'.pragma "{choose.choice(PRAGMAS)}";'
        if name == ".language" and choose.random() < 0.9:
            return f"{name} {choose.choice(LANGUAGES)}{self.maybe(0.3, ', ' + choose.choice(LANGUAGES))}"
        if name in (".explicitcluster", ".blocksareclusters", ".noreturn") and choose.random() < 0.9:
            return name
        count = choose.choice((1, 1, 2, 3)) if name in (".maxntid", ".reqntid", ".reqnctapercluster") else 1
        return f"{name} {', '.join(self.number() for _ in range(count + (choose.random() < 0.03)))}"

    def body(self, depth: int) -> list[str]:
        choose = self.random
        lines: list[str] = []
        for _ in range(choose.randrange(0, 6)):
            lines += choose.choice((
                lambda: [f"{self.declaration('.reg')};"],
                lambda: [f".reg {self.maybe(0.1, '.v2 ')}{self.type()} %r<{self.number()[:5]}>;"],
                lambda: [f"{self.declaration(self.pick('.shared', '.local', '.param', '.global', '.const'))};"],
                lambda: [f'.pragma "{choose.choice(PRAGMAS)}";'],
                lambda: [f".loc {self.number()} {self.number()} {self.number()}" + self.maybe(0.3, ", function_name " + self.pick("a", "a+4", "L") + self.maybe(0.7, f", inlined_at {self.number()} 2 3"))],
                lambda: [f".loc_intermediate {self.number()} {self.number()} {self.number()}"],
                lambda: [self.pick("mov.u64 %rd1, %perctamemoryoffset;", "mov.u32 %r1, %perctamemorysize;")],
                lambda: [f"{self.pick('L', 'M', 'a')}:"],
                lambda: [f"{self.pick('L', 'M', 'T')}: .branchtargets {self.pick('L', 'M', 'L, M', 'a', '')};"],
                lambda: [f"{self.pick('T', 'U')}: .calltargets {self.pick('f', 'g', 'f, g', 'a', '')};"],
                lambda: [f"{self.pick('T', 'U')}: .callprototype {self.maybe(0.4, '(.reg .b32 _) ')}_ ({self.pick('', '.reg .b32 _', '.param .b32 _', '.param .b8 _[]', '.param .b8 _[4]', '.param .align 8 .b8 _[8]')}){self.maybe(0.2, ' ' + self.pick('.noreturn', '.abi_preserve 8', '.abi_preserve_control 2', '.noreturn .abi_preserve 4'))};"],
                lambda: [f"bra {self.pick('L', 'M', 'a', 'f')};"],
                lambda: [f"call {self.maybe(0.3, '(%r1), ')}{choose.choice(NAMES)}{self.maybe(0.5, ', (' + self.pick('%r1', 'a', '1', '%r1, 2', '') + ')')};"],
                lambda: [f"mov.{self.pick('b32', 'u64')} {self.pick('a', 'b', '%r1', '%r0')}, {self.pick('a', 'b', '1', 'f', 'k', 'p0', '%r1')};"],
                lambda: [f"ld.{self.pick('global', 'shared', 'param', 'const', 'local')}.{self.pick('b32', 'u8')} %r1, [{self.pick('a', 'b', 'p0', 'p1', 'f', 'c+4')}];"],
                lambda: ["{", *self.body(depth + 1), "}"] if depth < 2 else [],
            ))()  # fmt: skip
        return lines

    def other(self) -> list[str]:
        choose = self.random
        return [choose.choice((
            f".alias {choose.choice(NAMES)}, {choose.choice(NAMES)};",
            f'.file {self.number()} "x.cu"' + self.maybe(0.3, ", " + self.pick("1, 2", "1", "1, 2, 3", "1.0, 2")),
            f'.pragma "{choose.choice(PRAGMAS)}";',
            f".section .{self.pick('debug_info', 'debug_str', 'foo')} {{ {self.pick('L: .b8 1', '.b8 1, 2', '.b32 L', '.b64 .debug_info+4', '', 'L: M: .b32 L-M', '.b8 -3', '.b16 65537')} }}",
            f".attribute({self.pick('.managed', '.unified(1,2)')})",
            SOURCE.format(self.pick('"TileIR"', '"a"', "TileIR"), self.number(), self.pick("x = {", "", "/* }", '"')),
            f".global {self.pick('.texref', '.surfref', '.samplerref')} {choose.choice(NAMES)}{self.maybe(0.2, self.pick('[4]', ' = {addr_mode_0 = wrap}', ' = 1'))};",
        ))]  # fmt: skip


def mixed(d: Draw) -> str:
    """A module of all kinds of directives, with its header."""
    text, d.version, d.target = Mixed(d.random.random()).module()
    return text
