"""zarr-python reads and writes the same through the engine as by itself."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import zarr

import shardine
import shardine.zarr

OURS = {"codec_pipeline.path": "shardine.zarr.ShardinePipeline", "codec_pipeline.strict": True}
OWN = {"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")


@pytest.fixture(autouse=True)
def pipeline():
    with zarr.config.set(OURS):
        yield


def by_itself(path):
    """All elements, as zarr-python's own pipeline reads them."""
    with zarr.config.set(OWN):
        return zarr.open_array(path, mode="r")[...]


def same(found, expected):
    return np.array_equal(found, expected) and np.shape(found) == np.shape(expected)


def made(rng, dtype, shape):
    numbers = np.asarray(rng.integers(0, 100, shape))
    # Comparing arrays without axes makes scalars.
    return np.asarray(numbers > 50 if np.dtype(dtype).kind == "b" else numbers).astype(dtype)


def array_of(folder, name, rng, dtype):
    """A random array of zarr-python, and the same in memory."""
    shape = tuple(int(n) for n in rng.integers(1, 20, rng.integers(0, 4)))
    chunks = tuple(int(rng.integers(1, n + 3)) for n in shape)
    layout = {"chunks": chunks, "zarr_format": 3}
    kind = rng.random()
    if kind < 0.6 and shape:
        layout["shards"] = tuple(chunk * int(rng.integers(1, 4)) for chunk in chunks)
    elif kind < 0.75:
        layout = {"chunks": chunks, "zarr_format": 2, "order": "CF"[rng.integers(2)]}
    if not shape:
        layout["chunks"] = ()
    if layout["zarr_format"] == 3 and rng.random() < 0.5:
        separator, name_ = "/."[rng.integers(2)], ["default", "v2"][rng.integers(2)]
        layout["chunk_key_encoding"] = {"name": name_, "separator": separator}
    array = zarr.create_array(
        folder / name,
        name="a" if rng.random() < 0.5 else None,
        shape=shape,
        dtype=dtype,
        config={"order": "CF"[rng.integers(2)], "write_empty_chunks": bool(rng.random() < 0.3)}
        if layout["zarr_format"] == 3
        else None,
        **layout,
    )
    memory = np.zeros(shape, dtype)
    if rng.random() < 0.8:
        memory = made(rng, dtype, shape)
        array[...] = memory
    return array, memory


def basic(rng, shape):
    items = []
    for length in shape:
        if rng.random() < 0.25:
            items.append(int(rng.integers(-length, length)))
        else:
            start, stop = sorted(rng.integers(0, length + 1, 2).tolist())
            items.append(slice(start, stop, [None, 1, 2, 3, 7][rng.integers(5)]))
    return tuple(items)


def outer(rng, shape):
    """For `oindex`: the index, and the one for numpy without the axes of integers."""
    items, lists, dropped = [], [], []
    for axis, length in enumerate(shape):
        chance = rng.random()
        if chance < 0.2:
            at = int(rng.integers(0, length))
            items.append(at)
            lists.append([at])
            dropped.append(axis)
        elif chance < 0.5:
            start, stop = sorted(rng.integers(0, length + 1, 2).tolist())
            items.append(slice(start, stop))
            lists.append(np.arange(start, stop))
        elif chance < 0.8:
            positions = rng.choice(length, rng.integers(1, length + 1), replace=False)
            items.append(positions)
            lists.append(positions)
        else:
            items.append(rng.random(length) < 0.5)
            lists.append(items[-1].nonzero()[0])
    return tuple(items), np.ix_(*lists), tuple(dropped)


