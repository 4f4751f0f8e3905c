"""The arrows of docs/architecture.md: which folder may import which, and where optional packages may be imported."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "pyptx"
LAYERS = [
    {"numerics"}, {"dialects"}, {"ssa"}, {"analysis"}, {"parser", "printer", "passes"}, {"frontend", "codegen"}, {"simulator"}, {"runtime"},
    {"sass"}, {"prediction"}, {"adapters"}, {"tools"},
]  # fmt: skip
LEVEL = {name: i for i, names in enumerate(LAYERS) for name in names}
EVERYWHERE = {"diagnostics"}
OPTIONAL = {"torch", "jax", "jaxlib", "cuda", "triton", "cutlass", "numba", "warp"}
SEAM = "frontend/deferred.py"
"""The one file of the frontend that names what comes after it: it imports by name, when a kernel is run or checked."""
ROOMS = ["core", "memory", "lint", "library", "kernel", "module"]
"""The folders of `frontend/`: each imports only those before it."""
SEAMS = {"__init__.py", "frontend/deferred.py", "dialects/ptx/deferred.py"}
"""Files that name what comes after them: the list of public names, what kernels reach when they are run, and what op classes
give xDSL. They import by name, when something is first asked for.
"""
BY_NAME = SEAMS | {
    "dialects/ptx/opcodes.py", "simulator/semantics/__init__.py", "passes/registry.py", "tools/cli.py", "numerics/__init__.py",
    "runtime/compile.py", "numerics/llvm.py", "adapters/require.py",
}  # fmt: skip
"""These, and tables of modules of their own folder or of foreign packages."""
SIMULATOR_ROOMS = ["machine", "tensor", "semantics", "jit", "engine", "observers", "sanitizer", "launch"]
"""The folders of `simulator/`: each imports only those before it."""


@cache
def imports(path: Path, types: bool = False) -> list[tuple[str, bool]]:
    """(absolute dotted module, whether the import is inside a function) of a file; with those for `types` only."""
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
                found.extend((f"{module}.{a.name}", lazy) for a in child.names)  # which may be a module, too
            if not types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
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
        assert LEVEL[other] <= LEVEL[own], f"{own}/{path.name} must not import {other}"


FRONTEND = {
    ".".join(("pyptx", *p.relative_to(ROOT).with_suffix("").parts)): p
    for p in FILES
    if p.is_relative_to(ROOT / "frontend") and p.name != "__init__.py" and not p.match(SEAM)
}


@pytest.mark.parametrize("name", FRONTEND)
def test_rooms_of_the_frontend_import_one_way(name: str) -> None:
    room = name.split(".")[2]
    for module, _ in imports(FRONTEND[name], types=True):
        parts = module.split(".")
        if parts[:2] == ["pyptx", "frontend"] and len(parts) > 2 and parts[2] in ROOMS:
            assert ROOMS.index(parts[2]) <= ROOMS.index(room), f"{name} must not import {module}"
        if parts[0] == "pyptx" and len(parts) > 1 and parts[1] in LEVEL:
            assert LEVEL[parts[1]] <= LEVEL["frontend"], f"{name} must not import {module}: {SEAM} reaches it"


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("pyptx", *(parts[:-1] if parts[-1] == "__init__" else parts)))


ALL = {dotted(p): p for p in sorted(ROOT.rglob("*.py")) if str(p.relative_to(ROOT)) not in SEAMS}


def needs(name: str) -> set[str]:
    """The modules and packages that a module imports, inside functions and for types too. `from package import module`
    needs that module, which finds its package half made if that is importing it, as Python allows.
    """
    found = {m for m, _ in imports(ALL[name], types=True) if m in ALL}
    return {m for m in found if not (ALL[m].name == "__init__.py" and only_modules_of(ALL[name], m))} - {name}


def only_modules_of(path: Path, package: str) -> bool:
    """Whether a file imports nothing from a package but modules of it."""
    names = {
        m for m, _ in imports(path, types=True) if m.startswith(f"{package}.") and "." not in m[len(package) + 1 :]
    }
    return bool(names) and names <= ALL.keys()


def in_circles(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is left after taking away, again and again, what needs nothing that is left."""
    left = graph
    while ready := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in ready}
    return {name: needed & left.keys() for name, needed in left.items()}


