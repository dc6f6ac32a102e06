"""Times Shardine beside zarr-vectors: `cargo xtask bench --vectors`.

    python peers/vectors/bench.py drive --shardine PATH --data FOLDER --out FOLDER
        [--rounds N] [--only write,read,...] [--limit SECONDS] [--compared N]
    python peers/vectors/bench.py drive ... --points N

The first compares both on a million points, or on N. The second times Shardine alone on 1, 10, ... million points up to N, within a
budget of memory. Each replaces its own half of the report and leaves the other.

Every measurement is a process of its own, so that its processor time and its peak memory are known. Those of
zarr-vectors also tell how long the call itself took: starting Python and its imports do not count against it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np

EDGE = 1000.0
CHUNK = 37.0
BOX = (400.0, 600.0)
MEMORY = "512MiB"


@dataclass
class Run:
    """One measurement."""

    job: str
    who: str
    points: int
    seconds: float
    cpu: float
    peak_mib: float
    stopped: bool = False
    answer: int | None = None


# --- zarr-vectors, in a process of its own ---


def work(job: str, store: str, source: str) -> None:
    """Does one job with zarr-vectors and tells how long the call took."""
    import warnings

    warnings.simplefilter("ignore")
    from zarr_vectors.sharding import reshard, shard_store, unshard_store
    from zarr_vectors.types.points import read_points, write_points

    points = np.load(source) if job.startswith("write") else None
    start = time.perf_counter()
    answer = None
    match job:
        case "write" | "write-plain":
            shard = 8 if job == "write" else None
            write_points(store, points, chunk_shape=(CHUNK,) * 3, shard_shape=shard)
        case "read" | "read-plain":
            answer = read_points(store)
        case "box" | "box-plain":
            answer = read_points(store, bbox=(np.full(3, BOX[0]), np.full(3, BOX[1])))
        case "shard" | "shard-small":
            shard_store(store, shard_shape=8)
        case "reshard" | "reshard-small":
            reshard(store, 4)
        case "unshard" | "unshard-small":
            unshard_store(store)
    seconds = time.perf_counter() - start
    count = None if answer is None else int(answer["vertex_count"])
    print(json.dumps({"seconds": seconds, "points": count}))


# --- measuring ---


LAUNCHER = """
import json, os, subprocess, sys, threading, time
limit, command = float(sys.argv[1]), sys.argv[2:]
start = time.perf_counter()
child = subprocess.Popen(command, stdout=open("said", "wb"), stderr=open("wrong", "wb"))
stopped = []
def stop():
    stopped.append(True)
    child.kill()
timer = threading.Timer(limit, stop)
timer.daemon = True
timer.start()
_, status, usage = os.wait4(child.pid, 0)
child.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps({"seconds": time.perf_counter() - start, "cpu": usage.ru_utime + usage.ru_stime,
    "peak": usage.ru_maxrss / 1024, "stopped": bool(stopped), "status": child.returncode}))
