"""zarr-python reads and writes through the engine.

>>> import zarr
>>> with zarr.config.set({"codec_pipeline.path": "shardine.zarr.ShardinePipeline"}):
...     array = zarr.create_array(folder / "a.zarr", shape=(64, 64), dtype="uint16",
...         chunks=(8, 8), shards=(32, 32))
...     array[10:12, 3] = [1, 2]
...     array[9:13, 3]
array([0, 1, 2, 0], dtype=uint16)

xarray, Dask, anndata and napari need nothing more: they use zarr-python. A selection is one call
into the engine, whatever the number of chunks. Writers of different chunks of a shard, in threads or
processes, keep what the others write.

What the engine does not know (a codec, a type of elements, a kind of store) is read and written by
zarr-python's own pipeline, and a `FallbackWarning` says so once. It can be silenced with
`warnings.filterwarnings("ignore", category=shardine.zarr.FallbackWarning)`, or made an error with
`zarr.config.set({"codec_pipeline.strict": True})`.
"""

from __future__ import annotations

import asyncio
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.codec import CodecPipeline
from zarr.codecs._v2 import V2Codec
from zarr.core.buffer.cpu import NDBuffer as MemoryBuffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.config import config
from zarr.core.metadata.v2 import ArrayV2Metadata
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from . import _indexing, _zarr_stores
from ._array import Array
from ._errors import Cancelled, ConflictError, ShardineError, StorageError, UnsupportedError
from ._zarr_selection import plan_of

if TYPE_CHECKING:
    from zarr.abc.codec import Codec
    from zarr.abc.store import Store
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

__all__ = ["FallbackWarning", "ShardinePipeline"]

#: What zarr-python passes for each shard, or for each chunk where there are no shards: where it is,
#: what it is, what is selected in it, where that goes, and whether it is all of it.
Item = tuple[Any, "ArraySpec", Any, Any, bool]

#: Calls that touch at most this many bytes run in zarr-python's event loop: handing them to a thread
#: would take longer than they do.
_SHORT = 256 << 10


class FallbackWarning(UserWarning):
    """An array is read and written by zarr-python's own pipeline, not by the engine."""


class _Declined(Exception):
    """The engine cannot do this; zarr-python's own pipeline may."""


