"""Writes floats.json: how ml_dtypes and numpy read and round each small floating-point type.

Run with: pip install numpy ml_dtypes; python make_floats.py
For every type: `values`, the number of each bit pattern (a sample for 16-bit types) as the hex of its
float64, or "nan"; and `rounded`, pairs of a float64 (hex of its bits) and the bits it rounds to. Numbers past the largest
value of a type without infinity are left out: ml_dtypes makes NaN of some and the largest value of others.
Every number is one of float32 too, because ml_dtypes rounds float64 to bfloat16 in two steps, by way of float32.
Below 2^-126 float8_e8m0fnu is left out: just under the middle of its two smallest values ml_dtypes rounds up.
"""

import json
import struct
import warnings

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
NAMES = """float16 bfloat16 float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2
float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn""".split()


def hex64(number):
    return struct.pack(">d", number).hex()


def main():
    rng = np.random.default_rng(7)
    out = {}
    for name in NAMES:
        dtype = np.dtype(np.float16 if name == "float16" else getattr(ml_dtypes, name))
        info = ml_dtypes.finfo(dtype)
        wide = dtype.itemsize == 2
        unsigned = np.dtype(np.uint16 if wide else np.uint8)
        count = 1 << info.bits
        patterns = np.arange(count)
        if wide:
            edges = [0, 1, 2, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF]
            edges += [e | 0x8000 for e in edges]
            patterns = np.unique(np.concatenate([edges, rng.integers(0, count, 60)]))
        numbers = patterns.astype(unsigned).view(dtype).astype(np.float64)
        values = [[int(p), "nan" if np.isnan(n) else hex64(n)] for p, n in zip(patterns, numbers)]

        finite = np.sort(numbers[np.isfinite(numbers)])
        tests = list(rng.choice(finite, 12))
        every = np.arange(count).astype(unsigned).view(dtype).astype(np.float64)
        every = np.unique(every[np.isfinite(every)])
        low = rng.choice(len(every) - 1, 30)
        for i in list(low) + [0, len(every) - 2]:
            half = (every[i] + every[i + 1]) / 2
            half = np.float32(half)
            tests += [half, np.nextafter(half, np.float32(-np.inf)), np.nextafter(half, np.float32(np.inf))]
        tests += [float(info.smallest_normal) / 3, float(info.max) * 2, -float(info.max) * 1.01, 1e-45, 0.0, -0.0]
        has_infinity = np.isinf(np.array([np.inf]).astype(dtype).astype(np.float64))[0]
        rounded = []
        for test in (float(np.float32(t)) for t in tests):
            if not has_infinity and abs(test) > float(info.max):
                continue
            if name == "float8_e8m0fnu" and not test >= 2.0**-126:
                continue
            bits = np.array([test], np.float64).astype(dtype).view(unsigned)[0]
            rounded.append([hex64(test), int(bits)])
        out[name] = {"values": values, "rounded": rounded}
    with open("floats.json", "w") as file:
        body = ",\n".join(f"{json.dumps(n)}: {json.dumps(o, separators=(',', ':'))}" for n, o in out.items())
        file.write("{\n" + body + "\n}\n")


main()
