"""Operators by type: `@kernel` and the functions of a `Module` make the same instruction, and it computes what NumPy does for
the type. And `op`: results go by the form of the instruction.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyptx.modules as modules
from pyptx import PTXError, Tile, kernel, ptx, reg, simulate
from pyptx.dialects.ptx.forms import form
from pyptx.dialects.ptx.instruction import OPCODES, Instruction, instruction
from pyptx.parser import parse
from pyptx.types import from_name, s32
from tests.frontend.tracing import assembled, body

NUMPY: dict[str, Any] = {
    "b16": np.uint16, "b32": np.uint32, "b64": np.uint64, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "s16": np.int16, "s32": np.int32, "s64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip
"""What each type is in NumPy."""

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "~": operator.invert}


def values(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of numbers of a type, its extremes and NaN among them."""
    n = NUMPY[dtype]
    if dtype[0] in "bus" and dtype != "bf16":
        info = np.iinfo(n)
        some = [info.min, info.max, 0, 1, 7, 100, info.max - 1, info.max // 2, -1, -8] if info.min else [
            0, 1, 7, 8, 100, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, 255
        ]  # fmt: skip
    else:
        some = [0.0, -0.0, 1.0, -1.5, 0.1, 300.0, np.inf, -np.inf, np.nan, -2.25]
    a, b = np.meshgrid(np.array(some, n), np.array(some, n))
    return a.ravel(), b.ravel()


