"""Arrays of Zarr version 2 as zarr-python writes them: Shardine must read them alike, and so must all after `migrate`.

    python peers/zarr_v2.py --shardine PATH --cases 200 --seed 1
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import tensorstore
import zarr

warnings.simplefilter("ignore")

NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
OTHERS = ("S5", "U3", "V6", "M8[ns]", "M8[10ms]", "m8[s]", "O-text", "O-bytes")

# Codecs that TensorStore has in version 3, and the types.
TENSORSTORE_CODECS = {"bytes", "transpose", "blosc", "gzip", "zstd", "crc32c"}
TENSORSTORE_KINDS = "biufc"


def compressors(rng: random.Random) -> Any:
    shuffle = rng.choice([-1, 0, 1, 2])
    cname = rng.choice(["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
    return rng.choice(
        [
            None,
            numcodecs.Zlib(level=rng.randint(0, 9)),
            numcodecs.GZip(level=rng.randint(0, 9)),
            numcodecs.BZ2(level=rng.randint(1, 9)),
            numcodecs.LZ4(acceleration=rng.randint(1, 5)),
            numcodecs.LZMA(preset=rng.choice([None, 1])),
            numcodecs.Zstd(level=rng.choice([-3, 0, 5]), checksum=rng.random() < 0.5),
            numcodecs.Blosc(cname=cname, clevel=rng.randint(0, 9), shuffle=shuffle),
            numcodecs.Blosc(cname=cname, clevel=5, shuffle=shuffle),
        ]
    )


def filters(rng: random.Random, dtype: np.dtype) -> list[Any] | None:
    """Filters that numcodecs can apply to the type, in orders that make sense."""
    chain: list[Any] = []
    kind, size = dtype.kind, dtype.itemsize
    if rng.random() < 0.45:
        return None
    order = rng.choice("<>")
    if kind in "iu" and rng.random() < 0.6:
        # One that holds every value: numcodecs stores the first as it is.
        wider = rng.choice([dtype, np.dtype(f"{order}i8"), np.dtype(f"{order}i{min(2 * size, 8)}")])
        chain.append(numcodecs.Delta(dtype=dtype.str, astype=wider.str))
    elif kind == "f":
        choice = rng.randrange(4)
        if choice == 0:
            astype = rng.choice([f"{order}i4", f"{order}f8", "|i1", dtype.str])
            chain.append(
                numcodecs.FixedScaleOffset(
                    offset=rng.choice([0, 3, 0.5]), scale=rng.choice([1, 10, 2.5]),
                    dtype=dtype.str, astype=astype,
                )
            )
            if astype.endswith("i4") and rng.random() < 0.5:
                chain.append(numcodecs.Delta(dtype=astype))
        elif choice == 1 and dtype.byteorder != ">":
            chain.append(numcodecs.BitRound(keepbits=rng.randint(1, 9)))
        elif choice == 2:
            chain.append(numcodecs.Delta(dtype=dtype.str))
    elif kind == "b":
        chain.append(numcodecs.PackBits())
    elif kind == "M":
        return None
    last = np.dtype(chain[-1].astype).itemsize if chain and hasattr(chain[-1], "astype") else size
    if kind == "b" and chain:
        last = 1
    if rng.random() < 0.4:
        chain.append(numcodecs.Shuffle(elementsize=last))
    if rng.random() < 0.2:
        chain.append(
            rng.choice(
                [numcodecs.CRC32(), numcodecs.Adler32(), numcodecs.Fletcher32(), numcodecs.CRC32C()]
            )
        )
    return chain or None


def numbers(rng: random.Random, np_rng: np.random.Generator, dtype: np.dtype, shape: tuple) -> Any:
    count = int(np.prod(shape))
    kind = dtype.kind
    if kind == "b":
        values = np_rng.integers(0, 2, count).astype(bool)
    elif kind in "iu":
        values = (np_rng.integers(-(1 << 62), 1 << 62, count) % 200 - 50 * (kind == "i"))
        values = values.astype(dtype)
    elif kind == "f":
        values = np.round(np_rng.normal(0, 20, count), 2)
    elif kind == "c":
        values = np_rng.normal(0, 9, count) + 1j * np_rng.normal(0, 9, count)
    elif kind == "M":
        values = np_rng.integers(0, 10**12, count).astype("i8").astype(dtype.newbyteorder("="))
    elif kind == "m":
        values = np_rng.integers(-(10**6), 10**6, count).astype("i8").astype(dtype.newbyteorder("="))
    elif kind == "S":
        values = np.array([b"x" * rng.randint(0, 5) for _ in range(count)], dtype)
    elif kind == "U":
        values = np.array(["\u00e4\u4e2d"[: rng.randint(0, 2)] for _ in range(count)], dtype)
    else:
        values = np.frombuffer(np_rng.bytes(count * dtype.itemsize), dtype)
    return values.astype(dtype).reshape(shape)


def fill_of(rng: random.Random, dtype: np.dtype) -> Any:
    if rng.random() < 0.3:
        return None
    match dtype.kind:
        case "b":
            return rng.random() < 0.5
        case "i":
            return rng.choice([-7, 0, 9])
        case "u":
            return rng.choice([0, 200])
        case "f":
            return rng.choice([0.0, 1.5, float("nan"), float("inf"), float("-inf")])
        case "c":
            return rng.choice([0, complex(1, -2), complex(float("nan"), 1)])
        case "M" | "m":
            return np.array(rng.choice([0, 12345, "NaT"]), dtype.newbyteorder("="))[()]
        case "S":
            return rng.choice([b"", b"ab"])
        case "U":
            return rng.choice(["", "\u00e9"])
        case _:
            return None


class Case:
    """One array, written by zarr-python."""

    def __init__(self, seed: int, index: int, folder: Path) -> None:
        rng = self.rng = random.Random(f"{seed}/{index}")
        np_rng = np.random.default_rng([seed, index])
        self.name = f"case {index}"
        names = NUMBERS + OTHERS
        name = names[index % len(names)]
        rank = rng.choice([0, 1, 2, 2, 3, 3, 4])
        shape = tuple(rng.randint(1, (40, 23, 12, 6, 5)[rank]) for _ in range(rank))
        if rank and rng.random() < 0.05:
            shape = (0, *shape[1:])
        chunks = tuple(rng.randint(1, max(n, 1) + 2) for n in shape)
        separator = rng.choice("./")
        order = rng.choice("CF")
        compressor = compressors(rng)
        options: dict[str, Any] = {}
        self.text = name.startswith("O")
        if self.text:
            self.dtype = np.dtype(object)
            fill: Any = None
            text = name == "O-text"
            options["dtype"] = str if text else zarr.core.dtype.VariableLengthBytes()
            chain = [numcodecs.VLenUTF8() if text else numcodecs.VLenBytes()]
            items = [
                ("\u00e9x" * rng.randint(0, 4)) if text else rng.randbytes(rng.randint(0, 5)).replace(b"\0", b"x")
                for _ in range(int(np.prod(shape)))
            ]
            values = np.empty(len(items), object)
            values[:] = items
            values = values.reshape(shape)
        else:
            swap = rng.choice("<>") if np.dtype(name).itemsize > 1 and name[0] not in "SV" else ""
            self.dtype = np.dtype(swap + name)
            fill = fill_of(rng, self.dtype)
            chain = filters(rng, self.dtype) if name in NUMBERS else None
            options["dtype"] = self.dtype
            values = numbers(rng, np_rng, self.dtype, shape)
        self.describe = (
            f"{self.dtype.str if not self.text else name} {shape} chunks {chunks} order {order} "
            f"sep {separator} fill {fill!r} filters {chain} compressor {compressor}"
        )
        self.depth = rng.randint(0, 2)
        self.root = folder / str(index)
        path = "/".join(["g", "inner"][: self.depth] + ["a"]) if self.depth else ""
        self.path = path
        self.consolidated = bool(self.depth) and rng.random() < 0.6
        store = zarr.storage.LocalStore(self.root)
        if self.depth:
            group = zarr.open_group(store, mode="w", zarr_format=2)
            group.attrs["root"] = 1
        array = zarr.create_array(
            store, name=path or None, shape=shape, chunks=chunks, zarr_format=2,
            filters=chain, compressors=compressor, fill_value=fill, order=order,
            chunk_key_encoding={"name": "v2", "separator": separator},
            attributes={"units": "nm", "nan": float("nan"), "_ARRAY_DIMENSIONS": [f"d{i}" for i in range(rank)]},
            **options,
        )
        if 0 not in shape:
            # Some chunks are never written.
            part = tuple(slice(0, max(1, int(n * rng.choice([0.5, 1, 1])))) for n in shape)
            array[part] = values[part]
        if self.consolidated:
            zarr.consolidate_metadata(store, zarr_format=2)
        self.node = self.root / path if path else self.root

    def expected(self, version: int) -> np.ndarray:
        array = zarr.open_array(self.node, mode="r", zarr_format=version)
        return self.as_array(array[...])

    def as_array(self, values: Any) -> np.ndarray:
        if not self.text:
            return np.asarray(values)
        # numpy would make a type of fixed size of one element. (zarr-python does so, which is why no element ends in zeros.)
        objects = np.empty(np.shape(values), object)
        objects[...] = values
        return objects


def same(a: np.ndarray, b: np.ndarray) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "OT" or b.dtype.kind in "OT":
        return [str(x) if not isinstance(x, bytes) else x for x in a.ravel()] == [
            str(x) if not isinstance(x, bytes) else x for x in b.ravel()
        ]
    little = a.dtype.newbyteorder("<") if a.dtype.kind not in "V" else a.dtype
    if a.dtype.kind in "fc":
        return bool(np.array_equal(a, b, equal_nan=True)) and a.dtype.itemsize == b.dtype.itemsize
    return a.astype(little).tobytes() == b.astype(little).tobytes()


class Failed(Exception):
    """What differs."""


class Check:
    """The checks of one case."""

    def __init__(self, case: Case, program: Path) -> None:
        self.case, self.program = case, program

    def run(self, *arguments: str) -> bytes:
        command = [str(self.program), *arguments]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        if done.returncode:
            raise Failed(f"{' '.join(arguments[:1])}: {done.stderr.decode().strip()} {done.stdout.decode()[:300]}")
        return done.stdout

    def read(self, *arguments: str) -> np.ndarray:
        case = self.case
        expected = case.expected(2)
        raw = self.run("read", str(case.node), "-o", "-", *arguments)
        if not case.text:
            dtype = case.dtype.newbyteorder("<") if case.dtype.kind != "V" else case.dtype
            return np.frombuffer(raw, dtype).reshape(expected.shape)
        values = np.empty(expected.size, object)
        if expected.size and case.describe.startswith("O-text"):
            values[:] = raw.decode().split("\0")[: expected.size]
        elif expected.size:
            stream, items = io.BytesIO(raw), []
            for _ in range(expected.size):
                items.append(stream.read(int.from_bytes(stream.read(4), "little")))
            values[:] = items
        return values.reshape(expected.shape)

    def all(self) -> str | None:
        case, expected = self.case, self.case.expected(2)
        info = json.loads(self.run("info", str(case.node), "--json"))
        if info["format"] != "zarr2" or tuple(info["shape"]) != expected.shape:
            raise Failed(f"info says {info}")
        if not same(expected, self.read()):
            raise Failed("read differs")
        verified = json.loads(self.run("verify", str(case.root), "--decode", "--json"))
        if not verified["ok"] or verified["findings"]:
            raise Failed(f"verify found {verified['findings']}")
        copied = case.root.with_suffix(".copy")
        self.run("copy", str(case.root), str(copied))
        shutil.rmtree(copied)
        self.run("migrate", str(case.root))
        return self.migrated(expected)

    def migrated(self, expected: np.ndarray) -> str | None:
        case = self.case
        if json.loads(self.run("info", str(case.node), "--json"))["formats"] != ["zarr3", "zarr2"]:
            raise Failed("info does not say that both are there")
        before = (case.node / "zarr.json").read_bytes()
        self.run("migrate", str(case.root), "--remove-v2")
        if (case.node / "zarr.json").read_bytes() != before or list(case.root.rglob(".z*")):
            raise Failed("documents of version 2 are left, or those of version 3 changed")
        raw_read = self.read_after(expected)
        if not same(expected, raw_read):
            raise Failed("read differs after the migration")
        verified = json.loads(self.run("verify", str(case.root), "--decode", "--json"))
        if not verified["ok"] or verified["findings"]:
            raise Failed(f"verify found {verified['findings']} after the migration")
        document = json.loads(before)
        skipped = peers(case, document, expected)
        if case.depth:
            group = zarr.open_group(case.root, mode="r", zarr_format=3, use_consolidated=case.consolidated or None)
            if dict(group.attrs)["root"] != 1 or case.path not in dict(group.members(max_depth=None)):
                raise Failed("the group is not the same")
        return skipped

    def read_after(self, expected: np.ndarray) -> np.ndarray:
        case = self.case
        case.expected = lambda _version: expected  # type: ignore[method-assign]
        return self.read()


def peers(case: Case, document: dict, expected: np.ndarray) -> str | None:
    """Compares what other implementations read of version 3; says which of them cannot."""
    names = [codec["name"] for codec in document["codecs"]]
    try:
        array = zarr.open_array(case.node, mode="r", zarr_format=3)
    except Exception as error:  # noqa: BLE001
        raise Failed(f"zarr-python cannot open: {error!r}") from error
    if array.attrs["units"] != "nm" or array.attrs["nan"] == array.attrs["nan"]:
        raise Failed("zarr-python finds other attributes")
    skipped = known_fault(case, document)
    if skipped is None:
        try:
            values = case.as_array(array[...])
        except Exception as error:  # noqa: BLE001
            raise Failed(f"zarr-python cannot read: {error!r}") from error
        if not same(expected, values):
            raise Failed("zarr-python reads another array")
    if case.dtype.kind in TENSORSTORE_KINDS and set(names) <= TENSORSTORE_CODECS:
        # TensorStore takes no attributes that are not JSON, which is what zarr-python has written.
        document["attributes"] = {}
        text = (case.node / "zarr.json").read_text()
        (case.node / "zarr.json").write_text(json.dumps(document))
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{case.node}/"}}
        values = tensorstore.open(spec).result().read().result()
        (case.node / "zarr.json").write_text(text)
        if not same(expected, values):
            raise Failed("TensorStore reads another array")
    return skipped


def known_fault(case: Case, document: dict) -> str | None:
    """Why zarr-python cannot read what it should be able to."""
    for codec in document["codecs"]:
        astype = codec.get("configuration", {}).get("astype", "|u1")
        if case.dtype.itemsize == 1 and np.dtype(astype).itemsize > 1:
            return "zarr-python forgets the byte order if the array's own type has none"
    return None


def one(seed: int, index: int, folder: Path, program: Path) -> tuple[str, str | None, str | None]:
    case = Case(seed, index, folder)
    try:
        return case.describe, Check(case, program).all(), None
    except Failed as failure:
        return case.describe, None, str(failure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shardine", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--cases", type=int, default=176)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    indices = range(arguments.cases) if arguments.case is None else [arguments.case]
    folder = Path(tempfile.mkdtemp(prefix=f"zarr-v2-{arguments.seed}-"))
    started, failed, skipped = time.monotonic(), 0, {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(lambda i: one(arguments.seed, i, folder, arguments.shardine), indices)
        for index, (describe, skip, failure) in zip(indices, results, strict=True):
            if skip:
                skipped[skip] = skipped.get(skip, 0) + 1
            if failure:
                failed += 1
                print(f"case {index}: {failure}\n    {describe}")
    for reason, count in skipped.items():
        print(f"left out {count} times: {reason}")
    seconds = time.monotonic() - started
    print(f"{len(indices)} cases of seed {arguments.seed} in {seconds:.0f} s, {failed} failed")
    if failed:
        print(f"the files are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
