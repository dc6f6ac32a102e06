"""Conversions between Zarr and precomputed volumes, judged by tensorstore and zarr-python.

Volumes that tensorstore has written become groups that zarr-python reads, and arrays that zarr-python has written become volumes
that tensorstore reads; then back, where the `info` has to be the one that was there at first.

    python peers/volume_convert_check.py --shardine PATH [--seed N] [--cases N]
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import tensorstore as ts
import zarr

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32"]


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


def voxels(rng, shape, dtype):
    if dtype == "float32":
        data = rng.standard_normal(shape).astype(dtype)
    else:
        data = rng.integers(0, 100, shape).astype(dtype)
    # Some of it is empty.
    data[: shape[0] // 3, : shape[1] // 2] = 0
    return data


def sharding(choice):
    kind = choice.choice(["none", "identity", "murmurhash3_x86_128"])
    if kind == "none":
        return None
    return {
        "@type": "neuroglancer_uint64_sharded_v1",
        "preshift_bits": choice.randrange(4),
        "hash": kind,
        "minishard_bits": choice.randrange(4),
        "shard_bits": choice.randrange(6),
        "minishard_index_encoding": choice.choice(["raw", "gzip"]),
        "data_encoding": choice.choice(["raw", "gzip"]),
    }


def encoding(choice, dtype, channels):
    known = ["raw"]
    if dtype in ("uint32", "uint64"):
        known.append("compressed_segmentation")
    if dtype in ("uint8", "uint16") and channels == 1:
        known.append("png")
    return choice.choice(known)


def spec(folder, level=0):
    kvstore = {"driver": "file", "path": str(folder)}
    return {"driver": "neuroglancer_precomputed", "kvstore": kvstore, "scale_index": level}


def make_volume(choice, rng, folder):
    dtype, channels = choice.choice(TYPES), choice.choice([1, 1, 3])
    size = [choice.randrange(1, 40) for _ in range(3)]
    chunk = [choice.randrange(1, 17) for _ in range(3)]
    name = encoding(choice, dtype, channels)
    scale = {
        "key": choice.choice(["8_8_40", "a/b"]),
        "size": size,
        "resolution": [8, 8, 40],
        "voxel_offset": [choice.randrange(-50, 50) for _ in range(3)],
        "chunk_size": chunk,
        "encoding": name,
    }
    if name == "compressed_segmentation":
        scale["compressed_segmentation_block_size"] = [8, 8, 8]
    packed = sharding(choice)
    if packed:
        scale["sharding"] = packed
    multiscale = {"data_type": dtype, "num_channels": channels, "type": "image"}
    created = ts.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": str(folder)},
            "multiscale_metadata": multiscale,
            "scale_metadata": scale,
            "create": True,
        }
    ).result()
    data = voxels(rng, (*size, channels), dtype)
    created.write(data).result()
    return data


def volume_there_and_back(program, choice, rng, root):
    data = make_volume(choice, rng, root / "volume")
    before = json.loads((root / "volume/info").read_text())
    flags = choice.choice([[], [], ["--chunks-per-shard", "2"], ["--shard", "none"], ["--codec", "zstd:1"]])
    report = run(program, "convert", root / "volume", root / "group", "--json", *flags)
    name = report["levels"][0]["target"]
    array = zarr.open_group(root / "group", mode="r")[name]
    assert list(array.metadata.dimension_names) == ["x", "y", "z", "channel"]
    np.testing.assert_array_equal(array[...], data)
    report = run(program, "convert", root / "group", root / "back", "--to", "precomputed", "--json")
    assert report["info"] == "kept", report
    text = (root / "back/info").read_text()
    assert json.loads(text) == before
    assert list(json.loads(text)) == list(before)
    back = ts.open(spec(root / "back")).result()
    np.testing.assert_array_equal(back.read().result(), data)


def array_there_and_back(program, choice, rng, root):
    dtype = choice.choice(TYPES)
    names = choice.choice([["z", "y", "x"], ["x", "y", "z"], ["c", "z", "y", "x"], ["x", "y", "z", "channel"]])
    shape = [3 if n in ("c", "channel") else choice.randrange(1, 40) for n in names]
    chunks = [choice.choice([1, 3]) if n in ("c", "channel") else choice.randrange(1, 17) for n in names]
    version = choice.choice([2, 3])
    fill = choice.choice([0, 0, 5])
    options = {"shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": fill, "zarr_format": version}
    if version == 3:
        options["dimension_names"] = names
        gzip = zarr.codecs.GzipCodec(level=1)
        options["compressors"] = choice.choice([[], [gzip], [zarr.codecs.ZstdCodec(level=1)]])
        if choice.random() < 0.5:
            options["shards"] = [n * 2 for n in chunks]
    else:
        options["attributes"] = {"_ARRAY_DIMENSIONS": names}
        options["order"] = choice.choice(["C", "F"])
    array = zarr.create_array(store=str(root / "array"), **options)
    data = voxels(rng, tuple(shape), dtype)
    if choice.random() < 0.5:
        array[...] = data
    else:
        # What is not written is the fill value.
        half = shape[0] // 2
        array[:half] = data[:half]
    flags = choice.choice([[], ["--data-encoding", "raw"], ["--shard", "none"], ["--target-size", "4096"]])
    run(program, "convert", root / "array", root / "volume", "--to", "precomputed", "--json", *flags)
    channel = next((names.index(n) for n in ("c", "channel") if n in names), None)
    expected = array[...]
    expected = expected[..., None] if channel is None else np.moveaxis(expected, channel, -1)
    rest = [n for n in names if n not in ("c", "channel")]
    expected = expected.transpose([rest.index(n) for n in ("x", "y", "z")] + [3])
    volume = ts.open(spec(root / "volume")).result()
    np.testing.assert_array_equal(volume.read().result(), expected)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardine", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100)
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.shardine).resolve())
    seed, cases = arguments.seed, arguments.cases
    for case in range(seed, seed + cases):
        choice, rng = random.Random(case), np.random.default_rng(case)
        with tempfile.TemporaryDirectory() as folder:
            check = choice.choice([volume_there_and_back, array_there_and_back])
            try:
                check(program, choice, rng, pathlib.Path(folder))
            except BaseException:
                print(f"case {case} ({check.__name__}) failed", file=sys.stderr)
                raise
    print(f"{cases} conversions from seed {seed} on: all voxels and documents are what they were")


if __name__ == "__main__":
    main()
