"""Profiles of TensorFlow's profiler as columns of events, read without TensorFlow.

A profile is a serialized XSpace (`*.xplane.pb`): planes (a host, a GPU), in them lines (threads, streams), in
them events with a name, a begin and a duration. Source: tensorflow/tsl/profiler/protobuf/xplane.proto.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tfperf.arrays import Int32Array, Int64Array, Times
from tfperf.errors import TraceError

PROTO = Path("tsl", "profiler", "protobuf", "xplane_pb2.py")
MISSING = (
    "holds no profile (*.xplane.pb); a fit records one where its card has a block `profile: {steps: 300}`, "
    "`tfperf profile CARD -o DIR` of any card"
)
PICOSECONDS = 1000  # in a nanosecond
DEVICE = "/device:"  # how planes of accelerators begin
MARK, CALL, MODULE = "step_num", "tf_function_call", "hlo_module"  # stats: of a step, a function's call, an instruction
DEVICE_STATS = frozenset(
    {"tf_op", "hlo_op", MODULE, "memcpy_details"}
)  # what an accelerator's events are told apart by
HOST_STATS = frozenset({MARK, CALL, MODULE, "name", "instance_key", "tf_op", "allocator_name", "bytes_allocated"})
# lines that viewers derive from others
DERIVED = frozenset([
    "Steps", "XLA Modules", "XLA Ops", "XLA TraceMe", "TensorFlow Ops", "TensorFlow Name Scope", "Framework Ops",
    "Framework Name Scope", "Source code", "Launch Stats",
])  # fmt: skip


@dataclass(frozen=True)
class Lane:
    """A thread or a stream."""

    host: str  # file that it comes from, without suffixes
    plane: str
    line: str

    @property
    def accelerator(self) -> bool:
        """Whether it is of a device that the host sends work to."""
        return self.plane.startswith(DEVICE)


@dataclass(frozen=True)
class Events:
    """n events, in the order of the file. Names and lanes are indices into `names` and `lanes`; times in ns.

    `stats`: by name, the events that have it and its values.
    """

    lanes: tuple[Lane, ...]
    names: tuple[str, ...]
    lane: Int32Array
    name: Int32Array
    begin: Times
    end: Times
    stats: Mapping[str, tuple[Int64Array, tuple[Any, ...]]]

    def __len__(self) -> int:
        return len(self.begin)


@cache
def load_xplane_proto() -> ModuleType:
    """TensorFlow's own message classes; loading them does not load TensorFlow. TraceError where they are missing."""
    found = importlib.util.find_spec("tensorflow")
    folders = [] if found is None else found.submodule_search_locations or []
    paths = [path for path in (Path(folder, PROTO) for folder in folders) if path.is_file()]
    spec = importlib.util.spec_from_file_location("tfperf_xplane_pb2", paths[0]) if paths else None
    if spec is None or spec.loader is None:
        raise TraceError(f"TensorFlow's {PROTO} is not installed; profiles cannot be read without it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def find_profile_files(path: Path) -> list[Path]:
    """The profile that a path names: a file, the files of one session of several hosts, a log or a run directory.

    A directory with several sessions gives the last. Raises: TraceError where there is none.
    """
    try:
        if path.is_file():
            return [path]
        found = sorted(path.rglob("*.xplane.pb"))
        if not found:
            raise TraceError(f"{path}: {MISSING}" if path.exists() else f"{path}: no such file")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    # sessions are named by their time; files beside them were put there by hand
    sessions = [file for file in found if file.parent.parent.name == "profile"] or found
    last = max({file.parent for file in sessions}, key=lambda folder: folder.name)
    return [file for file in sessions if file.parent == last]


def decode_events(spaces: Mapping[str, Any], needs_stats: Callable[[str], bool] = lambda name: True) -> Events:
    """Events of the profiles of hosts, one after the other, with the stats that tell what they are.

    needs_stats: whether those of host events of a name are wanted; to read those of all would take long.
    """
    table = _EventColumns(needs_stats)
    for host, space in spaces.items():
        table.add(host, space)
    return table.make_events()


def read_spaces(path: Path) -> dict[str, Any]:
    """The messages of a profile by host. Raises: TraceError where there is none, or a file is damaged."""
    return {file.name.split(".xplane")[0]: read_space(file) for file in find_profile_files(path)}


def read_space(file: Path) -> Any:
    """The message in a file. Raises: TraceError."""
    from google.protobuf.message import DecodeError

    space = load_xplane_proto().XSpace()
    try:
        space.ParseFromString(file.read_bytes())
    except OSError as error:
        raise TraceError(f"{file}: {error.strerror}") from None
    except DecodeError:
        raise TraceError(f"{file}: damaged, or no profile; must be an XSpace of TensorFlow's profiler") from None
    return space


class _EventColumns:
    """Columns while they grow."""

    def __init__(self, needs_stats: Callable[[str], bool]) -> None:
        self.needs_stats = needs_stats
        self.lanes: list[Lane] = []
        self.names: dict[str, int] = {}
        self.columns: list[tuple[Int64Array, ...]] = []
        self.count = 0
        self.stats: dict[str, tuple[list[int], list[Any]]] = {}

    def add(self, host: str, space: Any) -> None:
        for plane in space.planes:
            names = {key: self.names.setdefault(m.name, len(self.names)) for key, m in plane.event_metadata.items()}
            wanted = DEVICE_STATS if plane.name.startswith(DEVICE) else HOST_STATS
            keys = {key: m.name for key, m in plane.stat_metadata.items() if m.name in wanted}
            ids = {key for key, m in plane.event_metadata.items() if wanted is DEVICE_STATS or self.needs_stats(m.name)}
            for line in plane.lines:
                lane = Lane(host, plane.name, line.name or line.display_name)
                if line.events and not (lane.accelerator and lane.line in DERIVED):
                    metadata = self._add_line(lane, line, names)
                    if keys:
                        self._add_stats(line, np.flatnonzero(np.isin(metadata, list(ids))), keys, plane)
                    self.count += len(line.events)

    def _add_line(self, lane: Lane, line: Any, names: Mapping[int, int]) -> Int64Array:
        """Its events; returns the metadata of each (n)."""
        values = chain.from_iterable(map(attrgetter("metadata_id", "offset_ps", "duration_ps"), line.events))
        rows = np.fromiter(values, np.int64, 3 * len(line.events)).reshape(-1, 3)
        ids, where = np.unique(rows[:, 0], return_inverse=True)
        unknown = self.names.setdefault("", len(self.names)) if any(int(i) not in names for i in ids) else 0
        name = np.array([names.get(int(i), unknown) for i in ids])[where]
        begin = line.timestamp_ns + rows[:, 1] // PICOSECONDS
        # ends are rounded like begins: what touches in the file touches here
        end = line.timestamp_ns + (rows[:, 1] + rows[:, 2]) // PICOSECONDS
        self.columns.append((np.full(len(rows), len(self.lanes)), name, begin, end))
        self.lanes.append(lane)
        metadata: Int64Array = rows[:, 0]
        return metadata

    def _add_stats(self, line: Any, wanted: Int64Array, keys: Mapping[int, str], plane: Any) -> None:
        """Keep the stats `keys` of the events `wanted`, by their numbers in the line."""
        for number in wanted.tolist():
            for stat in line.events[number].stats:
                if stat.metadata_id in keys:
                    rows, values = self.stats.setdefault(keys[stat.metadata_id], ([], []))
                    rows.append(self.count + number)
                    values.append(_get_value(stat, plane))

    def make_events(self) -> Events:
        lane, name, begin, end = (
            (np.concatenate(c) for c in zip(*self.columns, strict=True))
            if self.columns
            else [np.zeros(0, np.int64)] * 4
        )
        stats = {key: (np.array(rows, np.int64), tuple(values)) for key, (rows, values) in self.stats.items()}
        return Events(
            tuple(self.lanes), tuple(self.names), lane.astype(np.int32), name.astype(np.int32), begin, end, stats
        )


def _get_value(stat: Any, plane: Any) -> Any:
    kind = stat.WhichOneof("value")
    if kind == "ref_value":
        return plane.stat_metadata[stat.ref_value].name if stat.ref_value in plane.stat_metadata else ""
    return getattr(stat, kind) if kind else None
