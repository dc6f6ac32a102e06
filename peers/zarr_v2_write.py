"""What `shardine convert` writes as Zarr version 2: zarr-python and TensorStore must read the same elements from it.

    python peers/zarr_v2_write.py --shardine PATH --cases 60 --seed 1

zarr-python writes arrays of version 3, with and without shards; `--to zarr2` makes version 2 of them, and `--to ome-zarr
--ome-version 0.4` an image. Chunks must have been moved, not encoded again.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

warnings.simplefilter("ignore")

TYPES = ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")


def _compressors(rng: random.Random) -> list[Any]:
    chosen: list[Any] = rng.choice(
        [
            [],
            [ZstdCodec(level=rng.choice([1, 5]), checksum=rng.random() < 0.3)],
            [GzipCodec(level=rng.randint(0, 9))],
            [
                BloscCodec(
                    cname=rng.choice(["lz4", "zstd", "zlib", "blosclz"]),
                    clevel=rng.randint(1, 9),
                    shuffle=rng.choice(["noshuffle", "shuffle", "bitshuffle"]),
                )
            ],
        ]
    )
    return [*chosen, Crc32cCodec()] if rng.random() < 0.15 else chosen


def _elements(rng: random.Random, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    numbers = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 100, shape)
    return numbers.astype(dtype)


def _convert(shardine: str, source: Path, target: Path, *options: str) -> dict[str, Any]:
    command = [shardine, "convert", str(source), str(target), "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _same(found: np.ndarray, expected: np.ndarray, where: str) -> None:
    if found.shape != expected.shape or found.dtype.newbyteorder("=") != expected.dtype:
        raise AssertionError(f"{where}: {found.shape} {found.dtype}")
    if not np.array_equal(found, expected):
        raise AssertionError(f"{where}: other elements")


def _check(array: Path, expected: np.ndarray, checksummed: bool) -> None:
    if (array / "zarr.json").exists():
        raise AssertionError("it has a document of version 3")
    _same(np.asarray(zarr.open_array(str(array), mode="r", zarr_format=2)[...]), expected, "zarr-python")
    # TensorStore has no checksums in version 2.
    if not checksummed:
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(array)}}
        _same(np.asarray(tensorstore.open(spec).result().read().result()), expected, "TensorStore")


def _run(shardine: str, folder: Path, rng: random.Random) -> None:
    rank = rng.randint(2, 4)
    shape = tuple(rng.randint(1, 20) for _ in range(rank))
    chunk = tuple(rng.randint(1, 7) for _ in range(rank))
    sharded = rng.random() < 0.5
    shards = tuple(n * rng.randint(1, 3) for n in chunk) if sharded else None
    compressors = _compressors(rng)
    fortran = rng.random() < 0.3
    names = ["t", "z", "y", "x"][-rank:]
    dtype = np.dtype(rng.choice(TYPES))
    source = folder / "source.zarr"
    array = zarr.create_array(
        str(source),
        shape=shape,
        chunks=chunk,
        shards=shards,
        dtype=dtype,
        filters=[TransposeCodec(order=tuple(reversed(range(rank))))] if fortran else [],
        compressors=compressors,
        fill_value=0 if dtype.kind == "b" else 3,
        dimension_names=names,
        attributes={"kept": [1, "two"]},
    )
    expected = np.full(shape, array.fill_value, dtype)
    rows = rng.randint(1, shape[0])
    expected[:rows] = _elements(rng, (rows, *shape[1:]), dtype)
    array[:rows] = expected[:rows]
    checksummed = any(
        isinstance(codec, Crc32cCodec) or (isinstance(codec, ZstdCodec) and codec.checksum)
        for codec in compressors
    )
    for name, options, inside in (
        ("plain", ("--to", "zarr2"), ""),
        ("slash", ("--to", "zarr2", "--separator", "/"), ""),
        ("image", ("--to", "ome-zarr", "--ome-version", "0.4"), "0"),
    ):
        target = folder / name
        report = _convert(shardine, source, target, *options)
        if report["levels"][0]["chunks_recoded"] != 0:
            raise AssertionError(f"{name}: chunks were encoded again")
        _check(target / inside, expected, checksummed)
        attributes = json.loads((target / inside / ".zattrs").read_text())
        if attributes["kept"] != [1, "two"]:
            raise AssertionError(f"{name}: {attributes}")
        if inside:
            separator = json.loads((target / inside / ".zarray").read_text())["dimension_separator"]
            version = json.loads((target / ".zattrs").read_text())["multiscales"][0]["version"]
            if (separator, version) != ("/", "0.4"):
                raise AssertionError(f"{name}: {separator} {version}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", required=True, help="the shardine binary")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    shardine = str(Path(args.shardine).resolve())
    passed = failed = 0
    for case in range(args.cases):
        folder = Path(tempfile.mkdtemp())
        try:
            _run(shardine, folder, random.Random(args.seed * 1_000_003 + case))
        except (AssertionError, OSError, subprocess.CalledProcessError, ValueError) as error:
            failed += 1
            told = getattr(error, "stderr", "") or ""
            print(f"case {case}: FAILED: {error} {told}")
        else:
            passed += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
