"""Hierarchies that ome-zarr-py and ngff-zarr write."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import ngff_zarr
import zarr
from ome_zarr.format import FormatV04, FormatV05
from ome_zarr.scale import Methods
from ome_zarr.writer import write_image, write_labels, write_plate_metadata, write_well_metadata

from .draw import Drawn


def _format(version: str) -> Any:
    return FormatV04() if version == "0.4" else FormatV05()


def _open(path: Path, version: str) -> zarr.Group:
    return zarr.open_group(path, mode="w", zarr_format=2 if version == "0.4" else 3)


def _write(group: zarr.Group, version: str, drawn: Drawn, salt: int = 0, labels: bool = True) -> None:
    """An image in a group that is there already."""
    options: dict[str, Any] = {"chunks": drawn.chunks}
    if version != "0.4" and drawn.chunks_per_shard:
        options["shards"] = tuple(c * drawn.chunks_per_shard for c in drawn.chunks)
    common: dict[str, Any] = {
        "group": group,
        "fmt": _format(version),
        "axes": drawn.axes,
        "scale_factors": [2**n for n in range(1, drawn.levels)],
        "storage_options": options,
        "scale": drawn.scale,
        "axes_units": drawn.units,
    }
    method = Methods.NEAREST if drawn.seed % 2 else Methods.LOCAL_MEAN
    metadata: dict[str, Any] = {"vendor": {"seed": drawn.seed}} if drawn.seed % 5 == 0 else {}
    elements = drawn.elements(drawn.shape, drawn.dtype, salt)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_image(elements, name=drawn.name, method=method, metadata=metadata, **common)
        if labels and drawn.labels:
            cells = drawn.elements(drawn.shape, drawn.label_dtype, salt + 1)
            colors = [{"label-value": v, "rgba": [v, 0, 255, 128]} for v in range(1, 4)]
            # With its own scaler it would make other levels than the image has.
            write_labels(cells, name="cells", scaler=None, label_metadata={"colors": colors}, **common)


def ome_zarr_image(path: Path, version: str, drawn: Drawn) -> None:
    _write(_open(path, version), version, drawn)


def ome_zarr_plate(path: Path, version: str, drawn: Drawn) -> None:
    root = _open(path, version)
    wells = ["A/1", "B/2"]
    fmt = _format(version)
    write_plate_metadata(root, ["A", "B"], ["1", "2"], wells, fmt=fmt, field_count=2, name="plate")
    for n, name in enumerate(wells):
        row, column = name.split("/")
        well = root.require_group(row).require_group(column)
        write_well_metadata(well, ["0", "1"], fmt=fmt)
        for field in ("0", "1"):
            _write(well.require_group(field), version, drawn, salt=10 * n + int(field), labels=False)


def _multiscales(version: str, drawn: Drawn, salt: int = 0) -> Any:
    image = ngff_zarr.to_ngff_image(
        drawn.elements(drawn.shape, drawn.dtype, salt),
        dims=list(drawn.axes),
        scale=drawn.scale,
        translation=drawn.offset,
        name=drawn.name.replace(" ", "_"),
        axes_units=drawn.units,
    )
    chunks = dict(zip(drawn.axes, drawn.chunks, strict=True))
    factors = [
        {a: drawn.factors[a] ** n for a in drawn.axes if a in "zyx"} for n in range(1, drawn.levels)
    ]
    method = ngff_zarr.Methods.DASK_BIN_SHRINK
    return ngff_zarr.to_multiscales(image, scale_factors=factors, chunks=chunks, method=method)


def ngff_image(path: Path, version: str, drawn: Drawn) -> None:
    options: dict[str, Any] = {}
    if version != "0.4" and drawn.chunks_per_shard:
        options["chunks_per_shard"] = drawn.chunks_per_shard
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        multiscales = _multiscales(version, drawn)
        if "c" in drawn.axes and drawn.seed % 2:
            multiscales.metadata.omero = _omero(drawn.shape[drawn.axes.index("c")])
        ngff_zarr.to_ngff_zarr(
            str(path),
            multiscales,
            version=version,
            consolidate_metadata=drawn.consolidated,
            **options,
        )


def _omero(channels: int) -> ngff_zarr.Omero:
    window = ngff_zarr.OmeroWindow(min=0.0, max=255.0, start=1.0, end=200.0)
    return ngff_zarr.Omero(
        channels=[
            ngff_zarr.OmeroChannel(color="00FF00", window=window, label=f"channel {n}")
            for n in range(channels)
        ]
    )


def ngff_plate(path: Path, version: str, drawn: Drawn) -> None:
    wells = [("A", "1", 0, 0), ("B", "2", 1, 1)]
    described = ngff_zarr.Plate(
        columns=[ngff_zarr.PlateColumn(name=name) for name in "12"],
        rows=[ngff_zarr.PlateRow(name=name) for name in "AB"],
        wells=[
            ngff_zarr.PlateWell(path=f"{row}/{column}", rowIndex=r, columnIndex=c)
            for row, column, r, c in wells
        ],
        acquisitions=[ngff_zarr.PlateAcquisition(id=0, name="first", maximumfieldcount=2)],
        field_count=2,
        name="plate",
        version=version,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ngff_zarr.HCSPlateWriter(str(path), described) as writer:
            for row, column, r, c in wells:
                for field in range(2):
                    writer.write_well_image(
                        multiscales=_multiscales(version, drawn, salt=4 * r + 2 * c + field),
                        row_name=row,
                        column_name=column,
                        field_index=field,
                    )
