"""Reads the documents of a hierarchy as they lie there, without any library, and says what they mean.

`meaning` is the same for a hierarchy in each version that can express it. Where a voxel lies is computed
here from the transformations: coordinates of OME-Zarr are those of the centres of voxels.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOLERANCE = 1e-9

OBJECTS = (
    "multiscales",
    "omero",
    "labels",
    "image-label",
    "plate",
    "well",
    "bioformats2raw.layout",
    "series",
    "scene",
)

SPELLING = ("axes", "datasets", "coordinateSystems", "coordinateTransformations", "version")
"""The parts of a multiscale that each version has in its own way."""


@dataclass
class Group:
    """A group, and its metadata as OME-Zarr sees it."""

    path: Path
    zarr_format: int
    attributes: dict[str, Any]

    @property
    def namespaced(self) -> bool:
        return self.zarr_format == 3 and isinstance(self.attributes.get("ome"), dict)

    @property
    def ome(self) -> dict[str, Any]:
        found = self.attributes["ome"] if self.namespaced else self.attributes
        return {key: value for key, value in found.items() if key in OBJECTS}

    @property
    def version(self) -> str | None:
        """What the group says its version is."""
        if self.namespaced:
            return self.attributes["ome"].get("version")
        for described in (*_objects(self.ome.get("multiscales")), *self.ome.values()):
            if isinstance(described, dict) and "version" in described:
                return described["version"]
        return None

    @property
    def other(self) -> dict[str, Any]:
        """The attributes that are not OME-Zarr's."""
        keys = {"ome"} if self.namespaced else set(OBJECTS)
        return {key: value for key, value in self.attributes.items() if key not in keys}


def _objects(value: Any) -> list[Any]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _load(path: Path) -> Any:
    return json.loads(path.read_text())


def read_group(path: Path, zarr_format: int | None = None) -> Group | None:
    """The group at a path, if there is one. Version 3 of Zarr goes before version 2."""
    if zarr_format != 2 and (path / "zarr.json").exists():
        document = _load(path / "zarr.json")
        if document["node_type"] != "group":
            return None
        return Group(path, 3, document.get("attributes", {}))
    if zarr_format != 3 and (path / ".zgroup").exists():
        attributes = _load(path / ".zattrs") if (path / ".zattrs").exists() else {}
        return Group(path, 2, attributes)
    return None


def groups(root: Path, zarr_format: int | None = None) -> Iterator[tuple[str, Group]]:
    """Every group of a hierarchy, by its path below the root, in order."""
    for folder, names, _ in os.walk(root):
        names.sort()
        group = read_group(Path(folder), zarr_format)
        if group is None:
            if Path(folder) != root:
                names.clear()
            continue
        where = Path(folder).relative_to(root)
        yield ("" if where == Path() else str(where)), group


@dataclass
class Level:
    """An array of an image and where its voxels are."""

    path: str
    shape: list[int]
    dtype: str
    scale: list[float]
    offset: list[float]
    names: list[str] | None
    """The names of the dimensions in Zarr's own metadata."""

    def centre(self, index: list[float]) -> list[float]:
        """The physical position of the centre of a voxel."""
        return [i * s + o for i, s, o in zip(index, self.scale, self.offset, strict=True)]


TYPES = {"i1": "int8", "u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32", "u4": "uint32"} | {
    "i8": "int64",
    "u8": "uint64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
}


def array_metadata(path: Path, zarr_format: int | None = None) -> tuple[list[int], str, list[str] | None]:
    """Shape, type and names of the dimensions of an array."""
    if zarr_format != 2 and (path / "zarr.json").exists():
        document = _load(path / "zarr.json")
        return document["shape"], document["data_type"], document.get("dimension_names")
    document = _load(path / ".zarray")
    return document["shape"], TYPES[document["dtype"][1:]], None


