"""wgmma: fragments, descriptors and shared-memory layouts against tables from NVIDIA's headers (layouts/), results
against NumPy.
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
from pyptx.simulator import LoadedKernel, load
from pyptx.simulator.semantics.wgmma import metadata_codes, registers_a
from pyptx.simulator.tensor.shared_operand import Descriptor, blackwell_descriptor, chunk_addresses, hopper_descriptor

LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
    "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def table(name: str) -> Any:
    return json.loads(gzip.decompress((LAYOUTS / f"{name}.json.gz").read_bytes()))


WGMMA = table("wgmma")
SMEM = table("smem_layouts")


# ---------------------------------------------------------------------------------------------------- layouts


def element_addresses(d: Descriptor, rows: int, k: int, size: int, mn_major: bool) -> np.ndarray:
    """Byte address of each element, (rows, k), from the addresses of the 16-byte chunks."""
    chunks = chunk_addresses(rows, k * size, rows * size, k, d, mn_major)
    per = 16 // size
    wide = (chunks[..., None] + size * np.arange(per)).reshape(chunks.shape[0], -1)
    return wide[:, :rows].T if mn_major else wide[:, :k]


@pytest.mark.parametrize(
    "entry", SMEM["entries"], ids=lambda e: f"{e['id']}-{e['elem_bits']}-{e['major']}-{e['swizzle']}"
)
def test_shared_memory_layouts(entry: dict[str, Any]) -> None:
    """Every byte offset of the tile, slice by slice along K: the hash is that of the whole table."""
    rows, depth = entry["tile_mn_k"]
    size = entry["elem_bits"] // 8
    slice_rows, slice_k = entry["instr_mn_k"]
    assert slice_rows == rows
    parsed = blackwell_descriptor(int(entry["sm100"]["desc"], 16))
    assert isinstance(parsed, Descriptor)
    names = {"NONE": "none", "128B_BASE32B": "128B_ATOM_32B"}
    assert parsed.swizzle == names.get(entry["swizzle"], entry["swizzle"])
    assert (parsed.leading, parsed.stride) == (entry["lbo_bytes"], entry["sbo_bytes"])
    parts: list[np.ndarray] = []
    for start in entry["k_slice_start_bytes"]:
        d = Descriptor(start, parsed.leading, parsed.stride, 0, parsed.swizzle)
        parts.append(element_addresses(d, rows, slice_k, size, entry["major"] == "MN"))
    whole = np.concatenate(parts, axis=1)
    assert whole.shape == (rows, depth)
    key = next(k for k in entry if k.startswith("sha256"))
    assert hashlib.sha256(whole.astype("<i4").tobytes()).hexdigest() == entry[key]
    moved = element_addresses(
        Descriptor(1024 * 7, d.leading, d.stride, 0, d.swizzle), rows, slice_k, size, entry["major"] == "MN"
    )
    assert np.array_equal(moved, parts[0] + 7168)


def test_descriptor_fields() -> None:
    data = table("descriptors")
    fields = {f["name"]: f for f in data["sm90_smem_descriptor"]["fields"]}
    for name, attribute, scale in (
        ("start_address", "start", 16), ("leading_byte_offset", "leading", 16), ("stride_byte_offset", "stride", 16),
        ("base_offset", "base_offset", 1),
    ):  # fmt: skip
        f = fields[name]
        value = (1 << f["hi"] - f["lo"] + 1) - 1
        word = value << f["lo"]
        assert getattr(hopper_descriptor(word), attribute) == value * scale
        assert word == int(f["mask"], 16)
    for code, text in data["sm90_smem_descriptor"]["encodings"]["layout_type"].items():
        assert hopper_descriptor(int(code) << 62).swizzle == text.split()[0]


def tv(layout: dict[str, Any]) -> np.ndarray:
    """A thread-value layout as a table [thread, value]."""

    def offsets(shape: Any, stride: Any) -> np.ndarray:
        if isinstance(shape, int):
            return np.arange(shape) * stride
        found = np.zeros(1, np.int64)
        for n, s in zip(shape, stride, strict=True):
            found = (offsets(n, s)[:, None] + found[None, :]).reshape(-1)
        return found

    threads, values = (offsets(n, s) for n, s in zip(layout["shape"], layout["stride"], strict=True))
    return threads[:, None] + values


@pytest.mark.parametrize(("bits", "name"), [(32, "A_RS_64x8"), (16, "A_RS_64x16"), (8, "A_RS_64x32")])
def test_a_from_registers(bits: int, name: str) -> None:
    t = tv(WGMMA["A_RS"][name]["layout"])
    assert np.array_equal(t, np.array(WGMMA["A_RS"][name]["tv"]))
    matrix = np.random.default_rng().integers(0, 1 << bits, (64, 256 // bits), dtype=np.uint64).astype(f"u{bits // 8}")
    flat = matrix.T.reshape(-1)  # element m + 64 * k
    registers = np.ascontiguousarray(flat[t]).view(np.uint32)
    assert np.array_equal(registers_a(np.ascontiguousarray(registers.T), bits), matrix)


@pytest.mark.parametrize(("bits", "k", "group"), [(32, 16, 2), (16, 32, 4), (8, 64, 4)])
def test_sparse_metadata(bits: int, k: int, group: int) -> None:
    """The code of each group of A, wherever the table says a thread holds it."""
    t = tv(WGMMA["E"][f"E_64x{k}"]["layout"])
    codes = np.random.default_rng().integers(0, 16, (64, k // group)).astype(np.uint32)
    for selector in (0, 1) if bits != 8 else (0,):
        registers = np.random.default_rng().integers(0, 1 << 32, 128, dtype=np.uint64).astype(np.uint32)
        for thread in range(128):
            if bits != 8 and thread % 4 // 2 != selector:
                continue  # keeps what must not be looked at
            source = thread if bits == 8 else thread - 2 * selector
            word = 0
            for i in range(8):
                element = t[source, group * i]
                word |= int(codes[element % 64, element // 64 // group]) << 4 * i
            registers[thread] = word
        assert np.array_equal(metadata_codes(registers, selector, bits), codes)


# ----------------------------------------------------------------------------------------------------- results


def wgmma_kernel(
    shape: str, types: str, tail: str, *, from_registers: bool, count: int, size: int, sparse: str = "", groups: int = 1
) -> LoadedKernel:
    """`groups` warpgroups per CTA; each copies its A and B (bytes as they lie in shared memory) in, multiplies, writes
    its `count` registers of D out.
    """
    d = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    kind = types.split(".")[0]
    a = "{%a0, %a1, %a2, %a3}" if from_registers else "%rd10"
    half = kind == "f16"
    register = "b32" if half else kind if kind != "s32" else "s32"
    load_d = "\n".join(f"ld.global.b32 %d{i}, [%rd5+{4 * i}];" for i in range(count))
    store_d = "\n".join(f"st.global.b32 [%rd5+{4 * i}], %d{i};" for i in range(count))
    return load(f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 tiles, .param .u64 d, .param .u64 a, .param .u64 descA, .param .u64 descB,
    .param .u32 scale, .param .u64 e)
{{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<16>; .reg .{register} %d<{count}>; .reg .b32 %a<4>;
    .shared .align 1024 .b8 tile[{size * groups}]; .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [tiles]; ld.param.u64 %rd2, [d]; ld.param.u64 %rd3, [a]; ld.param.u64 %rd4, [e];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, {128 * groups}, %r1;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    mul.wide.u32 %rd6, %r2, {size * groups}; add.s64 %rd6, %rd1, %rd6;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {size * groups};
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd6], {size * groups}, [bar];
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
    mul.wide.u32 %rd7, %r3, {4 * count}; add.s64 %rd5, %rd2, %rd7;
    {load_d}
    mul.wide.u32 %rd8, %r3, 16; add.s64 %rd8, %rd3, %rd8;
    ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%rd8];
    mul.wide.u32 %rd9, %r3, 4; add.s64 %rd9, %rd4, %rd9; ld.global.b32 %r9, [%rd9];
    ld.param.u64 %rd10, [descA]; ld.param.u64 %rd11, [descB];
    mov.u32 %r4, tile; shr.u32 %r5, %r1, 7; mad.lo.u32 %r4, %r5, {size}, %r4;
    shr.u32 %r4, %r4, 4; cvt.u64.u32 %rd12, %r4;
    add.s64 %rd10, %rd10, %rd12; add.s64 %rd11, %rd11, %rd12;
    ld.param.u32 %r6, [scale]; setp.ne.u32 %p3, %r6, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async{".sp" if sparse else ""}.sync.aligned.{shape}.{types} {d}, {a}, %rd11, {sparse}%p3{tail};
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    {store_d}
    ret;
}}
""")["k"]


