"""Writes zarr_python.json: the consolidated metadata of a small hierarchy as zarr-python writes it.

Run with: pip install zarr; python make_zarr_python.py (made with zarr 3.1.6)
It has what is hard about such documents: NaN, infinities and long integers in attributes, shards, an array
without dimensions and one without elements, and nested groups. A line feed is added at the end.
"""

import math
import pathlib
import shutil
import tempfile

import zarr


def main():
    root = pathlib.Path(tempfile.mkdtemp())
    attributes = {"nan": math.nan, "numbers": [-math.inf, math.inf, 2**70, 0.1, 1e-7], "text": "\u00e9"}
    group = zarr.open_group(root, mode="w", zarr_format=3, attributes=attributes)
    group.create_array(
        "sub/a", shape=(10, 0), shards=(4, 4), chunks=(2, 2), dtype="f4", fill_value=math.nan,
        dimension_names=["x", None], attributes={"nan": math.nan},
    )
    group.create_array("scalar", shape=(), dtype="i2", fill_value=-1)
    group.create_array(
        "old_keys", shape=(7,), chunks=(3,), dtype=">u2", chunk_key_encoding={"name": "v2", "separator": "/"},
        compressors=None,
    )
    group.create_array("text", shape=(3,), chunks=(3,), dtype=str)
    zarr.consolidate_metadata(root, zarr_format=3)
    text = (root / "zarr.json").read_text()
    pathlib.Path("zarr_python.json").write_text(text + "\n")
    shutil.rmtree(root)


main()
