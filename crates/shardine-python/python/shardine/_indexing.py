"""Indexing as numpy does it, for what `ArrayBase` does not index by itself.

An index becomes a `Plan`: what is picked along each dimension of the result, and how the result is
to be reshaped. numpy brings index arrays into a common shape; positions are grouped by chunk below.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ._array import Array

#: A range of one axis: axis, start, step, count.
Range = tuple[int, int, int, int]
#: Axes, and one list of positions for each.
Points = tuple[tuple[int, ...], list[np.ndarray[Any, Any]]]


class Plan(NamedTuple):
    """What an index selects."""

    #: One for each dimension of the elements as they are read.
    picks: list[Range | Points]
    #: Which of these dimensions come in reverse order.
    reversed: tuple[int, ...]
    #: The shape of the result; its elements are in the order of the picks.
    shape: tuple[int, ...]
    #: Whether it is one element, and not an array without axes.
    single: bool = False

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(pick[3] if len(pick) == 4 else len(pick[1][0]) for pick in self.picks)

    @property
    def ranges(self) -> list[tuple[int, int, int]] | None:
        """The range of each axis, if that is all that is picked: these are in order of axes."""
        if not all(len(pick) == 4 for pick in self.picks):
            return None
        return [(start, step, count) for _, start, step, count in self.picks]  # type: ignore[misc]


class _Slice(NamedTuple):
    axis: int
    start: int
    step: int
    count: int  # type: ignore[assignment] # pyright: ignore[reportIncompatibleMethodOverride]


class _New(NamedTuple):
    pass


class _Ellipsis(NamedTuple):
    """Has no dimension, but stands between its neighbours even where it stands for nothing."""


class _Array(NamedTuple):
    #: `None` for a scalar bool, which belongs to no axis.
    axis: int | None
    positions: np.ndarray[Any, Any]


def _is_integer(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return False
    if isinstance(item, np.ndarray):
        return item.ndim == 0 and item.dtype.kind in "iu"
    return hasattr(item, "__index__")


def _as_array(item: Any) -> np.ndarray[Any, Any]:
    """An index array of integers or bools."""
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.intp)
    if array.dtype.kind not in "iub":
        if isinstance(item, np.ndarray):
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or"
            " boolean arrays are valid indices"
        )
    return array


def _items(key: Any, shape: tuple[int, ...]) -> list[Any]:
    """The items of an index, what an ellipsis stands for after it, and bools as arrays."""
    items = list(key) if isinstance(key, tuple) else [key]
    taken = 0
    ellipsis = None
    for i, item in enumerate(items):
        if item is Ellipsis:
            if ellipsis is not None:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = i
        elif item is None:
            pass
        elif isinstance(item, slice) or _is_integer(item):
            taken += 1
        else:
            items[i] = array = _as_array(item)
            taken += array.ndim if array.dtype.kind == "b" else 1
    if taken > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {taken} were"
            " indexed"
        )
    rest: list[Any] = [slice(None)] * (len(shape) - taken)
    if ellipsis is None:
        return items + rest
    return items[: ellipsis + 1] + rest + items[ellipsis + 1 :]


def _slice(item: slice, axis: int, length: int) -> tuple[_Slice, bool]:
    start, stop, step = item.indices(length)
    count = len(range(start, stop, step))
    if count == 0:
        return _Slice(axis, 0, 1, 0), False
    if step < 0:
        return _Slice(axis, start + (count - 1) * step, -step, count), True
    return _Slice(axis, start, step, count), False


def _bounded(positions: np.ndarray[Any, Any], axis: int, length: int) -> np.ndarray[Any, Any]:
    """Positions counted from the beginning."""
    if positions.size:
        low, high = positions.min(), positions.max()
        if low < -length or high >= length:
            wrong = low if low < -length else high
            raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")
        if low < 0:
            positions = np.where(positions < 0, positions + length, positions)
    return positions


def _mask(mask: np.ndarray[Any, Any], axis: int, shape: tuple[int, ...]) -> list[_Array]:
    """The positions of the true elements of a mask."""
    for i, length in enumerate(mask.shape):
        if length != shape[axis + i]:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is"
                f" {shape[axis + i]} but size of corresponding boolean axis is {length}"
            )
    if mask.ndim == 0:
        return [_Array(None, np.zeros(int(mask), np.intp))]
    return [_Array(axis + i, positions) for i, positions in enumerate(mask.nonzero())]


def _broadcast(arrays: list[np.ndarray[Any, Any]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = " ".join(str(array.shape).replace(" ", "") for array in arrays)
        raise IndexError(
            "shape mismatch: indexing arrays could not be broadcast together with shapes " + shapes
        ) from None


def _flat(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1).astype(np.uint64)


def plan(key: Any, shape: tuple[int, ...], *, first: bool = False) -> Plan:
    """What an index selects, in the semantics of numpy; `first`: index arrays come first."""
    parts: list[_Slice | _New | _Ellipsis | _Array] = []
    integers: list[int] = []
    backwards: set[int] = set()
    axis = 0
    items = _items(key, shape)
    advanced = any(isinstance(item, np.ndarray) and not _is_integer(item) for item in items)
    for item in items:
        if item is None or item is Ellipsis:
            parts.append(_New() if item is None else _Ellipsis())
            continue
        if isinstance(item, slice):
            part, is_reversed = _slice(item, axis, shape[axis])
            if is_reversed:
                backwards.add(axis)
            parts.append(part)
        elif _is_integer(item):
            at = operator.index(item)
            position = int(_bounded(np.array(at), axis, shape[axis]))
            if advanced:
                parts.append(_Array(axis, np.array(position)))
            else:
                integers.append(axis)
                parts.append(_Slice(axis, position, 1, 1))
        elif item.dtype.kind == "b":
            parts.extend(_mask(item, axis, shape))
            axis += item.ndim
            continue
        else:
            parts.append(_Array(axis, item))
        axis += 1
    arranged = _arranged(_in_bounds(parts, shape), integers, backwards, first)
    is_array = any(item is Ellipsis for item in key) if isinstance(key, tuple) else key is Ellipsis
    return arranged._replace(single=arranged.shape == () and not is_array)


def _in_bounds(
    parts: list[_Slice | _New | _Ellipsis | _Array], shape: tuple[int, ...]
) -> list[_Slice | _New | _Ellipsis | _Array]:
    """The parts, with positions counted from the beginning.

    Positions that are broadcast to nothing, as by a scalar `False`, may be out of bounds: numpy
    never looks at them, except at integers.
    """
    arrays = [part.positions for part in parts if isinstance(part, _Array)]
    if 0 in _broadcast(arrays):
        # Their values do not count any more, but their shapes do.
        return [
            _Array(part.axis, np.zeros_like(part.positions)) if isinstance(part, _Array) else part
            for part in parts
        ]
    return [
        _Array(part.axis, _bounded(part.positions, part.axis, shape[part.axis]))
        if isinstance(part, _Array) and part.axis is not None
        else part
        for part in parts
    ]


def _arranged(
    parts: list[_Slice | _New | _Ellipsis | _Array],
    integers: list[int],
    backwards: set[int],
    first: bool,
) -> Plan:
    """Where the dimensions go."""
    at = [i for i, part in enumerate(parts) if isinstance(part, _Array)]
    arrays = [part for part in parts if isinstance(part, _Array)]
    common = _broadcast([part.positions for part in arrays]) if arrays else ()
    # Index arrays that are not next to each other have no place of their own: they come first.
    front = bool(at) and (first or at[-1] - at[0] != len(at) - 1)
    picks: list[Range | Points] = []
    result: list[int] = []

    def pick_arrays() -> None:
        with_axis = [part for part in arrays if part.axis is not None]
        if with_axis:
            axes = tuple(part.axis for part in with_axis if part.axis is not None)
            picks.append((axes, [_flat(part.positions, common) for part in with_axis]))
        result.extend(common)

    if front:
        pick_arrays()
    reverse = []
    for i, part in enumerate(parts):
        if isinstance(part, _New):
            result.append(1)
        elif isinstance(part, _Slice):
            if part.axis in backwards:
                reverse.append(len(picks))
            picks.append(tuple(part))  # type: ignore[arg-type]
            if part.axis not in integers:
                result.append(part.count)
        elif isinstance(part, _Array) and i == at[0] and not front:
            pick_arrays()
    return Plan(picks, tuple(reverse), tuple(result))


def outer_plan(key: Any, shape: tuple[int, ...]) -> Plan:
    """What an index selects if each item counts for its own axis, as `numpy.ix_` does."""
    picks: list[Range | Points] = []
    result: list[int] = []
    reverse: list[int] = []
    items = [item for item in _items(key, shape) if item is not Ellipsis]
    if any(item is None for item in items):
        raise IndexError("oindex has no numpy.newaxis")
    axis = 0
    for item in items:
        length = shape[axis]
        if isinstance(item, slice):
            part, is_reversed = _slice(item, axis, length)
            if is_reversed:
                reverse.append(len(picks))
            picks.append(tuple(part))  # type: ignore[arg-type]
            result.append(part.count)
        elif _is_integer(item):
            position = int(_bounded(np.array(operator.index(item)), axis, length))
            picks.append((axis, position, 1, 1))
        else:
            if item.ndim != 1:
                raise IndexError("oindex takes integers, slices and one-dimensional arrays")
            if item.dtype.kind == "b":
                item = _mask(item, axis, shape)[0].positions
            positions = _flat(_bounded(item, axis, length), item.shape)
            picks.append(((axis,), [positions]))
            result.append(len(positions))
        axis += 1
    return Plan(picks, tuple(reverse), tuple(result), not result)


def _flipped(dimensions: int, reverse: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(None, None, -1 if i in reverse else 1) for i in range(dimensions))


def get(array: Array, plan: Plan) -> Any:
    """Reads what a plan selects into a new array; a single element is a scalar."""
    if array._variable is not None:
        found = _get_variable(array, plan)
    else:
        found = _empty(plan.counts, array.dtype)
        if found.size:
            _fill(array, plan, found)
        found = found[_flipped(found.ndim, plan.reversed)] if plan.reversed else found
        found = _reshaped(found, plan)
    return found[()] if plan.single else found


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    try:
        return np.empty(shape, dtype)
    except ValueError as error:
        # What could not even be addressed.
        raise MemoryError(str(error)) from None


def _reshaped(found: np.ndarray[Any, Any], plan: Plan) -> np.ndarray[Any, Any]:
    size = 1
    for count in plan.shape:
        size *= count
    # A scalar `False` in the index selects nothing, whatever the rest selects.
    return found.reshape(plan.shape) if size else np.empty(plan.shape, found.dtype)


def _fill(array: Array, plan: Plan, out: np.ndarray[Any, Any]) -> None:
    ranges = plan.ranges
    if ranges is None:
        array._read_picks(plan.picks, out)
    else:
        array._read(ranges, out)


def read_into(array: Array, plan: Plan, out: np.ndarray[Any, Any]) -> None:
    """Reads what a plan selects into an array in memory: straight into it if it has room for each
    dimension and the same type."""
    if out.shape != plan.shape:
        raise ValueError(f"out has shape {out.shape}, but the region has {plan.shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    straight = (
        array._variable is None
        and out.dtype == array.dtype
        and plan.counts == plan.shape
        and not plan.reversed
        and all(stride >= 0 for stride in out.strides)
    )
    if straight:
        if out.size:
            _fill(array, plan, out)
    else:
        out[...] = get(array, plan)


def _elements(array: Array, values: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Elements of variable length as an array."""
    found = np.empty(len(values), object)
    found[:] = values
    return found.reshape(shape).astype(array.dtype, copy=False)


