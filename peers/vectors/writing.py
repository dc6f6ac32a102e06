"""What `shardine vectors write` has written is read by zarr-vectors, and by the letter of the format."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import zarr
from ome.program import Shardine

from . import by_peer, defects, files
from .cells import cells, document, inner_codecs, key_of
from .draw import Case, Drawing, draw
from .geometry import Geometry, differences
from .reading import a_box, peer_differences
from .stored import Level, arrays, is_grid

FLAVOURS = [
    "points",
    "points-objects",
    "points-bins",
    "lines",
    "polylines",
    "graph",
    "graph-objects",
    "skeleton",
    "mesh",
    "swc",
]
"""What there are inputs for."""

KINDS = {"point_cloud": "points", "line": "lines", "polyline": "polylines"}
CODECS = [None, "zstd:3", "zstd:0", "gzip:5", "blosc:zstd:5:shuffle", "none"]
NAMES = {"zstd": "zstd", "gzip": "gzip", "blosc": "blosc"}


def a_case(seed: int, index: int, flavour: str) -> tuple[Case, str, random.Random]:
    """A case that there is an input for, and the input's ending."""
    dice = random.Random(f"write {seed} {index}")
    case = draw(seed + 7_000_000, index, "skeleton" if flavour == "swc" else flavour)
    own = case.geometry
    case.factors, case.groups, case.link_attributes = [], {}, {}
    if own.positions.dtype.kind == "i":
        own.positions = own.positions.astype("f4")
    if flavour in ("mesh", "swc") and case.axes != 3:
        more = np.zeros((len(own.positions), 3 - case.axes), own.positions.dtype)
        own.positions = np.concatenate([own.positions, more], axis=1)
        case.chunk = (*case.chunk, 10.0)
        case.shard = None
    if flavour == "lines":
        own.attributes = {}
    else:
        # Only of lines a row of a table is an object.
        case.object_attributes = {}
    if flavour == "swc":
        # One file is one tree.
        case.geometry = own = own.of_ids(case.ids[:1])
        own.object_ids = np.zeros(len(own.positions), np.int64)
        rng = Drawing(seed, index).rng
        own.positions = own.positions.astype("f4")
        own.attributes = {
            "radius": rng.random(len(own.positions)).astype("f4"),
            "type": rng.integers(0, 7, len(own.positions)),
        }
        return case, "swc", dice
    if flavour == "mesh":
        own.attributes = {}
        return case, dice.choice(["obj", "ply", "binary.ply"]), dice
    forms = ["csv", "parquet", "arrow"]
    if flavour == "points":
        forms += ["npy", "ply"] if case.axes == 3 else ["npy"]
    form = dice.choice(forms)
    if form in ("npy", "ply"):
        own.attributes = {}
    if form == "csv":
        # Text has no types of its own: whole numbers, numbers, words.
        own.attributes = {
            name: data.astype({"i": "i8", "u": "i8", "f": "f8"}.get(data.dtype.kind, data.dtype))
            for name, data in own.attributes.items()
            if data.ndim == 1 and data.dtype != np.uint64 and data.dtype.kind != "b"
        }
        case.object_attributes = {
            n: d for n, d in case.object_attributes.items() if d.dtype.kind != "u"
        }
    return case, form, dice


def _input(case: Case, form: str, folder: Path) -> tuple[Path, list[str]]:
    path = folder / f"input.{form.split('.')[-1]}"
    own = case.geometry
    if form == "swc":
        files.swc(path, own, own.attributes["radius"], own.attributes["type"])
    elif form == "obj":
        files.obj(path, own)
    elif form.endswith("ply"):
        files.ply(path, own, binary=form != "ply")
    elif form == "npy":
        files.npy(path, own)
    else:
        files.table(path, case)
        if own.kind in ("graph", "skeleton"):
            edges = folder / "input-edges.csv"
            files.edges(edges, own.links)
            return path, ["--edges", str(edges)]
    return path, []


def _numbers(values: tuple) -> str:
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _packing(root: Path, shard: list[int] | None, codec: str | None) -> list[str]:
    told = []
    for array in arrays(root):
        if not is_grid(root, array):
            continue
        metadata = document(array)
        inner, now = inner_codecs(metadata)
        name = array.relative_to(root)
        if now != shard:
            told.append(f"{name}: packed by {now}, not {shard}")
        if codec is not None:
            wanted = [] if codec == "none" else [NAMES[codec.split(":")[0]]]
            if [one["name"] for one in inner[1:]] != wanted:
                told.append(f"{name}: the codecs are {inner}, asked for was {codec}")
        stored = cells(array)
        if metadata["attributes"].get("nonempty_chunks") != sorted(map(key_of, stored)):
            told.append(f"{name}: nonempty_chunks is not what is stored, in the order of its text")
    return told


