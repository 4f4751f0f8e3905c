"""`CubinCache`: compiled kernels that a program keeps itself, by a key of its own making, as in 0.1.

Launches do not need it: they have a cache of their own (`pyptx cache`, `PYPTX_CACHE_DIR`). This one keeps what it is
given, in the process and, with `enable_disk`, in files of the same format and with the same safety.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .disk_cache import DiskCache, Entry, cache_directory

if TYPE_CHECKING:
    DEFAULT_CACHE_DIR: Path

__all__ = ["DEFAULT_CACHE_DIR", "CacheEntry", "CacheKey", "CubinCache", "get_global_cache", "set_global_cache"]


@dataclass(frozen=True)
class CacheKey:
    """What a cubin depends on: name the function so that a change of it changes `fn_id`."""

    fn_id: str
    template_kwargs: Mapping[str, Any] | Sequence[tuple[str, Any]] = ()
    input_shapes: Sequence[Sequence[Any]] = ()
    """Of each input its shape, or its shape and the name of its type."""
    arch: str = ""

    def hash(self) -> str:
        """A hex digest; equal keys give equal ones, in every process."""
        kwargs = sorted((name, type(value).__name__, repr(value)) for name, value in dict(self.template_kwargs).items())
        parts = repr((self.fn_id, kwargs, [tuple(s) for s in self.input_shapes], self.arch))
        return hashlib.sha256(parts.encode()).hexdigest()


@dataclass(frozen=True)
class CacheEntry:
    """PTX text, its cubin (None where it was not compiled), and what else the program wants to keep: values that JSON
    has.
    """

    key: CacheKey
    ptx_source: str = field(repr=False)
    cubin_bytes: bytes | None = field(repr=False)
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


class CubinCache:
    """Entries by `CacheKey`. On disk in `cache_dir`, default the `user` folder of pyptx's cache directory.

    CacheRefused where others can write that directory.
    """

    def __init__(self, cache_dir: Path | str | None = None, enable_disk: bool = True) -> None:
        self.enable_disk = enable_disk
        self._entries: dict[str, CacheEntry] = {}
        self._disk = DiskCache(cache_dir or cache_directory() / "user") if enable_disk else None

    def get(self, key: CacheKey) -> CacheEntry | None:
        """The entry, or None."""
        digest = key.hash()
        found = self._entries.get(digest)
        if found is None and self._disk is not None and (kept := self._disk.get(digest)) is not None:
            facts = kept.facts
            cubin = kept.cubin if facts.get("compiled", True) else None
            found = CacheEntry(key, facts.get("ptx", ""), cubin, dict(facts.get("metadata", {})))
            self._entries[digest] = found
        return found

    def put(self, entry: CacheEntry) -> None:
        """Keep an entry under its key, in place of one that is there."""
        digest = entry.key.hash()
        self._entries[digest] = entry
        if self._disk is not None:
            compiled = entry.cubin_bytes is not None
            facts = {"ptx": entry.ptx_source, "compiled": compiled, "metadata": entry.metadata}
            self._disk.put(digest, Entry(entry.cubin_bytes or b"", facts))

    def clear(self, *, disk: bool = False) -> None:
        """Forget what the process holds; with `disk`, what is in the files, too."""
        self._entries.clear()
        if disk and self._disk is not None:
            self._disk.clear()

    def __len__(self) -> int:
        kept = {key for key, _, _ in self._disk.entries()} if self._disk is not None else set[str]()
        return len(kept | set(self._entries))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, CacheKey) and self.get(key) is not None


_lock = threading.Lock()
_chosen: list[CubinCache] = []


@lru_cache(maxsize=1)
def _default() -> CubinCache:
    return CubinCache()


def get_global_cache() -> CubinCache:
    """The cache set by `set_global_cache`, else one in the default directory."""
    with _lock:
        return _chosen[0] if _chosen else _default()


def set_global_cache(cache: CubinCache | None) -> None:
    """Let `get_global_cache` return this one; None: the default again."""
    with _lock:
        _chosen[:] = [] if cache is None else [cache]


def __getattr__(name: str) -> Any:
    if name == "DEFAULT_CACHE_DIR":  # looked up when asked: the environment decides
        return cache_directory()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
