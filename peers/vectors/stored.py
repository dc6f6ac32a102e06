"""A level of a store, read by the letter of the format into a `Geometry`."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from .cells import (
    Broken,
    Cell,
    cells,
    document,
    fragments,
    manifest,
    offsets_of,
    permutation,
    ragged,
)
from .geometry import Geometry


def metadata(root: Path) -> dict[str, Any]:
    return document(root)["attributes"]["zarr_vectors"]


def levels(root: Path) -> list[int]:
    return sorted(int(path.name) for path in root.iterdir() if path.name.isdigit())


def arrays(root: Path) -> list[Path]:
    """All arrays of a store, by path."""
    return sorted(
        path.parent
        for path in root.rglob("zarr.json")
        if document(path.parent)["node_type"] == "array"
    )


def is_grid(root: Path, array: Path) -> bool:
    """Whether an array has one cell for each spatial chunk. It depends on the depth."""
    parts = array.relative_to(root).parts[1:]
    if not parts:
        return False
    depths = {
        "vertex_attributes": 2,
        "fragment_attributes": 2,
        "links": 3,
        "link_attributes": 4,
        "vertices": 1,
        "vertex_fragments": 1,
        "link_fragments": 1,
    }
    return depths.get(parts[0]) == len(parts)


class Level:
    """One level of a store."""

    def __init__(self, root: Path, number: int = 0) -> None:
        self.root, self.folder = root, root / str(number)
        self.metadata = metadata(root)
        self.kind = self.metadata["geometry_types"][0]
        self.own = document(self.folder)["attributes"]["zarr_vectors_level"]

    @cached_property
    def vertices(self) -> dict[Cell, np.ndarray]:
        array = self.folder / "vertices"
        dtype = np.dtype(document(array)["attributes"].get("dtype", "float32"))
        axes = len(self.metadata["chunk_shape"])
        return {
            cell: np.frombuffer(data, dtype).reshape(-1, axes)
            for cell, data in cells(array).items()
        }

    @cached_property
    def order(self) -> list[Cell]:
        return sorted(self.vertices)

    @cached_property
    def base(self) -> dict[Cell, int]:
        """The number of the first row of each chunk."""
        at, answer = 0, {}
        for cell in self.order:
            answer[cell] = at
            at += len(self.vertices[cell])
        return answer

    @cached_property
    def fragments(self) -> dict[Cell, list[np.ndarray]]:
        return {c: fragments(data) for c, data in cells(self.folder / "vertex_fragments").items()}

    @cached_property
    def manifests(self) -> dict[int, list[tuple[Cell, int]]] | None:
        """Of each object, by id; None if there are no objects."""
        folder = self.folder / "object_index"
        if not folder.exists():
            return None
        attributes = document(folder)["attributes"]
        axes = attributes["sid_ndim"]
        if attributes.get("layout") == "dense_manifests_v1":
            spans = zarr.open_array(folder / "manifest_spans", mode="r")[...]
            blocks = zarr.open_array(folder / "manifest_blocks", mode="r")[...]
            rows = [
                [(tuple(map(int, block[:axes])), int(block[axes])) for block in blocks[a : a + n]]
                for a, n in spans
            ]
        elif (folder / "manifests").exists():
            stored = zarr.open_array(folder / "manifests", mode="r")[...]
            rows = [manifest(bytes(row), axes) if row else [] for row in stored]
        else:
            return {}
        if (folder / "object_ids").exists():
            ids = zarr.open_array(folder / "object_ids", mode="r")[...].tolist()
        else:
            ids = list(range(len(rows)))
        return {number: row for number, row in zip(ids, rows, strict=True) if row}

    @cached_property
    def objects(self) -> dict[int, np.ndarray] | None:
        """The rows of each object, in its order."""
        if self.manifests is None:
            return None
        answer = {}
        for number, blocks in self.manifests.items():
            parts = [self.base[cell] + self.fragments[cell][at] for cell, at in blocks]
            answer[number] = np.concatenate(parts).astype(np.int64)
        return answer

    def attribute(self, name: str) -> np.ndarray:
        array = self.folder / "vertex_attributes" / name
        told = document(array)["attributes"]
        dtype = np.dtype(told.get("dtype", "float32"))
        stored = cells(array)
        parts = []
        for cell in self.order:
            rows = len(self.vertices[cell])
            data = np.frombuffer(stored.get(cell, b""), dtype)
            if rows and data.size % rows:
                raise Broken(f"{name} of {cell} has {data.size} values for {rows} vertices")
            parts.append(data.reshape(rows, -1))
        data = np.concatenate(parts)
        if data.shape[1] == 1 and not told.get("row_shape"):
            data = data[:, 0]
        if told.get("encoding") == "dictionary":
            names, none = told["categories"], told.get("_FillValue")
            answer = np.empty(len(data), object)
            answer[:] = [None if code == none else names[code] for code in data.tolist()]
            return answer
        return data

    def links(self) -> tuple[np.ndarray, bool]:
        """What is stored under links/0, by row numbers, and whether the family is directed."""
        family = self.folder / "links" / "0"
        if not family.exists():
            return np.zeros((0, 2), np.int64), False
        told = document(family)["attributes"]
        width = told.get("link_width", 2)
        answer = []
        for array in sorted(path for path in family.iterdir() if path.is_dir()):
            offsets = offsets_of(array.name)
            permuted = document(array)["attributes"].get("has_perm", False)
            within = not any(any(offset) for offset in offsets)
            for cell, data in cells(array).items():
                if within:
                    answer += (
                        np.frombuffer(data, "<i8").reshape(-1, width) + self.base[cell]
                    ).tolist()
                    continue
                ends = [cell] + [tuple(np.add(cell, offset).tolist()) for offset in offsets]
                for row in ragged(data, width + permuted).tolist():
                    places = [
                        self.base[end] + v for end, v in zip(ends, row[permuted:], strict=True)
                    ]
                    if permuted:
                        whole = [0] * width
                        for place, end in zip(permutation(row[0], width), places, strict=True):
                            whole[place] = end
                        places = whole
                    answer.append(places)
        rows = np.asarray(answer, np.int64).reshape(-1, width)
        return rows, bool(told.get("directed"))

    def _joined(self) -> np.ndarray:
        if self.kind in ("line", "polyline", "streamline"):
            parts = [np.stack([rows[:-1], rows[1:]], axis=1) for rows in self.objects.values()]
            return np.concatenate([np.zeros((0, 2), np.int64), *parts])
        rows, directed = self.links()
        if self.kind != "skeleton":
            return rows
        # Of a family that is directed, links across chunks are (parent, child), which is no child's own link.
        parents = {}
        for cell in self.order:
            for fragment in self.fragments.get(cell, []):
                own = (fragment + self.base[cell]).tolist()
                parents.update(zip(own[1:], own[:-1], strict=True))
        cross = []
        owner = np.searchsorted([self.base[cell] for cell in self.order], rows, side="right")
        for (a, b), (chunk_a, chunk_b) in zip(rows.tolist(), owner.tolist(), strict=True):
            if b < a and b < 0:
                continue
            if directed and chunk_a != chunk_b:
                cross.append((b, a))
            else:
                parents[a] = b
        return np.asarray([*parents.items(), *cross], np.int64).reshape(-1, 2)

    def geometry(self, *, attributes: bool = True) -> Geometry:
        """Everything. Vertices that belong to several objects come once for each."""
        positions = np.concatenate([self.vertices[cell] for cell in self.order])
        offset = self.metadata.get("coordinate_offset")
        if offset:
            positions = (positions + np.asarray(offset)).astype(positions.dtype)
        names = []
        folder = self.folder / "vertex_attributes"
        if attributes and folder.exists():
            names = sorted(path.name for path in folder.iterdir() if path.is_dir())
        whole = Geometry(self.kind, positions, attributes={n: self.attribute(n) for n in names})
        by = self.own.get("chunk_attribute_name")
        if by:
            values = self.own["chunk_attribute_values"]
            column = [values[cell[0]] for cell in self.order for _ in self.vertices[cell]]
            whole.attributes[by] = np.asarray(column)
        if self.kind != "point_cloud":
            whole.links = self._joined()
        if self.objects is None:
            return whole
        ids, rows = [], []
        for number, own in self.objects.items():
            ids += [number] * len(own)
            rows.append(own)
        rows = np.concatenate([np.zeros(0, np.int64), *rows])
        answer = whole.take(rows)
        answer.object_ids = np.asarray(ids, np.int64)
        return answer


def groups(level: Level) -> dict[int, list[int]]:
    folder = level.folder / "groups"
    if not folder.exists():
        return {}
    told = document(folder)["attributes"].get("group_ranges", {})
    answer: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(zarr.open_array(folder, mode="r")[...]):
        if row:
            answer[number] = np.frombuffer(row, "<i8").tolist()
    for number, (start, stop) in told.items():
        answer[int(number)] = list(range(start, stop))
    return dict(answer)
