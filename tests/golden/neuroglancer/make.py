"""Writes chunks of precomputed volumes with other implementations, for the tests of shardine-codec to read.

    pip install numpy==2.4.6 tensorstore==0.1.86 compressed-segmentation==2.3.3 compresso==3.3.3 \
        pillow==13.0.0 imagecodecs==2026.3.6
    python make.py

`<case>.chunk` is a chunk as stored, and the `.elements` file that `cases.json` names what the same
implementation reads from it: little-endian, axes channel, z, y, x in C order.
"""

import io
import json
import pathlib

import compressed_segmentation
import compresso
import imagecodecs
import numpy as np
import PIL.Image
import tensorstore as ts

here = pathlib.Path(__file__).parent
rng = np.random.default_rng(21)
cases = []
files = {}


def save(content, name):
    """Writes a file once per content; returns its name."""
    if content not in files:
        files[content] = name
        (here / name).write_bytes(content)
    return files[content]


def case(name, codec, configuration, elements, chunk, writer, tolerance=0):
    (here / f"{name}.chunk").write_bytes(chunk)
    little = np.ascontiguousarray(elements).astype(elements.dtype.newbyteorder("<"))
    cases.append({
        "name": name,
        "codec": codec,
        "configuration": configuration,
        "data_type": elements.dtype.name,
        "shape": elements.shape,
        "elements": save(little.tobytes(), f"{name}.elements"),
        "tolerance": tolerance,
        "writer": writer,
    })


def cells(shape, points, dtype):
    """Cells around so many points, in the axes channel, z, y, x."""
    places = rng.uniform(0, 1, (points, 4)) * shape
    labels = rng.integers(1, np.iinfo(dtype).max, points, dtype=dtype)
    at = np.stack(np.indices(shape), -1)
    distance = ((at[..., None, :] - places) ** 2).sum(-1)
    return labels[distance.argmin(-1)]


def smooth(shape):
    """An image that JPEG changes little."""
    c, z, y, x = np.indices(shape)
    return (128 + 60 * np.sin(x / 9 + c) + 50 * np.cos(y / 7 + z / 3)).astype("uint8")


def with_tensorstore(elements, scale):
    c, z, y, x = elements.shape
    store = ts.open({
        "driver": "neuroglancer_precomputed",
        "kvstore": "memory://",
        "multiscale_metadata": {
            "type": "image", "data_type": elements.dtype.name, "num_channels": c,
        },
        "scale_metadata": {
            "key": "s", "size": [x, y, z], "resolution": [1, 1, 1], "chunk_size": [x, y, z], **scale,
        },
    }, create=True).result()
    store.write(elements.transpose(3, 2, 1, 0)).result()
    name = f"s/0-{x}_0-{y}_0-{z}"
    chunk = store.kvstore.read(name).result().value
    return chunk, np.ascontiguousarray(store.read().result().transpose(3, 2, 1, 0))


def segmentation(name, elements, block, writer):
    codec = "neuroglancer_compressed_segmentation"
    if writer.startswith("tensorstore"):
        scale = {"encoding": "compressed_segmentation", "compressed_segmentation_block_size": block}
        chunk, back = with_tensorstore(elements, scale)
        assert (back == elements).all()
    else:
        fortran = elements.transpose(3, 2, 1, 0)
        chunk = compressed_segmentation.compress(fortran, block, order="F")
    case(name, codec, {"block_size": block}, elements, chunk, writer)


TENSORSTORE = "tensorstore 0.1.86"
SEUNG = "compressed-segmentation 2.3.3"
PILLOW = "Pillow 13.0.0"
IMAGECODECS = "imagecodecs 2026.3.6"

small = cells((1, 5, 9, 11), 7, "uint64")
for label, writer in [("ts", TENSORSTORE), ("cs", SEUNG)]:
    segmentation(f"segmentation_{label}_u64", small, [4, 4, 4], writer)
    segmentation(f"segmentation_{label}_u32", cells((1, 8, 8, 8), 20, "uint32"), [8, 8, 8], writer)
    segmentation(f"segmentation_{label}_odd", small, [3, 5, 2], writer)
    noise = rng.integers(0, 40, (1, 4, 8, 9), dtype="uint32")
    segmentation(f"segmentation_{label}_8_bits", noise, [8, 8, 4], writer)
    noise = rng.integers(0, 2**32, (1, 4, 9, 8), dtype="uint32")
    segmentation(f"segmentation_{label}_16_bits", noise, [8, 9, 4], writer)
    segmentation(f"segmentation_{label}_one", np.full((1, 3, 3, 3), 7, "uint64"), [8, 8, 8], writer)
