"""`pyptx diff --run`: where two versions differ first. What must be found is known from PTX's definition of each change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx.diagnostics import PTXError
from pyptx.tools.cli import main
from pyptx.tools.compare import Settings, Version, compare
from pyptx.tools.hostile import cases

BODY = """.version 8.0
.target sm_80
.address_size 64
.global .u32 counter;
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)
{
	.reg .pred %p<3>;
	.reg .b32 %r<8>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<6>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.ge.s32 %p1, %r2, %r1;
	@%p1 bra END;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f1, [%rd5];
	max.f32 %f2, %f1, 0f00000000;
	st.global.f32 [%rd4], %f2;
END:
	ret;
}
"""
LINE = BODY.splitlines().index("\tst.global.f32 [%rd4], %f2;") + 1


def outcome(change: tuple[str, str], **settings: Any) -> dict[str, Any]:
    """Case -> what became of it, for the kernel and the kernel after a change."""
    assert change[0] in BODY
    [found] = compare(
        Version.of(BODY, "a.ptx"), Version.of(BODY.replace(*change), "b.ptx"), Settings(**{"inputs": 1, **settings})
    )
    return {o.case: o for o in found.outcomes}


def test_equal_kernels_are_the_same_on_every_input() -> None:
    assert {o.result for o in outcome(("max.f32", "max.f32")).values()} == {"same"}


@pytest.mark.parametrize(
    ("change", "case"),
    [
        # max gives the other operand for NaN, max.NaN a NaN (PTX ISA 9.7.3)
        (("max.f32", "max.NaN.f32"), "NaN, infinities, denormals and zeros"),
        # .ftz flushes denormals
        (("max.f32", "max.ftz.f32"), "NaN, infinities, denormals and zeros"),
        # -1 is the largest unsigned number
        (("setp.ge.s32", "setp.ge.u32"), "integers are -1"),
        (("setp.ge.s32", "setp.gt.s32"), "integers are 0"),
        (("setp.ge.s32", "setp.gt.s32"), "integers are 61, which no vector divides"),
        (("max.f32", "min.f32"), "random 0"),
        # PTX of sm_80 has no other rounding of a maximum: an infinity is only in one input
        (("st.global.f32 [%rd4], %f2;", "mul.f32 %f2, %f2, 0f3F800000;\\nadd.f32 %f2, %f2, 0f00000000;\\nst.global.f32 [%rd4], %f2;"), None),
    ],
)  # fmt: skip
def test_changes_are_found_on_the_inputs_that_show_them(change: tuple[str, str], case: str | None) -> None:
    found = outcome((change[0], change[1].replace("\\n", "\n")))
    assert [name for name, o in found.items() if o.result == "stops"] == []
    if case is None:
        assert {o.result for o in found.values()} == {"same"}, "x * 1 + 0 is x for what max(x, +0) gives"
    else:
        assert found[case].result == "differs"


def test_the_first_store_that_differs() -> None:
    """Only threads from 5 on differ; the store of thread 5 comes first, and its value is that of the input."""
    after = "max.f32 %f2, %f1, 0f00000000;\n\tsetp.lt.u32 %p2, %r2, 5;\n\t@!%p2 mov.f32 %f2, 0f40A00000;"
    found = outcome(
        ("max.f32 %f2, %f1, 0f00000000;", after),
        block=(32,),
        grid=(1,),
        arguments={"in": np.arange(64, dtype=np.float32) + 10},
    )
    difference = found["random 0"].difference
    assert difference is not None and difference.what.startswith("out[5] (.f32), one of 27 elements")
    a, b = difference.a, difference.b
    assert (a.file, a.line, a.thread, a.cta, a.text) == ("a.ptx", LINE, 5, (0, 0, 0), "st.global.f32 [%rd4], %f2;")
    assert (b.file, b.line, b.thread, b.cta) == ("b.ptx", LINE + 2, 5, (0, 0, 0))
    assert (a.value, b.value) == ("15 (0x41700000)", "5 (0x40a00000)")


def test_what_is_not_an_argument_is_compared_too() -> None:
    """Module variables, where a store is missing, and faults of one version."""
    store = "st.global.u32 [counter], 7;\nEND:"
    difference = outcome(("END:", store))["random 0"].difference
    assert difference is not None and difference.what.startswith("counter[0]")
    assert (difference.a.line, difference.b.value) == (None, "7 (0x00000007)")
    found = outcome(("setp.ge.s32 %p1", "trap;\n\tsetp.ge.s32 %p1"))
    assert all(o.result == "differs" and "b.ptx stops, and a.ptx does not" in o.difference.what for o in found.values())
    both = Version.of(BODY.replace("ret;", "trap;"), "a.ptx")
    assert {o.result for o in compare(both, both, Settings())[0].outcomes} == {"stops"}
    loop = Version.of(BODY.replace("END:", "END:\n\tbra END;"), "a.ptx")
    assert {o.result for o in compare(loop, loop, Settings(inputs=1, max_steps=200))[0].outcomes} == {"stops"}


def test_floats_may_be_close() -> None:
    change = "max.f32 %f2, %f1, 0f00000000;", "max.f32 %f2, %f1, 0f00000000;\n\tmul.f32 %f2, %f2, 0f3F800001;"
    assert outcome(change)["random 0"].result == "differs"
    assert outcome(change, relative=1e-6)["random 0"].result == "same"  # 1 + 2**-23


def test_hostile_inputs_have_what_their_names_say() -> None:
    by_name = {case.name: case for case in cases(1, 0)}
    floats = by_name["NaN, infinities, denormals and zeros"]
    for name, dtype in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
        values = floats.array(floats.generator(), name, 1000).view(dtype)
        info = np.finfo(dtype)
        assert np.isnan(values).any() and {
            np.inf,
            -np.inf,
            0.0,
            info.max,
            -info.max,
            info.tiny,
            info.smallest_subnormal,
        } <= {*values}
        assert np.signbit(values[values == 0]).any()
    integers = by_name["arrays of 0, -1, and the smallest and largest integer"]
    for bits in (8, 16, 32, 64):
        info = np.iinfo(f"i{bits // 8}")
        assert {0, -1, info.min, info.max} <= {*integers.array(integers.generator(), f"s{bits}", 200).view(info.dtype)}
        smallest = by_name["integers are the smallest"].scalar(integers.generator(), f"u{bits}")
        assert np.frombuffer(smallest, info.dtype)[0] == info.min


SHARED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n, .param .u32 step)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<9>;
	.shared .align 4 .b8 s[128];
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [step];
	mov.u32 %r3, %tid.x;
	mov.u32 %r4, %ctaid.x;
	mad.lo.u32 %r5, %r4, 128, %r3;
	setp.ge.s32 %p1, %r5, %r1;
	mov.f32 %f1, 0f00000000;
	@%p1 bra A;
	mul.lo.u32 %r6, %r5, %r2;
	mul.wide.u32 %rd3, %r6, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.f32 %f1, [%rd4];
A:
	and.b32 %r7, %r3, 31;
	shl.b32 %r7, %r7, 2;
	mov.u32 %r8, s;
	add.u32 %r8, %r8, %r7;
	st.shared.f32 [%r8], %f1;
	bar.sync 0;
	@%p1 bra B;
	ld.shared.f32 %f2, [%r8];
	add.f32 %f3, %f2, %f2;
	mul.wide.u32 %rd5, %r5, 4;
	add.s64 %rd6, %rd1, %rd5;
	st.global.f32 [%rd6], %f3;
B:
	ret;
}
"""
"""Four threads of a CTA store to each element of `s`, the last one of the CTA what is used."""


