"""The traced DSL: Python that records PTX instructions, one call = one instruction.

`trace` records; `registers`, `arithmetic` and `instructions` are its core (registers have operators, operators are
instructions, instructions take registers: they are imported together, here). The other modules are the namespaces of
`reg`, `smem` and `ptx`; `kernel` turns a trace into a module.
"""

from . import arithmetic as arithmetic
