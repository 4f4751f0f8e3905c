"""Functions in a small subset of Python, compiled through LLVM: the two loops of a prediction run once for each instruction of
each warp, which Python itself is some three hundred times too slow for.

The subset: integers (64 bits, wrapping), floats (double), arrays in parameters, assignments to names and elements, `if`, `while`,
`for ... in range(...)`, `break`, `continue`, `return`, comparisons, arithmetic, `min`, `max`, `abs`, `int`, `float`, the functions
below, other native functions and integer constants of the module or of one that it imports. `//` and `%` take operands that are not negative. A name has
the type of its first assignment. The same function runs as plain Python, too, so that tests can compare both.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import struct
import textwrap
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import SimulationError, install
from ..numerics.llvm import available, compile_kept

__all__ = ["Bytes", "Halves", "Ints", "NativeFunction", "Reals", "Words", "as_bits", "as_float", "native", "popcount"]

Ints: TypeAlias = NDArray[np.int64]
Reals: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint32]
Halves: TypeAlias = NDArray[np.int32]
"""32-bit integers with a sign."""
Bytes: TypeAlias = NDArray[np.uint8]

_ELEMENTS = {"Ints": "i64", "Reals": "double", "Words": "u32", "Halves": "i32", "Bytes": "u8"}
_DTYPES = {"i64": np.int64, "double": np.float64, "u32": np.uint32, "i32": np.int32, "u8": np.uint8}
_LLVM = {"i64": "i64", "double": "double", "u32": "i32", "i32": "i32", "u8": "i8"}
MOST_INLINED = 60
"""Lines of LLVM IR of a function that may be inlined: more makes the code little faster, and takes seconds to compile."""
_SCALARS = {"int": "i64", "float": "double", "bool": "i64", "None": "i64"}


def popcount(x: int) -> int:
    """The number of ones of a 64-bit word."""
    return (int(x) & (1 << 64) - 1).bit_count()


def as_float(word: int) -> float:
    """The value of 32 bits as a float."""
    return struct.unpack("<f", struct.pack("<I", int(word) & 0xFFFFFFFF))[0]


def as_bits(value: float) -> int:
    """The 32 bits of a value that is rounded to a float."""
    with np.errstate(all="ignore"):
        return int(np.float32(value).view(np.uint32))


class Value(NamedTuple):
    name: str
    type: str
    """`i64`, `double`, `i1`, or an array's: `u32*`."""


class NativeFunction:
    """A function of the subset. `function.native(...)` runs its native form; calling it runs the Python."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    @cached_property
    def tree(self) -> ast.FunctionDef:
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        return tree

    @cached_property
    def parameters(self) -> list[tuple[str, str]]:
        return [(a.arg, _type_of(a.annotation)) for a in self.tree.args.args]

    @cached_property
    def result(self) -> str:
        return _type_of(self.tree.returns)

    @cached_property
    def text(self) -> str:
        """The whole module in LLVM IR: the functions, and `run`, which takes their arguments from an array of words."""
        modules: dict[str, str] = {}
        _compile(self, modules)
        lines = ["define i64 @run(ptr %w, i64 %x, ptr %y) {"]
        arguments: list[str] = []
        for number, (_, type) in enumerate(self.parameters):
            llvm = "ptr" if type.endswith("*") else type
            lines.append(f"  %p{number} = getelementptr i64, ptr %w, i64 {number}")
            lines.append(f"  %a{number} = load {llvm}, ptr %p{number}")
            arguments.append(f"{llvm} %a{number}")
        lines += [f"  %r = call i64 @{self.name}({', '.join(arguments)})", "  ret i64 %r", "}"]
        return "\n".join([*modules.values(), "\n".join(lines), *_DECLARED])

    @cached_property
    def compiled(self) -> Callable[[int, int, int], int]:
        """From the disk cache where the code of this package is as it was."""
        return compile_kept(f"{self.name} {_version()}", lambda: self.text)

    def native(self, *arguments: Any) -> int:
        """A call of the native form. SimulationError without llvmlite."""
        if not available():
            raise SimulationError(f"a prediction needs llvmlite: {install('jit')}")
        words: list[bytes] = []
        for (name, type), value in zip(self.parameters, arguments, strict=True):
            if type.endswith("*"):
                assert value.dtype == _DTYPES[type[:-1]] and value.flags.c_contiguous, name
                words.append(struct.pack("<Q", value.ctypes.data))
            else:
                words.append(struct.pack("<d", value) if type == "double" else struct.pack("<q", value))
        block = np.frombuffer(b"".join(words) or bytes(8), np.int64).copy()
        return self.compiled(block.ctypes.data, 0, 0)


@cache
def _version() -> str:
    """A digest of the sources of native functions and of what compiles them."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def native(function: Callable[..., Any]) -> NativeFunction:
    return NativeFunction(function)


