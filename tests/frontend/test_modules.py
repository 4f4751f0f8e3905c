"""`pyptx.Module`-style authoring: several entries and functions, variables, scopes, values, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx.modules import (
    Module,
    addr,
    block,
    close_scope,
    else_,
    if_,
    inst,
    label,
    load,
    loop,
    new,
    op,
    open_scope,
    pair,
    param,
    reg,
    special,
    variable,
)


def build() -> Module:
    """Two entries that share a constant table and a device function."""
    m = Module("sm_80")
    m.variable(".const .align 4 .f32", "weights", 4, ["0f3F800000", "0f40000000", "0f40400000", "0f40800000"])
    m.variable(".global .align 4 .u32", "calls", init=0)

    @m.func("twice", returns=[param("f32", space="reg")], params=[param("f32", "%x", space="reg")])
    def twice(result, x):
        inst.add.f32(result, x, x)
        inst.ret()

    @m.entry("weigh", params=[param("u64"), param("u32")])
    def weigh(data, n):
        n = op.ld.param.u32(addr(n))
        i = op.mad.lo.s32(special.ctaid.x(), special.ntid.x(), special.tid.x())
        with if_(i < n):
            p = op.cvta.to.global_.u64(op.ld.param.u64(addr(data))) + op.mul.wide.s32(i, 4)
            table = op.mov.u64("weights") + op.mul.wide.s32(i & 3, 4)
            doubled = new("f32")
            inst.call.uni((doubled,), twice, (op.ld.global_.f32(addr(p)),))
            inst.st.global_.f32(addr(p), doubled * op.ld.const.f32(addr(table)))
            op.atom.global_.add.u32(addr("calls"), 1)
        inst.ret()

    @m.entry("count", params=[param("u64")])
    def count(out):
        calls = op.ld.global_.u32(addr("calls"))
        inst.st.global_.u32(addr(op.cvta.to.global_.u64(op.ld.param.u64(addr(out)))), calls)
        inst.ret()

    return m


def test_entries_functions_and_variables_run() -> None:
    m = build()
    assert not [d for d in m.diagnose() if d.severity == "error"], m.diagnose()
    kernels = pyptx.load(m.ptx())
    data = np.arange(10, dtype=np.float32)
    pyptx.simulate(kernels["weigh"], data, 8, grid=(1,), block=(32,))
    want = np.arange(10, dtype=np.float32)
    want[:8] *= 2 * np.array([1, 2, 3, 4] * 2, dtype=np.float32)
    np.testing.assert_array_equal(data, want)
    out = np.zeros(1, dtype=np.uint32)
    pyptx.simulate(kernels["count"], out, grid=(1,), block=(1,))
    assert out[0] == 8


def test_the_version_is_the_lowest_that_fits() -> None:
    assert build().ptx().startswith(".version 7.0\n.target sm_80\n")


def test_ptxas_takes_it() -> None:
    from pyptx.tools.ptxas import ToolNotFound, assemble

    try:
        result = assemble(build().ptx(), "sm_80")
    except ToolNotFound:
        pytest.skip("no ptxas")
    assert result.ok, result.diagnostics


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def test_blocks_loops_and_conditions() -> None:
    m = Module("sm_80")

    @m.entry("collatz", params=[param("u64")])
    def kernel(data):
        p = op.cvta.to.global_.u64(op.ld.param.u64(addr(data))) + op.mul.wide.s32(special.tid.x(), 4)
        n = op.ld.global_.u32(addr(p))
        steps = op.mov.u32(0)
        with block() as done:
            with loop() as again:
                done.leave(n == 1)
                with if_((n & 1) == 0):
                    inst.shr.u32(n, n, 1)
                with else_():
                    inst.mad.lo.s32(n, n, 3, 1)
                steps += 1
                again.again()
        inst.st.global_.u32(addr(p), steps)
        inst.ret()

    data = np.arange(1, 33, dtype=np.uint32)
    want = np.array([collatz(int(n)) for n in data], dtype=np.uint32)
    pyptx.simulate(m.module(), data, grid=(1,), block=(32,))
    np.testing.assert_array_equal(data, want)


def module_with(body) -> Module:
    m = Module("sm_80", "8.0")
    m.entry("k")(body)
    return m


def missing_label() -> None:
    inst.bra("nowhere")


def label_twice() -> None:
    label("here")
    label("here")


def open_brace() -> None:
    open_scope()
    inst.ret()


def closed_brace() -> None:
    close_scope()


def outside_range() -> None:
    r = reg("b32", ("%r", 4))
    inst.mov.u32(r[4], 0)


def declared_twice() -> None:
    reg("b32", "%x")
    reg("b64", "%x")


def wrong_target() -> None:
    inst.wgmma.fence.sync.aligned()


def else_alone() -> None:
    with else_():
        inst.ret()


def truth_value() -> None:
    if op.mov.u32(0):
        inst.ret()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (missing_label, "label nowhere is not placed"), (label_twice, "label here is placed twice"),
        (open_brace, "scope is not closed"), (closed_brace, "no { } scope is open"),
        (outside_range, "no register 4"), (declared_twice, "%x is declared twice"), (wrong_target, "needs target"),
        (else_alone, "else_ must follow its if_"), (truth_value, "no truth value"),
    ],
)  # fmt: skip
def test_mistakes_are_told_at_their_line(body, message: str) -> None:
    with pytest.raises(pyptx.PTXError, match=message) as caught:
        module_with(body).module()
    if body not in (open_brace,):
        line = caught.value.diagnostics[0].line
        first = body.__code__.co_firstlineno
        assert line is not None
        assert first < line <= first + 3
    assert str(caught.value.diagnostics[0].filename).endswith("test_modules.py")


def test_scopes_may_hide_names() -> None:
    def body() -> None:
        x = reg("b32", "%x")
        inst.mov.b32(x, 1)
        open_scope()
        inner = reg("b64", "%x")
        inst.mov.b64(inner, 2)
        close_scope()
        inst.mov.b32(x, 3)
        inst.ret()

    text = module_with(body).ptx()
    assert "mov.b64 %x, 2;" in text
    assert text.count("mov.b32 %x,") == 2
    assert pyptx.to_ptx(pyptx.parse(text, verify=True)) == text


def test_shared_variable_and_pair() -> None:
    def body() -> None:
        variable(".shared .align 16 .b8", "tile", 64)
        other, found = reg("b32", "%o"), reg("pred", "%q")
        inst.shfl.sync.bfly.b32(pair(other, found), special.laneid(), 1, 31, -1)
        inst.st.shared.b32(addr("tile", 4), other, pred=~found)
        inst.ret()

    text = module_with(body).ptx()
    assert ".shared .align 16 .b8 tile[64];" in text
    assert "shfl.sync.bfly.b32 %o|%q, %r0, 1, 31, -1;" in text
    assert "@!%q st.shared.b32 [tile+4], %o;" in text


def test_unknown_target() -> None:
    with pytest.raises(ValueError, match="unknown target 'sm_1234'"):
        Module("sm_1234")


def test_what_a_function_does_at_its_end() -> None:
    m = Module("sm_80", implicit_ret=True)

    @m.func(returns=["b32"], params=["u32 * 2", "b8.align8.array16"])
    def pick(a, b, table):
        a, b = load(a, b)
        return op.max_.u32(a, b)

    @m.entry(params=["u32"])
    def store(n):
        with if_(load(n) > 0):
            inst.exit()

    @m.entry
    def leave():
        inst.exit()

    text = m.ptx()
    assert ".param .align 8 .b8 pick_param_2[16]" in text
    assert text.count("ret;") == 2  # the label of store's if_ can be reached, the end of leave cannot
    assert "st.param.u32" not in text
    assert "st.param.b32" in text
    assert not [d for d in m.diagnose() if d.severity == "error"], m.diagnose()


@pytest.mark.parametrize(
    ("returns", "value", "message"),
    [((), 1, "one return parameter"), (["b32"], "x", "a value or a number"), (["b32 * 2"], 1, "one return parameter")],
)
def test_return_of_what_is_no_result(returns, value, message: str) -> None:
    m = Module("sm_80")

    @m.func(returns=returns)
    def f():
        return value

    with pytest.raises(pyptx.PTXError, match=message):
        m.ptx()


def test_load_of_what_is_no_number() -> None:
    m = Module("sm_80")

    @m.entry(params=["b8.array16"])
    def f(table):
        load(table)

    with pytest.raises(pyptx.PTXError, match="numbers or pointers"):
        m.ptx()


def test_repeats_of_parameters_are_numbers() -> None:
    with pytest.raises(ValueError, match="repeated a number of times"):
        Module("sm_80").prototype("f", params=["u32 * n"])
