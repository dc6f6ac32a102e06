"""Data types as the tests see them: elements are opaque bytes, so NaN payloads count.

Elements of a fixed size are numpy void arrays (`V4` for float32), little-endian. Elements of
varying length are object arrays of `bytes` (UTF-8 for strings).
"""

from __future__ import annotations

import base64
import math
import random
import struct
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

Raw = npt.NDArray[Any]
Kind = Literal[
    "bool",
    "int",
    "uint",
    "float",
    "complex",
    "time",
    "utf32",
    "cstring",
    "raw",
    "struct",
    "string",
    "bytes",
]


@dataclass(frozen=True)
class DataType:
    """One data type: how metadata names it and what its elements look like."""

    name: str
    metadata: Any
    kind: Kind
    itemsize: int
    """Bytes of one element; 0 if elements differ in length."""
    numpy: str | None = None
    """The numpy type with the same elements, if numpy itself has one."""
    part: str = ""
    """The numpy or ml_dtypes name of the number (or of either part of a complex number)."""
    bits: int = 8
    """Bits of a number that are in use, for types below a byte."""

    @property
    def variable(self) -> bool:
        return self.itemsize == 0

    @property
    def raw(self) -> np.dtype[Any]:
        return np.dtype(object) if self.variable else np.dtype(f"V{self.itemsize}")

    @property
    def part_size(self) -> int:
        """The unit whose byte order `endian` is about."""
        if self.kind == "complex":
            return self.itemsize // 2
        if self.kind == "utf32":
            return 4
        return self.itemsize if self.kind in ("int", "uint", "float", "time") else 1


