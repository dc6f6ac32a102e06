"""Small stores of every kind, as zarr-vectors writes them, and what was put into them.

    pip install zarr-vectors==0.9.2 zarr==3.1.6 DracoPy==2.2.0
    python stores.py

`<name>.json` has two members. `store` is the content of each file: a document as it is, anything
else in hexadecimal digits. `given` is what was written: for each vertex its position, the id of its
object and its attributes; links as lists of positions.
"""

import json
import pathlib
import shutil
import tempfile

import DracoPy
import numpy as np
from zarr_vectors.building import write_object_index
from zarr_vectors.multiresolution.coarsen import build_pyramid
from zarr_vectors.types.graphs import write_graph
from zarr_vectors.types.lines import write_lines
from zarr_vectors.types.meshes import write_mesh
from zarr_vectors.types.parametric import write_parametric_objects
from zarr_vectors.types.points import write_points
from zarr_vectors.types.polylines import write_polylines
from zarr_vectors.types.skeletons import (
    finalize_skeleton_store,
    init_skeleton_store,
    write_skeleton_chunk,
    write_skeleton_cross_chunk_links,
)

here = pathlib.Path(__file__).parent
rng = np.random.default_rng(20)
folder = pathlib.Path(tempfile.mkdtemp())


def save(name, given):
    store = {}
    root = folder / name
    for file in sorted(root.rglob("*")):
        if file.is_file():
            key = file.relative_to(root).as_posix()
            raw = file.read_bytes()
            store[key] = json.loads(raw) if key.endswith("zarr.json") else raw.hex()
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in store.items())
    rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in given.items())
    (here / f"{name}.json").write_text(f'{{\n "given": {{\n{rows}\n }},\n "store": {{\n{lines}\n }}\n}}\n')


def listed(array):
    return np.asarray(array).astype("f8").tolist()


def joined(positions, links):
    """Links as lists of positions."""
    positions = listed(positions)
    return [[positions[int(end)] for end in link] for link in links]


CHUNK = (50.0, 50.0, 50.0)

# Points: bins, shards, a compressor, negative coordinates, several columns, truth values.
p = (rng.random((40, 3)) * 150 - 60).astype("f4")
i = rng.random(40).astype("f4")
rgb = rng.integers(0, 255, (40, 3)).astype("u1")
ok = rng.random(40) > 0.5
write_points(
    str(folder / "points"), p, chunk_shape=CHUNK, bin_shape=(25.0, 25.0, 25.0), shard_shape=2,
    compressor="zstd", vertex_attributes={"i": i, "rgb": rgb, "ok": ok},
)
save("points", {"positions": listed(p), "attributes": {"i": listed(i), "rgb": listed(rgb), "ok": listed(ok)}})

# Points of objects with sparse ids, attributes of objects, groups.
ids = np.array([0, 7, 14, 21])[rng.integers(0, 4, 40)]
write_points(
    str(folder / "point_objects"), p.astype("f8"), dtype="float64", chunk_shape=CHUNK, object_ids=ids,
    object_attributes={"size": np.array([1.5, 2.5, np.nan, 4.5])}, groups={0: [0, 7], 2: [21]},
)
save("point_objects", {"positions": listed(p), "ids": ids.tolist(), "size": {"0": 1.5, "7": 2.5, "14": None, "21": 4.5}})

# Points in chunks by an attribute as well.
gene = np.array(["actb", "gfp", "sox2"])[rng.integers(0, 3, 40)]
write_points(
    str(folder / "point_genes"), p, chunk_shape=(100.0, 100.0, 100.0),
    vertex_attributes={"gene": gene}, chunk_by_attribute="gene",
)
save("point_genes", {"positions": listed(p), "gene": gene.tolist()})

# Two dimensions, integer coordinates.
flat = rng.integers(-40, 90, (30, 2)).astype("i4")
write_points(str(folder / "flat"), flat, dtype="int32", chunk_shape=(32.0, 32.0))
save("flat", {"positions": listed(flat)})

# Lines, some within a chunk, some across.
ends = (rng.random((10, 2, 3)) * 100).astype("f4")
ends[::3, 1] = ends[::3, 0] + 1
write_lines(str(folder / "lines"), ends, chunk_shape=CHUNK)
save("lines", {
    "positions": listed(ends.reshape(-1, 3)), "ids": np.repeat(np.arange(10), 2).tolist(),
})

# Paths with an attribute of several columns, groups by range and by list.
paths = [np.cumsum(rng.random((n, 3)) * 30, axis=0).astype("f4") for n in (5, 9, 1)]
steps = [np.stack([np.arange(len(one)), -np.arange(len(one))], 1).astype("i2") for one in paths]
write_polylines(
    str(folder / "polylines"), paths, chunk_shape=CHUNK, shard_shape=2, geometry_type="polyline",
    vertex_attributes={"step": steps}, groups={0: range(0, 2), 1: [2]},
)
lengths = [len(one) for one in paths]
save("polylines", {
    "positions": listed(np.concatenate(paths)), "ids": np.repeat(np.arange(3), lengths).tolist(),
    "attributes": {"step": listed(np.concatenate(steps))},
})

# A graph with attributes of vertices and edges, of two objects.
g = (rng.random((24, 3)) * 100).astype("f4")
edges = np.array([[a, b] for a, b in rng.integers(0, 24, (30, 2)) if a != b])
owner = (np.arange(24) % 2) * 5
weight = np.arange(len(edges)).astype("f8")
write_graph(
    str(folder / "graph"), g, edges, chunk_shape=CHUNK, object_ids=owner,
    vertex_attributes={"v": np.arange(24.0)}, link_attributes={"weight": weight},
)
save("graph", {
    "positions": listed(g), "ids": owner.tolist(), "attributes": {"v": listed(np.arange(24))},
    "links": joined(g, edges), "weight": listed(weight),
})

