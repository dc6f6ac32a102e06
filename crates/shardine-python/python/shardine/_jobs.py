"""Jobs: operations over whole data sets, with the names and options of the command line.

Each returns a report whose attributes are what the command line prints with `--json`. Ctrl-C stops
a job between two of its steps: the data is valid then, and the same call resumes it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from . import _shardine
from ._progress import Bar, Progress
from ._reports import (
    CompactReport,
    CompareReport,
    ConsolidateReport,
    ConvertReport,
    CopyReport,
    MigrateReport,
    PlanReport,
    PyramidReport,
    Record,
    RepackReport,
    RepairReport,
    VerifyReport,
)

__all__ = [
    "compact",
    "compare",
    "consolidate",
    "convert",
    "copy",
    "migrate",
    "plan",
    "pyramid",
    "repair",
    "reshard",
    "shard",
    "unshard",
    "verify",
]

#: A path or URL.
Url = str | os.PathLike[str]
#: A number of bytes, or text such as `64MiB`.
Size = int | str
#: One number for all axes, or one for each.
Lengths = int | Sequence[int]
StoreOptions = Mapping[str, Any]
Part = str | tuple[int, int]
Method = Literal["mean", "mode", "median", "stride", "max", "min"]

_Report = TypeVar("_Report", bound=Record)


def _run(
    name: str, report: type[_Report], options: dict[str, Any], progress: Progress = False
) -> _Report:
    for place in ("url", "output", "source", "target", "set_aside", "a", "b", "spool"):
        if options.get(place) is not None:
            options[place] = os.fspath(options[place])
    for stored in ("store_options", "source_options", "target_options"):
        if options.get(stored) is not None:
            options[stored] = dict(options[stored])
    with Bar(progress, name) as callback:
        done = _shardine.run_job(name, options, callback)
    for copy_ in done.pop("stale_copies", ()):
        warnings.warn(
            f"the consolidated metadata of {copy_['at']} could not be updated: {copy_['reason']}; "
            "when that is fixed, call shardine.consolidate",
            stacklevel=3,
        )
    return report(done)


def verify(
    url: Url,
    *,
    decode: bool = False,
    metadata_only: bool = False,
    level: int | None = None,
    part: Part | None = None,
    max_findings: int = 10_000,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> VerifyReport:
    """Checks an array, a group, a volume or a store of geometry for damage, and changes nothing.

    Looks at every document and every index; with `decode` also reads and decodes every chunk. With
    `metadata_only` it looks at documents alone.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(4, 4), shard=(8, 8))
    >>> report = shardine.verify(folder / "a.zarr", decode=True)
    >>> report.ok, report.summary.chunks_decoded
    (True, 4)
    >>> [finding.message for finding in report.findings if finding.severity == "damage"]
    []
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("verify", VerifyReport, options, progress)


def repair(
    url: Url,
    *,
    dry_run: bool = False,
    decode: bool = False,
    set_aside: Url | None = None,
    accept_loss: bool = False,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> RepairReport:
    """Repairs an array, group or volume as far as possible.

    Damaged bytes are moved to `set_aside` (by default beside the data set) and never deleted; their
    chunks read as the fill value from then on. What is lost is recorded, and `verify` reports it
    until it is written again, or accepted with `accept_loss`.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(4, 4), shard=(8, 8))
    >>> shardine.repair(folder / "a.zarr", dry_run=True).summary.mended
    0
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("repair", RepairReport, options, progress)


def compact(
    url: Url,
    *,
    dry_run: bool = False,
    min_gap: float | str | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> CompactReport:
    """Removes the gaps from shards, which updates in place leave behind.

    Shards with a smaller share of gaps than `min_gap` (`0.1` or `"10%"`) are left alone. Chunks are
    moved without decoding, and each shard is replaced in one step.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(4, 4), shard=(8, 8))
    >>> shardine.compact(folder / "a.zarr").summary.compacted
    0
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("compact", CompactReport, options, progress)


