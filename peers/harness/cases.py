"""Random array configurations with the writes and reads to perform on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from . import support
from .codecs import (
    CORE_CODECS,
    LEAF_CODECS,
    NUMCODECS,
    OTHER_CODECS,
    SHUFFLES,
    Json,
    Leaf,
    codec,
    core_codec,
    data_types_of,
    domain_values,
    make_leaf,
)
from .dtypes import (
    CORE,
    DATA_TYPES,
    FILL_SORTS,
    DataType,
    Fill,
    Raw,
    fill_sorts,
    filled,
    make_fill,
    random_values,
    twin,
)
from .model import Write
from .regions import Region, Windows, random_region, shape_of, whole

T = TypeVar("T")
Focus = tuple[str, Any]

STRUCTURES = ("plain", "sharded", "nested2", "nested3")
SHAPES = ("ordinary", "size-1", "prime", "one-chunk", "huge", "zero-length")
KEYS: dict[str, Json] = {
    "default/": {"name": "default", "configuration": {"separator": "/"}},
    "default.": {"name": "default", "configuration": {"separator": "."}},
    "default": {"name": "default"},
    "v2.": {"name": "v2", "configuration": {"separator": "."}},
    "v2/": {"name": "v2", "configuration": {"separator": "/"}},
}
HUGE = (2**32 + 5, 2**33 + 17, 2**40 + 3, 2**53 + 1)
OUTER = ("nothing", "transpose")
AFTER = ("nothing", "crc32c", "gzip", "zstd", "zstd:checksum")
PATTERNS = ("noise", "palette", "sparse", "fill", "twin")

FOCUSES: tuple[Focus, ...] = (
    *(("type", name) for name in DATA_TYPES),
    *(("codec", name) for name in LEAF_CODECS),
    *(("structure", name) for name in STRUCTURES),
    *(("rank", rank) for rank in range(6)),
    *(("shape", name) for name in SHAPES),
    *(("keys", name) for name in KEYS),
    *(("outer", name) for name in OUTER[1:]),
    *(("after", name) for name in AFTER[1:]),
    *(("index-endian", name) for name in ("little", "big")),
    *(("index-crc32c", name) for name in (True, False)),
    *(("index-location", name) for name in ("start", "end", "absent")),
    *(("fill", name) for name in FILL_SORTS),
    *(("endian", name) for name in ("little", "big")),
    *(("shuffle", name) for name in SHUFFLES),
    *(("pattern", name) for name in PATTERNS),
    ("dimension-names", True),
    ("attributes", True),
)
"""Every feature that a run must cover. Case K is made to have focus K of a shuffled list."""


def feature(focus: Focus) -> str:
    return f"{focus[0]} {focus[1]}"


@dataclass
class Case:
    """One configuration, what is written to it, and what is read back."""

    seed: int
    index: int
    metadata: Json
    data_type: DataType
    fill: Fill
    writes: list[Write]
    update: Write | None
    """A further partial write, made by another implementation than the first ones."""
    reads: list[Region]
    verbatim: bool
    """Whether peers get the metadata file as it is, or write it themselves."""
    features: set[str]
    inner: tuple[int, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.metadata["shape"])

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    def dice(self, purpose: str) -> random.Random:
        """Dice for one purpose: the same each time, whatever else is thrown."""
        return random.Random(f"{self.seed}/{self.index}/{purpose}")


def make_case(seed: int, index: int) -> Case:
    """Case `index` of the run `seed`."""
    order = list(FOCUSES)
    random.Random(f"{seed}/focuses").shuffle(order)
    for attempt in range(1000):
        builder = _Builder(seed, index, order[index % len(order)], attempt)
        case = builder.build()
        if case is not None and support.comparable(case):
            return case
    raise RuntimeError(f"no array can be made with {order[index % len(order)]}")


class _Builder:
    """Draws one configuration; every draw obeys the focus of the case."""

    def __init__(self, seed: int, index: int, focus: Focus, attempt: int) -> None:
        self.seed = seed
        self.index = index
        self.focus = focus
        self.dice = random.Random(f"{seed}/{index}/{attempt}")
        self.rng = np.random.default_rng(self.dice.getrandbits(64))
        self.features: set[str] = set()

    def build(self) -> Case | None:
        """The case, or `None` if the draws do not fit together (then draw again)."""
        drawn = self.draw_codec_and_type()
        if drawn is None:
            return None
        self.codec_name, self.data_type = drawn
        structures = STRUCTURES[:1] if self.data_type.kind == "struct" else STRUCTURES
        self.structure = self.pick("structure", structures, (25, 45, 20, 10)[: len(structures)])
        self.rank = self.pick("rank", range(6), (3, 20, 30, 27, 12, 8))
        self.leaf_shape, self.shapes = self.draw_chunk_shapes()
        self.shape = self.draw_shape()
        if not self.small_enough():
            return None
        codecs = self.draw_codecs(self.shapes)
        if codecs is None:
            return None
        self.fill = self.draw_fill()
        if self.fill is None:
            return None
        metadata = self.draw_metadata(codecs)
        writes, update, reads = self.draw_actions()
        if feature(self.focus) not in self.features:
            return None
        return Case(
            self.seed,
            self.index,
            metadata,
            self.data_type,
            self.fill,
            writes,
            update,
            reads,
            self.dice.random() < 0.5,
            self.features,
            self.shapes[-1],
        )

    def pick(self, name: str, options: Sequence[T], weights: Sequence[float] = ()) -> T:
        """One of the options, the focused one if it is there; noted as a feature."""
        if self.focus[0] == name and self.focus[1] in options:
            chosen = self.focus[1]
        else:
            chosen = self.dice.choices(options, weights or None)[0]
        self.features.add(f"{name} {chosen}")
        return chosen

    # --- codecs and types ---

    def draw_codec_and_type(self) -> tuple[str, DataType] | None:
        if self.focus[0] == "type":
            type_name = self.focus[1]
            fitting = [
                name
                for name in (*CORE_CODECS, *OTHER_CODECS, *NUMCODECS)
                if type_name in data_types_of(name)
                and support.known_to_a_peer(type_name, name)
                and support.has_codec(support.SHARDINE, name)
            ]
            core = [name for name in fitting if name in CORE_CODECS]
            codec_name = self.dice.choice(core if self.dice.random() < 0.8 else fitting)
        else:
            codec_name = self.draw_codec()
            allowed = [
                name
                for name in data_types_of(codec_name)
                if support.known_to_a_peer(name, codec_name) and self.type_allows_focus(name)
            ]
            if not allowed:
                return None
            core = [name for name in allowed if name in CORE]
            prefer_core = core and self.dice.random() < (0.2 if codec_name == "packbits" else 0.75)
            type_name = self.dice.choice(core if prefer_core else allowed)
        self.features |= {f"codec {codec_name}", f"type {type_name}"}
        return codec_name, DATA_TYPES[type_name]

    def draw_codec(self) -> str:
        if self.focus[0] == "codec":
            return str(self.focus[1])
        group = self.dice.choices((CORE_CODECS, NUMCODECS, OTHER_CODECS), (85, 10, 5))[0]
        if self.focus[0] == "shuffle":
            group = tuple(name for name in CORE_CODECS if name.startswith("blosc"))
        return self.dice.choice(
            [name for name in group if support.has_codec(support.SHARDINE, name)]
        )

    def type_allows_focus(self, name: str) -> bool:
        kind, value = self.focus
        if kind == "fill":
            return value in fill_sorts(DATA_TYPES[name])
        if kind == "endian":
            return DATA_TYPES[name].part_size > 1
        if self.focus == ("pattern", "twin"):
            return name in ("float16", "float32", "float64")
        return True

    def draw_codecs(self, shapes: list[tuple[int, ...]]) -> list[Json] | None:
        """The codecs of a chunk of shape `shapes[0]` that is cut into `shapes[1]` and so on."""
        outer: list[Json] = []
        order = list(range(self.rank))
        if len(shapes) == 1:
            return self.draw_leaf_codecs(shapes[0])
        if self.pick("outer", OUTER, (85, 15)) == "transpose":
            self.dice.shuffle(order)
            outer.append(codec("transpose", order=order))
        inner = [tuple(shape[axis] for axis in order) for shape in shapes[1:]]
        inside = self.draw_codecs(inner)
        if inside is None:
            return None
        configuration: Json = {
            "chunk_shape": list(inner[0]),
            "codecs": inside,
            "index_codecs": [
                codec("bytes", endian=self.pick("index-endian", ("little", "big"), (70, 30)))
            ],
        }
        if self.pick("index-crc32c", (True, False), (75, 25)):
            configuration["index_codecs"].append(codec("crc32c"))
        location = self.pick("index-location", ("start", "end", "absent"))
        if location != "absent":
            configuration["index_location"] = location
        after = self.pick("after", AFTER, (84, 4, 4, 4, 4))
        last = [] if after == "nothing" else [core_codec(after, self.data_type, self.dice)]
        return [*outer, codec("sharding_indexed", **configuration), *last]

    def draw_leaf_codecs(self, shape: tuple[int, ...]) -> list[Json] | None:
        if self.codec_name == "reshape" and self.rank == 0:
            return None
        leaf: Leaf = make_leaf(self.codec_name, self.data_type, shape, self.dice)
        self.leaf = leaf
        for compressor in leaf.compressors:
            if compressor["name"] == "blosc":
                shuffle = compressor["configuration"]["shuffle"] = self.pick("shuffle", SHUFFLES)
                if shuffle == "noshuffle" and self.dice.random() < 0.3:
                    del compressor["configuration"]["typesize"]
                self.features.add(f"shuffle {shuffle}")
        serializer = leaf.serializer or self.draw_serializer()
        return [*leaf.filters, serializer, *leaf.compressors]

    def draw_serializer(self) -> Json:
        if self.data_type.kind in ("string", "bytes"):
            return codec("vlen-utf8" if self.data_type.kind == "string" else "vlen-bytes")
        if self.data_type.kind == "struct":
            return codec("bytes", endian="little")
        if self.data_type.part_size == 1 and self.codec_name not in ("numcodecs.delta",):
            return codec("bytes") if self.dice.random() < 0.7 else codec("bytes", endian="little")
        filtered = self.codec_name in NUMCODECS
        return codec(
            "bytes", endian=self.pick("endian", ("little", "big"), (85, 15) if filtered else ())
        )

    # --- shapes ---

    def draw_chunk_shapes(self) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """The shapes of chunks, the outermost first."""
        depth = STRUCTURES.index(self.structure)
        largest = {0: 1, 1: 40, 2: 9, 3: 6, 4: 4, 5: 3}[self.rank]
        shape = tuple(self.dice.randint(1, largest) for _ in range(self.rank))
        leaf = shape
        shapes = [shape]
        for _ in range(depth):
            shape = tuple(size * self.dice.choice([1, 2, 2, 3, 4]) for size in shape)
            shapes.insert(0, shape)
        return leaf, shapes

    def draw_shape(self) -> tuple[int, ...]:
        sort = self.pick("shape", SHAPES, (70, 6, 8, 6, 7, 3))
        self.sort = sort if self.rank else "ordinary"
        primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
        sizes = []
        for chunk in self.shapes[0]:
            ordinary = self.dice.choice(
                [chunk * self.dice.randint(1, 3), self.dice.randint(1, 3 * chunk), chunk + 1]
            )
            sizes.append(
                {
                    "size-1": self.dice.choice([1, 1, ordinary]),
                    "prime": self.dice.choice(primes),
                    "one-chunk": self.dice.randint(1, chunk),
                }.get(self.sort, ordinary)
            )
        if self.sort == "huge":
            for axis in self.dice.sample(range(self.rank), self.dice.randint(1, self.rank)):
                sizes[axis] = self.dice.choice(HUGE)
        if self.sort == "zero-length":
            sizes[self.dice.randrange(self.rank)] = 0
        if not self.rank and sort != "ordinary":
            self.features.discard(f"shape {sort}")
        return tuple(sizes)

    def small_enough(self) -> bool:
        """Whether the array is quick to test: peers spend their time per chunk."""
        sizes = [
            3 * chunk if size >= 2**32 else size
            for size, chunk in zip(self.shape, self.shapes[0], strict=True)
        ]
        padded = [size + -size % chunk for size, chunk in zip(sizes, self.shapes[0], strict=True)]
        elements = int(np.prod(padded, dtype=np.int64))
        chunks = elements // int(np.prod(self.leaf_shape, dtype=np.int64))
        slow = self.codec_name in NUMCODECS or self.data_type.variable
        return elements <= (2500 if self.data_type.variable else 30000) and chunks <= (
            120 if slow else 400
        )

    def windows(self) -> Windows:
        """The parts of each axis that are touched: both ends of a huge one, else all of it."""
        out = []
        for size, chunk in zip(self.shape, self.shapes[0], strict=True):
            width = 2 * chunk + 1
            huge = size >= 2**32
            out.append(((0, width), (size - width, size)) if huge else ((0, size),))
        return tuple(out)

    # --- metadata ---

    def draw_fill(self) -> Fill | None:
        sorts = [
            sort
            for sort in fill_sorts(self.data_type)
            if not self.leaf.fills or sort in self.leaf.fills
        ]
        if not sorts:
            return None
        if self.focus == ("pattern", "twin"):
            sorts = [sort for sort in sorts if sort in ("zero", "negative-zero", "nan")] or sorts
        return make_fill(self.data_type, self.pick("fill", sorts), self.dice)

    def draw_metadata(self, codecs: list[Json]) -> Json:
        assert self.fill is not None
        metadata: Json = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.data_type.metadata,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": list(self.shapes[0])},
            },
            "chunk_key_encoding": KEYS[self.pick("keys", tuple(KEYS), (40, 15, 15, 15, 15))],
            "fill_value": self.fill.metadata,
            "codecs": codecs,
        }
        if self.pick("attributes", (True, False)):
            metadata["attributes"] = {"note": "ü", "nested": {"list": [1, 2.5, None, True]}}
        if self.pick("dimension-names", (True, False)):
            names: list[str | None] = [f"axis{i}" for i in range(self.rank)]
            if names and self.dice.random() < 0.3:
                names[self.dice.randrange(self.rank)] = None
            metadata["dimension_names"] = names
        if self.dice.random() < 0.3:
            metadata["storage_transformers"] = []
        return metadata

    # --- what is done to the array ---

    def draw_actions(self) -> tuple[list[Write], Write | None, list[Region]]:
        if 0 in self.shape:
            return [], None, []
        windows = self.windows()
        dividing = self.dice.choice(self.shapes)
        huge = any(size >= 2**32 for size in self.shape)

        def region(steps: bool) -> Region:
            return random_region(self.dice, windows, dividing, steps)

        first = region(False) if huge or self.dice.random() < 0.35 else whole(self.shape)
        regions = [first, *(region(False) for _ in range(self.dice.randint(0, 3)))]
        writes = [self.draw_write(item) for item in regions]
        reads = [region(True) for _ in range(3)]
        if huge:
            reads += [item for item in regions if item not in reads]
        else:
            reads.append(whole(self.shape))
        return writes, self.draw_write(region(False)), reads

    def draw_write(self, region: Region) -> Write:
        given = self.draw_values(shape_of(region))
        kept = self.leaf.rounding(given) if self.leaf.rounding else given
        return Write(region, given, kept)

    def draw_values(self, shape: tuple[int, ...]) -> Raw:
        assert self.fill is not None
        count = int(np.prod(shape, dtype=np.int64))
        other = twin(self.data_type, self.fill) if self.leaf.domain == "any" else None
        options = [pattern for pattern in PATTERNS if pattern != "twin" or other is not None]
        weights = {"noise": 35, "palette": 30, "sparse": 20, "fill": 8, "twin": 15}
        pattern = self.pick("pattern", options, [weights[name] for name in options])
        if pattern == "fill":
            return filled(self.data_type, shape, self.fill.element)
        if pattern == "twin":
            assert other is not None
            return filled(self.data_type, shape, other)
        if pattern == "noise":
            return self.elements(count).reshape(shape)
        colours = self.elements(self.dice.randint(1, 4))
        lengths = self.rng.integers(1, 20, size=count)
        picks = np.repeat(self.rng.integers(0, len(colours), size=count), lengths)[:count]
        out = np.empty(count, dtype=self.data_type.raw)
        out[:] = colours[picks]
        if pattern == "sparse":
            quiet = np.repeat(self.rng.random(count) < 0.9, lengths)[:count]
            out[quiet] = filled(self.data_type, (), self.fill.element)[()]
        return out.reshape(shape)

    def elements(self, count: int) -> Raw:
        if self.leaf.domain != "any":
            return domain_values(self.leaf.domain, self.data_type, self.rng, count)
        return random_values(self.data_type, self.rng, count)
