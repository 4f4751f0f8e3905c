"""The disk cache of compiled kernels and of the native code of the simulator: one file per entry, safe with many processes, bounded in size.

A file is written next to its final name and renamed into place, so that a reader sees a whole entry or none. It carries
a digest of its contents: what does not match (a torn disk, another program's file) is deleted and compiled again.
Code from the cache runs with the rights of the user, so a directory that others can write is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["CacheRefused", "DiskCache", "Entry", "cache_directory", "default_cache", "usable_cache"]

_MAGIC = b"PYPTX-CUBIN-1\n"
_SUFFIX = ".cubin"
_DEFAULT_SIZE = 1 << 30
_STALE_SECONDS = 3600.0
"""After this long a temporary file belongs to a process that died."""
_TOUCH_SECONDS = 600.0
"""A hit marks its entry as used, at most this often."""


class CacheRefused(RuntimeError):
    """The cache directory cannot be trusted or made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached cubin, and what the compiler said about it."""

    cubin: bytes = field(repr=False)
    facts: Mapping[str, Any]


def cache_directory() -> Path:
    """`$PYPTX_CACHE_DIR`, else `pyptx` in `$XDG_CACHE_HOME`, else `~/.cache/pyptx`. It need not exist.

    CacheRefused where none of these says and the user has no home directory.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    given = os.environ.get("PYPTX_CACHE_DIR") or os.path.join(base if os.path.isabs(base) else "~/.cache", "pyptx")
    if given.startswith("~") and not os.path.isabs(_home()):
        raise CacheRefused(
            "there is no home directory to keep it in: set PYPTX_CACHE_DIR, or PYPTX_CACHE_SIZE=0 for none"
        )
    return Path(given.replace("~", _home(), 1) if given == "~" or given.startswith("~/") else given)


def _home() -> str:
    """The user's home directory; empty where neither `$HOME` nor the password database has one. An empty `$HOME` counts
    as none, not as `/`.
    """
    if "HOME" in os.environ:
        return os.environ["HOME"]
    home = os.path.expanduser("~")
    return "" if home == "~" else home


def cache_size() -> int:
    """Bytes the cache may take: `$PYPTX_CACHE_SIZE` (a number, or with K, M, G), default 1 GiB; 0 turns it off.

    ValueError for anything else.
    """
    text = os.environ.get("PYPTX_CACHE_SIZE", "").strip()
    if not text:
        return _DEFAULT_SIZE
    found = re.fullmatch(r"(\d+)\s*([KMG]?)I?B?", text.upper())
    if not found:
        raise ValueError(f"PYPTX_CACHE_SIZE is {text!r}; it takes bytes, or a number with K, M or G")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def default_cache() -> DiskCache:
    """The cache that launches use, as the environment says now. CacheRefused, ValueError (see `cache_size`)."""
    return _opened(cache_directory(), cache_size())


def usable_cache(what: str) -> DiskCache | None:
    """`default_cache`, to keep something in; None, with one warning, where it is refused."""
    try:
        return default_cache()
    except (CacheRefused, ValueError) as error:
        _warn(what, str(error))
        return None


@lru_cache(maxsize=16)
def _warn(what: str, why: str) -> None:
    warnings.warn(f"{what} are not kept on disk: {why}", RuntimeWarning, stacklevel=5)


@lru_cache(maxsize=16)
def _opened(path: Path, size: int) -> DiskCache:
    return DiskCache(path, max_bytes=size)


