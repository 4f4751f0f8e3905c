"""The base of the passes here: run on every `ptx.module` of a `builtin.module`, or on every function that has
a body.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.passes import ModulePass

from ..dialects.ptx.structure import FunctionOp, ModuleOp
from .fresh import module_names
from .verify import ptx_modules


class PTXPass(ModulePass):
    """A pass over each `ptx.module`."""

    changes_the_judge: ClassVar[bool] = False
    """Whether it changes the target or the version that instructions are judged by."""

    def apply(self, ctx: Context, op: BuiltinModule) -> None:
        for module in ptx_modules(op):
            self.run(module)

    @abstractmethod
    def run(self, module: ModuleOp) -> None:
        """Change one module in place."""


class FunctionPass(PTXPass):
    """A pass over each function with a body, alone. It declares nothing outside the functions."""

    def run(self, module: ModuleOp) -> None:
        with module_names(module):
            for function in module.functions:
                if not function.is_declaration:
                    self.run_on_function(function)

    @abstractmethod
    def run_on_function(self, function: FunctionOp) -> None:
        """Change one function in place."""
