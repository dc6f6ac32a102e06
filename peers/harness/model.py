"""What an array must hold after a sequence of writes, and how files carry it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .dtypes import DataType, Raw, filled
from .regions import Region, shape_of


@dataclass(frozen=True)
class Write:
    """One write: where, what is handed over, and what must be read back."""

    region: Region
    given: Raw
    kept: Raw
    """Equal to `given` unless a codec rounds."""


def expected(data_type: DataType, fill: bytes, writes: list[Write], region: Region) -> Raw:
    """The elements of a region after the writes: the last one to touch an element wins.

    Never holds the whole array, so the array may have any size.
    """
    out = filled(data_type, shape_of(region), fill)
    wanted = [np.arange(span.start, span.stop, span.step) for span in region]
    for write in writes:
        inside = [
            (axis >= span.start) & (axis < span.stop)
            for axis, span in zip(wanted, write.region, strict=True)
        ]
        if not all(mask.any() for mask in inside):
            continue
        if not region:
            out[()] = write.kept[()]
            continue
        target = np.ix_(*(np.flatnonzero(mask) for mask in inside))
        source = np.ix_(
            *(
                axis[mask] - span.start
                for axis, mask, span in zip(wanted, inside, write.region, strict=True)
            )
        )
        out[target] = write.kept[source]
    return out


def difference(data_type: DataType, want: Raw, got: Raw) -> str | None:
    """Where two arrays differ, in words; `None` if they are the same, bit for bit."""
    if want.shape != got.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if data_type.variable:
        unequal = np.array(
            [a != b for a, b in zip(want.ravel(), got.ravel(), strict=True)], dtype=bool
        ).reshape(want.shape)
    else:
        size = data_type.itemsize
        left = np.frombuffer(want.tobytes(), dtype=np.uint8).reshape(-1, size)
        right = np.frombuffer(got.tobytes(), dtype=np.uint8).reshape(-1, size)
        unequal = (left != right).any(axis=1).reshape(want.shape)
    if not unequal.any():
        return None
    where = tuple(int(i) for i in np.argwhere(unequal)[0])
    return (
        f"{int(unequal.sum())} of {unequal.size} elements differ, first at {where} of the region: "
        f"{_show(want[where])} expected, {_show(got[where])} read"
    )


def _show(element: object) -> str:
    data = element if isinstance(element, bytes) else np.asarray(element).tobytes()
    return "0x" + data[:40].hex()


def to_file(data_type: DataType, elements: Raw) -> bytes:
    """Elements in the raw form that the command lines take."""
    if not data_type.variable:
        return elements.tobytes()
    flat = elements.ravel()
    if data_type.kind == "string":
        return b"\0".join(flat)
    return b"".join(len(element).to_bytes(4, "little") + element for element in flat)


def from_file(data_type: DataType, data: bytes, shape: tuple[int, ...]) -> Raw:
    """The inverse of `to_file`; raises `ValueError` if the data has another length."""
    count = int(np.prod(shape, dtype=np.int64))
    if not data_type.variable:
        if len(data) != count * data_type.itemsize:
            raise ValueError(f"{len(data)} bytes for {count} elements of {data_type.itemsize}")
        return np.frombuffer(data, dtype=data_type.raw).reshape(shape)
    elements = data.split(b"\0") if data_type.kind == "string" else _split_counted(data)
    if len(elements) != count:
        raise ValueError(f"{len(elements)} elements instead of {count}")
    out = np.empty(count, dtype=object)
    out[:] = elements
    return out.reshape(shape)


def _split_counted(data: bytes) -> list[bytes]:
    elements = []
    position = 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if position + length > len(data):
            raise ValueError("the last element is cut short")
        elements.append(data[position : position + length])
        position += length
    return elements
