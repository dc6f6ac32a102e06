"""Selections and assignments are those of numpy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from random_index import FIXED, dtype, index, outer, same, values

import shardine


def outcome(work):
    """What a call returns, or the type of what it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work(), None
    except Exception as error:
        return None, error


def numbered(folder, name, rng, element):
    """A random array, stored and in memory."""
    shape = tuple(int(n) for n in rng.integers(1, 14, rng.integers(0, 4)))
    chunks = tuple(int(rng.integers(1, n + 3)) for n in shape)
    shards = tuple(c * int(rng.integers(1, 4)) for c in chunks)
    layout = {"chunks": chunks, "shards": shards if rng.random() < 0.7 else "none"}
    if not shape:
        layout = {}
    array = shardine.create(
        folder / name,
        shape,
        element,
        codecs=["none", "zstd:1"][rng.integers(2)],
        index=["start", "end"][rng.integers(2)] if layout.get("shards") != "none" else None,
        **layout,
    )
    memory = np.zeros(shape, element)
    if rng.random() < 0.8:
        memory = values(rng, element, shape)
        array[...] = memory
    return array, memory


@pytest.mark.parametrize("name", FIXED)
def test_random_selections_and_assignments(folder, name, cases, seed):
    rng = np.random.default_rng([seed, FIXED.index(name)])
    element = dtype(name)
    array = memory = None
    for case in range(cases):
        if case % 20 == 0:
            array, memory = numbered(folder, f"{case}.zarr", rng, element)
            assert array.dtype == element
        key = index(rng, memory.shape)
        expected, refused = outcome(lambda: memory[key])
        found, error = outcome(lambda: array[key])
        assert type(refused) is type(error), (case, array, key, refused, error)
        if refused is not None:
            continue
        assert same(expected, found), (case, array, key)
        assert isinstance(found, np.ndarray) == isinstance(expected, np.ndarray), (case, key)

        out = np.empty(np.shape(expected), element, order="CF"[rng.integers(2)])
        assert array.read(key, out=out) is out
        # numpy's scalar of a text is as wide as the text, not as the type.
        assert same(out, np.asarray(expected, element)), (case, array, key)

        given = values(rng, element, np.shape(expected))
        if rng.random() < 0.3:
            # Broadcast.
            ends = (1 if rng.random() < 0.5 else None for _ in given.shape)
            given = given[tuple(slice(0, end) for end in ends)]
        elif rng.random() < 0.2 and given.size:
            given = given.reshape(-1)[0]
        _, refused = outcome(lambda: memory.__setitem__(key, given))
        if refused is not None:
            # A single mask takes values of one dimension only.
            assert "boolean" in str(refused), (case, key, refused)
            continue
        array[key] = given
        assert same(array[...], memory), (case, array, key)


@pytest.mark.parametrize("name", ["uint16", "float64", "struct"])
def test_random_outer_selections_and_assignments(folder, name, cases, seed):
    rng = np.random.default_rng([seed, 99])
    element = dtype(name)
    for case in range(cases):
        if case % 20 == 0:
            array, memory = numbered(folder, f"{case}.zarr", rng, element)
        if array.ndim == 0:
            continue
        key, mesh, dropped = outer(rng, memory.shape)
        expected = memory[mesh].squeeze(dropped)
        assert same(array.oindex[key], expected), (case, array, key)
        given = values(rng, element, expected.shape)
        memory[mesh] = np.expand_dims(given, dropped)
        array.oindex[key] = given
        assert same(array[...], memory), (case, array, key)


def test_random_selections_and_assignments_of_strings(folder, cases, seed):
    rng = np.random.default_rng([seed, 7])
    words = ["", "a", "ß", "ein längeres Wort", "漢字", "x" * 100]
    for case in range(cases):
        if case % 20 == 0:
            shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 3)))
            array = shardine.create(folder / f"{case}.zarr", shape, str, chunks=3)
            memory = np.array(rng.choice(words, shape), array.dtype)
            array[...] = memory
        key = index(rng, memory.shape)
        expected, refused = outcome(lambda: memory[key])
        found, error = outcome(lambda: array[key])
        assert type(refused) is type(error), (case, key, refused, error)
        if refused is not None:
            continue
        assert np.shape(found) == np.shape(expected), (case, key)
        assert np.array_equal(found, expected), (case, key)
        given = np.array(rng.choice(words, np.shape(expected)), array.dtype)
        if outcome(lambda: memory.__setitem__(key, given))[1] is not None:
            continue
        array[key] = given
        assert np.array_equal(array[...], memory), (case, key)


