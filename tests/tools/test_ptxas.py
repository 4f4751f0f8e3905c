from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pyptx.diagnostics import PTXError
from pyptx.tools import oracle, ptxas
from pyptx.tools.ptxas import ResourceUsage, ToolNotFound, assemble, disassemble, sass_with_lines
from tests.conftest import corpus_files, corpus_id


def _has(tool: str) -> bool:
    try:
        ptxas.find_tool(tool)
    except ToolNotFound:
        return False
    return True


needs_ptxas = pytest.mark.skipif(not _has("ptxas"), reason="no ptxas: pip install '.[ptxas]'")
needs_nvdisasm = pytest.mark.skipif(not _has("nvdisasm"), reason="no nvdisasm: pip install '.[ptxas]'")
needs_scripts = pytest.mark.skipif(os.name != "posix", reason="stands in for ptxas with a shell script")

COPY = """\
.version 8.7
.target sm_90a
.address_size 64
// Two entries, one of them with shared memory.
.visible .entry copy(.param .u64 p)
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 buffer[512];

  ld.param.u64 %rd1, [p];
  mov.u32 %r2, buffer;
  ld.global.u32 %r1, [%rd1];
  st.shared.u32 [%r2], %r1;
  bar.sync 0;
  ld.shared.u32 %r3, [%r2+4];
  st.global.u32 [%rd1], %r3;
  ret;
}
.visible .entry nothing() { ret; }
"""

SERIALISED = """\
.version 8.7
.target sm_90a
.address_size 64
.visible .entry gemm(.param .u64 p) {
  .reg .f32 %f<10>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  setmaxnreg.inc.sync.aligned.u32 232;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd1, 1, 1, 1, 0, 0;
  add.f32 %f1, %f1, %f2;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd1, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  st.global.f32 [%rd1], %f1;
  ret;
}
"""


@needs_ptxas
def test_assemble_gives_a_cubin_and_what_it_costs():
    result = assemble(COPY, "sm_90a")
    assert result.ok
    assert result.diagnostics == ()
    assert result.cubin is not None
    assert result.cubin.startswith(b"\x7fELF")
    assert set(result.usage) == {"copy", "nothing"}
    usage = result.usage["copy"]
    assert usage.shared_bytes == 512
    assert usage.barriers == 1
    assert 0 < usage.registers <= 32
    assert (usage.spill_loads, usage.spill_stores, usage.stack_bytes) == (0, 0, 0)
    assert result.usage["nothing"].shared_bytes == 0
    assert result.raise_on_error() is result


@needs_ptxas
def test_refusals_point_into_the_ptx():
    bad = COPY.replace("ld.shared.u32 %r3", "ld.shared.u33 %r3").replace("], %r3", "], %r4x")
    result = assemble(bad, "sm_90a", filename="copy.ptx")
    assert not result.ok
    assert result.cubin is None
    assert result.usage == {}
    first = result.errors[0]
    assert (first.filename, first.line, first.column) == ("copy.ptx", 16, 12)
    assert first.render() == (
        "copy.ptx:16:12: error: Unknown modifier '.u33'\n  ld.shared.u33 %r3, [%r2+4];\n           ^"
    )
    assert 17 in {d.line for d in result.errors}
    assert not any("aborted" in d.message for d in result.diagnostics)
    with pytest.raises(PTXError, match=r"copy\.ptx:16:12: error"):
        result.raise_on_error()


@needs_ptxas
def test_grammar_error_is_an_error_at_its_line():
    result = assemble(COPY.replace("  ret;\n}", "  ret\n}"), "sm_90a")
    assert [(d.severity, d.line) for d in result.diagnostics] == [("error", 19)]


@needs_ptxas
def test_check_only_makes_nothing_and_takes_old_targets():
    checked = assemble(COPY, "sm_90a", check_only=True)
    assert checked.ok
    assert checked.cubin is None
    assert checked.usage == {}
    old = ".version 3.0\n.target sm_20\n.entry k() { ret; }\n"
    assert assemble(old, "sm_20", check_only=True).ok
    newer = ".version 8.7\n.target sm_70\n.entry k() { .reg .b32 %r<4>; redux.sync.add.s32 %r1, %r2, %r3; }\n"
    assert not assemble(newer, "sm_70", check_only=True).ok


@needs_ptxas
def test_generating_code_for_an_unknown_gpu_says_which_are_known():
    result = assemble(COPY, "sm_33")
    assert not result.ok
    assert result.errors[0].hint is not None
    assert "sm_90a" in result.errors[0].hint


