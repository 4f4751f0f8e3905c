"""Texture reads against the formulas of the CUDA C++ Programming Guide's appendix on texture fetching, written here
one read at a time with Python numbers; and what goes wrong with textures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import LoadedKernel, Sampler, Texture
from tests.simulator.assembling import assembled

RNG = np.random.default_rng()
N = 96


def kernel(
    instruction: str, coordinates: Sequence[str], extra: Sequence[str] = (), *, target: str = "sm_75", before: str = "",
    parameters: str = ".param .u64 tex", handle: str = "%rd1",
) -> LoadedKernel:  # fmt: skip
    """A kernel `k(tex, out, x0, x1, ...)`: thread i reads with {d} = four results, {c} = its coordinates, {e} = more
    operands (`f32` or `u32` arrays, one element per thread), and stores four words.
    """
    arrays = [*coordinates, *extra]
    names = [f"%v{i}" for i in range(len(arrays))]
    load_arrays = "\n".join(
        f"    ld.param.u64 %rd3, [in{i}];\n    add.s64 %rd3, %rd3, %rd4;\n    ld.global.b32 {n}, [%rd3];"
        for i, n in enumerate(names)
    )
    c, e = names[: len(coordinates)], names[len(coordinates) :]
    pad = [*c, c[0]] if len(c) == 3 else c
    text = instruction.format(
        d="{%r4, %r5, %r6, %r7}", t=handle, c="{" + ", ".join(pad) + "}", e=", ".join(e), ve="{" + ", ".join(e) + "}"
    )
    inputs = "".join(f", .param .u64 in{i}" for i in range(len(arrays)))
    source = f""".version 8.7