def _mesh(plan: Plan, ndim: int) -> list[np.ndarray[Any, Any]]:
    """The positions along each axis, in shapes that broadcast to that of the picks."""
    mesh: list[np.ndarray[Any, Any]] = [np.empty(0)] * ndim
    for i, pick in enumerate(plan.picks):
        shape = [1] * len(plan.picks)
        shape[i] = -1
        if len(pick) == 4:
            axis, start, step, count = pick
            mesh[axis] = np.arange(start, start + step * count, step).reshape(shape)
        else:
            for axis, positions in zip(*pick, strict=True):
                mesh[axis] = positions.astype(np.intp).reshape(shape)
    return mesh


def _get_variable(array: Array, plan: Plan) -> np.ndarray[Any, Any]:
    ranges = plan.ranges
    if 0 in plan.counts:
        found = _elements(array, [], plan.counts)
    elif ranges is not None:
        found = _elements(array, array._read_variable(ranges), plan.counts)
    else:
        # The smallest box around all that is picked, and numpy picks from it.
        mesh = _mesh(plan, array.ndim)
        low = [int(positions.min()) for positions in mesh]
        high = [int(positions.max()) for positions in mesh]
        counts = tuple(last - first + 1 for first, last in zip(low, high, strict=True))
        box = [(at, 1, count) for at, count in zip(low, counts, strict=True)]
        around = _elements(array, array._read_variable(box), counts)
        picked = [positions - at for positions, at in zip(mesh, low, strict=True)]
        # The ellipsis keeps an array of no dimensions an array.
        key: tuple[Any, ...] = (*picked, ...)
        found = around[key]
    if plan.reversed:
        found = found[_flipped(found.ndim, plan.reversed)]
    return _reshaped(found, plan)