"""
"""A process inherits the peak memory of the one that started it, so a small one starts what is measured."""


def measure(command: list[str], limit: float | None) -> tuple[float, float, float, bool, str]:
    """Wall and processor seconds, peak MiB, whether it was stopped, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", LAUNCHER, str(limit or 1e6), *command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        told = json.loads(done.stdout)
        said, wrong = ((Path(folder) / name).read_text() for name in ("said", "wrong"))
    if told["status"] != 0 and not told["stopped"]:
        sys.exit(f"{' '.join(command)}: exit status {told['status']}\n{wrong}")
    return told["seconds"], told["cpu"], told["peak"], told["stopped"], said


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.shardine = str(Path(arguments.shardine).resolve())
        self.data = Path(arguments.data).resolve() / "vectors"
        self.limit = arguments.limit
        self.runs: list[Run] = []
        self.chunks = 0
        self.data.mkdir(parents=True, exist_ok=True)

    def points(self, count: int) -> Path:
        """Points at random in a cube, always the same."""
        path = self.data / f"points-{count}.npy"
        if not path.exists():
            rng = np.random.default_rng(20)
            beside = path.with_suffix(".part.npy")
            target = np.lib.format.open_memmap(beside, "w+", "<f4", (count, 3))
            for start in range(0, count, 1_000_000):
                size = min(1_000_000, count - start)
                target[start : start + size] = rng.random((size, 3), np.float32) * np.float32(EDGE)
            target.flush()
            beside.rename(path)
        return path

    def zarr_vectors(self, job: str, store: Path, source: Path, count: int) -> Run:
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            "work",
            job,
            str(store),
            str(source),
        ]
        seconds, cpu, peak, stopped, said = measure(command, self.limit)
        answer = None
        if not stopped:
            told = json.loads(said)
            seconds, answer = told["seconds"], told["points"]
        return self.note(Run(job, "zarr-vectors", count, seconds, cpu, peak, stopped, answer))

    def ours(self, job: str, count: int, *arguments: object) -> Run:
        """A run of the program; what a query has found is in its answer."""
        command = [self.shardine, *map(str, arguments), "--json"]
        seconds, cpu, peak, stopped, said = measure(command, None)
        told = json.loads(said) if "query" in command else {}
        return self.note(
            Run(job, "shardine", count, seconds, cpu, peak, stopped, told.get("vertices"))
        )

    def floor(self, job: str, count: int, command: str) -> Run:
        """What the file system takes for the same files, without a look at what is in them."""
        seconds, cpu, peak, stopped, _ = measure(["sh", "-c", command], None)
        return self.note(Run(job, "floor", count, seconds, cpu, peak, stopped))

    def note(self, run: Run) -> Run:
        self.runs.append(run)
        times = f"{'>' if run.stopped else ' '}{run.seconds:9.3f} s {run.cpu:9.3f} s"
        print(
            f"{run.job:15} {run.who:13} {run.points:>11} {times} {run.peak_mib:7.0f} MiB",
            flush=True,
        )
        return run


WRITE = ["--kind", "points", "--chunk", f"{CHUNK:g},{CHUNK:g},{CHUNK:g}"]
SIDES = ("shardine", "zarr-vectors")
BOXED = f"--box={','.join(f'{BOX[0]:g}:{BOX[1]:g}' for _ in range(3))}"


