"""Data sets of webknossos-wrap: what the wkw package has written and reads, Shardine reads, verifies and converts.

    python peers/wkw_check.py --shardine PATH [--seed N] [--cases N]

See peers/README.md.
"""

import argparse
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from collections import Counter

import numpy as np
import wkw
import zarr

TYPES = [np.dtype(f"{kind}{size}") for kind in "ui" for size in (1, 2, 4, 8)]
TYPES += [np.dtype("f4"), np.dtype("f8")]
BLOCKS = {1: "raw", 2: "lz4", 3: "lz4hc"}


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return done.stdout


def voxels(rng, shape, dtype):
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    data = rng.integers(0, 100, shape).astype(dtype)
    # Runs, as labels have them.
    return np.repeat(data[:, :, :, ::4], 4, axis=3)[:, :, :, : shape[3]]


def write_some(choice, rng, dataset, edge, grid, channels, dtype, whole):
    """Writes files here and there; tells how many there are."""
    written = 0
    for place in itertools.product(*map(range, grid)):
        # The last one is always there, so that the extent is that of the grid.
        if place != tuple(n - 1 for n in grid) and choice.random() < 0.4:
            continue
        offset = [at * edge for at in place]
        size = [edge] * 3
        if not whole and choice.random() < 0.5:
            shift = [choice.randrange(edge) for _ in range(3)]
            offset = [at + s for at, s in zip(offset, shift, strict=True)]
            size = [choice.randint(1, edge - s) for s in shift]
        dataset.write(offset, np.asfortranarray(voxels(rng, (channels, *size), dtype)))
        written += 1
    return written


def properties(layers, scale):
    return {"id": {"name": "case", "team": ""}, "dataLayers": layers, "scale": scale}


def layer(name, box, mags, newer):
    top_left, size = box
    described = {
        "name": name,
        "category": "color",
        "dataFormat": "wkw",
        "boundingBox": {
            "topLeft": top_left,
            "width": size[0],
            "height": size[1],
            "depth": size[2],
        },
    }
    if newer:
        described["mags"] = [{"mag": mag, "path": f"./{name}/{folder}"} for mag, folder in mags]
    else:
        described["wkwResolutions"] = [{"resolution": mag, "cubeLength": 32} for mag, _ in mags]
    return described


def read(shardine, url, folder, region=None, level=None):
    target = folder / "read.npy"
    arguments = [] if region is None else ["--region", ",".join(f"{a}:{b}" for a, b in region)]
    arguments += [] if level is None else ["--level", level]
    run(shardine, "read", url, *arguments, "-o", target, "--overwrite")
    return np.load(target)


def expected(dataset, shape, region=None):
    """What wkw reads of a box, with the channels last."""
    region = region or [(0, n) for n in shape]
    start = [a for a, _ in region]
    size = [b - a for a, b in region]
    return np.moveaxis(dataset.read(start, size), 0, 3)


def same(ours, theirs, what):
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        raise AssertionError(f"{what}: {ours.dtype} {ours.shape}, not {theirs.dtype} {theirs.shape}")
    if ours.tobytes() != np.ascontiguousarray(theirs).tobytes():
        raise AssertionError(f"{what}: other voxels")


