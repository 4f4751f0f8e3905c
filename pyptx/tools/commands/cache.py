"""`pyptx cache`: what is in the disk cache of compiled kernels, and emptying it."""

from __future__ import annotations

import argparse
import json
import sys
import time

from ...disk_cache import CacheRefused, DiskCache, cache_directory, cache_size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["show", "clear"], default="show", help="default: show")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.add_argument("--entries", action="store_true", help="show: list every entry")


def run(options: argparse.Namespace) -> int:
    try:
        path = cache_directory()
        limit = cache_size()
        # a directory that is not there is an empty cache, and looking does not make it
        cache = DiskCache(path, max_bytes=limit) if path.exists() else None
    except (CacheRefused, ValueError) as error:
        print(f"pyptx cache: {error}", file=sys.stderr)
        return 1
    if options.action == "clear":
        count = cache.clear() if cache else 0
        if options.json:
            print(json.dumps({"directory": str(path), "deleted": count}))
        else:
            print(f"{path}: {count} {'entry' if count == 1 else 'entries'} deleted")
        return 0
    entries = cache.entries() if cache else []
    total = sum(size for _, size, _ in entries)
    if options.json:
        listed = [{"key": k, "bytes": size, "used": used} for k, size, used in entries]
        print(json.dumps({"directory": str(path), "bytes": total, "limit": limit, "entries": listed}, indent=1))
        return 0
    print(f"{path}: {len(entries)} {'entry' if len(entries) == 1 else 'entries'}, {total:,} of {limit:,} bytes")
    if options.entries:
        for key, size, used in entries:
            print(f"{key[:16]}  {size:>10,}  {time.strftime('%Y-%m-%d %H:%M', time.localtime(used))}")
    return 0