@needs_ptxas
@pytest.mark.parametrize("text", ["", "\n", "not ptx at all", "\0\1\2", "\udcff", ".version 99.9\n.target sm_90\n"])
def test_rubbish_is_a_diagnostic(text: str):
    result = assemble(text, "sm_90")
    assert not result.ok
    assert result.errors
    assert all(d.message for d in result.errors)
    assert "kernel.ptx" not in str(result.errors)


@needs_ptxas
def test_advisories_about_speed_are_warnings_with_a_line():
    result = assemble(SERIALISED, "sm_90a")
    assert result.ok
    found = {d.message[:7]: d for d in result.diagnostics}
    assert {d.severity for d in result.diagnostics} == {"warning"}
    assert "setmaxnreg" in found["(C7508)"].message
    assert found["(C7517)"].line == 12
    assert found["(C7517)"].source_line == "  add.f32 %f1, %f1, %f2;"


@needs_ptxas
def test_options_are_passed_on():
    refused = assemble(COPY, "sm_90a", options=("--no-such-option",))
    assert not refused.ok
    assert "no-such-option" in refused.errors[0].message


@needs_ptxas
@needs_nvdisasm
def test_disassemble():
    cubin = assemble(COPY, "sm_90a").cubin
    assert cubin is not None
    text = disassemble(cubin)
    assert "LDG" in text
    assert "BAR.SYNC" in text
    with pytest.raises(PTXError, match="cannot read this cubin"):
        disassemble(b"not a cubin")


@needs_ptxas
@needs_nvdisasm
def test_sass_maps_to_ptx_lines():
    ptx_lines = COPY.splitlines()
    cubin = assemble(COPY, "sm_90a", options=("-lineinfo",)).cubin
    assert cubin is not None
    functions = sass_with_lines(cubin)
    assert set(functions) == {"copy", "nothing"}
    behind = {
        sass.text.split()[0].split(".")[0]: ptx_lines[sass.line - 1]
        for sass in functions["copy"]
        if sass.line is not None
    }
    assert "bar.sync" in behind["BAR"]
    assert "ld.shared" in behind["LDS"]
    assert "st.shared" in behind["STS"]
    assert [sass.offset for sass in functions["copy"]] == list(range(0, 16 * len(functions["copy"]), 16))
    without = assemble(COPY, "sm_90a").cubin
    assert without is not None
    assert all(sass.line is None for body in sass_with_lines(without).values() for sass in body)


def test_usage_is_read_from_every_form_of_the_log():
    log = """\
ptxas info    : 194 bytes gmem, 8 bytes cmem[4]
ptxas info    : Function properties for helper
    24 bytes stack frame, 24 bytes spill stores, 20 bytes spill loads
ptxas info    : Compiling entry function 'big' for 'sm_80'
ptxas info    : Function properties for big
    144 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 62 registers, used 2 barriers, 32 bytes cumulative stack size, 96+16 bytes smem
ptxas info    : Compile time = 4.791 ms
ptxas info    : Compiling entry function 'old' for 'sm_35'
ptxas info    : Function properties for old
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 364 bytes cmem[0]
"""
    assert ptxas._read_usage(log) == {
        "big": ResourceUsage(62, 112, spill_stores=4, spill_loads=8, stack_bytes=144, barriers=2),
        "old": ResourceUsage(registers=8),
    }


def test_target_of():
    assert ptxas.target_of(".version 8.0\n.target sm_90a, debug\n") == "sm_90a"
    assert ptxas.target_of(".version 1.4\n.target texmode_independent, sm_13\n") == "sm_13"
    assert ptxas.target_of("// .target\n") is None


# --- a ptxas that misbehaves


@pytest.fixture
def fake_ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def install(script: str) -> None:
        path = tmp_path / "ptxas"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PTXAS", str(path))

    return install


@needs_scripts
def test_crash_is_a_diagnostic(fake_ptxas):
    fake_ptxas("kill -SEGV $$")
    result = assemble(COPY, "sm_90a", filename="copy.ptx")
    assert not result.ok
    assert result.errors[0].render().startswith("copy.ptx: error: ptxas crashed (SIGSEGV)\nhint: ")


@needs_scripts
def test_hang_is_a_diagnostic(fake_ptxas):
    fake_ptxas("exec sleep 30")
    result = assemble(COPY, "sm_90a", timeout=0.2)
    assert not result.ok
    assert "did not finish within 0.2 s" in result.errors[0].message


