"""Times Shardine beside zarr-vectors on a million points: `cargo xtask bench --vectors`.

    python peers/vectors/bench.py drive --shardine PATH --data FOLDER --out FOLDER
        [--rounds N] [--only write,read,...] [--limit SECONDS] [--points N]

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
        if not stopped:
            seconds = json.loads(said)["seconds"]
        return self.note(Run(job, "zarr-vectors", count, seconds, cpu, peak, stopped))

    def ours(self, job: str, count: int, *arguments: object) -> Run:
        seconds, cpu, peak, stopped, _ = measure([self.shardine, *map(str, arguments)], None)
        return self.note(Run(job, "shardine", count, seconds, cpu, peak, stopped))

    def note(self, run: Run) -> Run:
        self.runs.append(run)
        times = f"{'>' if run.stopped else ' '}{run.seconds:9.3f} s {run.cpu:9.3f} s"
        print(
            f"{run.job:15} {run.who:13} {run.points:>11} {times} {run.peak_mib:7.0f} MiB",
            flush=True,
        )
        return run


WRITE = ["--kind", "points", "--chunk", f"{CHUNK:g},{CHUNK:g},{CHUNK:g}"]
BOXED = f"--box={','.join(f'{BOX[0]:g}:{BOX[1]:g}' for _ in range(3))}"


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
    bench: Bench, jobs: list[str], plain: Path, small: str, count: int, source: Path, first: bool
) -> None:
    """shard, reshard and unshard in place, each from a copy that the one before has not touched."""
    sharded = bench.data / f"sharded{small}"
    if not sharded.exists():
        fresh(plain, sharded)
        measure([bench.shardine, "shard", str(sharded), "--chunks-per-shard", "8"], None)
    for verb, begin, size in (
        ("shard", plain, "8"),
        ("reshard", sharded, "4"),
        ("unshard", sharded, None),
    ):
        job = f"{verb}{small}"
        if job not in jobs:
            continue
        for who in ("shardine", "zarr-vectors"):
            if (
                who == "zarr-vectors"
                and not first
                and any(run.job == job and run.stopped for run in bench.runs)
            ):
                # It would be stopped again.
                continue
            store = fresh(begin, bench.data / "scratch")
            if who == "shardine":
                bench.ours(job, count, verb, store, *(["--chunks-per-shard", size] if size else []))
                if first:
                    same_cells(store, plain)
            else:
                bench.zarr_vectors(job, store, source, count)
            shutil.rmtree(store)


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
    from zarr_vectors.types.points import write_points

    source = bench.points(count)
    points = np.load(source, mmap_mode="r")
    inside = points[((points >= BOX[0]) & (points <= BOX[1])).all(axis=1)]
    stores = {"": bench.data / "plain", "-small": bench.data / "plain-small"}
    if not stores[""].exists():
        write_points(str(stores[""]), np.asarray(points), chunk_shape=(CHUNK,) * 3)
    if not stores["-small"].exists():
        # 1,000 chunks, 2,000 cells: what zarr-vectors can unshard in a minute.
        write_points(str(stores["-small"]), np.asarray(points[:100_000]), chunk_shape=(100.0,) * 3)
    for number in range(rounds):
        first = number == 0
        for job, shard in (("write", ["--shard", "8,8,8"]), ("write-plain", [])):
            for who in ("shardine", "zarr-vectors"):
                target = bench.data / f"{job}-{who}"
                needed = who == "shardine" and {
                    job.replace("write", w) for w in ("read", "box")
                } & {*jobs}
                if job not in jobs and not needed:
                    continue
                shutil.rmtree(target, ignore_errors=True)
                if who == "shardine":
                    bench.ours(job, count, "vectors", "write", target, source, *WRITE, *shard)
                    if first:
                        same_cells(target, stores[""])
                else:
                    bench.zarr_vectors(job, target, source, count)
        for kind, more in (("read", []), ("box", [BOXED])):
            for form in ("", "-plain"):
                job = f"{kind}{form}"
                # Both read the same store, which Shardine has written.
                store = bench.data / f"write{form}-shardine"
                if job not in jobs or not store.exists():
                    continue
                out = bench.data / "answer.npy"
                out.unlink(missing_ok=True)
                bench.ours(job, count, "vectors", "query", store, *more, "-o", out)
                if first:
                    same_points(out, points if kind == "read" else inside)
                bench.zarr_vectors(job, store, source, count)
        packings(bench, jobs, stores[""], "", count, source, first)
        packings(bench, jobs, stores["-small"], "-small", 100_000, source, first)


def curve(bench: Bench, most: int) -> None:
    """Writing and a box at growing sizes, within a budget of memory."""
    sizes = [size for size in (1_000_000, 3_000_000, 10_000_000, 30_000_000) if size < most]
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
        out = bench.data / "answer.npy"
        for job, more in (("curve-box", [BOXED]), ("curve-read", [])):
            out.unlink(missing_ok=True)
            bench.ours(job, count, "vectors", "query", store, *more, "-o", out, "--memory", MEMORY)
            got = np.load(out, mmap_mode="r")
            if job == "curve-read" and len(got) != count:
                sys.exit(f"{len(got)} points came back of {count}")
        shutil.rmtree(store)
        out.unlink()


# --- the report ---


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def row(job: str, runs: list[Run]) -> str:
    sides = {
        who: [run for run in runs if run.job == job and run.who == who]
        for who in ("shardine", "zarr-vectors")
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
    if len(middle) == 2:
        ratio = middle["zarr-vectors"][0] / middle["shardine"][0]
        cells.append(f"{'> ' if stopped else ''}{ratio:.3g}")
    else:
        cells.append("")
    return f"| {' | '.join(cells)} |"


HEAD = """\
# Results on Zarr Vectors