segmentation("segmentation_ts_channels", cells((3, 4, 6, 5), 6, "uint32"), [4, 4, 4], TENSORSTORE)


def picture(elements, width, height):
    """Pixels in rows of this width, channels together."""
    c = elements.shape[0]
    pixels = np.ascontiguousarray(elements.reshape(c, -1).T.reshape(height, width, c))
    return pixels.reshape(height, width) if c == 1 else pixels


def elements_of(pixels, shape):
    return np.ascontiguousarray(pixels.reshape(-1, shape[0]).T.reshape(shape))


def with_pillow(elements, width, height, **options):
    out = io.BytesIO()
    PIL.Image.fromarray(picture(elements, width, height)).save(out, **options)
    back = np.array(PIL.Image.open(io.BytesIO(out.getvalue())))
    return out.getvalue(), elements_of(back, elements.shape)


for c in (1, 3):
    image = smooth((c, 4, 12, 20))
    chunk, back = with_tensorstore(image, {"encoding": "jpeg", "jpeg_quality": 90})
    case(f"jpeg_ts_{c}", "neuroglancer_jpeg", {"quality": 90}, back, chunk, TENSORSTORE, 3)
    for width, height in [(20 * 12, 4), (20, 48), (960, 1)]:
        chunk, back = with_pillow(image, width, height, format="jpeg", quality=85)
        case(f"jpeg_pil_{c}_{width}", "neuroglancer_jpeg", {}, back, chunk, PILLOW, 3)
    chunk, back = with_pillow(image, 240, 4, format="jpeg", quality=60, progressive=True)
    case(f"jpeg_progressive_{c}", "neuroglancer_jpeg", {}, back, chunk, PILLOW, 3)

for c in (1, 2, 3, 4):
    image = smooth((c, 3, 7, 8))
    chunk, back = with_tensorstore(image, {"encoding": "png", "png_level": 9})
    case(f"png_ts_{c}", "neuroglancer_png", {"level": 9}, back, chunk, TENSORSTORE)
    assert (back == image).all()
    chunk, back = with_pillow(image, 56, 3, format="png")
    case(f"png_pil_{c}", "neuroglancer_png", {}, back, chunk, PILLOW)
    deep = rng.integers(0, 2**16, (c, 2, 5, 6), dtype="uint16")
    chunk = imagecodecs.png_encode(picture(deep, 6, 10))
    case(f"png_deep_{c}", "neuroglancer_png", {}, deep, chunk, IMAGECODECS)
deep = rng.integers(0, 2**16, (1, 2, 5, 6), dtype="uint16")
chunk, back = with_tensorstore(deep, {"encoding": "png"})
assert (back == deep).all()
case("png_ts_deep", "neuroglancer_png", {}, deep, chunk, TENSORSTORE)

for c in (1, 3):
    image = smooth((c, 4, 12, 20))
    for label, options in [("lossless", {"lossless": True}), ("lossy", {"level": 85})]:
        chunk = imagecodecs.jpegxl_encode(picture(image, 20, 48), **options)
        back = elements_of(imagecodecs.jpegxl_decode(chunk), image.shape)
        tolerance = 0 if label == "lossless" else 2
        case(f"jxl_{label}_{c}", "neuroglancer_jxl", {}, back, chunk, IMAGECODECS, tolerance)

COMPRESSO = "compresso 3.3.3"
for width, dtype in [(1, "uint8"), (2, "uint16"), (4, "uint32"), (8, "uint64")]:
    volumes = {"cells": cells((1, 4, 9, 13), 9, dtype), "one": np.full((1, 2, 3, 5), 9, dtype)}
    volumes["noise"] = rng.integers(0, 3, (1, 3, 6, 7)).astype(dtype)
    top = np.iinfo(dtype).max
    volumes["top"] = rng.integers(top - 8, top, (1, 2, 6, 7), dtype=dtype)
    for label, volume in volumes.items():
        fortran = np.asfortranarray(volume[0].transpose(2, 1, 0))
        for steps, connectivity, index in [
            ((4, 4, 1), 4, True), ((4, 4, 1), 4, False), ((8, 8, 1), 4, True), ((4, 4, 1), 6, False),
        ]:
            if width in (2, 4) and (connectivity == 6 or steps[0] == 8):
                continue
            chunk = compresso.compress(
                fortran, steps=steps, connectivity=connectivity, random_access_z_index=index
            )
            assert (compresso.decompress(chunk) == fortran).all()
            name = f"compresso_{label}_{dtype}_{steps[0]}_{connectivity}_{int(index)}"
            case(name, "neuroglancer_compresso", {}, volume, chunk, COMPRESSO)

(here / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
