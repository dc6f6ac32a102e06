"""Reads arrays with zarr-python for the mix of readers, writers and jobs.

A folder on each line in; on each line out the smallest and the largest element of each plane, or what went wrong.
"""

import json
import sys

import zarr

for line in sys.stdin:
    try:
        planes = zarr.open_array(line.rstrip("\n"), mode="r")[...]
        answer = {"planes": [[int(plane.min()), int(plane.max())] for plane in planes]}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
