"""Which hierarchies there are, and who writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from . import by_hand, by_peers
from .draw import Drawn, draw

Write = Callable[[Path, str, Drawn], None]

ALL = ("0.4", "0.5", "0.6")


@dataclass(frozen=True)
class Recipe:
    """A way to write a hierarchy of one version."""

    name: str
    version: str
    write: Write

    @property
    def large(self) -> bool:
        return "plate" in self.name or "bioformats2raw" in self.name or self.name == "folder"

    def drawn(self, seed: int) -> Drawn:
        """What the hierarchy of a seed is like. Where there are many images, they are small."""
        drawn = draw(seed)
        if self.large:
            drawn = replace(drawn, levels=min(drawn.levels, 2), labels=drawn.labels[:1])
        return drawn

    def make(self, path: Path, seed: int) -> Drawn:
        drawn = self.drawn(seed)
        self.write(path, self.version, drawn)
        return drawn


def _recipes() -> list[Recipe]:
    writers: list[tuple[str, Write, tuple[str, ...]]] = [
        ("ome-zarr-py image", by_peers.ome_zarr_image, ("0.4", "0.5")),
        ("ngff-zarr image", by_peers.ngff_image, ALL),
        ("image", by_hand.image, ALL),
        ("ome-zarr-py plate", by_peers.ome_zarr_plate, ("0.4", "0.5")),
        ("bioformats2raw", by_hand.bioformats2raw, ALL),
        ("ngff-zarr plate", by_peers.ngff_plate, ALL),
        ("folder", by_hand.folder, ALL),
        ("bioformats2raw plate", by_hand.bioformats2raw_plate, ALL),
        ("plate", by_hand.plate, ALL),
        ("scene", by_hand.scene, ("0.6",)),
    ]
    return [
        Recipe(name, version, write) for name, write, versions in writers for version in versions
    ]


RECIPES = _recipes()
