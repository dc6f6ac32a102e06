"""Pyramids: others judge the documents, numpy the voxels, and where they lie is computed from the factors."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

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
    finest = found[0]
    for n in range(1, levels):
        power = [factor**n for factor in factors]
        level, elements = found[n], voxels[("", 0, n)]
        shape = [-(-size // p) for size, p in zip(finest.shape, power, strict=True)]
        floor = [max(1, size // p) for size, p in zip(finest.shape, power, strict=True)]
        if level.shape not in (shape, floor):
            failures.append(f"level {n} has the shape {level.shape}, of {finest.shape} by {power}")
            continue
        failures += _placed(finest, level, power, n, method)
        expected = downsample(voxels[("", 0, 0)], power, method)
        inner = tuple(slice(0, size) for size in level.shape)
        if not np.array_equal(elements, expected[inner]):
            failures.append(f"level {n}: {_difference(elements, expected[inner])}")
    return failures


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


def downsample(elements: np.ndarray[Any, Any], power: list[int], method: str) -> np.ndarray[Any, Any]:
    """What a level must be, block by block. At the edge a block has what is left."""
    shape = tuple(-(-size // p) for size, p in zip(elements.shape, power, strict=True))
    made = np.empty(shape, elements.dtype)
    reduce = REDUCE[method]
    for index in np.ndindex(*shape):
        block = tuple(slice(i * p, (i + 1) * p) for i, p in zip(index, power, strict=True))
        made[index] = reduce(elements[block].ravel())
    return made


def _mean(block: np.ndarray[Any, Any]) -> Any:
    """Half goes up, as in ngff-zarr."""
    if block.dtype.kind == "f":
        return block.astype("f8").mean()
    total, count = sum(int(value) for value in block), len(block)
    return (2 * total + count) // (2 * count)


def _mode(block: np.ndarray[Any, Any]) -> Any:
    """The smallest of the most frequent, as in ngff-zarr."""
    values, counts = np.unique(block, return_counts=True)
    return values[np.argmax(counts)]


def _median(block: np.ndarray[Any, Any]) -> Any:
    """Of an even number of values the lower one of the two in the middle."""
    return np.sort(block)[(len(block) - 1) // 2]


REDUCE: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "mean": _mean,
    "mode": _mode,
    "median": _median,
    "stride": lambda block: block[0],
    "max": np.max,
    "min": np.min,
}
