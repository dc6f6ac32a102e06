"""Lets zarr-python read an array while Shardine appends planes to it.

    python peers/append_check.py --shardine PATH

For each of the four ways to store a stream of slices that docs/append.md describes, ten planes go through a pipe to
`shardine append … - --commit-every 1`. After each commit zarr-python opens the array anew and must find exactly the
planes that were committed. After the fifth the program is killed, and another one goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import zarr

PLANES = 10
KILLED_AFTER = 5
PLANE = (48, 40)
PATIENCE = 60.0

# What `create` and `append` are given.
TECHNIQUES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "1: a chunk and a shard per plane": (["--chunk", "1,16,16", "--shard", "1,32,32"], []),
    "2: appended to a shard": (
        ["--chunk", "1,16,16", "--shard", "4,32,32"],
        ["--strategy", "append", "--max-gap", "100%"],
    ),
    "3: not compressed, in place": (
        ["--chunk", "1,16,16", "--shard", "4,32,32", "--codec", "none", "--index", "start"],
        ["--strategy", "in-place"],
    ),
    "4: compressed, in place": (
        ["--chunk", "1,16,16", "--shard", "4,32,32"],
        ["--strategy", "in-place"],
    ),
}


class Program:
    """`shardine append` with a pipe to it."""

    def __init__(self, shardine: str, array: Path, options: Sequence[str]) -> None:
        command = [shardine, "append", str(array), "-", "--commit-every", "1", *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def push(self, plane: np.ndarray) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(plane.tobytes())
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise AssertionError(f"exit status {self._process.returncode}")

    def is_running(self) -> bool:
        return self._process.poll() is None


def _wait_for(array: Path, planes: int, program: Program) -> None:
    """Waits until the metadata says that so many planes are there."""
    start = time.monotonic()
    while json.loads((array / "zarr.json").read_bytes())["shape"][0] != planes:
        if not program.is_running() or time.monotonic() - start > PATIENCE:
            raise AssertionError(f"plane {planes} was never committed")
        time.sleep(0.002)


def _check(array: Path, expected: np.ndarray) -> None:
    found = zarr.open_array(str(array), mode="r")[:]
    if found.shape != expected.shape or not np.array_equal(found, expected):
        raise AssertionError(f"zarr-python reads something else after {len(expected)} planes")


def _run(shardine: str, array: Path, create: Sequence[str], append: Sequence[str]) -> None:
    shape = f"0,{PLANE[0]},{PLANE[1]}"
    command = [shardine, "create", str(array), "--shape", shape, "--dtype", "uint16", *create]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    planes = np.random.default_rng(1).integers(0, 700, (PLANES, *PLANE), dtype="<u2")
    planes[2] = 0  # Nothing but the fill value: no chunk is stored.
    program = Program(shardine, array, append)
    try:
        for n in range(PLANES):
            program.push(planes[n])
            _wait_for(array, n + 1, program)
            _check(array, planes[: n + 1])
            if n + 1 == KILLED_AFTER:
                program.kill()
                _check(array, planes[: n + 1])
                program = Program(shardine, array, append)
        program.finish()
    finally:
        program.kill()
    _check(array, planes)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", required=True, help="the shardine binary")
    shardine = str(Path(parser.parse_args().shardine).resolve())
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for n, (name, (create, append)) in enumerate(TECHNIQUES.items()):
            try:
                _run(shardine, Path(folder) / f"{n}.zarr", create, append)
            except (AssertionError, OSError, subprocess.CalledProcessError, ValueError) as error:
                failed += 1
                print(f"{name}: FAILED: {error}")
            else:
                print(f"{name}: ok")
    print(f"{len(TECHNIQUES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
