"""The implementations under test, each behind the same three verbs."""

from __future__ import annotations

import json
import random
import subprocess
import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import support
from .cases import Case, Json
from .dtypes import STRUCT_DTYPE, DataType, Raw, part_dtype, sign_extended
from .model import from_file, to_file
from .regions import Region, plain, shape_of, slices_of, spell, unstepped

TIMEOUT = 60.0
"""Seconds that one command may take."""


class PeerError(Exception):
    """An implementation refused or broke off what it was expected to do."""


class Peer(Protocol):
    """An implementation that can make, write and read arrays in a folder."""

    name: str

    def create(self, root: Path, case: Case) -> None: ...

    def write(
        self, root: Path, case: Case, region: Region, values: Raw, dice: random.Random
    ) -> None: ...

    def read(self, root: Path, case: Case, region: Region, dice: random.Random) -> Raw: ...


def place_metadata(root: Path, metadata: dict[str, Any]) -> None:
    root.mkdir(parents=True)
    (root / "zarr.json").write_text(json.dumps(metadata, indent=1))


def in_memory(elements: Raw, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Raw elements as an array of a real type."""
    return np.frombuffer(elements.tobytes(), dtype=dtype).reshape(elements.shape)


def as_raw(data_type: DataType, values: np.ndarray[Any, Any]) -> Raw:
    """An array of a real type as raw elements."""
    return np.frombuffer(np.ascontiguousarray(values).tobytes(), dtype=data_type.raw).reshape(
        values.shape
    )


class ZarrPython:
    """zarr-python, in this process."""

    name = support.ZARR_PYTHON

    def __init__(self) -> None:
        import zarr

        warnings.filterwarnings("ignore", module="zarr")
        self.zarr = zarr

    def create(self, root: Path, case: Case) -> None:
        place_metadata(root, case.metadata)
        if case.verbatim or case.fill.sort == "nan-payload":
            return
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.metadata.v3 import ArrayV3Metadata

        own = ArrayV3Metadata.from_dict(json.loads((root / "zarr.json").read_text()))
        files = own.to_buffer_dict(default_buffer_prototype())
        (root / "zarr.json").write_bytes(files["zarr.json"].to_bytes())

    def write(
        self, root: Path, case: Case, region: Region, values: Raw, dice: random.Random
    ) -> None:
        array = self.zarr.open_array(root, mode="r+", zarr_format=3)
        array[slices_of(region)] = self._native(case.data_type, values)

    def read(self, root: Path, case: Case, region: Region, dice: random.Random) -> Raw:
        array = self.zarr.open_array(root, mode="r", zarr_format=3)
        values = np.asarray(array[slices_of(region)])
        data_type = case.data_type
        if not data_type.variable:
            dtype = _numpy_dtype(data_type)
            if values.dtype.kind in "SU" and not region:
                values = values.astype(dtype)  # a lone text comes in its own width
            if values.dtype.newbyteorder("<") != dtype:
                raise PeerError(f"{values.dtype} instead of {dtype}")
            return as_raw(data_type, values.astype(dtype, copy=False))
        out = np.empty(values.shape, dtype=object)
        for where in np.ndindex(values.shape):
            element = values[where]
            out[where] = element.encode() if isinstance(element, str) else bytes(element)
        return out

    @staticmethod
    def _native(data_type: DataType, values: Raw) -> np.ndarray[Any, Any]:
        if data_type.kind == "string":
            text = np.empty(values.shape, dtype=object)
            for where in np.ndindex(values.shape):
                text[where] = bytes(values[where]).decode()
            return text.astype(np.dtypes.StringDType())
        if data_type.kind == "bytes":
            return values
        return in_memory(values, _numpy_dtype(data_type))


def _numpy_dtype(data_type: DataType) -> np.dtype[Any]:
    return STRUCT_DTYPE if data_type.kind == "struct" else np.dtype(data_type.numpy)


class TensorStore:
    """tensorstore's zarr3 driver, in this process."""

    name = support.TENSORSTORE

    def __init__(self) -> None:
        import tensorstore

        self.tensorstore = tensorstore
        self.context = tensorstore.Context({"file_io_sync": False})

    def create(self, root: Path, case: Case) -> None:
        if case.verbatim:
            place_metadata(root, case.metadata)
        else:
            self._open(root, metadata=case.metadata, create=True)

    def write(
        self, root: Path, case: Case, region: Region, values: Raw, dice: random.Random
    ) -> None:
        store = self._open(root)
        native = in_memory(values, self._dtype(case.data_type))
        store[slices_of(region)].write(native).result(timeout=TIMEOUT)

    def read(self, root: Path, case: Case, region: Region, dice: random.Random) -> Raw:
        store = self._open(root)
        values = np.asarray(store[slices_of(region)].read(order="C").result(timeout=TIMEOUT))
        raw = as_raw(case.data_type, values)
        return _canonical_low_bits(case.data_type, raw)

    def _open(self, root: Path, **options: Any) -> Any:
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{root}/"},
        }
        if "metadata" in options:
            spec["metadata"] = options.pop("metadata")
        options = options or {"open": True}
        return self.tensorstore.open(spec, context=self.context, **options).result(timeout=TIMEOUT)

    @staticmethod
    def _dtype(data_type: DataType) -> np.dtype[Any]:
        return np.dtype(data_type.numpy) if data_type.numpy else part_dtype(data_type.part)


