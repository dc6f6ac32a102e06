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


def image_to_volume(program, choice, rng, root):
    """An OME-Zarr image of version 0.4 or 0.5, by its multiscales."""
    dtype, version = choice.choice(TYPES), choice.choice([2, 3])
    names = choice.choice([["z", "y", "x"], ["c", "z", "y", "x"], ["t", "c", "z", "y", "x"], ["x", "z", "y"], ["t", "z", "y", "x"]])
    unit, nanometres = choice.choice([("micrometer", 1e3), ("nanometer", 1), ("millimeter", 1e6), (None, 1)])
    kinds = {"t": "time", "c": "channel"}
    axes = [{"name": n, "type": kinds.get(n, "space")} for n in names]
    for axis in axes:
        if unit and axis["type"] == "space":
            axis["unit"] = unit
    scales = {"x": 0.25, "y": 0.5, "z": 2.0}
    lengths = {"t": 1, "c": 2, "x": choice.randrange(4, 30), "y": choice.randrange(4, 30), "z": choice.randrange(4, 30)}
    group = zarr.create_group(str(root / "image"), zarr_format=version)
    levels, datasets = [], []
    for level in range(2):
        shape = [n if name in kinds else -(-n // 2**level) for name, n in ((name, lengths[name]) for name in names)]
        options = {"dimension_names": names} if version == 3 else {}
        chunks = [choice.randrange(1, 9) for _ in names]
        # Not in the order of their names.
        array = group.create_array(f"s{9 - level}", shape=shape, chunks=chunks, dtype=dtype, **options)
        array[...] = voxels(rng, tuple(shape), dtype)
        levels.append(array[...])
        scale = [scales.get(name, 1.0) * (2**level if name in scales else 1) for name in names]
        transform = [{"type": "scale", "scale": scale}]
        datasets.append({"path": f"s{9 - level}", "coordinateTransformations": transform})
    group.create_array("other", shape=(2, 2), chunks=(2, 2), dtype="f8")
    multiscales = [{"version": "0.4", "axes": axes, "datasets": datasets, "name": "trial"}]
    if version == 2:
        group.attrs["multiscales"] = multiscales
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": multiscales}
    source = choice.choice(["image", "image", "image/s9"])
    run(program, "convert", root / source, root / "volume", "--to", "precomputed", "--json")
    info = json.loads((root / "volume/info").read_text())
    expected = levels if source == "image" else levels[:1]
    assert len(info["scales"]) == len(expected), info
    for level, data in enumerate(expected):
        resolution = [scales[name] * 2**level * nanometres for name in "xyz"]
        np.testing.assert_allclose(info["scales"][level]["resolution"], resolution)
        rest = [n for n in names if n != "t"]
        data = data.reshape([n for name, n in zip(names, data.shape) if name != "t"])
        if "c" not in rest:
            data, rest = data[..., None], [*rest, "c"]
        data = data.transpose([rest.index(n) for n in "xyzc"])
        volume = ts.open(spec(root / "volume", level)).result()
        np.testing.assert_array_equal(volume.read().result(), data)


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
            check = choice.choice([volume_there_and_back, array_there_and_back, image_to_volume])
            try:
                check(program, choice, rng, pathlib.Path(folder))
            except BaseException:
                print(f"case {case} ({check.__name__}) failed", file=sys.stderr)
                raise
    print(f"{cases} conversions from seed {seed} on: all voxels and documents are what they were")


if __name__ == "__main__":
    main()
