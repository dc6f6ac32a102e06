"""Where the stores of zarr-python keep their objects, as the engine says it."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from zarr.storage import FsspecStore, LocalStore

from . import _places


class Place(NamedTuple):
    """The root of a store."""

    url: str
    store_options: dict[str, str]
    anonymous: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """Tells it from other places."""
        return (self.url, tuple(self.store_options.items()), self.anonymous)

    def array(self, prefix: str, zarr_format: int) -> tuple[str, int, _places.Options]:
        """What `Array` is made from, for an array below the root."""
        url = self.url.rstrip("/") + "/" + prefix if prefix else self.url
        options = _places.options(self.store_options, self.anonymous, False, zarr_format)
        return url, 0, options


def place_of(store: Any) -> Place | None:
    """The place of a store; `None` if only the store itself knows how to get there.

    Only the very classes count: a class that is derived from one of them, or wraps one, may do
    something of its own with each request.
    """
    if type(store) is LocalStore:
        return Place(os.path.join(os.getcwd(), store.root), {})
    if type(store) is FsspecStore:
        return _fsspec_place(store)
    if type(store).__module__ == "zarr.storage._obstore":
        return _obstore_place(store)
    return None


def _fsspec_place(store: Any) -> Place | None:
    """A folder of this machine, which fsspec wraps to make it asynchronous."""
    inner = getattr(store.fs, "sync_fs", store.fs)
    if type(inner).__name__ == "LocalFileSystem" and type(inner).__module__.startswith("fsspec."):
        return Place(os.path.join("/", store.path), {})
    return None


def _obstore_place(store: Any) -> Place | None:
    """A folder of this machine."""
    inner = getattr(store, "store", None)
    if type(inner).__name__ != "LocalStore" or not type(inner).__module__.startswith("obstore"):
        return None
    prefix = getattr(inner, "prefix", None)
    return None if prefix is None else Place(os.fspath(prefix), {})
