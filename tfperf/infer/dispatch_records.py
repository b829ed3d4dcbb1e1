"""What a dispatcher is given, and what it tells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tfperf.arrays import AnyArray
from tfperf.infer.leases import RecordFailure
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.pace import UnitRule
from tfperf.infer.worker import WorkerSpec


@dataclass(frozen=True)
class Slot:
    """A place for a worker on a device. environment: of its process; device: what figures are summed by."""

    name: str
    spec: WorkerSpec
    environment: Mapping[str, str] = field(default_factory=dict)
    device: str = ""


@dataclass(frozen=True)
class MemberSlot(Slot):
    """A device of a member of a place. member: its number there; find_environment: of its process, found on that
    machine, in the place of `environment`."""

    member: int = 0
    find_environment: Callable[[], Mapping[str, str]] = dict


@dataclass(frozen=True)
class DispatchRule:
    """How work is handed out. timeout: seconds for a batch, a record, or the preparation of a window; waits_for_all:
    whether nothing is handed out before all workers are ready; seed: of a random order of a window's batches, None: the
    longest first."""

    batch: BatchRule
    unit: UnitRule = field(default_factory=UnitRule)
    timeout: float = 120.0
    waits_for_all: bool = False
    seed: int | None = None


@dataclass(frozen=True)
class BatchEvent:
    """A batch that a worker has done. at: since the first lease; seconds: of computing, of a batch that was run record
    by record from the first to the last; records: also those that failed; cost: as its pace counts; worker: number of
    its process; is_single: whether it was run record by record."""

    slot: int
    at: float
    seconds: float
    records: int
    cost: float
    worker: int = 0
    is_single: bool = False


@dataclass(frozen=True)
class WindowEvent:
    """Records of a window that were prepared, of those that are to be done. length: sum over these; cost: of all of
    its batches, with padding; batches: how many these are."""

    window: int
    records: int
    length: float
    cost: float
    batches: int


@dataclass(frozen=True)
class UnitEvent:
    """Batches that a worker is given at once. at: s since the first lease; cost: of all of them; seconds: that they
    will take by the worker's pace, None where that is not known yet."""

    slot: int
    at: float
    batches: int
    cost: float
    seconds: float | None


@dataclass(frozen=True)
class DispatchHooks:
    """Whom the dispatcher tells. give: rows of records, or failures without values; note: batches that are done;
    say: what happened to a worker, in words; is_stopped: whether to end now; note_window: windows that are prepared;
    note_unit: what is handed out; note_end: slot and time [s since the first lease] where a batch ended, whatever came
    out, or a worker was lost."""

    give: Callable[[int, Sequence[int], Mapping[str, AnyArray], AnyArray, Sequence[RecordFailure]], None]
    note: Callable[[BatchEvent], None] = lambda event: None
    say: Callable[[str], None] = lambda text: None
    is_stopped: Callable[[], bool] = lambda: False
    note_window: Callable[[WindowEvent], None] = lambda event: None
    note_unit: Callable[[UnitEvent], None] = lambda event: None
    note_end: Callable[[int, float], None] = lambda slot, at: None