class ShardinePipeline(CodecPipeline):
    """The codec pipeline that reads and writes arrays through the engine.

    zarr-python makes one for each array: see the module.
    """

    def __init__(self, own: BatchedCodecPipeline, keys: _Keys) -> None:
        #: zarr-python's pipeline for the same codecs, for what the engine does not do.
        self._own = own
        self._keys = keys
        #: The array as the engine knows it, by store and path, or why it does not.
        self._opened: dict[tuple[Any, ...], Array | _Declined] = {}

    @classmethod
    def from_array_metadata_and_store(
        cls, array_metadata: Any, store: Store
    ) -> ShardinePipeline:
        if isinstance(array_metadata, ArrayV2Metadata):
            codecs: Iterable[Codec] = [
                V2Codec(filters=array_metadata.filters, compressor=array_metadata.compressor)
            ]
            keys = _Keys(2, array_metadata.ndim, array_metadata.dimension_separator, False)
        else:
            codecs = array_metadata.codecs
            encoding = array_metadata.chunk_key_encoding
            separator = getattr(encoding, "separator", None)
            if encoding.name not in ("default", "v2") or separator not in ("/", "."):
                raise NotImplementedError(f"keys of chunks are encoded by {encoding.name!r}")
            keys = _Keys(3, len(array_metadata.shape), separator, encoding.name == "default")
        return cls(BatchedCodecPipeline.from_codecs(codecs), keys)

    @classmethod
    def from_codecs(cls, codecs: Iterable[Codec]) -> BatchedCodecPipeline:  # type: ignore[override]
        """zarr-python's own pipeline: it asks for one inside each shard that it handles itself."""
        return BatchedCodecPipeline.from_codecs(codecs)

    # What has nothing to do with stores is left to zarr-python.

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> ShardinePipeline:
        return type(self)(self._own.evolve_from_array_spec(array_spec), self._keys)

    @property
    def supports_partial_decode(self) -> bool:
        return self._own.supports_partial_decode

    @property
    def supports_partial_encode(self) -> bool:
        return self._own.supports_partial_encode

    def validate(self, **given: Any) -> None:
        self._own.validate(**given)

    def compute_encoded_size(self, byte_length: int, array_spec: ArraySpec) -> int:
        return self._own.compute_encoded_size(byte_length, array_spec)

    async def decode(
        self, chunk_bytes_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        return await self._own.decode(chunk_bytes_and_specs)

    async def encode(
        self, chunk_arrays_and_specs: Iterable[tuple[NDBuffer | None, ArraySpec]]
    ) -> Iterable[Buffer | None]:
        return await self._own.encode(chunk_arrays_and_specs)

    def __iter__(self) -> Iterator[Codec]:
        return iter(self._own)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._own, name)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is ShardinePipeline
            and self._own == other._own
            and self._keys == other._keys
        )

    def __hash__(self) -> int:
        return hash((self._own, self._keys))

    def __repr__(self) -> str:
        return f"ShardinePipeline({', '.join(type(codec).__name__ for codec in self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._own, self._keys)

    # Reading and writing.

    async def read(  # type: ignore[override]
        self, batch_info: Iterable[Item], out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> tuple[Any, ...]:
        items = list(batch_info)
        if not items:
            return ()
        try:
            work, size = self._reader(items, out, drop_axes)
        except _Declined as declined:
            _tell(declined)
            own: Any = self._own
            # Before 3.3 it returns nothing.
            return await own.read(items, out, drop_axes) or ()
        await _run(work, size)
        return ({"status": "present"},) * len(items)

    async def write(
        self, batch_info: Iterable[Item], value: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> None:
        items = list(batch_info)
        if not items:
            return
        try:
            work, size = self._writer(items, value, drop_axes)
        except _Declined as declined:
            _tell(declined)
            await self._own.write(items, value, drop_axes)
            return
        await _run(work, size)

    def _reader(
        self, items: list[Item], out: NDBuffer, drop_axes: tuple[int, ...]
    ) -> tuple[Callable[[], None], int]:
        spec = items[0][1]
        if not getattr(spec.config, "read_missing_chunks", True):
            raise _Declined("array.read_missing_chunks is off")
        memory = _in_memory(out)
        array = self._array(items)
        plan, place = plan_of(items, self._keys.position, drop_axes)
        array = self._covering(array, items, plan)
        work = functools.partial(_indexing.read_into, array, plan, memory[place])
        return work, _touched(array, plan)

    def _writer(
        self, items: list[Item], value: NDBuffer, drop_axes: tuple[int, ...]
    ) -> tuple[Callable[[], None], int]:
        spec = items[0][1]
        memory = _in_memory(value)
        array = self._array(items)
        plan, place = plan_of(items, self._keys.position, drop_axes)
        array = self._covering(array, items, plan)
        # Without axes it is one element for all.
        if memory.shape != ():
            memory = memory[place]
        store_empty = bool(spec.config.write_empty_chunks)
        work = functools.partial(_indexing.assign, array, plan, memory, store_empty=store_empty)
        return work, _touched(array, plan)  # type: ignore[return-value]

    def _array(self, items: list[Item]) -> Array:
        """The array that the chunks belong to."""
        where, spec = items[0][:2]
        if type(where) is not StorePath:
            raise _Declined(f"chunks come from {type(where).__name__}, not from a store")
        place = _zarr_stores.place_of(where.store)
        if place is None:
            raise _Declined(f"{type(where.store).__name__} is not a store that the engine knows")
        prefix = self._keys.prefix(where.path)
        known = (place.key, prefix)
        found = self._opened.get(known)
        if found is None:
            found = self._opened[known] = self._open(place, prefix, spec)
        if isinstance(found, _Declined):
            raise found
        return found

    def _open(self, place: _zarr_stores.Place, prefix: str, spec: ArraySpec) -> Array | _Declined:
        try:
            array = Array(*place.array(prefix, self._keys.zarr_format))
        except (StorageError, ConflictError, Cancelled):
            # Whether the engine knows the array is not known yet.
            raise
        except UnsupportedError as error:
            return _Declined(f"{error.message}")
        except ShardineError as error:
            return _Declined(f"the engine cannot open it: {error.message}")
        reason = _difference(array, spec)
        return array if reason is None else _Declined(reason)

    def _covering(self, array: Array, items: list[Item], plan: _indexing.Plan) -> Array:
        """The array with at least the elements of the plan: it may have grown since it was opened,
        which this pipeline is not told."""
        if not _covers(array, plan):
            array.refresh()
            reason = _difference(array, items[0][1])
            if reason is None and not _covers(array, plan):
                reason = f"its metadata says that its shape is {array.shape}"
            if reason is not None:
                self._opened.clear()
                raise _Declined(reason)
        return array


class _Keys:
    """How the keys of an array's chunks are made."""

    def __init__(self, zarr_format: int, ndim: int, separator: str, has_c: bool) -> None:
        self.zarr_format = zarr_format
        self.ndim = ndim
        self.separator = separator
        self.has_c = has_c

    def _parts(self, path: str) -> tuple[str, list[str]]:
        # An array without axes has one chunk: "c" or "0".
        last = max(self.ndim + self.has_c, 1)
        if self.separator == "/":
            parts = path.rsplit("/", last)
            prefix = parts[0] if len(parts) > last else ""
            return prefix, parts[-last:]
        prefix, _, key = path.rpartition("/")
        return prefix, key.split(".")

    def prefix(self, path: str) -> str:
        """The path of the array."""
        return self._parts(path)[0]

    def position(self, path: str) -> list[int]:
        """The position in the grid of chunks."""
        if self.ndim == 0:
            return []
        return [int(part) for part in self._parts(path)[1][-self.ndim :]]

    def __eq__(self, other: object) -> bool:
        return type(other) is _Keys and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


async def _run(work: Callable[[], None], size: int) -> None:
    if size <= _SHORT:
        work()
    else:
        await asyncio.to_thread(work)


def _in_memory(buffer: NDBuffer) -> np.ndarray[Any, Any]:
    memory = buffer.as_ndarray_like() if isinstance(buffer, MemoryBuffer) else None
    if not isinstance(memory, np.ndarray):
        raise _Declined("elements are not in the memory of this machine")
    return memory


def _difference(array: Array, spec: ArraySpec) -> str | None:
    """Why the array that the engine has opened is not the one that zarr-python has."""
    if array.ndim != len(spec.shape):
        return f"its metadata says that it has {array.ndim} axes"
    dtype = spec.dtype.to_native_dtype()
    if array._variable is not None:
        kinds = {"string": "TOU", "bytes": "OS"}[array._variable]
        return None if dtype.kind in kinds else f"elements of variable length are {dtype} there"
    if dtype.newbyteorder("=") != array.dtype.newbyteorder("="):
        return f"elements are {array.dtype} for the engine and {dtype} for zarr-python"
    return None


def _covers(array: Array, plan: _indexing.Plan) -> bool:
    shape = array.shape
    for pick in plan.picks:
        if len(pick) == 4:
            axis, start, step, count = pick
            if count and start + (count - 1) * step >= shape[axis]:
                return False
        else:
            for axis, positions in zip(*pick, strict=True):
                if len(positions) and int(positions.max()) >= shape[axis]:
                    return False
    return True


def _touched(array: Array, plan: _indexing.Plan) -> int:
    """Bytes of the chunks that a plan touches, roughly; as many as there can be if they are remote."""
    if not array._is_local:
        return 1 << 62
    size = max(array.itemsize, 1)
    for pick in plan.picks:
        if len(pick) == 4:
            axis, _, step, count = pick
            chunk = array.chunks[axis]
            size *= min(count * step + chunk, count * chunk)
        else:
            size *= len(pick[1][0]) * math.prod(array.chunks[axis] for axis in pick[0])
    return size


#: Reasons that were told.
_told: set[str] = set()


def _tell(declined: _Declined) -> None:
    reason = str(declined)
    if config.get("codec_pipeline.strict", False):
        raise UnsupportedError(
            f"zarr-python's own pipeline would have to do this: {reason}",
            hint='zarr.config.set({"codec_pipeline.strict": False}) lets it',
        )
    if reason in _told:
        return
    _told.add(reason)
    warnings.warn(
        f"an array is left to zarr-python's own pipeline: {reason}", FallbackWarning, stacklevel=2
    )


register_pipeline(ShardinePipeline)
