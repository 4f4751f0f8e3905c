"""The same modules as MLIR text: printed, parsed back, equal, and the same PTX."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.printer import Printer

import pyptx
from pyptx.dialects.ptx.dialect import PTX
from tests.conftest import CORPUS, corpus_id

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"


def small_corpus_files() -> list[Path]:
    files = sorted(CORPUS.glob("**/*.ptx")) or [CORPUS / "missing.ptx"]
    return [f for f in files if not f.exists() or f.stat().st_size < 5_000][::3]


def context() -> Context:
    made = Context()
    made.load_dialect(Builtin)
    made.load_dialect(PTX)
    return made


def mlir_of(module: object, generic: bool = False) -> str:
    out = StringIO()
    Printer(stream=out, print_generic_format=generic).print_op(module)  # pyright: ignore[reportArgumentType]
    return out.getvalue()


def round_trip(path: Path, generic: bool) -> None:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        text = file.read()
    module = pyptx.parse(text)
    mlir = mlir_of(module, generic)
    again = Parser(context(), mlir).parse_module()
    assert mlir_of(again, generic) == mlir
    assert pyptx.to_ptx(again) == text
    if pyptx.diagnose(text):
        return  # ptxas refuses it, and so does the verifier
    for op in again.walk():
        op.verify(verify_nested_ops=False)


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.name)
def test_own_files_through_mlir_text(path: Path, generic: bool) -> None:
    round_trip(path, generic)


@pytest.mark.corpus
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("path", small_corpus_files(), ids=corpus_id)
def test_corpus_through_mlir_text(path: Path, generic: bool) -> None:
    round_trip(path, generic)
