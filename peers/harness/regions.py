"""Regions of an array: what is read or written, and the many ways to spell it."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """The elements `start`, `start + step`, … below `stop` of one axis; never empty."""

    start: int
    stop: int
    step: int = 1

    def __len__(self) -> int:
        return -(-(self.stop - self.start) // self.step)


Region = tuple[Span, ...]
Windows = tuple[tuple[tuple[int, int], ...], ...]
"""For every axis the intervals that tests touch: all of it, or the two ends of a huge one."""


def shape_of(region: Region) -> tuple[int, ...]:
    return tuple(len(span) for span in region)


def slices_of(region: Region) -> tuple[slice, ...]:
    return tuple(slice(span.start, span.stop, span.step) for span in region)


def whole(shape: tuple[int, ...]) -> Region:
    return tuple(Span(0, size) for size in shape)


def unstepped(region: Region) -> Region:
    """The box around a region."""
    return tuple(Span(span.start, span.stop) for span in region)


def random_region(
    dice: random.Random, windows: Windows, grid: tuple[int, ...], steps: bool
) -> Region:
    """A region inside the windows; sometimes aligned to `grid`, sometimes one element thin."""
    style = dice.choice(["any", "any", "aligned", "thin", "edge"])
    return tuple(
        _random_span(dice, dice.choice(choices), cell, style, steps)
        for choices, cell in zip(windows, grid, strict=True)
    )


def _random_span(
    dice: random.Random, window: tuple[int, int], cell: int, style: str, steps: bool
) -> Span:
    low, high = window
    start = dice.randint(low, high - 1)
    stop = dice.randint(start + 1, high)
    if style == "aligned":
        start = max(low, start - start % cell)
        stop = min(high, stop + -stop % cell)
    elif style == "thin" and dice.random() < 0.6:
        stop = start + 1
    elif style == "edge":
        stop = high
    step = dice.choice([1, 2, 3, 5, stop - start + 3]) if steps and dice.random() < 0.4 else 1
    return Span(start, stop, step)


def spell(dice: random.Random, region: Region, shape: tuple[int, ...]) -> str | None:
    """One of the spellings the command line allows, or `None` to leave the option out."""
    full = [span == Span(0, size) for span, size in zip(region, shape, strict=True)]
    if all(full) and (not region or dice.random() < 0.5):
        return None
    items = [_spell_span(dice, span, size) for span, size in zip(region, shape, strict=True)]
    kept = len(items)
    while kept > 1 and full[kept - 1] and dice.random() < 0.5:
        kept -= 1
    if kept < len(items):
        return ",".join(items[:kept])
    runs = [i for i in range(len(items)) if full[i]]
    if runs and dice.random() < 0.3:
        first = dice.choice(runs)
        last = first
        while last + 1 < len(items) and full[last + 1] and dice.random() < 0.7:
            last += 1
        items[first : last + 1] = ["..."]
    return ",".join(items)


def _spell_span(dice: random.Random, span: Span, size: int) -> str:
    if len(span) == 1 and dice.random() < 0.5:
        return str(span.start)
    start, stop = str(span.start), str(span.stop)
    if span.start == 0 and dice.random() < 0.5:
        start = ""
    elif span.start > 0 and dice.random() < 0.15:
        start = str(span.start - size)
    if span.stop == size:
        stop = dice.choice([stop, "", str(size + dice.randint(1, 9))])
    elif dice.random() < 0.15:
        stop = str(span.stop - size)
    step = f":{span.step}" if span.step > 1 or dice.random() < 0.05 else ""
    return f"{start}:{stop}{step}"


def plain(region: Region) -> str:
    """The one spelling that needs no thought: `start:stop` for every axis."""
    return ",".join(f"{span.start}:{span.stop}" for span in region)