.target {target}
.address_size 64
{before}
.visible .entry k({parameters}, .param .u64 out{inputs})
{{
    .reg .pred %p<4>;
    .reg .b16 %h<8>;
    .reg .b32 %r<16>;
    .reg .b32 %v<12>;
    .reg .b64 %rd<8>;
    {"ld.param.u64 %rd1, [tex];" if handle == "%rd1" else ""}
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 4;
    mul.wide.u32 %rd5, %r1, 16;
    add.s64 %rd6, %rd2, %rd5;
{load_arrays}
    {text}
    st.global.v4.b32 [%rd6], {{%r4, %r5, %r6, %r7}};
    ret;
}}
"""
    return assembled(source)


def run(k: LoadedKernel, texture: object, *inputs: Any, arguments: Sequence[object] | None = None) -> np.ndarray:
    """Four words per thread."""
    out = np.full((N, 4), 0xA5A5A5A5, np.uint32)
    arrays = [np.ascontiguousarray(a) for a in inputs]
    k.simulate(*([texture] if arguments is None else arguments), out, *arrays, grid=1, block=N)
    return out


# ------------------------------------------------------------------------------------------------- the guide


def fraction8(a: float) -> float:
    """A filter weight: 9 bits, 8 of them after the point, nearest."""
    return round(a * 256) / 256


def one_index(i: int, n: int, mode: str) -> int | None:
    if mode == "wrap":
        return i % n
    if mode == "mirror":
        i %= 2 * n
        return i if i < n else 2 * n - 1 - i
    if mode == "border":
        return i if 0 <= i < n else None
    return min(max(i, 0), n - 1)


def guide(
    image: np.ndarray, point: Sequence[float], filter: str, mode: str, normalized: bool, shift: Sequence[int] = ()
) -> float:
    """One read of a single-channel image, shape slowest first, at a point, x first."""
    sizes = image.shape[::-1]
    shift = shift or (0,) * len(sizes)
    axes: list[list[tuple[int | None, float]]] = []
    for x, n, e in zip(point, sizes, shift, strict=True):
        x = x * n if normalized else x
        m = mode if normalized or mode == "border" else "clamp"
        if filter == "nearest":
            axes.append([(one_index(math.floor(x) + e, n, m), 1.0)])
        else:
            xb = x - 0.5
            i = math.floor(xb)
            a = fraction8(xb - i)
            axes.append([(one_index(i + e, n, m), 1 - a), (one_index(i + 1 + e, n, m), a)])
    total = 0.0
    for taps in product(*axes):
        weight = math.prod(w for _, w in taps)
        place = tuple(i for i, _ in taps)[::-1]
        total += weight * (0.0 if None in place else float(image[place]))
    return total


def points(dims: int, size: Sequence[int], normalized: bool) -> list[np.ndarray]:
    """Coordinates inside, outside, and exactly on texel edges and centres; x first, f32."""
    found: list[np.ndarray] = []
    for n in size[::-1][:dims]:
        x = RNG.uniform(-1.7 * n, 2.7 * n, N)
        x[: N // 3] = RNG.integers(-2 * n, 3 * n, N // 3) / 2
        found.append((x / n if normalized else x).astype(np.float32))
    return found


GEOMETRY_DIMS = {"1d": 1, "2d": 2, "3d": 3}


@pytest.mark.parametrize("geometry", ["1d", "2d", "3d"])
@pytest.mark.parametrize("filter", ["nearest", "linear"])
@pytest.mark.parametrize("normalized", [False, True])
def test_filtered_reads(geometry: str, filter: str, normalized: bool) -> None:
    dims = GEOMETRY_DIMS[geometry]
    k = kernel(f"tex.{geometry}.v4.f32.f32 {{d}}, [{{t}}, {{c}}];", ["f32"] * dims)
    size = tuple(int(n) for n in RNG.integers(1, 8, dims))
    image = RNG.standard_normal(size).astype(np.float32)
    for mode in ("clamp", "border", "wrap", "mirror"):
        xyz = points(dims, size, normalized)
        texture = Texture(image, filter=filter, address=mode, normalized=normalized)
        got = run(k, texture, *xyz).view(np.float32)
        want = [guide(image, [float(c[i]) for c in xyz], filter, mode, normalized) for i in range(N)]
        np.testing.assert_allclose(got[:, 0], want, rtol=1e-6, atol=1e-6)
        assert not got[:, 1:].any()


def test_weights_have_eight_bits() -> None:
    """Between two texels there are 257 results, not more."""
    k = kernel("tex.1d.v4.f32.f32 {d}, [{t}, {c}];", ["f32"])
    x = np.linspace(0.5, 1.5, N, dtype=np.float32)
    got = run(k, Texture(np.array([0, 256], np.float32), filter="linear"), x).view(np.float32)[:, 0]
    assert got.tolist() == [round((float(v) - 0.5) * 256) for v in x]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_normalized_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    image = RNG.integers(limits.min, limits.max + 1, (5, 7, 4)).astype(dtype)
    image[0, 0, 0] = limits.min
    k = kernel("tex.2d.v4.f32.f32 {d}, [{t}, {c}];", ["f32", "f32"])
    xyz = points(2, (5, 7), False)
    xyz[0][0] = xyz[1][0] = 0
    got = run(k, Texture(image, geometry="2d", read="normalized", filter="linear"), *xyz).view(np.float32)
    values = np.maximum(image / float(limits.max), -1)
    for channel in range(4):
        want = [
            guide(values[..., channel], [float(c[i]) for c in xyz], "linear", "clamp", False) for i in range(N)
        ]  # fmt: skip
        np.testing.assert_allclose(got[:, channel], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_elements_and_channels(dtype: str, channels: int) -> None:
    """Elements come as 32-bit values, sign-extended if signed; integer coordinates outside a 1d texture read zero."""
    raw = RNG.integers(0, 256, 13 * channels * np.dtype(dtype).itemsize).astype(np.uint8)
    image = raw.view(dtype).reshape(13, channels)
    if image.dtype.kind == "f":
        image = RNG.standard_normal((13, channels)).astype(dtype)
    kind = {"f": "f32", "i": "s32", "u": "u32"}[image.dtype.kind]
    k = kernel(f"tex.1d.v4.{kind}.s32 {{d}}, [{{t}}, {{c}}];", ["s32"])
    x = RNG.integers(-4, 20, N).astype(np.int32)
    got = run(k, Texture(image, geometry="1d"), x)
    wide = image.astype({"f": np.float32, "i": np.int32, "u": np.uint32}[image.dtype.kind]).view(np.uint32)
    want = np.zeros((N, 4), np.uint32)
    inside = (x >= 0) & (x < 13)
    want[inside, :channels] = wide[x[inside]]
    np.testing.assert_array_equal(got, want)


def test_layers_and_offsets() -> None:
    """a1d and a2d choose a layer, clamped to the last; offsets move texels before the address mode."""
    stack = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    layer = RNG.integers(0, 5, N).astype(np.uint32)
    xyz = points(2, (4, 5), False)
    k = kernel("tex.a2d.v4.f32.f32 {d}, [{t}, {c}], {ve};", ["u32", "f32", "f32"], ["s32", "s32"])
    shift = RNG.integers(-8, 8, (2, N)).astype(np.int32)
    got = run(k, Texture(stack, geometry="a2d", filter="linear", address="border"), layer, *xyz, *shift)
    want = [
        guide(stack[min(int(layer[i]), 2)], [float(c[i]) for c in xyz], "linear", "border", False, shift[:, i].tolist())
        for i in range(N)
    ]
    np.testing.assert_allclose(got.view(np.float32)[:, 0], want, rtol=1e-6, atol=1e-6)

    k = kernel("tex.a1d.v4.f32.s32 {d}, [{t}, {c}];", ["u32", "s32"])
    rows = RNG.standard_normal((3, 6)).astype(np.float32)
    x = RNG.integers(-2, 9, N).astype(np.int32)
    got = run(k, Texture(rows, geometry="a1d"), layer, x).view(np.float32)[:, 0]
    np.testing.assert_array_equal(got, rows[np.minimum(layer, 2), np.clip(x, 0, 5)])


def test_multi_sample() -> None:
    image = RNG.standard_normal((2, 4, 5, 6)).astype(np.float32)
    index, sample, y, x = (RNG.integers(0, n, N).astype(np.int32) for n in image.shape)
    k = kernel("tex.a2dms.v4.f32.s32 {d}, [{t}, {c}];", ["u32", "u32", "s32", "s32"])
    got = run(k, Texture(image, geometry="a2dms"), index, sample, x, y).view(np.float32)[:, 0]
    np.testing.assert_array_equal(got, image[index, sample, y, x])
    k = kernel("tex.2dms.v4.f32.s32 {d}, [{t}, {c}];", ["u32", "s32", "s32"])
    got = run(k, Texture(image[0], geometry="2dms"), sample, x, y).view(np.float32)[:, 0]
    np.testing.assert_array_equal(got, image[0, sample, y, x])


def cube_reference(x: float, y: float, z: float) -> tuple[int, float, float]:
    """The guide's table of cubemap faces: (face, s, t) with face, m, s, t by the largest magnitude."""
    if abs(x) >= abs(y) and abs(x) >= abs(z):
        face, m, s, t = (0, x, -z, -y) if x >= 0 else (1, -x, z, -y)
    elif abs(y) >= abs(z):
        face, m, s, t = (2, y, x, z) if y >= 0 else (3, -y, x, -z)
    else:
        face, m, s, t = (4, z, x, -y) if z >= 0 else (5, -z, -x, -y)
    return face, (s / m + 1) / 2, (t / m + 1) / 2


