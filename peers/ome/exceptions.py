"""Where the suites of the specification contradict its text, and which of the two we follow.

Each entry has the sources of the suite, the version, the case, what `verify` says, and why. One that is
not needed is a failure: the suite or Shardine has changed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exception_:
    sources: tuple[str, ...]
    version: str
    case: str
    verdict: str
    reason: str


SWAPPED = (
    "the crate has the suite as it was before the paths of its plates were put right: a path is a row "
    "and a column, in this order, and they must be those of the two numbers"
)

EXCEPTIONS: list[Exception_] = [
    *(
        Exception_(("crate",), "0.5", case, "damage", SWAPPED)
        for case in (
            "plate_suite/plate/minimal_acquisitions",
            "plate_suite/plate/minimal_no_acquisitions",
            "plate_suite/plate/non_alphanumeric_row",
            "strict_plate_suite/plate/missing_acquisition_maximumfieldcount",
            "strict_plate_suite/plate/missing_acquisition_name",
            "strict_plate_suite/plate/missing_name",
            "strict_plate_suite/plate/strict_acquisitions",
            "strict_plate_suite/plate/strict_no_acquisitions",
        )
    ),
    Exception_(
        ("crate",),
        "0.5",
        "image_suite/valid/mismatch_axes_units",
        "damage",
        "the crate has the suite as it was before this case got a scale with a number for each axis",
    ),
]
