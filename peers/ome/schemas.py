"""The JSON schemas of the specification, which ngff-zarr carries."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

OBJECTS = {
    "multiscales": "image",
    "plate": "plate",
    "well": "well",
    "image-label": "label",
    "bioformats2raw.layout": "bf2raw",
    "series": "ome",
    "scene": "scene",
}
"""The schema of each object. The one for a document of any kind is content if one of the objects is
sound; all of them must be. None has an opinion on the list of labels."""

HAVE_STRICT = ("image", "plate", "well", "label")


@functools.cache
def _schemas(version: str) -> tuple[dict[str, Any], Registry]:
    folder = importlib.resources.files("ngff_zarr") / "spec" / version / "schemas"
    schemas: dict[str, Any] = {}
    registry: Registry = Registry()
    for file in folder.iterdir():
        if file.name.endswith(".schema"):
            schema = json.loads(file.read_text())
            schemas[file.name.removesuffix(".schema")] = schema
            resource = Resource.from_contents(schema, default_specification=DRAFT202012)
            registry = resource @ registry
    if not schemas:
        raise FileNotFoundError(f"ngff-zarr carries no schemas of version {version}")
    return schemas, registry


def _names(version: str, attributes: Any, strict: bool) -> list[str]:
    """The schemas that apply to the attributes of a group."""
    ome = attributes if version == "0.4" else attributes.get("ome")
    keys = ome if isinstance(ome, dict) else {}
    names = [name for key, name in OBJECTS.items() if key in keys and name in _schemas(version)[0]]
    if not names:
        return [] if version == "0.4" or "labels" in keys else ["ome_zarr"]
    return [f"strict_{name}" if strict and name in HAVE_STRICT else name for name in names]


def complaint(version: str, attributes: Any, strict: bool = False) -> str | None:
    """What a schema has against the attributes of a group, if anything.

    None also if no schema applies.
    """
    schemas, registry = _schemas(version)
    for name in _names(version, attributes, strict):
        validator = Draft202012Validator(schemas[name], registry=registry)
        error = next(validator.iter_errors(attributes), None)
        if error is not None:
            return f"{name}: {error.json_path}: {error.message}"[:300]
    return None