def part_dtype(name: str) -> np.dtype[Any]:
    """The numpy type of a number, from numpy or ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name, name))


def _number(name: str, kind: Kind, size: int, bits: int = 0, native: bool = False) -> DataType:
    code = {"bool": "?", "int": "<i", "uint": "<u", "float": "<f"}[kind]
    numpy_name = (code if kind == "bool" else f"{code}{size}") if native else None
    return DataType(name, name, kind, size, numpy_name, name, bits or 8 * size)


def _complex(name: str, part: str, size: int, bits: int = 0, native: bool = False) -> DataType:
    numpy_name = f"<c{2 * size}" if native else None
    return DataType(name, name, "complex", 2 * size, numpy_name, part, bits or 8 * size)


def _configured(
    name: str, short: str, kind: Kind, size: int, numpy_name: str | None, **config: Any
) -> DataType:
    return DataType(short, {"name": name, "configuration": config}, kind, size, numpy_name)


SUBFLOATS = {
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "float8_e3m4": 8,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
}

_STRUCT_FIELDS = [["a", "int16"], ["b", "float32"], ["c", "uint8"]]

_ALL = [
    _number("bool", "bool", 1, native=True),
    *(_number(f"int{8 * n}", "int", n, native=True) for n in (1, 2, 4, 8)),
    *(_number(f"uint{8 * n}", "uint", n, native=True) for n in (1, 2, 4, 8)),
    *(_number(f"float{8 * n}", "float", n, native=True) for n in (2, 4, 8)),
    _complex("complex64", "float32", 4, native=True),
    _complex("complex128", "float64", 8, native=True),
    *(_number(f"int{n}", "int", 1, bits=n) for n in (2, 4)),
    *(_number(f"uint{n}", "uint", 1, bits=n) for n in (2, 4)),
    _number("bfloat16", "float", 2),
    *(_number(name, "float", 1, bits) for name, bits in SUBFLOATS.items()),
    _complex("complex_bfloat16", "bfloat16", 2),
    _complex("complex_float16", "float16", 2),
    _complex("complex_float32", "float32", 4),
    _complex("complex_float64", "float64", 8),
    *(_complex(f"complex_{name}", name, 1, bits) for name, bits in SUBFLOATS.items()),
    DataType("r8", "r8", "raw", 1),
    DataType("r24", "r24", "raw", 3),
    DataType("r64", "r64", "raw", 8),
    _configured("numpy.datetime64", "datetime64[s]", "time", 8, "<M8[s]", unit="s", scale_factor=1),
    _configured(
        "numpy.datetime64", "datetime64[10us]", "time", 8, "<M8[10us]", unit="us", scale_factor=10
    ),
    _configured(
        "numpy.timedelta64", "timedelta64[ns]", "time", 8, "<m8[ns]", unit="ns", scale_factor=1
    ),
    _configured("fixed_length_utf32", "fixed_length_utf32", "utf32", 12, "<U3", length_bytes=12),
    _configured(
        "null_terminated_bytes", "null_terminated_bytes", "cstring", 5, "|S5", length_bytes=5
    ),
    _configured("structured", "structured", "struct", 7, None, fields=_STRUCT_FIELDS),
    DataType("string", "string", "string", 0),
    DataType("bytes", "bytes", "bytes", 0),
]

DATA_TYPES: dict[str, DataType] = {data_type.name: data_type for data_type in _ALL}
STRUCT_DTYPE = np.dtype([("a", "<i2"), ("b", "<f4"), ("c", "u1")])
CORE = tuple(data_type.name for data_type in _ALL[:14])
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))

# --- values -------------------------------------------------------------------------------------


def random_values(data_type: DataType, rng: np.random.Generator, count: int) -> Raw:
    """`count` elements drawn from all that the type can hold, odd bit patterns included."""
    if data_type.variable:
        return _random_variable(data_type, rng, count)
    if data_type.kind == "utf32":
        return _random_utf32(data_type, rng, count)
    if data_type.kind == "cstring":
        return _random_cstrings(data_type, rng, count)
    noise = rng.integers(0, 256, size=(count, data_type.itemsize), dtype=np.uint8)
    if data_type.kind == "bool":
        noise &= 1
    elif data_type.bits < 8:
        noise &= (1 << data_type.bits) - 1
        if data_type.kind == "int":
            noise = sign_extended(noise, data_type.bits)
    return np.frombuffer(noise.tobytes(), dtype=data_type.raw)


def sign_extended(numbers: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """The `bits` low bits of each byte as a signed number, in a whole byte."""
    shift = 8 - bits
    return (((numbers.view(np.int8) << shift).astype(np.int8)) >> shift).view(np.uint8)


def _random_variable(data_type: DataType, rng: np.random.Generator, count: int) -> Raw:
    out = np.empty(count, dtype=object)
    alphabet = 'abcXYZ 019äß€漢😀\n"\\'
    for i in range(count):
        length = int(rng.integers(0, 12)) if rng.random() > 0.02 else int(rng.integers(100, 700))
        if data_type.kind == "string":
            letters = rng.integers(0, len(alphabet), size=length)
            out[i] = "".join(alphabet[j] for j in letters).encode()
        else:
            out[i] = rng.integers(0, 256, size=length, dtype=np.uint8).tobytes()
    return out


def _random_utf32(data_type: DataType, rng: np.random.Generator, count: int) -> Raw:
    letters = np.array([ord(c) for c in "aZ0 ä€漢😀"], dtype="<u4")
    width = data_type.itemsize // 4
    text = letters[rng.integers(0, len(letters), size=(count, width))]
    lengths = rng.integers(0, width + 1, size=(count, 1))
    text[np.arange(width)[None, :] >= lengths] = 0
    return np.frombuffer(text.tobytes(), dtype=data_type.raw)


def _random_cstrings(data_type: DataType, rng: np.random.Generator, count: int) -> Raw:
    text = rng.integers(1, 256, size=(count, data_type.itemsize), dtype=np.uint8)
    lengths = rng.integers(0, data_type.itemsize + 1, size=(count, 1))
    text[np.arange(data_type.itemsize)[None, :] >= lengths] = 0
    return np.frombuffer(text.tobytes(), dtype=data_type.raw)


def filled(data_type: DataType, shape: tuple[int, ...], element: bytes) -> Raw:
    """An array that holds one element everywhere."""
    out = np.empty(shape, dtype=data_type.raw)
    out[...] = element if data_type.variable else np.frombuffer(element, dtype=data_type.raw)[0]
    return out


# --- fill values --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fill:
    """A fill value: what metadata says, what elements it stands for, and which sort it is."""

    metadata: Any
    element: bytes
    sort: str


FILL_SORTS = (
    "zero",
    "plain",
    "extreme",
    "negative",
    "negative-zero",
    "nan",
    "nan-payload",
    "infinity",
    "hex",
    "rounded",
    "array",
)


def fill_sorts(data_type: DataType) -> tuple[str, ...]:
    """The sorts of fill value that make sense for a type."""
    kind = data_type.kind
    if kind == "bool":
        return ("zero", "plain")
    if kind in ("int", "uint"):
        return ("zero", "plain", "extreme") + (("negative",) if kind == "int" else ())
    if kind in ("float", "complex"):
        return _float_sorts(data_type.part)
    if kind == "time":
        return ("zero", "plain", "negative", "nan")
    if kind == "bytes":
        return ("zero", "plain", "array")
    return ("zero", "plain")


def _float_sorts(part: str) -> tuple[str, ...]:
    plain = ("plain", "hex")
    if part == "float8_e8m0fnu":
        return (*plain, "nan")
    common = ("zero", *plain, "negative")
    if part.startswith(("float4", "float6")):
        return (*common, "negative-zero")
    if part.endswith("fnuz"):
        return (*common, "nan")
    ieee = (*common, "negative-zero", "nan", "infinity")
    return ieee if part in SUBFLOATS else (*ieee, "nan-payload", "rounded", "extreme")


def make_fill(data_type: DataType, sort: str, dice: random.Random) -> Fill:
    """A fill value of the sort asked for."""
    kind = data_type.kind
    if kind in ("float", "complex"):
        return _float_fill(data_type, sort, dice)
    if kind in ("string", "bytes", "utf32", "cstring", "raw", "struct"):
        return _text_fill(data_type, sort)
    if kind == "bool":
        return Fill(sort == "plain", bytes([sort == "plain"]), sort)
    number = _integer_fill(data_type, sort, dice)
    element = number.to_bytes(data_type.itemsize, "little", signed=kind != "uint")
    return Fill("NaT" if sort == "nan" else number, element, sort)


def _integer_fill(data_type: DataType, sort: str, dice: random.Random) -> int:
    signed = data_type.kind != "uint"
    low = -(1 << (data_type.bits - 1)) if signed else 0
    high = (1 << (data_type.bits - signed)) - 1
    if data_type.kind == "time":
        low, high = -(1 << 63), (1 << 53)
    if sort == "nan":
        return low
    if sort == "negative":
        return dice.randint(low + 1, -1)
    if sort == "extreme":
        return dice.choice([low, high])
    return 0 if sort == "zero" else dice.randint(1, min(high, 100))


def _float_fill(data_type: DataType, sort: str, dice: random.Random) -> Fill:
    first = _float_number(data_type.part, sort, dice)
    if data_type.kind == "float":
        return Fill(first[0], first[1], sort)
    other = sort if data_type.part == "float8_e8m0fnu" else dice.choice([sort, "plain"])
    second = _float_number(data_type.part, other, dice)
    parts = [first, second] if dice.random() < 0.5 else [second, first]
    return Fill([part[0] for part in parts], b"".join(part[1] for part in parts), sort)


def _float_number(part: str, sort: str, dice: random.Random) -> tuple[Any, bytes]:
    """What metadata says for one number, and its bytes."""
    dtype = part_dtype(part)
    size = dtype.itemsize
    if sort == "nan":
        return "NaN", _nan_bytes(part)
    if sort == "infinity":
        text = dice.choice(["Infinity", "-Infinity"])
        return text, _float_bytes(float(text.replace("Infinity", "inf")), dtype)
    if sort in ("hex", "nan-payload"):
        bits = _hex_bits(part, sort, dice)
        return f"0x{bits:0{2 * size}x}", bits.to_bytes(size, "little")
    number = {
        "zero": 0.0,
        "negative-zero": -0.0,
        "plain": dice.choice([0.5, 1.0, 2.0]),
        "negative": dice.choice([-0.5, -1.0, -2.0]),
        "rounded": dice.choice([0.1, -3.3, 1 / 3]),
    }
    if sort == "extreme":
        limits = ml_dtypes.finfo(dtype)
        value = float(dice.choice([limits.max, limits.min, limits.smallest_subnormal]))
    else:
        value = number[sort]
    return value, _float_bytes(value, dtype)


def _float_bytes(value: float, dtype: np.dtype[Any]) -> bytes:
    return np.array(value, dtype=np.float64).astype(dtype).tobytes()


def _nan_bytes(part: str) -> bytes:
    """The NaN that the specifications mean by the word."""
    words = {
        "float16": 0x7E00,
        "bfloat16": 0x7FC0,
        "float32": 0x7FC0_0000,
        "float64": 0x7FF8_0000_0000_0000,
        "float8_e8m0fnu": 0xFF,
        "float8_e3m4": 0x78,
        "float8_e4m3": 0x7C,
        "float8_e5m2": 0x7E,
        "float8_e4m3b11fnuz": 0x80,
        "float8_e4m3fnuz": 0x80,
        "float8_e5m2fnuz": 0x80,
    }
    return words[part].to_bytes(part_dtype(part).itemsize, "little")


def _hex_bits(part: str, sort: str, dice: random.Random) -> int:
    if sort == "nan-payload":
        quiet = int.from_bytes(_nan_bytes(part), "little")
        sign = 1 << (8 * part_dtype(part).itemsize - 1)
        return quiet | dice.randint(1, 63) | (sign if dice.random() < 0.5 else 0)
    one = int.from_bytes(_float_bytes(1.0, part_dtype(part)), "little")
    return one + dice.randint(0, 1)


def _text_fill(data_type: DataType, sort: str) -> Fill:
    plain = sort == "plain"
    if data_type.kind == "string":
        text = "fill ü" if plain else ""
        return Fill(text, text.encode(), sort)
    if sort == "array":
        return Fill([1, 0, 255], b"\x01\x00\xff", sort)
    if data_type.kind == "bytes":
        return _base64_fill(b"\x01\x00\xff" if plain else b"", sort)
    if data_type.kind == "utf32":
        text = "fü" if plain else ""
        return Fill(text, text.encode("utf-32-le").ljust(data_type.itemsize, b"\0"), sort)
    if data_type.kind == "cstring":
        text_bytes = b"fi" if plain else b""
        return Fill(_base64(text_bytes), text_bytes.ljust(data_type.itemsize, b"\0"), sort)
    if data_type.kind == "struct":
        return _base64_fill(struct.pack("<hfB", -3, 1.5, 7) if plain else bytes(7), sort)
    element = bytes(range(1, data_type.itemsize + 1)) if plain else bytes(data_type.itemsize)
    return Fill(list(element), element, sort)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _base64_fill(data: bytes, sort: str) -> Fill:
    return Fill(_base64(data), data, sort)


def twin(data_type: DataType, fill: Fill) -> bytes | None:
    """An element that compares equal to the fill value as a number but is not the same bytes.

    A writer that leaves out chunks of fill values must keep chunks of these.
    """
    if data_type.kind != "float" or data_type.part in SUBFLOATS:
        return None
    value = float(np.frombuffer(fill.element, dtype=part_dtype(data_type.part))[0])
    top = 1 << (8 * data_type.itemsize - 1)
    bits = int.from_bytes(fill.element, "little")
    if math.isnan(value):
        return (bits ^ top).to_bytes(data_type.itemsize, "little")
    return (bits ^ top).to_bytes(data_type.itemsize, "little") if value == 0.0 else None


def has_other_nan(data_type: DataType, elements: Raw, fill: bytes) -> bool:
    """Whether a NaN among the elements has other bytes than the fill value."""
    parts = np.frombuffer(elements.tobytes(), dtype=part_dtype(data_type.part))
    with np.errstate(invalid="ignore"):
        nan = np.isnan(parts.astype(np.float64))
    bytes_of = np.frombuffer(elements.tobytes(), dtype=np.uint8).reshape(-1, data_type.itemsize)
    other = (bytes_of != np.frombuffer(fill, dtype=np.uint8)).any(axis=1)
    return bool((nan.reshape(len(other), -1).any(axis=1) & other).any())
