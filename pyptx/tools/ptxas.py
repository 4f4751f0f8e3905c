"""NVIDIA's offline toolchain, where the tools look for it; it lives in `pyptx.runtime.ptxas`."""

from __future__ import annotations

from ..runtime.ptxas import (
    ABORTED,
    MESSAGE,
    PtxasResult,
    ResourceUsage,
    SassLine,
    ToolNotFound,
    _find_tool,
    _read_usage,
    assemble,
    checking_arch,
    disassemble,
    find_tool,
    run_ptxas,
    sass_with_lines,
    supported_archs,
    target_of,
    tool_version,
)

__all__ = [
    "ABORTED",
    "MESSAGE",
    "PtxasResult",
    "ResourceUsage",
    "SassLine",
    "ToolNotFound",
    "_find_tool",
    "_read_usage",
    "assemble",
    "checking_arch",
    "disassemble",
    "find_tool",
    "run_ptxas",
    "sass_with_lines",
    "supported_archs",
    "target_of",
    "tool_version",
]
