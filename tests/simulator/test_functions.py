"""Device functions: vectors as parameters, and variables that belong to a function."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx.passes.inline import inline_calls
from pyptx.simulator import load
from pyptx.simulator.launch.launch import find_ptx_module

from .assembling import assembled

ENGINES = (None, "jit")

HEAD = ".version 9.5\n.target sm_90a\n.address_size 64\n"
ENTRY = """
.visible .entry k(.param .u64 out) {
    .reg .b32 %r<8>; .reg .b64 %d<3>; .reg .v2 .u32 a, b; .reg .v4 .b32 q; .reg .v2 .f32 fa; .reg .v2 .b64 wide;
    ld.param.u64 %d0, [out];
    mov.u32 a.x, 3; mov.u32 a.y, 4; mov.f32 fa.x, 0f3F800000; mov.f32 fa.y, 0f40000000;
    mov.b32 q.x, 1; mov.b32 q.y, 2; mov.b32 q.z, 3; mov.b32 q.w, 4; mov.b64 wide.x, 0x500000001; mov.b64 wide.y, 6;
"""
SWAP = ".func (.reg .v2 .u32 o) f(.reg .v2 .u32 i) { mov.u32 o.x, i.y; mov.u32 o.y, i.x; ret; }"

CALLS = [
    (".func (.reg .v2 .u32 o) f(.reg .v2 .u32 i) { mov.v2.u32 o, i; ret; }",
     "call (b), f, (a); st.global.v2.u32 [%d0], {b.x, b.y};", [3, 4, 0, 0]),
    (SWAP, "call.uni (b), f, (a); call (a), f, (b); st.global.v4.u32 [%d0], {a.x, a.y, b.x, b.y};", [3, 4, 4, 3]),
    (".func (.reg .v4 .b32 o) f(.reg .v4 .b32 i) { mov.b32 o.x, i.w; mov.b32 o.y, i.z; mov.b32 o.z, i.y; mov.b32 o.w, i.x; ret; }",
     "call (q), f, (q); st.global.v4.b32 [%d0], {q.x, q.y, q.z, q.w};", [4, 3, 2, 1]),
    (".func (.reg .v2 .b64 o) f(.reg .v2 .b64 i) { mov.b64 o.x, i.y; mov.b64 o.y, i.x; ret; }",
     "call (wide), f, (wide); st.global.v2.b64 [%d0], {wide.x, wide.y};", [6, 0, 1, 5]),
    (".func (.reg .v2 .f32 o, .reg .u32 p) f(.reg .u32 j, .reg .v2 .f32 i) { add.f32 o.x, i.x, i.y; mul.f32 o.y, i.x, i.y; add.u32 p, j, 1; ret; }",
     "mov.u32 %r0, 8; call (fa, %r1), f, (%r0, fa); st.global.v2.f32 [%d0], {fa.x, fa.y}; st.global.u32 [%d0+8], %r1;",
     [0x40400000, 0x40000000, 9, 0]),
    (SWAP, "P: .callprototype (.reg .v2 .u32 _) _ (.reg .v2 .u32 _); mov.u64 %d1, f; call (b), %d1, (a), P; "
     "st.global.v2.u32 [%d0], {b.x, b.y};", [4, 3, 0, 0]),
    # a constant is the first element (SASS: R4 = URZ, R5 = 1 for what this body makes of it)
    (SWAP, "call (b), f, (1); st.global.v2.u32 [%d0], {b.x, b.y};", [0, 1, 0, 0]),
]  # fmt: skip


def results(source: str) -> list[int]:
    out = np.zeros(4, np.uint32)
    assembled(source).simulate(out, grid=1, block=1)
    return out.tolist()


def inlined(source: str) -> str:
    module = pyptx.parse(source)
    inline_calls(find_ptx_module(module))
    module.verify()
    return pyptx.to_ptx(module)


@pytest.mark.parametrize(("function", "body", "wanted"), CALLS)
def test_vectors_as_parameters(function: str, body: str, wanted: list[int]) -> None:
    source = HEAD + function + ENTRY + body + "ret; }"
    assert results(source) == wanted
    text = inlined(source)
    assert ("call" in text) == ("%d1, f" in body or "f, (1)" in body)
    assert results(text) == wanted


def test_variables_inside_functions() -> None:
    """There is one of each, whatever the scope; initialisers see the names that are declared where they stand."""
    source = f"""{HEAD}
    .global .u32 g = 1;
    .func (.reg .u32 o) f() {{
        .global .u32 g = 40; .global .u64 h = g; .reg .b64 %d;
        ld.global.u64 %d, [h]; atom.global.add.u32 o, [%d], 1; ret;
    }}
    .func (.reg .u32 o) h() {{
        .reg .u32 %r;
        {{ .global .u32 g = 5; ld.global.u32 o, [g]; }}
        {{ .const .u32 g[2] = {{6, 7}}; ld.const.u32 %r, [g+4]; mad.lo.u32 o, %r, 100, o; }}
        ret;
    }}
    {ENTRY}
        {{ .global .u32 g = 8; ld.global.u32 %r0, [g]; call (%r1), f; call (%r1), f; call (%r2), h; }}
        ld.global.u32 %r3, [g];
        st.global.v4.u32 [%d0], {{%r0, %r1, %r2, %r3}};
        ret;
    }}"""
    assert results(source) == [8, 41, 705, 1]
    text = inlined(source)
    assert "call (%r1), f;" in text  # its variables must stay one
    assert results(text) == [8, 41, 705, 1]
    kernel = load(source)["k"]
    for wanted in ([8, 41, 705, 1], [8, 43, 705, 1]):  # module variables keep their values from launch to launch
        out = np.zeros(4, np.uint32)
        kernel.simulate(out, grid=1, block=1)
        assert out.tolist() == wanted
    assert kernel.variable("f::g").view(np.uint32)[0] == 44


TABLES = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b64 %o, %w;
.reg .b32 %t, %v;
ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; add.s64 %o, %o, %w;
{table}brx.idx %t, TAB;
A: mov.u32 %v, 10; bra E;
B: mov.u32 %v, 20; bra E;
C: mov.u32 %v, 30; bra E;
E: st.global.u32 [%o], %v; ret;
}}
"""


@pytest.mark.parametrize("table", ["TAB: .branchtargets A, B, A, C;\n", "TAB:\n.branchtargets A, B, A, C;\n"])
@pytest.mark.parametrize("before", ["", "X0:\n", "X0:\nX1:\n", "X0: mov.u32 %v, 0;\n"])
def test_tables_of_branches_have_the_label_next_to_them(table: str, before: str) -> None:
    """LLVM writes the table after other labels of the same place."""
    out = np.zeros(4, np.uint32)
    pyptx.simulate(assembled(TABLES.format(table=before + table)), out, grid=1, block=4)
    assert out.tolist() == [10, 20, 10, 30]