@pytest.mark.parametrize("dtype", ["uint16", ">i4", "float64", "bool", "complex64", "M8[ns]", "U5"])
def test_random_selections_and_assignments(folder, dtype, cases, seed):
    rng = np.random.default_rng([seed, len(dtype), ord(dtype[0])])
    for case in range(cases):
        if case % 10 == 0:
            array, memory = array_of(folder, str(case), rng, dtype)
        key = basic(rng, memory.shape)
        assert same(array[key], memory[key]), (case, array, key)
        given = made(rng, dtype, memory[key].shape)
        if rng.random() < 0.2:
            given = made(rng, dtype, ())[()]
        array[key] = memory[key] = given
        assert same(array[...], memory), (case, array, key)
        if memory.ndim == 0:
            continue

        key, mesh, dropped = outer(rng, memory.shape)
        expected = memory[mesh].squeeze(dropped)
        assert same(array.oindex[key], expected), (case, array, key)
        given = made(rng, dtype, expected.shape)
        array.oindex[key] = given
        memory[mesh] = np.expand_dims(given, dropped)
        assert same(array[...], memory), (case, array, key)

        points = rng.choice(memory.size, rng.integers(1, memory.size + 1), replace=False)
        points = np.unravel_index(points, memory.shape)
        assert same(array.vindex[points], memory[points]), (case, array, points)
        given = made(rng, dtype, len(points[0]))
        array.vindex[points] = memory[points] = given
        mask = rng.random(memory.shape) < 0.3
        assert same(array.vindex[mask], memory[mask]), (case, array)
        array.vindex[mask] = memory[mask] = made(rng, dtype, int(mask.sum()))
        assert same(array[...], memory), (case, array)

        block = tuple(int(rng.integers(0, -(-n // c))) for n, c in zip(memory.shape, array.chunks))
        if array.shards is None:
            cut = tuple(slice(b * c, b * c + c) for b, c in zip(block, array.chunks))
            assert same(array.blocks[block], memory[cut]), (case, array, block)
        if case % 10 == 9:
            assert same(by_itself(array.store_path.store.root / array.path), memory), (case, array)


@pytest.mark.parametrize("shards", [None, (4,)])
def test_strings(folder, shards):
    words = np.array(["", "a", "ß", "ein längeres Wort", "漢字", "x" * 100], object)
    array = zarr.create_array(folder / "a.zarr", shape=(6,), dtype=str, chunks=(2,), shards=shards)
    array[...] = words
    assert array[...].tolist() == words.tolist()
    array[1:3] = np.array(["b", "c"], object)
    assert array[::2].tolist() == ["", "c", "漢字"]
    assert by_itself(folder / "a.zarr").tolist() == ["", "b", "c", *words[3:]]


def test_what_grows_or_shrinks_after_it_was_opened(folder):
    array = zarr.create_array(folder / "a.zarr", shape=(5, 6), dtype="i4", chunks=(2, 2), shards=(4, 4))
    memory = np.arange(30, dtype="i4").reshape(5, 6)
    array[...] = memory
    array.append(memory)
    memory = np.concatenate([memory, memory])
    assert same(array[...], memory)
    other = zarr.open_array(folder / "a.zarr")
    other.resize((3, 6))
    other.resize((7, 8))
    array = zarr.open_array(folder / "a.zarr")
    array[6, :] = 1
    expected = np.zeros((7, 8), "i4")
    expected[:3, :6] = memory[:3]
    # zarr-python removes only whole shards: what lay in others comes back when it grows.
    expected[3, :6] = memory[3]
    expected[6] = 1
    assert same(array[...], expected)
    assert same(by_itself(folder / "a.zarr"), expected)


def test_an_array_in_memory_of_another_order_or_type(folder):
    array = zarr.create_array(folder / "a.zarr", shape=(5, 6), dtype="i4", chunks=(2, 2), shards=(4, 4))
    memory = np.arange(30, dtype="i4").reshape(5, 6)
    array[...] = np.asfortranarray(memory)[:, ::-1]
    memory = memory[:, ::-1]
    for out in (np.empty((5, 6), ">i4"), np.empty((6, 5), "f8").T, np.empty((5, 12))[:, ::2]):
        buffer = zarr.core.buffer.cpu.NDBuffer.from_ndarray_like(out)
        array.get_basic_selection(..., out=buffer)
        assert same(out, memory)


def test_empty_chunks_are_stored_if_asked_for(folder):
    for store_empty in (False, True):
        array = zarr.create_array(
            folder / f"{store_empty}.zarr",
            shape=(4, 4),
            dtype="u1",
            chunks=(2, 2),
            config={"write_empty_chunks": store_empty},
        )
        array[...] = 0
        assert array.nchunks_initialized == (4 if store_empty else 0)


def test_the_rest_is_left_to_zarr_python_and_told_once(folder):
    store = zarr.storage.MemoryStore()
    shardine.zarr._told.clear()
    with zarr.config.set({"codec_pipeline.strict": False}):
        array = zarr.create_array(store, shape=(5, 6), dtype="i4", chunks=(2, 2), shards=(4, 4))
        with pytest.warns(shardine.zarr.FallbackWarning, match="MemoryStore"):
            array[...] = 7
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (array[...] == 7).all()
    with pytest.raises(shardine.UnsupportedError, match="MemoryStore"):
        array[...]
    # A store that is derived from one that the engine knows may do things of its own.
    class Watched(zarr.storage.LocalStore):
        pass

    array = zarr.create_array(Watched(folder / "a"), shape=(5, 6), dtype="i4", chunks=(2, 2))
    with pytest.raises(shardine.UnsupportedError, match="Watched"):
        array[...] = 1


def test_damage_is_an_error_and_not_a_fill_value(folder):
    array = zarr.create_array(folder / "a.zarr", shape=(8, 8), dtype="i4", chunks=(2, 2), shards=(8, 8))
    array[...] = 3
    shard = folder / "a.zarr/c/0/0"
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(shardine.DamagedError):
        array[...]


def test_pickles_and_new_processes(folder):
    array = zarr.create_array(folder / "a.zarr", data=np.arange(20), chunks=(2,), shards=(10,))
    copy = pickle.loads(pickle.dumps(array))
    assert type(copy.async_array.codec_pipeline) is shardine.zarr.ShardinePipeline
    assert copy == array
    assert same(copy[3:], np.arange(3, 20))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert same(pool.apply(array.__getitem__, (slice(3, 9),)), np.arange(3, 9))


def test_the_setting_alone_is_enough(folder):
    program = """
        import sys, zarr
        zarr.config.set({"codec_pipeline.path": "shardine.zarr.ShardinePipeline"})
        array = zarr.create_array(sys.argv[1], shape=(4,), dtype="u1")
        array[1:3] = 5
        assert array[...].tolist() == [0, 5, 5, 0]
        print(type(array.async_array.codec_pipeline).__name__)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder / "a.zarr")]
    assert subprocess.check_output(command, text=True) == "ShardinePipeline\n"


@pytest.mark.parametrize("processes", [True, False])
def test_writers_of_one_shard_lose_nothing(folder, processes):
    """Each writes its own columns, of which every shard has some; by zarr-python alone most would
    be lost."""
    writers, columns = 4, 64
    array = zarr.create_array(
        folder / "a.zarr", shape=(8, columns), dtype="u2", chunks=(8, 1), shards=(8, columns)
    )
    if processes:
        program = """
            import sys, zarr
            zarr.config.set({"codec_pipeline.path": "shardine.zarr.ShardinePipeline"})
            array = zarr.open_array(sys.argv[1])
            sys.stdin.readline()
            for column in range(int(sys.argv[2]), array.shape[1], int(sys.argv[3])):
                array[:, column] = column + 1
        """
        command = [sys.executable, "-c", textwrap.dedent(program), str(folder / "a.zarr")]
        running = [
            subprocess.Popen([*command, str(i), str(writers)], stdin=subprocess.PIPE, text=True)
            for i in range(writers)
        ]
        for writer in running:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in running:
            writer.communicate()
            assert writer.returncode == 0
    else:
        from concurrent.futures import ThreadPoolExecutor

        def write(column):
            array[:, column] = column + 1

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(columns)))
    expected = np.tile(np.arange(1, columns + 1, dtype="u2"), (8, 1))
    assert same(array[...], expected)
    assert same(by_itself(folder / "a.zarr"), expected)
