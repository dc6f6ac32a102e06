"""The bytes of Zarr Vectors, taken apart by the letter of the format and without its library."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterator
from math import factorial
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs
import numpy as np

Cell = tuple[int, ...]
EMPTY = 2**64 - 1


class Broken(AssertionError):
    """Bytes that are not what the format says."""


def document(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "zarr.json").read_bytes())


def inner_codecs(metadata: dict[str, Any]) -> tuple[list[dict[str, Any]], list[int] | None]:
    """The codecs of one cell, and the shape of a shard if there are shards."""
    codecs = metadata["codecs"]
    if codecs[0]["name"] != "sharding_indexed":
        return codecs, None
    shard = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return codecs[0]["configuration"]["codecs"], shard


def _decode(data: bytes, codecs: list[dict[str, Any]]) -> bytes:
    for codec in reversed(codecs):
        match codec["name"]:
            case "zstd":
                data = numcodecs.Zstd().decode(data)
            case "blosc":
                data = numcodecs.Blosc().decode(data)
            case "gzip":
                data = numcodecs.GZip().decode(data)
            case "crc32c":
                if google_crc32c.value(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
                    raise Broken("a checksum of a cell does not fit")
                data = data[:-4]
            case "vlen-bytes":
                count, length = struct.unpack_from("<II", data)
                if count != 1 or len(data) != 8 + length:
                    raise Broken(f"a cell of {count} items and {len(data)} bytes")
                data = data[8:]
            case other:
                raise Broken(f"no codec {other} is expected here")
    return bytes(data)


def _shard(
    data: bytes, shape: list[int], location: str, checked: bool
) -> Iterator[tuple[Cell, bytes]]:
    entries = int(np.prod(shape))
    length = 16 * entries + (4 if checked else 0)
    index = data[-length:] if location == "end" else data[:length]
    if checked and google_crc32c.value(index[:-4]) != struct.unpack("<I", index[-4:])[0]:
        raise Broken("the checksum of an index does not fit")
    for number, place in enumerate(itertools.product(*map(range, shape))):
        offset, size = struct.unpack_from("<QQ", index, 16 * number)
        if (offset, size) != (EMPTY, EMPTY):
            yield place, data[offset : offset + size]


def cells(array: Path) -> dict[Cell, bytes]:
    """What is stored, by absolute chunk coordinates. Found by listing: `nonempty_chunks` is not asked."""
    metadata = document(array)
    codecs, shard = inner_codecs(metadata)
    origin = metadata["attributes"].get("chunk_grid_origin") or [0] * len(metadata["shape"])
    found = {}
    for path in sorted(array.glob("c/**/*")):
        if not path.is_file():
            continue
        at = [int(part) for part in path.relative_to(array / "c").parts]
        data = path.read_bytes()
        if shard is None:
            inside = [((0,) * len(at), data)]
        else:
            setting = metadata["codecs"][0]["configuration"]
            checked = setting["index_codecs"][-1]["name"] == "crc32c"
            inside = _shard(data, shard, setting.get("index_location", "end"), checked)
        for place, encoded in inside:
            sizes = shard or [1] * len(at)
            cell = tuple(a * s + p + o for a, s, p, o in zip(at, sizes, place, origin, strict=True))
            payload = _decode(encoded, codecs)
            if payload:
                found[cell] = payload
    return found


def fragments(blob: bytes) -> list[np.ndarray]:
    """A fragment index (ZVFG): the rows of each fragment."""
    magic, version, _flags, count, ranges = struct.unpack_from("<IHHII", blob)
    if (magic, version) != (0x5A564647, 1):
        raise Broken(f"a fragment index begins with {magic:#x}, version {version}")
    if count == 0:
        return []
    at = 16
    width = -(-count // 8)
    bits = np.unpackbits(np.frombuffer(blob, "u1", width, at), bitorder="little")[:count]
    at += -(-width // 8) * 8
    spans = np.frombuffer(blob, "<i8", 2 * ranges, at).reshape(-1, 2)
    at += 16 * ranges
    explicit = count - ranges
    offsets = np.frombuffer(blob, "<u4", explicit + 1, at)
    at += 4 * (explicit + 1)
    indices = np.frombuffer(blob, "<i8", int(offsets[-1]), at)
    if at + 8 * len(indices) != len(blob) or int(bits.sum()) != ranges:
        raise Broken("a fragment index has another length than its counts say")
    answer, of_ranges, of_lists = [], iter(spans), 0
    for bit in bits:
        if bit:
            start, length = next(of_ranges)
            answer.append(np.arange(start, start + length))
        else:
            answer.append(indices[offsets[of_lists] : offsets[of_lists + 1]])
            of_lists += 1
    return answer


def pack_fragments(spans: list[tuple[int, int]]) -> bytes:
    """A fragment index that has ranges only."""
    count = len(spans)
    if count == 0:
        return struct.pack("<IHHII", 0x5A564647, 1, 0, 0, 0)
    width = -(-count // 8)
    bits = np.packbits(np.ones(count, "u1"), bitorder="little").tobytes()
    body = bits + bytes(-(-width // 8) * 8 - width)
    body += np.asarray(spans, "<i8").tobytes() + struct.pack("<I", 0)
    return struct.pack("<IHHII", 0x5A564647, 1, 0, count, count) + body


def ragged(blob: bytes, columns: int) -> np.ndarray:
    """The rows of a ragged blob; how they are grouped does not matter."""
    (count,) = struct.unpack_from("<q", blob)
    data = np.frombuffer(blob, "<i8", -1, 8 + 8 * count)
    if count < 0 or data.size % columns:
        raise Broken(f"a ragged blob of {data.size} numbers has no rows of {columns}")
    return data.reshape(-1, columns)


def permutation(code: int, width: int) -> list[int]:
    """The permutation of a Lehmer code."""
    left, answer = list(range(width)), []
    for place in range(width):
        digit, code = divmod(code, factorial(width - 1 - place))
        answer.append(left.pop(digit))
    return answer


def manifest(row: bytes, axes: int) -> list[tuple[Cell, int]]:
    """The fragments of one object, in order."""
    (blocks,) = struct.unpack_from("<I", row)
    at, answer = 4, []
    for _ in range(blocks):
        cell = struct.unpack_from(f"<{axes}q", row, at)
        at += 8 * axes
        mode = row[at]
        at += 1
        if mode == 0:
            numbers = struct.unpack_from("<q", row, at)
            at += 8
        elif mode == 1:
            start, count = struct.unpack_from("<qq", row, at)
            numbers = range(start, start + count)
            at += 16
        else:
            (count,) = struct.unpack_from("<I", row, at)
            numbers = struct.unpack_from(f"<{count}q", row, at + 4)
            at += 4 + 8 * count
        answer += [(cell, number) for number in numbers]
    if at != len(row):
        raise Broken(f"a manifest of {len(row)} bytes ends after {at}")
    return answer


def offsets_of(segment: str) -> list[Cell]:
    """The offsets of the endpoints after the first, of the name of an array of links."""
    if segment == "self":
        return []
    return [tuple(int(n) for n in part.split(".")) for part in segment.split("_")]


def key_of(cell: Cell) -> str:
    return ".".join(map(str, cell))
