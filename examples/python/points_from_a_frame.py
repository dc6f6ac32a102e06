"""Writes points from a data frame, and gets those in a box back as one."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from shardine import vectors


def main(folder: Path) -> None:
    dice = np.random.default_rng(3)
    cells = pd.DataFrame(dice.uniform(0, 1000, (10_000, 3)), columns=["x", "y", "z"])
    cells["object_id"] = np.arange(len(cells)) % 200
    cells["volume"] = dice.gamma(2.0, 50.0, len(cells))
    cells["kind"] = dice.choice(["neuron", "glia"], len(cells))

    store = folder / "cells.zarrvectors"
    report = vectors.write_points(store, cells, chunk_shape=100, shard_shape=5)
    print(report.vertices, "points in", report.chunks, "chunks,", report.objects_written, "objects")

    found = vectors.read_points(store, bbox=([0, 0, 0], [250, 250, 250]))
    frame = found.to_pandas()
    print(frame.groupby("kind")["volume"].describe()[["count", "mean"]])
    inside = (cells[["x", "y", "z"]] <= 250).all(axis=1)
    assert len(frame) == inside.sum()

    large = vectors.query(store, where=["volume>=200", "kind=neuron"])
    print(large)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
