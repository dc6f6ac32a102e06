"""Writes zarr_python.json: data types and fill values as zarr-python puts them into a document.

Run with: pip install zarr; python make_zarr_python.py (made with zarr 3.1.6)
Each case has the `data_type` and `fill_value` members, the element's bytes in memory (little-endian, hex) and
numpy's name of the type.
"""

import json
import warnings

import numpy as np
from zarr.core.dtype import get_data_type_from_native_dtype

warnings.simplefilter("ignore")

RECORD = np.dtype([("a", "<u2"), ("b", "<M8[10s]"), ("c", [("d", "|u1"), ("e", "<c8")])])
CASES = [
    (np.dtype("bool"), True),
    (np.dtype("i1"), -128),
    (np.dtype("u1"), 255),
    (np.dtype("<i2"), -2),
    (np.dtype("<u4"), 4_000_000_000),
    (np.dtype("<i8"), -(2**63)),
    (np.dtype("<u8"), 2**64 - 1),
    (np.dtype("<f2"), 0.1),
    (np.dtype("<f4"), 0.1),
    (np.dtype("<f4"), np.nan),
    (np.dtype("<f4"), -np.inf),
    (np.dtype("<f8"), 1e-310),
    (np.dtype("<f8"), -0.0),
    (np.dtype("<c8"), 1.5 - 2j),
    (np.dtype("<c16"), complex(np.nan, np.inf)),
    (np.dtype("<M8[ns]"), np.datetime64("2024-02-29", "ns")),
    (np.dtype("<M8[10ms]"), np.datetime64("NaT")),
    (np.dtype("<m8[25us]"), -3),
    (np.dtype("|V3"), b"\x01\x02\xff"),
    (np.dtype("|S4"), b"ab"),
    (np.dtype("<U4"), "\u00e9\U0001f600"),
    (RECORD, (513, 7, (9, 1 + 2j))),
]


def main():
    out = []
    for dtype, value in CASES:
        scalar = np.zeros((), dtype)
        scalar[...] = np.void(value) if dtype.kind == "V" and dtype.names is None else value
        zdtype = get_data_type_from_native_dtype(dtype)
        case = {
            "data_type": zdtype.to_json(zarr_format=3),
            "fill_value": zdtype.to_json_scalar(scalar[()], zarr_format=3),
            "bytes": scalar.tobytes().hex(),
            "descr": repr(dtype.descr) if dtype.names else dtype.str,
        }
        out.append(json.dumps(case))
    with open("zarr_python.json", "w") as file:
        file.write("[\n" + ",\n".join(out) + "\n]\n")


main()
