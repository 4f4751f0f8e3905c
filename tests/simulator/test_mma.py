"""mma and wmma: every form of NVIDIA's tables (layouts/mma_sync.json) and those of the manual, against NumPy.

Operands are packed into registers by the tables, never by the simulator's own functions.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx.simulator import load

LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"


def table(name: str) -> Any:
    return json.loads(gzip.decompress((LAYOUTS / f"{name}.json.gz").read_bytes()))


MMA = table("mma_sync")
LDMATRIX = table("ldmatrix")
FORMATS = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64, "s8": np.int8,
    "u8": np.uint8, "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


def random_values(kind: str, shape: Sequence[int]) -> np.ndarray:
    """Values whose products and sums are exact, as float64."""
    rng = np.random.default_rng()
    low, high = {"u8": (0, 9), "u4": (0, 16), "s4": (-8, 8), "b1": (0, 2), "e2m1": (-2, 3)}.get(kind, (-4, 5))
    return rng.integers(low, high, shape).astype(np.float64)


def patterns(values: np.ndarray, kind: str, bits: int) -> np.ndarray:
    """Bit patterns of `bits` (or its container) as uint64."""
    if kind in ("u4", "s4", "b1"):
        return values.astype(np.int64).astype(np.uint64) & np.uint64((1 << bits) - 1)
    made = values.astype(FORMATS[kind])
    raw = made.view(np.dtype(f"u{made.dtype.itemsize}")).astype(np.uint64)
    return raw << np.uint64(2) if kind == "e2m1" and bits == 8 else raw


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """(threads, values) of `bits` as 32 or 64 bit registers, lowest first."""
    if bits == 64:
        return values
    per = 32 // bits
    parts = values.reshape(values.shape[0], -1, per) << (np.arange(per, dtype=np.uint64) * np.uint64(bits))
    return np.bitwise_or.reduce(parts, axis=-1).astype(np.uint32)


def fragment(op: dict[str, Any], which: str, matrix: np.ndarray, kind: str) -> np.ndarray:
    """A matrix (rows, columns) as the registers of 32 threads, by the table. Four matrices for the quad pairs."""
    layout = MMA["layouts"][op[which]]
    bits = op["value_bits"][which]
    threads = op["threads"]
    tv = np.array(layout["tv"])

    def one(m: np.ndarray) -> np.ndarray:
        flat = m.reshape(-1) if which == "B" else m.T.reshape(-1)
        return packed(patterns(flat[tv], kind, bits), bits)

    if threads == "lane":
        return one(matrix)
    out = np.zeros((32, one(matrix[0]).shape[1]), np.uint32)
    for q in range(4):
        out[np.array(threads) + 4 * q] = one(matrix[q])
    return out


def run(text: str, inputs: list[tuple[str, str, np.ndarray]], out: np.ndarray, kind: str, target: str) -> np.ndarray:
    """Run one instruction in one warp. inputs: (name, register class, registers of the threads); `{d}`, `{a}` ... stand
    for the vectors in `text`.
    """
    names: dict[str, str] = {}
    lines: list[str] = []
    arguments: list[np.ndarray] = []
    for name, register, array in inputs:
        count, size = array.shape[1], array.itemsize
        names[name] = "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"
        lines.append(f".reg .{register} %{name}<{count}>; .reg .b64 %p{name}; ld.param.u64 %p{name}, [{name}];")
        lines.append(f"mad.wide.u32 %p{name}, %t, {count * size}, %p{name};")
        lines += [f"ld.global.{register} %{name}{i}, [%p{name}+{i * size}];" for i in range(count)]
        arguments.append(np.ascontiguousarray(array))
    count, size = out.shape[1], out.itemsize
    names["d"] = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    body = re.sub(r"<(\w+)>", lambda m: names[m[1]], text)
    parameters = ", ".join(f".param .u64 {name}" for name in (*(i[0] for i in inputs), "d"))
    kernel = f""".version 9.1
