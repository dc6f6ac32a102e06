"""What can go wrong with stored arrays, one thing at a time, and what must be said about it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numcodecs import zstd

from .surgery import MISSING, Shard

SHAPE = (21, 27)
OUTER = (16, 16)
CHUNK = (4, 4)
CHUNK_BYTES = 4 * 4 * 2


@dataclass(frozen=True)
class Layout:
    """How the arrays are stored that damage is done to."""

    name: str
    codecs: tuple[str, ...] = ()
    """After `bytes`, of each chunk."""
    index: str | None = "end"
    """Where the index of a shard is; None for an array that is not sharded."""
    nested: bool = False
    """Whether shards hold inner shards of 8 x 8."""
    part: bool = False
    """Whether only a part of the array is written, so that chunks and shards are missing."""

    def metadata(self) -> dict[str, Any]:
        codecs = [_bytes(), *map(_codec, self.codecs)]
        if self.index:
            codecs = [_sharding(CHUNK, codecs, self.index)]
        if self.nested:
            codecs = [_sharding((8, 8), codecs, self.index)]
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(SHAPE),
            "data_type": "uint16",
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": list(OUTER if self.index else CHUNK)},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": codecs,
            "attributes": {},
        }

    def shard(self, root: Path, key: str = "c/0/0") -> Shard:
        cells = (2, 2) if self.nested else (4, 4)
        return Shard(root / key, cells, self.index == "start")

    @property
    def sharded(self) -> bool:
        return self.index is not None

    @property
    def plain(self) -> bool:
        """Whether every chunk has the same size."""
        return not set(self.codecs) & {"zstd", "gzip"}


def _bytes() -> dict[str, Any]:
    return {"name": "bytes", "configuration": {"endian": "little"}}


def _codec(name: str) -> dict[str, Any]:
    options = {"zstd": {"level": 3, "checksum": False}, "gzip": {"level": 5}}
    return {"name": name, "configuration": options[name]} if name in options else {"name": name}


def _sharding(chunk: tuple[int, int], codecs: list[Any], index: str | None) -> dict[str, Any]:
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": list(chunk),
            "codecs": codecs,
            "index_codecs": [_bytes(), {"name": "crc32c"}],
            "index_location": index,
        },
    }


LAYOUTS = (
    Layout("plain, end"),
    Layout("plain, start", index="start"),
    Layout("zstd, end", ("zstd",)),
    Layout("gzip, start", ("gzip",), "start"),
    Layout("crc32c, end", ("crc32c",)),
    Layout("zstd crc32c, start", ("zstd", "crc32c"), "start"),
    Layout("zstd, nested, end", ("zstd",), nested=True),
    Layout("plain, nested, start", (), "start", nested=True),
    Layout("zstd, end, part", ("zstd",), part=True),
    Layout("plain, start, part", (), "start", part=True),
    Layout("zstd, no shards", ("zstd",), None),
    Layout("plain, no shards", (), None),
    Layout("crc32c, no shards, part", ("crc32c",), None, part=True),
)


@dataclass(frozen=True)
class Expected:
    """A finding that must be there. Places that are None may be anything; `absent` must be null."""

    kind: str
    object: str
    shard: list[int] | None = None
    chunk: list[int] | str | None = None
    range: list[int] | None = None


Plant = Callable[[Layout, Path], Expected]


@dataclass(frozen=True)
class Damage:
    name: str
    plant: Plant
    fits: Callable[[Layout], bool]
    decode: bool = False
    """Whether it can be found by decoding only."""
    notice: bool = False


def _flat(layout: Layout) -> bool:
    return layout.sharded and not layout.nested


def _flip_index(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    shard.flip(shard.index_start + 21)
    shard.save()
    bytes_ = [shard.index_start, shard.index_start + shard.index_len]
    return Expected("index", "c/0/0", [0, 0], "absent", bytes_)


def _flip_checksum(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    shard.flip(shard.index_start + shard.index_len - 1)
    shard.save()
    return Expected("index", "c/0/0", [0, 0], "absent")


def _cut_tail(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    last = max(shard.entries(), key=lambda e: e[0] if e[0] != MISSING else -1)
    cell = divmod(shard.entries().index(last), 4)
    shard.data = shard.data[:-3]
    shard.save()
    if layout.index == "end":
        return Expected("index", "c/0/0", [0, 0], "absent")
    return Expected("entry-out-of-bounds", "c/0/0", [0, 0], list(cell), [last[0], sum(last)])


def _cut_to_stump(layout: Layout, root: Path) -> Expected:
    path = root / "c/0/0"
    path.write_bytes(path.read_bytes()[:11])
    if layout.sharded:
        return Expected("truncated", "c/0/0", [0, 0], "absent", [0, 11])
    return Expected("chunk-size", "c/0/0", None, [0, 0], [0, 11])


def _empty(layout: Layout, root: Path) -> Expected:
    (root / "c/0/0").write_bytes(b"")
    if layout.sharded:
        return Expected("empty-object", "c/0/0", [0, 0], "absent")
    return Expected("empty-object", "c/0/0", None, [0, 0])


def _entry(kind: str, change: Callable[[Shard], tuple[int, int]]) -> Plant:
    """Changes the entry of chunk 1,2 of the first shard."""

    def plant(layout: Layout, root: Path) -> Expected:
        shard = layout.shard(root)
        offset, length = change(shard)
        shard.set_entry((1, 2), offset, length)
        shard.save()
        end = min(offset + length, MISSING)
        return Expected(kind, "c/0/0", [0, 0], [1, 2], [offset, end])

    return plant


def _length(shard: Shard) -> int:
    return shard.entry((1, 2))[1]


def _into_index(shard: Shard) -> tuple[int, int]:
    return shard.index_start + 16, _length(shard)


def _onto_neighbour(shard: Shard) -> tuple[int, int]:
    """As long as it was, from the middle of the chunk that lies first."""
    first = min(entry for entry in shard.entries() if entry[0] != MISSING)
    if shard.entry((1, 2)) == first:
        raise AssertionError("the chunk to be moved must not be the first")
    return first[0] + first[1] // 2, _length(shard)


def _overlap(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    offset, length = _onto_neighbour(shard)
    shard.set_entry((1, 2), offset, length)
    shard.save()
    return Expected("overlap", "c/0/0", [0, 0], [1, 2], [offset, offset + length])


def _shared(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    shard.set_entry((1, 2), *shard.entry((0, 1)))
    shard.save()
    return Expected("shared-bytes", "c/0/0", [0, 0], [1, 2], [*_span(shard.entry((0, 1)))])


def _span(entry: tuple[int, int]) -> tuple[int, int]:
    return entry[0], entry[0] + entry[1]


def _flip_chunk(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    start, end = _span(shard.entry((1, 1)))
    shard.flip(start + 5 if "crc32c" in layout.codecs else start)
    shard.save()
    return Expected("chunk", "c/0/0", [0, 0], [1, 1], [start, end])


def _flip_object(layout: Layout, root: Path) -> Expected:
    path = root / "c/1/2"
    data = bytearray(path.read_bytes())
    data[0] ^= 0x10
    path.write_bytes(data)
    return Expected("chunk", "c/1/2", None, [1, 2], [0, len(data)])


def _short_chunk(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    offset, length = shard.entry((2, 3))
    shard.set_entry((2, 3), offset, length - 2)
    shard.save()
    return Expected("chunk-size", "c/0/0", [0, 0], [2, 3], [offset, offset + length - 2])


def _other_size(layout: Layout, root: Path) -> Expected:
    """A sound chunk of half as many elements."""
    shard = layout.shard(root)
    half = bytes(range(CHUNK_BYTES // 2))
    chunk = zstd.compress(half, 3) if "zstd" in layout.codecs else gzip.compress(half)
    shard.replace_chunk((3, 0), chunk)
    shard.save()
    return Expected("chunk", "c/0/0", [0, 0], [3, 0])


def _inner_index(layout: Layout, root: Path) -> Expected:
    """The index of the inner shard at 1,0."""
    shard = layout.shard(root)
    start, end = _span(shard.entry((1, 0)))
    shard.flip(start + 3 if layout.index == "start" else end - 9)
    shard.save()
    return Expected("index", "c/0/0", [0, 0], "absent")


def _inner_entry(layout: Layout, root: Path) -> Expected:
    """The entry of chunk 3,0 of the array: of chunk 1,0 of the inner shard at 1,0."""
    shard = layout.shard(root)
    start, end = _span(shard.entry((1, 0)))
    copy = root / "inner"
    copy.write_bytes(shard.data[start:end])
    inner = Shard(copy, (2, 2), layout.index == "start")
    inner.set_entry((1, 0), end - start - 1, 9)
    shard.data[start:end] = inner.data
    shard.save()
    copy.unlink()
    return Expected("entry-out-of-bounds", "c/0/0", [0, 0], [3, 0], [end - 1, end + 8])


def _not_json(layout: Layout, root: Path) -> Expected:
    path = root / "zarr.json"
    path.write_text(path.read_text()[:-20])
    return Expected("metadata", "zarr.json", chunk="absent")


def _illegal(layout: Layout, root: Path) -> Expected:
    path = root / "zarr.json"
    document = json.loads(path.read_text())
    document["fill_value"] = "none"
    path.write_text(json.dumps(document))
    return Expected("metadata", "zarr.json", chunk="absent")


def _foreign(layout: Layout, root: Path) -> Expected:
    """The shard of an array that has four times as many chunks in each."""
    sealed = Shard(root / "c/0/0", (8, 8), layout.index == "start")
    sealed.data = bytearray(b"\1" * 7 + bytes([255]) * (64 * 16) + b"\2" * 4)
    sealed.seal()
    sealed.save()
    return Expected("index", "c/0/0", [0, 0], "absent")


def _foreign_chunk(layout: Layout, root: Path) -> Expected:
    (root / "c/2/1").write_bytes(bytes(CHUNK_BYTES + 8))
    return Expected("chunk-size", "c/2/1", None, [2, 1], [0, CHUNK_BYTES + 8])


def _folder(layout: Layout, root: Path) -> Expected:
    (root / "c/0/0").unlink()
    (root / "c/0/0").mkdir()
    return Expected("blocked-key", "c/0/0")


def _file_for_folder(layout: Layout, root: Path) -> Expected:
    shutil.rmtree(root / "c/0")
    (root / "c/0").write_bytes(b"x")
    return Expected("blocked-key", "c/0")


def _file(kind: str, name: str) -> Plant:
    def plant(layout: Layout, root: Path) -> Expected:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"left here")
        return Expected(kind, name, chunk="absent")

    return plant


def _shrink(layout: Layout, root: Path) -> Expected:
    _reshape(root, [21, 10])
    return Expected("entry-outside-array", "c/0/0", [0, 0], [0, 3])


def _shrink_objects(layout: Layout, root: Path) -> Expected:
    _reshape(root, [16, 27] if layout.sharded else [4, 27])
    if layout.sharded:
        return Expected("object-outside-array", "c/1/0", [1, 0])
    return Expected("object-outside-array", "c/1/0", None, [1, 0])


def _reshape(root: Path, shape: list[int]) -> None:
    path = root / "zarr.json"
    document = json.loads(path.read_text())
    document["shape"] = shape
    path.write_text(json.dumps(document))


def _gap(layout: Layout, root: Path) -> Expected:
    shard = layout.shard(root)
    offset, length = shard.entry((0, 1))
    chunk = bytes(shard.data[offset : offset + length])
    shard.replace_chunk((0, 1), chunk)
    shard.save()
    return Expected("gap", "c/0/0", [0, 0], "absent")


def _lost_journal(layout: Layout, root: Path) -> Expected:
    """A change in place that was interrupted: no index, but a journal that has it."""
    shard = layout.shard(root)
    shard.flip(shard.index_start)
    shard.save()
    (root / "c/0/.shardine-0.journal").write_bytes(b"journal")
    return Expected("leftover-journal", "c/0/.shardine-0.journal")


DAMAGES = (
    Damage("a byte of the index flipped", _flip_index, lambda v: v.sharded),
    Damage("the checksum of the index flipped", _flip_checksum, lambda v: v.sharded),
    Damage("the last bytes cut off", _cut_tail, _flat),
    Damage("cut to a stump", _cut_to_stump, lambda v: v.sharded or v.plain),
    Damage("an empty file", _empty, lambda _: True),
    Damage(
        "an entry past the end",
        _entry("entry-out-of-bounds", lambda s: (len(s.data) - 2, _length(s))),
        _flat,
    ),
    Damage(
        "an entry past 2^64",
        _entry("entry-out-of-bounds", lambda _: (2**64 - 9, 100)),
        _flat,
    ),
    Damage(
        "an entry without a length",
        _entry("half-empty-entry", lambda s: (s.entry((1, 2))[0], MISSING)),
        _flat,
    ),
    Damage(
        "an entry without an offset",
        _entry("half-empty-entry", lambda s: (MISSING, _length(s))),
        _flat,
    ),
    Damage("entries that overlap", _overlap, _flat),
    Damage("an entry into the index", _entry("entry-in-index", _into_index), _flat),
    Damage(
        "an entry of no bytes",
        _entry("zero-length-entry", lambda s: (s.entry((1, 2))[0], 0)),
        _flat,
    ),
    Damage("a chunk of the wrong size", _short_chunk, lambda v: _flat(v) and v.plain),
    Damage(
        "a bit of a chunk under a checksum",
        _flip_chunk,
        lambda v: _flat(v) and "crc32c" in v.codecs,
        decode=True,
    ),
    Damage(
        "a compressed frame",
        _flip_chunk,
        lambda v: _flat(v) and not v.plain and "crc32c" not in v.codecs,
        decode=True,
    ),
    Damage(
        "an object that is a chunk",
        _flip_object,
        lambda v: not v.sharded and bool(v.codecs),
        decode=True,
    ),
    Damage(
        "a chunk of fewer elements",
        _other_size,
        lambda v: _flat(v) and not v.plain and "crc32c" not in v.codecs,
        decode=True,
    ),
    Damage("the index of an inner shard", _inner_index, lambda v: v.nested),
    Damage("an entry of an inner shard", _inner_entry, lambda v: v.nested),
    Damage("metadata that is no JSON", _not_json, lambda _: True),
    Damage("metadata that is not legal", _illegal, lambda _: True),
    Damage("the shard of another array", _foreign, lambda v: v.sharded),
    Damage("the chunk of another array", _foreign_chunk, lambda v: not v.sharded and v.plain),
    Damage("a folder for an object", _folder, lambda _: True),
    Damage("a file for a folder", _file_for_folder, lambda _: True),
    Damage("a stray file", _file("stray-object", "c/notes.txt"), lambda _: True, notice=True),
    Damage("a file without a cell", _file("stray-object", "c/0/0x1"), lambda _: True, notice=True),
    Damage(
        "a temporary file",
        _file("leftover-temporary", "c/0/.shardine-1-1-1.tmp"),
        lambda _: True,
        notice=True,
    ),
    Damage(
        "a journal set aside",
        _file("set-aside", "c/0/.shardine-0.1.aside"),
        lambda _: True,
        notice=True,
    ),
    Damage("an interrupted change", _lost_journal, lambda v: v.sharded, notice=True),
    Damage("entries outside the array", _shrink, _flat, notice=True),
    Damage("objects outside the array", _shrink_objects, lambda v: not v.part, notice=True),
    Damage("entries of the same bytes", _shared, _flat, notice=True),
    Damage("a gap", _gap, _flat, notice=True),
)
