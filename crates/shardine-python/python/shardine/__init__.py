"""Sharded chunk storage: reads and writes n-dimensional arrays with chunks packed into shards.

>>> array = shardine.create(folder / "cells.zarr", shape=(64, 512, 512), dtype="uint16",
...     chunks=(16, 64, 64), shards=(64, 256, 256))
>>> array[10, 5:7, 100:103] = [[1, 2, 3], [4, 5, 6]]
>>> shardine.open(folder / "cells.zarr")[9:11, 6, 102]
array([0, 6], dtype=uint16)
"""

from __future__ import annotations

from . import vectors
from ._array import Array, create, open
from ._attributes import Attributes
from ._engine import configure
from ._errors import (
    Cancelled,
    ConflictError,
    DamagedError,
    ExistsError,
    MissingKeyError,
    NotFoundError,
    RequestError,
    ShardineError,
    StorageError,
    UnsupportedError,
)
from ._jobs import (
    compact,
    compare,
    consolidate,
    convert,
    copy,
    migrate,
    plan,
    pyramid,
    repair,
    reshard,
    shard,
    unshard,
    verify,
)
from ._kv import KeyValues, kv
from ._sets import (
    Axis,
    Group,
    OmeImage,
    Scale,
    Volume,
    create_group,
    open_group,
    open_ome,
    open_precomputed,
)
from ._shardine import __version__

__all__ = [
    "Array",
    "Attributes",
    "Axis",
    "Cancelled",
    "ConflictError",
    "DamagedError",
    "ExistsError",
    "Group",
    "KeyValues",
    "MissingKeyError",
    "NotFoundError",
    "OmeImage",
    "RequestError",
    "Scale",
    "ShardineError",
    "StorageError",
    "UnsupportedError",
    "Volume",
    "__version__",
    "compact",
    "compare",
    "configure",
    "consolidate",
    "convert",
    "copy",
    "create",
    "create_group",
    "kv",
    "migrate",
    "open",
    "open_group",
    "open_ome",
    "open_precomputed",
    "plan",
    "pyramid",
    "repair",
    "reshard",
    "shard",
    "unshard",
    "vectors",
    "verify",
]


def _name_the_package() -> None:
    """Makes tracebacks and documentation name the package, not the file that defines something."""
    for name in __all__:
        public = globals()[name]
        if isinstance(public, type) or callable(public):
            public.__module__ = "shardine"


_name_the_package()
del _name_the_package