def shard(
    url: Url,
    *,
    output: Url | None = None,
    chunks_per_shard: Lengths | Literal["none"] | None = None,
    shard: Sequence[int] | Literal["none"] | None = None,
    target_size: Size | None = None,
    index: Literal["start", "end"] | None = None,
    order: Literal["morton", "c", "arrival"] | None = None,
    chunk: Sequence[int] | None = None,
    codec: str | Sequence[str] | None = None,
    codecs: Sequence[Mapping[str, Any]] | str | None = None,
    level: int | None = None,
    objects: bool = False,
    sharding: Mapping[str, Any] | str | None = None,
    preshift_bits: int | None = None,
    minishard_bits: int | None = None,
    shard_bits: int | None = None,
    hash: str | None = None,
    data_encoding: Literal["raw", "gzip"] | None = None,
    minishard_index_encoding: Literal["raw", "gzip"] | None = None,
    overwrite: bool = False,
    restart: bool = False,
    exclusive: bool = False,
    wait: float | None = None,
    part: Part | None = None,
    take_over: bool = False,
    dry_run: bool = False,
    verify: Literal["none", "content", "elements"] | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> RepackReport:
    """Packs the chunks of an array, group or volume into shards, in place or to `output`.

    Encoded chunks are moved unchanged, unless `chunk` or `codec` is given. Without a packing,
    shards are near 64 MiB. In place, the new array is built beside the old one, checked, and
    exchanged with it in one step.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(2, 2), shard="none")
    >>> report = shardine.shard(folder / "a.zarr", chunks_per_shard=2)
    >>> report.arrays[0].shard, report.arrays[0].chunks_moved
    ([4, 4], 16)
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("shard", RepackReport, options, progress)


def unshard(
    url: Url,
    *,
    output: Url | None = None,
    level: int | None = None,
    objects: bool = False,
    overwrite: bool = False,
    restart: bool = False,
    exclusive: bool = False,
    wait: float | None = None,
    part: Part | None = None,
    take_over: bool = False,
    dry_run: bool = False,
    verify: Literal["none", "content", "elements"] | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> RepackReport:
    """Stores each chunk of an array, group or volume as its own object.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(4, 4), shard=(8, 8))
    >>> shardine.unshard(folder / "a.zarr").arrays[0].objects_written
    4
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("unshard", RepackReport, options, progress)


