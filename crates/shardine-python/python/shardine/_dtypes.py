"""Data types: between the names of Zarr metadata and numpy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

#: Types that numpy has only together with ml_dtypes, whose names they share.
_SMALL = frozenset(
    [
        "bfloat16",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "int2",
        "int4",
        "uint2",
        "uint4",
    ]
)

_known: dict[tuple[str, str | None, int], np.dtype[Any]] = {}


def of(name: str, descr: str | None, size: int) -> np.dtype[Any]:
    """The numpy type for elements with this name, `.npy` descriptor and size (0: variable)."""
    key = (name, descr, size)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _make(name, descr, size)
    return found


def _make(name: str, descr: str | None, size: int) -> np.dtype[Any]:
    if size == 0:
        if name == "string" and hasattr(np.dtypes, "StringDType"):
            return np.dtypes.StringDType()
        return np.dtype(object)
    if name in _SMALL:
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError(
                f"elements of type {name} need the package ml_dtypes: pip install ml_dtypes"
            ) from error
        small = getattr(ml_dtypes, name, None)
        if small is not None:
            return np.dtype(small)
    elif descr is not None:
        if descr.startswith("["):
            # The text of a Python list with nothing but strings, numbers, tuples and lists.
            import ast

            return np.dtype(ast.literal_eval(descr))
        return np.dtype(descr)
    # Nothing in numpy has such values: their bytes.
    return np.dtype(f"V{size}")


def describe(dtype: Any) -> str:
    """The type for a new array, as `_create_array` takes it: a name, or the JSON of metadata."""
    if isinstance(dtype, dict):
        return json.dumps(dtype)
    if isinstance(dtype, str):
        # Zarr's names, such as `r16` or `string`, besides numpy's.
        return dtype
    if dtype is str:
        return "string"
    if dtype is bytes:
        return "bytes"
    dtype = np.dtype(dtype)
    if dtype.names is not None:
        return json.dumps(_metadata(dtype))
    if dtype.kind == "T":
        return "string"
    if dtype == np.dtype(object):
        raise TypeError("dtype=object says nothing about its elements: use str or bytes")
    if dtype.name in _SMALL:
        return dtype.name
    return dtype.newbyteorder("<").str.lstrip("|")


def _metadata(dtype: np.dtype[Any]) -> Any:
    """A type in the form of metadata."""
    if dtype.names is None:
        return _SIMPLE.get(dtype.newbyteorder("=")) or _with_parameters(dtype)
    fields = []
    offset = 0
    for name in dtype.names:
        assert dtype.fields is not None
        field, at = dtype.fields[name][:2]  # pyright: ignore[reportArgumentType]
        if at != offset or field.subdtype is not None:
            raise TypeError(f"{dtype}: fields must follow one another, each a single element")
        fields.append({"name": name, "data_type": _metadata(field)})
        offset += field.itemsize
    if offset != dtype.itemsize:
        raise TypeError(f"{dtype}: there must be no padding after the last field")
    return {"name": "struct", "configuration": {"fields": fields}}


_SIMPLE = {
    np.dtype(name): name
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
        " complex64 complex128"
    ).split()
}


def _with_parameters(dtype: np.dtype[Any]) -> Any:
    if dtype.name in _SMALL:
        return dtype.name
    if dtype.kind in "Mm":
        unit, scale = np.datetime_data(dtype)
        name = "numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64"
        return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}
    if dtype.kind == "U":
        return {"name": "fixed_length_utf32", "configuration": {"length_bytes": dtype.itemsize}}
    if dtype.kind == "S":
        return {"name": "null_terminated_bytes", "configuration": {"length_bytes": dtype.itemsize}}
    if dtype.kind == "V":
        return {"name": "raw_bytes", "configuration": {"length_bytes": dtype.itemsize}}
    raise TypeError(f"arrays cannot have elements of type {dtype}")
