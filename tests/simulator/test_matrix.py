"""mma, ldmatrix, stmatrix and movmatrix: fragments against tables from NVIDIA's own headers (layouts/),
results against NumPy.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pyptx.dialects.ptx.fragments import fragment
from pyptx.simulator import load

LAYOUTS = Path(__file__).resolve().parents[3] / "shared" / "layouts"
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8,
    "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@pytest.mark.corpus
def test_fragments_are_those_of_the_headers() -> None:
    data = json.loads((LAYOUTS / "mma_sync.json").read_text())
    checked = 0
    for op in data["ops"]:
        if op.get("threads") and isinstance(op["threads"], list):
            continue  # m8n8k4 of half precision, four quads
        if "SFA" in op or "sp" in op["ptx"].split("."):
            continue
        if any("sp::" in part or part == "sp" for part in op["ptx"].split(".")) or "E" in op:
            continue
        m, n, k = op["mnk"]
        for operand in "ABC":
            layout = data["layouts"][op[operand]]
            mine = fragment(operand, m, n, k, op["value_bits"][operand])
            columns = {"A": k, "B": n, "C": n}[operand]
            row, column = np.divmod(mine, columns)
            # A and C count down the columns, B along the rows
            theirs = np.array(layout["tv"])
            got = row + layout["rows"] * column if operand in "AC" else mine
            assert np.array_equal(got, theirs), (op["ptx"], operand)
            checked += 1
    assert checked > 100


CASES = [
    ("m16n8k16", "f32", "f16"), ("m16n8k16", "f16", "f16"), ("m16n8k8", "f32", "f16"), ("m16n8k16", "f32", "bf16"), ("m16n8k8", "f32", "bf16"),
    ("m16n8k8", "f32", "tf32"), ("m16n8k4", "f32", "tf32"), ("m8n8k4", "f64", "f64"), ("m16n8k16", "f64", "f64"), ("m16n8k32", "s32", "s8"),
    ("m16n8k16", "s32", "u8"), ("m8n8k16", "s32", "s8"), ("m16n8k32", "f32", "e4m3"), ("m16n8k32", "f32", "e5m2"),
]  # fmt: skip


def words(matrix: np.ndarray, table: np.ndarray, bits: int) -> np.ndarray:
    """A matrix (W, rows, columns) as the registers of its fragment: (W, 32, registers) of 32 or 64 bits."""
    values = np.ascontiguousarray(matrix.reshape(matrix.shape[0], -1)[:, table])
    return values.view(np.uint64 if bits == 64 else np.uint32)


@pytest.mark.parametrize(("shape", "dtype", "ab"), CASES)
def test_mma(shape: str, dtype: str, ab: str) -> None:
    """Several warps and CTAs; small integers as values, so that every sum is exact and must agree bit for
    bit.
    """
    rng = np.random.default_rng()
    warps = 6
    m, n, k = map(int, re.findall(r"\d+", shape))
    low = 0 if ab == "u8" else -4
    a, b = (rng.integers(low, 5, (warps, *s)).astype(NUMPY[ab]) for s in ((m, k), (k, n)))
    c = rng.integers(-20, 20, (warps, m, n)).astype(NUMPY[dtype])
    bits = np.dtype(NUMPY[ab]).itemsize * 8
    dbits = np.dtype(NUMPY[dtype]).itemsize * 8
    registers = [
        words(a, fragment("A", m, n, k, bits), bits), words(b, fragment("B", m, n, k, bits), bits),
        words(c, fragment("C", m, n, k, dbits), dbits),
    ]  # fmt: skip
    out = np.zeros_like(registers[2])
    size = 64 if bits == 64 else 32
    kind = {"f64": "f64", "f32": "f32"}.get(dtype, "b32")
    ab_kind = "f64" if ab == "f64" else "b32"
    loads, names = [], []
    for name, array, register_kind in zip("abc", registers, (ab_kind, ab_kind, kind), strict=True):
        count = array.shape[-1]
        names.append([f"%{name}{i}" for i in range(count)])
        loads.append(f".reg .{register_kind} %{name}<{count}>; .reg .b64 %p{name}; ld.param.u64 %p{name}, [{name}];")
        loads.append(f"mad.wide.u32 %p{name}, %t, {count * size // 8}, %p{name};")
        loads += [f"ld.global.{register_kind} %{name}{i}, [%p{name}+{i * size // 8}];" for i in range(count)]
    count = registers[2].shape[-1]
    targets = [f"%d{i}" for i in range(count)]
    braces = ["{" + ", ".join(x) + "}" for x in (targets, *names)]
    text = f"mma.sync.aligned.{shape}.row.col.{dtype}.{ab}.{ab}.{dtype} {', '.join(braces)};"
    kernel = f""".version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
    .reg .b32 %t, %x<3>; .reg .b64 %pd; .reg .{kind} %d<{count}>;
    mov.u32 %x0, %ctaid.x; mov.u32 %x1, %ntid.x; mov.u32 %x2, %tid.x; mad.lo.u32 %t, %x0, %x1, %x2;
    {chr(10).join(loads)}
    {text}
    ld.param.u64 %pd, [d];
    mad.wide.u32 %pd, %t, {count * size // 8}, %pd;
    {chr(10).join(f"st.global.{kind} [%pd+{i * size // 8}], %d{i};" for i in range(count))}
    ret;
}}
"""
    load(kernel)["k"].simulate(*registers, out, grid=warps // 2, block=64)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    want = words(exact.astype(NUMPY[dtype]), fragment("C", m, n, k, dbits), dbits)
    assert np.array_equal(out, want)


def matrix_kernel(body: str) -> str:
    return f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .b32 %r<20>; .reg .b64 %rd<8>;
    .shared .align 16 .b8 s[512];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst];
    mov.u32 %r1, %tid.x; mov.u32 %r2, s;
    shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3;
    mul.wide.u32 %rd3, %r1, 16; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
{body}
    ret;
}}
"""