def test_there_are_no_import_circles() -> None:
    """Neither between modules nor between folders."""
    graph = {name: needs(name) for name in ALL}
    assert in_circles(graph) == {}

    def folder(name: str) -> str:
        return ".".join(name.split(".")[:2])

    folders: dict[str, set[str]] = {}
    for name, needed in graph.items():
        folders.setdefault(folder(name), set()).update({folder(m) for m in needed} - {folder(name)})
    assert in_circles(folders) == {}


def test_a_circle_is_found() -> None:
    graph = {"a": {"b", "x"}, "b": {"c"}, "c": {"b"}, "x": set[str](), "y": {"a"}}
    assert in_circles(graph) == {"a": {"b"}, "b": {"c"}, "c": {"b"}, "y": {"a"}}


def test_each_module_of_the_frontend_is_in_a_room() -> None:
    assert all(len(name.split(".")) == 4 for name in FRONTEND)


def test_files_and_classes_are_of_a_size_to_read() -> None:
    found: list[str] = []
    for path in sorted(ROOT.rglob("*.py")):
        text, name = path.read_text(), str(path.relative_to(ROOT))
        lines = text.count("\n")
        if lines < 500:
            continue
        found += [f"{name}: {lines} lines"] if lines > 800 else []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= 500:
                found.append(f"{name}: {node.name} is longer than 500 lines")
    assert found == []


SIMULATOR = [p for p in FILES if p.is_relative_to(ROOT / "simulator") and p.parent.name != "simulator"]


@pytest.mark.parametrize("path", SIMULATOR, ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_of_the_simulator_import_one_way(path: Path) -> None:
    room = path.relative_to(ROOT).parts[1]
    for module, _ in imports(path, types=True):
        parts = module.split(".")
        if parts[:2] == ["pyptx", "simulator"] and len(parts) > 2 and parts[2] in SIMULATOR_ROOMS:
            assert SIMULATOR_ROOMS.index(parts[2]) <= SIMULATOR_ROOMS.index(room), f"{path} must not import {module}"


def test_the_simulator_has_rooms_only() -> None:
    assert [p.name for p in (ROOT / "simulator").glob("*.py")] == ["__init__.py"]
    assert {p.relative_to(ROOT).parts[1] for p in SIMULATOR} == set(SIMULATOR_ROOMS)


def test_only_seams_and_tables_import_by_name() -> None:
    """An import that no reader of the file sees would undo the tests above."""
    names = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*.py")}
    assert {n for n in names if "import_module" in (t := (ROOT / n).read_text()) or "__import__" in t} == BY_NAME


def test_importing_pyptx_imports_no_framework() -> None:
    import subprocess
    import sys

    code = "import pyptx, sys; pyptx.kernel, pyptx.parse, pyptx.simulate; print(sorted({'torch', 'jax', 'cuda', 'llvmlite'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def opcode_comparisons(path: Path) -> list[int]:
    """Lines that compare an opcode with a string that is one."""
    import pyptx.dialects.ptx.all  # registers every op class
    from pyptx.dialects.ptx.instruction import OPCODES

    assert pyptx.dialects.ptx.all

    roots = {opcode.partition(".")[0] for opcode in OPCODES}
    lines: list[int] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            subject, others = node.left, node.comparators
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            subject, others = node.func.value, node.args
        else:
            continue
        left = {
            n.attr if isinstance(n, ast.Attribute) else n.id
            for n in ast.walk(subject)
            if isinstance(n, (ast.Attribute, ast.Name))
        }
        words = [
            n.value for c in others for n in ast.walk(c) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        names = [w.removeprefix("ptx.") for w in words if w.startswith("ptx.")]
        if left & {"opcode", "root"}:
            names += words
        if any(name.partition(".")[0] in roots for name in names):
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    "folder",
    ["analysis", "codegen", "frontend", "parser", "passes", "printer", "runtime", "sass", "simulator", "ssa", "tools"],
)
def test_facts_of_instructions_are_on_their_classes(folder: str) -> None:
    """A comparison of an opcode with a name is a fact that belongs on the op's class."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in opcode_comparisons(path)
    ]
    assert not found
