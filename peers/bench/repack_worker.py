"""The Python implementations in the benchmark of packing chunks in another way.

`repack_worker.py JOB` does one job: `make` writes the image into a new array with zarr-python, `convert` reads one array and
writes another, `compare` reads all of an array with tensorstore and compares it with the image. `--versions` tells what is
installed.
"""

from __future__ import annotations

import itertools
import json
import sys
from importlib.metadata import version
from pathlib import Path

# Shards that one transaction of tensorstore writes: the default of ome2024-ngff-challenge, which converts this way.
IN_TRANSACTION = 16


def blocks(shape, edge):
    """All blocks of a shape, in C order."""
    starts = [range(0, n, edge) for n in shape]
    for start in itertools.product(*starts):
        yield tuple(slice(at, min(at + edge, n)) for at, n in zip(start, shape))


def create(job):
    """Writes the metadata of a new array; returns where it is."""
    target = Path(job["target"])
    target.mkdir(parents=True)
    (target / job["document"]).write_text(json.dumps(job["metadata"]))
    return str(target)


def tensorstore_open(tensorstore, path):
    driver = "zarr" if (Path(path) / ".zarray").exists() else "zarr3"
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}
    return tensorstore.open(spec, open=True).result()


def convert_with_tensorstore(job):
    import tensorstore

    source = tensorstore_open(tensorstore, job["source"])
    target = tensorstore_open(tensorstore, create(job))
    remaining = blocks(job["shape"], job["block"])
    while batch := list(itertools.islice(remaining, IN_TRANSACTION)):
        with tensorstore.Transaction() as transaction:
            for block in batch:
                target.with_transaction(transaction)[block] = source[block]


def convert_with_zarr_python(job):
    import zarr

    source = zarr.open_array(job["source"], mode="r")
    target = zarr.open_array(create(job), mode="r+")
    for block in blocks(job["shape"], job["block"]):
        target[block] = source[block]


def image(job):
    import numpy

    return numpy.memmap(job["volume"], dtype="<u2", mode="r", shape=tuple(job["shape"]))


def make(job):
    import zarr

    volume = image(job)
    target = zarr.open_array(create(job), mode="r+")
    for block in blocks(job["shape"], job["block"]):
        target[block] = volume[block]


def packing(document):
    """The shapes of objects and of inner chunks, and what matters of the codecs."""
    codecs, inner = document["codecs"], None
    if codecs[0]["name"] == "sharding_indexed":
        configuration = codecs[0]["configuration"]
        codecs, inner = configuration["codecs"], list(configuration["chunk_shape"])
    keys = ("endian", "cname", "clevel", "shuffle", "level")
    settings = [{k: v for k, v in c.get("configuration", {}).items() if k in keys} for c in codecs]
    outer = list(document["chunk_grid"]["configuration"]["chunk_shape"])
    return outer, inner, [c["name"] for c in codecs], settings


def compare(job):
    import numpy
    import tensorstore

    if job.get("metadata"):
        found = json.loads((Path(job["source"]) / "zarr.json").read_bytes())
        if packing(found) != packing(job["metadata"]):
            sys.exit(f"{job['source']} is packed as {packing(found)}, not {packing(job['metadata'])}")
    volume = image(job)
    array = tensorstore_open(tensorstore, job["source"])
    if tuple(array.shape) != volume.shape or array.dtype.numpy_dtype != numpy.dtype("<u2"):
        sys.exit(f"{job['source']} is another array")
    for block in blocks(job["shape"], 256):
        if not numpy.array_equal(array[block].read().result(), volume[block]):
            sys.exit(f"{job['source']} has other elements at {block}")


def main():
    if sys.argv[1] == "--versions":
        for name in ("tensorstore", "zarr", "numcodecs"):
            print(f"{'zarr-python' if name == 'zarr' else name} {version(name)}")
        return
    job = json.loads(Path(sys.argv[1]).read_bytes())
    action = {
        "make": make,
        "compare": compare,
        "tensorstore": convert_with_tensorstore,
        "zarr-python": convert_with_zarr_python,
    }
    action[job.get("subject", job["action"])](job)


main()
