"""One volume in every direction: another tool writes and Shardine reads and updates, and back."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.peers import PeerError, Shardine
from harness.regions import Region, slices_of, spell, whole
from harness.run import Outcome

from . import container
from .draw import BITS, OURS, Case, Json, Voxels, draw_sharding
from .tools import CloudVolume, TensorStore, place, same

LOSSY = 12
"""How far a voxel of smooth data may be off after jpeg."""
DECODERS = 3
"""How far two decoders of the same jpeg may differ."""

Tool = TensorStore | CloudVolume


class Failed(Exception):
    """What differs."""


def attempt(outcome: Outcome, direction: str, act: Callable[[], None]) -> bool:
    """Whether a direction came out; if not, the outcome says why."""
    try:
        act()
    except (Failed, PeerError, container.Broken) as error:
        outcome.failed.append((direction, str(error)))
        return False
    except Exception as error:  # noqa: BLE001
        outcome.failed.append((direction, f"{type(error).__name__}: {str(error)[:600]}"))
        return False
    return True


def one_error(said: str) -> bool:
    """Whether standard error has one error; hints may follow it."""
    lines = said.strip().splitlines()
    return lines[0].startswith("error: ") and all(line.startswith("hint: ") for line in lines[1:])


class Commands:
    """Shardine on volumes, with every spelling drawn by the dice."""

    def __init__(self, program: Path, scratch: Path) -> None:
        self.shardine = Shardine(program, scratch)

    def run(self, *arguments: str, status: int = 0) -> str:
        return self.shardine.run(*arguments, status=status).stdout

    def create(self, root: Path, case: Case) -> None:
        path = self.shardine.file("json")
        path.write_text(json.dumps(case.info))
        self.run("create", str(root), "--metadata", str(path))

    def read(
        self, root: Path, shape: tuple[int, ...], level: int, region: Region, dice: random.Random
    ) -> Voxels:
        path = self.shardine.file("npy")
        options = self._options(shape, level, region, dice)
        self.run("read", str(root), *options, "-o", str(path), "--overwrite")
        return np.load(path)

    def write(
        self,
        root: Path,
        shape: tuple[int, ...],
        level: int,
        region: Region,
        voxels: Voxels,
        dice: random.Random,
        store_empty: bool = False,
    ) -> None:
        path = self.shardine.file("npy")
        np.save(path, np.asfortranarray(voxels) if dice.random() < 0.5 else voxels.copy("C"))
        options = self._options(shape, level, region, dice)
        options += ["--store-empty"] if store_empty else []
        self.run("write", str(root), *options, str(path))

    def verify(self, root: Path) -> None:
        done = self.shardine.run("verify", str(root), "--decode", "--json")
        report = json.loads(done.stdout)
        if not report["ok"]:
            raise Failed(f"verify finds {report['findings']}")

    def keys(self, url: str, *options: str) -> list[int]:
        """The keys of a folder of shards, one document a line."""
        lines = self.run("kv", "ls", url, "--json", *options).splitlines()
        return [int(json.loads(line)["key"]) for line in lines]

    @staticmethod
    def _options(
        shape: tuple[int, ...], level: int, region: Region, dice: random.Random
    ) -> list[str]:
        options = ["--level", str(level)] if level or dice.random() < 0.3 else []
        text = spell(dice, region, shape)
        if text is not None:
            options.append(f"--region={text}")
        if dice.random() < 0.3:
            options += ["--threads", str(dice.choice([1, 2, 5]))]
        return options


class VolumeRun:
    """All directions of one case."""

    def __init__(self, case: Case, program: Path | None, folder: Path, outcome: Outcome) -> None:
        self.case, self.folder, self.outcome = case, folder, outcome
        self.commands = Commands(program, folder) if program else None
        self.tools: list[Tool] = [TensorStore(), CloudVolume()]
        self.tolerance = LOSSY if case.smooth else 0

    def all(self) -> None:
        if self.commands is None:
            for writer in self.tools:
                self._among_tools(writer)
            return
        for writer in self.tools:
            self._tool_writes(writer, self.commands)
        self._shardine_writes(self.commands)

    # --- parts ---

    def _levels(self, *tools: Tool) -> list[int]:
        """The scales that all of these can handle; says why the others are left out."""
        able = []
        for level in range(len(self.case.voxels)):
            reasons = [(tool.name, tool.lacks(self.case, level)) for tool in tools]
            told = [f"{name} {reason}" for name, reason in reasons if reason]
            self.outcome.skipped += told
            if not told:
                able.append(level)
        return able

    def _count(self, direction: str, act: Callable[[], None]) -> bool:
        done = attempt(self.outcome, direction, act)
        if done:
            self.outcome.passed.append(direction)
        return done

    def _compare(self, who: str, level: int, want: Voxels, got: Voxels, tolerance: int) -> None:
        found = same(want, got, tolerance)
        if found:
            raise Failed(f"{who} reads scale {level} otherwise: {found}")

    # --- directions ---

    def _among_tools(self, writer: Tool) -> None:
        """Without Shardine: tests the tests."""
        for reader in self.tools:
            root = self.folder / f"{writer.name}-{reader.name}"
            place(root, self.case)

            def act(reader: Tool = reader, root: Path = root) -> None:
                for level in self._levels(writer, reader):
                    if reader is not writer and isinstance(writer, CloudVolume):
                        if not self.case.scale(level).get("sharding"):
                            self.outcome.skipped.append("tensorstore does not see .gz files")
                            continue
                    writer.write_all(root, self.case, level, self.case.dice("write"))
                    got = reader.read(root, self.case, level)
                    self._compare(reader.name, level, self.case.voxels[level], got, self.tolerance)

            if self._levels(writer, reader):
                self._count(f"{writer.name} -> {reader.name}", act)

    def _tool_writes(self, writer: Tool, commands: Commands) -> None:
        levels = self._levels(writer)
        if not levels:
            return
        case, root = self.case, self.folder / writer.name
        place(root, case)

        def write() -> None:
            for level in levels:
                writer.write_all(root, case, level, case.dice(f"write {level}"))

        if not attempt(self.outcome, f"{writer.name} writes", write):
            return
        unknown = self._refused(root, levels[0], commands)
        if unknown:
            self.outcome.skipped.append(unknown)
            return
        stored = {level: writer.read(root, case, level) for level in levels}

        def read() -> None:
            for level in levels:
                dice = case.dice(f"read {level}")
                shape = case.voxels[level].shape
                for region in [whole(shape), case.region(level, dice), case.region(level, dice)]:
                    got = commands.read(root, shape, level, region, dice)
                    want = stored[level][slices_of(region)]
                    self._compare("shardine", level, want, got, DECODERS if case.smooth else 0)
                    want = case.voxels[level][slices_of(region)]
                    self._compare("shardine", level, want, got, self.tolerance)
            if len(levels) == len(case.voxels):
                commands.verify(root)

        if not self._count(f"{writer.name} -> shardine", read):
            return
        self._packed_anew(writer, root, levels, stored, commands)
        if case.scale(levels[0])["encoding"] not in OURS:
            return

        def update() -> None:
            for level in levels:
                want = stored[level].copy()
                for number in range(2):
                    region, voxels = case.update(level, number)
                    dice = case.dice(f"dice {level} {number}")
                    commands.write(root, want.shape, level, region, voxels, dice)
                    want[slices_of(region)] = voxels
                self._compare(writer.name, level, want, writer.read(root, case, level), self.tolerance)
                if case.smooth:
                    self._untouched(writer, root, level, stored[level])
            if len(levels) == len(case.voxels):
                commands.verify(root)

        self._count(f"{writer.name} + shardine -> {writer.name}", update)

    def _packed_anew(
        self,
        writer: Tool,
        root: Path,
        levels: list[int],
        stored: dict[int, Voxels],
        commands: Commands,
    ) -> None:
        """One scale is packed in another way; all of them read the same."""
        case = self.case
        dice = case.dice(f"packing {writer.name}")
        level = dice.choice(levels)
        here = self.folder / f"{writer.name}-packed"
        shutil.copytree(root, here)
        there = here if dice.random() < 0.5 else self.folder / f"{writer.name}-target"
        place = [] if there == here else ["-o", str(there)]
        info = json.loads((root / "info").read_text())
        wanted = copy.deepcopy(info)
        bits = dice.choice(BITS)
        if bits == "none":
            wanted["scales"][level].pop("sharding", None)
            words = ["unshard"]
        else:
            cells = list(self._cells(level))[-1]
            spec = draw_sharding(dice, sum(n.bit_length() for n in cells), bits)
            wanted["scales"][level]["sharding"] = spec
            words = [dice.choice(["reshard", "shard"]), "--sharding", json.dumps(spec)]

        def pack() -> None:
            commands.run(words[0], str(here), "--level", str(level), *words[1:], *place)
            if _plain(json.loads((there / "info").read_text())) != _plain(wanted):
                raise Failed(f"info is {(there / 'info').read_text()}")
            commands.verify(there)
            after = Case(case.seed, case.index, wanted, case.voxels, case.smooth)
            for reader in self.tools:
                for number in levels:
                    sharded = wanted["scales"][number].get("sharding")
                    # Of an unsharded scale that was left alone, files may have .gz behind their names.
                    apart = isinstance(writer, CloudVolume) and not isinstance(reader, CloudVolume)
                    if reader.lacks(after, number) or (apart and not sharded):
                        continue
                    got = reader.read(there, after, number)
                    tolerance = DECODERS if case.smooth else 0
                    self._compare(reader.name, number, stored[number], got, tolerance)

        self._count(f"{writer.name}, packed anew -> all", pack)

    def _refused(self, root: Path, level: int, commands: Commands) -> str | None:
        """Why Shardine does not take part, if it says so in one line that names the encoding."""
        encoding = self.case.scale(level)["encoding"]
        if encoding in OURS:
            return None
        path = commands.shardine.file("npy")
        read = ["read", str(root), "--level", str(level), "-o", str(path), "--overwrite"]
        try:
            commands.run(*read)
        except PeerError:
            done = commands.shardine.run(*read, status=2)
            if encoding in done.stderr and one_error(done.stderr):
                return f"shardine does not know {encoding}"
        return None

    def _untouched(self, tool: Tool, root: Path, level: int, before: Voxels) -> None:
        """Chunks beside an update are as they were, bit for bit, though encoding them anew would lose something."""
        touched = np.zeros(before.shape, bool)
        for number in range(2):
            touched[slices_of(self.case.update(level, number)[0])] = True
        after = tool.read(root, self.case, level)
        if (after != before)[~touched].any():
            raise Failed(f"chunks of scale {level} that no update touched are others now")

    def _shardine_writes(self, commands: Commands) -> None:
        case, root = self.case, self.folder / "shardine"
        if case.scale(0)["encoding"] not in OURS:
            return
        dice = case.dice("shardine")
        store_empty = dice.random() < 0.4
        wanted: list[Voxels] = []

        def write() -> None:
            commands.create(root, case)
            for level, voxels in enumerate(case.voxels):
                shape = voxels.shape
                parts = [whole(shape)]
                if dice.random() < 0.3 and not case.smooth:
                    parts = [case.region(level, dice) for _ in range(3)]
                want = np.zeros_like(voxels)
                for part in parts:
                    given = voxels[slices_of(part)]
                    commands.write(root, shape, level, part, given, dice, store_empty)
                    want[slices_of(part)] = given
                for number in range(2):
                    region, given = case.update(level, number)
                    commands.write(root, shape, level, region, given, dice, store_empty)
                    want[slices_of(region)] = given
                wanted.append(want)
                got = commands.read(root, shape, level, whole(shape), dice)
                self._compare("shardine", level, want, got, self.tolerance)
            if json.loads((root / "info").read_text()) != case.info:
                raise Failed("info is not what create was given")
            commands.verify(root)

        if not self._count("shardine -> shardine", write):
            return

        def look() -> None:
            for level, want in enumerate(wanted):
                self._look(root, level, want, store_empty)

        self._count("shardine -> the specification", look)
        for reader in self.tools:

            def read(reader: Tool = reader) -> None:
                for level in self._levels(reader):
                    if isinstance(reader, CloudVolume):
                        # Of what was written in parts, chunks may be missing all the same.
                        full = store_empty and self._all_there(root, level)
                        got = reader.read(root, case, level, fill_missing=not full)
                    else:
                        got = reader.read(root, case, level)
                    self._compare(reader.name, level, wanted[level], got, self.tolerance)

            if self._levels(reader):
                self._count(f"shardine -> {reader.name}", read)

    # --- the bytes ---

    def _cells(self, level: int) -> dict[tuple[int, ...], tuple[slice, ...]]:
        scale = self.case.scale(level)
        chunk, size = scale["chunk_sizes"][0], scale["size"]
        grid = [-(-n // c) for n, c in zip(size, chunk, strict=True)]
        return {
            cell: tuple(
                slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(cell, chunk, size, strict=True)
            )
            for cell in np.ndindex(*grid)
        }

    def _stored(self, root: Path, level: int) -> dict[tuple[int, ...], bytes]:
        """The chunks that are stored, by their cells."""
        scale = self.case.scale(level)
        folder = root / scale["key"]
        cells = self._cells(level)
        grid = tuple(max(axis) + 1 for axis in zip(*cells, strict=True))
        if scale.get("sharding"):
            keys = {container.morton(cell, grid): cell for cell in cells}
            values = container.read_folder(folder, scale["sharding"])
        else:
            at = scale.get("voxel_offset", [0, 0, 0])
            keys = {
                "_".join(f"{o + s.start}-{o + s.stop}" for o, s in zip(at, box, strict=True)): cell
                for cell, box in cells.items()
            }
            files = folder.iterdir() if folder.exists() else []
            values = {path.name: path.read_bytes() for path in files}
        strange = values.keys() - keys.keys()
        if strange:
            raise Failed(f"scale {level} holds {sorted(strange)[:5]}, which no cell has")
        return {keys[key]: value for key, value in values.items()}

    def _all_there(self, root: Path, level: int) -> bool:
        return len(self._stored(root, level)) == len(self._cells(level))

    def _look(self, root: Path, level: int, want: Voxels, store_empty: bool) -> None:
        stored = self._stored(root, level)
        for cell, box in self._cells(level).items():
            raw = want[box].tobytes("F")
            empty = not any(raw)
            if cell not in stored and not empty:
                raise Failed(f"chunk {cell} of scale {level} is missing")
            if cell in stored and empty and not store_empty:
                raise Failed(f"chunk {cell} of scale {level} is stored, and zero")
            if cell in stored and self.case.scale(level)["encoding"] == "raw" and stored[cell] != raw:
                raise Failed(f"chunk {cell} of scale {level} has other bytes")


def _plain(info: Json) -> Json:
    """An `info` with what may be left out left out."""
    info = copy.deepcopy(info)
    for scale in info["scales"]:
        if scale.get("sharding") is None:
            scale.pop("sharding", None)
            continue
        for name in ("minishard_index_encoding", "data_encoding"):
            scale["sharding"].setdefault(name, "raw")
    return info


def check_volume(case: Case, program: Path | None, folder: Path, outcome: Outcome) -> None:
    VolumeRun(case, program, folder, outcome).all()


def clean(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