def check(case, choice, rng, shardine, folder, met):
    dtype = TYPES[case % len(TYPES)]
    block_type = 1 + case % 3
    channels = 1 + case // 3 % 3
    block, per_file = choice.choice([2, 4, 8]), choice.choice([1, 2, 4])
    edge = block * per_file
    grid = [choice.randint(1, 3) for _ in range(3)]
    made = wkw.Header(
        dtype.type, num_channels=channels, block_len=block, file_len=per_file, block_type=block_type
    )
    fine = folder / "ds" / "color" / "1"
    fine.parent.mkdir(parents=True)
    with wkw.Dataset.create(str(fine), made) as dataset:
        # Compressed files are written whole.
        whole = block_type != 1
        files = write_some(choice, rng, dataset, edge, grid, channels, dtype, whole)
        shape = [n * edge for n in grid]
        met.update([dtype.name, BLOCKS[block_type], f"channels {channels}"])
        if files < np.prod(grid):
            met["missing files"] += 1

        # Without a document the array ends with its files.
        same(read(shardine, fine, folder), expected(dataset, shape), "all")
        region = [sorted(choice.sample(range(n + 1), 2)) for n in shape]
        same(read(shardine, fine, folder, region), expected(dataset, shape, region), region)
        told = json.loads(run(shardine, "info", fine, "--json"))
        if told["stored"]["objects"] != files or told["stored"]["damaged_shards"] != 0:
            raise AssertionError(f"{files} files, but told {told['stored']}")

        # With one it ends where the box does, at every magnification.
        top_left = [choice.randrange(edge) for _ in range(3)]
        size = [choice.randint(1, n + 5) for n in shape]
        mag = choice.choice([[2, 2, 1], [2, 2, 2], [4, 4, 2]])
        name = str(mag[0]) if len(set(mag)) == 1 else "-".join(map(str, mag))
        end = [a + n for a, n in zip(top_left, size, strict=True)]
        ends = [[-(-n // m) for n, m in zip(end, each, strict=True)] for each in ([1, 1, 1], mag)]
        coarse = folder / "ds" / "color" / name
        coarse_grid = [-(-n // edge) for n in ends[1]]
        with wkw.Dataset.create(str(coarse), made) as second:
            write_some(choice, rng, second, edge, coarse_grid, channels, dtype, whole)
            newer = choice.random() < 0.5
            mags = [(mag, name), ([1, 1, 1], "1")]
            document = properties([layer("color", (top_left, size), mags, newer)], [4, 4, 25])
            (folder / "ds" / "datasource-properties.json").write_text(json.dumps(document))
            for level, (set_, at, shape) in enumerate(
                [(dataset, fine, ends[0]), (second, coarse, ends[1])]
            ):
                theirs = expected(set_, shape)
                same(read(shardine, at, folder), theirs, f"{at.name} in its box")
                ours = read(shardine, folder / "ds" / "color", folder, level=level)
                same(ours, theirs, f"level {level}")
            run(shardine, "verify", folder / "ds", "--decode")
            if case % 4 == 0:
                # zarr-python reads what becomes of it.
                run(shardine, "convert", folder / "ds" / "color", folder / "converted")
                group = zarr.open_group(folder / "converted", mode="r")
                same(group["1"][...], expected(dataset, ends[0]), "converted")
                same(group[name][...], expected(second, ends[1]), f"{name} converted")
                met["converted"] += 1
        met["newer document" if newer else "older document"] += 1

    if block_type == 1 and choice.random() < 0.5:
        # As `webknossos compress` does.
        with wkw.Dataset.open(str(fine)) as dataset:
            packed = folder / "packed"
            dataset.compress(str(packed), compress_files=True)
            shape = [n * edge for n in grid]
            same(read(shardine, packed, folder), expected(dataset, shape), "compressed")
            met["compressed afterwards"] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shardine", required=True, type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=90)
    options = parser.parse_args()
    met = Counter()
    for case in range(options.cases):
        choice = random.Random(f"{options.seed} {case}")
        rng = np.random.default_rng([options.seed, case])
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(case, choice, rng, options.shardine, pathlib.Path(folder), met)
            except AssertionError as error:
                print(f"case {case} of seed {options.seed}: {error}")
                sys.exit(1)
    wanted = {dtype.name for dtype in TYPES} | set(BLOCKS.values())
    wanted |= {f"channels {n}" for n in (1, 2, 3)} | {"missing files", "compressed afterwards"}
    wanted |= {"newer document", "older document", "converted"}
    if options.cases >= 90 and (left := wanted - set(met)):
        print(f"no case met {sorted(left)}")
        sys.exit(1)
    print(f"{options.cases} data sets of wkw are read alike: {dict(sorted(met.items()))}")


if __name__ == "__main__":
    main()
