"""Compares Shardine with other Zarr implementations on random arrays.

    python peers/differential.py --shardine PATH --zarrs-peer PATH --cases 500 --seed 1

Without --shardine the peers are compared with each other. See peers/README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.pool import run_cases  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.run import Setup  # noqa: E402


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", type=_program, help="the shardine binary")
    parser.add_argument(
        "--zarrs-peer", type=_program, help="the binary built from peers/zarrs-peer"
    )
    parser.add_argument("--cases", type=int, default=120, help="how many cases to run")
    parser.add_argument("--seed", type=int, default=1, help="which cases these are")
    parser.add_argument("--case", type=int, help="run only this one")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--keep", action="store_true", help="keep the files of cases that pass, too"
    )
    return parser.parse_args()


def _program(text: str) -> Path:
    path = Path(text).resolve()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is not there")
    return path


def main() -> int:
    arguments = _arguments()
    scratch = Path(tempfile.mkdtemp(prefix=f"differential-{arguments.seed}-"))
    setup = Setup(
        arguments.seed,
        scratch,
        arguments.shardine,
        arguments.zarrs_peer,
        arguments.keep,
    )
    indices = list(range(arguments.cases)) if arguments.case is None else [arguments.case]
    report = Report(setup)
    started = time.monotonic()
    for outcome in run_cases(setup, indices, arguments.jobs):
        report.add(outcome)
    print(f"\n{len(indices)} cases of seed {arguments.seed} in {time.monotonic() - started:.0f} s")
    well = report.finish(len(indices))
    if not report.failed and not arguments.keep:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
