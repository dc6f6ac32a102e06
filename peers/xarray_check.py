"""Lets xarray and zarr-python judge what Shardine does to metadata that they believe.

    python peers/xarray_check.py --shardine PATH

* A data set with masks, scale and offset, times and strings that xarray wrote in Zarr v2 is `identical` after `convert` and
  after `migrate`.
* xarray sees appended steps immediately, by consolidated metadata of its own or of `shardine consolidate`, and what is made,
  overwritten and resharded below a group.
* zarr-python opens consolidated metadata of Shardine's, and says of it what it says of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import xarray as xr
import zarr

warnings.filterwarnings("ignore")


def _run(shardine: str, *arguments: object, **options: object) -> str:
    command = [shardine, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr.decode()}")
    if b"warning" in done.stderr:
        raise AssertionError(f"{command}: {done.stderr.decode()}")
    return done.stdout.decode()


def _data_set() -> tuple[xr.Dataset, dict]:
    numbers = np.arange(12.0).reshape(4, 3)
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"], "M8[ns]")
    data = xr.Dataset(
        {
            "nan": (("time", "x"), np.where(numbers % 5 == 0, np.nan, numbers), {"units": "K"}),
            "flagged": (("time", "x"), np.where(numbers % 5 == 0, np.nan, numbers)),
            "packed": (("time", "x"), np.where(numbers % 4 == 0, np.nan, numbers * 0.5 + 3)),
            "whole": (("x",), np.array([1, 2, 3], "i4")),
            "zeros": (("x",), np.array([0.0, np.nan, 3.0], "f4")),
            "half": (("x",), np.array([1, np.nan, 3], "f2")),
            "truth": (("x",), np.array([True, False, True])),
            "complex": (("x",), np.array([1 + 2j, 3, 4])),
            "name": (("x",), np.array(["a", "", "ccc"], dtype=object)),
            "fixed": (("x",), np.array([b"a", b"bb", b"ccc"])),
            "wide": (("x",), np.array(["a", "bb", "ccc"])),
            "when": (("x",), np.array(["2020-01-01", "NaT", "2020-03-01"], "M8[ns]")),
            "scalar": ((), 3.5),
        },
        coords={"time": days, "x": [10, 20, 30], "lat": (("x",), [1.0, np.nan, 3.0])},
        attrs={"title": "trial", "Conventions": "CF-1.8"},
    )
    encoding = {
        "flagged": {"_FillValue": -9999.0},
        "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -99},
        "zeros": {"_FillValue": np.float32(0.1)},
        "when": {"units": "days since 2000-01-01", "dtype": "i8", "_FillValue": -1},
    }
    return data, encoding


def _check(found: xr.Dataset, expected: xr.Dataset, what: str) -> None:
    found = found.load()
    if not found.identical(expected):
        xr.testing.assert_identical(found, expected)
        raise AssertionError(what)


def masks(shardine: str, folder: Path) -> None:
    data, encoding = _data_set()
    source = folder / "v2.zarr"
    data.to_zarr(source, zarr_format=2, encoding=encoding, consolidated=True)
    before = xr.open_zarr(source).load()
    _check(before, data, "xarray reads what it wrote")
    _run(shardine, "convert", source, folder / "converted.zarr")
    _check(xr.open_zarr(folder / "converted.zarr"), before, "after convert")
    _run(shardine, "convert", source, folder / "packed.zarr", "--chunks-per-shard", "2")
    _check(xr.open_zarr(folder / "packed.zarr"), before, "after convert with shards")
    _run(shardine, "migrate", source)
    _check(xr.open_zarr(source, zarr_format=3), before, "after migrate, as version 3")
    _check(xr.open_zarr(source, zarr_format=2), before, "after migrate, as version 2")
    _run(shardine, "migrate", source, "--remove-v2")
    for consolidated in (True, False):
        found = xr.open_zarr(source, consolidated=consolidated)
        _check(found, before, f"after migrate --remove-v2, consolidated {consolidated}")
    # And once more by xarray.
    found = xr.open_zarr(source).load()
    for name in found.variables:
        found[name].encoding.clear()
    found.to_zarr(folder / "again.zarr", zarr_format=3)
    _check(xr.open_zarr(folder / "again.zarr"), before, "written again by xarray")


def _series(folder: Path, consolidated: bool) -> Path:
    group = folder / "series.zarr"
    values = np.arange(6, dtype="i4").reshape(2, 3)
    data = xr.Dataset({"v": (("time", "x"), values)}, attrs={"a": 1})
    data.to_zarr(group, zarr_format=3, consolidated=consolidated)
    return group


def appends(shardine: str, folder: Path) -> None:
    for consolidated in (True, False):
        inside = folder / str(consolidated)
        inside.mkdir()
        group = _series(inside, consolidated)
        if not consolidated:
            _run(shardine, "consolidate", group)
        for step in range(2, 5):
            _run(shardine, "append", group / "v", "-", input=np.full(3, step, "<i4").tobytes())
            found = xr.open_zarr(group, consolidated=True)
            assert found.sizes["time"] == step + 1, found.sizes
            assert (found["v"].values[-1] == step).all()
        _run(shardine, "create", group / "w", "--shape", "5,3", "--dtype", "uint8", "--dims", "time,x")
        assert "w" in xr.open_zarr(group, consolidated=True)
        create = ["--shape", "5,3", "--dtype", "int16", "--dims", "time,x", "--overwrite"]
        _run(shardine, "create", group / "w", *create)
        assert xr.open_zarr(group, consolidated=True)["w"].dtype == "int16"
        _run(shardine, "reshard", group / "v", "--chunks-per-shard", "2")
        found = xr.open_zarr(group, consolidated=True)
        assert found["v"].values[-1, -1] == 4 and found.attrs == {"a": 1}
        _run(shardine, "copy", group / "v", group / "u")
        assert (xr.open_zarr(group, consolidated=True)["u"].values == found["v"].values).all()
        assert _run(shardine, "verify", group, "--json").count("consolidated-metadata") == 0
        _run(shardine, "consolidate", group, "--remove")
        assert "consolidated_metadata" not in json.loads((group / "zarr.json").read_bytes())


def _members(group: zarr.Group) -> dict:
    members = group.members(max_depth=None)
    return {path: json.loads(json.dumps(node.metadata.to_dict(), default=str)) for path, node in members}


def _stripped(members: dict) -> dict:
    for node in members.values():
        node.pop("consolidated_metadata", None)
    return members


def consolidations(shardine: str, folder: Path) -> None:
    for version in (2, 3):
        place = folder / f"tree{version}.zarr"
        root = zarr.create_group(str(place), zarr_format=version, attributes={"nan": float("nan")})
        root.create_array("a", shape=(4,), chunks=(2,), dtype="f4", fill_value=np.nan)
        deep = root.create_group("g").create_group("h", attributes={"big": 2**70})
        deep.create_array("b", shape=(3, 3), chunks=(2, 2), dtype="i8", attributes={"k": [1, None]})
        root.create_group("empty")
        plain = _stripped(_members(zarr.open_group(str(place), mode="r", use_consolidated=False)))
        _run(shardine, "consolidate", place)
        ours = zarr.open_group(str(place), mode="r", use_consolidated=True)
        assert ours.metadata.consolidated_metadata is not None
        assert _stripped(_members(ours)) == plain
        assert ours["g/h/b"].shape == (3, 3) and ours["g"]["h"]["b"].shape == (3, 3)
        assert _run(shardine, "verify", place, "--json").count("consolidated-metadata") == 0
        zarr.consolidate_metadata(str(place))
        theirs = zarr.open_group(str(place), mode="r", use_consolidated=True)
        assert _stripped(_members(theirs)) == plain
        if version == 3:
            # A copy of zarr-python's, of a nested array.
            _run(shardine, "append", place / "g/h/b", "-", input=np.zeros(3, "<i8").tobytes())
            theirs = zarr.open_group(str(place), mode="r", use_consolidated=True)
            assert theirs["g/h/b"].shape == (4, 3)
        _run(shardine, "consolidate", place, "--remove")
        found = zarr.open_group(str(place), mode="r")
        assert found.metadata.consolidated_metadata is None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", required=True, help="the shardine binary")
    shardine = str(Path(parser.parse_args().shardine).resolve())
    failed = 0
    checks = [masks, appends, consolidations]
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(shardine, Path(folder))
            except Exception as error:
                failed += 1
                print(f"{check.__name__}: FAILED: {type(error).__name__}: {error}")
            else:
                print(f"{check.__name__}: ok")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
