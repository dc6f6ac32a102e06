"""The coarser levels that `shardine pyramid` makes are those of zarr-vectors' `build_pyramid`."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from ome.program import ProgramError, Shardine

from . import by_peer
from .cells import cells, document, inner_codecs, key_of, ragged
from .draw import Case, draw
from .geometry import differences, once
from .query import Query
from .stored import Level, arrays, is_grid, levels

FLAVOURS = [
    "points",
    "points-objects",
    "points-bins",
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
"""What zarr-vectors can coarsen; chunks that are cut by an attribute it cannot."""


def a_case(seed: int, index: int, flavour: str) -> tuple[Case, random.Random]:
    dice = random.Random(f"pyramid {seed} {index}")
    case = draw(seed + 5_000_000, index, flavour)
    case.factors = []
    return case, dice


def _levels(dice: random.Random) -> tuple[list[tuple[float, float]], list[int] | None, int]:
    count = dice.choice([1, 2, 2, 3])
    factors = [
        (dice.choice([1, 1.5, 2, 2, 3, 4, 10]), dice.choice([1, 1, 1.5, 2, 3, 8]))
        for _ in range(count)
    ]
    scales = None
    if dice.random() < 0.3:
        # Bins that are shorter than chunks must fill them.
        factors = [(dice.choice([2, 4]), sparsity) for _, sparsity in factors]
        scales = [dice.choice([1, 2]) for _ in factors]
    return factors, scales, dice.choice([0, 7, 2**40 + 1])


def _numbers(values: list) -> str:
    return ",".join(f"{value:g}" for value in values)


def _attributes(folder: Path) -> dict[str, Any]:
    return document(folder).get("attributes") or {}


def _same_links(ours: Path, theirs: Path, name: str) -> list[str]:
    one, two = cells(ours), cells(theirs)
    if one == two:
        return []
    wrong = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    return [f"{name}: {len(wrong)} of {len(two)} cells differ, the first {wrong[0]}"]


def same_levels(ours: Path, theirs: Path, *, links: bool) -> list[str]:
    """Cell by cell and document by document; only packing and compression are our own."""
    told = []
    nodes = {
        root: {path.parent.relative_to(root) for path in root.rglob("zarr.json")}
        for root in (ours, theirs)
    }
    here, there = nodes[ours], nodes[theirs]
    if not links:
        # The group of links itself is there if there are links.
        kept = {
            root: {n for n in found if not _is_joined(n) and n.parts[1:] != ("links",)}
            for root, found in nodes.items()
        }
        here, there = kept[ours], kept[theirs]
    if here != there:
        told.append(f"nodes: missing {sorted(there - here)[:3]}, more {sorted(here - there)[:3]}")
    for node in sorted(here & there):
        one, two = document(ours / node), document(theirs / node)
        attributes = [dict(side.get("attributes") or {}) for side in (one, two)]
        if str(node) == ".":
            # The name is that of the folder.
            for side in attributes:
                side["ome"] = {**side["ome"], "name": ""}
        if attributes[0] != attributes[1]:
            names = [
                key
                for key in attributes[0].keys() | attributes[1].keys()
                if attributes[0].get(key) != attributes[1].get(key)
            ]
            sides = [json.dumps(side.get(names[0]))[:300] for side in attributes]
            told.append(f"{node}: attribute {names[0]} is {sides[0]}, not {sides[1]}")
        if one["node_type"] != "array":
            continue
        if one["shape"] != two["shape"] or one["data_type"] != two["data_type"]:
            told.append(f"{node}: {one['shape']} {one['data_type']}, not {two['shape']}")
        elif is_grid(ours, ours / node):
            told += _same_links(ours / node, theirs / node, str(node))
        elif "manifests" not in node.parts:
            sides = [zarr.open_array(root / node, mode="r")[...] for root in (ours, theirs)]
            if not np.array_equal(*sides, equal_nan=sides[0].dtype.kind == "f"):
                told.append(f"{node}: {sides[0][:4]}, not {sides[1][:4]}")
        elif Level(ours, int(node.parts[0])).manifests != Level(theirs, int(node.parts[0])).manifests:
            told.append(f"{node}: other manifests")
    return told


def _is_joined(node: Path) -> bool:
    return len(node.parts) > 2 and node.parts[1] == "links" and node.parts[2] in ("+1", "-1")


def _packing(array: Path) -> tuple[list, list[int] | None]:
    codecs, shard = inner_codecs(document(array))
    return [(codec["name"], codec.get("configuration") or {}) for codec in codecs], shard


def joined(root: Path, level: int) -> list[str]:
    """Every link leads from a vertex to one of the coarser level whose bin has it, and back."""
    entry = document(root)["attributes"]["multiscales"][0]["datasets"][level + 1]
    bin_shape = 2 * np.asarray(entry["coordinateTransformations"][1]["translation"])
    fine, coarse = Level(root, level), Level(root, level + 1)
    shapes = [
        np.asarray(_attributes(root / str(n))["zarr_vectors_level"].get("chunk_shape")
                   or document(root)["attributes"]["zarr_vectors"]["chunk_shape"])
        for n in (level, level + 1)
    ]
    scale = np.round(shapes[1] / shapes[0]).astype(np.int64)
    pairs: list[set] = [set(), set()]
    for side, (owner, family) in enumerate([(level, "+1"), (level + 1, "-1")]):
        for array in sorted((root / str(owner) / "links" / family).glob("*/zarr.json")):
            offset = np.asarray(document(array.parent)["attributes"]["offsets"][0])
            for cell, blob in cells(array.parent).items():
                at = np.asarray(cell)
                other = tuple((offset + (at // scale if side == 0 else at * scale)).tolist())
                for a, b in ragged(blob, 2).tolist():
                    ends = ((cell, a), (other, b)) if side == 0 else ((other, b), (cell, a))
                    pairs[side].add(ends)
    told = []
    if pairs[0] != pairs[1]:
        told.append(f"level {level}: links up and down are not the same")
    for (chunk, row), (other, number) in pairs[0]:
        one = fine.vertices[chunk][row].astype("f4")
        two = coarse.vertices[other][number]
        near = np.abs(one.astype("f8") - two) <= bin_shape * (1 + 1e-6)
        if not near.all():
            told.append(f"level {level}: {one} is joined to {two}, bins are {bin_shape}")
            break
    return told


def _files(root: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in root.rglob("*")
        if path.is_file()
    }


def _stored(root: Path) -> list[str]:
    told = []
    finest = _packing(root / "0" / "vertices")
    for array in arrays(root):
        name = array.relative_to(root)
        if not is_grid(root, array) or (name.parts[0] == "0" and not _is_joined(name)):
            continue
        if _packing(array) != finest:
            told.append(f"{name}: it is not stored like the finest level")
        if _attributes(array).get("nonempty_chunks") != sorted(map(key_of, cells(array))):
            told.append(f"{name}: nonempty_chunks is not what is stored")
    return told


def check(
    seed: int, index: int, flavour: str, folder: Path, shardine: Shardine
) -> tuple[str, list[str], list[str]]:
    """Makes the levels of a store twice, by each side, and compares them."""
    from zarr_vectors.multiresolution.coarsen import build_pyramid

    case, dice = a_case(seed, index, flavour)
    root, other = folder / "store", folder / "by-zarr-vectors"
    by_peer.write(case, root)
    shutil.copytree(root, other)
    factors, scales, number = _levels(dice)
    name = f"{factors} chunks {scales} seed {number}, {case.describe()}"
    command = [
        "--coarsen", _numbers([f for f, _ in factors]), "--sparsity",
        _numbers([s for _, s in factors]), "--seed", str(number), "--levels", str(len(factors) + 1),
    ]  # fmt: skip
    if scales:
        command += ["--chunk-scale", _numbers(scales)]
    try:
        build_pyramid(
            str(other), factors=factors, sparsity_seed=number, chunk_scale_factors=scales
        )
        refused = None
    except Exception as error:  # noqa: BLE001 a peer may raise anything
        refused = repr(error)
    # It reads vertices as float32 when it makes links, whatever they are.
    links = case.geometry.positions.dtype == np.float32
    if refused is not None and (links or "MetadataError" in refused):
        try:
            shardine.run("pyramid", root, *command, status=2)
        except ProgramError as error:
            return name, [f"zarr-vectors refuses ({refused}): {error}"], ["refused by both"]
        return name, [], ["refused by both"]
    if dice.random() < 0.3:
        command += ["--memory", "64MiB"]
    shardine.run("pyramid", root, *command)
    met = ["links compared" if links else "links by rule", f"levels {len(factors)}"]
    told = []
    if refused is None:
        told += same_levels(root, other, links=links)
    for level in range(len(factors)):
        told += joined(root, level)
    told += _stored(root)
    told += [f"zarr-vectors complains: {text}" for text in by_peer.complaints(root)]
    # Where it reads vertices as another type, it may also join some that do not exist.
    for side in [root, other] if links and refused is None else [root]:
        report = shardine.verify(side)
        if not report.ok:
            told.append(f"verify of {side.name}: {report}")
    for level in levels(root)[1:]:
        want = Level(root, level).geometry()
        if refused is None:
            sides = [by_peer.read(side, level=level) for side in (root, other)]
            told += [f"zarr-vectors reads level {level}: {t}" for t in differences(*sides)]
        query = Query(shardine, root, folder, want.kind, replace(want))
        got = query.ask("--level", level)
        if not want.is_path:
            want, got = once(want), once(got)
        told += [f"query of level {level}: {t}" for t in differences(want, got, links=False)]
    before = _files(root)
    again = shardine.run("pyramid", root, *command)
    if "nothing was done" not in again or _files(root) != before:
        told.append(f"a second run does something: {again}")
    left = [path.name for path in root.rglob(".shardine-*")]
    return name, told + ([f"left behind: {left[:3]}"] if left else []), met
