"""Several processes fill one array. Two of them may write to one shard: nothing is lost."""

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import shardine

PLANES = 16


def fill(task: tuple[shardine.Array, int]) -> int:
    """Writes one plane. Handles travel to other processes by their URL."""
    array, plane = task
    array[plane] = np.full(array.shape[1:], plane + 1, array.dtype)
    return plane


def main(folder: Path) -> None:
    array = shardine.create(
        folder / "planes.zarr",
        shape=(PLANES, 256, 256),
        dtype="uint16",
        chunks=(1, 64, 64),
        # All planes share one shard: writers wait for each other, and none overwrites another.
        shards=(PLANES, 256, 256),
    )
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(fill, [(array, plane) for plane in range(PLANES)]))
    means = [int(array[plane].mean()) for plane in range(PLANES)]
    print("means of the planes:", means)
    assert means == list(range(1, PLANES + 1))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
