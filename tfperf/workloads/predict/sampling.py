"""`tfperf predict --sample`: rates by workers, units and batches, and the time that all records will take."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tfperf.console.stages import show_nothing
from tfperf.errors import RunDirectoryError, TrainingError, UserError
from tfperf.infer.batch_choice import list_rules
from tfperf.infer.dispatch_records import DispatchRule
from tfperf.infer.micro_batches import BatchRule, cut_window
from tfperf.infer.pace import UnitRule
from tfperf.infer.prediction import MANIFEST
from tfperf.infer.prepared import PreparedWindow
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.preparer_watch import prepare_first
from tfperf.infer.sampling import PassResult, measure_alone, run_pass
from tfperf.measure.environment import collect_environment
from tfperf.report.sample_page import render_sample
from tfperf.results.files import write_atomically
from tfperf.results.line_journal import append_entries, read_entries
from tfperf.results.lock import DirectoryLock
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import dump_card
from tfperf.signals import Signals
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.folders import SAMPLE, SAMPLE_JOURNAL, SAMPLE_PAGE, refuse_strange_files
from tfperf.workloads.predict.plan import open_source
from tfperf.workloads.predict.sample_plan import (
    SampleTask,
    draw_sample,
    list_batch_tasks,
    list_further_tasks,
    make_slots_of,
    set_unit,
)
from tfperf.workloads.predict.sample_report import choose_batch, summarise_sample

MOST_BYTES = 2**28
ADVICE = "the same command goes on"

ShowPasses = Callable[[int, int, str], None]  # that are done, all, words


@dataclass
class SampleStudy:
    """The measurements of a card, of which some may be there from an earlier life of the command."""

    card: PredictCard
    spec: PreparerSpec
    is_stopped: Callable[[], bool]
    journal: Path
    show: ShowPasses
    rows: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0  # passes that are to be made
    _samples: dict[int, tuple[PreparerSpec, int]] = field(default_factory=dict)

    def open(self, identity: dict[str, Any]) -> None:
        """Begin, or go on. Raises: RunDirectoryError where the folder has the sample of another card."""
        found = list(read_entries(self.journal, MOST_BYTES))
        if not found:
            append_entries(self.journal, identity)
        elif found[0] != identity:
            raise RunDirectoryError(f"{self.journal.parent}: has a sample of another card; choose another folder")
        self.rows = found[1:]

    def run(self, tasks: Iterable[SampleTask], batch: BatchRule | None = None, records_of_batch: float = 1.0) -> None:
        """Make those passes that are not there."""
        there = {(one["kind"], json.dumps(one["value"]), one["replicate"]) for one in self.rows}
        for task in tasks:
            if (task.kind, json.dumps(task.value), task.replicate) in there or self.is_stopped():
                continue
            self.show(len(self.rows), self.total, f"measuring: {task.words}")
            row = self._measure(task, batch, records_of_batch)
            if self.is_stopped():
                return
            append_entries(self.journal, row)
            self.rows.append(row)
            self.show(len(self.rows), self.total, f"{task.words}: {describe_row(row)}")

    def _measure(self, task: SampleTask, batch: BatchRule | None, records_of_batch: float) -> dict[str, Any]:
        row = {**asdict(task), "error": None}
        try:
            slots, found = self._run_task(task, batch, records_of_batch)
        except (TrainingError, UserError) as error:
            return {**row, "error": str(error), "rate": None, "devices": [], "slot_rates": [], "useful_share": None}
        return {**row, **asdict(found), "devices": [one.rsplit(" ", 1)[1] for one in slots]}

    def _run_task(
        self, task: SampleTask, batch: BatchRule | None, records_of_batch: float
    ) -> tuple[list[str], PassResult]:
        spec, records = self.draw(task.replicate)
        queue, unit = self.card.queue, UnitRule(self.card.queue.unit_seconds)
        slots = make_slots_of(self.card, task.value if task.kind == "workers" else 1)
        if task.kind == "batch":
            batch, slots = BatchRule(**task.value), slots[:1]
        assert batch is not None
        if task.kind == "alone":
            return [slots[0].name], measure_alone(slots[0], spec, batch, self.is_stopped)
        if task.kind == "unit":
            batch, batches = set_unit(batch, task.value, records_of_batch)
            unit = UnitRule(batches=batches)
        rule = DispatchRule(batch, unit, queue.timeout, waits_for_all=True)
        return [one.name for one in slots], run_pass(slots, spec, records, rule, self.is_stopped)

    def draw(self, replicate: int) -> tuple[PreparerSpec, int]:
        """The records of a replicate."""
        if replicate not in self._samples:
            self._samples = {replicate: draw_sample(self.card, self.spec, replicate)}
        return self._samples[replicate]


def describe_row(row: Mapping[str, Any]) -> str:
    """What a pass has found."""
    if row["rate"] is None:
        return row["error"] or "too few batches to tell a rate"
    return f"{row['rate']:.4g} records/s"


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
            spec, records = open_source(card, show_nothing)
            study = SampleStudy(card, spec, lambda: signals.received is not None, held.path / SAMPLE_JOURNAL, show)
            window = _prepare_sample(study)
            study.open({"card": json.loads(json.dumps(dump_card(card))), "records": records.records})
        except BaseException:
            if not (held.path / SAMPLE_JOURNAL).exists():
                held.discard()
            raise
        rule, records_of_batch = run_study(study, window)
        signals.stop_if_asked()
        report = summarise_sample(card, records.records, study.rows, asdict(rule), records_of_batch)
        report["environment"] = collect_environment()
        with write_atomically(held.path / SAMPLE) as temporary:
            temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        with write_atomically(held.path / SAMPLE_PAGE) as temporary:
            temporary.write_text(render_sample(report), encoding="utf-8")
    return report


def _prepare_sample(study: SampleStudy) -> PreparedWindow:
    try:
        window = prepare_first(study.draw(0)[0], study.card.queue.timeout)
    except TrainingError as error:
        raise UserError(str(error)) from None
    if not window.columns:
        raise UserError(f"preprocess: no record could be prepared: {window.failures[0].message}")
    return window


def run_study(study: SampleStudy, window: PreparedWindow) -> tuple[BatchRule, float]:
    """All passes; the rule of batches that they were made with, and how many records such a batch has."""
    card, own = study.card, study.card.queue.batch
    rules = list_rules(window, card.queue.sort)
    chosen = None
    if own != "auto":
        chosen = BatchRule(own.records, own.tokens, card.queue.sort)
        rules = [*(one for one in rules if one != chosen), chosen]
    further = list(list_further_tasks(card))
    study.total = card.sample.replicates * len(rules) + len(further)
    study.run(list_batch_tasks(rules, card.sample.replicates))
    if study.is_stopped():
        return rules[0], 1.0
    rule = chosen or choose_batch(study.rows)
    records_of_batch = len(window.ids) / len(cut_window(0, window.lengths, rule))
    study.run(further, rule, records_of_batch)
    return rule, records_of_batch
