"""`pyptx fmt`: one layout for all, the same machine code, nothing lost."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

import pyptx
from pyptx.diagnostics import PTXError
from pyptx.passes.equivalent import differences
from pyptx.runtime.ptxas import assemble, sass_with_lines
from pyptx.runtime.ptxas import target_of as target_in
from pyptx.tools.cli import main
from pyptx.tools.commands.fmt import format_text
from tests.conftest import corpus_id
from tests.passes.sample import DATA, corpus_sample, text_of

MESSY = """// head
.version 8.0
  .target sm_80 ,debug   // what it runs on
.address_size 64


.global .align 4 .u32 table [ 4 ]= {1,2 , 3,4};
.visible .entry _Z1kPii(.param .u64 p,   // the data
   .param .u32 n) .maxntid 256,1,1 { .reg .pred %p<2>;.reg .b32 %r<5>;


 // first
        ld.param.u32   %r1,[n]; /* between */ mov.u32 %r2 , %tid.x;
LOOP: @%p1   bra  LOOP ;
    { .reg .b32 t; // inner
    mov.u32 t,%r1; }
   setp.lt.u32 %p1,
      // why
      %r1, %r2;
\tmad.lo.s32 %r3,%r1,%r2,(1<<4)+3 ;
 ret;  }
"""
NEAT = """// head
.version 8.0
.target sm_80, debug // what it runs on
.address_size 64

.global .align 4 .u32 table[4] = {1, 2, 3, 4};

// k(int*, int)
.visible .entry _Z1kPii(
\t.param .u64 p, // the data
\t.param .u32 n
)
.maxntid 256, 1, 1
{
\t.reg .pred %p<2>;
\t.reg .b32 %r<5>;

\t// first
\tld.param.u32        %r1, [n];
\t/* between */
\tmov.u32             %r2, %tid.x;
LOOP:
\t@%p1 bra            LOOP;
\t{
\t\t.reg .b32 t; // inner
\t\tmov.u32             t, %r1;
\t}
\tsetp.lt.u32         %p1, // why
\t\t%r1, %r2;
\tmad.lo.s32          %r3, %r1, %r2, (1<<4)+3;
\tret;
}
"""


def test_layout() -> None:
    wanted = NEAT if shutil.which("c++filt") else NEAT.replace("// k(int*, int)\n", "")
    assert format_text(MESSY) == wanted
    assert format_text(wanted) == wanted


def test_crlf_and_missing_newline_become_plain() -> None:
    text = ".version 8.0\r\n.target sm_80\r\n.entry k()\r\n{\r\n\tret; // end\r\n}"
    assert format_text(text) == ".version 8.0\n.target sm_80\n\n.entry k()\n{\n\tret; // end\n}\n"


@pytest.mark.parametrize(
    ("bytes_", "named"),
    [
        (".b8 5,144,177,228,149,1", True),
        (".b8 0x90", True),
        (".b8 -112", True),
        (".b8 156,1", False),
        (".b8 -1", False),
    ],
)
def test_rename_and_debug_sections(bytes_: str, named: bool) -> None:
    """DW_OP_regx is 0x90 (DWARF 4, figure 24): nvcc -G writes `%r1` as 144,177,228,149,1."""
    text = ".version 8.5\n.target sm_90a\n.address_size 64\n.entry k()\n{\n\t.reg .b32 %r<2>;\n\tmov.b32 %r1, 1;\n\tret;\n}\n"
    text += f'\t.file 1 "x.cu"\n\t.section .debug_abbrev\n\t{{\n.b8 144\n\t}}\n\t.section .debug_info\n\t{{\n{bytes_}\n\t}}\n'
    if not named:
        assert "%r0, 1;" in format_text(text, rename=True)
        return
    with pytest.raises(pyptx.PTXError, match="describes registers") as caught:
        format_text(text, "some/k.ptx", rename=True)
    assert "some/k.ptx:15:" in str(caught.value)
    assert "pyptx-opt some/k.ptx -p ptx-strip-debug -t ptx" in str(caught.value)


def test_rename() -> None:
    text = """.version 8.0
