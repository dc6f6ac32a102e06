"""Groups, OME-Zarr images and precomputed volumes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _places, _shardine
from ._array import Array, make
from ._attributes import Attributes
from ._errors import MissingKeyError, NotFoundError, RequestError
from ._places import Options


def _describe(url: str, options: Options) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_shardine._describe(url, options))
    return found


class Group(Mapping[str, "Array | Group"]):
    """A Zarr group, as a mapping of the arrays and groups in it; opened by `open_group`.

    A path may lead through several groups:

    >>> group = shardine.create_group(folder / "g.zarr", attributes={"made": "today"})
    >>> inner = group.create_group("a/b")
    >>> array = inner.create_array("c", shape=(3,), dtype="uint8")
    >>> sorted(group), list(group["a"])
    (['a'], ['b'])
    >>> group["a/b/c"].shape
    (3,)
    >>> group["d"]
    Traceback (most recent call last):
    shardine.MissingKeyError: ... has no node "d"
    """

    def __init__(self, url: str, options: Options) -> None:
        #: As given: with what `url` leaves out, a user and a password.
        self._given = url
        self._options = options
        found = _describe(url, options)
        if found["kind"] != "group":
            raise RequestError(
                f"{url} is not a group", "open it with shardine.open" if found["levels"] else None
            )
        #: The absolute URL.
        self.url: str = found["url"]
        #: `zarr2` or `zarr3`.
        self.format: str = found["format"]

    @property
    def attrs(self) -> Attributes:
        """The attributes, as a mapping that writes."""
        return Attributes(self._given, self._options)

    def _below(self, path: str) -> str:
        if not path.strip("/"):
            raise MissingKeyError(f'{self.url} has no node "{path}"')
        return _shardine._join(self._given, self._options, path.strip("/"))

    def __getitem__(self, path: str) -> Array | Group:
        if not isinstance(path, str):
            raise TypeError(f"nodes have names, not {type(path).__name__}")
        url = self._below(path)
        try:
            found = _describe(url, self._options)
        except NotFoundError:
            raise MissingKeyError(f'{self.url} has no node "{path}"') from None
        if found["kind"] == "array":
            return Array(url, 0, self._options)
        return Group(url, self._options)

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str) or not path.strip("/"):
            return False
        try:
            _describe(self._below(path), self._options)
        except NotFoundError:
            return False
        return True

    def _children(self) -> list[tuple[str, str]]:
        return _shardine._children(self._given, self._options)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._children())

    def __len__(self) -> int:
        return len(self._children())

    def arrays(self) -> dict[str, Array]:
        """The arrays in it, by name."""
        names = (name for name, kind in self._children() if kind == "array")
        return {name: Array(self._below(name), 0, self._options) for name in names}

    def groups(self) -> dict[str, Group]:
        """The groups in it, by name."""
        names = (name for name, kind in self._children() if kind == "group")
        return {name: Group(self._below(name), self._options) for name in names}

    def create_array(
        self,
        path: str,
        shape: int | Sequence[int],
        dtype: Any,
        *,
        chunks: int | Sequence[int] | None = None,
        shards: int | Sequence[int] | str | None = None,
        codecs: str | Sequence[Any] | None = None,
        fill_value: Any = None,
        dims: Sequence[str | None] | None = None,
        attributes: Mapping[str, Any] | None = None,
        index: str | None = None,
        overwrite: bool = False,
    ) -> Array:
        """Creates an array in it, as `shardine.create` does."""
        self._make_above(path)
        url = self._below(path)
        make(
            url, self._options, shape, dtype, chunks, shards, codecs, fill_value, dims,
            attributes, index, overwrite,
        )  # fmt: skip
        return Array(url, 0, self._options)

    def create_group(self, path: str, *, attributes: Mapping[str, Any] | None = None) -> Group:
        """Creates a group in it, and those above it that do not exist yet."""
        self._make_above(path)
        return _make_group(self._below(path), self._options, attributes)

    def _make_above(self, path: str) -> None:
        """Creates the groups that a path leads through, except those that are there."""
        parts = path.strip("/").split("/")
        for i in range(1, len(parts)):
            above = "/".join(parts[:i])
            if above not in self:
                _make_group(self._below(above), self._options, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Group, (self._given, self._options)

    def __repr__(self) -> str:
        return f"<shardine.Group {self.url}: {', '.join(self) or 'empty'}>"


def _make_group(url: str, options: Options, attributes: Mapping[str, Any] | None) -> Group:
    from ._attributes import _plain

    text = json.dumps(dict(attributes or {}), allow_nan=False, default=_plain)
    _shardine._create_group(url, options, text)
    return Group(url, options)


def open_group(
    url: str | os.PathLike[str],
    *,
    store_options: Mapping[str, str] | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
) -> Group:
    """Opens a Zarr group; the options are those of `shardine.open`."""
    options = _places.options(store_options, anonymous, single_writer, zarr_format)
    return Group(_places.text(url), options)


def create_group(
    url: str | os.PathLike[str],
    *,
    attributes: Mapping[str, Any] | None = None,
    store_options: Mapping[str, str] | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
) -> Group:
    """Creates a Zarr group."""
    options = _places.options(store_options, anonymous, single_writer, None)
    return _make_group(_places.text(url), options, attributes)


@dataclass(frozen=True)
class Axis:
    """An axis of an image: where its elements are."""

    #: Its name.
    name: str
    #: `"time"`, `"channel"` or `"space"`; `None` if it is something else.
    type: str | None
    #: The unit of its positions, such as `"micrometer"`.
    unit: str | None
    #: The distance between neighbouring elements.
    scale: float
    #: The position of the first element.
    translation: float


class OmeImage(Sequence[Array]):
    """An OME-Zarr image, as a sequence of its levels; opened by `open_ome`.

    `image[0]` is the finest level, `image[-1]` the coarsest.
    """

    def __init__(self, url: str, options: Options) -> None:
        #: As given: with what `url` leaves out, a user and a password.
        self._given = url
        self._options = options
        found = _describe(url, options)
        ome = found.get("ome")
        if ome is None or not ome["is_image"]:
            hint = "open it with shardine.open_group" if found["kind"] == "group" else None
            raise RequestError(f"{found['url']} is not an OME-Zarr image", hint)
        #: The absolute URL of its group.
        self.url: str = found["url"]
        #: The version of OME-Zarr, such as `"0.5"`.
        self.version: str = ome["version"]
        #: Its name, if it has one.
        self.name: str | None = ome["name"]
        #: How it is to be shown: channels, colours, windows; `None` if it does not say.
        self.omero: dict[str, Any] | None = ome["omero"]
        #: The paths of its levels, the finest first.
        self.paths: tuple[str, ...] = tuple(level["path"] for level in found["levels"])
        self._axes = [
            tuple(Axis(**axis) for axis in level["axes"] or ()) for level in found["levels"]
        ]

    def axes(self, level: int = 0) -> tuple[Axis, ...]:
        """The axes of a level: names, units, scales and translations."""
        return self._axes[level]

    def scale(self, level: int = 0) -> tuple[float, ...]:
        """The distance between neighbouring elements of a level along each axis."""
        return tuple(axis.scale for axis in self._axes[level])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, level: Any) -> Any:
        if isinstance(level, slice):
            return [self[i] for i in range(*level.indices(len(self)))]
        at = level.__index__()
        if not -len(self) <= at < len(self):
            raise IndexError(f"{self.url} has no level {at}: it has {len(self)}, counted from 0")
        return Array(self._given, at % len(self), self._options)

    @property
    def attrs(self) -> Attributes:
        """The attributes of its group, with the OME-Zarr metadata."""
        return Attributes(self._given, self._options)

    @property
    def labels(self) -> dict[str, OmeImage]:
        """The label images that belong to it, by name."""
        url = _shardine._join(self._given, self._options, "labels")
        try:
            found = _describe(url, self._options)
        except NotFoundError:
            return {}
        names = (found.get("ome") or {}).get("labels") or []
        below = ((name, _shardine._join(url, self._options, name)) for name in names)
        return {name: OmeImage(at, self._options) for name, at in below}

    def __reduce__(self) -> tuple[Any, ...]:
        return OmeImage, (self._given, self._options)

    def __repr__(self) -> str:
        axes = "".join(axis.name for axis in self._axes[0]) if self._axes else ""
        return f"<shardine.OmeImage {self.url}: {len(self)} levels, axes {axes}>"


def open_ome(
    url: str | os.PathLike[str],
    *,
    store_options: Mapping[str, str] | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
) -> OmeImage:
    """Opens an OME-Zarr image of any version; the options are those of `shardine.open`."""
    options = _places.options(store_options, anonymous, single_writer, zarr_format)
    return OmeImage(_places.text(url), options)


@dataclass(frozen=True)
class Scale:
    """A scale of a precomputed volume, as its `info` describes it."""

    #: The folder of its chunks.
    key: str
    #: Voxels along x, y, z.
    size: tuple[int, ...]
    #: Nanometres of a voxel along x, y, z.
    resolution: tuple[float, ...]
    #: The coordinates of the first voxel.
    voxel_offset: tuple[int, ...]
    #: The shapes of chunks: one for each copy of the data.
    chunk_sizes: tuple[tuple[int, ...], ...]
    #: How chunks are encoded: `raw`, `compressed_segmentation`, `jpeg`, ...
    encoding: str
    #: How chunks are sharded; `None` if they are not.
    sharding: dict[str, Any] | None


class Volume(Sequence[Array]):
    """A precomputed volume, as a sequence of its scales; opened by `open_precomputed`.

    Each is an array with the axes x, y, z and channel, indexed from 0: the voxel at `[i, j, k]` has
    the coordinates `scales[level].voxel_offset + (i, j, k)`.
    """

    def __init__(self, url: str, options: Options) -> None:
        #: As given: with what `url` leaves out, a user and a password.
        self._given = url
        self._options = options
        found = _describe(url, options)
        if "info" not in found:
            raise RequestError(f"{found['url']} is not a precomputed volume")
        #: The absolute URL.
        self.url: str = found["url"]
        #: Its `info`.
        self.info: dict[str, Any] = found["info"]
        #: Its scales, the finest first.
        self.scales: tuple[Scale, ...] = tuple(
            Scale(
                key=scale["key"],
                size=tuple(scale["size"]),
                resolution=tuple(scale["resolution"]),
                voxel_offset=tuple(scale.get("voxel_offset") or (0, 0, 0)),
                chunk_sizes=tuple(tuple(size) for size in scale["chunk_sizes"]),
                encoding=scale["encoding"],
                sharding=scale.get("sharding"),
            )
            for scale in self.info["scales"]
        )

    @property
    def type(self) -> str:
        """`image` or `segmentation`."""
        return str(self.info["type"])

    def __len__(self) -> int:
        return len(self.scales)

    def __getitem__(self, level: Any) -> Any:
        if isinstance(level, slice):
            return [self[i] for i in range(*level.indices(len(self)))]
        at = level.__index__()
        if not -len(self) <= at < len(self):
            raise IndexError(f"{self.url} has no level {at}: it has {len(self)}, counted from 0")
        return Array(self._given, at % len(self), self._options)

    def __reduce__(self) -> tuple[Any, ...]:
        return Volume, (self._given, self._options)

    def __repr__(self) -> str:
        return f"<shardine.Volume {self.url}: {self.type}, {len(self)} scales>"


def open_precomputed(
    url: str | os.PathLike[str],
    *,
    store_options: Mapping[str, str] | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
) -> Volume:
    """Opens a Neuroglancer precomputed volume; the options are those of `shardine.open`."""
    options = _places.options(store_options, anonymous, single_writer, None)
    return Volume(_places.text(url), options)
