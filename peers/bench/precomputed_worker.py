"""One job of the benchmark of precomputed volumes in one process, for the tools that have a Python face.

The same as worker.py, with other tools: axes are z, y, x in a job and x, y, z, channel in the tools.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version

import numpy as np
import worker

worker.DTYPES[1] = np.dtype("u1")


def turned(selection):
    """Slices of z, y, x as those of x, y, z."""
    return tuple(reversed(selection))


def sync_files(folder):
    """What tools do not do themselves: all of them make the same promise."""
    for path in [*folder.iterdir(), folder]:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)


class TensorStore:
    """TensorStore without a cache, with its pools limited to the job's threads."""

    def __init__(self, job):
        import tensorstore

        self.ts = tensorstore
        self.job = job
        self.version = "tensorstore " + version("tensorstore")
        self.context = tensorstore.Context(
            {
                "cache_pool": {"total_bytes_limit": 0},
                "data_copy_concurrency": {"limit": job["threads"]},
                "file_io_concurrency": {"limit": job["threads"]},
            }
        )

    def open(self, path):
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": f"{path}/"},
            "scale_index": 0,
        }
        opened = self.ts.open(spec, open=True, context=self.context, recheck_cached_data=False)
        self.array = opened.result()[..., 0]

    def create(self, path):
        path.mkdir(parents=True)
        (path / "info").write_text(json.dumps(self.job["metadata"]["info"]))
        self.open(path)

    def read_fresh(self, selection):
        return self.array[turned(selection)].read(order="F").result().T

    def read_into(self, selection, out):
        self.ts.array(out.T).write(self.array[turned(selection)]).result()
        return out

    def write(self, selection, elements):
        self.array[turned(selection)].write(elements.T).result()


class CloudVolume:
    """cloud-volume, which writes a shard at a time and reads in Fortran order."""

    def __init__(self, job):
        self.job = job
        self.version = "cloud-volume " + version("cloud-volume")

    def open(self, path):
        from cloudvolume import CloudVolume as Cloud

        self.path = path
        self.volume = Cloud(f"file://{path}", mip=0, progress=False, fill_missing=True)

    def create(self, path):
        path.mkdir(parents=True)
        (path / "info").write_text(json.dumps(self.job["metadata"]["info"]))
        self.open(path)
        self.left = len(self.job["blocks"])

    def read_fresh(self, selection):
        return np.asarray(self.volume[turned(selection)])[..., 0].T

    def read_into(self, selection, out):
        # It has no way to read into memory of the caller.
        return self.read_fresh(selection)

    def write(self, selection, elements):
        self.volume[turned(selection)] = elements.T[..., None]
        self.left -= 1
        if self.left == 0:
            sync_files(self.path / "8_8_8")


class Wkw:
    """wkw: blocks of 32^3, files of an eighth of the volume."""

    def __init__(self, job):
        self.job = job
        self.version = "wkw " + version("wkw")

    def open(self, path):
        import wkw

        self.dataset = wkw.Dataset.open(str(path))

    def create(self, path):
        import wkw

        kind = wkw.Header.BLOCK_TYPE_LZ4 if self.job["subject"] == "wkw-lz4" else wkw.Header.BLOCK_TYPE_RAW
        header = wkw.Header(np.uint8, block_len=32, file_len=self.job["shard"][0] // 32, block_type=kind)
        self.dataset = wkw.Dataset.create(str(path), header)

    def read_fresh(self, selection):
        box = turned(selection)
        size = self.job["shape"][0]
        bounds = [part.indices(size) for part in box]
        offset = tuple(start for start, _, _ in bounds)
        shape = tuple(stop - start for start, stop, _ in bounds)
        return self.dataset.read(offset, shape)[0].T

    def write(self, selection, elements):
        # A compressed file is written whole.
        edge = self.job["shard"][0]
        for cell in np.ndindex(2, 2, 2):
            low = [edge * at for at in cell]
            box = tuple(slice(at, at + edge) for at in low)
            self.dataset.write(tuple(low), np.asfortranarray(elements.T[box]))


def subject_of(job):
    if job["subject"] == "tensorstore":
        return TensorStore(job)
    return CloudVolume(job) if job["subject"] == "cloud-volume" else Wkw(job)


worker.subject_of = subject_of

if __name__ == "__main__":
    worker.main()
