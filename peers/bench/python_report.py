"""The report of the benchmark from Python: docs/bench/python.md.

    python peers/bench/python_report.py RUNS.json OUT.md --command COMMAND
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SUBJECTS = ["shardine", "shardine-python", "tensorstore", "zarr-python+zarrs", "zarr-python"]
PEERS = SUBJECTS[2:]

WORKLOADS = {
    "W1": "write the whole array, shard by shard",
    "W2": "read the whole array, fresh output",
    "W2b": "read the whole array into the caller's buffer",
    "W2F": "read the whole array into the caller's buffer, in Fortran order",
    "W3": "read shard by shard into one buffer",
    "W4": "read 2,000 random inner chunks, one by one, no index cache",
    "W4b": "read 2,000 random inner chunks, one by one, index cached",
    "W5": "read 100 random unaligned boxes of 100^3",
    "W6": "update one random inner chunk, 8 times",
    "W7": "read 4 planes across the array, last axis fixed",
}

IMPORTS = {
    "numpy": "numpy",
    "shardine": "shardine",
    "tensorstore": "tensorstore",
    "zarr": "zarr",
    "zarr, zarrs": "zarr, zarrs",
}


def import_seconds(modules: str, times: int = 7) -> float:
    """Seconds to import modules in a new process, numpy included; the median."""
    code = f"import time; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(times)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--command", required=True)
    arguments = parser.parse_args()
    record = json.loads(arguments.runs.read_text())
    wall: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(dict)
    cpu: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(dict)
    peak: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    versions = {}
    for run in record["runs"]:
        row, subject = (run["workload"], run["variant"]), run["subject"]
        versions[subject] = run["version"]
        wall[row].setdefault(subject, {})[run["repeat"]] = statistics.median(run["wall"])
        both = [user + system for user, system in zip(run["user"], run["system"])]
        cpu[row].setdefault(subject, []).append(statistics.median(both))
        most = max(peak[row].get(subject, 0), run["peak_growth"])
        peak[row][subject] = most

    def ratio(row: tuple[str, str], other: str) -> float | None:
        """Time of the package over that of another, in the same repeat; the median."""
        own, others = wall[row].get("shardine-python", {}), wall[row].get(other, {})
        shared = [own[repeat] / others[repeat] for repeat in own.keys() & others.keys()]
        return statistics.median(shared) if shared else None

    compared = ", ".join(versions[name] for name in SUBJECTS if name in versions)
    lines = [
        "# Benchmark from Python",
        "",
        f"Made by `{arguments.command}` on {record['date']}: {record['processor']}, "
        f"{record['cores']} cores, {record['memory_gib']} GiB, {record['kernel']}.",
        f"{record['repeats']} repeats, data and rules as in [README.md](README.md).",
        "",
        f"Compared: {compared}. The first is the engine without Python.",
        "",
        "## Time",
        "",
        "Milliseconds on the wall, medians of all repeats. *Rust*: time over that of the engine "
        "itself in the same repeat. *Best peer*: time over that of the fastest of the others; "
        "above 1 it is ahead (bold).",
        "",
        "| | " + " | ".join(SUBJECTS) + " | Rust | best peer | |",
        "|---" * (len(SUBJECTS) + 4) + "|",
    ]
    ahead = rows = 0
    for workload, title in WORKLOADS.items():
        for row in [row for row in wall if row[0] == workload]:
            times = {subject: statistics.median(by.values()) for subject, by in wall[row].items()}
            cells = [milliseconds(times[s]) if s in times else "" for s in SUBJECTS]
            ratios = {peer: ratio(row, peer) for peer in PEERS}
            known = {peer: value for peer, value in ratios.items() if value is not None}
            best = max(known, key=lambda peer: known[peer], default=None)
            rust = ratio(row, "shardine")
            cells.append(f"{rust:.2f}" if rust else "")
            if best is not None:
                rows += 1
                ahead += known[best] <= 1
                shown = f"{known[best]:.2f}"
                cells += [f"**{shown}**" if known[best] > 1 else shown, best]
            else:
                cells += ["", ""]
            lines.append(f"| **{workload}** {row[1]}: {title} | " + " | ".join(cells) + " |")
    lines += [
        "",
        f"Not behind any peer: {ahead} of {rows} rows.",
        "",
        "## CPU time and memory",
        "",
        "CPU milliseconds, medians; growth of the resident set at its peak in MiB, with results.",
        "",
        "| | " + " | ".join(SUBJECTS) + " |",
        "|---" * (len(SUBJECTS) + 1) + "|",
    ]
    for workload in WORKLOADS:
        for row in [row for row in wall if row[0] == workload]:
            cells = []
            for subject in SUBJECTS:
                if subject not in cpu[row]:
                    cells.append("")
                    continue
                used = milliseconds(statistics.median(cpu[row][subject]))
                cells.append(f"{used} / {peak[row][subject] >> 20}")
            lines.append(f"| **{workload}** {row[1]} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Import",
        "",
        "Milliseconds to import in a new process, numpy included; the median of 7.",
        "",
        "| import | ms |",
        "|---|---|",
    ]
    for modules in IMPORTS.values():
        lines.append(f"| `{modules}` | {import_seconds(modules) * 1000:.0f} |")
    arguments.out.write_text("\n".join(lines) + "\n")
    print(f"the report is {arguments.out}")


if __name__ == "__main__":
    main()
