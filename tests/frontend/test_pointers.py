"""Typed pointers: arithmetic by elements, one instruction per access, and no mixed-up state space."""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import PTXError, Tile, kernel, ptx, reg, simulate, smem
from pyptx.types import b64, bf16, f16, f32, f64, s32, s64, u8, u16, u32, u64
from tests.frontend.tracing import assembled, body, ptx_of

NUMPY = {u8: np.uint8, u16: np.uint16, u32: np.uint32, u64: np.uint64, f16: np.float16, bf16: ml_dtypes.bfloat16, f32: np.float32, f64: np.float64}  # fmt: skip


@pytest.mark.parametrize("dtype", list(NUMPY), ids=str)
def test_elements_of_every_size(dtype: Any) -> None:
    """out[i] = x[i + 3], out[32 + i] = x[i], out[64] = 7, through shared memory."""

    @kernel(in_specs=[Tile(64, dtype)], out_specs=[Tile(65, dtype)])
    def moves(x, out):
        p, q = ptx.pointer(x), ptx.pointer(out)
        tile = ptx.pointer(smem.alloc(dtype, (64,)))
        i = ptx.special.tid.x()
        (tile + i + 32).store((p + i).load(3))
        ptx.bar.sync(0)
        (q + i).store((tile + i).load(32))
        (q + 32 + i).store(p[i].load())
        q.store(7, 64)

    assembled(moves)
    x = np.random.default_rng(1).integers(0, 200, 64).astype(NUMPY[dtype])
    out = np.full(65, 99).astype(NUMPY[dtype])
    simulate(moves, x, out, grid=1, block=32)
    assert np.array_equal(out, np.concatenate([x[3:35], x[:32], np.array([7]).astype(x.dtype)]))


def test_index_registers_of_both_widths_and_signs() -> None:
    @kernel(in_specs=[Tile(64, u32)], out_specs=[Tile(4, u32)])
    def indexed(x, out):
        p, q = ptx.pointer(x) + 40, ptx.pointer(out)
        q.store((p + reg.from_(-8, s32)).load(), 0)
        q.store((p + reg.from_(-9, s64)).load(), 1)
        q.store((p - 10).load(), 2)
        q.store((reg.from_(5, u32) + p).load(), 3)

    assembled(indexed)
    x = np.random.default_rng(2).integers(0, 1 << 32, 64, dtype=np.uint32)
    out = np.zeros(4, np.uint32)
    simulate(indexed, x, out, grid=1, block=1)
    assert out.tolist() == x[[32, 31, 30, 45]].tolist()


def test_in_place_moves_only_this_pointer() -> None:
    @kernel(in_specs=[Tile(32, u32)], out_specs=[Tile(2, u32)])
    def walks(x, out):
        p, q = ptx.pointer(x), ptx.pointer(out)
        first = p + 0
        total = reg.scalar(u32, init=0)
        for _ in ptx.range_(8):
            total += p.load()
            p += 4
        q.store(total)
        q.store(first.load(), 1)

    assembled(walks)
    x = np.random.default_rng(3).integers(0, 1 << 20, 32, dtype=np.uint32)
    out = np.zeros(2, np.uint32)
    simulate(walks, x, out, grid=1, block=1)
    assert out.tolist() == [x[::4].sum(), x[0]]


def test_one_instruction_each() -> None:
    lines: dict[str, list[str]] = {}

    def accesses() -> None:
        p = ptx.pointer(ptx.param(b64, "p"), f32, "global")
        index, step, x = reg.scalar(u32, init=3), reg.scalar(s64, init=3), reg.scalar(f32)
        for what, act in {
            "load": lambda: p.load(),
            "offset": lambda: p.load(-2),
            "vector": lambda: p.load(vec=4),
            "modifiers": lambda: p.load(modifiers="nc.L1::no_allocate"),
            "store": lambda: p.store(1.5, 3),
            "half": lambda: p.cast(bf16).store(1.5),
            "byte": lambda: p.cast(u8).store(200),
            "several": lambda: p.store([x, x], modifiers="wt"),
            "narrow index": lambda: p + index,
            "wide index": lambda: p + step,
            "constant": lambda: p + 3,
            "in place": lambda: p.__iadd__(3),
        }.items():
            before = len(ptx_trace().statements)
            act()
            lines[what] = [str(s[0]) for s in ptx_trace().statements[before:]]

    text = ptx_of(accesses, raw_params=[("u64", "p")])
    assert {what: len(found) for what, found in lines.items()} == dict.fromkeys(lines, 1)
    assert "ld.global.L1::no_allocate.nc.f32 %f" in text and "[%rd1+-8];" in text


def ptx_trace() -> Any:
    from pyptx.frontend.core.trace import current

    return current()


def mixed(act: Any) -> str:
    """The message of a misuse, after a look that it is said at the line of the call."""

    def kernel_() -> None:
        s = ptx.pointer(smem.alloc(f32, (4,)))
        g = ptx.pointer(ptx.param(b64, "p"), f32, "global")
        act(s, g, reg.scalar(f32))

    with pytest.raises(PTXError) as caught:
        kernel(raw_params=[("u64", "p")])(kernel_).ptx()
    (found,) = caught.value.diagnostics
    code, first = inspect.getsourcelines(act)
    assert found.filename == __file__ and first <= (found.line or 0) < first + len(code)
    return f"{found.message}; {found.hint}"


