"""What `shardine vectors write` has written is read by zarr-vectors, and by the letter of the format."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from ome.program import Shardine

from . import by_peer, defects, files
from .cells import cells, document, inner_codecs, key_of
from .draw import Case, Drawing, draw
from .geometry import Geometry, differences, value_of
from .query import Query
from .reading import a_box, peer_differences
from .stored import Level, arrays, is_grid

FLAVOURS = [
    "points",
    "points-objects",
    "points-bins",
    "lines",
    "polylines",
    "streamlines",
    "graph",
    "graph-objects",
    "skeleton",
    "mesh",
    "mesh-objects",
    "swc",
]
"""What there are inputs for."""

KINDS = {
    "point_cloud": "points",
    "line": "lines",
    "polyline": "polylines",
    "streamline": "streamlines",
}
CODECS = [None, "zstd:3", "zstd:0", "gzip:5", "blosc:zstd:5:shuffle", "none"]
NAMES = {"zstd": "zstd", "gzip": "gzip", "blosc": "blosc"}


def a_case(seed: int, index: int, flavour: str) -> tuple[Case, str, random.Random]:
    """A case that there is an input for, and the input's ending."""
    dice = random.Random(f"write {seed} {index}")
    case = draw(seed + 7_000_000, index, "skeleton" if flavour == "swc" else flavour)
    own = case.geometry
    case.factors, case.groups, case.link_attributes = [], {}, {}
    mesh = flavour in ("mesh", "mesh-objects")
    if own.positions.dtype.kind == "i":
        own.positions = own.positions.astype("f4")
    if (mesh or flavour == "swc") and case.axes != 3:
        more = np.zeros((len(own.positions), 3 - case.axes), own.positions.dtype)
        own.positions = np.concatenate([own.positions, more], axis=1)
        case.chunk = (*case.chunk, 10.0)
        case.shard = None
    if flavour == "lines":
        own.attributes = {}
    elif flavour in ("points", "points-bins", "graph", "mesh", "swc"):
        # Without ids in the table there is one object, or none.
        case.object_attributes = {}
    else:
        if mesh:
            # A .ply file has numbers of 32 bits.
            own.object_ids = np.searchsorted(case.ids, own.object_ids)
        _more_of_objects(case, seed, index, dice)
        own = case.geometry
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
    forms = ["csv", "parquet", "arrow"]
    if flavour == "points":
        forms += ["npy", "ply"] if case.axes == 3 else ["npy"]
    if mesh:
        # An .obj file has no ids.
        forms += ["obj", "ply", "binary.ply"][flavour == "mesh-objects" :]
    form = dice.choice(forms)
    if form in ("npy", "obj", "ply", "binary.ply"):
        own.attributes = {}
    if form == "csv":
        # Text has no types of its own: whole numbers, numbers, words.
        own.attributes = {
            name: data.astype({"i": "i8", "u": "i8", "f": "f8"}.get(data.dtype.kind, data.dtype))
            for name, data in own.attributes.items()
            if data.ndim == 1 and data.dtype != np.uint64 and data.dtype.kind != "b"
        }
    return case, form, dice


def _more_of_objects(case: Case, seed: int, index: int, dice: random.Random) -> None:
    """Rows of objects in turns, attributes of every type, and groups."""
    own = case.geometry
    rng = np.random.default_rng([seed, index, 3])
    if dice.random() < 0.5:
        # The rows of an object stay in order, which is that of a path.
        turn = rng.random(len(own.positions))
        for number in case.ids:
            rows = own.object_ids == number
            turn[rows] = np.sort(turn[rows])
        case.geometry = own = own.take(np.argsort(turn, kind="stable"))
    count = len(case.ids)
    drawing = Drawing(seed + 11, index)
    for name in dice.sample(["half", "flag", "word", "pair"], dice.randint(0, 2)):
        case.object_attributes[name] = {
            "half": lambda: drawing.numbers("f2", count),
            "flag": lambda: drawing.numbers("?", count),
            "word": lambda: np.array(["axon", "ünïcode", 'a,b "c"'], object)[
                rng.integers(0, 3, count)
            ],
            "pair": lambda: drawing.numbers(dice.choice(["u1", "i4", "f4"]), (count, 2)),
        }[name]()
    if dice.random() < 0.5:
        case.groups = {
            dice.randrange(6): sorted(dice.sample(case.ids, dice.randint(1, count)))
            for _ in range(dice.randint(1, 3))
        }


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
        if own.kind in ("graph", "skeleton", "mesh"):
            edges = folder / "input-edges.csv"
            files.edges(edges, own.links)
            return path, ["--edges", str(edges)]
    return path, []


