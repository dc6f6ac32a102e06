"""Reads shards by the letter of the sharding specification, with no Zarr library in between."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import google_crc32c
import numpy as np

from .cases import Case

MISSING = 2**64 - 1


class LayoutError(Exception):
    """A shard that the specification does not allow, or that the writer had promised otherwise."""


def can_check(case: Case) -> bool:
    """Whether shards can be looked into: the bytes of a chunk are those of its shard."""
    return case.metadata["codecs"][-1]["name"] == "sharding_indexed"


def check_shards(root: Path, case: Case, in_c_order: bool) -> int:
    """Checks every shard of an array; returns how many there were.

    The index must have a valid checksum, its entries must lie inside the shard, must neither
    overlap each other nor the index, and must not be half missing. A shard without any chunk
    should not have been stored at all.
    """
    configuration = case.metadata["codecs"][-1]["configuration"]
    outer = tuple(case.metadata["chunk_grid"]["configuration"]["chunk_shape"])
    order = range(len(outer))
    for item in case.metadata["codecs"][:-1]:
        order = item["configuration"]["order"]
    cells = tuple(
        outer[axis] // size for axis, size in zip(order, configuration["chunk_shape"], strict=True)
    )
    shards = [path for path in sorted(root.rglob("*")) if _is_shard(path, root)]
    for path in shards:
        entries = _index(path.read_bytes(), cells, configuration, path.name)
        _check_entries(entries, path, configuration, cells)
        if in_c_order:
            stored = [offset for offset, _ in entries if offset != MISSING]
            if stored != sorted(stored):
                raise LayoutError(f"{path.name}: chunks are not in C order: {stored[:20]}")
    return len(shards)


def _is_shard(path: Path, root: Path) -> bool:
    """Objects of the grid: not metadata, and not what a writer keeps beside the shards."""
    parts = path.relative_to(root).as_posix().removeprefix("c").replace(".", "/").split("/")
    return path.is_file() and all(part.isdigit() or part == "" for part in parts)


def _index(
    data: bytes, cells: tuple[int, ...], configuration: dict[str, object], name: str
) -> list[tuple[int, int]]:
    codecs = configuration["index_codecs"]
    assert isinstance(codecs, list)
    plain = 16 * int(np.prod(cells, dtype=np.int64))
    size = plain + 4 * (len(codecs) - 1)
    if len(data) < size:
        raise LayoutError(f"{name}: {len(data)} bytes, but the index alone has {size}")
    at_start = configuration.get("index_location") == "start"
    block = data[:size] if at_start else data[-size:]
    if len(codecs) > 1:
        stored = int.from_bytes(block[plain:], "little")
        if stored != google_crc32c.value(block[:plain]):
            raise LayoutError(f"{name}: the checksum of the index is wrong")
    order = ">" if codecs[0]["configuration"]["endian"] == "big" else "<"
    numbers = np.frombuffer(block[:plain], dtype=f"{order}u8").reshape(-1, 2)
    return [(int(offset), int(length)) for offset, length in numbers]


def _check_entries(
    entries: list[tuple[int, int]],
    path: Path,
    configuration: dict[str, object],
    cells: tuple[int, ...],
) -> None:
    codecs = configuration["index_codecs"]
    assert isinstance(codecs, list)
    size = path.stat().st_size
    index_size = 16 * len(entries) + 4 * (len(codecs) - 1)
    at_start = configuration.get("index_location") == "start"
    first, last = (index_size, size) if at_start else (0, size - index_size)
    taken = []
    for cell, (offset, length) in zip(product(*map(range, cells)), entries, strict=True):
        if (offset, length) == (MISSING, MISSING):
            continue
        if offset < first or offset + length > last:
            raise LayoutError(
                f"{path.name}: chunk {cell} spans {offset}+{length} of {first}..{last}"
            )
        taken.append((offset, offset + length, cell))
    if not taken:
        raise LayoutError(f"{path.name}: a stored shard without any chunk")
    taken.sort()
    for (_, end, cell), (start, _, other) in zip(taken, taken[1:], strict=False):
        if start < end:
            raise LayoutError(f"{path.name}: chunks {cell} and {other} overlap")
