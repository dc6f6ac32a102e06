"""Precomputed volumes and images: the same voxel is at the same place in both.

The coordinates of OME-Zarr are those of the centres of voxels; the voxel with index i is at
i * scale + translation. A precomputed volume has its voxels by their corners: index i covers
[(voxel_offset + i) * resolution, (voxel_offset + i + 1) * resolution), so its centre is at
(voxel_offset + i + 0.5) * resolution. Neuroglancer brings the two together by subtracting half a voxel of
each level from the translation of an image, so this is where both are shown at the same place.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

from . import by_hand, judges, tree
from .draw import Drawn, draw
from .moves import zarr_format
from .program import Shardine

NANOMETERS = {
    "angstrom": 0.1,
    "nanometer": 1.0,
    "micrometer": 1e3,
    "millimeter": 1e6,
    "meter": 1e9,
    "inch": 25.4e6,
}

TYPES = ("uint8", "uint16", "uint32", "uint64", "float32")


def _write_volume(root: Path, dice: random.Random, seed: int) -> list[dict[str, Any]]:
    """A volume of several scales whose corners coincide; returns its scales."""
    channels = dice.choice((1, 1, 2))
    dtype = dice.choice(TYPES)
    resolution = [dice.choice((4.0, 7.3, 325.0, 1000.0)) for _ in range(3)]
    offset = [4 * dice.choice((0, 0, 3, -5, 100)) for _ in range(3)]
    size = [4 * dice.choice((3, 5, 8)) + dice.choice((0, 1, 2)) for _ in range(3)]
    numbers = np.random.default_rng(seed)
    scales = []
    for n in range(dice.choice((1, 2, 3))):
        factor = 2**n
        shape = [-(-s // factor) for s in size]
        scale = {
            "resolution": [r * factor for r in resolution],
            "voxel_offset": [o // factor for o in offset],
            "size": shape,
            "chunk_size": [8, 8, 8],
            "encoding": "raw",
        }
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": f"{root}/"},
            "multiscale_metadata": {"type": "image", "data_type": dtype, "num_channels": channels},
            "scale_metadata": scale,
        }
        written = tensorstore.open(spec, create=True).result()
        written[...] = numbers.integers(0, 200, written.shape).astype(dtype)
        scales.append(scale)
    return scales


def _read_volume(root: Path, scale: int) -> np.ndarray[Any, Any]:
    """The voxels of a scale: x, y, z, channel."""
    kvstore = {"driver": "file", "path": f"{root}/"}
    spec = {"driver": "neuroglancer_precomputed", "kvstore": kvstore, "scale_index": scale}
    return np.asarray(tensorstore.open(spec, read=True).result().read().result())


def _corners(shape: list[int]) -> Iterator[tuple[int, ...]]:
    """The first and the last voxel along each axis, and one in between."""
    return itertools.product(*({0, size // 2, size - 1} for size in shape))


def _centres(axes: list[dict[str, Any]], level: tree.Level) -> dict[tuple[int, ...], list[float]]:
    """Where some voxels of a level are, in nanometers: by their indices x, y, z."""
    places = {axis["name"]: n for n, axis in enumerate(axes)}
    order = [places[name] for name in "xyz"]
    units = [NANOMETERS[axes[n].get("unit", "nanometer")] for n in order]
    found = {}
    for index in _corners([level.shape[n] for n in order]):
        full = [0.0] * len(axes)
        for n, i in zip(order, index, strict=True):
            full[n] = float(i)
        centre = level.centre(full)
        found[index] = [centre[n] * unit for n, unit in zip(order, units, strict=True)]
    return found


def _volume_centre(scale: dict[str, Any], index: tuple[int, ...]) -> list[float]:
    return [
        (o + i + 0.5) * r
        for o, i, r in zip(scale["voxel_offset"], index, scale["resolution"], strict=True)
    ]


def _compare_places(
    axes: list[dict[str, Any]], level: tree.Level, scale: dict[str, Any], n: int
) -> Iterator[str]:
    for index, centre in _centres(axes, level).items():
        expected = _volume_centre(scale, index)
        for name, one, other in zip("xyz", centre, expected, strict=True):
            if abs(one - other) > tree.TOLERANCE * max(1.0, abs(other)):
                yield f"level {n}, voxel {index}: {name} is {one} nm in OME-Zarr, {other} nm in the volume"
                return


def _as_volume(elements: np.ndarray[Any, Any], axes: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """The voxels of an image in the order of a volume: x, y, z, channel."""
    names = [axis["name"] for axis in axes]
    if "c" not in names:
        elements, names = elements[None], ["c", *names]
    return elements.transpose([names.index(name) for name in "xyzc"])


def _compare_image(image: Path, version: str, volume: Path, scales: list[dict[str, Any]]) -> list[str]:
    """What differs between an image and a volume, in voxels and in places."""
    group = tree.read_group(image)
    if group is None or len(group.ome.get("multiscales", [])) != 1:
        return ["there is no image"]
    (multiscale,) = group.ome["multiscales"]
    axes = tree.axes_of(multiscale)
    levels = tree.levels_of(image, multiscale)
    if len(levels) != len(scales):
        return [f"{len(levels)} levels and {len(scales)} scales"]
    failures = []
    voxels = judges.voxels(image, zarr_format(version))
    for n, (level, scale) in enumerate(zip(levels, scales, strict=True)):
        stored = _read_volume(volume, n)
        found = _as_volume(voxels[("", 0, n)], axes)
        if found.shape != stored.shape or not np.array_equal(found, stored):
            failures.append(f"level {n}: other voxels")
        failures += _compare_places(axes, level, scale, n)
    return failures


def _scales(volume: Path) -> list[dict[str, Any]]:
    info = json.loads((volume / "info").read_text())
    return [
        {key: scale[key] for key in ("resolution", "size")}
        | {"voxel_offset": scale.get("voxel_offset", [0, 0, 0])}
        for scale in info["scales"]
    ]


def check(seed: int, folder: Path, shardine: Shardine) -> tuple[str, list[str]]:
    """From a volume to an image and back, or from an image to a volume and back."""
    version = ("0.5", "0.6", "0.4")[seed % 3]
    if seed % 2:
        return f"volume to {version}", _from_volume(seed, version, folder, shardine)
    return f"image of {version}", _from_image(seed, version, folder, shardine)


def _convert(shardine: Shardine, source: Path, target: Path, version: str) -> None:
    shardine.run("convert", source, target, "--to", "ome-zarr", "--ome-version", version)


def _from_volume(seed: int, version: str, folder: Path, shardine: Shardine) -> list[str]:
    volume, image, back = (folder / name for name in ("volume", "image.ome.zarr", "back"))
    _write_volume(volume, random.Random(seed), seed)
    scales = _scales(volume)
    _convert(shardine, volume, image, version)
    failures = [f"{who} minds: {what}" for who, what in judges.complaints(image, version)]
    failures += judges.inconsistencies(image, version)
    failures += _compare_image(image, version, volume, scales)
    shardine.run("convert", image, back, "--to", "precomputed")
    failures += (f"back again: {what}" for what in tree.differences(scales, _scales(back)))
    failures += (f"back again: {what}" for what in _compare_image(image, version, back, _scales(back)))
    return failures


def _from_image(seed: int, version: str, folder: Path, shardine: Shardine) -> list[str]:
    """An image whose corner is a whole number of voxels from the origin, as a volume must have it."""
    volume, image, back = (folder / name for name in ("volume", "image.ome.zarr", "back.ome.zarr"))
    drawn = _on_the_grid(seed)
    by_hand.Writer(version).image(image, drawn)
    shardine.run("convert", image, volume, "--to", "precomputed")
    scales = _scales(volume)
    failures = _compare_image(image, version, volume, scales)
    _convert(shardine, volume, back, version)
    failures += (f"back again: {what}" for what in _compare_image(back, version, volume, scales))
    return failures


def _on_the_grid(seed: int) -> Drawn:
    dice = random.Random(seed)
    drawn = draw(seed, axes=("zyx", "czyx"))
    drawn.labels, drawn.extra = [], {}
    drawn.dtype = dice.choice(("u1", "u2", "u4", "f4"))
    drawn.units = {axis: "micrometer" for axis in "zyx"}
    drawn.scale = {"c": 1.0} | {axis: dice.choice((0.004, 0.0325, 1.0)) for axis in "zyx"}
    # Four voxels of the finest level are one of the coarsest.
    drawn.offset = {"c": 0.0} | {
        axis: (4 * dice.choice((0, 3, -2)) + 0.5) * drawn.scale[axis] for axis in "zyx"
    }
    return drawn
