"""Points, lines, graphs, skeletons and meshes in stores of Zarr Vectors.

    >>> from shardine.vectors import read_points, write_points
    >>> positions = np.random.default_rng(7).uniform(0, 400, (1000, 3))
    >>> report = write_points(
    ...     folder / "scan.zarrvectors", positions, chunk_shape=(100.0, 100.0, 100.0)
    ... )
    >>> read_points(folder / "scan.zarrvectors", bbox=([0, 0, 0], [400, 400, 400])).vertex_count
    1000

Rows go in as arrays of numpy, or as a table with a column for each axis: a data frame of pandas or
polars, a table of pyarrow, or anything else with the Arrow C data interface. What is read has
arrays of numpy as attributes, `to_pandas`, `to_arrow`, and the Arrow C data interface itself, so
that `pyarrow.table(result)` and `polars.DataFrame(result)` take it without a copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _jobs, _shardine
from ._progress import Bar, Progress
from ._reports import RepackReport, VectorsInfo, VerifyReport, WriteReport

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Geometry",
    "info",
    "query",
    "read_graph",
    "read_lines",
    "read_mesh",
    "read_points",
    "read_polylines",
    "read_skeleton",
    "reshard",
    "shard_store",
    "unshard_store",
    "validate",
    "write_graph",
    "write_lines",
    "write_mesh",
    "write_points",
    "write_polylines",
    "write_skeleton",
]

#: A path or URL.
Url = str | os.PathLike[str]
#: One number for all axes, or one for each.
Lengths = float | Sequence[float]
Counts = int | Sequence[int]
Attributes = Mapping[str, Any]
Box = tuple[Sequence[float], Sequence[float]]
StoreOptions = Mapping[str, Any]

_AXES = ("x", "y", "z", "t")


# Columns


def _column(name: str, values: Any) -> tuple[Any, ...]:
    """A column as the extension takes it: bytes, type and width, or a list of strings."""
    array = np.asarray(values)
    if array.dtype.kind in "UOT":
        words = [None if _is_missing(word) else str(word) for word in array.tolist()]
        return (name, words)
    if array.dtype.kind == "S":
        return (name, [word.decode() for word in array.tolist()])
    if array.ndim not in (1, 2):
        raise ValueError(f"{name}: must have one or two axes, not {array.ndim}")
    if array.dtype.kind not in "iufb":
        raise TypeError(f"{name}: values of type {array.dtype} cannot be stored")
    width = array.shape[1] if array.ndim == 2 else 0
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    return (name, array.reshape(-1).view(np.uint8), kind, width)


def _is_missing(word: object) -> bool:
    return word is None or word != word  # noqa: PLR0124


def _columns(columns: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    made = [_column(name, values) for name, values in columns.items()]
    rows = {name: len(values) for name, values in columns.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in rows.items())
        raise ValueError(f"all columns must have the same number of rows: {counts}")
    return made


def _is_table(rows: object) -> bool:
    return hasattr(rows, "__arrow_c_stream__") or _is_frame(rows)


def _is_frame(rows: object) -> bool:
    return type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns")


def _table(rows: Any) -> Any:
    """A table as the extension takes it."""
    if _is_frame(rows):
        # Its own stream would need pyarrow, and has the index as a column.
        return _columns({str(name): _series(rows[name]) for name in rows.columns})
    if isinstance(rows, Mapping):
        return _columns(rows)
    return rows


def _series(series: Any) -> Any:
    kind = getattr(series.dtype, "kind", "O")
    return series.to_numpy() if kind in "iufb" else series.astype(object).to_numpy()


def _points(name: str, positions: Any) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(positions)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name}: must be an array of N x D, not of shape {array.shape}")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}: coordinates of type {array.dtype} cannot be stored")
    return array


def _axes(rank: int, names: Sequence[str] | None) -> list[str]:
    if names is not None:
        if len(names) != rank:
            raise ValueError(f"axes: there are {rank} coordinates, and {len(names)} names")
        return list(names)
    return [_AXES[axis] if axis < len(_AXES) else f"axis_{axis}" for axis in range(rank)]


# Writing


def _write(
    kind: str,
    path: Url,
    rows: Any,
    *,
    axes: Sequence[str] | None,
    vertex_attributes: Attributes | None,
    object_ids: ArrayLike | None,
    object_attributes: Any,
    attribute_ids: Any,
    groups: Mapping[int, Sequence[int]] | None,
    links: Any = None,
    link_attributes: Attributes | None = None,
    compressor: str | Sequence[str] | None,
    store: dict[str, Any],
    progress: Progress,
    **options: Any,
) -> WriteReport:
    if _is_table(rows):
        if vertex_attributes is not None or object_ids is not None:
            raise ValueError("a table has its attributes and object_id as columns")
        table = _table(rows)
        names = list(axes) if axes is not None else None
    else:
        points = _points("positions", rows)
        names = _axes(points.shape[1], axes)
        columns: dict[str, Any] = {name: points[:, axis] for axis, name in enumerate(names)}
        if object_ids is not None:
            columns["object_id"] = np.asarray(object_ids).astype(np.int64, casting="same_kind")
        columns.update(vertex_attributes or {})
        table = _columns(columns)
    options |= store
    options |= {"url": os.fspath(path), "kind": kind, "table": table, "axes": names}
    options["codec"] = _codec(compressor)
    if links is not None:
        array = np.asarray(links)
        if array.dtype.kind not in "iu":
            raise TypeError(f"links must be numbers of vertices, not of type {array.dtype}")
        if array.size and int(array.min()) < 0:
            raise ValueError("links must be numbers of vertices, from 0 on")
        options["links"] = np.ascontiguousarray(array, np.uint64).reshape(-1).view(np.uint8)
        if link_attributes:
            options["link_attributes"] = _columns(link_attributes)
    if object_attributes is not None:
        if not _is_table(object_attributes):
            ids = np.asarray(attribute_ids).astype(np.int64, casting="same_kind")
            object_attributes = {"object_id": ids, **object_attributes}
        options["object_attributes"] = _table(object_attributes)
    if groups is not None:
        counts = [len(members) for members in groups.values()]
        members = [np.asarray(list(ids), np.int64) for ids in groups.values()]
        options["groups"] = _columns(
            {
                "group": np.repeat(np.asarray(list(groups), np.int64), counts),
                "object_id": np.concatenate([np.empty(0, np.int64), *members]),
            }
        )
    with Bar(progress, "writing") as callback:
        return WriteReport(_shardine.write_vectors(options, callback))


def _codec(compressor: str | Sequence[str] | None) -> list[str] | None:
    if compressor is None:
        return None
    return [compressor] if isinstance(compressor, str) else list(compressor)


def _store(
    store_options: StoreOptions | None, anonymous: bool, single_writer: bool = False
) -> dict[str, Any]:
    options = None if store_options is None else dict(store_options)
    return {"store_options": options, "anonymous": anonymous, "single_writer": single_writer}


def write_points(
    path: Url,
    positions: Any,
    *,
    chunk_shape: Lengths | None = None,
    bin_shape: Lengths | None = None,
    shard_shape: Counts | None = None,
    vertex_attributes: Attributes | None = None,
    attributes: Attributes | None = None,
    object_ids: ArrayLike | None = None,
    object_attributes: Any = None,
    groups: Mapping[int, Sequence[int]] | None = None,
    dtype: str | None = None,
    compressor: str | Sequence[str] | None = "zstd:3",
    axes: Sequence[str] | None = None,
    overwrite: bool = False,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    progress: Progress = None,
) -> WriteReport:
    """Writes points as a new store.

    `positions` is an array of N x D, or a table with the columns x, y, z, object_id (if points
    belong to objects) and attributes. Chunks of space have the edges `chunk_shape`; `bin_shape`
    divides them, `shard_shape` packs that many of them along each axis into a shard. Without
    `chunk_shape` all points are in one chunk. `compressor` is a codec such as `zstd:3` or
    `blosc:lz4:5`; None stores bytes as they are. Coordinates keep their type unless `dtype` says
    otherwise. `object_attributes` has a value for each id of `object_ids`, in ascending order.

    >>> positions = np.array([[1.0, 2.0, 3.0], [150.0, 20.0, 30.0]])
    >>> report = shardine.vectors.write_points(
    ...     folder / "scan.zarrvectors",
    ...     positions,
    ...     chunk_shape=(100.0, 100.0, 100.0),
    ...     bin_shape=(25.0, 25.0, 25.0),
    ...     shard_shape=(4, 4, 4),
    ...     vertex_attributes={"intensity": np.array([0.5, 0.25])},
    ... )
    >>> report.vertices, report.chunks
    (2, 2)
    """
    if attributes is not None:
        if vertex_attributes is not None:
            raise TypeError("attributes is another name of vertex_attributes: give one of them")
        vertex_attributes = attributes
    if chunk_shape is None:
        chunk_shape = _one_chunk(positions, axes)
    ids = None if object_ids is None else np.unique(np.asarray(object_ids))
    return _write(
        "points",
        path,
        positions,
        axes=axes,
        vertex_attributes=vertex_attributes,
        object_ids=object_ids,
        object_attributes=object_attributes,
        attribute_ids=ids,
        groups=groups,
        compressor=compressor,
        store=_store(store_options, anonymous, single_writer),
        progress=progress,
        chunk_shape=_lengths(chunk_shape),
        bin_shape=_lengths(bin_shape),
        shard_shape=_counts(shard_shape),
        dtype=dtype,
        overwrite=overwrite,
    )


def _one_chunk(positions: Any, axes: Sequence[str] | None) -> list[float]:
    """The edge of a chunk that holds all points. Chunks begin at 0."""
    if _is_table(positions):
        raise ValueError("chunk_shape: is needed for a table")
    points = _points("positions", positions)
    if points.shape[0] == 0:
        raise ValueError("positions: there are no points")
    low, high = points.min(axis=0), points.max(axis=0)
    return [float(np.max(high - low) + abs(np.max(high)) + 1.0)]


def _lengths(lengths: Lengths | None) -> list[float] | None:
    return None if lengths is None else [float(length) for length in np.atleast_1d(lengths)]


def _counts(counts: Counts | None) -> list[int] | None:
    return None if counts is None else [int(count) for count in np.atleast_1d(counts)]


def write_lines(
    path: Url,
    endpoints: Any,
    *,
    chunk_shape: Lengths,
    bin_shape: Lengths | None = None,
    shard_shape: Counts | None = None,
    vertex_attributes: Attributes | None = None,
    object_ids: ArrayLike | None = None,
    object_attributes: Any = None,
    groups: Mapping[int, Sequence[int]] | None = None,
    dtype: str | None = None,
    compressor: str | Sequence[str] | None = "zstd:3",
    axes: Sequence[str] | None = None,
    overwrite: bool = False,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    progress: Progress = None,
) -> WriteReport:
    """Writes lines of two points each as a new store.

    `endpoints` is an array of N x 2 x D, or a table with the columns x0, y0, z0, x1, y1, z1, whose
    other columns are attributes of lines. `vertex_attributes` has two values for each line.

    >>> endpoints = np.array([[[0.0, 0, 0], [9, 9, 9]], [[5, 5, 5], [120, 5, 5]]])
    >>> shardine.vectors.write_lines(folder / "lines.zv", endpoints, chunk_shape=100).objects
    2
    """
    rows = endpoints
    ids: Any = None
    if not _is_table(endpoints):
        array = np.asarray(endpoints)
        if array.ndim != 3 or array.shape[1] != 2:
            message = f"endpoints: must be an array of N x 2 x D, not of shape {array.shape}"
            raise ValueError(message)
        lines = len(array)
        ids = np.arange(lines) if object_ids is None else np.asarray(object_ids)
        rows = array.reshape(2 * lines, array.shape[2])
        if vertex_attributes is not None:
            vertex_attributes = {
                name: _flat(name, values, lines, 2) for name, values in vertex_attributes.items()
            }
    elif object_ids is not None:
        raise ValueError("a table has object_id as a column")
    return _write(
        "lines",
        path,
        rows,
        axes=axes,
        vertex_attributes=vertex_attributes,
        object_ids=None if ids is None else np.repeat(ids, 2),
        object_attributes=object_attributes,
        attribute_ids=ids,
        groups=groups,
        compressor=compressor,
        store=_store(store_options, anonymous, single_writer),
        progress=progress,
        chunk_shape=_lengths(chunk_shape),
        bin_shape=_lengths(bin_shape),
        shard_shape=_counts(shard_shape),
        dtype=dtype,
        overwrite=overwrite,
    )


def _flat(name: str, values: Any, objects: int, each: int) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values)
    if array.shape[:2] != (objects, each):
        raise ValueError(f"{name}: must have {each} values for each of the {objects} objects")
    return array.reshape(objects * each, *array.shape[2:])


def write_polylines(
    path: Url,
    polylines: Any,
    *,
    chunk_shape: Lengths,
    bin_shape: Lengths | None = None,
    shard_shape: Counts | None = None,
    vertex_attributes: Attributes | None = None,
    object_ids: ArrayLike | None = None,
    object_attributes: Any = None,
    groups: Mapping[int, Sequence[int]] | None = None,
    geometry_type: Literal["polyline", "streamline"] = "streamline",
    dtype: str | None = None,
    compressor: str | Sequence[str] | None = "zstd:3",
    axes: Sequence[str] | None = None,
    overwrite: bool = False,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    progress: Progress = None,
) -> WriteReport:
    """Writes paths as a new store.

    `polylines` is a list of arrays of N x D, or a table with the columns x, y, z, object_id and
    attributes, the rows of a path in its order. `vertex_attributes` has a list of arrays likewise.

    >>> paths = [np.array([[0.0, 0, 0], [5, 5, 5], [120, 5, 5]]), np.ones((2, 3))]
    >>> shardine.vectors.write_polylines(folder / "paths.zv", paths, chunk_shape=100).objects
    2
    """
    kind = {"polyline": "polylines", "streamline": "streamlines"}.get(geometry_type)
    if kind is None:
        raise ValueError(f"geometry_type: {geometry_type!r} is not polyline or streamline")
    rows = polylines
    ids: Any = None
    each: Any = None
    if not _is_table(polylines):
        arrays = [_points(f"polylines[{at}]", path_) for at, path_ in enumerate(polylines)]
        if not arrays:
            raise ValueError("polylines: there are none")
        ids = np.arange(len(arrays)) if object_ids is None else np.asarray(object_ids)
        each = np.repeat(ids, [len(array) for array in arrays])
        rows = np.concatenate(arrays)
        if vertex_attributes is not None:
            vertex_attributes = {
                name: np.concatenate([np.asarray(part) for part in parts])
                for name, parts in vertex_attributes.items()
            }
    elif object_ids is not None:
        raise ValueError("a table has object_id as a column")
    return _write(
        kind,
        path,
        rows,
        axes=axes,
        vertex_attributes=vertex_attributes,
        object_ids=each,
        object_attributes=object_attributes,
        attribute_ids=ids,
        groups=groups,
        compressor=compressor,
        store=_store(store_options, anonymous, single_writer),
        progress=progress,
        chunk_shape=_lengths(chunk_shape),
        bin_shape=_lengths(bin_shape),
        shard_shape=_counts(shard_shape),
        dtype=dtype,
        overwrite=overwrite,
    )


def write_graph(
    path: Url,
    positions: Any,
    edges: ArrayLike,
    *,
    chunk_shape: Lengths,
    bin_shape: Lengths | None = None,
    shard_shape: Counts | None = None,
    kind: Literal["graph", "skeleton"] = "graph",
    vertex_attributes: Attributes | None = None,
    link_attributes: Attributes | None = None,
    object_ids: ArrayLike | None = None,
    object_attributes: Any = None,
    groups: Mapping[int, Sequence[int]] | None = None,
    dtype: str | None = None,
    compressor: str | Sequence[str] | None = "zstd:3",
    axes: Sequence[str] | None = None,
    overwrite: bool = False,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    progress: Progress = None,
) -> WriteReport:
    """Writes vertices and the edges between them as a new store.

    `edges` is an array of M x 2 with numbers of rows, from 0 on. With `kind="skeleton"` vertices
    form trees, and an edge goes from a child to its parent.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> shardine.vectors.write_graph(
    ...     folder / "net.zv", positions, [[0, 1], [1, 2]], chunk_shape=100
    ... ).links
    2
    """
    if kind not in ("graph", "skeleton"):
        raise ValueError(f"kind: {kind!r} is not graph or skeleton")
    return _write_linked(
        kind,
        path,
        positions,
        edges,
        2,
        axes=axes,
        vertex_attributes=vertex_attributes,
        link_attributes=link_attributes,
        object_ids=object_ids,
        object_attributes=object_attributes,
        groups=groups,
        compressor=compressor,
        store=_store(store_options, anonymous, single_writer),
        progress=progress,
        chunk_shape=_lengths(chunk_shape),
        bin_shape=_lengths(bin_shape),
        shard_shape=_counts(shard_shape),
        dtype=dtype,
        overwrite=overwrite,
    )


def write_skeleton(path: Url, positions: Any, edges: ArrayLike, **options: Any) -> WriteReport:
    """Writes trees as a new store: `write_graph` with `kind="skeleton"`.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_skeleton(
    ...     folder / "tree.zv", positions, [[1, 0], [2, 1]], chunk_shape=100
    ... )
    >>> shardine.vectors.info(folder / "tree.zv").kind
    'skeleton'
    """
    return write_graph(path, positions, edges, kind="skeleton", **options)


def write_mesh(
    path: Url,
    vertices: Any,
    faces: ArrayLike,
    *,
    chunk_shape: Lengths,
    bin_shape: Lengths | None = None,
    shard_shape: Counts | None = None,
    vertex_attributes: Attributes | None = None,
    object_ids: ArrayLike | None = None,
    object_attributes: Any = None,
    groups: Mapping[int, Sequence[int]] | None = None,
    dtype: str | None = None,
    compressor: str | Sequence[str] | None = "zstd:3",
    axes: Sequence[str] | None = None,
    overwrite: bool = False,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    progress: Progress = None,
) -> WriteReport:
    """Writes vertices and triangles as a new store. `faces` is an array of M x 3.

    >>> vertices = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> shardine.vectors.write_mesh(
    ...     folder / "mesh.zv", vertices, [[0, 1, 2]], chunk_shape=100
    ... ).links
    1
    """
    return _write_linked(
        "mesh",
        path,
        vertices,
        faces,
        3,
        axes=axes,
        vertex_attributes=vertex_attributes,
        link_attributes=None,
        object_ids=object_ids,
        object_attributes=object_attributes,
        groups=groups,
        compressor=compressor,
        store=_store(store_options, anonymous, single_writer),
        progress=progress,
        chunk_shape=_lengths(chunk_shape),
        bin_shape=_lengths(bin_shape),
        shard_shape=_counts(shard_shape),
        dtype=dtype,
        overwrite=overwrite,
    )


def _write_linked(
    kind: str,
    path: Url,
    rows: Any,
    links: ArrayLike,
    width: int,
    *,
    object_ids: ArrayLike | None,
    **options: Any,
) -> WriteReport:
    joined = np.asarray(links)
    if joined.ndim != 2 or joined.shape[1] != width:
        name = "edges" if width == 2 else "faces"
        raise ValueError(f"{name}: must be an array of M x {width}, not of shape {joined.shape}")
    if not _is_table(rows) and object_ids is None:
        object_ids = np.zeros(len(rows), np.int64)
    ids = None if object_ids is None else np.unique(np.asarray(object_ids))
    return _write(
        kind, path, rows, object_ids=object_ids, attribute_ids=ids, links=joined, **options
    )


# Reading


class Geometry(Mapping[str, Any]):
    """What a query has found.

    It is also a mapping with the names that zarr-vectors gives its results: `positions` (of meshes
    `vertices`), `vertex_attributes`, `object_ids`, `vertex_count`; of lines `endpoints`; of paths
    `polylines`; of graphs `edges`; of meshes `faces`.
    """

    def __init__(self, rows: Any, names: Sequence[str] | None = None) -> None:
        self._rows = rows
        self._names = names
        self._found: dict[str, Any] = {}

    @property
    def kind(self) -> str:
        """What the vertices form: points, lines, polylines, streamlines, graph, skeleton, mesh."""
        return str(self._rows.kind)

    @property
    def axes(self) -> list[str]:
        """The names of the axes, in the order of coordinates."""
        return [name for name, _ in self._rows.axes]

    @property
    def units(self) -> list[str | None]:
        """The units of the axes, as far as they are known."""
        return [unit for _, unit in self._rows.axes]

    @property
    def notes(self) -> list[str]:
        """What is odd about the store, as far as it was seen on the way."""
        return list(self._rows.notes)

    @property
    def vertex_count(self) -> int:
        """How many vertices there are."""
        return int(self._rows.vertex_count)

    def __len__(self) -> int:
        return len(self._keys())

    @property
    def positions(self) -> NDArray[Any]:
        """The coordinates of the vertices, N x D."""

        def read() -> NDArray[Any]:
            shape = (self.vertex_count, len(self._rows.axes))
            array: NDArray[Any] = np.empty(shape, self._rows.dtype)
            self._rows.fill_positions(array.reshape(-1).view(np.uint8))
            return array

        return self._once("positions", read)

    @property
    def vertices(self) -> NDArray[Any]:
        """The same as `positions`."""
        return self.positions

    @property
    def object_ids(self) -> NDArray[np.int64] | None:
        """The id of the object of each vertex; None if there are no objects."""
        if not self._rows.has_objects:
            return None
        return self._once("object_ids", lambda: self._column("object_id", "i8", 0, False))

    @property
    def vertex_attributes(self) -> dict[str, Any]:
        """The attributes of the vertices, by name."""
        return self._once("vertex_attributes", lambda: self._attributes(of_links=False))

    @property
    def attributes(self) -> dict[str, Any]:
        """The same as `vertex_attributes`."""
        return self.vertex_attributes

    @property
    def link_attributes(self) -> dict[str, Any]:
        """The attributes of edges or faces, by name."""
        return self._once("link_attributes", lambda: self._attributes(of_links=True))

    @property
    def links(self) -> NDArray[np.int64]:
        """The rows that edges or faces join, M x 2 or M x 3."""

        def read() -> NDArray[np.int64]:
            shape = (self._rows.link_count, self._rows.link_width)
            array = np.empty(shape, np.int64)
            self._rows.fill_links(array.reshape(-1).view(np.uint8))
            return array

        return self._once("links", read)

    @property
    def edges(self) -> NDArray[np.int64]:
        """The rows that edges join, M x 2; of skeletons a child and its parent."""
        if self._rows.link_width != 2:
            raise AttributeError(f"{self.kind} have no edges")
        return self.links

    @property
    def faces(self) -> NDArray[np.int64]:
        """The rows that faces join, M x 3."""
        if self._rows.link_width != 3:
            raise AttributeError(f"{self.kind} have no faces")
        return self.links

    @property
    def endpoints(self) -> NDArray[Any]:
        """The two ends of each line, N x 2 x D."""
        if self.kind != "lines":
            raise AttributeError(f"{self.kind} have no endpoints")
        return self.positions.reshape(-1, 2, len(self._rows.axes))

    @property
    def polylines(self) -> list[NDArray[Any]]:
        """The coordinates of each path, in the order of `polyline_ids`."""
        starts = self._starts()
        return [part for part in np.split(self.positions, starts[1:]) if len(part)]

    @property
    def polyline_ids(self) -> NDArray[np.int64]:
        """The id of each path."""
        ids = self.object_ids
        assert ids is not None
        return ids[self._starts()]

    def _starts(self) -> NDArray[np.int64]:
        """Where the rows of each path begin; those of a path are together."""
        ids = self.object_ids
        if self.kind not in ("polylines", "streamlines", "lines") or ids is None:
            raise AttributeError(f"{self.kind} have no paths")
        if not len(ids):
            return np.empty(0, np.int64)
        return np.concatenate([[0], np.flatnonzero(np.diff(ids)) + 1])

    def _once(self, name: str, read: Any) -> Any:
        if name not in self._found:
            self._found[name] = read()
        return self._found[name]

    def _attributes(self, *, of_links: bool) -> dict[str, Any]:
        columns = self._rows.attributes(of_links)
        wanted = None if of_links else self._names
        return {
            name: self._column(name, kind, width, of_links)
            for name, kind, width in columns
            if wanted is None or name in wanted
        }

    def _column(self, name: str, kind: str, width: int, of_links: bool) -> Any:
        rows = self._rows.link_count if of_links else self.vertex_count
        if kind == "str":
            words, numbers = self._rows.strings(name, of_links)
            known = np.empty(len(words) + 1, object)
            known[:-1] = words
            # Rows without a string have the number -1.
            known[-1] = None
            return known[np.asarray(numbers, np.intp)]
        array = np.empty((rows, width) if width else rows, kind)
        missing = self._rows.fill_column(name, of_links, array.reshape(-1).view(np.uint8))
        if missing and array.dtype.kind != "f":
            mask = np.asarray(self._rows.missing(name, of_links))
            mask = np.repeat(mask, width).reshape(array.shape) if width else mask
            return np.ma.masked_array(array, mask)
        return array

    def _keys(self) -> list[str]:
        keys = {
            "lines": ["endpoints", "line_count", "vertex_attributes", "object_ids"],
            "polylines": ["polylines", "polyline_count", "vertex_attributes", "object_ids"],
            "graph": ["positions", "edges", "node_count", "edge_count"],
            "mesh": ["vertices", "faces", "vertex_count", "face_count"],
        }
        kind = {"streamlines": "polylines", "skeleton": "graph"}.get(self.kind, self.kind)
        found = list(keys.get(kind, ["positions", "vertex_count"]))
        for name in ("vertex_count", "vertex_attributes"):
            if name not in found:
                found.append(name)
        if self._rows.has_objects and "object_ids" not in found:
            found.append("object_ids")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __getitem__(self, name: str) -> Any:
        if name not in self._keys():
            raise KeyError(name)
        if name == "line_count":
            return self.vertex_count // 2
        if name == "polyline_count":
            return len(self._starts())
        if name == "node_count":
            return self.vertex_count
        if name in ("edge_count", "face_count"):
            return int(self._rows.link_count)
        if name == "object_ids" and self.kind in ("polylines", "streamlines", "lines"):
            return self.polyline_ids
        return getattr(self, name)

    def __repr__(self) -> str:
        links = {2: "edges", 3: "faces"}.get(self._rows.link_width)
        joined = f", {self._rows.link_count} {links}" if links else ""
        return f"<{self.kind}: {self.vertex_count} vertices{joined}>"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The vertices, a column for each axis, object_id and attributes, without a copy."""
        return self._rows.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """The vertices as a table of pyarrow, without a copy."""
        import pyarrow as arrow

        return arrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The vertices as a data frame; pyarrow is not needed."""
        import pandas as pd

        columns: dict[str, Any] = {
            name: self.positions[:, axis] for axis, name in enumerate(self.axes)
        }
        ids = self.object_ids
        if ids is not None:
            columns["object_id"] = ids
        for name, values in self.vertex_attributes.items():
            if values.ndim == 2:
                parts = {f"{name}_{at}": values[:, at] for at in range(values.shape[1])}
                columns.update(parts)
            else:
                columns[name] = values
        return pd.DataFrame(columns)


def query(
    path: Url,
    *,
    level: int = 0,
    bbox: Box | None = None,
    object_ids: Sequence[int] | ArrayLike | None = None,
    group_ids: Sequence[int] | None = None,
    where: str | Sequence[str] | None = None,
    attribute_names: Sequence[str] | None = None,
    clip: bool = False,
    parametric: bool = False,
    strict: bool = False,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
) -> Geometry:
    """Finds the points in a box, or objects by their ids, groups or attributes.

    A box takes points inside, bounds included. Of lines, paths, skeletons, graphs and meshes it
    takes whole objects that have a vertex inside; with `clip` only those vertices, and the links
    between them. A condition such as `"score>=0.5"` or `"kind=soma"` works the same way. Without
    `attribute_names` all attributes are there.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> attributes = {"kind": ["soma", "spine", "soma"]}
    >>> _ = shardine.vectors.write_points(
    ...     folder / "cells.zv", positions, chunk_shape=100, vertex_attributes=attributes
    ... )
    >>> found = shardine.vectors.query(folder / "cells.zv", where="kind=soma")
    >>> found
    <points: 2 vertices>
    >>> found.positions.tolist()
    [[0.0, 0.0, 0.0], [120.0, 5.0, 5.0]]
    """
    options: dict[str, Any] = {
        "url": os.fspath(path),
        "level": level,
        "bbox": None if bbox is None else tuple(_lengths(corner) for corner in bbox),
        "object_ids": None if object_ids is None else np.asarray(object_ids).ravel().tolist(),
        "group_ids": None if group_ids is None else [int(group) for group in group_ids],
        "where": [where] if isinstance(where, str) else where and list(where),
        "clip": clip,
        "parametric": parametric,
        "strict": strict,
        **_store(store_options, anonymous),
    }
    return Geometry(_shardine.query_vectors(options), attribute_names)


def _read(kinds: tuple[str, ...], path: Url, options: dict[str, Any]) -> Geometry:
    found = query(path, **options)
    if found.kind not in kinds:
        raise ValueError(f"{os.fspath(path)} holds {found.kind}; use shardine.vectors.query")
    return found


def read_points(path: Url, **options: Any) -> Geometry:
    """Reads points. Takes what `query` takes.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_points(folder / "cells.zv", positions, chunk_shape=100)
    >>> shardine.vectors.read_points(
    ...     folder / "cells.zv", bbox=([0, 0, 0], [100, 100, 100])
    ... ).positions
    array([[0., 0., 0.],
           [9., 9., 9.]])
    """
    return _read(("points",), path, options)


def read_lines(path: Url, **options: Any) -> Geometry:
    """Reads lines; `endpoints` of the result is N x 2 x D. Takes what `query` takes.

    >>> endpoints = np.array([[[0.0, 0, 0], [9, 9, 9]], [[5, 5, 5], [120, 5, 5]]])
    >>> _ = shardine.vectors.write_lines(folder / "lines.zv", endpoints, chunk_shape=100)
    >>> shardine.vectors.read_lines(folder / "lines.zv", object_ids=[1]).endpoints.tolist()
    [[[5.0, 5.0, 5.0], [120.0, 5.0, 5.0]]]
    """
    return _read(("lines",), path, options)


def read_polylines(path: Url, **options: Any) -> Geometry:
    """Reads paths; `polylines` of the result is a list of arrays. Takes what `query` takes.

    >>> paths = [np.array([[0.0, 0, 0], [5, 5, 5], [120, 5, 5]]), np.ones((2, 3))]
    >>> _ = shardine.vectors.write_polylines(folder / "paths.zv", paths, chunk_shape=100)
    >>> [len(path) for path in shardine.vectors.read_polylines(folder / "paths.zv").polylines]
    [3, 2]
    """
    return _read(("polylines", "streamlines"), path, options)


def read_graph(path: Url, **options: Any) -> Geometry:
    """Reads a graph or skeletons; the result has `positions` and `edges`. Takes what `query` takes.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_graph(
    ...     folder / "net.zv", positions, [[0, 1], [1, 2]], chunk_shape=100
    ... )
    >>> shardine.vectors.read_graph(folder / "net.zv").edges.shape
    (2, 2)
    """
    return _read(("graph", "skeleton"), path, options)


def read_skeleton(path: Url, **options: Any) -> Geometry:
    """Reads trees; an edge of the result is a child and its parent. Takes what `query` takes.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_skeleton(
    ...     folder / "tree.zv", positions, [[1, 0], [2, 1]], chunk_shape=100
    ... )
    >>> shardine.vectors.read_skeleton(folder / "tree.zv").edges.tolist()
    [[1, 0], [2, 1]]
    """
    return _read(("skeleton",), path, options)


def read_mesh(path: Url, **options: Any) -> Geometry:
    """Reads a mesh; the result has `vertices` and `faces`. Takes what `query` takes.

    >>> vertices = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_mesh(folder / "mesh.zv", vertices, [[0, 1, 2]], chunk_shape=100)
    >>> shardine.vectors.read_mesh(folder / "mesh.zv").faces.tolist()
    [[0, 1, 2]]
    """
    return _read(("mesh",), path, options)


# Whole stores


def info(
    path: Url, *, store_options: StoreOptions | None = None, anonymous: bool = False
) -> VectorsInfo:
    """What a store contains: kind, bounds, levels, attributes.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_points(
    ...     folder / "cells.zv", positions, chunk_shape=100, shard_shape=8
    ... )
    >>> found = shardine.vectors.info(folder / "cells.zv")
    >>> found.kind, found.levels[0].vertices, found.sharding.chunks_per_shard
    ('points', 3, [8, 8, 8])
    """
    options = {"url": os.fspath(path), **_store(store_options, anonymous)}
    return VectorsInfo(_shardine.vectors_info(options))


def shard_store(path: Url, *, shard_shape: Counts = 8, **options: Any) -> RepackReport:
    """Packs `shard_shape` chunks along each axis into a shard, in every array of a store.

    Cells are moved unchanged, codecs stay, and each array is exchanged in one step. What is packed
    so already is left alone. Takes what `shardine.shard` takes.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_points(folder / "scan.zv", positions, chunk_shape=100)
    >>> _ = shardine.vectors.shard_store(folder / "scan.zv", shard_shape=8)
    >>> shardine.vectors.info(folder / "scan.zv").sharding.chunks_per_shard
    [8, 8, 8]
    """
    return _jobs.shard(path, chunks_per_shard=shard_shape, **options)


def unshard_store(path: Url, **options: Any) -> RepackReport:
    """Stores each chunk of a store as its own object. Takes what `shardine.unshard` takes.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_points(
    ...     folder / "scan.zv", positions, chunk_shape=100, shard_shape=4
    ... )
    >>> _ = shardine.vectors.unshard_store(folder / "scan.zv")
    >>> shardine.vectors.info(folder / "scan.zv").sharding is None
    True
    """
    return _jobs.unshard(path, **options)


def reshard(path: Url, shard_shape: Counts | None, **options: Any) -> RepackReport:
    """Packs `shard_shape` chunks along each axis into a shard; None unshards.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_points(
    ...     folder / "scan.zv", positions, chunk_shape=100, shard_shape=4
    ... )
    >>> _ = shardine.vectors.reshard(folder / "scan.zv", 2)
    >>> shardine.vectors.info(folder / "scan.zv").sharding.chunks_per_shard
    [2, 2, 2]
    >>> _ = shardine.vectors.reshard(folder / "scan.zv", None)
    """
    if shard_shape is None:
        return _jobs.unshard(path, **options)
    return _jobs.reshard(path, chunks_per_shard=shard_shape, **options)


def validate(path: Url, **options: Any) -> VerifyReport:
    """Checks a store for damage, as `shardine.verify` does, and takes what that takes.

    >>> positions = np.array([[0.0, 0, 0], [9, 9, 9], [120, 5, 5]])
    >>> _ = shardine.vectors.write_points(folder / "scan.zv", positions, chunk_shape=100)
    >>> shardine.vectors.validate(folder / "scan.zv", decode=True).ok
    True
    """
    return _jobs.verify(path, **options)
