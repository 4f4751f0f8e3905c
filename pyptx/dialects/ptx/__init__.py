"""The `ptx` dialect: one module per chapter of the PTX ISA manual, registered here."""

from __future__ import annotations
