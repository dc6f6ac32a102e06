"""What was written by one side is read by the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from . import by_peer, defects
from .draw import Case
from .geometry import differences


def peer_differences(case: Case, root: Path) -> list[str]:
    """How what zarr-vectors reads of level 0 differs from the case."""
    met = defects.of(case)
    want = case.geometry
    names = dict(want.attributes)
    if "columns" in met:
        names = {name: data for name, data in names.items() if data.ndim == 1}
    if "chunk attribute" in met:
        names.pop(case.by_attribute)
    want = replace(want, attributes=names)
    if "offset" in met:
        want = replace(want, positions=case.stored_positions)
    got = by_peer.read(root)
    return differences(
        want, got, ids="no ids" not in met, links="streamed links" not in met
    )