def _canonical_low_bits(data_type: DataType, raw: Raw) -> Raw:
    """Numbers below a byte with the unused bits set as in the raw form of the tests."""
    if data_type.variable or data_type.bits >= 8 or data_type.kind == "bool":
        return raw
    numbers = np.frombuffer(raw.tobytes(), dtype=np.uint8) & np.uint8((1 << data_type.bits) - 1)
    if data_type.kind == "int":
        numbers = sign_extended(numbers, data_type.bits)
    return np.frombuffer(numbers.tobytes(), dtype=raw.dtype).reshape(raw.shape)


class _Command:
    """An implementation that is a program with the verbs `create`, `write` and `read`."""

    def __init__(self, name: str, program: Path, scratch: Path) -> None:
        self.name = name
        self.program = program
        self.scratch = scratch
        self.count = 0

    def run(self, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs the program; any other exit status than the expected one is an error."""
        command = [str(self.program), *arguments]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
                stdin=subprocess.DEVNULL,
                errors="replace",
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"no end after {TIMEOUT:.0f} s: {' '.join(command)}") from error
        if done.returncode != status:
            raise PeerError(
                f"exit status {done.returncode} instead of {status}: {' '.join(command)}\n"
                f"{done.stderr.strip()[:2000]}"
            )
        return done

    def file(self, suffix: str) -> Path:
        self.count += 1
        return self.scratch / f"{self.name}-{self.count}.{suffix}"

    def metadata_file(self, case: Case) -> Path:
        path = self.file("json")
        path.write_text(json.dumps(case.metadata))
        return path


class Zarrs(_Command):
    """The zarrs crate, through peers/zarrs-peer."""

    def __init__(self, program: Path, scratch: Path, own_metadata: bool) -> None:
        super().__init__(support.ZARRS, program, scratch)
        self.own_metadata = own_metadata
        """Whether it may write metadata in its own way, with names for objects without options.

        That is what the specification allows, but neither Python peer can read it.
        """

    def create(self, root: Path, case: Case) -> None:
        if case.verbatim or not self.own_metadata:
            place_metadata(root, case.metadata)
        else:
            self.run("create", str(root), "--metadata", str(self.metadata_file(case)))

    def write(
        self, root: Path, case: Case, region: Region, values: Raw, dice: random.Random
    ) -> None:
        path = self.file("raw")
        path.write_bytes(to_file(case.data_type, values))
        self.run("write", str(root), *_region_option(region), str(path))

    def read(self, root: Path, case: Case, region: Region, dice: random.Random) -> Raw:
        path = self.file("raw")
        box = unstepped(region)
        self.run("read", str(root), *_region_option(box), "-o", str(path))
        whole_box = from_file(case.data_type, path.read_bytes(), shape_of(box))
        strides: Any = (*(slice(None, None, span.step) for span in region), ...)
        raw = whole_box[strides]
        return _canonical_low_bits(case.data_type, raw)


def _region_option(region: Region) -> tuple[str, ...]:
    return ("--region", plain(region)) if region else ()


class Shardine(_Command):
    """Our own command line, with every spelling and option drawn by the dice."""

    def __init__(self, program: Path, scratch: Path) -> None:
        super().__init__(support.SHARDINE, program, scratch)
        self.last_order = ""

    def create(self, root: Path, case: Case) -> None:
        self.run("create", str(root), "--metadata", str(self.metadata_file(case)))

    def write(
        self, root: Path, case: Case, region: Region, values: Raw, dice: random.Random
    ) -> None:
        options = self._region(region, case, dice)
        self.last_order = dice.choice(["", "morton", "c", "arrival"])
        if self.last_order:
            options += ["--order", self.last_order]
        options += self._runtime(dice)
        path = self._input(case.data_type, values, dice)
        strategy = dice.choice(["", "auto", "rewrite", "in-place", "append"])
        if strategy in ("in-place", "append") and not changes_in_place(case.metadata):
            # What cannot be made safe is refused, and nothing is written.
            self.run("write", str(root), *options, "--strategy", strategy, str(path), status=2)
        elif strategy:
            options += ["--strategy", strategy, "--max-gap", dice.choice(["0%", "25%", "100%"])]
        self.run("write", str(root), *options, str(path))

    def read(self, root: Path, case: Case, region: Region, dice: random.Random) -> Raw:
        as_npy = (
            case.data_type.numpy is not None and _npy_kind(case.data_type) and dice.random() < 0.4
        )
        path = self.file("npy" if as_npy else "raw")
        options = [*self._region(region, case, dice), *self._runtime(dice)]
        self.run("read", str(root), *options, "-o", str(path), "--overwrite")
        if not as_npy:
            return from_file(case.data_type, path.read_bytes(), shape_of(region))
        values = np.load(path)
        if values.dtype != np.dtype(case.data_type.numpy):
            raise PeerError(f".npy of {values.dtype} instead of {case.data_type.numpy}")
        return as_raw(case.data_type, values)

    def refuses(self, root: Path, region: str | None) -> None:
        """Checks that a read of an empty region is an error of one line."""
        path = self.file("raw")
        options = [] if region is None else [f"--region={region}"]
        read = ["read", str(root), *options, "-o", str(path), "--overwrite"]
        done = self.run(*read, status=2)
        if len(done.stderr.strip().splitlines()) != 1:
            raise PeerError(f"not one line on standard error: {done.stderr!r}")

    def _region(self, region: Region, case: Case, dice: random.Random) -> list[str]:
        text = spell(dice, region, case.shape)
        if text is None:
            return []
        return [f"--region={text}"] if text.startswith("-") else ["--region", text]

    @staticmethod
    def _runtime(dice: random.Random) -> list[str]:
        options = []
        if dice.random() < 0.4:
            options += ["--threads", str(dice.choice([1, 2, 3, 7]))]
        if dice.random() < 0.15:
            options += ["--memory", dice.choice(["64MiB", "1GiB"])]
        return options

    def _input(self, data_type: DataType, values: Raw, dice: random.Random) -> Path:
        if data_type.numpy is None or not _npy_kind(data_type) or dice.random() < 0.6:
            path = self.file("raw")
            path.write_bytes(to_file(data_type, values))
            return path
        path = self.file("npy")
        native = in_memory(values, np.dtype(data_type.numpy))
        np.save(path, native.copy(order="F") if dice.random() < 0.3 else native)
        return path


ELEMENTWISE = ("transpose", "bitround", "fixedscaleoffset")
"""Codecs before the shard that leave its chunks where they are."""


def changes_in_place(metadata: Json) -> bool:
    """Whether shards of this array may be changed in place; without shards nothing speaks against it."""
    codecs = [_codec_name(codec) for codec in metadata["codecs"]]
    if "sharding_indexed" not in codecs:
        return True
    at = codecs.index("sharding_indexed")
    before = [name.removeprefix("numcodecs.") for name in codecs[:at]]
    index_codecs = metadata["codecs"][at]["configuration"]["index_codecs"]
    return (
        at + 1 == len(codecs)
        and all(name in ELEMENTWISE for name in before)
        and any(_codec_name(codec).endswith("crc32c") for codec in index_codecs)
    )


def _codec_name(codec: Any) -> str:
    return codec if isinstance(codec, str) else codec["name"]


def _npy_kind(data_type: DataType) -> bool:
    return data_type.kind in ("bool", "int", "uint", "float", "complex")
