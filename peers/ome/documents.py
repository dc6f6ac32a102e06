"""Documents of every version that break no rule and leave nothing out that should be there."""

from __future__ import annotations

from typing import Any

VERSIONS = ("0.4", "0.5", "0.6")

KINDS = ("image", "label", "labels", "plate", "well", "bf2raw", "series", "scene")

TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
UNITS = {"time": "second", "space": "micrometer"}

SYSTEM = "physical"
"""What the documents of version 0.6 call the coordinate system of an image."""


def axis(name: str) -> dict[str, Any]:
    kind = TYPES[name]
    described = {"name": name, "type": kind}
    if kind in UNITS:
        described["unit"] = UNITS[kind]
    return described


class Document:
    """The attributes of a group, and handles on what the tests change."""

    def __init__(self, version: str, kind: str = "image", axes: str = "tczyx", levels: int = 2) -> None:
        self.version = version
        self.attributes: dict[str, Any] = {} if version == "0.4" else {"ome": {"version": version}}
        if kind in ("image", "label"):
            self.ome["multiscales"] = [self.new_multiscale(axes, levels)]
            if kind == "image":
                self.ome["omero"] = _omero()
            else:
                self.ome["image-label"] = self._versioned(_image_label())
        elif kind == "labels":
            self.ome["labels"] = ["cells", "nested/nuclei"]
        elif kind == "plate":
            self.ome["plate"] = self._versioned(_plate())
        elif kind == "well":
            images = [{"path": "0", "acquisition": 1}, {"path": "1", "acquisition": 2}]
            self.ome["well"] = self._versioned({"images": images})
        elif kind == "bf2raw":
            self.ome["bioformats2raw.layout"] = 3
        elif kind == "series":
            self.ome["series"] = ["0", "1"]
        elif kind == "scene":
            self.ome["scene"] = _scene()
        else:
            raise ValueError(kind)

    def _versioned(self, described: dict[str, Any]) -> dict[str, Any]:
        return described | {"version": "0.4"} if self.version == "0.4" else described

    @property
    def ome(self) -> dict[str, Any]:
        """Where the objects of OME-Zarr are."""
        return self.attributes if self.version == "0.4" else self.attributes["ome"]

    @property
    def multiscale(self) -> dict[str, Any]:
        return self.ome["multiscales"][0]

    @property
    def axes(self) -> list[dict[str, Any]]:
        """The axes of the first multiscale."""
        if self.version == "0.6":
            return self.systems[0]["axes"]
        return self.multiscale["axes"]

    @axes.setter
    def axes(self, axes: Any) -> None:
        (self.systems[0] if self.version == "0.6" else self.multiscale)["axes"] = axes

    @property
    def systems(self) -> list[dict[str, Any]]:
        """The coordinate systems of version 0.6."""
        return self.multiscale["coordinateSystems"]

    @property
    def datasets(self) -> list[dict[str, Any]]:
        return self.multiscale["datasets"]

    def steps(self, level: int = 0) -> list[dict[str, Any]]:
        """The scale and the translation of a level."""
        steps = self.datasets[level]["coordinateTransformations"]
        return steps[0]["transformations"] if self.version == "0.6" else steps

    def outer(self, level: int = 0) -> dict[str, Any]:
        """The one transformation of a level in version 0.6."""
        return self.datasets[level]["coordinateTransformations"][0]

    @property
    def channel(self) -> dict[str, Any]:
        return self.ome["omero"]["channels"][0]

    @property
    def plate(self) -> dict[str, Any]:
        return self.ome["plate"]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The images of a well."""
        return self.ome["well"]["images"]

    @property
    def label(self) -> dict[str, Any]:
        return self.ome["image-label"]

    @property
    def scene(self) -> dict[str, Any]:
        return self.ome["scene"]

    def new_multiscale(self, axes: str = "tczyx", levels: int = 2, name: str = "image") -> dict[str, Any]:
        """A multiscale that fits the version, with levels of half the size each."""
        described: dict[str, Any] = {"name": name, "type": "mean", "metadata": {"method": "mean"}}
        if self.version == "0.4":
            described["version"] = "0.4"
        if self.version == "0.6":
            described["coordinateSystems"] = [{"name": SYSTEM, "axes": [axis(a) for a in axes]}]
        else:
            described["axes"] = [axis(a) for a in axes]
        described["datasets"] = [self.new_dataset(axes, str(n), n) for n in range(levels)]
        return described

    def new_dataset(self, axes: str, path: str, level: int = 0) -> dict[str, Any]:
        grows = [2.0**level if TYPES[a] == "space" else 1.0 for a in axes]
        scale = {"type": "scale", "scale": [0.5 * factor for factor in grows]}
        translation = {"type": "translation", "translation": [0.25 * (factor - 1) for factor in grows]}
        if self.version != "0.6":
            return {"path": path, "coordinateTransformations": [scale, translation]}
        sequence = {"type": "sequence", "transformations": [scale, translation]}
        between = {"input": {"path": path}, "output": {"name": SYSTEM}}
        return {"path": path, "coordinateTransformations": [sequence | between]}

    def second_system(self, axes: str, *, name: str = "other", **transformation: Any) -> None:
        """Version 0.6: one more coordinate system, and the transformation that leads to it."""
        self.systems.append({"name": name, "axes": [axis(a) for a in axes]})
        self.link(output={"name": name}, **transformation)

    def link(self, *, output: dict[str, Any], **transformation: Any) -> None:
        """Version 0.6: a transformation from the image's own coordinate system to another."""
        more = self.multiscale.setdefault("coordinateTransformations", [])
        more.append({"input": {"name": SYSTEM}, "output": output} | transformation)

    @property
    def extra(self) -> dict[str, Any]:
        """Version 0.6: the last of the transformations that are no level's."""
        return self.multiscale["coordinateTransformations"][-1]


