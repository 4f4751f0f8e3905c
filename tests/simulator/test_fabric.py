"""fabric.*: memory reached through endpoints, looped back to arrays; and what mbarriers report."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import Endpoint, LoadedKernel, tensor_map
from tests.simulator.assembling import assembled

RNG = np.random.default_rng()
REPORT = "mbarrier::report::fabric"
TX16, BYTES = f"mbarrier::complete_tx::16B.{REPORT}", f"mbarrier::complete_tx::bytes.{REPORT}"


def kernel(body: str, expected: int, target: str = "sm_100a", wait: str = "") -> LoadedKernel:
    """`k(far, data, out, map)`: thread 0 copies 512 bytes of data to `box`, runs the body, waits for `expected`
    transactions, and then all 128 threads write `box` to out; out[128] is what the wait reports.
    """
    return assembled(f""".version 9.5
.target {target}
.address_size 64
.visible .entry k(.param .u32 far, .param .u64 data, .param .u64 out, .param .align 128 .b8 map[128])
{{
    .reg .pred %p<10>; .reg .b8 %b<4>; .reg .b16 %h<10>; .reg .b32 %r<30>; .reg .b64 %rd<30>;
    .shared .align 1024 .b8 box[1024]; .shared .align 8 .b64 bar;
    ld.param.u32 %r20, [far]; ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out]; mov.b64 %rd10, map;
    cvta.param.u64 %rd10, %rd10;
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, box; mad.lo.u32 %r4, %r1, 4, %r3;
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.u32 %r5, [%rd4]; st.shared.u32 [%r4], %r5; st.shared.u32 [%r4+512], %r5;
    @%p1 mbarrier.init.layout::v1.shared::cta.b64 [bar], 1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra.uni $wait;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {expected};
{body}
$wait:
    mbarrier.try_wait.parity.phase_type::primary.acquire.cta.shared::cta.b64 %p2|%p3, %b1, [bar], 0;
    @!%p2 bra $wait;
    mbarrier.test_wait.parity.phase_type::conditional.acquire.cta.shared::cta.b64 %p4, [bar], 0;
{wait}
    ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd5], %r5;
    selp.u32 %r6, 1, 0, %p3; @%p4 add.u32 %r6, %r6, 2; cvt.u32.u8 %r7, %b1; mad.lo.u32 %r6, %r7, 4, %r6;
    @%p1 st.global.u32 [%rd2+512], %r6;
    ret;
}}
""")


def run(
    k: LoadedKernel, far: Endpoint, data: np.ndarray, *, seed: int = 0, map: object = None, check: bool = True
) -> np.ndarray:
    out = np.zeros(129, np.uint32)
    report = k.simulate(
        far, data, out, map if map is not None else bytes(128), grid=1, block=128, seed=seed, check=check
    )
    assert not report.findings, "\n".join(map(str, report.findings))
    return out


def words(n: int = 128) -> np.ndarray:
    return RNG.integers(0, 1 << 32, n, dtype=np.uint32)


@pytest.mark.parametrize("seed", [0, 3])
def test_put_and_get(seed: int) -> None:
    data, memory = words(), words(256)
    before = memory.copy()
    k = kernel(
        f"mov.u64 %rd6, 64; fabric.try_put.async.shared::cta.{TX16}.relaxed.sys.b128 [%r20, %rd6], [%r3], 512, [bar];"
        " fabric.submit; fabric.wait.sync_restrict::reads;", 32,
    )  # fmt: skip
    out = run(k, Endpoint(memory), data, seed=seed)
    assert np.array_equal(memory[16:144], data)
    assert np.array_equal(memory[:16], before[:16])
    assert np.array_equal(memory[144:], before[144:])
    assert out[128] == 2, "nothing is reported: the conditional phase ends, too"

    k = kernel(
        f"mov.u64 %rd6, 256; fabric.try_get.async.shared::cta.{BYTES}.relaxed.sys.b128 [%r3], [%r20, %rd6], 512, [bar];"
        " fabric.submit.op_restrict::fetching;", 512,
    )  # fmt: skip
    assert np.array_equal(run(k, Endpoint(memory), data, seed=seed)[:128], memory[64:192])


def test_masks_and_counters() -> None:
    data, memory = words(), np.zeros(512, np.uint32)
    k = kernel(
        f"mov.u64 %rd6, 0; mov.b16 %h1, 0x00F0;"
        f"fabric.try_put.async.shared::cta.{TX16}.cp_mask.b128 [%r20, %rd6], [%r3], 512, [bar], %h1; fabric.submit;",
        32,
    )
    run(k, Endpoint(memory), data)
    want = np.zeros((32, 4), np.uint32)
    want[:, 1] = data.reshape(32, 4)[:, 1]
    assert np.array_equal(memory[:128], want.reshape(-1))

    memory = np.zeros(512, np.uint32)
    put = f"fabric.try_put.async.shared::cta.{TX16}.counted::bytes.b128 [%r20, {{}}, %rd7], [%r3], 256, [bar];"
    puts = put.format("%rd6") + put.format("%rd8")
    k = kernel(f"mov.u64 %rd6, 0; mov.u64 %rd8, 512; mov.u64 %rd7, 1024; {puts} fabric.submit.commit_group;", 32)
    run(k, Endpoint(memory), data)
    assert np.array_equal(memory[:64], data[:64])
    assert np.array_equal(memory[128:192], data[:64])
    assert memory[256] == 512


@pytest.mark.parametrize(
    ("operation", "kind", "dtype", "function"),
    [("add", "u32", np.uint32, np.add), ("min", "s32", np.int32, np.minimum), ("xor", "b64", np.uint64, np.bitwise_xor),
     ("add", "f32", np.float32, np.add), ("max", "bf16", ml_dtypes.bfloat16, np.maximum)],
)  # fmt: skip
def test_reductions(operation: str, kind: str, dtype: type, function: np.ufunc) -> None:
    """With .multimem every member gets the same; without, there is one member."""

    def make() -> np.ndarray:
        if np.dtype(dtype).kind in "iu":
            return words().view(dtype)
        return RNG.standard_normal(512 // np.dtype(dtype).itemsize).astype(dtype)

    data, members = make(), [make(), make(), make()]
    wanted = [function(m, data).astype(dtype) for m in members]
    for multimem, count in ((".multimem", 3), ("", 1)):
        memories = [m.copy() for m in members[:count]]
        k = kernel(
            f"mov.u64 %rd6, 0; fabric.try_red.async{multimem}.shared::cta.{TX16}.relaxed.sys.{operation}.{kind}"
            " [%r20, %rd6], [%r3], 512, [bar]; fabric.submit;", 32,
        )  # fmt: skip
        run(k, Endpoint(*[m.view(np.uint8) for m in memories]), data.view(np.uint32))
        for memory, want in zip(memories, wanted, strict=False):
            assert np.array_equal(memory.view(np.uint8), want.view(np.uint8))


def test_pull_reductions() -> None:
    """The lanes of a warp together; halves are added in f32 with .acc::f32."""
    halves = [RNG.standard_normal(256).astype(np.float16) for _ in range(3)]
    pulled = (
        "mov.u64 %rd6, 0; fabric.try_pullred.async.multimem.shared::cta.{}.sync [%r3], [%r20, %rd6], 512, [bar], -1;"
    )
    body = "$all: setp.lt.u32 %p5, %r1, 32; @!%p5 bra $done; {} fabric.submit; $done:"
    k = whole_warp(body.format(pulled.format(f"{BYTES}.relaxed.sys.add.acc::f32.f16")))
    out = run(k, Endpoint(*[h.view(np.uint8) for h in halves]), words())
    want = (halves[0].astype(np.float32) + halves[1].astype(np.float32) + halves[2].astype(np.float32)).astype(
        np.float16
    )
    assert np.array_equal(out[:128].view(np.float16), want)
    members = [words() for _ in range(3)]
    k = whole_warp(body.format(pulled.format(f"{BYTES}.relaxed.sys.max.u32")))
    assert np.array_equal(run(k, Endpoint(*members), words())[:128], np.max(members, axis=0))


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
@pytest.mark.parametrize("operation", ["add.acc::f16", "add.acc::f32", "min", "max"])
def test_pull_reductions_of_8_bit_floats(operation: str, kind: str) -> None:
    """Sums in the accumulator's type, member by member, that fit in no larger number than the largest."""
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]
    members = [RNG.integers(0, 256, 512).astype(np.uint8) for _ in range(3)]
    members = [np.where(np.isfinite(m.view(dtype).astype(np.float32)), m, np.uint8(1)) for m in members]
    line = (
        f"mov.u64 %rd6, 0; fabric.try_pullred.async.multimem.shared::cta.{BYTES}.relaxed.sys.{operation}.{kind}.sync"
        " [%r3], [%r20, %rd6], 512, [bar], -1;"
    )
    k = whole_warp(f"$all: setp.lt.u32 %p5, %r1, 32; @!%p5 bra $done; {line} fabric.submit; $done:")
    out = run(k, Endpoint(*members), words())[:128].view(np.uint8)
    a, b, c = (m.view(dtype).astype(np.float16 if operation.endswith("f16") else np.float32) for m in members)
    largest = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(over="ignore"):
        want = {"min": np.minimum, "max": np.maximum}.get(operation, np.add)
        numbers = np.clip(want(want(a, b), c).astype(np.float64), -largest, largest)
    assert np.array_equal(out.view(dtype).astype(np.float64), numbers.astype(dtype).astype(np.float64))


