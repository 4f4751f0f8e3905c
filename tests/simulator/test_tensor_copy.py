"""Tensor maps and tensor copies against NumPy models, NVIDIA's tables (layouts/tma.json) and the limits of cuda.h."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import LoadedKernel, load, tensor_map
from pyptx.simulator.tensor.tensor_map import ELEMENT_TYPES, SWIZZLES, TensorMap, check, swizzled
from tests.simulator.assembling import assembled

TMA = json.loads((Path(__file__).parents[1] / "data" / "layouts" / "tma.json").read_text())


# ---------------------------------------------------------------------------------------------------- the object


@pytest.mark.parametrize("mode", TMA["swizzle"]["tables_16B_chunks"])
def test_swizzles_are_those_of_the_tables(mode: str) -> None:
    table = np.array(TMA["swizzle"]["tables_16B_chunks"][mode])
    assert np.array_equal(16 * swizzled(64, mode, 0), table)
    # from a later line on: the exclusive-or is that of the address
    assert np.array_equal(16 * swizzled(24, mode, 640) + 640, table[40:])


def test_element_types_are_those_of_the_driver() -> None:
    names = {
        "FLOAT16": "f16", "FLOAT32": "f32", "FLOAT64": "f64", "BFLOAT16": "bf16", "FLOAT32_FTZ": "f32.ftz",
        "TFLOAT32": "tf32", "TFLOAT32_FTZ": "tf32.ftz", "16U4_ALIGN8B": "b4x16", "16U4_ALIGN16B": "b4x16_p64",
        "16U6_ALIGN16B": "b6x16_p32", "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "INT32": "s32",
        "UINT64": "u64", "INT64": "s64",
    }  # fmt: skip
    theirs = {names[n]: v["bits"] for n, v in TMA["enums"]["data_type"].items()}
    assert theirs == ELEMENT_TYPES


def test_maps_survive_encoding() -> None:
    rng = np.random.default_rng()
    for _ in range(200):
        rank = int(rng.integers(1, 6))
        numbers = lambda low, high, n: tuple(int(x) for x in rng.integers(low, high, n))  # noqa: E731
        im2col = rank > 2 and bool(rng.integers(2))
        made = TensorMap(
            str(rng.choice(list(ELEMENT_TYPES))), 16 * int(rng.integers(1 << 40)), numbers(1, 1 << 32, rank),
            numbers(0, 1 << 40, rank - 1), numbers(1, 257, rank), numbers(1, 9, rank),
            str(rng.choice(["none", "16B", "32B"])), str(rng.choice(list(SWIZZLES))), "64B", bool(rng.integers(2)),
            "im2col" if im2col else "tiled", numbers(-128, 128, (rank - 2) * im2col),
            numbers(-128, 128, (rank - 2) * im2col), *numbers(0, 1025, 2), bool(rng.integers(2)),
        )  # fmt: skip
        raw = made.encode()
        assert len(raw) == TMA["tensor_map"]["bytes"]
        assert TensorMap.decode(raw) == made
    assert TensorMap.decode(bytes(128)) is None


FINE = TensorMap("f16", 4096, (128, 64, 32), (256, 16384), (64, 8, 4), (1, 1, 1), "none", "128B")


def changed(**fields: Any) -> TensorMap:
    from dataclasses import replace

    return replace(FINE, **fields)


LIMITS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("gaddr16", {"address": 4104}, {"address": 4112}),
    ("gaddr32", {"interleave": "32B", "swizzle": "32B", "address": 4112},
     {"interleave": "32B", "swizzle": "32B", "address": 4128}),
    ("gdim", {"shape": (128, 64, (1 << 32) + 1)}, {"shape": (128, 64, 1 << 32)}),
    ("gdim", {"shape": (0, 64, 32)}, {"shape": (1, 64, 32)}),
    ("gdim_p128", {"type": "b4x16_p64", "shape": (192, 64, 32), "box": (128, 8, 4)},
     {"type": "b4x16_p64", "shape": (256, 64, 32), "box": (128, 8, 4)}),
    ("gdim_p2", {"type": "b4x16", "shape": (129, 64, 32)}, {"type": "b4x16", "shape": (130, 64, 32)}),
    ("gstride16", {"strides": (264, 16384)}, {"strides": (272, 16384)}),
    ("gstride16", {"strides": (256, 1 << 40)}, {"strides": (256, (1 << 40) - 16)}),
    ("gstride32", {"type": "b6x16_p32", "box": (128, 8, 4), "strides": (272, 16384)},
     {"type": "b6x16_p32", "box": (128, 8, 4), "strides": (288, 16384)}),
    ("estride", {"element_strides": (1, 9, 1)}, {"element_strides": (99, 8, 1)}),
    ("interleave32_swizzle", {"interleave": "32B", "swizzle": "64B"}, {"interleave": "16B", "swizzle": "64B"}),
    ("u6_interleave", {"type": "b6x16_p32", "box": (128, 8, 4), "interleave": "16B"},
     {"type": "b6x16_p32", "box": (128, 8, 4)}),
    ("u6_swizzle", {"type": "b6x16_p32", "box": (128, 8, 4), "swizzle": "64B"},
     {"type": "b6x16_p32", "box": (128, 8, 4), "swizzle": "128B_ATOM_64B"}),
    ("u4p_swizzle", {"type": "b4x16_p64", "box": (128, 8, 4), "swizzle": "128B_ATOM_64B"},
     {"type": "b4x16_p64", "box": (128, 8, 4), "swizzle": "128B_ATOM_32B"}),
    ("nan_fill", {"type": "u16", "nan_fill": True}, {"type": "bf16", "nan_fill": True}),
    ("rank", {"shape": (8,) * 6, "strides": (256,) * 5, "box": (8,) * 6, "element_strides": (1,) * 6},
     {"shape": (8,) * 5, "strides": (256,) * 4, "box": (8,) * 5, "element_strides": (1,) * 5}),
    ("rank", {"interleave": "16B", "shape": (8, 8), "strides": (16,), "box": (8, 8), "element_strides": (1, 1)}, {}),
    ("box", {"box": (64, 257, 4)}, {"box": (64, 256, 4)}),
    ("box", {"box": (64, 0, 4)}, {"box": (64, 1, 4)}),
    ("box16", {"box": (60, 8, 4)}, {"box": (56, 8, 4)}),
    ("box128", {"type": "b4x16_p64", "box": (64, 8, 4)}, {"type": "b4x16_p64", "box": (128, 8, 4)}),
    ("box_swizzle", {"box": (72, 8, 4)}, {"box": (72, 8, 4), "swizzle": "none"}),
    ("box_swizzle", {"box": (32, 8, 4), "swizzle": "32B"}, {"box": (16, 8, 4), "swizzle": "32B"}),
    ("box_swizzle", {"box": (64, 8, 4), "swizzle": "64B"}, {"box": (32, 8, 4), "swizzle": "64B"}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "bad", "good"), LIMITS)
def test_limits_of_the_driver(rule: str, bad: dict[str, Any], good: dict[str, Any]) -> None:
    assert check(changed(**bad)), rule
    assert not check(changed(**good)), rule


def test_every_rule_of_the_header_is_tested() -> None:
    rules = {c["id"] for c in TMA["constraints_common"] + TMA["constraints_tiled"]}
    assert rules - {limit[0] for limit in LIMITS} == {"map_align", "error"}


# -------------------------------------------------------------------------------------------------------- copies


def kernel(body: str, size: int, target: str = "sm_90a", version: str = "8.7") -> LoadedKernel:
    """One thread with tensor map `m`, shared `box` of `size` bytes, mbarrier `bar`, output `out`, an array of
    coordinates.
    """
    return load(f""".version {version}
