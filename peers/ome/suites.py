"""The test suites of the specification: where they are, and what each case expects.

A case is a document, which is valid or not, for the plain or for a strict schema. What only a strict
schema refuses is something that should be there: `verify` has a notice for it and no damage.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CRATE = "ome_zarr_metadata"

BRANCHES = {"0.4": ("0.4",), "0.5": ("0.5",), "0.6": ("0.6", "main")}
"""The branches of ome/ngff-spec by version, the better one first."""


@dataclass(frozen=True)
class Case:
    source: str
    version: str
    name: str
    document: Any
    expected: str
    """`damage`; `notice` if that and no damage; `valid` if no damage; `spotless` if neither."""
    kind: str = ""

    @property
    def id(self) -> str:
        return f"{self.version} {self.name}"


def _expected(valid: bool, strict: bool) -> str:
    return "valid" if valid else "notice" if strict else "damage"


def from_crate(manifest: Path) -> Iterator[Case]:
    """The suites of versions 0.4 and 0.5 in a crate that has one file for each case."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path"]
    done = subprocess.run([*command, str(manifest)], capture_output=True, check=True)
    packages = json.loads(done.stdout)["packages"]
    (found,) = (package["manifest_path"] for package in packages if package["name"] == CRATE)
    suites = Path(found).parent / "tests/fixtures/generated"
    for version in ("0.4", "0.5"):
        for file in sorted((suites / version).rglob("*.json")):
            case = json.loads(file.read_text())
            name = str(file.relative_to(suites / version).with_suffix(""))
            expected = _expected(case["test"]["valid"], name.startswith("strict_"))
            kind = name.partition("/")[0]
            yield Case("crate", version, name, case["test"]["data"], expected, kind)


def checkout(clone: Path, version: str, target: Path) -> Path:
    """Unpacks the branch of a version from a clone of ome/ngff-spec."""
    branches = [f"{remote}{b}" for b in BRANCHES[version] for remote in ("", "origin/")]
    for branch in branches:
        command = ["git", "-C", str(clone), "archive", "--format=tar", branch]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode == 0:
            with tempfile.TemporaryFile() as file:
                file.write(done.stdout)
                file.seek(0)
                with tarfile.open(fileobj=file) as archive:
                    archive.extractall(target / version, filter="data")
            return target / version
    raise FileNotFoundError(f"{clone} has none of the branches {', '.join(branches)}")


def from_branch(folder: Path, version: str) -> Iterator[Case]:
    """The suites and the examples of a version, from its branch of ome/ngff-spec."""
    if version == "0.6":
        yield from _attributes(folder, version)
    else:
        yield from _schema_suites(folder, version)
    yield from _examples(folder, version)


def _schema_suites(folder: Path, version: str) -> Iterator[Case]:
    for file in sorted((folder / "tests").glob("*_suite.json")):
        suite = json.loads(file.read_text())
        names: set[str] = set()
        for test in suite["tests"]:
            name = f"{file.stem}/{test['formerly'].removesuffix('.json')}"
            # Two cases of one file may have the same name.
            while name in names:
                name += "-2"
            names.add(name)
            expected = _expected(test["valid"], file.stem.startswith("strict_"))
            yield Case("branch", version, name, test["data"], expected, file.stem)


def _attributes(folder: Path, version: str) -> Iterator[Case]:
    root = folder / "tests/attributes"
    for file in sorted(root.rglob("*.json")):
        name = str(file.relative_to(root).with_suffix(""))
        strictness, validity, kind, *_ = name.split("/")
        expected = _expected(validity == "valid", strictness == "strict")
        document = json.loads(file.read_text())
        yield Case("branch", version, name, document, expected, f"{strictness}/{kind}")


def _examples(folder: Path, version: str) -> Iterator[Case]:
    """What the text of the specification shows. A list of transformations alone is no document."""
    for file in sorted((folder / "examples").rglob("*.json")):
        if file.name.startswith("."):
            continue
        lines = file.read_text().splitlines(keepends=True)
        text = "".join(line for line in lines if not line.lstrip().startswith("//"))
        document = json.loads(text)
        if version != "0.4":
            if not isinstance(document, dict) or "attributes" not in document:
                continue
            document = document["attributes"]
        name = f"examples/{file.relative_to(folder / 'examples').with_suffix('')}"
        yield Case("branch", version, name, document, "valid", "examples")
