"""Which of a kernel's targets runs on which GPU (PTX ISA 11.1.2, .target).

Code for `sm_90a` runs on compute capability 9.0 and nowhere else; `sm_100f` on its family, 10.x from 10.0 on; `sm_80` on
8.x from 8.0 on as a cubin, and on anything newer if its PTX is compiled for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..diagnostics import PTXError
from ..dialects.ptx.target import FIRST_PTX, target_of
from .driver import DeviceFacts

__all__ = ["auto_target", "best_target", "cubin_arch", "refusal", "runs_on", "variant_on"]

Capability = tuple[int, int]


def runs_on(arch: str, have: Capability) -> bool:
    """Whether PTX for a target can be compiled into code that a GPU of this compute capability runs."""
    target = target_of(arch)
    wanted = divmod(target.number, 10)
    if target.variant == "a":
        return wanted == have
    if target.variant == "f":
        return wanted[0] == have[0] and wanted[1] <= have[1]
    return wanted <= have


def best_target(archs: Iterable[str], have: Capability) -> str | None:
    """The target of a fat kernel for a GPU: the newest that runs there, of one number `a` before `f` before plain."""
    fitting = [a for a in archs if runs_on(a, have)]
    return max(fitting, key=lambda a: (target_of(a).number, ("", "f", "a").index(target_of(a).variant)), default=None)


def auto_target(have: Capability) -> str | None:
    """The target for `arch="auto"`: the GPU's own with all its features; of a GPU that this pyptx does not know, the
    newest plain target that runs there.
    """
    own = f"sm_{have[0]}{have[1]}" + ("a" if have[0] >= 9 else "")
    if own in FIRST_PTX:
        return own
    return best_target((a for a in FIRST_PTX if not target_of(a).variant), have)


def cubin_arch(arch: str, have: Capability) -> str:
    """What to compile PTX for `arch` for: itself, or for a GPU of a newer major version that GPU's plain target."""
    target = target_of(arch)
    return arch if target.variant or target.number // 10 == have[0] else f"sm_{have[0]}{have[1]}"


def refusal(name: str, archs: Iterable[str], facts: DeviceFacts) -> PTXError:
    """The error for a kernel none of whose targets runs on a GPU."""
    archs = tuple(archs)
    have = facts.capability
    words = f"{name} is compiled for {' and '.join(archs)}, and {facts.name} is sm_{have[0]}{have[1]}"
    if all(divmod(target_of(a).number, 10) > have for a in archs):
        return PTXError(f"{words}: too old a GPU for this kernel")
    why = "whose `a` targets run on their own GPU alone, and `f` targets in their family"
    return PTXError(f"{words}, {why}: decorate it with arch='auto', or add the target: arch=(..., {facts.arch!r})")


def variant_on(kernel: Any, facts: DeviceFacts) -> tuple[Any, str]:
    """(the variant of a kernel for a GPU, what to compile it for). PTXError where none runs there."""
    if kernel.archs == ("auto",):
        arch = auto_target(facts.capability)
    else:
        arch = best_target(kernel.archs, facts.capability)
    if arch is None:
        raise refusal(kernel.name, kernel.archs, facts)
    return kernel.variant(arch), cubin_arch(arch, facts.capability)