def reshard(
    url: Url,
    *,
    output: Url | None = None,
    chunks_per_shard: Lengths | Literal["none"] | None = None,
    shard: Sequence[int] | Literal["none"] | None = None,
    target_size: Size | None = None,
    index: Literal["start", "end"] | None = None,
    order: Literal["morton", "c", "arrival"] | None = None,
    chunk: Sequence[int] | None = None,
    codec: str | Sequence[str] | None = None,
    codecs: Sequence[Mapping[str, Any]] | str | None = None,
    level: int | None = None,
    objects: bool = False,
    sharding: Mapping[str, Any] | str | None = None,
    preshift_bits: int | None = None,
    minishard_bits: int | None = None,
    shard_bits: int | None = None,
    hash: str | None = None,
    data_encoding: Literal["raw", "gzip"] | None = None,
    minishard_index_encoding: Literal["raw", "gzip"] | None = None,
    overwrite: bool = False,
    restart: bool = False,
    exclusive: bool = False,
    wait: float | None = None,
    part: Part | None = None,
    take_over: bool = False,
    dry_run: bool = False,
    verify: Literal["none", "content", "elements"] | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> RepackReport:
    """Repacks the chunks of an array, group or volume into other shards, in place or to `output`.

    `chunks_per_shard`, `shard` (in elements) and `target_size` say how; `"none"` unshards. What is
    packed as requested already is left alone.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(2, 2), shard=(4, 4))
    >>> shardine.reshard(folder / "a.zarr", chunks_per_shard=(4, 2)).arrays[0].shard
    [8, 4]
    >>> shardine.reshard(folder / "a.zarr", chunks_per_shard=(4, 2)).arrays[0].outcome
    'unchanged'
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("reshard", RepackReport, options, progress)


def convert(
    source: Url,
    target: Url,
    *,
    to: Literal["zarr3", "zarr2", "ome-zarr", "precomputed"] = "zarr3",
    chunk: Sequence[int] | None = None,
    shard: Sequence[int] | Literal["none"] | None = None,
    chunks_per_shard: Lengths | Literal["none"] | None = None,
    target_size: Size | None = None,
    codec: str | Sequence[str] | None = None,
    codecs: Sequence[Mapping[str, Any]] | str | None = None,
    index: Literal["start", "end"] | None = None,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    cast: bool = False,
    dims: Sequence[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    separator: Literal["/", "."] | None = None,
    ome_version: str | None = None,
    axes: str | Sequence[str] | None = None,
    scale: Sequence[float] | None = None,
    unit: str | None = None,
    name: str | None = None,
    levels: int | Literal["auto"] | None = None,
    factors: Sequence[int] | Literal["auto"] | None = None,
    method: Method | None = None,
    keep_codecs: bool = False,
    encoding: str | None = None,
    resolution: Sequence[float] | None = None,
    voxel_offset: Sequence[int] | None = None,
    type: Literal["image", "segmentation"] | None = None,
    sharding: Mapping[str, Any] | str | None = None,
    data_encoding: Literal["raw", "gzip"] | None = None,
    store_empty: bool = False,
    overwrite: bool = False,
    restart: bool = False,
    part: Part | None = None,
    take_over: bool = False,
    dry_run: bool = False,
    verify: Literal["none", "content", "elements"] | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> ConvertReport:
    """Converts a data set to another format or packing, or to or from a file of elements.

    Encoded chunks are moved unchanged where both sides mean the same. `.npy` files, and raw bytes
    in `.raw` and `.bin` with `shape` and `dtype`, become arrays, and arrays become files, by the
    ending of the name.

    >>> np.save(folder / "a.npy", np.arange(64, dtype="uint8").reshape(8, 8))
    >>> _ = shardine.convert(
    ...     folder / "a.npy", folder / "a.zarr", chunk=(4, 4), shard=(8, 8), codec="zstd:5"
    ... )
    >>> report = shardine.convert(
    ...     folder / "a.zarr", folder / "image.zarr", to="ome-zarr", axes="yx", scale=[2, 2]
    ... )
    >>> report.ome_version, report.levels[0].chunks_moved
    ('0.5', 4)
    >>> _ = shardine.convert(folder / "image.zarr", folder / "b.npy")
    >>> bool((np.load(folder / "a.npy") == np.load(folder / "b.npy")).all())
    True
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("convert", ConvertReport, options, progress)


def copy(
    source: Url,
    target: Url,
    *,
    overwrite: bool = False,
    verify: Literal["none", "size", "content"] = "size",
    requests: int = 32,
    part: Part | None = None,
    take_over: bool = False,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> CopyReport:
    """Copies a data set to another place, byte for byte, metadata last.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(4, 4), shard=(8, 8))
    >>> shardine.copy(folder / "a.zarr", folder / "b.zarr", verify="content").objects_copied
    2
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("copy", CopyReport, options, progress)


def migrate(
    url: Url,
    *,
    dry_run: bool = False,
    ome_version: str | None = None,
    keep_v2: bool = False,
    remove_v2: bool = False,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    progress: Progress = None,
) -> MigrateReport:
    """Gives a hierarchy the metadata of Zarr v3, and of OME-Zarr 0.5 or 0.6. Chunks stay in place.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(4, 4))
    >>> _ = shardine.convert(folder / "a.zarr", folder / "old.zarr", to="zarr2")
    >>> shardine.migrate(folder / "old.zarr", remove_v2=True).summary.arrays
    1
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("migrate", MigrateReport, options, progress)


def pyramid(
    url: Url,
    *,
    levels: int | Literal["auto"] | None = None,
    factors: Sequence[int] | Literal["auto"] | None = None,
    method: Method | None = None,
    update: bool = False,
    region: str | None = None,
    output: Url | None = None,
    chunk: Sequence[int] | None = None,
    shard: Sequence[int] | Literal["none"] | None = None,
    chunks_per_shard: Lengths | Literal["none"] | None = None,
    target_size: Size | None = None,
    codec: str | Sequence[str] | None = None,
    codecs: Sequence[Mapping[str, Any]] | str | None = None,
    index: Literal["start", "end"] | None = None,
    ome_version: str | None = None,
    axes: str | Sequence[str] | None = None,
    scale: Sequence[float] | None = None,
    unit: str | None = None,
    name: str | None = None,
    coarsen: float | Sequence[float] | None = None,
    sparsity: float | Sequence[float] | None = None,
    chunk_scale: Lengths | None = None,
    seed: int | None = None,
    spool: Url | None = None,
    overwrite: bool = False,
    restart: bool = False,
    part: Part | None = None,
    take_over: bool = False,
    task_size: Size | None = None,
    dry_run: bool = False,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> PyramidReport:
    """Makes the lower levels of an image in one pass, or the coarser levels of a vector store.

    `url` is an OME-Zarr image, or with `output` any array. With `update` it renews levels where the
    one before has changed.

    >>> np.save(folder / "a.npy", np.arange(4096, dtype="float32").reshape(64, 64))
    >>> _ = shardine.convert(
    ...     folder / "a.npy", folder / "image.zarr", to="ome-zarr", axes="yx", chunk=(16, 16)
    ... )
    >>> report = shardine.pyramid(folder / "image.zarr", levels=3, method="mean")
    >>> [level.shape for level in report.levels]
    [[32, 32], [16, 16]]
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("pyramid", PyramidReport, options, progress)


def plan(
    url: Url | None = None,
    *,
    level: int | None = None,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    to: Literal["zarr3", "precomputed"] = "zarr3",
    chunk: Sequence[int] | None = None,
    ratio: float | None = None,
    purpose: Literal["serve", "update", "write", "archive"] | None = None,
    remote: bool = False,
    writers: int = 1,
    target_size: Size | None = None,
    screen: tuple[int, int] | None = None,
    view: int | None = None,
    threads: int | None = None,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    zarr_format: int | None = None,
) -> PlanReport:
    """Recommends chunks and shards for a data set, or for a new array of a shape and type.

    Changes nothing. Of a data set it reads metadata and some indexes, but no chunks.

    >>> advice = shardine.plan(shape=(2048, 4096, 4096), dtype="uint16", ratio=2.0, remote=True)
    >>> advice.arrays[0].chunk_shape, advice.arrays[0].shard_shape
    ([64, 64, 64], [256, 512, 512])
    >>> advice.arrays[0].shard_choice.rule
    'target-size'
    """
    options = dict(locals())
    return _run("plan", PlanReport, options)


def compare(
    a: Url,
    b: Url,
    *,
    level: int | None = None,
    data_only: bool = False,
    bytes: bool = False,
    max_differences: int = 10_000,
    threads: int | None = None,
    memory: Size | None = None,
    store_options: StoreOptions | None = None,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    anonymous: bool = False,
    zarr_format: int | None = None,
    progress: Progress = None,
) -> CompareReport:
    """Compares two data sets of any formats, or `.npy` files, element by element.

    How they are stored is no difference, unless `bytes` asks for the stored objects.

    >>> np.save(folder / "a.npy", np.arange(64).reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "a.zarr", chunk=(4, 4), shard=(8, 8))
    >>> shardine.compare(folder / "a.zarr", folder / "a.npy").equal
    True
    """
    options = {key: value for key, value in locals().items() if key != "progress"}
    return _run("compare", CompareReport, options, progress)


def consolidate(
    url: Url,
    *,
    remove: bool = False,
    store_options: StoreOptions | None = None,
    anonymous: bool = False,
    single_writer: bool = False,
) -> ConsolidateReport:
    """Copies the metadata below a group into it, so that readers find it with one request.

    >>> np.save(folder / "a.npy", np.arange(64, dtype="uint8").reshape(8, 8))
    >>> _ = shardine.convert(folder / "a.npy", folder / "image.zarr", to="ome-zarr", axes="yx")
    >>> shardine.consolidate(folder / "image.zarr").nodes
    1
    """
    return _run("consolidate", ConsolidateReport, dict(locals()))
