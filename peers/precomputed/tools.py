"""The other tools, each behind `write` and `read`, and what they cannot do."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts
from cloudvolume import CloudVolume as Cloud
from cloudvolume import chunks as cloud_chunks
from cloudvolume.datasource.precomputed.common import compressed_morton_code
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification

from harness.regions import Region, slices_of

from .draw import Case, Json, Voxels


def place(root: Path, case: Case) -> None:
    """A volume without voxels."""
    root.mkdir(parents=True)
    (root / "info").write_text(json.dumps(case.info))


class TensorStore:
    """TensorStore, in this process, without a cache."""

    name = "tensorstore"

    def lacks(self, case: Case, level: int) -> str | None:
        scale, channels = case.scale(level), case.info["num_channels"]
        encoding = scale["encoding"]
        if encoding in ("jxl", "compresso"):
            return f"does not know {encoding}"
        if encoding == "png" and case.info["data_type"] == "uint16" and channels > 1:
            return "has png of uint16 with one channel only"
        return None

    def write(self, root: Path, case: Case, level: int, region: Region, voxels: Voxels) -> None:
        self._open(root, level)[slices_of(region)].write(voxels).result()

    def write_all(self, root: Path, case: Case, level: int, dice: random.Random) -> None:
        self._open(root, level).write(case.voxels[level]).result()

    def read(self, root: Path, case: Case, level: int) -> Voxels:
        return np.asarray(self._open(root, level).read().result())

    @staticmethod
    def _open(root: Path, level: int) -> Any:
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": f"{root}/"},
            "scale_index": level,
        }
        return ts.open(spec, open=True).result()[ts.d[:].translate_to[0]]


class CloudVolume:
    """cloud-volume, in this process. Its shards are put together from all chunks at once, the only way in which it loses none."""

    name = "cloud-volume"

    def lacks(self, case: Case, level: int) -> str | None:
        scale, channels = case.scale(level), case.info["num_channels"]
        sharding = scale.get("sharding")
        if sharding and sharding["preshift_bits"] > 63:
            return "shifts by 63 bits at most"
        if sharding and sharding["minishard_bits"] + sharding["shard_bits"] > 63:
            return "takes a shard number of fewer than 64 bits"
        if channels > 1 and scale["encoding"] == "compressed_segmentation":
            return "has compressed_segmentation with one channel only"
        if scale["encoding"] == "png" and case.info["data_type"] == "uint16":
            return "has png of uint8 only"
        if channels > 1 and scale["encoding"] in ("jpeg", "png", "jxl"):
            return f"{scale['encoding']} with several channels comes back with the channels mixed"
        # Its own copy of one voxel has the channels as x.
        if channels > 1 and scale["size"] == [1, 1, 1]:
            return "takes the channels of a single voxel for x"
        return None

    def write_all(self, root: Path, case: Case, level: int, dice: random.Random) -> None:
        scale, voxels = case.scale(level), case.voxels[level]
        if not scale.get("sharding"):
            compress = dice.choice([None, False])
            volume = self._open(root, level, compress=compress)
            volume[volume.bounds] = voxels
            return
        spec = ShardingSpecification.from_dict(scale["sharding"])
        encoded = self._chunks(case, level, voxels)
        homes = {spec.compute_shard_location(key).shard_number for key in encoded}
        ragged = any(n % c for n, c in zip(scale["size"], scale["chunk_sizes"][0], strict=True))
        # It gives all zero chunks the bytes of the first one, whatever their shapes.
        if len(homes) == 1 and not ragged and dice.random() < 0.7:
            volume = self._open(root, level)
            volume[volume.bounds] = voxels
            return
        folder = root / scale["key"]
        folder.mkdir(parents=True, exist_ok=True)
        for name, shard in spec.synthesize_shards(encoded).items():
            (folder / name).write_bytes(shard)

    def read(self, root: Path, case: Case, level: int, fill_missing: bool = True) -> Voxels:
        volume = self._open(root, level, fill_missing=fill_missing)
        return np.asarray(volume[volume.bounds])

    @staticmethod
    def _open(root: Path, level: int, fill_missing: bool = True, **options: Any) -> Any:
        return Cloud(
            f"file://{root}", mip=level, fill_missing=fill_missing, progress=False, **options
        )

    @staticmethod
    def _chunks(case: Case, level: int, voxels: Voxels) -> dict[int, bytes]:
        scale = case.scale(level)
        chunk, size = scale["chunk_sizes"][0], scale["size"]
        grid = [-(-n // c) for n, c in zip(size, chunk, strict=True)]
        quality = {"jpeg": scale.get("jpeg_quality"), "jxl": scale.get("jxl_quality")}
        encoded = {}
        for cell in np.ndindex(*grid):
            box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(cell, chunk, strict=True))
            encoded[int(compressed_morton_code(cell, grid))] = cloud_chunks.encode(
                np.asfortranarray(voxels[box]),
                scale["encoding"],
                block_size=scale.get("compressed_segmentation_block_size"),
                compression_params={"level": quality.get(scale["encoding"])},
            )
        return encoded


def same(want: Voxels, got: Voxels, tolerance: int = 0) -> str | None:
    """How two volumes differ, or `None`. Without a tolerance every bit counts."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype} {got.shape} instead of {want.dtype} {want.shape}"
    if tolerance:
        unequal = np.abs(want.astype("i8") - got.astype("i8")) > tolerance
    else:
        bits = f"u{want.dtype.itemsize}"
        unequal = np.ascontiguousarray(want).view(bits) != np.ascontiguousarray(got).view(bits)
    count = int(unequal.sum())
    if not count:
        return None
    first = tuple(int(axis[0]) for axis in np.nonzero(unequal))
    return f"{count} of {want.size} voxels, first at {first}: {got[first]} instead of {want[first]}"