_DECLARED = [
    "declare i64 @llvm.ctpop.i64(i64)", "declare i64 @llvm.smin.i64(i64, i64)", "declare i64 @llvm.smax.i64(i64, i64)",
    "declare i64 @llvm.abs.i64(i64, i1)", "declare double @llvm.minnum.f64(double, double)",
    "declare double @llvm.maxnum.f64(double, double)", "declare double @llvm.fabs.f64(double)",
    "declare i64 @llvm.fptosi.sat.i64.f64(double)",
]  # fmt: skip


def _type_of(annotation: ast.expr | None) -> str:
    name = ast.unparse(annotation) if annotation is not None else "None"
    return f"{_ELEMENTS[name]}*" if name in _ELEMENTS else _SCALARS[name]


def _compile(function: NativeFunction, modules: dict[str, str]) -> None:
    """The function and those it calls, each once."""
    if function.name not in modules:
        modules[function.name] = ""
        modules[function.name] = _Compiler(function, modules).compile()


_BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("add", "fadd"), ast.Sub: ("sub", "fsub"), ast.Mult: ("mul", "fmul"), ast.FloorDiv: ("udiv", ""), ast.Mod: ("urem", ""),
    ast.BitAnd: ("and", ""), ast.BitOr: ("or", ""), ast.BitXor: ("xor", ""), ast.LShift: ("shl", ""), ast.RShift: ("ashr", ""),
    ast.Div: ("", "fdiv"),
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("eq", "oeq"), ast.NotEq: ("ne", "une"), ast.Lt: ("slt", "olt"), ast.LtE: ("sle", "ole"), ast.Gt: ("sgt", "ogt"),
    ast.GtE: ("sge", "oge"),
}  # fmt: skip


