"""Lets numpy and zarr-python judge what `shardine convert` makes of files.

    python peers/convert_check.py --shardine PATH

numpy saves arrays of many types, in C and Fortran order and of either byte order. zarr-python must find the same in the
array that each of them becomes, and numpy in the `.npy` file and the raw bytes that the array becomes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import zarr

TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
TYPES += ["M8[ns]", "m8[25s]"]
SHAPE = (23, 37, 29)

# What `convert` is given.
LAYOUTS: Sequence[Sequence[str]] = [
    [],
    ["--chunk", "8,8,8", "--shard", "16,32,16"],
    ["--chunk", "4,9,7", "--chunks-per-shard", "3,1,2", "--index", "start"],
    ["--chunk", "8,8,8", "--target-size", "20KiB", "--codec", "blosc:lz4"],
    ["--chunk", "8,16,8", "--shard", "none", "--codec", "gzip:1"],
]


def _elements(name: str) -> np.ndarray:
    random = np.random.default_rng(1)
    size = np.dtype(name).itemsize
    if name == "?":
        return random.integers(0, 2, SHAPE).astype(name)
    if name[0] in "fc":
        return random.integers(-900, 900, SHAPE).astype(name) / 4
    raw = random.integers(0, 256, (*SHAPE, size), dtype="u1")
    return raw.view("<" + name).reshape(SHAPE)


def _same(found: np.ndarray, expected: np.ndarray, where: str) -> None:
    if found.shape != expected.shape or found.dtype.newbyteorder("=") != expected.dtype.newbyteorder("="):
        raise AssertionError(f"{where}: {found.shape} {found.dtype}")
    if found.astype(expected.dtype).tobytes() != expected.tobytes():
        raise AssertionError(f"{where}: other elements")


def _run(shardine: str, folder: Path, name: str, layout: Sequence[str], order: str, endian: str) -> None:
    expected = _elements(name)
    source, array = folder / "in.npy", folder / "a.zarr"
    stored = expected.astype(expected.dtype.newbyteorder(endian))
    np.save(source, np.asfortranarray(stored) if order == "F" else stored)

    def convert(*arguments: str | Path) -> None:
        command = [shardine, "convert", *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    convert(source, array, "--overwrite", "--memory", "1MiB", *layout)
    _same(zarr.open_array(str(array), mode="r")[:], expected, "zarr-python")
    convert(array, folder / "out.npy", "--overwrite")
    _same(np.load(folder / "out.npy"), expected, "numpy")
    convert(array, folder / "out.raw", "--overwrite")
    little = expected.astype(expected.dtype.newbyteorder("<"))
    if (folder / "out.raw").read_bytes() != little.tobytes():
        raise AssertionError("raw bytes: other elements")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", required=True, help="the shardine binary")
    shardine = str(Path(parser.parse_args().shardine).resolve())
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for n, name in enumerate(TYPES):
            for m, order in enumerate("CF"):
                for k, endian in enumerate("<>"):
                    layout = LAYOUTS[(n + m + 2 * k) % len(LAYOUTS)]
                    try:
                        _run(shardine, Path(folder), name, layout, order, endian)
                    except (AssertionError, OSError, subprocess.CalledProcessError, ValueError) as error:
                        failed += 1
                        print(f"{endian}{name} {order} {' '.join(layout)}: FAILED: {error}")
                    else:
                        passed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
