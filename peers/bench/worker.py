"""One job of the benchmark in one process, for the implementations that have a Python face.

Reads the same job file as the Rust worker and prints the same line of JSON: warm up, verify, then
time the workload inside this process.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import resource
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

# Blocks that are compared with the volume where there are many.
SAMPLE = 40

DTYPES = {2: np.dtype("<u2"), 8: np.dtype("<u8")}


class TensorStore:
    """tensorstore with its pools limited to the job's threads."""

    def __init__(self, job):
        import tensorstore

        self.ts = tensorstore
        self.job = job
        self.version = "tensorstore " + version("tensorstore")
        # Indexes and decoded chunks share one pool. This much holds every index but hardly a chunk.
        pool = 2_000_000 if job["index_cache"] and job["action"].startswith("read") else 0
        self.context = tensorstore.Context(
            {
                "cache_pool": {"total_bytes_limit": pool},
                "data_copy_concurrency": {"limit": job["threads"]},
                "file_io_concurrency": {"limit": job["threads"]},
            }
        )

    def open(self, path):
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
        self.array = self.ts.open(
            spec, open=True, context=self.context, recheck_cached_data=False
        ).result()

    def create(self, path):
        path.mkdir(parents=True)
        (path / "zarr.json").write_text(json.dumps(self.job["metadata"]))
        self.open(path)

    def read_fresh(self, selection):
        return self.array[selection].read().result()

    def read_into(self, selection, out):
        if out.nbytes <= 1 << 20:
            # Quicker for little: a target costs more than fresh memory.
            return self.read_fresh(selection)
        self.ts.array(out).write(self.array[selection]).result()
        return out

    def write(self, selection, elements):
        # Syncs the file and its folder itself before it reports success.
        self.array[selection].write(elements).result()


class ZarrPython:
    """zarr-python, with its own codec pipeline or that of the zarrs package."""

    def __init__(self, job):
        import zarr
        from numcodecs import blosc

        self.zarr = zarr
        blosc.set_nthreads(job["threads"])
        self.job = job
        self.version = "zarr-python " + version("zarr")
        zarr.config.set({"threading.max_workers": job["threads"]})
        if job["subject"] == "zarr-python+zarrs":
            import zarrs  # noqa: F401  (registers the pipeline)

            self.version += " with zarrs-python " + version("zarrs")
            zarr.config.set(
                {
                    "codec_pipeline.path": "zarrs.ZarrsCodecPipeline",
                    "codec_pipeline.chunk_concurrent_maximum": job["threads"],
                }
            )

    def open(self, path):
        self.path = path
        self.array = self.zarr.open_array(store=path, mode="r+")

    def create(self, path):
        path.mkdir(parents=True)
        (path / "zarr.json").write_text(json.dumps(self.job["metadata"]))
        self.open(path)

    def read_fresh(self, selection):
        return self.array[selection]

    def read_into(self, selection, out):
        from zarr.core.buffer import default_buffer_prototype

        if not out.flags.c_contiguous and self.job["subject"] == "zarr-python+zarrs":
            # That pipeline takes C order only.
            np.copyto(out, self.read_fresh(selection))
            return out
        buffer = default_buffer_prototype().nd_buffer.from_numpy_array(out)
        self.array.get_basic_selection(selection, out=buffer)
        return out

    def write(self, selection, elements):
        self.array[selection] = elements
        # zarr-python does not sync: done here, so that all make the same promise.
        shard = [s.start // n for s, n in zip(selection, self.job["shard"])]
        file = os.open(self.path.joinpath("c", *map(str, shard)), os.O_RDONLY)
        os.fsync(file)
        os.close(file)


class Shardine:
    """The Python package of this repository."""

    def __init__(self, job):
        import shardine

        self.shardine = shardine
        self.job = job
        self.version = "shardine " + shardine.__version__
        shardine.configure(
            threads=job["threads"], index_cache=None if job["index_cache"] else 0
        )

    def open(self, path):
        self.array = self.shardine.open(path)

    def create(self, path):
        path.mkdir(parents=True)
        (path / "zarr.json").write_text(json.dumps(self.job["metadata"]))
        self.open(path)

    def read_fresh(self, selection):
        return self.array[selection]

    def read_into(self, selection, out):
        return self.array.read(selection, out=out)

    def write(self, selection, elements):
        # As the Rust worker: of a shard that is written whole nothing is changed in place.
        self.array.write(selection, elements, strategy="in-place")


def subject_of(job):
    if job["subject"] == "shardine-python":
        return Shardine(job)
    return TensorStore(job) if job["subject"] == "tensorstore" else ZarrPython(job)


def slices(block):
    return tuple(slice(a, a + n) for a, n in zip(block["start"], block["shape"]))


def status(field):
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return status("VmRSS:")


def iterate(job, measured, prepare, work):
    latencies = []
    total = 0.0
    while len(measured["wall"]) < job["max_iterations"] and (
        not measured["wall"] or total < job["min_seconds"]
    ):
        prepare()
        gc.collect()
        before = reset_peak()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        work(latencies)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF)
        measured["peak_growth"] = max(measured["peak_growth"], status("VmHWM:") - before)
        measured["wall"].append(wall)
        measured["user"].append(after.ru_utime - usage.ru_utime)
        measured["system"].append(after.ru_stime - usage.ru_stime)
        total += wall
    if latencies:
        measured["p50"], measured["p99"] = map(float, np.quantile(latencies, [0.5, 0.99]))