class _Compiler:
    def __init__(self, function: NativeFunction, modules: dict[str, str]):
        self.function, self.modules = function, modules
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.variables: dict[str, str] = {}
        self.arrays: dict[str, Value] = {}
        self.count = 0
        self.loops: list[tuple[str, str]] = []
        self.closed = False

    def compile(self) -> str:
        parameters: list[str] = []
        for name, type in self.function.parameters:
            if type.endswith("*"):
                self.arrays[name] = Value(f"%arg.{name}", type)
                parameters.append(f"ptr %arg.{name}")
            else:
                parameters.append(f"{type} %arg.{name}")
                self.store(name, Value(f"%arg.{name}", type))
        self.statements(self.function.tree.body)
        if not self.closed:
            self.emit(f"ret {self.function.result} 0" if self.function.result == "i64" else "ret double 0.0")
        kept = " noinline" if len(self.lines) > MOST_INLINED else ""
        head = f"define internal {self.function.result} @{self.function.name}({', '.join(parameters)}){kept} {{\nentry:"
        return "\n".join([head, *self.allocas, *self.lines, "}"])

    # -- text

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, text: str) -> None:
        if not self.closed:
            self.lines.append(f"  {text}")

    def define(self, text: str, type: str) -> Value:
        name = f"%{self.fresh()}"
        self.emit(f"{name} = {text}")
        return Value(name, type)

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")
        self.closed = True

    def branch(self, test: Value, yes: str, no: str) -> None:
        self.emit(f"br i1 {test.name}, label %{yes}, label %{no}")
        self.closed = True

    def label(self, name: str) -> None:
        if not self.closed:
            self.jump(name)
        self.lines.append(f"{name}:")
        self.closed = False

    def fail(self, node: ast.AST) -> TypeError:
        return TypeError(f"{self.function.name}: {ast.unparse(node)} is not in the subset of native functions")

    # -- values

    def store(self, name: str, value: Value) -> None:
        value = self.whole(value)
        known = self.variables.get(name)
        if known is None:
            known = self.variables[name] = value.type
            self.allocas.append(f"  %var.{name} = alloca {known}")
        value = self.convert(value, known)
        self.emit(f"store {known} {value.name}, ptr %var.{name}")

    def whole(self, value: Value) -> Value:
        return self.define(f"zext i1 {value.name} to i64", "i64") if value.type == "i1" else value

    def convert(self, value: Value, type: str) -> Value:
        value = self.whole(value)
        if value.type == type:
            return value
        if type == "double":
            return self.define(f"sitofp i64 {value.name} to double", "double")
        raise TypeError(f"{self.function.name}: a float is assigned to an integer; write int(...)")

    def truth(self, value: Value) -> Value:
        if value.type == "i1":
            return value
        if value.type == "i64":
            return self.define(f"icmp ne i64 {value.name}, 0", "i1")
        return self.define(f"fcmp une double {value.name}, 0.0", "i1")

    def pair(self, a: Value, b: Value) -> tuple[Value, Value]:
        type = "double" if "double" in (a.type, b.type) else "i64"
        return self.convert(a, type), self.convert(b, type)

    def element(self, node: ast.Subscript) -> tuple[str, str]:
        """(the pointer to an element, its type)."""
        if not isinstance(node.value, ast.Name) or node.value.id not in self.arrays:
            raise self.fail(node)
        array = self.arrays[node.value.id]
        element = array.type[:-1]
        index = self.convert(self.value(node.slice), "i64")
        llvm = _LLVM[element]
        return self.define(f"getelementptr {llvm}, ptr {array.name}, i64 {index.name}", "ptr").name, element

    def value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            return self.constant(node.value, node)
        if isinstance(node, ast.Name):
            return self.named(node)
        if isinstance(node, ast.Attribute):
            return self.imported(node)
        if isinstance(node, ast.Subscript):
            pointer, element = self.element(node)
            llvm = _LLVM[element]
            found = self.define(f"load {llvm}, ptr {pointer}", llvm)
            if llvm in ("i64", "double"):
                return found
            return self.define(f"{'zext' if element[0] == 'u' else 'sext'} {llvm} {found.name} to i64", "i64")
        if isinstance(node, ast.BinOp):
            return self.binary(type(node.op), self.value(node.left), self.value(node.right), node)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            a, b = self.pair(self.value(node.left), self.value(node.comparators[0]))
            integer, real = _COMPARE[type(node.ops[0])]
            kind = f"icmp {integer}" if a.type == "i64" else f"fcmp {real}"
            return self.define(f"{kind} {a.type} {a.name}, {b.name}", "i1")
        if isinstance(node, ast.BoolOp):
            return self.short_circuit(node)
        if isinstance(node, ast.IfExp):
            return self.conditional(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise self.fail(node)

    def constant(self, value: object, node: ast.expr) -> Value:
        if isinstance(value, (bool, int)):
            number = int(value) & (1 << 64) - 1
            return Value(str(number - (1 << 64) if number >> 63 else number), "i64")
        if isinstance(value, float):
            return Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", "double")
        raise self.fail(node)

    def named(self, node: ast.Name) -> Value:
        type = self.variables.get(node.id)
        if type is not None:
            return self.define(f"load {type}, ptr %var.{node.id}", type)
        if node.id in self.function.function.__globals__:
            return self.constant(self.function.function.__globals__[node.id], node)
        raise self.fail(node)

    def imported(self, node: ast.Attribute) -> Value:
        """`codes.M32`: a constant of an imported module."""
        module = self.function.function.__globals__.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if not isinstance(module, ModuleType) or not hasattr(module, node.attr):
            raise self.fail(node)
        return self.constant(getattr(module, node.attr), node)

    def binary(self, op: type[ast.operator], a: Value, b: Value, node: ast.AST) -> Value:
        a, b = self.pair(a, b)
        if op is ast.Div:
            a, b = self.convert(a, "double"), self.convert(b, "double")
        name = _BINARY[op][a.type == "double"] if op in _BINARY else ""
        if not name:
            raise self.fail(node)
        return self.define(f"{name} {a.type} {a.name}, {b.name}", a.type)

    def unary(self, node: ast.UnaryOp) -> Value:
        a = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return self.define(f"xor i1 {self.truth(a).name}, true", "i1")
        a = self.whole(a)
        if isinstance(node.op, ast.USub):
            return self.define(f"sub i64 0, {a.name}" if a.type == "i64" else f"fneg double {a.name}", a.type)
        if isinstance(node.op, ast.Invert):
            return self.define(f"xor i64 {a.name}, -1", "i64")
        raise self.fail(node)

    def short_circuit(self, node: ast.BoolOp) -> Value:
        """The right operands are evaluated only where they decide."""
        slot = f"%{self.fresh('flag')}"
        self.allocas.append(f"  {slot} = alloca i1")
        end = self.fresh("end")
        for i, operand in enumerate(node.values):
            test = self.truth(self.value(operand))
            self.emit(f"store i1 {test.name}, ptr {slot}")
            if i + 1 < len(node.values):
                more = self.fresh("more")
                self.branch(test, *((more, end) if isinstance(node.op, ast.And) else (end, more)))
                self.label(more)
        self.label(end)
        return self.define(f"load i1, ptr {slot}", "i1")

    def conditional(self, node: ast.IfExp) -> Value:
        test = self.truth(self.value(node.test))
        yes, no, end, slot = self.fresh("yes"), self.fresh("no"), self.fresh("end"), self.fresh("%slot")
        self.branch(test, yes, no)
        self.label(yes)
        a = self.whole(self.value(node.body))
        self.allocas.append(f"  {slot} = alloca {a.type}")
        self.emit(f"store {a.type} {a.name}, ptr {slot}")
        self.jump(end)
        self.label(no)
        b = self.convert(self.value(node.orelse), a.type)
        self.emit(f"store {a.type} {b.name}, ptr {slot}")
        self.label(end)
        return self.define(f"load {a.type}, ptr {slot}", a.type)

    def call(self, node: ast.Call) -> Value:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self.fail(node)
        name = node.func.id
        target = self.function.function.__globals__.get(name)
        if isinstance(target, NativeFunction):
            return self.call_native(target, node)
        values = [self.value(a) for a in node.args]
        if name in ("min", "max"):
            return self.extreme(name, values)
        (a,) = map(self.whole, values)
        if name == "abs":
            text = (
                f"call i64 @llvm.abs.i64(i64 {a.name}, i1 false)"
                if a.type == "i64"
                else f"call double @llvm.fabs.f64(double {a.name})"
            )
            return self.define(text, a.type)
        if name == "int":
            text = f"call i64 @llvm.fptosi.sat.i64.f64(double {a.name})"
            return a if a.type == "i64" else self.define(text, "i64")
        if name == "float":
            return self.convert(a, "double")
        if target is popcount:
            return self.define(f"call i64 @llvm.ctpop.i64(i64 {a.name})", "i64")
        if target is as_float:
            short = self.define(f"trunc i64 {a.name} to i32", "i32")
            real = self.define(f"bitcast i32 {short.name} to float", "float")
            return self.define(f"fpext float {real.name} to double", "double")
        if target is as_bits:
            real = self.define(f"fptrunc double {self.convert(a, 'double').name} to float", "float")
            short = self.define(f"bitcast float {real.name} to i32", "i32")
            return self.define(f"zext i32 {short.name} to i64", "i64")
        raise self.fail(node)

    def extreme(self, name: str, values: list[Value]) -> Value:
        found = values[0]
        for other in values[1:]:
            a, b = self.pair(found, other)
            kind = f"llvm.s{name}.i64" if a.type == "i64" else f"llvm.{name}num.f64"
            found = self.define(f"call {a.type} @{kind}({a.type} {a.name}, {b.type} {b.name})", a.type)
        return found

    def call_native(self, target: NativeFunction, node: ast.Call) -> Value:
        _compile(target, self.modules)
        arguments: list[str] = []
        for argument, (_, type) in zip(node.args, target.parameters, strict=True):
            if type.endswith("*"):
                if not isinstance(argument, ast.Name) or self.arrays[argument.id].type != type:
                    raise self.fail(node)
                arguments.append(f"ptr {self.arrays[argument.id].name}")
            else:
                arguments.append(f"{type} {self.convert(self.value(argument), type).name}")
        return self.define(f"call {target.result} @{target.name}({', '.join(arguments)})", target.result)

    # -- statements

    def statements(self, body: list[ast.stmt]) -> None:
        for node in body:
            if self.closed:
                return
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            assert node.value is not None
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) != 1:
                raise self.fail(node)
            self.assign(targets[0], self.value(node.value))
        elif isinstance(node, ast.AugAssign):
            old = self.value(node.target)
            self.assign(node.target, self.binary(type(node.op), old, self.value(node.value), node))
        elif isinstance(node, ast.If):
            self.if_(node)
        elif isinstance(node, ast.While):
            self.while_(node)
        elif isinstance(node, ast.For):
            self.for_(node)
        elif isinstance(node, ast.Return):
            value = self.constant(0, ast.Constant(0)) if node.value is None else self.value(node.value)
            self.emit(f"ret {self.function.result} {self.convert(value, self.function.result).name}")
            self.closed = True
        elif isinstance(node, ast.Break):
            self.jump(self.loops[-1][1])
        elif isinstance(node, ast.Continue):
            self.jump(self.loops[-1][0])
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):  # a docstring
                self.value(node.value)
        elif not isinstance(node, ast.Pass):
            raise self.fail(node)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.store(target.id, value)
            return
        if not isinstance(target, ast.Subscript):
            raise self.fail(target)
        pointer, element = self.element(target)
        llvm = _LLVM[element]
        value = self.convert(value, "double" if element == "double" else "i64")
        if llvm not in ("i64", "double"):
            value = self.define(f"trunc i64 {value.name} to {llvm}", llvm)
        self.emit(f"store {llvm} {value.name}, ptr {pointer}")

    def if_(self, node: ast.If) -> None:
        yes, no, end = self.fresh("yes"), self.fresh("no"), self.fresh("end")
        self.branch(self.truth(self.value(node.test)), yes, no)
        self.label(yes)
        self.statements(node.body)
        if not self.closed:
            self.jump(end)
        self.label(no)
        self.statements(node.orelse)
        self.label(end)

    def while_(self, node: ast.While) -> None:
        head, body, end = self.fresh("head"), self.fresh("body"), self.fresh("end")
        self.label(head)
        self.branch(self.truth(self.value(node.test)), body, end)
        self.label(body)
        self.loops.append((head, end))
        self.statements(node.body)
        self.loops.pop()
        if not self.closed:
            self.jump(head)
        self.label(end)

    def for_(self, node: ast.For) -> None:
        call = node.iter
        if not (
            isinstance(node.target, ast.Name)
            and isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
        ):
            raise self.fail(node)
        values = [self.convert(self.value(a), "i64") for a in call.args]
        start, stop = (Value("0", "i64"), values[0]) if len(values) == 1 else values[:2]
        step = values[2] if len(values) > 2 else Value("1", "i64")
        counter = self.fresh("count.")
        self.store(counter, start)
        head, body, more, end = self.fresh("head"), self.fresh("body"), self.fresh("more"), self.fresh("end")
        self.label(head)
        now = self.define(f"load i64, ptr %var.{counter}", "i64")
        self.branch(self.define(f"icmp slt i64 {now.name}, {stop.name}", "i1"), body, end)
        self.label(body)
        self.store(node.target.id, now)
        self.loops.append((more, end))
        self.statements(node.body)
        self.loops.pop()
        self.label(more)
        now = self.define(f"load i64, ptr %var.{counter}", "i64")
        self.store(counter, self.define(f"add i64 {now.name}, {step.name}", "i64"))
        self.jump(head)
        self.label(end)
