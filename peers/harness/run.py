"""Runs one case in every direction and collects what happened."""

from __future__ import annotations

import json
import shutil
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from . import layout, support
from .cases import Case, make_case
from .model import Write, difference, expected
from .peers import Peer, PeerError, Shardine, TensorStore, ZarrPython, Zarrs
from .regions import whole


@dataclass(frozen=True)
class Setup:
    """What a run is made with."""

    seed: int
    scratch: Path
    shardine: Path | None
    zarrs_peer: Path | None
    keep: bool = False


@dataclass
class Outcome:
    """What one case has shown."""

    index: int
    passed: list[str] = field(default_factory=list)
    """Directions that agreed."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Directions that did not, each with the reason."""
    skipped: list[str] = field(default_factory=list)
    """Why implementations were left out."""
    features: set[str] = field(default_factory=set)
    folder: str = ""
    configuration: str = ""


REFUSED = (None, None, None, None, "0:0", "{size}:", "{size}", "-1:-1")
"""Regions without any element (first axis), one of which is tried now and then."""


class Failed(Exception):
    """A comparison that did not come out."""


def run_case(setup: Setup, index: int) -> Outcome:
    """Makes case `index` and runs it; never raises for what an implementation does."""
    case = make_case(setup.seed, index)
    folder = setup.scratch / f"case-{index}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    outcome = Outcome(index, features=case.features, folder=str(folder))
    outcome.configuration = json.dumps(case.metadata)
    (folder / "metadata.json").write_text(json.dumps(case.metadata, indent=1))
    _Run(setup, case, folder, outcome).all_directions()
    if not outcome.failed and not setup.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