@needs_scripts
def test_unexplained_failure_shows_what_was_printed(fake_ptxas):
    fake_ptxas("echo out of luck >&2; exit 3")
    result = assemble(COPY, "sm_90a")
    assert result.errors[0].message == "ptxas failed with exit status 3: out of luck"


@needs_scripts
def test_success_without_a_cubin_is_no_success(fake_ptxas):
    fake_ptxas("exit 0")
    assert not assemble(COPY, "sm_90a").ok


@needs_scripts
def test_oracle_finds_the_line_that_crashes(fake_ptxas):
    fake_ptxas('case "$1" in --help) echo compute_90a;; *) grep -q boom kernel.ptx && kill -SEGV $$; exit 0;; esac')
    lines = ["add;"] * 20
    lines[7] = lines[13] = "boom;"
    judged = oracle.verdicts(lines, "8.7", "sm_90a")
    assert [i for i, messages in enumerate(judged) if messages] == [7, 13]


@needs_scripts
def test_oracle_gives_up_on_a_ptxas_that_always_crashes(fake_ptxas):
    fake_ptxas("kill -SEGV $$")
    with pytest.raises(RuntimeError, match="declarations of the probe"):
        oracle.verdicts(["add;", "sub;"], "8.7", "sm_90a")


def test_missing_tool_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ToolNotFound, match="no-such"):
        ptxas._find_tool("ptxas", "/no-such/ptxas", "")
    monkeypatch.setitem(__import__("sys").modules, "cuda.pathfinder", None)
    ptxas._find_tool.cache_clear()
    with pytest.raises(ToolNotFound, match=r"pip install '\.\[ptxas\]'"):
        ptxas._find_tool("ptxas", None, "")
    ptxas._find_tool.cache_clear()


# --- the oracle


@needs_ptxas
def test_oracle_judges_each_line_on_its_own():
    expected = {
        "add.s32 %r0,%r1,%r2;": True,
        "add.s33 %r0,%r1,%r2;": False,
        "mov.b32 %r0, 1": False,  # ptxas notices at the next line
        "mov.b32 %r1, %r2;": True,
        "": True,
        "( x;": False,
        "wgmma.fence.sync.aligned;": True,
        "fma.rn.f32 %r1,%r2,%r3,%r4;": True,
        "add.f32 %r1, %r2, 0f3F80;": False,
        "mov.b32 %r0, 2 // no semicolon; here": False,
        "call fn;\r": True,
        "tcgen05.fence::before_thread_sync;": False,
    }
    lines = list(expected) * 3
    judged = oracle.verdicts(lines, "8.7", "sm_90a")
    assert {line: not messages for line, messages in zip(lines, judged, strict=True)} == expected
    assert judged[: len(expected)] == judged[len(expected) : 2 * len(expected)]
    assert oracle.verdicts(["tcgen05.fence::before_thread_sync;"], "8.7", "sm_100a") == [[]]
    assert oracle.verdicts([], "8.7", "sm_90a") == []


@needs_ptxas
@pytest.mark.parametrize(("version", "target"), [("1.0", "sm_10"), ("2.0", "sm_20"), ("9.0", "sm_120f")])
def test_oracle_header_is_legal_at_every_age(version: str, target: str):
    assert oracle.verdicts(["mov.b32 %r0, %r1;"], version, target) == [[]]


def test_oracle_rejects_a_target_that_is_none():
    with pytest.raises(ValueError, match="sm_NN"):
        oracle.header("8.7", "sm90")


@needs_ptxas
def test_oracle_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert oracle.main(["8.7", "sm_90a", "ret;", "rte;"]) == 1
    ok, reject = capsys.readouterr().out.splitlines()
    assert ok == "OK    \tret;"
    assert reject.startswith("REJECT\trte;\t")
    path = tmp_path / "k.ptx"
    path.write_text(COPY)
    assert oracle.main(["--file", str(path)]) == 0
    assert oracle.main(["8.7"]) == 2


@needs_ptxas
@pytest.mark.corpus
@pytest.mark.parametrize("path", corpus_files("hard/hand/*.ptx"), ids=corpus_id)
def test_check_file_agrees_with_the_corpus_notes(path: Path):
    refused = {"global_2d_init.ptx", "neg_float_lit.ptx"}
    assert bool(oracle.check_file(path)) == (path.name in refused)
