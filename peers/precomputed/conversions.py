"""Volumes that become Zarr and come back, and Zarr arrays that become volumes."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts
import zarr

from harness.run import Outcome

from .draw import DATA_TYPES, OURS, Case, Voxels, draw_voxels
from .tools import CloudVolume, TensorStore, place, same
from .volumes import LOSSY, Commands, Failed, attempt, one_error

AXES = (
    ("x", "y", "z", "channel"),
    ("x", "y", "z"),
    ("z", "y", "x"),
    ("c", "z", "y", "x"),
)
"""The names by which arrays come; they tell which axis is which."""


def check_conversion(case: Case, program: Path, folder: Path, outcome: Outcome) -> None:
    run = _ConversionRun(case, program, folder, outcome)
    warnings.filterwarnings("ignore", module="zarr")
    if case.scale(0)["encoding"] in OURS:
        run.volume()
    run.array()


class _ConversionRun:
    def __init__(self, case: Case, program: Path, folder: Path, outcome: Outcome) -> None:
        self.case, self.folder, self.outcome = case, folder, outcome
        self.commands = Commands(program, folder)
        self.dice = case.dice("conversion")
        self.tolerance = LOSSY if case.smooth else 0

    def _direction(self, name: str, act: Any) -> bool:
        done = attempt(self.outcome, name, act)
        if done:
            self.outcome.passed.append(name)
        return done

    # --- a volume to Zarr and back ---

    def volume(self) -> None:
        """A volume of all scales: Zarr peers read what becomes of it, and it comes back the same."""
        case, root = self.case, self.folder / "volume"
        levels = range(len(case.voxels))
        tool = TensorStore()
        if any(tool.lacks(case, level) for level in levels):
            self.outcome.skipped.append("no volume to convert: tensorstore does not write all of it")
            return
        place(root, case)
        for level in levels:
            tool.write_all(root, case, level, self.dice)
        stored = [tool.read(root, case, level) for level in levels]
        group = self.folder / "group.zarr"

        def there() -> None:
            self.commands.run("convert", str(root), str(group), "--to", "zarr3")
            self.commands.verify(group)
            for level in levels:
                path = self._array_of(group, level)
                array = zarr.open_array(path, mode="r")
                self._compare("zarr-python", level, stored[level], np.asarray(array[...]))
                spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
                read = ts.open(spec, open=True).result().read().result()
                self._compare("tensorstore", level, stored[level], np.asarray(read))

        if not self._direction("precomputed -> zarr3", there):
            return

        def back() -> None:
            again = self.folder / "again"
            self.commands.run("convert", str(group), str(again), "--to", "precomputed")
            was, now = (json.loads((path / "info").read_text()) for path in (root, again))
            if was != now:
                raise Failed(f"info was {json.dumps(was)} and is {json.dumps(now)}")
            self.commands.verify(again)
            for level in levels:
                self._compare("tensorstore", level, stored[level], tool.read(again, case, level))

        self._direction("precomputed -> zarr3 -> precomputed", back)

    def _array_of(self, group: Path, level: int) -> Path:
        """An array is named by the key of its scale, without folders."""
        name = self.case.scale(level)["key"].replace("/", "_")
        if not (group / name / "zarr.json").exists():
            raise Failed(f"{group} has no array {name}: {sorted(p.name for p in group.iterdir())}")
        return group / name

    def _compare(
        self, who: str, level: int, want: Voxels, got: Voxels, tolerance: int | None = None
    ) -> None:
        found = same(want, got, self.tolerance if tolerance is None else tolerance)
        if found:
            raise Failed(f"{who} reads level {level} otherwise: {found}")

    # --- an array to a volume ---

    def array(self) -> None:
        """An array of zarr-python, or of Shardine, with axes in one of several orders."""
        dice = self.dice
        data_type = dice.choice([*DATA_TYPES, "int64", "float64"])
        axes = dice.choice(AXES)
        size = dict(zip("xyz", (dice.randint(1, 40) for _ in range(3)), strict=True))
        channels = dice.choice([1, 2, 3]) if len(axes) == 4 else 1
        shape = tuple(size.get(axis, channels) for axis in axes)
        fake = {"chunk_sizes": [[4, 4, 4]]}
        given = DATA_TYPES[0] if data_type not in DATA_TYPES else data_type
        xyzc = (size["x"], size["y"], size["z"], channels)
        voxels = draw_voxels(dice, xyzc, given, False, fake)
        voxels = voxels.astype(data_type) if data_type not in DATA_TYPES else voxels
        order = ["xyzc".index(axis[0]) for axis in axes]
        turned = voxels.transpose(*order, *(axis for axis in range(4) if axis not in order))
        values = np.ascontiguousarray(turned.reshape(shape))
        chunk = tuple(
            dice.randint(min(n, 4), n) if axis[0] in "xyz" else n
            for axis, n in zip(axes, shape, strict=True)
        )
        shard = tuple(c * dice.choice([1, 2]) for c in chunk) if dice.random() < 0.5 else None
        source, target = self.folder / "array.zarr", self.folder / "from-array"

        def convert() -> None:
            array = zarr.create_array(
                source, shape=shape, dtype=data_type, chunks=chunk, shards=shard, dimension_names=axes
            )
            array[...] = values
            options = ["convert", str(source), str(target), "--to", "precomputed"]
            if data_type not in DATA_TYPES:
                said = self.commands.shardine.run(*options, status=2).stderr
                if data_type not in said or not one_error(said):
                    raise Failed(f"{data_type} is refused with {said!r}")
                if target.exists():
                    raise Failed(f"{data_type} is refused, and something is left")
                return
            self.commands.run(*options)
            self.commands.verify(target)
            for tool in (TensorStore(), CloudVolume()):
                self._compare(tool.name, 0, voxels, tool.read(target, self.case, 0), 0)

        self.outcome.configuration += f" array: {data_type} {axes} {shape} {chunk} {shard}"
        self._direction("zarr3 -> precomputed", convert)
