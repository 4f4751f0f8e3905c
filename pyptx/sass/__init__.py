"""Machine code (SASS) as data.

    listing = pyptx.sass.assemble(text)            # or pyptx.sass.read(cubin)
    for instruction in listing["kernel"]:
        print(instruction.address, instruction.text, instruction.control, instruction.line)

ptxas makes it, nvdisasm spells it; the control codes are decoded from the instruction's bits (`control`).
"""

from .assemble import assemble
from .control import Control
from .disassembly import read
from .listing import Function, Guard, Instruction, Listing, SassError
from .operands import Constant, Immediate, Keyword, Label, Memory, Operand, Register, Relocation, Scoreboards

__all__ = [
    "Constant",
    "Control",
    "Function",
    "Guard",
    "Immediate",
    "Instruction",
    "Keyword",
    "Label",
    "Listing",
    "Memory",
    "Operand",
    "Register",
    "Relocation",
    "SassError",
    "Scoreboards",
    "assemble",
    "read",
]