def place(matrix: np.ndarray, entry: dict[str, Any], tile: np.ndarray, at: int) -> None:
    """Write (rows, k) elements to a tile as an entry's layout says: by the formula, one element at a time."""
    rows, depth = matrix.shape
    size = matrix.itemsize
    swizzle = SMEM["swizzle_def"]["modes"][entry["swizzle"]]
    mask = ((1 << swizzle[0]) - 1) << (swizzle[1] + swizzle[2])
    width = {"NONE": 16, "32B": 32, "64B": 64}.get(entry["swizzle"], 128)
    lbo, sbo = entry["lbo_bytes"], entry["sbo_bytes"]
    for mn in range(rows):
        for k in range(depth):
            kb, mb = k * size, mn * size
            if entry["major"] == "K":
                a = mn % 8 * width + mn // 8 * sbo + (kb // 16 * lbo + kb % 16 if width == 16 else kb)
            elif width == 16:
                a = mb % 16 + mb // 16 * sbo + k % 8 * 16 + k // 8 * lbo
            else:
                a = mb % width + mb // width * lbo + k % 8 * width + k // 8 * sbo
            a += at
            a ^= (a & mask) >> swizzle[2]
            tile[a : a + size] = matrix[mn : mn + 1, k].view(np.uint8)


def descriptor(entry: dict[str, Any], start: int) -> int:
    code = {"NONE": 0, "128B": 1, "64B": 2, "32B": 3}[entry["swizzle"]]
    return start >> 4 | entry["lbo_bytes"] >> 4 << 16 | entry["sbo_bytes"] >> 4 << 32 | code << 62


