"""What each implementation can do, and the faults of the peers that are known.

A peer is left out of a case only by a rule in this file. Anything else that goes wrong is a
failure and shows in the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .codecs import NUMCODECS, NUMCODECS_ARRAY, Json
from .dtypes import CORE, DATA_TYPES, has_other_nan

if TYPE_CHECKING:
    from .cases import Case

ZARR_PYTHON, TENSORSTORE, ZARRS, SHARDINE = "zarr-python", "tensorstore", "zarrs", "shardine"
PEERS = (ZARR_PYTHON, TENSORSTORE, ZARRS)

_TIMES = tuple(name for name in DATA_TYPES if "64[" in name)
_CORE_NAMES = frozenset(
    {"transpose", "bytes", "sharding_indexed", "blosc", "gzip", "zstd", "crc32c"}
)
_TEXT_NAMES = frozenset({"vlen-utf8", "vlen-bytes"})

SUPPORTED_TYPES: dict[str, frozenset[str]] = {
    ZARR_PYTHON: frozenset(
        {
            *CORE,
            *_TIMES,
            "fixed_length_utf32",
            "null_terminated_bytes",
            "structured",
            "string",
            "bytes",
        }
    ),
    TENSORSTORE: frozenset(
        {
            *CORE,
            "int2",
            "int4",
            "float4_e2m1fn",
            "float8_e3m4",
            "float8_e4m3b11fnuz",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "bfloat16",
        }
    ),
    ZARRS: frozenset(DATA_TYPES) - {"null_terminated_bytes", "structured"},
    SHARDINE: frozenset(DATA_TYPES),
}

SUPPORTED_CODECS: dict[str, frozenset[str]] = {
    ZARR_PYTHON: frozenset({*_CORE_NAMES, *_TEXT_NAMES, *NUMCODECS}),
    TENSORSTORE: _CORE_NAMES,
    ZARRS: frozenset(
        {
            *_CORE_NAMES,
            *_TEXT_NAMES,
            "packbits",
            "bitround",
            "reshape",
            "numcodecs.bitround",
            "numcodecs.zlib",
            "numcodecs.bz2",
            "numcodecs.shuffle",
            "numcodecs.adler32",
            "numcodecs.fletcher32",
            "numcodecs.fixedscaleoffset",
        }
    ),
    SHARDINE: frozenset({*_CORE_NAMES, *_TEXT_NAMES, *NUMCODECS, "packbits", "bitround"})
    - {"numcodecs.jenkins_lookup3", "numcodecs.astype", "numcodecs.quantize"},
}


def chains(codecs: list[Json]) -> Iterator[list[Json]]:
    """The codecs of the array, then those of the chunks in its shards, and so on inwards."""
    yield codecs
    for item in codecs:
        if item["name"] == "sharding_indexed":
            yield from chains(item["configuration"]["codecs"])


def all_codecs(case: Case) -> list[Json]:
    """All codecs of a case but those of shard indexes."""
    return [item for chain in chains(case.metadata["codecs"]) for item in chain]


def lacks(peer: str, case: Case) -> str | None:
    """Why a peer cannot take part in a case at all, by design; `None` if it can."""
    if case.data_type.name not in SUPPORTED_TYPES[peer]:
        return f"{peer} has no data type {case.data_type.name}"
    missing = {item["name"] for item in all_codecs(case)} - SUPPORTED_CODECS[peer]
    if missing:
        return f"{peer} has no codec {min(missing)}"
    if peer == TENSORSTORE and _codec_after_sharding(case):
        return f"{peer} allows no codec after sharding_indexed"
    return None


def _codec_after_sharding(case: Case) -> bool:
    for chain in chains(case.metadata["codecs"]):
        names = [item["name"] for item in chain]
        if "sharding_indexed" in names[:-1]:
            return True
    return False


@dataclass(frozen=True)
class Fault:
    """A known fault of a peer: when it bites, and what happens then."""

    peer: str
    roles: tuple[str, ...]
    """In which roles the peer is left out: `create`, `write` (also of others' arrays), `read`."""
    reason: str
    applies: Callable[[Case], bool]


def _is_sharded(case: Case) -> bool:
    return any(item["name"] == "sharding_indexed" for item in case.metadata["codecs"])


def _has_codec(case: Case, *names: str) -> bool:
    return any(item["name"] in names for item in all_codecs(case))


def _has_snappy(case: Case) -> bool:
    return any(
        item["name"] == "blosc" and item["configuration"]["cname"] == "snappy"
        for item in all_codecs(case)
    )


def _transposed_shards_do_not_divide(case: Case) -> bool:
    """The inner shape, permuted, does not divide the shard as it was before the transpose."""
    codecs = case.metadata["codecs"]
    outer = case.metadata["chunk_grid"]["configuration"]["chunk_shape"]
    if codecs[0]["name"] != "transpose" or not _is_sharded(case):
        return False
    inner = codecs[1]["configuration"]["chunk_shape"]
    return any(size % part for size, part in zip(outer, inner, strict=True))


def _big_endian_filter(case: Case) -> bool:
    filters = {f"numcodecs.{name}" for name in NUMCODECS_ARRAY}
    big = any(
        item["name"] == "bytes" and item.get("configuration", {}).get("endian") == "big"
        for item in all_codecs(case)
    )
    return big and any(item["name"] in filters for item in all_codecs(case))


def _other_nans(case: Case) -> bool:
    """The fill value is a NaN, and other NaNs are written."""
    if case.data_type.kind not in ("float", "complex") or "nan" not in case.fill.sort:
        return False
    writes = [*case.writes, case.update] if case.update else case.writes
    return any(has_other_nan(case.data_type, write.given, case.fill.element) for write in writes)


def _blosc_after_another(case: Case) -> bool:
    for chain in chains(case.metadata["codecs"]):
        names = [item["name"] for item in chain]
        before = names[: names.index("blosc")] if "blosc" in names else []
        if {"gzip", "zstd", "crc32c"} & set(before) or names.count("blosc") > 1:
            return True
    return False


def _number_as_exponent(case: Case) -> bool:
    """The fill value is stored as a number, or would be by tensorstore itself."""
    if case.data_type.name != "float8_e8m0fnu":
        return False
    return case.fill.sort == "plain" or (case.fill.sort == "hex" and not case.verbatim)


def _empty_elements(case: Case) -> bool:
    """The fill value is not empty, but elements of varying length are."""
    if not case.data_type.variable or case.fill.element == b"":
        return False
    writes = [*case.writes, case.update] if case.update else case.writes
    return any((write.given == b"").any() for write in writes)


def _whole_bytes_with_padding(case: Case) -> bool:
    """Elements of whole bytes are packed, and the number of padding bits is to be stored."""
    for item in all_codecs(case):
        options = item.get("configuration", {})
        partial = options.get("first_bit") is not None or options.get("last_bit") is not None
        padding = options.get("padding_encoding", "none") != "none"
        if item["name"] == "packbits" and padding and not partial:
            return case.data_type.bits % 8 == 0 and case.data_type.kind != "bool"
    return False


def _odd_bytes(case: Case) -> bool:
    return case.data_type.itemsize * math.prod(case.inner) % 2 == 1


FAULTS: list[Fault] = [
    Fault(
        ZARR_PYTHON,
        ("write", "read"),
        "checks the inner chunk shape against the shard as it was before an outer transpose",
        _transposed_shards_do_not_divide,
    ),
    Fault(ZARR_PYTHON, ("write", "read"), "numcodecs is built without snappy", _has_snappy),
    Fault(
        ZARR_PYTHON,
        ("write", "read"),
        "loses the payload of a float16 NaN as the fill value",
        lambda case: case.data_type.name == "float16" and case.fill.sort == "nan-payload",
    ),
    Fault(
        ZARR_PYTHON,
        ("write", "read"),
        "cannot index the shard of an array without axes",
        lambda case: not case.shape and _is_sharded(case),
    ),
    Fault(
        ZARR_PYTHON,
        ("write", "read"),
        "cannot hash the fill value of structured elements in shards",
        lambda case: case.data_type.kind == "struct" and _is_sharded(case),
    ),
    Fault(
        ZARR_PYTHON,
        ("write",),
        "stores transposed elements of varying length in the wrong order",
        lambda case: case.data_type.variable and _has_codec(case, "transpose"),
    ),
    Fault(
        ZARR_PYTHON,
        ("write", "read"),
        "a numcodecs filter takes big-endian elements for little-endian ones",
        _big_endian_filter,
    ),
    Fault(
        ZARR_PYTHON,
        ("write",),
        "leaves out chunks of NaNs that are not the NaN of the fill value",
        _other_nans,
    ),
    Fault(
        ZARR_PYTHON,
        ("write", "read"),
        "counts chunks in floating point, wrongly for axes past 2^53",
        lambda case: any(size > 2**53 for size in case.shape),
    ),
    Fault(
        ZARR_PYTHON,
        ("write", "read"),
        "knows the fill value of variable-length bytes only in base64",
        lambda case: case.fill.sort == "array",
    ),
    Fault(
        TENSORSTORE,
        ("write", "read"),
        "is off by 2^64 between a float8_e8m0fnu fill value and a number in metadata",
        _number_as_exponent,
    ),
    Fault(
        ZARRS,
        ("write", "read"),
        "refuses a transpose of an array without axes",
        lambda case: not case.shape and _has_codec(case, "transpose"),
    ),
    Fault(
        ZARRS,
        ("write", "read"),
        "a transpose of variable-length elements takes the shape for the transposed one",
        lambda case: case.data_type.variable and _has_codec(case, "transpose"),
    ),
    Fault(
        ZARRS,
        ("write", "read"),
        "has another fletcher32 than numcodecs (and HDF5) for an odd number of bytes",
        lambda case: _has_codec(case, "numcodecs.fletcher32") and _odd_bytes(case),
    ),
    Fault(
        ZARRS,
        ("write",),
        "an update of a chunk turns empty elements of varying length into the fill value",
        _empty_elements,
    ),
    Fault(
        ZARRS,
        ("read",),
        "partial reads through adler32 run past the last chunk of a shard",
        lambda case: _is_sharded(case) and _has_codec(case, "numcodecs.adler32"),
    ),
    Fault(
        ZARRS,
        ("read",),
        "partial reads through blosc drop the bytes after the last whole typesize",
        _blosc_after_another,
    ),
    Fault(
        ZARRS,
        ("write", "read"),
        "packbits leaves out the byte with the number of padding bits where there are none",
        _whole_bytes_with_padding,
    ),
    Fault(
        ZARRS,
        ("read",),
        "partial reads through packbits do not move the bits back to first_bit",
        lambda case: any(
            item.get("configuration", {}).get("first_bit") for item in all_codecs(case)
        ),
    ),
    Fault(
        SHARDINE,
        ("create",),
        "no fault: the data type `structured` is for existing arrays only",
        lambda case: case.data_type.name == "structured",
    ),
]


def fault_of(peer: str, role: str, case: Case) -> str | None:
    """The known fault that keeps a peer out of a role in a case."""
    key = f"fault {peer} {role}"
    if key not in case.facts:
        case.facts[key] = next(
            (
                f"{peer} ({role}): {fault.reason}"
                for fault in FAULTS
                if fault.peer == peer and role in fault.roles and fault.applies(case)
            ),
            None,
        )
    return case.facts[key]


def _plain_name(codec_name: str) -> str:
    return {"two": "gzip", "none": "bytes"}.get(codec_name, codec_name).split(":")[0]


def known_to_a_peer(type_name: str, codec_name: str) -> bool:
    """Whether at least one peer has both a data type and a leaf codec."""
    return any(type_name in SUPPORTED_TYPES[peer] and has_codec(peer, codec_name) for peer in PEERS)


def comparable(case: Case) -> bool:
    """Whether some peer can be compared with Shardine, or it is Shardine that cannot take part."""
    if lacks(SHARDINE, case) or fault_of(SHARDINE, "read", case):
        return True
    return any(
        lacks(peer, case) is None
        and any(fault_of(peer, role, case) is None for role in ("write", "read"))
        for peer in PEERS
    )


def has_codec(peer: str, codec_name: str) -> bool:
    """Whether an implementation has a leaf codec of the tests."""
    if codec_name == "blosc:snappy" and peer == ZARR_PYTHON:
        return False
    return _plain_name(codec_name) in SUPPORTED_CODECS[peer]
