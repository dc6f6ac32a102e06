"""Stores of the same meaning that zarr-vectors 0.9.2 itself does not write: other releases of 0.9 and lost lists."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import zarr

from .cells import document, manifest
from .stored import arrays, is_grid


def _change(folder: Path, change) -> None:  # noqa: ANN001
    told = document(folder)
    change(told["attributes"])
    (folder / "zarr.json").write_text(json.dumps(told, indent=1))


def no_lists(root: Path, _dice: random.Random) -> None:
    """0.9.3 may leave `nonempty_chunks` out."""
    for array in arrays(root):
        if is_grid(root, array):
            _change(array, lambda attributes: attributes.pop("nonempty_chunks", None))
    _change(root, lambda attributes: attributes["zarr_vectors"].update(zv_version="0.9.3"))


def short_lists(root: Path, dice: random.Random) -> None:
    """Lists that lack what is stored: two writers raced."""

    def forget(attributes: dict) -> None:
        listed = attributes.get("nonempty_chunks") or []
        attributes["nonempty_chunks"] = [key for key in listed if dice.random() < 0.5]

    for array in arrays(root):
        if is_grid(root, array):
            _change(array, forget)


def long_lists(root: Path, dice: random.Random) -> None:
    """Lists with chunks of the grid that nothing is stored for."""
    for array in arrays(root):
        if not is_grid(root, array):
            continue
        told = document(array)
        origin = told["attributes"].get("chunk_grid_origin") or [0] * len(told["shape"])
        more = {
            ".".join(str(o + dice.randrange(n)) for o, n in zip(origin, told["shape"], strict=True))
            for _ in range(3)
        }
        _change(
            array,
            lambda attributes, more=more: attributes.update(
                nonempty_chunks=sorted({*attributes.get("nonempty_chunks", []), *more})
            ),
        )


def older(root: Path, dice: random.Random) -> None:
    """0.9.0 and 0.9.1 have the same arrays."""
    version = dice.choice(["0.9.0", "0.9.1"])

    def stamp(attributes: dict) -> None:
        attributes["zarr_vectors"]["zv_version"] = version
        attributes.pop("ome", None)

    _change(root, stamp)


def _levels(root: Path) -> list[Path]:
    return [path for path in sorted(root.glob("*/object_index")) if (path / "manifests").exists()]


def _rows(folder: Path) -> tuple[list[bytes], list[int]]:
    rows = [bytes(row) for row in zarr.open_array(folder / "manifests", mode="r")[...]]
    if (folder / "object_ids").exists():
        return rows, zarr.open_array(folder / "object_ids", mode="r")[...].tolist()
    return rows, list(range(len(rows)))


def first_manifests(root: Path, _dice: random.Random) -> bool:
    """`vlen_manifests_v1`: the id of an object is its row. Not for ids far apart."""
    found = _levels(root)
    if not found or any(max(_rows(folder)[1], default=0) > 5000 for folder in found):
        return False
    for folder in found:
        rows, ids = _rows(folder)
        whole = [b""] * (max(ids, default=-1) + 1)
        for number, row in zip(ids, rows, strict=True):
            whole[number] = row
        if whole != rows:
            old = document(folder / "manifests")
            old["shape"] = [len(whole)]
            shutil.rmtree(folder / "manifests")
            (folder / "manifests").mkdir()
            (folder / "manifests" / "zarr.json").write_text(json.dumps(old))
            data = np.empty(len(whole), object)
            data[:] = whole
            zarr.open_array(folder / "manifests", mode="r+")[...] = data
        shutil.rmtree(folder / "object_ids", ignore_errors=True)
        said = {"layout": "vlen_manifests_v1", "num_objects": len(whole)}
        _change(folder, lambda attributes, said=said: attributes.update(said))
    return True


def dense_manifests(root: Path, _dice: random.Random) -> bool:
    """`dense_manifests_v1` of 0.9.4: one row for each fragment of an object."""
    if not _levels(root):
        return False
    for folder in _levels(root):
        rows, ids = _rows(folder)
        axes = document(folder)["attributes"]["sid_ndim"]
        blocks, spans = [], []
        for row in rows:
            own = manifest(row, axes) if row else []
            spans.append((len(blocks), len(own)))
            blocks += [[*cell, number] for cell, number in own]
        shutil.rmtree(folder / "manifests")
        for name, data, columns in (("spans", spans, 2), ("blocks", blocks, axes + 1)):
            table = np.asarray(data, np.int64).reshape(-1, columns)
            zarr.create_array(
                folder / f"manifest_{name}",
                data=table,
                chunks=(max(1, min(len(table), 7)), columns),
            )
        if not (folder / "object_ids").exists():
            zarr.create_array(folder / "object_ids", data=np.asarray(ids, np.int64))
        _change(folder, lambda attributes: attributes.update(layout="dense_manifests_v1"))
    _change(
        root,
        lambda attributes: attributes["zarr_vectors"].update(
            zv_version="0.9.4", required_capabilities=["dense_manifests"], manifest_layout="dense"
        ),
    )
    return True


SAME = {
    "no nonempty_chunks": no_lists,
    "short nonempty_chunks": short_lists,
    "long nonempty_chunks": long_lists,
    "0.9.0": older,
    "manifests v1": first_manifests,
    "dense manifests": dense_manifests,
}
"""Changes that keep what a store means. One answers False if a store cannot be changed so."""


def _version(version: str):  # noqa: ANN202
    def stamp(root: Path) -> None:
        _change(root, lambda attributes: attributes["zarr_vectors"].update(zv_version=version))

    return stamp


def _capability(root: Path) -> None:
    _change(
        root,
        lambda attributes: attributes["zarr_vectors"].update(
            required_capabilities=["hyperdrive_v3"]
        ),
    )


REFUSED = {
    "0.2.0": _version("0.2.0"),
    "0.8.1": _version("0.8.1"),
    "0.10.0": _version("0.10.0"),
    "1.0.0": _version("1.0.0"),
    "unknown capability": _capability,
}
"""Changes that must keep anybody from reading a store."""
