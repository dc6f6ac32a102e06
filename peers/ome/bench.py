"""Times the conversion of OME-Zarr 0.4 to sharded 0.5 beside `cp -r` and other tools.

    python peers/ome/bench.py --shardine PATH --challenge PATH --data FOLDER --out FOLDER [--rounds N] [--size small|full]

An image with three levels and labels, as ome-zarr-py writes it, is made once. In each round every program converts it, each
time starting with another one. docs/bench/ome-results.md says how they are measured.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy
import tensorstore
import zarr

SHAPES = {"full": (512, 1024, 1024), "small": (64, 256, 256)}
CHUNK = 64
PER_SHARD = 4
LEVELS = 3
# The goals: times as long as cp, peak memory, times as fast as the fastest of the others.
MOST_OF_CP, MOST_MEMORY, LEAST_FASTER = 1.5, 64, 5


def planes(shape, first, count, labels):
    """Planes of a smooth structure with four bits of noise, or of its labels."""
    z, y, x = numpy.ogrid[first : first + count, : shape[1], : shape[2]]
    field = numpy.sin(z / 37) + numpy.sin(y / 53) + numpy.cos(x / 71)
    if labels:
        cells = (z // 48) * 1000 + (y // 48) * 30 + x // 48 + 1
        return numpy.where(field > 0.5, cells, 0).astype("<u2")
    noise = numpy.random.default_rng(first).integers(0, 16, (count, *shape[1:]), dtype="<u2")
    return (field * 400 + 2000).astype("<u2") + noise


def pyramid(shape, labels):
    """All levels: the mean of the image, every second element of labels."""
    parts = [planes(shape, first, 32, labels) for first in range(0, shape[0], 32)]
    levels = [numpy.concatenate(parts)]
    for _ in range(1, LEVELS):
        fine = levels[-1]
        if labels:
            levels.append(numpy.ascontiguousarray(fine[::2, ::2, ::2]))
            continue
        z, y, x = (n // 2 for n in fine.shape)
        sums = numpy.zeros((z, y, x), "<u4")
        for corner in numpy.ndindex(2, 2, 2):
            sums += fine[corner[0] :: 2, corner[1] :: 2, corner[2] :: 2]
        levels.append((sums // 8).astype("<u2"))
    return levels


def make(path, shape):
    """Writes the image and its labels with ome-zarr-py."""
    import dask.array
    from ome_zarr.format import FormatV04
    from ome_zarr.writer import write_multiscale, write_multiscale_labels

    group = zarr.open_group(path, mode="w", zarr_format=2)
    units = dict.fromkeys("zyx", "micrometer")
    scale = {"z": 0.5, "y": 0.2, "x": 0.2}
    chunked = lambda labels: [dask.array.from_array(level, chunks=CHUNK) for level in pyramid(shape, labels)]
    common = {"fmt": FormatV04(), "axes": "zyx", "scale": scale, "axes_units": units}
    write_multiscale(chunked(False), group, name="image", **common)
    write_multiscale_labels(chunked(True), group, name="cells", **common)


def levels(image):
    """The folders of an image's levels, as its metadata names them."""
    for name in ("zarr.json", ".zattrs"):
        if (image / name).exists():
            attributes = json.loads((image / name).read_text())
            attributes = attributes.get("attributes", attributes)
            scales = attributes.get("ome", attributes)["multiscales"][0]["datasets"]
            return [image / scale["path"] for scale in scales]
    return []


def arrays(root):
    """The arrays of the image and of its labels, by what they are."""
    images = {"level": root, "labels, level": root / "labels/cells"}
    return {f"{what} {n}": path for what, image in images.items() for n, path in enumerate(levels(image))}


# Starts a program and tells what it took. A process of its own, as the kernel counts the memory of the one that starts a
# program as the program's.
STARTER = """
import json, os, subprocess, sys, time
output = open(sys.argv[1], "w")
start = time.perf_counter()
child = subprocess.Popen(sys.argv[3:], stdout=output, stderr=output)
_, status, usage = os.wait4(child.pid, 0)
subprocess.run(["sync", "-f", sys.argv[2]], check=True)
wall = time.perf_counter() - start
print(json.dumps({"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss / 1024,
    "exit": os.waitstatus_to_exitcode(status)}))
"""


