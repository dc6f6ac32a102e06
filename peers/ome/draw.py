"""Draws what a hierarchy is like: axes, sizes, types, chunks, codecs, units, names."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

AXES = ("yx", "zyx", "cyx", "czyx", "tyx", "tzyx", "tcyx", "tczyx")
TYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8")
LABEL_TYPES = ("u1", "u2", "u4", "i4", "u8", "i8")
CODECS = ("zstd", "gzip", "blosc", "none")
NAMES = ("image", "Größe µm", "細胞", "a b", "cells.ome.zarr")
SPACE_UNITS = ("micrometer", "nanometer", "millimeter", "angstrom", "inch")
TIME_UNITS = ("second", "millisecond", "hour")


@dataclass
class Drawn:
    """What one hierarchy is like."""

    axes: str
    shape: tuple[int, ...]
    dtype: str
    label_dtype: str
    chunks: tuple[int, ...]
    chunks_per_shard: int | None
    codec: str
    separator: str
    order: str
    scale: dict[str, float]
    offset: dict[str, float]
    units: dict[str, str]
    name: str
    levels: int
    labels: list[str]
    seed: int
    consolidated: bool
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def factors(self) -> dict[str, int]:
        """By which the axes shrink from one level to the next."""
        return {axis: 2 if axis in "yx" else 1 for axis in self.axes}

    def elements(self, shape: tuple[int, ...], dtype: str, salt: int = 0) -> np.ndarray[Any, Any]:
        """Numbers that compress a little, over the whole range of the type."""
        dice = np.random.default_rng([self.seed, salt])
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return (dice.integers(-4000, 4000, shape) / 8).astype(kind)
        info = np.iinfo(kind)
        low, high = max(info.min, -200), min(info.max, 60000)
        return dice.integers(low, high, shape, endpoint=True).astype(kind)

    def pyramid(self, dtype: str, salt: int = 0) -> list[np.ndarray[Any, Any]]:
        """Levels that shrink by their factors, by leaving voxels out."""
        pyramid = [self.elements(self.shape, dtype, salt)]
        step = tuple(slice(None, None, self.factors[axis]) for axis in self.axes)
        while len(pyramid) < self.levels:
            pyramid.append(np.ascontiguousarray(pyramid[-1][step]))
        return pyramid

    def describe(self) -> str:
        return f"{self.axes} {self.shape} {self.dtype} {self.chunks} {self.codec} {self.levels} levels"


SIZES = {"t": (1, 2, 3), "c": (1, 2, 3), "z": (1, 3, 6, 9), "y": (17, 24, 33, 48), "x": (16, 23, 40, 51)}


def draw(seed: int, axes: tuple[str, ...] = AXES, levels: tuple[int, ...] = (1, 2, 3)) -> Drawn:
    """A hierarchy for a seed; some choices may be narrowed down."""
    dice = random.Random(seed)
    chosen = dice.choice(axes)
    shape = tuple(dice.choice(SIZES[axis]) for axis in chosen)
    chunks = tuple(min(size, dice.choice((1, 8, 16)) if axis in "zyx" else 1) for axis, size in zip(chosen, shape, strict=True))
    # Not one chunk per voxel of a plane.
    chunks = tuple(max(c, 7) if axis in "yx" else c for axis, c in zip(chosen, chunks, strict=True))
    scale = {axis: dice.choice((0.1, 0.325, 1.0, 2.5, 1e-3, 7.0)) for axis in chosen}
    scale |= {axis: 1.0 for axis in chosen if axis == "c"}
    offset = {axis: dice.choice((0.0, 0.0, -3.7, 1000.25)) if axis in "zyx" else 0.0 for axis in chosen}
    units = {axis: dice.choice(SPACE_UNITS) for axis in chosen if axis in "zyx"}
    if "t" in chosen:
        units["t"] = dice.choice(TIME_UNITS)
    return Drawn(
        axes=chosen,
        shape=shape,
        dtype=dice.choice(TYPES),
        label_dtype=dice.choice(LABEL_TYPES),
        chunks=chunks,
        chunks_per_shard=dice.choice((None, 1, 2, 3)),
        codec=dice.choice(CODECS),
        separator=dice.choice("/."),
        order=dice.choice("CF"),
        scale=scale,
        offset=offset,
        units=units,
        name=dice.choice(NAMES),
        levels=dice.choice(levels),
        labels=dice.choice(([], ["cells"], ["cells", "nested/nuclei"])),
        seed=seed,
        consolidated=dice.random() < 0.3,
        extra={"vendor": {"stage": [1.5, None, "µ"], "seed": seed}} if dice.random() < 0.5 else {},
    )