def whole_warp(body: str) -> LoadedKernel:
    """As `kernel`, with a body that all threads execute after thread 0 has said what is expected."""
    return assembled(f""".version 9.5
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 far, .param .u64 data, .param .u64 out, .param .align 128 .b8 map[128])
{{
    .reg .pred %p<10>; .reg .b32 %r<30>; .reg .b64 %rd<30>;
    .shared .align 1024 .b8 box[1024]; .shared .align 8 .b64 bar;
    ld.param.u32 %r20, [far]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, box; mad.lo.u32 %r4, %r1, 4, %r3;
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd5, %rd2, %rd3;
    @%p1 mbarrier.init.layout::v1.shared::cta.b64 [bar], 1;
    @%p1 fence.proxy.async.shared::cta;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
    bar.sync 0;
{body}
$wait:
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
    ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd5], %r5;
    ret;
}}
""")


@pytest.mark.parametrize("place", [0, 3])
def test_atomics(place: int) -> None:
    """The element's place within its 16 bytes is that of the operand and of the old value."""
    data, memory = words(), words(64)
    old = memory.copy()
    k = kernel(
        f"mov.u64 %rd6, {32 + 4 * place}; add.u32 %r8, %r3, 512;"
        f"fabric.try_atom.async.shared::cta.{TX16}.relaxed.sys.add.u32 [%r20, %rd6], [%r3], [%r8], [bar]; fabric.submit;",
        1,
    )
    out = run(k, Endpoint(memory), data)
    changed = old.copy()
    changed[8 + place] += data[place]
    assert np.array_equal(memory, changed)
    assert out[place] == old[8 + place]
    data[:8] = [old[16], old[17], old[18], old[19], 1, 2, 3, 4]
    k = kernel(
        f"mov.u64 %rd6, 64; add.u32 %r8, %r3, 512;"
        f"fabric.try_atom.async.shared::cta.{TX16}.relaxed.sys.cas.b128 [%r20, %rd6], [%r3], [%r8], [bar]; fabric.submit;",
        1,
    )
    run(k, Endpoint(memory), data)
    assert memory[16:20].tolist() == [1, 2, 3, 4]


