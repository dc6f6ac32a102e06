"""Random precomputed volumes: an `info`, the voxels of each scale, and a few updates."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.regions import Region, Span, random_region, slices_of

Json = dict[str, Any]
Voxels = np.ndarray[Any, Any]
"""Always four axes: x, y, z, channel."""

DATA_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")
ENCODINGS = ("raw", "compressed_segmentation", "jpeg", "png", "jxl", "compresso")
OURS = ("raw", "compressed_segmentation", "jpeg", "png")
"""The encodings that Shardine writes."""
BITS = ("none", "exact", "over", "under", "zero", "huge")
"""How the bits of the sharding compare with those of the Morton code; `none` is unsharded."""
FOCUSES = (
    [("data type", name) for name in DATA_TYPES]
    + [("encoding", name) for name in ENCODINGS for _ in range(2 if name in OURS else 1)]
    + [("bits", name) for name in BITS]
)
CHANNELS = (1, 2, 3, 4)
MOST_CHUNKS = 400
"""Chunks of a scale; more would only take longer."""


@dataclass
class Case:
    """One volume. Case `index` of a seed is always the same."""

    seed: int
    index: int
    info: Json
    voxels: list[Voxels]
    smooth: bool
    """Whether the encoding loses something, and the voxels are such that it is little."""
    features: set[str] = field(default_factory=set)

    def dice(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed} {self.index} {purpose}")

    def scale(self, level: int) -> Json:
        return self.info["scales"][level]

    def region(self, level: int, dice: random.Random) -> Region:
        """A region of a scale, without steps."""
        shape = self.voxels[level].shape
        chunk = (*self.scale(level)["chunk_sizes"][0], self.info["num_channels"])
        return random_region(dice, tuple(((0, n),) for n in shape), chunk, steps=False)

    def _whole_chunks(self, level: int, region: Region) -> Region:
        """The region with all of the chunks that it touches: a seam inside one would not be smooth."""
        shape = self.voxels[level].shape
        cell = (*self.scale(level)["chunk_sizes"][0], shape[3])
        return tuple(
            Span(span.start // c * c, min(-(-span.stop // c) * c, n))
            for span, c, n in zip(region, cell, shape, strict=True)
        )

    def update(self, level: int, number: int) -> tuple[Region, Voxels]:
        """A region, and what may be written there; now and then zeros."""
        dice = self.dice(f"update {level} {number}")
        region = self.region(level, dice)
        shape = self.voxels[level].shape
        if self.smooth:
            region = self._whole_chunks(level, region)
        elif dice.random() < 0.15:
            return region, np.zeros(shape, self.info["data_type"])[slices_of(region)]
        other = draw_voxels(dice, shape, self.info["data_type"], self.smooth, self.scale(level))
        return region, other[slices_of(region)]


def make_case(seed: int, index: int) -> Case:
    dice = random.Random(f"{seed} {index}")
    order = list(FOCUSES)
    random.Random(f"{seed} focuses {index // len(order)}").shuffle(order)
    kind, name = order[index % len(order)]
    encoding = name if kind == "encoding" else None
    data_type = name if kind == "data type" else None
    if encoding is None:
        encoding = dice.choice(["raw", *(e for e in OURS if data_type in (None, *types(e)))])
    data_type = data_type or dice.choice(types(encoding))
    channels = dice.choice(channel_counts(encoding, data_type))
    segments = channels == 1 and encoding in ("compressed_segmentation", "compresso")
    info: Json = {
        "@type": "neuroglancer_multiscale_volume",
        "type": "segmentation" if segments else "image",
        "data_type": data_type,
        "num_channels": channels,
        "scales": [],
    }
    if dice.random() < 0.3:
        del info["@type"]
    if dice.random() < 0.3:
        info |= {"mesh": "mesh", "provenance_note": {"by": ["nobody", 1.5, None]}}
    smooth = encoding == "jpeg"
    voxels = []
    features = {f"data type {data_type}", f"encoding {encoding}", f"channels {channels}"}
    for level in range(dice.choice([1, 1, 1, 2, 3])):
        bits = name if kind == "bits" and level == 0 else dice.choice(BITS)
        scale = draw_scale(dice, level, encoding, str(bits), features)
        if scale["key"] in [other["key"] for other in info["scales"]]:
            scale["key"] = f"s{level}"  # two scales of one key overwrite each other
        info["scales"].append(scale)
        shape = (*scale["size"], channels)
        voxels.append(draw_voxels(dice, shape, data_type, smooth, scale))
    if len(voxels) > 1:
        features.add("several scales")
    return Case(seed, index, info, voxels, smooth, features)


def types(encoding: str) -> tuple[str, ...]:
    if encoding == "compressed_segmentation":
        return ("uint32", "uint64")
    if encoding in ("jpeg", "jxl"):
        return ("uint8",)
    if encoding == "png":
        return ("uint8", "uint16")
    if encoding == "compresso":
        return ("uint8", "uint16", "uint32", "uint64")
    return DATA_TYPES


def channel_counts(encoding: str, data_type: str) -> list[int]:
    if encoding == "compresso":
        return [1]
    if encoding in ("jpeg", "jxl"):
        return [1, 1, 3]
    if encoding == "png":
        return list(CHANNELS)
    return [1, 1, *CHANNELS]


def draw_scale(
    dice: random.Random, level: int, encoding: str, bits: str, features: set[str]
) -> Json:
    resolution = dice.choice([[8, 8, 40], [4, 4, 4], [16.5, 16.5, 30], [1, 1, 1]])
    resolution = [n * 2**level for n in resolution]
    while True:
        chunk = [dice.choice([1, 3, 5, 8, 8, 16, 16, 32, 33]) for _ in range(3)]
        size = [dice.choice([1, c, 2 * c, dice.randint(1, 4 * c), 4 * c, 7 * c + 1]) for c in chunk]
        cells = [-(-n // c) for n, c in zip(size, chunk, strict=True)]
        if np.prod(cells) <= MOST_CHUNKS and np.prod(size) <= 60_000:
            break
    scale: Json = {
        "key": dice.choice(["_".join(map(str, resolution)), f"s{level}", f"data/s{level}"]),
        "size": size,
        "resolution": resolution,
        "chunk_sizes": [chunk],
        "encoding": encoding,
    }
    offset = [dice.choice([0, 1, 100, -1, -50, -3 * n]) for n in size]
    if dice.random() < 0.6:
        scale["voxel_offset"] = offset
        if min(offset) < 0:
            features.add("a negative offset")
    if encoding == "compressed_segmentation":
        blocks = [[8, 8, 8], [8, 8, 8], [4, 4, 4], [16, 4, 2], [3, 5, 7]]
        scale["compressed_segmentation_block_size"] = dice.choice(blocks)
    if encoding == "jpeg" and dice.random() < 0.5:
        scale["jpeg_quality"] = dice.choice([90, 100])
    if encoding == "jxl":
        scale["jxl_quality"] = 100
    features.add(f"bits {bits}")
    if bits != "none":
        scale["sharding"] = draw_sharding(dice, sum((n - 1).bit_length() for n in cells), bits)
        for name in ("hash", "minishard_index_encoding", "data_encoding"):
            features.add(f"{name} {scale['sharding'].get(name, 'absent')}")
    elif dice.random() < 0.2:
        scale["sharding"] = None
        features.add("sharding null")
    return scale


def draw_sharding(dice: random.Random, total: int, bits: str) -> Json:
    """A sharding whose bits make `total`, more, fewer, none, or as many as there may be."""
    if bits == "zero":
        preshift = minishard = shard = 0
    elif bits == "huge":
        preshift = dice.choice([0, 0, 3, 31, 33, 63, 64])
        minishard = dice.choice([0, 3, 9])
        shard = dice.choice([31, 32, 33, 45, 64 - minishard - 1, 64 - minishard])
    else:
        goal = total
        if bits == "over":
            goal = total + dice.randint(1, 9)
        elif bits == "under":
            goal = dice.randint(0, max(total - 1, 0))
        minishard = dice.randint(0, min(goal, 6))
        preshift = dice.randint(0, goal - minishard)
        shard = goal - minishard - preshift
    sharding: Json = {
        "@type": "neuroglancer_uint64_sharded_v1",
        "preshift_bits": preshift,
        "hash": dice.choice(["identity", "identity", "murmurhash3_x86_128"]),
        "minishard_bits": minishard,
        "shard_bits": shard,
    }
    for name in ("minishard_index_encoding", "data_encoding"):
        value = dice.choice(["raw", "gzip", "gzip", None])
        if value:
            sharding[name] = value
    return sharding


def draw_voxels(
    dice: random.Random, shape: tuple[int, ...], data_type: str, smooth: bool, scale: Json
) -> Voxels:
    """Voxels of one of several kinds, some of which leave whole chunks zero."""
    numbers = np.random.default_rng(dice.getrandbits(64))
    if smooth:
        axes = np.meshgrid(*(np.linspace(0, 1, n) for n in shape[:3]), indexing="ij")
        weights = numbers.random(3)
        plane = 40 + 170 * sum(w * a for w, a in zip(weights, axes, strict=True)) / weights.sum()
        steps = 6 * np.arange(shape[3])
        return (plane[..., None] + steps).astype(data_type)
    kind = dice.choice(["noise", "noise", "labels", "labels", "sparse", "constant", "extremes"])
    dtype = np.dtype(data_type)
    if kind == "constant":
        return np.full(shape, dice.choice([0, 1, 100]), dtype)
    if kind == "labels":
        high = 2 ** min(8 * dtype.itemsize - 1, 40) if dtype.kind != "f" else 1000
        names = numbers.integers(0, high, 12).astype(dtype)
        coarse = tuple(-(-n // 5) for n in shape[:3])
        blocks = names[numbers.integers(0, 12, (*coarse, shape[3]))]
        for axis in range(3):
            blocks = np.repeat(blocks, 5, axis=axis)
        return np.ascontiguousarray(blocks[tuple(slice(n) for n in shape)])
    data = numbers.integers(0, 256, (*shape, dtype.itemsize), dtype="u1").view(dtype)[..., 0]
    if kind == "extremes" and dtype.kind != "f":
        limits = np.iinfo(dtype)
        return numbers.choice(np.array([limits.min, limits.max, 0, 1], dtype), shape)
    if kind == "sparse":
        keep = np.zeros(shape, bool)
        chunk = scale["chunk_sizes"][0]
        for _ in range(4):
            at = [dice.randrange(n) // c * c for n, c in zip(shape, chunk, strict=False)]
            keep[tuple(slice(a, a + c) for a, c in zip(at, chunk, strict=True))] = True
        data = np.where(keep, data, dtype.type(0))
    return data
