"""What zarr-vectors 0.9.2 does wrong, and so is not asked; and what is stored in two ways.

Every exception of the tests is here, with its reason. `Level.read()` is its newer interface, `read_*` the older one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .draw import Case


@dataclass(frozen=True)
class Defect:
    name: str
    reason: str
    applies: Callable[[Case], bool]


def _columns(case: Case) -> bool:
    return case.geometry.kind not in ("point_cloud", "line") and any(
        data.ndim > 1 for data in case.geometry.attributes.values()
    )


DEFECTS = {
    defect.name: defect
    for defect in [
        Defect(
            "columns",
            "attributes of several columns are stored with an empty row_shape unless they are of points or "
            "lines, and its reader then leaves them out",
            _columns,
        ),
        Defect(
            "chunk attribute",
            "its reader does not give back the attribute that chunks were made by",
            lambda case: case.by_attribute is not None,
        ),
        Defect(
            "offset",
            "only read_skeleton_by_segment_id applies coordinate_offset",
            lambda case: case.offset is not None,
        ),
        Defect(
            "streamed links",
            "write_skeleton_cross_chunk_links stores (parent, child), read_graph takes every link for "
            "(child, parent)",
            lambda case: case.flavour == "skeleton-streamed",
        ),
        Defect(
            "bins and objects",
            "read_points(bbox=) takes fragments of objects for bins and loses points",
            lambda case: case.flavour == "points-both",
        ),
        Defect(
            "no ids",
            "Level.read() tells the object of a vertex for polylines only",
            lambda case: case.geometry.kind not in ("polyline", "streamline"),
        ),
        Defect(
            "sparse ids",
            "read_lines and read_polylines ask for 0..n-1 if no ids are given",
            lambda case: case.geometry.is_path and case.ids != list(range(len(case.ids))),
        ),
    ]
}


def of(case: Case) -> set[str]:
    """The names of the defects that a case meets."""
    return {name for name, defect in DEFECTS.items() if defect.applies(case)}
