"""`pyptx diff`: equal up to renaming, and only then."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import pyptx
from pyptx.diagnostics import PTXError
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.passes.equivalent import differences
from pyptx.passes.rename import rename_labels, rename_registers
from pyptx.tools.cli import main
from tests.conftest import corpus_id
from tests.passes.sample import DATA, corpus_sample, ptx_of, text_of

KERNEL = """.version 8.0
.target sm_80
.visible .entry k(.param .u64 p)
{
	.reg .pred %p<2>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, 0;
	mov.u32 %r2, 1;
LOOP:
	add.s32 %r1, %r1, %r2;
	setp.lt.s32 %p1, %r1, 10;
	@%p1 bra LOOP;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""


def diff(a: str, b: str, **options: bool) -> list[str]:
    return [d.text for d in differences(ptx_of(a), ptx_of(b), **options)]  # pyright: ignore


def test_names_and_layout_do_not_count() -> None:
    other = KERNEL.replace("%r", "%x").replace("LOOP", "$L1").replace("[p]", "[q]").replace(".u64 p)", ".u64 q)")
    other = other.replace(".reg .b32 %x<5>;", ".reg .b32 %x<9>, unused;").replace("\tadd", "  // comment\n{ }    add")
    assert other != KERNEL
    assert diff(KERNEL, other) == []


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        ("%r1, 10;", "%r1, 11;", "setp.lt.s32 %p1, %r1, 10;", "setp.lt.s32 %p1, %r1, 11;"),
        ("add.s32 %r1, %r1, %r2", "add.s32 %r1, %r2, %r1", "add.s32 %r1, %r1, %r2;", "add.s32 %r1, %r2, %r1;"),
        (
            "st.global.u32 [%rd1], %r1",
            "st.global.u32 [%rd1], %r2",
            "st.global.u32 [%rd1], %r1;",
            "st.global.u32 [%rd1], %r2;",
        ),
        ("@%p1", "@!%p1", "@%p1 bra LOOP;", "@!%p1 bra LOOP;"),
        (".visible .entry", ".entry", ".visible .entry k(.param .u64 p) {", ".entry k(.param .u64 p) {"),
        ("sm_80", "sm_90", ".target sm_80", ".target sm_90"),
        (".reg .b32 %r<5>;", ".reg .u32 %r<5>;", "mov.u32 %r1, 0;", "mov.u32 %r1, 0;"),
    ],
)
def test_what_counts(old: str, new: str, removed: str, added: str) -> None:
    other = KERNEL.replace(old, new)
    assert other != KERNEL
    (first, *_) = diff(KERNEL, other)
    assert f"- {removed}" in first.splitlines()
    assert f"+ {added}" in first.splitlines()


def test_two_registers_are_not_one() -> None:
    """A renaming is one to one."""
    merged = KERNEL.replace("%r2", "%r1")
    assert diff(KERNEL, merged)
    assert diff(merged, KERNEL)


def test_an_inserted_statement_is_the_only_difference() -> None:
    other = KERNEL.replace("\tsetp", "\tmov.u32 %r4, 3;\n\tsetp").replace("%r1", "%r3")
    (only,) = differences(ptx_of(KERNEL, "a.ptx"), ptx_of(other, "b.ptx"))
    assert only.removed == ()
    assert only.added == ("mov.u32 %r4, 3;",)
    assert (only.function, only.a_line, only.b_line) == ("k", 13, 13)
    assert only.before[-1] == "add.s32 %r1, %r1, %r2;"  # in the names of the first file


def test_ignore_debug() -> None:
    other = KERNEL.replace("\tadd", "\t.loc 1 4 2\n$L__tmp0:\n\tadd").replace(".visible", '.file 1 "k.cu"\n.visible')
    assert len(diff(KERNEL, other)) == 2
    assert diff(KERNEL, other, ignore_debug=True) == []


def test_a_renamed_function_and_a_missing_one() -> None:
    assert [d.removed for d in differences(ptx_of(KERNEL), ptx_of(KERNEL.replace("entry k", "entry kk")))] == [
        (".visible .entry k(.param .u64 p) {",)
    ]
    second = KERNEL + KERNEL.partition("sm_80\n")[2].replace("entry k", "entry k2")
    (missing,) = differences(ptx_of(second), ptx_of(KERNEL))
    assert (missing.function, len(missing.removed), missing.added) == ("k2", 10, ())


