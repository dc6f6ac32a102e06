"""zarrita, the implementation of viewers in browsers, which only reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from .cases import Case
from .dtypes import Raw
from .model import from_file
from .peers import PeerError

NAME = "zarrita"

TYPES = frozenset(
    {
        "bool",
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        "float32",
        "float64",
    }
)
_CODECS = frozenset({"transpose", "bytes", "blosc", "gzip", "zstd", "crc32c"})


def lacks(case: Case) -> str | None:
    """Why zarrita cannot read an array, by design; `None` if it can."""
    codecs = case.metadata["codecs"]
    if case.data_type.name not in TYPES:
        return f"no data type {case.data_type.name}"
    if case.fill.sort not in ("plain", "zero") or not _exact(case.metadata["fill_value"]):
        return f"no fill value of the sort {case.fill.sort}"
    if any(size > 2**31 for size in case.shape) or case.empty:
        return "no arrays without elements or with very many"
    if not case.shape:
        return "no arrays without axes"
    if any(item["name"] == "sharding_indexed" for item in codecs):
        if len(codecs) > 1:
            return "no codecs around shards"
        shard = codecs[0]["configuration"]
        if shard.get("index_location", "end") != "end":
            return "no index at the start"
        codecs = shard["codecs"]
    missing = {item["name"] for item in codecs} - _CODECS
    if missing:
        return f"no codec {min(missing)}"
    if sum(item["name"] == "transpose" for item in codecs) > 1:
        return "no two transposes"
    return None


def _exact(fill: object) -> bool:
    """Whether JavaScript can tell the number."""
    return isinstance(fill, bool | float) or (isinstance(fill, int) and abs(fill) <= 2**53)


class Zarrita:
    """A process of node that reads one array after the other."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            ["node", str(folder / "read.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )

    def read(self, root: Path, case: Case, file: Path) -> Raw:
        """All elements of the array."""
        answer = self._ask({"folder": str(root), "file": str(file)})
        if "error" in answer:
            raise PeerError(answer["error"])
        if tuple(answer["shape"]) != case.shape:
            raise PeerError(f"the shape {answer['shape']}")
        return from_file(case.data_type, file.read_bytes(), case.shape)

    def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        if self.process.stdin is None or self.process.stdout is None:
            raise PeerError("it has no streams")
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise PeerError(f"it is gone: {error}") from error
        line = self.process.stdout.readline()
        if not line:
            raise PeerError("it ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(10)