def assign(
    array: Array,
    plan: Plan,
    value: Any,
    strategy: str | None = None,
    *,
    store_empty: bool = False,
) -> dict[str, int]:
    """Writes a value to what a plan selects, broadcast and converted as numpy does."""
    if array._variable is not None:
        return _assign_variable(array, plan, value, store_empty)
    value = _spread(converted(value, array.dtype), plan)
    if value.size == 0:
        return array._write_nothing(strategy)
    value = as_stored(value)
    ranges = plan.ranges
    if ranges is None:
        return array._write_picks(plan.picks, value, strategy, store_empty)
    return array._write(ranges, value, strategy, store_empty)


def as_stored(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Elements with the bytes that the engine has for them, along ascending axes."""
    if value.dtype.name in _NARROW:
        # ml_dtypes leaves the upper bits of negative numbers unset.
        value = value.astype(_NARROW[value.dtype.name])
    if any(stride < 0 for stride in value.strides):
        value = value.copy()
    return value


#: Integers of less than a byte, and those of a byte with the same values.
_NARROW = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


def converted(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A value as an array of the type, by the rules of an assignment."""
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        value = np.asarray(value)
        if value.dtype == dtype:
            return value
    if hasattr(value, "__array__") or dtype.names is None:
        shape = np.shape(value)
        converted = np.empty(shape, dtype)
        converted[...] = value
        return converted
    return np.asarray(value, dtype)


def _spread(value: np.ndarray[Any, Any], plan: Plan) -> np.ndarray[Any, Any]:
    """A value with the dimensions of the picks, without a copy where that is possible."""
    shape = plan.shape
    given = value.shape
    if plan.single and given != ():
        raise ValueError("setting an array element with a sequence.")
    while value.ndim > len(shape) and value.shape[0] == 1:
        # An index would make the last one a scalar, and a scalar of text is as wide as its text.
        value = value.reshape(value.shape[1:])
    try:
        value = np.broadcast_to(value, shape)
    except ValueError:
        raise ValueError(
            f"could not broadcast input array from shape {given} into shape {shape}"
        ) from None
    if value.size == 0:
        return value
    value = _unfolded(value, plan)
    if plan.reversed:
        value = value[_flipped(value.ndim, plan.reversed)]
    return value


def _unfolded(value: np.ndarray[Any, Any], plan: Plan) -> np.ndarray[Any, Any]:
    """Removes new axes, inserts those of integers, and joins those of points."""
    if value.shape == plan.counts:
        return value
    if not any(value.strides):
        # One element for all: there is no need to repeat it.
        first: tuple[Any, ...] = (*(slice(1),) * value.ndim, ...)
        return np.broadcast_to(value[first].reshape(()), plan.counts)
    return value.reshape(plan.counts)


def _assign_variable(
    array: Array, plan: Plan, value: Any, store_empty: bool
) -> dict[str, int]:
    kind = str if array._variable == "string" else bytes
    given = np.asarray(value)
    if given.dtype != object:
        given = given.astype(object)
    for element in given.reshape(-1):
        if not isinstance(element, kind):
            raise TypeError(f"elements are {kind.__name__}, not {type(element).__name__}")
    spread = _spread(given, plan)
    if spread.size == 0:
        return array._write_variable([])
    ranges = plan.ranges
    if ranges is not None:
        return array._write_variable([(ranges, spread.reshape(-1).tolist())], store_empty)
    mesh = [
        np.broadcast_to(positions, plan.counts).reshape(-1).tolist()
        for positions in _mesh(plan, array.ndim)
    ]
    parts = [
        ([(at, 1, 1) for at in position], [element])
        for *position, element in zip(*mesh, spread.reshape(-1).tolist(), strict=True)
    ]
    return array._write_variable(parts, store_empty)
