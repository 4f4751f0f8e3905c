"""The text itself: headers, layout, versions and targets."""

from __future__ import annotations

from . import functions, names, values, variables
from .draw import TARGETS, TOKEN, VERSIONS, Draw

_AREAS = (
    functions.linking, functions.alias, functions.prototypes, functions.results, functions.performance, functions.pragmas,
    functions.branch_targets, functions.call_targets, variables.lists, variables.addresses, variables.declarations,
    names.scopes, names.vectors, values.addresses, values.expressions,
)  # fmt: skip


def header(d: Draw) -> str:
    version = (
        d.random.choice(VERSIONS)
        if d.chance(0.8)
        else d.pick("9.6 10.0 3.9 9.05 09.5 9.50 9 9.5.1 9.5e0 7.9 6.6 2.0 +9.5 8.7U 1.0")
    )
    target = (
        d.random.choice(TARGETS)
        if d.chance(0.85)
        else d.pick("sm_20 sm_30 sm_35 sm_37 sm_99 compute_90 SM_90 sm90 sm_90b sm_101 sm_130 debug sm_1000 sm_")
    )
    gap = d.one(" ", " ", " ", "  ", "\t", "\n", " /* c */ ", " // c\n", ' # 5 "f"\n') if d.chance(0.2) else " "
    options = d.maybe(
        0.25,
        d.one(", ", ",", " , ", "\n, ", ",\n", " ")
        + d.pick("texmode_unified texmode_independent debug map_f64_to_f32 sm_80 foo"),
    )
    lines = [f".version{gap if d.chance(0.3) else ' '}{version}", f".target{gap}{target}{options}"]
    size = (
        d.pick("64 64 64 32")
        if d.chance(0.85)
        else d.pick("0x40 64U 0100 16 0 -64 64.0 32+32 WARP_SZ 0b1000000 4294967360 18446744073709551680 128 065")
    )
    lines += [f".address_size{gap}{size}"] if d.chance(0.85) else []
    if d.chance(0.07):
        lines.insert(
            d.number(0, len(lines)),
            d.one(d.random.choice(lines), ".target sm_80", ".address_size 64", ".version 8.0", ";", ".global .b32 y;"),
        )
    if d.chance(0.04):
        d.random.shuffle(lines)
    if d.chance(0.04):
        lines.pop(d.number(0, len(lines) - 1))
    between = d.one("\n", "\n", " ", "\n\n", "\r\n", "\n// c\n", '\n# 1 "x"\n', "\t")
    start = d.one("", "", "", "", "\n", " ", "// c\n", "/* c */", '# 1 "f"\n', "\ufeff") if d.chance(0.4) else ""
    return (
        start
        + between.join(lines)
        + d.one("\n", "\n", "", " ")
        + d.maybe(0.7, d.one(f".global .b32 a{d.tag};", f".entry k{d.tag}() {{ ret; }}") + d.one("\n", ""))
    )


def layout(d: Draw) -> str:
    """A module of another area with other gaps, comments and line markers between its tokens."""
    tokens = TOKEN(d.random.choice(_AREAS)(d))
    found: list[str] = []
    rate = d.random.choice((0.02, 0.1, 0.4))
    for token in tokens:
        if token.isspace() and d.chance(rate):
            token = d.one(
                " ",
                "\n",
                "\t",
                "\r\n",
                "  ",
                "/**/",
                "/* a // b */",
                "// x /* y\n",
                '\n# 7 "f"\n',
                ' # 7 "f" 1 2\n',
                '\n#line 7 "f.h"\n',
                "/*/*/",
                "/*//*/",
                "\n\n",
                "\f",
                " \n",
                "/***/",
                "/* \n */",
                "//\n",
                "\v",
            )
        elif not token.isspace() and d.chance(rate / 4):
            token = d.one(" ", "", "/* c */", "\n", '\n# 7 "f"\n', "//c\n", "\t") + token
        found.append(token)
    if d.chance(0.05):
        found.append(d.one("/*", "//", "/* x", "*/", "#", '# 5 "f', "\x1a", "\\", ";", "}", '"'))
    return "".join(found)


def versions(d: Draw) -> str:
    """Things that came with a version or a target, under any."""
    d.version, d.target = d.random.choice(VERSIONS), d.random.choice(TARGETS)
    if d.chance(0.5):
        d.version = d.random.choice(VERSIONS[d.number(0, len(VERSIONS) - 1) :])
    lines = d.random.sample(
        [
            ".func f() .noreturn { exit; }", ".func f() .abi_preserve 4 { ret; }", ".entry e() .maxclusterrank 4 { ret; }", ".entry e() .explicitcluster { ret; }",
            ".entry e() .reqnctapercluster 2 { ret; }", ".entry e() .local_maxnreg 32 { ret; }", ".entry e() .minperctamemory 1024 { ret; }", '.entry e() .language "ptx" { ret; }',
            ".entry e() { .reg .b128 q; ret; }", ".global .u8 m[8] = {0xFF(g), 0xFF00(g)};", ".common .global .b32 c;", ".func h(.param .b8 p[]) { ret; }",
            ".entry e() { L: T: .branchtargets L; ret; }", ".func b(){ ret; } .func a(); .alias a, b;", '.entry e() { .pragma "frequency 5"; ret; }', '.entry e() { .pragma "enable_smem_spilling"; ret; }',
            ".global .attribute(.managed) .b32 m;", ".entry e(.param .align 8 .b8 p[8000]) { ret; }", '.file 1 "f"\n.entry e() { .loc 1 2 3, function_name k, inlined_at 1 2 3 ret; }',
            ".section .debug_str { L: .b8 -1 .b32 L-L }", ".global .u64 x = generic(g);", '.entry e() { .pragma "used_bytes_mask 0xf"; ret; }', ".entry e() .blocksareclusters .reqntid 32 .reqnctapercluster 2 { ret; }",
        ],
        d.number(1, 2),
    )  # fmt: skip
    return ".global .b32 g;\n" + "\n".join(lines) + "\n"
