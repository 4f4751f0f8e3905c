"""PTX modules that grow in one way each: n statements of one kind. For `benchmarks.growth` and `tests/test_growth.py`.

Every kernel runs: no arguments, few iterations, no memory but its own. Each shape says how large it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n\n"
REGISTERS = (
    "\t.reg .pred %p<16>;\n\t.reg .b32 %r<32>;\n\t.reg .f32 %f<16>;\n\t.reg .b64 %rd<16>;\n",
    "\tmov.u32 %r1, %tid.x;",
    "\tmov.u32 %r2, 0;",
    "\tmov.f32 %f1, 0f3F800000;",
)


def kernel(
    body: Sequence[str],
    *,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    parameters: str = "",
    registers: str = "",
) -> str:
    """A module with one kernel of these lines, and what stands around it."""
    head = f"{HEAD}{_lines(before)}.visible .entry k({parameters})\n{{\n{REGISTERS[0]}{registers}"
    return f"{head}{_lines(REGISTERS[1:])}{_lines(body)}\tret;\n}}\n{_lines(after)}"


def _lines(lines: Sequence[str]) -> str:
    return "".join([line + "\n" for line in lines])


def long_block(n: int) -> str:
    """Straight-line arithmetic: chains that nothing folds, and loads and stores of a shared variable."""
    body: list[str] = []
    for i in range(n // 4):
        a, b = 2 + i % 20, 2 + (i + 7) % 20
        body += [
            f"\tadd.s32 %r{a}, %r{b}, {i};",
            f"\txor.b32 %r{b}, %r{a}, %r1;",
            f"\tst.shared.u32 [s+{i % 64 * 4}], %r{b};",
            f"\tld.shared.u32 %r{a}, [s+{i % 64 * 4}];",
        ]
    return kernel(body, before=[".shared .align 4 .b8 s[256];"])


def constants(n: int) -> str:
    """Straight-line arithmetic on constants, all of which folds."""
    body = ["\tmov.u32 %r3, 1;"]
    for i in range(n):
        body.append(f"\tadd.s32 %r{3 + (i + 1) % 8}, %r{3 + i % 8}, {i};")
    return kernel([*body, "\tst.shared.u32 [s], %r3;"], before=[".shared .align 4 .b8 s[256];"])


def copies(n: int) -> str:
    """Copies of copies."""
    body = [f"\tmov.u32 %x{i + 1}, %x{i};" for i in range(n)]
    return kernel(
        ["\tmov.u32 %x0, %tid.x;", *body, f"\tst.shared.u32 [s], %x{n};"],
        before=[".shared .align 4 .b8 s[256];"],
        registers=f"\t.reg .b32 %x<{n + 1}>;\n",
    )


def many_functions(n: int) -> str:
    """Small device functions, one call of each."""
    functions: list[str] = []
    for i in range(n):
        functions += [
            f".func (.reg .b32 %out) f{i} (.reg .b32 %in)",
            "{",
            "\t.reg .b32 %r<3>;",
            f"\tadd.s32 %r1, %in, {i};",
            "\txor.b32 %out, %r1, %in;",
            "\tret;",
            "}",
        ]
    return kernel([f"\tcall (%r2), f{i}, (%r2);" for i in range(n)], before=functions)


def declared_functions(n: int) -> str:
    """Functions that are declared first, and have parameters of `.param` space."""
    declared = [f".func (.param .b32 r) g{i} (.param .b32 p, .param .b64 q);" for i in range(n)]
    defined: list[str] = []
    for i in range(n):
        defined += [
            f".func (.param .b32 r) g{i} (.param .b32 p, .param .b64 q)",
            "{",
            "\t.reg .b32 %r<3>;",
            "\tld.param.b32 %r1, [p];",
            "\tst.param.b32 [r], %r1;",
            "\tret;",
            "}",
        ]
    body: list[str] = []
    for i in range(n):
        body += [
            "\t{",
            "\t.param .b32 a;",
            "\t.param .b64 b;",
            "\t.param .b32 c;",
            "\tst.param.b32 [a], %r1;",
            "\tst.param.b64 [b], 0;",
            f"\tcall.uni (c), g{i}, (a, b);",
            "\tld.param.b32 %r2, [c];",
            "\t}",
        ]
    return kernel(body, before=[*declared, *defined])


def many_globals(n: int) -> str:
    """Module variables, each read once."""
    variables = [f".global .align 4 .b32 g{i} = {i};" for i in range(n)]
    return kernel([f"\tld.global.u32 %r2, [g{i}];" for i in range(n)], before=variables)


def many_shared(n: int) -> str:
    """Shared variables of the kernel, each written and read."""
    body = [f"\t.shared .align 4 .b32 v{i};" for i in range(n)]
    for i in range(n):
        body += [f"\tst.shared.u32 [v{i}], %r1;", f"\tld.shared.u32 %r2, [v{i}];"]
    return kernel(body)


def many_locals(n: int) -> str:
    """Stack variables, the address of each taken."""
    body = [f"\t.local .align 4 .b32 v{i};" for i in range(n)]
    for i in range(n):
        body += [f"\tmov.u64 %rd1, v{i};", "\tst.local.u32 [%rd1], %r1;"]
    return kernel(body)


def _loop(label: str, counter: str, inner: Sequence[str]) -> list[str]:
    return [
        f"\tmov.u32 {counter}, 0;",
        f"{label}:",
        *inner,
        f"\tadd.s32 {counter}, {counter}, 1;",
        f"\tsetp.lt.s32 %p1, {counter}, 1;",
        f"\t@%p1 bra {label};",
    ]


def sequential_loops(n: int) -> str:
    body: list[str] = []
    for i in range(n):
        body += _loop(f"L{i}", f"%r{3 + i % 8}", ["\tadd.s32 %r2, %r2, %r1;"])
    return kernel(body)


def nested_loops(n: int) -> str:
    """Loops in loops, eight deep, one nest after another."""
    body: list[str] = []
    for i in range(n // 8):
        nest = ["\tadd.s32 %r2, %r2, %r1;"]
        for depth in range(8):
            nest = _loop(f"L{i}_{depth}", f"%r{3 + depth}", nest)
        body += nest
    return kernel(body)


def deep_loops(n: int) -> str:
    """One nest of loops, n deep. Each counter is live in all loops inside."""
    heads: list[str] = []
    tails: list[str] = []
    for i in range(n):
        counter = f"%x{i}"
        heads += [f"\tmov.u32 {counter}, 0;", f"L{i}:", "\tadd.s32 %r2, %r2, %r1;"]
        tails = [
            f"\tadd.s32 {counter}, {counter}, 1;",
            f"\tsetp.lt.s32 %p1, {counter}, 1;",
            f"\t@%p1 bra L{i};",
            *tails,
        ]
    return kernel([*heads, *tails], registers=f"\t.reg .b32 %x<{n}>;\n")


def branches(n: int) -> str:
    """Ifs with an else, one after another, which meet with other values."""
    body: list[str] = []
    for i in range(n):
        body += [
            f"\tsetp.lt.s32 %p1, %r1, {i};",
            f"\t@%p1 bra E{i};",
            f"\tadd.s32 %r{2 + i % 8}, %r1, {i};",
            f"\tbra F{i};",
            f"E{i}:",
            f"\tmul.lo.s32 %r{2 + i % 8}, %r1, {i};",
            f"F{i}:",
        ]
    body += [f"\tst.shared.u32 [s], %r{2 + i};" for i in range(8)]
    return kernel(body, before=[".shared .align 4 .b8 s[256];"])


def wide_switch(n: int) -> str:
    """One indexed branch to n labels."""
    body = ["\tts: .branchtargets " + ", ".join(f"T{i}" for i in range(n)) + ";", "\tbrx.idx %r1, ts;"]
    for i in range(n):
        body += [f"T{i}:", f"\tadd.s32 %r2, %r1, {i};", "\tbra.uni E;"]
    return kernel([*body, "E:", "\tst.shared.u32 [s], %r2;"], before=[".shared .align 4 .b8 s[256];"])


def compare_switch(n: int) -> str:
    """A chain of comparisons with constants, each with a case of its own."""
    body: list[str] = []
    for i in range(n):
        body += [f"\tsetp.eq.s32 %p1, %r1, {i};", f"\t@%p1 bra T{i};"]
    body.append("\tbra.uni E;")
    for i in range(n):
        body += [f"T{i}:", f"\tadd.s32 %r2, %r1, {i};", "\tbra.uni E;"]
    return kernel([*body, "E:", "\tst.shared.u32 [s], %r2;"], before=[".shared .align 4 .b8 s[256];"])


def many_labels(n: int) -> str:
    """Labels that nothing branches to, and branches over them."""
    body: list[str] = []
    for i in range(n):
        body += [f"L{i}:", "\tadd.s32 %r2, %r2, %r1;"]
        if i % 4 == 0:
            body.append(f"\tbra L{i + 1};")
    return kernel([*body, f"L{n}:", "\tadd.s32 %r2, %r2, %r1;"])


def long_list(n: int) -> str:
    """A list of n numbers over many lines, a comment on some."""
    rows = [", ".join(str((i + j) % 256) for j in range(8)) for i in range(0, n, 8)]
    rows = [row + (f" /* {i} */" if i % 5 == 0 else f" // {i}" if i % 5 == 1 else "") for i, row in enumerate(rows)]
    table = "\n\t, ".join(rows)
    return kernel(
        ["\tld.global.u8 %r2, [t];"], before=[f".global .align 1 .b8 t[{len(rows) * 8}] = {{ /* all */\n\t{table}\n}};"]
    )


def one_comment(n: int) -> str:
    """A list of n numbers, one on a line, with one comment in the middle."""
    rows = [str(i % 256) for i in range(n)]
    rows[n // 2] += " /* the middle */"
    table = ",\n\t".join(rows)
    return kernel(["\tld.global.u8 %r2, [t];"], before=[f".global .align 1 .b8 t[{n}] = {{\n\t{table}\n}};"])


def long_comment(n: int) -> str:
    """A comment of n lines."""
    return kernel(["\tadd.s32 %r2, %r1, 1;", "/*", *[f" * line {i}" for i in range(n)], " */"])


def sections(n: int) -> str:
    """DWARF as nvcc -G writes it: one section of n lines of bytes, one a line, and one of few long lines."""
    info = "\n".join([f".b8 {i % 256}" for i in range(n)])
    lines = "\n".join([".b8 " + ",".join(str((i + j) % 256) for j in range(16)) for i in range(n // 16)])
    return kernel(
        ["\t.loc 1 1 1;".rstrip(";"), "\tadd.s32 %r2, %r1, 1;"],
        before=['.file 1 "/tmp/a.cu"'],
        after=[f".section .debug_info {{\n{info}\n.b32 .debug_abbrev\n}}", f".section .debug_abbrev {{\n{lines}\n}}"],
    )


def line_numbers(n: int) -> str:
    """A `.loc` before each instruction."""
    body: list[str] = []
    for i in range(n):
        body += [f"\t.loc 1 {i + 1} {i % 40}", f"\tadd.s32 %r{2 + i % 8}, %r1, {i};"]
    return kernel(body, before=['.file 1 "/tmp/a.cu"'])


def deep_scopes(n: int) -> str:
    """Scopes in scopes, a register in each."""
    body: list[str] = []
    for i in range(n):
        body += ["\t{", f"\t.reg .b32 %s{i}x;", f"\tadd.s32 %s{i}x, %r1, {i};"]
    return kernel([*body, f"\tadd.s32 %r2, %s{n - 1}x, %s0x;", *["\t}"] * n])


def sequential_scopes(n: int) -> str:
    """Scopes one after another that redeclare a range, as nvcc's inline assembly does."""
    body: list[str] = []
    for i in range(n):
        body += ["\t{", "\t.reg .b32 %t<4>;", f"\tadd.s32 %t1, %r1, {i};", "\tadd.s32 %r2, %r2, %t1;", "\t}"]
    return kernel(body)


