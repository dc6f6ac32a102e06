"""What a data set of vectors means, and where two of them differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass
class Geometry:
    """Vertices in rows, and what joins them."""

    kind: str
    positions: np.ndarray
    object_ids: np.ndarray | None = None
    attributes: dict[str, np.ndarray] = field(default_factory=dict)
    """Of the vertices: (N,) or (N, C); strings as objects, None where there is no value."""
    links: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """Row numbers: two columns for edges, three for faces."""
    directed: bool = True

    @property
    def is_path(self) -> bool:
        """Whether the order of the vertices of an object is part of what it means."""
        return self.kind in ("line", "polyline", "streamline")

    def take(self, rows: np.ndarray) -> Geometry:
        """Some of the rows, and the links that have all their ends there."""
        rows = np.asarray(rows, np.int64)
        new = np.full(len(self.positions), -1, np.int64)
        new[rows] = np.arange(len(rows))
        links = new[self.links] if len(self.links) else self.links
        return replace(
            self,
            positions=self.positions[rows],
            object_ids=None if self.object_ids is None else self.object_ids[rows],
            attributes={name: data[rows] for name, data in self.attributes.items()},
            links=links[(links >= 0).all(axis=1)],
        )

    def of_ids(self, ids: list[int]) -> Geometry:
        return self.take(np.flatnonzero(np.isin(self.object_ids, ids)))

    def inside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which vertices a box has; both bounds are inclusive."""
        at = self.positions.astype(np.float64)
        return ((at >= low) & (at <= high)).all(axis=1)

    def in_box(self, low: np.ndarray, high: np.ndarray, *, clip: bool = False) -> Geometry:
        """Points by position; of other kinds the whole objects that have a vertex in the box."""
        found = self.inside(low, high)
        if not clip and self.kind != "point_cloud" and self.object_ids is not None:
            found = np.isin(self.object_ids, self.object_ids[found])
        return self.take(np.flatnonzero(found))


def value_of(value: Any) -> Any:  # noqa: ANN401
    """A value in the one form in which all sides are compared."""
    if value is None:
        return None
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(value_of(item) for item in value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return "NaN" if number != number else number
    return str(value)


def places(geometry: Geometry) -> list[tuple]:
    """What tells one vertex from another."""
    at = geometry.positions
    return [tuple(row) for row in at.tolist()]


def records(geometry: Geometry, names: list[str]) -> list[tuple]:
    """Every vertex with everything that it has."""
    ids = geometry.object_ids
    columns = [[value_of(value) for value in geometry.attributes[name]] for name in names]
    owners = [None] * len(geometry.positions) if ids is None else [value_of(n) for n in ids]
    return list(zip(places(geometry), owners, *columns, strict=True))


def joined(geometry: Geometry) -> Counter:
    """The links, by the places of their ends."""
    at = places(geometry)
    answer: Counter = Counter()
    for link in geometry.links.tolist():
        ends = tuple(at[row] for row in link)
        if len(ends) == 3:
            # The same face may begin at any of its corners; which way round it goes is kept.
            first = ends.index(min(ends))
            ends = ends[first:] + ends[:first]
        elif not geometry.directed:
            ends = tuple(sorted(ends))
        answer[ends] += 1
    return answer


def once(geometry: Geometry) -> Geometry:
    """Without the vertices that an object has twice."""
    seen: dict[tuple, int] = {}
    for row, record in enumerate(records(geometry, [])):
        seen.setdefault(record, row)
    return geometry.take(list(seen.values()))


def _first(counter: Counter) -> str:
    return f"{sum(counter.values())}, the first {next(iter(counter))}" if counter else "none"


def _differ(what: str, want: Counter, got: Counter) -> list[str]:
    if want == got:
        return []
    missing, extra = want - got, got - want
    return [f"{what}: missing {_first(missing)}; too many {_first(extra)}"]


def differences(
    want: Geometry,
    got: Geometry,
    *,
    ids: bool = True,
    attributes: bool = True,
    links: bool = True,
    order: bool = True,
    halves: bool = False,
) -> list[str]:
    """How what was read differs from what was written. `want` says what kind it is.

    Where tables were in between, halves may have become floats, unless `halves`.
    """
    told: list[str] = []
    if want.positions.dtype != got.positions.dtype:
        told.append(f"positions are {got.positions.dtype}, not {want.positions.dtype}")
    names = sorted(want.attributes) if attributes else []
    if attributes:
        missing = [name for name in names if name not in got.attributes]
        if missing:
            told.append(f"there are the attributes {sorted(got.attributes)}, not {names}")
            names = [name for name in names if name not in missing]
        for name in names:
            kinds = [np.asarray(side.attributes[name]).dtype for side in (want, got)]
            if kinds == [np.float16, np.float32] and not halves:
                # Some tables hold halves as floats, which are the same numbers.
                kinds[1] = kinds[0]
            if [kind.kind for kind in kinds] == ["U", "U"]:
                # Strings are as long as the longest of them, not as the type that they were given in.
                kinds[1] = kinds[0]
            if kinds[0] != kinds[1] and "O" not in (kinds[0].kind, kinds[1].kind):
                told.append(f"attribute {name} is {kinds[1]}, not {kinds[0]}")
    if not ids or want.object_ids is None:
        want, got = replace(want, object_ids=None), replace(got, object_ids=None)
    elif got.object_ids is None:
        told.append("there are no object ids")
        want = replace(want, object_ids=None)
    ours, theirs = records(want, names), records(got, names)
    told += _differ("vertices", Counter(ours), Counter(theirs))
    if links:
        got = replace(got, directed=want.directed)
        told += _differ("links", joined(want), joined(got))
    if order and want.is_path and want.object_ids is not None and got.object_ids is not None:
        told += _paths(ours, theirs)
    return told


def _paths(want: list[tuple], got: list[tuple]) -> list[str]:
    sides = []
    for rows in (want, got):
        paths = defaultdict(list)
        for at, owner, *_ in rows:
            paths[owner].append(at)
        sides.append(paths)
    wrong = [owner for owner in sides[0] if sides[0][owner] != sides[1].get(owner)]
    return [f"object {wrong[0]} goes another way ({len(wrong)} do)"] if wrong else []