.target {target}
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out, .param .u64 at)
{{
    .reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 1024 .b8 box[{size}]; .shared .align 8 .b64 bar;
    mov.b64 %rd1, m; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [at];
    ld.global.u32 %r0, [%rd3]; ld.global.u32 %r1, [%rd3+4]; ld.global.u32 %r2, [%rd3+8]; ld.global.u32 %r3, [%rd3+12];
    ld.global.u32 %r4, [%rd3+16];
    mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
{body}
    ret;
}}
""")["k"]


def wait_and_dump(size: int) -> str:
    """Wait for `size` bytes exactly, then copy the box out."""
    return f"""
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra $wait;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [box], {size};
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""


def places(coordinates: Sequence[int]) -> np.ndarray:
    return np.array([*coordinates, *(0,) * (5 - len(coordinates))], np.int32)


def vector(rank: int) -> str:
    return "{" + ", ".join(f"%r{i}" for i in range(rank)) + "}"


def run_load(argument: Any, coordinates: Sequence[int], size: int, rank: int, mode: str = "") -> np.ndarray:
    """What a load puts into shared memory, as bytes."""
    text = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes"
        f" [box], [%rd1, {vector(rank)}], [bar];{wait_and_dump(size)}"
    )
    out = np.zeros(size, np.uint8)
    kernel(text, size).simulate(argument, out, places(coordinates), grid=1, block=1)
    return out