def test_an_integer_before_a_mask_of_two_axes_belongs_to_the_axis_before_them(folder):
    array = shardine.create(folder / "a.zarr", (12, 3, 4), "uint8")
    memory = np.arange(array.size, dtype=np.uint8).reshape(array.shape)
    array[...] = memory
    mask = memory[0] % 3 == 0
    assert np.array_equal(array[..., -5, mask], memory[..., -5, mask])
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1 with size 3"):
        array[0, 3]


def test_bytes_of_any_length_are_objects(folder):
    array = shardine.create(folder / "b.zarr", (4,), bytes, chunks=2)
    array[1:3] = [b"\x00\xff", b""]
    assert array.dtype == object
    assert array[...].tolist() == [b"", b"\x00\xff", b"", b""]
    with pytest.raises(TypeError, match="elements are bytes, not str"):
        array[0] = "text"


def test_values_are_converted_as_by_an_assignment(folder):
    array = shardine.create(folder / "a.zarr", (4,), "uint8")
    array[...] = [1.9, 2.0, 3.5, 0.1]
    assert array[...].tolist() == [1, 2, 3, 0]
    array[0] = np.int64(7)
    array[1] = True
    assert array[:2].tolist() == [7, 1]
    with pytest.raises(OverflowError):
        array[0] = 300
    with pytest.raises(ValueError, match=r"could not broadcast input array from shape \(3,\)"):
        array[:2] = [1, 2, 3]
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        array[0] = [1]
    big = shardine.create(folder / "b.zarr", (3,), "int32")
    big[...] = np.array([1, 2, 3], ">i4")
    assert big[...].tolist() == [1, 2, 3]


def test_narrow_integers_are_stored_as_others_expect_them(folder):
    import ml_dtypes

    array = shardine.create(
        folder / "a.zarr", (4,), "int4", codecs="none", shards="none", fill_value=-8
    )
    array[:3] = np.array([-1, 7, -2], ml_dtypes.int4)
    assert (folder / "a.zarr" / "c" / "0").read_bytes() == b"\xff\x07\xfe\xf8"
    assert array[...].astype(int).tolist() == [-1, 7, -2, -8]


def test_a_value_for_all_keeps_its_type(folder):
    for i, (dtype, value) in enumerate([("U7", "abc"), ("S5", b"a"), ("V3", b"\x01\x02\x00")]):
        array = shardine.create(folder / str(i), (3, 4), dtype)
        array[:, [0, 2], None] = np.array(value, dtype)
        assert array[2, 2] == np.array(value, dtype)[()]
        assert array[...].tobytes() == b"".join(
            (np.array(value, dtype) if column in (0, 2) else np.zeros((), dtype)).tobytes()
            for _ in range(3)
            for column in range(4)
        )


def test_errors_of_an_index_are_those_of_numpy(folder):
    array = shardine.create(folder / "a.zarr", (4, 5), "uint8")
    memory = np.zeros((4, 5), "uint8")
    for key in [4, -5, (0, 5), (0, 0, 0), (..., ...), [4], ([0, 1], [0, 1, 2]), "x", 1.0, [0.5],
                np.zeros((4, 4), bool), np.zeros(3, bool), 1 << 70]:  # fmt: skip
        _, expected = outcome(lambda: memory[key])
        _, found = outcome(lambda: array[key])
        assert isinstance(found, IndexError) and isinstance(expected, IndexError), key
        if key not in ("x", 1.0, 1 << 70) if not isinstance(key, np.ndarray) else True:
            assert str(found).rstrip() == str(expected).rstrip(), key


