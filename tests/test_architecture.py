"""The arrows of docs/architecture.md: which folder may import which, and where optional packages may be imported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "pyptx"
LAYERS = [
    {"dialects"}, {"ssa"}, {"analysis"}, {"parser", "printer", "passes"}, {"frontend", "codegen"}, {"simulator", "runtime"},
    {"tools"},
]  # fmt: skip
LEVEL = {name: i for i, names in enumerate(LAYERS) for name in names}
EVERYWHERE = {"diagnostics"}
OPTIONAL = {"torch", "jax", "jaxlib", "cuda"}
LAZY_EXCEPTIONS = {("frontend", "runtime"), ("frontend", "tools"), ("frontend", "simulator")}
"""Arrows that a function may take at call time: `Kernel.__call__` reaches the runtime, `Kernel.check` ptxas."""


def imports(path: Path) -> list[tuple[str, bool]]:
    """(absolute dotted module, whether the import is inside a function) of a file."""
    package = ["pyptx", *path.relative_to(ROOT).parts[:-1]]
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inside = lazy or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            if isinstance(child, ast.Import):
                found.extend((a.name, lazy) for a in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                module = ".".join([*base, *([child.module] if child.module else [])])
                found.append((module, lazy))
                if child.module is None:
                    found.extend((f"{module}.{a.name}", lazy) for a in child.names)
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            visit(child, inside)

    visit(ast.parse(path.read_text()), False)
    return found


FILES = [p for p in sorted(ROOT.rglob("*.py")) if p.relative_to(ROOT).parts[0] in LEVEL]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    for module, lazy in imports(path):
        parts = module.split(".")
        if parts[0] in OPTIONAL:
            allowed = own == "runtime" or (lazy and own == "tools")
            assert allowed, f"{path.name} imports {module}: optional packages belong in runtime/"
        if parts[0] != "pyptx" or len(parts) < 2 or parts[1] not in LEVEL or parts[1] in EVERYWHERE:
            continue
        other = parts[1]
        if lazy and (own, other) in LAZY_EXCEPTIONS:
            continue
        assert LEVEL[other] <= LEVEL[own], f"{own}/{path.name} must not import {other}"


def test_importing_pyptx_imports_no_framework() -> None:
    import subprocess
    import sys

    code = "import pyptx, sys; pyptx.kernel, pyptx.parse, pyptx.simulate; print(sorted({'torch', 'jax', 'cuda', 'llvmlite'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
