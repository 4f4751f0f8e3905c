"""The optional native launcher. Everything else about the package is in pyproject.toml.

With PYPTX_PURE=1 it is left out: the wheel is then py3-none-any, for every machine, and launches through ctypes.
"""

import os

from setuptools import Extension, setup

pure = os.environ.get("PYPTX_PURE") == "1"

setup(
    ext_modules=[]
    if pure
    else [
        Extension(
            "pyptx.runtime._launcher",
            ["pyptx/runtime/_launcher.c"],
            extra_compile_args=["-O2", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            py_limited_api=True,
            optional=True,  # without a compiler the package installs all the same, and launches through ctypes
        )
    ],
    options={} if pure else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
