"""Triton launches with edited PTX: on a GPU through Triton's own compiler and launcher, on a CPU on the simulator.

Triton's hook of the compiler's stages (`knobs.runtime.add_stages_inspection_hook`) edits the PTX before ptxas sees it, so that
the binary, the PTX and the key in Triton's caches are those of the edited kernel.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self
from unittest.mock import patch

from ...diagnostics import PTXError
from ..edits import edited, refuse_other_edits
from ..require import required
from .driver import LOWEST, TESTED

__all__ = ["Override", "override"]


def override(kernel: Any, edit: Any) -> Override:
    """A `triton.jit` kernel whose PTX is edited before it is assembled: launch it instead of the kernel, or use it in a
    `with` statement, in which the kernel itself is edited wherever it is launched.

    `edit`: a pipeline of passes (`"ptx-dce"`), PTX, a `pyptx.Module`, or a function on the module that `pyptx.parse` makes. It is
    applied to each specialization that Triton compiles; PTX as text fits one. PTXError where the edited PTX is not right, with its
    line, or has other parameters; TypeError for what is not a kernel.
    """
    return Override(kernel, edit)


class Override:
    """What `override` gives; `override(add, edit)[grid](x, y)` launches the edited kernel."""

    def __init__(self, kernel: Any, edit: Any):
        if not callable(getattr(kernel, "run", None)) or not hasattr(kernel, "warmup"):
            raise TypeError(f"override takes a kernel of triton.jit, not {type(kernel).__name__}")
        refuse_other_edits(edit)
        self.kernel = kernel
        self.edit = edit
        self._key = uuid.uuid4().hex
        if isinstance(edit, str) and ".version" in edit:  # Triton keeps it from process to process
            self._key = hashlib.sha256(edit.encode("utf-8", "surrogateescape")).hexdigest()
        self._stack: list[ExitStack] = []

    def __repr__(self) -> str:
        return f"Override({getattr(self.kernel, '__name__', self.kernel)!r})"

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **options: self.run(*args, grid=grid, warmup=False, **options)

    def warmup(self, *args: Any, grid: Any, **options: Any) -> Any:
        """Compile without a launch; the compiled kernel has the edited PTX in `asm["ptx"]`."""
        with self:
            return self.kernel.warmup(*args, grid=grid, **options)

    def run(self, *args: Any, **options: Any) -> Any:
        """Launch: what Triton's kernels have under this name."""
        with self:
            return self.kernel.run(*args, **options)

    def __enter__(self) -> Self:
        stack = ExitStack()
        knobs = required("triton.knobs", "triton", TESTED, LOWEST).runtime
        launch = self.kernel.run

        def run(*args: Any, **options: Any) -> Any:
            before = knobs.add_stages_inspection_hook
            knobs.add_stages_inspection_hook = self._hook(before)
            try:
                return launch(*args, **options)
            finally:
                knobs.add_stages_inspection_hook = before

        stack.enter_context(patch.object(self.kernel, "run", run))
        self._stack.append(stack)
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._stack:
            raise RuntimeError(f"{self!r} has not been entered: use it in a with statement")
        self._stack.pop().close()

    def _hook(self, before: Any) -> Callable[..., Any]:
        """Triton calls it without arguments for what its caches go by, and with the stages when it compiles."""

        def hook(*args: Any) -> Any:
            if not args:
                key, digest = before() if before else ("", "")
                return f"{key} pyptx {self._key}", f"{digest}{self._key!r}"
            if before:
                before(*args)
            stages = args[1]
            if "ptx" not in stages:
                raise PTXError(f"{self!r}: Triton does not compile for an NVIDIA GPU")
            stages["ptx"] = self._edited(stages["ptx"])
            return None

        return hook

    def _edited(self, compile: Callable[[Any, Any], str]) -> Callable[[Any, Any], str]:
        def stage(source: Any, metadata: Any) -> str:
            text = compile(source, metadata)
            return edited(text, self.edit, metadata["name"])

        return stage
