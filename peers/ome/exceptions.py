"""Where the suites of the specification contradict its text, and which of the two we follow.

Each entry has the sources of the suite, the version, the case, what `verify` says, and why. One that is
not needed is a failure: the suite or Shardine has changed.
"""

from __future__ import annotations

from dataclasses import dataclass

BOTH = ("crate", "branch")


@dataclass(frozen=True)
class Exception_:
    sources: tuple[str, ...]
    version: str
    case: str
    verdict: str
    reason: str


EXCEPTIONS: list[Exception_] = []
