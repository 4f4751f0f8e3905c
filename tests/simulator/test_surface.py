"""Surface accesses against NumPy indexing: byte coordinates, layers, what `.trap`, `.clamp` and `.zero` do outside,
formatted stores and reductions.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import Surface
from tests.simulator.test_texture import RNG, N, kernel, run

B = {"b8": np.uint8, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64}


def bits(shape: tuple[int, ...], dtype: str = "uint8") -> np.ndarray:
    raw = RNG.integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    return raw.astype(np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize("kind", ["b8", "b16", "b32"])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("outside", ["clamp", "zero"])
def test_loads(kind: str, count: int, outside: str) -> None:
    """suld.b of 3d surfaces: bytes along x, elements along y and z."""
    depth, height, width = 3, 4, 64
    data = bits((depth, height, width))
    size = np.dtype(B[kind]).itemsize * count
    z, y = (RNG.integers(-2, n + 2, N).astype(np.int32) for n in (depth, height))
    x = (RNG.integers(-3, width // size + 3, N) * size).astype(np.int32)
    letter = {"b8": "%h", "b16": "%h", "b32": "%r"}[kind]
    wide = [f"{letter}{4 + i}" for i in range(count)]
    vector = f".v{count}" if count > 1 else ""
    moves = "".join(f" cvt.u32.u16 %r{4 + i}, %h{4 + i};" for i in range(count)) if letter == "%h" else ""
    moves += "".join(f" mov.u32 %r{i}, 0;" for i in range(4 + count, 8))
    k = kernel(
        f"suld.b.3d{vector}.{kind}.{outside} {{{{{', '.join(wide)}}}}}, [{{t}}, {{c}}];{moves}", ["s32"] * 3
    )  # fmt: skip
    got = run(k, Surface(data), x, y, z)[:, :count]
    elements = data.view(B[kind])
    for i in range(N):
        a, b, c = int(z[i]), int(y[i]), int(x[i])
        inside = 0 <= a < depth and 0 <= b < height and 0 <= c < width
        if not inside and outside == "zero":
            assert not got[i].any()
            continue
        a, b = min(max(a, 0), depth - 1), min(max(b, 0), height - 1)
        c = min(max(c, 0), width - size) // np.dtype(B[kind]).itemsize
        assert got[i].tolist() == elements[a, b, c : c + count].tolist()


@pytest.mark.parametrize("outside", ["clamp", "zero"])
def test_stores(outside: str) -> None:
    """sust.b to layers; each thread has its own place, so the order does not matter."""
    surface = np.zeros((2, 8, 16), np.uint32)
    place = RNG.permutation(2 * 8 * 16 // 2)[:N]
    layer, y, x = (a.astype(np.int32) for a in np.unravel_index(place, (2, 8, 8)))
    if outside == "zero":
        layer[0], y[1], x[2], y[3] = 2, 8, 8, -1
    values = bits((2, N), "uint32")
    k = kernel(
        f"sust.b.a2d.v2.b32.{outside} [{{t}}, {{c}}], {{{{%v3, %v4}}}}; mov.u32 %r4, 0; mov.u32 %r5, 0; "
        "mov.u32 %r6, 0; mov.u32 %r7, 0;",
        ["u32", "s32", "s32"], ["u32", "u32"],
    )  # fmt: skip
    run(k, Surface(surface, geometry="a2d"), layer, x * 8, y, *values)
    want = np.zeros_like(surface)
    for i in range(4 if outside == "zero" else 0, N):
        want[layer[i], y[i], 2 * x[i] : 2 * x[i] + 2] = values[:, i]
    np.testing.assert_array_equal(surface, want)


def test_formatted_stores() -> None:
    """sust.p converts 32-bit values to the surface's format and counts x in elements."""
    x = RNG.permutation(N).astype(np.int32)
    k = kernel(
        "sust.p.1d.v2.b32.trap [{t}, {c}], {{%v1, %v2}}; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;",
        ["s32"], ["u32", "u32"],
    )  # fmt: skip
    numbers = RNG.standard_normal((2, N)).astype(np.float32)
    for dtype in ("float16", "float32"):
        surface = np.zeros((N, 2), dtype)
        run(k, Surface(surface, geometry="1d"), x, *numbers)
        np.testing.assert_array_equal(surface[x], numbers.T.astype(dtype))
    integers = RNG.integers(-300, 300, (2, N)).astype(np.int32)
    surface = np.zeros((N, 4), np.int8)
    run(k, Surface(surface, geometry="1d"), x, *integers)
    np.testing.assert_array_equal(surface[x, :2], np.clip(integers.T, -128, 127))
    assert not surface[:, 2:].any()


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or"])
def test_reductions(op: str) -> None:
    """sured counts every thread, also those of one warp that meet at an element."""
    kind = "b32" if op in ("and", "or") else "s32"
    start = bits((5, 4), "int32")
    x, y = RNG.integers(-1, 5, N).astype(np.int32), RNG.integers(0, 5, N).astype(np.int32)
    values = bits((N,), "int32")
    tail = "mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;"
    want = start.copy()
    for i in range(N):
        if 0 <= x[i] < 4:
            old, new = int(want[y[i], x[i]]), int(values[i])
            r = {"add": old + new, "min": min(old, new), "max": max(old, new), "and": old & new, "or": old | new}[op]
            want[y[i], x[i]] = np.array([r & 0xFFFFFFFF]).astype(np.uint32).view(np.int32)[0]
    for form, scale in ((f"sured.b.{op}.2d.{kind}", 4), (f"sured.p.{op}.2d.b32", 1)):
        surface = start.copy()
        k = kernel(f"{form}.zero [{{t}}, {{c}}], %v2; {tail}", ["s32", "s32"], ["u32"])
        run(k, Surface(surface), x * scale, y, values)
        np.testing.assert_array_equal(surface, want)


