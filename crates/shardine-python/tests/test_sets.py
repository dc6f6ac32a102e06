"""Groups, images, volumes, values by key, attributes, errors."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest

import shardine


def test_a_group_is_a_mapping(folder):
    group = shardine.create_group(folder / "g", attributes={"a": 1})
    group.create_array("x/y/z", (3,), "uint8")
    group.create_group("empty")
    assert sorted(group) == ["empty", "x"] and len(group) == 2
    assert isinstance(group["x/y"], shardine.Group)
    assert isinstance(group["x"]["y"]["z"], shardine.Array)
    assert "x/y" in group and "x/w" not in group and "" not in group
    assert list(group["x/y"].arrays()) == ["z"] and list(group.groups()) == ["empty", "x"]
    with pytest.raises(KeyError) as raised:
        group["nothing"]
    assert isinstance(raised.value, shardine.NotFoundError)
    assert str(raised.value).endswith('has no node "nothing"')
    assert pickle.loads(pickle.dumps(group)).attrs["a"] == 1
    assert repr(group).endswith(": empty, x>")
    with pytest.raises(shardine.RequestError, match="not a group"):
        shardine.open_group(folder / "g" / "x" / "y" / "z")
    with pytest.raises(shardine.ExistsError):
        group.create_group("x")


def test_attributes_are_written(folder):
    array = shardine.create(folder / "a", (3,), "uint8", attributes={"k": [1, {"x": None}]})
    assert dict(array.attrs) == {"k": [1, {"x": None}]}
    array.attrs["n"] = np.float32(0.5)
    array.attrs["list"] = np.arange(3)
    array.attrs.update(a=1, b="c")
    stored = json.loads((folder / "a" / "zarr.json").read_text())["attributes"]
    assert stored == {"k": [1, {"x": None}], "n": 0.5, "list": [0, 1, 2], "a": 1, "b": "c"}
    del array.attrs["k"]
    with pytest.raises(KeyError):
        array.attrs["k"]
    with pytest.raises(KeyError):
        del array.attrs["k"]
    with pytest.raises(ValueError):
        array.attrs["nan"] = float("nan")
    with pytest.raises(TypeError):
        array.attrs["object"] = object()
    array.attrs.put({"only": 1})
    assert array.attrs.asdict() == {"only": 1}


def test_what_an_array_is(folder):
    array = shardine.create(
        folder / "a",
        (100, 80),
        "float32",
        chunks=(10, 20),
        shards=(50, 40),
        codecs=["transpose:1,0", "zstd:5", "crc32c"],
        fill_value=np.inf,
        dims=["y", None],
        index="start",
    )
    assert (array.shape, array.chunks, array.shards) == ((100, 80), (10, 20), (50, 40))
    assert array.fill_value == np.inf and array.fill_value.dtype == np.float32
    assert array.dims == ["y", None]
    assert array.info["codecs"] == "transpose:1,0 -> bytes -> zstd:5 -> crc32c"
    assert array.url == (folder / "a").as_uri()
    assert repr(array) == (
        f"<shardine.Array {array.url}: float32 (100, 80), chunks (10, 20) shards (50, 40)>"
    )
    html = array._repr_html_()
    assert "<svg" in html and "(50, 40)" in html
    assert array.stored() == {"objects": 0, "bytes": 0}
    array[0, 0] = 1
    assert array.stored()["objects"] == 1
    assert array.__dask_tokenize__() == shardine.open(folder / "a").__dask_tokenize__()


def test_pictures_of_all_shapes(folder):
    for i, shape in enumerate([(), (5,), (0, 3), (1, 1_000_000), (3, 4, 5, 6)]):
        array = shardine.create(folder / str(i), shape, "uint8")
        assert "<table" in array._repr_html_()
    strange = shardine.create(folder / "<b>", (2,), "uint8")
    assert "<b>" not in strange._repr_html_()


def test_creation_is_refused_with_a_reason(folder):
    with pytest.raises(shardine.RequestError, match="does not hold whole chunks"):
        shardine.create(folder / "a", (100,), "uint8", chunks=(10,), shards=(15,))
    with pytest.raises(shardine.RequestError, match="unknown data type"):
        shardine.create(folder / "a", (100,), "uint17")
    with pytest.raises(TypeError, match="object"):
        shardine.create(folder / "a", (100,), object)
    with pytest.raises(OverflowError):
        shardine.create(folder / "a", (100,), "uint8", fill_value=256)
    assert not os.path.exists(folder / "a")
    shardine.create(folder / "a", (100,), "uint8")
    with pytest.raises(FileExistsError) as raised:
        shardine.create(folder / "a", (100,), "uint8")
    assert raised.value.kind == "exists" and "overwrite" in raised.value.hint
    assert shardine.create(folder / "a", (5,), "uint8", overwrite=True).shape == (5,)


def test_fill_values_of_every_type(folder):
    fills = [
        ("int16", -3), ("bool", True), ("complex64", 1 + 2j), ("U3", "aß"), ("S2", b"x"),
        ("M8[s]", np.datetime64("2024-02-29", "s")), ("bfloat16", 1.5), ("float8_e4m3fn", 0.5),
        ("int4", -8), (str, "none"), (bytes, b"\x00\x01"), ("V2", b"\x01\x02"),
    ]  # fmt: skip
    for i, (name, fill) in enumerate(fills):
        array = shardine.create(folder / str(i), (2,), name, fill_value=fill)
        if array.dtype.kind == "V" and array.dtype.names is None and name == "V2":
            assert bytes(array.fill_value) == fill
        else:
            assert array.fill_value == fill, name
            assert array[0] == fill and array[1] == fill, name


def test_append_and_resize(folder):
    array = shardine.create(folder / "a", (0, 4, 6), "int32", chunks=(2, 4, 4), shards=(4, 4, 8))
    memory = np.arange(5 * 24).reshape(5, 4, 6)
    array.append(memory[:3])
    array.append(memory[3:][::-1][::-1])
    assert array.shape == (5, 4, 6) and np.array_equal(array[...], memory)
    array.append(np.full((5, 4, 2), 9), axis=-1)
    assert array.shape == (5, 4, 8) and (array[..., 6:] == 9).all()
    assert np.array_equal(array[..., :6], memory)
    with pytest.raises(ValueError, match="cannot be appended"):
        array.append(np.zeros((1, 3, 8)))
    array.resize((2, 4, 8))
    assert array.shape == (2, 4, 8)
    other = shardine.open(folder / "a")
    array.resize((3, 4, 8))
    assert other.shape == (2, 4, 8)
    other.refresh()
    assert other.shape == (3, 4, 8)


def volume(folder, sharding=None):
    info = {
        "@type": "neuroglancer_multiscale_volume",
        "type": "image",
        "data_type": "uint8",
        "num_channels": 1,
        "scales": [
            {
                "key": "8_8_8", "size": [64, 64, 64], "resolution": [8, 8, 8],
                "voxel_offset": [10, 20, 30], "chunk_sizes": [[16, 16, 16]], "encoding": "raw",
            },
            {
                "key": "16_16_16", "size": [32, 32, 32], "resolution": [16, 16, 16],
                "chunk_sizes": [[16, 16, 16]], "encoding": "raw",
            },
        ],
    }  # fmt: skip
    if sharding:
        info["scales"][0]["sharding"] = sharding
    folder.mkdir()
    (folder / "info").write_text(json.dumps(info))


SHARDING = {
    "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 3, "minishard_bits": 2,
    "shard_bits": 2, "hash": "identity", "minishard_index_encoding": "gzip",
    "data_encoding": "gzip",
}  # fmt: skip


def test_a_volume_has_scales(folder):
    volume(folder / "v", SHARDING)
    opened = shardine.open_precomputed(folder / "v")
    assert len(opened) == 2 and opened.type == "image"
    assert opened.scales[0].voxel_offset == (10, 20, 30)
    assert opened.scales[1].voxel_offset == (0, 0, 0)
    memory = np.random.default_rng(1).integers(0, 9, (64, 64, 64, 1), np.uint8)
    opened[0][...] = memory
    assert opened[-1].shape == (32, 32, 32, 1)
    found = shardine.open(folder / "v")
    assert found.dims == ["x", "y", "z", "channel"] or found.dims is None
    assert np.array_equal(found[...], memory)
    assert np.array_equal(found[[5, 1], :, 3], memory[[5, 1], :, 3])
    found[[1, 40, 1], [2, 3, 2], [0, 63, 0], 0] = [7, 8, 9]
    memory[[1, 40, 1], [2, 3, 2], [0, 63, 0], 0] = [7, 8, 9]
    assert np.array_equal(shardine.open(folder / "v")[...], memory)
    assert np.array_equal(pickle.loads(pickle.dumps(opened))[0][...], memory)
    assert dict(found.attrs) == {}
    with pytest.raises(shardine.UnsupportedError, match="no attributes"):
        found.attrs["a"] = 1
    with pytest.raises(shardine.NotFoundError, match="no level 2"):
        shardine.open(folder / "v", 2)
    with pytest.raises(IndexError):
        opened[2]


def test_values_by_key_are_a_mapping(folder):
    volume(folder / "v", SHARDING)
    values = shardine.kv(folder / "v" / "8_8_8")
    assert len(values) == 0 and 5 not in values
    values[5] = b"five"
    values.update({7: b"seven", 1 << 20: b"", 6: b"\x00" * 1000})
    assert list(values) == [5, 6, 7, 1 << 20] and values[7] == b"seven" and values[1 << 20] == b""
    assert dict(values) == dict(shardine.kv(folder / "v" / "8_8_8"))
    del values[7]
    with pytest.raises(KeyError) as raised:
        values[7]
    assert raised.value.kind == "not-found"
    with pytest.raises(KeyError):
        del values[7]
    assert values.pop(5) == b"five" and values.get(5) is None
    assert values.sharding["minishard_bits"] == 2
    assert pickle.loads(pickle.dumps(values))[6] == b"\x00" * 1000
    with pytest.raises(shardine.NotFoundError):
        shardine.kv(folder)
    bare = shardine.kv(folder / "bare", sharding=SHARDING)
    bare[1] = b"x"
    assert bare[1] == b"x"


def image(folder):
    """An OME-Zarr image of version 0.5 with two levels and labels."""
    def multiscales(factor):
        axes = [
            {"name": "c", "type": "channel"},
            {"name": "y", "type": "space", "unit": "micrometer"},
            {"name": "x", "type": "space", "unit": "micrometer"},
        ]
        datasets = [
            {"path": str(i), "coordinateTransformations": [
                {"type": "scale", "scale": [1, 0.5 * 2**i * factor, 0.25 * 2**i * factor]}]}
            for i in range(2)
        ]
        return {"ome": {"version": "0.5", "multiscales": [
            {"name": "cells", "axes": axes, "datasets": datasets}]}}  # fmt: skip

    group = shardine.create_group(folder, attributes=multiscales(1))
    for i, size in enumerate((64, 32)):
        group.create_array(str(i), (2, size, size), "uint16", dims=["c", "y", "x"])[...] = i + 1
    names = {"ome": {"version": "0.5", "labels": ["nuclei"]}}
    labels = group.create_group("labels", attributes=names)
    nuclei = labels.create_group("nuclei", attributes=multiscales(1))
    for i, size in enumerate((64, 32)):
        nuclei.create_array(str(i), (2, size, size), "uint8", dims=["c", "y", "x"])


def test_an_image_has_levels_and_labels(folder):
    image(folder / "i.zarr")
    opened = shardine.open_ome(folder / "i.zarr")
    assert (len(opened), opened.version, opened.name) == (2, "0.5", "cells")
    assert [axis.name for axis in opened.axes()] == ["c", "y", "x"]
    assert opened.axes()[1].unit == "micrometer" and opened.axes()[0].type == "channel"
    assert opened.scale(1) == (1, 1.0, 0.5)
    assert opened[0].shape == (2, 64, 64) and opened[-1][0, 0, 0] == 2
    assert [level.shape for level in opened] == [(2, 64, 64), (2, 32, 32)]
    assert shardine.open(folder / "i.zarr", 1).shape == (2, 32, 32)
    assert list(opened.labels) == ["nuclei"] and opened.labels["nuclei"][0].dtype == np.uint8
    assert opened.labels["nuclei"].labels == {}
    again = pickle.loads(pickle.dumps(opened[1]))
    assert (again.shape, again.level) == ((2, 32, 32), 1)
    opened[1].attrs["a"] = 1
    assert shardine.open(folder / "i.zarr" / "1").attrs["a"] == 1
    with pytest.raises(shardine.RequestError, match="not an OME-Zarr image"):
        shardine.open_ome(folder / "i.zarr" / "0")


def test_errors_say_whose_fault_it_is(folder):
    with pytest.raises(FileNotFoundError) as raised:
        shardine.open(folder / "nothing")
    error = raised.value
    assert isinstance(error, shardine.NotFoundError) and error.kind == "not-found"
    assert "there is no Zarr array or group" in str(error) and "hint: " in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.hint) == (type(error), str(error), error.hint)

    array = shardine.create(folder / "a", (8, 8), "uint8", chunks=(4, 4), shards=(8, 8))
    array[...] = np.random.default_rng(1).integers(0, 255, (8, 8))
    path = next(path for path in (folder / "a" / "c").rglob("*") if path.is_file())
    sound = path.read_bytes()
    path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    with pytest.raises(shardine.DamagedError) as raised:
        shardine.open(folder / "a")[...]
    error = raised.value
    assert error.kind == "damaged" and error.shard == (0, 0) and error.object.startswith("c/")
    assert error.hint is not None
    path.write_bytes(bytes([sound[0] ^ 255]) + sound[1:])
    with pytest.raises(shardine.DamagedError) as raised:
        shardine.open(folder / "a")[...]
    assert raised.value.chunk == (0, 0)

    with pytest.raises(shardine.RequestError) as raised:
        shardine.open("ftp://host/x")
    assert isinstance(raised.value, ValueError)
    with pytest.raises(shardine.RequestError, match="must be 2 or 3"):
        shardine.open(folder / "a", zarr_format=4)
    with pytest.raises(shardine.RequestError, match="no such strategy"):
        array.write(0, 1, strategy="quickly")
    with pytest.raises(shardine.NotFoundError, match="no level 1"):
        shardine.open(folder / "a", 1)


def test_storage_that_fails_is_an_os_error(folder):
    if os.geteuid() == 0:
        # Nothing is forbidden to root: a file where a folder is needed.
        (folder / "file").write_text("")
        with pytest.raises(shardine.ShardineError):
            shardine.create(folder / "file" / "a", (3,), "uint8")
    else:
        os.chmod(folder, 0o500)
        with pytest.raises(OSError):
            shardine.create(folder / "a", (3,), "uint8")


def test_configuration_is_checked(folder):
    with pytest.raises(ValueError, match="memory=5"):
        shardine.configure(memory=5)
    with pytest.raises(shardine.ShardineError, match="5000 worker threads"):
        shardine.configure(threads=5000)
    with pytest.raises(ValueError, match="index_cache=-1"):
        shardine.configure(index_cache=-1)
    shardine.configure(threads=2, memory=32 << 20)
    shardine.configure(index_cache=0)
    again = shardine.create(folder / "no-cache.zarr", (8,), "uint8", chunks=2, shards=4)
    again[...] = range(8)
    assert shardine.open(folder / "no-cache.zarr")[...].tolist() == list(range(8))
    shardine.configure()
