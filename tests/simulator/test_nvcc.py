"""Output of nvcc runs, compared with NumPy versions of the CUDA sources next to it (corpus/hard/cu)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyptx.simulator import LoadedKernel, load

ENGINES = (None, "jit")

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def hard(corpus_dir: Path) -> Path:
    return corpus_dir / "hard" / "ptx"


def kernel(hard: Path, name: str, entry: str) -> LoadedKernel:
    return load(hard / f"{name}.ptx")[entry]


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_recursion(hard: Path) -> None:
    n = rng(1).integers(-3, 13, 48).astype(np.int32)
    given = n.copy()

    def fib(k: int) -> int:
        return k if k < 2 else fib(k - 1) + fib(k - 2)

    report = kernel(hard, "recurse", "k_rec").simulate(n, grid=1, block=48)
    assert n.tolist() == [fib(int(k)) for k in given]
    assert report.opcodes["call"] > 48


def test_device_functions(hard: Path) -> None:
    r = rng(2)
    kind = np.dtype(
        {"names": ["a", "b", "c"], "formats": ["i4", "f4", ("f8", 3)], "offsets": [0, 4, 8], "itemsize": 32}
    )
    o = r.normal(size=64).astype(np.float32)
    p = np.zeros(64, kind)
    p["a"], p["b"], p["c"] = r.integers(-99, 99, 64), r.normal(size=64), r.normal(size=(64, 3))
    want_o = (o.astype(np.float64) * np.arange(64) + 1).astype(np.float32)
    before = p.copy()
    raw = p.view(np.uint8)
    kernel(hard, "devfunc", "k_call").simulate(o, raw, grid=1, block=64)
    assert np.array_equal(o, want_o)
    assert np.array_equal(p["a"], before["a"] + np.arange(64) + 1)
    assert np.array_equal(p["b"], before["b"])
    assert np.array_equal(p["c"][:, 1], before["c"][:, 1] * 2)
    assert np.array_equal(p["c"][:, [0, 2]], before["c"][:, [0, 2]])


def test_shared_memory(hard: Path) -> None:
    n = 31
    o = rng(3).normal(size=n + 2).astype(np.float32)
    i = np.arange(n + 1)
    given = o.copy()
    # s[i][i & 7] = o[i]; s[i ^ 1][3] is read where it was written: (i ^ 1) & 7 == 3. All else there is
    # undefined,
    # so the kernel runs with a table that is poisoned, and only the defined threads are compared.
    dynamic = given[1 : n + 2]
    report = kernel(hard, "shmem", "k_sh").simulate(o, n, grid=1, block=n + 1, smem=4 * (n + 1))
    d3 = given[27] * 2.0
    for t in i[((i ^ 1) & 7) == 3]:
        want = np.float64(np.float32(given[t ^ 1] + dynamic[n - t])) + d3 + np.int8(n)
        assert abs(o[t] - want) < 1e-5
    assert report.opcodes["bar"] == n + 1


def test_vectors(hard: Path) -> None:
    r = rng(4)
    a = r.normal(size=(48, 4)).astype(np.float32)
    b = r.integers(-(2**15), 2**15, (48, 4)).astype(np.int16)
    c = r.normal(size=(48, 4)).astype(np.float32)
    d = r.integers(0, 256, (48, 4)).astype(np.uint8)
    e = r.normal(size=(48, 2))
    value = r.normal(size=4).astype(np.float32)
    A, B, D, E = a.copy(), b.copy(), d.copy(), e.copy()
    kernel(hard, "vec", "k_vec").simulate(a, b, c, d, e, value, grid=1, block=1)
    A[1] = A[0]
    A[1, 0] = A[0, 0] + (c[0, 1] + value[2])
    B[2] = B[0]
    B[2, 1] += 1
    D[1] = D[0]
    D[1, 0] = D[0, 1]
    E[0, 0] = E[1, 1]
    A[7, 3] = c[5, 2] + c[3, 0]
    assert np.allclose(a, A, atol=0, rtol=1e-6)
    assert np.array_equal(b, B)
    assert np.array_equal(d, D)
    assert np.array_equal(e, E)


def test_atomics(hard: Path) -> None:
    ctas, threads = 5, 96
    total = ctas * threads
    p = np.array([10, 0, 0, 0b1111, 0, 3, -1], np.int32)
    f, u, d = np.array([0.5, 9], np.float32), np.array([3], np.uint64), np.array([0.25])
    kernel(hard, "atomics", "k_atomics").simulate(p, f, u, d, grid=ctas, block=threads)
    assert p[0] == 10 + total
    assert p[1] == 5
    assert p[2] == 3 * total
    assert p[3] == 1
    assert p[5] == (3 + total) % 10
    assert 0 <= p[4] <= 9
    assert p[6] == threads * (threads - 1) // 2
    assert f.tolist() == [0.5 + total, 2.0]
    assert u[0] == 7
    assert d[0] == 0.25 + total


def test_votes(hard: Path) -> None:
    x = rng(5).integers(0, 9, 32).astype(np.uint32)
    x[0] = 5
    o = x.copy()
    kernel(hard, "vote", "k_vote").simulate(o, grid=1, block=32)
    v = int(x[31])  # the last thread's stores win
    ballot = sum(1 << i for i in range(32) if x[i] > 3)
    same = sum(1 << i for i in range(32) if x[i] == v)
    assert int(o[0]) == (ballot + int(x.any()) + int(x.all()) + same) % 2**32
    everyone = (x == x[0]).all()
    assert int(o[1]) == ((2**32 - 1 + 1) % 2**32 if everyone else 0)
    assert int(o[2]) == (int(x[3]) + int(x[30]) + int(x[29])) % 2**32
    counts = int((x != 0).sum()) + int(x.any())
    assert int(o[4]) == ((v * v) >> 32) + (v * v) % 2**32 + counts


def test_int128(hard: Path) -> None:
    r = rng(6)
    a = r.integers(0, 2**64, (6, 2), dtype=np.uint64)
    wide = [int(lo) | int(hi) << 64 for lo, hi in a]
    kernel(hard, "i128", "k_128").simulate(a, grid=1, block=1)
    got = [int(lo) | int(hi) << 64 for lo, hi in a]
    m = 2**128
    signed = wide[5] - m if wide[5] >> 127 else wide[5]
    assert got[0] == (wide[1] * wide[2] + wide[3]) % m
    assert got[4] == (signed >> 3) % m


@pytest.mark.parametrize("k", range(11))
def test_switch(hard: Path, k: int) -> None:
    v = rng(k).integers(-(2**31), 2**31, 32).astype(np.int32)
    if k == 9:
        v = rng(k).integers(0, 32, 32).astype(np.int32)
    given = [int(x) for x in v]
    kernel(hard, "switch", "k_switch").simulate(v, k, grid=1, block=32)

    def wrap(x: int) -> int:
        return (x + 2**31) % 2**32 - 2**31

    def c_div(x: int, y: int) -> int:
        return abs(x) // y * (1 if x >= 0 else -1)

    functions = {
        0: lambda x: x + 7, 1: lambda x: x * 3, 2: lambda x: x ^ given[9], 3: lambda x: x - 11, 4: lambda x: x << 3,
        5: lambda x: c_div(x, 7), 6: lambda x: x - 13 * c_div(x, 13), 7: lambda x: (x % 2**32).bit_count(),
        8: lambda x: 32 - (x % 2**32).bit_length(), 9: lambda x: given[x], 10: lambda x: -1,
    }  # fmt: skip
    assert v.tolist() == [wrap(functions[k](x)) for x in given]


def test_doubles(hard: Path) -> None:
    x = rng(7).normal(size=32) * 3
    f = np.abs(rng(8).normal(size=32)).astype(np.float32) + np.float32(0.5)
    of = f.copy()
    kernel(hard, "doubles", "k_dbl").simulate(x, f, grid=1, block=32)
    assert np.isnan(x).all()  # the source adds a NaN unless x > infinity
    want32 = 1 / np.sqrt(of) + np.exp(of) + np.float32(1e-40) + np.fmod(of, np.float32(3.3))
    assert np.allclose(f, want32, rtol=3e-6)


def test_halves(hard: Path) -> None:
    import ml_dtypes

    r = rng(9)
    a = r.normal(size=(16, 2)).astype(np.float16)
    b = r.normal(size=(16, 2)).astype(ml_dtypes.bfloat16)
    c = r.integers(0, 120, 16).astype(np.uint8)
    f = (r.normal(size=16) * 3).astype(np.float32)
    A, B, C, F = a.copy(), b.copy(), c.copy(), f.copy()
    kernel(hard, "half2", "k_h2").simulate(a, b.view(np.uint16), c, f, grid=1, block=1)
    A[0] = (A[0].astype(np.float64) * A[1].astype(np.float64) + A[2].astype(np.float64)).astype(np.float16)
    exact = np.exp(A[0].astype(np.float64))
    assert np.allclose(a[0].astype(np.float64), exact, rtol=2e-3)
    product = (B[0].astype(np.float64) * B[1].astype(np.float64)).astype(np.float32).astype(ml_dtypes.bfloat16)
    assert np.array_equal(b[0], np.maximum(product, B[3]))
    C[0] = np.clip(F[:1], -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)[0]
    assert c[0] == C[0]
    got = np.float32(a[0, 0]) + C[1:2].view(ml_dtypes.float8_e4m3fn).astype(np.float32)[0]
    assert f[0] == got
    assert a[9, 0] == np.float16(got)
    assert a[9, 1] == 2


def test_function_pointers(hard: Path) -> None:
    for k, function in enumerate((lambda x: x + 1, lambda x: x * 2)):
        o = rng(k).normal(size=40).astype(np.float32)
        want = function(o)
        kernel(hard, "fptr", "k_fptr").simulate(o, k, grid=1, block=40)
        assert np.array_equal(o, want)


def test_module_variables(hard: Path) -> None:
    o = np.zeros(3, np.float32)
    kernel(hard, "globals", "k_glob").simulate(o, 0, grid=1, block=1)
    # tab + ftab + dt + msg + st.a + *st.p + ps->c + *pm + cf + ci + mg + u8t + ll + m2
    assert o[0] == 1 + 1.5 + 1 + ord("h") + 7 + 1.5 + ord("x") + ord("l") + 1 + 0 + 5 + 255 - 1 + 2


def test_parameters_by_value(hard: Path) -> None:
    """A struct with a pointer in it cannot be given as an array; its address must be known: here the pointer
    is to the output.
    """
    big = np.arange(42, dtype=np.int32) * 3
    o = np.full(32, 7, np.int32)
    raw = np.zeros(168, np.uint8)
    raw[:160] = big[:40].view(np.uint8)
    raw[160:168] = np.frombuffer(np.uint64(0x0000_7400_0000_0000).tobytes(), np.uint8)
    kernel(hard, "gridconst", "k_gc").simulate(raw, o, grid=1, block=32)
    # b.p[0] is read after o[0] may have been written by the same instruction only: all threads read 7
    assert np.array_equal(o, big[:32] + 7)


def test_printf(hard: Path) -> None:
    p = np.array([4, -5, 6], np.int32)
    report = kernel(hard, "printf", "k_printf").simulate(p, grid=1, block=3)
    assert report.output == "t=0 v=4 f=0.000000\nt=1 v=-5 f=1.500000\nt=2 v=6 f=3.000000\n"


def test_loops(hard: Path) -> None:
    o = rng(11).integers(-99, 99, 13).astype(np.int32)
    want = sum(2 * int(v) + 1 for v in o)
    kernel(hard, "lineinfo", "k_li").simulate(o, 13, grid=1, block=1)
    assert o[0] == want


@pytest.mark.parametrize("n", [1, 13, 40])
def test_local_memory_and_alloca(hard: Path, n: int) -> None:
    o = rng(n).integers(-99, 99, 64).astype(np.int32)
    buffer = {(7 * i) & 63: int(o[i]) for i in range(n)}
    buffer[n & 63] = 3
    kernel(hard, "local", "k_local").simulate(o, n, grid=1, block=1)
    if n & 31 in buffer:
        assert o[0] == buffer[n & 31]
    # o[1] is the first of n fresh words, of which only the last was written
    assert o[1] == (2 if n == 1 else np.int32(-842150451))


def test_inline_assembly(hard: Path) -> None:
    o, c = np.full(32, -1, np.int32), np.zeros(32, np.uint64)
    kernel(hard, "inlineasm", "k_asm").simulate(o, c, grid=1, block=32)
    assert o.tolist() == [(1 if x < 16 else 2) - 1 for x in range(32)]
    assert (c > 0).all()


def test_debug_build(hard: Path) -> None:
    """-G keeps everything in local memory and calls."""
    o = rng(12).integers(-50, 50, 64).astype(np.int32)
    want = sum(2 * int(v) + 1 for v in o[:5])
    kernel(hard, "debug", "k_dbg").simulate(o, 5, grid=1, block=1)
    assert o[0] == want
