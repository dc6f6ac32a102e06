"""Files of geometry: what pyarrow, plyfile, trimesh and numpy have written, Shardine reads, and they read what it writes.

    python peers/geometry_files_check.py --driver PATH

PATH is the example geometry_files of crates/shardine-geometry. See peers/README.md.
"""

import argparse
import csv
import pathlib
import subprocess
import tempfile

import numpy as np
import plyfile
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import trimesh

ROWS = 1000


class Driver:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def convert(self, source, target, kind, *more):
        target = self.folder / target
        done = subprocess.run(
            [self.program, source, target, "--kind", kind, *map(str, more)], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise AssertionError(f"{source} to {target}: {done.stderr}")
        return target


def table(rng):
    """Every type that attributes may have, with absent values."""
    absent = rng.random(ROWS) < 0.1

    def column(values, data_type):
        return pa.array(values, data_type, mask=absent)

    columns = {axis: pa.array(rng.standard_normal(ROWS).astype("f4")) for axis in "xyz"}
    columns["object_id"] = pa.array(rng.integers(-(2**60), 2**60, ROWS))
    for name in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]:
        limits = np.iinfo(name)
        values = rng.integers(limits.min, limits.max, ROWS, dtype=name, endpoint=True)
        columns[f"of_{name}"] = column(values, getattr(pa, name)())
    columns["of_float32"] = column(rng.standard_normal(ROWS).astype("f4"), pa.float32())
    columns["of_float64"] = column(rng.standard_normal(ROWS) * 1e300, pa.float64())
    columns["of_bool"] = column(rng.random(ROWS) < 0.5, pa.bool_())
    words = np.array(["axon", "dendrite, basal", 'so "called"', "äöü", ""])[rng.integers(0, 5, ROWS)]
    columns["of_string"] = column(words, pa.string())
    columns["of_large_string"] = column(words, pa.large_string())
    columns["of_dictionary"] = column(words, pa.string()).dictionary_encode()
    columns["of_list"] = pa.FixedSizeListArray.from_arrays(rng.standard_normal(3 * ROWS).astype("f4"), 3)
    return pa.table(columns)


def plain(found):
    """A table with strings of one type."""
    for at, field in enumerate(found.schema):
        column = found.column(at).combine_chunks()
        if pa.types.is_dictionary(field.type) or pa.types.is_large_string(field.type):
            column = column.cast(pa.string())
        elif pa.types.is_fixed_size_list(field.type):
            # The names and nullability of items differ between programs.
            column = pa.FixedSizeListArray.from_arrays(column.flatten(), field.type.list_size)
        found = found.set_column(at, field.name, column)
    return found.replace_schema_metadata(None)


def same(found, expected, what):
    found, expected = plain(found), plain(expected)
    assert found.schema.names == expected.schema.names, f"{what}: {found.schema}"
    for name in expected.schema.names:
        a, b = found.column(name), expected.column(name)
        assert a.type == b.type, f"{what}, {name}: {a.type} is not {b.type}"
        assert a.equals(b), f"{what}, {name}: other values"


def tables(driver, rng):
    expected = table(rng)
    inputs = {}
    for codec in ["none", "snappy", "zstd", "lz4"]:
        inputs[codec] = driver.folder / f"in-{codec}.parquet"
        pq.write_table(expected, inputs[codec], compression=codec, row_group_size=300)
    # Without the schema of Arrow Parquet has no lists of one length.
    fewer = expected.drop(["of_list"])
    inputs["plain"] = driver.folder / "in-plain.parquet"
    pq.write_table(fewer, inputs["plain"], use_dictionary=False, data_page_version="2.0", store_schema=False)
    for codec in ["uncompressed", "lz4", "zstd"]:
        inputs[f"feather-{codec}"] = driver.folder / f"in-{codec}.arrow"
        pyarrow.feather.write_feather(expected, inputs[f"feather-{codec}"], compression=codec, chunksize=300)
    inputs["stream"] = driver.folder / "in-stream.arrow"
    with pa.OSFile(str(inputs["stream"]), "wb") as file, pa.ipc.new_stream(file, expected.schema) as stream:
        stream.write_table(expected, max_chunksize=300)
    for name, source in inputs.items():
        wanted = fewer if name == "plain" else expected
        parquet = driver.convert(source, f"out-{name}.parquet", "points", "--rows", 128)
        same(pq.read_table(parquet), wanted, f"{name} to Parquet")
        arrow = driver.convert(parquet, f"out-{name}.arrow", "points", "--rows", 77)
        same(pa.ipc.open_file(arrow).read_all(), wanted, f"{name} to Arrow")
    # Numbers survive CSV as text, which pyarrow then reads as they were.
    numbers = expected.select(["x", "y", "z", "object_id", "of_int64", "of_uint64", "of_float64", "of_bool"])
    pq.write_table(numbers, driver.folder / "numbers.parquet")
    text = driver.convert(driver.folder / "numbers.parquet", "numbers.csv", "points")
    found = pa.csv.read_csv(text, convert_options=pa.csv.ConvertOptions(column_types=numbers.schema))
    same(found, numbers, "CSV")
    again = driver.convert(text, "numbers.arrow", "points")
    found = pa.ipc.open_file(again).read_all()
    for axis in "xyz":
        # The same text is read as floats of 64 bits, which are rounded to the same of 32.
        assert np.array_equal(found[axis].to_numpy().astype("f4"), numbers[axis].to_numpy()), axis
    same(found.drop(["x", "y", "z"]), numbers.drop(["x", "y", "z"]), "CSV and back")
    return len(inputs) + 2


