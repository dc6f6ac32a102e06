"""Handles: pickles, forks, threads, signals, leaks."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import shardine


@pytest.fixture
def numbered(folder):
    array = shardine.create(
        folder / "a.zarr", (64, 64), "int32", chunks=(8, 8), shards=(32, 32), codecs="zstd:1"
    )
    array[...] = np.arange(64 * 64).reshape(64, 64)
    return array


def test_a_pickle_is_the_url_and_the_options(numbered):
    again = pickle.loads(pickle.dumps(numbered))
    assert np.array_equal(again[...], numbered[...])
    assert again.url == numbered.url and len(pickle.dumps(numbered)) < 400


def test_a_relative_path_is_pickled_as_an_absolute_one(numbered, folder, monkeypatch):
    monkeypatch.chdir(folder)
    array = shardine.open("a.zarr")
    pickled = pickle.dumps(array)
    monkeypatch.chdir("/")
    array.refresh()
    assert pickle.loads(pickled).shape == (64, 64)


def _sum(array):
    return int(np.sum(array[...], dtype=np.int64))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_use_a_handle(numbered, method):
    expected = _sum(numbered)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(_sum, [numbered] * 4) == [expected] * 4


def test_a_forked_process_uses_what_it_has_inherited(numbered):
    expected = _sum(numbered)
    child = os.fork()
    if child == 0:
        # The handle as it is, in threads too, and a write.
        status = 1
        try:
            found = []
            add = lambda: found.append(_sum(numbered))  # noqa: E731
            workers = [threading.Thread(target=add) for _ in range(4)]
            [worker.start() for worker in workers]
            [worker.join() for worker in workers]
            numbered[0, 0] = 17
            status = 0 if found == [expected] * 4 and numbered[0, 0] == 17 else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the forked process hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status) == 0
    assert numbered[0, 0] == 17 and _sum(numbered) == expected + 17


def test_eight_threads_read_and_write_one_array(numbered):
    """Each writes its own rows, some through index arrays, within shards that all share."""
    failures = []

    def work(number):
        try:
            rng = np.random.default_rng(number)
            for step in range(12):
                value = number * 1000 + step
                rows = np.arange(number, 64, 8)
                if step % 2:
                    numbered[rows, :] = value
                else:
                    numbered[number::8] = value
                found = numbered[rows]
                if not (found == value).all():
                    failures.append((number, step, np.unique(found)))
                numbered[int(rng.integers(64))]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures
    assert np.array_equal(numbered[:, 0], (np.arange(64) % 8) * 1000 + 11)


def test_the_interpreter_runs_while_an_array_is_read(folder):
    array = shardine.create(folder / "a.zarr", (512, 512, 64), "uint16", codecs="zstd:1")
    array[...] = np.random.default_rng(1).integers(0, 900, array.shape, np.uint16)
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    ticking = threading.Thread(target=tick)
    ticking.start()
    start = time.monotonic()
    array[...]
    end = time.monotonic()
    stop.set()
    ticking.join()
    assert end - start < 0.02 or sum(start < at < end for at in ticks) >= 3


#: A program that is started in the background of a shell ignores Ctrl-C unless it says otherwise.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def interrupted(code, folder):
    """Runs a program, presses Ctrl-C when it says that it begins, and how long that would take; that
    time, how long it then takes, and what it prints."""
    program = subprocess.Popen(
        [sys.executable, "-c", LISTEN + textwrap.dedent(code), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begin, _, whole = program.stdout.readline().partition(" ")
    assert begin == "begin", program.communicate()
    time.sleep(float(whole) / 4)
    assert program.poll() is None, "it ended before it could be interrupted"
    start = time.monotonic()
    program.send_signal(signal.SIGINT)
    out, errors = program.communicate(timeout=30)
    took = time.monotonic() - start
    return float(whole), took, out, errors


#: One read that takes seconds: shards of a slow codec, all with the same bytes.
LONG_READ = """
    import pathlib, shutil, sys, time, numpy as np, shardine
    folder = pathlib.Path(sys.argv[1]) / "a.zarr"
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}},
              {"name": "numcodecs.bz2", "configuration": {"level": 9}}]
    array = shardine.create(folder, (16, 512, 512, 8), "uint16", chunks=(1, 64, 64, 8),
        shards=(1, 512, 512, 8), codecs=codecs)
    array[0] = np.random.default_rng(1).integers(0, 900, array.shape[1:], np.uint16)
    for i in range(1, 16):
        shutil.copytree(folder / "c/0", folder / f"c/{i}")
    start = time.monotonic()
    array[0]
    print("begin", 16 * (time.monotonic() - start), flush=True)
    try:
        array[...]
    except KeyboardInterrupt:
        print("interrupted", array[0, 0, 0].shape)
"""

LONG_WRITE = """
    import sys, time, numpy as np, shardine
    array = shardine.create(sys.argv[1] + "/a.zarr", (2048, 2048, 16), "uint16",
        chunks=(64, 64, 16), shards=(1024, 1024, 16), codecs="gzip:9")
    value = np.random.default_rng(1).integers(0, 900, array.shape, np.uint16)
    start = time.monotonic()
    array[:1024, :1024] = value[:1024, :1024]
    print("begin", 4 * (time.monotonic() - start), flush=True)
    try:
        array[...] = value
    except KeyboardInterrupt:
        print("interrupted", array[0, 0].shape)
"""


@pytest.mark.parametrize("code", [LONG_READ, LONG_WRITE])
def test_ctrl_c_ends_a_long_call_and_leaves_nothing_behind(folder, code):
    whole, took, out, errors = interrupted(code, folder)
    assert out.startswith("interrupted"), (out, errors)
    # Long before its end, however busy the machine is. The program's own end is part of it.
    assert took < whole / 3, (took, whole)
    names = [name for _, _, names in os.walk(folder) for name in names]
    assert all(name == "zarr.json" or name.isdigit() for name in names), names
    array = shardine.open(folder / "a.zarr")
    assert array[0, 0].shape == array.shape[2:]


def test_an_absurd_request_is_a_memory_error(folder):
    array = shardine.create(folder / "a.zarr", (1 << 40, 1 << 20), "float64", chunks=(64, 64))
    with pytest.raises(MemoryError):
        array[...]
    with pytest.raises(MemoryError):
        np.asarray(array)
    with pytest.raises((MemoryError, ValueError)):
        shardine.create(folder / "b.zarr", (1 << 62, 4), "float64", chunks=(64, 4))[...]
    assert array[1 << 39, :2].tolist() == [0, 0]
    assert array[[1 << 39, 0], 5].tolist() == [0, 0]


def _open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_many_opens_leak_neither_memory_nor_descriptors(numbered, folder):
    count = int(os.environ.get("SHARDINE_OPENS", 1500))

    def opens(times):
        for _ in range(times):
            array = shardine.open(folder / "a.zarr")
            assert array[0, 1] == 1
            with pytest.raises(shardine.NotFoundError):
                shardine.open(folder / "none.zarr")

    opens(300)
    descriptors, memory = _open_descriptors(), _resident()
    opens(count)
    assert _open_descriptors() <= descriptors + 8
    assert _resident() - memory < 8 << 20


def test_the_import_is_fast_and_loads_nothing_else():
    code = """
        import sys, time, numpy
        start = time.perf_counter()
        import shardine
        took = time.perf_counter() - start
        print(took)
        loaded = {"ml_dtypes", "tqdm", "pandas", "pyarrow", "dask"} & set(sys.modules)
        assert not loaded, loaded
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    runs = [
        subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 0.1
