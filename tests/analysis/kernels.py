"""Small kernels for the tests of analyses."""

from __future__ import annotations

import pyptx
from pyptx.analysis.report import FunctionReport, Shape, analyse
from pyptx.dialects.ptx.structure import ModuleOp


def module_of(body: str, *, declarations: str = "", directives: str = "", target: str = "sm_90") -> ModuleOp:
    """A module with one entry `k(p: u64, q: u64, n: u32)` and ranges of 100 registers %p %h %r %rd %f."""
    text = f""".version 8.0
.target {target}
{declarations}
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)
{directives}
{{
	.reg .pred %p<100>;
	.reg .b16 %h<100>;
	.reg .b32 %r<100>;
	.reg .b64 %rd<100>;
	.reg .f32 %f<100>;
{body}
}}
"""
    inner = pyptx.parse(text, filename="k.ptx", verify=True).body.block.first_op
    assert isinstance(inner, ModuleOp)
    return inner


def report_of(
    body: str,
    *,
    declarations: str = "",
    directives: str = "",
    target: str = "sm_90",
    shape: Shape | None = None,
) -> FunctionReport:
    """All analyses of that kernel."""
    (report,) = analyse(module_of(body, declarations=declarations, directives=directives, target=target), shape=shape)
    return report
