"""Writes chunks with zarr-python and numcodecs, for the tests of shardine-codec to read.

    pip install zarr==3.1.6 numcodecs==0.16.6
    python make.py

Each case is an array of one chunk. `<case>.chunk` is that chunk as stored. What
it holds is in the `.elements` file that `cases.json` names, and what a lossy
codec was given in its `.given` file: little-endian elements in C order, or for
text and bytes each element behind its length (u32, little-endian). `cases.json`
also has the codecs as zarr-python wrote them to the metadata, and whether an
encoder has no choice, so that encoding must give the same bytes.
"""

import json
import lzma
import pathlib
import warnings

import numpy as np
import zarr
import zarr.codecs as zc
import zarr.codecs.numcodecs as nc
from zarr.storage import MemoryStore

warnings.simplefilter("ignore")
here = pathlib.Path(__file__).parent
rng = np.random.default_rng(20)

ramp = (np.arange(900) // 4 + rng.integers(0, 8, 900)).astype("uint16").reshape(9, 10, 10)
signed = rng.integers(-(2**31), 2**31 - 1, 201).astype("int32")
small = rng.integers(-128, 127, 203).astype("int8")
big = rng.integers(0, 2**64 - 1, 100, dtype="uint64")
floats = np.concatenate(
    [rng.normal(0, 1e3, 150), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 3e38]]
).astype("float32")
doubles = rng.normal(1000, 1, 120)
halves = rng.normal(0, 10, 90).astype("float16")
tame = np.round(rng.normal(0, 100, 100), 2).astype("float32")
flags = rng.integers(0, 2, 77).astype(bool)
words = np.array(["", "a", "grün", "日本", "x" * 300, "\U0001f600"], dtype=object)
blobs = np.array([b"", b"\x00\xff", bytes(range(256))], dtype=object)

EXACT, FREE = True, False
cases = []
files = {}


def save(content, name):
    """Writes a file once per content; returns its name."""
    if content not in files:
        files[content] = name
        (here / name).write_bytes(content)
    return files[content]


def case(name, data, exact, filters=None, serializer="auto", compressors=None, dtype=None):
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=data.shape,
        chunks=data.shape,
        dtype=dtype or data.dtype,
        filters=filters,
        serializer=serializer,
        compressors=compressors,
        fill_value=None if dtype else 0,
        config={"write_empty_chunks": True},
    )
    array[...] = data
    metadata = json.loads(store._store_dict["zarr.json"].to_bytes())
    (chunk,) = [v.to_bytes() for k, v in store._store_dict.items() if k.startswith("c")]
    back = np.asarray(zarr.open_array(store, mode="r")[...])
    if dtype:
        parts = [e.encode() if isinstance(e, str) else bytes(e) for e in back.ravel()]
        elements = b"".join(len(p).to_bytes(4, "little") + p for p in parts)
    else:
        elements = back.astype(back.dtype.newbyteorder("<")).tobytes()
    (here / f"{name}.chunk").write_bytes(chunk)
    # What a lossy codec was given, where that is not what comes back.
    given = None
    if not dtype:
        raw = data.astype(data.dtype.newbyteorder("<")).tobytes()
        if raw != elements:
            given = save(raw, f"{name}.given")
    cases.append(
        {
            "case": name,
            "data_type": metadata["data_type"],
            "shape": metadata["shape"],
            "codecs": metadata["codecs"],
            "elements": save(elements, f"{name}.elements"),
            "given": given,
            "exact": exact,
        }
    )


# array -> bytes, and transpose
case("bytes_little", ramp, EXACT)
case("bytes_big", ramp, EXACT, serializer=zc.BytesCodec(endian="big"))
case("bytes_big_f8", doubles, EXACT, serializer=zc.BytesCodec(endian="big"))
case("bytes_bool", flags, EXACT)
case("transpose", ramp, EXACT, filters=[zc.TransposeCodec(order=(2, 0, 1))])
case("vlen_utf8", words, EXACT, dtype=str)
case("vlen_bytes", blobs, EXACT, dtype="variable_length_bytes")

# bytes -> bytes
case("crc32c", ramp, EXACT, compressors=[zc.Crc32cCodec()])
case("zstd", ramp, FREE, compressors=[zc.ZstdCodec(level=3)])
case("zstd_checksum", ramp, FREE, compressors=[zc.ZstdCodec(level=-3, checksum=True)])
case("gzip", ramp, FREE, compressors=[zc.GzipCodec(level=5)])
case("gzip_0", ramp, FREE, compressors=[zc.GzipCodec(level=0)])
for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
    for shuffle in ["noshuffle", "shuffle", "bitshuffle"]:
        codec = zc.BloscCodec(typesize=2, cname=cname, clevel=5, shuffle=shuffle, blocksize=0)
        case(f"blosc_{cname}_{shuffle}", ramp, FREE, compressors=[codec])
