"""The sharded container by the letter of its specification, for looking at shards that Shardine has written."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from .draw import Json

MASK = 2**64 - 1


class Broken(Exception):
    """A shard that is not what the specification says, or not what a writer should leave."""


def murmur(key: int) -> int:
    """The low 64 bits of MurmurHash3_x86_128 of eight bytes, little-endian, seed 0."""

    def turn(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    def mix(value: int) -> int:
        value ^= value >> 16
        value = value * 0x85EBCA6B & 0xFFFFFFFF
        value ^= value >> 13
        value = value * 0xC2B2AE35 & 0xFFFFFFFF
        return value ^ value >> 16

    c1, c2, c3 = 0x239B961B, 0xAB0E9789, 0x38B34AE5
    low, high = key & 0xFFFFFFFF, key >> 32
    h2 = turn(high * c2 & 0xFFFFFFFF, 16) * c3 & 0xFFFFFFFF
    h1 = turn(low * c1 & 0xFFFFFFFF, 15) * c2 & 0xFFFFFFFF
    h1, h2, h3, h4 = h1 ^ 8, h2 ^ 8, 8, 8
    h1 = (h1 + h2 + h3 + h4) & 0xFFFFFFFF
    h2, h3, h4 = ((h + h1) & 0xFFFFFFFF for h in (h2, h3, h4))
    h1, h2, h3, h4 = (mix(h) for h in (h1, h2, h3, h4))
    h1 = (h1 + h2 + h3 + h4) & 0xFFFFFFFF
    h2 = (h2 + h1) & 0xFFFFFFFF
    return h2 << 32 | h1


def home(sharding: Json, key: int) -> tuple[str, int]:
    """The name of the shard of a key, and its minishard."""
    shifted = key >> sharding["preshift_bits"]
    hashed = shifted if sharding["hash"] == "identity" else murmur(shifted)
    minishard = hashed & (1 << sharding["minishard_bits"]) - 1
    bits = sharding["shard_bits"]
    shard = hashed >> sharding["minishard_bits"] & (1 << bits) - 1
    return f"{shard:0{max(-(-bits // 4), 1)}x}.shard", minishard


def morton(cell: tuple[int, ...], grid: tuple[int, ...]) -> int:
    code = place = 0
    for bit in range(64):
        for at, cells in zip(cell, grid, strict=True):
            if 1 << bit < cells:
                code |= (at >> bit & 1) << place
                place += 1
    return code


def ungzip(raw: bytes) -> bytes:
    """One gzip member and nothing behind it, as a browser wants it."""
    stream = zlib.decompressobj(wbits=31)
    out = stream.decompress(raw) + stream.flush()
    if not stream.eof or stream.unused_data:
        raise Broken("not exactly one gzip member")
    return out


def _decoded(raw: bytes, encoding: str | None) -> bytes:
    return ungzip(raw) if encoding == "gzip" else raw


def read_shard(path: Path, sharding: Json) -> dict[int, bytes]:
    """Keys and values of a shard, each as it was before `data_encoding`. Whatever is odd is an error."""
    raw = path.read_bytes()
    base = 16 << sharding["minishard_bits"]
    if len(raw) < base:
        raise Broken(f"{path.name} has {len(raw)} bytes, its index alone {base}")
    values: dict[int, bytes] = {}
    taken = [(0, base)]
    for minishard, (start, end) in enumerate(np.frombuffer(raw[:base], "<u8").reshape(-1, 2).tolist()):
        if start == end:
            continue
        if not start < end <= len(raw) - base:
            raise Broken(f"{path.name}: minishard index {minishard} at {start}..{end} of {len(raw)}")
        taken.append((base + start, base + end))
        index = _decoded(raw[base + start : base + end], sharding.get("minishard_index_encoding"))
        if not index or len(index) % 24:
            raise Broken(f"{path.name}: minishard index {minishard} has {len(index)} bytes")
        keys, offsets, sizes = np.frombuffer(index, "<u8").reshape(3, -1).tolist()
        key, at = 0, base
        for number, (delta, offset, size) in enumerate(zip(keys, offsets, sizes, strict=True)):
            if number and not 0 < delta <= MASK - key:
                raise Broken(f"{path.name}: keys of minishard {minishard} do not ascend")
            key, at = key + delta, at + offset
            if at + size > len(raw):
                raise Broken(f"{path.name}: key {key} at {at}..{at + size} of {len(raw)}")
            if home(sharding, key) != (path.name, minishard):
                raise Broken(f"{path.name}: key {key} belongs to {home(sharding, key)}")
            taken.append((at, at + size))
            values[key] = _decoded(raw[at : at + size], sharding.get("data_encoding"))
            at += size
    if not values:
        raise Broken(f"{path.name} is there and holds nothing")
    taken.sort()
    if any(one[1] > other[0] for one, other in zip(taken, taken[1:], strict=False)):
        raise Broken(f"{path.name}: parts overlap")
    return values


def read_folder(folder: Path, sharding: Json) -> dict[int, bytes]:
    """All keys and values of a folder of shards; other files, hidden or not, are an error."""
    values: dict[int, bytes] = {}
    for path in sorted(folder.iterdir()) if folder.exists() else []:
        if path.name == "info":
            continue
        if path.suffix != ".shard":
            raise Broken(f"{path.name} lies among the shards")
        values |= read_shard(path, sharding)
    return values


def gzipped(value: bytes) -> bytes:
    return gzip.compress(value, mtime=0)
