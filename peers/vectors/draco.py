"""Meshes in Draco streams, which zarr-vectors writes and cannot read: judged by DracoPy and by what was written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
from ome.program import ProgramError, Shardine

from .cells import cells, document, ragged
from .geometry import Geometry
from .query import Query

BITS = 11


def _corners(positions: np.ndarray, faces: np.ndarray) -> Counter:
    """Faces by the places of their corners, from the smallest on; which way round is kept."""
    answer: Counter = Counter()
    for face in faces.tolist():
        ends = [tuple(positions[row].tolist()) for row in face]
        first = ends.index(min(ends))
        answer[tuple(ends[first:] + ends[:first])] += 1
    return answer


def _decoded(root: Path) -> tuple[np.ndarray, np.ndarray]:
    """What DracoPy finds in the cells, chunk by chunk."""
    import DracoPy

    positions, faces, base = [np.zeros((0, 3), "f4")], [np.zeros((0, 3), int)], 0
    for _, data in sorted(cells(root / "0" / "vertices").items()):
        found = DracoPy.decode(data)
        own = np.asarray(found.points, "f4").reshape(-1, 3)
        positions.append(own)
        if getattr(found, "faces", None) is not None:
            faces.append(np.asarray(found.faces, int).reshape(-1, 3) + base)
        base += len(own)
    return np.concatenate(positions), np.concatenate(faces)


def _near(given: np.ndarray, got: np.ndarray, step: float) -> bool:
    """Whether every vertex is one of those that were given, within what quantisation does to it."""
    return all(np.abs(given - row).max(axis=1).min() <= step for row in got)


def check(seed: int, index: int, folder: Path, shardine: Shardine) -> tuple[str, list[str]]:
    from zarr_vectors.types.meshes import write_mesh

    rng = np.random.default_rng([seed, index, 7])
    count = int(rng.choice([3, 12, 80, 400]))
    at = (rng.random((count, 3)) * 100).astype("f4")
    # Faces between near vertices, so that most lie inside a chunk.
    faces = []
    for row in range(count):
        near = np.argsort(np.abs(at - at[row]).sum(axis=1))[:4]
        faces.append([row, *rng.choice(near[1:] if len(near) > 3 else [(row + 1) % 3, (row + 2) % 3], 2, replace=False)])
    faces = np.asarray(faces, np.int64)
    faces = faces[[len(set(face)) == 3 for face in faces.tolist()]]
    edge = float(rng.choice([20.0, 50.0, 200.0]))
    shard = [None, 2, 4][index % 3]
    root = folder / "store"
    write_mesh(
        str(root), at, faces, chunk_shape=(edge,) * 3, encoding="draco", draco_quantization_bits=BITS,
        compressor=[None, "zstd"][index % 2], shard_shape=shard,
        vertex_attributes={"radius": rng.random(count).astype("f4")},
    )
    told = []
    want, inside = _decoded(root)
    # Draco says where a vertex is in steps of the longest edge of a chunk's box.
    if not _near(at, want, edge / (2**BITS - 1)):
        told.append("DracoPy itself finds vertices that were not given")
    query = Query(shardine, root, folder, "mesh", Geometry("mesh", at))
    got = query.ask()
    if Counter(map(tuple, want.tolist())) != Counter(map(tuple, got.positions.tolist())):
        apart = np.abs(np.sort(want, axis=0) - np.sort(got.positions, axis=0)).max() if len(want) == len(got.positions) else None
        told.append(f"{len(got.positions)} vertices, DracoPy has {len(want)}, at most {apart} apart")
    mine, theirs = _corners(got.positions, got.links), _corners(want, inside)
    if mine != theirs:
        told.append(f"faces: missing {sum((theirs - mine).values())}, too many {sum((mine - theirs).values())}")
    across = 0
    for array in sorted((root / "0" / "links" / "0").glob("*/zarr.json")):
        told_of = document(array.parent)["attributes"]
        if set(array.parent.name) - set("0._"):
            across += sum(
                len(ragged(data, 3 + bool(told_of.get("has_perm"))))
                for data in cells(array.parent).values()
            )
    notes = json.loads(shardine.run("vectors", "query", root, "--json"))["notes"]
    said = [note for note in notes if "links between chunks are left out" in note]
    if bool(across) != bool(said) or (said and not said[0].startswith(f"{across} ")):
        told.append(f"{across} faces join chunks, and the notes are {notes}")
    if not any("radius is left out" in note for note in notes):
        told.append(f"that the attribute is left out is not said: {notes}")
    if across:
        try:
            shardine.run("vectors", "query", root, "--strict", status=2)
        except ProgramError as error:
            told.append(f"--strict: {error}")
    return f"{count} vertices, {len(faces)} faces, chunk {edge}, shard {shard}", told
