"""`shardine vectors query` and what it writes, as a `Geometry`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
from ome.program import ProgramError, Shardine

from .geometry import Geometry

AXES = ["x", "y", "z", "t"]


def box_of(low: np.ndarray, high: np.ndarray) -> str:
    """As the command line takes it; numbers in full."""
    return ",".join(f"{float(a)!r}:{float(b)!r}" for a, b in zip(low, high, strict=True))


def column(data: pa.ChunkedArray) -> np.ndarray:
    """A column as numpy has it: strings as objects, None where there is no value."""
    data = data.combine_chunks()
    if isinstance(data, pa.ChunkedArray):
        data = pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], data.type)
    if pa.types.is_fixed_size_list(data.type) and not data.null_count:
        inner = data.flatten().to_numpy(zero_copy_only=False)
        return inner.reshape(len(data), -1)
    if pa.types.is_dictionary(data.type):
        data = data.dictionary_decode()
    if pa.types.is_string(data.type) or pa.types.is_large_string(data.type) or data.null_count:
        answer = np.empty(len(data), object)
        answer[:] = data.to_pylist()
        return answer
    return data.to_numpy(zero_copy_only=False)


def _table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    with pa.OSFile(str(path)) as file:
        try:
            return pyarrow.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            return pyarrow.ipc.open_stream(file).read_all()


def _together(columns: dict[str, np.ndarray], name: str) -> np.ndarray | None:
    """A column, or several that are the parts of one."""
    if name in columns:
        return columns[name]
    parts = []
    while f"{name}_{len(parts)}" in columns:
        parts.append(columns[f"{name}_{len(parts)}"])
    return np.stack(parts, axis=1) if parts else None


def _from_text(texts: list[str], like: np.ndarray) -> np.ndarray:
    """Text in the type that was written."""
    if like.dtype.kind in "OU":
        answer = np.empty(len(texts), object)
        answer[:] = [text or None for text in texts]
        return answer
    if like.dtype.kind == "b":
        return np.asarray([text.lower() in ("true", "1") for text in texts])
    if like.dtype.kind == "f":
        return np.asarray([float(text or "nan") for text in texts], np.float64).astype(like.dtype)
    return np.asarray([int(text) for text in texts], like.dtype)


class Query:
    """Runs queries of one store."""

    def __init__(
        self, shardine: Shardine, root: Path, scratch: Path, kind: str, like: Geometry
    ) -> None:
        self.shardine, self.root, self.scratch = shardine, root, scratch
        self.kind, self.like = kind, like
        self.number = 0
        self.summary: dict[str, Any] = {}

    def info(self) -> dict[str, Any]:
        return json.loads(self.shardine.run("vectors", "info", self.root, "--json"))

    def ask(self, *arguments: object, form: str = "arrow", links: bool = True) -> Geometry:
        """What a query answers. With `links`, the connectivity comes in a second file."""
        self.number += 1
        out = self.scratch / f"answer-{self.number}.{form}"
        edges = self.scratch / f"edges-{self.number}.csv"
        # Several stores of one case share a folder.
        command = ["vectors", "query", self.root, *arguments, "-o", out, "--overwrite"]
        if links:
            command += ["--edges", edges]
        self.summary = json.loads(self.shardine.run(*map(str, [*command, "--json"])))
        answer = self._read(out, form)
        if links:
            answer.links = self._links(edges, len(answer.positions))
        return answer

    def _read(self, out: Path, form: str) -> Geometry:
        axes = AXES[: self.like.positions.shape[1]]
        if form == "npy":
            return Geometry(self.kind, np.load(out))
        if form == "csv":
            with out.open(newline="", encoding="utf-8") as file:
                lines = list(csv.reader(file))
            texts = {name: [line[at] for line in lines[1:]] for at, name in enumerate(lines[0])}
            columns = self._typed(texts)
        else:
            table = _table(out)
            columns = {name: column(table[name]) for name in table.column_names}
        missing = [name for name in axes if name not in columns]
        if missing:
            raise ProgramError(f"the columns are {list(columns)}, without {missing}")
        positions = np.stack([columns.pop(name) for name in axes], axis=1)
        ids = columns.pop("object_id", None)
        if ids is not None and len(ids) and all(number is None for number in ids.tolist()):
            ids = None
        names = set(self.like.attributes)
        attributes = {
            name: data for name in names if (data := _together(columns, name)) is not None
        }
        self.others = {name: data for name, data in columns.items() if name not in attributes}
        return Geometry(self.kind, positions, ids, attributes)

    def _typed(self, texts: dict[str, list[str]]) -> dict[str, np.ndarray]:
        answer = {}
        for name, values in texts.items():
            stem = name.rsplit("_", 1)[0]
            if name in AXES:
                like = self.like.positions
            elif name == "object_id":
                like = np.zeros(0, np.int64)
            elif name in self.like.attributes or stem in self.like.attributes:
                like = self.like.attributes.get(name, self.like.attributes.get(stem))
            else:
                like = np.zeros(0, object)
            answer[name] = _from_text(values, like)
        return answer

    def _links(self, path: Path, rows: int) -> np.ndarray:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        names = [name for name in ("a", "b", "c") if name in lines[0]]
        if names[:2] != ["a", "b"]:
            raise ProgramError(f"the edges have the columns {lines[0]}")
        at = [lines[0].index(name) for name in names]
        links = [[int(line[place]) for place in at] for line in lines[1:]]
        answer = np.asarray(links, np.int64).reshape(-1, len(names))
        if answer.size and (answer.min() < 0 or answer.max() >= rows):
            raise ProgramError(f"an edge ends at row {answer.max()} of {rows}")
        self.link_columns = {
            name: [line[place] for line in lines[1:]]
            for place, name in enumerate(lines[0])
            if name not in names
        }
        return answer
