"""What programs written for pyptx 0.1 need beyond today's signatures: parameters under the names that they had.

`names` lists them, `keywords` is the one mechanism. A public module (`pyptx.ptx`, `pyptx.smem`, ...) registers itself
with one call; nothing else imports this package. docs/migrating.md says what deliberately differs from 0.1.
"""

from .keywords import accept_former_names

__all__ = ["accept_former_names"]
