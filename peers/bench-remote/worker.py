"""One job of the remote benchmark in one process, for the implementations that have a Python face.

Reads the same job file as the Rust worker and prints the same line of JSON. Each implementation has
the settings that were quickest for it here; docs/bench/remote.md lists them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
import urllib.request
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np

# Requests in flight, for whoever can be told; as many as shardine has.
IN_FLIGHT = 128


class TensorStore:
    def __init__(self, job):
        import tensorstore

        self.ts = tensorstore
        self.job = job
        self.version = "tensorstore " + version("tensorstore")

    def spec(self, name):
        return {
            "driver": "zarr3",
            "kvstore": {
                "driver": "s3",
                "bucket": self.job["bucket"],
                "path": f"{name}/",
                "endpoint": f"http://{self.job['server']}",
                "aws_region": self.job["region"],
                "aws_credentials": {"type": "environment"},
            },
        }

    def context(self):
        # Without a pool no index is kept from one read to the next. It keeps decoded chunks too, so that
        # planes that cross one another share them.
        return self.ts.Context(
            {
                "cache_pool": {"total_bytes_limit": 100_000_000},
                "s3_request_concurrency": {"limit": IN_FLIGHT},
            }
        )

    def open(self, name):
        self.array = self.ts.open(
            self.spec(name), open=True, context=self.context(), recheck_cached_data="open"
        ).result()

    def create(self, name):
        metadata = {
            key: value
            for key, value in self.job["metadata"].items()
            if key not in ("zarr_format", "node_type")
        }
        spec = self.spec(name) | {"metadata": metadata}
        self.array = self.ts.open(spec, create=True, context=self.context()).result()

    def read(self, selection):
        return self.array[selection].read().result()

    def read_many(self, selections):
        # In a batch neighbours share requests, which is quicker than reads on their own.
        with self.ts.Batch() as batch:
            reads = [self.array[selection].read(batch=batch) for selection in selections]
        return [read.result() for read in reads]

    def write(self, elements):
        self.array.write(elements).result()


class ZarrPython:
    """zarr-python, with one of its ways to S3."""

    def __init__(self, job):
        import zarr

        self.zarr = zarr
        self.job = job
        zarr.config.set({"async.concurrency": IN_FLIGHT})
        self.via = job["subject"].split("+")[1]
        self.version = f"zarr-python {version('zarr')} with {self.via} {version(self.via)}"
        # Made before the clock starts: it takes 0.15 s of CPU that a process spends once.
        self.files = self.file_system() if self.via == "s3fs" else None

    def store(self, name, read_only):
        job = self.job
        endpoint = f"http://{job['server']}"
        if self.via == "obstore":
            from obstore.store import S3Store
            from zarr.storage import ObjectStore

            store = S3Store(
                job["bucket"],
                prefix=name,
                endpoint=endpoint,
                region=job["region"],
                access_key_id=job["access_key"],
                secret_access_key=job["secret_key"],
                virtual_hosted_style_request=False,
                client_options={"allow_http": True},
            )
            return ObjectStore(store, read_only=read_only)
        from zarr.storage import FsspecStore

        return FsspecStore(self.files, path=f"{job['bucket']}/{name}", read_only=read_only)

    def file_system(self):
        import s3fs

        return s3fs.S3FileSystem(
            key=self.job["access_key"],
            secret=self.job["secret_key"],
            endpoint_url=f"http://{self.job['server']}",
            client_kwargs={"region_name": self.job["region"]},
            config_kwargs={"max_pool_connections": IN_FLIGHT},
            asynchronous=True,
            use_listings_cache=False,
        )

    def open(self, name):
        self.array = self.zarr.open_array(self.store(name, True), mode="r", zarr_format=3)

    def create(self, name):
        self.array = self.zarr.create_array(
            self.store(name, False),
            shape=self.job["shape"],
            dtype="uint16",
            shards=self.job["shard"],
            chunks=self.job["chunk"],
            compressors=self.zarr.codecs.ZstdCodec(level=3),
            fill_value=0,
        )

    def read(self, selection):
        return self.array[selection]

    def read_many(self, selections):
        from zarr.core.sync import sync

        array = self.array.async_array

        async def gather():
            return await asyncio.gather(*(array.getitem(selection) for selection in selections))

        return sync(gather())

    def write(self, elements):
        self.array[...] = elements


def status(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def selection(block):
    return tuple(slice(a, a + n) for a, n in zip(block["start"], block["shape"], strict=True))


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    subject = TensorStore(job) if job["subject"] == "tensorstore" else ZarrPython(job)
    # Loads what is loaded at the first use only.
    subject.open(job["warm_up"])
    first = tuple(slice(0, n) for n in job["chunk"])
    subject.read_many([first])
    subject.read(first)
    selections = [selection(block) for block in job["blocks"]]
    writes = job["action"] == "write"
    if writes:
        elements = np.fromfile(job["volume"], "<u2").reshape(job["shape"])
    gc.collect()
    urllib.request.urlopen(f"http://{job['server']}/__proxy/reset").read()
    Path("/proc/self/clear_refs").write_text("5")
    resident = status("VmRSS:")
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    results = []
    if writes:
        subject.create(job["array"])
        subject.write(elements)
    else:
        subject.open(job["array"])
        if job["action"] == "read_many":
            results = subject.read_many(selections)
        else:
            results = [subject.read(each) for each in selections]
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    peak = status("VmHWM:")
    crc = 0
    for result in results:
        crc = zlib.crc32(np.ascontiguousarray(result, "<u2"), crc)
    print(
        json.dumps(
            {
                "version": subject.version,
                "wall": wall,
                "user": after.ru_utime - before.ru_utime,
                "system": after.ru_stime - before.ru_stime,
                "resident": resident,
                "peak": peak,
                "output": sum(result.nbytes for result in results),
                "crc": None if writes else crc,
            }
        ),
        flush=True,
    )
    # Nobody need see who has not closed which connection.
    os._exit(0)


main()
