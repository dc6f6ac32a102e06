"""How much of the machine is used."""

from __future__ import annotations

import os

from . import _shardine

#: A budget below this could not hold a chunk of common size on each thread.
_LEAST_MEMORY = 1 << 20

if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: the new process starts its own.
    os.register_at_fork(after_in_child=_shardine._forked)


def configure(
    *, threads: int = 0, memory: int | None = None, index_cache: int | None = None
) -> None:
    """Sets how many threads and how much memory are used for what is opened from now on.

    `threads` is at most 1024, and 0 means one per core. `memory` is in bytes, for data in flight
    and indexes; the arrays that are read into do not count. `index_cache` is the part of it in which
    indexes of shards are kept, and 0 keeps none.
    """
    if memory is not None and memory < _LEAST_MEMORY:
        raise ValueError(f"memory={memory}: must be at least {_LEAST_MEMORY}")
    if index_cache is not None and index_cache < 0:
        raise ValueError(f"index_cache={index_cache}: must not be negative")
    _shardine._configure(threads, memory, index_cache)