def model_box(
    array: np.ndarray, start: Sequence[int], box: Sequence[int], steps: Sequence[int], fill: Any = 0
) -> np.ndarray:
    """The box at `start` (slowest dimension first), element by element."""
    made = np.full(box, fill, array.dtype)
    for index in itertools.product(*(range(n) for n in box)):
        at = [s + i * step for s, i, step in zip(start, index, steps, strict=True)]
        if all(0 <= a < n for a, n in zip(at, array.shape, strict=True)):
            made[index] = array[tuple(at)]
    return made


def model_swizzle(raw: np.ndarray, mode: str) -> np.ndarray:
    """Bytes in the order of a swizzle, by the formula in layouts/tma.json."""
    if mode == "none":
        return raw
    bits, low, shift = TMA["swizzle"]["modes"][mode]
    address = np.arange(raw.size)
    mask = ((1 << bits) - 1) << (low + shift)
    out = np.empty_like(raw)
    out[address ^ ((address & mask) >> shift)] = raw
    return out


CASES: list[tuple[Any, tuple[int, ...], tuple[int, ...], tuple[int, ...], str, tuple[int, ...]]] = [
    (np.uint8, (100,), (64,), (50,), "none", (1,)),
    (np.float16, (48, 72), (16, 64), (40, -8), "128B", (1, 1)),
    (np.float16, (48, 72), (16, 64), (0, 0), "128B", (1, 1)),
    (ml_dtypes.bfloat16, (48, 72), (24, 32), (-5, 56), "64B", (1, 1)),
    (np.float32, (20, 16), (9, 8), (13, 4), "32B", (1, 1)),
    (np.float32, (20, 16), (32, 32), (-3, -3), "128B_ATOM_32B", (1, 1)),
    (np.int32, (20, 32), (16, 32), (1, 0), "128B_ATOM_64B", (1, 1)),
    (np.int32, (20, 32), (16, 12), (300, 0), "none", (1, 1)),
    (np.uint16, (6, 20, 24), (3, 8, 16), (4, 15, 9), "32B", (1, 1, 1)),
    (np.uint16, (6, 20, 24), (3, 8, 16), (-1, -2, -3), "32B", (2, 3, 1)),
    (np.float64, (3, 4, 5, 6), (2, 3, 4, 4), (2, -1, 3, 4), "none", (1, 2, 1, 1)),
    (np.uint8, (3, 4, 5, 2, 32), (2, 2, 3, 2, 16), (-1, 3, 3, 1, 24), "none", (1, 1, 1, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "shape", "box", "start", "swizzle", "steps"), CASES)
def test_tiled_load(
    dtype: Any,
    shape: tuple[int, ...],
    box: tuple[int, ...],
    start: tuple[int, ...],
    swizzle: str,
    steps: tuple[int, ...],
) -> None:
    rng = np.random.default_rng()
    pad = -(-shape[-1] * np.dtype(dtype).itemsize // 16) * 16 // np.dtype(dtype).itemsize  # rows of 16-byte multiples
    storage = rng.integers(0, 100, (*shape[:-1], pad)).astype(dtype)
    strides = storage.strides[:-1]
    spread = tuple(b * s for b, s in zip(box, steps, strict=True))
    argument = tensor_map(storage, spread, swizzle=swizzle, shape=shape, strides=strides, element_strides=steps)
    want = model_box(storage[..., : shape[-1]], start, box, steps)
    raw = model_swizzle(want.reshape(-1).view(np.uint8), swizzle)
    got = run_load(argument, start[::-1], raw.size, len(shape))
    assert np.array_equal(got, raw)


def test_out_of_bounds_elements_are_nans_on_request() -> None:
    array = np.ones((8, 64), np.float16)
    got = run_load(tensor_map(array, (4, 64), nan_fill=True), (0, 6), 512, 2).view(np.float16).reshape(4, 64)
    assert np.array_equal(got[:2], array[:2])
    assert np.isnan(got[2:]).all()


@pytest.mark.parametrize(("dtype", "shape", "box", "start", "swizzle", "steps"), CASES)
def test_tiled_store(
    dtype: Any,
    shape: tuple[int, ...],
    box: tuple[int, ...],
    start: tuple[int, ...],
    swizzle: str,
    steps: tuple[int, ...],
) -> None:
    """What is inside is written, what is outside dropped, everything else untouched."""
    rng = np.random.default_rng()
    size = np.dtype(dtype).itemsize
    pad = -(-shape[-1] * size // 16) * 16 // size
    storage = rng.integers(0, 100, (*shape[:-1], pad)).astype(dtype)
    want = storage.copy()
    data = rng.integers(0, 100, box).astype(dtype)
    for index in itertools.product(*(range(n) for n in box)):
        at = [s + i * step for s, i, step in zip(start, index, steps, strict=True)]
        if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
            want[tuple(at)] = data[index]
    raw = model_swizzle(data.reshape(-1).view(np.uint8), swizzle)
    spread = tuple(b * s for b, s in zip(box, steps, strict=True))
    argument = tensor_map(
        storage, spread, swizzle=swizzle, shape=shape, strides=storage.strides[:-1], element_strides=steps
    )
    rank = len(shape)
    text = f"""
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2], {raw.size}, [bar];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {raw.size};
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra $wait;
    cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd1, {vector(rank)}], [box];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"""
    kernel(text, raw.size).simulate(argument, raw, places(start[::-1]), grid=1, block=1)
    assert np.array_equal(storage, want)


@pytest.mark.parametrize(
    ("operation", "dtype"),
    [
        ("add", np.float32), ("add", np.int32), ("add", np.float16), ("add", ml_dtypes.bfloat16), ("min", np.int32),
        ("max", np.float16), ("and", np.uint32), ("or", np.uint64), ("xor", np.uint32), ("inc", np.uint32),
        ("dec", np.uint32),
    ],
)  # fmt: skip
def test_tensor_reduction(operation: str, dtype: Any) -> None:
    rng = np.random.default_rng()
    array = rng.integers(0, 60, (10, 16)).astype(dtype)
    data = rng.integers(0, 60, (8, 16)).astype(dtype)
    functions: dict[str, Any] = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor, "inc": lambda a, b: np.where(a >= b, 0, a + 1),
        "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - 1),
    }  # fmt: skip
    want = array.copy()
    want[5:] = functions[operation](array[5:], data[:5]).astype(dtype)
    text = f"""
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2], {data.nbytes}, [bar];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {data.nbytes};
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra $wait;
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [%rd1, {vector(2)}], [box];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    kernel(text, data.nbytes).simulate(tensor_map(array, (8, 16)), data, places((0, 5)), grid=1, block=1)
    assert np.array_equal(array, want)


@pytest.mark.parametrize(
    ("operation", "to"),
    [
        *((o, "global") for o in ("add.f32", "add.u64", "min.s32", "xor.b32", "add.noftz.bf16", "max.f16")),
        *((o, "shared::cluster") for o in ("add.u64", "min.s32", "xor.b32")),
    ],
)
def test_bulk_reduction(operation: str, to: str) -> None:
    name, *_, kind = operation.split(".")
    dtype = {
        "f32": np.float32, "u64": np.uint64, "s32": np.int32, "b32": np.uint32, "bf16": ml_dtypes.bfloat16,
        "f16": np.float16,
    }[kind]  # fmt: skip
    rng = np.random.default_rng()
    values = rng.integers(0, 90, (2, 256 // np.dtype(dtype).itemsize)).astype(dtype)
    function: Any = {"add": np.add, "min": np.minimum, "max": np.maximum, "xor": np.bitwise_xor}[name]
    want = function(values[1], values[0])
    finish = "" if to == "global" else "cp.async.bulk.global.shared::cta.bulk_group [%rd2+256], [box+256], 256;"
    target, completion, bar = (
        ("%rd4", "bulk_group", "") if to == "global" else ("box+256", "mbarrier::complete_tx::bytes", ", [bar]")
    )
    reduced = """mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1;
    @!%p1 bra $wait;""" if bar else ""  # fmt: skip
    text = f"""
    add.s64 %rd4, %rd2, 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2], 512, [bar];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
$loaded:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra $loaded;
    cp.reduce.async.bulk.{to}.shared::cta.{completion}.{operation} [{target}], [box], 256{bar};
    {reduced}
    {finish}
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    kernel(text, 512).simulate(tensor_map(values.view(np.uint8), (1, 16)), values, places(()), grid=1, block=1)
    assert np.array_equal(values[1], want)


@pytest.mark.parametrize("example", TMA["im2col"]["examples"], ids=lambda e: f"{e['name']} {e['offsets_WH']}")
def test_im2col(example: dict[str, Any]) -> None:
    """The pixels that the examples list, zeros for the others; with another start channel too."""
    c, w, h, n = example["tensor_CWHN"]
    count = example["pixels_per_column"]
    array = np.random.default_rng().integers(1, 1000, (n, h, w, c)).astype(np.uint16)
    start = example["start_CWHN"]
    for channel in (0, 40):
        want = np.zeros((count, 32), np.uint16)
        for i, pixel in enumerate(example["pixels_nhw_or_null"]):
            if pixel is not None:
                row = array[tuple(pixel)][channel : channel + 32]
                want[i, : row.size] = row
        argument = tensor_map(
            array, (), swizzle="64B", element_strides=(1, *example["element_strides_WH"][::-1], 1),
            lower=example["lower_WH"][::-1], upper=example["upper_WH"][::-1], channels=32, pixels=count,
        )  # fmt: skip
        x, y = example["offsets_WH"]
        text = (
            f"mov.u16 %h0, {x}; mov.u16 %h1, {y};"
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
            f" [box], [%rd1, {vector(4)}], [bar], {{%h0, %h1}};{wait_and_dump(64 * count)}"
        )
        out = np.zeros(64 * count, np.uint8)
        kernel(text, 64 * count).simulate(argument, out, places((channel, *start[1:])), grid=1, block=1)
        assert np.array_equal(out, model_swizzle(want.reshape(-1).view(np.uint8), "64B"))


@pytest.mark.parametrize("mode", ["im2col::w", "im2col::w::128"])
@pytest.mark.parametrize("step", [1, 2])
def test_im2col_along_w(mode: str, step: int) -> None:
    """PTX ISA 5.5.5, walked pixel by pixel: images one after the other at one height, halos, an offset, a start on the
    left of the box.
    """
    rng = np.random.default_rng()
    c, w, h, n = 32, 9, 4, 40
    array = rng.integers(1, 1000, (n, h, w, c)).astype(np.uint16)
    low, high, halo, offset = -1, -1 + int(rng.integers(0, 3)), int(rng.integers(0, 3)), int(rng.integers(0, 3))
    for start in (low, low - 2 * step, low + 3 * step):
        y, image = int(rng.integers(0, h)), int(rng.integers(0, 5))
        count = 128 if mode.endswith("128") else 48
        want: list[np.ndarray] = []

        def pixel(i: int, x: int) -> np.ndarray:
            inside = 0 <= x < w and i < n
            return array[i, y, x] if inside else np.zeros(c, np.uint16)  # noqa: B023

        x, at = start + offset, image
        for k in range(count):
            want.append(pixel(at, x))
            last = k == count - 1 or (mode.endswith("128") and k % 32 == 31)
            want += [pixel(at, x + step * (e + 1)) for e in range(halo)] if last else []
            x += step
            if x >= w + high + offset:
                x, at = low + offset, at + 1
        size = 64 * len(want)
        argument = tensor_map(
            array, (), swizzle="64B", element_strides=(1, 1, step, 1), lower=(0, low), upper=(0, high), channels=c,
            pixels=1 if mode.endswith("128") else count, kind=mode,
        )  # fmt: skip
        text = (
            f"mov.u16 %h0, {halo}; mov.u16 %h1, {offset};"
            f"cp.async.bulk.tensor.4d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
            f" [box], [%rd1, {vector(4)}], [bar], {{%h0, %h1}};{wait_and_dump(size)}"
        )
        out = np.zeros(size, np.uint8)
        kernel(text, size, "sm_100a").simulate(argument, out, places((0, start, y, image)), grid=1, block=1)
        assert np.array_equal(out, model_swizzle(np.stack(want).reshape(-1).view(np.uint8), "64B"))


@pytest.mark.parametrize("reduces", [False, True], ids=["copy", "add"])
@pytest.mark.parametrize("step", [1, 2])
def test_store_along_w(step: int, reduces: bool) -> None:
    """im2col_no_offs::w, walked pixel by pixel: as the loads of im2col::w without halo and offset; what lies outside of
    the tensor is dropped.
    """
    rng = np.random.default_rng()
    c, w, h, n, count = 32, 9, 4, 5, 48
    array = rng.integers(1, 1000, (n, h, w, c)).astype(np.float16)
    before = array.copy()
    low, high = -1, 1
    y, image, start = int(rng.integers(0, h)), 1, low + step
    argument = tensor_map(
        array, (), swizzle="64B", element_strides=(1, 1, step, 1), lower=(0, low), upper=(0, high), channels=c,
        pixels=count, kind="im2col::w",
    )  # fmt: skip
    given = rng.integers(1, 1000, (count, c)).astype(np.float16)
    opcode, operation = ("cp.reduce", ".add") if reduces else ("cp", "")
    text = f"""
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2], {64 * count}, [bar];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {64 * count};
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra $wait;
    {opcode}.async.bulk.tensor.4d.global.shared::cta{operation}.im2col_no_offs::w.bulk_group [%rd1, {vector(4)}], [box];
    applypriority.async.bulk.tensor.4d.global.bulk_group.im2col::w.L2::evict_normal [%rd1, {vector(4)}], {{%h0, %h1}};
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    k = kernel(text, 64 * count, "sm_107a", "9.4")
    box = model_swizzle(given.reshape(-1).view(np.uint8), "64B")
    k.simulate(argument, box, places((0, start, y, image)), grid=1, block=1)
    x, at = start, image
    for row in given:
        if 0 <= x < w and at < n:
            before[at, y, x] = before[at, y, x] + row if reduces else row
        x += step
        if x >= w + high:
            x, at = low, at + 1
    assert np.array_equal(array, before)


def test_gather4_and_scatter4() -> None:
    array = np.random.default_rng().integers(0, 99, (40, 64)).astype(np.int32)
    rows = (7, 39, 0, 50)
    text = (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
        f" [box], [%rd1, {vector(5)}], [bar];{wait_and_dump(512)}"
    )
    out = np.zeros((4, 32), np.int32)
    argument = tensor_map(array, (1, 32))
    kernel(text, 512, "sm_100a").simulate(argument, out, places((48, *rows)), grid=1, block=1)
    want = np.zeros((4, 32), np.int32)
    want[:3, :16] = array[[7, 39, 0], 48:]
    assert np.array_equal(out, want)
    text = f"""
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2], 512, [bar];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra $wait;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {vector(5)}], [box];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    new = np.random.default_rng().integers(100, 199, (4, 32)).astype(np.int32)
    want = array.copy()
    want[[3, 2, 21, 20], :32] = new
    kernel(text, 512, "sm_100a").simulate(argument, new, places((0, 3, 2, 21, 20)), grid=1, block=1)
    assert np.array_equal(array, want)


