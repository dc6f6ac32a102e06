"""What `migrate` and `convert` make of a hierarchy, and what others say of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import judges, tree
from .program import Shardine

NEXT = {"0.4": ("0.5", "0.6"), "0.5": ("0.6",), "0.6": ()}
"""The versions that `migrate` makes of a version."""

PACKINGS: tuple[tuple[str, ...], ...] = ((), ("--shard", "none"), ("--target-size", "64KiB"))
"""What `convert` is given to pack chunks with."""


def zarr_format(version: str) -> int:
    return 2 if version == "0.4" else 3


class Source:
    """A hierarchy as another implementation wrote it, and what is in it."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.version = version
        self.meaning = tree.meaning(root)
        self.voxels = judges.voxels(root, zarr_format(version))
        self.files = tree.snapshot(root)

    @property
    def has_scene(self) -> bool:
        return any("scene" in group.ome for _, group in tree.groups(self.root))


def check_result(source: Source, root: Path, version: str, shardine: Shardine) -> Iterator[str]:
    """What is wrong with a hierarchy that should be the source in another version."""
    for who, what in judges.complaints(root, version):
        yield f"{who} minds: {what}"
    yield from judges.inconsistencies(root, version)
    found = tree.meaning(root, zarr_format(version))
    yield from list(tree.differences(source.meaning, found))[:5]
    voxels = judges.voxels(root, zarr_format(version))
    if voxels.keys() != source.voxels.keys():
        yield f"the levels are {sorted(voxels)}, not {sorted(source.voxels)}"
        return
    for key, elements in source.voxels.items():
        if elements.dtype != voxels[key].dtype or elements.tobytes() != voxels[key].tobytes():
            yield f"other voxels in {key}"
    report = shardine.verify(root)
    if not report.ok:
        yield f"verify minds: {report}"


def _v2_documents(root: Path) -> list[str]:
    return [str(p.relative_to(root)) for p in root.rglob(".z*") if p.name in tree.METADATA]


def migrate(source: Source, scratch: Path, shardine: Shardine) -> Iterator[str]:
    """Migrates copies of a hierarchy to every later version."""
    chunks = {k: v for k, v in source.files.items() if Path(k).name not in tree.METADATA}
    for version in NEXT[source.version]:
        root = scratch / f"migrated-{version}"
        shutil.copytree(source.root, root)
        shardine.run("migrate", root, "--ome-version", version)
        for what in check_result(source, root, version, shardine):
            yield f"migrate to {version}: {what}"
        if tree.snapshot(root, metadata=False) != chunks:
            yield f"migrate to {version}: chunks have changed"
        if source.version == "0.4" and _v2_documents(root):
            yield f"migrate to {version}: still there: {_v2_documents(root)[:3]}"
    if source.version == "0.4":
        yield from _migrate_beside(source, scratch, shardine)
        yield from _migrate_in_steps(scratch, shardine)


def _migrate_beside(source: Source, scratch: Path, shardine: Shardine) -> Iterator[str]:
    """With --keep-v2 both versions can be read, and the older one is as it was."""
    root = scratch / "beside"
    shutil.copytree(source.root, root)
    shardine.run("migrate", root, "--ome-version", "0.5", "--keep-v2")
    for what in check_result(source, root, "0.5", shardine):
        yield f"migrate --keep-v2: {what}"
    after = tree.snapshot(root)
    changed = [name for name, content in source.files.items() if after.get(name) != content]
    if changed:
        yield f"migrate --keep-v2: changed or gone: {changed[:3]}"
    yield from (
        f"migrate --keep-v2: version 0.4 then: {what}"
        for what in tree.differences(source.meaning, tree.meaning(root, 2))
    )
    old = judges.voxels(root, 2)
    if any(elements.tobytes() != old[key].tobytes() for key, elements in source.voxels.items()):
        yield "migrate --keep-v2: other voxels in version 0.4"


def _migrate_in_steps(scratch: Path, shardine: Shardine) -> Iterator[str]:
    """By way of 0.5 a hierarchy becomes what it becomes directly."""
    root = scratch / "steps"
    shutil.copytree(scratch / "migrated-0.5", root)
    shardine.run("migrate", root, "--ome-version", "0.6")
    steps, direct = (_documents(p) for p in (root, scratch / "migrated-0.6"))
    for name in sorted({*steps, *direct}):
        for what in list(tree.differences(direct.get(name), steps.get(name)))[:3]:
            yield f"migrate to 0.6 by way of 0.5: {name}: {what}"


def _documents(root: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(root)): json.loads(path.read_text()) for path in root.rglob("zarr.json")
    }


def convert(
    source: Source, scratch: Path, shardine: Shardine, packing: tuple[str, ...]
) -> Iterator[str]:
    """Converts a hierarchy to every version that can express it."""
    for version in ("0.6",) if source.has_scene else ("0.4", "0.5", "0.6"):
        root = scratch / f"converted-{version}"
        options = () if version == "0.4" else packing
        shardine.run("convert", source.root, root, "--to", "ome-zarr", "--ome-version", version, *options)
        for what in check_result(source, root, version, shardine):
            yield f"convert to {version} {' '.join(options)}: {what}"
        for name, content in source.files.items():
            if name.endswith(".xml") and (root / name).read_bytes() != content:
                yield f"convert to {version}: {name} is not what it was"
    if tree.snapshot(source.root) != source.files:
        yield "convert changed the source"
