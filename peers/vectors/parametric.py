"""Parametric objects: planes, lines and spheres, which have no vertices."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from ome.program import Shardine

SIZES = {"plane": 4, "line": 6, "sphere": 4}


def check(seed: int, index: int, folder: Path, shardine: Shardine) -> tuple[str, list[str]]:
    """They are seen, and survive when the rest of the store is repacked."""
    from zarr_vectors.types.parametric import read_parametric_objects, write_parametric_objects
    from zarr_vectors.types.points import write_points

    rng = np.random.default_rng([seed, index])
    root = folder / "store"
    names = [str(name) for name in rng.choice(list(SIZES), rng.integers(1, 9))]
    objects = [{"type": name, "coefficients": rng.random(SIZES[name]).tolist()} for name in names]
    alone = index % 2 == 0
    if not alone:
        write_points(str(root), rng.random((50, 3)) * 100, chunk_shape=(20.0,) * 3)
    write_parametric_objects(str(root), objects, create_new_store=alone)
    before = read_parametric_objects(str(root))
    told = []
    answer = shardine.run("vectors", "info", root, "--json")
    if "parametric" not in answer or str(len(objects)) not in answer:
        told.append(f"info says nothing of {len(objects)} parametric objects: {answer[:300]}")
    out = folder / "points.csv"
    shardine.run("vectors", "query", root, "-o", out)
    rows = list(csv.DictReader(out.open(newline="")))
    # A store of nothing else answers with its objects; beside points they have to be asked for.
    if not alone:
        if len(rows) != 50:
            told.append(f"a query gives {len(rows)} points of 50")
        out = folder / "shapes.csv"
        shardine.run("vectors", "query", root, "--parametric", "-o", out)
        rows = list(csv.DictReader(out.open(newline="")))
    got = [
        (row["type"], [float(row[f"c{at}"]) for at in range(SIZES.get(row["type"], 0))])
        for row in rows
    ]
    if got != [(each["type"], each["coefficients"]) for each in objects]:
        told.append(f"a query gives {got[:2]}, {len(got)} objects of {len(objects)}")
    if [int(row["object_id"]) for row in rows] != list(range(len(objects))):
        told.append("objects are not numbered from 0")
    report = json.loads(shardine.run("verify", root, "--json"))
    if report["findings"]:
        told.append(f"verify: {report['findings'][:2]}")
    for arguments in (["shard", root, "--chunks-per-shard", "8"], ["unshard", root]):
        shardine.run(*arguments)
        if read_parametric_objects(str(root)) != before:
            told.append(f"{arguments[0]} changes parametric objects")
    return f"{len(objects)} parametric objects{'' if alone else ' beside points'}", told