# Two trees.
parent = [None] + [int(rng.integers(max(0, n - 3), n)) for n in range(1, 12)]
parent += [None] + [int(rng.integers(12, n)) for n in range(13, 24)]
edges = np.array([[n, up] for n, up in enumerate(parent) if up is not None])
owner = np.repeat([3, 4], 12)
write_graph(str(folder / "skeleton"), g, edges, chunk_shape=CHUNK, kind="skeleton", object_ids=owner)
save("skeleton", {"positions": listed(g), "ids": owner.tolist(), "links": joined(g, edges)})

# A tree written in pieces, with an offset: two paths in one chunk, one in the next.
root, level = init_skeleton_store(
    str(folder / "pieces"), chunk_shape=CHUNK, bounds=([0.0] * 3, [100.0, 50.0, 50.0]), ndim=3,
    attribute_dtypes={"radius": "float32"}, coordinate_offset=[1000.0, 2000.0, 0.0],
)
near = np.array([[10, 10, 10], [20, 10, 10], [30, 10, 10], [20, 20, 10]], "f4")
far = np.array([[60, 10, 10], [70, 10, 10]], "f4")
first, anchors = write_skeleton_chunk(level, (0, 0, 0), [{
    "segment_id": 42, "positions": near, "edges": np.array([[1, 0], [2, 1], [3, 1]]),
    "attributes": {"radius": np.arange(4, dtype="f4")}, "anchors": {"end": 2},
}])
second, more = write_skeleton_chunk(level, (1, 0, 0), [{
    "segment_id": 42, "positions": far, "edges": np.array([[1, 0]]),
    "attributes": {"radius": np.array([4, 5], "f4")}, "anchors": {"begin": 0},
}])
write_skeleton_cross_chunk_links(level, [(anchors["end"], more["begin"])], ndim=3)

write_object_index(level, {0: [(chunk, fragment) for _, chunk, fragment in first + second]}, 3)
finalize_skeleton_store(root)
world = np.concatenate([near, far]) + [1000, 2000, 0]
edges = [[1, 0], [2, 1], [3, 1], [5, 4], [4, 2]]
save("pieces", {
    "positions": listed(world), "ids": [0] * 6, "attributes": {"radius": listed(np.arange(6))},
    "links": joined(world, edges),
})

# A sheet of triangles, with a normal for each vertex.
n = 4
x, y = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
v = np.stack([x.ravel() * 30, y.ravel() * 30, (x * y).ravel() * 5], 1).astype("f4")
faces = []
for a in (r * n + c for r in range(n - 1) for c in range(n - 1)):
    faces += [[a, a + 1, a + n], [a + n + 1, a + n, a + 1]]
write_mesh(str(folder / "mesh"), v, np.array(faces), chunk_shape=CHUNK, vertex_attributes={"normal": v / 7})
save("mesh", {
    "positions": listed(v), "ids": [0] * len(v), "attributes": {"normal": listed(v / np.float32(7))},
    "links": joined(v, faces),
})

# Two levels of paths.
more = [(np.cumsum(rng.random((12, 3)) * 12, axis=0)).astype("f4") for _ in range(4)]
write_polylines(str(folder / "levels"), more, chunk_shape=CHUNK)
build_pyramid(str(folder / "levels"), factors=[(2, 1.0)])
save("levels", {"positions": listed(np.concatenate(more)), "ids": np.repeat(np.arange(4), 12).tolist()})

# Three levels of points on both sides of zero, with chunks that grow: twice, then three times as long.
dice = np.random.default_rng(21)
cloud = (dice.random((30, 2)) * 300 - 160).astype("f4")
write_points(str(folder / "longer_chunks"), cloud, chunk_shape=CHUNK[:2], bin_shape=(25.0, 25.0))
build_pyramid(
    str(folder / "longer_chunks"), factors=[(2, 1.0), (2, 1.0)], chunk_scale_factors=[2, 3], cross_level_depth=2
)
save("longer_chunks", {"positions": listed(cloud)})

write_parametric_objects(
    str(folder / "parametric"),
    [
        {"type": "sphere", "coefficients": [1, 2, 3, 4.5], "name": "ball"},
        {"type": "line", "coefficients": [0, 0, 0, 1, 0, 0]},
    ],
    create_new_store=True,
)
save("parametric", {"types": ["sphere", "line"], "names": ["ball", ""]})

# The same sheet in Draco streams. These have positions in steps and in another order, so `given` is what DracoPy finds
# in each cell: zarr-vectors cannot read it.
write_mesh(
    str(folder / "draco"), v, np.array(faces), chunk_shape=CHUNK, vertex_attributes={"height": v[:, 2]}, encoding="draco"
)
positions, inside, base = [], [], 0
for file in sorted((folder / "draco" / "0" / "vertices" / "c").rglob("*")):
    if file.is_file():
        # One string of bytes: a count and a length come first.
        found = DracoPy.decode(file.read_bytes()[8:])
        own = np.asarray(found.points, "f4").reshape(-1, 3)
        positions.append(own)
        if getattr(found, "faces", None) is not None:
            inside += (np.asarray(found.faces, int).reshape(-1, 3) + base).tolist()
        base += len(own)
positions = np.concatenate(positions)
save("draco", {"positions": listed(positions), "links": joined(positions, inside)})
shutil.rmtree(folder)