class DiskCache:
    """Compiled kernels by key (a hex digest) in a directory, which is made if need be, private to the user.

    `max_bytes`: what it may take on disk; the entries least recently used go first. Raises CacheRefused where the
    directory, or one that it is in, can be written by others. A full or read-only disk is not an error: entries are then
    not kept.
    """

    def __init__(self, path: Path | str, *, max_bytes: int = _DEFAULT_SIZE) -> None:
        self.path = Path(path)
        self.max_bytes = max_bytes
        if max_bytes:
            make_private(self.path)

    def get(self, key: str) -> Entry | None:
        """The entry, or None. One that is damaged is deleted."""
        if not self.max_bytes:
            return None
        path = self._file(key)
        try:
            with open(path, "rb") as file:
                data = file.read()
                modified = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        entry = _unpack(data, key)
        if entry is None:
            _remove(path)
        elif time.time() - modified > _TOUCH_SECONDS:
            try:
                os.utime(path)
            except OSError:
                pass
        return entry

    def put(self, key: str, entry: Entry) -> bool:
        """Keep an entry; False if the disk would not take it."""
        if not self.max_bytes:
            return False
        path = self._file(key)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_pack(entry, key))
            os.replace(temporary, path)
        except OSError:
            _remove(temporary)
            return False
        self._trim()
        return True

    def entries(self) -> list[tuple[str, int, float]]:
        """(key, bytes, time of last use) of every entry, the longest unused first."""
        return sorted(((p.stem, size, used) for p, size, used in self._files(_SUFFIX)), key=lambda e: (e[2], e[0]))

    def clear(self) -> int:
        """Delete every entry and what dead writers left; the number of entries that are gone."""
        count = 0
        for path, _, _ in [*self._files("")]:
            count += _remove(path) and path.suffix == _SUFFIX
        return count

    def _file(self, key: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{16,}", key):
            raise ValueError(f"a cache key is a hex digest, not {key!r}")
        return self.path / key[:2] / f"{key}{_SUFFIX}"

    def _files(self, suffix: str) -> Iterator[tuple[Path, int, float]]:
        """Our files with that suffix. Others in the directory are left alone."""
        try:
            folders = [e.path for e in os.scandir(self.path) if re.fullmatch(r"[0-9a-f]{2}", e.name)]
        except OSError:
            return
        for folder in sorted(folders):
            try:
                found = list(os.scandir(folder))
            except OSError:
                continue
            for item in found:
                if suffix and (not item.name.endswith(suffix) or item.name.startswith(".")):
                    continue
                try:
                    status = item.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield Path(item.path), status.st_size, status.st_mtime

    def _trim(self) -> None:
        files = list(self._files(""))
        total = sum(size for _, size, _ in files)
        now = time.time()
        for path, size, _ in [f for f in files if f[0].name.startswith(".") and now - f[2] > _STALE_SECONDS]:
            _remove(path)
            total -= size
        if total <= self.max_bytes:
            return
        for path, size, _ in sorted((f for f in files if not f[0].name.startswith(".")), key=lambda f: f[2]):
            if total <= self.max_bytes * 9 // 10:
                break
            total -= size if _remove(path) else 0


def _remove(path: Path) -> bool:
    """Delete a file; False where it is gone already, or the disk does not let us (it costs only the place)."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _pack(entry: Entry, key: str) -> bytes:
    facts = json.dumps(dict(entry.facts), sort_keys=True).encode()
    body = key.encode() + len(facts).to_bytes(8, "little") + facts + entry.cubin
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(data: bytes, key: str) -> Entry | None:
    """What `_pack` packed under this key; None if anything is amiss."""
    start = len(_MAGIC) + 32
    body = memoryview(data)[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    name = key.encode()
    if bytes(body[: len(name)]) != name:
        return None
    size = int.from_bytes(body[len(name) : len(name) + 8], "little")
    rest = len(name) + 8
    return Entry(bytes(body[rest + size :]), json.loads(bytes(body[rest : rest + size])))


def make_private(path: Path) -> None:
    """Make the directory with mode 0700, or hold the one that is there to that."""
    advice = "set PYPTX_CACHE_DIR to a directory of your own (chmod 700), or PYPTX_CACHE_SIZE=0 for none"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        real = path.resolve(strict=True)
        status = os.stat(real)
    except OSError as error:
        raise CacheRefused(f"the cache directory {path} cannot be made: {error.strerror}; {advice}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise CacheRefused(f"the cache directory {path} is not a directory; {advice}")
    if not hasattr(os, "geteuid"):
        return
    if status.st_uid not in (os.geteuid(), 0):
        raise CacheRefused(f"the cache directory {path} belongs to another user; {advice}")
    if status.st_mode & 0o022:
        raise CacheRefused(
            f"others can write the cache directory {path} (mode {stat.S_IMODE(status.st_mode):o}), so they could plant "
            f"code in it; {advice}"
        )
    for parent in real.parents:
        mode = os.stat(parent).st_mode
        if mode & 0o002 and not mode & stat.S_ISVTX:
            raise CacheRefused(
                f"others can replace the cache directory {path}: its parent {parent} has mode "
                f"{stat.S_IMODE(mode):o}; {advice}"
            )
