"""Native code on disk: what is kept is used, what is damaged is compiled again, and nothing needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyptx.disk_cache import DiskCache
from pyptx.numerics import llvm

pytestmark = pytest.mark.skipif(not llvm.available(), reason="llvmlite is not installed")


def returning(number: int) -> str:
    return f"define i64 @run(ptr %a, i64 %n, ptr %m) {{\n  %x = add i64 %n, {number}\n  ret i64 %x\n}}\n"


def call(number: int) -> int:
    """Compile as by a process that has not seen it."""
    return llvm.compile_ir.__wrapped__(returning(number))(0, 100, 0)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "native"))
    monkeypatch.delenv("PYPTX_CACHE_SIZE", raising=False)
    return DiskCache(tmp_path / "native")


def test_code_is_taken_from_the_disk(disk: DiskCache) -> None:
    assert call(1) == 101
    (first,) = (key for key, _, _ in disk.entries())
    assert call(2) == 102
    (second,) = (key for key, _, _ in disk.entries() if key != first)
    other = disk.get(second)
    assert other is not None
    assert disk.put(first, other)  # the code of another module under this key
    assert call(1) == 102


def test_damaged_code_is_compiled_again(disk: DiskCache) -> None:
    assert call(3) == 103
    (path,) = disk.path.rglob("*.cubin")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40] + bytes(40))
    assert call(3) == 103
    assert path.read_bytes() == whole


def test_code_for_another_cpu_is_not_taken(disk: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(4) == 104
    target = llvm._target()
    monkeypatch.setattr(llvm, "_target", lambda: (*target[:2], f"{target[2]}, +another"))
    assert call(4) == 104
    assert len(disk.entries()) == 2


def test_a_directory_that_cannot_be_trusted_is_said_once(disk: DiskCache) -> None:
    disk.path.chmod(0o777)
    with pytest.warns(
        RuntimeWarning,
        match="native functions are not kept on disk: others can write the cache directory",
    ):
        assert call(5) == 105
    assert call(6) == 106
    assert not disk.entries()
