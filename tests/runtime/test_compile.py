"""PTX -> cubin: both compilers, errors with their lines, one compilation for many askers."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from pyptx.diagnostics import PTXError
from pyptx.disk_cache import DiskCache
from pyptx.runtime import compile as compiling
from pyptx.runtime.compile import Compiled, NoCompiler, compile_ptx, compilers

GOOD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry add_one(.param .u64 a)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [a];
    ld.global.u32 %r1, [%rd1];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
BAD = GOOD.replace("add.u32 %r1", "add.q32 %r1")

needs_compiler = pytest.mark.skipif(not compilers(), reason="neither nvJitLink nor ptxas is installed")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYPTX_COMPILER", raising=False)
    compiling._recent.clear()
    return DiskCache(tmp_path / "cache")


@needs_compiler
@pytest.mark.parametrize("compiler", compilers())
def test_compiles(compiler: str) -> None:
    made = compile_ptx(GOOD, "sm_90a", compiler=compiler)
    assert made.cubin[:4] == b"\x7fELF"
    assert b"add_one" in made.cubin
    assert made.compiler.startswith(f"{compiler} ")
    assert made.usage["add_one"].registers > 0
    assert compile_ptx(GOOD, "sm_90a", compiler=compiler) is made


@needs_compiler
@pytest.mark.parametrize("compiler", compilers())
def test_refusal_names_the_line(compiler: str) -> None:
    with pytest.raises(PTXError) as caught:
        compile_ptx(BAD, "sm_90a", compiler=compiler, filename="mine.ptx")
    first = caught.value.diagnostics[0]
    assert (first.line, first.filename) == (10, "mine.ptx")
    assert "q32" in first.message
    assert first.source_line is not None
    assert "add.q32" in first.source_line


@needs_compiler
@pytest.mark.parametrize("compiler", compilers())
def test_options_reach_the_compiler(compiler: str) -> None:
    plain = compile_ptx(GOOD, "sm_90a", compiler=compiler)
    lines = compile_ptx(GOOD, "sm_90a", compiler=compiler, options=("-lineinfo",))
    assert b".debug_line" in lines.cubin
    assert b".debug_line" not in plain.cubin
    with pytest.raises(PTXError, match=r"no-such-option|nrecognized|nknown"):
        compile_ptx(GOOD, "sm_90a", compiler=compiler, options=("--no-such-option",))


@needs_compiler
def test_unknown_arch_is_said() -> None:
    with pytest.raises(PTXError, match=r"sm_12345|arch"):
        compile_ptx(GOOD, "sm_12345")


@needs_compiler
def test_disk(fresh: DiskCache) -> None:
    made = compile_ptx(GOOD, "sm_90a")
    assert not made.from_disk
    compiling._recent.clear()
    again = compile_ptx(GOOD, "sm_90a")
    assert again.from_disk
    assert (again.cubin, again.usage) == (made.cubin, made.usage)
    compiling._recent.clear()
    assert not compile_ptx(GOOD, "sm_90a", options=("-O1",)).from_disk  # other options, other entry
    for path in fresh.path.rglob("*.cubin"):
        path.write_bytes(path.read_bytes()[:-1])
    compiling._recent.clear()
    rebuilt = compile_ptx(GOOD, "sm_90a")
    assert not rebuilt.from_disk
    assert rebuilt.cubin == made.cubin


@needs_compiler
def test_another_compiler_version_is_another_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ptx(GOOD, "sm_90a")
    compiling._recent.clear()
    monkeypatch.setattr(compiling, "compiler_version", lambda name: "0.0")
    assert not compile_ptx(GOOD, "sm_90a").from_disk


@needs_compiler
def test_a_refused_directory_warns_and_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(0o777)
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(path))
    with pytest.warns(RuntimeWarning, match=r"not kept on disk.*others can write"):
        compile_ptx(GOOD, "sm_90a")
    compiling._recent.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        compile_ptx(GOOD, "sm_90a")
    assert list(path.iterdir()) == []


def test_eight_threads_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    start = threading.Barrier(8)

    def slow(ptx: str, *_: Any) -> Any:
        runs.append(ptx)
        threading.Event().wait(0.1)
        return compiling.PtxasResult(True, b"\x7fELF")

    monkeypatch.setitem(compiling._COMPILERS, "ptxas", slow)
    monkeypatch.setattr(compiling, "compiler_version", lambda name: "1")
    results: list[Compiled] = []

    def ask() -> None:
        start.wait()
        results.append(compile_ptx("text", "sm_90a", compiler="ptxas"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert runs == ["text"]
    assert len(results) == 8
    assert all(r is results[0] for r in results)
    assert compiling._locks == {}


def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_has_nvjitlink", lambda: False)
    monkeypatch.setattr(compiling, "compilers", lambda: ())
    with pytest.raises(NoCompiler, match=r"pip install '\.\[cuda\]'"):
        compile_ptx(GOOD, "sm_90a")
    with pytest.raises(ValueError, match="unknown compiler 'nvcc'"):
        compile_ptx(GOOD, "sm_90a", compiler="nvcc")


@pytest.mark.skipif("ptxas" not in compilers(), reason="ptxas is not installed")
def test_ptxas_steps_in_for_an_nvjitlink_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise NoCompiler("nvJitLink cannot be loaded")

    monkeypatch.setattr(compiling, "_has_nvjitlink", lambda: True)
    monkeypatch.setitem(compiling._COMPILERS, "nvjitlink", broken)
    assert compile_ptx(GOOD, "sm_90a").cubin[:4] == b"\x7fELF"
    compiling._recent.clear()
    with pytest.raises(NoCompiler, match="cannot be loaded"):
        compile_ptx(GOOD, "sm_90a", compiler="nvjitlink", options=("-O1",))


@needs_compiler
def test_errors_come_back_at_the_python_line() -> None:
    from pyptx import kernel, ptx, reg
    from pyptx.runtime.compile import compile_kernel
    from pyptx.types import u32

    @kernel(arch="sm_90a", raw_params=[("u64", "a")])
    def wrong():
        x = reg.scalar(u32, init=1)
        ptx.inst.add.u32(x, x, 1)
        ptx.ret()

    assert compile_kernel(wrong).cubin
    # ptxas finds what our verifier does not: an option that makes it give up
    with pytest.raises(PTXError):
        compile_kernel(wrong, options=("--no-such-option",))
    line = wrong._fn.__code__.co_firstlineno + 3
    text = wrong.ptx().split("\n")
    number = next(i for i, words in enumerate(text, 1) if "add.u32" in words)
    from pyptx.diagnostics import Diagnostic

    [mapped] = wrong._mapped([Diagnostic("error", "bad", None, number)], {})
    assert (Path(mapped.filename or "").name, mapped.line) == ("test_compile.py", line)
