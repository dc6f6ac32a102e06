"""Runs Shardine and says what it found."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT = 300.0


class ProgramError(AssertionError):
    """The program ended in a way that none of its verbs allows for."""


@dataclass
class Report:
    """What `verify` said."""

    ok: bool
    findings: list[dict[str, Any]] = field(default_factory=list)

    def of(self, severity: str) -> list[dict[str, Any]]:
        """The findings of one severity that are about rules of OME-Zarr."""
        return [
            finding
            for finding in self.findings
            if finding["severity"] == severity and finding["kind"].startswith("ome-")
        ]

    @property
    def verdict(self) -> str:
        """`damage` if a MUST is broken, `notice` if only a SHOULD is, else `valid`."""
        if not self.ok:
            return "damage"
        return "notice" if self.of("notice") else "valid"

    def __str__(self) -> str:
        lines = [f"{f['severity']} {f['kind']}: {f.get('message', f)}" for f in self.findings]
        return "; ".join(lines[:6]) or "no findings"


class Shardine:
    """The binary under test."""

    def __init__(self, binary: str | Path) -> None:
        self.binary = str(Path(binary).resolve())

    def run(self, *arguments: str | Path, status: int = 0) -> str:
        """Runs a verb, which must end with the given exit status, and returns its standard output."""
        command = [self.binary, *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode != status:
            text = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise ProgramError(f"{' '.join(command)}: exit status {done.returncode}: {text}")
        return done.stdout.decode()

    def verify(self, path: str | Path, *arguments: str) -> Report:
        """Runs `verify`. Damage without a finding that says so, or the other way round, is a mistake."""
        command = [self.binary, "verify", str(path), "--json", *arguments]
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode not in (0, 1):
            text = done.stderr.decode(errors="replace").strip()
            raise ProgramError(f"{' '.join(command)}: exit status {done.returncode}: {text}")
        answer = json.loads(done.stdout)
        report = Report(answer["ok"], answer["findings"])
        if report.ok != (done.returncode == 0):
            raise ProgramError(f"exit status {done.returncode}, but \"ok\" is {report.ok}")
        if report.ok == any(f["severity"] == "damage" for f in report.findings):
            raise ProgramError(f"\"ok\" is {report.ok}, but the findings are: {report}")
        return report