def made(target: Path, make: Callable[[Path], object]) -> Path:
    """A store that is made once, and is whole if it is there."""
    if not target.exists():
        beside = target.with_name(f"{target.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        make(beside)
        beside.rename(target)
    return target


def in_turn(number: int) -> tuple[str, ...]:
    """Both programs, another one first in each round."""
    return SIDES if number % 2 == 0 else SIDES[::-1]


def fresh(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    # Nothing of the copy is still to be written while it is repacked.
    os.sync()
    return target


def same_points(path: Path, want: np.ndarray) -> None:
    got = np.load(path)
    if got.shape != want.shape:
        sys.exit(f"{path}: {got.shape} points, not {want.shape}")
    order = [np.lexsort(side.T) for side in (got, want)]
    if not np.array_equal(got[order[0]], want[order[1]]):
        sys.exit(f"{path}: other points")


def same_cells(store: Path, want: Path) -> None:
    from vectors.cells import cells

    for name in ("vertices", "vertex_fragments"):
        if cells(store / "0" / name) != cells(want / "0" / name):
            sys.exit(f"{store}: other cells in {name}")


def packings(
    bench: Bench, jobs: list[str], plain: Path, small: str, count: int, source: Path, number: int
) -> None:
    """shard, reshard and unshard in place, each from a copy that the one before has not touched."""

    def shard(target: Path) -> None:
        fresh(plain, target)
        measure([bench.shardine, "shard", str(target), "--chunks-per-shard", "8"], None)

    sharded = made(plain.with_name(f"{plain.name}-sharded"), shard)
    for verb, begin, size in (
        ("shard", plain, "8"),
        ("reshard", sharded, "4"),
        ("unshard", sharded, None),
    ):
        job = f"{verb}{small}"
        if job not in jobs:
            continue
        for who in in_turn(number):
            before = [run for run in bench.runs if (run.job, run.who) == (job, who)]
            if any(run.stopped for run in before):
                # It would be stopped again.
                continue
            store = fresh(begin, bench.data / "scratch")
            if who == "shardine":
                bench.ours(job, count, verb, store, *(["--chunks-per-shard", size] if size else []))
                if number == 0:
                    same_cells(store, plain)
            else:
                bench.zarr_vectors(job, store, source, count)
            shutil.rmtree(store)
        if verb == "shard":
            store = fresh(begin, bench.data / "scratch")
            bench.floor(job, count, f"rm -rf '{store}'")


JOBS = {
    "write": "write with shards of 8^3",
    "write-plain": "write without shards",
    "read": "read all, shards of 8^3",
    "read-plain": "read all, no shards",
    "box": "a box of 200^3, shards of 8^3",
    "box-plain": "a box of 200^3, no shards",
    "shard": "shard 8^3 in place",
    "reshard": "reshard 8^3 to 4^3 in place",
    "unshard": "unshard in place",
    "shard-small": "shard 8^3, the small store",
    "reshard-small": "reshard 8^3 to 4^3, the small store",
    "unshard-small": "unshard, the small store",
}


def compare(bench: Bench, jobs: list[str], rounds: int, count: int) -> None:
    """All jobs, both programs one after the other, as many rounds as asked for."""
    from vectors.cells import cells
    from zarr_vectors.types.points import write_points

    source = bench.points(count)
    points = np.load(source, mmap_mode="r")
    inside = points[((points >= BOX[0]) & (points <= BOX[1])).all(axis=1)]
    few = max(count // 10, 1)
    plain = made(
        bench.data / f"plain-{count}",
        lambda target: write_points(str(target), np.asarray(points), chunk_shape=(CHUNK,) * 3),
    )
    # 1,000 chunks, 2,000 cells: what zarr-vectors can unshard in a minute.
    small = made(
        bench.data / f"plain-small-{count}",
        lambda target: write_points(
            str(target), np.asarray(points[:few]), chunk_shape=(100.0,) * 3
        ),
    )
    bench.chunks = len(cells(plain / "0/vertices"))
    for number in range(rounds):
        first = number == 0
        for job, shard in (("write", ["--shard", "8,8,8"]), ("write-plain", [])):
            for who in in_turn(number):
                target = bench.data / f"{job}-{who}"
                needed = who == "shardine" and {
                    job.replace("write", w) for w in ("read", "box")
                } & {*jobs}
                if job not in jobs and not needed:
                    continue
                shutil.rmtree(target, ignore_errors=True)
                if who == "shardine":
                    written = [*WRITE, *shard, "--codec", "none"]
                    bench.ours(job, count, "vectors", "write", target, source, *written)
                    if first:
                        same_cells(target, plain)
                else:
                    bench.zarr_vectors(job, target, source, count)
            if job == "write-plain" and job in jobs:
                target = bench.data / f"{job}-floor"
                shutil.rmtree(target, ignore_errors=True)
                bench.floor(job, count, f"cp -r '{plain}' '{target}' && sync")
        for kind, more in (("read", []), ("box", [BOXED])):
            for form in ("", "-plain"):
                job = f"{kind}{form}"
                # Both read the same store, which Shardine has written.
                store = bench.data / f"write{form}-shardine"
                if job not in jobs or not store.exists():
                    continue
                wanted = points if kind == "read" else inside
                if first:
                    out = bench.data / "answer.npy"
                    query = ["vectors", "query", str(store), *more, "-o", str(out), "--overwrite"]
                    measure([bench.shardine, *query], None)
                    same_points(out, wanted)
                for who in in_turn(number):
                    if who == "shardine":
                        run = bench.ours(job, count, "vectors", "query", store, *more)
                    else:
                        run = bench.zarr_vectors(job, store, source, count)
                    if not run.stopped and run.answer != len(wanted):
                        sys.exit(f"{job}: {who} found {run.answer} of {len(wanted)} points")
        packings(bench, jobs, plain, "", count, source, number)
        packings(bench, jobs, small, "-small", few, source, number)


def points_inside(source: Path) -> int:
    """How many points of a file lie in the box."""
    points = np.load(source, mmap_mode="r")
    pieces = (points[start : start + 1_000_000] for start in range(0, len(points), 1_000_000))
    return sum(
        int(((piece >= BOX[0]) & (piece <= BOX[1])).all(axis=1).sum()) for piece in pieces
    )


def curve(bench: Bench, most: int) -> None:
    """Writing and a box at growing sizes, within a budget of memory."""
    sizes = [10**power for power in range(6, 12) if 10**power < most]
    for count in [*sizes, most]:
        source = bench.points(count)
        store = bench.data / f"curve-{count}"
        shutil.rmtree(store, ignore_errors=True)
        bench.ours(
            "curve-write",
            count,
            "vectors",
            "write",
            store,
            source,
            *WRITE,
            "--shard",
            "8,8,8",
            "--memory",
            MEMORY,
        )
        for job, more in (("curve-box", [BOXED]), ("curve-read", [])):
            run = bench.ours(job, count, "vectors", "query", store, *more, "--memory", MEMORY)
            want = count if job == "curve-read" else points_inside(source)
            if run.answer != want:
                sys.exit(f"{job}: {run.answer} points came back of {want}")
        shutil.rmtree(store)


# --- the report ---


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def row(job: str, runs: list[Run]) -> str:
    sides = {
        who: [run for run in runs if run.job == job and run.who == who]
        for who in (*SIDES, "floor")
    }
    middle = {
        who: [
            statistics.median(getattr(run, name) for run in own)
            for name in ("seconds", "cpu", "peak_mib")
        ]
        for who, own in sides.items()
        if own
    }
    cells = [JOBS[job]]
    stopped = any(run.stopped for run in sides["zarr-vectors"])
    for who in ("zarr-vectors", "shardine"):
        if who not in middle:
            cells += ["", "", ""]
            continue
        seconds, cpu, peak = middle[who]
        mark = "> " if who == "zarr-vectors" and stopped else ""
        cells += [f"{mark}{seconds:.3g}", f"{mark}{cpu:.3g}", f"{peak:.0f}"]
    cells.append(f"{middle['floor'][0]:.3g}" if "floor" in middle else "")
    if {*SIDES} <= {*middle}:
        ratio = middle["zarr-vectors"][0] / middle["shardine"][0]
        cells.append(f"{'> ' if stopped else ''}{ratio:.3g}")
    else:
        cells.append("")
    return f"| {' | '.join(cells)} |"


HEAD = """\
# Benchmark of Zarr Vectors

Written by `cargo xtask bench --vectors`, which compares the shardine program with zarr-vectors, and by `cargo xtask bench --vectors
--points N`, which times larger sets. `vectors-runs.json` has every measurement.
"""

MADE = "{today}: {processor}, {cores} cores, {memory:.0f} GiB, Linux {kernel}"

COMPARED = """
## Compared with zarr-vectors {peer}

{made}. zarr {zarr}, {rounds} rounds; in each of them both programs do each job, one after the other, another one first each time.

{count:,} points at random in 1000^3, float32, not compressed, in chunks of 37^3: {chunks:,} of them, with a cell in each of two arrays. The
small store has {few:,} points in 1,000 chunks of 100^3. Seconds are medians over the rounds. Those of zarr-vectors are of the call alone;
those of shardine are of the whole process, which begins by opening the store or the .npy file, and has made durable what it writes. Both
read the points into memory and count them. Files are in the page cache. Both read what shardine has written; each packing begins with a
fresh copy. In the first round the cells that shardine writes are compared with those of zarr-vectors, and what it reads with the source.

zarr-vectors is stopped after {limit:g} s of a job (`>`). Its `unshard_store` takes time that grows with the square of the number of
cells; the small store shows it to its end.

Where the file system decides, its floor stands beside it: for writing without shards `cp -r` of the same files and `sync`; for sharding
in place `rm -rf` of the files that shards replace, which is the last and longest part of that job.

| job | zarr-vectors s | CPU s | peak MiB | shardine s | CPU s | peak MiB | floor s | ratio |
|---|---|---|---|---|---|---|---|---|
"""

CURVE = """
## Time over size, within `--memory {budget}`

{made}. The same cube and chunks, with zstd (the default), shards of 8^3, and more points in each chunk. One run each. The peak is what the
kernel counts for the process.

| points | write s | CPU s | peak MiB | box of 200^3 s | peak MiB | read all s | peak MiB |
|---|---|---|---|---|---|---|---|
"""


def about(bench: Bench, arguments: argparse.Namespace) -> dict[str, object]:
    """What a half of the report says of its runs."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "made": MADE.format(
            today=date.today(),
            processor=processor(),
            cores=os.cpu_count(),
            memory=pages,
            kernel=platform.release(),
        ),
        "peer": version("zarr-vectors"),
        "zarr": version("zarr"),
        "rounds": arguments.rounds,
        "limit": arguments.limit,
        "count": arguments.compared,
        "few": max(arguments.compared // 10, 1),
        "chunks": bench.chunks,
        "budget": MEMORY,
        "runs": [asdict(run) for run in bench.runs],
    }


def report(halves: dict[str, dict]) -> str:
    told = HEAD
    runs = {name: [Run(**run) for run in half["runs"]] for name, half in halves.items()}
    if "compared" in halves:
        told += COMPARED.format(**halves["compared"])
        done = {run.job for run in runs["compared"]}
        told += "".join(f"{row(job, runs['compared'])}\n" for job in JOBS if job in done)
    if "curve" in halves:
        told += CURVE.format(**halves["curve"])
        for size in sorted({run.points for run in runs["curve"]}):
            own = {run.job.removeprefix("curve-"): run for run in runs["curve"] if run.points == size}
            write = own["write"]
            line = [f"{size:,}", f"{write.seconds:.3g}", f"{write.cpu:.3g}", f"{write.peak_mib:.0f}"]
            for job in ("box", "read"):
                line += [f"{own[job].seconds:.3g}", f"{own[job].peak_mib:.0f}"]
            told += f"| {' | '.join(line)} |\n"
    return told


def drive(arguments: argparse.Namespace) -> None:
    bench = Bench(arguments)
    if arguments.points:
        half = "curve"
        curve(bench, arguments.points)
    else:
        half = "compared"
        jobs = arguments.only.split(",") if arguments.only else list(JOBS)
        unknown = [job for job in jobs if job not in JOBS]
        if unknown:
            sys.exit(f"there is no job {unknown[0]}; there are {', '.join(JOBS)}")
        compare(bench, jobs, arguments.rounds, arguments.compared)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "vectors-runs.json"
    halves = json.loads(kept.read_text()) if kept.exists() else {}
    halves[half] = about(bench, arguments)
    kept.write_text(json.dumps(halves, indent=1) + "\n")
    (out / "vectors.md").write_text(report(halves))
    print(f"report: {out / 'vectors.md'}")


def main() -> None:
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:5])
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["drive"])
    parser.add_argument("--shardine", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help=f"some of {','.join(JOBS)}")
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds after which zarr-vectors is stopped"
    )
    parser.add_argument("--compared", type=int, default=1_000_000, help="points that both work on")
    parser.add_argument("--points", type=int, help="the curve of time over size, up to so many")
    drive(parser.parse_args())


if __name__ == "__main__":
    main()
