"""Pyramids: others judge the documents, TensorStore the voxels; where these lie is computed from the factors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

from . import by_hand, judges, tree
from .draw import draw
from .moves import zarr_format
from .program import Shardine

METHODS = ("mean", "mode", "median", "stride", "max", "min")


def check(seed: int, folder: Path, shardine: Shardine) -> tuple[str, list[str]]:
    """Builds the lower levels of an image and compares them with what they should be."""
    dice = random.Random(seed)
    version = ("0.5", "0.6", "0.4")[seed % 3]
    method = METHODS[seed % len(METHODS)]
    drawn = draw(seed, levels=(1,))
    drawn.labels = []
    image = folder / "image.ome.zarr"
    by_hand.Writer(version).image(image, drawn)
    factors = [dice.choice((1, 2)) if a == "z" else 2 if a in "yx" else 1 for a in drawn.axes]
    levels = dice.choice((2, 3))
    before = tree.snapshot(image / "0")
    shardine.run(
        "pyramid", image, "--levels", str(levels), "--factors", ",".join(map(str, factors)),
        "--method", method,
    )  # fmt: skip
    failures = [f"{who} minds: {what}" for who, what in judges.complaints(image, version)]
    failures += judges.inconsistencies(image, version)
    if tree.snapshot(image / "0") != before:
        failures.append("the finest level has changed")
    failures += _compare(image, version, factors, levels, method)
    report = shardine.verify(image)
    if not report.ok:
        failures.append(f"verify minds: {report}")
    return f"{method} {factors} of {version}: {drawn.describe()}", failures


def _compare(image: Path, version: str, factors: list[int], levels: int, method: str) -> list[str]:
    group = tree.read_group(image)
    if group is None:
        return ["there is no image"]
    (multiscale,) = group.ome["multiscales"]
    found = tree.levels_of(image, multiscale)
    if len(found) != levels:
        return [f"{len(found)} levels, not {levels}"]
    voxels = judges.voxels(image, zarr_format(version))
    failures = []
    finest, power = found[0], [1] * len(factors)
    for n in range(1, levels):
        before, level, elements = found[n - 1], found[n], voxels[("", 0, n)]
        # Of one voxel there is nothing to be made.
        steps = [f if size > 1 else 1 for f, size in zip(factors, before.shape, strict=True)]
        power = [p * step for p, step in zip(power, steps, strict=True)]
        expected = downsample(voxels[("", 0, n - 1)], steps, method)
        floor = [size // step for size, step in zip(before.shape, steps, strict=True)]
        if level.shape not in (list(expected.shape), floor):
            failures.append(f"level {n} has the shape {level.shape}, of {before.shape} by {steps}")
            continue
        failures += _placed(finest, level, power, n, method)
        inner = expected[tuple(slice(0, size) for size in level.shape)]
        if not _equal(elements, inner, method):
            failures.append(f"level {n}: {_difference(elements, inner)}")
    return failures


def _equal(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], method: str) -> bool:
    if method == "mean" and found.dtype.kind == "f":
        return np.allclose(found, expected, rtol=1e-6, atol=0)
    return np.array_equal(found, expected)


def _placed(finest: tree.Level, level: tree.Level, power: list[int], n: int, method: str) -> list[str]:
    """A voxel covers those that it was made of, so its centre is between theirs."""
    failures = []
    for k, p in enumerate(power):
        scale = finest.scale[k] * p
        offset = finest.offset[k] + (p - 1) / 2 * finest.scale[k]
        if abs(level.scale[k] - scale) > tree.TOLERANCE * scale:
            failures.append(f"level {n}: the scale is {level.scale}, of {finest.scale} by {power}")
        elif method != "stride" and abs(level.offset[k] - offset) > tree.TOLERANCE * max(1, abs(offset)):
            failures.append(f"level {n}: the offset is {level.offset}, of {finest.offset} by {power}")
    return failures


def _difference(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    wrong = np.argwhere(found != expected)
    at = tuple(wrong[0])
    return f"{len(wrong)} other voxels, the first at {at}: {found[at]}, not {expected[at]}"


def downsample(elements: np.ndarray[Any, Any], factors: list[int], method: str) -> np.ndarray[Any, Any]:
    """What TensorStore makes of a level. At the edge a block has what is left; half goes to the even one."""
    opened = tensorstore.array(np.ascontiguousarray(elements))
    return np.asarray(tensorstore.downsample(opened, factors, method).read().result())