def compare(job, volume, selection, elements):
    wanted, elements = volume[selection], np.asarray(elements)
    # In slabs: less memory, so less time that nobody measures.
    slabs = range(0, wanted.shape[0], 32)
    same = wanted.shape == elements.shape and all(
        np.array_equal(wanted[i : i + 32], elements[i : i + 32]) for i in slabs
    )
    if not same:
        raise SystemExit(f"{job['subject']} read wrong elements at {selection} of {job['array']}")


def read_fresh(job, subject, volume, selections, measured):
    subject.open(Path(job["array"]))
    for selection in selections[: job["warm_up"]]:
        compare(job, volume, selection, subject.read_fresh(selection))
        measured["verified"] += 1

    def work(_latencies):
        for selection in selections:
            subject.read_fresh(selection)

    iterate(job, measured, lambda: None, work)


def read_into(job, subject, volume, selections, measured):
    subject.open(Path(job["array"]))
    shapes = [tuple(block["shape"]) for block in job["blocks"]]
    longest = max(int(np.prod(shape)) for shape in shapes)
    # On a page, as in the Rust worker.
    memory = np.frombuffer(mmap.mmap(-1, longest * job["element"]), dtype=volume.dtype)
    memory.fill(1)
    order = "F" if job["order"] == "fortran" else "C"
    outs = {
        shape: memory[: int(np.prod(shape))].reshape(shape, order=order) for shape in set(shapes)
    }
    pairs = [(selection, outs[shape]) for selection, shape in zip(selections, shapes)]
    for i, (selection, out) in enumerate(pairs[: job["warm_up"]]):
        out.fill(1)
        result = subject.read_into(selection, out)
        if i < SAMPLE:
            compare(job, volume, selection, result)
            measured["verified"] += 1

    def work(latencies):
        if not job["latency"]:
            for selection, out in pairs:
                subject.read_into(selection, out)
            return
        clock = time.perf_counter_ns
        for selection, out in pairs:
            start = clock()
            subject.read_into(selection, out)
            latencies.append((clock() - start) / 1000)

    iterate(job, measured, lambda: None, work)


def write(job, subject, volume, selections, measured):
    # An update writes the elements of the next block; the driver checks the files.
    shift = 1 if job["action"] == "update" else 0
    sources = selections[shift:] + selections[:shift]
    pairs = [
        (selection, np.ascontiguousarray(volume[source]))
        for selection, source in zip(selections, sources)
    ]
    scratch = Path(job["scratch"])

    def prepare():
        shutil.rmtree(scratch, ignore_errors=True)
        if job["action"] == "write":
            subject.create(scratch)
            return
        shutil.copytree(job["array"], scratch)
        for file in scratch.rglob("*"):
            if file.is_file():
                with open(file, "rb") as opened:
                    os.fsync(opened.fileno())
        subject.open(scratch)

    prepare()
    for selection, elements in pairs[: job["warm_up"]]:
        subject.write(selection, elements)

    def work(_latencies):
        for selection, elements in pairs:
            subject.write(selection, elements)

    iterate(job, measured, prepare, work)


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    volume = np.memmap(job["volume"], DTYPES[job["element"]], "r", shape=tuple(job["shape"]))
    subject = subject_of(job)
    measured = {
        "version": subject.version,
        "wall": [],
        "user": [],
        "system": [],
        "peak_growth": 0,
        "verified": 0,
    }
    selections = [slices(block) for block in job["blocks"]]
    if job["action"] == "verify":
        subject.open(Path(job["array"]))
        whole = (slice(None),) * 3
        compare(job, volume, whole, subject.read_fresh(whole))
        measured["verified"] = 1
    elif job["action"] == "read_fresh":
        read_fresh(job, subject, volume, selections, measured)
    elif job["action"] == "read_into":
        read_into(job, subject, volume, selections, measured)
    else:
        write(job, subject, volume, selections, measured)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
