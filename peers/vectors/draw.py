"""Data sets of vectors, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .geometry import Geometry

FLAVOURS = [
    "points",
    "points-objects",
    "points-bins",
    "points-attribute",
    "points-both",
    "lines",
    "polylines",
    "streamlines",
    "graph",
    "graph-objects",
    "skeleton",
    "skeleton-streamed",
    "mesh",
    "mesh-objects",
]
"""What zarr-vectors can write with vertices. Parametric objects have none and are a case of their own."""

TYPES = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
CHUNKS = [5.0, 10.0, 12.5, 25.0, 37.5, 100.0]
AXES = ["x", "y", "z", "t"]


@dataclass
class Case:
    """A data set, and how it is to be stored."""

    flavour: str
    geometry: Geometry
    chunk: tuple[float, ...]
    bin: tuple[float, ...] | None = None
    compressor: str | None = None
    shard: int | tuple[int, ...] | None = None
    by_attribute: str | None = None
    offset: tuple[float, ...] | None = None
    object_attributes: dict[str, np.ndarray] = field(default_factory=dict)
    """One row for each object, in the order of their ids."""
    link_attributes: dict[str, np.ndarray] = field(default_factory=dict)
    groups: dict[int, Any] = field(default_factory=dict)
    factors: list[tuple[float, float]] = field(default_factory=list)

    stored_positions: np.ndarray | None = None
    """Where `offset` shifts them from the positions of the geometry; set when they are written."""

    @property
    def axes(self) -> int:
        return self.geometry.positions.shape[1]

    @property
    def ids(self) -> list[int]:
        """The ids of the objects, in order."""
        ids = self.geometry.object_ids
        return [] if ids is None else np.unique(ids).tolist()

    def describe(self) -> str:
        told = [
            f"{self.flavour}, {len(self.geometry.positions)} vertices {self.geometry.positions.dtype}"
        ]
        told += [f"{len(self.geometry.links)} links", f"chunk {self.chunk}"]
        for name in ("bin", "compressor", "shard", "by_attribute", "offset", "groups", "factors"):
            if getattr(self, name):
                told.append(f"{name} {getattr(self, name)}")
        told.append(
            f"attributes {[(n, str(a.dtype), a.shape[1:]) for n, a in self.geometry.attributes.items()]}"
        )
        return ", ".join(told)


class Drawing:
    """The dice of one case."""

    def __init__(self, seed: int, index: int) -> None:
        self.choice = random.Random(f"{seed} {index}")
        self.rng = np.random.default_rng([seed, index])
        self.axes = self.choice.choice([3, 3, 3, 3, 2])
        self.chunk = tuple(self.choice.choice(CHUNKS) for _ in range(self.axes))

    def positions(self, count: int, dtype: str) -> np.ndarray:
        """Different places, some of them on the borders of chunks, some negative."""
        chunk = np.asarray(self.chunk)
        spread = self.rng.uniform(0.5, 5, self.axes)
        low = -chunk * spread * self.choice.choice([0, 0.3, 0.5])
        if self.choice.random() < 0.15:
            low += chunk * self.rng.integers(-40, 40, self.axes)
        at = low + self.rng.random((2 * count + 20, self.axes)) * chunk * spread
        on_border = self.rng.random(at.shape) < 0.05
        at = np.where(on_border, np.round(at / chunk) * chunk, at)
        at = at.round().astype(dtype) if np.dtype(dtype).kind == "i" else at.astype(dtype)
        at = np.unique(at, axis=0)
        self.rng.shuffle(at)
        return at[:count]

    def column(self, rows: int, *, nulls: bool, columns: bool) -> np.ndarray:
        kind = self.choice.choice([*TYPES, "words", "words"])
        if kind == "words":
            words = np.array(["axon", "dendrite", "soma", "ünïcode", 'a,b "c"'], object)
            if not nulls:
                # Stored as they are in memory: only points get dictionaries.
                return words.astype(str)[self.rng.integers(0, len(words), rows)]
            if self.choice.random() < 0.4:
                words = np.array([*words, None], object)
            return words[self.rng.integers(0, len(words), rows)]
        shape = (
            (rows, self.choice.choice([2, 3, 4]))
            if columns and self.choice.random() < 0.4
            else rows
        )
        return self.numbers(kind, shape)

    def numbers(self, kind: str, shape: Any) -> np.ndarray:
        dtype = np.dtype(kind)
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        if dtype.kind == "f":
            data = (self.rng.standard_normal(shape) * 100).astype(dtype)
            if self.choice.random() < 0.2:
                data[self.rng.random(shape) < 0.1] = np.nan
            return data
        limits = np.iinfo(dtype)
        return self.rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)

    def attributes(self, rows: int, *, nulls: bool, columns: bool) -> dict[str, np.ndarray]:
        names = self.choice.sample(
            ["radius", "t_value", "label", "Score", "c2"], self.choice.randint(0, 3)
        )
        return {name: self.column(rows, nulls=nulls, columns=columns) for name in names}

    def object_ids(self, rows: int) -> np.ndarray:
        count = self.choice.randint(1, max(1, min(12, rows)))
        if self.choice.random() < 0.5:
            ids = np.arange(count)
        else:
            ids = np.unique(self.rng.integers(0, self.choice.choice([50, 2**40]), count))
        return ids[self.rng.integers(0, len(ids), rows)].astype(np.int64)

    def tree(self, count: int) -> np.ndarray:
        """(child, parent); parents near in number, so that there are long branches."""
        parents = [max(0, child - self.choice.choice([1, 1, 1, 2, 5])) for child in range(1, count)]
        return np.stack([np.arange(1, count), parents], axis=1).reshape(-1, 2).astype(np.int64)


def _paths(dice: Drawing, flavour: str, dtype: str) -> Geometry:
    kind = {"lines": "line", "polylines": "polyline", "streamlines": "streamline"}[flavour]
    count = dice.choice.choice([1, 3, 20, 60])
    lengths = [2 if kind == "line" else dice.choice.choice([1, 2, 3, 9, 30]) for _ in range(count)]
    at = dice.positions(sum(lengths), dtype)
    if kind != "line" and dice.choice.random() < 0.7:
        # Neighbours along a path are near each other, as those of a real one are.
        at = at[np.lexsort(at.T)]
    lengths = np.minimum(lengths, max(1, len(at) // count))
    if kind == "line":
        lengths = np.full(max(1, len(at) // 2), 2)[:count]
    at = at[: lengths.sum()]
    ids = np.repeat(np.arange(len(lengths)), lengths)[: len(at)]
    rows = np.flatnonzero(ids[:-1] == ids[1:])
    return Geometry(kind, at, ids, links=np.stack([rows, rows + 1], axis=1).astype(np.int64))


def _graph(dice: Drawing, objects: bool, dtype: str) -> Geometry:
    at = dice.positions(dice.choice.choice([2, 10, 60, 150]), dtype)
    count = len(at)
    ids = dice.object_ids(count) if objects else np.zeros(count, np.int64)
    edges = dice.rng.integers(0, count, (dice.choice.choice([1, count, 2 * count]), 2))
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    # An edge inside one object: a query for it gives both ends.
    edges = edges[ids[edges[:, 0]] == ids[edges[:, 1]]]
    dice.rng.shuffle(edges)
    return Geometry("graph", at, ids, links=edges.reshape(-1, 2).astype(np.int64))


def _skeleton(dice: Drawing, dtype: str) -> Geometry:
    at = dice.positions(dice.choice.choice([1, 12, 60, 200]), dtype)
    if dice.choice.random() < 0.7:
        at = at[np.lexsort(at.T)]
    count = len(at)
    trees = dice.choice.randint(1, max(1, min(5, count)))
    sizes = np.diff(np.linspace(0, count, trees + 1).astype(int))
    links, ids, base = [], [], 0
    numbers = (
        np.sort(dice.rng.choice(1000, trees, replace=False))
        if dice.choice.random() < 0.4
        else range(trees)
    )
    for number, size in zip(numbers, sizes, strict=True):
        links.append(dice.tree(size) + base)
        ids += [int(number)] * size
        base += size
    return Geometry("skeleton", at, np.asarray(ids, np.int64), links=np.concatenate(links))


def _mesh(dice: Drawing, objects: bool, dtype: str) -> Geometry:
    at = dice.positions(dice.choice.choice([4, 30, 120]), dtype)
    count = len(at)
    ids = np.sort(dice.object_ids(count)) if objects else np.zeros(count, np.int64)
    faces = []
    for number in np.unique(ids):
        own = np.flatnonzero(ids == number)
        for _ in range(2 * len(own) if len(own) >= 3 else 0):
            faces.append(dice.rng.choice(own, 3, replace=False))
    unique = {tuple(sorted(face)): face for face in map(tuple, faces)}
    links = np.asarray(list(unique.values()), np.int64).reshape(-1, 3)
    return Geometry("mesh", at, ids, links=links)


def _points(dice: Drawing, flavour: str, dtype: str) -> Geometry:
    at = dice.positions(dice.choice.choice([1, 5, 100, 400]), dtype)
    if dice.choice.random() < 0.3:
        # Points may lie on each other.
        at = np.concatenate([at, at[: len(at) // 3]])
    ids = dice.object_ids(len(at)) if flavour in ("points-objects", "points-both") else None
    return Geometry("point_cloud", at, ids)


def draw(seed: int, index: int, flavour: str | None = None) -> Case:
    """Case `index` of a seed is always the same."""
    dice = Drawing(seed, index)
    flavour = flavour or FLAVOURS[index % len(FLAVOURS)]
    dtype = "f4" if flavour == "skeleton-streamed" else dice.choice.choice(["f4", "f4", "f8", "i4"])
    if flavour.startswith("points"):
        geometry = _points(dice, flavour, dtype)
    elif flavour.startswith("graph"):
        geometry = _graph(dice, flavour == "graph-objects", dtype)
    elif flavour.startswith("skeleton"):
        geometry = _skeleton(dice, dtype)
    elif flavour.startswith("mesh"):
        geometry = _mesh(dice, flavour == "mesh-objects", dtype)
    else:
        geometry = _paths(dice, flavour, dtype)
    rows = len(geometry.positions)
    geometry.attributes = dice.attributes(
        rows, nulls=flavour.startswith("points"), columns=flavour != "skeleton-streamed"
    )
    case = Case(flavour, geometry, dice.chunk)
    if flavour in ("points-bins", "points-both"):
        case.bin = tuple(edge / dice.choice.choice([1, 2, 4, 5]) for edge in dice.chunk)
    if flavour == "points-attribute":
        case.by_attribute = "gene"
        values = dice.choice.choice([["a", "b", "c"], [3, 1, 70]])
        geometry.attributes["gene"] = np.asarray(values)[dice.rng.integers(0, len(values), rows)]
        # zarr-vectors makes every point an object of its own then.
        geometry.object_ids = np.arange(rows)
    case.compressor = dice.choice.choice([None, None, "zstd", "blosc"])
    case.shard = dice.choice.choice([None, None, 2, 4, 8, "tuple"])
    if case.shard == "tuple":
        case.shard = tuple(dice.choice.choice([1, 2, 3, 8]) for _ in range(dice.axes))
    if case.by_attribute and case.shard:
        case.shard = 2
    if case.ids and flavour not in ("points-attribute", "skeleton-streamed"):
        for name in dice.choice.sample(["weight", "rank"], dice.choice.randint(0, 2)):
            kind = dice.choice.choice([t for t in TYPES if t not in ("?", "f2")])
            case.object_attributes[name] = dice.numbers(kind, len(case.ids))
        if flavour in ("points-objects", "polylines", "streamlines") and dice.choice.random() < 0.5:
            case.groups = {0: dice.choice.sample(case.ids, min(2, len(case.ids)))}
            if flavour != "points-objects":
                case.groups[3] = range(0, len(case.ids))
    if flavour.startswith("graph") and len(geometry.links) and dice.choice.random() < 0.5:
        case.link_attributes["weight"] = dice.rng.random(len(geometry.links)).astype("f4")
    if flavour == "skeleton-streamed" and dice.choice.random() < 0.5:
        case.offset = tuple(float(n) for n in dice.rng.integers(-1000, 1000, dice.axes))
    if (
        flavour not in ("points-both", "points-attribute", "skeleton-streamed", "lines")
        and dice.choice.random() < 0.3
    ):
        case.factors = dice.choice.choice([[(2.0, 1.0)], [(2.0, 2.0), (4.0, 2.0)]])
    return case
