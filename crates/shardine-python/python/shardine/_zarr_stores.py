"""Where the stores of zarr-python keep their objects, as the engine says it."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from zarr.storage import LocalStore

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
    return None
