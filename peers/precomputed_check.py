"""Volumes of Neuroglancer's precomputed format: TensorStore, cloud-volume and Shardine read what the others write.

    python peers/precomputed_check.py --binary PATH --cases 240 --seed 1

Without --binary the tools are compared with each other, which tests the tests. See peers/README.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.pool import run_cases  # noqa: E402
from harness.report import COVER_ALL_FROM, Report, table  # noqa: E402
from harness.run import Outcome, Setup  # noqa: E402
from precomputed.draw import CHANNELS, FOCUSES, make_case  # noqa: E402

FEATURES = {f"{kind} {name}" for kind, name in FOCUSES if name != "jxl"} | {
    "a negative offset",
    "several scales",
    "sharding null",
    "hash identity",
    "hash murmurhash3_x86_128",
    *(f"channels {count}" for count in CHANNELS),
    *(
        f"{name} {value}"
        for name in ("minishard_index_encoding", "data_encoding")
        for value in ("raw", "gzip", "absent")
    ),
}
"""What a long run must have met in a comparison that came out. Not jxl, which Shardine may be built without."""


def run_case(setup: Setup, index: int) -> Outcome:
    """Runs one case; never raises for what a tool does."""
    from precomputed.conversions import check_conversion
    from precomputed.keys import check_keys
    from precomputed.volumes import check_volume, clean

    logging.disable(logging.CRITICAL)
    # cloud-volume tells of errors on standard error as well; the outcome has them.
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    case = make_case(setup.seed, index)
    folder = clean(setup.scratch / f"case-{index}")
    outcome = Outcome(index, folder=str(folder))
    outcome.configuration = json.dumps(case.info)
    check_volume(case, setup.shardine, folder, outcome)
    # What keys and conversions show is not about these.
    outcome.features = case.features if outcome.passed else set()
    if setup.shardine and index % 3 == 0:
        check_keys(case, setup.shardine, folder, outcome)
    if setup.shardine and index % 3 == 1:
        check_conversion(case, setup.shardine, folder, outcome)
    if not outcome.failed and not setup.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


class PrecomputedReport(Report):
    """The counts of a run over volumes."""

    def finish(self, cases: int) -> bool:
        table("directions that agreed", self.directions)
        table("directions that did not", self.failures)
        table("left out, cases", self.reasons)
        table("covered, cases", Counter({name: self.features[name] for name in FEATURES}))
        missing = sorted(FEATURES - set(+self.features)) if cases >= COVER_ALL_FROM else []
        for name in missing:
            print(f"NEVER COVERED: {name}")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return self.failed == 0 and not missing


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--shardine", "--binary", type=lambda text: Path(text).resolve(), help="the shardine binary"
    )
    parser.add_argument("--cases", type=int, default=240, help="how many cases to run")
    parser.add_argument("--seed", type=int, default=1, help="which cases these are")
    parser.add_argument("--case", "--only", type=int, help="run only this one")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument("--keep", action="store_true", help="keep the files of cases that pass, too")
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix=f"precomputed-{arguments.seed}-"))
    setup = Setup(arguments.seed, scratch, arguments.shardine, None, arguments.keep)
    indices = list(range(arguments.cases)) if arguments.case is None else [arguments.case]
    report = PrecomputedReport(setup)
    started = time.monotonic()
    for outcome in run_cases(setup, indices, arguments.jobs, run_case):
        report.add(outcome)
    print(f"\n{len(indices)} cases of seed {arguments.seed} in {time.monotonic() - started:.0f} s")
    well = report.finish(len(indices))
    if not report.failed and not arguments.keep:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
