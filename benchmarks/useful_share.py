"""What tfperf gets out of workers of known rates, with real processes that sleep in place of computing."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

import click

from benchmarks.registry import Row, register_benchmark
from benchmarks.sleepers import MEAN_LENGTH, Sleeper, SleeperLoader, make_lengths, read_starts
from tfperf.errors import UserError
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, DispatchRule, Slot
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prediction import PredictionFolder, PredictionPlan, run_prediction
from tfperf.infer.worker import WorkerSpec

EACH = 3e-4  # s that a worker of slowness 1 takes for a place of a batch
BATCH, WINDOW = 64, 4096  # places, padding counted; records
SECONDS = 60.0
STARTING = 2.0  # s, about, from the beginning of a run to its first batch


@dataclass(frozen=True)
class Scenario:
    """Workers by slowness, and what happens to the first one half-way. goal: useful share, at least."""

    slowness: tuple[float, ...]
    goal: float
    is_killed: bool = False
    later: float = 1.0  # times as slow, from then on


SCENARIOS = {
    "3:1:1": Scenario((1.0, 3.0, 3.0), 0.97),
    "50:1": Scenario((1.0, 50.0), 0.95),
    "3:1:1, lost": Scenario((1.0, 3.0, 3.0), 0.90, is_killed=True),
    "3:1:1, slower": Scenario((1.0, 3.0, 3.0), 0.93, later=3.0),
}

Span = tuple[float, float, float]  # from, to, and the rate that a worker has then


def integrate_spans(spans: Sequence[Span], begin: float, end: float) -> float:
    """What workers could do between two moments.

    >>> integrate_spans([(0.0, 4.0, 10.0), (5.0, inf, 1.0)], 2.0, 7.0)
    22.0
    """
    return sum(rate * max(0.0, min(last, end) - max(first, begin)) for first, last, rate in spans)


@dataclass(frozen=True)
class ShareFigures:
    """cost: that was done, from the first lease to the last commit; available: that could have been; both in places."""

    seconds: float
    cost: float
    available: float
    records: int
    said: tuple[str, ...]

    @property
    def share(self) -> float:
        """The useful one."""
        return self.cost / self.available


class _Killer:
    """Kills the first worker so many seconds after a run began; None: never."""

    def __init__(self, folder: Path, delay: float | None) -> None:
        self._folder, self._delay = folder, delay
        self.began = threading.Event()
        self.killed = inf
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.began.wait()
        if not self._is_over.wait(self._delay):
            with suppress(ProcessLookupError):
                os.kill(read_starts(self._folder, 0)[0][1], signal.SIGKILL)
                self.killed = time.monotonic()

    def stop(self) -> None:
        """No killing from now on."""
        self._is_over.set()
        self.began.set()
        self._thread.join()


def measure_scenario(scenario: Scenario, folder: Path, seconds: float = SECONDS) -> ShareFigures:
    """A prediction that takes about so many seconds. Raises: TrainingError, StorageError; AssertionError where a
    record is missing."""
    capacity = sum(1 / one for one in scenario.slowness) / EACH
    records = round(seconds * capacity / MEAN_LENGTH)
    (starts := folder / "starts").mkdir()
    (output := folder / "output").mkdir()
    moment = time.monotonic() + STARTING + seconds / 2
    slots = list(make_sleeping_slots(scenario, moment, starts))
    found = PredictionFolder(output, PredictionPlan(records, WINDOW, "rows.h5", "float32", "<i8", {}))
    found.open(is_resumed=False)
    events, killer = _EventSums(), _Killer(starts, seconds / 2 if scenario.is_killed else None)
    rule = DispatchRule(BatchRule(total_length=BATCH))
    said: list[str] = []

    def note(event: BatchEvent) -> None:
        events.add(event)
        killer.began.set()

    try:
        result = run_prediction(
            found, slots, make_lengths(records, WINDOW), rule, lambda size: None, lambda entries: None,
            DispatchHooks(lambda *_: None, note, said.append),
        )  # fmt: skip
    finally:
        killer.stop()
    assert found.progress.is_complete and not found.progress.failures
    spans = list_spans(scenario, killer.killed, moment, starts)
    available = integrate_spans(spans, events.begin, events.begin + result.seconds)
    return ShareFigures(result.seconds, events.cost, available, records, tuple(said))


def make_sleeping_slots(scenario: Scenario, moment: float, starts: Path) -> Iterator[Slot]:
    """Workers, the first of which may become slower at a moment; starts: folder that they write to."""
    for slot, slow in enumerate(scenario.slowness):
        sleeper = Sleeper(EACH, inf if slot else moment, scenario.later)
        yield Slot(f"worker {slot}", WorkerSpec(SleeperLoader(sleeper, starts, slot), slowness=slow))


class _EventSums:
    """Cost of all batches, and the moment of the first lease."""

    def __init__(self) -> None:
        self.cost, self.begin = 0.0, 0.0

    def add(self, event: BatchEvent) -> None:
        """A batch that is done."""
        self.begin = self.begin or time.monotonic() - event.at
        self.cost += event.cost


def list_spans(scenario: Scenario, killed: float, moment: float, starts: Path) -> list[Span]:
    """When which rate was there; all workers are from the beginning on, though some load their model a bit longer."""
    first, *others = [1 / (EACH * slow) for slow in scenario.slowness]
    found: list[Span] = [(-inf, inf, rate) for rate in others]
    if scenario.is_killed:
        back = [when for when, _ in read_starts(starts, 0)][1:]
        return [*found, (-inf, killed, first), *((when, inf, first) for when in back[:1])]
    return [*found, (-inf, moment, first), (moment, inf, first / scenario.later)]


@register_benchmark(
    "useful-share",
    claim="workers of unequal rates do at least 97 % (3:1:1) and 95 % (50:1) of what they could, 93 % where one "
    "becomes slower and 90 % where one is lost",
    sweep=f"{'; '.join(SCENARIOS)} (half-way the first one is killed, or slows to a third): real processes that sleep "
    f"in place of computing, about {SECONDS:.0f} s each (--seconds)",
    unit="useful share: length that was computed, over the sum of planted rates x the time from the first lease to the "
    "last commit",
)
def measure_useful_share(
    seconds: float = SECONDS, rounds: int = 1, folder: Path | None = None
) -> Iterator[Row]:  # fmt: skip
    """A row for each run. folder: keeps what the runs write."""
    if seconds < 1:
        raise UserError(f"--seconds: got {seconds:g}; must be at least 1")
    for number in range(1, rounds + 1):
        for name, scenario in SCENARIOS.items():
            click.echo(f"round {number} of {rounds}: {name}", err=True)
            with tempfile.TemporaryDirectory(prefix="tfperf-") as own:
                where = Path(own) if folder is None else folder / f"{name.replace(':', '-')}_{number}"
                where.mkdir(parents=True, exist_ok=True)
                found = measure_scenario(scenario, where, seconds)
            yield {
                "workers": name, "round": number, "seconds": found.seconds, "records": found.records,
                "useful_share": round(found.share, 4), "goal": scenario.goal,
                "outcome": "reached" if found.share >= scenario.goal else "missed",
            }  # fmt: skip
