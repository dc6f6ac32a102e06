"""Zarr Vectors: what zarr-vectors and Shardine write, the other one reads, repacks and checks.

    python peers/vectors_check.py --shardine PATH [--only PART,KIND,...] [--cases N] [--seed S]

See peers/README.md.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from vectors.draw import FLAVOURS  # noqa: E402
from vectors.pyramid import FLAVOURS as COARSENED  # noqa: E402
from vectors.writing import FLAVOURS as WRITTEN  # noqa: E402

KINDS = list(dict.fromkeys([*FLAVOURS, *WRITTEN]))


@dataclass(frozen=True)
class Task:
    """One case of one part."""

    part: str
    index: int
    seed: int
    flavour: str
    shardine: str
    scratch: Path
    keep: bool


@dataclass
class Outcome:
    task: Task
    name: str = ""
    failures: list[str] = field(default_factory=list)
    met: list[str] = field(default_factory=list)
    """What took part, and the defects that something was left out for."""


def store(task: Task, folder: Path, outcome: Outcome):  # noqa: ANN201
    """Draws a case and has zarr-vectors write it."""
    import random

    from vectors import by_peer, defects
    from vectors.draw import draw

    case = draw(task.seed, task.index, task.flavour)
    outcome.name = case.describe()
    root = folder / "store"
    by_peer.write(case, root)
    outcome.met += [f"left out: {name}" for name in defects.of(case)]
    outcome.met += [f"kind {case.flavour}", f"codec {case.compressor}"]
    outcome.met.append("sharded" if case.shard else "not sharded")
    return case, random.Random(f"{task.part} {task.seed} {task.index}"), root


def read(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.reading import check, peer_differences

    case, dice, root = store(task, folder, outcome)
    # If zarr-vectors does not read back what it was given, the test is wrong.
    outcome.failures += [f"zarr-vectors itself: {text}" for text in peer_differences(case, root)]
    outcome.failures += check(case, dice, root, folder, shardine)


def variant(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.reading import check_variant

    case, dice, root = store(task, folder, outcome)
    outcome.failures += check_variant(case, dice, root, folder, shardine)


def write(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.writing import check

    outcome.name, failures = check(task.seed, task.index, task.flavour, folder, shardine)
    outcome.failures += failures
    outcome.met.append(f"written {task.flavour} from {outcome.name.split(' ')[0]}")


def repack(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.repack import check

    case, dice, root = store(task, folder, outcome)
    outcome.failures += check(case, dice, root, shardine)


def verify(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.planted import sound

    case, dice, root = store(task, folder, outcome)
    outcome.failures += sound(case, dice, root, shardine)


def planted(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.planted import check

    outcome.name, failures, done = check(task.seed, task.index, folder, shardine)
    outcome.failures += failures
    outcome.met += [f"planted: {name}" for name in done]


def parametric(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.parametric import check

    outcome.name, failures = check(task.seed, task.index, folder, shardine)
    outcome.failures += failures


def draco(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.draco import check

    outcome.name, failures = check(task.seed, task.index, folder, shardine)
    outcome.failures += failures


def pyramid(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from vectors.pyramid import check

    outcome.name, failures, met = check(task.seed, task.index, task.flavour, folder, shardine)
    outcome.failures += failures
    outcome.met += [f"pyramid: {name}" for name in met]


PARTS: dict[str, tuple[int, Callable]] = {
    "read": (42, read),
    "variant": (14, variant),
    "write": (30, write),
    "repack": (14, repack),
    "verify": (28, verify),
    "planted": (7, planted),
    "parametric": (4, parametric),
    "draco": (6, draco),
    "pyramid": (26, pyramid),
}
"""The parts, how many cases each has unless told otherwise, and what a case does."""

SHORT = {
    "read": 14,
    "variant": 7,
    "write": 10,
    "repack": 2,
    "verify": 7,
    "planted": 1,
    "parametric": 2,
    "draco": 3,
    "pyramid": 13,
}
"""How many cases of each part are enough for every change."""


def run(task: Task) -> Outcome:
    """Runs one case; never raises for what a program does."""
    from ome.program import ProgramError, Shardine

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    outcome = Outcome(task)
    folder = task.scratch / f"{task.part}-{task.index}"
    folder.mkdir()
    try:
        PARTS[task.part][1](task, folder, Shardine(task.shardine), outcome)
    except ProgramError as error:
        outcome.failures.append(str(error))
    except Exception:  # noqa: BLE001 a peer may raise anything
        outcome.failures.append(traceback.format_exc(limit=-4))
    if not task.keep and not outcome.failures:
        shutil.rmtree(folder)
    return outcome


def tasks(arguments: argparse.Namespace, scratch: Path) -> Iterator[Task]:
    for part in arguments.parts:
        cases = arguments.cases or (SHORT[part] if arguments.short else PARTS[part][0])
        every = {"write": WRITTEN, "pyramid": COARSENED}.get(part, FLAVOURS)
        kinds = [kind for kind in every if not arguments.kinds or kind in arguments.kinds]
        if not kinds:
            continue
        for index in range(cases):
            if arguments.case is None or arguments.case == index:
                kind = kinds[index % len(kinds)]
                yield Task(
                    part, index, arguments.seed, kind, arguments.shardine, scratch, arguments.keep
                )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", required=True, help="the shardine binary")
    parser.add_argument(
        "--only", default="", help=f"some of {','.join(PARTS)}, and of {','.join(KINDS)}"
    )
    parser.add_argument("--cases", type=int, help="how many cases of each part")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--short", action="store_true", help="few cases of each part")
    parser.add_argument("--list", action="store_true", help="the names of the parts and kinds")
    parser.add_argument("--keep", action="store_true", help="keep the files of every case")
    arguments = parser.parse_args()
    if arguments.list:
        print("parts:", *PARTS)
        print("kinds:", *KINDS)
        return 0
    only = [word for word in arguments.only.split(",") if word]
    unknown = [word for word in only if word not in PARTS and word not in KINDS]
    if unknown:
        parser.error(f"there is no part or kind {unknown[0]}")
    arguments.parts = [part for part in PARTS if part in only] or list(PARTS)
    arguments.kinds = [kind for kind in KINDS if kind in only]
    scratch = Path(tempfile.mkdtemp(prefix="vectors-check-"))
    counts: Counter[str] = Counter()
    met: Counter[str] = Counter()
    failed = 0
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for outcome in pool.map(run, tasks(arguments, scratch)):
            task = outcome.task
            met.update(outcome.met)
            if not outcome.failures:
                counts[task.part] += 1
                continue
            failed += 1
            print(f"FAILED {task.part} {task.index}, {outcome.name}")
            for failure in outcome.failures[:8]:
                print(f"  {failure}")
            again = f"--only {','.join([task.part, *arguments.kinds])} --case {task.index} --seed {task.seed} --keep"
            print(f"  files: {scratch / f'{task.part}-{task.index}'}; again: {sys.argv[0]} {again}")
    for name, number in sorted(met.items()):
        print(f"{name:40} {number:5}")
    for part in arguments.parts:
        print(f"{part:40} {counts[part]:5}")
    print(f"{sum(counts.values())} passed, {failed} failed")
    if not failed and not arguments.keep:
        shutil.rmtree(scratch)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