.target {target}
.address_size 64
.visible .entry k({parameters})
{{
    .reg .b32 %t; .reg .b64 %pd; .reg .{kind} %d<{count}>;
    mov.u32 %t, %tid.x;
    {chr(10).join(lines)}
    {body};
    ld.param.u64 %pd, [d]; mad.wide.u32 %pd, %t, {count * size}, %pd;
    {chr(10).join(f"st.global.{kind} [%pd+{i * size}], %d{i};" for i in range(count))}
    ret;
}}
"""
    load(kernel)["k"].simulate(*arguments, out, grid=1, block=32)
    return out


def target_of(ptx: str) -> str:
    if "f8f6f4" in ptx or "mxf4" in ptx:
        return "sm_120a"
    return "sm_70" if "m8n8k4" in ptx and "f64" not in ptx else "sm_90"


def random_sparse(rows: int, k: int, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """(which of each group of 4 * unit are kept, as a mask of (rows, k); the 4-bit codes (rows, groups))."""
    rng = np.random.default_rng()
    groups = k // (4 * unit)
    first = np.sort(np.argsort(rng.random((rows, groups, 4)), axis=-1)[..., :2], axis=-1)
    mask = np.zeros((rows, groups, 4), np.bool_)
    np.put_along_axis(mask, first, True, axis=-1)
    return np.repeat(mask, unit, axis=-1).reshape(rows, k), (first[..., 0] | first[..., 1] << 2).astype(np.uint32)


def ids(op: dict[str, Any]) -> str:
    return op["ptx"].removeprefix("mma.").replace("sync.aligned.", "")


@pytest.mark.parametrize("op", MMA["ops"], ids=ids)
def test_forms_of_the_tables(op: dict[str, Any]) -> None:
    words = op["ptx"].split(".")
    m, n, k = op["mnk"]
    kinds = [w for w in words if w in FORMATS or w in ("u4", "s4", "b1")]
    dtype, atype, btype, ctype = kinds[:4]
    quads = isinstance(op["threads"], list)
    lead = (4,) if quads else ()
    a, b, c = (random_values(t, (*lead, *s)) for t, s in ((atype, (m, k)), (btype, (k, n)), (ctype, (m, n))))
    sparse, scaled = "E" in op, "SFA" in op
    inputs: list[tuple[str, str, np.ndarray]] = []
    d_bits = op["value_bits"]["D"]
    kind = {"f64": "f64", "f32": "f32"}.get(dtype, "b32")
    if sparse:
        unit = 2 if "mxf4" in op["ptx"] else 1
        mask, codes = random_sparse(m, k, unit)
        stored = a.reshape(-1)[mask.reshape(-1)].reshape(m, k // 2)
        a = np.where(mask, a, 0)
        # a sparse A is laid out as a dense one of half the depth
        t = np.array(MMA["layouts"][op["A"]]["tv"])
        row, column = t % m, t // m
        bits = 4 if unit == 2 else 8
        step = 2 if unit == 1 else 4  # logical elements per stored element, or per stored byte
        places = stored[row, column // 2] if unit == 1 else None
        if places is not None:
            keep = places[:, ::step] if np.array_equal(column[:, ::step] // 2, column[:, 1::step] // 2) else places
            registers = packed(patterns(keep, atype, bits), bits)
        else:
            chosen = stored[row, column // 2]
            registers = packed(patterns(chosen[:, ::2], atype, bits), bits)
        inputs.append(("a", "b32", registers))
    else:
        inputs.append(("a", "f64" if atype == "f64" else "b32", fragment(op, "A", a, atype)))
    inputs.append(("b", "f64" if btype == "f64" else "b32", fragment(op, "B", b, btype)))
    inputs.append(("c", {"f64": "f64", "f32": "f32"}.get(ctype, "b32"), fragment(op, "C", c, ctype)))
    text = f"{op['ptx']} <d>, <a>, <b>, <c>"
    text = re.sub(
        r"mma\.sync\.aligned((?:\.kind::\w+)?)\.sp::ordered_metadata", r"mma.sp::ordered_metadata.sync.aligned\1", text
    )
    if "kind::" in text:  # the manual's order of modifiers
        head = re.match(r"(mma(?:\.sp::ordered_metadata)?\.sync\.aligned)\.(.*) <d>", text)
        assert head
        rest = head[2].split(".")
        front = [w for w in rest if re.fullmatch(r"m\d+n\d+k\d+", w)] + [w for w in rest if w in ("row", "col")]
        others = [w for w in rest if w not in front]
        text = ".".join([head[1], *front, *others]) + text[text.index(" <d>") :]
    if sparse:
        e = np.array(MMA["layouts"][op["E"]]["tv"])
        per = 8 if unit == 2 else 4
        group = codes[e[:, ::per] % m, e[:, ::per] // m // per]
        inputs.append(("e", "b32", packed(group.astype(np.uint64), 4)))
        text += ", %e0, 0x0"
    if scaled:
        stype = words[-1]
        sfk = {"b8": 1, "b16": 2, "b32": 4}[op["regs"]["SFA"][0]]
        if sparse and unit == 2 and "4X" in op["ptx"]:
            sfk = 4
        rng = np.random.default_rng()
        for name, extent_ in (("SFA", m), ("SFB", n)):
            factors = 2.0 ** rng.integers(-2, 3, (extent_, sfk))
            layout = np.array(MMA["layouts"][op[name]]["tv"])
            outer = layout[:, 0] % extent_
            raw = patterns(factors, stype, 8)[outer]
            junk = rng.integers(0, 256, (32, 4)).astype(np.uint64)
            junk[:, :sfk] = raw
            thread = np.arange(32) % 4
            owner = thread < 2 if name == "SFA" else thread == 0
            junk[~owner] = rng.integers(0, 256, (int((~owner).sum()), 4))
            inputs.append((name.lower(), "b32", packed(junk, 8)))
            wide = np.repeat(factors, k // sfk, axis=1)
            if name == "SFA":
                a = a * wide
            else:
                b = b * wide.T
            text += f", %{name.lower()}0, {{0, 0}}"
    if words[-1] == "popc":
        x, y = a.astype(np.int64), b.astype(np.int64)
        want = (x @ (1 - y) + (1 - x) @ y if "xor" in words else x @ y) + c
    else:
        want = a @ b + c
    expected = fragment(op, "C" if d_bits == op["value_bits"]["C"] else "D", want, dtype)
    got = run(text, inputs, np.zeros_like(expected), kind, target_of(op["ptx"]))
    assert np.array_equal(got, expected)


SPARSE = [
    # shape, D type, A type, how many selectors
    ("m16n8k16", "f32", "f16", 4), ("m16n8k32", "f16", "f16", 2), ("m16n8k16", "f32", "bf16", 4), ("m16n8k32", "f32", "bf16", 2),
    ("m16n8k8", "f32", "tf32", 4), ("m16n8k16", "f32", "tf32", 2), ("m16n8k32", "s32", "s8", 2), ("m16n8k64", "s32", "u8", 1),
    ("m16n8k64", "s32", "s4", 2), ("m16n8k128", "s32", "u4", 1), ("m16n8k64", "f32", "e4m3", 1),
]  # fmt: skip


def dense_fragment(which: str, matrix: np.ndarray, kind: str, bits: int) -> np.ndarray:
    """Registers of a fragment by the formulas of the manual (9.7.16.5): groups of 4 lanes are rows of A and C and
    columns of B; a register holds 32 / bits neighbours.
    """
    lane = np.arange(32)
    group, thread = lane // 4, lane % 4
    rows, columns = matrix.shape
    raw = patterns(matrix, kind, bits)
    per = 32 // bits
    if which == "C":
        v = np.arange(rows * columns // 32)
        return packed(raw[group[:, None] + 8 * (v // 2), 2 * thread[:, None] + v % 2], bits)
    registers = []
    if which == "A":
        for r in range(rows * columns // 32 // per):
            i = thread[:, None] * per + np.arange(per) + (r // 2) * 4 * per
            registers.append(packed(raw[group[:, None] + 8 * (r % 2), i], bits))
    else:
        for r in range(rows * columns // 32 // per):
            i = thread[:, None] * per + np.arange(per) + r * 4 * per
            registers.append(packed(raw[i, group[:, None]], bits))
    return np.concatenate(registers, axis=1)


@pytest.mark.parametrize(("shape", "dtype", "atype", "selectors"), SPARSE)
@pytest.mark.parametrize("ordered", [False, True])
def test_sparse(shape: str, dtype: str, atype: str, selectors: int, ordered: bool) -> None:
    """The forms without a table: metadata as the figures of the manual (9.7.16.6.1) place it."""
    m, n, k = map(int, re.findall(r"\d+", shape))
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "s4": 4, "u4": 4}.get(atype, 8)
    a, b, c = random_values(atype, (m, k)), random_values(atype, (k, n)), random_values(dtype, (m, n))
    rng = np.random.default_rng()
    if bits == 32:
        second = rng.integers(0, 2, (m, k // 2))
        mask = np.stack([second == 0, second == 1], axis=-1).reshape(m, k)
        codes = np.where(second, 0b1110, 0b0100).astype(np.uint32)
    else:
        mask, codes = random_sparse(m, k, 2 if bits == 4 else 1)
    stored = a.reshape(-1)[mask.reshape(-1)].reshape(m, k // 2)
    groups = codes.shape[1]
    for selector in range(selectors):
        e = rng.integers(0, 1 << 32, 32, dtype=np.uint64)
        for lane in range(32):
            row, thread = divmod(lane, 4)
            if groups == 4:
                parts = [codes[row], codes[row + 8]] if thread == selector else None
            elif groups == 8:
                half = thread % 2
                mine = thread // 2 == selector
                parts = [codes[r, 4 * half : 4 * half + 4] for r in (row, row + 8)] if mine else None
            else:
                parts = [codes[row + 8 * (thread % 2), 8 * (thread // 2) : 8 * (thread // 2) + 8]]
            if parts is not None:
                e[lane] = sum(int(x) << 4 * i for i, x in enumerate(np.concatenate(parts)))
        inputs = [
            ("a", "b32", dense_fragment("A", stored, atype, bits)), ("b", "b32", dense_fragment("B", b, atype, bits)),
            ("c", "f32" if dtype == "f32" else "b32", dense_fragment("C", c, dtype, 16 if dtype == "f16" else 32)),
            ("e", "b32", e.astype(np.uint32)[:, None]),
        ]  # fmt: skip
        want = np.where(mask, a, 0) @ b + c
        expected = dense_fragment("C", want, dtype, 16 if dtype == "f16" else 32)
        word = "sp::ordered_metadata" if ordered else "sp"
        text = f"mma.{word}.sync.aligned.{shape}.row.col.{dtype}.{atype}.{atype}.{dtype} <d>, <a>, <b>, <c>, %e0, {selector}"
        got = run(text, inputs, np.zeros_like(expected), "f32" if dtype == "f32" else "b32", "sm_90")
        assert np.array_equal(got, expected), selector


@pytest.mark.parametrize("byte", [0, 1, 2, 3])
@pytest.mark.parametrize("threads", [(0, 0), (1, 3), (0, 2)])
def test_scale_selectors(byte: int, threads: tuple[int, int]) -> None:
    """Which byte of which threads the scale factors come from (9.7.16.3)."""
    rng = np.random.default_rng()
    a, b = random_values("e4m3", (16, 32)), random_values("e4m3", (32, 8))
    words = {name: rng.integers(120, 132, (32, 4)).astype(np.uint64) for name in ("x", "y")}
    factor_a, factor_b = np.zeros(16), np.zeros(8)
    for i in range(16):
        factor_a[i] = 2.0 ** (float(words["x"][4 * (i % 8) + 2 * threads[0] + i // 8, byte]) - 127)
    for i in range(8):
        factor_b[i] = 2.0 ** (float(words["y"][4 * i + threads[1], byte]) - 127)
    want = (a * factor_a[:, None]) @ (b * factor_b)
    expected = dense_fragment("C", want, "f32", 32)
    inputs = [
        ("a", "b32", dense_fragment("A", a, "e4m3", 8)), ("b", "b32", dense_fragment("B", b, "e4m3", 8)),
        ("c", "f32", np.zeros((32, 4), np.float32)), ("x", "b32", packed(words["x"], 8)), ("y", "b32", packed(words["y"], 8)),
    ]  # fmt: skip
    text = (
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0"
        f" <d>, <a>, <b>, <c>, %x0, {{{byte}, {threads[0]}}}, %y0, {{{byte}, {threads[1]}}}"
    )
    got = run(text, inputs, np.zeros((32, 4), np.uint32), "f32", "sm_120a")
    assert np.array_equal(got, expected)


def test_double_precision_rounds_as_asked() -> None:
    """One product: a * b + c rounded up and down differ by one unit where it is inexact."""
    rng = np.random.default_rng()
    a, b, c = (np.zeros(s) for s in ((8, 4), (4, 8), (8, 8)))
    a[:, 2], b[2], c[...] = rng.random(8), rng.random(8), rng.random((8, 8))
    results: dict[str, np.ndarray] = {}
    for rounding in ("rn", "rz", "rm", "rp"):
        lane = np.arange(32)
        inputs = [
            ("a", "f64", a[lane // 4, lane % 4][:, None]), ("b", "f64", b[lane % 4, lane // 4][:, None]),
            ("c", "f64", np.stack([c[lane // 4, 2 * (lane % 4) + i] for i in range(2)], axis=1)),
        ]  # fmt: skip
        text = f"mma.sync.aligned.m8n8k4.row.col.{rounding}.f64.f64.f64.f64 <d>, <a>, <b>, <c>"
        results[rounding] = run(text, inputs, np.zeros((32, 2)), "f64", "sm_90").copy()
    exact = [
        [Fraction(a[r, 2]) * Fraction(b[2, x]) + Fraction(c[r, x]) for x in (2 * (t % 4), 2 * (t % 4) + 1)]
        for t, r in ((t, t // 4) for t in range(32))
    ]
    for t in range(32):
        for i in range(2):
            low, high = results["rm"][t, i], results["rp"][t, i]
            assert Fraction(low) <= exact[t][i] <= Fraction(high)
            assert high in (low, np.nextafter(low, np.inf))
            assert results["rz"][t, i] == low
            assert results["rn"][t, i] in (low, high)


@pytest.mark.parametrize(
    ("instruction", "shape"),
    [
        ("mma.sync.aligned.m8n8k4.row.col{}.f64.f64.f64.f64", (8, 8, 4)),
        ("mma.sync.aligned.m16n8k4.row.col{}.f64.f64.f64.f64", (16, 8, 4)),
        ("mma.sync.aligned.m16n8k8.row.col{}.f64.f64.f64.f64", (16, 8, 8)),
        ("mma.sync.aligned.m16n8k16.row.col{}.f64.f64.f64.f64", (16, 8, 16)),
    ],
)
def test_double_precision_is_a_chain_of_fma(instruction: str, shape: tuple[int, int, int]) -> None:
    """K ascending, from C on: published measurements of A100 to B200. Checked against fma in exact rationals."""
    m, n, k = shape
    rng = np.random.default_rng(m + k)
    a, b, c = (rng.standard_normal(s) * 2.0 ** rng.integers(-20, 20, s) for s in ((m, k), (k, n), (m, n)))
    a[0, :2], b[:2, 0], c[0, 0] = (
        (2.0**53, 1.0),
        1.0,
        -(2.0**53),
    )  # 1 in this order, 0 where the products are added first
    a[0, 2:] = 0
    wanted = c.copy()
    for r, x in np.ndindex(m, n):
        for i in range(k):
            wanted[r, x] = float(Fraction(a[r, i]) * Fraction(b[i, x]) + Fraction(wanted[r, x]))
    lane = np.arange(32)
    group, member = lane // 4, lane % 4
    rows = np.arange(0, m, 8)
    ks = np.arange(0, k, 4)
    left = np.stack([a[group + r, member + i] for i in ks for r in rows], axis=1)
    right = np.stack([b[member + i, group] for i in ks], axis=1)
    places = [(r, i) for r in rows for i in range(2)]
    start = np.stack([c[group + r, 2 * member + i] for r, i in places], axis=1)
    for rounding in ("", ".rn"):
        text = instruction.format(rounding) + " <d>, <a>, <b>, <c>"
        inputs = [("a", "f64", left), ("b", "f64", right), ("c", "f64", start)]
        got = run(text, inputs, np.zeros((32, len(places))), "f64", "sm_90")
        assert np.array_equal(got, np.stack([wanted[group + r, 2 * member + i] for r, i in places], axis=1))
    assert wanted[0, 0] == 1.0


# -------------------------------------------------------------------------------------------------------- wmma

CUBES = ("m16n16k16", "m8n32k16", "m32n8k16")
WMMA = [
    *((s, d, "f16", c) for s in CUBES for d, c in (("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("f16", "f32"))),
    *((s, "f32", "bf16", "f32") for s in CUBES), *((s, "s32", "s8", "s32") for s in CUBES), ("m16n16k16", "s32", "u8", "s32"),
    ("m16n16k8", "f32", "tf32", "f32"), ("m8n8k4", "f64", "f64", "f64"), ("m8n8k32", "s32", "s4", "s32"),
    ("m8n8k32", "s32", "u4", "s32"), ("m8n8k128", "s32", "b1", "s32"),
]  # fmt: skip
COUNTS = {"f16": 8, "tf32": 4, "f64": 1}


@pytest.mark.parametrize(("shape", "dtype", "ab", "ctype"), WMMA)
@pytest.mark.parametrize("layouts", [("row", "col"), ("col", "row")])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_wmma(shape: str, dtype: str, ab: str, ctype: str, layouts: tuple[str, str], space: str) -> None:
    """Load, multiply and store, with a stride that is larger than the matrix."""
    if ab in ("s4", "u4", "b1"):
        layouts = ("row", "col")
    m, n, k = map(int, re.findall(r"\d+", shape))
    bits = {"s4": 4, "u4": 4, "b1": 1}.get(ab, 0)
    a, b, c = random_values(ab, (m, k)), random_values(ab, (k, n)), random_values(ctype, (m, n))
    pad = 128 if bits == 1 else 32 if bits else 8

    def stored(matrix: np.ndarray, layout: str, kind: str) -> tuple[np.ndarray, int]:
        order = matrix if layout == "row" else matrix.T
        wide = np.zeros((order.shape[0], order.shape[1] + pad))
        wide[:, : order.shape[1]] = order
        if kind in ("s4", "u4", "b1"):
            width = 4 if kind != "b1" else 1
            raw = packed(patterns(wide, kind, width), width)
            return raw.view(np.uint8).reshape(order.shape[0], -1), wide.shape[1]
        return wide.astype(FORMATS[kind]), wide.shape[1]

    (sa, la), (sb, lb), (sc, lc) = stored(a, layouts[0], ab), stored(b, layouts[1], ab), stored(c, "row", ctype)
    out, ld = stored(np.zeros((m, n)), "col", dtype)

    def count(which: str, kind: str) -> int:
        if kind == "f16" and which in "ab":
            return 8
        size = {"a": m * k, "b": k * n}.get(which, m * n) // 32
        width = bits if bits and which in "ab" else np.dtype(FORMATS[kind]).itemsize * 8
        return size if width == 64 else max(1, size * width // 32)

    def names(which: str, kind: str) -> str:
        return "{" + ", ".join(f"%{which}{i}" for i in range(count(which, kind))) + "}"

    def register(kind: str) -> str:
        return {"f32": "f32", "f64": "f64"}.get(kind, "b32")

    types = f"{dtype}.{ctype}" if ab == "f16" else f"{dtype}.{ab}.{ab}.{ctype}"
    mma = (
        f"wmma.mma.xor.popc.sync.aligned.row.col.{shape}"
        if ab == "b1"
        else f"wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}"
    )
    size = sa.nbytes + sb.nbytes
    moved = ""
    pa, pb = "%rd1", "%rd2"
    if space == "shared":
        moved = f"""
    .shared .align 128 .b8 s[{size}]; .reg .b8 %w;
    mov.u32 %r0, 0;
