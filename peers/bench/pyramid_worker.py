"""The other tools in the benchmark of pyramids.

`pyramid_worker.py JOB` does one job: `make` writes the finest level of an image with TensorStore, `make-precomputed` the same
as a precomputed volume with cloud-volume, `compare` reads all levels of a result and compares them with those of a
reference, and each tool makes the lower levels of the image. `--versions` tells what is installed.
"""

from __future__ import annotations

import itertools
import json
import sys
from importlib.metadata import version
from pathlib import Path

TOOLS = ("tensorstore", "ome-zarr", "ngff-zarr", "igneous-pipeline", "zarr", "dask")


def boxes(shape, edges):
    """All boxes of a grid, in C order."""
    starts = [range(0, n, edge) for n, edge in zip(shape, edges, strict=True)]
    for start in itertools.product(*starts):
        yield tuple(slice(at, min(at + edge, n)) for at, edge, n in zip(start, edges, shape, strict=True))


def open_zarr(path):
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return tensorstore.open(spec, open=True).result()


def reader(image, level):
    """A function that reads boxes of a level, whatever it is called there; None if there is none."""
    if (image / "info").exists():
        from cloudvolume import CloudVolume

        # TensorStore does not read chunks that are compressed as files.
        cloud = CloudVolume(f"file://{image}", progress=False)
        if level not in cloud.available_mips:
            return None
        cloud = CloudVolume(f"file://{image}", mip=level, progress=False)
        return lambda box: cloud[tuple(reversed(box))][..., 0].T
    names = (str(level), f"s{level}", f"scale{level}", f"scale{level}/image")
    found = [image / name for name in names if (image / name / "zarr.json").exists()]
    array = open_zarr(found[-1])
    return lambda box: array[box].read().result()


def volume(job):
    import numpy

    return numpy.memmap(job["volume"], dtype="<u2", mode="r", shape=tuple(job["shape"]))


def make(job):
    image = Path(job["target"])
    finest = image / "0"
    finest.mkdir(parents=True)
    (image / "zarr.json").write_text(json.dumps(job["group"]))
    (finest / "zarr.json").write_text(json.dumps(job["metadata"]))
    array, elements = open_zarr(finest), volume(job)
    for box in boxes(job["shape"], job["shard"]):
        array[box] = elements[box]


def make_precomputed(job):
    from cloudvolume import CloudVolume

    info = CloudVolume.create_new_info(
        num_channels=1,
        layer_type="image",
        data_type="uint16",
        encoding="raw",
        resolution=[1, 1, 1],
        voxel_offset=[0, 0, 0],
        chunk_size=job["chunk"],
        volume_size=list(reversed(job["shape"])),
    )
    cloud = CloudVolume(f"file://{job['target']}", info=info, compress="zstd", progress=False)
    cloud.commit_info()
    elements = volume(job)
    for box in boxes(job["shape"], [256, 256, 256]):
        cloud[tuple(reversed(box))] = elements[box].T[..., None]


def tensorstore_pyramid(job):
    """Level by level, shard by shard, each in a transaction so that a shard is written once."""
    import tensorstore

    image = Path(job["target"])
    finer = open_zarr(image / "0")
    for level in job["levels"]:
        folder = image / level["path"]
        folder.mkdir()
        (folder / "zarr.json").write_text(json.dumps(level["metadata"]))
        coarser = open_zarr(folder)
        reduced = tensorstore.downsample(finer, [2, 2, 2], "mean")
        for box in boxes(level["shape"], level["shard"]):
            with tensorstore.Transaction() as transaction:
                coarser.with_transaction(transaction)[box] = reduced[box]
        finer = coarser


def factors(job):
    """By how much each level is smaller than the finest."""
    return [{axis: 2 ** (n + 1) for axis in "zyx"} for n in range(len(job["levels"]))]


