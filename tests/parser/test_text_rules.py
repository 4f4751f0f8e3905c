"""Rules of the text itself: words, constants, strings, sections, hidden names. Each is put to ptxas, too, when it is there."""

from __future__ import annotations

import pytest

import pyptx
from pyptx.runtime.ptxas import ToolNotFound, assemble, find_tool

BODY = """.version 9.0
.target sm_90a
.address_size 64
.entry k(.param .b64 p) {{
.reg .b32 %r<8>;
.reg .b64 %d<4>;
.reg .pred %p<4>;
.reg .b32 a;
.shared .align 16 .b8 s[64];
{}
ret;
}}
"""
MODULE = """.version {version}
.target {target}
.address_size 64
{text}
"""
LEGAL = (
    # an opcode is one word, its modifiers may stand apart
    "add .s32 %r1, %r2, %r3;", "mul.lo .s32 %r1, %r2, %r3;", "mbarrier.init .shared.b64 [s], %r1;",
    "cp.async .ca.shared.global [%r1], [%d2], 4;", "add.s32 /* c */ %r1, %r2, %r3;", "cvta.to .shared.u64 %d1, %d2;",
    "setmaxnreg.inc.sync.aligned.s32 64;",
    # a constant may have one digit more than fits
    "mov.b64 %d1, 18446744073709551616;", "mov.b64 %d1, 0x7FFFFFFFFFFFFFFFF;", "mov.b64 %d1, 07777777777777777777777;",
    "mov.f64 %d1, 2.2250738585072014e-308;", "mov.f64 %d1, 0e400;", "mov.b64 %d1, 0x0000000000000000000000001;",
    # strings
    r'.pragma "a\\";', '.pragma "a\nb";', '.pragma "a", "b";',
    *(f"L: .callprototype {words};" for words in (
        "_ .noreturn .abi_preserve 4", "(.reg .b32 _) _ .abi_preserve_control 3", "_", "() _ ()", "_ (.reg .pred _, .param .align 4 .b8 a[4])", "(.param .b8 _[12]) _ (.param .u64 .ptr .global _)",
    )),
    # lines of a C preprocessor
    '\n# 1 "a.c"\n', '\n#line 5 "a.c" 2\n', '\n  # line 7 "x y"\n',
    # elements of arrays
    "mov.u64 %d1, s[1];", "mov.u32 %r1, s[%r2];", "ld.shared.b32 %r1, s[%d1+4];", "st.shared.b32 s[%r1+-1], %r2;",
    "ld.shared.v2.b32 {%r1, _}, s[WARP_SZ];", "@%p1 ld.shared.b8 %r1, s[%laneid+2];", "mov.b64 {%r1, %r2}, s[-1];",
    "cvta.shared.u64 %d1, s[3*4];", "mapa.shared::cluster.u32 %r1, s[%r2], %r3;", "{ .local .b16 x[4]; ld.local.b16 %r1, x [ 3 ] ; }",
    "{ .param .b32 x[4]; st.param.b32 x[1], %r1; }",
    # a label or variable hides an outer register
    "{ %r1: bra %r1; }", "{ a: bra a; }", "{ .shared .b32 a; mov.u32 %r1, a; }", "{ .shared .b32 %r1; } mov.b32 %r1, 1;",
    "{ %r1: } mov.b32 %r1, 1;", "{ a: } mov.b32 a, 1;",
)  # fmt: skip
ILLEGAL = (
    *(f"L: .callprototype {words};" for words in (
        "_ .abi_preserve_control 12", "(.reg .b32 _) _ .noreturn", "_ .maxntid 3",
        "_ (.reg .b32)", "_ (.reg .b32 _, .reg .b32)", "(.reg .b32) _ ()", "_ (.reg _)", "_ (.reg .b32 _ _)", "_ ( , )", "_ (.reg .b32 _,)",
        "_ (.param .b8 _[4] _)", "_ (.reg .b32 .texref)",
    )),
    "\n# 1\n", "\n#line 5\n", '\n# "a.c"\n', '\n#pragma "x"\n', "\n#define A 1\n",
    "and.pred %p1, !!%p2, %p3;", "vmad.u32.s32.s32 %r0, %r0, %r7, -k+4;",
    "mov.u64 %d1, p[0];", "mov.u64 %d1, s[1]+4;", "mov.u64 %d1, s[1.0];", "mov.u64 %d1, s[];", "mov.u64 %d1, s[1][2];",
    "mov.u64 %d1, s[%r1-4];", "mov.u64 %d1, s[%p1];", "mov.u64 %d1, s[%tid.x];", "mov.u64 %d1, s[4+%r1];", "mov.u64 %d1, k[0];",
    "ld.shared.b32 %r1, [s[1]];", "ld.shared.b32 %r1, [s][1];", "ld.global.b32 %r1, s[1];", "ld.shared.b32 %r1, %d1[0];",
    "atom.shared.add.u32 %r1, s[1], 1;", "add.u64 %d1, s[1], 4;", "mov.b64 %d1, {s[1], %r2};", "cvta.to.shared.u64 %d1, s[1];",
    "mbarrier.init.shared.b64 s[0], 1;", "mov.f32 %r1, s[1];", "mov.u64 %d1, -s[1];", "st.shared.b32 [s], s[1];",
    "add. s32 %r1, %r2, %r3;", "mul .lo.s32 %r1, %r2, %r3;", "mul/* c */.lo.s32 %r1, %r2, %r3;", "pmevent .mask 3;",
    "mbarrier .init.shared.b64 [s], %r1;", "cp .async.ca.shared.global [%r1], [%d2], 4;", "cvta .to.shared.u64 %d1, %d2;",
    "wmma.store .d.sync.aligned.row.m16n16k16.shared.f16 [%d1], {%r1, %r2, %r3, %r4};", "setmaxnreg.inc.sync.aligned.b32 64;",
    "mov.b64 %d1, 0x80000000000000000;", "mov.b64 %d1, 92233720368547758080;", "mov.b64 %d1, 010000000000000000000000;",
    f"mov.b64 %d1, 0b1{64 * '0'};", "mov.f64 %d1, 1e309;", "mov.f64 %d1, 2.2e-308;", "mov.u64 %d1, s+1.0;",
    r'.pragma "a\"b";', '.pragma "a" "b";',
    "{ a: mov.b32 a, 1; }", "{ %r1: mov.b32 %r1, 1; }", "{ bra a; a: }", "{ .shared .b32 a; mov.b32 a, 2; }",
    ".reg .b32 %q<1+1>;", ".reg .b32 %q<4294967296>;", ".reg .b32 %q<2>[3];", ".shared .b8 x[(2)];",
    ".reg .b32 %q<2>; .reg .b32 %q01;", "L: .callprototype _ (.param .b8 _[2][2]);",
)  # fmt: skip
PER_CTA = ".entry k() {} {{ .reg .b32 %r<3>; .reg .b64 %d<3>; {} ret; }}"
FILES = '.file 1 "a.cu"\n.file 2 "b.ir"\n'
SOURCE = """.nv_intermediate_source_section {
    .code_block {
        .ir_name: "TileIR"
        .sourceFileName: %s
        .source_begin
%s
        .source_end
    }
}"""
TABLE = """.func (.reg .u32 r) f (.reg .u32 a) {{ mov.u32 r, a; ret; }} .func (.reg .u32 r) g (.reg .u32 a) {{ mov.u32 r, a; ret; }}
.func h (.reg .u32 a) {{ ret; }}
{}
.entry k() {{ .reg .u64 %d<2>; .reg .u32 %r<3>; call (%r1), %d1, (%r2), t; ret; }}"""
LOCATED = f"{FILES}.entry k() {{{{\n.loc 1 1 1\n{{}}\nret;\n}}}}"
LEGAL_MODULES = (
    ("9.4", "sm_80", PER_CTA.format(".minperctamemory 0x800", "mov.u64 %d1, %perctamemoryoffset;")),
    ("9.4", "sm_80", PER_CTA.format(".maxntid 32 .minperctamemory 1", "cvt.u64.u32 %d1, %perctamemorysize;")),
    ("9.5", "sm_90", PER_CTA.format(".minperctamemory 4", "ld.global.u32 %r1, [%perctamemoryoffset+4];")),
    ("9.4", "sm_80", PER_CTA.format("", "mov.u32 %r1, %perctamemorysize;").replace(".entry", ".func")),
    ("9.2", "sm_50", '.entry k() .language "ptx", "CUDA C++", 0x7 .maxntid 3 { ret; }'),
    *(("9.3", "sm_75", f'.entry k() {{ .pragma "{words}"; ret; }}') for words in (
        "mma_throughput", "frequency 010", "frequency32", "used_bytes_mask", "enable_smem_spilling",
    )),
    ("6.0", "sm_50", ".func f(.param .b32 a[4], .param .b8 z[]) { .reg .b32 %r<3>; ld.param.b32 %r1,a[1]; ld.param.b8 %r1,z[1]; ret; }"),
    ("6.0", "sm_50", ".extern .shared .b8 x[]; .entry k() { .reg .b64 %d<2>; mov.u64 %d1, x[1]; ret; }"),
    *(("4.0", "sm_50", TABLE.format(text)) for text in (
        ".global .u64 t[2] = { f, g };", ".const .u64 t[] = { f, g };", ".global .u64 t[8] = { g };",
        ".visible .global .u64 u[1] = {h}, t[1] = {g};", ".global .u32 t[2] = { f, f };",
    )),
    ("9.3", "sm_75", ".attribute(.managed) .attribute(.managed) .global .u32 b = 1;"), ("9.3", "sm_75", ".global .align 2147483648 .b8 x;"),
    ("9.2", "sm_50", ".func f() .noreturn .local_maxnreg 8 .language 0 { trap; }"),
    ("9.4", "sm_50", LOCATED.format(".loc_intermediate 2 3 4")), ("9.4", "sm_50", LOCATED.format(".loc_intermediate 7 0 0")),
    ("9.4", "sm_50", f"{FILES}{SOURCE % (2, 'f(x) {')}\n{SOURCE % (1, '/* ' + chr(34) + ' x .source_end y')}\n.entry k() {{ ret; }}"),
    ("9.4", "sm_50", f"{FILES}.nv_intermediate_source_section {{ }}"),
    *(("6.0", "sm_50", text) for text in (  # comments of more lines than a statement is tried
        ".entry k() { .reg .b32 %r<3>;\n/*\n" + 90 * " * x }\n" + "*/\nmov.b32 %r1, /*" + 90 * "\n" + "*/ %r2; ret; }",
        ".global .b8 t[80] = {\n" + 79 * "1, /* }\n */" + " 1 };\n.entry k() { ret; }",
        ".entry k() { /*" + 90 * "\n" + "*/ bra L; // /*\nL: /* }" + 90 * "\n" + "*/ ret; } /*\n*/",
        FILES + ".entry k() {\n/*\n*/ .loc 1 2 3 /*\n\n*/\n.pragma \"/*\";\nret; }",
    )),
    *(("7.5", "sm_50", f".section .debug_info {{ {data} }}") for data in (
        ".b8 4294967551", ".b16 -32768", ".b64 -0", ".b64 -9223372036854775807", "L: M: .b32 L-M", ".b32 .debug_info+4",
    )),
    ("7.4", "sm_50", ".section .debug_info { L: .b32 L+4 }"),
    ("6.0", "sm_52", ".func f(.param .b32 y, .param .b8 x[]);"), ("6.0", "sm_52", ".func f(.param .b8 x[0]);"),
    ("9.0", "sm_90", ".section .debug_info { L: .b8 1, -2 .b16 65535 .b32 .debug_abbrev+4 .b64 L .b32 L-M M: }"),
    ("9.0", "sm_90", ".section .foo { }"), ("9.0", "sm_90", '.entry k() .pragma "a", "b"; { ret; }'),
    ("9.0", "sm_90", r'.file 1 "a\\b"'),
)  # fmt: skip
ILLEGAL_MODULES = (
    ("9.3", "sm_80", PER_CTA.format(".minperctamemory 8", "")), ("9.4", "sm_75", PER_CTA.format(".minperctamemory 8", "")),
    ("9.4", "sm_80", PER_CTA.format("", "mov.u64 %d1, %perctamemoryoffset;")),
    ("9.4", "sm_80", PER_CTA.format(".minperctamemory 0", "mov.u64 %d1, %perctamemoryoffset;")),
    ("9.4", "sm_80", PER_CTA.format(".minperctamemory 8", "mov.u64 %d1, %perctamemorysize;")),
    ("9.4", "sm_80", ".func f() .minperctamemory 8 { ret; }"), ("9.4", "sm_80", PER_CTA.format(".minperctamemory 1, 2", "")),
    *(("9.2", "sm_50", f".entry k() .language {words} {{ ret; }}") for words in (
        "", "11", '"foo"', '""', "ptx", '"ptx",', '"ptx" "nvvm"', '"ptx";', "1.0",
    )),
    *(("9.3", "sm_75", f'.entry k() {{ .pragma "{words}"; ret; }}') for words in (
        "frequency", "frequency -1", "frequency x", "frequency 1 2", "frequency 1U",
    )),
    *(("9.3", "sm_75", f'.pragma "{words}";') for words in ("mma_throughput", "frequency 1", "used_bytes_mask0", "enable_smem_spilling")),
    *(("4.0", "sm_50", TABLE.format(text)) for text in (
        ".global .u64 t[2];", ".extern .global .u64 t[2];", ".global .u64 t = f;", ".global .u64 t[2] = { f, h };", ".shared .u64 t[2];",
        ".global .u64 t[2] = { f, 0 };", ".global .u64 t[2] = { 0, f };", ".global .u64 t[2][1] = { {f}, {g} };",
        ".global .u64 x; .global .u64 t[2] = { f, x };", ".global .v2 .u64 t[1] = { {f, g} };",
    )),
    ("7.8", "sm_90", ".func .attribute(.unified(1, 2)) f();"), ("8.3", "sm_80", ".func .attribute(.unified(1, 2)) f();"),
    ("7.8", "sm_90", ".global .attribute(.unified(1, 2)) .u32 x;"), ("9.5", "sm_90", ".common .global .texref t;"),
    ("6.0", "sm_50", ".global .f32 k<2> = 1.0;"), ("6.0", "sm_50", ".global .v4 .u32 .u32 f[1];"), ("6.0", "sm_50", ".entry k() { L: L: .branchtargets L; ret; }"),
    ("6.0", "sm_50", ".global .b32 x[4]; .global .u64 y = x[1];"),
    ("6.0", "sm_50", ".global .v4 .f32 v; .entry k() { .reg .b64 %d<2>; mov.u64 %d1, v[0]; ret; }"),
    ("9.2", "sm_75", '.entry k() { .pragma "mma_throughput"; ret; }'), ("9.3", "sm_75", ".global .align 4294967296 .b8 x;"),
    ("9.1", "sm_50", '.entry k() .language "ptx" { ret; }'), ("9.2", "sm_50", '.func f() .language "ptx";'),
    ("9.2", "sm_50", '.func f() .language "ptx" .noreturn { trap; }'),
    ("9.3", "sm_50", LOCATED.format(".loc_intermediate 2 3 4")), ("9.4", "sm_50", f"{FILES}.loc_intermediate 2 3 4"),
    *(("9.4", "sm_50", LOCATED.format(f".loc_intermediate {words}")) for words in (
        "2 3", "2 3 4 5", "2 3 -4", "2 3 4;", "2 3 4, inlined_at 1 1 1", "2 4294967296 4",
    )),
    ("9.3", "sm_50", f"{FILES}{SOURCE % (2, 'x')}"), ("9.4", "sm_50", f"{FILES}{SOURCE % (3, 'x')}"),
    ("9.4", "sm_50", f"{SOURCE % (2, 'x')}\n{FILES}"), ("9.4", "sm_50", f"{FILES}{SOURCE.replace('.source_end', '') % (2, 'x')}"),
    ("9.4", "sm_50", f"{FILES}{(SOURCE % (2, 'x')).replace('.ir_name:', '')}"),
    ("9.4", "sm_50", f"{FILES}{(SOURCE % (2, 'x')).replace('.source_begin', '.source_begin x')}"),
    ("9.4", "sm_50", f"{FILES}.entry k() {{ {SOURCE % (2, 'x')} ret; }}"),
    *(("7.5", "sm_50", f".section .debug_info {{ {data} }}") for data in (
        ".b8 -0", ".b8 -1U", ".b8 4294967552", ".b8 -129", ".b64 -9223372036854775808", "WARP_SZ: .b8 1",
    )),
    *(("7.4", "sm_50", f".section .debug_info {{ {data} }}") for data in (".b8 -1", "L: M: .b32 L-M")),
    ("3.1", "sm_30", ".section .debug_info { .b32 .debug_info+4 }"),
    *(("7.5", "sm_50", f".section {name} {{ .b8 1 }}") for name in (".global", ".pragma", ".align", "._a", ".u32")),
    ("5.0", "sm_52", ".func f(.param .b8 x[]);"), ("5.0", "sm_52", ".func f(.param .b8 x[0]);"),
    ("9.0", "sm_90", ".func (.param .b8 x[]) f();"), ("9.0", "sm_90", ".func (.param .b32 x[2][3]) f();"),
    ("9.0", "sm_90", ".entry e(.param .b8 x[0]) { ret; }"), ("9.0", "sm_90", r'.file 1 "a\"b"'),
    *(("9.0", "sm_90", f".section .debug_info {{ {data} }}") for data in (
        ".b8 1 { .b8 2 }", "{ .b8 1 }", ".b8 256", ".b8 -129", ".b16 L", ".u8 1", ".b8 1;", ".b8 1,", ".b8", "1",
        '.b8 "a"', ".b32 1.0", ".b32 L-1", ".b32 L-M+1", ".b32 1, L", "L: L:", ".align 4 .b8 1",
    )),
    ("9.0", "sm_90", ".section foo { .b8 1 }"), ("9.0", "sm_90", ".section .b8 { .b8 1 }"),
    *(("9.0", "sm_90", f".entry k() {directives} {{ ret; }}") for directives in (
        ".maxntid 32,", ".maxntid 1 2", ".maxntid ,1", '.pragma "x"', '.pragma "x" "y";', ".maxntid 32;",
    )),
)  # fmt: skip
TEXTS = [
    *((BODY.format(t), True) for t in LEGAL), *((BODY.format(t), False) for t in ILLEGAL),
    *((MODULE.format(version=v, target=t, text=x), True) for v, t, x in LEGAL_MODULES),
    *((MODULE.format(version=v, target=t, text=x), False) for v, t, x in ILLEGAL_MODULES),
]  # fmt: skip


@pytest.mark.parametrize(("text", "legal"), TEXTS)
def test_the_text_is_judged_as_ptxas_judges_it(text: str, legal: bool) -> None:
    found = [d.message for d in pyptx.diagnose(text) if d.severity == "error"]
    assert bool(found) != legal, found
    try:
        find_tool("ptxas")
    except ToolNotFound:
        return
    assert assemble(text, "sm_90a", check_only=True).ok == legal


@pytest.mark.parametrize("text", [t for t, legal in TEXTS if legal])
def test_legal_texts_print_as_they_were(text: str) -> None:
    assert pyptx.to_ptx(pyptx.parse(text)) == text
