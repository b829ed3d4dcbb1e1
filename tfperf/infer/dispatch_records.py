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
    """A device that a worker runs on. environment: of its process."""

    name: str
    spec: WorkerSpec
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MemberSlot(Slot):
    """A device of a member of a place. member: its number there; find_environment: of its process, found on that
    machine, in the place of `environment`."""

    member: int = 0
    find_environment: Callable[[], Mapping[str, str]] = dict


@dataclass(frozen=True)
class DispatchRule:
    """How work is handed out. timeout: seconds for a batch, a record, or the preparation of a window."""

    batch: BatchRule
    unit: UnitRule = field(default_factory=UnitRule)
    timeout: float = 120.0


@dataclass(frozen=True)
class BatchEvent:
    """A batch that a worker has done. at, seconds: since the first lease, of computing; cost: as its pace counts."""

    slot: int
    at: float
    seconds: float
    records: int
    cost: float


@dataclass(frozen=True)
class DispatchHooks:
    """Whom the dispatcher tells. give: rows of records, or failures without values; note: batches that are done;
    say: what happened to a worker, in words; is_stopped: whether to end now."""

    give: Callable[[int, Sequence[int], Mapping[str, AnyArray], AnyArray, Sequence[RecordFailure]], None]
    note: Callable[[BatchEvent], None] = lambda event: None
    say: Callable[[str], None] = lambda text: None
    is_stopped: Callable[[], bool] = lambda: False