def test_a_mixed_up_space_is_refused_at_the_call() -> None:
    def to_global(s, g, v):
        ptx.inst.ld.global_.f32(v, s)

    def to_shared(s, g, v):
        ptx.inst.st.shared.f32(ptx.addr(g, 4), v)

    def generic(s, g, v):
        ptx.inst.atom.add.f32(v, s, v)

    def wrong_way_round(s, g, v):
        ptx.cp.async_.cg(g, s, 16)

    def matrix(s, g, v):
        ptx.ldmatrix(dst=[reg.scalar(u32)], src=g, layout="x1")

    def barrier(s, g, v):
        ptx.inst.mbarrier.init.shared__cta.b64(g.cast(b64), 1)

    def back(s, g, v):
        ptx.inst.ld.shared.f32(v, s.generic())

    def by_name(s, g, v):
        ptx.inst.ld.global_.f32(v, ptx.addr(smem.alloc(f32, (2,), name="tile"), 4))

    def variable(s, g, v):
        ptx.inst.st.shared.f32(ptx.addr(ptx.var("local", f32, "mine", size=2)), v)

    assert "global address here, and the pointer is to shared memory" in mixed(to_global)
    assert "write .shared instead of .global" in mixed(to_global)
    assert "st takes a shared address here, and the pointer is to global memory" in mixed(to_shared)
    assert "p.generic()" in mixed(generic)
    assert "cp.async takes a shared address here" in mixed(wrong_way_round)
    assert "ldmatrix takes a shared address" in mixed(matrix)
    assert "mbarrier.init takes a shared::cta address" in mixed(barrier)
    assert 'p.to("shared")' in mixed(back)
    assert "ld takes a global address here, and tile is in shared memory" in mixed(by_name)
    assert "mine is in local memory" in mixed(variable)


def test_what_is_no_pointer() -> None:
    def number(s, g, v):
        ptx.pointer(reg.scalar(u64), f32)

    def narrow(s, g, v):
        ptx.pointer(reg.scalar(u32), f32, "global")

    def nowhere(s, g, v):
        ptx.pointer(reg.scalar(u64), f32, "texture")

    def untyped(s, g, v):
        ptx.var("shared", f32, "raw", size=4)
        ptx.pointer("raw")

    def fraction(s, g, v):
        g + 1.5

    def by_register(s, g, v):
        g.load(reg.scalar(u32))

    def fixed(s, g, v):
        s += 1

    def assigned(s, g, v):
        g[3] = v

    def wide(s, g, v):
        s + reg.scalar(u64)

    def floating(s, g, v):
        g + v

    assert "only a number" in mixed(number)
    assert "a global address has 64 bits" in mixed(narrow)
    assert "'texture' is not a state space" in mixed(nowhere)
    assert "element type" in mixed(untyped)
    assert "moves by integers, not 1.5" in mixed(fraction)
    assert "(p + i).load()" in mixed(by_register)
    assert "q = p.copy()" in mixed(fixed)
    assert "(p + i).store(value)" in mixed(assigned)
    assert "32-bit pointer" in mixed(wide)
    assert "not f32" in mixed(floating)


def test_pointers_where_addresses_go() -> None:
    """Copies, atomics and matrix loads take them; global addresses are generic ones too."""

    def used() -> None:
        g = ptx.pointer(ptx.param(b64, "p"), f32, "global")
        s = ptx.pointer(smem.alloc(f32, (2, 64))[1])
        bar = ptx.pointer(smem.mbarrier(1)[0])
        v = reg.scalar(f32)
        ptx.inst.mbarrier.init.shared__cta.b64(bar, 1)
        ptx.cp.async_.cg(s + 4, g, 16)
        ptx.inst.ld.f32(v, g)
        ptx.inst.red.global_.add.f32(g, v)
        ptx.ldmatrix(dst=[reg.scalar(u32)], src=s, layout="x1")
        s.generic().to("shared").store(v)
        ptx.pointer(ptx.var("shared", f32, "raw", size=8), f32).load(1)
        c = (s + reg.scalar(u32, init=1)).copy()
        c += 1
        c.load()

    text = body(ptx_of(used, raw_params=[("u64", "p")]))
    assert "cp.async.cg.shared.global [smem_0+272], [%rd1], 16;" in text
    assert any(line.startswith("ld.shared.f32") and "[raw+4]" in line for line in text)


def test_in_dynamic_shared_memory() -> None:
    @kernel(out_specs=[Tile(64, u32)], in_specs=[])
    def large(out):
        smem.alloc(u32, (16 * 1024,))
        tile = ptx.pointer(smem.alloc(u32, (64,)))
        i = ptx.special.tid.x()
        (tile + i).store(i * 3)
        ptx.bar.sync(0)
        (ptx.pointer(out) + i).store((tile + (i ^ 1)).load())

    assert "dyn_smem+65536" in assembled(large)
    out = np.zeros(64, np.uint32)
    simulate(large, out, grid=1, block=64)
    assert out.tolist() == [3 * (i ^ 1) for i in range(64)]


@pytest.mark.parametrize(("given", "stored"), [(u32, f32), (u64, f32), (f32, u32), (f32, u8), (u16, f64), (u32, u64)])
def test_how_to_store_a_value_of_another_type(given: Any, stored: Any) -> None:
    """The author wrote no opcode: a conversion is what helps. It is accepted as it is written."""

    def body(converts: bool) -> None:
        a = reg.scalar(given, init=0)
        p = ptx.pointer(reg.scalar(u64, init=0), stored, "global")
        if not converts:
            p.store(a)
        names: dict[str, Any] = {"ptx": ptx, "reg": reg, "a": a, **{t.name: t for t in (given, stored)}}
        for statement in cure.split("; "):
            exec(statement, names)
        p.store(names["d"])

    with pytest.raises(PTXError) as raised:
        kernel(lambda: body(False)).ptx()
    hint = raised.value.diagnostics[0].hint or ""
    assert "\n" not in hint and hint.startswith("convert it: d = reg.scalar(")
    cure = hint.removeprefix("convert it: ")
    kernel(lambda: body(True)).ptx()
