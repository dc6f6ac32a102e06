"""Rules of Zarr Vectors that are broken on purpose, one at a time, in stores that zarr-vectors has written."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from ome.program import Shardine

from . import by_peer
from .cells import Cell, cells, document, fragments, key_of, manifest, pack_fragments, ragged
from .draw import Case, draw


class Skip(Exception):
    """This store has nothing that could be broken so."""


def put(array: Path, cell: Cell, payload: bytes | None) -> None:
    """Stores other bytes in a cell; the list of chunks stays as it is."""
    origin = document(array)["attributes"].get("chunk_grid_origin") or [0] * len(cell)
    place = tuple(at - o for at, o in zip(cell, origin, strict=True))
    data = np.empty((1,) * len(cell), object)
    data[...] = b"" if payload is None else payload
    zarr.open_array(array, mode="r+")[tuple(slice(at, at + 1) for at in place)] = data


def change(folder: Path, to: Callable[[dict], None]) -> None:
    told = document(folder)
    to(told["attributes"])
    (folder / "zarr.json").write_text(json.dumps(told, indent=1))


def largest(array: Path) -> tuple[Cell, bytes]:
    if not array.exists():
        raise Skip
    stored = cells(array)
    if not stored:
        raise Skip
    return max(stored.items(), key=lambda item: (len(item[1]), item[0]))


def _spans(blob: bytes) -> list[tuple[int, int]]:
    return [(int(rows[0]) if len(rows) else 0, len(rows)) for rows in fragments(blob)]


def fragment_outside(root: Path) -> str:
    array = root / "0/vertex_fragments"
    cell, blob = largest(array)
    spans = _spans(blob)
    spans[-1] = (spans[-1][0], spans[-1][1] + 1000)
    put(array, cell, pack_fragments(spans))
    return "vertex_fragments"


def fragments_leave_rows(root: Path) -> str:
    array = root / "0/vertex_fragments"
    cell, blob = largest(array)
    spans = _spans(blob)
    longest = max(range(len(spans)), key=lambda at: spans[at][1])
    spans[longest] = (spans[longest][0], spans[longest][1] - 1)
    put(array, cell, pack_fragments(spans))
    return "vertex_fragments"


def fragments_no_index(root: Path) -> str:
    array = root / "0/vertex_fragments"
    cell, blob = largest(array)
    put(array, cell, b"XXXX" + blob[4:])
    return "vertex_fragments"


def fragments_cut(root: Path) -> str:
    array = root / "0/vertex_fragments"
    cell, blob = largest(array)
    put(array, cell, blob[:-3])
    return "vertex_fragments"


def fragments_gone(root: Path) -> str:
    array = root / "0/vertex_fragments"
    cell, _ = largest(array)
    put(array, cell, None)
    change(array, lambda told: told["nonempty_chunks"].remove(key_of(cell)))
    return "vertex_fragments"


def vertices_cut(root: Path) -> str:
    array = root / "0/vertices"
    cell, blob = largest(array)
    put(array, cell, blob[:-1])
    return "vertices"


def vertex_elsewhere(root: Path) -> str:
    """A vertex that its chunk has no place for: a box would not find it."""
    array = root / "0/vertices"
    told = document(array)["attributes"]
    cell, blob = largest(array)
    data = np.frombuffer(blob, told["dtype"]).copy()
    chunk = document(root)["attributes"]["zarr_vectors"]["chunk_shape"]
    data[0] += 3 * chunk[0] if data.dtype.kind == "f" else int(3 * chunk[0])
    put(array, cell, data.tobytes())
    return "vertices"


def attribute_cut(root: Path) -> str:
    for array in sorted(root.glob("0/vertex_attributes/*")):
        if array.is_dir():
            cell, blob = largest(array)
            put(array, cell, blob[: -np.dtype(document(array)["attributes"]["dtype"]).itemsize])
            return f"vertex_attributes/{array.name}"
    raise Skip


def code_outside(root: Path) -> str:
    for array in sorted(root.glob("0/vertex_attributes/*")):
        told = (
            document(array)["attributes"]
            if array.is_dir() and (array / "zarr.json").exists()
            else {}
        )
        if told.get("encoding") == "dictionary":
            cell, blob = largest(array)
            codes = np.frombuffer(blob, told["dtype"]).copy()
            codes[0] = 100
            put(array, cell, codes.tobytes())
            return f"vertex_attributes/{array.name}"
    raise Skip


def _family(root: Path, within: bool) -> Path:
    family = root / "0/links/0"
    if not family.exists():
        raise Skip
    for array in sorted(path for path in family.iterdir() if path.is_dir()):
        if (not array.name.replace(".", "").replace("_", "").strip("0")) == within and cells(array):
            return array
    raise Skip


def link_to_nothing(root: Path) -> str:
    """Inside a chunk."""
    array = _family(root, within=True)
    cell, blob = largest(array)
    rows = np.frombuffer(blob, "<i8").copy()
    rows[-1] = 100_000
    put(array, cell, rows.tobytes())
    return "links/0"


def link_across_to_nothing(root: Path) -> str:
    array = _family(root, within=False)
    told = document(array)["attributes"]
    cell, blob = largest(array)
    rows = ragged(blob, told["link_width"] + bool(told.get("has_perm"))).copy()
    rows[-1, -1] = 100_000
    put(array, cell, blob[: len(blob) - rows.nbytes] + rows.tobytes())
    return "links/0"


def permutation_outside(root: Path) -> str:
    array = _family(root, within=False)
    told = document(array)["attributes"]
    if not told.get("has_perm"):
        raise Skip
    cell, blob = largest(array)
    rows = ragged(blob, told["link_width"] + 1).copy()
    rows[0, 0] = 77
    put(array, cell, blob[: len(blob) - rows.nbytes] + rows.tobytes())
    return "links/0"


def _manifest(root: Path, to: Callable[[Cell, int], tuple[Cell, int]]) -> str:
    folder = root / "0/object_index"
    if not folder.exists():
        raise Skip
    axes = document(folder)["attributes"]["sid_ndim"]
    array = zarr.open_array(folder / "manifests", mode="r+")
    rows = array[...]
    blocks = manifest(bytes(rows[0]), axes)
    cell, number = to(*blocks[0])
    blocks[0] = (cell, number)
    body = np.uint32(len(blocks)).tobytes()
    for cell, number in blocks:
        body += np.asarray(cell, "<i8").tobytes() + b"\0" + np.int64(number).tobytes()
    rows[0] = body
    array[...] = rows
    return "object_index"


def manifest_to_no_fragment(root: Path) -> str:
    return _manifest(root, lambda cell, number: (cell, number + 1000))


def manifest_to_no_chunk(root: Path) -> str:
    return _manifest(root, lambda cell, number: (tuple(at + 500 for at in cell), number))


def manifest_cut(root: Path) -> str:
    if not (root / "0/object_index/manifests").exists():
        raise Skip
    array = zarr.open_array(root / "0/object_index/manifests", mode="r+")
    rows = array[...]
    rows[0] = bytes(rows[0])[:-1]
    array[...] = rows
    return "object_index"


def ids_too_few(root: Path) -> str:
    path = root / "0/object_index/object_ids"
    if not path.exists():
        raise Skip
    array = zarr.open_array(path, mode="r+")
    if array.shape[0] < 2:
        raise Skip
    array.resize((array.shape[0] - 1,))
    return "object_index"


def list_forgets(root: Path) -> str:
    """Then zarr-vectors does not see a chunk that is there."""
    change(root / "0/vertices", lambda told: told["nonempty_chunks"].pop())
    return "vertices"


def list_invents(root: Path) -> str:
    array = root / "0/vertices"
    told = document(array)
    origin = told["attributes"].get("chunk_grid_origin") or [0] * len(told["shape"])
    stored = cells(array)
    grid = (
        tuple(int(at) + o for at, o in zip(place, origin, strict=True))
        for place in np.ndindex(*told["shape"])
    )
    empty = next((cell for cell in grid if cell not in stored), None)
    if empty is None:
        raise Skip
    keys = sorted([*told["attributes"]["nonempty_chunks"], key_of(empty)])
    change(array, lambda told: told.update(nonempty_chunks=keys))
    return "vertices"


def bounds_too_small(root: Path) -> str:
    def shrink(told: dict) -> None:
        low, high = told["zarr_vectors"]["bounds"]
        told["zarr_vectors"]["bounds"] = [
            low,
            [a + (b - a) / 4 for a, b in zip(low, high, strict=True)],
        ]

    told = document(root)["attributes"]["zarr_vectors"]["bounds"]
    if told[0] == told[1]:
        raise Skip
    change(root, shrink)
    return ""


def count_wrong(root: Path) -> str:
    change(root / "0", lambda told: told["zarr_vectors_level"].update(vertex_count=123_456))
    return "0"


@dataclass(frozen=True)
class Damage:
    do: Callable[[Path], str]
    """Breaks a store; answers what a finding must be about."""
    severe: bool = True
    """Whether data is lost or wrong; else a notice will do."""

    @property
    def name(self) -> str:
        return self.do.__name__.replace("_", " ")


DAMAGES = [
    Damage(fragment_outside),
    Damage(fragments_leave_rows),
    Damage(fragments_no_index),
    Damage(fragments_cut),
    Damage(fragments_gone),
    Damage(vertices_cut),
    Damage(vertex_elsewhere),
    Damage(attribute_cut),
    Damage(code_outside),
    Damage(link_to_nothing),
    Damage(link_across_to_nothing),
    Damage(permutation_outside),
    Damage(manifest_to_no_fragment),
    Damage(manifest_to_no_chunk),
    Damage(manifest_cut),
    Damage(ids_too_few),
    Damage(list_forgets),
    Damage(list_invents, severe=False),
    Damage(bounds_too_small, severe=False),
    Damage(count_wrong, severe=False),
]

SOURCES = ["points-objects", "points", "graph", "mesh", "polylines", "skeleton", "points-bins"]
"""Stores that are broken. Each damage is done to all that it fits."""


def a_store(seed: int, index: int) -> Case:
    """A store with enough in it to be broken: the first of a few that has attributes and many vertices."""
    flavour = SOURCES[index % len(SOURCES)]
    best = None
    for number in range(40):
        case = draw(seed + 9_000_000, 1000 * index + number, flavour)
        case.factors = []
        words = any(data.dtype.kind == "O" for data in case.geometry.attributes.values())
        score = (bool(case.geometry.attributes), words, min(len(case.geometry.positions), 60))
        if best is None or score > best[0]:
            best = (score, case)
    return best[1]


def check(
    seed: int, index: int, folder: Path, shardine: Shardine
) -> tuple[str, list[str], list[str]]:
    """One store, sound at first, then broken in every way. Also tells which ways there were."""
    case = a_store(seed, index)
    sound = folder / "store"
    by_peer.write(case, sound)
    told, done = [], []
    for verb in (("verify",), ("vectors", "validate")):
        answer = json.loads(shardine.run(*verb, sound, "--json"))
        if not answer["ok"] or answer["findings"]:
            told.append(f"{' '.join(verb)} of a sound store: {answer['findings'][:3]}")
    for damage in DAMAGES:
        copy = folder / damage.name.replace(" ", "-")
        shutil.copytree(sound, copy)
        try:
            about = damage.do(copy)
        except Skip:
            shutil.rmtree(copy)
            continue
        done.append(damage.name)
        report = shardine.verify(copy)
        wanted = [f for f in report.findings if f["severity"] == "damage" or not damage.severe]
        if not wanted:
            told.append(f"{damage.name}: not found; {report}")
        elif about and not any(about in json.dumps(finding) for finding in wanted):
            told.append(f"{damage.name}: no finding is about {about}: {report}")
        else:
            shutil.rmtree(copy)
    return case.describe(), told, done


def sound(case: Case, dice: random.Random, root: Path, shardine: Shardine) -> list[str]:
    """What zarr-vectors has written is in order, whatever it has."""
    arguments = ["--decode"] if dice.random() < 0.5 else []
    report = shardine.verify(root, *arguments)
    return [] if report.ok else [f"verify {arguments}: {report}"]
