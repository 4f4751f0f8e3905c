"""Kernels of other front ends on the simulator: `pyptx.triton`, `pyptx.cuda`, `pyptx.numba`, `pyptx.cute`, `pyptx.warp`.

Each module imports its front end when it is used; `required` says what to install where it is missing.
"""

from __future__ import annotations
