"""C++ signatures of kernels: names as C++ writes them, and arguments checked against the types of the parameters."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..diagnostics import SimulationError
from ..simulator import LoadedKernel, Report

__all__ = ["CudaKernel", "demangled", "parameter_types", "parameters_at"]

ELEMENTS = {
    "float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16", "bool": "bool", "char": "int8",
    "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16", "int": "int32",
    "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64", "long long": "int64", "unsigned long long": "uint64",
    "__nv_fp8_e4m3": "float8_e4m3fn", "__nv_fp8_e5m2": "float8_e5m2",
}  # fmt: skip
"""C++ types -> NumPy's (and ml_dtypes') names."""


@dataclass(frozen=True, slots=True)
class CudaKernel(LoadedKernel):
    """A kernel of CUDA C++, with its signature: `void scale<float, 128>(float*, int)`."""

    signature: str = ""

    def __repr__(self) -> str:
        return f"CudaKernel({self.signature})"

    def variable(self, name: str) -> Any:
        """As of any kernel, also by the name that C++ has: `"a::total"`, `"table<float>"`."""
        symbols = [s for s in self.loaded.contents if demangled(s).replace(" ", "") == name.replace(" ", "")]
        return LoadedKernel.variable(self, symbols[0] if len(symbols) == 1 else name)

    def simulate(self, *args: object, **options: Any) -> Report:
        """Run it on the CPU. See `pyptx.simulate`; arrays must have elements of the C++ type."""
        types = parameter_types(self.signature)
        if len(types) == len(self.parameters) != len(args):
            raise SimulationError(
                f"{self.signature} takes {len(types)} argument{'s' * (len(types) != 1)}, not {len(args)}"
            )
        if len(types) == len(args):
            for number, (kind, value) in enumerate(zip(types, args, strict=True)):
                _check(self.signature, number, kind, value)
        return LoadedKernel.simulate(self, *args, **options)


def _check(signature: str, number: int, kind: str, value: Any) -> None:
    """SimulationError where an array's elements have another size or kind than those of a pointer."""
    if not kind.endswith("*"):
        return
    element = re.sub(r"\b(const|volatile)\b", "", kind[:-1]).strip()
    wanted = "uint64" if element.endswith("*") else ELEMENTS.get(element)
    given = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if wanted is None or not given or given == wanted:
        return
    bits = {"float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"} & {wanted}
    if given.lstrip("u") == wanted.lstrip("u") or (bits and given.startswith(("int", "uint"))):
        return  # the other sign, or the bits of a small float
    raise SimulationError(f"argument {number} of {signature} is an array of {given}, and the parameter is {kind}")


def parameters_at(signature: str) -> int:
    """Where the list of parameters begins; the end where there is none. Names have parentheses, too: `a::(anonymous namespace)::f`,
    `f<(char)99>`.
    """
    if not signature.endswith(")"):
        return len(signature)
    depth = 0
    for at in range(len(signature) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(signature[at], 0)
        if depth == 0:
            return at
    return len(signature)


def parameter_types(signature: str) -> list[str]:
    """The types of the parameters in a demangled signature; none where it is only a name."""
    start = parameters_at(signature)
    parts, depth, current = [], 0, ""
    for letter in signature[start + 1 : -1]:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()] if current.strip() and current.strip() != "void" else parts


@lru_cache(maxsize=1)
def _demangler() -> Any:
    """`__cxa_demangle` of the C++ library of this machine (Itanium C++ ABI 3.4), or None."""
    for name in (ctypes.util.find_library("stdc++"), ctypes.util.find_library("c++"), "libstdc++.so.6"):
        try:
            found = ctypes.CDLL(name or "").__cxa_demangle
        except (OSError, AttributeError):
            continue
        found.restype = ctypes.c_void_p
        found.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        return found
    return None


def demangled(symbol: str) -> str:
    """A symbol as C++ writes it; unchanged where it is not mangled, or no C++ library is installed."""
    demangle = _demangler() if symbol.startswith("_Z") else None
    if demangle is None:
        return symbol
    status = ctypes.c_int()
    found = demangle(symbol.encode(), None, None, ctypes.byref(status))
    if status.value or not found:
        return symbol
    text = ctypes.string_at(found).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return re.sub(r"\((?:int|unsigned int|long|unsigned long|bool)\)(?=-?\d)", "", text)  # f<(int)128> is f<128>
