"""A worker as the dispatcher sees it: what it has, when it is late; how many may be lost."""

from dataclasses import dataclass, field

from tfperf.errors import TrainingError
from tfperf.infer.launchers import WorkerProcess
from tfperf.infer.leases import MOST_DEPARTURES, WorkerLoss
from tfperf.infer.pace import WorkerPace

MOST_LOSSES = 12  # workers that die or hang one after the other, while nothing comes out
COLD_BATCHES = 2  # of a new process, that compile: the first one, and the first one of another shape


@dataclass
class RunningWorker:
    """A process on a slot."""

    slot: int
    process: WorkerProcess
    deadline: float  # of what it is at; for one that loads, of that
    is_ready: bool = False
    units: list[int] = field(default_factory=list)  # batches of each unit that it has
    began: float | None = None  # the batch that it is at, or the first record of one that is run record by record
    done: int = 0  # batches
    has_old_pace: bool = False  # of the process before it

    def end_batch(self) -> None:
        """It is done with the first batch of its first unit."""
        self.began = None
        self.units[0] -= 1
        if not self.units[0]:
            self.units.pop(0)

    def note_pace(self, pace: WorkerPace, cost: float, seconds: float) -> WorkerPace:
        """Its pace after a batch. What a process does while it compiles stands for it until there is something
        better."""
        if self.done <= COLD_BATCHES and not self.has_old_pace:
            pace = WorkerPace()
        if self.done >= COLD_BATCHES or not self.has_old_pace:
            pace.add(cost, seconds)
        self.done += 1
        return pace


@dataclass
class LossCount:
    """Workers that were lost since something came out."""

    slots: int
    losses: int = 0
    departures: int = 0
    is_fruitful: bool = False  # whether anything ever came out

    def note_result(self) -> None:
        """Something came out."""
        self.losses, self.departures, self.is_fruitful = 0, 0, True

    def add(self, name: str, reason: WorkerLoss, how: str) -> None:
        """TrainingError where too many are lost while nothing comes out; machines may all be lost at once."""
        if reason == "gone":
            self.departures += 1
            count, most = self.departures, max(MOST_LOSSES, MOST_DEPARTURES * self.slots)
        else:
            self.losses += 1
            count, most = self.losses, MOST_LOSSES
        if count >= most:
            raise TrainingError(
                f"queue: nothing comes out: {most} workers {reason} one after the other, the last one on {name}: {how}"
            )
