"""Hierarchies written document by document, as bioformats2raw and others lay them out.

zarr-python writes the arrays and the groups; what the attributes say comes from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from .documents import SYSTEM, TYPES
from .draw import Drawn

XML = """<?xml version="1.0" encoding="UTF-8"?>
<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">{images}</OME>
"""
IMAGE = """<Image ID="Image:{n}" Name="{name}"><Pixels ID="Pixels:{n}" DimensionOrder="XYZCT" Type="uint8"
SizeX="1" SizeY="1" SizeZ="1" SizeC="1" SizeT="1"><MetadataOnly/></Pixels></Image>"""


class Writer:
    """Writes groups and arrays of one version."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.zarr_format: Any = 2 if version == "0.4" else 3

    def group(self, path: Path, ome: dict[str, Any] | None = None, **other: Any) -> None:
        """A group with the given objects of OME-Zarr, and other attributes."""
        attributes = dict(other)
        if ome is not None:
            ome = self._versioned(ome)
            if self.version == "0.4":
                attributes |= ome
            else:
                attributes["ome"] = {"version": self.version} | ome
        zarr.create_group(path, zarr_format=self.zarr_format, attributes=attributes)

    def _versioned(self, ome: dict[str, Any]) -> dict[str, Any]:
        """Version 0.4 has its number in each object; 0.5 kept it in some, 0.6 in none."""
        if self.version == "0.6":
            return ome
        numbered = dict(ome)
        for key in ("plate", "well", "image-label"):
            if key in numbered:
                numbered[key] = numbered[key] | {"version": self.version}
        if self.version == "0.4" and "multiscales" in numbered:
            numbered["multiscales"] = [m | {"version": "0.4"} for m in numbered["multiscales"]]
        return numbered

    def array(
        self, path: Path, drawn: Drawn, elements: np.ndarray[Any, Any], names: list[str]
    ) -> None:
        chunks = tuple(min(c, s) for c, s in zip(drawn.chunks, elements.shape, strict=True))
        options: dict[str, Any] = {"chunks": chunks, "zarr_format": self.zarr_format}
        if self.zarr_format == 2:
            options["order"] = drawn.order
            options["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
            compressor = {
                "zstd": numcodecs.Zstd(level=3),
                "gzip": numcodecs.GZip(level=1),
                "blosc": numcodecs.Blosc(cname="lz4", shuffle=1),
                "none": None,
            }[drawn.codec]
        else:
            options["dimension_names"] = names
            options["chunk_key_encoding"] = {"name": "default", "separator": drawn.separator}
            if drawn.chunks_per_shard:
                options["shards"] = tuple(c * drawn.chunks_per_shard for c in chunks)
            compressor = {
                "zstd": ZstdCodec(level=3),
                "gzip": GzipCodec(level=1),
                "blosc": BloscCodec(cname="zstd", shuffle="shuffle", typesize=elements.itemsize),
                "none": None,
            }[drawn.codec]
        options["compressors"] = compressor
        array = zarr.create_array(
            path, shape=elements.shape, dtype=elements.dtype, fill_value=0, **options
        )
        array[...] = elements

    def multiscale(
        self, folder: Path, drawn: Drawn, *, prefix: str = "", label: bool = False, salt: int = 0
    ) -> dict[str, Any]:
        """Writes the levels of an image, and returns what its group has to say of them."""
        axes = [_axis(drawn, name) for name in drawn.axes]
        names = [axis["name"] for axis in axes]
        dtype = drawn.label_dtype if label else drawn.dtype
        datasets = []
        for n, elements in enumerate(drawn.pyramid(dtype, salt)):
            path = f"{prefix}{n}"
            self.array(folder / path, drawn, elements, names)
            factors = [drawn.factors[a] ** n for a in drawn.axes]
            scale = [drawn.scale[a] * f for a, f in zip(drawn.axes, factors, strict=True)]
            # Voxels were left out, not averaged, but that is for the readers of the numbers.
            offset = [
                drawn.offset[a] + (f - 1) / 2 * drawn.scale[a]
                for a, f in zip(drawn.axes, factors, strict=True)
            ]
            datasets.append({"path": path, "coordinateTransformations": self._placed(path, scale, offset)})
        described: dict[str, Any] = {"name": drawn.name, "type": "stride", "datasets": datasets}
        described["metadata"] = {"method": "numpy.ndarray.__getitem__", "kwargs": {"step": 2}}
        if self.version == "0.6":
            described["coordinateSystems"] = [{"name": SYSTEM, "axes": axes}]
        else:
            described["axes"] = axes
        return described

    def _placed(self, path: str, scale: list[float], offset: list[float]) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
        if any(offset):
            steps.append({"type": "translation", "translation": offset})
        if self.version != "0.6":
            return steps
        between = {"input": {"path": path}, "output": {"name": SYSTEM}}
        if len(steps) == 1:
            return [steps[0] | between]
        return [{"type": "sequence", "transformations": steps} | between]

    def image(self, path: Path, drawn: Drawn, *, salt: int = 0, several: bool = False) -> None:
        """An image with its channels and label images."""
        multiscales = [self.multiscale(path, drawn, salt=salt)]
        if several:
            second = self.multiscale(path, drawn, prefix="again/", salt=salt + 1)
            multiscales.append(second | {"name": "again"})
        ome: dict[str, Any] = {"multiscales": multiscales}
        if "c" in drawn.axes:
            ome["omero"] = omero(drawn.shape[drawn.axes.index("c")])
        self.group(path, ome, **drawn.extra)
        if several:
            self.group(path / "again")
        if drawn.labels:
            self.labels(path / "labels", drawn, salt)

    def labels(self, path: Path, drawn: Drawn, salt: int) -> None:
        self.group(path, {"labels": drawn.labels})
        for n, label in enumerate(drawn.labels):
            if "/" in label:
                self.group(path / label.split("/")[0])
            multiscale = self.multiscale(path / label, drawn, label=True, salt=salt + 10 + n)
            colors = [{"label-value": v, "rgba": [v, 2 * v, 255, 128]} for v in range(1, 4)]
            described = {"colors": colors, "source": {"image": "../" * (2 + label.count("/"))}}
            if n:
                properties = [{"label-value": v, "class": "nucleus", "area": 3.5} for v in range(1, 4)]
                described["properties"] = properties
            self.group(path / label, {"multiscales": [multiscale], "image-label": described})


def _axis(drawn: Drawn, name: str) -> dict[str, Any]:
    described = {"name": name, "type": TYPES[name]}
    if name in drawn.units:
        described["unit"] = drawn.units[name]
    return described


def omero(channels: int) -> dict[str, Any]:
    window = {"min": 0.0, "max": 65535.0, "start": 12.0, "end": 1500.0}
    return {
        "channels": [
            {
                "label": f"channel {n}",
                "color": ("FF0000", "00ff00", "0000FF")[n % 3],
                "active": True,
                "coefficient": 1,
                "family": "linear",
                "inverted": False,
                "window": window | {"end": 1500.0 + n},
            }
            for n in range(channels)
        ],
        "rdefs": {"defaultT": 0, "defaultZ": 0, "model": "color"},
    }


def image(path: Path, version: str, drawn: Drawn) -> None:
    Writer(version).image(path, drawn, several=drawn.seed % 3 == 0)


def folder(path: Path, version: str, drawn: Drawn) -> None:
    """Images in groups that are not OME-Zarr's, beside an array that is not either."""
    writer = Writer(version)
    writer.group(path, None, project="nested")
    writer.group(path / "day 1")
    for n, name in enumerate(("one.ome", "two")):
        writer.image(path / "day 1" / name, drawn, salt=20 * n)
    writer.array(path / "dark", drawn, drawn.elements(drawn.shape, "f4"), list(drawn.axes))


def _series(writer: Writer, path: Path, paths: list[str]) -> None:
    writer.group(path / "OME", {"series": paths})
    images = "".join(IMAGE.format(n=n, name=name) for n, name in enumerate(paths))
    (path / "OME/METADATA.ome.xml").write_text(XML.format(images=images))


def bioformats2raw(path: Path, version: str, drawn: Drawn) -> None:
    """A file of several images."""
    writer = Writer(version)
    writer.group(path, {"bioformats2raw.layout": 3})
    paths = [str(n) for n in range(3)]
    _series(writer, path, paths)
    for n, name in enumerate(paths):
        writer.image(path / name, drawn, salt=20 * n)


def plate(path: Path, version: str, drawn: Drawn, layout: bool = False) -> None:
    """A plate; with the layout of bioformats2raw if that is wanted."""
    writer = Writer(version)
    rows, columns = ["A", "B"], ["1", "2", "3"]
    places = [(0, 0), (0, 2), (1, 1)]
    described = {
        "name": "plate ü",
        "field_count": 2,
        "rows": [{"name": name} for name in rows],
        "columns": [{"name": name} for name in columns],
        "acquisitions": [{"id": 0, "maximumfieldcount": 2, "name": "first"}],
        "wells": [
            {"path": f"{rows[r]}/{columns[c]}", "rowIndex": r, "columnIndex": c} for r, c in places
        ],
    }
    ome: dict[str, Any] = {"plate": described}
    if layout:
        ome["bioformats2raw.layout"] = 3
    writer.group(path, ome)
    for row in rows:
        writer.group(path / row)
    fields = []
    for r, c in places:
        well = f"{rows[r]}/{columns[c]}"
        images = [{"path": str(n), "acquisition": 0} for n in range(2)]
        writer.group(path / well, {"well": {"images": images}})
        for entry in images:
            fields.append(f"{well}/{entry['path']}")
            writer.image(path / fields[-1], drawn, salt=20 * len(fields))
    if layout:
        _series(writer, path, fields)


def bioformats2raw_plate(path: Path, version: str, drawn: Drawn) -> None:
    plate(path, version, drawn, layout=True)


def scene(path: Path, version: str, drawn: Drawn) -> None:
    """Two images in one world, one of them turned. Version 0.6 only."""
    writer = Writer(version)
    world = {"name": "world", "axes": [_axis(drawn, name) for name in drawn.axes]}
    n = len(drawn.axes)
    turn = [[float(i == j) for j in range(n)] for i in range(n)]
    turn[-2][-2:], turn[-1][-2:] = [0.0, -1.0], [1.0, 0.0]
    moves = [
        {"type": "translation", "translation": [0.0] * (n - 1) + [12.5]},
        {"type": "rotation", "rotation": turn},
    ]
    for number, move in enumerate(moves):
        move["input"] = {"name": SYSTEM, "path": f"tile{number}"}
        move["output"] = {"name": "world"}
    described = {"coordinateSystems": [world], "coordinateTransformations": moves}
    writer.group(path, {"scene": described})
    for number in range(2):
        writer.image(path / f"tile{number}", drawn, salt=20 * number)
