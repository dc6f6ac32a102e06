"""Sharded chunk storage: reads and writes n-dimensional arrays with chunks packed into shards.

>>> array = shardine.create(folder / "cells.zarr", shape=(64, 512, 512), dtype="uint16",
...     chunks=(16, 64, 64), shards=(64, 256, 256))
>>> array[10, 5:7, 100:103] = [[1, 2, 3], [4, 5, 6]]
>>> shardine.open(folder / "cells.zarr")[9:11, 6, 102]
array([0, 6], dtype=uint16)
"""

from __future__ import annotations

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
    "configure",
    "create",
    "create_group",
    "kv",
    "open",
    "open_group",
    "open_ome",
    "open_precomputed",
]

for _name in __all__:
    # Tracebacks and documentation name the package, not the file that happens to define it.
    if isinstance(_public := globals()[_name], type) or callable(_public):
        _public.__module__ = "shardine"
del _name, _public
