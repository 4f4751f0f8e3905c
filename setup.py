"""The optional native launcher. Everything else about the package is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "pyptx.runtime._launcher",
            ["pyptx/runtime/_launcher.c"],
            extra_compile_args=["-O2", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            py_limited_api=True,
            optional=True,  # without a compiler the package installs all the same, and launches through ctypes
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