def test_packed_elements_have_gaps_in_shared_memory() -> None:
    rng = np.random.default_rng()
    for kind, used in (("b4x16_p64", 8), ("b6x16_p32", 12)):
        row = 128 // 16 * used
        array = rng.integers(0, 256, (6, 2 * row)).astype(np.uint8)
        argument = tensor_map(array, (4, 128), type=kind, shape=(6, 256), strides=(2 * row,), swizzle="128B")
        got = run_load(argument, (128, 3), 512, 2)
        want = np.zeros((4, 8, 16), np.uint8)
        want[:3, :, :used] = array[3:, row:].reshape(3, 8, used)
        assert np.array_equal(got, model_swizzle(want.reshape(-1), "128B"))


def test_tensormap_replace() -> None:
    """A map for u8 becomes one for a slice of an f16 matrix, field by field, in shared memory, and is then copied."""
    array = np.random.default_rng().integers(0, 99, (32, 64)).astype(np.float16)
    out = np.zeros((8, 32), np.float16)
    argument = tensor_map(array.view(np.uint8), (16, 16))
    replaces = "".join(
        f"tensormap.replace.tile.{field}.shared::cta.b1024.{kind} [box+1024], {value};\n"
        for field, kind, value in [
            ("elemtype", "b32", "6"), ("box_dim", "b32", "0, 32"), ("box_dim", "b32", "1, 8"),
            ("global_dim", "b32", "0, 64"), ("global_dim", "b32", "1, 20"), ("swizzle_mode", "b32", "2"),
            ("global_stride", "b64", "0, %rd5"), ("fill_mode", "b32", "1"), ("rank", "b32", "1"),
            ("element_stride", "b32", "1, 1"), ("global_address", "b64", "%rd6"), ("interleave_layout", "b32", "0"),
        ]
    )  # fmt: skip
    words = "".join(f"ld.param.b64 %rd4, [m+{i}]; st.shared.b64 [box+{1024 + i}], %rd4;" for i in range(0, 128, 8))
    text = f"""
    {words}
    mov.u64 %rd5, 128;
    ld.shared.u64 %rd6, [box+1032]; add.s64 %rd6, %rd6, 256;
    {replaces}
    mov.u64 %rd7, spare; cvta.global.u64 %rd7, %rd7;
    mov.u32 %r5, box; add.u32 %r5, %r5, 1024;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [spare], [%r5], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd7], 128;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
        [box], [%rd7, {{%r0, %r1}}], [bar];
    {wait_and_dump(512)}"""
    loaded = load(
        """.version 8.7
.target sm_90a
.address_size 64
.global .align 128 .b8 spare[128];
"""
        + str_of_kernel(text, 2048)
    )["k"]
    loaded.simulate(argument, out, places((16, 16)), grid=1, block=1)
    want = np.full((8, 32), np.nan, np.float16)
    want[:4] = array[18:22, 16:48]
    got = np.empty(512, np.uint8)
    raw = out.reshape(-1).view(np.uint8)
    order = model_swizzle(np.arange(512) % 256, "64B"), model_swizzle(np.arange(512) // 256, "64B")
    got[order[0] + 256 * order[1]] = raw
    got = got.view(np.float16).reshape(8, 32)
    assert np.array_equal(got[:4], want[:4])
    assert np.isnan(got[4:]).all()


def test_class_of_the_allocation() -> None:
    """What was said of it last, next to the address or alone; the rest of the map stays."""
    array = np.arange(64, dtype=np.int32).reshape(2, 32)
    edits = ("global_address.alloc_large", "global_address.alloc_same", "alloc_small", "alloc_large", "global_address")
    words = "".join(f"ld.param.b64 %rd4, [m+{i}]; st.shared.b64 [box+{i}], %rd4;" for i in range(0, 128, 8))
    queries = "".join(
        f"""tensormap.replace.tile.{edit}.shared::cta.b1024{".b64 [box], %rd6" if "address" in edit else " [box]"};
        tensormap.query.alloc_class_large.shared::cta.b1024 %p1, [%rd5]; selp.b32 %r5, 1, 0, %p1;
        st.global.b32 [%rd2+{4 * i}], %r5;"""
        for i, edit in enumerate(edits)
    )
    text = f"""{words} mov.u64 %rd5, box; ld.shared.b64 %rd6, [box+8]; {queries}
        tensormap.query.alloc_class_large.b1024 %p1, [%rd1]; selp.b32 %r5, 1, 0, %p1; st.global.b32 [%rd2+20], %r5;"""
    out = np.full(6, 7, np.int32)
    kernel(text, 512, "sm_90a", "9.5").simulate(tensor_map(array, (1, 32)), out, places(()), grid=1, block=1)
    assert out.tolist() == [1, 1, 0, 1, 1, 0]


def str_of_kernel(body: str, size: int) -> str:
    return f""".visible .entry k(.param .align 64 .b8 m[128], .param .u64 out, .param .u64 at)
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 1024 .b8 box[{size}]; .shared .align 8 .b64 bar;
    ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [at];
    ld.global.u32 %r0, [%rd3]; ld.global.u32 %r1, [%rd3+4];
    mbarrier.init.shared.b64 [bar], 1;
{body}
    ret;
}}
"""


def test_multicast_fills_the_named_ctas() -> None:
    """CTA 1 of 4 loads for CTAs 0 and 2: the same place and the mbarrier at the same place in each."""
    array = np.random.default_rng().integers(0, 2**31, (16, 32)).astype(np.int32)
    out = np.zeros((4, 16, 32), np.int32)
    text = """
    mov.u32 %r5, %ctaid.x; mov.u16 %h0, 5;
    setp.eq.u32 %p1, %r5, 1; and.b32 %r6, %r5, 1; setp.eq.u32 %p2, %r6, 0;
    barrier.cluster.arrive; barrier.cluster.wait;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [box], [%rd1, {%r0, %r1}], [bar], %h0;
    @!%p2 bra $done;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
$wait:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0;
    @!%p3 bra $wait;
    mul.wide.u32 %rd4, %r5, 2048; add.s64 %rd4, %rd4, %rd2;
    cp.async.bulk.global.shared::cta.bulk_group [%rd4], [box], 2048;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
$done:
    barrier.cluster.arrive; barrier.cluster.wait;"""
    kernel(text, 2048).simulate(tensor_map(array, (16, 32)), out, places(()), grid=4, block=1, cluster=4)
    assert np.array_equal(out[0], array)
    assert np.array_equal(out[2], array)
    assert not out[1].any()
    assert not out[3].any()


# ------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "argument", "words"),
    [
        ("3d", {}, "rank 2 and the copy is .3d"),
        ("2d", {"shape": (100, 32), "strides": (128,)}, "out of bounds"),
        (
            "3d.im2col",
            {"shape": (4, 4, 32), "strides": (512, 128), "box": (1, 1, 32)},
            "tiled copies and the .* .im2col",
        ),
    ],
)
def test_mistakes_are_named(text: str, argument: dict[str, Any], words: str) -> None:
    array = np.zeros((16, 32), np.float32)
    rank = int(text[0])
    offsets = ", {%h0}" if "im2col" in text else ""
    dims, _, mode = text.partition(".")
    body = (
        f"cp.async.bulk.tensor.{dims}.shared::cluster.global.{mode or 'tile'}.mbarrier::complete_tx::bytes"
        f" [box], [%rd1, {vector(rank)}], [bar]{offsets};"
    )
    made = tensor_map(array, **{"box": (16, 32), **argument})
    with pytest.raises(SimulationError, match=words):
        kernel(body, 2048).simulate(made, np.zeros(4), places((0, 50)), grid=1, block=1)