def many_registers(n: int) -> str:
    """n registers, all written, then all read: n values are live at one place."""
    body = [f"\tadd.s32 %x{i}, %r1, {i};" for i in range(n)]
    body += [f"\txor.b32 %r2, %r2, %x{i};" for i in range(n)]
    return kernel(
        [*body, "\tst.shared.u32 [s], %r2;"],
        before=[".shared .align 4 .b8 s[256];"],
        registers=f"\t.reg .b32 %x<{n}>;\n",
    )


def single_registers(n: int) -> str:
    """n registers in declarations of their own."""
    body = [f"\t.reg .b32 %y{i};" for i in range(n)]
    for i in range(n):
        body += [f"\tadd.s32 %y{i}, %r1, {i};", f"\tadd.s32 %r2, %r2, %y{i};"]
    return kernel(body)


def bare_ranges(n: int) -> str:
    """Ranges of registers whose names have no percent sign."""
    body = [f"\t.reg .b32 a{i}x<1000>;" for i in range(n)]
    for i in range(n):
        body += [f"\tadd.s32 a{i}x{i % 1000}, %r1, {i};", f"\tadd.s32 %r2, %r2, a{i}x{i % 1000};"]
    return kernel(body)


def many_parameters(n: int) -> str:
    """A kernel with n parameters, each read twice."""
    body = [f"\tld.param.u32 %r{2 + i % 2}, [p{i % n}];" for i in range(2 * n)]
    return kernel(body, parameters=",\n".join([f"\t.param .u32 p{i}" for i in range(n)]))


