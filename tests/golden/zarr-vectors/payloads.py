"""Bytes of cells as zarr-vectors encodes them: payloads.json.

Run with zarr-vectors 0.9.2 and zarr 3.1.6:

    python payloads.py
"""

import itertools
import json
from pathlib import Path

import numpy as np
from zarr_vectors.core.paths import format_offsets
from zarr_vectors.encoding.fragments import encode_fragments, encode_object_manifest_blocks
from zarr_vectors.encoding.ragged import encode_ragged_blob
from zarr_vectors.spatial.boundary import _lehmer_encode, canonical_sort

HERE = Path(__file__).parent


def fragments(cases):
    for given in cases:
        parts = [tuple(g["range"]) if "range" in g else np.array(g["list"], "i8") for g in given]
        yield {"given": given, "hex": encode_fragments(parts, force_explicit=True).hex()}


def manifests(cases):
    for rank, given in cases:
        blocks = []
        for chunk, reference in given:
            if isinstance(reference, dict):
                reference = tuple(reference["range"])
            elif isinstance(reference, list):
                reference = np.array(reference, "i8")
            blocks.append((tuple(chunk), reference))
        encoded = encode_object_manifest_blocks(blocks, rank, force_explicit=True)
        yield {"rank": rank, "given": given, "hex": encoded.hex()}


def ragged(cases):
    for width, groups in cases:
        arrays = [np.array(g, "i8").reshape(-1, width) for g in groups]
        yield {"width": width, "given": groups, "hex": encode_ragged_blob(arrays, np.dtype("i8")).hex()}


def permutations():
    for width in range(1, 5):
        for places in itertools.permutations(range(width)):
            yield {"places": list(places), "code": _lehmer_encode(places)}


def links():
    """A face across chunks as it is given, and as it is stored."""
    for record in itertools.permutations([((0, 0), 5), ((0, 1), 2), ((-1, 3), 9)]):
        stored, code = canonical_sort(record)
        yield {"given": [vertex for _, vertex in record], "stored": [v for _, v in stored], "code": code}


out = {
    "fragments": list(
        fragments(
            [
                [],
                [{"range": [0, 4]}],
                [{"range": [0, 4]}, {"range": [4, 0]}, {"range": [4, 3]}],
                [{"list": [3, 1]}, {"range": [0, 2]}, {"list": []}, {"list": [7]}],
                [{"range": [i, 1]} if i % 3 else {"list": [i, i + 1]} for i in range(130)],
            ]
        )
    ),
    "manifests": list(
        manifests(
            [
                (3, []),
                (3, [([0, 0, 0], 4)]),
                (3, [([-1, 0, 2], 0), ([0, 0, 2], {"range": [1, 3]}), ([5, 5, 5], [4, 0, 2])]),
                (2, [([7, -7], 1)]),
            ]
        )
    ),
    "ragged": list(
        ragged([(2, []), (2, [[0, 1, 2, 3]]), (3, [[1, 2, 3], [], [4, 5, 6, 7, 8, 9]]), (2, [[], []])])
    ),
    "permutations": list(permutations()),
    "links": list(links()),
    "offsets": [
        {"given": given, "name": format_offsets([tuple(o) for o in given])}
        for given in [[[0, 0, 1]], [[0, 0, 1], [0, -1, 0]], [[-12, 3]], [], [[0, 0, 0]]]
    ],
}
lines = ",\n".join(
    f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]" for name, rows in out.items()
)
(HERE / "payloads.json").write_text("{\n" + lines + "\n}\n")