def _tables(case: Case, folder: Path, dice: random.Random) -> tuple[list[str], np.ndarray]:
    """Files with attributes and groups of objects, and which objects have attributes."""
    present = np.ones(len(case.ids), bool)
    more = []
    if case.object_attributes and case.geometry.kind != "line":
        form = dice.choice(["csv", "parquet", "arrow"])
        if form == "csv":
            for name in [n for n, d in case.object_attributes.items() if d.ndim > 1]:
                del case.object_attributes[name]
        rows = list(range(len(case.ids)))
        dice.shuffle(rows)
        rows = rows[: dice.choice([len(rows), len(rows), (len(rows) + 1) // 2])]
        present = np.isin(np.arange(len(case.ids)), rows)
        columns = {"object_id": np.asarray(case.ids, np.int64)[rows]}
        columns |= {name: data[rows] for name, data in case.object_attributes.items()}
        path = folder / f"objects.{form}"
        if case.object_attributes:
            files.columns(path, columns)
            more += ["--object-attributes", str(path)]
    if case.groups:
        members = [(group, one) for group, own in case.groups.items() for one in own]
        dice.shuffle(members)
        pairs = np.asarray(members, np.int64)
        path = folder / f"groups.{dice.choice(['csv', 'parquet', 'arrow'])}"
        files.columns(path, {"group": pairs[:, 0], "object_id": pairs[:, 1]})
        more += ["--groups", str(path)]
    return more, present


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
    by_peer.write(replace(case, shard=None, compressor=None, object_attributes={}, groups={}), other)
    told = []
    for name in ("vertices", "vertex_fragments"):
        ours, theirs = cells(root / "0" / name), cells(other / "0" / name)
        wrong = [cell for cell in theirs if ours.get(cell) != theirs[cell]]
        if wrong or len(ours) != len(theirs):
            told.append(
                f"0/{name}: {len(wrong)} of {len(theirs)} cells are not those of zarr-vectors, {wrong[:2]}"
            )
    return told


def _alike(want: np.ndarray, got: np.ndarray) -> bool:
    if want.dtype.kind == "O":
        return want.tolist() == got.tolist()
    return want.shape == got.shape and np.array_equal(
        got.astype("f8"), want.astype("f8"), equal_nan=True
    )


def _of_objects(case: Case, root: Path, present: np.ndarray, *, typed: bool) -> list[str]:
    """What zarr-vectors reads of objects."""
    from zarr_vectors.core import arrays as peer
    from zarr_vectors.core.store import get_resolution_level, open_store

    told = []
    level = get_resolution_level(open_store(str(root), mode="r"), 0)
    for name, want in case.object_attributes.items():
        if not (root / "0" / "object_attributes" / name).exists():
            told.append(f"there is no object attribute {name}")
            continue
        got = peer.read_object_attributes(level, name)
        mask = peer.read_object_attribute_present_mask(level, name)
        mask = np.ones(len(got), bool) if mask is None else mask.astype(bool)
        want_mask = present.copy()
        if want.dtype.kind == "f":
            # A value that is no number is none.
            want_mask &= ~np.isnan(want).reshape(len(want), -1).all(axis=1)
        if len(got) != len(want) or not np.array_equal(mask, want_mask):
            told.append(f"object attribute {name}: {mask} have a value, not {want_mask}")
        elif not _alike(want[mask], got[mask]):
            told.append(f"object attribute {name} is {got[:3]}, not {want[:3]}")
        kind = np.dtype("i1") if want.dtype.kind == "b" else want.dtype
        if typed and want.dtype.kind != "O" and got.dtype != kind:
            told.append(f"object attribute {name} is {got.dtype}, not {kind}")
    if case.groups:
        got = peer.read_all_groupings(level)
        got = {n: list(got[n]) for n in range(len(got)) if len(got[n])}
        if got != case.groups:
            told.append(f"groups are {got}, not {case.groups}")
    return told


def _queried(case: Case, root: Path, present: np.ndarray, query: Query) -> list[str]:
    """What a query gives of objects and groups."""
    got = query.ask(links=False)
    told = []
    for name, data in case.object_attributes.items():
        column = query.others.get(name)
        if column is None:
            told.append(f"query: there is no column {name}")
            continue
        want = {
            number: value_of(data[at]) if present[at] else None
            for at, number in enumerate(case.ids)
        }
        for number, value in zip(got.object_ids.tolist(), column.tolist(), strict=True):
            one, other = want[number], value_of(value)
            if other != one and not (is_none(one) and is_none(other)):
                told.append(f"query: {name} of object {number} is {other}, not {one}")
                break
    for group, members in case.groups.items():
        got = query.ask("--groups", group, links=False)
        if sorted(set(got.object_ids.tolist())) != members:
            told.append(f"query: group {group} is {sorted(set(got.object_ids.tolist()))}")
    return told


def is_none(value: object) -> bool:
    """Whether a value, or all of its numbers, are none."""
    if isinstance(value, tuple):
        return all(map(is_none, value))
    return value is None or value == "NaN"


def check(
    seed: int, index: int, flavour: str, folder: Path, shardine: Shardine
) -> tuple[str, list[str]]:
    """One input, written and read back."""
    case, form, dice = a_case(seed, index, flavour)
    own: Geometry = case.geometry
    tables, present = _tables(case, folder, dice)
    path, more = _input(case, form, folder)
    more += tables
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
    told += [f"by the letter: {text}" for text in differences(want, got, halves=True)]
    typed = "csv" not in (form, *(Path(one).suffix[1:] for one in tables))
    told += [f"zarr-vectors: {text}" for text in _of_objects(case, root, present, typed=typed)]
    query = Query(shardine, root, folder, own.kind, want)
    if case.object_attributes or case.groups:
        told += _queried(case, root, present, query)
    case.geometry = want
    told += [f"zarr-vectors reads: {text}" for text in peer_differences(case, root, halves=True)]
    if own.kind == "point_cloud":
        told += _as_peer(case, root, folder)
        low, high = a_box(dice, want)
        if "bins and objects" not in defects.of(case):
            got = by_peer.read(root, bbox=(low.tolist(), high.tolist()))
            boxed = want.in_box(low, high)
            told += [f"zarr-vectors in a box: {t}" for t in differences(boxed, got, ids=False, halves=True)]
    told += [f"zarr-vectors complains: {text}" for text in by_peer.complaints(root)]
    report = shardine.verify(root)
    if not report.ok:
        told.append(f"verify: {report}")
    return name, told
