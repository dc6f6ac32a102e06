"""Writes chunks with tensorstore's blosc and snappy, for the tests of shardine-codec to read.

    pip install tensorstore==0.1.86 numpy
    python make.py

zarr-python cannot do this: its numcodecs is built without snappy. Each case of
`cases.json` is a chunk of bytes; `frame` says where it lies in `frames.bin`.
What it holds is a pattern, which `elements` here and its twin in the tests make.
"""

import itertools
import json
import pathlib

import numpy as np
import tensorstore as ts

here = pathlib.Path(__file__).parent


def elements(pattern, size, typesize):
    i = np.arange(size, dtype=np.uint64)
    element, byte = i // typesize, i % typesize
    # Slow numbers of two bytes, and what tells the bytes of an element apart.
    ramp = np.where(byte < 2, element // 301 >> 8 * byte, byte) & 255
    # The high byte of a product looks random.
    noise = (((i + 1) * 2654435761 & 0xFFFFFFFF) * 40503 & 0xFFFFFFFF) >> 24
    match pattern:
        case "ramp":
            chosen = ramp
        case "noise":
            chosen = noise
        case "both":
            chosen = np.where(i < size // 3, noise, ramp)
    return chosen.astype("uint8")


def encode(data, **configuration):
    context = ts.Context()
    blosc = {"name": "blosc", "configuration": {"cname": "snappy", **configuration}}
    metadata = {
        "shape": data.shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": data.shape}},
        "codecs": [{"name": "bytes"}, blosc],
    }
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
    spec["store_data_equal_to_fill_value"] = True
    ts.open(spec, create=True, context=context).result().write(data).result()
    return ts.KvStore.open("memory://", context=context).result().read("c/0").result().value


cases, frames = [], b""


def case(pattern, size, typesize, shuffle, clevel, blocksize=0):
    global frames
    configuration = dict(clevel=clevel, shuffle=shuffle, typesize=typesize, blocksize=blocksize)
    frame = encode(elements(pattern, size, typesize), **configuration)
    place = [len(frames), len(frame)]
    frames += frame
    cases.append({"pattern": pattern, "size": size, **configuration, "frame": place})


TYPESIZES = (1, 2, 3, 4, 8, 16, 17)
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
for typesize, shuffle in itertools.product(TYPESIZES, SHUFFLES):
    # One block, its elements a multiple of 8, no multiple of 8, and no whole number.
    for count in (160, 163):
        case("ramp", count * typesize, typesize, shuffle, 5)
    case("ramp", 160 * typesize + typesize // 2, typesize, shuffle, 5)
    # Streams that are stored or grow among others that shrink.
    case("both", 300 * typesize, typesize, shuffle, 9)
# Several blocks, split and not, and what is left.
case("ramp", 150_001, 1, "bitshuffle", 1, 128)
for shuffle in SHUFFLES:
    case("ramp", 70_001, 3, shuffle, 1, 128)
    case("ramp", 70_001, 17, shuffle, 2)
for typesize, shuffle in itertools.product((17, 255), SHUFFLES):
    case("ramp", 5003, typesize, shuffle, 1, 700)
for size in (1, 127, 128, 129):
    case("noise", size, 4, "shuffle", 5)
for clevel in range(10):
    case("ramp", 1000 if clevel == 0 else 10_000, 4, SHUFFLES[clevel % 3], clevel)
case("ramp", 300, 255, "bitshuffle", 5, 128)

text = ",\n".join(json.dumps(case) for case in cases)
(here / "cases.json").write_text(f"[\n{text}\n]\n")
(here / "frames.bin").write_bytes(frames)
print(len(cases), "cases,", len(frames), "bytes")
