"""The disk cache: whole entries or none, trusted directories only, bounded, shared by racing processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyptx.disk_cache import CacheRefused, DiskCache, Entry, cache_directory, cache_size
from pyptx.tools.cli import main


def key(n: int) -> str:
    return hashlib.sha256(str(n).encode()).hexdigest()


def entry(n: int, size: int = 1000) -> Entry:
    return Entry(bytes([n % 251]) * size, {"n": n, "usage": {}})


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def test_keeps_what_it_is_given(cache: DiskCache) -> None:
    assert cache.get(key(1)) is None
    assert cache.put(key(1), entry(1))
    found = cache.get(key(1))
    assert found is not None
    assert (found.cubin, found.facts) == (entry(1).cubin, {"n": 1, "usage": {}})
    assert DiskCache(cache.path).get(key(1)) == found
    assert cache.get(key(2)) is None


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "other key", "foreign"])
def test_damaged_entries_are_dropped(cache: DiskCache, damage: str) -> None:
    cache.put(key(1), entry(1))
    cache.put(key(2), entry(2))
    path = cache.path / key(1)[:2] / f"{key(1)}.cubin"
    data = path.read_bytes()
    path.write_bytes(
        {
            "truncate": data[:-1],
            "flip": data[:-500] + bytes([data[-500] ^ 1]) + data[-499:],
            "empty": b"",
            "other key": (cache.path / key(2)[:2] / f"{key(2)}.cubin").read_bytes(),
            "foreign": b"\x7fELF" + bytes(2000),
        }[damage]
    )
    assert cache.get(key(1)) is None
    assert not path.exists()
    assert cache.put(key(1), entry(1))
    assert cache.get(key(1)) == entry(1)


def test_the_directory_is_private(tmp_path: Path) -> None:
    DiskCache(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o1777])
def test_refuses_a_directory_others_can_write(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(CacheRefused, match=rf"others can write.*{mode:o}.*PYPTX_CACHE_DIR"):
        DiskCache(path)


def test_refuses_a_parent_in_which_others_can_replace_it(tmp_path: Path) -> None:
    parent = tmp_path / "open"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(CacheRefused, match=r"parent .*open has mode 777"):
        DiskCache(parent / "cache")
    parent.chmod(0o1777)  # as /tmp: only the owner can rename
    DiskCache(parent / "cache")


def test_refuses_a_link_to_such_a_directory_and_a_file(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    target.chmod(0o777)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(CacheRefused, match="others can write"):
        DiskCache(tmp_path / "link")
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheRefused):
        DiskCache(tmp_path / "file")


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", max_bytes=10_000)
    for n in range(8):
        cache.put(key(n), entry(n))
        os.utime(cache.path / key(n)[:2] / f"{key(n)}.cubin", (time.time() - 5000 + n,) * 2)
    assert cache.get(key(0)) is not None  # now it is the one used last
    for n in range(8, 12):
        cache.put(key(n), entry(n))
    kept = {n for n in range(12) if cache.get(key(n)) is not None}
    assert {0, 8, 9, 10, 11} <= kept
    assert 1 not in kept
    assert sum(size for _, size, _ in cache.entries()) <= 10_000


def test_what_dead_writers_left_goes(cache: DiskCache) -> None:
    cache.put(key(1), entry(1))
    folder = cache.path / key(1)[:2]
    old, new = folder / ".old.cubin.1.ab", folder / ".new.cubin.1.ab"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.put(key(2), entry(2))
    assert not old.exists()
    assert new.exists()  # its writer may still be at it
    assert len(cache.entries()) == 2


def test_a_full_disk_is_no_error(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert not cache.put(key(1), entry(1))
    monkeypatch.undo()
    assert cache.get(key(1)) is None
    assert [p for p in cache.path.rglob("*") if p.is_file()] == []


def test_off(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", max_bytes=0)
    assert not cache.put(key(1), entry(1))
    assert cache.get(key(1)) is None
    assert not cache.path.exists()


def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "x"))
    assert cache_directory() == tmp_path / "x"
    monkeypatch.delenv("PYPTX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "pyptx"
    for text, size in (("123", 123), ("2K", 2048), ("3 MiB", 3 << 20), ("1g", 1 << 30)):
        monkeypatch.setenv("PYPTX_CACHE_SIZE", text)
        assert cache_size() == size
    monkeypatch.setenv("PYPTX_CACHE_SIZE", "lots")
    with pytest.raises(ValueError, match="PYPTX_CACHE_SIZE is 'lots'"):
        cache_size()


RACER = """
import hashlib, random, sys
from pyptx.disk_cache import DiskCache, Entry
cache = DiskCache(sys.argv[1], max_bytes=400_000)
random.seed(int(sys.argv[2]))
bad = hits = 0
for i in range(150):
    n = random.randrange(40)
    key = hashlib.sha256(str(n).encode()).hexdigest()
    found = cache.get(key)
    if found is None:
        cache.put(key, Entry(bytes([n]) * 20_000, {"n": n}))
    else:
        hits += 1
        bad += found.cubin != bytes([n]) * 20_000 or found.facts != {"n": n}
print(bad, hits)
"""


def test_eight_processes_race(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path / "cache"), str(n)], stdout=subprocess.PIPE, text=True
        )
        for n in range(8)
    ]
    results = [racer.communicate()[0].split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 8
    assert sum(int(bad) for bad, _ in results) == 0
    assert sum(int(hits) for _, hits in results) > 100  # they did share
    cache = DiskCache(tmp_path / "cache")
    assert 0 < sum(size for _, size, _ in cache.entries()) <= 400_000
    assert [p for p in cache.path.rglob(".*") if p.is_file()] == []


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cache"
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(path))
    assert main(["cache"]) == 0
    assert "0 entries" in capsys.readouterr().out
    assert not path.exists()
    DiskCache(path).put(key(1), entry(1))
    assert main(["cache", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [e["key"] for e in shown["entries"]] == [key(1)]
    assert main(["cache", "clear"]) == 0
    assert "1 entry deleted" in capsys.readouterr().out
    assert DiskCache(path).entries() == []
    path.chmod(0o777)
    assert main(["cache"]) == 1
    assert "others can write" in capsys.readouterr().err


def test_a_damaged_entry_on_a_read_only_disk_costs_only_itself(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "ab" * 32
    cache.put(key, Entry(b"cubin", {}))
    (file,) = cache.path.rglob("*.cubin")
    file.write_bytes(b"damaged")

    def refused(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refused)
    assert cache.get(key) is None
    assert cache.clear() == 0


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_home_the_cache_alone_is_lost(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PYPTX_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    with pytest.raises(CacheRefused, match="there is no home directory to keep it in: set PYPTX_CACHE_DIR"):
        cache_directory()
    assert main(["cache"]) == 1
    assert "no home directory" in capsys.readouterr().err


def test_a_user_without_a_password_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYPTX_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as Python does where the user is not known
    with pytest.raises(CacheRefused, match="no home directory"):
        cache_directory()