def test_cubes() -> None:
    cubes = RNG.standard_normal((2, 6, 4, 4)).astype(np.float32)
    direction = RNG.standard_normal((3, N)).astype(np.float32)
    which = RNG.integers(0, 2, N).astype(np.uint32)
    k = kernel("tex.acube.v4.f32.f32 {d}, [{t}, {c}];", ["u32", "f32", "f32", "f32"])
    got = run(k, Texture(cubes, geometry="acube", filter="linear"), which, *direction).view(np.float32)[:, 0]
    for i in range(N):
        face, s, t = cube_reference(*(float(v) for v in direction[:, i]))
        assert got[i] == pytest.approx(guide(cubes[which[i], face], (s, t), "linear", "clamp", True), abs=1e-6)
    k = kernel("tex.cube.v4.f32.f32 {d}, [{t}, {c}];", ["f32", "f32", "f32"])
    got = run(k, Texture(cubes[1], geometry="cube"), *direction).view(np.float32)[:, 0]
    for i in range(N):
        face, s, t = cube_reference(*(float(v) for v in direction[:, i]))
        assert got[i] == guide(cubes[1, face], (s, t), "nearest", "clamp", True)


def levels() -> list[np.ndarray]:
    return [RNG.standard_normal((max(1, 8 >> i), max(1, 16 >> i))).astype(np.float32) for i in range(5)]


