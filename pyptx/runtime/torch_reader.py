"""Where torch keeps what the native launcher asks of each tensor, found and tried.

DLPack's exchange API is what torch offers for that, and takes a third of the time of a launch. The C functions that
AOTInductor's libraries call (`aoti_torch_get_sizes`, ...) and three functions of libc10 say the same in a fraction of it;
they take the tensor itself, whose place in its Python object, and that of its dispatch keys, are looked for here.
All answers are compared with those of torch's Python objects. Where one differs, DLPack is what there is.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

__all__ = ["torch_internals"]

_MODES = "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"
_GRAD_ENABLED = "_ZN3c108GradMode10is_enabledEv"
_REQUIRES_GRAD = "_ZNK3c1010TensorImpl13requires_gradEv"
_READERS = ("dim", "sizes", "strides", "dtype", "device_index", "data_ptr")
_IMPLEMENTATION_WORDS = 23
"""Of a TensorImpl: so many it has in torch 2.11 to 2.13."""

_known: dict[int, tuple[int, ...]] = {}


def torch_internals(torch: Any, native: Any) -> tuple[int, ...] | None:
    """What `_launcher.Dispatcher` takes: offsets of the implementation and of its keys, keys to ignore, addresses of
    functions. None where this torch differs, or cannot be asked now (a functorch transform is active).
    """
    found = _known.get(id(native))
    if found is None:
        from torch.utils._python_dispatch import _disable_current_modes

        try:
            with _disable_current_modes():
                found = _find(torch)
                if not _tried(torch, native, found):
                    return None
        except (OSError, AttributeError, TypeError, ValueError, RuntimeError):  # other names, other libraries
            return None
        _known[id(native)] = found
    return found


def _find(torch: Any) -> tuple[int, ...]:
    folder = Path(torch.__file__).parent / "lib"
    c10, cpu = ctypes.CDLL(str(folder / "libc10.so")), ctypes.CDLL(str(folder / "libtorch_cpu.so"))
    questions = [_address(c10, name) for name in (_MODES, _GRAD_ENABLED, _REQUIRES_GRAD)]
    readers = [_address(cpu, f"aoti_torch_get_{name}") for name in _READERS]
    probe = torch.zeros(3)
    impl_at = _words(id(probe), torch._C.TensorBase.__basicsize__ // 8).index(probe._cdata, 2)
    keys_at = _words(probe._cdata, _IMPLEMENTATION_WORDS).index(_keys(torch, probe))
    with torch.inference_mode():
        ignored = _keys(torch, probe) ^ _keys(torch, torch.zeros(3))
    return 8 * impl_at, 8 * keys_at, ignored, *questions, *readers


def _tried(torch: Any, native: Any, found: tuple[int, ...]) -> bool:
    """Whether the answers are those of torch's Python objects."""
    impl_at, keys_at, ignored, modes, grad_enabled, requires_grad, *_ = found
    capsule = torch.Tensor.__dlpack_c_exchange_api__
    base = torch.zeros(4, 6, 10, dtype=torch.bfloat16)
    tensors = [
        torch.zeros(()), torch.zeros(5, dtype=torch.int32), base, base[1:, ::2, 3:], base.permute(2, 0, 1),
        torch.empty(0, 7), torch.nn.Parameter(torch.zeros(3)),
    ]  # fmt: skip
    with torch.inference_mode():
        tensors.append(torch.zeros(3, 2))
    negative = torch._neg_view(tensors[1])
    dtypes: dict[int, Any] = {}
    plain: set[int] = set()
    for t in (*tensors, negative):
        keys, device, dtype, pointer, shape, strides = native.describe(capsule, found, t)
        if (keys, pointer, shape, strides) != (_keys(torch, t) & ~ignored, t.data_ptr(), tuple(t.shape), t.stride()):
            return False
        plain |= {keys} if t is not negative else set()
        if device > 0 or dtypes.setdefault(dtype, t.dtype) != t.dtype:
            return False
        word = ctypes.c_uint64.from_address(id(t) + impl_at).value
        if word != t._cdata or ctypes.c_uint64.from_address(word + keys_at).value != _keys(torch, t):
            return False
        if ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(requires_grad)(word) != t.requires_grad:
            return False
    if len(plain) != 1 or _keys(torch, negative) & ~ignored in plain:
        return False
    depth, grad = ctypes.CFUNCTYPE(ctypes.c_int64)(modes), ctypes.CFUNCTYPE(ctypes.c_bool)(grad_enabled)
    from torch.utils._python_dispatch import TorchDispatchMode

    with torch.enable_grad():
        recording = grad()
    with torch.no_grad(), TorchDispatchMode():
        inside = grad(), depth()
    return (recording, depth(), inside) == (True, 0, (False, 1)) and len(dtypes) == 3


def _keys(torch: Any, tensor: Any) -> int:
    return torch._C._dispatch_keys(tensor).raw_repr()


def _words(start: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(start))


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