def test_every_thread_has_an_element_in_one_input() -> None:
    """Only with n of all 256 threads, or nearly, does the last thread that stores to `s` store an element of `in`; 256 * 300 is more
    than an array has, which leaves the input in which only n is 256.
    """
    line = SHARED.splitlines().index("\tst.shared.f32 [%r8], %f1;") + 1
    other = Version.of(SHARED.replace("add.f32", "sub.f32"), "b.ptx")
    for elements in (1 << 16, 1000):
        [found] = compare(
            Version.of(SHARED, "a.ptx"), other, Settings(block=(128,), grid=(2,), inputs=1, elements=elements)
        )
        results = {o.case: o.result for o in found.outcomes}
        assert results["n is 256, the threads, and other integers are 1"] == "differs"
        assert results["integers are 256, the threads"] == ("differs" if elements > 1000 else "stops")
        assert f"the result depends on the order of threads: race at line {line} of a.ptx" in found.notes


def test_sizes_next_to_the_threads() -> None:
    """An array that is given bounds them; n that is given is not drawn; n = 128 - 1 leaves the last thread of 128 out."""
    found = {*outcome(("max.f32", "max.f32"), block=(64,), inputs=1)}
    assert {
        f"integers are {n}, {words} the threads".replace("  ", " ")
        for n, words in ((127, "one less than"), (128, ""), (129, "one more than"))
    } <= found
    assert "integers are 100, the elements of an array" in outcome(
        ("max.f32", "max.f32"), inputs=1, arguments={"in": np.zeros(100, np.float32)}
    )
    assert not any("the threads" in case for case in outcome(("max.f32", "max.f32"), inputs=1, arguments={"n": 5}))


