"""tcgen05: tensor memory, its loads, stores and copies, and every kind of mma, against tables from NVIDIA's headers
(layouts/) and NumPy.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.dialects.ptx.instruction_descriptor import InstructionDescriptor, read_descriptor
from pyptx.simulator import LoadedKernel, load
from pyptx.simulator.machine.tensor_memory import accumulator_places, register_places
from pyptx.simulator.semantics.tcgen05 import compressed
from tests.simulator.assembling import assembled
from tests.simulator.test_wgmma import layout_for, place

LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"


def table(name: str) -> Any:
    return json.loads(gzip.decompress((LAYOUTS / f"{name}.json.gz").read_bytes()))


LDST, TMEM, DESCRIPTORS = table("tcgen05_ldst"), table("tcgen05_tmem"), table("descriptors")
FORMATS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
    "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn, "ue8m0": ml_dtypes.float8_e8m0fnu,
    "ue4m3": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("op", LDST["ops"], ids=lambda op: op["ptx"].removeprefix("tcgen05."))
def test_registers_and_tensor_memory(op: dict[str, Any]) -> None:
    """All 148 forms: where each half of each register lies; the hash is that of the whole table."""
    split = op.get("half_split_imm_in_header", 0)
    lane, low, high = register_places(op["shape"], op["num"], split, op["pack16"])
    lane, low, high = (np.broadcast_to(x, (32, op["n_regs"])) for x in (lane, low, high))
    upper = 0 if op["pack16"] else 16
    whole = np.stack([lane, low, np.zeros_like(lane), lane, high, np.full_like(lane, upper)], axis=-1)
    assert hashlib.sha256(whole.astype("<i4").tobytes()).hexdigest() == op["sha256_lane_col"]


def test_places_of_accumulators() -> None:
    checked = 0
    for f in TMEM["fragments"]:
        if f["what"] not in ("D", "D_ws") or f["storage_bits"] != 32 or (f["m_per_cta"] == 32 and f["what"] == "D"):
            continue
        mode = "ws" if f["what"] == "D_ws" else str(f["cta_group"])
        lanes, columns = (
            np.broadcast_to(x, (f["m_per_cta"], f["n_or_k"]))
            for x in accumulator_places(f["m_per_cta"], f["n_or_k"], mode)
        )
        for m, n, lane, column, _ in f["samples_m_n_lane_col_bit"]:
            assert (lanes[m, n], columns[m, n]) == (lane, column), f
            checked += 1
    assert checked > 150


@pytest.mark.parametrize("example", DESCRIPTORS["idesc_examples"], ids=lambda e: f"{e['kind']}-{e['idesc']}")
def test_instruction_descriptors(example: dict[str, Any]) -> None:
    word = int(example["idesc"], 16)
    found = read_descriptor(word, example["kind"])
    assert isinstance(found, InstructionDescriptor), found
    assert found.word == word
    assert (found.m, found.n, found.a, found.b) == (
        example["m"],
        example["n"],
        *(example[x].removesuffix("_unpack") for x in "ab"),
    )
    if "d" in example:
        assert found.d == example["d"]
    assert found.sparse == bool(example.get("sparse", 0))
    assert (found.a_mn, found.b_mn) == (example["a_major"] == "MN", example["b_major"] == "MN")
    assert found.negate == bool(example.get("a_neg", 0) ^ example.get("b_neg", 0))
    if "scale_type" in example:
        assert found.scale_type == example["scale_type"]
    for mine, theirs in ((found.a_scale, "a_sf_id"), (found.b_scale, "b_sf_id")):
        assert mine == example.get(theirs, mine)


# ------------------------------------------------------------------------------------------------------- kernels

SPACE = 64 * 1024


def kernel(
    body: str, *, smem: int = SPACE, after: str = "", cluster: int = 1, target: str = "9.0 sm_100a"
) -> LoadedKernel:
    """Each CTA (128 threads) fills its shared memory from `tile` and its 128 x 512 words of tensor memory from `image`,
    thread 0 (of the first CTA of the cluster) runs `body`, and the tensor memory is written back to `image`.

    %rd10: descriptor base (shared address >> 4); %r30: 0; %p9: thread 0.
    """
    sixteen = ", ".join(f"%w{i}" for i in range(64))
    eights = [", ".join(f"%w{i + j}" for j in range(8)) for i in range(0, 64, 8)]
    loads = "\n".join(f"ld.global.v8.b32 {{{names}}}, [%rd5+{32 * i}];" for i, names in enumerate(eights))
    stores = "\n".join(f"st.global.v8.b32 [%rd5+{32 * i}], {{{names}}};" for i, names in enumerate(eights))
    sync = "barrier.cluster.arrive; barrier.cluster.wait;" if cluster > 1 else "bar.sync 0;"
    group = "cta_group::2" if cluster > 1 else "cta_group::1"
    version, architecture = target.split()
    return load(f""".version {version}
