"""Transpile, execute, print; and what a generated program is allowed to be."""

from __future__ import annotations

import ast
from typing import Any

from pyptx.codegen import ptx_to_python
from pyptx.dialects.ptx.syntax import lex


def run(program: str) -> Any:
    """The module that a generated program leaves in `m`."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(program, "<generated>", "exec"), namespace)
    return namespace["m"]


def printed(text: str, **options: Any) -> str:
    """PTX -> Python -> PTX."""
    return run(ptx_to_python(text, **options)).ptx()


def tokens(text: str) -> list[tuple[str, str]]:
    """PTX without white space and comments."""
    return lex(text)[0]


def read(path: Any) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


_STATEMENTS = (
    ast.Expr, ast.Assign, ast.FunctionDef, ast.ImportFrom, ast.If, ast.Pass, ast.Module, ast.Call, ast.Attribute, ast.Name,
    ast.Constant, ast.keyword, ast.arguments, ast.arg, ast.List, ast.Tuple, ast.Subscript, ast.UnaryOp, ast.USub, ast.Invert,
    ast.alias, ast.BinOp, ast.Mult, ast.Add, ast.Compare, ast.Eq, ast.Load, ast.Store,
)  # fmt: skip


def assert_harmless(program: str) -> None:
    """A faithful program only defines kernels: calls of names imported from `pyptx.modules`, and of `m` and `inst`.

    Nothing else is imported, no attribute is private, no name is called that the program did not import or define.
    """
    tree = ast.parse(program)
    imported: set[str] = set()
    for node in ast.walk(tree):
        assert isinstance(node, _STATEMENTS), ast.dump(node)
        if isinstance(node, ast.ImportFrom):
            assert node.module == "pyptx.modules"
            imported |= {alias.name for alias in node.names}
            assert all(alias.asname is None for alias in node.names)
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("__")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            assert isinstance(root, ast.Name)
            assert root.id in {*imported, "m", "print"}, root.id
    main = [node for node in tree.body if isinstance(node, ast.If)]
    assert [ast.unparse(node) for node in main] == ["if __name__ == '__main__':\n    print(m.ptx(), end='')"]
    defined = [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    assigned = [
        t.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign)
        for target in n.targets
        for t in ast.walk(target)
        if isinstance(t, ast.Name)
    ]
    clash = set(assigned + defined) & imported
    assert not clash, clash


def assert_sugar_harmless(program: str) -> None:
    """A readable program imports `pyptx.modules` alone, and calls its names (also under a shorter name), `m`, `range`,
    `zip`, blocks it opened and `append` of lists it made.
    """
    tree = ast.parse(program)
    allowed = {"m", "print", "range", "zip"}
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.Import, ast.Global, ast.Nonlocal, ast.Lambda, ast.ClassDef, ast.Await)), (
            ast.dump(node)
        )
        if isinstance(node, ast.ImportFrom):
            assert node.module == "pyptx.modules"
            allowed |= {alias.name for alias in node.names}
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            allowed.add(node.optional_vars.id)
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("__")
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            assert _root(node.value) in ("op", "inst")
            allowed |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            appends = isinstance(node.func, ast.Attribute) and node.func.attr == "append"
            assert appends or _root(node.func) in allowed, ast.dump(node)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call)):  # a call's own name is looked at by itself
        node = node.value if isinstance(node, ast.Attribute) else node.func
    assert isinstance(node, ast.Name), ast.dump(node)
    return node.id