def call_chain(n: int) -> str:
    """Functions that call the one before."""
    functions: list[str] = []
    for i in range(n):
        functions += [
            f".func (.reg .b32 %out) f{i} (.reg .b32 %in)",
            "{",
            "\t.reg .b32 %r<3>;",
            f"\tcall (%r1), f{i - 1}, (%in);" if i else "\tmov.u32 %r1, %in;",
            f"\tadd.s32 %out, %r1, {i};",
            "\tret;",
            "}",
        ]
    return kernel([f"\tcall (%r2), f{n - 1}, (%r1);"], before=functions)


def calls_of_one(n: int) -> str:
    """n calls of one function with a branch in it."""
    function = [
        ".func (.reg .b32 %out) f (.reg .b32 %in)",
        "{",
        "\t.reg .pred %p;",
        "\tsetp.lt.s32 %p, %in, 4;",
        "\t@%p bra SMALL;",
        "\tadd.s32 %out, %in, 1;",
        "\tret;",
        "SMALL:",
        "\tmul.lo.s32 %out, %in, 3;",
        "\tret;",
        "}",
    ]
    return kernel(["\tcall (%r2), f, (%r2);"] * n, before=function)


def many_kernels(n: int) -> str:
    """Kernels with a parameter and a label each."""
    kernels: list[str] = []
    for i in range(n):
        kernels += [
            f".visible .entry e{i}(.param .u64 e{i}_param_0)",
            "{",
            "\t.reg .pred %p<2>;",
            "\t.reg .b32 %r<3>;",
            "\tmov.u32 %r1, %tid.x;",
            f"\tsetp.gt.s32 %p1, %r1, {i};",
            "\t@%p1 bra $E;",
            "\tadd.s32 %r2, %r1, 1;",
            "$E:",
            "\tret;",
            "}",
        ]
    return kernel(["\tadd.s32 %r2, %r1, 1;"], after=kernels)


