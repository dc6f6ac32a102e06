"""Opens a volume, looks at parts of it, and reads a region into memory that is there already."""

import sys
import tempfile
from pathlib import Path

import numpy as np

import shardine


def main(folder: Path) -> None:
    # Something to look at: a ball in a volume of 128 x 128 x 128.
    z, y, x = np.ogrid[:128, :128, :128]
    ball = ((z - 64) ** 2 + (y - 64) ** 2 + (x - 64) ** 2 < 50**2).astype(np.uint16) * 1000
    np.save(folder / "ball.npy", ball)
    shardine.convert(
        folder / "ball.npy",
        folder / "ball.zarr",
        to="ome-zarr",
        axes="zyx",
        scale=(2.0, 0.5, 0.5),
        unit="micrometer",
        levels="auto",
        chunk=(32, 32, 32),
        shard=(128, 128, 128),
    )

    volume = shardine.open(folder / "ball.zarr")
    print(volume)
    print("a plane through the middle has the mean", volume[64].mean())
    print("every 16th voxel of a line:", volume[64, 64, ::16])

    # Straight into memory of your own, whatever its strides.
    box = np.empty((32, 32, 32), volume.dtype)
    volume.read((slice(48, 80), slice(48, 80), slice(48, 80)), out=box)
    assert (box == ball[48:80, 48:80, 48:80]).all()

    # The levels of the image; 0 is the finest.
    image = shardine.open_ome(folder / "ball.zarr")
    for level, array in enumerate(image):
        print("level", level, array.shape, image.scale(level))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