def ome_zarr_pyramid(job):
    import dask
    import dask.array
    import zarr
    from ome_zarr.scale import Methods
    from ome_zarr.writer import write_image
    from zarr.codecs import ZstdCodec

    source = zarr.open_array(Path(job["source"]) / "0", mode="r")
    shards = [job["shard"], *(level["shard"] for level in job["levels"])]
    options = [
        {"chunks": tuple(job["chunk"]), "shards": tuple(shard), "compressors": [ZstdCodec(level=3)]}
        for shard in shards
    ]
    delayed = write_image(
        dask.array.from_zarr(source, chunks=tuple(job["shard"])),
        zarr.open_group(job["target"], mode="w"),
        axes="zyx",
        scale_factors=factors(job),
        method=Methods.LOCAL_MEAN,
        storage_options=options,
        compute=False,
    )
    # The finest level is there already.
    dask.compute(*delayed[1:])


def ngff_zarr_pyramid(job):
    import dask.array
    import ngff_zarr
    import zarr

    source = zarr.open_array(Path(job["source"]) / "0", mode="r")
    data = dask.array.from_zarr(source, chunks=tuple(job["chunk"]))
    image = ngff_zarr.to_ngff_image(data, dims=["z", "y", "x"])
    multiscales = ngff_zarr.to_multiscales(
        image,
        scale_factors=factors(job),
        method=ngff_zarr.Methods.ITKWASM_BIN_SHRINK,
        chunks=tuple(job["chunk"]),
    )
    # The finest level is there already.
    ngff_zarr.to_ngff_zarr(
        job["target"], multiscales, version="0.5", chunks_per_shard=job["per_shard"], start_level=1,
        overwrite=False,
    )


def igneous_pyramid(job):
    """As many levels as it makes: it stops where the shortest axis is one chunk long."""
    from igneous.task_creation import create_downsampling_tasks
    from taskqueue import LocalTaskQueue

    tasks = create_downsampling_tasks(
        f"file://{job['target']}",
        mip=0,
        factor=(2, 2, 2),
        compress="zstd",
        memory_target=job["memory"],
    )
    queue = LocalTaskQueue(parallel=job["threads"], progress=False)
    queue.insert(tasks)
    queue.execute()


def compare(job):
    """Prints the largest difference of any element to the reference, and how many levels were compared."""
    import numpy

    result, reference = Path(job["target"]), Path(job["reference"])
    largest, levels = 0, 0
    for level in range(1, len(job["levels"]) + 1):
        read, wanted = reader(result, level), open_zarr(reference / str(level))
        if read is None:
            break
        levels += 1
        for box in boxes(wanted.shape, [256, 256, 256]):
            one, other = numpy.asarray(read(box)).astype("i4"), wanted[box].read().result().astype("i4")
            if one.shape != other.shape:
                sys.exit(f"level {level} of {result} has other lengths in {box}")
            largest = max(largest, int(numpy.abs(one - other).max()))
    print(json.dumps({"difference": largest, "levels": levels}))


def check(job):
    """Fails unless each level of an image is what TensorStore makes of the one before it."""
    import numpy
    import tensorstore

    image = Path(job["target"])
    for level in range(1, len(job["levels"]) + 1):
        finer, coarser = open_zarr(image / str(level - 1)), open_zarr(image / str(level))
        reduced = tensorstore.downsample(finer, [2, 2, 2], "mean")
        for box in boxes(coarser.shape, [128, 256, 256]):
            if not numpy.array_equal(reduced[box].read().result(), coarser[box].read().result()):
                sys.exit(f"level {level} of {image} differs from TensorStore's in {box}")


def main():
    if sys.argv[1] == "--versions":
        for name in TOOLS:
            print(f"{name} {version(name)}")
        return
    job = json.loads(Path(sys.argv[1]).read_bytes())
    action = {
        "make": make,
        "make-precomputed": make_precomputed,
        "compare": compare,
        "check": check,
        "tensorstore": tensorstore_pyramid,
        "ome-zarr-py": ome_zarr_pyramid,
        "ngff-zarr": ngff_zarr_pyramid,
        "igneous": igneous_pyramid,
    }
    action[job["action"]](job)


# Tasks of igneous run in processes of their own, which load this file.
if __name__ == "__main__":
    main()