def barriers(n: int) -> str:
    """Stores and loads of shared memory with a barrier between."""
    body: list[str] = ["\tmov.u32 %r3, s;", "\tshl.b32 %r4, %r1, 2;", "\tadd.s32 %r3, %r3, %r4;"]
    for i in range(n):
        body += [
            f"\tst.shared.u32 [%r3+{i % 4 * 128}], %r1;",
            "\tbar.sync 0;",
            f"\tld.shared.u32 %r2, [%r3+{i % 4 * 128}];",
        ]
    return kernel(body, before=[".shared .align 4 .b8 s[512];"])


@dataclass(frozen=True, slots=True)
class Growing:
    """A way to grow, and the smaller of the two sizes that are compared."""

    text: Callable[[int], str]
    size: int

    @property
    def name(self) -> str:
        return self.text.__name__.replace("_", " ")


SHAPES = (
    Growing(long_block, 2000),
    Growing(constants, 2000),
    Growing(copies, 1000),
    Growing(many_functions, 250),
    Growing(declared_functions, 150),
    Growing(many_kernels, 250),
    Growing(call_chain, 200),
    Growing(calls_of_one, 250),
    Growing(many_globals, 1000),
    Growing(many_shared, 500),
    Growing(many_locals, 500),
    Growing(many_parameters, 1000),
    Growing(sequential_loops, 250),
    Growing(nested_loops, 400),
    Growing(deep_loops, 60),
    Growing(branches, 300),
    Growing(wide_switch, 500),
    Growing(compare_switch, 500),
    Growing(many_labels, 1000),
    Growing(deep_scopes, 250),
    Growing(sequential_scopes, 500),
    Growing(many_registers, 1000),
    Growing(single_registers, 1000),
    Growing(bare_ranges, 60),
    Growing(long_list, 8000),
    Growing(one_comment, 5000),
    Growing(long_comment, 5000),
    Growing(sections, 8000),
    Growing(line_numbers, 1000),
    Growing(barriers, 300),
)
