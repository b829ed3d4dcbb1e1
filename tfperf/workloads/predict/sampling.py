"""`tfperf predict --sample`: rates by workers, units and batches, and the time that all records will take."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import Int64Array
from tfperf.console.stages import show_nothing
from tfperf.errors import RunDirectoryError, TrainingError, UserError
from tfperf.infer.batch_choice import list_rules
from tfperf.infer.dispatch_records import DispatchRule, Slot
from tfperf.infer.micro_batches import BatchRule, cut_window
from tfperf.infer.pace import UnitRule
from tfperf.infer.prediction import MANIFEST
from tfperf.infer.prepared import PreparedWindow
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.preparer_watch import prepare_first
from tfperf.infer.sampled_records import open_repeated
from tfperf.infer.sampling import PassResult, measure_alone, measure_preparing, run_pass
from tfperf.measure.environment import collect_environment
from tfperf.report.numbers import format_rate
from tfperf.report.sample_page import render_sample
from tfperf.results.files import write_atomically
from tfperf.results.line_journal import append_entries, read_entries
from tfperf.results.lock import DirectoryLock
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import dump_card
from tfperf.signals import Signals
from tfperf.workloads.predict.batch_rule import refuse_unprepared
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.folders import SAMPLE, SAMPLE_JOURNAL, SAMPLE_PAGE, refuse_strange_files
from tfperf.workloads.predict.plan import describe_model, describe_preprocess, list_source, open_source
from tfperf.workloads.predict.report import MACHINE
from tfperf.workloads.predict.sample_plan import (
    SampleTask,
    count_repeats,
    draw_sample,
    draw_windows,
    list_batch_tasks,
    list_further_tasks,
    make_slots_of,
    set_unit,
)
from tfperf.workloads.predict.sample_report import choose_batch, summarise_sample
from tfperf.workloads.predict.slots import get_unit, make_slots

MOST_BYTES = 2**28
ADVICE = "the same command goes on"

ShowPasses = Callable[[int, int, str], None]  # that are done, all, words


@dataclass
class SampleStudy:
    """The measurements of a card, of which some may be there from an earlier life of the command. records: of all."""

    card: PredictCard
    spec: PreparerSpec
    records: int
    is_stopped: Callable[[], bool]
    journal: Path
    show: ShowPasses
    rows: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0  # passes that are to be made
    lengths: Int64Array = field(default_factory=lambda: np.ones(1, np.int64))  # of records of the sample
    _samples: dict[int, tuple[PreparerSpec, int]] = field(default_factory=dict)

    def open(self, identity: dict[str, Any]) -> None:
        """Begin, or go on. Raises: RunDirectoryError where the folder has the sample of something else."""
        found = list(read_entries(self.journal, MOST_BYTES))
        if not found:
            append_entries(self.journal, identity)
        elif changed := [name for name, value in identity.items() if found[0].get(name) != value]:
            told = ", ".join(changed)
            raise RunDirectoryError(f"{self.journal.parent}: has a sample with another {told}; choose another folder")
        self.rows = found[1:]

    def run(self, tasks: Iterable[SampleTask], batch: BatchRule | None = None) -> None:
        """Make those passes that are not there. What has failed is told, and tried again by the next command."""
        rule = None if batch is None else asdict(batch)
        names = ("kind", "value", "replicate", "rule")
        there = [{name: one[name] for name in names} for one in self.rows]
        for task in tasks:
            if {**asdict(task), "rule": rule} in there or self.is_stopped():
                continue
            self.show(len(self.rows), self.total, f"measuring: {task.words}")
            row = self._measure(task, batch)
            if self.is_stopped():
                return
            if row["error"] is None:
                append_entries(self.journal, row)
            self.rows.append(row)
            self.show(len(self.rows), self.total, f"{task.words}: {describe_row(row)}")

    def _measure(self, task: SampleTask, batch: BatchRule | None) -> dict[str, Any]:
        row = {**asdict(task), "rule": None if batch is None else asdict(batch), "error": None}
        try:
            slots, found = self._run_task(task, batch)
        except (TrainingError, UserError) as error:
            return {**row, "error": str(error), "rate": None, "devices": [], "slot_rates": [], "useful_share": None}
        return {**row, **asdict(found), "devices": [one.device for one in slots]}

    def _run_task(self, task: SampleTask, batch: BatchRule | None) -> tuple[Sequence[Slot], PassResult]:
        queue = self.card.queue
        if task.kind == "prepare":
            windows = draw_windows(self.card, self.records, task.replicate)
            return [], measure_preparing(self.spec, windows, queue.timeout, self.is_stopped)
        slots, unit = self.make_slots(task), UnitRule(queue.unit_seconds, batches=get_unit(self.card))
        if task.kind == "batch":
            batch = BatchRule(**task.value)
        assert batch is not None
        if task.kind == "unit":
            batch, batches = set_unit(batch, task.value, self.count_records(batch))
            unit = UnitRule(batches=batches)
        spec, records = self.draw(task.replicate)
        times = count_repeats(records, self.count_records(batch), len(slots), unit.batches or 1)
        spec = replace(spec, open_reader=partial(open_repeated, spec.open_reader, times))
        if task.kind == "alone":
            return slots, measure_alone(slots[0], spec, batch, self.is_stopped, self.card.seed)
        rule = DispatchRule(batch, unit, queue.timeout, waits_for_all=True, seed=self.card.seed)
        found = run_pass(slots, spec, times * records, rule, self.is_stopped)
        return slots, replace(found, failed=-(-found.failed // times))

    def make_slots(self, task: SampleTask) -> list[Slot]:
        """The workers of a pass."""
        if task.kind == "own":
            return make_slots(self.card)
        slots = make_slots_of(self.card, task.value if task.kind == "workers" else 1)
        return slots[:1] if task.kind in ("batch", "alone") else slots

    def count_records(self, rule: BatchRule) -> float:
        """Of a batch, on average."""
        return len(self.lengths) / len(cut_window(0, self.lengths, rule))

    def draw(self, replicate: int) -> tuple[PreparerSpec, int]:
        """The records of a replicate."""
        if replicate not in self._samples:
            self._samples = {replicate: draw_sample(self.card, self.spec, replicate)}
        return self._samples[replicate]


def describe_row(row: Mapping[str, Any]) -> str:
    """What a pass has found."""
    if row["rate"] is None:
        return row["error"] or "too few batches to tell a rate"
    return f"{format_rate(row['rate'])} records/s"


def sample_card(card: PredictCard, output: Path, show: ShowPasses) -> dict[str, Any]:
    """Measure what a card asks for, and write its page; sample.json's content.

    Raises: UserError for faults of card, files, model and folder; Interrupted when a signal came: passes that were made
    stay.
    """
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run of another kind; choose another folder")
    with Signals(advice=ADVICE).listen() as signals, DirectoryLock(output) as held, signals.defer():
        try:
            refuse_strange_files(held.path, (SAMPLE_JOURNAL, MANIFEST))
            make_slots(card)  # refuses devices that are not there before anything is read
            spec, records = open_source(card, show_nothing)
            study = SampleStudy(
                card, spec, records.records, lambda: signals.received is not None, held.path / SAMPLE_JOURNAL, show
            )
            window = _prepare_sample(study, signals.stop_if_asked)
            study.open(describe_study(card, records.records))
        except BaseException:
            if not (held.path / SAMPLE_JOURNAL).exists():
                held.discard()
            raise
        rule = run_study(study, window)
        signals.stop_if_asked()
        report = summarise_sample(card, records.records, study.rows, asdict(rule), study.count_records(rule))
        report["environment"] = collect_environment()
        with write_atomically(held.path / SAMPLE) as temporary:
            temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        with write_atomically(held.path / SAMPLE_PAGE) as temporary:
            temporary.write_text(render_sample(report), encoding="utf-8")
    return report


def describe_study(card: PredictCard, records: int) -> dict[str, Any]:
    """By what its measurements are known: all that rates depend on. Files are told by their sizes and times."""
    files = [(path, path.stat()) for path in list_source(card)]
    environment = collect_environment()
    found = {
        "card": dump_card(card), "records": records, "model": describe_model(card),
        "preprocess": describe_preprocess(card),
        "source": [[str(path), one.st_size, one.st_mtime_ns] for path, one in files],
        "machine": {key: environment[key] for key in MACHINE},
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def _prepare_sample(study: SampleStudy, check: Callable[[], None]) -> PreparedWindow:
    try:
        window = prepare_first(study.draw(0)[0], study.card.queue.timeout, check)
    except TrainingError as error:
        raise UserError(str(error)) from None
    refuse_unprepared(window)
    return window


def run_study(study: SampleStudy, window: PreparedWindow) -> BatchRule:
    """All passes; the rule of batches that they were made with."""
    card, own = study.card, study.card.queue.batch
    study.lengths = window.lengths
    rules = list_rules(window, card.queue.sort)
    chosen = None
    if own != "auto":
        chosen = BatchRule(own.records, own.tokens, card.queue.sort)
        rules = [*(one for one in rules if one != chosen), chosen]
    further = list(list_further_tasks(card))
    study.total = card.sample.replicates * len(rules) + len(further)
    study.run(list_batch_tasks(rules, card.sample.replicates))
    if study.is_stopped():
        return rules[0]
    rule = chosen or choose_batch(study.rows)
    study.run(further, rule)
    return rule
