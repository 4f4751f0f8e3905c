"""Helpers: trace a function as a kernel, and let ptxas assemble the text."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx import kernel
from pyptx.kernel import Kernel
from pyptx.runtime.ptxas import ToolNotFound, assemble, find_tool


def assembled(traced: Kernel | str, arch: str | None = None, **kw: Any) -> str:
    """The PTX text, after ptxas has made a cubin of it without complaint."""
    text = traced if isinstance(traced, str) else traced.ptx(**kw)
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    target = arch or (traced.arch if isinstance(traced, Kernel) else "sm_90a")
    result = assemble(text, target)
    assert result.ok, "\n".join(map(str, result.diagnostics)) + "\n" + text
    return text


def ptx_of(function: Any, arch: str = "sm_90a", **options: Any) -> str:
    """The assembled PTX of a function without tensors."""
    return assembled(kernel(arch=arch, **options)(function))


def body(text: str) -> list[str]:
    """The statements of the kernel, declarations left out."""
    lines = [line.strip() for line in text[text.index("\n{\n") :].split("\n")[2:]]
    return [line for line in lines if line and line != "}" and not line.startswith((".reg", ".shared", ".local"))]
