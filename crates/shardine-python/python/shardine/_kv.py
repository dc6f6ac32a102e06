"""Values by 64-bit key: meshes, skeletons, annotations and chunks in uint64 shards."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from . import _places, _shardine
from ._errors import MissingKeyError
from ._places import Options


class KeyValues(_shardine.KeyValueBase, MutableMapping[int, bytes]):
    """A folder of uint64 shards, as a mapping of 64-bit keys to bytes; opened by `shardine.kv`.

    Values are compressed and decompressed as the sharding says. Each change rewrites the shards of
    its keys; `update` changes many keys at the cost of one for each shard.
    """

    _arguments: tuple[Options, str | None]

    def __init__(self, url: str, options: Options, sharding: str | None) -> None:
        self._arguments = (options, sharding)

    @property
    def sharding(self) -> dict[str, Any]:
        """How keys are sharded, as in an `info`."""
        found: dict[str, Any] = json.loads(self._sharding)
        return found

    def __getitem__(self, key: int) -> bytes:
        found = self._get(_key(key))
        if found is None:
            raise MissingKeyError(f"{self.url} has no key {key}")
        return found

    def __contains__(self, key: object) -> bool:
        return hasattr(key, "__index__") and self._get(_key(key)) is not None

    def __setitem__(self, key: int, value: bytes) -> None:
        self._put([(_key(key), bytes(value), None)])

    def __delitem__(self, key: int) -> None:
        if key not in self:
            raise MissingKeyError(f"{self.url} has no key {key}")
        self._remove([_key(key)])

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def update(self, *others: Any, **more: Any) -> None:
        """Stores several values; those of one shard in one step."""
        values = dict(*others, **more)
        self._put([(_key(key), bytes(value), None) for key, value in values.items()])

    def clear(self) -> None:
        """Removes all keys."""
        self._remove(self._keys())

    def put_mesh(self, key: int, manifest: bytes, fragments: bytes) -> None:
        """Stores a mesh: its manifest, and the fragments that lie before it."""
        self._put([(_key(key), bytes(manifest), bytes(fragments))])

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyValues, (self.url, *self._arguments)

    def __repr__(self) -> str:
        return f"<shardine.KeyValues {self.url}>"


def _key(key: Any) -> int:
    number = int(key.__index__())
    if not 0 <= number < 1 << 64:
        raise KeyError(f"{number} is not a 64-bit key")
    return number


def kv(
    url: str | os.PathLike[str],
    *,
    sharding: Mapping[str, Any] | None = None,
    store_options: Mapping[str, str] | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
) -> KeyValues:
    """Opens a folder of uint64 shards as the mapping that it is.

    Its sharding is found in its own `info`, or in that of the volume or the annotations that it
    belongs to; where neither exists, `sharding` gives it as in an `info`. The other options are
    those of `shardine.open`.
    """
    options = _places.options(store_options, anonymous, single_writer, None)
    text = None if sharding is None else json.dumps(dict(sharding))
    return KeyValues(_places.text(url), options, text)
