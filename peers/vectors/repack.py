"""`shard`, `reshard` and `unshard` of stores that zarr-vectors has written."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

from ome.program import Shardine

from . import by_peer
from .cells import cells, document, inner_codecs, key_of
from .draw import Case
from .reading import peer_differences
from .stored import arrays, is_grid


class Before:
    """What must not change, whatever the packing."""

    def __init__(self, root: Path) -> None:
        known = set(arrays(root))
        self.groups = {
            path.parent: document(path.parent)
            for path in root.rglob("zarr.json")
            if path.parent not in known
        }
        self.grids = {array: _meaning(array) for array in known if is_grid(root, array)}
        self.others = {array: _kept(array) for array in known if not is_grid(root, array)}


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _plain(said: Any) -> Any:  # noqa: ANN401
    """A document without what means nothing: an empty configuration, an empty list of transformers."""
    if isinstance(said, list):
        return [_plain(item) for item in said]
    if isinstance(said, dict):
        empty = {"configuration": {}, "storage_transformers": []}
        return {key: _plain(item) for key, item in said.items() if empty.get(key) != item}
    return said


def _kept(array: Path) -> tuple[Any, dict[str, str]]:
    """An array that has no chunks of space: its document, and its objects byte by byte."""
    files = _files(array)
    files.pop("zarr.json")
    return _plain(document(array)), files


def _meaning(array: Path) -> dict[str, Any]:
    """What an array says, apart from how its cells are packed."""
    metadata = document(array)
    codecs, _ = inner_codecs(metadata)
    kept = {
        name: metadata[name]
        for name in ("shape", "data_type", "fill_value", "chunk_key_encoding", "attributes")
    }
    return {**kept, "codecs": _plain(codecs), "cells": cells(array)}


def unchanged(before: Before, root: Path, old: Path) -> list[str]:
    """How a store differs from what it was at `old`, packing aside."""
    told = []
    for group, said in before.groups.items():
        if _plain(document(root / group.relative_to(old))) != _plain(said):
            told.append(f"{group.relative_to(old)}/zarr.json says something else")
    for array, kept in before.others.items():
        if _kept(root / array.relative_to(old)) != kept:
            told.append(f"{array.relative_to(old)} has no chunks of space, but was changed")
    for array, meaning in before.grids.items():
        now = _meaning(root / array.relative_to(old))
        for name, was in meaning.items():
            if now[name] != was:
                shown = "" if name == "cells" else f": {str(now[name])[:200]}, was {str(was)[:200]}"
                told.append(f"{array.relative_to(old)}: {name} changed{shown}")
        listed = now["attributes"].get("nonempty_chunks")
        if listed is not None and listed != sorted(map(key_of, now["cells"])):
            told.append(f"{array.relative_to(old)}: nonempty_chunks is not what is stored")
    return told


def packed(root: Path, shard: list[int] | None) -> list[str]:
    """Whether every array of chunks is packed as was asked."""
    told = []
    for array in arrays(root):
        if not is_grid(root, array):
            continue
        metadata = document(array)
        now = inner_codecs(metadata)[1]
        wanted = shard
        if now != wanted:
            told.append(f"{array.relative_to(root)}: packed by {now}, not {wanted}")
    left = [path.name for path in root.parent.rglob(".shardine-*")]
    return told + ([f"left behind: {left[:3]}"] if left else [])


def check(case: Case, dice: random.Random, root: Path, shardine: Shardine) -> list[str]:
    """Packs a store again and again; its cells and documents stay what they are."""
    before = Before(root)
    rank = case.axes + (case.by_attribute is not None)
    told: list[str] = []
    steps = [
        ("shard", str(dice.choice([2, 4, 8]))),
        ("reshard", ",".join(str(dice.choice([1, 2, 3, 16])) for _ in range(rank))),
        ("reshard", dice.choice(["2", "none", "4"])),
        ("unshard", None),
        ("shard", "8"),
    ]
    if dice.random() < 0.5:
        steps = steps[1:]
    place = root
    for number, (verb, size) in enumerate(steps):
        arguments: list[Any] = [verb, place]
        target = place
        if dice.random() < 0.3:
            target = root.parent / f"step-{number}"
            arguments += ["-o", target]
        if size is not None:
            arguments += ["--chunks-per-shard", size]
        shardine.run(*arguments)
        shape = None
        if size not in (None, "none"):
            sizes = [int(n) for n in size.split(",")]
            shape = sizes * rank if len(sizes) == 1 else sizes
            shape = None if set(shape) == {1} else shape
        step = f"{verb} {size or ''}{' -o' if target != place else ''}"
        found = packed(target, shape) + unchanged(before, target, root)
        # The same again does nothing.
        once = _files(target)
        shardine.run(verb, target, *(["--chunks-per-shard", size] if size else []))
        if _files(target) != once:
            found.append("a second run changes files")
        found += [f"zarr-vectors after it: {text}" for text in peer_differences(case, target)]
        report = shardine.verify(target)
        if not report.ok:
            found.append(f"verify: {report}")
        told += [f"{step}: {text}" for text in found]
        if found:
            break
        place = target
    told += [f"zarr-vectors complains: {text}" for text in by_peer.complaints(place)]
    return told
