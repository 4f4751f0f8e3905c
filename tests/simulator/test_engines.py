"""Both engines give the same bits: every family that the compiler of runs takes, on fresh random inputs with the values
at the edges, in all lanes, in some, and under guards; and whole kernels.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.numerics import llvm as compiler
from pyptx.runtime.ptxas import assemble
from pyptx.simulator import load
from pyptx.simulator.jit import runs

needs_llvmlite = pytest.mark.skipif(not compiler.available(), reason="needs llvmlite (the extra jit)")

LANES = 768
EDGES_32 = [
    0, 0x80000000, 1, 0x80000001, 0x7FFFFFFF, 0xFFFFFFFF, 31, 32, 33, 255,  # integers, subnormals, NaNs
    0x007FFFFF, 0x00800000, 0x807FFFFF, 0x80800000, 0x3F800000, 0xBF800000,  # about the least normal number, 1
    0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC01234, 0x7FC00000, 0x4F000000, 0x5F000000,
]  # fmt: skip
EDGES_64 = [
    0, 1 << 63, 1, (1 << 63) - 1, (1 << 64) - 1, 63, 64, 65, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF0000000000001,
    0xFFF8000000001234, 0x7FF8000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x000FFFFFFFFFFFFF,
    0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x80000000, 0xFFFFFFFF,
]  # fmt: skip

INTEGERS = ("s16", "u16", "s32", "u32", "s64", "u64")
BITS = ("b16", "b32", "b64")
ALL = (*INTEGERS, "f32", "f64")
ORDERED = "eq ne lt le gt ge"


def _cases() -> list[str]:
    """Instructions: `{d}` is written, `{a}`, `{b}` and `{c}` are read, all of the type of the name that follows in [ ].

    `{n}` is a .b32 register, `%p` and `%q` are predicates; `|` separates the result's type, where it differs.
    """
    found: list[str] = []

    def add(text: str, kind: str, result: str = "") -> None:
        found.append(f"{text}|{kind}|{result or kind}")

    for kind in INTEGERS:
        for name in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            add(f"{name}.{kind} {{d}}, {{a}}, {{b}}", kind)
        add(f"mad.lo.{kind} {{d}}, {{a}}, {{b}}, {{c}}", kind)
        add(f"mad.hi.{kind} {{d}}, {{a}}, {{b}}, {{c}}", kind)
        add(f"shr.{kind} {{d}}, {{a}}, {{n}}", kind)
        add(f"shr.{kind} {{d}}, {{a}}, 7", kind)
        add(f"shr.{kind} {{d}}, {{a}}, 77", kind)
        if kind[0] == "s":
            add(f"abs.{kind} {{d}}, {{a}}", kind)
            add(f"neg.{kind} {{d}}, {{a}}", kind)
        if not kind.endswith("64"):
            wide = f"{kind[0]}{2 * int(kind[1:])}"
            add(f"mul.wide.{kind} {{d}}, {{a}}, {{b}}", kind, wide)
            add(f"mad.wide.{kind} {{d}}, {{a}}, {{b}}, {{d}}", kind, wide)
        for other in INTEGERS:
            if other != kind:
                add(f"cvt.{other}.{kind} {{d}}, {{a}}", kind, other)
        for other in ("f32", "f64"):
            add(f"cvt.rn.{other}.{kind} {{d}}, {{a}}", kind, other)
        add(f"cvt.{kind[0]}8.{kind} {{d}}, {{a}}", kind)
    for kind in BITS:
        for name in ("and", "or", "xor"):
            add(f"{name}.{kind} {{d}}, {{a}}, {{b}}", kind)
        add(f"not.{kind} {{d}}, {{a}}", kind)
        add(f"cnot.{kind} {{d}}, {{a}}", kind)
        add(f"shl.{kind} {{d}}, {{a}}, {{n}}", kind)
        add(f"shl.{kind} {{d}}, {{a}}, 3", kind)
        add(f"shl.{kind} {{d}}, {{a}}, 64", kind)
    for kind in (*ALL, *BITS):
        add(f"selp.{kind} {{d}}, {{a}}, {{b}}, %p", kind)
        add(f"mov.{kind} {{d}}, {{b}}", kind)
    for kind in ("f32", "f64"):
        flags = ("", ".ftz") if kind == "f32" else ("",)
        for ftz in flags:
            for sat in ("", ".sat") if kind == "f32" else ("",):
                for name in ("add", "sub", "mul", "fma.rn"):
                    add(f"{name}{ftz}{sat}.{kind} {{d}}, {{a}}, {{b}}" + ", {c}" * (name == "fma.rn"), kind)
            add(f"div.rn{ftz}.{kind} {{d}}, {{a}}, {{b}}", kind)
            for rounding in ("rn", "rz", "rm", "rp"):
                add(f"sqrt.{rounding}{ftz}.{kind} {{d}}, {{a}}", kind)
            if kind == "f32":
                add(f"sqrt.approx{ftz}.f32 {{d}}, {{a}}", kind)
            add(f"neg{ftz}.{kind} {{d}}, {{a}}", kind)
            add(f"abs{ftz}.{kind} {{d}}, {{a}}", kind)
            for name in ("min", "max"):
                add(f"{name}{ftz}.{kind} {{d}}, {{a}}, {{b}}", kind)
                if kind == "f32":
                    add(f"{name}{ftz}.NaN.{kind} {{d}}, {{a}}, {{b}}", kind)
            for name in (ORDERED + " equ neu ltu leu gtu geu num nan").split():
                add(f"setp.{name}{ftz}.{kind} %q, {{a}}, {{b}}", kind, "pred")
        # what must not become one rounding
        add(f"mul.rn.{kind} {{d}}, {{a}}, {{b}}; add.rn.{kind} {{d}}, {{d}}, {{c}}", kind)
    for kind in INTEGERS:
        extra = " lo ls hi hs" if kind[0] == "u" else ""
        for name in (ORDERED + extra).split():
            add(f"setp.{name}.{kind} %q, {{a}}, {{b}}", kind, "pred")
    for name in ("and", "or", "xor"):
        add(f"setp.lt.{name}.s32 %q|%p, {{a}}, {{b}}, !%p", "s32", "pred")
        add(f"setp.lt.{name}.f32 %q, {{a}}, {{b}}, %p", "f32", "pred")
        add(f"{name}.pred %q, %p, %q", "b32", "pred")
    add("not.pred %q, %p", "b32", "pred")
    for table in (0x00, 0x80, 0xE8, 0x96, 0x2D, 0xFF):
        add(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table}", "b32")
    for way, mode in itertools.product("lr", ("wrap", "clamp")):
        add(f"shf.{way}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{n}}", "b32")
    add("mov.b32 {d}, %laneid", "b32")
    add("mov.b64 {d}, {{{n}, %t}}", "b64")
    add("mov.b64 {{{n}, %t}}, {a}; xor.b32 {d}, {n}, %t", "b64", "b32")
    add("add.f32 {d}, {a}, 0fFFC00001", "f32")
    add("mul.f32 {d}, {a}, 0f3FC00000", "f32")
    add("add.s64 {d}, {a}, -9223372036854775808", "s64")
    add("min.s16 {d}, {a}, -3", "s16")
    return found


CASES = _cases()
_REGISTERS = {"16": "%h", "32": "%w", "64": "%l"}
_HEAD = """.version 8.7
.target sm_90a
.address_size 64
"""


def _kernel(cases: list[tuple[str, str]], bits: int, how: str) -> str:
    """Loads a, b and c of so many bits, executes each of (instruction, type of its result) the way `how` says, and stores
    what it wrote, two results of 8 bytes a lane at a time; at last the exclusive-or of all results, twice.
    """
    family = _REGISTERS[str(bits)]
    body: list[str] = []
    for number, (text, result) in enumerate(cases):
        predicate = result == "pred"
        guard = ("@%odd ", "@!%odd ")[number % 2] if how == "guard" else ""
        out = 32 if predicate else int(result[1:])
        d = f"{_REGISTERS[str(out)]}4"
        line = text.format(a=f"{family}1", b=f"{family}2", c=f"{family}3", n="%m", d=d)
        body.append("mov.b16 %h4, 7; mov.b32 %w4, 7; mov.b64 %l4, 7; mov.b32 %m, %n;")
        body.append("setp.gt.s32 %p, %n, 20; setp.lt.u32 %q, %n, 40;")
        body += [f"{guard}{part.strip()};" for part in line.split(";")]
        if predicate:
            body.append("selp.b32 %w4, 2, 0, %q; @%p add.u32 %w4, %w4, 1;")
        body.append(f"cvt.u64.u{out} %all{number % 2}, {d}; xor.b64 %acc, %acc, %all{number % 2};")
        if number % 2 or number == len(cases) - 1:
            body.append(f"st.global.v2.b64 [%rd5+{number // 2 * LANES * 16}], {{%all0, %all1}};")
    lines = "\n    ".join(body)
    return f"""{_HEAD}
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n, .param .u64 d)
{{
    .reg .pred %p, %q, %odd, %more;
    .reg .b32 %round;
    .reg .b16 %h<5>;
    .reg .b32 %w<5>, %n, %m, %t;
    .reg .b64 %l<5>, %rd<9>, %all<2>, %acc;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u64 %rd4, [n]; ld.param.u64 %rd5, [d];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %rd6, %t, {bits // 8};
    add.s64 %rd1, %rd1, %rd6; add.s64 %rd2, %rd2, %rd6; add.s64 %rd3, %rd3, %rd6;
    mul.wide.u32 %rd6, %t, 4; add.s64 %rd4, %rd4, %rd6;
    mul.wide.u32 %rd6, %t, 16; add.s64 %rd5, %rd5, %rd6;
    mov.b32 %round, 0;
$again:  // at first NumPy finds out where the accesses go
    ld.global.b{bits} {family}1, [%rd1]; ld.global.b{bits} {family}2, [%rd2]; ld.global.b{bits} {family}3, [%rd3];
    ld.global.u32 %n, [%rd4];
    mov.b64 %acc, 99; mov.b64 %all1, 0;
    and.b32 %w0, %t, 5; setp.ne.u32 %odd, %w0, 0;
    {"@%odd bra $skip;" if how == "some" else ""}
    {lines}
$skip:
    st.global.v2.b64 [%rd5+{(len(cases) + 1) // 2 * LANES * 16}], {{%acc, %acc}};
    add.u32 %round, %round, 1; setp.lt.u32 %more, %round, 2; @%more bra $again;
    ret;
}}
"""


def _edges(bits: int) -> list[int]:
    return [e & (1 << bits) - 1 for e in (EDGES_64 if bits == 64 else EDGES_32)]


def _values(bits: int, rng: np.random.Generator) -> np.ndarray:
    """Random words: a third at the edges, a third floats close to 1, a third anything."""
    word = np.dtype(f"u{bits // 8}")
    edges = np.array(_edges(bits), word)
    anything = rng.integers(0, 256, LANES * word.itemsize, np.uint8).view(word)
    near = rng.standard_normal(LANES).astype(f"f{word.itemsize}").view(word)
    choice = rng.integers(0, 3, LANES)
    return np.where(choice == 0, rng.choice(edges, LANES), np.where(choice == 1, near, anything)).astype(word)


def _compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of instructions that become part of runs are added to this list."""
    taken: list[str] = []
    original = runs.Run.__init__

    def init(self: runs.Run, machine: object, run: list) -> None:
        taken.extend(inst.text for inst, _, _ in run)
        original(self, machine, run)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(runs.Run, "__init__", init)
    return taken


@needs_llvmlite
@pytest.mark.parametrize("how", ["all", "some", "guard"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_instructions_give_the_same_bits(bits: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `some`, lanes that do not take part keep what they have; under a guard, those in which it does not hold."""
    split = [case.rsplit("|", 2) for case in CASES]
    cases = [(text, result) for text, kind, result in split if int(kind[1:]) == bits]
    rng = np.random.default_rng()
    a, b, c = (_values(bits, rng) for _ in range(3))
    pairs = np.array(list(itertools.product(_edges(bits), repeat=2)), a.dtype).T  # every edge meets every other
    a[: pairs.shape[1]], b[: pairs.shape[1]] = pairs
    n = rng.choice(np.array([0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 2**31, 2**32 - 1], np.uint32), LANES)
    source = _kernel(cases, bits, how)
    assemble(source, "sm_90a").raise_on_error()
    kernel = load(source)["k"]
    taken = _compiled(monkeypatch)
    found: list[np.ndarray] = []
    for engine in ("numpy", "jit"):
        d = np.full(((len(cases) + 3) // 2, LANES, 2), 0xCDCD, np.uint64)
        kernel.simulate(a, b, c, n, d, grid=1, block=LANES, check=False, engine=engine)
        found.append(d)
    wrong = [cases[i] for i in np.flatnonzero((found[0] != found[1]).any(axis=1)[:-1].ravel()[: len(cases)])]
    assert not wrong
    assert np.array_equal(*found)
    assert all(any(text.split()[0] in t for t in taken) for text, _ in cases)


MEMORY = """
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 offset)
{
    .reg .pred %p, %q;
    .reg .b32 %r<20>;
    .reg .b64 %rd<12>;
    .shared .align 16 .b8 words[4096];
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [out]; ld.param.u32 %r19, [offset];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd4, %r4, 16;
    and.b32 %r5, %r1, 3; setp.eq.u32 %p, %r5, 1;
    selp.b64 %rd5, %rd1, %rd2, %p;              // lanes go to two arrays
    add.s64 %rd5, %rd5, %rd4; add.s64 %rd3, %rd3, %rd4;
    mov.u32 %r18, 0;
$again:                                         // what was resolved in the first round is native in the others
    ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd5];
    xor.b32 %r6, %r6, %r18; add.u32 %r7, %r7, %r18;
    ld.global.s8 %r10, [%rd5+3];
    ld.global.u16 %r11, [%rd5+6];
    @%p ld.global.u32 %r10, [%rd5+4];
    and.b32 %r12, %r1, 31; shl.b32 %r13, %r12, 2;
    mov.u32 %r14, words; add.u32 %r14, %r14, %r13; add.u32 %r14, %r14, %r19;
    st.shared.u32 [%r14], %r6;                  // warps write to the same places: the last lane wins
    st.shared.u8 [%r14+129], %r7;
    ld.shared.u32 %r15, [%r14];
    @!%p st.shared.v2.u32 [words+256], {%r8, %r9};
    ld.shared.v2.u32 {%r16, %r17}, [words+256];
    xor.b32 %r15, %r15, %r16; xor.b32 %r10, %r10, %r17; add.u32 %r11, %r11, 1;
    ld.shared.u8 %r16, [%r14+129];
    @%p bra $done;
    st.global.v4.u32 [%rd3], {%r15, %r10, %r11, %r16};
$done:
    add.u32 %r18, %r18, 1; setp.lt.u32 %q, %r18, 5;
    @%q bra $again;
    ret;
}
"""


@needs_llvmlite
@pytest.mark.parametrize(
    ("grid", "block", "cluster"), [(1, 64, None), (3, 100, None), (5, 128, None), (4, 100, 2), (6, 64, 3)]
)
def test_memory_gives_the_same_bits(grid: int, block: int, cluster: int | None) -> None:
    assemble(_HEAD + MEMORY, "sm_90a").raise_on_error()
    kernel = load(_HEAD + MEMORY)["k"]
    rng = np.random.default_rng()
    x, y = (rng.integers(0, 256, (grid * block, 16), np.uint8) for _ in range(2))
    found: list[np.ndarray] = []
    for engine in ("numpy", "jit", "jit"):
        out = np.full((grid * block, 4), 0xCDCDCDCD, np.uint32)
        kernel.simulate(x, y, out, 0, grid=grid, block=block, cluster=cluster, check=False, engine=engine)
        found.append(out)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


PEERS = """
.visible .entry k(.param .u64 out)
{
    .reg .pred %q;
    .reg .b32 %r<20>;
    .reg .b64 %rd<12>;
    .shared .align 16 .b8 words[1024];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; mov.u32 %r17, %ctaid.x;
    mov.u32 %r4, words; mad.lo.u32 %r4, %r1, 4, %r4; mov.u32 %r18, 0;
    mad.lo.u32 %r16, %r17, 128, %r1; mul.wide.u32 %rd2, %r16, 4; add.s64 %rd2, %rd1, %rd2;
    st.global.u32 [%rd2], 0;
$again:
    mad.lo.u32 %r5, %r2, 1000, %r1; add.u32 %r5, %r5, %r18;
    st.shared.u32 [%r4], %r5; ld.shared.u32 %r6, [%r4]; st.shared.u32 [words+512], %r18;
    barrier.cluster.arrive; barrier.cluster.wait;
    add.u32 %r7, %r2, 1; rem.u32 %r7, %r7, %r3;
    mapa.shared::cluster.u32 %r8, %r4, %r7;
    ld.shared::cluster.u32 %r9, [%r8]; ld.shared.u32 %r10, [words+512]; xor.b32 %r11, %r9, %r6; add.u32 %r11, %r11, %r10;
    ld.global.u32 %r12, [%rd2]; mad.lo.u32 %r12, %r12, 7, %r11; st.global.u32 [%rd2], %r12;
    barrier.cluster.arrive; barrier.cluster.wait;
    add.u32 %r18, %r18, 1; setp.lt.u32 %q, %r18, 5;
    @%q bra $again;
    ret;
}
"""


@needs_llvmlite
@pytest.mark.parametrize("cluster", [2, 4])
def test_clusters_give_the_same_bits(cluster: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own shared memory is native code's, that of peers NumPy's."""
    assemble(_HEAD + PEERS, "sm_90a").raise_on_error()
    kernel = load(_HEAD + PEERS)["k"]
    stopped: list[int | None] = []
    original = runs.Run._call
    monkeypatch.setattr(runs.Run, "_call", lambda self, mask: stopped.append(original(self, mask)) or stopped[-1])
    found: list[np.ndarray] = []
    for engine in ("numpy", "jit"):
        out = np.full((8, 128), 0xCDCDCDCD, np.uint32)
        kernel.simulate(out, grid=8, block=128, cluster=cluster, check=False, engine=engine)
        found.append(out)
    assert np.array_equal(*found)
    assert stopped.count(None) > len(stopped) // 2, "the runs go on in NumPy"


@needs_llvmlite
@pytest.mark.parametrize("offset", [2, 4096, 0xFFFF0000])
def test_a_fault_is_the_same(offset: int) -> None:
    """Misaligned, past the end, before the beginning."""
    kernel = load(_HEAD + MEMORY)["k"]
    messages: list[str] = []
    for engine in ("numpy", "jit"):
        x = np.zeros((128, 16), np.uint8)
        with pytest.raises(SimulationError) as caught:
            kernel.simulate(x, x.copy(), x.copy(), offset, grid=1, block=128, check=False, engine=engine)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "st.shared.u32 [%r14], %r6" in messages[1]


@needs_llvmlite
def test_an_evicted_run_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ir = functools.lru_cache(maxsize=2)(compiler.compile_ir.__wrapped__)
    monkeypatch.setattr(runs, "compile_ir", compile_ir)
    for addend in range(5):
        text = f"""{_HEAD}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; add.u32 %r2, %r1, {addend};
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}}
"""
        out = np.zeros(64, np.uint32)
        load(text)["k"].simulate(out, grid=1, block=64, check=False, engine="jit")
        assert np.array_equal(out, np.arange(64) + addend)
    assert compile_ir.cache_info().currsize == 2


def test_an_unknown_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load(_HEAD + ".visible .entry k() { ret; }")["k"]
    with pytest.raises(SimulationError, match=r"engine must be 'auto', 'jit' or 'numpy', not 'jitt'"):
        kernel.simulate(grid=1, block=32, engine="jitt")
    monkeypatch.setenv("PYPTX_ENGINE", "fast")
    with pytest.raises(SimulationError, match="PYPTX_ENGINE cannot be 'fast'"):
        kernel.simulate(grid=1, block=32)


def test_without_llvmlite_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load(_HEAD + ".visible .entry k() { ret; }")["k"]
    monkeypatch.setattr(compiler, "available", lambda: False)
    compiler._target.cache_clear()
    with pytest.raises(SimulationError, match=r"pip install '\.\[jit\]'"):
        kernel.simulate(grid=1, block=32, check=False, engine="jit")


@needs_llvmlite
def test_what_is_watched_runs_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = _compiled(monkeypatch)
    kernel = load(_HEAD + MEMORY)["k"]
    x = np.zeros((64, 16), np.uint8)
    for options in ({"check": True}, {"check": False, "trace": lambda line: None}, {"check": False, "profile": True}):
        kernel.simulate(x, x.copy(), x.copy(), 0, grid=1, block=64, engine="jit", **options)
    assert not taken


@needs_llvmlite
def test_code_that_the_disk_has_is_taken_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that is executed 600 times, by "auto", which is the default: in NumPy, but as compiled code after a process has
    compiled it. It has a load, for which all threads are alive.
    """
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYPTX_CACHE_SIZE", raising=False)
    monkeypatch.delenv("PYPTX_ENGINE", raising=False)
    monkeypatch.setattr(runs, "compile_ir", compiler.compile_ir.__wrapped__)
    text = f"""{_HEAD}
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p1;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .shared .b32 table[64];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
    mov.u32 %r4, table; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5;
    st.shared.u32 [%r4], %r1;
$loop:
    ld.shared.u32 %r1, [%r4];
    mad.lo.u32 %r2, %r2, 3, %r1; xor.b32 %r2, %r2, 5; add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, 600;
    @%p1 bra $loop;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}}
"""
    want = np.zeros(64, np.uint64)
    for _ in range(600):
        want = ((want * 3 + np.arange(64, dtype=np.uint64)) ^ 5) & 0xFFFFFFFF
    made: list[int] = []
    for engine in (None, "jit", None):
        taken = _compiled(monkeypatch)
        out = np.zeros(64, np.uint32)
        load(text)["k"].simulate(out, grid=1, block=64, check=False, engine=engine)
        assert np.array_equal(out, want)
        made.append(len(taken))
    assert made[0] == 0
    assert made[1] > made[2] > 0
