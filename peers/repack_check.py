"""Arrays of zarr-python and TensorStore are packed anew by Shardine, and read by all, zarrita too.

    python peers/repack_check.py --shardine PATH --zarrita FOLDER --cases 100 --seed 1

FOLDER holds read.mjs and the packages that it needs. See peers/README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import support  # noqa: E402
from harness import zarrita as zarrita_peer  # noqa: E402
from harness.cases import Case, make_case  # noqa: E402
from harness.model import difference, expected  # noqa: E402
from harness.peers import PeerError, Shardine, TensorStore, ZarrPython  # noqa: E402
from harness.regions import whole  # noqa: E402
from harness.zarrita import Zarrita  # noqa: E402

JOBS = 2
"""How often an array is packed anew, one job after the other."""

FEWEST = {support.ZARR_PYTHON: 60, support.TENSORSTORE: 40, zarrita_peer.NAME: 12}
"""How often each must have read the result in a run of a hundred cases, or the run tells nothing."""


MOST = 2**64 - 1
"""Chunks past this are not counted."""


class Failed(Exception):
    """What differs."""


@dataclass
class Outcome:
    """What one case has shown."""

    index: int
    reads: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    skipped: str | None = None
    failed: str | None = None


def check(index: int, seed: int, program: Path, node: Path, scratch: Path) -> Outcome:
    """Runs one case; never raises for what an implementation does."""
    outcome = Outcome(index)
    folder = scratch / f"case-{index}"
    folder.mkdir(parents=True)
    case = make_case(seed, index)
    run = _Run(case, program, node, folder, outcome)
    try:
        run.all()
    except (Failed, PeerError) as error:
        outcome.failed = f"{' / '.join(run.commands)}\n    {error}\n    {json.dumps(case.metadata)}"
    except Exception as error:  # noqa: BLE001
        outcome.failed = f"{' / '.join(run.commands)}: {type(error).__name__}: {error}"
    finally:
        run.close()
    if outcome.failed is None:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


class _Run:
    def __init__(
        self, case: Case, program: Path, node: Path, folder: Path, outcome: Outcome
    ) -> None:
        self.case, self.folder, self.outcome = case, folder, outcome
        self.shardine = Shardine(program, folder)
        self.node, self.zarrita = node, None
        self.commands: list[str] = []

    def close(self) -> None:
        if self.zarrita is not None:
            self.zarrita.close()

    def all(self) -> None:
        case = self.case
        reason = support.lacks(support.SHARDINE, case)
        writer = self._writer()
        if reason or writer is None:
            self.outcome.skipped = reason or "nobody writes it"
            return
        root = self.folder / "array"
        writer.create(root, case)
        for number, write in enumerate(case.writes):
            writer.write(root, case, write.region, write.given, case.dice(f"write {number}"))
        for number in range(JOBS):
            root = self._job(root, number)
            self._judge(root)

    def _writer(self) -> ZarrPython | TensorStore | None:
        writers: list[type[ZarrPython] | type[TensorStore]] = [ZarrPython, TensorStore]
        self.case.dice("writer").shuffle(writers)
        for writer in writers:
            roles = ("create", "write")
            faults = (support.fault_of(writer.name, role, self.case) for role in roles)
            if support.lacks(writer.name, self.case) is None and not any(faults):
                return writer()
        return None

    # --- one job ---

    def _job(self, root: Path, number: int) -> Path:
        """Packs the array anew; returns where it is then."""
        dice = self.case.dice(f"job {number}")
        before = json.loads((root / "zarr.json").read_text())
        verb, options = self._draw(dice, root)
        target = root if dice.random() < 0.6 else self.folder / f"array-{number}"
        place = [] if target == root else ["-o", str(target)]
        if dice.random() < 0.3:
            options += ["--verify", "elements"]
        self.commands.append(" ".join([verb, *options, "to a target" if place else "in place"]))
        done = self.shardine.run(verb, str(root), *options, *place, "--json")
        array = json.loads(done.stdout)["arrays"][0]
        moved, recoded, empty = (
            array[f"chunks_{what}"] for what in ("moved", "recoded", "empty")
        )
        self.outcome.jobs[f"{verb}, {'moved' if array['moves'] else 'recoded'}"] += 1
        if array["outcome"] != "unchanged":
            cells = [-(-n // c) for n, c in zip(self.case.shape, array["chunk"], strict=True)]
            if moved + recoded + empty != min(int(np.prod(cells, dtype=object)), MOST):
                raise Failed(f"{moved} + {recoded} + {empty} chunks of a grid of {cells}")
        if not place:
            if "--target-size" in options:
                # Of chunks that only the first run could measure, the second may come nearer.
                self.shardine.run(verb, str(root), *options, "--json")
            again = json.loads(self.shardine.run(verb, str(root), *options, "--json").stdout)
            if again["arrays"][0]["outcome"] != "unchanged":
                raise Failed(f"the second run is {again['arrays'][0]}")
        after = json.loads((target / "zarr.json").read_text())
        for member in (before.keys() | after.keys()) - {"codecs", "chunk_grid"}:
            if member == "attributes" and not (before.get(member) or after.get(member)):
                continue
            if not _same(before.get(member), after.get(member)):
                raise Failed(f"{member} was {before.get(member)!r} and is {after.get(member)!r}")
        left = {path.name for path in self.folder.iterdir() if path.is_dir()}
        if any(not name.startswith("array") for name in left):
            raise Failed(f"beside the array lie {sorted(left)}")
        return target

    def _draw(self, dice: random.Random, root: Path) -> tuple[str, list[str]]:
        info = json.loads(self.shardine.run("info", str(root), "--json").stdout)
        chunk = tuple(info["chunk_shape"])
        rank = len(chunk)
        factors = [dice.choice([1, 2, 2, 3, 4]) for _ in chunk]
        order = ["--order", dice.choice(["morton", "c", "arrival"])]
        index = dice.choice([[], [], ["--index", "start"], ["--index", "end"]])
        each = ",".join(map(str, factors))
        shard = ",".join(str(c * f) for c, f in zip(chunk, factors, strict=True))
        choices: list[tuple[str, list[str]]] = [
            ("unshard", []),
            ("shard", ["--chunks-per-shard", str(dice.choice([1, 2, 3])), *index, *order]),
            ("reshard", ["--target-size", dice.choice(["1", "2KiB", "64KiB"]), *index, *order]),
        ]
        if rank:
            choices += [
                ("reshard", ["--chunks-per-shard", each, *index, *order]),
                ("reshard", ["--shard", shard, *index, *order]),
                ("shard", ["--shard", shard, *order]),
            ]
        if rank and not self.case.data_type.variable and max(self.case.shape) < 1000:
            other = ",".join(str(dice.randint(1, max(1, min(n, 9)))) for n in self.case.shape)
            recode = ["--chunk", other, "--chunks-per-shard", "2"]
            choices.append(("reshard", recode))
            if self.case.data_type.name in zarrita_peer.TYPES:
                choices.append(("reshard", [*recode, "--codec", "zstd:3"]))
        return dice.choice(choices)

    # --- judgement ---

    def _judge(self, root: Path) -> None:
        found = json.loads(self.shardine.run("verify", str(root), "--decode", "--json").stdout)
        if not found["ok"]:
            raise Failed(f"verify finds {found['findings']}")
        metadata = json.loads((root / "zarr.json").read_text())
        case = replace(self.case, metadata={**metadata, "codecs": _named(metadata["codecs"])}, facts={})
        for peer in (ZarrPython, TensorStore):
            able = support.lacks(peer.name, case) is None
            if able and support.fault_of(peer.name, "read", case) is None and not case.empty:
                reader = peer()
                for region in case.reads:
                    got = reader.read(root, case, region, case.dice("read"))
                    self._compare(peer.name, case, region, got)
                self.outcome.reads[peer.name] += 1
        if zarrita_peer.lacks(case) is None:
            self.zarrita = self.zarrita or Zarrita(self.node)
            got = self.zarrita.read(root, case, self.folder / "zarrita.raw")
            self._compare(zarrita_peer.NAME, case, whole(case.shape), got)
            self.outcome.reads[zarrita_peer.NAME] += 1

    def _compare(self, name: str, case: Case, region: Any, got: Any) -> None:
        want = expected(case.data_type, case.fill.element, case.writes, region)
        found = difference(case.data_type, want, got)
        if found is not None:
            raise Failed(f"{name} reads another array: {found}")


def _same(one: Any, other: Any) -> bool:
    """Whether two values of metadata are the same; NaN is itself."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _named(codecs: list[Any]) -> list[Any]:
    """Codecs as objects, the way the rules of the peers look at them."""
    named = [{"name": item} if isinstance(item, str) else item for item in codecs]
    for item in named:
        configuration = item.get("configuration", {})
        if "codecs" in configuration:
            configuration["codecs"] = _named(configuration["codecs"])
    return named


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--zarrita", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--cases", type=int, default=100, help="how many cases to run")
    parser.add_argument("--seed", type=int, default=1, help="which cases these are")
    parser.add_argument("--case", type=int, help="run only this one")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    arguments = parser.parse_args()
    indices = list(range(arguments.cases)) if arguments.case is None else [arguments.case]
    scratch = Path(tempfile.mkdtemp(prefix=f"repack-{arguments.seed}-"))
    started, failed, ran = time.monotonic(), 0, 0
    reads: Counter[str] = Counter()
    jobs: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        fixed = (arguments.seed, arguments.shardine, arguments.zarrita, scratch)
        futures = [pool.submit(check, index, *fixed) for index in indices]
        for outcome in (future.result() for future in futures):
            reads += outcome.reads
            jobs += outcome.jobs
            if outcome.skipped:
                skipped[outcome.skipped] += 1
                continue
            ran += 1
            if outcome.failed:
                failed += 1
                print(f"case {outcome.index}: {outcome.failed}")
    for title, counts in (("jobs", jobs), ("reads", reads), ("left out", skipped)):
        print(f"{title}: " + ", ".join(f"{count} {what}" for what, count in counts.most_common()))
    seconds = time.monotonic() - started
    print(f"{ran} cases of seed {arguments.seed} in {seconds:.0f} s, {failed} failed")
    if failed:
        print(f"the files are in {scratch}")
        return 1
    shutil.rmtree(scratch, ignore_errors=True)
    few = [name for name, fewest in FEWEST.items() if reads[name] < fewest]
    if arguments.case is None and arguments.cases >= 100 and few:
        print(f"too few reads by {', '.join(few)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
