"""How long records are all over a source: groups of neighbours that a process of their own prepares beside the run."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from tfperf.errors import TrainingError
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.preparer_watch import TICK_SECONDS, PreparerWatch
from tfperf.infer.sampled_records import draw_groups, open_sampled

GROUPS, EACH = 64, 32  # of neighbours, and records of each
SEED = 1


@dataclass(frozen=True)
class LengthGroup:
    """Neighbours that were drawn. first: number of the first one among all records; mean: of their lengths."""

    first: int
    mean: float


class LengthSampler:
    """Draws and prepares them in a thread; `give` is called once, with all, in the order of the source.

    Nothing is given where the source has few records, where preparing them fails, or where `close` comes first.
    """

    def __init__(
        self, spec: PreparerSpec, records: int, timeout: float, give: Callable[[Sequence[LengthGroup]], None]
    ) -> None:
        self._spec, self._records, self._timeout, self._give = spec, records, timeout, give
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None
        if records >= 2 * GROUPS * EACH:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End it, done or not."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        numbers = draw_groups(self._records, GROUPS, EACH, SEED)
        opener = partial(open_sampled, self._spec.open_reader, numbers.ravel())
        watch = PreparerWatch(replace(self._spec, open_reader=opener, window=EACH), self._timeout, time.monotonic)
        found: dict[int, LengthGroup] = {}
        try:
            with suppress(TrainingError):  # the run comes to the same fault, and says so
                for group in range(GROUPS):
                    watch.request(group)
                while len(found) < GROUPS and not self._is_closed.is_set():
                    if watch.wait(TICK_SECONDS):
                        for one in watch.receive():
                            found[one.window] = LengthGroup(int(numbers[one.window, 0]), float(one.lengths.mean()))
                    watch.is_late()
        finally:
            watch.stop()
        if len(found) == GROUPS:
            self._give([found[group] for group in range(GROUPS)])