class Bench:
    def __init__(self, args):
        self.args = args
        self.shape = SHAPES[args.size]
        self.source = args.data / f"ome-{args.size}" / "image-0.4.zarr"
        self.target = args.data / f"ome-{args.size}" / "result.zarr"
        self.runs = {}

    def programs(self):
        shardine, challenge, ngff = self.args.shardine, self.args.challenge, Path(sys.executable).parent / "ngff-zarr"
        source, target = str(self.source), str(self.target)
        shard = str(CHUNK * PER_SHARD)
        return {
            "cp": ["cp", "-r", source, target],
            "shardine": [shardine, "-q", "convert", source, target, "--to", "ome-zarr", "--chunks-per-shard", str(PER_SHARD)],
            "ome2024-ngff-challenge": [
                challenge, "resave", "--cc0", "--rocrate-skip", "--silent", source, target,
                "--output-chunks", ",".join([str(CHUNK)] * 3), "--output-shards", ",".join([shard] * 3),
            ],
            "ngff-zarr": [
                ngff, "-i", source, "-o", target, "--ome-zarr-version", "0.5", "-c", str(CHUNK),
                "--chunks-per-shard", str(PER_SHARD), "--no-omero", "-q",
            ],
        }  # fmt: skip

    def clear(self):
        shutil.rmtree(self.target, ignore_errors=True)
        subprocess.run(["sync", "-f", str(self.target.parent)], check=True)

    def run(self, name, command):
        """Wall and CPU seconds, with the data on the disk, and peak memory in MiB."""
        self.clear()
        for path in self.source.rglob("*"):
            if path.is_file():
                path.read_bytes()
        log = self.target.parent / f"{name}.log"
        starter = [sys.executable, "-I", "-S", "-c", STARTER, log, self.target.parent, *command]
        told = subprocess.run(list(map(str, starter)), check=True, stdout=subprocess.PIPE).stdout
        run = json.loads(told)
        # The challenge ends with the number of images it has converted.
        if run.pop("exit") != 0 and not name.startswith("ome2024"):
            raise SystemExit(f"{name} failed: see {log}")
        return run

    def open(self, path):
        driver = "zarr" if (path / ".zarray").exists() else "zarr3"
        return tensorstore.open({"driver": driver, "kvstore": f"file://{path}/"}, open=True).result()

    def check(self, name):
        """What of the result is equal to the source, as tensorstore and zarr-python read it."""
        found, made = {}, arrays(self.target)
        for array, source in arrays(self.source).items():
            if array not in made:
                found[array] = "missing"
                continue
            expected = self.open(source)
            ours, theirs = self.open(made[array]), zarr.open_array(made[array], mode="r")
            same = ours.shape == expected.shape and theirs.shape == expected.shape
            for first in range(0, expected.shape[0] if same else 0, 64):
                part = slice(first, min(first + 64, expected.shape[0]))
                want = expected[part].read().result()
                same = same and numpy.array_equal(ours[part].read().result(), want)
                same = same and numpy.array_equal(theirs[part], want)
            found[array] = "equal" if same else "different"
        return found

    def moved(self):
        """Chunks that Shardine says it has moved, of all."""
        self.clear()
        command = [*self.programs()["shardine"], "--json"]
        command.remove("-q")
        report = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True).stdout)
        count = lambda member: sum(level[member] for level in report["levels"])
        return count("chunks_moved"), count("chunks_moved") + count("chunks_recoded")

    def drive(self):
        made = self.source.parent / "made"
        if not made.exists():
            shutil.rmtree(self.source.parent, ignore_errors=True)
            make(self.source, self.shape)
            made.touch()
        names, checks = list(self.programs()), {}
        for turn in range(self.args.rounds):
            for place in range(len(names)):
                name = names[(place + turn) % len(names)]
                run = self.run(name, self.programs()[name])
                print(f"round {turn + 1}: {name} {run['wall']:.2f} s", flush=True)
                self.runs.setdefault(name, []).append(run)
                if turn == 0 and name != "cp":
                    checks[name] = self.check(name)
        moved = self.moved()
        self.clear()
        self.report(checks, moved)

    def report(self, checks, moved):
        def quartiles(values):
            if len(values) < 2:
                return values * 3
            return statistics.quantiles(values, n=4, method="inclusive")

        median = lambda name, what: statistics.median(run[what] for run in self.runs[name])
        # Each ratio is of two runs of one round.
        ratio = lambda a, b: statistics.median(x["wall"] / y["wall"] for x, y in zip(self.runs[a], self.runs[b]))
        stored = sum(path.stat().st_size for path in self.source.rglob("*") if path.is_file())
        files = sum(path.is_file() for path in self.source.rglob("*"))
        shown = " x ".join(map(str, self.shape))
        versions = [f"{name} {version(name)}" for name in ("ome-zarr", "ngff-zarr", "zarr", "tensorstore")]
        versions.append(
            subprocess.run([self.args.challenge.parent / "pip", "list", "--format=freeze"], capture_output=True, text=True)
            .stdout.split("ome2024-ngff-challenge==")[-1].split("\n")[0].join(["ome2024-ngff-challenge ", ""])
        )  # fmt: skip
        peers = [name for name in self.runs if name not in ("cp", "shardine")]
        faster = min(ratio(name, "shardine") for name in peers)
        count = len(arrays(self.source))
        equal = lambda name: sum(found == "equal" for found in checks[name].values())
        verdict = lambda reached: "yes" if reached else "**no**"
        goals = [
            ("chunks moved", f"{moved[0]} of {moved[1]}", "all", moved[0] == moved[1]),
            ("time / cp", f"{ratio('shardine', 'cp'):.2f}", f"at most {MOST_OF_CP}", ratio("shardine", "cp") <= MOST_OF_CP),
            ("peak memory", f"{median('shardine', 'memory'):.0f} MiB", f"below {MOST_MEMORY} MiB", median("shardine", "memory") < MOST_MEMORY),
            ("times as fast as the fastest other tool", f"{faster:.1f}", f"at least {LEAST_FASTER}", faster >= LEAST_FASTER),
            ("arrays equal in tensorstore and zarr-python", f"{equal('shardine')} of {count}", "all", equal("shardine") == count),
        ]  # fmt: skip
        lines = [
            "# Results of converting OME-Zarr 0.4 to sharded 0.5",
            "",
            f"Made by `cargo xtask bench --ome` on {datetime.date.today()}: {os.cpu_count()} cores, Linux {platform.release()}.",
            f"Load when it began: {self.load}. Rounds: {self.args.rounds}, interleaved. The image is uint16 {shown} with",
            f"{LEVELS} levels, and as many of labels, in chunks of {CHUNK}^3 with blosc, as ome-zarr-py writes it: {files:,} files,",
            f"{stored / 2**20:.0f} MiB. It becomes shards of {PER_SHARD}^3 chunks. Compared: {', '.join(versions)}.",
            "",
            "Each program is a process, measured from its start until its data is on the disk (`sync -f`), with the source in the",
            "page cache: wall time, CPU time, and peak resident memory as the kernel reports it. Ratios are of two runs in the same",
            "round. In the first round every array is read by tensorstore and zarr-python and compared with the source, level by",
            "level.",
            "",
            "## Goals",
            "",
            "| | figure | goal | reached |",
            "|---|---|---|---|",
            *(f"| {what} | {figure} | {goal} | {verdict(reached)} |" for what, figure, goal, reached in goals),
            "",
            "## Runs",
            "",
            "| | runs | seconds, median | quartiles | / cp | / shardine | CPU s | peak MiB | arrays equal |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for name, runs in self.runs.items():
            low, middle, high = quartiles([run["wall"] for run in runs])
            same = f"{equal(name)} of {count}" if name in checks else ""
            lines.append(
                f"| {name} | {len(runs)} | {middle:.2f} | {low:.2f}..{high:.2f} | {ratio(name, 'cp'):.2f} | "
                f"{ratio(name, 'shardine'):.2f} | {median(name, 'cpu'):.2f} | {median(name, 'memory'):.0f} | {same} |"
            )
        for name, found in checks.items():
            wrong = [f"{array} is {what}" for array, what in found.items() if what != "equal"]
            if wrong:
                lines += ["", f"{name}: {', '.join(wrong)}."]
        self.args.out.mkdir(parents=True, exist_ok=True)
        (self.args.out / "ome-results.md").write_text("\n".join(lines) + "\n")
        (self.args.out / "ome-runs.json").write_text(json.dumps({"runs": self.runs, "checks": checks}, indent=1) + "\n")
        print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shardine", required=True, type=Path)
    parser.add_argument("--challenge", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", choices=SHAPES, default="full")
    bench = Bench(parser.parse_args())
    bench.load = f"{os.getloadavg()[0]:.1f}"
    bench.drive()


if __name__ == "__main__":
    main()
