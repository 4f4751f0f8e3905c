"""MLIR text to PTX and results, for the tests of `convert-to-ptx`. Every PTX made here is assembled by ptxas."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, scf
from xdsl.parser import Parser

import pyptx
from pyptx.analysis.checks import check_module
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.dialects.upstream import register
from pyptx.passes.assign_registers import AssignRegisters
from pyptx.passes.convert_to_ptx import ConvertToPTX
from pyptx.passes.cse import CommonSubexpressions
from pyptx.passes.dce import DeadCode
from pyptx.tools.ptxas import ToolNotFound, assemble


def parsed(text: str) -> builtin.ModuleOp:
    context = Context()
    register(context)
    for dialect in (builtin.Builtin, arith.Arith, cf.Cf, func.Func, scf.Scf):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def lowered(text: str, **options: Any) -> str:
    """PTX of MLIR text; all module checks hold on the way, and our verifier and ptxas accept it."""
    module = parsed(text)
    context = Context()
    passes = [ConvertToPTX(**options), CommonSubexpressions(), DeadCode(), AssignRegisters()]
    for p in passes:
        p.apply(context, module)
    inner = next(op for op in module.body.block.ops if isinstance(op, ModuleOp))
    assert check_module(inner) == []
    ptx = pyptx.to_ptx(module)
    assert pyptx.diagnose(ptx) == []
    try:
        assert assemble(ptx, inner.target.target, check_only=True).ok
    except ToolNotFound:
        pass
    return ptx


WRAP = """
builtin.module {{
  "gpu.module"() <{{sym_name = "m"}}> ({{
    "gpu.func"() <{{function_type = ({inputs}, memref<?x{out}>) -> (), kernel}}> ({{
    ^entry({arguments}, %out: memref<?x{out}>):
      %i = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
{loads}
{body}
      memref.store %r, %out[%i] : memref<?x{out}>
      "gpu.return"() : () -> ()
    }}) {{sym_name = "k"}} : () -> ()
  }}) : () -> ()
}}
"""
NUMPY = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}


def applied(body: str, out: str, *inputs: tuple[str, np.ndarray], **options: Any) -> np.ndarray:
    """What `body`, which makes %r from the elements %x0, %x1, ..., does to arrays."""
    count = len(inputs[0][1])
    kinds = [f"memref<?x{kind}>" for kind, _ in inputs]
    text = WRAP.format(
        inputs=", ".join(kinds),
        arguments=", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds)),
        loads="\n".join(f"      %x{i} = memref.load %a{i}[%i] : {kind}" for i, kind in enumerate(kinds)),
        body=body,
        out=out,
    )
    result = np.zeros(count, NUMPY[out])
    arguments: list[Any] = []
    for kind, array in inputs:
        arguments += [np.ascontiguousarray(array.astype(NUMPY[kind])), count]
    pyptx.simulate(pyptx.load(lowered(text, **options))["k"], *arguments, result, count, grid=1, block=count)
    return result


def module_of(*functions: str) -> str:
    """A gpu.module with these operations."""
    return '"gpu.module"() <{sym_name = "m"}> ({\n' + "\n".join(functions) + "\n}) : () -> ()"


def kernel_of(arguments: str, body: str, name: str = "k", attributes: str = "") -> str:
    """A gpu.func whose blocks are `body`; `arguments` are `%x: type, ...`."""
    types = ", ".join(a.partition(": ")[2] for a in arguments.split(", %"))
    return f"""  "gpu.func"() <{{function_type = ({types}) -> (), kernel}}> ({{
  ^entry({arguments}):
{body}
  }}) {{sym_name = "{name}"{attributes}}} : () -> ()"""


RETURN = '    "gpu.return"() : () -> ()'


def simulated(text: str, *arguments: Any, name: str = "k", grid: Any = 1, block: Any = 1, **options: Any) -> None:
    """Lower a module and run one of its kernels on arrays, in place."""
    pyptx.simulate(pyptx.load(lowered(text, **options))[name], *arguments, grid=grid, block=block)
