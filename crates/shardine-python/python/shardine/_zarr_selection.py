"""What zarr-python's selections select, as one plan for the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._indexing import Plan, Points, Range

#: Where a plan's elements go in the array in memory.
Place = Any


def plan_of(
    items: list[Any], position: Callable[[str], list[int]], drop_axes: tuple[int, ...]
) -> tuple[Plan, Place]:
    """One plan for all items of a batch, and an index for the array in memory whose result has the
    shape of the plan.

    zarr-python makes each batch from one selection, split by the grid of chunks: ranges and lists
    for each axis, or points. What it was before is put together again.
    """
    _, spec, selection, out, _ = items[0]
    shape = spec.shape
    chosen = selection if isinstance(selection, tuple) else (selection,)
    if all(isinstance(item, (slice, int, np.integer)) for item in chosen):
        return _box(items, position, shape)
    if not isinstance(out, tuple):
        return _points(items, position, shape)
    return _lists(items, position, shape, drop_axes)


def _plan(picks: list[Range | Points]) -> Plan:
    """A plan whose result has a dimension for each pick."""
    plan = Plan(picks, (), ())
    return plan._replace(shape=plan.counts)


def _tuple(selection: Any) -> tuple[Any, ...]:
    return selection if isinstance(selection, tuple) else (selection,)


def _box(
    items: list[Any], position: Callable[[str], list[int]], shape: tuple[int, ...]
) -> tuple[Plan, Place]:
    """Ranges of all axes: the first and the last item have their ends."""
    first, last = items[0], items[-1]
    low, high = position(first[0].path), position(last[0].path)
    from_, to = _tuple(first[2]), _tuple(last[2])
    out_from, out_to = _tuple(first[3]), _tuple(last[3])
    picks: list[Range | Points] = []
    place: list[slice | None] = []
    chunks = 1
    out_axis = 0
    for axis, length in enumerate(shape):
        begin = low[axis] * length
        if not isinstance(from_[axis], slice):
            picks.append((axis, begin + int(from_[axis]), 1, 1))
            place.append(None)
            continue
        start, _, step = from_[axis].indices(length)
        into = slice(int(out_from[out_axis].start or 0), int(out_to[out_axis].stop))
        count = into.stop - into.start
        picks.append((axis, begin + start, step, count))
        place.append(into)
        out_axis += 1
        chunks *= min(high[axis] - low[axis] + 1, count)
    if chunks != len(items):
        raise ValueError("the parts of a selection do not make a whole")
    return _plan(picks), (*place, ...)


def _points(
    items: list[Any], position: Callable[[str], list[int]], shape: tuple[int, ...]
) -> tuple[Plan, Place]:
    """Points: one list for each axis, sorted by chunk."""
    lists: list[list[np.ndarray[Any, Any]]] = [[] for _ in shape]
    outs: list[np.ndarray[Any, Any]] = []
    for where, _, selection, out, _ in items:
        for axis, (at, chosen) in enumerate(zip(position(where.path), selection, strict=True)):
            lists[axis].append(np.asarray(chosen) + at * shape[axis])
        into = out[0] if isinstance(out, tuple) else out
        outs.append(np.arange(into.start, into.stop) if isinstance(into, slice) else into)
    order = np.concatenate(outs)
    low, count = (int(order.min()), len(order)) if len(order) else (0, 0)
    positions = []
    for parts in lists:
        along = np.empty(count, np.uint64)
        # In the order in memory: then nothing needs to be moved afterwards.
        along[order - low] = np.concatenate(parts)
        positions.append(along)
    return _plan([(tuple(range(len(shape))), positions)]), (slice(low, low + count),)


def _lists(
    items: list[Any],
    position: Callable[[str], list[int]],
    shape: tuple[int, ...],
    drop_axes: tuple[int, ...],
) -> tuple[Plan, Place]:
    """A list or a range for each axis."""
    #: For each axis the part of each chunk along it: positions, and where these go.
    parts: list[dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]]]
    parts = [{} for _ in shape]
    for where, _, selection, out, _ in items:
        out = _tuple(out)
        at = position(where.path)
        out_axis = 0
        for axis, chosen in enumerate(selection):
            dropped = axis in drop_axes or isinstance(chosen, (int, np.integer))
            if at[axis] not in parts[axis]:
                along = _along(chosen, shape[axis]) + at[axis] * shape[axis]
                into = None if dropped else _along(out[out_axis], None)
                parts[axis][at[axis]] = along, into
            out_axis += not dropped
    chunks = 1
    picks: list[Range | Points] = []
    place: list[slice | None] = []
    for axis, found in enumerate(parts):
        chunks *= len(found)
        along = np.concatenate([part[0] for part in found.values()])
        outs = [part[1] for part in found.values() if part[1] is not None]
        if outs:
            order = np.concatenate(outs)
            low = int(order.min()) if len(order) else 0
            sorted_ = np.empty(len(order), np.uint64)
            sorted_[order - low] = along
            along = sorted_
            place.append(slice(low, low + len(order)))
        else:
            place.append(None)
        picks.append(_pick(axis, along.astype(np.uint64)))
    if chunks != len(items):
        raise ValueError("the parts of a selection do not make a whole")
    return _plan(picks), tuple(place)


def _along(chosen: Any, length: int | None) -> np.ndarray[Any, Any]:
    """The positions along one axis."""
    if isinstance(chosen, slice):
        if length is None:
            return np.arange(chosen.start or 0, chosen.stop, chosen.step or 1)
        return np.arange(*chosen.indices(length))
    along = np.asarray(chosen)
    if along.dtype.kind == "b":
        return along.reshape(-1).nonzero()[0]
    return along.reshape(-1)


def _pick(axis: int, along: np.ndarray[Any, Any]) -> Range | Points:
    """A range, where the positions are one."""
    if len(along) == 1:
        return (axis, int(along[0]), 1, 1)
    if len(along) > 1:
        steps = along[1:] - along[:-1]
        step = int(steps[0])
        # What descends has a huge step as an unsigned number.
        if 0 < step < 1 << 62 and (steps == steps[0]).all():
            return (axis, int(along[0]), step, len(along))
    return ((axis,), [along])