def renamed(module: ModuleOp, seed: int) -> None:
    rng = random.Random(seed)
    for function in module.functions:
        fixed = {n for d in (*function.parameters, *function.returns) for n, _ in d.items}
        names: dict[str, str] = {}

        def new(name: str, fixed: set[str] = fixed, names: dict[str, str] = names) -> str:
            if name in fixed:
                return name
            return names.setdefault(name, f"%n{rng.getrandbits(40)}_")

        rename_registers(function, new)
        rename_labels(function, lambda label: f"label_{label.replace('$', 'D')}")


def check(path: Path) -> None:
    try:
        module = ptx_of(text_of(path))
    except PTXError:
        pytest.skip("not parsed (tests/parser says why)")
    other = ptx_of(text_of(path))
    renamed(other, 3)
    assert differences(module, other) == []
    # and one changed instruction is found, at its place
    instructions = [
        op
        for f in other.functions
        for b in f.blocks
        for op in b.ops
        if getattr(op, "opcode", "") in ("add", "mov", "ld")
    ]
    if instructions:
        victim = random.Random(5).choice(instructions)
        if victim.next_op is not None:
            victim.detach()
            assert len(differences(module, other)) >= 1


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.name)
def test_own_files(path: Path) -> None:
    check(path)


@pytest.mark.corpus
@pytest.mark.parametrize("path", corpus_sample(), ids=corpus_id)
def test_corpus(path: Path) -> None:
    check(path)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.ptx", tmp_path / "b.ptx"
    a.write_text(KERNEL)
    b.write_text(KERNEL.replace("%r", "%q"))
    assert main(["diff", str(a), str(b)]) == 0
    assert capsys.readouterr().out == ""
    b.write_text(KERNEL.replace("%r", "%q").replace("10", "11"))
    assert main(["diff", str(a), str(b), "--context", "1"]) == 1
    assert capsys.readouterr().out == (
        f"--- {a}\n+++ {b}\n@@ line 13 / line 13 @@ k\n  add.s32 %r1, %r1, %r2;\n"
        "- setp.lt.s32 %p1, %r1, 10;\n+ setp.lt.s32 %p1, %r1, 11;\n  @%p1 bra LOOP;\n"
    )
    assert main(["diff", str(a), str(b), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["function"], found["a_line"], found["removed"]) == ("k", 13, ["setp.lt.s32 %p1, %r1, 10;"])
    assert main(["diff", str(a), str(tmp_path / "missing.ptx")]) == 2


def test_more_than_one_module_is_refused() -> None:
    module = pyptx.parse(KERNEL)
    inner = module.body.block.first_op
    assert inner is not None
    module.body.block.add_op(inner.clone())
    with pytest.raises(ValueError, match=r"one ptx\.module"):
        differences(module, module)


def test_unreadable_ptx_is_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.ptx"
    bad.write_text("hello\n")
    assert main(["diff", str(bad), str(bad)]) == 1
    assert "bad.ptx:1:1: error" in capsys.readouterr().err
    assert main(["diff", "--json", str(bad), str(bad)]) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert errors[0]["line"] == 1
    assert main(["analyse", "--json", str(bad)]) == 1
    assert json.loads(capsys.readouterr().out)["errors"] == errors


@pytest.mark.parametrize(("name", "other"), [("add", "sub"), ("ret", "exit"), ("min", "max")])
def test_names_spelled_like_opcodes(name: str, other: str) -> None:
    """A label, variable or parameter `add` is not an opcode, and the opcode `add` is not a name."""
    operation = {"ret": "@%p1 {0}", "exit": "@%p1 {0}"}.get(name, "{0}.s32 %r1, %r1, %r2").format
    a = KERNEL.replace("LOOP", name).replace("mov.u32 %r2, 1;", f"mov.u32 %r2, 1;\n\t{operation(name)};")
    b = KERNEL.replace("LOOP", other).replace("mov.u32 %r2, 1;", f"mov.u32 %r2, 1;\n\t{operation(other)};")
    assert diff(a, b)
    assert not diff(a, a.replace(f"{name}:", "L:").replace(f"bra {name};", "bra L;"))