.target sm_80
.func (.reg .b32 out) f(.reg .b32 in)
{
	.reg .b32 tmp, %r<9>;
	.reg .f32 x;
	{ .reg .f32 tmp; mov.f32 tmp, 0f3F800000; mov.b32 %r8, tmp; }
	mov.b32 x, %r8;
	mov.b32 tmp, in;
$L__BB0_1:
	add.s32 tmp, tmp, 1;
	bra $L__BB0_1;
	mov.b32 out, tmp;
	ret;
}
"""
    new = format_text(text, rename=True)
    assert ".reg .f32 %f<2>;" in new
    assert ".reg .b32 %r<2>;" in new
    assert re.search(r"mov\.f32 +%f0, 0f3F800000;\n\tmov\.b32 +%r0, %f0;\n\tmov\.b32 +%f1, %r0;", new)
    assert re.search(
        r"mov\.b32 +%r1, in;\nloop_0:\n\tadd\.s32 +%r1, %r1, 1;\n\tbra +loop_0;\n\tmov\.b32 +out, %r1;", new
    )
    assert differences(pyptx.parse(text), pyptx.parse(new)) == []


def comments(text: str) -> Counter[str]:
    found = re.findall(r"//[^\n]*|/\*.*?\*/", re.sub(r'"[^"\n]*"', '""', text), re.S)
    return Counter(re.sub(r"\s+", " ", c).strip() for c in found)


def same_machine_code(one: str, other: str, target: str) -> bool:
    """Whether ptxas makes the same of both texts; nvdisasm reads the cubins where they are not the same to the byte."""
    a, b = (assemble(text, target).cubin for text in (one, other))
    return a is None or a == b or (b is not None and instructions(a) == instructions(b))


def instructions(cubin: bytes) -> dict[str, list[str]]:
    return {name: [line.text for line in lines] for name, lines in sass_with_lines(cubin).items()}


def check(path: Path, *, rename: bool, with_sass: bool) -> None:
    text = text_of(path)
    try:
        pyptx.parse(text)
    except PTXError:
        pytest.skip("not parsed (tests/parser says why)")
    try:
        new = format_text(text, rename=rename)
    except PTXError as error:
        if "debug sections describe registers by name" not in str(error):
            raise
        return
    assert format_text(new, rename=rename) == new
    assert differences(pyptx.parse(text), pyptx.parse(new)) == []
    assert not comments(text) - comments(new)
    for line in new.splitlines():
        assert line == line.rstrip() or "//" in line or "*" in line, repr(line)
    target = target_in(text)
    if target is None:
        return
    if with_sass:
        assert same_machine_code(text, new, target)
    elif assemble(text, target, check_only=True).ok:
        assert assemble(new, target, check_only=True).ok


@pytest.mark.parametrize("rename", [False, True], ids=["names kept", "renamed"])
@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.name)
def test_own_files(path: Path, rename: bool) -> None:
    check(path, rename=rename, with_sass=not rename)


@pytest.mark.corpus
@pytest.mark.parametrize("rename", [False, True], ids=["names kept", "renamed"])
@pytest.mark.parametrize("path", corpus_sample(24), ids=corpus_id)
def test_corpus(path: Path, rename: bool) -> None:
    check(path, rename=rename, with_sass=path.stat().st_size < 6_000)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(MESSY)
    assert main(["fmt", "--check", str(path)]) == 1
    assert capsys.readouterr().out == f"{path}: not in canonical form\n"
    assert path.read_text() == MESSY
    assert main(["fmt", str(path)]) == 0
    neat = capsys.readouterr().out
    assert main(["fmt", "-i", str(path)]) == 0
    assert path.read_text() == neat
    assert main(["fmt", "--check", str(path)]) == 0
    path.write_text("add.s32 %r1;")
    assert main(["fmt", str(path)]) == 1
    assert "the module has no .version" in capsys.readouterr().err
