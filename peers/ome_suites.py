"""Shows OME-Zarr documents to `shardine verify --metadata-only`, and compares what it says with what others do.

    python peers/ome_suites.py --shardine PATH --manifest peers/ome-suites/Cargo.toml
    python peers/ome_suites.py --shardine PATH --from CLONE_OF_NGFF_SPEC

The documents are those of the test suites of the specification, our own (peers/ome/own*.py), and some drawn
at random, of which some are in order by construction and the schemas of the specification refuse the rest. Each is
shown as it would lie in a hierarchy and as bare attributes. See peers/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ome import drawn_documents, own, schemas, suites  # noqa: E402
from ome.exceptions import EXCEPTIONS, Exception_  # noqa: E402
from ome.program import ProgramError, Report, Shardine  # noqa: E402
from ome.suites import Case  # noqa: E402

HERE = Path(__file__).resolve().parent

ACCEPTED = {
    "damage": {"damage"},
    "notice": {"notice"},
    "valid": {"valid", "notice"},
    "spotless": {"valid"},
}
"""What `verify` may say of a document of which something is expected."""


class Judge:
    """Asks the program about documents."""

    def __init__(self, shardine: Shardine, folder: Path) -> None:
        self.shardine = shardine
        self.folder = folder

    def report(self, case: Case, number: int) -> Report:
        """What the program says of a document. It must say the same of both spellings."""
        folder = self.folder / f"{case.source}-{number}"
        folder.mkdir()
        bare = folder / "attributes.json"
        bare.write_text(json.dumps(case.document))
        if case.version == "0.4":
            stored = folder / ".zattrs"
            stored.write_text(json.dumps(case.document))
        else:
            stored = folder / "zarr.json"
            group = {"zarr_format": 3, "node_type": "group", "attributes": case.document}
            stored.write_text(json.dumps(group))
        first, second = (self.shardine.verify(f, "--metadata-only") for f in (stored, bare))
        if first.verdict != second.verdict:
            raise ProgramError(f"{stored.name}: {first}, but as bare attributes: {second}")
        if first.verdict == "damage" and not first.of("damage"):
            raise ProgramError(f"damage, but not of OME-Zarr: {first}")
        return first


class Results:
    """Counts, and remembers what went wrong."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.failures: list[str] = []
        self.excepted: list[str] = []

    def fail(self, what: str) -> None:
        self.failures.append(what)

    def passed(self, case: Case) -> None:
        self.counts[(case.source, case.version, case.expected)] += 1


def judge_all(judge: Judge, cases: Iterable[Case], results: Results, jobs: int) -> None:
    """Compares what the program says of each document with what is expected, or excepted."""
    all_cases = list(cases)
    exceptions = {
        (source, e.version, e.case): e for e in EXCEPTIONS for source in e.sources
    }

    def look(numbered: tuple[int, Case]) -> Report | ProgramError:
        try:
            return judge.report(numbered[1], numbered[0])
        except ProgramError as error:
            return error

    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(look, enumerate(all_cases)))
    for case, report in zip(all_cases, found, strict=True):
        exception = exceptions.pop((case.source, case.version, case.name), None)
        check(case, report, exception, results)
    sources = {(case.source, case.version) for case in all_cases}
    for (source, version, name), _ in exceptions.items():
        if (source, version) in sources:
            results.fail(f"{version} {name}: there is an exception, but no such case in the {source}")


def check(
    case: Case, report: Report | ProgramError, exception: Exception_ | None, results: Results
) -> None:
    if isinstance(report, ProgramError):
        results.fail(f"{case.id}: {report}")
        return
    as_expected = report.verdict in ACCEPTED[case.expected]
    if exception is None:
        if as_expected:
            results.passed(case)
        else:
            results.fail(f"{case.source} {case.id}: expected {case.expected}, but: {report}")
    elif as_expected:
        results.fail(f"{case.source} {case.id}: no exception any more: {report}")
    elif report.verdict != exception.verdict:
        results.fail(f"{case.source} {case.id}: expected {exception.verdict}, but: {report}")
    else:
        results.excepted.append(
            f"{case.source} {case.id}: {case.expected} in the suite, {exception.verdict} here: "
            f"{exception.reason}"
        )


def check_own_with_schemas(results: Results) -> None:
    """The schemas of the specification must say of our own cases what these claim they do."""
    for rule, case in own.cases():
        complaint = schemas.complaint(case.version, case.document)
        seen = rule.expected == "damage" and case.version not in rule.unseen
        if seen and complaint is None:
            results.fail(f"own {case.id}: the schema does not mind")
        if not seen and complaint is not None:
            results.fail(f"own {case.id}: the schema minds: {complaint}")


def conformance(branch: Path, shardine: Shardine, cases: list[Case], results: Results) -> None:
    """Runs the program of the specification that feeds its cases to another one.

    It must count as passed what is expected and as failed what is excepted.
    """
    excepted = {e.case for e in EXCEPTIONS if "branch" in e.sources and e.version == "0.6"}
    program = branch / "conformance/ome_zarr_conformance.py"
    adapter = [sys.executable, str(HERE / "ome/conformance.py"), shardine.binary]
    command = [sys.executable, str(program), "attributes", "--no-exit-code", "--", *adapter]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    verdicts = dict(line.split("\t") for line in done.stdout.splitlines())
    names = {case.name for case in cases if not case.name.startswith("examples/")}
    if set(verdicts) != names:
        odd = sorted(set(verdicts) ^ names)
        results.fail(f"the program of the specification knows other cases: {odd[:5]}")
    for name, verdict in verdicts.items():
        if (verdict == "pass") != (name not in excepted):
            results.fail(f"0.6 {name}: the program of the specification says: {verdict}")
    print(f"the program of the specification: {Counter(verdicts.values())}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shardine", required=True, help="the shardine binary")
    parser.add_argument("--manifest", type=Path, help="the manifest that depends on the suites")
    parser.add_argument("--from", dest="clone", type=Path, help="a clone of ome/ngff-spec")
    parser.add_argument("--drawn", type=int, default=150, help="documents to draw, of each sort")
    parser.add_argument("--show", type=int, default=40, help="failures to show")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    arguments = parser.parse_args()
    shardine = Shardine(arguments.shardine)
    results = Results()
    check_own_with_schemas(results)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        judge = Judge(shardine, folder)
        judge_all(judge, (case for _, case in own.cases()), results, arguments.jobs)
        judge_all(judge, drawn_documents.cases(arguments.drawn), results, arguments.jobs)
        if arguments.manifest:
            judge_all(judge, suites.from_crate(arguments.manifest), results, arguments.jobs)
        if arguments.clone:
            cases: list[Case] = []
            for version in suites.BRANCHES:
                branch = suites.checkout(arguments.clone, version, folder)
                cases += suites.from_branch(branch, version)
            judge_all(judge, cases, results, arguments.jobs)
            newest = [case for case in cases if case.version == "0.6"]
            conformance(folder / "0.6", shardine, newest, results)
    for line in results.excepted:
        print(f"except {line}")
    for (source, version, expected), count in sorted(results.counts.items()):
        print(f"{source:8} {version}  {expected:9} {count:5}")
    for failure in results.failures[: arguments.show]:
        print(f"FAILED {failure[:500]}")
    if len(results.failures) > arguments.show:
        print(f"and {len(results.failures) - arguments.show} more; see --show")
    passed = sum(results.counts.values())
    excepted, failed = len(results.excepted), len(results.failures)
    print(f"{passed} passed, {excepted} excepted, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
