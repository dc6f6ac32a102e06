"""How the tools of today lose precomputed data: Shardine does it right or refuses, `verify` finds it, `repair` mends what can be.

    python peers/precomputed_losses.py --shardine PATH [--only NAME]

Each loss is produced with the tool that has it. See peers/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorstore as ts
from cloudvolume import Bbox
from cloudvolume import CloudVolume as Cloud
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification
from neuroglancer_scripts.sharded_file_accessor import ShardedFileAccessor

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.peers import PeerError  # noqa: E402
from harness.regions import slices_of  # noqa: E402
from precomputed.container import Broken, gzipped  # noqa: E402
from precomputed.damaged import (  # noqa: E402
    Bench,
    mesh_fragments,
    mesh_info,
    mesh_manifest,
    part,
    sharding,
)
from precomputed.draw import Case  # noqa: E402
from precomputed.tools import place, same  # noqa: E402
from precomputed.volumes import Failed  # noqa: E402

Told = tuple[str, str]
"""What `verify` said of the damage, and what became of it or of the same with Shardine."""
LOSSES: dict[str, Callable[[Bench], Told]] = {}
ONE_SHARD = sharding(0, 3, 0)
GRID = sharding(3, 3, 3)
"""Shards of 4x4x4 chunks."""


def loss(name: str) -> Callable[[Callable[[Bench], Told]], Callable[[Bench], Told]]:
    def keep(act: Callable[[Bench], Told]) -> Callable[[Bench], Told]:
        LOSSES[name] = act
        return act

    return keep


def cloud(root: Path, **options: object) -> Cloud:
    return Cloud(f"file://{root}", mip=0, progress=False, **options)


@loss("a write of a part replaces the shard (cloud-volume)")
def partial_write(bench: Bench) -> Told:
    case = bench.case([128] * 3, [32] * 3, ONE_SHARD)
    ours = bench.write_ours(case, "ours")
    region, other = part(case, 0, 32)
    bench.commands.write(ours, case.voxels[0].shape, 0, region, other, case.dice("part"))
    root = bench.write(case)
    cloud(root)[0:32, 0:32, 0:32] = other
    case.voxels[0][slices_of(region)] = other
    bench.reads(ours, case, "after a write of a part")
    bench.is_lost(root, case)
    return bench.finds_something(root), "shardine keeps the others"


@loss("a copy of a ragged volume keeps some shards only (cloud-volume)")
def ragged_transfer(bench: Bench) -> Told:
    case = bench.case([150, 130, 140], [16] * 3, ONE_SHARD)
    root, copy, ours = bench.write(case), bench.folder / "copy", bench.folder / "ours"
    source = cloud(root)
    source.transfer_to(f"file://{copy}", source.bounds)
    bench.is_lost(copy, case)
    spec = ["--preshift-bits", "3", "--minishard-bits", "3", "--shard-bits", "6"]
    bench.commands.run("reshard", str(root), *spec, "-o", str(ours))
    again = bench.folder / "copied"
    bench.commands.run("copy", str(root), str(again))
    for target in (ours, again):
        bench.reads(target, case, f"in {target.name}")
    return bench.finds_something(copy), "shardine copies and reshards all of it"


@loss("raw chunks under a data_encoding of gzip (cloud-volume)")
def wrong_encoding(bench: Bench) -> Told:
    case = bench.case([128] * 3, [32] * 3, ONE_SHARD)
    root, copy, ours = bench.write(case), bench.folder / "copy", bench.folder / "ours"
    source = cloud(root)
    source.transfer_to(f"file://{copy}", source.bounds, compress=False)
    bench.is_lost(copy, case)
    bench.commands.run("reshard", str(root), "--data-encoding", "raw", "-o", str(ours))
    info = json.loads((ours / "info").read_text())
    if info["scales"][0]["sharding"].get("data_encoding", "raw") != "raw":
        raise Failed(f"reshard --data-encoding raw leaves {info}")
    bench.reads(ours, case, "with raw chunks")
    return bench.finds_damage(copy), "shardine changes chunks and info"


@loss("sharded=False is not heeded for a ragged volume (cloud-volume)")
def ignored_flag(bench: Bench) -> Told:
    case = bench.case([50, 40, 30], [16] * 3, ONE_SHARD)
    root, ours, back = bench.write(case), bench.folder / "ours", bench.folder / "back"
    bench.commands.run("unshard", str(root), "-o", str(ours))
    if list(ours.rglob("*.shard")) or "sharding" in json.loads((ours / "info").read_text())["scales"][0]:
        raise Failed("unshard leaves shards")
    bench.reads(ours, case, "unsharded")
    bench.commands.run("shard", str(ours), "--sharding", json.dumps(GRID), "-o", str(back))
    if not list(back.rglob("*.shard")):
        raise Failed("shard makes none")
    bench.reads(back, case, "sharded again")
    return "-", "shardine does as it is told"


@loss("shards that are gzipped as a whole (cloud-volume)")
def wrapped_shard(bench: Bench) -> Told:
    case = bench.case([64] * 3, [16] * 3, ONE_SHARD)
    root = bench.folder / "volume"
    place(root, case)
    volume = cloud(root, compress="gzip")
    volume[volume.bounds] = case.voxels[0]
    if [path.name for path in (root / "s0").iterdir()] != ["0.shard.gz"]:
        raise Failed("cloud-volume wrote another file")
    bench.is_lost(root, case)
    found = bench.finds_damage(root)
    return found, bench.repairs(root, case)


@loss("each task of a transfer commits its own sharding (igneous, through cloud-volume)")
def tasks(bench: Bench) -> Told:
    case = bench.case([128] * 3, [32] * 3, None)
    root, copy = bench.folder / "volume", bench.folder / "copy"
    place(root, case)
    source = cloud(root, compress=False)
    source[source.bounds] = case.voxels[0]
    for z in (0, 64):
        for y in (0, 64):
            box = Bbox((0, y, z), (128, y + 64, z + 64))
            source.image.transfer_to(f"file://{copy}", box, 0, sharded=True)
    bench.is_lost(copy, case)
    ours = bench.folder / "ours"
    bench.commands.run("shard", str(root), "--sharding", json.dumps(GRID), "-o", str(ours))
    bench.reads(ours, case, "sharded")
    return bench.finds_something(copy), "shardine packs all of it"


@loss("a zero chunk gets the bytes of one of another shape (cloud-volume)")
def zero_chunks(bench: Bench) -> Told:
    case = bench.case([40, 40, 40], [16] * 3, ONE_SHARD)
    case.voxels[0][:] = 0
    case.voxels[0][0, 0, 0] = 5
    root = bench.folder / "volume"
    place(root, case)
    volume = cloud(root)
    volume[volume.bounds] = case.voxels[0]
    bench.is_lost(root, case)
    ours = bench.write_ours(case, "ours", store_empty=True)
    bench.reads(ours, case, "with zero chunks")
    bench.reads(ours, case, "with zero chunks", bench.cloud)
    return bench.finds_damage(root), "shardine clips each"


@loss("a write to a mesh shard drops the fragments (TensorStore)")
def mesh(bench: Bench) -> Told:
    told = []
    for encoding in ("raw", "gzip"):
        spec = sharding(0, 1, 1, encoding)
        sizes = {key: [100 + key, 50, 0] for key in range(1, 12)}
        manifests = {key: mesh_manifest(size) for key, size in sizes.items()}
        fragments = {key: os.urandom(sum(size)) for key, size in sizes.items()}
        folder = bench.folder / f"mesh-{encoding}"
        _mesh_shards(folder, spec, manifests, fragments)
        if mesh_fragments(folder, spec, manifests) != fragments:
            raise Failed("the shards of the test are not right")
        if bench.verify(folder).damage:
            raise Failed(f"verify finds damage in a mesh that has none: {bench.verify(folder)}")
        broken = bench.folder / f"broken-{encoding}"
        shutil.copytree(folder, broken)
        store = ts.KvStore.open(
            {
                "driver": "neuroglancer_uint64_sharded",
                "metadata": spec,
                "base": {"driver": "file", "path": f"{broken}/"},
            }
        ).result()
        store.write(struct.pack(">Q", 12), mesh_manifest([])).result()
        told.append(bench.finds_damage(broken))
        _mesh_survives(bench, folder, spec, manifests, fragments)
    return "; ".join(sorted(set(told))), "fragments survive put, rm and reshard"


def _mesh_shards(
    folder: Path, spec: dict, manifests: dict[int, bytes], fragments: dict[int, bytes]
) -> None:
    """Meshes as igneous lays them out: each manifest behind its fragments."""
    folder.mkdir()
    (folder / "info").write_text(json.dumps(mesh_info(spec)))
    plain = ShardingSpecification.from_dict({**spec, "data_encoding": "raw"})
    if spec["data_encoding"] == "gzip":
        stored = {key: gzipped(manifest) for key, manifest in manifests.items()}
    else:
        stored = manifests
    values = {key: fragments[key] + stored[key] for key in manifests}
    sizes = {key: len(value) for key, value in stored.items()}
    for name, shard in plain.synthesize_shards(values, data_offset=sizes).items():
        (folder / name).write_bytes(shard)


def _mesh_survives(
    bench: Bench,
    folder: Path,
    spec: dict,
    manifests: dict[int, bytes],
    fragments: dict[int, bytes],
) -> None:
    manifests, fragments = dict(manifests), dict(fragments)

    def intact(where: Path, sharding: dict, what: str) -> None:
        if mesh_fragments(where, sharding, manifests) != fragments:
            raise Failed(f"fragments are others after {what}, {spec['data_encoding']}")
        if bench.verify(where).damage:
            raise Failed(f"after {what} verify finds {bench.verify(where)}")

    value = bench.commands.shardine.file("manifest")
    value.write_bytes(mesh_manifest([]))
    bench.commands.run("kv", "put", str(folder), f"12={value}")
    manifests[12], fragments[12] = mesh_manifest([]), b""
    intact(folder, spec, "kv put")
    bench.commands.run("kv", "rm", str(folder), "3", "12")
    for key in (3, 12):
        del manifests[key], fragments[key]
    intact(folder, spec, "kv rm")
    target = bench.folder / f"resharded-{spec['data_encoding']}"
    other = {**sharding(1, 0, 2, spec["data_encoding"]), "hash": "murmurhash3_x86_128"}
    bench.commands.run("reshard", str(folder), "--sharding", json.dumps(other), "-o", str(target))
    intact(target, other, "reshard")


@loss("compressed_segmentation past 24 bits that TensorStore cannot read itself")
def overflow(bench: Bench) -> Told:
    return _overflow(bench, [8, 8, 8], 240)


@loss("compressed_segmentation past 24 bits that TensorStore reads as other labels")
def silent_overflow(bench: Bench) -> Told:
    return _overflow(bench, [1, 1, 1], 168)


def _overflow(bench: Bench, block: list[int], size: int) -> Told:
    case = bench.case(
        [size] * 3,
        [size] * 3,
        None,
        "uint64",
        encoding="compressed_segmentation",
        compressed_segmentation_block_size=block,
    )
    numbers = np.random.default_rng(1)
    case.voxels[0] = numbers.integers(1, 2**60, (size, size, size, 1), dtype="u8")
    root = bench.write(case)
    bench.is_lost(root, case)
    told = "shardine refuses to write it"
    try:
        ours = bench.write_ours(case, "ours")
    except PeerError as error:
        if "exit status 2" not in str(error):
            raise
    else:
        bench.reads(ours, case, "with a large table")
        told = "shardine writes it so that it can be read"
    return bench.finds_damage(root), told


@loss("chunks of a sharded volume cannot be asked for or removed (cloud-volume)")
def exists_and_delete(bench: Bench) -> Told:
    case = bench.case([32] * 3, [16] * 3, ONE_SHARD)
    root = bench.write(case)
    volume = cloud(root)
    if any(volume.exists(volume.bounds).values()):
        raise Failed("cloud-volume finds chunks in shards now")
    folder = str(root / "s0")
    listed = bench.commands.keys(folder)
    if sorted(listed) != list(range(8)):
        raise Failed(f"kv ls lists {listed}")
    bench.commands.run("kv", "rm", folder, "0")
    case.voxels[0][:16, :16, :16] = 0
    bench.reads(root, case, "after kv rm")
    return "-", "kv ls and kv rm know them"


@loss("zlib that is called gzip (neuroglancer-scripts)")
def zlib_shards(bench: Bench) -> Told:
    case = bench.case([64] * 3, [16] * 3, sharding(1, 2, 3))
    root = bench.folder / "volume"
    place(root, case)
    accessor = ShardedFileAccessor(str(root))
    accessor.info = case.info
    for cell in np.ndindex(4, 4, 4):
        low = [16 * at for at in cell]
        box = tuple(slice(at, at + 16) for at in low)
        bounds = [edge for at in low for edge in (at, at + 16)]
        accessor.store_chunk(case.voxels[0][box].tobytes("F"), "s0", tuple(bounds))
    accessor.close()
    accessor.shard_dict.clear()
    bench.is_lost(root, case)
    found = bench.finds_damage(root)
    return found, bench.repairs(root, case)


@loss("files with .gz behind their names, and chunks that are not stored (cloud-volume, TensorStore)")
def invisible(bench: Bench) -> Told:
    case = bench.case([50, 40, 30], [16] * 3, None)
    root = bench.folder / "volume"
    place(root, case)
    volume = cloud(root)
    volume[volume.bounds] = case.voxels[0]
    bench.is_lost(root, case)
    bench.reads(root, case, "with .gz files", bench.cloud)
    sparse = bench.case([50, 40, 30], [16] * 3, ONE_SHARD)
    sparse.voxels[0][:20] = 0
    ours = bench.write_ours(sparse, "ours", store_empty=True)
    got = bench.cloud.read(ours, sparse, 0, fill_missing=False)
    if same(sparse.voxels[0], got):
        raise Failed("cloud-volume reads otherwise")
    return bench.finds_something(root), "shardine reads .gz, and stores zeros if asked"


def run(name: str, program: Path, scratch: Path) -> tuple[Told | None, str | None]:
    folder = scratch / f"loss-{list(LOSSES).index(name)}"
    try:
        return LOSSES[name](Bench(program, folder)), None
    except (Failed, PeerError, Broken) as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001
        return None, f"{type(error).__name__}: {str(error)[:600]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--only", help="run the losses whose names hold this")
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="losses-"))
    names = [name for name in LOSSES if arguments.only is None or arguments.only in name]
    started, failed = time.monotonic(), 0
    for name in names:
        told, problem = run(name, arguments.shardine, scratch)
        if told is None:
            failed += 1
            print(f"FAILED {name}\n    {problem}", flush=True)
        else:
            print(f"ok     {name}\n    verify: {told[0]}\n    {told[1]}", flush=True)
    seconds = time.monotonic() - started
    print(f"{len(names) - failed} passed, {failed} failed in {seconds:.0f} s")
    if failed:
        print(f"the files are in {scratch}")
        return 1
    shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
