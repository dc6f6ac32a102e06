"""The sharded container as a key-value store: TensorStore and cloud-volume write and read the same keys."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import tensorstore as ts
from cloudvolume import CloudVolume as Cloud
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification

from harness.run import Outcome

from . import container
from .draw import BITS, Case, Json, draw_sharding
from .volumes import Commands, Failed, attempt

Values = dict[int, bytes]


def check_keys(case: Case, program: Path, folder: Path, outcome: Outcome) -> None:
    run = _KeyRun(case, program, folder / "keys")
    run.folder.mkdir()
    outcome.configuration += f" keys: {json.dumps(run.sharding)}"
    for direction, act in (
        ("tensorstore -> shardine kv", run.tool_writes),
        ("cloud-volume -> shardine kv", run.cloud_writes),
        ("shardine kv -> all", run.shardine_writes),
    ):
        reason = run.lacks() if direction.startswith("cloud") else None
        if reason:
            outcome.skipped.append(reason)
        elif attempt(outcome, direction, act):
            outcome.passed.append(direction)


class _KeyRun:
    def __init__(self, case: Case, program: Path, folder: Path) -> None:
        self.dice = case.dice("keys")
        self.folder = folder
        self.commands = Commands(program, folder)
        bits = self.dice.choice([name for name in BITS if name != "none"])
        self.sharding = draw_sharding(self.dice, self.dice.randint(0, 12), bits)
        self.values = _draw_values(self.dice, self.dice.choice([1, 5, 20, 60]))

    def lacks(self) -> str | None:
        """Why cloud-volume stays out."""
        if self.sharding["preshift_bits"] > 63:
            return "cloud-volume shifts by 63 bits at most"
        if self.sharding["minishard_bits"] + self.sharding["shard_bits"] > 63:
            return "cloud-volume takes a shard number of fewer than 64 bits"
        return None

    # --- directions ---

    def tool_writes(self) -> None:
        place = _Place(self.folder / "tensorstore", self.sharding, self.dice)
        store = place.tensorstore()
        for key, value in self.values.items():
            store.write(_name(key), value).result()
        self._agrees(place, self.values)
        self._changes(place, dict(self.values))

    def cloud_writes(self) -> None:
        place = _Place(self.folder / "cloud-volume", self.sharding, self.dice)
        spec = ShardingSpecification.from_dict(self.sharding)
        for name, shard in spec.synthesize_shards(dict(self.values)).items():
            (place.shards / name).write_bytes(shard)
        self._agrees(place, self.values)
        self._changes(place, dict(self.values))

    def shardine_writes(self) -> None:
        place = _Place(self.folder / "shardine", self.sharding, self.dice)
        self._put(place, self.values)
        self._agrees(place, self.values)
        self._judges(place, self.values)
        self._changes(place, dict(self.values))

    # --- parts ---

    def _changes(self, place: _Place, values: Values) -> None:
        """Keys are replaced, added and removed; then all must read the same."""
        changed = dict(self.dice.sample(list(values.items()), min(3, len(values))))
        changed = {key: value[::-1] + b"other" for key, value in changed.items()}
        changed |= _draw_values(self.dice, 3)
        self._put(place, changed)
        values |= changed
        self._judges(place, values)
        gone = self.dice.sample(list(values), min(self.dice.choice([1, 4, 1000]), len(values)))
        self.commands.run("kv", "rm", place.url, *map(str, gone), *place.options)
        for key in gone:
            del values[key]
        self._agrees(place, values)
        self._judges(place, values)

    def _put(self, place: _Place, values: Values) -> None:
        pairs = []
        for key, value in values.items():
            path = self.commands.shardine.file("value")
            path.write_bytes(value)
            pairs.append(f"{key}={path}")
        self.commands.run("kv", "put", place.url, *pairs, *place.options)

    def _agrees(self, place: _Place, values: Values) -> None:
        """What `ls` and `get` say."""
        keys = sorted(self.commands.keys(place.url, *place.options))
        if keys != sorted(values):
            raise Failed(f"kv ls has {len(keys)} keys instead of {len(values)}: {keys[:5]}")
        plain = self.commands.run("kv", "ls", place.url, *place.options).split()
        if not {str(key) for key in values} <= set(plain):
            raise Failed("kv ls without --json lists other keys")
        for key in self.dice.sample(list(values), min(4, len(values))):
            path = self.commands.shardine.file("got")
            get = ["kv", "get", place.url, str(key), "-o", str(path), "--overwrite", *place.options]
            self.commands.run(*get)
            if path.read_bytes() != values[key]:
                raise Failed(f"kv get {key} is not what was put")
            self.commands.run(*get, "--raw")
            stored = path.read_bytes()
            gzipped = self.sharding.get("data_encoding") == "gzip"
            if (container.ungzip(stored) if gzipped else stored) != values[key]:
                raise Failed(f"kv get --raw {key} is not what is stored")
        path = self.commands.shardine.file("got")
        missing = next(key for key in (7, 8, 9, *range(1000, 2000)) if key not in values)
        get = ["kv", "get", place.url, str(missing), "-o", str(path), "--overwrite", *place.options]
        self.commands.run(*get, status=2)

    def _judges(self, place: _Place, values: Values) -> None:
        """What the specification, TensorStore and cloud-volume make of it."""
        found = container.read_folder(place.shards, self.sharding)
        if found != values:
            raise Failed(f"the shards hold {len(found)} keys instead of {len(values)}")
        store = place.tensorstore()
        for key, value in values.items():
            got = store.read(_name(key)).result()
            if got.state != "value" or got.value != value:
                raise Failed(f"tensorstore reads {key} otherwise: {got.state}")
        if self.lacks() is None and values:
            reader, path = place.cloud_volume()
            got = reader.get_data(list(values), path=path)
            if {int(key): value for key, value in got.items()} != values:
                raise Failed("cloud-volume reads other values")


class _Place:
    """A folder of shards, and how Shardine is told of its sharding."""

    def __init__(self, root: Path, sharding: Json, dice: random.Random) -> None:
        self.root, self.sharding = root, sharding
        self.shards = root / "values"
        self.shards.mkdir(parents=True)
        self.url = str(self.shards)
        self.options: list[str] = []
        volume = {
            "type": "segmentation",
            "data_type": "uint64",
            "num_channels": 1,
            "scales": [
                {
                    "key": "values",
                    "size": [2**20] * 3,
                    "resolution": [1, 1, 1],
                    "chunk_sizes": [[1, 1, 1]],
                    "encoding": "raw",
                    "sharding": sharding,
                }
            ],
        }
        way = dice.choice(["own", "above", "option", "file"])
        # cloud-volume always looks above.
        (root / "info").write_text(json.dumps(volume))
        if way == "own":
            own = {"@type": "neuroglancer_skeletons", "sharding": sharding}
            (self.shards / "info").write_text(json.dumps(own))
        elif way == "option":
            self.options = ["--sharding", json.dumps(sharding)]
        elif way == "file":
            (root / "sharding.json").write_text(json.dumps(sharding))
            self.options = ["--sharding", f"@{root / 'sharding.json'}"]

    def tensorstore(self) -> Any:
        spec = {
            "driver": "neuroglancer_uint64_sharded",
            "metadata": self.sharding,
            "base": {"driver": "file", "path": f"{self.shards}/"},
        }
        return ts.KvStore.open(spec).result()

    def cloud_volume(self) -> tuple[Any, str]:
        volume = Cloud(f"file://{self.root}", progress=False)
        return volume.image.shard_reader(0), "values"


def _name(key: int) -> bytes:
    """A key as TensorStore has it."""
    return struct.pack(">Q", key)


def _draw_values(dice: random.Random, count: int) -> Values:
    """Keys near each other, far away, and at the ends of what there is."""
    values: Values = {}
    while len(values) < count:
        key = dice.choice([dice.randrange(100), dice.randrange(2**20), dice.getrandbits(64)])
        key = dice.choice([key, key, key, 2**64 - 1, 0])
        size = dice.choice([1, 7, 100, 100, 3000])
        values[key] = dice.choice([dice.randbytes(size), bytes(size)])
    return values
