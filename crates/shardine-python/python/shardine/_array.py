"""Arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from . import _dtypes, _indexing, _places, _shardine
from ._attributes import Attributes
from ._errors import UnsupportedError
from ._places import Options

#: Bytes that an iteration reads ahead.
_AHEAD = 32 << 20


class Array(_shardine.ArrayBase):
    """An n-dimensional array of chunks, stored in any format; opened by `shardine.open`.

    It is indexed like an array of numpy, and what is selected is read at that moment:

    >>> array = shardine.create(folder / "a.zarr", shape=(6, 8), dtype="int32", chunks=(2, 4))
    >>> array[...] = np.arange(48).reshape(6, 8)
    >>> array[1, ::3]
    array([ 8, 11, 14], dtype=int32)
    >>> array[[0, -1], 2:4]
    array([[ 2,  3],
           [42, 43]], dtype=int32)
    >>> array[array[:, 0] > 30, 1]
    array([33, 41], dtype=int32)

    An assignment writes. Each shard changes atomically, and other writers' changes are kept:

    >>> array[2:4, 0] = -1
    >>> array[:, 0]
    array([ 0,  8, -1, -1, 32, 40], dtype=int32)

    Handles may be used by several threads, inherited by a fork, and pickled: they are opened again
    by URL and options. The shape is that of the moment of opening; see `refresh`.
    """

    _options: Options

    def __init__(self, url: str, level: int, options: Options) -> None:
        self._options = options

    # What it is.

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory; for strings, without their text."""
        return self.size * self.itemsize

    @property
    def fill_value(self) -> Any:
        """The value of elements that were never written."""
        if self._variable is None:
            return np.frombuffer(self._fill, f"V{self.itemsize}").view(self.dtype)[0]
        return self._fill.decode() if self._variable == "string" else self._fill

    @property
    def attrs(self) -> Attributes:
        """The attributes of a Zarr array, as a mapping that writes."""
        own = self._array_url
        return Attributes(self._given_url if own == self.url else own, self._options)

    @property
    def info(self) -> dict[str, Any]:
        """What it is, as a dictionary of plain values."""
        import json

        return {
            "url": self.url,
            "level": self.level,
            "shape": list(self.shape),
            "data_type": json.loads(self._data_type),
            "chunk_shape": list(self.chunks),
            "shard_shape": list(self.shards) if self.shards else None,
            "codecs": self._codecs,
            "dimension_names": self.dims,
        }

    def stored(self) -> dict[str, int]:
        """The objects that exist and their bytes. Lists the store."""
        objects = self._objects()
        return {"objects": len(objects), "bytes": sum(length for _, length in objects)}

    # Reading.

    def _get(self, key: Any) -> Any:
        """Indexing by what `ArrayBase` does not index by itself."""
        return _indexing.get(self, _indexing.plan(key, self.shape))

    @property
    def oindex(self) -> OuterIndex:
        """Indexing in which each item counts for its own axis, as `numpy.ix_` does.

        >>> array = shardine.create(folder / "a.zarr", shape=(3, 4), dtype="int8")
        >>> array[...] = np.arange(12).reshape(3, 4)
        >>> array.oindex[[2, 0], [True, False, False, True]]
        array([[ 8, 11],
               [ 0,  3]], dtype=int8)
        """
        return OuterIndex(self)

    @property
    def vindex(self) -> PointIndex:
        """Indexing by points: index arrays are broadcast, and their dimensions come first."""
        return PointIndex(self)

    def read(self, region: Any = ..., out: np.ndarray[Any, Any] | None = None) -> Any:
        """Reads a region into a new array, or into `out`.

        A region is an index, or text as on the command line: `"0:64, :, 7"`, `"z=10:20, x=5"`. In
        text an integer keeps its axis. `out` has the shape of the region; if it has the type of the
        array too, elements are decoded straight into it, whatever its strides.

        >>> array = shardine.create(folder / "a.zarr", shape=(4, 4), dtype="int32", dims=["y", "x"])
        >>> array[...] = np.arange(16).reshape(4, 4)
        >>> array.read("x=1:3, y=-1")
        array([[13, 14]], dtype=int32)
        >>> columns = np.empty((4, 4), dtype="int32", order="F")
        >>> array.read(out=columns) is columns
        True
        """
        plan = self._plan(region)
        if out is None:
            return _indexing.get(self, plan)
        _indexing.read_into(self, plan, out)
        return out

    def write(
        self, region: Any, value: Any, *, strategy: str | None = None
    ) -> dict[str, int]:
        """Writes a value to a region, and says what that took.

        `strategy` is how shards that are only partly covered change: `"auto"`, `"rewrite"`,
        `"in-place"` or `"append"`.
        """
        return _indexing.assign(self, self._plan(region), value, strategy)

    def _plan(self, region: Any) -> _indexing.Plan:
        if isinstance(region, str):
            ranges = self._region(region)
            picks: list[Any] = [(axis, *found) for axis, found in enumerate(ranges)]
            return _indexing.Plan(picks, (), tuple(count for _, _, count in ranges))
        return _indexing.plan(region, self.shape)

    def __setitem__(self, key: Any, value: Any) -> None:
        _indexing.assign(self, _indexing.plan(key, self.shape), value)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        # Some planes together: otherwise each chunk would be decoded once for each of its planes.
        plane = max(self.nbytes // max(self.shape[0], 1), 1)
        step = max(min(self.chunks[0], _AHEAD // plane), 1)
        for start in range(0, self.shape[0], step):
            yield from self[start : start + step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a stored array cannot become one in memory without a copy")
        found: np.ndarray[Any, Any] = self[...]
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Reads all of it, for `from_dlpack` of other libraries, which share the memory."""
        return self[...].__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    # Growing.

    def append(self, value: Any, axis: int = 0) -> dict[str, int]:
        """Appends to a Zarr array along an axis, which grows as each shard is complete.

        `value` has the shape of the array except along the axis. Only one append at a time may run;
        one that was killed leaves what it had completed.

        >>> array = shardine.create(folder / "a.zarr", shape=(0, 3), dtype="uint8", chunks=(4, 3))
        >>> report = array.append([[1, 2, 3], [4, 5, 6]])
        >>> array.shape
        (2, 3)
        """
        if self._variable is not None:
            raise UnsupportedError(
                "elements of variable length cannot be appended", "resize the array, then write"
            )
        if not -self.ndim <= axis < self.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {self.ndim}")
        axis %= self.ndim
        given = _indexing.converted(value, self.dtype)
        expected = list(self.shape)
        if given.ndim == self.ndim:
            expected[axis] = given.shape[axis]
        if list(given.shape) != expected:
            raise ValueError(
                f"a value of shape {given.shape} cannot be appended along axis {axis} of an array"
                f" of shape {self.shape}"
            )
        return self._append(axis, _indexing.as_stored(given))

    # Everything else.

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (self._given_url, self.level, self._options)

    def __dask_tokenize__(self) -> Any:
        options = sorted(self._options.items(), key=lambda item: item[0])
        return ("shardine.Array", self.url, self.level, str(options), self.shape, str(self.dtype))

    def __repr__(self) -> str:
        level = f" level {self.level}" if self.level else ""
        shards = f" shards {self.shards}" if self.shards else ""
        return (
            f"<shardine.Array {self.url}{level}: {self.dtype} {self.shape}, chunks {self.chunks}"
            f"{shards}>"
        )

    def _repr_html_(self) -> str:
        from ._picture import html

        return html(self)


class _Index:
    def __init__(self, array: Array) -> None:
        self._array = array

    def _plan(self, key: Any) -> _indexing.Plan:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        return _indexing.get(self._array, self._plan(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        _indexing.assign(self._array, self._plan(key), value)


class OuterIndex(_Index):
    """See `Array.oindex`."""

    def _plan(self, key: Any) -> _indexing.Plan:
        return _indexing.outer_plan(key, self._array.shape)


class PointIndex(_Index):
    """See `Array.vindex`."""

    def _plan(self, key: Any) -> _indexing.Plan:
        return _indexing.plan(key, self._array.shape, first=True)


def _open(url: str, level: int, options: Options) -> Array:
    return Array(url, level, options)


def open(
    url: str | os.PathLike[str],
    level: int = 0,
    *,
    store_options: Mapping[str, str] | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
) -> Array:
    """Opens an array of any format: a Zarr array, or a level of an OME-Zarr image, a precomputed
    volume or a webknossos-wrap layer.

    A URL is a path, `file://`, `s3://`, `gs://`, `az://` or `http(s)://`. `store_options` are those
    of a remote store, such as `{"aws_endpoint": "http://localhost:9000"}`; without them credentials
    and endpoints come from the usual environment variables. `anonymous` sends unsigned requests.
    `single_writer` promises that nobody else writes, to update a store that ignores conditional
    writes. `zarr_format` uses only the metadata of one Zarr version.

    >>> made = shardine.create(folder / "a.zarr", shape=(100, 100), dtype="uint16")
    >>> shardine.open(folder / "a.zarr").shape
    (100, 100)
    """
    options = _places.options(store_options, anonymous, single_writer, zarr_format)
    return Array(_places.text(url), level, options)


def create(
    url: str | os.PathLike[str],
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
    store_options: Mapping[str, str] | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
) -> Array:
    """Creates a Zarr array.

    `dtype` is a type of numpy or ml_dtypes, `str` or `bytes` for variable lengths, or a name that
    Zarr has, such as `"r16"`. `chunks` and `shards` are in elements; without them, chunks have about 64^3
    elements and shards about 64 MiB, and `shards="none"` stores each chunk as an object of its own.
    `codecs` are words such as `"zstd:3"`, `"blosc:lz4:5"`, `"crc32c"` or `"none"`, or the list of
    the metadata. `index` puts that of each shard at its `"start"` or `"end"`.

    >>> array = shardine.create(folder / "a.zarr", shape=(512, 512), dtype="float32",
    ...     chunks=(64, 64), shards=(256, 256), codecs="zstd:3", fill_value=np.nan, dims=["y", "x"])
    >>> array[0, :2]
    array([nan, nan], dtype=float32)
    """
    text = _places.text(url)
    options = _places.options(store_options, anonymous, single_writer, None)
    make(
        text, options, shape, dtype, chunks, shards, codecs, fill_value, dims, attributes, index,
        overwrite,
    )  # fmt: skip
    return Array(text, 0, options)


def make(
    url: str,
    options: Options,
    shape: int | Sequence[int],
    dtype: Any,
    chunks: int | Sequence[int] | None,
    shards: int | Sequence[int] | str | None,
    codecs: str | Sequence[Any] | None,
    fill_value: Any,
    dims: Sequence[str | None] | None,
    attributes: Mapping[str, Any] | None,
    index: str | None,
    overwrite: bool,
) -> None:
    """Creates a Zarr array, as `create` says."""
    import json

    from ._attributes import _plain

    name = _dtypes.describe(dtype)
    numpy_type, variable = _shardine._dtype_of(name)
    lengths = _lengths(shape, 1)
    layout: dict[str, Any] = {"attributes": dict(attributes or {})}
    if chunks is not None:
        layout["chunk"] = _lengths(chunks, len(lengths))
    if shards == "none":
        layout["packing"] = "unsharded"
    elif isinstance(shards, str):
        raise ValueError(f'shards={shards!r}: use a shape, or "none"')
    elif shards is not None:
        layout["packing"] = {"shard": _lengths(shards, len(lengths))}
    if isinstance(codecs, str):
        layout["codecs"] = {"words": [codecs]}
    elif codecs is not None:
        words = all(isinstance(codec, str) for codec in codecs)
        layout["codecs"] = {"words" if words else "codecs": list(codecs)}
    if dims is not None:
        layout["dimension_names"] = list(dims)
    if index is not None:
        if index not in ("start", "end"):
            raise ValueError(f'index={index!r}: use "start" or "end"')
        layout["index"] = index
    fill = None
    if fill_value is not None:
        if variable:
            fill = fill_value.encode() if isinstance(fill_value, str) else bytes(fill_value)
        else:
            element = _indexing.as_stored(_indexing.converted(fill_value, numpy_type))
            fill = element.reshape(()).tobytes()
    document = json.dumps(layout, default=_plain)
    _shardine._create_array(url, options, lengths, name, document, fill, overwrite)


def _lengths(lengths: int | Sequence[int], axes: int) -> list[int]:
    """One length for each axis; a single number holds for all."""
    if isinstance(lengths, SupportsIndex):
        return [lengths.__index__()] * axes
    return [length.__index__() for length in lengths]


def size_words(count: int) -> str:
    """A number of bytes for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