$l: cvt.u64.u32 %rd7, %r0; add.s64 %rd8, %rd1, %rd7; ld.global.u8 %r1, [%rd8];
    mov.u32 %r2, s; add.u32 %r2, %r2, %r0; st.shared.u8 [%r2], %r1;
    add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, {sa.nbytes}; @%p0 bra $l;
    mov.u32 %r0, 0;
$m: cvt.u64.u32 %rd7, %r0; add.s64 %rd8, %rd2, %rd7; ld.global.u8 %r1, [%rd8];
    mov.u32 %r2, s; add.u32 %r2, %r2, %r0; st.shared.u8 [%r2+{sa.nbytes}], %r1;
    add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, {sb.nbytes}; @%p0 bra $m;
    mov.u32 %r3, s;"""
        pa, pb = "%r3", f"%r3+{sa.nbytes}"
    kernel = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 lda)
{{
    .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<2>;
    .reg .{register(ab) if ab == "f64" else "b32"} %a<9>, %b<9>; .reg .{register(ctype)} %c<9>; .reg .{register(dtype)} %d<9>;
    ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pb]; ld.param.u64 %rd3, [pc]; ld.param.u64 %rd4, [pd]; ld.param.u32 %r8, [lda];
    {moved}
    wmma.load.a.sync.aligned.{layouts[0]}.{shape}.{space}.{ab} {names("a", ab)}, [{pa}], %r8;
    wmma.load.b.sync.aligned.{layouts[1]}.{shape}.{space}.{ab} {names("b", ab)}, [{pb}], {lb};
    wmma.load.c.sync.aligned.row.{shape}.global.{ctype} {names("c", ctype)}, [%rd3], {lc};
    {mma}.{types} {names("d", dtype)}, {names("a", ab)}, {names("b", ab)}, {names("c", ctype)};
    wmma.store.d.sync.aligned.col.{shape}.{dtype} [%rd4], {names("d", dtype)}, {ld};
    ret;
}}
"""
    load(kernel)["k"].simulate(sa, sb, sc, out, la, grid=1, block=32)
    if ab == "b1":
        x, y = a.astype(np.int64), b.astype(np.int64)
        want = x @ (1 - y) + (1 - x) @ y + c
    else:
        want = a @ b + c
    assert np.array_equal(out[:, :m].T, want.astype(FORMATS[dtype]))
    assert not out[:, m:].any()