@pytest.mark.corpus
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix(trans: bool, count: int) -> None:
    """Every byte of every register comes from, or goes to, the byte that the table names."""
    data = json.loads((LAYOUTS / "ldmatrix.json").read_text())
    name = f"ldmatrix.sync.aligned.x{count}{'.trans' if trans else ''}.m8n8.shared.b16"
    op = next(o for o in data["ops"] if sorted(o["ptx"].split(".")) == sorted(name.split(".")))
    source = np.random.default_rng(count).integers(0, 256, (32, 16)).astype(np.uint8)
    registers = "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"
    moved = ".trans" if trans else ""
    stores = "\n".join(f"st.global.u32 [%rd5+{4 * i}], %r{10 + i};" for i in range(count))
    body = f"""
    ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd4];
    st.shared.v4.u32 [%r4], {{%r10, %r11, %r12, %r13}};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x{count}{moved}.shared.b16 {registers}, [%r4];
    {stores}"""
    out = np.zeros((32, 16), np.uint8)
    load(matrix_kernel(body))["k"].simulate(source, out, grid=1, block=32)
    for thread, flat in enumerate(op["reg_bytes"]):
        for i in range(4 * count):
            assert out[thread, i] == source[flat[2 * i], flat[2 * i + 1]]
    # the way back: stmatrix of what ldmatrix gave restores the rows
    loads = "\n".join(f"ld.global.u32 %r{10 + i}, [%rd4+{4 * i}];" for i in range(count))
    body = f"""
    mov.u32 %r9, 0;
    st.shared.v4.u32 [%r4], {{%r9, %r9, %r9, %r9}};
    bar.sync 0;
    {loads}
    stmatrix.sync.aligned.m8n8.x{count}{moved}.shared.b16 [%r4], {registers};
    bar.sync 0;
    ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r4];
    st.global.v4.u32 [%rd5], {{%r10, %r11, %r12, %r13}};"""
    back = np.zeros((32, 16), np.uint8)
    load(matrix_kernel(body))["k"].simulate(out, back, grid=1, block=32)
    assert np.array_equal(back[: 8 * count], source[: 8 * count])
    assert not back[8 * count :].any()


def test_movmatrix_transposes() -> None:
    source = np.random.default_rng(0).integers(0, 2**16, (8, 8)).astype(np.uint16)
    registers = np.zeros((32, 4), np.uint32)
    registers[:, 0] = source.reshape(-1).view(np.uint32)
    out = np.zeros((32, 4), np.uint32)
    body = """
    ld.global.u32 %r10, [%rd4];
    movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;
    st.global.u32 [%rd5], %r11;"""
    load(matrix_kernel(body))["k"].simulate(registers, out, grid=1, block=32)
    assert np.array_equal(np.ascontiguousarray(out[:, 0]).view(np.uint16).reshape(8, 8), source.T)