def arrays(driver, rng):
    done = 0
    for descr in ["<f4", ">f8", "<i2", ">u4"]:
        for order in "CF":
            points = np.asarray(rng.integers(0, 100, (ROWS, 3)), dtype=descr, order=order)
            source = driver.folder / "in.npy"
            np.save(source, points)
            found = np.load(driver.convert(source, "out.npy", "points", "--rows", 64))
            assert np.array_equal(found, points), (descr, order)
            assert found.dtype == points.dtype.newbyteorder("<"), found.dtype
            done += 1
    return done


def meshes(driver, rng):
    mesh = trimesh.creation.icosphere(subdivisions=3)
    vertices, faces = mesh.vertices.astype("f4"), mesh.faces.astype("i4")
    vertex = np.zeros(
        len(vertices), [("x", "f4"), ("y", "f4"), ("z", "f4"), ("red", "u1"), ("depth", "f8"), ("part", "i2")]
    )
    for axis, name in enumerate("xyz"):
        vertex[name] = vertices[:, axis]
    vertex["red"] = rng.integers(0, 256, len(vertex))
    vertex["depth"] = rng.standard_normal(len(vertex))
    vertex["part"] = rng.integers(-9, 9, len(vertex))
    face = np.zeros(len(faces), [("vertex_indices", "i4", (3,)), ("quality", "f4")])
    face["vertex_indices"] = faces
    face["quality"] = rng.random(len(faces))
    done = 0
    for text, byte_order in [(True, "="), (False, "<"), (False, ">")]:
        source = driver.folder / "in.ply"
        elements = [plyfile.PlyElement.describe(vertex, "vertex"), plyfile.PlyElement.describe(face, "face")]
        plyfile.PlyData(elements, text=text, byte_order=byte_order).write(source)
        found = plyfile.PlyData.read(driver.convert(source, "out.ply", "mesh", "--rows", 100))
        for name in vertex.dtype.names:
            assert np.array_equal(found["vertex"][name], vertex[name]), name
            assert found["vertex"][name].dtype == vertex[name].dtype, name
        assert np.array_equal(np.stack(found["face"]["vertex_indices"]), faces)
        # plyfile writes single numbers beside lists in the machine's order, whatever it was told.
        written = plyfile.PlyData.read(source)["face"]["quality"]
        assert np.array_equal(found["face"]["quality"], written.astype("f4"), equal_nan=True)
        for target in ["out.ply", "out.obj"]:
            loaded = trimesh.load(driver.convert(source, target, "mesh"), process=False)
            assert np.array_equal(loaded.vertices.astype("f4"), vertices), target
            assert np.array_equal(loaded.faces, faces), target
        done += 3
    for target in ["mesh.obj", "mesh.ply"]:
        mesh.export(driver.folder / target)
        # trimesh writes eight decimals into .obj.
        loaded = trimesh.load(driver.convert(driver.folder / target, f"out-{target}", "mesh"), process=False)
        assert np.allclose(loaded.vertices, mesh.vertices, atol=1e-6) and np.array_equal(loaded.faces, faces), target
        done += 1
    return done


def trees(driver, rng):
    """Two trees that are mixed, with a parent after its child."""
    source = driver.folder / "in.swc"
    parents = {1: -1, 2: -1}
    for node in range(3, 300):
        parents[node] = int(rng.integers(1, node))
    order = rng.permutation(list(parents))
    lines = [f"{n} {n % 7} {n}.5 {-n} {n * n} {1 / n!r} {parents[n]}" for n in order.tolist()]
    source.write_text("# by hand\n" + "\n".join(lines) + "\n")
    again = driver.convert(source, "out.swc", "skeleton", "--rows", 50)
    found = {}
    for line in again.read_text().splitlines()[1:]:
        node, kind, x, y, z, radius, parent = line.split()
        assert parent == "-1" or parent in found, f"node {node} comes before its parent"
        found[node] = (float(x), parent)
        n = round(float(x) - 0.5)
        assert (int(kind), float(y), float(z), float(radius)) == (n % 7, -n, n * n, 1 / n), line
    position = {node: round(x - 0.5) for node, (x, _) in found.items()}
    joined = {position[node]: position.get(parent, -1) for node, (_, parent) in found.items()}
    assert joined == parents
    # The same as rows and edges.
    rows = driver.convert(source, "out.csv", "skeleton", "--edges-out", driver.folder / "edges.csv")
    with open(rows) as file:
        nodes = [round(float(row["x"]) - 0.5) for row in csv.DictReader(file)]
    with open(driver.folder / "edges.csv") as file:
        edges = {nodes[int(row["a"])]: nodes[int(row["b"])] for row in csv.DictReader(file)}
    assert edges == {child: parent for child, parent in parents.items() if parent != -1}
    driver.convert(rows, "again.swc", "skeleton", "--edges", driver.folder / "edges.csv")
    assert (driver.folder / "again.swc").read_text() == again.read_text()
    return 3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(pathlib.Path(arguments.driver).resolve(), pathlib.Path(folder))
        counts = {check.__name__: check(driver, rng) for check in (tables, arrays, meshes, trees)}
    print(", ".join(f"{count} of {name}" for name, count in counts.items()) + ": all alike")


if __name__ == "__main__":
    main()
