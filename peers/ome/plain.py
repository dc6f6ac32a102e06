"""Arrays and groups of arrays that know nothing of OME-Zarr become images."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from . import judges, tree
from .documents import TYPES
from .draw import draw
from .moves import zarr_format
from .program import Shardine

KINDS = ("zarr3", "zarr2", "levels")


def check(seed: int, folder: Path, shardine: Shardine) -> tuple[str, list[str]]:
    """Converts one array, or a group of them, and compares."""
    dice = random.Random(seed)
    drawn = draw(seed)
    kind = KINDS[seed % len(KINDS)]
    version = dice.choice(("0.5", "0.6", "0.4"))
    source = folder / "in.zarr"
    pyramid = _write(source, kind, drawn)
    scale = [drawn.scale[a] for a in drawn.axes]
    unit = dice.choice(("micrometer", "nanometer"))
    options = ["--axes", drawn.axes, "--scale", ",".join(map(repr, scale)), "--unit", unit]
    target = folder / "out.ome.zarr"
    command: list[Any] = ["convert", source, target, "--to", "ome-zarr", "--ome-version", version]
    shardine.run(*command, *options, "--name", drawn.name)
    failures = [f"{who} minds: {what}" for who, what in judges.complaints(target, version)]
    failures += judges.inconsistencies(target, version)
    failures += _compare(target, version, drawn, pyramid, unit)
    report = shardine.verify(target)
    if not report.ok:
        failures.append(f"verify minds: {report}")
    return f"{kind} to {version}: {drawn.describe()}", failures


def _write(source: Path, kind: str, drawn: Any) -> list[np.ndarray[Any, Any]]:
    pyramid = drawn.pyramid(drawn.dtype)
    if kind == "levels":
        zarr.create_group(source)
        for n, elements in enumerate(pyramid):
            zarr.create_array(source / str(n), data=elements, chunks=_chunks(drawn, elements))
        return pyramid
    form: Any = 3 if kind == "zarr3" else 2
    zarr.create_array(source, data=pyramid[0], chunks=drawn.chunks, zarr_format=form)
    return pyramid[:1]


def _chunks(drawn: Any, elements: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(min(c, s) for c, s in zip(drawn.chunks, elements.shape, strict=True))


def _compare(
    target: Path, version: str, drawn: Any, pyramid: list[np.ndarray[Any, Any]], unit: str
) -> list[str]:
    group = tree.read_group(target)
    if group is None or len(group.ome.get("multiscales", [])) != 1:
        return ["there is no image"]
    (multiscale,) = group.ome["multiscales"]
    failures = []
    if multiscale.get("name") != drawn.name:
        failures.append(f"the name is {multiscale.get('name')!r}")
    for axis, name in zip(tree.axes_of(multiscale), drawn.axes, strict=True):
        expected = {"name": name, "type": TYPES[name]}
        if TYPES[name] == "space":
            expected["unit"] = unit
        if {key: axis.get(key) for key in expected} != expected:
            failures.append(f"the axis {name} is {axis}")
    levels = tree.levels_of(target, multiscale)
    voxels = judges.voxels(target, zarr_format(version))
    if len(levels) != len(pyramid):
        failures.append(f"{len(levels)} levels, not {len(pyramid)}")
    for n, (level, elements) in enumerate(zip(levels, pyramid, strict=False)):
        found = voxels[("", 0, n)]
        if found.dtype != elements.dtype or found.tobytes() != elements.tobytes():
            failures.append(f"level {n}: other voxels")
        failures += _placed(level, n, drawn, pyramid)
    return failures


def _placed(level: tree.Level, n: int, drawn: Any, pyramid: list[np.ndarray[Any, Any]]) -> list[str]:
    """The finest level has the scale that was asked for, the others the ratio of their sizes."""
    failures = []
    for k, axis in enumerate(drawn.axes):
        scale = drawn.scale[axis] * drawn.factors[axis] ** n
        if abs(level.scale[k] - scale) > tree.TOLERANCE * scale:
            failures.append(f"level {n}: the scale of {axis} is {level.scale[k]}, not {scale}")
    if n == 0 and any(level.offset):
        failures.append(f"the finest level begins at {level.offset}")
    return failures