class _Run:
    def __init__(self, setup: Setup, case: Case, folder: Path, outcome: Outcome) -> None:
        self.case = case
        self.folder = folder
        self.outcome = outcome
        self.peers = self._taking_part(setup)
        self.with_shardine = setup.shardine is not None

    def _taking_part(self, setup: Setup) -> dict[str, Peer]:
        everyone: list[Peer] = [ZarrPython(), TensorStore()]
        if setup.zarrs_peer:
            everyone.append(Zarrs(setup.zarrs_peer, self.folder, own_metadata=bool(setup.shardine)))
        if setup.shardine:
            everyone.append(Shardine(setup.shardine, self.folder))
        able = {}
        for peer in everyone:
            reason = support.lacks(peer.name, self.case)
            if reason is None:
                able[peer.name] = peer
            else:
                self.outcome.skipped.append(reason)
        return able

    def all_directions(self) -> None:
        for writer in self.peers:
            self._writer(writer)

    def _writer(self, writer: str) -> None:
        """One implementation writes; all that may compare with it read, then update, a copy."""
        readers = [name for name in self.peers if name != writer and self._compares(writer, name)]
        if not readers or any(self._left_out(writer, role) for role in ("create", "write")):
            return
        root = self.folder / writer
        if not self._attempt(f"{writer} writes", lambda: self._write_all(writer, root)):
            return
        for reader in readers:
            if not self._left_out(reader, "read"):
                direction = f"{writer} -> {reader}"
                self._count(direction, lambda r=reader: self._read_all(r, root, self.case.writes))
            self._update(writer, reader, root)

    def _compares(self, one: str, other: str) -> bool:
        return not self.with_shardine or support.SHARDINE in (one, other)

    def _left_out(self, name: str, role: str) -> bool:
        fault = support.fault_of(name, role, self.case)
        if fault is not None:
            self.outcome.skipped.append(fault)
        return fault is not None

    def _update(self, writer: str, updater: str, root: Path) -> None:
        """Another implementation changes a part of a copy; its first writer reads it all back."""
        case = self.case
        if (
            case.update is None
            or self._left_out(updater, "write")
            or self._left_out(updater, "read")
        ):
            return
        if self._left_out(writer, "read"):
            return
        update = case.update
        copy = self.folder / f"{writer}-updated-by-{updater}"
        shutil.copytree(root, copy)

        def change_and_read() -> None:
            dice = case.dice(f"{updater} updates {writer}")
            self._guard(
                updater,
                "update",
                self.peers[updater].write,
                copy,
                case,
                update.region,
                update.given,
                dice,
            )
            if updater == support.SHARDINE and layout.can_check(case):
                layout.check_shards(copy, case, in_c_order=False)
            self._read_all(writer, copy, [*case.writes, update])

        self._count(f"{writer} + {updater} -> {writer}", change_and_read)

    # --- steps ---

    def _write_all(self, name: str, root: Path) -> None:
        case, peer = self.case, self.peers[name]
        self._guard(name, "create", peer.create, root, case)
        metadata = (root / "zarr.json").read_bytes()
        if isinstance(peer, Shardine):
            _check_metadata(json.loads(metadata), case)
        for number, write in enumerate(case.writes):
            dice = case.dice(f"{name} write {number}")
            self._guard(
                name, f"write {number}", peer.write, root, case, write.region, write.given, dice
            )
        if isinstance(peer, Shardine):
            if (root / "zarr.json").read_bytes() != metadata:
                raise Failed("writing elements has changed zarr.json")
            if layout.can_check(case):
                once = len(case.writes) == 1 and case.writes[0].region == whole(case.shape)
                layout.check_shards(root, case, in_c_order=once and peer.last_order == "c")

    def _read_all(self, name: str, root: Path, writes: list[Write]) -> None:
        case, peer = self.case, self.peers[name]
        if case.empty:
            self._read_nothing(peer, root)
        for number, region in enumerate(case.reads):
            dice = case.dice(f"{name} read {number} of {root.name}")
            got = self._guard(name, f"read {number}", peer.read, root, case, region, dice)
            want = expected(case.data_type, case.fill.element, writes, region)
            found = difference(case.data_type, want, got)
            if found is not None:
                raise Failed(f"{name} reads region {_show(region)} of {root.name}: {found}")
        if isinstance(peer, Shardine) and case.shape and not case.empty:
            region_text = case.dice(f"refusal of {root.name}").choice(REFUSED)
            if region_text:
                text = region_text.format(size=case.shape[0])
                self._guard(name, f"read of {text}", peer.refuses, root, text)

    def _read_nothing(self, peer: Peer, root: Path) -> None:
        """An array without elements: it opens, and asking for a region of it is an error."""
        if isinstance(peer, Shardine):
            region_text = ",".join("0" if size == 0 else ":" for size in self.case.shape)
            self._guard(peer.name, "read of nothing", peer.refuses, root, region_text)
        elif not isinstance(peer, Zarrs):
            region = whole(self.case.shape)
            got = self._guard(
                peer.name, "read of nothing", peer.read, root, self.case, region, self.case.dice("")
            )
            if got.shape != self.case.shape:
                raise Failed(f"{peer.name} sees the shape {got.shape}")

    # --- bookkeeping ---

    @staticmethod
    def _guard(name: str, what: str, action, *arguments):  # type: ignore[no-untyped-def]
        """Runs one step of an implementation; whatever it raises becomes a `PeerError`."""
        try:
            return action(*arguments)
        except PeerError as error:
            raise PeerError(f"{name} {what}: {error}") from error
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise PeerError(
                f"{name} {what}: {type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            ) from error

    def _attempt(self, direction: str, action) -> bool:  # type: ignore[no-untyped-def]
        try:
            action()
        except PeerError as error:
            self.outcome.failed.append((direction, f"peer error: {error}"))
        except (Failed, layout.LayoutError) as error:
            self.outcome.failed.append((direction, str(error)))
        else:
            return True
        return False

    def _count(self, direction: str, action) -> None:  # type: ignore[no-untyped-def]
        if self._attempt(direction, action):
            self.outcome.passed.append(direction)


def _check_metadata(stored: dict[str, object], case: Case) -> None:
    """What `create` has stored must say what it was given."""
    for key in ("zarr_format", "node_type", "shape", "chunk_grid", "dimension_names", "attributes"):
        want = case.metadata.get(key)
        got = stored.get(key)
        if got != want and (want or got):
            raise Failed(f"create was given {key} = {want!r} but stored {got!r}")


def _show(region: tuple[object, ...]) -> str:
    return str([(span.start, span.stop, span.step) for span in region])  # type: ignore[attr-defined]
