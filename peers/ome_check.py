"""OME-Zarr hierarchies of other implementations, and what they say of what Shardine makes.

    python peers/ome_check.py --shardine PATH [--only verify,migrate,convert,...] [--cases N] [--seed S]

ome-zarr-py, ngff-zarr and zarr-python write hierarchies; Shardine verifies, migrates and converts them, and
builds pyramids; ome-zarr-models, yaozarrs, ngff-zarr and the schemas of the specification judge what comes
out. See peers/README.md.
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


@dataclass(frozen=True)
class Task:
    """One case of one part."""

    part: str
    index: int
    seed: int
    shardine: str
    scratch: Path
    keep: bool


@dataclass
class Outcome:
    task: Task
    name: str = ""
    failures: list[str] = field(default_factory=list)


def hierarchy(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    """A hierarchy of another implementation is verified, migrated or converted."""
    from ome.moves import PACKINGS, Source, convert, migrate
    from ome.recipes import RECIPES

    recipe = RECIPES[task.index % len(RECIPES)]
    root = folder / "source.ome.zarr"
    # The same hierarchies for each part.
    drawn = recipe.make(root, 1000 * task.seed + task.index)
    outcome.name = f"{recipe.name} {recipe.version}: {drawn.describe()}"
    if task.part == "verify":
        for options in ((), ("--metadata-only",)):
            report = shardine.verify(root, *options)
            if not report.ok:
                outcome.failures.append(f"verify {' '.join(options)}: {report}")
        return
    source = Source(root, recipe.version)
    if task.part == "migrate":
        outcome.failures += migrate(source, folder, shardine)
    else:
        packing = PACKINGS[task.index % len(PACKINGS)]
        outcome.failures += convert(source, folder, shardine, packing)


def planted(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from ome.planted import FIXTURES, check

    outcome.name = " ".join(FIXTURES[task.index])
    outcome.failures += check(task.index, folder, shardine)


def volume(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from ome.volumes import check

    outcome.name, failures = check(1000 * task.seed + task.index, folder, shardine)
    outcome.failures += failures


def plain(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from ome.plain import check

    outcome.name, failures = check(1000 * task.seed + task.index, folder, shardine)
    outcome.failures += failures


def pyramid(task: Task, folder: Path, shardine, outcome: Outcome) -> None:  # noqa: ANN001
    from ome.pyramids import check

    outcome.name, failures = check(1000 * task.seed + task.index, folder, shardine)
    outcome.failures += failures


PARTS: dict[str, tuple[int, Callable]] = {
    "verify": (52, hierarchy),
    "planted": (9, planted),
    "migrate": (26, hierarchy),
    "convert": (26, hierarchy),
    "plain": (12, plain),
    "volume": (12, volume),
    "pyramid": (24, pyramid),
}
"""The parts, how many cases each has unless told otherwise, and what a case does."""


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
    for part in arguments.only:
        cases = PARTS[part][0] if arguments.cases is None or part == "planted" else arguments.cases
        for index in range(cases):
            if arguments.case is None or arguments.case == index:
                yield Task(part, index, arguments.seed, arguments.shardine, scratch, arguments.keep)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", required=True, help="the shardine binary")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--cases", type=int, help="how many cases of each part")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", action="store_true", help="keep the files of every case")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",")
    unknown = [part for part in arguments.only if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}")
    scratch = Path(tempfile.mkdtemp(prefix="ome-check-"))
    counts: Counter[str] = Counter()
    failed = 0
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for outcome in pool.map(run, tasks(arguments, scratch)):
            task = outcome.task
            if not outcome.failures:
                counts[task.part] += 1
                continue
            failed += 1
            print(f"FAILED {task.part} {task.index}, {outcome.name}")
            for failure in outcome.failures[:8]:
                print(f"  {failure}")
            again = f"--only {task.part} --case {task.index} --seed {task.seed} --keep"
            print(f"  files: {scratch / f'{task.part}-{task.index}'}; again: {sys.argv[0]} {again}")
    for part in arguments.only:
        print(f"{part:10} {counts[part]:5}")
    passed = sum(counts.values())
    print(f"{passed} passed, {failed} failed")
    if not failed and not arguments.keep:
        shutil.rmtree(scratch)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
