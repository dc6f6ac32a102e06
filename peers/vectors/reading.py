"""What zarr-vectors has written is read: by itself, where it can, and by Shardine."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
from ome.program import ProgramError, Shardine

from . import by_peer, defects
from .draw import Case
from .geometry import Geometry, differences, once
from .query import Query, box_of
from .cells import document
from .stored import Level, arrays, is_grid, levels
from .variants import REFUSED, SAME

KINDS = {
    "point_cloud": {"points", "point_cloud", "point"},
    "line": {"lines", "line"},
    "polyline": {"polylines", "polyline"},
    "streamline": {"polylines", "streamline", "streamlines"},
    "graph": {"graph"},
    "skeleton": {"skeleton"},
    "mesh": {"mesh"},
}


def peer_differences(case: Case, root: Path, *, halves: bool = False) -> list[str]:
    """How what zarr-vectors reads of level 0 differs from the case."""
    met = defects.of(case)
    want = case.geometry
    names = dict(want.attributes)
    if "columns" in met:
        names = {name: data for name, data in names.items() if data.ndim == 1}
    if "chunk attribute" in met:
        names.pop(case.by_attribute)
    want = replace(want, attributes=names)
    if "offset" in met:
        want = replace(want, positions=case.stored_positions)
    got = by_peer.read(root)
    return differences(
        want, got, ids="no ids" not in met, links="streamed links" not in met, halves=halves
    )


def a_box(dice: random.Random, geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """A box that has something in it; its faces go through vertices, so that inclusive matters."""
    at = geometry.positions.astype(np.float64)
    one, other = (at[dice.randrange(len(at))] for _ in range(2))
    return np.minimum(one, other), np.maximum(one, other)


def _wanted(case: Case) -> Geometry:
    want = case.geometry
    # Which end of a streamed skeleton's link is the parent is not the same within and across chunks.
    return replace(want, directed=case.flavour != "skeleton-streamed")


def info(case: Case, query: Query, root: Path) -> list[str]:
    """What `vectors info --json` says of a store."""
    told, found = query.info(), []
    want = {
        "format": "zarr-vectors",
        "bounds": Level(root).metadata["bounds"],
    }
    found += [
        f"info: {key} is {told.get(key)}, not {value}"
        for key, value in want.items()
        if told.get(key) != value
    ]
    kind = case.geometry.kind
    if str(told.get("kind")).replace("-", "_") not in KINDS[kind]:
        found.append(f"info: kind is {told.get('kind')}, not {kind}")
    dimensions = told.get("dimensions")
    count = dimensions if isinstance(dimensions, int) else len(dimensions or [])
    if count != case.axes:
        found.append(f"info: dimensions are {dimensions}, not {case.axes}")
    if [level.get("level") for level in told.get("levels", [])] != levels(root):
        found.append(f"info: levels are {told.get('levels')}, not {levels(root)}")
        return found
    for level in told["levels"]:
        own = Level(root, level["level"])
        counts = {
            "vertices": sum(map(len, own.vertices.values())),
            "chunks": len(own.vertices),
            "objects": len(own.manifests or {}),
        }
        for key, value in counts.items():
            if level.get(key) != value and (value or level.get(key)):
                found.append(
                    f"info: level {level['level']} has {level.get(key)} {key}, not {value}"
                )
    names = {attribute["name"] for attribute in told.get("attributes", [])}
    wanted = {*case.geometry.attributes, *case.object_attributes, *case.link_attributes}
    if not wanted <= names:
        found.append(f"info: the attributes are {sorted(names)}, not {sorted(wanted)}")
    return found


def link_attributes(case: Case, query: Query, got: Geometry) -> list[str]:
    """Columns of the file of edges."""
    found = []
    for name, data in case.link_attributes.items():
        if name not in query.link_columns:
            found.append(f"the edges have no column {name}, only {list(query.link_columns)}")
            continue
        at, mine = case.geometry.positions.tolist(), got.positions.tolist()
        want = {
            (tuple(at[a]), tuple(at[b])): value
            for (a, b), value in zip(case.geometry.links, data, strict=True)
        }
        for (a, b), text in zip(got.links, query.link_columns[name], strict=True):
            ends = (tuple(mine[a]), tuple(mine[b]))
            if ends in want and np.float32(text) != want[ends]:
                found.append(f"edge {ends} has {name} {text}, not {want[ends]}")
                break
    return found


def check(
    case: Case, dice: random.Random, root: Path, folder: Path, shardine: Shardine
) -> list[str]:
    """All of a store, a box, some ids, each level; in several forms."""
    want = _wanted(case)
    query = Query(shardine, root, folder, want.kind, want)
    told = info(case, query, root)
    got = query.ask()
    told += [f"all: {text}" for text in differences(want, got)]
    # Nothing is wrong with the store, so nothing is said.
    told += [f"all: a note without cause: {note}" for note in query.summary["notes"]]
    told += link_attributes(case, query, got)
    form = dice.choice(["csv", "parquet", "npy"])
    got = query.ask(form=form, links=False)
    whole = form != "npy"
    told += [
        f"{form}: {text}"
        for text in differences(want, got, ids=whole, attributes=whole, links=False, order=whole)
    ]
    for clip in (False, True):
        low, high = a_box(dice, want)
        got = query.ask(f"--box={box_of(low, high)}", *(["--clip"] if clip else []))
        # What is joined across the surface is no rule of the format: only what is inside must be there.
        told += [
            f"box {box_of(low, high)}{' --clip' if clip else ''}: {text}"
            for text in differences(want.in_box(low, high, clip=clip), got)
        ]
    if case.ids:
        some = dice.sample(case.ids, min(len(case.ids), dice.choice([1, 3])))
        got = query.ask("--ids", ",".join(map(str, some)))
        told += [f"ids {some}: {text}" for text in differences(want.of_ids(some), got)]
    for number in levels(root)[1:]:
        coarse = Level(root, number).geometry()
        got = query.ask("--level", number)
        if not coarse.is_path:
            # A manifest may come back to a fragment. Only for a path that means a vertex twice.
            coarse, got = once(coarse), once(got)
        told += [f"level {number}: {text}" for text in differences(coarse, got, links=False)]
    return told


def _lists(root: Path) -> dict[str, list[str]]:
    return {
        str(array.relative_to(root)): document(array)["attributes"].get("nonempty_chunks")
        for array in arrays(root)
        if is_grid(root, array) and array.relative_to(root).parts[0] == "0"
    }


def _alike(root: Path) -> bool:
    """Whether all lists of the chunks of vertices leave the same out, but not everything."""
    lists = [
        listed
        for array, listed in _lists(root).items()
        if array.split("/")[1] in ("vertices", "vertex_fragments", "vertex_attributes")
    ]
    return lists[0] != [] and all(listed == lists[0] for listed in lists)


def _said(name: str, root: Path, copy: Path, query: Query, shardine: Shardine) -> list[str]:
    """Lists that are wrong are said to be, and a strict query then fails.

    Of other kinds than points their objects say which chunks they have, so that a list is not asked.
    """
    right, wrong = _lists(root), _lists(copy)
    vertices = wrong["0/vertices"]
    if name != "no nonempty_chunks" and vertices != right["0/vertices"]:
        try:
            shardine.run("vectors", "query", copy, "--strict", status=2)
        except ProgramError as error:
            return [f"{name}, --strict: {error}"]
    if query.kind != "point_cloud":
        return []
    if name == "no nonempty_chunks":
        notes = [note for note in query.summary["notes"] if "has no list of its chunks" in note]
        return [] if notes else [f"{name}: nothing is said of the missing lists"]
    if right == wrong:
        return []
    told = []
    if vertices != right["0/vertices"] and not query.summary["notes"]:
        told.append(f"{name}: nothing is said of the wrong list")
    absent = {
        (entry["array"], entry["chunk"]) for entry in query.summary["absent_chunks"]
    } - {(array, chunk) for array, listed in wrong.items() for chunk in listed or []}
    if absent:
        told.append(f"{name}: chunks are said to be absent that are not listed: {absent}")
    return told


def check_variant(
    case: Case, dice: random.Random, root: Path, folder: Path, shardine: Shardine
) -> list[str]:
    """Other spellings of the same store are read alike; what is unknown is refused."""
    want = _wanted(case)
    told = []
    for name, change in SAME.items():
        copy = folder / name.replace(" ", "-")
        shutil.copytree(root, copy)
        if change(copy, dice) is False:
            continue
        query = Query(shardine, copy, folder, want.kind, want)
        told += [f"{name}: {text}" for text in differences(want, query.ask())]
        told += _said(name, root, copy, query, shardine)
        low, high = a_box(dice, want)
        if name == "short nonempty_chunks" and _alike(copy):
            # Nothing that a query for a part sees shows that they are wrong.
            continue
        got = query.ask(f"--box={box_of(low, high)}")
        told += [f"{name}, box: {text}" for text in differences(want.in_box(low, high), got)]
    for name, change in REFUSED.items():
        copy = folder / f"refused-{name.replace(' ', '-')}"
        shutil.copytree(root, copy)
        change(copy)
        try:
            shardine.run("vectors", "query", copy, "-o", folder / "no.arrow", status=2)
        except ProgramError as error:
            told.append(f"{name} is not refused: {error}")
    return told