.target {architecture}
.address_size 64
.visible .entry k(.param .u64 tile, .param .u64 image, .param .u64 a, .param .u64 b, .param .u32 idesc, .param .u32 flag)
{{
    .reg .pred %p<12>; .reg .b16 %h<4>; .reg .b32 %r<40>, %w<64>, %m<8>; .reg .b64 %rd<20>;
    .shared .align 1024 .b8 data[{smem}]; .shared .align 8 .b64 bar; .shared .align 8 .b64 done; .shared .align 4 .b32 where;
    ld.param.u64 %rd1, [tile]; ld.param.u64 %rd2, [image]; ld.param.u64 %rd3, [a]; ld.param.u64 %rd4, [b];
    ld.param.u32 %r20, [idesc]; ld.param.u32 %r21, [flag]; setp.ne.u32 %p8, %r21, 0;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p9, %r1, 0; shr.u32 %r3, %r1, 5;
    @%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 mbarrier.init.shared.b64 [done], 1;
    fence.mbarrier_init.release.cluster;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [where], 512;
    {sync}
    mul.wide.u32 %rd6, %r2, {smem}; add.s64 %rd6, %rd1, %rd6;
    @%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {smem};
    @%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd6], {smem}, [bar];
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
    mov.u32 %r5, data; shr.u32 %r5, %r5, 4; cvt.u64.u32 %rd10, %r5; add.s64 %rd3, %rd3, %rd10; add.s64 %rd4, %rd4, %rd10;
    mad.lo.u32 %r6, %r2, 128, %r1; mul.wide.u32 %rd7, %r6, 2048; add.s64 %rd7, %rd2, %rd7;
    shl.b32 %r7, %r3, 21; mov.u32 %r8, 0; mov.u32 %r30, 0;
$fill:
    mul.wide.u32 %rd5, %r8, 4; add.s64 %rd5, %rd5, %rd7;
    {loads}
    add.u32 %r9, %r7, %r8;
    tcgen05.st.sync.aligned.32x32b.x64.b32 [%r9], {{{sixteen}}};
    add.u32 %r8, %r8, 64; setp.lt.u32 %p3, %r8, 512; @%p3 bra $fill;
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; {sync} tcgen05.fence::after_thread_sync;
    setp.eq.u32 %p4, %r2, 0; {"and.pred %p9, %p9, %p4;" if cluster > 1 else ""}
    @!%p9 bra $join;
    {body}
$join:
    {"mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p5, [done], 0; @!%p5 bra $join;" if after != "none" else ""}
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    {after if after != "none" else ""}
    mov.u32 %r8, 0;
$dump:
    mul.wide.u32 %rd5, %r8, 4; add.s64 %rd5, %rd5, %rd7; add.u32 %r9, %r7, %r8;
    tcgen05.ld.sync.aligned.32x32b.x64.b32 {{{sixteen}}}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    {stores}
    add.u32 %r8, %r8, 64; setp.lt.u32 %p3, %r8, 512; @%p3 bra $dump;
    {sync}
    @%p1 tcgen05.dealloc.{group}.sync.aligned.b32 %r30, 512;
    @%p1 tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
    ret;
}}
""")["k"]


COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"
COMMIT_PAIR = "mov.u16 %h1, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], %h1;"


def noise(ctas: int = 1) -> np.ndarray:
    return np.random.default_rng().integers(0, 1 << 32, (ctas, 128, 512), dtype=np.uint64).astype(np.uint32)


@pytest.mark.parametrize(
    "op", [o for o in LDST["ops"] if "regs" in o], ids=lambda op: op["ptx"].removeprefix("tcgen05.")
)
def test_loads_and_stores_execute(op: dict[str, Any]) -> None:
    """Every form of up to two repetitions, by four warps, at column 40, from both halves of the lanes where it can be."""
    count = op["n_regs"]
    loads = ".ld." in op["ptx"]
    regs = np.array(op["regs"]).reshape(32, count, -1)
    split = f", {op['half_split_imm_in_header']}" if "half_split_imm_in_header" in op else ""
    vector = "{" + ", ".join(f"%w{i}" for i in range(count)) + "}"
    image = noise()
    before = image.copy()
    words = noise()[0, :, :64].copy()
    for half in (0, 16) if op["shape"] != "32x32b" else (0,):
        address = f"shl.b32 %r10, %r3, 21; add.u32 %r10, %r10, {(half << 16) + 40};"
        dump = "\n".join(f"st.global.b32 [%rd12+{4 * i}], %w{i};" for i in range(count))
        fetch = "\n".join(f"ld.global.b32 %w{i}, [%rd12+{4 * i}];" for i in range(count))
        pointer = "mul.wide.u32 %rd11, %r1, 256; ld.param.u64 %rd12, [a]; add.s64 %rd12, %rd12, %rd11;"
        if loads:
            after = f"{address} {op['ptx']} {vector}, [%r10]{split}; tcgen05.wait::ld.sync.aligned; {pointer} {dump}"
        else:
            after = f"{address} {pointer} {fetch} {op['ptx']} [%r10]{split}, {vector}; tcgen05.wait::st.sync.aligned; bar.sync 0;"
        image[...] = before
        out = words.copy()
        kernel(COMMIT, smem=1024, after=after).simulate(
            np.zeros(1024, np.uint8), image, out, 0, 0, 0, grid=1, block=128
        )
        want, wanted = before[0].copy(), words.copy()
        for warp in range(4):
            lane, column = regs[..., 0] + 32 * warp + half, regs[..., 1] + 40
            rows = words[32 * warp : 32 * warp + 32, :count]
            if op["pack16"]:
                high = regs[..., 3] + 40
                wanted[32 * warp : 32 * warp + 32, :count] = (before[0][lane, column] & 0xFFFF) | before[0][
                    lane, high
                ] << 16
                want[lane, column], want[lane, high] = rows & 0xFFFF, rows >> 16
            else:
                wanted[32 * warp : 32 * warp + 32, :count] = before[0][lane, column]
                want[lane, column] = rows
        if loads:
            assert np.array_equal(out, wanted)
            assert np.array_equal(image, before)
        else:
            assert np.array_equal(image[0], want)


@pytest.mark.parametrize(
    "op", [o for o in TMEM["cp"] if "cta_group::1" in o["ptx"]], ids=lambda op: op["ptx"].removeprefix("tcgen05.cp.")
)
@pytest.mark.parametrize("packing", ["", ".b8x16.b4x16_p64", ".b8x16.b6x16_p32"])
def test_copies(op: dict[str, Any], packing: str) -> None:
    """Which row of shared memory each lane gets."""
    size = op["bits_per_lane"] // 8
    lanes = np.array(op["lane_from"])
    rows = 4 if len(lanes) == 4 else int(lanes[:, 1].max()) + 1
    data = np.random.default_rng().integers(0, 256, (max(rows, 8), size)).astype(np.uint8)
    layout = layout_for("K", "NONE", max(rows, 8), size, 1)
    tile = np.zeros(1 << 13, np.uint8)
    place(data, layout, tile, 0)
    image = noise()
    want = image[0].copy()
    chunks = data.reshape(-1, size // 16, 16)
    if "b4x16" in packing:
        chunks = np.stack([chunks[..., :8] & 15, chunks[..., :8] >> 4], axis=-1).reshape(chunks.shape)
    elif "b6x16" in packing:
        flat = [int.from_bytes(c[:12].tobytes(), "little") for c in chunks.reshape(-1, 16)]
        chunks = np.array([[w >> 6 * i & 63 for i in range(16)] for w in flat], np.uint8).reshape(chunks.shape)
    words = np.ascontiguousarray(chunks.reshape(-1, size)).view(np.uint32)
    for lane, row in lanes:
        # the table names rows of four-lane copies by their lane
        want[lane, 20 : 20 + size // 4] = words[row // 32 if len(lanes) == 4 else row]
    body = f"mov.u32 %r10, 20; {op['ptx']}{packing} [%r10], %rd3; {COMMIT}"
    kernel(body, smem=tile.size).simulate(tile, image, blackwell(layout, 0), 0, 0, 0, grid=1, block=128)
    assert np.array_equal(image[0], want)


def test_shift() -> None:
    """Eight columns of the lanes from 32 on move down by one lane."""
    image = noise()
    want = image[0].copy()
    want[33:, 100:108] = image[0, 32:-1, 100:108]
    body = f"mov.u32 %r10, {(32 << 16) + 100}; tcgen05.shift.cta_group::1.down [%r10]; {COMMIT}"
    kernel(body, smem=1024).simulate(np.zeros(1024, np.uint8), image, 0, 0, 0, 0, grid=1, block=128)
    assert np.array_equal(image[0], want)


# ----------------------------------------------------------------------------------------------------------- mma


def blackwell(layout: dict[str, Any], start: int) -> int:
    code = {"NONE": 0, "128B_BASE32B": 1, "128B": 2, "64B": 4, "32B": 6}[layout["swizzle"]]
    return start >> 4 | layout["lbo_bytes"] >> 4 << 16 | layout["sbo_bytes"] >> 4 << 32 | 1 << 46 | code << 61


CODES = {
    "f16": {"f16": 0, "bf16": 1}, "tf32": {"tf32": 2}, "i8": {"u8": 0, "s8": 1},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}, "mxf4": {"e2m1": 1},
}  # fmt: skip
CODES["mxf8f6f4"], CODES["mxf4nvf4"] = CODES["f8f6f4"], CODES["mxf4"]


def idesc(kind: str, d: str, a: str, b: str, m: int, n: int, **more: int) -> int:
    word = CODES[kind][a] << 7 | CODES[kind][b] << 10 | n >> 3 << 17 | m >> 4 << 24
    if kind[:2] != "mx":
        word |= {"f16": 0, "f32": 1, "s32": 2}[d] << 4
    places = {
        "sparse": 2,
        "saturate": 3,
        "a_negate": 13,
        "b_negate": 14,
        "a_mn": 15,
        "b_mn": 16,
        "ue8m0": 23,
        "a_sf": 29,
        "b_sf": 4,
    }
    for name, value in more.items():
        word |= value << places[name]
    return word


def values(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    low, high = {"u8": (0, 9), "e2m1": (-2, 3)}.get(kind, (-4, 5))
    return np.random.default_rng().integers(low, high, shape).astype(np.float64)


def in_memory(matrix: np.ndarray, kind: str, packed: bool) -> np.ndarray:
    """Elements as they lie in shared memory, rows of K: typed, or bytes with the gaps of padded elements."""
    typed = matrix.astype(FORMATS[kind])
    if packed:
        raw = typed.view(np.uint8)
        return raw[:, ::2] | raw[:, 1::2] << 4
    if kind in ("e2m1", "e2m3", "e3m2"):
        bits = 4 if kind == "e2m1" else 6
        raw = typed.view(np.uint8).reshape(matrix.shape[0], -1, 16)
        out = np.zeros_like(raw)
        for i in np.ndindex(raw.shape[:2]):
            word = sum(int(x) << bits * j for j, x in enumerate(raw[i]))
            out[i] = np.frombuffer(word.to_bytes(16, "little"), np.uint8)
        return out.reshape(matrix.shape)
    return typed


def d_places(m: int, n: int, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column of D, by the formulas of the table. m: rows per CTA."""
    row, column = np.mgrid[:m, :n]
    if m == 128:
        return row, column
    if mode == "1":
        return row % 16 + 32 * (row // 16), column
    if m == 64:
        return row + 64 * (column // (n // 2)), column % (n // 2)
    return row + 32 * (column // (n // 4)), column % (n // 4)


def put_d(image: np.ndarray, c: np.ndarray, kind: str, mode: str) -> None:
    lane, column = d_places(*c.shape, mode)
    if kind == "f16":
        image[lane, column] = c.astype(np.float16).view(np.uint16)
    else:
        image[lane, column] = c.astype(FORMATS[kind]).view(np.uint32)


MMAS: list[tuple[str, str, str, str, int, int, str, str, str, str, str]] = [
    # kind, D, A, B, M, N, A from, major and swizzle of A, of B
    ("f16", "f32", "f16", "f16", 128, 128, "smem", "K", "128B", "K", "128B"),
    ("f16", "f32", "bf16", "bf16", 128, 256, "smem", "MN", "128B", "K", "64B"),
    ("f16", "f16", "f16", "f16", 64, 64, "smem", "K", "32B", "MN", "64B"),
    ("f16", "f32", "bf16", "bf16", 64, 8, "smem", "K", "NONE", "K", "NONE"),
    ("f16", "f32", "f16", "f16", 128, 32, "tmem", "", "", "MN", "128B"),
    ("f16", "f32", "f16", "f16", 64, 24, "tmem", "", "", "K", "32B"),
    ("tf32", "f32", "tf32", "tf32", 128, 64, "smem", "K", "128B", "MN", "128B_BASE32B"),
    ("tf32", "f32", "tf32", "tf32", 128, 48, "tmem", "", "", "K", "64B"),
    ("i8", "s32", "s8", "u8", 128, 112, "smem", "K", "64B", "K", "128B"),
    ("i8", "s32", "u8", "s8", 64, 32, "smem", "MN", "64B", "MN", "32B"),
    ("f8f6f4", "f32", "e4m3", "e5m2", 128, 96, "smem", "K", "128B", "K", "32B"),
    ("f8f6f4", "f16", "e5m2", "e4m3", 128, 64, "tmem", "", "", "K", "NONE"),
    ("f8f6f4", "f32", "e2m1", "e3m2", 128, 64, "smem", "K", "128B", "K", "128B"),
    ("f8f6f4", "f32", "e2m3", "e2m1", 64, 16, "smem", "K", "64B", "K", "32B"),
    ("f8f6f4", "f32", "e4m3", "e4m3", 128, 64, "smem", "MN", "128B", "MN", "64B"),
]


def sizes(kind: str, a: str) -> tuple[int, int]:
    """(K, bytes of a row of K) of a dense instruction."""
    if kind in ("mxf4", "mxf4nvf4"):
        return 64, 32
    return 32 // {"f16": 2, "tf32": 4}.get(kind, 1), 32


def operand_layout(major: str, swizzle: str, rows: int, k: int, size: int) -> dict[str, Any]:
    if swizzle == "128B_BASE32B":
        return {"major": "MN", "swizzle": swizzle, "lbo_bytes": 512, "sbo_bytes": -(-rows * size // 128) * 512}
    return layout_for(major, swizzle, rows, k, size)


def place_base32b(matrix: np.ndarray, layout: dict[str, Any], tile: np.ndarray, at: int) -> None:
    rows, depth = matrix.shape
    size = matrix.itemsize
    for mn in range(rows):
        for k in range(depth):
            mb = mn * size
            a = at + mb % 128 + mb // 128 * layout["lbo_bytes"] + k % 4 * 128 + k // 4 * layout["sbo_bytes"]
            a ^= (a & 0x180) >> 2
            tile[a : a + size] = matrix[mn : mn + 1, k].view(np.uint8)


def put(matrix: np.ndarray, layout: dict[str, Any], tile: np.ndarray, at: int) -> None:
    (place_base32b if layout["swizzle"] == "128B_BASE32B" else place)(np.ascontiguousarray(matrix), layout, tile, at)


@pytest.mark.parametrize(
    ("kind", "dtype", "atype", "btype", "m", "n", "source", "amajor", "aswizzle", "bmajor", "bswizzle"), MMAS
)
@pytest.mark.parametrize("variant", ["plain", "overwrite", "negate", "lanes", "divide"])
def test_mma(
    kind: str, dtype: str, atype: str, btype: str, m: int, n: int, source: str, amajor: str, aswizzle: str, bmajor: str,
    bswizzle: str, variant: str,
) -> None:  # fmt: skip
    """Small integers, so that all sums are exact; everything else in tensor memory stays as it is."""
    if (variant == "negate" and kind == "i8") or (variant == "divide" and kind not in ("f16", "tf32")):
        variant = "plain"
    k, _ = sizes(kind, atype)
    a, b, c = values(atype, (m, k)), values(btype, (n, k)), values(dtype, (m, n)) * 4
    tile = np.zeros(SPACE, np.uint8)
    ma, mb = in_memory(a, atype, False), in_memory(b, btype, False)
    lb = operand_layout(bmajor, bswizzle, n, k, mb.itemsize)
    put(mb, lb, tile, 32768)
    image = noise()
    put_d(image[0], c, dtype, "1")
    da = "%rd3"
    first = 0
    if source == "smem":
        la = operand_layout(amajor, aswizzle, m, k, ma.itemsize)
        put(ma, la, tile, 0)
        first = blackwell(la, 0)
    else:
        lane = np.arange(m) if m == 128 else np.arange(m) % 16 + 32 * (np.arange(m) // 16)
        image[0, lane, 300:308] = np.ascontiguousarray(ma).view(np.uint32)
        da = "[%r11]"
    word = idesc(
        kind,
        dtype,
        atype,
        btype,
        m,
        n,
        a_mn=int(amajor == "MN"),
        b_mn=int(bmajor == "MN"),
        a_negate=int(variant == "negate"),
    )
    lanes, disabled = "", np.zeros(128, np.bool_)
    if variant == "lanes":
        masks = np.random.default_rng().integers(0, 1 << 32, 4, dtype=np.uint64)
        lanes = "".join(f"mov.u32 %m{i}, {x};" for i, x in enumerate(masks))
        disabled = np.unpackbits(masks.astype("<u4").view(np.uint8), bitorder="little").astype(bool)
    text = f"tcgen05.mma.cta_group::1.kind::{kind} [%r30], {da}, %rd4, %r20{', {%m0, %m1, %m2, %m3}' if lanes else ''}, %p8{', 2' if variant == 'divide' else ''}"
    body = f"mov.u32 %r11, 300; {lanes} {text}; {COMMIT}"
    before = image[0].copy()
    accumulate = int(variant != "overwrite")
    kernel(body).simulate(tile, image, first, blackwell(lb, 32768), word, accumulate, grid=1, block=128)
    product = a @ b.T * (-1 if variant == "negate" else 1)
    want = before.copy()
    put_d(want, product + accumulate * c / (4 if variant == "divide" else 1), dtype, "1")
    want = np.where(disabled[:, None], before, want)
    assert np.array_equal(image[0], want)


@pytest.mark.parametrize(
    ("kind", "dtype", "ab"),
    [("f16", "f32", "f16"), ("tf32", "f32", "tf32"), ("f8f6f4", "f32", "e4m3"), ("i8", "s32", "s8")],
)
@pytest.mark.parametrize("m", [128, 256])
def test_mma_of_a_pair(kind: str, dtype: str, ab: str, m: int) -> None:
    """Each CTA has half of the rows of A and of B; each gets its half of D."""
    n = 128
    k, _ = sizes(kind, ab)
    a, b, c = values(ab, (m, k)), values(ab, (n, k)), values(dtype, (m, n))
    tiles = np.zeros((2, SPACE), np.uint8)
    image = noise(2)
    la, lb = (layout_for("K", "128B", rows, k, np.dtype(FORMATS[ab]).itemsize) for rows in (m // 2, n // 2))
    for i in range(2):
        place(in_memory(a[i * m // 2 : (i + 1) * m // 2], ab, False), la, tiles[i], 0)
        place(in_memory(b[i * n // 2 : (i + 1) * n // 2], ab, False), lb, tiles[i], 32768)
        put_d(image[i], c[i * m // 2 : (i + 1) * m // 2], dtype, "2")
    want = image.copy()
    result = a @ b.T + c
    for i in range(2):
        put_d(want[i], result[i * m // 2 : (i + 1) * m // 2], dtype, "2")
    body = f"tcgen05.mma.cta_group::2.kind::{kind} [%r30], %rd3, %rd4, %r20, %p8; {COMMIT_PAIR}"
    kernel(body, cluster=2).simulate(
        tiles,
        image,
        blackwell(la, 0),
        blackwell(lb, 32768),
        idesc(kind, dtype, ab, ab, m, n),
        1,
        grid=2,
        block=128,
        cluster=2,
    )
    assert np.array_equal(image, want)


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("n", [64, 128])
def test_weight_stationary(m: int, n: int) -> None:
    a, b, c = values("bf16", (m, 16)), values("bf16", (n, 16)), values("f32", (m, n))
    tile = np.zeros(SPACE, np.uint8)
    la, lb = layout_for("K", "128B", m, 16, 2), layout_for("K", "64B", n, 16, 2)
    place(in_memory(a, "bf16", False), la, tile, 0)
    place(in_memory(b, "bf16", False), lb, tile, 32768)
    image = noise()
    put_d(image[0], c, "f32", "ws")
    want = image[0].copy()
    put_d(want, a @ b.T + c, "f32", "ws")
    body = f"tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::fill [%r30], %rd3, %rd4, %r20, %p8; {COMMIT}"
    kernel(body).simulate(
        tile,
        image,
        blackwell(la, 0),
        blackwell(lb, 32768),
        idesc("f16", "f32", "bf16", "bf16", m, n),
        1,
        grid=1,
        block=128,
    )
    assert np.array_equal(image[0], want)


SCALED = [
    # kind, qualifier, A, B, factors per instruction, their type
    ("mxf8f6f4", "", "e4m3", "e5m2", 1, "ue8m0"), ("mxf8f6f4", ".block32", "e2m1", "e3m2", 1, "ue8m0"),
    ("mxf4", ".scale_vec::2X", "e2m1", "e2m1", 2, "ue8m0"), ("mxf4nvf4", ".block32", "e2m1", "e2m1", 2, "ue8m0"),
    ("mxf4nvf4", ".scale_vec::4X", "e2m1", "e2m1", 4, "ue4m3"), ("mxf4nvf4", ".block16", "e2m1", "e2m1", 4, "ue4m3"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "qualifier", "atype", "btype", "count", "stype"), SCALED)
@pytest.mark.parametrize("group", [1, 2])
def test_block_scaling(kind: str, qualifier: str, atype: str, btype: str, count: int, stype: str, group: int) -> None:
    """Factors in tensor memory: row m in lane m % 32 and column m / 32, the first byte from the instruction descriptor."""
    m, n = 128 * group, 64
    k, _ = sizes(kind, atype)
    rng = np.random.default_rng()
    a, b, c = values(atype, (m, k)), values(btype, (n, k)), values("f32", (m, n))
    fa, fb = 2.0 ** rng.integers(-3, 4, (m, count)), 2.0 ** rng.integers(-3, 4, (n, count))
    first_a, first_b = (
        int(rng.integers(0, 4)) if count == 1 else 2 * int(rng.integers(0, 2)) if count == 2 else 0 for _ in range(2)
    )
    packed = kind != "mxf8f6f4"
    tiles, image = np.zeros((group, SPACE), np.uint8), noise(group)
    la, lb = (layout_for("K", "128B", rows, 32, 1) for rows in (128, n // group))
    want_parts = (a * np.repeat(fa, k // count, 1)) @ (b * np.repeat(fb, k // count, 1)).T + c
    for i in range(group):
        rows = slice(128 * i, 128 * (i + 1))
        place(in_memory(a[rows], atype, packed), la, tiles[i], 0)
        place(in_memory(b[i * n // group : (i + 1) * n // group], btype, packed), lb, tiles[i], 32768)
        put_d(image[i], c[rows], "f32", str(group))
        for factors, first, column in ((fa[rows], first_a, 400), (fb, first_b, 420)):
            raw = factors.astype(FORMATS[stype]).view(np.uint8)
            for row in range(factors.shape[0]):
                for copy in range(4):
                    cell = image[i, row % 32 + 32 * copy, column + row // 32 : column + row // 32 + 1].view(np.uint8)
                    cell[first : first + count] = raw[row]
    want = image.copy()
    for i in range(group):
        put_d(want[i], want_parts[128 * i : 128 * (i + 1)], "f32", str(group))
    word = idesc(kind, "f32", atype, btype, m, n, ue8m0=int(stype == "ue8m0"), a_sf=first_a, b_sf=first_b)
    body = f"mov.u32 %r11, 400; mov.u32 %r12, 420; tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{qualifier} [%r30], %rd3, %rd4, %r20, [%r11], [%r12], %p8; {COMMIT if group == 1 else COMMIT_PAIR}"
    kernel(body, cluster=group).simulate(
        tiles,
        image,
        blackwell(la, 0),
        blackwell(lb, 32768),
        word,
        1,
        grid=group,
        block=128,
        cluster=group if group > 1 else None,
    )
    assert np.array_equal(image, want)


@pytest.mark.parametrize(("kind", "ab"), [("f16", "f16"), ("tf32", "tf32"), ("f8f6f4", "e4m3")])
def test_sparse(kind: str, ab: str) -> None:
    """A with its zeros left out; metadata in tensor memory as the table's formulas place it."""
    size = np.dtype(FORMATS[ab]).itemsize
    m, n, k, group = 128, 64, 64 // size, 2 if size == 4 else 4
    rng = np.random.default_rng()
    codes = np.zeros((m, k // group), np.uint32)
    kept, dense = np.zeros((m, k // 2)), np.zeros((m, k))
    for row in range(m):
        for g in range(k // group):
            if size == 4:
                at = [int(rng.integers(2))]
                codes[row, g] = 0b1110 if at[0] else 0b0100
            else:
                at = sorted(rng.choice(4, 2, replace=False).tolist())
                codes[row, g] = at[0] | at[1] << 2
            for i, x in enumerate(at):
                kept[row, g * len(at) + i] = dense[row, g * group + x] = rng.integers(-4, 5)
    b, c = values(ab, (n, k)), values("f32", (m, n))
    tile, image = np.zeros(SPACE, np.uint8), noise()
    la, lb = layout_for("K", "128B", m, k // 2, size), layout_for("K", "128B", n, k, size)
    place(in_memory(kept, ab, False), la, tile, 0)
    place(in_memory(b, ab, False), lb, tile, 32768)
    put_d(image[0], c, "f32", "1")
    bits = np.zeros((128, 64), np.uint8)
    half = {4: 8, 2: 16, 1: 0}[size]
    for row in range(m):
        for g in range(k // group):
            at = g * group
            if size == 1:
                lane, bit = row, at
            else:
                lane = row % 8 + 16 * (row // 16) + 8 * (at // half)
                bit = (2 if size == 4 else 1) * (at % half) + 16 * (row // 8 % 2)
            for i in range(4):
                bits[lane, bit + i] = codes[row, g] >> i & 1
    words = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
    columns = 2 if size == 1 else 1
    image[0, :, 333 : 333 + columns] = words[:, :columns]
    want = image[0].copy()
    put_d(want, dense @ b.T + c, "f32", "1")
    body = (
        f"mov.u32 %r11, 333; tcgen05.mma.sp.cta_group::1.kind::{kind} [%r30], %rd3, %rd4, [%r11], %r20, %p8; {COMMIT}"
    )
    kernel(body).simulate(
        tile,
        image,
        blackwell(la, 0),
        blackwell(lb, 32768),
        idesc(kind, "f32", ab, ab, m, n, sparse=1),
        1,
        grid=1,
        block=128,
    )
    assert np.array_equal(image[0], want)


# ------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("tcgen05.mma.cta_group::1.kind::f16 [%r30], %rd3, %rd10, %r20, %p8;", "bits 46 to 48 of the descriptor"),
        (
            "mov.u32 %r20, 0; tcgen05.mma.cta_group::1.kind::f16 [%r30], %rd3, %rd4, %r20, %p8;",
            "M is 0; it is 64 or 128",
        ),
        (
            "mov.u32 %r20, 0x8100490; tcgen05.mma.cta_group::1.kind::i8 [%r30], %rd3, %rd4, %r20, %p8;",
            "the type 1 of D",
        ),
        ("mov.u32 %r10, 510; tcgen05.cp.cta_group::1.128x128b [%r10], %rd3;", "outside the 512 columns"),
        (
            "mov.u32 %r10, 5; tcgen05.shift.cta_group::1.down [%r10]; mov.u32 %r10, 0x50000; tcgen05.shift.cta_group::1.down [%r10];",
            "multiple of 32",
        ),
    ],
)
def test_mistakes_are_named(body: str, words: str) -> None:
    layout = layout_for("K", "128B", 64, 16, 2)
    with pytest.raises(SimulationError, match=words):
        kernel(body + COMMIT, smem=1024).simulate(
            np.zeros(1024, np.uint8),
            noise(),
            blackwell(layout, 0),
            blackwell(layout, 0),
            0x8100490,
            0,
            grid=1,
            block=128,
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [w], 512; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [w], 32;",
            "no room for 32 columns",
        ),
        ("mov.u32 %r1, 48; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [w], %r1;", "48 columns"),
        (
            "mov.u32 %r1, 64; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;",
            "0x40 is not the start of an allocation of 32 columns",
        ),
        (
            "mov.u32 %r1, 0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];",
            "column 0 of tensor memory is not allocated",
        ),
        (
            "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [w], 32;",
            "relinquished",
        ),
        (
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [w], 32; mov.u32 %r1, 0x200000; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];",
            "this warp reaches lanes 0 to 31",
        ),
    ],
)
def test_tensor_memory_is_checked(text: str, words: str) -> None:
    source = f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k()
{{
    .reg .b32 %r<4>; .shared .align 4 .b32 w;
    {text}
    ret;
}}
"""
    with pytest.raises(SimulationError, match=words):
        load(source)["k"].simulate(grid=1, block=32)


ALLOC = "tcgen05.alloc{0}.cta_group::1.sync.aligned.shared::cta.b32 [w], {1};"
DEALLOC = "tcgen05.dealloc{0}.cta_group::1.sync.aligned.b32 %r1, {1};"


def allocating(text: str, target: str) -> LoadedKernel:
    return assembled(f""".version 9.5
.target {target}
.address_size 64
.visible .entry k()
{{
    .reg .b32 %r<4>; .shared .align 4 .b32 w;
    mov.u32 %r1, 0; mov.u32 %r3, 576; {text}
    ret;
}}
""")


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("sm_100a", ALLOC.format(".exclusive", 96) + DEALLOC.format(".exclusive", 96) + ALLOC.format("", 64) + DEALLOC.format("", 64)),
        ("sm_107a", ALLOC.format(".exclusive", "%r3") + DEALLOC.format(".exclusive", "%r3")),
        (
            "sm_107f",
            ALLOC.format(".exclusive", "%r3") + "mov.u32 %r2, 575; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};"
            "tcgen05.wait::st.sync.aligned;" + DEALLOC.format(".exclusive", "%r3"),
        ),
    ],
)  # fmt: skip
def test_exclusive_allocations(target: str, text: str) -> None:
    """Any multiple of 32 columns, alone; sm_107 has 576 of them."""
    assert not allocating(text, target).simulate(grid=1, block=32).findings


@pytest.mark.parametrize(
    ("target", "text", "words"),
    [
        ("sm_100a", ALLOC.format(".exclusive", "%r3"), "576 columns: an exclusive allocation has a multiple of 32, up to 512"),
        ("sm_107a", "mov.u32 %r3, 608;" + ALLOC.format(".exclusive", "%r3"), "608 columns.*up to 576"),
        ("sm_107a", ALLOC.format("", "%r3"), "576 columns: an allocation has"),
        ("sm_107a", ALLOC.format("", 32) + ALLOC.format(".exclusive", 32), "no room for 32 columns of tensor memory alone: 32 of 576"),
        ("sm_107a", ALLOC.format(".exclusive", 32) + ALLOC.format("", 32), "32 of 576 are allocated with .exclusive"),
        ("sm_107a", ALLOC.format(".exclusive", 32) + DEALLOC.format("", 32), "made with .exclusive, so it is given back with it"),
        ("sm_107a", ALLOC.format("", 32) + DEALLOC.format(".exclusive", 32), "made without .exclusive"),
    ],
)  # fmt: skip
def test_exclusive_allocations_are_checked(target: str, text: str, words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        allocating(text, target).simulate(grid=1, block=32)


# ------------------------------------------------------------------------------------------------------ compression


def test_nans_and_zeros_of_compressing_loads() -> None:
    """NaNs are kept whatever is asked for, and -0 is less than +0 (PTX ISA 9.7.10.30)."""
    nan, inf = np.nan, np.inf
    rows = np.array([[nan, 1, 2, 3], [5, -inf, nan, -7], [0.0, 9, -0.0, 8], [-0.0, 0.0, -3, -4], [nan, inf, -nan, 0]])
    bits = rows.astype(np.float32).view(np.uint32)
    for smallest, absolute, expected in (
        (True, False, [[0, 1], [1, 2], [0, 2], [2, 3], [0, 2]]),
        (False, False, [[0, 3], [0, 2], [1, 3], [0, 1], [0, 2]]),
        (False, True, [[0, 3], [1, 2], [1, 3], [2, 3], [0, 2]]),
        (True, True, [[0, 1], [0, 2], [0, 2], [0, 1], [0, 2]]),
    ):
        kept, words = compressed(bits, smallest=smallest, absolute=absolute)
        assert [[w & 3, w >> 2 & 3] for w in words[:, 0].tolist()] == expected
        assert np.array_equal(kept, np.take_along_axis(bits, np.array(expected), 1))


@pytest.mark.parametrize("reduces", [False, True], ids=["plain", "red"])
@pytest.mark.parametrize("count", [4, 32, 128])
@pytest.mark.parametrize("operation", ["min", "max.abs"])
def test_compressing_loads(count: int, operation: str, reduces: bool) -> None:
    """Of every four values two are kept, in their order; two bits say which."""
    meta, kept = max(count // 32, 1), count // 2
    names = lambda letter, n: ", ".join(f"%{letter}{i}" for i in range(n))  # noqa: E731
    name, _, absolute = operation.partition(".")
    red, result = (".red", "%r9, ") if reduces else ("", "")
    stores = [*(f"%m{i}" for i in range(meta)), *(f"%k{i}" for i in range(kept)), "%r9"]
    k = assembled(f""".version 9.5
.target sm_107a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .b32 %r<12>, %v<{count}>, %m<{meta}>, %k<{kept}>; .reg .b64 %rd<9>; .shared .align 4 .b32 where;
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst]; mov.u32 %r1, %tid.x; mov.u32 %r9, 0;
    mul.wide.u32 %rd3, %r1, {4 * count}; add.s64 %rd3, %rd1, %rd3;
    mul.wide.u32 %rd4, %r1, {4 * len(stores)}; add.s64 %rd4, %rd2, %rd4;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 128;
    bar.sync 0;
    ld.shared.u32 %r2, [where];
    {"".join(f"ld.global.b32 %v{i}, [%rd3+{4 * i}];" for i in range(count))}
    tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%r2], {{{names("v", count)}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld{red}.spcompress.sync.aligned.32x32b.x{count}.{name}.sp::2:4{"." * bool(absolute)}{absolute}.f32.b2
        {{{names("m", meta)}}}, {{{names("k", kept)}}}, {result}[%r2];
    tcgen05.wait::ld.sync.aligned;
    {"".join(f"st.global.b32 [%rd4+{4 * i}], {r};" for i, r in enumerate(stores))}
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 128;
    ret;
}}
""")
    values = np.random.default_rng().standard_normal((32, count)).astype(np.float32)
    out = np.zeros((32, len(stores)), np.uint32)
    report = k.simulate(values, out, grid=1, block=32)
    assert not report.findings
    key = (lambda x: -abs(x)) if absolute else (lambda x: x)
    for row, got in zip(values, out, strict=True):
        codes = [int(got[i // 16]) >> 2 * (i % 16) & 3 for i in range(kept)]
        for group in range(count // 4):
            four = row[4 * group : 4 * group + 4]
            best = sorted(sorted(range(4), key=lambda i: key(four[i]))[:2])
            assert codes[2 * group : 2 * group + 2] == best
            assert got[meta + 2 * group : meta + 2 * group + 2].view(np.float32).tolist() == four[best].tolist()
        if reduces:
            assert got[-1:].view(np.float32)[0] == (abs(row).max() if absolute else row.min())
