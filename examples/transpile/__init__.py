"""PTX from other compilers, in and out."""
