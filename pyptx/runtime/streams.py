"""Streams of every kind as driver handles."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["current_stream", "stream_handle"]


def stream_handle(stream: Any) -> int:
    """The CUstream of a `torch.cuda.Stream`, a `cuda.core.Stream` or whatever has `__cuda_stream__`, or of a raw
    handle.

    TypeError for anything else. 0 is the legacy default stream, 2 the per-thread one.
    """
    if isinstance(stream, bool):
        raise TypeError("a stream is not a bool")
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer: Any = protocol() if callable(protocol) else protocol
        return int(answer[1])
    for name in ("cuda_stream", "handle", "ptr"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(value)
    raise TypeError(
        f"stream must be a torch.cuda.Stream, a cuda.core.Stream, an object with __cuda_stream__ or a raw handle "
        f"(int), not {type(stream).__name__}"
    )


def current_stream(device: int) -> int:
    """torch's current stream on that GPU if torch is in use, else the default stream."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch._C._cuda_getCurrentRawStream(device))
    return 0
