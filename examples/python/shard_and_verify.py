"""Packs an array with a file per chunk into shards, and verifies before it deletes anything."""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import shardine


def files(path: Path) -> int:
    return sum(file.is_file() for file in path.rglob("*"))


def main(folder: Path) -> None:
    old, new = folder / "old.zarr", folder / "new.zarr"
    np.save(folder / "a.npy", np.random.default_rng(1).integers(0, 50, (256, 256), np.uint8))
    shardine.convert(folder / "a.npy", old, chunk=(16, 16), shard="none")

    advice = shardine.plan(old, remote=True).arrays[0]
    print("recommended:", advice.action, advice.shard_shape)
    print("because:", advice.shard_choice.reason)

    report = shardine.shard(old, output=new, chunks_per_shard=8)
    print(report.arrays[0].chunks_moved, "chunks moved, none decoded")
    print(files(old), "files before,", files(new), "now")

    # Delete the old one only if the new one is sound and equal.
    if not shardine.verify(new, decode=True):
        raise SystemExit("the new array is damaged")
    if not shardine.compare(old, new):
        raise SystemExit("the new array differs")
    shutil.rmtree(old)
    print("deleted", old.name)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
