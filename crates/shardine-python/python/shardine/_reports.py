"""What jobs report: plain data with attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Record:
    """Data with names, as attributes.

    `to_dict` gives it as a dictionary of plain values, with the names that the command line's
    `--json` has.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        # Asked by copy and pickle before there is any data.
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return _wrapped(self._data[name])
        except KeyError:
            known = ", ".join(self._data)
            message = f"{type(self).__name__} has no {name}; it has {known}"
            raise AttributeError(message) from None

    def __getitem__(self, name: str) -> Any:
        return _wrapped(self._data[name])

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._data]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_members(self._data)})"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain dictionaries, lists, numbers and strings."""
        copied = _copied(self._data)
        assert isinstance(copied, dict)
        return copied


#: The longest list that is shown whole.
_SHOWN = 4


def _members(data: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in data.items())


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[{len(value)} of them]"
    if isinstance(value, list) and len(value) > _SHOWN:
        return f"[{', '.join(_shown(item) for item in value[:_SHOWN])}, ...]"
    if isinstance(value, dict):
        return f"({_members(value)})"
    return repr(value)


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


class Finding(Record):
    """Something that `verify` has found.

    `severity` is `damage` or `notice`, `kind` one of the kinds that docs/verify.md lists. `object`,
    `shard`, `chunk` and `range` (of bytes) say where it is, as far as that is known.
    """

    severity: str
    kind: str
    object: str | None
    shard: list[int] | None
    chunk: list[int] | None
    range: list[int] | None
    message: str

    def __str__(self) -> str:
        where = "." if self.object is None else self.object
        chunk = "" if self.chunk is None else f" chunk {','.join(map(str, self.chunk))}"
        return f"{self.severity}: {where}{chunk}: {self.kind}: {self.message}"


class VerifyReport(Record):
    """The result of `verify`. True if no damage was found."""

    ok: bool
    part: str | None
    summary: Record
    seconds: float

    @property
    def findings(self) -> list[Finding]:
        """What was found, damage and notices."""
        return [Finding(finding) for finding in self._data["findings"]]

    def __bool__(self) -> bool:
        return bool(self.ok)

    def __repr__(self) -> str:
        summary = self.summary
        state = "ok" if self.ok else "DAMAGED"
        return (
            f"VerifyReport({state}: {summary.arrays} arrays, {summary.objects} objects, "
            f"{summary.chunks} chunks; {summary.damage} damage, {summary.notices} notices)"
        )


class RepairReport(Record):
    """The result of `repair`. True if everything is repaired, or its loss accepted."""

    ok: bool
    dry_run: bool
    repairs: list[Record]
    set_aside: str
    only_read: str | None
    summary: Record
    seconds: float

    def __bool__(self) -> bool:
        return bool(self.ok)


class CompactReport(Record):
    """The result of `compact`. True if no shard failed; `failed` says why others did."""

    ok: bool
    dry_run: bool
    compacted: list[Record]
    failed: list[str]
    summary: Record
    seconds: float

    def __bool__(self) -> bool:
        return bool(self.ok)


class RepackReport(Record):
    """The result of `shard`, `unshard` and `reshard`.

    Zarr has `arrays`, each with `path`, `outcome`, `chunk`, `shard`, `chunks_moved` and others; a
    precomputed volume has `scales` instead.
    """

    dry_run: bool
    part: str | None
    parts_missing: list[int]
    arrays: list[Record]
    scales: list[Record]
    seconds: float


class ConvertReport(Record):
    """The result of `convert`.

    From Zarr to Zarr v3 it has `arrays`, as `reshard` has; to other formats `levels`; of a file the
    `shape` and `dtype` of what was made.
    """

    dry_run: bool
    part: str | None
    parts_missing: list[int]
    arrays: list[Record]
    levels: list[Record]
    seconds: float


class CopyReport(Record):
    """The result of `copy`."""

    objects_copied: int
    bytes_copied: int
    objects_skipped: int
    bytes_skipped: int
    resumed: bool
    verified: str
    part: str | None
    parts_missing: list[int]
    seconds: float


class MigrateReport(Record):
    """The result of `migrate`: documents that were written, replaced and removed."""

    dry_run: bool
    written: list[str]
    replaced: list[str]
    removed: list[str]
    summary: Record
    seconds: float


class PyramidReport(Record):
    """The result of `pyramid`: the levels below the finest."""

    dry_run: bool
    method: str
    levels: list[Record]
    passes: int
    resumed: bool
    unchanged: bool
    seconds: float


class PlanReport(Record):
    """The result of `plan`.

    Zarr has `arrays`, each with `action`, `chunk_shape`, `shard_shape`, `chunks_per_shard`, and the
    reasons; precomputed volumes have `scales`, stores of Zarr Vectors `levels`.
    """

    arrays: list[Record]
    scales: list[Record]
    levels: list[Record]
    seconds: float


class CompareReport(Record):
    """The result of `compare`. True if both are equal."""

    equal: bool
    differences: list[Record]
    untold: int
    summary: Record
    seconds: float

    def __bool__(self) -> bool:
        return bool(self.equal)


class ConsolidateReport(Record):
    """The result of `consolidate`: how many nodes, or whether there was something to remove."""

    nodes: int
    removed: bool
    seconds: float


class WriteReport(Record):
    """What writing geometry has done."""

    kind: str
    vertices: int
    links: int
    objects: int | None
    chunks: int
    arrays: int
    bounds: list[list[float]]
    shard: list[int] | None
    bytes_written: int
    objects_written: int


class VectorsInfo(Record):
    """What a store of Zarr Vectors contains."""

    format: str
    version: str
    kind: str
    dimensions: int
    axes: list[str]
    units: list[str | None]
    bounds: list[list[float]] | None
    chunk: list[float]
    bin: list[float] | None
    levels: list[Record]
    attributes: list[Record]
    sharding: Record | None
    notes: list[str]