def _apply(steps: list[dict[str, Any]], scale: list[float], offset: list[float]) -> None:
    """Composes steps with what is already there, in place."""
    for step in steps:
        if step["type"] == "scale":
            for n, factor in enumerate(step["scale"]):
                scale[n] *= factor
                offset[n] *= factor
        elif step["type"] == "translation":
            for n, move in enumerate(step["translation"]):
                offset[n] += move
        elif step["type"] == "sequence":
            _apply(step["transformations"], scale, offset)
        elif step["type"] != "identity":
            raise ValueError(f"a level with a transformation of type {step['type']}")


def axes_of(multiscale: dict[str, Any]) -> list[dict[str, Any]]:
    """The axes of an image: in version 0.6 those of the coordinate system that the levels lead to."""
    if "coordinateSystems" not in multiscale:
        return multiscale["axes"]
    outputs = {
        step["output"]["name"]
        for dataset in multiscale["datasets"]
        for step in dataset["coordinateTransformations"]
    }
    (intrinsic,) = outputs
    (found,) = (s for s in multiscale["coordinateSystems"] if s["name"] == intrinsic)
    return found["axes"]


def levels_of(
    group: Path, multiscale: dict[str, Any], zarr_format: int | None = None
) -> list[Level]:
    """The levels of an image, with their positions."""
    levels = []
    newest = "coordinateSystems" in multiscale
    for dataset in multiscale["datasets"]:
        shape, dtype, names = array_metadata(group / dataset["path"], zarr_format)
        scale, offset = [1.0] * len(shape), [0.0] * len(shape)
        _apply(dataset["coordinateTransformations"], scale, offset)
        if not newest:
            _apply(multiscale.get("coordinateTransformations", []), scale, offset)
        levels.append(Level(dataset["path"], shape, dtype, scale, offset, names))
    return levels


def meaning(root: Path, zarr_format: int | None = None) -> dict[str, Any]:
    """What the documents of a hierarchy say, whatever their version is."""
    told: dict[str, Any] = {}
    for path, group in groups(root, zarr_format):
        said: dict[str, Any] = {
            key: value for key, value in group.ome.items() if key not in ("multiscales", "scene")
        }
        for key in ("plate", "well", "image-label", "omero"):
            if isinstance(said.get(key), dict):
                said[key] = {k: v for k, v in said[key].items() if k != "version"}
        images = []
        for multiscale in group.ome.get("multiscales", []):
            image = {key: value for key, value in multiscale.items() if key not in SPELLING}
            image["axes"] = [
                {key: a[key] for key in ("name", "type", "unit") if key in a}
                for a in axes_of(multiscale)
            ]
            image["levels"] = [
                {"shape": level.shape, "scale": level.scale, "offset": level.offset, "dtype": level.dtype}
                for level in levels_of(group.path, multiscale, zarr_format)
            ]
            images.append(image)
        if images:
            said["images"] = images
        if group.other:
            said["other"] = group.other
        if said:
            told[path] = said
    return told


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where two meanings differ. Numbers may differ by what rounding does."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            here = f"{where}/{key}"
            if key not in found:
                yield f"{here} is gone: {expected[key]!r}"[:300]
            elif key not in expected:
                yield f"{here} was not there: {found[key]!r}"[:300]
            else:
                yield from differences(expected[key], found[key], here)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for n, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{where}[{n}]")
    elif _is_number(expected) and _is_number(found):
        if abs(expected - found) > TOLERANCE * max(1.0, abs(expected)):
            yield f"{where} was {expected!r}, is {found!r}"
    elif expected != found:
        yield f"{where} was {expected!r}, is {found!r}"[:300]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def level_arrays(root: Path, zarr_format: int | None = None) -> Iterator[tuple[str, int, int, Path, Level]]:
    """Every level of every image: its group, the number of the multiscale, of the level, and the array."""
    for path, group in groups(root, zarr_format):
        for number, multiscale in enumerate(group.ome.get("multiscales", [])):
            for n, level in enumerate(levels_of(group.path, multiscale, zarr_format)):
                yield path, number, n, group.path / level.path, level


METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def snapshot(root: Path, metadata: bool = True) -> dict[str, bytes]:
    """Every file of a hierarchy; without its metadata, only the chunks and what else lies there."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and (metadata or path.name not in METADATA)
    }