def test_tensors() -> None:
    """The map says the box and the type, the instruction where the tensor is, and how large."""
    data, memory = words(), words(4096)
    like = tensor_map(np.zeros((64, 8), np.uint32), (16, 8))
    k = kernel(
        "mov.u64 %rd6, 4096;"
        f"fabric.try_put.async.tensor.2d.shared::cta.{TX16}.override::global_address.b128"
        " [%rd10, %r20, %rd6, {0, 16}], [%r3], 512, [bar]; fabric.submit;", 32, "sm_107a",
    )  # fmt: skip
    before = memory.copy()
    run(k, Endpoint(memory), data, map=like)
    before[1024 + 128 : 1024 + 256] = data
    assert np.array_equal(memory, before)
    k = kernel(
        "mov.u64 %rd6, 4096; mov.b16 %h1, 8; mov.b16 %h2, 5; mov.u32 %r9, 4; mov.b16 %h3, 0;"
        f"fabric.try_get.async.tensor.2d.shared::cta.{BYTES}.override::global_address.override::global_dim_stride.b128"
        " [%r3], [%rd10, %r20, %rd6, {%h1, %h2}, {%r9}, %h3, {0, 0}], [bar]; fabric.submit;", 512, "sm_107a",
    )  # fmt: skip
    out = run(k, Endpoint(memory), data, map=like)[:128].reshape(16, 8)
    rows = memory[1024:].reshape(-1, 16)[:5, :8]  # five rows, 4 * 16 bytes apart
    assert np.array_equal(out[:5], rows)
    assert not out[5:].any()


