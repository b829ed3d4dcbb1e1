"""How far a prediction is, told after each commit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfperf.infer.dispatch_records import Slot
from tfperf.infer.journal import JournalEntry
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.outlook import Outlook
from tfperf.infer.prediction import PredictionFolder
from tfperf.measure.confidence import ConfidenceInterval


@dataclass(frozen=True)
class PredictionState:
    """What is shown. done: records that are committed; rate: records/s since the first one was handed out; left: s;
    shares: of the records of this life, by workers; words: what happened last."""

    done: int
    total: int
    rate: float = 0.0
    left: ConfidenceInterval | None = None
    useful_share: float | None = None
    shares: Sequence[tuple[str, float]] = ()
    words: str = ""


ShowRecords = Callable[[PredictionState], None]


class PredictionProgress:
    """Tells how far it is, after each commit."""

    def __init__(
        self, folder: PredictionFolder, slots: Sequence[Slot], rule: BatchRule, show: ShowRecords
    ) -> None:  # fmt: skip
        self._folder, self._slots, self._show, self._before = folder, slots, show, folder.progress.count
        self.outlook = Outlook(folder.plan.records - self._before, folder.plan.window, rule)
        self._words = ""

    def show_commit(self, entries: Sequence[JournalEntry]) -> None:
        """What was committed."""
        done, outlook = self._folder.progress.count, self.outlook
        seconds = outlook.seconds
        work = sum(one.records for one in outlook.slots.values())
        self._show(
            PredictionState(
                done, self._folder.plan.records, (done - self._before) / seconds if seconds else 0.0,
                outlook.estimate_seconds_left(), outlook.compute_useful_share(),
                [(self._slots[slot].name, one.records / work) for slot, one in sorted(outlook.slots.items()) if work],
                self._words,
            )
        )  # fmt: skip

    def say(self, text: str) -> None:
        """What happened."""
        self._words = text