def expected(name: str, dtype: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NumPy's result; of integer `//` and `%` C's, which truncate."""
    with np.errstate(all="ignore"):
        if name in UNARY:
            return UNARY[name](a)
        if name == "//" or (name == "%" and a.dtype.kind in "iu"):
            exact = [divmod(abs(int(x)), abs(int(y))) for x, y in zip(a, b, strict=True)]
            signs = [(int(x) < 0, int(y) < 0) for x, y in zip(a, b, strict=True)]
            if name == "//":
                found = [-q if x != y else q for (q, _), (x, y) in zip(exact, signs, strict=True)]
            else:
                found = [-r if x else r for (_, r), (x, _) in zip(exact, signs, strict=True)]
            return np.array([f & ((1 << a.itemsize * 8) - 1) for f in found], f"u{a.itemsize}").view(a.dtype)
        return BINARY[name](a, b)


def usable(name: str, dtype: str, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs for which the result is defined."""
    good = np.ones(len(a), bool)
    if name in ("//", "%"):
        good = b != 0
        if a.dtype.kind == "i":
            good &= ~((a == np.iinfo(a.dtype).min) & (b == -1))
    if name in ("<<", ">>"):
        good = (b >= 0) & (b < a.itemsize * 8)
    return a[good], b[good]


def applied(name: str, x: Any, y: Any) -> Any:
    return UNARY[name](x) if name in UNARY else BINARY[name](x, y)


def in_a_kernel(name: str, dtype: str) -> str:
    bits = from_name(dtype).bits

    @kernel(raw_params=[("u64", "a"), ("u64", "b"), ("u64", "out")], arch="sm_90a")
    def computed() -> None:
        op = ptx.op
        at = ptx.special.tid.x() * (bits // 8)
        x, y = (_as(op, dtype, ptx.param(from_name("u64"), n) + at) for n in ("a", "b"))
        result = applied(name, x, y)
        if result.dtype.name == "pred":
            chosen = ptx.op.selp.u32(1, 0, result)
            ptx.inst.st.global_.u32(ptx.addr(ptx.param(from_name("u64"), "out") + ptx.special.tid.x() * 4), chosen)
        else:
            stored = getattr(ptx.inst.st.global_, f"b{bits}")
            stored(ptx.addr(ptx.param(from_name("u64"), "out") + at), result)
        ptx.ret()

    return computed.ptx()


def _as(op: Any, dtype: str, address: Any) -> Any:
    """A register of a type, loaded."""
    bits = from_name(dtype).bits
    loaded = getattr(op.ld.global_, dtype if dtype not in ("f16", "bf16") else f"b{bits}")(ptx.addr(address))
    if dtype not in ("f16", "bf16"):
        return loaded
    result = reg.scalar(from_name(dtype))
    ptx.inst.mov.b16(result, loaded)
    return result


def in_a_module(name: str, dtype: str) -> str:
    op, bits = modules.op, from_name(dtype).bits
    m = modules.Module("sm_90a")

    @m.entry("computed", params=["u64", "u64", "u64"])
    def computed(a: Any, b: Any, out: Any) -> None:
        a, b, out = modules.load(a, b, out)
        tid = modules.special.tid.x()
        at = op.cvt.u64.u32(tid * (bits // 8))
        if dtype in ("f16", "bf16"):
            x, y = modules.new("b16", dtype), modules.new("b16", dtype)
            for r, p in ((x, a), (y, b)):
                modules.inst.ld.global_.b16(r, modules.addr(p + at))
        else:
            x, y = (getattr(op.ld.global_, dtype)(modules.addr(p + at)) for p in (a, b))
        result = applied(name, x, y)
        if result.dtype.name == "pred":
            chosen = op.selp.u32(1, 0, result)
            modules.inst.st.global_.u32(modules.addr(out + op.cvt.u64.u32(tid * 4)), chosen)
        else:
            getattr(modules.inst.st.global_, f"b{bits}")(modules.addr(out + at), result)
        modules.inst.ret()

    return m.ptx()


def instruction_of(text: str) -> str:
    """The instruction before the store, or before the `selp` of a comparison."""
    lines = body(text)
    at = next(i for i, line in enumerate(lines) if line.startswith("st.global"))
    before = [line.split()[0] for line in lines[:at] if line.startswith(WANTED)]
    return before[-1]


WANTED = ("add", "sub", "mul", "div", "rem", "shl", "shr", "and", "or", "xor", "not", "neg", "setp", "min", "max")


@pytest.mark.parametrize("dtype", NUMPY)
def test_both_make_the_same_instruction_and_numpys_result(dtype: str) -> None:
    done = 0
    for name in (*BINARY, *UNARY):
        try:
            kernels = in_a_kernel(name, dtype)
        except PTXError:
            with pytest.raises(PTXError):
                in_a_module(name, dtype)
            continue
        module = in_a_module(name, dtype)
        a, b = usable(name, dtype, *values(dtype))
        wanted = expected(name, dtype, a, b)
        for text in (kernels, module):
            out = np.zeros(len(a), np.uint32 if wanted.dtype == bool else wanted.dtype)
            simulate(parse(text), a.copy(), b.copy(), out, grid=1, block=len(a))
            got = out.astype(bool) if wanted.dtype == bool else out
            if dtype == "bf16":  # NumPy does not know its NaN
                got = got.astype(np.float32)
            np.testing.assert_array_equal(got, wanted.astype(got.dtype), err_msg=f"{dtype} {name}\n{text}")
        named = [instruction_of(text) for text in (kernels, module)]
        assert named[0].startswith("add") or named[0] == named[1], (dtype, name, named)
        done += 1
    assert done >= (11 if from_name(dtype).is_float else 18) - (dtype in ("f16", "bf16"))


def test_the_texts_assemble() -> None:
    for name, dtype in ((">>", "s32"), ("!=", "bf16"), ("//", "u64"), ("~", "b16"), ("*", "s64")):
        assembled(in_a_kernel(name, dtype), "sm_90a")
        assembled(in_a_module(name, dtype), "sm_90a")


def test_predicates() -> None:
    m = modules.Module("sm_90")

    @m.entry("k", params=["u32"])
    def k(n: Any) -> None:
        n = modules.load(n)
        p, q = n > 3, n < 9
        modules.inst.bar.sync(0, pred=p & q)
        modules.inst.bar.sync(1, pred=p | q)
        modules.inst.bar.sync(2, pred=p ^ q)
        modules.inst.ret()

    text = assembled(m.ptx(), "sm_90")
    assert all(f"{name}.pred" in text for name in ("and", "or", "xor"))
    assert "setp.gt.u32" in text  # as its parameter says


def test_spelling_of_modules_with_unsigned_registers() -> None:
    """GCC spells sums as unsigned instructions; the meaning is the type's all the same."""
    m = modules.Module("sm_90", unsigned_registers=True)

    @m.entry("k", params=["u32"])
    def k(n: Any) -> None:
        n = modules.load(n)
        signed = modules.op.mov.s32(n)
        modules.inst.st.shared.u32(modules.addr(n + 1), (signed >> 1) - n)
        modules.inst.ret()

    text = m.ptx()
    assert "add.u32" in text
    assert "sub.u32" in text
    assert "shr.s32" in text


# ------------------------------------------------------------------------------------------------------------------ op


def test_op_in_a_kernel() -> None:
    @kernel(in_specs=[Tile("N", from_name("f32"))], out_specs=[Tile("N", from_name("f32"))], grid=1, block=lambda N: N)
    def powers(x: Any, out: Any) -> None:
        tid = ptx.op.mov.u32("%tid.x")
        value = (ptx.pointer(x) + tid).load()
        (ptx.pointer(out) + tid).store(ptx.op.ex2.approx.f32(value))

    assembled(powers, N=32)
    x = np.arange(-3, 5, dtype=np.float32)
    np.testing.assert_array_equal(powers(x), np.exp2(x))


@pytest.mark.parametrize(
    ("call", "types"),
    [
        (lambda op, v: op.mul.wide.s32(v, v), ["s64"]),
        (lambda op, v: op.popc.b32(v), ["u32"]),
        (lambda op, v: op.cvt.rn.f32.s32(v), ["f32"]),
        (lambda op, v: op.setp.eq.u32(v, 1), ["pred"]),
        (lambda op, v: op.elect.sync(-1), ["u32", "pred"]),
        (lambda op, v: op.vote.sync.ballot.b32(v == 1, -1), ["b32"]),
        (lambda op, v: op.vote.sync.all.pred(v == 1, -1), ["pred"]),
        (lambda op, v: op.ld.shared.v2.f32(ptx.addr(v)), ["f32", "f32"]),
        (lambda op, v: op.ldmatrix.sync.aligned.m8n8.x4.shared.b16(ptx.addr(v)), ["b32"] * 4),
        (lambda op, v: op.mov.b32(v, into=2), ["b16", "b16"]),
        (lambda op, v: op.mbarrier.try_wait.parity.shared.b64(ptx.addr(v), 0), ["pred"]),
    ],
)
def test_results_go_by_the_form(call: Any, types: list[str]) -> None:
    found: list[Any] = []

    def function() -> None:
        result = call(ptx.op, reg.scalar(s32, init=1))
        found.extend(result if isinstance(result, (list, tuple)) else [result])

    assembled(kernel(arch="sm_90a")(function))
    assert [r.dtype.name for r in found] == types


def test_what_has_no_result() -> None:
    with pytest.raises(PTXError, match=r"bar\.sync writes no register"):
        kernel(lambda: ptx.op.bar.sync(0)).ptx()
    with pytest.raises(PTXError, match="unknown instruction"):
        kernel(lambda: ptx.op.nosuch.u32(0)).ptx()


def test_a_new_class_needs_no_other_line() -> None:
    """An instruction that the dialect has never heard of: its forms say what `op` makes."""
    try:

        @instruction
        class Isodd(Instruction):  # pyright: ignore[reportUnusedClass]
            """Whether a is odd."""

            name = "ptx.isodd"
            section = "9.7.1.99"
            forms = (form("isodd.type p:pred, a", type="u32 s32"), form("isodd.wide.type d:2*type, a", type="u32 s32"))

        def function() -> None:
            found = ptx.op.isodd.u32(reg.scalar(s32, init=3)), ptx.op.isodd.wide.u32(reg.scalar(s32, init=3))
            assert [r.dtype.name for r in found] == ["pred", "u64"]

        text = kernel(function).ptx()
        assert "isodd.u32 %p0, %r0;" in text
        assert "isodd.wide.u32 %rd0, %r1;" in text
        m = modules.Module("sm_90")

        @m.entry("k", params=["u32"])
        def k(n: Any) -> None:
            n = modules.load(n)
            with modules.if_(modules.op.isodd.u32(n)):
                modules.inst.st.shared.u64(modules.addr(n), modules.op.isodd.wide.s32(n))
            modules.inst.ret()

        assert "isodd.wide.s32 %rd0" in m.ptx()
    finally:
        OPCODES.pop("isodd", None)