def test_what_is_no_tensor_map() -> None:
    body = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd1, {%r0, %r1}], [bar];"
    )
    with pytest.raises(SimulationError, match="no tensor map"):
        kernel(body, 2048).simulate(bytes(128), np.zeros(4), places(()), grid=1, block=1)
    with pytest.raises(SimulationError, match="multiple of 16"):
        tensor_map(np.zeros((4, 6), np.float16), (4, 6))
    with pytest.raises(SimulationError, match="elements of type complex128"):
        tensor_map(np.zeros((4, 6), np.complex128), (4, 6))


# ------------------------------------------------------------------------------------------------------ overrides


def overriding(copy: str, size: int) -> LoadedKernel:
    """`k(map, tensor, out)`: a copy of the box with the tensor's address in %rd3, its new extents in the lower halves of
    16-bit registers, stride and the stride's high bits next to it.
    """
    return assembled(f""".version 9.5
.target sm_107a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 tensor, .param .u64 out, .param .u32 rows, .param .u32 stride)
{{
    .reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 1024 .b8 box[{size}]; .shared .align 8 .b64 bar;
    mov.b64 %rd1, m; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd3, [tensor]; ld.param.u64 %rd2, [out];
    ld.param.u32 %r4, [rows]; ld.param.u32 %r6, [stride]; cvt.u16.u32 %h2, %r4; or.b16 %h2, %h2, 0xAB00;
    mov.b16 %h1, 8; mov.b16 %h3, 0; mov.u32 %r0, 0;
    mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
{copy}
    ret;
}}
""")


