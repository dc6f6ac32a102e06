"""Sharded chunk storage: reads and writes n-dimensional arrays with chunks packed into shards."""

from __future__ import annotations

from ._errors import (
    Cancelled,
    ConflictError,
    DamagedError,
    ExistsError,
    NotFoundError,
    RequestError,
    ShardineError,
    StorageError,
    UnsupportedError,
)
from ._shardine import __version__

__all__ = [
    "Cancelled",
    "ConflictError",
    "DamagedError",
    "ExistsError",
    "NotFoundError",
    "RequestError",
    "ShardineError",
    "StorageError",
    "UnsupportedError",
    "__version__",
]
