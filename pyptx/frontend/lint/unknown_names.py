"""What to write for names that `ptx` does not have: instructions are in `ptx.inst`, and CUDA C++ has other names."""

from __future__ import annotations

from collections.abc import Iterable

from ...diagnostics import did_you_mean
from ...dialects.ptx.instruction import OPCODES

_CUDA = {
    "syncthreads": "ptx.bar.sync(0)",
    "syncwarp": "ptx.inst.bar.warp.sync(0xffffffff)",
    "threadfence": "ptx.inst.fence.acq_rel.gpu()",
    "threadfence_block": "ptx.inst.fence.acq_rel.cta()",
    "threadIdx": "ptx.special.tid.x()",
    "blockIdx": "ptx.special.ctaid.x()",
    "blockDim": "ptx.special.ntid.x()",
    "gridDim": "ptx.special.nctaid.x()",
}
"""Names of CUDA C++ -> the PTX for them."""


def cuda_name(name: str) -> str | None:
    """What PTX has for a name of CUDA C++."""
    return _CUDA.get(name.strip("_"))


def unknown_name(name: str, known: Iterable[str]) -> str:
    """What an AttributeError says about a name that the module `pyptx.ptx` does not have."""
    text = f"module 'pyptx.ptx' has no attribute {name!r}"
    cuda = cuda_name(name)
    if cuda is not None:
        return f"{text}: write {cuda}"
    opcode = name.rstrip("_")
    if any(key.partition(".")[0] == opcode for key in OPCODES):
        return f"{text}: write the instruction with its modifiers, ptx.inst.{name}.<type>(d, ...)"
    near = did_you_mean(name, known)
    return f"{text}; {near}" if near else text
