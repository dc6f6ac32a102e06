"""zarr-vectors writes and reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .draw import Case
from .geometry import Geometry


def write(case: Case, root: Path) -> None:
    """Writes a case with zarr-vectors."""
    from zarr_vectors.multiresolution.coarsen import build_pyramid

    kind = case.geometry.kind
    if case.flavour == "skeleton-streamed":
        _write_streamed(case, root)
    else:
        options = {
            "chunk_shape": case.chunk,
            "compressor": case.compressor,
            "shard_shape": case.shard,
            "dtype": str(case.geometry.positions.dtype),
        }
        if case.bin:
            options["bin_shape"] = case.bin
        if case.object_attributes:
            options["object_attributes"] = case.object_attributes
        if case.groups:
            options["groups"] = case.groups
        if case.by_attribute:
            options["chunk_by_attribute"] = case.by_attribute
        if case.link_attributes:
            options["link_attributes"] = case.link_attributes
        writer = {"point_cloud": _points, "line": _lines, "mesh": _mesh}
        writer.get(kind, _graph if kind in ("graph", "skeleton") else _polylines)(
            case, str(root), options
        )
    if case.factors:
        build_pyramid(str(root), factors=case.factors, sparsity_seed=7)


def _points(case: Case, root: str, options: dict) -> None:
    from zarr_vectors.types.points import write_points

    own = case.geometry
    ids = None if case.by_attribute else own.object_ids
    write_points(
        root, own.positions, vertex_attributes=own.attributes or None, object_ids=ids, **options
    )


def _lines(case: Case, root: str, options: dict) -> None:
    from zarr_vectors.types.lines import write_lines

    own = case.geometry
    attributes = {
        name: data.reshape(-1, 2, *data.shape[1:]) for name, data in own.attributes.items()
    }
    ends = own.positions.reshape(-1, 2, case.axes)
    write_lines(root, ends, vertex_attributes=attributes or None, **options)


def _polylines(case: Case, root: str, options: dict) -> None:
    from zarr_vectors.types.polylines import write_polylines

    own = case.geometry
    at = np.flatnonzero(np.diff(own.object_ids)) + 1
    attributes = {name: np.split(data, at) for name, data in own.attributes.items()}
    write_polylines(
        root,
        np.split(own.positions, at),
        vertex_attributes=attributes or None,
        geometry_type=own.kind,
        **options,
    )


def _graph(case: Case, root: str, options: dict) -> None:
    from zarr_vectors.types.graphs import write_graph

    own = case.geometry
    ids = None if case.flavour == "graph" else own.object_ids
    write_graph(
        root,
        own.positions,
        own.links,
        kind=own.kind,
        vertex_attributes=own.attributes or None,
        object_ids=ids,
        **options,
    )


def _mesh(case: Case, root: str, options: dict) -> None:
    from zarr_vectors.types.meshes import write_mesh

    own = case.geometry
    ids = None if case.flavour == "mesh" else own.object_ids
    write_mesh(
        root,
        own.positions,
        own.links,
        vertex_attributes=own.attributes or None,
        object_ids=ids,
        **options,
    )


def _write_streamed(case: Case, root: Path) -> None:
    """The other writer of skeletons: chunk by chunk, each path a fragment, the world shifted."""
    from zarr_vectors.core.arrays import (
        open_write_session,
        write_object_attributes,
        write_object_index,
    )
    from zarr_vectors.types import skeletons

    own = case.geometry
    offset = np.zeros(case.axes) if case.offset is None else np.asarray(case.offset)
    # What is stored; the world is `own`, rounded as the sum is.
    stored = (own.positions.astype("f8") - offset).astype("f4")
    own.positions = (stored.astype("f8") + offset).astype("f4")
    case.stored_positions = stored
    bounds = (stored.min(axis=0).tolist(), stored.max(axis=0).tolist())
    types = {name: str(data.dtype) for name, data in own.attributes.items()}
    made = {"compressor": case.compressor, "shard_shape": case.shard}
    store, level = skeletons.init_skeleton_store(
        root,
        chunk_shape=case.chunk,
        bounds=bounds,
        ndim=case.axes,
        attribute_dtypes=types,
        coordinate_offset=case.offset,
        **made,
    )
    of = np.floor(stored.astype("f8") / np.asarray(case.chunk)).astype(int)
    chunks = sorted({tuple(row) for row in of.tolist()})
    parent = {int(child): int(up) for child, up in own.links}
    records, places = [], {}
    with open_write_session(level, bounds=bounds, chunk_shape=case.chunk, **made):
        for chunk in chunks:
            pieces = []
            mine = np.flatnonzero((of == chunk).all(axis=1))
            for number in np.unique(own.object_ids[mine]):
                rows = mine[own.object_ids[mine] == number]
                local = {int(row): at for at, row in enumerate(rows)}
                edges = [(local[r], local[parent[r]]) for r in local if parent.get(r) in local]
                pieces.append(
                    {
                        "segment_id": int(number),
                        "positions": stored[rows],
                        "edges": np.asarray(edges, np.int64).reshape(-1, 2),
                        "attributes": {name: data[rows] for name, data in own.attributes.items()},
                        "anchors": dict(local),
                    }
                )
            told, found = skeletons.write_skeleton_chunk(
                level,
                chunk,
                pieces,
                attr_dtypes={name: np.dtype(kind) for name, kind in types.items()},
            )
            records += told
            places.update(found)
    across = [
        (places[up], places[child])
        for child, up in parent.items()
        if places[up][0] != places[child][0]
    ]
    skeletons.write_skeleton_cross_chunk_links(level, across, ndim=case.axes)
    manifests: dict[int, list] = {number: [] for number in range(len(case.ids))}
    for number, chunk, fragment in records:
        manifests[case.ids.index(number)].append((chunk, fragment))
    write_object_index(level, manifests, case.axes)
    write_object_attributes(level, "segment_id", np.asarray(case.ids, np.uint64))
    # Objects are numbered; the ids that were given are an attribute of theirs.
    own.object_ids = np.searchsorted(case.ids, own.object_ids)
    skeletons.finalize_skeleton_store(store)


def read(root: Path, *, level: int = 0, **selection) -> Geometry:  # noqa: ANN003
    """Reads with zarr-vectors, through its newer interface, which gives attributes for every kind."""
    import zarr_vectors.api as api

    data = api.open(str(root))[level].read(**selection)
    ids = None
    if data.part_objects is not None:
        sizes = [part.stop - part.start for part in data.parts]
        ids = np.repeat(np.asarray(data.part_objects), sizes)
    elif data.object_ids is not None:
        ids = np.asarray(data.object_ids)
    links = data.faces if data.faces is not None else data.edges
    if data.kind in ("polyline", "streamline", "line"):
        links = [(row, row + 1) for part in data.parts for row in range(part.start, part.stop - 1)]
    rows = np.zeros((0, 2), np.int64) if links is None or len(links) == 0 else np.asarray(links)
    return Geometry(data.kind, data.positions, ids, dict(data.attributes), rows.astype(np.int64))


def complaints(root: Path) -> list[str]:
    """What zarr-vectors' own check says against a store, at its strictest."""
    from zarr_vectors.validate import validate

    return list(validate(str(root), level=5).errors)