def _omero() -> dict[str, Any]:
    window = {"min": 0, "max": 65535, "start": 10, "end": 1500}
    channels = [{"color": color, "window": dict(window)} for color in ("0000FF", "ff8000")]
    return {"channels": [c | {"label": f"ch{n}", "active": True} for n, c in enumerate(channels)]}


def _image_label() -> dict[str, Any]:
    colors = [{"label-value": n, "rgba": [0, 40 * n, 255, 128]} for n in range(3)]
    properties = [{"label-value": n, "area": 10.5 * n, "class": "cell"} for n in range(3)]
    return {"colors": colors, "properties": properties, "source": {"image": "../../"}}


def _plate() -> dict[str, Any]:
    acquisitions = [
        {"id": number, "name": f"run {number}", "maximumfieldcount": 2, "description": "by hand"}
        | {"starttime": 1_700_000_000, "endtime": 1_700_000_100}
        for number in (1, 2)
    ]
    rows, columns = ["A", "B"], ["1", "2", "3"]
    wells = [
        {"path": f"{row}/{column}", "rowIndex": r, "columnIndex": c}
        for r, row in enumerate(rows)
        for c, column in enumerate(columns)
        if (r, c) != (1, 1)
    ]
    return {
        "name": "plate",
        "field_count": 4,
        "acquisitions": acquisitions,
        "rows": [{"name": name} for name in rows],
        "columns": [{"name": name} for name in columns],
        "wells": wells,
    }


def _scene() -> dict[str, Any]:
    world = {"name": "world", "axes": [axis(a) for a in "zyx"]}
    moves = [
        {
            "type": "translation",
            "translation": [0.0, 10.0 * n, 0.0],
            "input": {"name": SYSTEM, "path": f"tile{n}"},
            "output": {"name": "world"},
        }
        for n in range(2)
    ]
    return {"coordinateSystems": [world], "coordinateTransformations": moves}