Made by `cargo xtask bench --vectors` on {today}: {processor}, {cores} cores, Linux {kernel}. Compared: zarr-vectors {peer} with zarr
{zarr}, and the shardine program, one after the other within each of {rounds} rounds, files in the page cache.
"""

COMPARED = """
A million points at random in 1000^3, float32, in chunks of 37^3: 21,339 of them, 42,678 cells in two arrays, 14 MB. The small store
has 100,000 points in 1,000 chunks of 100^3. Seconds are the middle of all rounds. Those of zarr-vectors are of the call alone, which
ends with the points in memory; those of shardine are of the whole process, which reads or writes a .npy file. Both read what shardine has
written; each packing begins with a fresh copy. What shardine writes and reads was compared with the source in the first round.

zarr-vectors was stopped after {limit:g} s of a job (`>`). Its `unshard_store` takes time that grows with the square of the number of
cells, more than 20 minutes here; the small store shows it to its end.

| job | zarr-vectors s | CPU s | peak MiB | shardine s | CPU s | peak MiB | ratio |
|---|---|---|---|---|---|---|---|
"""

CURVE = """
## Time over size, within `--memory {memory}`

The same cube and chunks, shards of 8^3, with more points in each chunk. The peak is what the kernel counts for the process.

| points | write s | CPU s | peak MiB | box of 200^3 s | peak MiB | read all s | peak MiB |
|---|---|---|---|---|---|---|---|
"""


def report(bench: Bench, arguments: argparse.Namespace) -> str:
    runs = bench.runs
    told = HEAD.format(
        today=date.today(),
        processor=processor(),
        cores=os.cpu_count(),
        kernel=platform.release(),
        peer=version("zarr-vectors"),
        zarr=version("zarr"),
        rounds=arguments.rounds,
    )
    jobs = [job for job in JOBS if any(run.job == job for run in runs)]
    if jobs:
        told += COMPARED.format(limit=arguments.limit)
        told += "".join(f"{row(job, runs)}\n" for job in jobs)
    curve_runs = [run for run in runs if run.job.startswith("curve")]
    if curve_runs:
        told += CURVE.format(memory=MEMORY)
    for size in sorted({run.points for run in curve_runs}):
        own = {run.job.removeprefix("curve-"): run for run in curve_runs if run.points == size}
        write = own["write"]
        line = [f"{size:,}", f"{write.seconds:.3g}", f"{write.cpu:.3g}", f"{write.peak_mib:.0f}"]
        for job in ("box", "read"):
            line += [f"{own[job].seconds:.3g}", f"{own[job].peak_mib:.0f}"]
        told += f"| {' | '.join(line)} |\n"
    return told


def drive(arguments: argparse.Namespace) -> None:
    bench = Bench(arguments)
    jobs = arguments.only.split(",") if arguments.only else list(JOBS)
    unknown = [job for job in jobs if job not in JOBS and job != "curve"]
    if unknown:
        sys.exit(f"there is no job {unknown[0]}; there are {', '.join(JOBS)} and curve")
    if any(job in JOBS for job in jobs):
        compare(bench, jobs, arguments.rounds, 1_000_000)
    if arguments.points:
        curve(bench, arguments.points)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "vectors-results.md").write_text(report(bench, arguments))
    (out / "vectors-runs.json").write_text(
        json.dumps([asdict(run) for run in bench.runs], indent=1) + "\n"
    )
    print(f"report: {out / 'vectors-results.md'}")


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
    parser.add_argument("--points", type=int, help="the curve of time over size, up to so many")
    drive(parser.parse_args())


if __name__ == "__main__":
    main()
