"""Jobs: reports, progress, Ctrl-C, errors."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import shardine


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """An array of 8 x 8 chunks, without shards."""
    elements = np.random.default_rng(1).integers(0, 99, (64, 64), np.uint16)
    np.save(tmp_path / "cells.npy", elements)
    report = shardine.convert(tmp_path / "cells.npy", tmp_path / "cells.zarr", chunk=(8, 8), shard="none")
    assert report.shape == [64, 64]
    assert report.chunk_shape == [8, 8]
    return tmp_path / "cells.zarr"


def objects(array: Path) -> int:
    return sum(path.is_file() for path in array.joinpath("c").rglob("*"))


def test_shards_are_made_and_undone_in_place(cells: Path) -> None:
    assert objects(cells) == 64
    report = shardine.shard(cells, chunks_per_shard=4)
    assert [array.chunks_moved for array in report.arrays] == [64]
    assert report.arrays[0].shard == [32, 32]
    assert objects(cells) == 4
    assert shardine.reshard(cells, shard=(64, 32)).arrays[0].shard == [64, 32]
    assert objects(cells) == 2
    assert shardine.reshard(cells, target_size="1MiB").arrays[0].shard is not None
    assert shardine.unshard(cells).arrays[0].shard is None
    assert objects(cells) == 64
    assert shardine.compare(cells, cells.with_name("cells.npy"))


def test_a_dry_run_changes_nothing(cells: Path) -> None:
    report = shardine.shard(cells, chunks_per_shard=4, dry_run=True)
    assert report.dry_run
    assert report.arrays[0].shard == [32, 32]
    assert objects(cells) == 64


def test_parts_of_a_job_add_up(cells: Path) -> None:
    output = cells.with_name("parts.zarr")
    first = shardine.reshard(cells, chunks_per_shard=4, output=output, part=(1, 2))
    assert first.part == "1/2"
    assert first.parts_missing == [2]
    second = shardine.reshard(cells, chunks_per_shard=4, output=output, part="2/2")
    assert second.parts_missing == []
    assert shardine.compare(cells, output).equal


def test_damage_is_found_and_named(cells: Path) -> None:
    shardine.shard(cells, chunks_per_shard=4)
    assert shardine.verify(cells, decode=True)
    shard = cells / "c" / "1" / "0"
    stored = bytearray(shard.read_bytes())
    stored[5] ^= 0xFF
    shard.write_bytes(stored)
    report = shardine.verify(cells, decode=True)
    assert not report
    assert not report.ok
    (damage,) = [finding for finding in report.findings if finding.severity == "damage"]
    assert damage.object == "c/1/0"
    assert damage.kind == "chunk"
    assert damage.chunk == [4, 0]
    assert damage.range is not None
    assert "c/1/0" in str(damage)
    assert report.summary.kinds.chunk == 1

    mended = shardine.repair(cells, decode=True)
    assert not mended.ok, "a chunk is lost"
    assert mended.summary.lost == 1
    assert Path(mended.set_aside) == cells.with_name("cells.zarr.set-aside")
    assert Path(mended.set_aside).is_dir()
    assert shardine.repair(cells, accept_loss=True).ok
    assert shardine.verify(cells, decode=True).ok


def test_gaps_are_removed(cells: Path) -> None:
    shardine.shard(cells, chunks_per_shard=4, index="start")
    report = shardine.compact(cells, min_gap="10%")
    assert report.ok
    assert report.summary.shards == 4
    with pytest.raises(shardine.RequestError, match="min_gap"):
        shardine.compact(cells, min_gap=2.0)


def test_a_copy_is_equal_byte_for_byte(cells: Path) -> None:
    copy = cells.with_name("copy.zarr")
    report = shardine.copy(cells, copy, verify="content")
    assert report.objects_copied == 65
    assert report.verified == "content"
    assert shardine.compare(cells, copy, bytes=True)
    with pytest.raises(shardine.ExistsError):
        shardine.copy(cells, copy)
    shardine.copy(cells, copy, overwrite=True)


def test_images_convert_between_formats(cells: Path) -> None:
    image, volume = cells.with_name("image.zarr"), cells.with_name("volume")
    report = shardine.convert(
        cells, image, to="ome-zarr", axes="yx", scale=(0.5, 0.5), unit="micrometer", levels=2
    )
    assert report.ome_version == "0.5"
    assert [level.shape for level in report.levels] == [[64, 64], [32, 32]]
    document = json.loads((image / "zarr.json").read_text())
    assert document["attributes"]["ome"]["version"] == "0.5"
    old = cells.with_name("old.zarr")
    assert shardine.convert(image, old, to="ome-zarr", ome_version="0.4").ome_version == "0.4"
    migrated = shardine.migrate(old)
    assert migrated.summary.ome_version == "0.5"
    assert shardine.compare(image, old, data_only=True)

    np.save(cells.with_name("v.npy"), np.zeros((16, 16, 16), np.uint8))
    shardine.convert(cells.with_name("v.npy"), cells.with_name("v.zarr"), dims=["x", "y", "z"])
    made = shardine.convert(
        cells.with_name("v.zarr"), volume, to="precomputed", resolution=[8, 8, 40]
    )
    assert json.loads((volume / "info").read_text())["scales"][0]["resolution"] == [8, 8, 40]
    assert made.levels[0].sharding is not None
    assert shardine.reshard(volume, data_encoding="raw").scales[0].outcome == "done"
    assert shardine.unshard(volume).scales[0].sharding is None
    with pytest.raises(shardine.RequestError, match="codec"):
        shardine.reshard(volume, codec="zstd")


def test_levels_are_made_and_renewed(cells: Path) -> None:
    image = cells.with_name("pyramid.zarr")
    report = shardine.pyramid(cells, output=image, axes="yx", levels=3, method="max")
    assert report.method == "max"
    assert [level.shape for level in report.levels] == [[32, 32], [16, 16]]
    assert shardine.pyramid(image, update=True).unchanged


def test_a_plan_has_reasons(cells: Path) -> None:
    advice = shardine.plan(cells, purpose="serve", remote=True).arrays[0]
    assert advice.url == str(cells)
    assert advice.chunk_choice.reason
    assert advice.before.objects == 64
    new = shardine.plan(shape=(100000, 80000, 7000), dtype="uint8", to="precomputed").scales[0]
    assert new.sharding["@type"] == "neuroglancer_uint64_sharded_v1"
    with pytest.raises(shardine.RequestError, match="shape and dtype"):
        shardine.plan()


def test_reports_are_plain_data(cells: Path) -> None:
    report = shardine.verify(cells)
    plain = report.to_dict()
    assert plain == json.loads(json.dumps(plain))
    assert plain["summary"]["chunks"] == 64
    assert "64 chunks" in repr(report)
    assert pickle.loads(pickle.dumps(report)) == report
    assert "summary" in dir(report)
    with pytest.raises(AttributeError, match="nothing_such; it has ok"):
        report.nothing_such  # noqa: B018


def test_progress_reaches_its_end_on_the_calling_thread(cells: Path) -> None:
    import threading

    seen: list[tuple[int, int]] = []
    threads = set()

    def heard(done: int, total: int) -> None:
        seen.append((done, total))
        threads.add(threading.get_ident())

    shardine.verify(cells, decode=True, progress=heard)
    assert seen
    assert seen[-1][0] == seen[-1][1] > 0
    assert threads == {threading.get_ident()}


def test_a_callback_that_raises_stops_the_job(cells: Path) -> None:
    class Enough(Exception):
        pass

    def heard(done: int, total: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        shardine.verify(cells, decode=True, progress=heard)


def test_errors_have_classes_and_hints(cells: Path) -> None:
    with pytest.raises(shardine.NotFoundError) as missing:
        shardine.verify(cells / "nothing")
    assert missing.value.kind == "not-found"
    with pytest.raises(shardine.RequestError, match="no change requested") as nothing:
        shardine.reshard(cells)
    assert nothing.value.hint is not None
    with pytest.raises(shardine.RequestError, match="cannot be combined"):
        shardine.reshard(cells, chunks_per_shard=4, shard=(8, 8))
    with pytest.raises(shardine.RequestError, match="target_size"):
        shardine.reshard(cells, target_size="much")
    with pytest.raises(shardine.RequestError, match="part"):
        shardine.verify(cells, part="5/4")
    with pytest.raises(shardine.RequestError, match="only applies to precomputed"):
        shardine.reshard(cells, shard_bits=4)
    with pytest.raises(shardine.RequestError, match="chunk"):
        shardine.reshard(cells, chunk="large")  # type: ignore[arg-type]


def test_ctrl_c_stops_a_job_and_the_same_call_resumes(tmp_path: Path) -> None:
    array = tmp_path / "large.zarr"
    large = np.random.default_rng(2).integers(0, 255, (512, 512, 64), np.uint8)
    np.save(tmp_path / "large.npy", large)
    shardine.convert(tmp_path / "large.npy", array, chunk=(16, 16, 16), shard="none", codec="none")
    script = textwrap.dedent(
        f"""
        import signal, shardine
        # Started in the background of a shell, it would ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("begun", flush=True)
        try:
            while True:
                shardine.reshard({str(array)!r}, chunks_per_shard=8, codec="gzip:9",
                                 output={str(tmp_path / "out.zarr")!r}, overwrite=True)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        assert process.wait() == 0
    assert shardine.verify(array).ok
    out = tmp_path / "out.zarr"
    shardine.reshard(array, chunks_per_shard=8, codec="gzip:1", output=out, overwrite=True)
    assert shardine.compare(array, out).equal
    left = [path.name for path in out.rglob(".shardine-*")]
    assert left == []
