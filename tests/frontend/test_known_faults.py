"""What pyptx 0.1.1 got wrong in traced kernels (design/api.md, section 3): one test per entry, each on the right
behaviour.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import PTXError, Tile, kernel, ptx, reg, simulate, smem
from pyptx.types import b32, b64, bf16, bf16x2, e4m3, f32, pred, s8, s32, tf32, u16, u32, u64
from tests.frontend.tracing import assembled, body, ptx_of


def emitted(function, arch="sm_90a", **options):
    return [line for line in body(ptx_of(function, arch, **options)) if line != "ret;"]


def refused(function, arch="sm_90a", **options):
    """The message of a kernel that must not be accepted."""
    with pytest.raises(PTXError) as caught:
        kernel(arch=arch, **options)(function).ptx()
    return str(caught.value)


def run(function, *, threads=4, extra=()):
    """What `function(tid)` returns (32 bits), for each thread."""

    @kernel(raw_params=[("u64", "out"), *extra])
    def traced():
        tid = reg.from_(ptx.special.tid.x(), u32)
        out = ptx.param(u64, "out")
        out += tid * 4
        ptx.inst.st.global_.b32(ptx.addr(out), function(tid))
        ptx.ret()

    assembled(traced)
    out = np.full(threads, -99, np.int32)
    simulate(traced, out, grid=1, block=threads)
    return out.tolist()


class TestSilentlyWrong:
    def test_s1_stages_have_addresses_of_their_own(self):
        def function():
            tile = smem.alloc(bf16, (2, 16, 16))
            regs = reg.array(b32, 4)
            for stage in (0, 1):
                ptx.ldmatrix(dst=regs, src=tile[stage])
                ptx.stmatrix(smem=tile[stage], regs=regs)

        addresses = [line[line.index("[") + 1 : line.index("]")] for line in emitted(function)]
        assert addresses == ["smem_0", "smem_0", "smem_0+512", "smem_0+512"]

    @pytest.mark.parametrize("dynamic", [False, True])
    def test_s2_addresses_of_elements_keep_their_offset(self, dynamic):
        def function():
            smem.alloc(f32, (13_000 if dynamic else 32,))
            bars = smem.mbarrier(4)
            ptx.inst.mbarrier.arrive.shared.b64(reg.scalar(b64), ptx.addr(bars[3]))
            ptx.inst.st.shared.u32(ptx.addr(bars), 0)
            ptx.inst.st.shared.u32(ptx.addr(bars, 4), 0)

        start = ("dyn_smem", 52_000) if dynamic else ("mbar_0", 0)
        expected = [f"[{start[0]}{'+' + str(start[1] + n) if start[1] + n else ''}]" for n in (24, 0, 4)]
        assert [line[line.index("[") : line.index("]") + 1] for line in emitted(function)] == expected

    def test_s3_dynamic_buffers_do_not_alias(self):
        def function():
            first, second = smem.alloc(f32, (100, 100)), smem.alloc(f32, (100, 100))
            first[1, 2] = 1.0
            second[1, 2] = 2.0

        lines = emitted(function)
        assert lines == ["st.shared.f32 [dyn_smem+408], 0f3F800000;", "st.shared.f32 [dyn_smem+40472], 0f40000000;"]

    def test_s4_assignment_to_an_element_leaves_the_source_alone(self):
        def function(tid):
            q, w = reg.array(s32, 2), reg.array(s32, 2)
            ptx.inst.add.s32(q[0], tid, 5)
            w[0] = q[0]
            w[1] = q[0] + 100
            kept = q[0] + 1000
            q[1] = kept  # the temporary is used again below
            w[0] += q[0]
            return w[0] * 1_000_000 + (w[1] + kept + q[1])

        assert run(function) == [2 * (5 + t) * 1_000_000 + (105 + t) + 2 * (1005 + t) for t in range(4)]

    def test_s4_a_fresh_result_goes_straight_into_the_element(self):
        def function():
            q = reg.array(f32, 2)
            q[0] = q[1] * 2.0

        assert emitted(function) == ["mul.f32 %f0, %f1, 0f40000000;"]

    def test_s5_expr_keeps_labels_where_they_are(self):
        def function():
            with ptx.expr():
                ptx.bra("skip", pred=reg.scalar(pred))
                ptx.bar.sync(0)
                ptx.label("skip")

        assert emitted(function) == ["@%p0 bra skip;", "bar.sync 0;", "skip:"]

    def test_s6_signed_shift_is_arithmetic_and_a_signed_index_is_sign_extended(self):
        def function(tid):
            negative = reg.scalar(s32, init=-8)
            wide = reg.scalar(u64, init=100)
            wide += negative
            low = reg.scalar(u32)
            ptx.inst.cvt.u32.u64(low, wide)
            return (negative >> 1) + low

        assert run(function) == [-4 + 92] * 4

    def test_s7_signed_reductions_compare_signed(self):
        def function(tid):
            value = reg.scalar(s32)
            ptx.inst.sub.s32(value, tid, 2)
            ptx.warp.reduce_max(value)
            low = reg.scalar(s32)
            ptx.inst.sub.s32(low, tid, 2)
            ptx.warp.reduce_min(low)
            return value * 1000 + low

        assert run(function, threads=32) == [29 * 1000 - 2] * 32

    def test_s8_a_guarded_wait_is_not_endless(self):
        def function(tid):
            bar = smem.mbarrier(1)[0]
            ptx.mbarrier.init(bar, 1, pred=tid == 0)
            ptx.bar.sync(0)
            ptx.mbarrier.wait(bar, 0, pred=tid > 100)
            return tid

        assert run(function) == [0, 1, 2, 3]

    def test_s9_enable_input_d_is_what_it_says(self):
        def function(flag):
            def traced():
                d, desc = reg.scalar(b32), reg.scalar(b64)
                ptx.tcgen05.mma(d, desc, desc, 0, enable_input_d=flag)

            return next(line for line in emitted(traced, "sm_100a") if line.startswith("mov.b32 %r1"))

        assert function(True) == "mov.b32 %r1, 1;"
        assert function(False) == "mov.b32 %r1, 0;"

    def test_s10_range_counts_down(self):
        def function(tid):
            total = reg.scalar(s32, init=0)
            for i in ptx.range_(4, 0, -1):
                total += i
            return total

        assert run(function) == [10] * 4

    @pytest.mark.parametrize(
        "use", [lambda r: bool(r == 0), lambda r: r in [0, 1], lambda r: not r, lambda r: r and 1, lambda r: 0 < r < 4]
    )
    def test_s11_registers_have_no_truth_value(self, use):
        message = refused(lambda: use(reg.scalar(u32)))
        assert "no truth value" in message
        assert "ptx.if_" in message

    def test_s11_identity_and_other_types_are_not_comparisons(self):
        def function():
            r = reg.scalar(u32)
            assert r in [r]
            assert (r == None) is False  # noqa: E711
            assert {r: 1}[r] == 1

        assert emitted(function) == []

    def test_s12_template_values_of_different_types_are_different(self):
        @kernel
        def flagged(*, value=None):
            ptx.inst.mov.u32(reg.scalar(u32), 7 if value is True else 8)

        assert "mov.u32 %r0, 8;" in flagged.ptx(value=1)
        assert "mov.u32 %r0, 7;" in flagged.ptx(value=True)


class TestRejectedByPtxas:
    def test_bare_if_inside_an_if_with_else(self):
        def function(tid):
            value = reg.scalar(s32, init=0)
            with ptx.if_(tid < 2):
                with ptx.if_(tid == 1):
                    value += 1
            with ptx.else_():
                value += 5
            return value

        assert run(function) == [0, 1, 5, 5]

    def test_register_kloop_inside_an_if_with_else(self):
        def function(tid):
            value = reg.scalar(u32, init=0)
            with ptx.if_(tid < 2):
                ptx.kloop(tid, unroll=4, body=lambda: ptx.inst.add.u32(value, value, 7))
            with ptx.else_():
                ptx.inst.add.u32(value, value, 1)
            return value

        assert run(function) == [0, 7, 1, 1]

    def test_two_kloops_with_the_default_label(self):
        def function(tid):
            value = reg.scalar(u32, init=0)
            for _ in range(2):
                ptx.kloop(tid, unroll=2, body=lambda: ptx.inst.add.u32(value, value, 1))
            return value

        assert run(function) == [0, 2, 4, 6]

    def test_range_with_a_register_as_stop(self):
        def function(tid):
            value = reg.scalar(s32, init=0)
            for _ in ptx.range_(0, tid):
                value += 3
            return value

        assert run(function) == [0, 3, 6, 9]

    def test_break_in_a_range(self):
        def function():
            for _ in ptx.range_(0, 4):
                break

        assert "ptx.break_()" in refused(function)

    @pytest.mark.parametrize("value", [1, float("inf"), float("-inf"), float("nan"), 1e-45, 1e300])
    def test_float_registers_with_any_initial_value(self, value):
        lines = emitted(lambda: reg.scalar(f32, init=value).name)
        bits = np.frombuffer(bytes.fromhex(lines[0][-9:-1]), ">f4")[0]
        with np.errstate(over="ignore"):
            np.testing.assert_equal(bits, np.float32(value))

    def test_types_that_no_register_can_be_declared_with(self):
        text = ptx_of(lambda: [reg.scalar(t) for t in (bf16, tf32, e4m3, bf16x2)] and None)
        assert not any(f".reg .{t}" in text for t in ("bf16", "tf32", "e4m3", "bf16x2"))

    def test_bitwise_not_of_an_integer(self):
        assert run(lambda tid: ~tid) == [-1, -2, -3, -4]

    def test_an_address_with_a_register_offset(self):
        def function():
            base, offset = reg.scalar(u64), reg.scalar(u32)
            ptx.inst.ld.global_.u32(reg.scalar(u32), ptx.addr(base, offset))

        assert emitted(function) == [
            "cvt.u64.u32 %rd1, %r0;", "add.s64 %rd2, %rd0, %rd1;", "ld.global.u32 %r1, [%rd2];",
        ]  # fmt: skip

    def test_negative_offsets(self):
        assert emitted(lambda: ptx.inst.st.global_.u32(ptx.addr(reg.scalar(u64), -4), 0)) == [
            "st.global.u32 [%rd0+-4], 0;"
        ]

    def test_wrappers_put_the_brackets(self):
        def function():
            tile, address = smem.alloc(bf16, (16, 16)), reg.scalar(u32)
            regs = reg.array(b32, 4)
            ptx.stmatrix(smem=tile, regs=regs)
            ptx.stmatrix(smem=address, regs=regs)
            ptx.cp.async_.cg(tile, reg.scalar(u64), 16)

        assert [line.split("[")[1].split("]")[0] for line in emitted(function)] == ["smem_0", "%r0", "smem_0"]

    @pytest.mark.parametrize("name", ["tile_2d", "im2col_3d", "store_2d"])
    def test_tensor_copies_have_their_coordinates_at_the_map(self, name):
        tensor = Tile("M", "N", bf16)

        @kernel(in_specs=[tensor], out_specs=[tensor])
        def copy(a, c):
            tile, bar = smem.alloc(bf16, (64, 64)), smem.mbarrier(1)[0]
            rank = int(name[-2])
            options = {} if name.startswith("store") else {"mbar": bar}
            target, source = (c, tile) if name.startswith("store") else (tile, a)
            getattr(ptx.cp.async_.bulk.tensor, name)(target, source, (0,) * rank, **options)

        assert f"[%rd0, {{{', '.join('0' * int(name[-2]))}}}]" in assembled(copy, M=64, N=64)

    @pytest.mark.parametrize("name", ["gather4_2d", "scatter4_2d"])
    def test_gather_and_scatter(self, name):
        tensor = Tile("M", "N", bf16)

        @kernel(arch="sm_100a", in_specs=[tensor], out_specs=[tensor])
        def copy(a, c):
            tile, bar = smem.alloc(bf16, (4, 64)), smem.mbarrier(1)[0]
            if name == "gather4_2d":
                ptx.cp.async_.bulk.tensor.gather4_2d(tile, a, (0, 1, 2, 3, 4), mbar=bar)
            else:
                ptx.cp.async_.bulk.tensor.scatter4_2d(c, tile, (0, 1, 2, 3, 4))

        assert f"tile::{name[:-3]}" in assembled(copy, M=64, N=64)

    @pytest.mark.parametrize(("dtype", "k", "d"), [(tf32, 8, f32), (s8, 32, s32)])
    def test_wgmma_without_transposition_immediates(self, dtype, k, d):
        def function():
            a = smem.wgmma_tile(dtype, (64, 1024 // dtype.bits))
            ptx.wgmma.mma_async(
                shape=(64, 64, k),
                dtype_d=d,
                dtype_a=dtype,
                dtype_b=dtype,
                d=reg.wgmma_frag(m=64, n=64, dtype=d),
                a=a,
                b=a,
            )
            ptx.wgmma.wait_group(0)

        assert any("wgmma.mma_async" in line for line in emitted(function))

    def test_wide_multiply_add(self):
        def function():
            a, b, c = reg.scalar(u32), reg.scalar(u32), reg.scalar(u64)
            assert ptx.mad(u32, a, b, c, mode="wide").dtype == u64

        assert emitted(function) == ["mad.wide.u32 %rd1, %r0, %r1, %rd0;"]

    def test_cluster_multicast_arrival(self):
        lines = emitted(lambda: ptx.cluster.arrive_multicast(smem.mbarrier(1)[0], 0b11))
        assert sum(line.startswith("mbarrier.arrive") for line in lines) == 2

    def test_commit_in_cta_space(self):
        lines = emitted(lambda: ptx.tcgen05.commit(smem.mbarrier(1)[0], space="cta"), "sm_100a")
        assert lines == ["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mbar_0];"]

    def test_loc_and_file(self):
        def function():
            ptx.file_(1, "kernel.py")
            ptx.loc(1, 7, 3)
            ptx.bar.sync(0)

        text = ptx_of(function)
        assert '\n.file 1 "kernel.py"\n' in text
        assert "\t.loc 1 7 3\n\tbar.sync 0;" in text

    def test_variables_with_linkage_belong_to_the_module(self):
        def function():
            name = ptx.var("global", u32, "counter", linking="visible", size=4, align=16)
            ptx.inst.st.global_.u32(ptx.addr(name, 4), 1)

        text = ptx_of(function)
        assert text.index(".visible .global .align 16 .u32 counter[4];") < text.index(".visible .entry")

    def test_extern_shared_memory_with_more_than_48_kib_of_allocations(self):
        assert "extern_smem" in refused(lambda: smem.alloc(f32, 20_000), extern_smem=True)


class TestRaised:
    def test_negated_guards(self):
        def function():
            p = reg.scalar(pred)
            ptx.fence.proxy_async_generic_acquire_shared_cluster(pred=~p)
            ptx.cluster.arrive_multicast(smem.mbarrier(1)[0], 1, pred=~p)

        assert all(line.startswith("@!%p0") for line in emitted(function) if "fence" in line or "arrive" in line)

    def test_operators_with_a_number_on_the_left_and_of_floats(self):
        def function(tid):
            total = (5 - tid) + (-tid) + (5 | tid) + tid // 4
            x = reg.scalar(f32, init=1.5)
            y = x + x
            half = reg.scalar(u16, init=1) + 1
            ptx.inst.cvt.u32.u16(word := reg.scalar(u32), half)
            ptx.inst.cvt.rzi.u32.f32(whole := reg.scalar(u32), y)
            return total + word * 100 + whole * 1000

        assert run(function) == [(5 - t) - t + (5 | t) + t // 4 + 200 + 3000 for t in range(4)]


class TestNotChecked:
    def test_operand_types(self):
        assert "the register is .u64" in refused(lambda: ptx.inst.add.f32(reg.scalar(f32), reg.scalar(u64), 1.0))
        assert "the register is .pred" in refused(lambda: ptx.inst.add.f32(reg.scalar(f32), reg.scalar(pred), 1.0))

    def test_vector_sizes(self):
        message = refused(lambda: ptx.inst.ld.global_.v4.f32(reg.array(f32, 2), ptx.addr(reg.scalar(u64))))
        assert "must have 4 elements, not 2" in message

    def test_unknown_opcodes_and_modifiers(self):
        assert "unknown instruction totally_unknown" in refused(lambda: ptx.inst.totally_unknown())
        assert "did you mean" in refused(lambda: ptx.inst.ad.u32(reg.scalar(u32), 1, 2))
        assert "no modifier .saturate" in refused(lambda: ptx.inst.add.saturate.s32(reg.scalar(s32), 1, 2))

    def test_extra_operands_and_arguments(self):
        assert "takes 3 operands, not 4" in refused(lambda: ptx.inst.add.u32(reg.scalar(u32), 1, 2, 3))
        with pytest.raises(TypeError):
            ptx_of(lambda: ptx.inst.add.u32(reg.scalar(u32), 1, 2, guard=1))

    def test_missing_labels(self):
        assert "label away is not placed" in refused(lambda: ptx.bra("away"))

    def test_target_and_version(self):
        assert "sm_90a" in refused(lambda: ptx.wgmma.fence(), "sm_80")
        assert "needs PTX 8.0" in refused(lambda: ptx.elect_sync(None, reg.scalar(pred)), "sm_90", version="7.8")

    def test_number_of_accumulators(self):
        def function():
            a = smem.wgmma_tile(bf16, (64, 64))
            ptx.wgmma.mma_async(
                shape=(64, 128, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=reg.array(f32, 63), a=a, b=a
            )

        assert "must have 64 elements, not 63" in refused(function)

    def test_missing_ret(self):
        assert body(ptx_of(lambda: ptx.bar.sync(0))) == ["bar.sync 0;", "ret;"]


def test_the_same_kernel_built_twice_has_the_same_text():
    def build():
        @kernel
        def repeated():
            smem.alloc(f32, 4)[1]
            smem.mbarrier(2)
            with ptx.if_(reg.scalar(pred)):
                ptx.bar.sync(0)

        return repeated.ptx()

    assert build() == build()


def test_19_two_statements_on_one_line_of_raw_text():
    lines = ptx_of(lambda: ptx.raw(".reg .u32 zz; mov.u32 zz, 1;"))
    assert lines.count(".reg .u32 zz;") == 1
    assert lines.count("mov.u32 zz, 1;") == 1
