"""Which instruction a Python operator is on values of a type: one table for `@kernel` and for the functions of a `Module`.

An operator means what it means in NumPy for the type: `>>` of a signed type is arithmetic, comparisons of unsigned types
(and of untyped bits, `b32`) are unsigned, `!=` of floats holds for NaN. Two of them are PTX's: integer `//` and `%` truncate
towards zero, as in C, and `max` and `min` return the other operand for NaN (`np.fmax`).
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["COMMUTATIVE", "COMPARISONS", "INTEGERS", "UNSIGNED", "operator_opcode"]

INTEGERS = {f"{kind}{bits}": bits for kind in "bus" for bits in (16, 32, 64)}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
"""Python's operator and the name by which `operator_opcode` has it."""
UNSIGNED = {"b16": "u16", "b32": "u32", "b64": "u64"}
"""What instructions with arithmetic take untyped bits for."""
COMMUTATIVE = frozenset("+ * & | ^".split())

_EITHER_SIGN = {"+": "add", "-": "sub", "*": "mul.lo"}
_BY_SIGN = {">>": "shr", "//": "div", "%": "rem", "max": "max", "min": "min"}
_BITS = {"<<": "shl", "&": "and", "|": "or", "^": "xor", "~": "not"}
_SIGNED = {"neg": "neg", "abs": "abs"}
_FLOAT = {"+": "add", "-": "sub", "*": "mul", "max": "max", "min": "min", "neg": "neg", "abs": "abs"}
_FLOAT_PAIR = {"+": "add.rn", "-": "sub.rn", "*": "mul.rn"}


@lru_cache(maxsize=2048)
def operator_opcode(operator: str, dtype: str, unsigned: bool = False) -> str | None:
    """The instruction of an operator (`+`, `neg`, `lt`, ...) on values of a type; None if there is none.

    Sums, differences and products have the same bits with and without sign. They are spelled as the signed instructions,
    as LLVM has them, or with `unsigned` (as GCC has them, see `Module`) the unsigned ones.
    """
    if dtype == "pred":
        return f"{_BITS[operator]}.pred" if operator in ("&", "|", "^") else None
    if dtype in INTEGERS:
        return _of_integers(operator, "s" if dtype[0] == "s" else "u", INTEGERS[dtype], unsigned)
    if dtype == "f32x2":
        return f"{_FLOAT_PAIR[operator]}.f32x2" if operator in _FLOAT_PAIR else None
    if dtype not in ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64"):
        return None
    if operator in _FLOAT:
        return f"{_FLOAT[operator]}.{dtype}"
    if operator == "/":
        return f"div.rn.{dtype}" if dtype in ("f32", "f64") else None
    if operator not in COMPARISONS.values() or dtype.endswith("x2"):
        return None
    return f"setp.{'neu' if operator == 'ne' else operator}.{dtype}"


def _of_integers(operator: str, sign: str, bits: int, unsigned: bool) -> str | None:
    if operator in _EITHER_SIGN:
        return f"{_EITHER_SIGN[operator]}.{'u' if unsigned else 's'}{bits}"
    if operator in _BY_SIGN:
        return f"{_BY_SIGN[operator]}.{sign}{bits}"
    if operator in _BITS:
        return f"{_BITS[operator]}.b{bits}"
    if operator in _SIGNED:
        return f"{_SIGNED[operator]}.s{bits}" if operator == "neg" or sign == "s" else None
    return f"setp.{operator}.{sign}{bits}" if operator in COMPARISONS.values() else None
