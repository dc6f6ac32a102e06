"""Changes stored shards byte by byte, by the letter of the sharding specification."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import numpy as np

MISSING = 2**64 - 1


@dataclass
class Shard:
    """A shard of `cells` chunks whose index is little-endian with a crc32c behind it."""

    path: Path
    cells: tuple[int, ...]
    at_start: bool

    def __post_init__(self) -> None:
        self.data = bytearray(self.path.read_bytes())

    @property
    def index_len(self) -> int:
        return 16 * int(np.prod(self.cells)) + 4

    @property
    def index_start(self) -> int:
        return 0 if self.at_start else len(self.data) - self.index_len

    def number(self, cell: tuple[int, ...]) -> int:
        return int(np.ravel_multi_index(cell, self.cells))

    def entries(self) -> list[tuple[int, int]]:
        start = self.index_start
        block = bytes(self.data[start : start + self.index_len - 4])
        numbers = np.frombuffer(block, dtype="<u8").reshape(-1, 2)
        return [(int(offset), int(length)) for offset, length in numbers]

    def entry(self, cell: tuple[int, ...]) -> tuple[int, int]:
        return self.entries()[self.number(cell)]

    def set_entry(self, cell: tuple[int, ...], offset: int, length: int) -> None:
        """Changes an entry and the checksum of the index with it."""
        at = self.index_start + 16 * self.number(cell)
        self.data[at : at + 16] = offset.to_bytes(8, "little") + length.to_bytes(8, "little")
        self.seal()

    def seal(self) -> None:
        start, end = self.index_start, self.index_start + self.index_len - 4
        checksum = google_crc32c.value(bytes(self.data[start:end]))
        self.data[end : end + 4] = checksum.to_bytes(4, "little")

    def replace_chunk(self, cell: tuple[int, ...], chunk: bytes) -> None:
        """Puts a chunk behind the others and has its entry lead there."""
        if self.at_start:
            offset = len(self.data)
            self.data += chunk
        else:
            offset = self.index_start
            self.data[offset:offset] = chunk
        self.set_entry(cell, offset, len(chunk))

    def flip(self, at: int) -> None:
        self.data[at] ^= 0x10

    def save(self) -> None:
        self.path.write_bytes(self.data)
