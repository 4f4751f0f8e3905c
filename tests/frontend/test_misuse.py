"""Misuse of the DSL: refused at the line of the call (or of the kernel, where only the launch is wrong)."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, Tile, kernel, ptx, reg, smem
from pyptx.diagnostics import Diagnostic, TraceWarning
from pyptx.types import b8, b16, b32, bf16, e4m3, e5m2, f16, f32, pred, s8, tf32, u8, u16, u32, u64

from .tracing import assembled


def refusal(function: Callable[..., None], marker: str | None = None, **options: Any) -> Diagnostic:
    """The one error of tracing; it is at the line of the function's source that has the marker (default: the call that
    ends in `# here`).
    """
    with pytest.raises(PTXError) as caught:
        kernel(**options)(function).ptx()
    (found,) = caught.value.diagnostics
    if marker is not None:
        code, first = inspect.getsourcelines(function)
        assert found.line == first + next(i for i, text in enumerate(code) if marker in text)
        assert found.filename == __file__
    return found


def product(a: Any, b: Any, n: int = 64, k: int = 16, dtype: Any = bf16) -> None:
    ptx.wgmma.mma_async(shape=(64, n, k), dtype_d=f32, dtype_a=dtype, dtype_b=dtype, d=reg.array(f32, n // 2), a=a, b=b)


def test_wgmma_tile_of_another_type() -> None:
    def wrong():
        product(smem.wgmma_tile(f32, (64, 64)), smem.wgmma_tile(bf16, (64, 64)))

    assert "A is read as bf16, and smem_0 has elements of f32" in refusal(wrong).message


@pytest.mark.parametrize(
    ("a", "b", "n", "message"),
    [
        (("K", (64, 64)), ("K", (64, 64)), 128, "B is 128 x 16 (N x K), and smem_1 is 64 x 64"),
        (("K", (64, 64)), ("MN", (64, 128)), 256, "B is 256 x 16 (N x K), and smem_1 is 128 x 64"),
        (("MN", (8, 64)), ("K", (64, 64)), 64, "A is 64 x 16 (M x K), and smem_0 is 64 x 8"),
        (("K", (32, 64)), ("K", (64, 64)), 64, "A is 64 x 16 (M x K), and smem_0 is 32 x 64"),
    ],
)
def test_wgmma_tile_that_is_too_small(a: Any, b: Any, n: int, message: str) -> None:
    def wrong():
        product(smem.wgmma_tile(bf16, a[1], major=a[0]), smem.wgmma_tile(bf16, b[1], major=b[0]), n)

    assert message in refusal(wrong).message


def test_wgmma_tiles_that_fit() -> None:
    def right():
        product(smem.wgmma_tile(bf16, (2, 128, 64))[1], smem.wgmma_tile(bf16, (16, 128), major="MN"), 128)
        product(smem.wgmma_tile(f16, (64, 64)), smem.wgmma_tile(f16, (64, 64)), dtype=f16)
        product(smem.wgmma_tile(f32, (64, 32)), smem.wgmma_tile(tf32, (64, 32)), k=8, dtype=tf32)

    assert kernel(right).ptx().count("wgmma.mma_async") == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smem": 232449}, "232449 bytes of shared memory are asked for, and a CTA has at most 232448 on sm_90a"),
        ({"smem": 166913, "arch": "sm_80"}, "at most 166912 on sm_80"),
        ({"smem": 101377, "arch": "sm_120a", "extern_smem": True}, "at most 101376 on sm_120a"),
        ({"cluster": (4, 5, 1)}, "20 CTAs: 8 always fit, 16 are the most"),
        ({"cluster": 2, "arch": "sm_80"}, "sm_80 has no clusters"),
        ({"block": (32, 33)}, "1056 threads, and a CTA has at most 1024"),
    ],
)
def test_launches_that_no_gpu_takes(options: dict[str, Any], message: str) -> None:
    def empty():
        ptx.ret()

    assert message in refusal(empty, "def empty", **options).message


@pytest.mark.parametrize(
    "options", [{"smem": 232448}, {"cluster": (16, 1, 1)}, {"block": 1024}, {"block": (8, 8, 16)}, {"cluster": 1}]
)
def test_launches_at_the_limit(options: dict[str, Any]) -> None:
    def empty():
        ptx.ret()

    assert "ret;" in kernel(**options)(empty).ptx()


def test_extents_that_depend_on_dimensions() -> None:
    def empty(x):
        ptx.ret()

    wide = kernel(in_specs=[Tile("N", f32)], block=lambda N: N)(empty)
    assert wide.resolve_launch({"N": 1024}).block == (1024, 1, 1)
    with pytest.raises(ValueError, match=r"kernel empty: block .* has 1025 threads"):
        wide.resolve_launch({"N": 1025})


def test_blocks_that_are_not_closed() -> None:
    def never_entered():
        a = reg.scalar(u32, init=1)
        ptx.if_(a < 2)
        a += 1

    def never_left():
        ptx.if_(reg.scalar(u32, init=1) < 2).__enter__()

    def other():
        with ptx.if_(reg.scalar(u32, init=1) < 2):
            pass
        ptx.else_()

    def loop():
        ptx.loop("again")

    def scope():
        ptx.scope().__enter__()

    assert "ptx.if_(p) is not closed" in refusal(never_entered, "ptx.if_").message
    assert "ptx.if_(p) is not closed" in refusal(never_left, "ptx.if_").message
    assert "with ptx.else_():" in (refusal(other, "ptx.else_").hint or "")
    assert 'ptx.loop("again") is not closed' in refusal(loop, "ptx.loop").message
    assert "ptx.scope() is not closed" in refusal(scope, "ptx.scope").message


def checked(function: Callable[..., None]) -> list[tuple[str, int | None]]:
    """(message, line within the function) of the errors that `check` finds about mbarriers."""
    first = inspect.getsourcelines(function)[1]
    found = kernel(function).check()
    return [(d.message, (d.line or 0) - first) for d in found if "mbarrier" in d.message and d.severity == "error"]


def test_an_mbarrier_that_nobody_initialises() -> None:
    def none():
        bar = smem.mbarrier(1)
        ptx.mbarrier.wait(bar[0], 0)

    def other():
        bar = smem.mbarrier(3)
        ptx.mbarrier.init(bar[0], 1)
        ptx.mbarrier.init(bar[2], 1)
        ptx.mbarrier.arrive(bar[2])
        ptx.mbarrier.arrive_expect_tx(bar[1], 16)

    ((message, line),) = checked(none)
    assert message.startswith("mbarrier mbar_0[0] is used here")
    assert line == 2
    ((message, line),) = checked(other)
    assert message.startswith("mbarrier mbar_0[1] is used here")
    assert line == 5
    assert "mbarrier.try_wait" in kernel(none).ptx()  # it can still be looked at


def test_mbarriers_that_are_initialised() -> None:
    def by_name():
        bar = smem.mbarrier(2)
        for b in bar:
            ptx.mbarrier.init(b, 1)
        ptx.mbarrier.arrive(bar[1])

    def by_register():
        bar = smem.mbarrier(2)
        ring = ptx.mbarrier.array(reg.from_(bar.name, u32), 0, 2)
        ring.init_all(1)
        ptx.mbarrier.arrive(bar[1])

    def by_index():
        bar = smem.mbarrier(2)
        for i in ptx.range_(2):
            ptx.mbarrier.init(bar[i], 1)
        ptx.mbarrier.arrive(bar[1])

    def in_dynamic_memory():
        smem.alloc(b32, (20_000,))
        bar = smem.mbarrier(2)
        ptx.mbarrier.init(bar[1], 1)
        ptx.mbarrier.arrive(bar[1])

    for function in (by_name, by_register, by_index, in_dynamic_memory):
        assert checked(function) == [], function.__name__


TMA_RULES = [
    (Tile(512, 64, f32, tma_box=(300, 32)), np.float32, "a side above 256"),
    (Tile(64, 64, f32, tma_box=(0, 64)), np.float32, "an empty side"),
    (Tile(64, 63, f32, tma_box=(64, 16)), np.float32, "252 bytes apart, and TMA needs multiples of 16"),
    (Tile(64, 64, f32, tma_box=(64, 3)), np.float32, "rows of its box are 12 bytes, and must be multiples of 16"),
    (Tile(64, 64, f32, tma_box=(64,)), np.float32, "has 1 dimension, and the tensor 2"),
    (Tile(1, 1, 1, 1, 1, 16, u8), np.uint8, "1 to 5 dimensions, not 6"),
]


@pytest.mark.parametrize(("tile", "dtype", "message"), TMA_RULES, ids=[m for *_, m in TMA_RULES])
@pytest.mark.filterwarnings("ignore:.*never writes it")
def test_each_rule_of_tma_has_its_message(tile: Tile, dtype: Any, message: str) -> None:
    @kernel(in_specs=[tile], out_specs=[Tile(1, f32)])
    def described(x, y):
        x.tma_desc()

    with pytest.raises(PTXError, match=message):
        described(np.zeros(tile.dims, dtype))


@pytest.mark.parametrize(("tile", "dtype", "message"), TMA_RULES[:4], ids=[m for *_, m in TMA_RULES[:4]])
def test_check_knows_the_rules_of_tma(tile: Tile, dtype: Any, message: str) -> None:
    def described(x, y):
        bar = smem.mbarrier(1)
        ptx.mbarrier.init(bar[0], 1)
        tall = smem.alloc(f32, (300, 64), align=1024)
        ptx.cp.async_.bulk.tensor_2d(dst=tall, src=x, coord=(0, 0), mbar=bar[0])  # here
        ptx.cp.async_.bulk.tensor_2d(dst=tall, src=x, coord=(0, 0), mbar=bar[0])
        ptx.pointer(y).store(1.0)

    (found,) = [d for d in kernel(in_specs=[tile], out_specs=[Tile(1, f32)])(described).check() if "TMA" in d.message]
    assert message in found.message
    code, first = inspect.getsourcelines(described)
    assert found.line == first + next(i for i, text in enumerate(code) if "# here" in text)


INSIDE: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: smem.wgmma_tile(bf16, (64, 24)), ValueError, "rows of 48 bytes"),
    (lambda: reg.wgmma_frag(m=1, n=8, dtype=f32), ValueError, "does not spread evenly"),
    (lambda: ptx.wgmma.auto_descriptor(0, dtype=bf16, shape=(64, 24), major="K"), ValueError, "rows of 48 bytes"),
    (lambda: ptx.tcgen05.make_instr_desc_f16bf16_f32(m=100), ValueError, "m is 64, 128 or 256"),
    (lambda: ptx.kloop(4, unroll=3, body=lambda: None), ValueError, "a power of two, not 3"),
    (lambda: smem.alloc(f32, (4, 4))[7], IndexError, "4 parts"),
    (lambda: smem.mbarrier(2)[2], IndexError, "2"),
    (lambda: smem.alloc(f32, (4, 4))["a"], TypeError, "chosen by an int or a register"),
    (lambda: ptx.mx.sync(), AttributeError, "mx"),
]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("use", "kind", "message"), INSIDE)
def test_what_functions_raise_about_arguments_has_the_kernels_line(
    use: Callable[[], object], kind: type[Exception], message: str, dynamic: bool
) -> None:
    def wrong():
        if dynamic:
            smem.alloc(f32, 20_000)
        for _ in ptx.range_(3):
            use()

    made = kernel(wrong)
    with pytest.raises(kind, match=message) as caught:
        made.ptx()
    assert isinstance(caught.value, PTXError)
    (found,) = made.check()
    assert found.filename == __file__
    assert found.line == use.__code__.co_firstlineno
    assert found.column is not None


def test_errors_of_the_authors_own_are_left_alone() -> None:
    def wrong():
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$") as caught:
        kernel(wrong).ptx()
    assert not isinstance(caught.value, PTXError)


@pytest.mark.parametrize(("arch", "limit"), [("sm_90a", 232_448), ("sm_80", 166_912), ("sm_120a", 101_376)])
def test_the_allocation_that_is_too_much(arch: str, limit: int) -> None:
    def wrong():
        smem.alloc(f32, limit // 4)
        smem.mbarrier(1)  # here

    found = refusal(wrong, "# here", arch=arch)
    assert f"allocates {limit + 8} of shared memory, and a CTA has at most {limit} on {arch}" in found.message


def test_a_kernel_without_grid_is_one_cta() -> None:
    @kernel(in_specs=[Tile(4, f32)], out_specs=[Tile(4, f32)], block=4)
    def copy(x, y):
        i = ptx.special.tid.x()
        (ptx.pointer(y) + i).store((ptx.pointer(x) + i).load())

    x = np.random.default_rng(5).random(4, np.float32)
    assert np.array_equal(copy(x), x)


def test_a_name_is_no_type() -> None:
    def allocation():
        smem.alloc("f32", 4)  # here  # pyright: ignore[reportArgumentType]

    def tile():
        smem.wgmma_tile("bf16", (64, 64))  # here  # pyright: ignore[reportArgumentType]

    assert "is one of pyptx.types" in refusal(allocation, "# here").message
    assert "is one of pyptx.types" in refusal(tile, "# here").message


def test_offsets_along_k_are_multiples_of_16_bytes() -> None:
    def wrong():
        a, b = smem.wgmma_tile(bf16, (64, 64)), smem.wgmma_tile(bf16, (64, 64))
        d = reg.array(f32, 32)
        ptx.wgmma.mma_async(shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=d, a=a, b=b, a_k_offset=8)

    assert "multiple of 16 bytes, not 8" in refusal(wrong).message


@pytest.mark.parametrize(
    ("make", "atom"),
    [
        (lambda align: smem.wgmma_tile(bf16, (64, 64), align=align), 1024),
        *((lambda align, s=s, i=i: smem.alloc(bf16, (64, 64 >> i), swizzle=s, align=align), 1024 >> i) for i, s in enumerate(("128B", "64B", "32B"))),
    ],
)  # fmt: skip
def test_an_alignment_is_a_multiple_of_the_swizzle(make: Any, atom: int) -> None:
    """The pattern of the 128B swizzle repeats every 1024 bytes (PTX ISA 5.5.7), of 64B every 512, of 32B every 256."""
    assert f"it must be a multiple of {atom}" in refusal(lambda: make(atom // 2)).message

    @kernel(arch="sm_90a")
    def aligned():
        make(atom)
        make(2 * atom)
        make(None)

    assert [line.split()[2] for line in aligned.ptx().splitlines() if ".shared" in line] == [
        str(atom),
        str(2 * atom),
        str(atom),
    ]


def test_wgmma_operands_have_the_type_that_they_are_read_as() -> None:
    def multiplied(stored: Any, kind: Any, k: int, scale_d: Any = False) -> Any:
        def made():
            a = smem.wgmma_tile(stored, (64, 128 * 8 // stored.bits))
            b = smem.alloc(stored, (64, 128 * 8 // stored.bits), swizzle="128B")
            d = reg.array(f32, 32)
            ptx.wgmma.mma_async(
                shape=(64, 64, k), dtype_d=f32, dtype_a=kind, dtype_b=kind, d=d, a=a, b=b, scale_d=scale_d
            )

        return made

    for stored, kind, k in ((f16, bf16, 16), (bf16, f16, 16), (e5m2, e4m3, 32), (s8, e4m3, 32)):
        message = refusal(multiplied(stored, kind, k)).message
        assert f"is read as {kind}, and" in message and f"elements of {stored}" in message
    for stored, kind, k in ((b16, bf16, 16), (u16, f16, 16), (f32, tf32, 8), (b8, e4m3, 32), (u8, e5m2, 32)):
        kernel(arch="sm_90a")(multiplied(stored, kind, k)).ptx()
    for wrong in ("no", "", None, [], 1.5):
        assert "whether to accumulate is a bool" in refusal(multiplied(bf16, bf16, 16, wrong)).message
    for right in (True, 0, np.bool_(1), np.int64(0)):
        kernel(arch="sm_90a")(multiplied(bf16, bf16, 16, right)).ptx()


@pytest.mark.parametrize(
    ("layout", "order", "at", "words"),
    [
        ("x4", "columns", (60, 0), "16 elements from 60 on in dimension 0"),
        ("x4", "columns", (0, 56), "16 elements from 56 on in dimension 1"),
        ("x4", "columns", (0, 4), "do not begin at 16 bytes"),
        ("x2", "rows", (0, 56), "16 elements from 56 on in dimension 1"),
        ("x1", "columns", (57, 0), "8 elements from 57 on in dimension 0"),
        ("x1", "columns", (-8, 0), "8 elements from -8 on in dimension 0"),
        ("x4", "columns", (48, 48), ""),
        ("x2", "columns", (48, 56), ""),
        ("x2", "rows", (56, 48), ""),
        ("x1", "columns", (3, 56), ""),
    ],
)
def test_matrices_lie_in_their_array(layout: str, order: str, at: tuple[int, int], words: str) -> None:
    """An x4 has 16 x 16 elements, an x2 16 x 8, or 8 x 16 by rows, and each row of a matrix begins at 16 bytes (PTX ISA 9.7.16.5.15)."""

    def moved():
        tile = smem.alloc(f16, (64, 64))
        registers = reg.array(b32, int(layout[1:]))
        ptx.ldmatrix(dst=registers, src=tile, layout=layout, at=at, order=order)
        ptx.stmatrix(smem=tile, regs=registers, layout=layout, at=at, order=order)

    if words:
        assert words in refusal(moved).message
    else:
        kernel(arch="sm_90a")(moved).ptx()


def test_tiles_and_versions() -> None:
    with pytest.raises(ValueError, match="0 or more, or a name, not -4"):
        Tile(-4, f32)
    with pytest.raises(TypeError, match="tma_box is a tuple"):
        Tile(64, 64, f32, tma_box=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r'written like "8.7", not \'abc\''):
        kernel(version="abc")(lambda: None)


def test_return_inside_a_block() -> None:
    def wrong(x: Any):
        t = ptx.special.tid.x()
        with ptx.if_(t > 30):
            return  # here
        ptx.pointer(x).store(1.0)

    found = refusal(wrong, "# here", in_specs=[Tile(32, f32)], out_specs=[])
    assert "Python's return inside a block" in found.message
    assert "ptx.ret()" in (found.hint or "")


def test_continue_inside_a_block() -> None:
    def wrong():
        for i in ptx.range_(4):
            with ptx.if_(i == 2):
                continue  # here
            ptx.bar.sync(0)

    assert "Python's continue inside a block" in refusal(wrong, "# here").message


def test_a_return_that_skips_nothing_is_fine() -> None:
    def right(deep: bool):
        def inner():
            with ptx.if_(ptx.special.tid.x() > 3):
                ptx.bar.sync(0)
                return

        with ptx.if_(ptx.special.tid.x() > 30):
            for n in range(4):
                if n == 2:
                    continue
                inner()
            if not deep:
                return
        ptx.bar.sync(1)

    assert kernel(lambda: right(True)).ptx().count("bar.sync") == 4


def helper_that_forgets() -> None:
    ptx.bar.sync(0)
    ptx.fence.proxy_async_shared_cta


def test_an_instruction_without_its_call() -> None:
    around = ptx

    @kernel
    def wrong():
        v = reg.scalar(u32, init=1)
        ptx.bar.sync  # here
        with ptx.if_(v > 0):
            ptx.inst.bar.sync  # here
            ptx.ret  # here
            around.fence.mbarrier_init  # here
        helper_that_forgets()
        barrier = ptx.bar.sync
        barrier(0)
        v.dtype
        len(ptx.bar.__class__.__name__)

    with pytest.warns(TraceWarning, match="is named here and not called: no instruction comes of it") as caught:
        found = [d for d in wrong.check() if d.severity == "warning"]
    code, first = inspect.getsourcelines(wrong)
    here = [first + i for i, text in enumerate(code) if "# here" in text]
    assert [d.line for d in found] == [*here, inspect.getsourcelines(helper_that_forgets)[1] + 2]
    assert found[0].message.startswith("ptx.bar.sync is named")
    assert found[0].column == 9
    assert len(caught) == 5
    assert wrong.ptx().count("bar.sync") == 2


# Habits of Python, NumPy and CUDA C++: (what a kernel does with a f32 register v, an integer i and shared memory s;
# what the error and its hint say)
HABITS: list[tuple[Callable[[Any, Any, Any], object], str]] = [
    (lambda v, i, s: v**2, r"registers have no \*\*.*v \* v"),
    (lambda v, i, s: 2.0**v, r"registers have no \*\*"),
    (lambda v, i, s: np.exp(v), r"np\.exp of a register.*ptx\.op\.<opcode>\.f32"),
    (lambda v, i, s: float(i), r"float\(\).*ptx\.cvt\(f32, u32, d, a\)"),
    (lambda v, i, s: int(v), r"int\(\).*ptx\.cvt\(s32, f32, d, a\)"),
    (lambda v, i, s: ptx.cvt(f32, i), r"two types.*ptx\.cvt\(f32, u32, d, a\)"),
    (lambda v, i, s: ptx.inst.mov.f32(v, s[i]), r"no constant address.*s\[i,\] loads an element"),
    (lambda v, i, s: s[70,], "index 70 is outside dimension 0"),
    (lambda v, i, s: reg.array(f32, 4)[i], "indexed with a Python int.*ptx.selp"),
    (lambda v, i, s: reg.array(f32, 4)[4], "no element 4"),
]


@pytest.mark.parametrize(("use", "says"), HABITS)
def test_habits_get_an_error_at_the_line_that_says_what_to_write(
    use: Callable[[Any, Any, Any], object], says: str
) -> None:
    def k() -> None:
        use(reg.scalar(f32, init=1.0), reg.scalar(u32, init=1), smem.alloc(f32, 64))

    found = refusal(k)
    assert re.search(says, f"{found.message} {found.hint}")
    assert found.filename == __file__
    assert found.line is not None


def test_index_errors_are_still_pythons() -> None:
    def k() -> None:
        s = smem.alloc(f32, (4, 16))
        with pytest.raises(IndexError):
            s[5, 3] = 1.0
        with pytest.raises(TypeError):
            reg.array(f32, 4)["a"]  # pyright: ignore

    kernel()(k).ptx()


def test_numpy_scalars_still_multiply_registers() -> None:
    @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=1, block=32)
    def scaled(x: Any, out: Any) -> None:
        i = ptx.special.tid.x()
        v = (ptx.pointer(x) + i).load()
        (ptx.pointer(out) + i).store(np.float32(3) * v - np.float64(0.5))

    x = np.random.default_rng().normal(size=32).astype(np.float32)
    assert np.array_equal(scaled(x), np.float32(3) * x - np.float32(0.5))


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("max", r"ptx\.inst\.max"),
        ("min", r"ptx\.inst\.min"),
        ("syncthreads", r"ptx\.bar\.sync\(0\)"),
        ("__syncthreads", r"ptx\.bar\.sync\(0\)"),
        ("threadIdx", r"ptx\.special\.tid\.x"),
        ("mbarier", "did you mean `mbarrier`"),
    ],
)
def test_names_that_ptx_does_not_have(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=instead):
        getattr(ptx, name)


# What a kernel does with an f32 register v, a u32 register i, predicates p and q, and a 64-bit address a; what the error
# and its hint say.
MISTAKES: list[tuple[Callable[[Any, Any, Any, Any, Any], object], str]] = [
    (lambda v, i, p, q, a: ptx.inst.sqrt.rn.f32(v), r"destination comes first: d = reg\.scalar\(f32\)"),
    (lambda v, i, p, q, a: ptx.inst.fma.rn.f32(v, v, v), r"destination comes first: d = reg\.scalar\(f32\)"),
    (lambda v, i, p, q, a: ptx.inst.atom.global_.add.f32(ptx.addr(a), 1.0), r"destination comes first"),
    (lambda v, i, p, q, a: ptx.inst.setp.lt.u32(i, 3), r"destination comes first: p = reg\.scalar\(pred\)"),
    (
        lambda v, i, p, q, a: ptx.inst.ld.global_.v4.f32(ptx.addr(a)),
        r"destination comes first: d = reg\.array\(f32, 4\)",
    ),
    (lambda v, i, p, q, a: ptx.if_(p and q), "`p and q` is p & q"),
    (lambda v, i, p, q, a: ptx.if_(3 < i < 6), r"`a < b < c` is \(a < b\) & \(b < c\)"),
    (lambda v, i, p, q, a: max(v, 0.0), r"hint: max\(a, b\) is a\.max\(b\) or ptx\.inst\.max"),
    (lambda v, i, p, q, a: min(i, 7), r"min\(a, b\) is a\.min\(b\)"),
    (lambda v, i, p, q, a: math.exp(v), r"ptx\.math\.exp"),
    (lambda v, i, p, q, a: np.exp(v), r"ptx\.math\.exp"),
    (lambda v, i, p, q, a: ptx.selp(f32, v, v, p | q), r"ptx\.or_\(pred, p0, p1\)"),
    (lambda v, i, p, q, a: reg.from_(i, f32), r"ptx\.cvt\(f32, u32, d, a\)"),
    (lambda v, i, p, q, a: reg.from_(a, b32), r"ptx\.cvt\(u32, u64, d, a\)"),
    (lambda v, i, p, q, a: reg.from_(i, pred), r"p = a != 0"),
    (lambda v, i, p, q, a: v.set(p), r"ptx\.selp\(f32, a, b, p\)"),
    (lambda v, i, p, q, a: v.set(i), r"ptx\.cvt\(f32, u32, d, a\)"),
    (lambda v, i, p, q, a: ptx.pointer(a, f32, "global").store(i), r"ptx\.cvt\(f32, u32, d, a\)"),
    (lambda v, i, p, q, a: ptx.pointer(a, f16, "global").store(v), r"stored as f16.*ptx\.cvt\(f16, f32, d, a\)"),
    (lambda v, i, p, q, a: smem.store(bf16, smem.alloc(bf16, 4)[0], v), r"stored as bf16.*ptx\.cvt\(bf16, f32, d, a\)"),
    (lambda v, i, p, q, a: ptx.special.threadIdx, r"did you mean ptx\.special\.tid\.x\(\)"),
    (lambda v, i, p, q, a: ptx.warp.reduce_add(v), "did you mean `reduce_sum`"),
    (lambda v, i, p, q, a: product(i, i, k=32, dtype=f16), "k is 16 for operands of type f16, not 32"),
    (lambda v, i, p, q, a: product(i, i, k=16, dtype=tf32), "k is 8 for operands of type tf32, not 16"),
]


@pytest.mark.parametrize(("use", "says"), MISTAKES)
def test_mistakes_get_an_error_that_says_what_to_write(
    use: Callable[[Any, Any, Any, Any, Any], object], says: str
) -> None:
    def k() -> None:
        use(reg.scalar(f32), reg.scalar(u32), reg.scalar(pred), reg.scalar(pred), reg.scalar(u64))

    found = refusal(k)
    assert re.search(says, f"{found.message} hint: {found.hint}", re.DOTALL)
    assert found.filename == __file__


def test_what_is_no_mistake() -> None:
    @kernel(in_specs=[Tile(32, f32)], out_specs=[Tile(32, f32), Tile(32, bf16)], grid=1, block=32)
    def k(x: Any, out: Any, halves: Any) -> None:
        i, d = ptx.special.tid.x(), reg.scalar(f32)
        ptx.cvt(f32, u32, d, i)
        (ptx.pointer(out) + i).store(d)
        pair = reg.scalar(b32)
        ptx.inst.cvt.rn.bf16x2.f32(pair, d, d)
        (ptx.pointer(halves) + i).store(pair)  # its lower half

    assembled(k)
    out, halves = k(np.zeros(32, np.float32))
    assert np.array_equal(out, np.arange(32))
    assert np.array_equal(halves.astype(np.float32), np.arange(32))


def test_outputs_among_the_inputs_of_a_call() -> None:
    @kernel(in_specs=[Tile(32, f32)], out_specs=[Tile(32, f32)], grid=1, block=32)
    def k(x: Any, out: Any) -> None:
        (ptx.pointer(out) + ptx.special.tid.x()).store(1.0)

    x = np.zeros(32, np.float32)
    with pytest.raises(TypeError, match=r"takes 1 array, not 2.*out="):
        k(x, x)
    with pytest.raises(TypeError, match=r"takes 1 array, not 3.*f32\)$"):
        k(x, x, x)
