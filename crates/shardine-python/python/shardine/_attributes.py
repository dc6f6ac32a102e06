"""The attributes of Zarr arrays and groups as a mapping."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from . import _shardine
from ._errors import NotFoundError, UnsupportedError
from ._places import Options


class Attributes(MutableMapping[str, Any]):
    """Attributes, read from the store and written to it by each call.

    A value is anything that JSON has. Changes of several attributes that belong together are one
    `update`. Data sets of other formats have no attributes: theirs are empty and cannot be set.

    >>> array = shardine.create(folder / "a.zarr", shape=(4, 4), dtype="uint8")
    >>> array.attrs["unit"] = "nm"
    >>> array.attrs.update(stain="DAPI", channels=[1, 2])
    >>> dict(array.attrs)
    {'unit': 'nm', 'stain': 'DAPI', 'channels': [1, 2]}
    >>> del array.attrs["unit"]
    >>> "unit" in array.attrs
    False
    """

    def __init__(self, url: str, options: Options) -> None:
        self._url = url
        self._options = options

    def asdict(self) -> dict[str, Any]:
        """All attributes, as a dictionary of its own."""
        try:
            found: dict[str, Any] = json.loads(_shardine._attributes(self._url, self._options))
        except NotFoundError:
            return {}
        return found

    def _change(self, new: Mapping[str, Any], remove: list[str]) -> None:
        text = json.dumps(dict(new), allow_nan=False, default=_plain)
        try:
            _shardine._change_attributes(self._url, self._options, text, remove)
        except NotFoundError as error:
            raise UnsupportedError(
                f"{self._url} has no attributes", "only Zarr arrays and groups have attributes"
            ) from error

    def __getitem__(self, name: str) -> Any:
        return self.asdict()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._change({name: value}, [])

    def __delitem__(self, name: str) -> None:
        if name not in self.asdict():
            raise KeyError(name)
        self._change({}, [name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.asdict())

    def __len__(self) -> int:
        return len(self.asdict())

    def update(self, *others: Any, **more: Any) -> None:
        """Sets several attributes in one step."""
        self._change(dict(*others, **more), [])

    def clear(self) -> None:
        """Removes all attributes in one step."""
        self._change({}, list(self.asdict()))

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replaces all attributes in one step."""
        self._change(attributes, [name for name in self.asdict() if name not in attributes])

    def __repr__(self) -> str:
        return f"Attributes({self.asdict()!r})"


def _plain(value: Any) -> Any:
    """A value of numpy as one that JSON has."""
    for method in ("tolist", "item"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} {value!r} cannot be an attribute")