def _placed(level: Level, chunk: tuple[float, ...]) -> list[str]:
    """Every vertex lies in the chunk whose cell has it, and every row in one fragment."""
    told = []
    for cell, at in level.vertices.items():
        if (np.floor(at.astype("f8") / np.asarray(chunk)) != cell).any():
            told.append(f"chunk {cell} has vertices of others")
        rows = np.sort(np.concatenate([np.zeros(0, np.int64), *level.fragments.get(cell, [])]))
        if not np.array_equal(rows, np.arange(len(at))):
            told.append(f"the fragments of {cell} do not tile its {len(at)} rows")
    return told[:3]


def _as_peer(case: Case, root: Path, folder: Path) -> list[str]:
    """Whether the cells are those that zarr-vectors itself writes. Points have one right order only."""
    other = folder / "by-zarr-vectors"
    by_peer.write(replace(case, shard=None, compressor=None, object_attributes={}), other)
    told = []
    for name in ("vertices", "vertex_fragments"):
        ours, theirs = cells(root / "0" / name), cells(other / "0" / name)
        wrong = [cell for cell in theirs if ours.get(cell) != theirs[cell]]
        if wrong or len(ours) != len(theirs):
            told.append(
                f"0/{name}: {len(wrong)} of {len(theirs)} cells are not those of zarr-vectors, {wrong[:2]}"
            )
    return told


def _object_attributes(case: Case, root: Path) -> list[str]:
    told = []
    for name, want in case.object_attributes.items():
        path = root / "0" / "object_attributes" / name
        if not path.exists():
            told.append(f"there is no object attribute {name}")
            continue
        got = zarr.open_array(path, mode="r")[...]
        if len(got) != len(want) or not np.array_equal(
            got.astype("f8"), want.astype("f8"), equal_nan=True
        ):
            told.append(f"object attribute {name} is {got[:3]}, not {want[:3]}")
    return told


def check(
    seed: int, index: int, flavour: str, folder: Path, shardine: Shardine
) -> tuple[str, list[str]]:
    """One input, written and read back."""
    case, form, dice = a_case(seed, index, flavour)
    own: Geometry = case.geometry
    path, more = _input(case, form, folder)
    root = folder / "store"
    shard = dice.choice(
        [None, 2, (4,) * case.axes, tuple(dice.choice([1, 2, 3]) for _ in range(case.axes))]
    )
    codec = dice.choice(CODECS)
    command = ["--kind", KINDS.get(own.kind, own.kind), "--chunk", _numbers(case.chunk), *more]
    if case.bin:
        command += ["--bin", _numbers(case.bin)]
    if isinstance(shard, int):
        shard = (shard,) * case.axes
    if shard:
        command += ["--shard", _numbers(shard)]
    if codec:
        command += ["--codec", codec]
    if dice.random() < 0.3:
        command += ["--memory", "64MiB"]
    shardine.run("vectors", "write", root, path, *command)
    name = f"{form} {' '.join(command)}, {case.describe()}"

    level = Level(root)
    shape = None if not shard or set(shard) == {1} else list(shard)
    told = _packing(root, shape, codec) + _placed(level, case.chunk)
    got = level.geometry()
    # CSV, OBJ and SWC are text: their numbers may become either kind of float.
    want = own
    if form in ("csv", "obj", "swc"):
        want = replace(own, positions=own.positions.astype(got.positions.dtype))
        names = {
            n: data.astype(got.attributes[n].dtype)
            for n, data in own.attributes.items()
            if n in got.attributes
            and data.dtype.kind in "fi"
            and got.attributes[n].dtype.kind in "fiu"
        }
        want.attributes = {**own.attributes, **names}
    told += [f"by the letter: {text}" for text in differences(want, got)]
    told += _object_attributes(case, root)
    case.geometry = want
    told += [f"zarr-vectors reads: {text}" for text in peer_differences(case, root)]
    if own.kind == "point_cloud":
        told += _as_peer(case, root, folder)
        low, high = a_box(dice, want)
        if "bins and objects" not in defects.of(case):
            got = by_peer.read(root, bbox=(low.tolist(), high.tolist()))
            boxed = want.in_box(low, high)
            told += [f"zarr-vectors in a box: {t}" for t in differences(boxed, got, ids=False)]
    told += [f"zarr-vectors complains: {text}" for text in by_peer.complaints(root)]
    report = shardine.verify(root)
    if not report.ok:
        told.append(f"verify: {report}")
    return name, told
