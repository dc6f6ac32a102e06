"""Documents drawn at random: some in order by construction, some that the schemas of the specification refuse.

The first must not be called damaged, however unusual they are; the second must be.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from . import schemas
from .documents import KINDS, VERSIONS, Document
from .suites import Case

AXES = ("yx", "zyx", "cyx", "czyx", "tyx", "tzyx", "tcyx", "tczyx")

OPTIONAL = {
    "multiscales": ("name", "type", "metadata"),
    "axes": ("unit",),
    "channels": ("label", "active"),
    "image-label": ("colors", "properties", "source"),
    "colors": ("rgba",),
    "source": ("image",),
    "plate": ("acquisitions", "field_count", "name"),
    "acquisitions": ("name", "maximumfieldcount", "description", "starttime", "endtime"),
    "images": ("acquisition",),
}
"""The keys that may be missing, by the object or the list of objects that they are in."""

CLOSED = ("input", "output")
"""Objects that take no keys of others."""

ODD: tuple[Any, ...] = (None, True, "", "x", 0, -1, 0.5, [], {}, [None], {"x": 1}, ["0"], "0.9")
"""Values to put in the place of others."""


def _walk(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every value below this one."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from _walk(entry, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _may_go(path: tuple[Any, ...]) -> bool:
    owners = [key for key in path[:-1] if isinstance(key, str)]
    return bool(owners) and path[-1] in OPTIONAL.get(owners[-1], ())


def sound(seed: int, version: str) -> tuple[str, Any]:
    """A document that breaks no rule: without what is optional, with what nobody knows."""
    dice = random.Random(seed)
    kind = dice.choice([k for k in KINDS if k != "scene" or version == "0.6"])
    axes = dice.choice(AXES)
    document = Document(version, kind, axes, dice.choice((1, 2, 3, 5)))
    if kind == "image" and "c" not in axes:
        del document.ome["omero"]
    attributes = copy.deepcopy(document.attributes)
    for path in reversed(list(_walk(attributes))):
        if _may_go(path) and dice.random() < 0.2:
            del _at(attributes, path[:-1])[path[-1]]
    for path in [(), *_walk(attributes)]:
        owner = _at(attributes, path)
        if isinstance(owner, dict) and not (path and path[-1] in CLOSED) and dice.random() < 0.15:
            owner[dice.choice(("vendor", "µ", "@type"))] = copy.deepcopy(dice.choice(ODD))
    return kind, attributes


def broken(seed: int, version: str) -> tuple[str, Any] | None:
    """A document with something odd in it, if a schema refuses it for that."""
    dice = random.Random(seed)
    # No schema is about lists of labels, and a series is known by its place in version 0.4.
    left_out = {"0.4": ("labels", "scene", "series"), "0.5": ("labels", "scene"), "0.6": ("labels",)}
    kind = dice.choice([k for k in KINDS if k not in left_out[version]])
    attributes = copy.deepcopy(Document(version, kind, dice.choice(("zyx", "tczyx"))).attributes)
    for _ in range(dice.choice((1, 1, 2))):
        path = dice.choice(list(_walk(attributes)))
        owner, key = _at(attributes, path[:-1]), path[-1]
        # Without an object of OME-Zarr a document is about something else.
        if key == "ome":
            continue
        if path == (key,) or path == ("ome", key) and key != "version":
            owner[key] = dice.choice([value for value in ODD if not isinstance(value, dict)])
        elif dice.random() < 0.3:
            del owner[key]
        elif isinstance(owner[key], list) and dice.random() < 0.5:
            owner[key] = dice.choice(([], owner[key] * 2, owner[key][:1], owner[key] + [None]))
        else:
            owner[key] = dice.choice(ODD)
        attributes = json.loads(json.dumps(attributes))
    if schemas.complaint(version, attributes) is None:
        return None
    return kind, attributes


def cases(count: int) -> Iterator[Case]:
    """As many documents of each sort in each version."""
    for version in VERSIONS:
        for seed in range(count):
            kind, document = sound(seed, version)
            complaint = schemas.complaint(version, document)
            if complaint is not None:
                raise AssertionError(f"document {seed} of {version} is to be in order, but: {complaint}")
            yield Case("drawn", version, f"sound/{seed}", document, "valid", kind)
        found, seed = 0, 0
        while found < count:
            drawn = broken(seed, version)
            if drawn is not None:
                yield Case("drawn", version, f"broken/{seed}", drawn[1], "damage", drawn[0])
                found += 1
            seed += 1
