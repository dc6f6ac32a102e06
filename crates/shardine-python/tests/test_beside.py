"""What the package does beside other programs, and where storage fails."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import pytest

import shardine


@pytest.fixture
def stored(folder):
    """An array of 2 x 2 shards, and what it holds: nothing in it is a fill value."""
    array = shardine.create(folder / "a.zarr", (64, 64), "uint16", chunks=(8, 8), shards=(32, 32))
    memory = np.arange(1, array.size + 1, dtype=np.uint16).reshape(array.shape)
    array[...] = memory
    return array, memory


#: Repacks an array in place, to and fro, until its input ends.
REPACK = """
    import sys, threading, shardine
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
    times = 0
    while not told.is_set() or times < 4:
        try:
            shardine.reshard(sys.argv[1], chunks_per_shard=[8, 2, "none", 4][times % 4])
        except shardine.ConflictError:
            # It was written to all the time: the same call resumes.
            continue
        times += 1
        print(times, flush=True)
"""


def test_a_job_in_place_is_not_seen_by_reads_and_loses_no_writes(folder, stored):
    array, memory = stored
    job = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(REPACK), str(folder / "a.zarr")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout.readline() == "1\n", job.communicate()
    rng = np.random.default_rng(5)
    for case in range(200):
        y, x = (int(at) for at in rng.integers(0, 50, 2))
        part = np.index_exp[y : y + 14, x : x + 11]
        assert np.array_equal(array[part], memory[part]), (case, array)
        if case % 4 == 0:
            memory[part] += 1
            array[part] = memory[part]
        if case % 10 == 0:
            assert np.array_equal(shardine.open(folder / "a.zarr")[...], memory), case
    out, errors = job.communicate("")
    assert job.returncode == 0, errors
    assert int(out.split()[-1]) >= 4
    assert np.array_equal(array[...], memory)
    assert np.array_equal(shardine.open(folder / "a.zarr")[...], memory)


def test_links_to_an_array_and_in_it_are_followed(folder, stored):
    array, memory = stored
    (folder / "link.zarr").symlink_to("a.zarr")
    row = folder / "a.zarr" / "c" / "1"
    row.rename(folder / "elsewhere")
    row.symlink_to(folder / "elsewhere")
    for found in (array, shardine.open(folder / "a.zarr"), shardine.open(folder / "link.zarr")):
        assert np.array_equal(found[...], memory)
    memory[30:40, 5] = 9
    shardine.open(folder / "link.zarr")[30:40, 5] = 9
    assert np.array_equal(array[...], memory)
    assert row.is_symlink() and (folder / "link.zarr").is_symlink()


def reads(array):
    """All ways to a shard of the first row."""
    return (
        lambda: array[...],
        lambda: array[3, 40],
        lambda: array[[1, 2], [40, 50]],
        lambda: array.read(out=np.empty(array.shape, array.dtype)),
        lambda: list(array),
    )


def test_a_shard_that_cannot_be_read_is_an_error_and_not_fill_values(folder, stored):
    array, memory = stored
    shard = folder / "a.zarr" / "c" / "0" / "1"
    shard.unlink()
    # Not even root can follow a link that leads to itself.
    shard.symlink_to(shard)
    for found in (array, shardine.open(folder / "a.zarr")):
        for read in reads(found):
            with pytest.raises(shardine.StorageError):
                read()
        with pytest.raises(shardine.StorageError):
            found[3, 40] = 5
        # What is elsewhere does not suffer.
        assert np.array_equal(found[32:], memory[32:])


def test_a_shard_that_is_forbidden_is_an_error_and_not_fill_values(stored):
    _, memory = stored
    # The folders of tests are closed to other users, so that they would not get as far as the shard.
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        path = os.path.join(open_to_all, "a.zarr")
        array = shardine.create(path, memory.shape, "uint16", chunks=(8, 8), shards=(32, 32))
        array[...] = memory
        shard = os.path.join(path, "c", "0", "1")
        os.chmod(shard, 0)
        user = os.geteuid()
        found = shardine.open(path)
        try:
            if user == 0:
                # Nothing is forbidden to root.
                os.seteuid(65534)
            for read in reads(found):
                with pytest.raises(shardine.StorageError, match="c/0/1.*Permission denied"):
                    read()
            assert np.array_equal(found[32:], memory[32:])
        finally:
            os.seteuid(user)
        os.chmod(shard, 0o600)
        assert np.array_equal(found[...], memory)


@pytest.mark.parametrize("problem", ["broken-link", "blocked-key"])
def test_what_hides_a_shard_is_damage(folder, stored, problem):
    shard = folder / "a.zarr" / "c" / "0" / "1"
    shard.unlink()
    if problem == "broken-link":
        shard.symlink_to(folder / "nowhere")
    else:
        shard.mkdir()
    report = shardine.verify(folder / "a.zarr")
    assert not report and [finding.kind for finding in report.findings] == [problem]


def test_a_shard_that_is_cut_short_is_damage_and_not_fill_values(folder, stored):
    _, memory = stored
    shard = folder / "a.zarr" / "c" / "1" / "0"
    shard.write_bytes(shard.read_bytes()[:-7])
    array = shardine.open(folder / "a.zarr")
    with pytest.raises(shardine.DamagedError):
        array[...]
    assert np.array_equal(array[:32], memory[:32])