PUT = f"fabric.try_put.async.shared::cta.{TX16}.b128 [%r20, %rd6], [%r3], 512, [bar];"


@pytest.mark.parametrize(
    ("body", "endpoint", "message"),
    [
        (f"mov.u64 %rd6, 0; {PUT}", 1, "was not submitted"),
        (f"mov.u64 %rd6, 8; {PUT} fabric.submit;", 1, "must be a multiple of 16"),
        (f"mov.u64 %rd6, 16; {PUT} fabric.submit;", 1, "there are 512 bytes after the endpoint"),
        (f"mov.u64 %rd6, 0; add.u32 %r20, %r20, 1; {PUT} fabric.submit;", 1, "2 is not an endpoint"),
        (f"mov.u64 %rd6, 0; {PUT} fabric.submit;", 2, "several memories"),
        (f"mov.u64 %rd6, 0; mbarrier.init.shared::cta.b64 [bar+-0], 1; {PUT} fabric.submit;", 1, "layout::v1"),
    ],
)
def test_what_goes_wrong(body: str, endpoint: int, message: str) -> None:
    far = Endpoint(*[np.zeros(128, np.uint32) for _ in range(endpoint)])
    k = kernel(body.replace("+-0", ""), 32)
    with pytest.raises(SimulationError, match=message):
        k.simulate(far, words(), np.zeros(129, np.uint32), bytes(128), grid=1, block=128, check=False, max_steps=20_000)


def test_endpoints_are_checked() -> None:
    k = kernel("", 0)
    rest = (words(), np.zeros(129, np.uint32), bytes(128))
    with pytest.raises(SimulationError, match="an array reached through it"):
        Endpoint()
    with pytest.raises(SimulationError, match="writable arrays of one size"):
        k.simulate(Endpoint(np.zeros(4), np.zeros(5)), *rest, grid=1, block=128)
    with pytest.raises(SimulationError, match=r"passed for a \.u32"):
        k.simulate(1, Endpoint(np.zeros(4)), *rest[1:], grid=1, block=128)


# ------------------------------------------------------------------------------------------------------- validity


@pytest.mark.parametrize(
    ("mechanism", "bad", "at"),
    [("per_16bytes::80000000", 0x80000000, 12), ("per_16bytes::8000", 0x12348000, 12), ("per_16bytes::80", 0x11223380, 12),
     ("per_16bytes::8", 0x11223348, 12), ("per_element::ff", 0x11FF2233, 13)],
)  # fmt: skip
def test_copies_report_patterns(mechanism: str, bad: int, at: int) -> None:
    """A word with the pattern, among words without, sets the report and holds back the conditional phase."""
    for value, reported in ((bad, True), (0x11223344, False)):
        data = np.full(128, 0x01020304, np.uint32)
        data[at] = value
        k = kernel(
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.mbarrier::report::validity::"
            f"{mechanism} [%r3], [%rd1], 512, [bar];", 512, "sm_107a",
        )  # fmt: skip
        out = run(k, Endpoint(np.zeros(4)), data)
        assert np.array_equal(out[:128], data)
        assert out[128] == (1 if reported else 2)
        box = tensor_map(data.reshape(32, 4), (32, 4))
        k = kernel(
            "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes.mbarrier::report::validity::"
            f"{mechanism} [%r3], [%rd10, {{0, 0}}], [bar];", 512, "sm_107a",
        )  # fmt: skip
        assert run(k, Endpoint(np.zeros(4)), data, map=box)[128] == (1 if reported else 2)


def test_a_report_is_of_one_phase() -> None:
    """The next phase begins without a report; check_layout tells the formats apart."""
    bad = np.full(128, 0xFFFFFFFF, np.uint32)
    copy = (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.mbarrier::report::validity::per_element::ff "
        "[%r3], [%rd1], 512, [bar];"
    )
    again = """
    @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];
$again:
    mbarrier.try_wait.parity.phase_type::primary.shared::cta.b64 %p2|%p3, %b1, [bar], 1;
    @!%p2 bra $again;
    mbarrier.check_layout.layout::v1.shared::cta.b64 %p4, [bar];"""
    out = run(kernel(copy, 512, "sm_107a", again), Endpoint(np.zeros(4)), bad)
    assert out[128] == 2