def layout_for(major: str, swizzle: str, rows: int, k: int, size: int) -> dict[str, Any]:
    """A layout of a whole operand: atoms follow each other along M or N, then along K."""
    width = {"NONE": 16, "32B": 32, "64B": 64}.get(swizzle, 128)
    if major == "K":
        per = rows * width if swizzle != "NONE" else rows * 16
        return {"major": major, "swizzle": swizzle, "sbo_bytes": 8 * width, "lbo_bytes": per}
    if swizzle == "NONE":
        return {"major": major, "swizzle": swizzle, "sbo_bytes": 128, "lbo_bytes": rows * size // 16 * 128}
    return {
        "major": major,
        "swizzle": swizzle,
        "lbo_bytes": 8 * width,
        "sbo_bytes": -(-rows * size // width) * 8 * width,
    }


def d_registers(matrix: np.ndarray, n: int) -> np.ndarray:
    """D (64, n) as the registers of its 128 threads, by the table."""
    t = tv(next(e for e in WGMMA["D_layouts"] if e["n"] == n)["layout"])
    return np.ascontiguousarray(matrix.T.reshape(-1)[t]).view(np.uint32)


RESULTS: list[tuple[str, str, str, str, int, str, str, str, str]] = [
    # d, a, b types, A from, n, major and swizzle of A and B
    ("f32", "bf16", "bf16", "smem", 256, "K", "128B", "K", "128B"),
    ("f32", "f16", "f16", "smem", 64, "K", "64B", "K", "32B"),
    ("f32", "f16", "f16", "smem", 8, "K", "NONE", "K", "NONE"),
    ("f32", "bf16", "bf16", "smem", 136, "MN", "128B", "K", "NONE"),
    ("f32", "bf16", "bf16", "smem", 64, "K", "128B", "MN", "128B"),
    ("f32", "bf16", "bf16", "smem", 32, "MN", "32B", "MN", "64B"),
    ("f32", "f16", "f16", "smem", 16, "MN", "NONE", "MN", "NONE"),
    ("f16", "f16", "f16", "smem", 24, "K", "128B", "MN", "NONE"),
    ("f16", "f16", "f16", "registers", 96, "", "", "K", "64B"),
    ("f32", "bf16", "bf16", "registers", 128, "", "", "MN", "128B"),
    ("f32", "tf32", "tf32", "smem", 40, "K", "128B", "K", "64B"),
    ("f32", "tf32", "tf32", "registers", 16, "", "", "K", "NONE"),
    ("f32", "e4m3", "e5m2", "smem", 48, "K", "128B", "K", "32B"),
    ("f16", "e5m2", "e4m3", "registers", 8, "", "", "K", "NONE"),
    ("s32", "s8", "u8", "smem", 32, "K", "64B", "K", "128B"),
    ("s32", "u8", "u8", "registers", 224, "", "", "K", "128B"),
]


@pytest.mark.parametrize(
    ("dtype", "atype", "btype", "source", "n", "amajor", "aswizzle", "bmajor", "bswizzle"), RESULTS
)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_results(
    dtype: str, atype: str, btype: str, source: str, n: int, amajor: str, aswizzle: str, bmajor: str, bswizzle: str,
    signs: tuple[int, int],
) -> None:  # fmt: skip
    """Two CTAs of two warpgroups, each with operands of its own; small integers, so that all sums are exact."""
    if dtype == "s32" and signs != (1, 1):
        signs = (0, 0)  # accumulate off instead
    rng = np.random.default_rng()
    size = np.dtype(NUMPY[atype]).itemsize
    k = 32 // size
    groups = 4
    low = 0 if "u8" in (atype, btype) else -3
    a = rng.integers(low, 4, (groups, 64, k)).astype(NUMPY[atype])
    b = rng.integers(low, 4, (groups, n, k)).astype(NUMPY[btype])
    c = rng.integers(-9, 9, (groups, 64, n)).astype(NUMPY[dtype])
    space = -(-(64 + n) * 128 * 16 // 1024) * 1024
    tiles = np.zeros((groups, space), np.uint8)
    la = layout_for(amajor, aswizzle, 64, k, size) if source == "smem" else {}
    lb = layout_for(bmajor, bswizzle, n, k, size)
    size_a = 64 * 128
    start_b = 1024 * (-(-size_a // 1024))
    space = start_b + -(-n * 128 * 2 // 1024) * 1024
    tiles = np.zeros((groups, space), np.uint8)
    fragments = np.zeros((groups, 128, 4), np.uint32)
    for g in range(groups):
        if la:
            place(a[g], la, tiles[g], 0)
        else:
            t = tv(WGMMA["A_RS"][f"A_RS_64x{k}"]["layout"])
            fragments[g] = np.ascontiguousarray(a[g].T.reshape(-1)[t]).view(np.uint32)
        place(b[g], lb, tiles[g], start_b)
    registers = np.stack([d_registers(x, n) for x in c])
    integer = dtype == "s32"
    tail = "" if integer else f", {signs[0]}, {signs[1]}"
    if size == 2:
        tail += (f", {int(amajor == 'MN')}" if la else "") + f", {int(bmajor == 'MN')}"
    loaded = wgmma_kernel(
        f"m64n{n}k{k}", f"{dtype}.{atype}.{btype}", tail, from_registers=not la, count=registers.shape[-1], size=space,
        groups=2,
    )  # fmt: skip
    accumulate = int(signs != (0, 0))
    loaded.simulate(
        tiles, registers, fragments, descriptor(la, 0) if la else 0, descriptor(lb, start_b), accumulate,
        np.zeros(512, np.uint32), grid=2, block=256,
    )  # fmt: skip
    product = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    want = (signs[0] * signs[1] or 1) * product + accumulate * c.astype(np.float64)
    assert np.array_equal(registers, np.stack([d_registers(x.astype(NUMPY[dtype]), n) for x in want]))


def test_random_numbers_have_small_errors() -> None:
    """Normal numbers against float64: within the rounding of 17 float32 additions of terms of this size."""
    rng = np.random.default_rng()
    a, b = (rng.standard_normal((r, 16)).astype(ml_dtypes.bfloat16) for r in (64, 64))
    c = rng.standard_normal((64, 64)).astype(np.float32)
    layout = layout_for("K", "32B", 64, 16, 2)
    tile = np.zeros(1 << 14, np.uint8)
    place(a, layout, tile, 0)
    place(b, layout, tile, 8192)
    registers = d_registers(c, 64)
    loaded = wgmma_kernel("m64n64k16", "f32.bf16.bf16", ", 1, 1, 0, 0", from_registers=False, count=32, size=tile.size)
    loaded.simulate(
        tile, registers, np.zeros(512, np.uint32), descriptor(layout, 0), descriptor(layout, 8192), 1,
        np.zeros(128, np.uint32), grid=1, block=128,
    )  # fmt: skip
    x, y = a.astype(np.float64), b.astype(np.float64)
    want, bound = x @ y.T + c, (abs(x) @ abs(y).T + abs(c)) * 18 * 2.0**-24
    t = tv(next(e for e in WGMMA["D_layouts"] if e["n"] == 64)["layout"])
    got = np.empty(64 * 64)
    got[t.reshape(-1)] = registers.view(np.float32).reshape(-1)
    assert (abs(got.reshape(64, 64).T - want) <= bound).all()


@pytest.mark.parametrize(
    ("atype", "source"), [("f16", "smem"), ("bf16", "registers"), ("tf32", "smem"), ("s8", "registers")]
)
def test_sparse(atype: str, source: str) -> None:
    """A with its zeros left out against the dense product; metadata in the threads that the selector names."""
    rng = np.random.default_rng()
    size = np.dtype(NUMPY[atype]).itemsize
    k, n, group = 64 // size, 32, 2 if size == 4 else 4
    kept, codes = np.zeros((64, k // 2), NUMPY[atype]), np.zeros((64, k // group), np.uint32)
    dense = np.zeros((64, k), np.float64)
    for row in range(64):
        for g in range(k // group):
            if size == 4:
                at = [int(rng.integers(2))]
                codes[row, g] = 0b1110 if at[0] else 0b0100
            else:
                at = sorted(rng.choice(4, 2, replace=False).tolist())
                codes[row, g] = at[0] | at[1] << 2
            for i, x in enumerate(at):
                value = rng.integers(-4, 5)
                kept[row, g * len(at) + i] = value
                dense[row, g * group + x] = value
    b = rng.integers(-4, 5, (n, k)).astype(NUMPY[atype])
    selector = 1 if size != 1 else 0
    t = tv(WGMMA["E"][f"E_64x{k}"]["layout"])
    metadata = rng.integers(0, 1 << 32, 128, dtype=np.uint64).astype(np.uint32)
    for thread in range(128):
        if size == 1 or thread % 4 // 2 == selector:
            elements = t[thread if size == 1 else thread - 2 * selector, ::group][:8]
            metadata[thread] = sum(int(codes[e % 64, e // 64 // group]) << 4 * i for i, e in enumerate(elements))
    la, lb = layout_for("K", "128B", 64, k // 2, size), layout_for("K", "64B", n, k, size)
    tile = np.zeros(1 << 14, np.uint8)
    place(b, lb, tile, 8192)
    fragments = np.zeros((128, 4), np.uint32)
    if source == "smem":
        place(kept, la, tile, 0)
    else:
        rt = tv(WGMMA["A_RS"][f"A_RS_64x{k // 2}"]["layout"])
        fragments = np.ascontiguousarray(kept.T.reshape(-1)[rt]).view(np.uint32)
    dtype = "s32" if atype == "s8" else "f32"
    tail = "" if atype == "s8" else ", 1, 1" + (", 0" * (1 + (source == "smem")) if size == 2 else "")
    registers = d_registers(np.zeros((64, n), NUMPY[dtype]), n)
    loaded = wgmma_kernel(
        f"m64n{n}k{k}", f"{dtype}.{atype}.{atype}", tail, from_registers=source != "smem", count=n // 2, size=tile.size,
        sparse=f"%r9, {selector}, ",
    )  # fmt: skip
    loaded.simulate(tile, registers, fragments, descriptor(la, 0), descriptor(lb, 8192), 0, metadata, grid=1, block=128)
    want = dense @ b.astype(np.float64).T
    assert np.array_equal(registers, d_registers(want.astype(NUMPY[dtype]), n))


def test_saturating_integers() -> None:
    a = np.full((64, 32), 127, np.int8)
    b = np.full((8, 32), 127, np.int8)
    layout = layout_for("K", "32B", 64, 32, 1)
    tile = np.zeros(1 << 13, np.uint8)
    place(a, layout, tile, 0)
    place(b, layout, tile, 4096)
    for clamp, want in (("", (1 << 31) - 1 + 32 * 127**2 - (1 << 32)), (".satfinite", (1 << 31) - 1)):
        registers = d_registers(np.full((64, 8), (1 << 31) - 1, np.int32), 8)
        loaded = (
            wgmma_kernel("m64n8k32", "s32.s8.s8", "", from_registers=False, count=4, size=tile.size)
            if not clamp
            else load_clamped(tile.size)
        )
        loaded.simulate(
            tile, registers, np.zeros(512, np.uint32), descriptor(layout, 0), descriptor(layout, 4096), 1,
            np.zeros(128, np.uint32), grid=1, block=128,
        )  # fmt: skip
        assert (registers.view(np.int32) == want).all()


def load_clamped(size: int) -> LoadedKernel:
    return wgmma_kernel("m64n8k32.satfinite", "s32.s8.s8", "", from_registers=False, count=4, size=size)


def test_single_bits() -> None:
    rng = np.random.default_rng()
    a, b = rng.integers(0, 256, (64, 32)).astype(np.uint8), rng.integers(0, 256, (16, 32)).astype(np.uint8)
    layout = layout_for("K", "128B", 64, 32, 1)
    tile = np.zeros(1 << 14, np.uint8)
    place(a, layout, tile, 0)
    place(b, layout, tile, 8192)
    registers = d_registers(np.ones((64, 16), np.int32), 16)
    d = "{" + ", ".join(f"%d{i}" for i in range(8)) + "}"
    del d
    loaded = wgmma_kernel("m64n16k256", "s32.b1.b1.and.popc", "", from_registers=False, count=8, size=tile.size)
    loaded.simulate(
        tile, registers, np.zeros(512, np.uint32), descriptor(layout, 0), descriptor(layout, 8192), 1,
        np.zeros(128, np.uint32), grid=1, block=128,
    )  # fmt: skip
    want = np.bitwise_count(a[:, None, :] & b[None, :, :]).sum(-1, dtype=np.int32) + 1
    assert np.array_equal(registers, d_registers(want.astype(np.int32), 16))


def test_mistakes_are_named() -> None:
    loaded = wgmma_kernel("m64n8k16", "f32.f16.f16", ", 1, 1, 0, 0", from_registers=False, count=4, size=2048)
    arguments = np.zeros(2048, np.uint8), np.zeros(512, np.uint32), np.zeros(512, np.uint32)
    layout = layout_for("K", "128B", 64, 16, 2)
    with pytest.raises(SimulationError, match=r"reaches 0x[0-9a-f]+, out of bounds"):
        loaded.simulate(*arguments, descriptor(layout, 0), 0, 1, np.zeros(128, np.uint32), grid=1, block=128)
    with pytest.raises(SimulationError, match="needs all 128 threads of a warpgroup"):
        loaded.simulate(*arguments, 0, 0, 1, np.zeros(128, np.uint32), grid=1, block=96)