def test_positions_out_of_bounds_do_not_count_where_nothing_is_selected(folder):
    array = shardine.create(folder / "a.zarr", (4, 5), "uint8", fill_value=7)
    memory = np.full((4, 5), 7, "uint8")
    for key in [(False, [9]), ([-9], False), (False, [9], [0]), (False, [[9]]), ([], [9]),
                (np.zeros(4, bool), [9]), (np.array(False), [9], slice(1, 3)),
                (None, [9], False, ...)]:  # fmt: skip
        assert same(array[key], memory[key]) and memory[key].size == 0, key
        memory[key] = array[key] = 1
        out = np.empty(memory[key].shape, "uint8")
        assert array.read(key, out=out) is out, key
    assert same(array[...], memory)
    # Where something is selected they do count, and integers always do.
    for key in [(False, 9), ([], 9), (9, False), (True, [9]), (slice(0, 0), [9]), (False, [9, 1]),
                (False, np.array(9)), (np.zeros(3, bool), False)]:  # fmt: skip
        _, expected = outcome(lambda: memory[key])
        _, found = outcome(lambda: array[key])
        assert isinstance(expected, IndexError) and isinstance(found, IndexError), key
        assert str(found).rstrip() == str(expected).rstrip(), key


def test_out_of_any_strides_is_filled_in_place(folder):
    rng = np.random.default_rng(3)
    memory = rng.integers(0, 1000, (20, 30), np.uint16)
    array = shardine.create(folder / "a.zarr", (20, 30), "uint16", chunks=(7, 8), shards=(14, 16))
    array[...] = memory
    large = np.zeros((3, 60, 40), np.uint16)
    part = large[1, 5:35, ::2].T
    assert array.read(out=part) is part and np.array_equal(part, memory)
    assert np.count_nonzero(large) == np.count_nonzero(memory)
    backwards = np.zeros((20, 30), np.uint16)
    array.read(out=backwards[::-1])
    assert np.array_equal(backwards[::-1], memory)
    wide = np.zeros((20, 30), np.float64)
    array.read(out=wide)
    assert np.array_equal(wide, memory)
    with pytest.raises(ValueError, match="shape"):
        array.read(out=np.zeros((30, 20), np.uint16))
    frozen = np.zeros((20, 30), np.uint16)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        array.read(out=frozen)


def test_a_region_may_be_text(folder):
    array = shardine.create(folder / "a.zarr", (10, 20), "int32", dims=["y", "x"])
    memory = np.arange(200).reshape(10, 20)
    array[...] = memory
    assert np.array_equal(array.read("2:4, -3"), memory[2:4, -3:-2])
    assert np.array_equal(array.read("x=5, y=1:9:2"), memory[1:9:2, 5:6])
    array.write("y=0", 5)
    assert (array[0] == 5).all()
    with pytest.raises(shardine.RequestError, match='no axis "z"'):
        array.read("z=1")


def test_an_array_is_what_numpy_expects(folder):
    memory = np.arange(24, dtype="float32").reshape(2, 3, 4)
    array = shardine.create(folder / "a.zarr", memory.shape, memory.dtype)
    array[...] = memory
    assert np.array_equal(np.asarray(array), memory)
    assert np.asarray(array, dtype="int64").dtype == np.int64
    assert np.array_equal(np.from_dlpack(array), memory)
    assert np.array_equal(list(array), memory) and len(array) == 2
    assert np.sum(array) == memory.sum()
    assert (array.size, array.nbytes, array.ndim) == (24, 96, 3)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(ValueError, match="copy"):
            np.array(array, copy=False)
    assert not hasattr(array, "copy")
    with pytest.raises(TypeError):
        len(shardine.create(folder / "b.zarr", (), "uint8"))


def test_iteration_decodes_each_chunk_once_and_sees_all_planes(folder):
    memory = np.random.default_rng(1).integers(0, 9, (23, 4), np.int16)
    array = shardine.create(folder / "a.zarr", memory.shape, "int16", chunks=(5, 4))
    array[...] = memory
    assert np.array_equal(np.stack(list(array)), memory)
