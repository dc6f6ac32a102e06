"""What a run prints."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from . import support
from .cases import FOCUSES, feature
from .run import Outcome, Setup

COVER_ALL_FROM = 200
"""A run of at least so many cases must have covered every feature."""


@dataclass
class Report:
    """Counts over all cases of a run."""

    setup: Setup
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    directions: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Counts a case, and prints it if it failed."""
        self.directions.update(outcome.passed)
        self.failures.update(direction for direction, _ in outcome.failed)
        self.reasons.update(set(outcome.skipped))
        if outcome.failed:
            self.failed += 1
            self._print_failure(outcome)
        elif outcome.passed:
            self.passed += 1
        else:
            self.skipped += 1
        if outcome.passed:
            self.features.update(outcome.features)

    def _print_failure(self, outcome: Outcome) -> None:
        print(f"\nFAILED case {outcome.index}")
        for direction, reason in outcome.failed:
            print(f"  {direction}: {reason}")
        print(f"  configuration: {outcome.configuration}")
        print(f"  files: {outcome.folder}")
        print(f"  again: {self.command(outcome.index)}", flush=True)

    def command(self, index: int) -> str:
        """The command that repeats one case."""
        parts = ["python", sys.argv[0]]
        if self.setup.shardine:
            parts += ["--shardine", str(self.setup.shardine)]
        if self.setup.zarrs_peer:
            parts += ["--zarrs-peer", str(self.setup.zarrs_peer)]
        parts += ["--seed", str(self.setup.seed), "--case", str(index), "--keep"]
        return " ".join(parts)

    def finish(self, cases: int) -> bool:
        """Prints the tables; returns whether all is well."""
        table("directions that agreed", self.directions)
        table("directions that did not", self.failures)
        table("left out, cases", self.reasons)
        _features(self.features)
        missing = self._never_covered() if cases >= COVER_ALL_FROM else []
        for name in missing:
            print(f"NEVER COVERED: {name}")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return self.failed == 0 and not missing

    def _never_covered(self) -> list[str]:
        return [
            feature(focus)
            for focus in FOCUSES
            if not self.features[feature(focus)] and not self._nobody_can(focus[0], focus[1])
        ]

    def _nobody_can(self, kind: str, name: object) -> bool:
        """Whether the implementations at hand cannot cover a feature, by the support tables."""
        who = {support.ZARR_PYTHON, support.TENSORSTORE}
        if self.setup.zarrs_peer:
            who.add(support.ZARRS)
        able = {peer for peer in who if _can(peer, kind, name)}
        if self.setup.shardine:
            return not able or not _can(support.SHARDINE, kind, name)
        return len(able) < 2


def _can(peer: str, kind: str, name: object) -> bool:
    if kind == "type":
        return name in support.SUPPORTED_TYPES[peer]
    if kind == "codec":
        return support.has_codec(peer, str(name))
    if (kind, name) == ("fill", "array"):
        return "bytes" in support.SUPPORTED_TYPES[peer] and peer != support.ZARR_PYTHON
    return True


def table(title: str, counts: Counter[str]) -> None:
    if counts:
        print(f"\n{title}:")
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            print(f"  {count:6}  {name}")


def _features(counts: Counter[str]) -> None:
    """Features by group, one line each."""
    print("\ncovered, cases per feature:")
    groups: dict[str, list[str]] = {}
    for focus in FOCUSES:
        groups.setdefault(focus[0], []).append(f"{focus[1]} {counts[feature(focus)]}")
    for group, entries in groups.items():
        print(f"  {group}: {', '.join(entries)}")
    print()
