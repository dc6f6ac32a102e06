"""Geometry: in and out of numpy, pandas and Arrow, and the same as zarr-vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardine
from shardine import vectors
from shardine.vectors import (
    query,
    read_graph,
    read_lines,
    read_mesh,
    read_points,
    read_polylines,
    read_skeleton,
    reshard,
    shard_store,
    unshard_store,
    write_graph,
    write_lines,
    write_mesh,
    write_points,
    write_polylines,
    write_skeleton,
)

DICE = np.random.default_rng(5)
POSITIONS = DICE.uniform(0, 800, (3000, 3)).astype(np.float32)


def rows(array: Any) -> list[Any]:
    """Rows in an order of their own."""
    return sorted(np.asarray(array).tolist())


def test_points_come_back(tmp_path: Path) -> None:
    path = tmp_path / "points.zv"
    attributes = {
        "score": DICE.uniform(size=3000),
        "colour": DICE.integers(0, 255, (3000, 3)).astype(np.uint8),
        "seen": DICE.integers(0, 2, 3000).astype(bool),
        "kind": DICE.choice(["soma", "spine", "axon"], 3000),
    }
    report = write_points(
        path, POSITIONS, chunk_shape=100, shard_shape=4, vertex_attributes=attributes
    )
    assert report.vertices == 3000
    assert report.chunks == len({tuple(row) for row in (POSITIONS // 100).astype(int)})
    found = read_points(path)
    assert found.positions.dtype == np.float32
    order, wanted = np.lexsort(found.positions.T), np.lexsort(POSITIONS.T)
    assert np.array_equal(found.positions[order], POSITIONS[wanted])
    for name, values in attributes.items():
        read = found.vertex_attributes[name]
        assert np.array_equal(read[order], np.asarray(values)[wanted]), name
    assert list(read_points(path, attribute_names=["seen"]).vertex_attributes) == ["seen"]
    box = read_points(path, bbox=([100, 100, 100], [300, 300, 300]))
    inside = ((POSITIONS >= 100) & (POSITIONS <= 300)).all(axis=1)
    assert rows(box.positions) == rows(POSITIONS[inside])
    some = query(path, where=["score>=0.5", "kind=soma"])
    both = (attributes["score"] >= 0.5) & (attributes["kind"] == "soma")
    assert rows(some.positions) == rows(POSITIONS[both])


def test_one_chunk_holds_all_without_a_chunk_shape(tmp_path: Path) -> None:
    assert write_points(tmp_path / "a.zv", POSITIONS).chunks == 1


def test_objects_have_ids_attributes_and_groups(tmp_path: Path) -> None:
    path = tmp_path / "cells.zv"
    ids = DICE.integers(10, 20, 3000)
    sizes = np.arange(10, 20) * 1.5
    write_points(
        path,
        POSITIONS,
        chunk_shape=200,
        object_ids=ids,
        object_attributes={"size": sizes},
        groups={0: [10, 11], 3: [19]},
    )
    found = read_points(path, object_ids=[12, 17])
    assert rows(found.positions) == rows(POSITIONS[np.isin(ids, [12, 17])])
    assert found.object_ids is not None
    assert set(found.object_ids) == {12, 17}
    assert np.array_equal(found.vertex_attributes["size"], found.object_ids * 1.5)
    grouped = read_points(path, group_ids=[0])
    assert rows(grouped.positions) == rows(POSITIONS[np.isin(ids, [10, 11])])
    with pytest.raises(shardine.NotFoundError):
        read_points(path, object_ids=[99])


def test_lines_and_paths_come_back(tmp_path: Path) -> None:
    endpoints = POSITIONS[:200].reshape(100, 2, 3)
    length = np.linalg.norm(endpoints[:, 0] - endpoints[:, 1], axis=1)
    write_lines(
        tmp_path / "lines.zv",
        endpoints,
        chunk_shape=100,
        object_attributes={"length": length},
        vertex_attributes={"end": np.tile([0, 1], (100, 1))},
    )
    lines = read_lines(tmp_path / "lines.zv")
    assert np.array_equal(lines.endpoints, endpoints)
    assert lines["line_count"] == 100
    assert np.array_equal(lines.vertex_attributes["end"].reshape(-1, 2)[0], [0, 1])
    assert np.array_equal(lines.vertex_attributes["length"][::2], length)

    paths = np.split(POSITIONS, [3, 100, 101, 2000])
    times = [np.arange(len(path)) for path in paths]
    write_polylines(
        tmp_path / "paths.zv", paths, chunk_shape=100, vertex_attributes={"time": times}
    )
    found = read_polylines(tmp_path / "paths.zv")
    assert found.kind == "streamlines"
    assert all(np.array_equal(a, b) for a, b in zip(found.polylines, paths, strict=True))
    assert found["polyline_count"] == 5
    assert found["object_ids"].tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(found.vertex_attributes["time"], np.concatenate(times))


def test_graphs_and_meshes_come_back(tmp_path: Path) -> None:
    edges = DICE.integers(0, 3000, (5000, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    weight = DICE.uniform(size=len(edges))
    write_graph(
        tmp_path / "net.zv", POSITIONS, edges, chunk_shape=200, link_attributes={"weight": weight}
    )
    net = read_graph(tmp_path / "net.zv")
    joined = net.positions[net.edges].reshape(len(edges), 6)
    wanted = POSITIONS[edges].reshape(len(edges), 6)
    got = np.column_stack([joined, net.link_attributes["weight"]])
    assert rows(got) == rows(np.column_stack([wanted, weight]))
    assert net["edge_count"] == len(edges)

    parents = np.column_stack([np.arange(1, 50), np.maximum(np.arange(49) - 1, 0)])
    write_skeleton(tmp_path / "tree.zv", POSITIONS[:50], parents, chunk_shape=200)
    tree = read_skeleton(tmp_path / "tree.zv")
    assert rows(tree.positions[tree.edges].reshape(-1, 6)) == rows(
        POSITIONS[parents].reshape(-1, 6)
    )

    faces = DICE.permutation(3000)[:2997].reshape(-1, 3)
    write_mesh(tmp_path / "mesh.zv", POSITIONS, faces, chunk_shape=200, shard_shape=2)
    mesh = read_mesh(tmp_path / "mesh.zv")
    corners = mesh.vertices[mesh.faces]
    assert mesh["face_count"] == len(faces)
    # Winding is kept; which corner is first is not.
    first = [face[np.lexsort(face.T)[0]] for face in corners]
    expected = [face[np.lexsort(face.T)[0]] for face in POSITIONS[faces]]
    assert rows(first) == rows(expected)
    with pytest.raises(AttributeError, match="no faces"):
        net.faces  # noqa: B018
    with pytest.raises(ValueError, match="holds mesh"):
        read_points(tmp_path / "mesh.zv")


def test_tables_go_in_and_out(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(POSITIONS, columns=["x", "y", "z"])
    frame["object_id"] = np.arange(3000) % 7
    frame["kind"] = np.where(np.arange(3000) % 2, "a", "b")
    frame.index = np.arange(3000) * 2
    write_points(tmp_path / "pandas.zv", frame, chunk_shape=100)
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    write_points(tmp_path / "arrow.zv", table, chunk_shape=100)
    by = ["x", "y", "z"]
    wanted = frame.sort_values(by).reset_index(drop=True)
    for name in ("pandas.zv", "arrow.zv"):
        found = read_points(tmp_path / name)
        read = found.to_pandas().sort_values(by).reset_index(drop=True)
        assert list(read.columns) == list(wanted.columns)
        for column in wanted.columns:
            assert list(read[column]) == list(wanted[column]), (name, column)
        arrow = found.to_arrow()
        assert arrow.column_names == list(wanted.columns)
        assert arrow.num_rows == 3000
        assert rows(np.column_stack([arrow[axis] for axis in by])) == rows(POSITIONS)


def test_arrow_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = pandas.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0], "kind": ["a", None]})
    write_points(tmp_path / "flat.zv", frame, chunk_shape=10)
    found = read_points(tmp_path / "flat.zv").to_pandas()
    assert found["x"].tolist() == [1.0, 2.0]


def test_the_calls_of_the_specification(tmp_path: Path) -> None:
    path = str(tmp_path / "scan.zarrvectors")
    write_points(
        path,
        POSITIONS,
        chunk_shape=(100.0, 100.0, 100.0),
        bin_shape=(25.0, 25.0, 25.0),
        shard_shape=(4, 4, 4),
    )
    before = rows(read_points(path).positions)

    def per_shard() -> Any:
        sharding = vectors.info(path).sharding
        return None if sharding is None else sharding.chunks_per_shard

    assert per_shard() == [4, 4, 4]
    shard_store(path, shard_shape=8)
    assert per_shard() == [8, 8, 8]
    shard_store(path, shard_shape=(4, 4, 16))
    assert per_shard() == [4, 4, 16]
    unshard_store(path)
    assert per_shard() is None
    reshard(path, 4)
    assert per_shard() == [4, 4, 4]
    reshard(path, None)
    assert per_shard() is None
    assert {array.outcome for array in reshard(path, None).arrays} == {"unchanged"}
    assert rows(read_points(path).positions) == before
    assert vectors.validate(path, decode=True).ok


def test_wrong_input_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.zv"
    with pytest.raises(ValueError, match="N x D"):
        write_points(path, [1.0, 2.0], chunk_shape=1)
    with pytest.raises(ValueError, match="score 2"):
        write_points(path, POSITIONS[:3], chunk_shape=1, vertex_attributes={"score": [1, 2]})
    with pytest.raises(shardine.RequestError, match="there is no vertex 9"):
        write_graph(path, POSITIONS[:3], [[0, 9]], chunk_shape=100)
    with pytest.raises(ValueError, match="M x 3"):
        write_mesh(path, POSITIONS[:3], [[0, 1]], chunk_shape=100)
    with pytest.raises(ValueError, match="from 0 on"):
        write_graph(path, POSITIONS[:3], [[0, -1]], chunk_shape=100)
    with pytest.raises(shardine.RequestError, match="chunk_shape"):
        write_points(path, POSITIONS, chunk_shape=-1)
    write_points(path, POSITIONS, chunk_shape=100)
    with pytest.raises(shardine.ExistsError):
        write_points(path, POSITIONS, chunk_shape=100)
    with pytest.raises(shardine.RequestError, match="bbox"):
        read_points(path, bbox=([1, 1, 1], [0, 0, 0]))
    with pytest.raises(shardine.RequestError, match="where"):
        query(path, where="nothing")


# The same as zarr-vectors

pytest.importorskip("zarr_vectors.types.points", reason="zarr-vectors is not installed")

#: zarr-python warns of a data type that zarr-vectors uses everywhere.
unstable = pytest.mark.filterwarnings("ignore:The data type:Warning")


@unstable
@pytest.mark.parametrize("shard", [None, 4])
@pytest.mark.parametrize("compressor", [None, "zstd"])
def test_points_are_the_same_for_zarr_vectors(
    tmp_path: Path, shard: int | None, compressor: str | None
) -> None:
    from zarr_vectors.types.points import read_points as peer_read
    from zarr_vectors.types.points import write_points as peer_write

    score = DICE.uniform(size=3000).astype(np.float32)
    options: dict[str, Any] = {
        "chunk_shape": (100.0, 100.0, 100.0),
        "bin_shape": (25.0, 25.0, 25.0),
        "shard_shape": shard,
        "compressor": compressor,
        "vertex_attributes": {"score": score},
    }
    peer_write(str(tmp_path / "peer.zv"), POSITIONS, **options)
    write_points(tmp_path / "ours.zv", POSITIONS, **options)
    for box in (None, ([50.0, 100.0, 0.0], [333.3, 300.0, 800.0])):
        wanted = peer_read(str(tmp_path / "peer.zv"), bbox=box, attribute_names=["score"])
        theirs = peer_read(str(tmp_path / "ours.zv"), bbox=box, attribute_names=["score"])
        keys = "vertex_attributes" if "vertex_attributes" in wanted else "attributes"

        def table(found: Any, keys: str = keys) -> list[Any]:
            return rows(np.column_stack([found["positions"], found[keys]["score"]]))

        ours = read_points(tmp_path / "peer.zv", bbox=box)
        assert table(theirs) == table(wanted)
        assert table(ours, "vertex_attributes") == table(wanted)
        assert len(ours.positions) == ours["vertex_count"] == wanted["vertex_count"]


@unstable
def test_lines_paths_graphs_and_meshes_are_the_same_for_zarr_vectors(tmp_path: Path) -> None:
    from zarr_vectors.types import graphs, lines, meshes, polylines

    endpoints = POSITIONS[:60].reshape(30, 2, 3)
    lines.write_lines(str(tmp_path / "peer-l.zv"), endpoints, chunk_shape=(100.0,) * 3)
    write_lines(tmp_path / "ours-l.zv", endpoints, chunk_shape=100)
    wanted = lines.read_lines(str(tmp_path / "peer-l.zv"))["endpoints"]
    assert rows(lines.read_lines(str(tmp_path / "ours-l.zv"))["endpoints"]) == rows(wanted)
    assert rows(read_lines(tmp_path / "peer-l.zv").endpoints) == rows(wanted)

    paths = np.split(POSITIONS[:200], [3, 100, 120])
    polylines.write_polylines(str(tmp_path / "peer-p.zv"), paths, chunk_shape=(100.0,) * 3)
    write_polylines(tmp_path / "ours-p.zv", paths, chunk_shape=100)
    found = polylines.read_polylines(str(tmp_path / "ours-p.zv"))["polylines"]
    whole = [np.concatenate(parts) if isinstance(parts, list) else parts for parts in found]
    assert all(np.array_equal(a, b) for a, b in zip(whole, paths, strict=True))
    ours = read_polylines(tmp_path / "peer-p.zv").polylines
    assert all(np.array_equal(a, b) for a, b in zip(ours, paths, strict=True))

    edges = np.column_stack([np.arange(99), np.arange(1, 100)])
    graphs.write_graph(
        str(tmp_path / "peer-g.zv"), POSITIONS[:100], edges, chunk_shape=(100.0,) * 3
    )
    write_graph(tmp_path / "ours-g.zv", POSITIONS[:100], edges, chunk_shape=100)

    def joined(found: Any) -> list[Any]:
        return rows(np.asarray(found["positions"])[np.asarray(found["edges"])].reshape(-1, 6))

    wanted = joined(graphs.read_graph(str(tmp_path / "peer-g.zv")))
    assert joined(graphs.read_graph(str(tmp_path / "ours-g.zv"))) == wanted
    assert joined(read_graph(tmp_path / "peer-g.zv")) == wanted

    faces = np.arange(90).reshape(-1, 3)
    meshes.write_mesh(str(tmp_path / "peer-m.zv"), POSITIONS[:90], faces, chunk_shape=(100.0,) * 3)
    write_mesh(tmp_path / "ours-m.zv", POSITIONS[:90], faces, chunk_shape=100)

    def corners(found: Any) -> list[Any]:
        all_corners = np.asarray(found["vertices"])[np.asarray(found["faces"])]
        return rows(all_corners.reshape(-1, 9))

    wanted = corners(meshes.read_mesh(str(tmp_path / "peer-m.zv")))
    assert corners(meshes.read_mesh(str(tmp_path / "ours-m.zv"))) == wanted
    assert corners(read_mesh(tmp_path / "peer-m.zv")) == wanted


@unstable
def test_repacked_stores_are_the_same_for_zarr_vectors(tmp_path: Path) -> None:
    from zarr_vectors.sharding import get_shard_info
    from zarr_vectors.types.points import read_points as peer_read
    from zarr_vectors.types.points import write_points as peer_write

    path = str(tmp_path / "scan.zv")
    peer_write(path, POSITIONS, chunk_shape=(100.0,) * 3, compressor="zstd")
    wanted = rows(peer_read(path)["positions"])
    stored = json.loads((tmp_path / "scan.zv" / "0" / "vertices" / "zarr.json").read_text())
    shard_store(path, shard_shape=4)
    assert get_shard_info(path)["sharded"]
    assert rows(peer_read(path)["positions"]) == wanted
    reshard(path, None)
    assert not get_shard_info(path)["sharded"]
    again = json.loads((tmp_path / "scan.zv" / "0" / "vertices" / "zarr.json").read_text())

    def codecs(document: Any) -> list[Any]:
        return [(codec["name"], codec.get("configuration") or {}) for codec in document["codecs"]]

    assert codecs(again) == codecs(stored)
    assert codecs(again)[-1][0] == "zstd"
