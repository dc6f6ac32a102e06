"""A small picture of the shards of an array, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._array import Array

#: Pixels of the longer side.
_SIDE = 120
#: Lines that can still be told apart on it.
_MOST = 40


def html(array: Array) -> str:
    """A table of what an array is, beside its last two axes cut into shards and chunks."""
    from ._array import size_words

    rows = [
        ("URL", array.url),
        ("Level", str(array.level) if array.level else ""),
        ("Shape", str(array.shape)),
        ("Type", str(array.dtype)),
        ("Chunks", str(array.chunks)),
        ("Shards", str(array.shards) if array.shards else "none"),
        ("Codecs", array._codecs),
        ("Size", size_words(array.nbytes) if array._variable is None else ""),
    ]
    left = "style='text-align:left'"
    cells = "".join(
        f"<tr><th {left}>{name}</th><td {left}>{escape(text)}</td></tr>"
        for name, text in rows
        if text
    )
    return f"<div style='display:flex;gap:2em'><table>{cells}</table>{svg(array)}</div>"


def svg(array: Array) -> str:
    """The last two axes of an array: thick lines around shards, thin ones around chunks."""
    if array.ndim == 0 or 0 in array.shape:
        return ""
    shape = array.shape[-2:] if array.ndim > 1 else (1, *array.shape)
    chunks = array.chunks[-2:] if array.ndim > 1 else (1, *array.chunks)
    shards = array.shards and (array.shards[-2:] if array.ndim > 1 else (1, *array.shards))
    longest = max(shape)
    high, wide = (max(_SIDE * length / longest, 4.0) for length in shape)
    lines = _lines(shape, chunks, (high, wide), "#b9c8d6", 0.5)
    if shards:
        lines += _lines(shape, shards, (high, wide), "#27516f", 1.2)
    frame = f"<rect width='{wide:.1f}' height='{high:.1f}' fill='#e8f0f6' stroke='#27516f'/>"
    title = f"the last two axes: {shape[0]} x {shape[1]}" if array.ndim > 1 else f"{shape[1]}"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{wide + 2:.0f}' height='{high + 2:.0f}'"
        f" viewBox='-1 -1 {wide + 2:.1f} {high + 2:.1f}'><title>{title}</title>{frame}{lines}</svg>"
    )


def _lines(
    shape: tuple[int, ...],
    cells: tuple[int, ...],
    size: tuple[float, float],
    colour: str,
    width: float,
) -> str:
    """Lines between cells, if there are few enough to be told apart."""
    if any(length / cell > _MOST for length, cell in zip(shape, cells, strict=True)):
        return ""
    high, wide = size
    path = ""
    for at in range(cells[0], shape[0], cells[0]):
        path += f"M0 {at * high / shape[0]:.1f}H{wide:.1f}"
    for at in range(cells[1], shape[1], cells[1]):
        path += f"M{at * wide / shape[1]:.1f} 0V{high:.1f}"
    if not path:
        return ""
    return f"<path d='{path}' stroke='{colour}' stroke-width='{width}' fill='none'/>"
