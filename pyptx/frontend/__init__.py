"""The traced DSL: Python that records PTX instructions, one call = one instruction.

Rooms, each of which imports only those before it: `core` (the trace, registers, instructions), `memory` (addresses,
pointers, shared memory, tensors, parameters), `lint` (what is refused or warned of), `library` (the namespaces of `ptx`),
`kernel` and `module`. Registers have operators, operators are instructions, instructions take registers: those three are
imported together, here.
"""

from .core import arithmetic as arithmetic
