"""Module paths of 0.1.x that programs import from."""

from __future__ import annotations

import pytest

import pyptx
from pyptx import PTXError, kernel, ptx


def test_parser_and_emitter() -> None:
    from pyptx.codegen import ptx_to_python
    from pyptx.emitter import emit
    from pyptx.parser import parse

    text = kernel(lambda: ptx.bar.sync(0)).ptx()
    assert emit(parse(text)) == text == pyptx.to_ptx(pyptx.parse(text))
    assert "bar.sync" in ptx_to_python(text)
    with pytest.raises(PTXError):
        parse(text.replace("bar.sync", "barr.sync"), verify=True)


def test_kernel_types() -> None:
    import pyptx.kernel
    from pyptx.kernel import Kernel, TensorSpec, TmaDescriptorHandle
    from pyptx.reg import NegPred, PipeRef, Reg, RegArray
    from pyptx.smem import MbarrierArray, SharedAlloc, apply_swizzle
    from pyptx.specs import Layout, Tile, unify_envs

    assert isinstance(pyptx.kernel(lambda: ptx.ret()), Kernel)
    assert isinstance(TensorSpec("x").tma_desc(), TmaDescriptorHandle)
    assert all((NegPred, PipeRef, Reg, RegArray, MbarrierArray, SharedAlloc, apply_swizzle, Layout, Tile, unify_envs))
