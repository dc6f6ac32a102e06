"""What other implementations have against a hierarchy, and what the documents have against each other."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import zarr

from . import schemas, tree


def _models(path: Path, group: tree.Group, version: str) -> None:
    import ome_zarr_models.v05
    from ome_zarr_models.exceptions import ValidationWarning

    with warnings.catch_warnings(action="error", category=ValidationWarning):
        opened = zarr.open_group(path, mode="r", zarr_format=2 if version == "0.4" else 3)
        if version == "0.5" and "bioformats2raw.layout" in group.ome and "plate" not in group.ome:
            # It has a model for these, but does not try it.
            ome_zarr_models.v05.BioFormats2Raw.from_zarr(opened)
        else:
            ome_zarr_models.open_ome_zarr(opened, version=version)  # type: ignore[arg-type]


def _yaozarrs(path: Path, group: tree.Group, version: str) -> None:
    import yaozarrs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yaozarrs.validate_zarr_store(str(path))


def _ngff_zarr(path: Path, group: tree.Group, version: str) -> None:
    import ngff_zarr

    if "multiscales" in group.ome:
        ngff_zarr.from_ngff_zarr(str(path), validate=True, version=version)
    elif "plate" in group.ome:
        ngff_zarr.from_hcs_zarr(str(path), validate=True)
    elif "scene" in group.ome:
        ngff_zarr.from_ngff_zarr(str(path), validate=True, version=version, kind="scene")


Judge = Callable[[Path, tree.Group, str], None]

JUDGES: dict[str, tuple[tuple[str, ...], Judge]] = {
    "ome-zarr-models": (("0.4", "0.5"), _models),
    "yaozarrs": (("0.4", "0.5"), _yaozarrs),
    "ngff-zarr": (("0.4", "0.5", "0.6"), _ngff_zarr),
}
"""The judges, and the versions that they know."""


def _lacks(name: str, group: tree.Group, version: str) -> bool:
    """What a judge cannot do, or does wrong, so that it is not asked.

    * yaozarrs: the list of labels has no version of its own in 0.4, so it does not know the group; it
      looks for the images of a series inside the group OME instead of beside it (it reads both lists
      when it is asked about the group above); it wants as many multiscales in a label image as in the
      image.
    * ome-zarr-models has no model for the group OME, and in 0.5 does not find labels in folders.
    """
    keys = set(group.ome)
    if name == "yaozarrs":
        listed = keys == {"labels"} and version == "0.4"
        several = len(group.ome.get("multiscales", [])) > 1 and (group.path / "labels").exists()
        return "series" in keys or listed or several
    if name == "ome-zarr-models":
        nested = version == "0.5" and any(
            "/" in label for _, below in tree.groups(group.path, 3) for label in below.ome.get("labels", [])
        )
        return "series" in keys or nested
    return False


def complaints(root: Path, version: str, asked: set[str] | None = None) -> Iterator[tuple[str, str]]:
    """Who minds what in a hierarchy of a version. `asked` gets the names of those who had a say."""
    zarr_format = 2 if version == "0.4" else 3
    for where, group in tree.groups(root, zarr_format):
        here = where or "the root"
        if not group.ome:
            continue
        attributes = group.ome if version == "0.4" else group.attributes
        complaint = schemas.complaint(version, attributes)
        if complaint is not None:
            yield "schema", f"{here}: {complaint}"
        for name, (versions, judge) in JUDGES.items():
            if version not in versions or _lacks(name, group, version):
                continue
            try:
                judge(group.path, group, version)
                if asked is not None:
                    asked.add(name)
            except Exception as error:  # noqa: BLE001 each has exceptions of its own
                yield name, f"{here}: {type(error).__name__}: {_gist(group, str(error))}"


MODELS = {"plate": "hcs.HCS", "well": "well.Well", "multiscales": "image.Image", "labels": "labels.Labels"}


def _gist(group: tree.Group, text: str) -> str:
    """What matters of an error. ome-zarr-models says why a group is not each of the things it could be."""
    for key, model in MODELS.items():
        before, found, after = text.partition(f"{model}\n")
        if key in group.ome and found:
            text = after.partition("\n\n")[0]
    return " ".join(text.split())[:600]


def inconsistencies(root: Path, version: str) -> Iterator[str]:
    """What contradicts itself in a hierarchy of a version that was just written."""
    zarr_format = 2 if version == "0.4" else 3
    for where, group in tree.groups(root, zarr_format):
        found = group.version
        if group.ome and not (found is None and version == "0.4") and found != version:
            yield f"{where or 'the root'} says that it is version {found}"
        for multiscale in group.ome.get("multiscales", []):
            names = [axis["name"] for axis in tree.axes_of(multiscale)]
            for level in tree.levels_of(group.path, multiscale, zarr_format):
                if zarr_format == 3 and level.names != names:
                    yield f"{where}/{level.path}: the dimensions are called {level.names}"
    for path in root.rglob(".shardine-*"):
        yield f"left behind: {path.relative_to(root)}"
    yield from _consolidated(root, zarr_format)


def _consolidated(root: Path, zarr_format: int) -> Iterator[str]:
    """Metadata in one place must say what the documents in their own places do."""
    if zarr_format == 3:
        document = json.loads((root / "zarr.json").read_text())
        entries = (document.get("consolidated_metadata") or {}).get("metadata")
        if entries is None:
            return
        for path in root.rglob("zarr.json"):
            where = str(path.parent.relative_to(root))
            if where != "." and entries.get(where) is None:
                yield f"{where} is not in the consolidated metadata"
        for where, entry in entries.items():
            own = json.loads((root / where / "zarr.json").read_text())
            for ignored in ("consolidated_metadata",):
                own.pop(ignored, None)
                entry.pop(ignored, None)
            if own != entry:
                yield f"{where} differs from the consolidated metadata"
    elif (root / ".zmetadata").exists():
        entries = json.loads((root / ".zmetadata").read_text())["metadata"]
        for path in root.rglob(".z*"):
            where = str(path.relative_to(root))
            if path.name in (".zarray", ".zgroup", ".zattrs") and where not in entries:
                yield f"{where} is not in the consolidated metadata"
        for where, entry in entries.items():
            if not (root / where).exists() or json.loads((root / where).read_text()) != entry:
                yield f"{where} differs from the consolidated metadata"


def by_zarr(path: Path, zarr_format: int) -> np.ndarray[Any, Any]:
    array = zarr.open_array(path, mode="r", zarr_format=zarr_format)  # type: ignore[arg-type]
    return np.asarray(array[...])


def by_tensorstore(path: Path, zarr_format: int) -> np.ndarray[Any, Any]:
    driver = "zarr3" if zarr_format == 3 else "zarr"
    kvstore = {"driver": "file", "path": f"{path}/"}
    opened = tensorstore.open({"driver": driver, "kvstore": kvstore}, read=True).result()
    return np.asarray(opened.read().result())


def voxels(root: Path, zarr_format: int) -> dict[tuple[str, int, int], np.ndarray[Any, Any]]:
    """Every level of every image, as zarr-python and TensorStore read it: they must agree."""
    read: dict[tuple[str, int, int], np.ndarray[Any, Any]] = {}
    for where, number, n, path, _ in tree.level_arrays(root, zarr_format):
        found = by_zarr(path, zarr_format)
        other = by_tensorstore(path, zarr_format)
        if found.dtype != other.dtype or found.tobytes() != other.tobytes():
            raise AssertionError(f"{where}: zarr-python and TensorStore read level {n} differently")
        read[(where, number, n)] = found
    return read