def test_queries() -> None:
    k = kernel(
        "".join(f"suq.{q}.b32 %r{4 + i}, [{{t}}]; " for i, q in enumerate(("width", "height", "depth", "array_size"))),
        [],
    )
    assert run(k, Surface(np.zeros((2, 3, 5), np.float32)))[0].tolist() == [5, 3, 2, 0]
    assert run(k, Surface(np.zeros((7, 3, 5, 4), np.float32), geometry="a2d"))[0].tolist() == [5, 3, 0, 7]


def test_module_surface() -> None:
    k = kernel(
        "suld.b.1d.b32.trap %r4, [plane, {c}]; add.u32 %r5, %r4, 1; sust.b.1d.b32.trap [plane, {c}], %r5; mov.u32 %r6, 0; "
        "mov.u32 %r7, 0;",
        ["s32"], before=".global .surfref plane;", handle="plane", parameters=".param .u64 unused",
    )  # fmt: skip
    plane = bits((N,), "uint32")
    before = plane.copy()
    k.bind("plane", Surface(plane))
    got = run(k, 0, np.arange(N, dtype=np.int32) * 4)
    np.testing.assert_array_equal(got[:, 0], before)
    np.testing.assert_array_equal(plane, before + np.uint32(1))


def test_faults() -> None:
    k = kernel("suld.b.1d.b32.trap %r4, [{t}, {c}]; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;", ["s32"])
    x = np.arange(N, dtype=np.int32) * 4
    with pytest.raises(SimulationError, match=r"out of bounds: .*x 160 of a surface .*thread \(40, 0, 0\)"):
        run(k, Surface(np.zeros(40, np.float32)), x)
    with pytest.raises(SimulationError, match=r"misaligned: x is 2 bytes"):
        run(k, Surface(np.zeros(N, np.float32)), x + 2)
    frozen = np.zeros(N, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(SimulationError, match="writable"):
        Surface(frozen)