# ----------------------------------------------------------------------------------------------------- ldmatrix


@pytest.mark.parametrize("op", LDMATRIX["ops"], ids=lambda op: op["ptx"])
def test_ldmatrix_and_stmatrix(op: dict[str, Any]) -> None:
    """Every byte of every register comes from, or goes to, the byte of the row that the table names."""
    words = op["ptx"].split(".")
    count = len(op["reg_bytes"][0]) // 8
    shape = next(w for w in words if re.fullmatch(r"m\d+n\d+", w))
    num = next(w for w in words if re.fullmatch(r"x\d", w))
    trans = ".trans" if "trans" in words else ""
    rows = np.random.default_rng().integers(0, 256, (32, 16)).astype(np.uint8)
    expanded = rows.copy()
    if "b4x16_p64" in words:
        expanded = np.stack([rows[:, :8] & 15, rows[:, :8] >> 4], axis=-1).reshape(32, 16)
    elif "b6x16_p32" in words:
        wide = [int.from_bytes(row[:12].tobytes(), "little") for row in rows]
        expanded = np.array([[w >> 6 * i & 63 for i in range(16)] for w in wide], np.uint8)
    registers = "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"
    tail = ".".join(w for w in words if w in ("b16", "b8", "b8x16", "b4x16_p64", "b6x16_p32"))
    loads = words[0] == "ldmatrix"
    target = "sm_100a" if (loads and shape != "m8n8") or shape == "m16n8" else "sm_90"
    moves = "\n".join(
        f"{'st' if loads else 'ld'}.global.u32 {f'[%rd4+{4 * i}], %r{10 + i}' if loads else f'%r{10 + i}, [%rd3+{4 * i}]'};"
        for i in range(count)
    )
    if loads:
        body = f"""
    ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd3]; st.shared.v4.u32 [%r5], {{%r1, %r2, %r3, %r4}};
    bar.sync 0;
    ldmatrix.sync.aligned.{shape}.{num}{trans}.shared.{tail} {registers}, [%r5];
    {moves}"""
    else:
        body = f"""
    {moves}
    mov.u32 %r1, 0; st.shared.v4.u32 [%r5], {{%r1, %r1, %r1, %r1}};
    bar.sync 0;
    stmatrix.sync.aligned.{shape}.{num}{trans}.shared.{tail} [%r5], {registers};
    bar.sync 0;
    ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%r5]; st.global.v4.u32 [%rd4], {{%r1, %r2, %r3, %r4}};"""
    kernel = f""".version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .b32 %r<20>; .reg .b64 %rd<8>;
    .shared .align 16 .b8 s[512];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst];
    mov.u32 %r9, %tid.x; mov.u32 %r5, s; shl.b32 %r6, %r9, 4; add.s32 %r5, %r5, %r6;
    mul.wide.u32 %rd5, %r9, 16; add.s64 %rd3, %rd1, %rd5; add.s64 %rd4, %rd2, %rd5;
{body}
    ret;
}}
"""
    out = np.zeros((32, 16), np.uint8)
    load(kernel)["k"].simulate(rows, out, grid=1, block=32)
    want = np.zeros((32, 16), np.uint8)
    for thread, flat in enumerate(op["reg_bytes"]):
        for i in range(4 * count):
            row, byte = flat[2 * i], flat[2 * i + 1]
            if loads:
                want[thread, i] = expanded[row, byte]
            else:
                want[row, byte] = rows[thread, i]
    assert np.array_equal(out[:, : 4 * count] if loads else out, want[:, : 4 * count] if loads else want)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_of_packed_signed_nibbles(count: int) -> None:
    """m8n16, .s8.s4: element j of row i of matrix n is, as a byte, byte j % 4 of register n of thread 4i + j / 4. Rows
    are 8 bytes, elements in order from the low bits. That is what vLLM's test of the instruction finds on the hardware."""
    packed = np.random.default_rng().integers(0, 256, (8 * count, 8)).astype(np.uint8)
    registers = "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"
    stores = "\n".join(f"st.global.u32 [%rd4+{4 * i}], %r{10 + i};" for i in range(count))
    kernel = f""".version 9.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p1;
    .shared .align 8 .b8 s[256];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst];
    mov.u32 %r9, %tid.x; mov.u32 %r4, s; shl.b32 %r6, %r9, 3; add.s32 %r5, %r4, %r6;
    mul.wide.u32 %rd5, %r9, 8; add.s64 %rd3, %rd1, %rd5; mul.wide.u32 %rd5, %r9, {4 * count}; add.s64 %rd4, %rd2, %rd5;
    setp.lt.u32 %p1, %r9, {8 * count};
    @%p1 ld.global.b64 %rd6, [%rd3];
    @%p1 st.shared.b64 [%r5], %rd6;
    bar.sync 0;
    ldmatrix.sync.aligned.m8n16.x{count}.shared::cta.s8.s4 {registers}, [%r5];
    {stores}
    ret;
}}
"""
    out = np.full((32, count, 4), 77, np.int8)
    report = load(kernel)["k"].simulate(packed, out, grid=1, block=32, check=True)
    assert not report.findings
    values = np.stack([packed & 15, packed >> 4], axis=-1).reshape(count, 8, 16).astype(np.int64)
    values = np.where(values > 7, values - 16, values)  # two's complement of 4 bits
    for n in range(count):
        for i in range(8):
            for j in range(16):
                assert out[4 * i + j // 4, n, j % 4] == values[n, i, j]