case("blosc_0", ramp, FREE, compressors=[zc.BloscCodec(typesize=2, clevel=0, shuffle="shuffle")])
case("blosc_crc32c", ramp, FREE, compressors=[zc.BloscCodec(typesize=2), zc.Crc32cCodec()])
case("numcodecs_blosc", ramp, FREE, compressors=[nc.Blosc(cname="zstd", clevel=3, shuffle=2)])
case("numcodecs_blosc_default", ramp, FREE, compressors=[nc.Blosc()])
case("numcodecs_zstd", ramp, FREE, compressors=[nc.Zstd(level=1)])
case("numcodecs_gzip", ramp, FREE, compressors=[nc.GZip(level=4)])
case("numcodecs_zlib", ramp, FREE, compressors=[nc.Zlib(level=9)])
case("numcodecs_bz2", ramp, FREE, compressors=[nc.BZ2(level=9)])
case("numcodecs_lz4", ramp, FREE, compressors=[nc.LZ4(acceleration=1)])
case("numcodecs_lzma", ramp, FREE, compressors=[nc.LZMA()])
case("numcodecs_lzma_sha256", ramp, FREE, compressors=[nc.LZMA(check=10, preset=2)])
case("numcodecs_lzma_alone", ramp, FREE, compressors=[nc.LZMA(format=lzma.FORMAT_ALONE)])
filters = [{"id": lzma.FILTER_DELTA, "dist": 2}, {"id": lzma.FILTER_LZMA2, "preset": 3}]
case("numcodecs_lzma_raw", ramp, FREE, compressors=[nc.LZMA(format=lzma.FORMAT_RAW, filters=filters)])
filters = [{"id": lzma.FILTER_LZMA1, "dict_size": 65536, "lc": 0, "lp": 1, "pb": 1}]
case("numcodecs_lzma_raw_1", ramp, FREE, compressors=[nc.LZMA(format=lzma.FORMAT_RAW, filters=filters)])
case("numcodecs_shuffle", ramp, EXACT, compressors=[nc.Shuffle()])
case("numcodecs_shuffle_4", signed, EXACT, compressors=[nc.Shuffle(elementsize=4)])
case("numcodecs_shuffle_8", doubles, EXACT, compressors=[nc.Shuffle(elementsize=8)])
case("numcodecs_shuffle_3", ramp, EXACT, compressors=[nc.Shuffle(elementsize=3)])
case("numcodecs_crc32", small, EXACT, compressors=[nc.CRC32()])
case("numcodecs_crc32_end", small, EXACT, compressors=[nc.CRC32(location="end")])
case("numcodecs_crc32c", small, EXACT, compressors=[nc.CRC32C()])
case("numcodecs_crc32c_start", small, EXACT, compressors=[nc.CRC32C(location="start")])
case("numcodecs_adler32", small, EXACT, compressors=[nc.Adler32()])
case("numcodecs_adler32_end", small, EXACT, compressors=[nc.Adler32(location="end")])
case("numcodecs_fletcher32", ramp, EXACT, compressors=[nc.Fletcher32()])
case("numcodecs_fletcher32_odd", small, EXACT, compressors=[nc.Fletcher32()])
case("numcodecs_chain", ramp, FREE, compressors=[nc.Shuffle(elementsize=2), nc.Zlib(level=1), nc.CRC32()])

# array -> array
case("numcodecs_delta_u2", ramp, EXACT, filters=[nc.Delta(dtype="<u2")])
case("numcodecs_delta_i4", signed, EXACT, filters=[nc.Delta(dtype="int32")])
case("numcodecs_delta_u8", big, EXACT, filters=[nc.Delta(dtype="<u8")])
case("numcodecs_delta_narrow", ramp, EXACT, filters=[nc.Delta(dtype="<u2", astype="<i2")])
case("numcodecs_delta_wide", ramp, EXACT, filters=[nc.Delta(dtype="<u2", astype="<i8")])
case("numcodecs_delta_f4", tame, EXACT, filters=[nc.Delta(dtype="<f4")])
case("numcodecs_delta_f2", halves, EXACT, filters=[nc.Delta(dtype="<f2")])
case("numcodecs_delta_f4_f8", tame, EXACT, filters=[nc.Delta(dtype="<f4", astype="<f8")])
case("numcodecs_packbits", flags, EXACT, filters=[nc.PackBits()])
for keep in [0, 1, 3, 10, 22, 23]:
    if keep == 0:
        case("numcodecs_bitround_0", tame, EXACT, filters=[nc.BitRound(keepbits=0)])
    else:
        case(f"numcodecs_bitround_{keep}", floats, EXACT, filters=[nc.BitRound(keepbits=keep)])
case("numcodecs_bitround_f8", doubles, EXACT, filters=[nc.BitRound(keepbits=7)])
case("numcodecs_bitround_f2", halves, EXACT, filters=[nc.BitRound(keepbits=4)])


def fso(name, data, **config):
    case(f"numcodecs_fso_{name}", data, EXACT, filters=[nc.FixedScaleOffset(**config)])


fso("f8_u1", doubles, offset=996, scale=25, dtype="<f8", astype="|u1")
fso("f8_i2", doubles, offset=1000.0, scale=1000.5, dtype="<f8", astype="<i2")
fso("f4_i2", tame, offset=0.1, scale=10.3, dtype="<f4", astype="<i2")
fso("f4_f8", tame, offset=7, scale=0.3, dtype="<f4", astype="<f8")
fso("f4", tame, offset=1.5, scale=3, dtype="<f4")
fso("f2_i4", halves, offset=0.3, scale=100, dtype="<f2", astype="<i4")
fso("u2_integers", ramp, offset=3, scale=2, dtype="<u2", astype="<u2")
fso("u2_float_scale", ramp, offset=3, scale=0.5, dtype="<u2", astype="<u1")
fso("u2_float_offset", ramp, offset=2.5, scale=1, dtype="<u2", astype="<i4")
fso("i1_wrapping", small, offset=100, scale=3, dtype="|i1", astype="|i1")
fso("i4_f4", signed, offset=0, scale=1e-3, dtype="<i4", astype="<f4")

(here / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
print(len(cases), "cases")
