"""Compares the levels that Shardine makes with those of TensorStore's downsample driver.

    python peers/pyramid_check.py --shardine PATH [--cases N] [--seed N]

Each case is an image of random shape, type, chunks, shards and factors, with holes. `shardine pyramid` makes its levels, and
TensorStore reduces each level as it is stored to the next one, which must be equal: every element, every method, sizes that
the factors do not divide. Floating-point means must agree to the last bit, too. NaN is left out, as TensorStore does not
define what becomes of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorstore as ts
import zarr

METHODS = ("mean", "mode", "median", "stride", "max", "min")
TYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Few distinct values, extreme ones, or any."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    kind = rng.integers(0, 3)
    if kind == 0:
        return rng.integers(0, 4, shape).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        scale = 1.0 if kind == 1 else 1e3
        return (rng.standard_normal(shape) * scale).astype(dtype)
    info = np.iinfo(dtype)
    if kind == 1:
        some = [info.min, info.min + 1, info.max - 1, info.max, 0, 1]
        return rng.choice(np.array(some, dtype=dtype), shape)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def make_image(rng: np.random.Generator, path: Path, dtype: str) -> list[int]:
    """An image of one level; returns the factors for its axes."""
    rank = int(rng.integers(2, 4))
    shape = tuple(int(n) for n in rng.integers(1, 50, rank))
    chunks = tuple(int(n) for n in rng.integers(1, 12, rank))
    shards = tuple(int(c * n) for c, n in zip(chunks, rng.integers(1, 5, rank), strict=True))
    names = ("z", "y", "x")[3 - rank :]
    group = zarr.open_group(path, mode="w")
    group.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [
            {
                "axes": [{"name": name, "type": "space"} for name in names],
                "datasets": [
                    {
                        "path": "0",
                        "coordinateTransformations": [{"type": "scale", "scale": [1.0] * rank}],
                    }
                ],
            }
        ],
    }
    array = group.create_array(
        "0",
        shape=shape,
        chunks=chunks,
        shards=shards if rng.random() < 0.7 else None,
        dtype=dtype,
        dimension_names=names,
    )
    for _ in range(int(rng.integers(0, 4))):
        start = [int(rng.integers(0, n)) for n in shape]
        stop = [int(rng.integers(a + 1, n + 1)) for a, n in zip(start, shape, strict=True)]
        region = tuple(slice(a, b) for a, b in zip(start, stop, strict=True))
        array[region] = values(rng, dtype, tuple(b - a for a, b in zip(start, stop, strict=True)))
    factors = [int(n) for n in rng.integers(1, 5, rank)]
    if all(factor == 1 for factor in factors):
        factors[-1] = 2
    return factors


def read(path: Path) -> np.ndarray:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return ts.open(spec, open=True).result().read().result()


def check(shardine: str, rng: np.random.Generator, folder: Path, dtype: str, method: str) -> int:
    """Makes and compares the levels of one image; returns how many there are."""
    path = folder / "image.zarr"
    factors = make_image(rng, path, dtype)
    command = [shardine, "pyramid", str(path), "--method", method, "--json"]
    command += ["--levels", str(int(rng.integers(2, 5)))]
    command += ["--factors", ",".join(map(str, factors))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # There are no more levels than a single element allows.
        if "single element" in done.stderr:
            return 0
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    report = json.loads(done.stdout)
    before = read(path / "0")
    for level in report["levels"]:
        found = read(path / level["path"])
        wanted = ts.downsample(ts.array(before), level["factors"], method).read().result()
        if found.shape != wanted.shape or not np.array_equal(found, wanted):
            place = np.argwhere(found != wanted)[:1] if found.shape == wanted.shape else ""
            sys.exit(f"{dtype} {method} {before.shape} by {level['factors']}: differs at {place}")
        before = found
    return len(report["levels"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shardine", required=True)
    parser.add_argument("--cases", type=int, default=3, help="for each type and method")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    levels = 0
    for dtype in TYPES:
        for method in METHODS:
            for _ in range(options.cases):
                with tempfile.TemporaryDirectory() as folder:
                    levels += check(options.shardine, rng, Path(folder), dtype, method)
    if levels == 0:
        sys.exit("no level was compared")
    print(f"{levels} levels are equal to TensorStore's")


main()
