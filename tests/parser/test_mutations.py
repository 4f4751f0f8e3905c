"""200 mutated corpus files (fixed seeds): each parses and prints back, or fails with a located error, soon."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

import pyptx
from tests.conftest import corpus_files

TOKEN = re.compile(rb"[%$\w.]+|\s+|.", re.S)
WORDS = [
    b";",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b",",
    b"@",
    b"\0",
    b"/*",
    b"*/",
    b"//",
    b'"',
    b".reg",
    b".b32",
    b"%r1",
    b"bra",
]


def mutated(data: bytes, seed: int) -> bytes:
    """Edit a few bytes or tokens of a file."""
    rng = random.Random(seed)
    tokens = TOKEN.findall(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(tokens))
        action = rng.randrange(6)
        if action == 0:
            del tokens[at : at + rng.randint(1, 5)]
        elif action == 1:
            tokens[at] = rng.choice(WORDS)
        elif action == 2:
            tokens[at:at] = [rng.choice(WORDS)]
        elif action == 3:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif action == 4:
            tokens[at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
        else:
            tokens[at:at] = tokens[at : at + rng.randint(1, 30)]
        if not tokens:
            return b";"
    return b"".join(tokens)


def sample() -> list[tuple[Path, int]]:
    files = [f for f in corpus_files() if not f.exists() or f.stat().st_size < 400_000]
    rng = random.Random(20261128)
    return [(rng.choice(files), seed) for seed in range(200)]


@pytest.mark.corpus
@pytest.mark.parametrize(("path", "seed"), sample(), ids=lambda v: v.name if isinstance(v, Path) else str(v))
def test_mutated_corpus_file(path: Path, seed: int) -> None:
    text = mutated(path.read_bytes(), seed).decode("utf-8", "surrogateescape")
    start = time.process_time()
    findings = pyptx.diagnose(text + "\n")
    assert all(f.line is not None and f.line >= 1 and f.message for f in findings)
    try:
        module = pyptx.parse(text + "\n")
    except pyptx.PTXError as error:
        located = [d for d in error.diagnostics if d.line is not None and d.column is not None]
        assert located == list(error.diagnostics)
    else:
        assert pyptx.to_ptx(module) == text + "\n"
    assert time.process_time() - start < 20, "2 s on an idle machine is the goal; this only catches a blow-up"
