"""One round of the benchmark `predict`, as a process of its own: a JSON request on stdin, a JSON record on stdout.

A record has for each part of the round `seconds`, the `records` and seconds of `computing` of each worker, and the
largest difference of its rows from those of the round's first part, over the largest of these.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.crew import Crew, HandedOut, Unit, make_rules
from benchmarks.record_store import answer_request
from tfperf.arrays import AnyArray, Int64Array
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, DispatchRule, Slot
from tfperf.infer.dispatcher import Dispatcher
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prepared import RaggedColumn
from tfperf.infer.preparer import Columns, PreparerSpec
from tfperf.infer.worker import Model, WorkerSpec
from tfperf.workloads.predict.card import PredictModel
from tfperf.workloads.predict.loading import ModelLoader, keep_columns
from tfperf.workloads.predict.slots import ONE_THREAD

INPUT = "tokens"
WINDOW = 4096
ROUND_SIZE = 100  # records of a unit of a round
SETTINGS = {**ONE_THREAD, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
TRIED = 512  # records by which it is told how many there are to be
OURS = "tfperf"
WARMED = ((2, 8), (3, 16), (1, 1))  # shapes of batches after which nothing is compiled any more


@dataclass(frozen=True)
class WarmLoader:
    """Loads a model, and lets it go through what it compiles; then waits for the `count` - 1 others of `folder`."""

    load_model: Callable[[], Model]
    folder: str | None = None
    count: int = 1

    def __call__(self) -> Model:
        """The model."""
        model = self.load_model()
        for shape in WARMED:
            model({INPUT: np.ones(shape, np.int32)})
        if self.folder is not None:
            folder = Path(self.folder)
            (folder / str(os.getpid())).touch()
            while len(list(folder.iterdir())) < self.count:
                time.sleep(0.005)
        return model


class TextReader:
    """Texts as numbers, of a file that `save_texts` has written."""

    def __init__(self, path: Path) -> None:
        self.values = read_texts(path)

    @property
    def records(self) -> int:
        """How many there are."""
        return len(self.values.lengths)

    def read(self, first: int, last: int) -> tuple[Columns, AnyArray]:
        """Of these numbers."""
        chosen = self.values.take(range(first, last))
        ends = np.cumsum(chosen.lengths)[:-1]
        return {INPUT: np.split(chosen.flat, ends)}, np.arange(first, last)


def read_texts(path: Path) -> RaggedColumn:
    """All of a file."""
    with np.load(path) as file:
        return RaggedColumn(file["flat"], file["lengths"])


def save_texts(values: RaggedColumn, path: Path) -> None:
    """For `TextReader`."""
    np.savez(path, flat=values.flat, lengths=values.lengths)


class RowCollector:
    """Rows of all records as a dispatcher gives them, and when the last ones came."""

    def __init__(self, records: int, workers: int) -> None:
        self._rows: AnyArray | None = None
        self._count, self.last = np.zeros(records, np.int64), 0.0
        self.records, self.seconds = [0] * workers, [0.0] * workers

    def give(self, window: int, numbers: Sequence[int], values: Mapping[str, AnyArray], *_: Any) -> None:
        """Some of a window."""
        found = next(iter(values.values()))
        if self._rows is None:
            self._rows = np.empty((len(self._count), *found.shape[1:]), found.dtype)
        chosen = window * WINDOW + np.asarray(numbers)
        self._rows[chosen] = found
        self._count[chosen] += 1
        self.last = time.monotonic()

    def note(self, event: BatchEvent) -> None:
        """A batch."""
        self.records[event.slot] += event.records
        self.seconds[event.slot] += event.seconds

    @property
    def rows(self) -> AnyArray:
        """All of them. Raises: AssertionError where one did not come exactly once."""
        assert self._rows is not None and bool(np.all(self._count == 1)), "each record comes once"
        return self._rows


def run_dispatcher(slots: Sequence[Slot], values: RaggedColumn, rule: BatchRule, folder: Path) -> HandedOut:
    """tfperf's way; rows are taken, and not written."""
    save_texts(values, folder / "texts.npz")
    found = RowCollector(len(values.lengths), len(slots))
    spec = PreparerSpec(partial(TextReader, folder / "texts.npz"), partial(_get_keeper), WINDOW)
    dispatcher = Dispatcher(slots, spec, DispatchRule(rule), DispatchHooks(found.give, found.note))
    windows = -(-len(values.lengths) // WINDOW)
    dispatcher.run(iter(range(windows)), windows, _find_nothing_done(len(values.lengths)))
    computing = [one / slot.spec.slowness for one, slot in zip(found.seconds, slots, strict=True)]
    assert dispatcher.first_lease is not None
    return HandedOut(found.last - dispatcher.first_lease, found.rows, tuple(found.records), tuple(computing))


def _get_keeper() -> Callable[[Columns], Columns]:
    return keep_columns


def _find_nothing_done(records: int) -> Callable[[int], Any]:
    return lambda window: np.zeros(min(WINDOW, records - window * WINDOW), bool)


def make_crew_slots(
    load_model: Callable[[], Model], slowness: Sequence[float], folder: Path | None = None
) -> list[Slot]:
    """Workers of one thread each; folder: where they wait for each other when they have loaded the model."""
    where = None if folder is None else str(folder)
    loader = WarmLoader(load_model, where, len(slowness))
    return [Slot(f"worker {place}", WorkerSpec(loader, slowness=one), SETTINGS) for place, one in enumerate(slowness)]


def measure_round(request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a round."""
    loader = ModelLoader(PredictModel(**request["model"]))
    with tempfile.TemporaryDirectory(prefix="tfperf-") as name:
        if request["planting"] is None:
            return measure_batches(request, loader, Path(name))
        return measure_rules(request, loader, Path(name))


def measure_rules(request: Mapping[str, Any], loader: ModelLoader, folder: Path) -> dict[str, Any]:
    """Each rule on the same texts, the first one in turn."""
    slowness, rule = request["planting"], BatchRule(total_length=request["batch"])
    rules = make_rules(request["units"], ROUND_SIZE)
    names = [OURS, *rules]
    begin = request["round"] % len(names)
    found: dict[str, HandedOut] = {}
    chosen: dict[str, Int64Array] = {}
    with Crew(make_crew_slots(loader, slowness), INPUT, rule) as crew:
        texts = make_texts(request, crew, sum(1 / one for one in slowness))
        for name in (*names[begin:], *names[:begin]):
            chosen[name] = choose_texts(len(texts.lengths), limit_share(name, slowness))
            values = texts.take(chosen[name].tolist())
            if name == OURS:
                waiting = folder / "waiting"
                waiting.mkdir()
                found[name] = run_dispatcher(make_crew_slots(loader, slowness, waiting), values, rule, folder)
            else:
                found[name] = rules[name](crew, values)
    return {"parts": {name: describe_outcome(found, chosen, name, OURS) for name in names}}


def measure_batches(request: Mapping[str, Any], loader: ModelLoader, folder: Path) -> dict[str, Any]:
    """One worker at its own pace, with batches of several kinds."""
    forms = {
        name: BatchRule(size, None if size else request["batch"], is_sorted)
        for name, (size, is_sorted) in request["forms"].items()
    }
    slots = make_crew_slots(loader, [1.0])
    begin = request["round"] % len(forms)
    found: dict[str, HandedOut] = {}
    chosen: dict[str, Int64Array] = {}
    with Crew(slots, INPUT, BatchRule(total_length=request["batch"])) as crew:
        texts = make_texts(request, crew, 1.0)
    for name in [*forms][begin:] + [*forms][:begin]:
        chosen[name] = choose_texts(len(texts.lengths), 0.25 if forms[name].records == 1 else 1.0)
        found[name] = run_dispatcher(slots, texts.take(chosen[name].tolist()), forms[name], folder)
    return {"parts": {name: describe_outcome(found, chosen, name, next(iter(forms))) for name in forms}}


def limit_share(name: str, slowness: Sequence[float]) -> float:
    """Of all texts, that a rule is measured with: all, but for those that would take many times as long."""
    if name == "rounds":
        return len(slowness) / max(slowness) / sum(1 / one for one in slowness)
    return 0.25 if name.endswith(" 1") else 1.0


def choose_texts(count: int, share: float) -> Int64Array:
    """Numbers of so many, from all over."""
    return np.unique(np.linspace(0, count - 1, max(1, round(share * count))).astype(np.int64))


def make_texts(request: Mapping[str, Any], crew: Crew, capacity: float) -> RaggedColumn:
    """As many as are asked for, or as the workers are about so many seconds at; capacity: of all, over the first's."""
    texts, count = read_texts(Path(request["texts"])), request["records"]
    if count is None:
        tried = repeat_texts(texts, TRIED)
        for _ in range(2):
            crew.workers[0].send(Unit(0, tried))
            spent = crew.receive(0).seconds
        count = max(TRIED, round(request["seconds"] * capacity * TRIED / spent))
    return repeat_texts(texts, count)


def repeat_texts(texts: RaggedColumn, count: int) -> RaggedColumn:
    """So many, from the first on, and from the first again after the last."""
    return texts.take((np.arange(count) % len(texts.lengths)).tolist())


def describe_outcome(
    found: Mapping[str, HandedOut], chosen: Mapping[str, Int64Array], name: str, first: str
) -> dict[str, Any]:
    """A part of the record."""
    one = found[name]
    wanted = found[first].rows[np.searchsorted(chosen[first], chosen[name])]
    far = float(np.max(np.abs(one.rows.astype(np.float64) - wanted)) / np.max(np.abs(wanted)))
    return {"seconds": one.seconds, "records": one.records, "computing": one.computing, "difference": far}


if __name__ == "__main__":
    from benchmarks.predict_side import measure_round as measure  # where its workers find what they are sent

    answer_request(measure)