LOADED = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"


def test_the_address_is_overridden() -> None:
    """Of the map only the shape and the box count: the same map loads from another tensor."""
    rng = np.random.default_rng()
    here, there = rng.standard_normal((2, 24, 8)).astype(np.float32)
    out = np.zeros((16, 8), np.float32)
    k = overriding(
        f"mov.u32 %r1, 12; {LOADED}.override::global_address [box], [%rd1, %rd3, {{%r0, %r1}}], [bar];{wait_and_dump(512)}",
        512,
    )
    k.simulate(tensor_map(here, (16, 8)), there, out, 0, 0, grid=1, block=1)
    want = np.zeros((16, 8), np.float32)
    want[:12] = there[12:]
    assert np.array_equal(out, want)


def test_extents_and_strides_are_overridden() -> None:
    """Rows of 8 of a tensor whose rows are 20 words apart, of which there are 11: the rest of the box is out of bounds."""
    rng = np.random.default_rng()
    there = rng.standard_normal((16, 20)).astype(np.float32)
    kind = tensor_map(np.zeros((100, 8), np.float32), (16, 8))
    edit = ".override::global_address.override::global_dim_stride"
    edited = "[%rd1, %rd3, {%h1, %h2}, {%r6}, %h3, {%r0, %r0}]"
    out = np.zeros((16, 8), np.float32)
    k = overriding(f"{LOADED}{edit} [box], {edited}, [bar];{wait_and_dump(512)}", 512)
    k.simulate(kind, there, out, 11, 80 >> 4, grid=1, block=1)
    want = np.zeros((16, 8), np.float32)
    want[:11] = there[:11, :8]
    assert np.array_equal(out, want)

    # back with an addition: what lies outside stays as it is
    before = there.copy()
    back = f"""{LOADED}{edit} [box], {edited}, [bar];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra $wait;
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group{edit} {edited}, [box];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    overriding(back, 512).simulate(kind, there, out, 11, 80 >> 4, grid=1, block=1)
    before[:11, :8] *= 2
    assert np.array_equal(there, before)


@pytest.mark.parametrize(
    ("before", "edited", "rows", "words"),
    [
        ("add.s64 %rd3, %rd3, 4;", "[%rd1, %rd3, {%h1, %h2}, {%r6}, %h3, {%r0, %r0}]", 4, "must be a multiple of 16"),
        ("", "[%rd1, %rd3, {%h1, %h2}, {%r6}, %h3, {%r0, %r0}]", 0, "size 0 of dimension 1"),
        ("mov.u32 %r1, 3;", "[%rd1, %rd3, {%h1, %h2}, {%r6}, %h3, {%r0, %r1}]", 4, "coordinates must be 0"),
        ("mov.b16 %h3, 1;", "[%rd1, %rd3, {%h1, %h2}, {%r6}, %h3, {%r0, %r0}]", 4, "out of bounds"),
    ],
)
def test_overrides_are_checked(before: str, edited: str, rows: int, words: str) -> None:
    k = overriding(
        f"{before}{LOADED}.override::global_address.override::global_dim_stride [box], {edited}, [bar];", 512
    )
    kind = tensor_map(np.zeros((100, 8), np.float32), (16, 8))
    with pytest.raises(SimulationError, match=words):
        k.simulate(kind, np.zeros((16, 8), np.float32), np.zeros(4), rows, 2, grid=1, block=1)