def test_few_threads_that_store_are_said() -> None:
    """Of 64 threads, those below n = 5."""
    kernel = Version.of(BODY, "a.ptx")
    [found] = compare(kernel, kernel, Settings(inputs=1, grid=(1,), block=(64,), arguments={"n": 5}))
    assert found.notes == ["few threads store to global memory: at most 5 of 64"]
    [found] = compare(kernel, kernel, Settings(inputs=1, grid=(1,), block=(64,)))
    assert found.notes == []


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.ptx", tmp_path / "b.ptx"
    a.write_text(BODY)
    b.write_text(BODY.replace("max.f32", "max.NaN.f32"))
    assert main(["diff", "--run", str(a), str(a), "--inputs", "1"]) == 0
    assert capsys.readouterr().out.startswith("k: grid 2, block 64: 12 inputs with the same results\n")
    assert main(["diff", "--run", str(a), str(b), "--inputs", "1", "--block", "32"]) == 1
    out = capsys.readouterr().out
    assert "NaN, infinities, denormals and zeros: out[" in out and f"{a}:{LINE}: " in out and f"{b}:{LINE}: nan" in out
    assert main(["diff", "--run", str(a), str(b), "--json", "--inputs", "1", "--arg", "n=u32:0", "--grid", "3,2"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["grid"] == [3, 2] and {o["result"] for o in found["outcomes"]} == {"same"}
    b.write_text(BODY.replace("ret;", "trap;"))
    assert main(["diff", "--run", str(b), str(b), "--inputs", "1"]) == 2, "nothing was compared"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--entry", "j"], "has no entry j"),
        (["--arg", "m=u32:1"], "k has no parameter m: it has out, in, n"),
        (["--arg", "u32:1"], "'u32:1' is not NAME=VALUE"),
        (["--arg", "n=x"], "write TYPE:VALUE"),
        (["--grid", "0"], "'0' is not one to three positive integers"),
        (["--rtol", "2"], "'2' is not a relative tolerance"),
        (["--inputs", "0"], "'0' is not a positive integer"),
    ],
)
def test_bad_options(options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = tmp_path / "a.ptx"
    a.write_text(BODY)
    try:
        status = main(["diff", "--run", str(a), str(a), *options])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    said = capsys.readouterr()
    assert words in said.out + said.err
    if "--entry" in options:
        assert main(["diff", str(a), str(a), *options]) == 2
        assert "--entry says how kernels are run: add --run" in capsys.readouterr().err


def test_kernels_that_cannot_be_compared() -> None:
    a = Version.of(BODY, "a.ptx")
    other = Version.of(
        BODY.replace(".param .u32 n", ".param .u64 n").replace("ld.param.u32 %r1", "ld.param.u64 %rd1"), "b.ptx"
    )
    with pytest.raises(PTXError, match="cannot get the same arguments"):
        compare(a, other, Settings())
    two = Version.of(BODY.replace("entry k", "entry j") + ".entry i() { ret; }\n", "b.ptx")
    with pytest.raises(PTXError, match=r"no entry of the same name: a\.ptx has k; b\.ptx has j, i"):
        compare(a, two, Settings())
    renamed = Version.of(BODY.replace("entry k", "entry j"), "b.ptx")
    assert [(c.a, c.b) for c in compare(a, renamed, Settings(inputs=1))] == [("k", "j")]


def test_more_elements_than_memory_may_hold() -> None:
    """Two arrays of 4 bytes: 2**27 elements are the most of a GiB."""
    with pytest.raises(PTXError, match=r"9000000000000 elements are too many: .* 134217728 elements fit"):
        outcome(("max.f32", "max.f32"), elements=9_000_000_000_000)


def test_a_reason_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.ptx"
    file.write_text(BODY)
    assert main(["diff", "--run", str(file), str(file), "--arg", "n=f32:3.5"]) == 2
    assert capsys.readouterr().out.count("is a .u32, not a float") == 1
