"""Breaks hierarchies that are in order, one rule at a time, and looks whether `verify` notices.

The documents of `own.py` are put in the place of the one in a hierarchy that is in order; below are the
rules that a document alone cannot break.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from . import own
from .documents import VERSIONS, Document
from .program import Shardine

AXES = "tczyx"
SHAPE = (2, 2, 4, 8, 8)


class Hierarchy:
    """A hierarchy on disk whose documents can be changed."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.version = version
        self.zarr_format: Any = 2 if version == "0.4" else 3

    def _document(self, path: str) -> tuple[Path, str | None]:
        """The file with the attributes of a group, and the key they are under."""
        if self.version == "0.4":
            return self.root / path / ".zattrs", None
        return self.root / path / "zarr.json", "attributes"

    def attributes(self, path: str) -> dict[str, Any]:
        file, key = self._document(path)
        document = json.loads(file.read_text())
        return document[key] if key else document

    def replace(self, path: str, attributes: dict[str, Any]) -> None:
        file, key = self._document(path)
        document = attributes
        if key:
            document = json.loads(file.read_text()) | {key: attributes}
        file.write_text(json.dumps(document))

    def change(self, path: str, edit: Callable[[dict[str, Any]], None]) -> None:
        """Edits the objects of OME-Zarr in a group."""
        attributes = self.attributes(path)
        edit(attributes if self.version == "0.4" else attributes["ome"])
        self.replace(path, attributes)

    def group(self, path: str, attributes: dict[str, Any] | None = None) -> None:
        target = self.root / path
        zarr.create_group(target, zarr_format=self.zarr_format, attributes=attributes or {}, overwrite=True)

    def array(self, path: str, shape: tuple[int, ...], dtype: str = "u2", names: str = "") -> None:
        options: dict[str, Any] = {"zarr_format": self.zarr_format, "overwrite": True}
        if self.zarr_format == 2:
            options["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
        elif names:
            options["dimension_names"] = list(names)
        target = self.root / path
        if not target.is_relative_to(self.root):
            raise ValueError(f"{path} is not below the hierarchy")
        array = zarr.create_array(
            target, shape=shape, dtype=dtype, chunks=shape, fill_value=0, **options
        )
        array[...] = np.arange(np.prod(shape)).reshape(shape).astype(dtype)

    def remove(self, path: str) -> None:
        shutil.rmtree(self.root / path)

    def image(self, path: str, kind: str = "image", axes: str = AXES, levels: int = 2) -> None:
        document = Document(self.version, kind, axes, levels)
        if "c" not in axes and "omero" in document.ome:
            del document.ome["omero"]
        self.group(path, document.attributes)
        for level in range(levels):
            sizes = dict(zip(AXES, SHAPE, strict=True))
            shape = tuple(sizes[a] >> (level if a in "zyx" else 0) for a in axes)
            # A path that begins with a slash would lead out of the hierarchy.
            self.array(f"{path}/{level}".lstrip("/"), shape, "u4" if kind == "label" else "u2", axes)


def _image(there: Hierarchy, axes: str = AXES, levels: int = 2) -> None:
    there.image("", "image", axes, levels)
    labels = Document(there.version, "labels")
    labels.ome["labels"] = ["cells"]
    there.group("labels", labels.attributes)
    there.image("labels/cells", "label", axes, levels)


def _plate(there: Hierarchy) -> None:
    plate = Document(there.version, "plate")
    there.group("", plate.attributes)
    for row in "AB":
        there.group(row)
    for well in plate.plate["wells"]:
        there.group(well["path"], Document(there.version, "well").attributes)
        for field in "01":
            there.image(f"{well['path']}/{field}")


def _bf2raw(there: Hierarchy) -> None:
    there.group("", Document(there.version, "bf2raw").attributes)
    there.group("OME", Document(there.version, "series").attributes)
    (there.root / "OME/METADATA.ome.xml").write_text(
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        '<Image ID="Image:0"/><Image ID="Image:1"/></OME>'
    )
    for name in "01":
        there.image(name)


MAKE: dict[str, Callable[[Hierarchy], None]] = {"image": _image, "plate": _plate, "bf2raw": _bf2raw}

FIXTURES = [(kind, version) for kind in MAKE for version in VERSIONS]

PLACES = {
    "image": ("image", ""),
    "label": ("image", "labels/cells"),
    "labels": ("image", "labels"),
    "plate": ("plate", ""),
    "well": ("plate", "A/2"),
    "bf2raw": ("bf2raw", ""),
    "series": ("bf2raw", "OME"),
}
"""The hierarchy and the group in it for each kind of document."""


@dataclass(frozen=True)
class Break:
    """A change to a hierarchy, and what `verify` has to say of it."""

    change: Callable[[Hierarchy], None]
    expected: str
    kind: str
    versions: tuple[str, ...]


BREAKS: list[Break] = []


def breaks(
    kind: str, versions: tuple[str, ...] = VERSIONS, expected: str = "damage"
) -> Callable[[Callable[[Hierarchy], None]], Callable[[Hierarchy], None]]:
    def register(change: Callable[[Hierarchy], None]) -> Callable[[Hierarchy], None]:
        BREAKS.append(Break(change, expected, kind, versions))
        return change

    return register


NEW = ("0.5", "0.6")


@breaks("image")
def level_is_missing(there: Hierarchy) -> None:
    """Each level that is listed is there."""
    there.remove("1")


@breaks("image")
def level_is_a_group(there: Hierarchy) -> None:
    """A level is an array."""
    there.remove("1")
    there.group("1")


@breaks("image")
def level_has_too_few_axes(there: Hierarchy) -> None:
    """An array has as many dimensions as there are axes."""
    there.array("1", (2, 2, 8, 8), names="tcyx")


@breaks("image")
def coarsest_level_first(there: Hierarchy) -> None:
    """The levels go from the finest to the coarsest."""
    there.change("", lambda ome: ome["multiscales"][0]["datasets"].reverse())


@breaks("image", versions=("0.6",))
def levels_of_different_types(there: Hierarchy) -> None:
    """All levels have the same type."""
    there.array("1", (2, 2, 2, 4, 4), "f4", AXES)


@breaks("image", versions=("0.5",))
def dimensions_without_names(there: Hierarchy) -> None:
    """The dimensions of a level have names."""
    there.array("0", SHAPE)


@breaks("image", versions=("0.5",))
def dimensions_with_other_names(there: Hierarchy) -> None:
    """The dimensions of a level are called as the axes are."""
    there.array("1", (2, 2, 2, 4, 4), names="tczxy")


@breaks("image", versions=NEW)
def labels_of_another_version(there: Hierarchy) -> None:
    """A hierarchy is of one version."""
    other = "0.6" if there.version == "0.5" else "0.5"
    document = Document(other, "labels")
    document.ome["labels"] = ["cells"]
    there.replace("labels", document.attributes)


@breaks("image")
def label_is_missing(there: Hierarchy) -> None:
    """Each label image that is listed is there."""
    there.remove("labels/cells")


@breaks("image")
def label_without_multiscales(there: Hierarchy) -> None:
    """A label image is an image."""
    there.change("labels/cells", lambda ome: ome.pop("multiscales"))


@breaks("image", versions=NEW)
def label_of_fractions(there: Hierarchy) -> None:
    """Labels are integers."""
    for level, shape in enumerate((SHAPE, (2, 2, 2, 4, 4))):
        there.array(f"labels/cells/{level}", shape, "f4", AXES)


@breaks("image")
def label_with_fewer_levels(there: Hierarchy) -> None:
    """A label image has as many levels as the image."""
    there.change("labels/cells", lambda ome: ome["multiscales"][0]["datasets"].pop())


@breaks("image", versions=NEW)
def folder_of_labels_with_metadata(there: Hierarchy) -> None:
    """A folder between the labels and a label image has no metadata."""
    there.group("labels/folder", {"ome": {"version": there.version, "labels": ["nuclei"]}})
    there.image("labels/folder/nuclei", "label")
    there.change("labels", lambda ome: ome["labels"].append("folder/nuclei"))


@breaks("image", versions=NEW, expected="notice")
def label_that_is_not_listed(there: Hierarchy) -> None:
    """A label image should be listed."""
    there.image("labels/nuclei", "label")


@breaks("plate")
def well_is_missing(there: Hierarchy) -> None:
    """Each well that is listed is there."""
    there.remove("B/3")


@breaks("plate")
def well_without_metadata(there: Hierarchy) -> None:
    """A well lists its fields."""
    there.group("A/3")


@breaks("plate")
def field_is_missing(there: Hierarchy) -> None:
    """Each field that is listed is there."""
    there.remove("A/1/1")


@breaks("plate")
def field_without_multiscales(there: Hierarchy) -> None:
    """A field is an image."""
    there.group("A/1/1")


@breaks("plate")
def field_without_acquisition(there: Hierarchy) -> None:
    """If there are several acquisitions, a field says which it is of."""
    there.change("A/1", lambda ome: ome["well"]["images"][0].pop("acquisition"))


@breaks("plate")
def field_of_an_acquisition_that_is_not_there(there: Hierarchy) -> None:
    """The acquisition of a field is one of the plate's."""
    there.change("A/1", lambda ome: ome["well"]["images"][0].update(acquisition=7))


@breaks("plate", versions=NEW)
def well_of_another_version(there: Hierarchy) -> None:
    """A hierarchy is of one version."""
    other = "0.6" if there.version == "0.5" else "0.5"
    there.replace("A/1", Document(other, "well").attributes)


@breaks("plate")
def field_with_a_level_missing(there: Hierarchy) -> None:
    """A field obeys the rules for images."""
    there.remove("B/1/0/1")


@breaks("bf2raw")
def image_of_the_series_is_missing(there: Hierarchy) -> None:
    """Each image of the series is there."""
    there.remove("1")


@breaks("bf2raw")
def images_without_numbers(there: Hierarchy) -> None:
    """Without a series the images are numbered from zero."""
    there.remove("OME")
    (there.root / "0").rename(there.root / "2")


@breaks("bf2raw")
def image_of_the_series_is_broken(there: Hierarchy) -> None:
    """An image of the series obeys the rules for images."""
    there.change("1", lambda ome: ome["multiscales"][0]["datasets"].reverse())


@breaks("bf2raw", expected="notice")
def no_xml(there: Hierarchy) -> None:
    """There should be a file with the metadata in XML."""
    (there.root / "OME/METADATA.ome.xml").unlink()


def check(index: int, scratch: Path, shardine: Shardine) -> Iterator[str]:
    """Everything that can be broken in one of the fixtures."""
    kind, version = FIXTURES[index]
    sound = Hierarchy(scratch / "sound", version)
    MAKE[kind](sound)
    report = shardine.verify(sound.root)
    if report.verdict != "valid":
        yield f"nothing is broken, but: {report}"
    for broken in BREAKS:
        if broken.kind == kind and version in broken.versions:
            there = Hierarchy(scratch / broken.change.__name__, version)
            shutil.copytree(sound.root, there.root)
            broken.change(there)
            yield from _judge(there, broken.change.__name__, broken.expected, shardine)
    for rule in own.RULES:
        if rule.kind not in PLACES or version not in rule.versions or version in rule.doubtful:
            continue
        (wanted, place) = PLACES[rule.kind]
        # What is in order may be so only with other arrays.
        if wanted != kind or rule.expected in ("valid", "spotless"):
            continue
        there = Hierarchy(scratch / rule.name, version)
        if wanted == "image":
            # The arrays must fit the axes that the rule starts from.
            options = {"axes": rule.options.get("axes", AXES), "levels": rule.options.get("levels", 2)}
            there.root.mkdir()
            _image(there, **options)
        else:
            shutil.copytree(sound.root, there.root)
        there.replace(place, _fitting(rule, version, kind))
        yield from _judge(there, rule.name, rule.expected, shardine)


def _fitting(rule: own.Rule, version: str, kind: str) -> dict[str, Any]:
    document = rule.document(version)
    if rule.kind == "labels" and document.ome.get("labels") == ["cells", "nested/nuclei"]:
        document.ome["labels"] = ["cells"]
    return document.attributes


def _judge(there: Hierarchy, name: str, expected: str, shardine: Shardine) -> Iterator[str]:
    """Damage must be found with the arrays and without; what should be there is only noted."""
    for options in ((), ("--metadata-only",)):
        report = shardine.verify(there.root, *options)
        what = f"{name} {' '.join(options)}".strip()
        if report.verdict != expected:
            yield f"{what}: expected {expected}, but: {report}"
        elif not report.of(expected):
            yield f"{what}: {expected}, but not of OME-Zarr: {report}"
