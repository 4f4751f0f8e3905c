"""Ask ptxas about many modules at once: which of them it accepts, and what it says against the others.

One run of ptxas reads many files, and each of its messages names the file, so that a run costs little more than its
longest module. A crash, or a run that takes too long, is narrowed down to the module that causes it. What ptxas knows of
the functions of one file it still knows in the next: names have to differ from module to module, or each is asked
about alone, as every disagreement must be before it counts.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from pyptx.tools.ptxas import ABORTED, checking_arch, find_tool

_MESSAGE = re.compile(r"^ptxas (\d+)\.ptx, line \d+; (error|fatal) *: (.*)$", re.M)
_UNPLACED = re.compile(r"^ptxas (?:(\d+)\.ptx)?.*?(?:error|fatal) *: (.*)$", re.M)
_TIMEOUT = 120

Module = tuple[str, str]
"""Text and target (`sm_90a`)."""


def refusals(modules: Sequence[Module], *, batch: int = 64, threads: int = 2) -> list[str]:
    """What ptxas says first against each module; empty where it accepts it. With a `batch` of 1 each is asked about
    alone.
    """
    order = sorted(range(len(modules)), key=lambda i: checking_arch(modules[i][1]))
    batches: list[tuple[str, list[int]]] = []
    for arch, group in groupby(order, key=lambda i: checking_arch(modules[i][1])):
        indices = list(group)
        batches += [(arch, indices[at : at + batch]) for at in range(0, len(indices), batch)]
    found = [""] * len(modules)
    with ThreadPoolExecutor(threads) as pool:
        judged = pool.map(lambda b: _judge([modules[i][0] for i in b[1]], b[0]), batches)
        for (_, indices), messages in zip(batches, judged, strict=True):
            for index, message in zip(indices, messages, strict=True):
                found[index] = message
    return found


def _judge(texts: Sequence[str], arch: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        names = [f"{i}.ptx" for i in range(len(texts))]
        for name, text in zip(names, texts, strict=True):
            (Path(folder) / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        command = [find_tool("ptxas"), "-arch", arch, "-w", "-o", "/dev/null", *names]
        try:
            run = subprocess.run(command, capture_output=True, cwd=folder, timeout=_TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            code, log = -1, ""
        else:
            code, log = run.returncode, (run.stdout + run.stderr).decode("utf-8", "replace")
    if code < 0:
        return _split(texts, arch)
    messages = [""] * len(texts)
    for number, _, message in _MESSAGE.findall(log):
        messages[int(number)] = messages[int(number)] or message
    unplaced = [m for n, m in _UNPLACED.findall(log) if not n and not m.startswith(ABORTED)]
    if unplaced or (code and not any(messages)):  # a message that does not say which module it is about
        if len(texts) == 1:
            return [messages[0] or (unplaced[0] if unplaced else f"ptxas failed with status {code}")]
        return _split(texts, arch)
    return messages


def _split(texts: Sequence[str], arch: str) -> list[str]:
    if len(texts) == 1:
        return ["ptxas crashed"]
    middle = len(texts) // 2
    return _judge(texts[:middle], arch) + _judge(texts[middle:], arch)
