"""Random indexes and values, from a seed."""

from __future__ import annotations

import numpy as np


def index(rng, shape):
    """Anything that numpy can index an array of this shape with, and some of what it cannot."""
    items = []
    axis = 0
    axes = rng.integers(0, len(shape) + 1)
    common = None
    while axis < axes:
        length = shape[axis]
        chance = rng.random()
        if chance < 0.2:
            at = int(rng.integers(-length, length))
            items.append(at if rng.random() < 0.7 else np.int64(at))
        elif chance < 0.6:
            ends = [None, *range(-length - 2, length + 3)]
            start, stop = (ends[rng.integers(len(ends))] for _ in range(2))
            step = [None, 1, 1, 2, 3, 7, -1, -2][rng.integers(8)]
            items.append(slice(start, stop, step))
        elif chance < 0.8:
            if common is None:
                common = [(3,), (2, 3), (1,), (0,), (9,), (2, 1), (40,)][rng.integers(7)]
            given = [common, common, (1,), common[-1:], ()][rng.integers(5)]
            positions = rng.integers(-length, length, given)
            if rng.random() < 0.05:
                positions = positions + length
            items.append(positions.tolist() if rng.random() < 0.3 else positions)
        elif chance < 0.9:
            covered = 1 if axis + 1 >= len(shape) or rng.random() < 0.6 else 2
            items.append(rng.random(shape[axis : axis + covered]) < rng.random())
            axis += covered
            continue
        elif chance < 0.97:
            items.append(None)
            continue
        else:
            items.append(bool(rng.random() < 0.7))
            continue
        axis += 1
    if rng.random() < 0.3:
        items.insert(rng.integers(len(items) + 1), Ellipsis)
    if len(items) == 1 and rng.random() < 0.5:
        return items[0]
    return tuple(items)


def outer(rng, shape):
    """An index for `oindex`, and the same for numpy."""
    items, lists, dropped = [], [], []
    for axis, length in enumerate(shape):
        chance = rng.random()
        if chance < 0.2:
            at = int(rng.integers(-length, length))
            items.append(at)
            lists.append([at])
            dropped.append(axis)
        elif chance < 0.5:
            step = int([1, 2, 3, -1][rng.integers(4)])
            start, stop = sorted(rng.integers(0, length + 1, 2).tolist())
            if step < 0:
                start, stop = stop, start
            items.append(slice(start, stop, step))
            lists.append(np.arange(length)[start:stop:step])
        elif chance < 0.8:
            items.append(rng.integers(-length, length, rng.integers(0, 12)))
            lists.append(items[-1])
        else:
            items.append(rng.random(length) < 0.5)
            lists.append(items[-1].nonzero()[0])
    return tuple(items), np.ix_(*lists), tuple(dropped)


#: Types with a fixed size, as `create` takes them.
FIXED = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
    " complex128 bfloat16 float8_e4m3fn float8_e5m2 float8_e3m4 float4_e2m1fn int2 int4 uint2 uint4"
    " M8[ns] M8[10D] m8[us] U7 S5 V3 struct"
).split()


def dtype(name):
    """The numpy type of one of these names."""
    if name == "struct":
        return np.dtype([("a", "<i2"), ("b", "<f4"), ("c", "S3")])
    if hasattr(np, name) or name[0] in "MmUSV":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def values(rng, dtype, shape):
    """Random elements: an array, even without axes."""
    return np.asarray(_values(rng, dtype, shape), dtype)


def _values(rng, dtype, shape):
    if dtype.names is not None:
        made = np.empty(shape, dtype)
        for name in dtype.names:
            made[name] = values(rng, dtype[name], shape)
        return made
    if dtype.kind == "U":
        letters = rng.choice(list("aäß漢𝛼xyz "), (*shape, 5))
        return np.array(["".join(text) for text in letters.reshape(-1, 5)], dtype).reshape(shape)
    if dtype.kind in "S":
        return rng.integers(1, 255, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    small = {"int2": 4, "uint2": 4, "int4": 16, "uint4": 16, "float4_e2m1fn": 16}.get(dtype.name)
    if small is not None:
        low = -small // 2 if dtype.name.startswith("int") else 0
        if dtype.name.startswith("float"):
            return rng.integers(0, small, shape, np.uint8).view(dtype)
        return rng.integers(low, low + small, shape).astype(dtype)
    if dtype.kind in "fcV" and dtype.name != "bfloat16" and not dtype.name.startswith("void"):
        return rng.integers(-100, 100, shape).astype(dtype)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    return raw.view(dtype)[..., 0]


def same(a, b):
    """Whether two arrays have the same type, shape and bytes."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == b.dtype and a.dtype.name in ("int2", "int4"):
        # Their upper bits mean nothing.
        return np.array_equal(a.astype(np.int8), b.astype(np.int8))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