@pytest.mark.parametrize("mip_filter", ["nearest", "linear"])
def test_levels(mip_filter: str) -> None:
    images = levels()
    texture = Texture(
        images[0], mipmaps=images[1:], mip_filter=mip_filter, filter="linear", address="wrap", normalized=True
    )
    xy = points(2, (8, 16), True)
    lod = RNG.uniform(-1, 6, N).astype(np.float32)
    k = kernel("tex.level.2d.v4.f32.f32 {d}, [{t}, {c}], {e};", ["f32", "f32"], ["f32"])
    got = run(k, texture, *xy, lod).view(np.float32)[:, 0]

    def at(level: int, i: int) -> float:
        return guide(images[level], [float(c[i]) for c in xy], "linear", "wrap", True)

    def want(i: int, detail: float) -> float:
        detail = min(max(detail, 0.0), 4.0)
        if mip_filter == "nearest":
            return at(math.floor(detail + 0.5), i)
        low = math.floor(detail)
        a = fraction8(detail - low)
        return (1 - a) * at(low, i) + a * at(min(low + 1, 4), i)

    np.testing.assert_allclose(got, [want(i, float(lod[i])) for i in range(N)], rtol=1e-6, atol=1e-6)
    # derivatives: the longer one, in texels, says the level
    gradients = [(RNG.uniform(-1, 1, N) * 2.0 ** RNG.uniform(-5, 0, N)).astype(np.float32) for _ in range(4)]
    k = kernel(
        "tex.grad.2d.v4.f32.f32 {d}, [{t}, {c}], {{%v2, %v3}}, {{%v4, %v5}};", ["f32", "f32"], ["f32"] * 4
    )  # fmt: skip
    got = run(k, texture, *xy, *gradients).view(np.float32)[:, 0]
    for i in range(N):
        ax, ay, bx, by = (float(g[i]) for g in gradients)
        longest = max(math.hypot(ax * 16, ay * 8), math.hypot(bx * 16, by * 8))
        assert got[i] == pytest.approx(want(i, math.log2(longest)), abs=2e-2 if mip_filter == "linear" else 1e-6)


@pytest.mark.parametrize("component", range(4))
def test_gather(component: int) -> None:
    """tld4: the texels that bilinear filtering reads, counter-clockwise from the one at the lower left."""
    image = RNG.standard_normal((5, 6, 4)).astype(np.float32)
    xy = points(2, (5, 6), False)
    k = kernel(f"tld4.{'rgba'[component]}.2d.v4.f32.f32 {{d}}, [{{t}}, {{c}}];", ["f32", "f32"])
    got = run(k, Texture(image, geometry="2d", address="clamp"), *xy).view(np.float32)
    for i in range(N):
        x, y = (math.floor(float(c[i]) - 0.5) for c in xy)
        corners = [(x, y + 1), (x + 1, y + 1), (x + 1, y), (x, y)]
        assert got[i].tolist() == [
            image[min(max(b, 0), 4), min(max(a, 0), 5), component] for a, b in corners
        ]  # fmt: skip


def test_halves_and_residence() -> None:
    image = RNG.standard_normal((9, 4)).astype(np.float32)
    x = RNG.integers(0, 9, N).astype(np.int32)
    k = kernel("tex.1d.v2.f16x2.s32 {{%r4, %r5}}|%p1, [{t}, {c}]; selp.u32 %r6, 1, 0, %p1; mov.u32 %r7, 0;", ["s32"])
    got = run(k, Texture(image, geometry="1d"), x)
    np.testing.assert_array_equal(got[:, :2].copy().view(np.float16), image[x].astype(np.float16))
    assert (got[:, 2] == 1).all()


def test_module_variables_and_independent_samplers() -> None:
    """`.texref` and `.samplerref` variables by name; a sampler that the module initialises, and one that is bound."""
    image = RNG.standard_normal((6, 5)).astype(np.float32)
    xy = points(2, (6, 5), True)
    before = """.global .texref picture;
.global .samplerref smooth = { addr_mode_0 = wrap, addr_mode_1 = wrap, filter_mode = linear };
.global .samplerref other;"""
    for sampler, filter, mode in (("smooth", "linear", "wrap"), ("other", "nearest", "mirror")):
        k = kernel(
            f"tex.2d.v4.f32.f32 {{d}}, [picture, {sampler}, {{c}}];", ["f32", "f32"], before=before,
            target="sm_75, texmode_independent", parameters=".param .u64 unused", handle="picture",
        )  # fmt: skip
        with pytest.raises(SimulationError, match="picture is not bound"):
            run(k, 0, *xy)
        k.bind("picture", Texture(image, normalized=True))
        k.bind("other", Sampler("nearest", "mirror"))
        got = run(k, 0, *xy).view(np.float32)[:, 0]
        want = [guide(image, [float(c[i]) for c in xy], filter, mode, True) for i in range(N)]
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        with pytest.raises(SimulationError, match="did you mean `picture`"):
            k.bind("pictur", Texture(image))
        with pytest.raises(SimulationError, match=r"picture is a \.texref: bind a Texture"):
            k.bind("picture", Sampler())


