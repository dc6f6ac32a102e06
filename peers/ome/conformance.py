"""Speaks for Shardine to the program of the specification that feeds its cases to others.

    ome_zarr_conformance.py attributes -- python peers/ome/conformance.py SHARDINE

It adds the path of a document, and expects one line of JSON. A case that is strict in what it demands is
not valid if something should be there and is not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ome.program import Shardine  # noqa: E402


def main() -> int:
    binary, path = sys.argv[1:]
    report = Shardine(binary).verify(path, "--metadata-only")
    strict = json.loads(Path(path).read_text()).get("_conformance", {}).get("strict", False)
    recommended = [f for f in report.findings if f["kind"] == "ome-recommended"]
    valid = report.ok and not (strict and recommended)
    print(json.dumps({"valid": valid, "message": str(report)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
