"""Every pass on real files: the IR is sound afterwards, ptxas takes the text, a second run changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.context import Context

import pyptx
from pyptx.analysis.checks import check_module
from pyptx.diagnostics import PTXError
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.passes.registry import PASSES
from pyptx.runtime.ptxas import assemble
from pyptx.runtime.ptxas import target_of as target_in
from tests.conftest import corpus_id
from tests.passes.sample import DATA, corpus_sample, text_of

ARGUMENTS = ("ptx-retarget", "ptx-outline", "convert-to-ptx")
"""Passes that need arguments or other input; they have tests of their own."""
PLAIN = tuple(name for name in PASSES if name not in ARGUMENTS)
"""Passes that need no arguments and may run on anything."""
NOT_IDEMPOTENT = ("ptx-inline",)


def run_all(path: Path) -> None:
    text = text_of(path)
    accepted: bool | None = None
    for name in PLAIN:
        module = pyptx.parse(text, filename=path.name)
        ptx = module.body.block.first_op
        assert isinstance(ptx, ModuleOp)
        before = pyptx.to_ptx(module)
        instance = PASSES[name]()()
        instance.apply(Context(), module)
        after = pyptx.to_ptx(module)
        assert check_module(ptx) == [], name
        if name == "ptx-assign-registers":
            assert after == before
        if after == before:
            continue
        assert check_module(pyptx.parse(after).body.block.first_op) == [], name  # pyright: ignore
        target = target_in(text) or "sm_75"
        if accepted is None:
            accepted = assemble(text, target, check_only=True).ok
        if accepted:
            result = assemble(after, target, check_only=True)
            assert result.ok, (name, [d.render() for d in result.errors[:3]])
        if name not in NOT_IDEMPOTENT:
            instance.apply(Context(), module)
            assert pyptx.to_ptx(module) == after, name


def parses(path: Path) -> bool:
    try:
        pyptx.parse(text_of(path))
    except PTXError:
        return False
    return True


@pytest.mark.corpus
@pytest.mark.parametrize("path", corpus_sample(), ids=corpus_id)
def test_corpus(path: Path) -> None:
    if not parses(path):
        pytest.skip("not parsed (tests/parser says why)")
    run_all(path)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.name)
def test_own_files(path: Path) -> None:
    run_all(path)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_says_what_it_promises(name: str) -> None:
    pass_ = PASSES[name]()
    assert pass_.name == name
    assert "Contract:" in (pass_.__doc__ or "")
