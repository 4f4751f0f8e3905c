"""Matrix instructions of a warp (PTX ISA 9.7.14, 9.7.15)."""
