"""Does damage to arrays of other implementations, and checks that `shardine verify` finds it.

Sound arrays must have no finding at all, with and without --decode: no notice is allowed for, neither
for missing chunks nor for chunks that reach past the edge of the array.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import zarr
from harness.damages import DAMAGES, LAYOUTS, SHAPE, Damage, Expected, Layout

TIMEOUT = 60.0

PART = (slice(0, 9), slice(0, 21))
"""What is written of an array of which not all is written."""


def elements() -> np.ndarray[Any, Any]:
    """Never the fill value, and not so random that nothing can be compressed."""
    dice = np.random.default_rng(7)
    return dice.integers(1, 60, SHAPE, dtype=np.uint16)


def write_zarr(root: Path, where: tuple[slice, ...]) -> None:
    array = zarr.open_array(root, mode="r+", zarr_format=3)
    array[where] = elements()[where]


def write_tensorstore(root: Path, where: tuple[slice, ...]) -> None:
    kvstore = {"driver": "file", "path": f"{root}/"}
    array = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}, open=True).result()
    array[where].write(elements()[where]).result()


WRITERS: dict[str, Callable[[Path, tuple[slice, ...]], None]] = {
    "zarr-python": write_zarr,
    "tensorstore": write_tensorstore,
}


class Checks:
    """Runs the program and keeps count."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.failures: list[str] = []

    def verify(self, root: Path, decode: bool) -> tuple[int, dict[str, Any]]:
        command = [str(self.program), "verify", str(root), "--json", *["--decode"] * decode]
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(f"exit status {done.returncode}: {done.stderr.decode()}")
        return done.returncode, json.loads(done.stdout)

    def sound(self, root: Path) -> str | None:
        before = snapshot(root)
        for decode in (False, True):
            status, report = self.verify(root, decode)
            if status or not report["ok"] or report["findings"]:
                return f"sound, but: {status} {report['findings'][:3]}"
            if not report["summary"]["chunks"]:
                return "no chunk was seen"
            if decode and report["summary"]["chunks"] != report["summary"]["chunks_decoded"]:
                return f"not all was decoded: {report['summary']}"
        return None if snapshot(root) == before else "verify changed something"

    def planted(self, root: Path, damage: Damage, expected: Expected) -> str | None:
        """What is wrong with the report on an array with one damage."""
        before = snapshot(root)
        for decode in (False, True):
            status, report = self.verify(root, decode)
            findings = report["findings"]
            if damage.decode and not decode:
                if status or any(f["severity"] == "damage" for f in findings):
                    return f"found without decoding: {findings[:3]}"
                continue
            if status != (0 if damage.notice else 1) or report["ok"] != damage.notice:
                return f"exit status {status}, decode {decode}: {findings[:3]}"
            if not any(meets(finding, damage, expected) for finding in findings):
                return f"{expected} is not in {findings[:5]}"
            # Damage of another kind, or elsewhere, was not planted.
            for finding in findings:
                if finding["severity"] == "damage" and (
                    finding["kind"] != expected.kind or finding["object"] != expected.object
                ):
                    return f"not planted: {finding}"
        return None if snapshot(root) == before else "verify changed something"


def meets(finding: dict[str, Any], damage: Damage, expected: Expected) -> bool:
    severity = "notice" if damage.notice else "damage"
    return (
        (finding["severity"], finding["kind"]) == (severity, expected.kind)
        and finding["object"] == expected.object
        and expected.shard in (None, finding["shard"])
        and expected.range in (None, finding["range"])
        and (
            finding["chunk"] is None
            if expected.chunk == "absent"
            else expected.chunk in (None, finding["chunk"])
        )
    )


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """All files with their times of modification and their bytes."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def make(root: Path, layout: Layout, writer: str) -> None:
    root.mkdir(parents=True)
    (root / "zarr.json").write_text(json.dumps(layout.metadata()))
    WRITERS[writer](root, PART if layout.part else (slice(None), slice(None)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shardine", type=Path, required=True, help="the program to test")
    parser.add_argument("--jobs", type=int, default=2, help="how many to run at a time")
    arguments = parser.parse_args()
    checks = Checks(arguments.shardine.resolve())
    scratch = Path(tempfile.mkdtemp(prefix="planted-damage-"))
    # The count of arrays by damage and writer, and the first failure of each.
    cells: dict[tuple[str, str], list[str | None]] = {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = []
        for writer in WRITERS:
            for number, layout in enumerate(LAYOUTS):
                root = scratch / writer / str(number) / "array"
                make(root, layout, writer)
                row = ("nothing", writer)
                waiting.append((row, layout, pool.submit(checks.sound, root)))
                for i, damage in enumerate(DAMAGES):
                    if not damage.fits(layout):
                        continue
                    copy = root.with_name(f"damage-{i}")
                    shutil.copytree(root, copy)
                    expected = damage.plant(layout, copy)
                    row = (damage.name, writer)
                    task = pool.submit(checks.planted, copy, damage, expected)
                    waiting.append((row, layout, task))
        for row, layout, task in waiting:
            try:
                problem = task.result()
            except Exception as error:
                problem = repr(error)
            cells.setdefault(row, []).append(problem)
            if problem:
                checks.failures.append(f"{row[0]}, {row[1]}, {layout.name}: {problem}")
    show(cells)
    for failure in checks.failures:
        print(failure)
    total = sum(map(len, cells.values()))
    print(f"{total - len(checks.failures)} passed, {len(checks.failures)} failed")
    if not checks.failures:
        shutil.rmtree(scratch, ignore_errors=True)
    else:
        print(f"the arrays are in {scratch}")
    return 1 if checks.failures else 0


def show(cells: dict[tuple[str, str], list[str | None]]) -> None:
    """A table of damages and writers: in how many layouts the damage was found."""
    print(f"{'planted':36}" + "".join(f"{writer:>14}" for writer in WRITERS) + "  found as")
    kinds = {damage.name: "notice" if damage.notice else "damage" for damage in DAMAGES}
    for name in ("nothing", *(damage.name for damage in DAMAGES)):
        line = f"{name:36}"
        for writer in WRITERS:
            outcomes = cells.get((name, writer), [])
            well = sum(outcome is None for outcome in outcomes)
            line += f"{f'{well} of {len(outcomes)}':>14}"
        print(f"{line}  {kinds.get(name, '-')}")


if __name__ == "__main__":
    sys.exit(main())
