"""Small tensors that compilers give to more threads than they have elements: all load, some store (PTX ISA 8.7.1)."""

from __future__ import annotations

import pytest

from .kernels import breaks, silent

IN_PLACE = """
    and.b32 %r20, %r1, {elements}; mul.wide.u32 %rd10, %r20, 4; add.s64 %rd10, %rd10, %rd2;
    setp.le.u32 %p3, %r1, {elements};
    ld.global.u32 %r21, [%rd10];
    add.u32 %r22, %r21, 1;
    {more}
    @%p3 st.global.u32 [%rd10], %r22;{end}
"""
SUM = "shfl.sync.bfly.b32 %r23, %r22, 16, 31, -1; add.u32 %r22, %r22, %r23;"


@pytest.mark.parametrize(("elements", "more"), [(0, ""), (31, ""), (63, ""), (31, SUM), (63, SUM)])
def test_values_that_only_masked_off_stores_use(elements: int, more: str) -> None:
    """One element (a scalar), as many as a warp has threads, and twice as many."""
    silent(IN_PLACE.format(elements=elements, more=more, end=""), block=128)


def test_the_store_may_be_of_another_value() -> None:
    """As in the backward pass of a gated activation: each of two gradients, made of both inputs, goes over one of them."""
    body = """
    and.b32 %r20, %r1, 31; mul.wide.u32 %rd10, %r20, 4; add.s64 %rd10, %rd10, %rd2;
    setp.lt.u32 %p3, %r1, 32;
    ld.global.u32 %r21, [%rd10]; ld.global.u32 %r22, [%rd10+256];
    add.u32 %r23, %r21, 1;
    @%p3 st.global.u32 [%rd10], %r22;
    {} st.global.u32 [%rd10+256], %r23;{}
"""
    silent(body.format("@%p3", ""), block=64)
    stored = "st.global.u32 [%rd5+1024], %r22; @%p3"  # by all threads
    breaks(body.format(stored, " //!"), "race", block=64)


@pytest.mark.parametrize(
    "more",
    [
        "@!%p3 st.global.u32 [%rd5], %r22;",  # stored elsewhere by the others
        "setp.eq.u32 %p4, %r22, 77; @%p4 bra $end;",  # decides where a thread goes
        "red.global.add.u32 [%rd1], %r22;",
        "mul.wide.u32 %rd11, %r22, 0; add.s64 %rd11, %rd11, %rd1; ld.global.u32 %r24, [%rd11];",  # an address
    ],
)
def test_values_that_are_used(more: str) -> None:
    breaks(IN_PLACE.format(elements=31, more=more, end=" //!") + "$end:\n", "race", block=128)


def test_the_value_must_be_of_the_same_load() -> None:
    """A neighbour's element, which its thread gets by no load of its own, is not a double."""
    body = """
    setp.lt.u32 %p3, %r1, 32; setp.ge.u32 %p4, %r1, 32;
    @%p3 ld.global.u32 %r21, [%rd2];
    @%p4 ld.global.u32 %r21, [%rd2+4];
    @%p3 st.global.u32 [%rd2+4], %r21; //!
"""
    breaks(body, "race", block=64)
