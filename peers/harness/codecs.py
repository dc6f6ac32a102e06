"""Codecs of the innermost chunks: what metadata says, and what rounding does to the elements."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .dtypes import CORE, DATA_TYPES, INTEGERS, DataType, Raw

Json = dict[str, Any]
Rounding = Callable[[Raw], Raw]


def codec(name: str, /, **configuration: Any) -> Json:
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def empty_codec(name: str) -> Json:
    """A codec without options in the long form, which zarr-python insists on for its own."""
    return {"name": name, "configuration": {}}


@dataclass
class Leaf:
    """The codecs of an innermost chunk."""

    filters: list[Json] = field(default_factory=list)
    serializer: Json | None = None
    """The array-to-bytes codec, if it is not the ordinary one of the data type."""
    compressors: list[Json] = field(default_factory=list)
    domain: str = "any"
    """Which elements to generate: some codecs hold only some of them exactly."""
    rounding: Rounding | None = None
    """What a codec that rounds makes of the elements."""
    fills: tuple[str, ...] = ()
    """The only sorts of fill value that survive the codec, if not all do."""


BLOSC_NAMES = ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib")
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
FLOATS = ("float16", "float32", "float64")
PACKABLE = (
    "bool",
    "int2",
    "uint2",
    "int4",
    "uint4",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "complex_float4_e2m1fn",
    "complex_float6_e2m3fn",
    "complex_float6_e3m2fn",
    *INTEGERS,
    "float32",
    "float64",
    "bfloat16",
    "complex_bfloat16",
)

CORE_CODECS = (
    "none",
    *(f"blosc:{name}" for name in BLOSC_NAMES),
    "gzip",
    "zstd",
    "zstd:checksum",
    "crc32c",
    "two",
    "transpose",
)
CHECKSUMS = ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")
NUMCODECS_BYTES = ("zstd", "gzip", "zlib", "lz4", "bz2", "lzma", "blosc", "shuffle", *CHECKSUMS)
NUMCODECS_ARRAY = ("delta", "bitround", "fixedscaleoffset", "quantize", "packbits", "astype")
NUMCODECS = tuple(f"numcodecs.{name}" for name in (*NUMCODECS_BYTES, *NUMCODECS_ARRAY))
OTHER_CODECS = ("packbits", "packbits:bits", "bitround", "reshape")
LEAF_CODECS = (*CORE_CODECS, *NUMCODECS, *OTHER_CODECS)


def data_types_of(name: str) -> tuple[str, ...]:
    """The data types that a leaf codec is tested with."""
    if name in ("packbits", "packbits:bits"):
        return PACKABLE if name == "packbits" else INTEGERS
    if name == "numcodecs.delta":
        return INTEGERS
    if name in ("numcodecs.bitround", "bitround"):
        return FLOATS
    if name in ("numcodecs.fixedscaleoffset", "numcodecs.quantize", "numcodecs.astype"):
        return ("float32", "float64")
    if name == "numcodecs.packbits":
        return ("bool",)
    if name == "numcodecs.shuffle":
        return tuple(t for t in CORE if DATA_TYPES[t].itemsize > 1)
    if name.startswith("numcodecs."):
        return CORE
    return tuple(DATA_TYPES)


def make_leaf(name: str, data_type: DataType, shape: tuple[int, ...], dice: random.Random) -> Leaf:
    """The codecs of a leaf chunk of the given shape, built around one of `LEAF_CODECS`."""
    if name in ("packbits", "packbits:bits"):
        return _packbits(name, data_type, dice)
    if name.startswith("numcodecs."):
        return _numcodecs(name.removeprefix("numcodecs."), data_type, dice)
    if name == "bitround":
        return _bitround("bitround", data_type, dice)
    if name == "reshape":
        return Leaf(filters=[_reshape(shape, dice)])
    if name == "transpose":
        order = list(range(len(shape)))
        dice.shuffle(order)
        compressors = [_core_compressor(data_type, dice)] if dice.random() < 0.5 else []
        return Leaf(filters=[codec("transpose", order=order)], compressors=compressors)
    if name == "two":
        return Leaf(compressors=[_core_compressor(data_type, dice) for _ in range(2)])
    return Leaf(compressors=[] if name == "none" else [core_codec(name, data_type, dice)])


def core_codec(name: str, data_type: DataType, dice: random.Random) -> Json:
    """One bytes-to-bytes codec of the core specification."""
    if name.startswith("blosc:"):
        return codec(
            "blosc",
            cname=name.removeprefix("blosc:"),
            clevel=dice.randint(0, 9),
            shuffle=dice.choice(SHUFFLES),
            typesize=max(1, data_type.itemsize),
            blocksize=dice.choice([0, 0, 256]),
        )
    if name == "gzip":
        return codec("gzip", level=dice.choice([0, 1, 5, 9]))
    if name in ("zstd", "zstd:checksum"):
        return codec("zstd", level=dice.choice([-5, 0, 1, 3, 9]), checksum=name != "zstd")
    return codec("crc32c")


def _core_compressor(data_type: DataType, dice: random.Random) -> Json:
    names = ("gzip", "zstd", "zstd:checksum", "crc32c", "blosc:lz4", "blosc:zstd")
    return core_codec(dice.choice(names), data_type, dice)


def _reshape(shape: tuple[int, ...], dice: random.Random) -> Json:
    total = int(np.prod(shape, dtype=np.int64))
    rank = len(shape)
    choices: list[list[Any]] = [[-1], [total], [1, -1], [1, total, 1]]
    if rank >= 2:
        choices += [[[0], -1], [[0, 1], *([axis] for axis in range(2, rank))]]
        choices += [[list(range(rank - 1)), [rank - 1]]]
    return codec("reshape", shape=dice.choice(choices))


def _numcodecs(name: str, data_type: DataType, dice: random.Random) -> Leaf:
    full = f"numcodecs.{name}"
    if name in CHECKSUMS:
        return Leaf(compressors=[_checksum(full, dice)])
    if name in NUMCODECS_BYTES:
        return Leaf(compressors=[codec(full, **_numcodecs_options(name, data_type, dice))])
    if name == "bitround":
        return _bitround(full, data_type, dice)
    native = data_type.numpy
    if name == "delta":
        wider = dice.random() < 0.4 and 1 < data_type.itemsize < 8
        widened: Json = {"astype": "<i8"} if wider else {}
        return Leaf(
            filters=[codec(full, dtype=native, **widened)], domain="small" if wider else "any"
        )
    if name == "fixedscaleoffset":
        options = {"offset": dice.choice([0, -8, 100]), "scale": dice.choice([1, 16, 64])}
        astype = dice.choice(["<i4", "<i8"])
        return Leaf(
            filters=[codec(full, dtype=native, astype=astype, **options)],
            domain="whole" if options["scale"] == 1 else "dyadic",
            fills=("zero",),
        )
    if name == "quantize":
        return Leaf(filters=[codec(full, digits=2, dtype=native)], domain="dyadic", fills=("zero",))
    if name == "astype":
        wide = "<f8"
        return Leaf(
            filters=[codec(full, encode_dtype=wide, decode_dtype=native)],
            domain="dyadic",
            fills=("zero", "plain"),
        )
    return Leaf(filters=[empty_codec(full)])


def _checksum(full: str, dice: random.Random) -> Json:
    if full.endswith("jenkins_lookup3"):
        return codec(full, initval=dice.choice([0, 7]))
    if full.endswith(("fletcher32", "adler32")) or dice.random() < 0.5:
        return empty_codec(full)
    return codec(full, location=dice.choice(["start", "end"]))


def _numcodecs_options(name: str, data_type: DataType, dice: random.Random) -> Json:
    options: dict[str, Json] = {
        "zstd": {"level": dice.choice([1, 5])},
        "gzip": {"level": dice.choice([1, 9])},
        "zlib": {"level": dice.choice([1, 9])},
        "lz4": {"acceleration": dice.choice([1, 10])},
        "bz2": {"level": dice.choice([1, 9])},
        "lzma": {"format": 1, "check": -1, "preset": dice.choice([None, 1]), "filters": None},
        "blosc": {
            "cname": dice.choice(["lz4", "zstd", "blosclz", "zlib", "lz4hc"]),
            "clevel": dice.choice([1, 5]),
            "shuffle": dice.choice([0, 1, 2]),
            "blocksize": 0,
        },
        "shuffle": {"elementsize": data_type.itemsize},
    }
    return options[name]


def _bitround(full: str, data_type: DataType, dice: random.Random) -> Leaf:
    mantissa = {"float16": 10, "float32": 23, "float64": 52}[data_type.name]
    keep = dice.randint(1, mantissa)
    return Leaf(
        filters=[codec(full, keepbits=keep)],
        domain="finite",
        rounding=lambda raw: _round_mantissa(raw, data_type, mantissa - keep),
        fills=("zero", "plain", "negative"),
    )


def _round_mantissa(raw: Raw, data_type: DataType, drop: int) -> Raw:
    """Rounds the mantissa half to even, dropping its low bits."""
    if drop == 0:
        return raw
    unsigned = np.dtype(f"<u{data_type.itemsize}")
    bits = np.frombuffer(raw.tobytes(), dtype=unsigned).astype(np.uint64)
    low = np.uint64((1 << (drop - 1)) - 1)
    odd = (bits >> np.uint64(drop)) & np.uint64(1)
    bits = ((bits + odd + low) >> np.uint64(drop)) << np.uint64(drop)
    return np.frombuffer(bits.astype(unsigned).tobytes(), dtype=raw.dtype).reshape(raw.shape)


def _packbits(name: str, data_type: DataType, dice: random.Random) -> Leaf:
    paddings: list[Json] = [
        {},
        *({"padding_encoding": p} for p in ("none", "first_byte", "last_byte")),
    ]
    padding = dice.choice(paddings)
    if name == "packbits":
        nulls = {"first_bit": None, "last_bit": None} if dice.random() < 0.3 else {}
        return Leaf(serializer=codec("packbits", **padding, **nulls))
    first = dice.randint(0, data_type.bits - 1)
    last = dice.randint(first, data_type.bits - 1)
    return Leaf(
        serializer=codec("packbits", **padding, first_bit=first, last_bit=last),
        rounding=lambda raw: _keep_bits(raw, data_type, first, last),
        fills=("zero",),
    )


def _keep_bits(raw: Raw, data_type: DataType, first: int, last: int) -> Raw:
    """Clears the bits outside `first..=last`, extending the sign of signed numbers."""
    dtype = np.dtype(data_type.numpy)
    numbers = np.frombuffer(raw.tobytes(), dtype=dtype)
    up = dtype.type(data_type.bits - 1 - last)
    low = dtype.type(first)
    kept = (((numbers << up) >> up) >> low) << low
    return np.frombuffer(kept.astype(dtype).tobytes(), dtype=raw.dtype).reshape(raw.shape)


def domain_values(domain: str, data_type: DataType, rng: np.random.Generator, count: int) -> Raw:
    """Elements that the codec behind a `domain` keeps exactly (or rounds without surprise)."""
    dtype = np.dtype(data_type.numpy)
    if domain == "finite":
        numbers = rng.normal(0, 50, count).astype(dtype)
    elif domain == "dyadic":
        numbers = (rng.integers(-1600, 1600, count) / 16).astype(dtype)
    elif domain == "whole":
        numbers = rng.integers(-1000, 1000, count).astype(dtype)
    else:
        numbers = rng.integers(0 if data_type.kind == "uint" else -50, 50, count).astype(dtype)
    return np.frombuffer(numbers.tobytes(), dtype=data_type.raw)
