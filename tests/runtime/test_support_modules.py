"""The runtime modules of 0.1.x (`cache`, `jax_support`, `torch_support`, `spec`, `emitter`): a program that uses them."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyptx.cache
from pyptx import Layout, PTXError
from pyptx.cache import CacheEntry, CacheKey, CubinCache, get_global_cache, set_global_cache
from pyptx.runtime.compile import compilers
from pyptx.types import bf16, f32

from .conftest import FakeDriver
from .kernels import add

needs_compiler = pytest.mark.skipif(not compilers(), reason="neither nvJitLink nor ptxas is installed")


def key(**changes: Any) -> CacheKey:
    facts: dict[str, Any] = {"fn_id": "k", "template_kwargs": {"BM": 64}, "input_shapes": [(4, 8)], "arch": "sm_90a"}
    return CacheKey(**{**facts, **changes})


def test_cache_keys() -> None:
    assert key().hash() == key(input_shapes=((4, 8),)).hash()
    others = [{"fn_id": "j"}, {"template_kwargs": {"BM": True}}, {"input_shapes": [(8, 4)]}, {"arch": "sm_100a"}]
    assert len({key().hash(), *(key(**o).hash() for o in others)}) == 5


def test_cubin_cache(tmp_path: Path) -> None:
    cache = CubinCache(cache_dir=tmp_path / "kept")
    entry = CacheEntry(key=key(), ptx_source="// text", cubin_bytes=b"\x7fELF" + bytes(100), metadata={"registers": 12})
    assert cache.get(key()) is None
    assert key() not in cache
    cache.put(entry)
    assert (cache.get(key()), len(cache)) == (entry, 1)
    again = CubinCache(cache_dir=tmp_path / "kept")  # another process
    assert key() in again
    assert again.get(key()) == entry
    memory = CubinCache(enable_disk=False)
    memory.put(CacheEntry(key(), "// text", None))
    assert len(memory) == 1
    assert memory.get(key()) == CacheEntry(key(), "// text", None, {})
    again.clear()  # what the process holds
    assert again.get(key()) == entry
    again.put(CacheEntry(key(arch="sm_80"), "// text", None))
    assert CubinCache(tmp_path / "kept").get(key(arch="sm_80")) == CacheEntry(key(arch="sm_80"), "// text", None)
    again.clear(disk=True)
    assert len(again) == 0
    assert CubinCache(cache_dir=tmp_path / "kept").get(key()) is None


def test_global_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = CubinCache(enable_disk=False)
    set_global_cache(mine)
    assert get_global_cache() is mine
    set_global_cache(None)
    assert get_global_cache() is not mine
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path))
    assert tmp_path == pyptx.cache.DEFAULT_CACHE_DIR


@needs_compiler
def test_jax_support(fake: FakeDriver) -> None:
    jax = pytest.importorskip("jax")
    from pyptx import jax_support as support

    kernel = add()
    found = support.compile_ptx_to_cubin(kernel.ptx(), "sm_90a")
    assert found is not None
    function, module = found
    assert function
    assert module
    registry = support.get_cubin_registry()
    handle = registry.register(kernel.ptx(), "add", smem_bytes=16, cu_function=function, module=module)
    record = registry.get(handle)
    assert record is not None
    assert (record.handle, record.kernel_name, record.smem_bytes, record.cubin_bytes) == (handle, "add", 16, None)
    registry.clear()
    assert registry.get(handle) is None
    with pytest.raises(PTXError, match="plus"):
        support.compile_ptx_to_cubin(kernel.ptx().replace("add.f32", "plus.f32"), "sm_90a")
    assert support.shim_is_available() == (support.shim_load_error() is None)
    support.ensure_ffi_registered()
    x = jax.numpy.arange(32, dtype=jax.numpy.float32)
    support.call_kernel_via_ffi(kernel, x, x).block_until_ready()
    assert fake.launches[-1]["name"] == "add"
    # a bf16 matrix of 128 x 256, boxes of 64 x 64: what the driver was told
    host, at, device = support.synthesize_tma_descriptor((128, 256), bf16, Layout.TMA_128B, (64, 64))
    assert device % 64 == 0
    image = ctypes.string_at(at, 128)
    assert image == bytes(host)
    assert struct.unpack_from("<3Q", image, 8) == (0, 256, 128)
    image = bytes(support.synthesize_tma_descriptor_3d(128, 256, bf16, 64, 128, placeholder_ptr=4096)[0])
    address, *dims = struct.unpack_from("<Q3Q", image, 8)
    assert (address, dims) == (4096, [64, 128, 4])
    with pytest.raises(PTXError, match="multiples of 16"):
        support.synthesize_tma_descriptor((8, 3), f32, Layout.ROW)


def test_torch_support() -> None:
    torch = pytest.importorskip("torch")
    from pyptx import torch_support as support

    x = torch.randn(64)
    assert support.is_torch_tensor(x)
    assert not support.is_torch_tensor(x.numpy())
    assert support.any_torch_tensors([1, x])
    assert support.extract_input_shapes([x, np.zeros((2, 3))]) == [(64,), (2, 3)]
    assert torch.equal(support.call_kernel_via_torch(add(), x, x), x + x)
    with pytest.raises(TypeError, match="torch tensors, not ndarray"):
        support.call_kernel_via_torch(add(), x.numpy(), x.numpy())
    with pytest.raises(TypeError, match="forward kernel"):
        support.differentiable_kernel(lambda x: x, add())


def test_spec() -> None:
    from pyptx import spec

    assert {s.opcode for s in spec.get_specs("add")} == {"add"}
    assert spec.get_specs("no_such") == []
    assert len(spec.INSTRUCTIONS) >= 52
    integer = spec.get_specs("add")[0]
    assert (integer.syntax, integer.operand_pattern) == ("add.type d, a, b", "d, a, b")
    assert (integer.min_operands, integer.max_operands) == (3, 3)
    assert [(g.required, ".s32" in g.options) for g in integer.modifier_groups] == [(True, True)]
    assert spec.validate_instruction("add.s32") == []
    [issue] = spec.validate_instruction("add.s33")
    assert (issue.instruction, issue.severity) == ("add.s33", "error")
    assert ".s33" in issue.message
    [issue] = spec.validate_instruction("ad")
    assert "add" in (issue.hint or "")
    few = SimpleNamespace(opcode="add", modifiers=(".u32",), operands=(1, 2))
    [issue] = spec.validate_instruction(few)
    assert issue.message == "add.u32 takes 3 operands, not 2"
    with pytest.raises(spec.PtxValidationError, match="no modifier") as caught:
        spec.validate_or_raise("mov.f99")
    assert [i.instruction for i in caught.value.issues] == ["mov.f99"]
    own = spec.InstructionSpec("add", (spec.ModifierGroup("type", (".u33",), True),), min_operands=3, max_operands=3)
    assert spec.validate_instruction("add.u33", {"add": own}) == []
    [issue] = spec.validate_instruction("add", {"add": own})
    assert issue.message == "add needs one of .u33"
    spec.register_overload(spec.InstructionSpec("mine", own.modifier_groups, min_operands=3, max_operands=3))
    assert spec.validate_instruction("mine.u33") == []
    assert spec.is_strict()
    with spec.strict():
        pass
    with pytest.raises(ValueError, match="always judged"):
        spec.set_strict(False)


def test_parse_and_emit() -> None:
    from pyptx.emitter import emit
    from pyptx.parser import parse

    text = add().ptx()
    assert emit(parse(text)) == text
    from pyptx.codegen import ir_to_python

    found: dict[str, Any] = {}
    exec(ir_to_python(parse(text)), found)
    assert found["m"].ptx() == text
