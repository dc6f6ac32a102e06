"""Files that `shardine vectors write` takes, written without it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from .draw import Case
from .geometry import Geometry
from .query import AXES


def _columns(case: Case) -> dict[str, np.ndarray]:
    """The columns of a table."""
    own = case.geometry
    if own.kind == "line":
        ends = own.positions.reshape(-1, 2, case.axes)
        columns = {
            f"{name}{end}": ends[:, end, at]
            for end in (0, 1)
            for at, name in enumerate(AXES[: case.axes])
        }
        # One row is one line, so that what else is in it belongs to the line.
        return {**columns, **case.object_attributes}
    columns = {name: own.positions[:, at] for at, name in enumerate(AXES[: case.axes])}
    if own.object_ids is not None and case.flavour not in ("graph", "mesh"):
        columns["object_id"] = own.object_ids
    return {**columns, **own.attributes}


def _arrow(data: np.ndarray) -> pa.Array:
    if data.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(data.reshape(-1)), data.shape[1])
    if data.dtype.kind in "OU":
        return pa.array(data.tolist(), pa.string()).dictionary_encode()
    return pa.array(data)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return str(value)


def _csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows(
            [_text(value) for value in row] for row in zip(*columns.values(), strict=True)
        )


def edges(path: Path, links: np.ndarray) -> None:
    """Edges, or faces: the rows that each joins."""
    _csv(path, dict(zip("abc", links.T, strict=False)))


def table(path: Path, case: Case) -> None:
    """The vertices of a case."""
    columns(path, _columns(case))


def columns(path: Path, columns: dict[str, np.ndarray]) -> None:
    """CSV, Parquet or Arrow, by the name of the file."""
    if path.suffix == ".csv":
        _csv(path, columns)
        return
    data = pa.table({name: _arrow(values) for name, values in columns.items()})
    if path.suffix == ".parquet":
        # Several row groups.
        pyarrow.parquet.write_table(data, path, row_group_size=max(1, len(data) // 3))
        return
    with pa.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, data.schema) as writer:
        for batch in data.to_batches(max_chunksize=max(1, len(data) // 3)):
            writer.write_batch(batch)


def npy(path: Path, own: Geometry) -> None:
    np.save(path, own.positions)


def obj(path: Path, own: Geometry) -> None:
    lines = ["# a mesh"]
    lines += ["v " + " ".join(_text(value) for value in row) for row in own.positions]
    lines += ["f " + " ".join(str(row + 1) for row in face) for face in own.links.tolist()]
    path.write_text("\n".join(lines) + "\n")


def ply(path: Path, own: Geometry, *, binary: bool) -> None:
    kind = {"f4": "float", "f8": "double"}[own.positions.dtype.str[1:]]
    form = "binary_little_endian" if binary else "ascii"
    head = ["ply", f"format {form} 1.0", f"element vertex {len(own.positions)}"]
    head += [f"property {kind} {name}" for name in "xyz"]
    ids = own.object_ids if own.object_ids is not None and own.object_ids.any() else None
    if ids is not None:
        head.append("property int object_id")
    faces = own.links if own.kind == "mesh" else own.links[:0]
    if own.kind == "mesh":
        head += [f"element face {len(faces)}", "property list uchar int vertex_indices"]
    head.append("end_header\n")
    if binary:
        body = b"".join(
            row.tobytes() + (b"" if ids is None else ids[at].astype("<i4").tobytes())
            for at, row in enumerate(own.positions)
        )
        body += b"".join(b"\3" + np.asarray(face, "<i4").tobytes() for face in faces)
    else:
        rows = [" ".join(_text(value) for value in row) for row in own.positions]
        if ids is not None:
            rows = [f"{row} {number}" for row, number in zip(rows, ids.tolist(), strict=True)]
        rows += ["3 " + " ".join(map(str, face)) for face in faces.tolist()]
        body = ("\n".join(rows) + "\n").encode()
    path.write_bytes("\n".join(head).encode() + body)


def swc(path: Path, own: Geometry, radius: np.ndarray, kind: np.ndarray) -> None:
    """The tree of one object. Numbers begin at 1 and have gaps."""
    parent = {int(child): int(up) for child, up in own.links}
    lines = ["# a neuron"]
    for row, at in enumerate(own.positions):
        up = 2 * parent[row] + 1 if row in parent else -1
        where = " ".join(_text(value) for value in at)
        lines.append(f"{2 * row + 1} {kind[row]} {where} {_text(radius[row])} {up}")
    path.write_text("\n".join(lines) + "\n")
