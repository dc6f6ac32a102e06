"""Reads arrays with zarr-python for the torture tests.

A folder on each line in; on each line out the crc32 of the bytes of every chunk, or what went wrong.
"""

import json
import sys
import zlib

import zarr


def checksums(path):
    array = zarr.open_array(path, mode="r")
    elements = array[...]
    (chunk,) = array.chunks
    return [zlib.crc32(elements[at : at + chunk].tobytes()) for at in range(0, len(elements), chunk)]


for line in sys.stdin:
    try:
        answer = {"chunks": checksums(line.rstrip("\n"))}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
