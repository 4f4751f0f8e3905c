"""Pictures of layouts: `pyptx.draw.swizzle("128B")`, `draw.mma("A", "m16n8k16", bf16)`, ...

Each function gives a `Picture`: a notebook shows it, `.save("layout.svg")` writes it, `.cells` are its contents as data.
They are drawn from the functions with which pyptx itself places elements.
"""

from .tools.draw.banks import banks
from .tools.draw.fragments import mma, tcgen05, tcgen05_accumulator, wgmma
from .tools.draw.picture import Cell, Picture
from .tools.draw.swizzles import layout, swizzle

__all__ = ["Cell", "Picture", "banks", "layout", "mma", "swizzle", "tcgen05", "tcgen05_accumulator", "wgmma"]
