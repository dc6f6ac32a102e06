"""What a loss is shown with: a volume, a tool that damages it, and the commands that must notice."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.regions import Span, whole

from .container import Broken, home, ungzip
from .draw import Case, Json, Voxels
from .tools import CloudVolume, TensorStore, place, same
from .volumes import Commands, Failed


def sharding(preshift: int, minishard: int, shard: int, encoding: str = "gzip") -> Json:
    return {
        "@type": "neuroglancer_uint64_sharded_v1",
        "preshift_bits": preshift,
        "hash": "identity",
        "minishard_bits": minishard,
        "shard_bits": shard,
        "minishard_index_encoding": "gzip",
        "data_encoding": encoding,
    }


@dataclass
class Verdict:
    """What `verify` said."""

    status: int
    findings: list[Json]

    @property
    def damage(self) -> list[Json]:
        return [found for found in self.findings if found["severity"] == "damage"]

    def __str__(self) -> str:
        kinds = sorted({f"{found['severity']} {found['kind']}" for found in self.findings})
        return ", ".join(kinds) or "nothing"


class Bench:
    """A folder for one loss, and Shardine in it."""

    def __init__(self, program: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.program = folder, program
        self.commands = Commands(program, folder)
        self.tensorstore, self.cloud = TensorStore(), CloudVolume()

    def case(
        self,
        size: list[int],
        chunk: list[int],
        spec: Json | None,
        data_type: str = "uint8",
        **scale: Any,
    ) -> Case:
        """A volume of noise without a zero."""
        scale = {
            "key": "s0",
            "size": size,
            "resolution": [8, 8, 8],
            "chunk_sizes": [chunk],
            "encoding": "raw",
            **({"sharding": spec} if spec else {}),
            **scale,
        }
        kind = "image" if data_type in ("uint8", "uint16", "float32") else "segmentation"
        info = {"type": kind, "data_type": data_type, "num_channels": 1, "scales": [scale]}
        numbers = np.random.default_rng(7)
        voxels = numbers.integers(1, 255, (*size, 1)).astype(data_type)
        return Case(0, 0, info, [voxels], smooth=False)

    def write(self, case: Case, name: str = "volume") -> Path:
        """The volume as TensorStore stores it."""
        root = self.folder / name
        place(root, case)
        self.tensorstore.write_all(root, case, 0, case.dice("write"))
        return root

    def write_ours(self, case: Case, name: str, *, store_empty: bool = False) -> Path:
        """The volume as Shardine stores it."""
        root, voxels = self.folder / name, case.voxels[0]
        self.commands.create(root, case)
        dice = case.dice("ours")
        self.commands.write(root, voxels.shape, 0, whole(voxels.shape), voxels, dice, store_empty)
        return root

    def verify(self, root: Path, *options: str) -> Verdict:
        command = [str(self.program), "verify", str(root), "--decode", "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode not in (0, 1):
            raise Failed(f"verify ends with {done.returncode}: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        if report["ok"] != (done.returncode == 0):
            raise Failed(f"verify says ok: {report['ok']} and ends with {done.returncode}")
        return Verdict(done.returncode, report["findings"])

    def finds_damage(self, root: Path) -> str:
        verdict = self.verify(root)
        if verdict.status != 1 or not verdict.damage:
            raise Failed(f"verify calls it no damage: {verdict}")
        return str(verdict)

    def finds_something(self, root: Path) -> str:
        verdict = self.verify(root)
        if not verdict.findings:
            raise Failed("verify has nothing to say")
        return str(verdict)

    def repairs(self, root: Path, case: Case, tool: TensorStore | CloudVolume | None = None) -> str:
        """After `repair`, `verify` and another tool find everything."""
        self.commands.run("repair", str(root))
        verdict = self.verify(root)
        if verdict.damage:
            raise Failed(f"after repair verify still finds {verdict}")
        self.reads(root, case, "after repair", tool)
        return "mended"

    def reads(
        self, root: Path, case: Case, when: str, tool: TensorStore | CloudVolume | None = None
    ) -> None:
        """Another tool and Shardine itself read what the case says."""
        tool = tool or self.tensorstore
        found = same(case.voxels[0], tool.read(root, case, 0))
        if found:
            raise Failed(f"{when}, {tool.name} reads otherwise: {found}")
        voxels = case.voxels[0]
        got = self.commands.read(root, voxels.shape, 0, whole(voxels.shape), case.dice("read"))
        found = same(voxels, got)
        if found:
            raise Failed(f"{when}, shardine reads otherwise: {found}")

    def is_lost(self, root: Path, case: Case) -> None:
        """The tool must really have lost something, or the loss shows nothing."""
        try:
            got = self.tensorstore.read(root, case, 0)
        except ValueError:
            return
        if same(case.voxels[0], got) is None:
            raise Failed("nothing was lost; the tool does this right now")


def part(case: Case, start: int, stop: int) -> tuple[tuple[Span, ...], Voxels]:
    """A cube of the volume, and other voxels for it."""
    region = (*(Span(start, stop) for _ in range(3)), Span(0, 1))
    shape = (stop - start,) * 3 + (1,)
    return region, np.full(shape, 77, case.info["data_type"])


# --- meshes ---


def mesh_manifest(sizes: list[int]) -> bytes:
    """The manifest of a mesh of one level of detail, with fragments of these sizes."""
    header = np.array([1, 1, 1, 0, 0, 0], "<f4").tobytes() + np.array([1], "<u4").tobytes()
    level = np.array([1], "<f4").tobytes() + np.zeros(3, "<f4").tobytes()
    count = np.array([len(sizes)], "<u4").tobytes()
    return header + level + count + np.zeros(3 * len(sizes), "<u4").tobytes() + np.array(sizes, "<u4").tobytes()


def mesh_info(spec: Json) -> Json:
    return {
        "@type": "neuroglancer_multilod_draco",
        "vertex_quantization_bits": 10,
        "transform": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0],
        "lod_scale_multiplier": 1,
        "sharding": spec,
    }


def mesh_fragments(folder: Path, spec: Json, manifests: dict[int, bytes]) -> dict[int, bytes]:
    """What lies before each manifest, as far as its manifest says."""
    found = {}
    for key, manifest in manifests.items():
        name, minishard = home(spec, key)
        raw = (folder / name).read_bytes()
        base = 16 << spec["minishard_bits"]
        start, end = np.frombuffer(raw[:base], "<u8").reshape(-1, 2)[minishard].tolist()
        index = raw[base + start : base + end]
        index = ungzip(index) if spec.get("minishard_index_encoding") == "gzip" else index
        words = np.frombuffer(manifest, "<u4")
        at, wanted = base, sum(words[len(words) - _count(manifest) :].tolist())
        keys, offsets, sizes = np.frombuffer(index, "<u8").reshape(3, -1).tolist()
        current = 0
        for delta, offset, size in zip(keys, offsets, sizes, strict=True):
            current, at = current + delta, at + offset
            if current == key:
                found[key] = raw[at - wanted : at]
            at += size
        if key not in found:
            raise Broken(f"mesh {key} is not in {name}")
    return found


def _count(manifest: bytes) -> int:
    return int(np.frombuffer(manifest, "<u4", count=1, offset=28 + 16)[0])