def test_handles_differ_between_threads() -> None:
    a, b = (RNG.standard_normal(8).astype(np.float32) for _ in range(2))
    k = kernel(
        "ld.param.u64 %rd7, [more]; setp.lt.u32 %p1, %r1, 50; selp.b64 %rd1, %rd1, %rd7, %p1; "
        "tex.1d.v4.f32.s32 {d}, [{t}, {c}]; istypep.texref %p2, %rd1; selp.u32 %r5, 1, 0, %p2; "
        "istypep.surfref %p2, %rd1; selp.u32 %r6, 1, 0, %p2;",
        ["s32"], parameters=".param .u64 tex, .param .u64 more",
    )  # fmt: skip
    x = RNG.integers(0, 8, N).astype(np.int32)
    got = run(k, None, x, arguments=[Texture(a), Texture(b)])
    np.testing.assert_array_equal(got[:, 0].copy().view(np.float32), np.where(np.arange(N) < 50, a[x], b[x]))
    assert (got[:, 1] == 1).all()
    assert not got[:, 2].any()


def test_queries() -> None:
    texture = Texture(
        np.zeros((2, 12, 20, 4), np.uint8), geometry="a2d", read="normalized", filter="linear", normalized=True,
        address=("wrap", "border"), mipmaps=[np.zeros((2, 6, 10, 4), np.uint8)],
    )  # fmt: skip

    def ask(*queries: str) -> list[int]:
        k = kernel("".join(f"txq.{q}.b32 %r{4 + i}, [{{t}}];" for i, q in enumerate(queries)), [])
        return run(k, texture)[0].tolist()

    assert ask("width", "height", "array_size", "num_mipmap_levels") == [20, 12, 2, 2]
    assert ask("filter_mode", "addr_mode_0", "addr_mode_1", "normalized_coords") == [1, 0, 4, 1]
    k = kernel(
        "txq.level.width.b32 %r4, [{t}], 1; txq.level.height.b32 %r5, [{t}], 1; mov.u32 %r6, 0; mov.u32 %r7, 0;", []
    )
    assert run(k, texture)[0].tolist() == [10, 6, 0, 0]


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: Texture([1, 2]), "NumPy array"),
    (lambda: Texture(np.zeros((2, 2), np.float64)), "float64"),
    (lambda: Texture(np.zeros((2, 3, 4, 4), np.float32)), "say which with geometry"),
    (lambda: Texture(np.zeros((2, 3, 3), np.float32), geometry="2d"), "1, 2 or 4 channels"),
    (lambda: Texture(np.zeros((6, 2, 3), np.float32), geometry="cube"), "six square faces"),
    (lambda: Texture(np.zeros(4, np.int32), filter="linear"), "cannot be filtered"),
    (lambda: Texture(np.zeros(4, np.float32), filter="cubic"), "nearest or linear"),
    (lambda: Texture(np.zeros(4, np.float32), address="repeat"), "address mode"),
    (lambda: Texture(np.zeros(4, np.float32), mipmaps=[np.zeros(3, np.float32)]), "half the size"),
    (lambda: Texture(np.zeros(4, np.float32), read="normalized"), "8 and 16 bit integers"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_textures(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        make()


def test_bad_reads_name_their_place() -> None:
    k = kernel("tex.2d.v4.f32.f32 {d}, [{t}, {c}];", ["f32", "f32"])
    xy = points(2, (2, 2), False)
    with pytest.raises(SimulationError, match=r"geometry 1d, not 2d \(instruction `tex"):
        run(k, Texture(np.zeros(4, np.float32)), *xy)
    with pytest.raises(SimulationError, match=r"0x7b is not a handle of a \.texref"):
        run(k, 123, *xy)


# -------------------------------------------------------------------------------------------- depth, slopes of cubes

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "never": lambda f, t: False, "less": lambda f, t: f < t, "equal": lambda f, t: f == t,
    "less_equal": lambda f, t: f <= t, "greater": lambda f, t: f > t, "not_equal": lambda f, t: f != t,
    "greater_equal": lambda f, t: f >= t, "always": lambda f, t: True,
}  # fmt: skip


@pytest.mark.parametrize("compare", COMPARE)
def test_depth_is_compared_texel_by_texel(compare: str) -> None:
    """What is filtered are the results of the comparisons, 1 and 0."""
    image = RNG.integers(0, 4, (6, 7)).astype(np.float32)
    xy = points(2, (6, 7), False)
    f = RNG.integers(0, 4, N).astype(np.float32)
    k = kernel("tex.2d.v4.f32.f32 {d}, [{t}, {c}], {e};", ["f32", "f32"], ["f32"])
    for filter in ("nearest", "linear"):
        texture = Texture(image, filter=filter, address="clamp", compare=compare)
        got = run(k, texture, *xy, f).view(np.float32)[:, 0]
        for i in range(N):
            passed = np.array([[COMPARE[compare](float(f[i]), float(t)) for t in row] for row in image], np.float32)
            assert got[i] == pytest.approx(guide(passed, [float(c[i]) for c in xy], filter, "clamp", False), abs=1e-6)


def test_depth_with_offsets_and_gathered() -> None:
    image = RNG.uniform(0, 1, (5, 6)).astype(np.float32)
    xy = points(2, (5, 6), False)
    f = RNG.uniform(0, 1, N).astype(np.float32)
    shift = RNG.integers(-3, 4, (2, N)).astype(np.int32)
    k = kernel(
        "tex.2d.v4.f32.f32 {d}, [{t}, {c}], {{%v3, %v4}}, %v2;", ["f32", "f32"], ["f32", "s32", "s32"]
    )  # fmt: skip
    got = run(k, Texture(image, address="clamp", compare="less"), *xy, f, *shift).view(np.float32)[:, 0]
    gathered = kernel("tld4.r.2d.v4.f32.f32 {d}, [{t}, {c}], {e};", ["f32", "f32"], ["f32"])
    four = run(gathered, Texture(image, address="clamp", compare="less"), *xy, f).view(np.float32)
    for i in range(N):
        passed = (f[i] < image).astype(np.float32)
        here = [float(c[i]) for c in xy]
        assert got[i] == guide(passed, here, "nearest", "clamp", False, shift[:, i].tolist())
        x, y = (math.floor(c - 0.5) for c in here)
        corners = [(x, y + 1), (x + 1, y + 1), (x + 1, y), (x, y)]
        assert four[i].tolist() == [passed[min(max(b, 0), 4), min(max(a, 0), 5)] for a, b in corners]


def test_a_comparison_must_be_given() -> None:
    k = kernel("tex.2d.v4.f32.f32 {d}, [{t}, {c}], {e};", ["f32", "f32"], ["f32"])
    nothing = [np.zeros(N, np.float32)] * 3
    with pytest.raises(SimulationError, match=r"compared as the host's sampler says(.|\n)*compare="):
        run(k, Texture(np.zeros((4, 4), np.float32)), *nothing)
    with pytest.raises(SimulationError, match="compare is one of never, less"):
        Sampler(compare="LE")


def test_slopes_of_cubes() -> None:
    """The level is that of the derivative of (s, t), here a difference quotient: levels are constant images."""
    sizes = [32, 16, 8, 4, 2, 1]
    levels = [np.full((6, n, n), i, np.float32) for i, n in enumerate(sizes)]
    texture = Texture(levels[0], geometry="cube", mipmaps=levels[1:], mip_filter="linear")
    direction = RNG.standard_normal((3, N)).astype(np.float32)
    slopes = (RNG.standard_normal((2, 3, N)) * 2.0 ** RNG.uniform(-6, 1, N)).astype(np.float32)
    k = kernel(
        "tex.grad.cube.v4.f32.f32 {d}, [{t}, {c}], {{%v3, %v4, %v5, %v5}}, {{%v6, %v7, %v8, %v8}};",
        ["f32"] * 3, ["f32"] * 6,
    )  # fmt: skip
    got = run(k, texture, *direction, *slopes.reshape(6, N)).view(np.float32)[:, 0]
    compared = 0
    for i in range(N):
        face, s, t = cube_reference(*(float(v) for v in direction[:, i]))
        longest = 0.0
        h = 1e-6
        for slope in slopes[:, :, i].astype(float):
            moved = cube_reference(*(float(v) + h * d for v, d in zip(direction[:, i], slope, strict=True)))
            if moved[0] != face:
                break
            longest = max(longest, math.hypot((moved[1] - s) / h * 32, (moved[2] - t) / h * 32))
        else:
            compared += 1
            assert got[i] == pytest.approx(min(max(math.log2(longest), 0.0), 5.0), abs=1e-2)
    assert compared > N // 2
